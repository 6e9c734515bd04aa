//! What the driver says about each kind of memory, and which way data takes to it.

use crate::Bench;
use crate::driver::Allocation;
use crate::report::{Facts, Report};
use anyhow::{Context, bail, ensure};
use ugds_mem::gpu::{How, Kind, Path, Pointer, WhyStaged};

pub(crate) fn check(bench: &Bench, report: &mut Report) {
    report.check("driver and GPU", |facts| driver(bench, facts));
    report.check("attributes of cuMemAlloc", |facts| {
        let pointer = kind(bench, Allocation::Plain, Kind::Device, facts)?;
        ensure!(pointer.buffer_id != 0, "there is no buffer id");
        ensure!(pointer.pci.is_some(), "there is no PCI address");
        ensure!(pointer.context != 0, "there is no context");
        Ok(())
    });
    report.check("attributes of managed memory", |facts| {
        kind(bench, Allocation::Managed, Kind::Managed, facts)?;
        is_staged(bench, Allocation::Managed, Some(WhyStaged::Managed))
    });
    report.check("attributes of a pool (cuMemAllocAsync)", |facts| {
        let pointer = kind(bench, Allocation::Pool, Kind::Pool, facts)?;
        let why = (pointer.rdma_capable != Some(true)).then_some(WhyStaged::Pool);
        is_staged(bench, Allocation::Pool, why)
    });
    report.check("attributes of VMM without the RDMA flag", |facts| {
        let how = Allocation::Virtual { rdma: false };
        kind(bench, how, Kind::Virtual, facts)?;
        is_staged(bench, how, Some(WhyStaged::VirtualWithoutRdma))
    });
    report.check("attributes of VMM with the RDMA flag", |facts| {
        let how = Allocation::Virtual { rdma: true };
        let pointer = kind(bench, how, Kind::Virtual, facts)?;
        ensure!(pointer.rdma_capable == Some(true), "the flag is not told: {:?}", pointer.rdma_capable);
        Ok(())
    });
    report.check("attributes of pinned host memory", |facts| {
        let buffer = bench.driver.alloc(Allocation::Pinned, LEN)?;
        let pointer = bench.vendor.describe(buffer.address())?;
        tell(&pointer, facts);
        ensure!(pointer.kind == Kind::Host, "it is taken for {}", pointer.kind);
        ensure!(bench.register(&buffer, 0, LEN, How::Best).is_err(), "it can be registered as a GPU's");
        Ok(())
    });
    report.check("attributes of ordinary memory", |facts| {
        let own = vec![0u8; LEN];
        for address in [own.as_ptr() as u64, 0, 1 << 20] {
            let pointer = bench.vendor.describe(address)?;
            facts.push(("kind", pointer.kind.to_string()));
            ensure!(pointer.kind == Kind::Unknown, "{address:#x} is taken for {}", pointer.kind);
        }
        Ok(())
    });
    report.check("an address in the middle of memory", |_| {
        let buffer = bench.driver.alloc(Allocation::Plain, LEN)?;
        let pointer = bench.vendor.describe(buffer.address() + 4097)?;
        ensure!(pointer.base == buffer.address(), "the base is {:#x}", pointer.base);
        ensure!(pointer.holds((LEN - 4097) as u64), "it ends too early: {pointer:?}");
        ensure!(bench.register(&buffer, 0, LEN, How::Best).is_ok(), "it can't be registered");
        Ok(())
    });
}

fn driver(bench: &Bench, facts: &mut Facts) -> anyhow::Result<()> {
    facts.push(("GPU", bench.driver.device_name()?));
    facts.push(("driver", format!("{} {}", bench.vendor.name(), bench.vendor.version())));
    let (free, total) = bench.driver.memory()?;
    facts.push(("memory", format!("{} MiB free of {} MiB", free >> 20, total >> 20)));
    for (name, number) in [
        ("DMA_BUF_SUPPORTED", 124),
        ("GPU_DIRECT_RDMA_SUPPORTED", 116),
        ("GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS", 117),
        ("GPU_DIRECT_RDMA_WRITES_ORDERING", 118),
        ("GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED", 110),
    ] {
        facts.push((name, bench.driver.attribute(number)?.to_string()));
    }
    let buffer = bench.driver.alloc(Allocation::Plain, LEN)?;
    let pointer = bench.vendor.describe(buffer.address())?;
    facts.push(("peer writes", format!("{:?}", bench.vendor.peer_writes(&pointer)?)));
    let flushed = bench.vendor.flush_peer_writes(&pointer);
    facts.push(("flush of peer writes", flushed.map_or_else(|error| error.to_string(), |()| "ok".into())));
    Ok(())
}

fn kind(bench: &Bench, how: Allocation, wanted: Kind, facts: &mut Facts) -> anyhow::Result<Pointer> {
    let buffer = bench.driver.alloc(how, LEN)?;
    let pointer = bench.vendor.describe(buffer.address())?;
    tell(&pointer, facts);
    let registration = bench.register(&buffer, 0, LEN, How::Best).context("registration")?;
    facts.push(("path", registration.path_text()));
    ensure!(pointer.kind == wanted, "it is taken for {}", pointer.kind);
    ensure!(
        pointer.base <= buffer.address(),
        "the base {:#x} is beyond {:#x}",
        pointer.base,
        buffer.address()
    );
    ensure!(pointer.holds(LEN as u64), "the allocation is said to be smaller: {pointer:?}");
    Ok(pointer)
}

fn is_staged(bench: &Bench, how: Allocation, wanted: Option<WhyStaged>) -> anyhow::Result<()> {
    let buffer = bench.driver.alloc(how, LEN)?;
    match (bench.register(&buffer, 0, LEN, How::Best)?.path(), wanted) {
        (Path::Staged(why), Some(wanted)) if *why == wanted => Ok(()),
        (_, None) => Ok(()),
        (path, Some(wanted)) => bail!("the path is `{path}`, and was to be `staged: {wanted}`"),
    }
}

fn tell(pointer: &Pointer, facts: &mut Facts) {
    let pci = pointer.pci.map_or_else(|| "none".into(), |pci| pci.to_string());
    facts.push(("kind", pointer.kind.to_string()));
    facts.push(("allocation", format!("{} bytes at {:#x}", pointer.len_bytes, pointer.base)));
    facts.push(("GPU", format!("{} at {pci}", pointer.ordinal)));
    facts.push(("buffer id", pointer.buffer_id.to_string()));
    facts.push(("RDMA capable", format!("{:?}", pointer.rdma_capable)));
    facts.push(("handle types", format!("{:#x}", pointer.handle_types)));
    facts.push(("has a context", (pointer.context != 0).to_string()));
}

const LEN: usize = 2 << 20;
