//! Memory that is freed, and given out again at the same address.

use crate::Bench;
use crate::driver::Allocation;
use crate::report::{Facts, Report};
use anyhow::ensure;

pub(crate) fn check(bench: &Bench, report: &mut Report) {
    report.check("the buffer id of memory allocated again", |facts| buffer_id(bench, facts));
}

fn buffer_id(bench: &Bench, facts: &mut Facts) -> anyhow::Result<()> {
    let mut same = 0;
    let mut last = None;
    for _ in 0..16 {
        let buffer = bench.driver.alloc(Allocation::Plain, 8 << 20)?;
        let pointer = bench.vendor.describe(buffer.address())?;
        if let Some((address, id)) = last {
            ensure!(pointer.buffer_id != id, "two allocations have the id {id}");
            same += usize::from(pointer.address == address);
        }
        last = Some((pointer.address, pointer.buffer_id));
    }
    facts.push(("the same address came again", format!("{same} of 15 times")));
    Ok(())
}
