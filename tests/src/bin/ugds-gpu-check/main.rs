//! Tries GPU memory on a machine with an NVIDIA GPU: attributes, DMA-bufs, copies, and the speed of the staged way.
//!
//! Usage: `ugds-gpu-check [--json] [--quick]`. Exit codes: 0 when all checks passed, 1 when one failed, 2 for a wrong
//! argument, 3 when there is no driver or no GPU to check.

mod attributes;
mod copies;
mod driver;
mod export;
mod rate;
mod report;
mod reuse;

use driver::Driver;
use report::Report;
use std::process::ExitCode;
use std::sync::Arc;
use ugds_mem::cuda::Cuda;
use ugds_mem::gpu::{GpuError, How, Registration, Vendor, VendorName};

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(word) => {
            eprintln!("ugds-gpu-check: error: `{word}`; accepted are --json and --quick");
            return ExitCode::from(WRONG_ARGUMENT);
        }
    };
    let bench = match Bench::open() {
        Ok(bench) => bench,
        Err(error) => {
            if options.json {
                println!("{}", serde_json::json!({ "gpu": null, "reason": error.to_string() }));
            }
            eprintln!("ugds-gpu-check: no GPU to check: {error}");
            return ExitCode::from(NO_GPU);
        }
    };
    let mut report = Report::new(options.json);
    attributes::check(&bench, &mut report);
    export::check(&bench, &mut report);
    copies::check(&bench, &mut report);
    reuse::check(&bench, &mut report);
    rate::check(&bench, &mut report, options.quick);
    report.finish()
}

/// What was asked for.
struct Options {
    json: bool,
    /// Less data in the measurements, for a stand-in of a GPU.
    quick: bool,
}

impl Options {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { json: false, quick: false };
        for word in words {
            match word.as_str() {
                "--json" => options.json = true,
                "--quick" => options.quick = true,
                _ => return Err(word),
            }
        }
        Ok(options)
    }
}

/// The driver as the library sees it, and as an application does: with a context, and with memory.
pub(crate) struct Bench {
    pub(crate) vendor: Arc<dyn Vendor>,
    pub(crate) driver: Arc<Driver>,
}

impl Bench {
    fn open() -> Result<Self, GpuError> {
        let cuda = Cuda::load()?;
        debug_assert_eq!(cuda.name(), VendorName::Cuda);
        let driver = Driver::open().map_err(|error| GpuError::Broken { reason: format!("{error:#}") })?;
        Ok(Self { vendor: cuda, driver: Arc::new(driver) })
    }

    /// Registers memory, the best way or for staging.
    pub(crate) fn register(
        &self,
        buffer: &driver::Buffer,
        offset: usize,
        len_bytes: usize,
        how: How,
    ) -> anyhow::Result<Arc<Registration>> {
        anyhow::ensure!(offset + len_bytes <= buffer.len_bytes(), "the check registers beyond its buffer");
        driver::register(&self.vendor, buffer, offset, len_bytes, how)
    }
}

const WRONG_ARGUMENT: u8 = 2;
/// Neither passed nor failed: nothing was there.
const NO_GPU: u8 = 3;
