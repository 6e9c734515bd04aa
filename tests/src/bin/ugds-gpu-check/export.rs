//! DMA-bufs: what is exported, of which size, and from where.

use crate::Bench;
use crate::driver::Allocation;
use crate::report::{Facts, Report};
use anyhow::{anyhow, bail, ensure};
use std::os::fd::AsRawFd;
use ugds_mem::gpu::{How, Path};
use ugds_mem::{Memory, Region};

pub(crate) fn check(bench: &Bench, report: &mut Report) {
    for len in [1, 4096, 65_536, 2 << 20, 64 << 20] {
        report.check(&format!("DMA-buf of {len} bytes"), |facts| export(bench, len, facts));
    }
    for offset in [4, 512, 4096, 65_536, 65_540] {
        report.check(&format!("DMA-buf from offset {offset}"), |facts| part(bench, offset, facts));
    }
    report.check("DMA-buf without a current context", |_| {
        let buffer = bench.driver.alloc(Allocation::Plain, 1 << 20)?;
        bench.driver.leave()?;
        let path =
            bench.register(&buffer, 0, 1 << 20, How::Best).map(|registration| registration.path_text());
        bench.driver.enter()?;
        ensure!(path?.starts_with("direct"), "it needs one");
        Ok(())
    });
    report.check("overlapping registrations", |facts| overlapping(bench, facts));
    report.check("an export counts as a use", |_| in_use(bench));
}

fn export(bench: &Bench, len: usize, facts: &mut Facts) -> anyhow::Result<()> {
    let buffer = bench.driver.alloc(Allocation::Plain, len)?;
    let registration = bench.register(&buffer, 0, len, How::Best)?;
    let Path::Direct(dmabuf) = registration.path() else {
        bail!("it is not exported: {}", registration.path());
    };
    facts.push(("address modulo 2 MiB", format!("{:#x}", buffer.address() % (2 << 20))));
    facts.push(("DMA-buf", format!("{} bytes", dmabuf.size_bytes().map_err(|why| anyhow!(why))?)));
    facts.push(("offset", dmabuf.offset().to_string()));
    ensure!(dmabuf.len_bytes() == len as u64, "its length is {}", dmabuf.len_bytes());
    Ok(())
}

fn part(bench: &Bench, offset: usize, facts: &mut Facts) -> anyhow::Result<()> {
    let buffer = bench.driver.alloc(Allocation::Plain, 1 << 20)?;
    let registration = bench.register(&buffer, offset, 65_536, How::Best)?;
    let Path::Direct(dmabuf) = registration.path() else {
        bail!("it is not exported: {}", registration.path());
    };
    facts.push(("DMA-buf", format!("{} bytes", dmabuf.size_bytes().map_err(|why| anyhow!(why))?)));
    facts.push(("offset", dmabuf.offset().to_string()));
    Ok(())
}

fn overlapping(bench: &Bench, facts: &mut Facts) -> anyhow::Result<()> {
    let buffer = bench.driver.alloc(Allocation::Plain, 1 << 20)?;
    let places = [(0, 1 << 20), (0, 1 << 20), (0, 65_536), (32_768, 65_536), (0, 4)];
    let all: Vec<_> = places
        .iter()
        .map(|&(offset, len)| Ok((offset, bench.register(&buffer, offset, len, How::Best)?)))
        .collect::<anyhow::Result<_>>()?;
    // Each reaches the same bytes.
    for (number, (offset, registration)) in all.iter().enumerate() {
        let bytes = [number as u8 + 1; 4];
        registration.copy_in(0, &bytes)?;
        ensure!(buffer.get(*offset, 4)? == bytes, "registration {number} reaches other bytes");
    }
    let direct = all.iter().filter(|(_, registration)| registration.path().why_staged().is_none()).count();
    facts.push(("direct", format!("{direct} of {}", all.len())));
    ensure!(direct == all.len(), "some are staged: {}", all[3].1.path());
    Ok(())
}

fn in_use(bench: &Bench) -> anyhow::Result<()> {
    let buffer = bench.driver.alloc(Allocation::Plain, 1 << 20)?;
    let region = Region::new(Memory::gpu(bench.register(&buffer, 0, 1 << 20, How::Best)?))?;
    let export = region.export_dmabuf()?;
    ensure!(region.holds() == 1, "the export is not counted");
    ensure!(export.len_bytes() == 1 << 20, "its length is {}", export.len_bytes());
    let fd = export.into_fd();
    ensure!(region.holds() == 0, "the export still counts");
    ensure!(fd.as_raw_fd() >= 0, "the descriptor is none");
    Ok(())
}
