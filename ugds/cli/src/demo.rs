//! `ugds demo`: the whole way of data, on any machine: file, registered memory, namespace, and back.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use tempfile::TempDir;
use ugds::nvme::Lba;
use ugds::uri::{EmuUri, Uri};
use ugds::{Device, Namespace, Region};

use crate::cleanup::Temporary;
use crate::device::{open, size_text};
use crate::digest::{Digest, Hasher};
use crate::failure::Outcome;
use crate::file::regular_file;
use crate::measure::{self, Measure, Summary};
use crate::output;
use crate::random::Random;

/// Write data to an emulated namespace, read it back into other memory, and compare
///
/// Makes a namespace in a temporary file, writes the data through it from registered memory, flushes, reads the
/// data back into other registered memory and compares the SHA-256 of both. It needs no NVMe device, no GPU and no
/// privileges. The times are those of blocking requests of 1 MiB, one after the other; filling memory and computing
/// checksums is not part of them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ugds demo
  ugds demo --file model.bin
  TMPDIR=/mnt/fast ugds demo --json

Exit status: 0 the data came back as they were, 1 they did not, or something failed.")]
pub(crate) struct Args {
    /// The data to write; 256 MiB of generated data if left out
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print the result as JSON and nothing else
    #[arg(long)]
    json: bool,
    /// Change a byte of the image between writing and reading, to see that the comparison can fail
    #[arg(long, hide = true)]
    corrupt_for_test: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    source: String,
    bytes: u64,
    image: String,
    uri: String,
    device_path: String,
    memory_path: String,
    request_bytes: u64,
    sha256_written: String,
    sha256_read: String,
    equal: bool,
    write: Summary,
    flush_us: f64,
    read: Summary,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let say = |line: String| if args.json { Ok(()) } else { output::line(line) };
    let mut source = Source::open(args.file.as_deref())?;
    let len_bytes = source.len_bytes;
    let make = || tempfile::Builder::new().prefix("ugds-demo-").tempdir();
    let (folder, _temporary) =
        Temporary::make(make, TempDir::path).context("cannot make a temporary folder")?;
    let image = folder.path().join("namespace.img");
    let uri = uri_of(&image, len_bytes);
    say(format!("source   {}, {}", source.name, size_text(len_bytes)))?;
    say(format!("image    {} (removed at the end)", image.display()))?;

    let device = open(&uri)?;
    let bench = Bench::new(&device, len_bytes)?;
    say(format!("device   {}", device.info().path))?;
    say(format!("memory   2 regions of {}, {}", size_text(bench.window_bytes), bench.memory_path()))?;

    let (written, write) = bench.write(&mut source)?;
    say(format!("write    {}: {}", size_text(len_bytes), bench.route("memory to namespace")))?;
    let start = Instant::now();
    bench.namespace.flush().context("flush")?;
    let flush = start.elapsed();
    say(format!("flush    {:.0} us", flush.as_secs_f64() * 1e6))?;
    if args.corrupt_for_test {
        corrupt(&image, len_bytes / 2)?;
    }
    let (read, read_measure) = bench.read(len_bytes)?;
    say(format!("read     {}: {}", size_text(len_bytes), bench.route("namespace to other memory")))?;
    let (device_path, memory_path) = (device.info().path.to_string(), bench.memory_path());
    drop(bench);
    device.close().context("close")?;
    folder.close().context("cannot remove the temporary folder")?;

    let report = Report {
        source: source.name,
        bytes: len_bytes,
        image: image.display().to_string(),
        uri: uri.to_string(),
        device_path,
        memory_path,
        request_bytes: REQUEST_BYTES,
        sha256_written: written.to_string(),
        sha256_read: read.to_string(),
        equal: written == read,
        write,
        flush_us: flush.as_secs_f64() * 1e6,
        read: read_measure,
    };
    print(args, &report)?;
    Ok(if report.equal { Outcome::Success } else { Outcome::Mismatch })
}

fn print(args: &Args, report: &Report) -> anyhow::Result<()> {
    if args.json {
        output::json(report)?;
    } else {
        let table = measure::table([("write", &report.write), ("read", &report.read)]);
        output::text(&format!(
            "\nrequests of {}, one at a time\n{table}\n",
            size_text(report.request_bytes)
        ))?;
        output::line(format!("written  sha256 {}", report.sha256_written))?;
        output::line(format!("read     sha256 {}", report.sha256_read))?;
        if report.equal {
            output::line("ok       the data came back as they were")?;
        }
    }
    if !report.equal {
        output::complain(&format!(
            "ugds: error: the data differ: wrote sha256 {}, read {}",
            report.sha256_written, report.sha256_read
        ));
    }
    Ok(())
}

fn uri_of(image: &Path, len_bytes: u64) -> Uri {
    let lba_bytes = u64::from(EmuUri::default().lba_bytes);
    let size_bytes = len_bytes.next_multiple_of(lba_bytes);
    EmuUri { file: Some(image.to_owned()), size_bytes: Some(size_bytes), ..EmuUri::default() }.into()
}

/// Inverts the byte at `offset` behind the controller's back.
fn corrupt(image: &Path, offset: u64) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(image)?;
    let mut byte = [0];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut byte)?;
    file.seek(SeekFrom::Start(offset))?;
    Ok(file.write_all(&[!byte[0]])?)
}

/// Where the data come from.
struct Source {
    name: String,
    len_bytes: u64,
    data: Box<dyn Read>,
}

impl Source {
    fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            let data = Box::new(Generated(Random::new(GENERATED_SEED)));
            return Ok(Self { name: "generated data".to_owned(), len_bytes: GENERATED_BYTES, data });
        };
        let name = path.display().to_string();
        let (file, len_bytes) = regular_file(path)?;
        Ok(Self { name, len_bytes, data: Box::new(file) })
    }
}

/// Random data without end.
struct Generated(Random);

impl Read for Generated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.fill(buffer);
        Ok(buffer.len())
    }
}

/// The namespace under test, with one region to write from and another to read into.
struct Bench {
    namespace: Namespace,
    from: Region,
    into: Region,
    window_bytes: u64,
}

impl Bench {
    fn new(device: &Device, len_bytes: u64) -> anyhow::Result<Self> {
        let namespace = device.namespace().context("namespace")?.clone();
        let window_bytes = len_bytes.next_multiple_of(namespace.lba_bytes().into()).min(WINDOW_BYTES);
        let alloc = || device.alloc(window_bytes as usize).context("cannot register memory");
        Ok(Self { from: alloc()?, into: alloc()?, namespace, window_bytes })
    }

    fn memory_path(&self) -> String {
        self.from.path().to_string()
    }

    fn route(&self, direction: &str) -> String {
        format!("{direction}, {}", self.memory_path())
    }

    /// Writes all of `source`, a window of memory at a time. The rest of the last block is zeros.
    fn write(&self, source: &mut Source) -> anyhow::Result<(Digest, Summary)> {
        let mut times = Times::default();
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; self.window_bytes as usize];
        for (at, window_bytes) in self.windows(source.len_bytes) {
            let data = &mut buffer[..window_bytes as usize];
            source.data.read_exact(data).with_context(|| format!("{} became shorter", source.name))?;
            hasher.update(data);
            let padded_bytes = self.padded(window_bytes);
            buffer[window_bytes as usize..padded_bytes as usize].fill(0);
            self.from.copy_in(0, &buffer[..padded_bytes as usize])?;
            for request in requests(padded_bytes) {
                let lba = self.lba(at + request.start as u64);
                let len_bytes = request.len() as u64;
                times
                    .time(len_bytes, || self.namespace.write(&self.from, request, lba))
                    .with_context(|| format!("write at block {lba}"))?;
            }
        }
        Ok((hasher.finish(), times.summary()))
    }

    /// Reads `len_bytes` back. What was in memory before is overwritten first, so that nothing but the device can
    /// have put the data there.
    fn read(&self, len_bytes: u64) -> anyhow::Result<(Digest, Summary)> {
        let mut times = Times::default();
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; self.window_bytes as usize];
        for (at, window_bytes) in self.windows(len_bytes) {
            buffer.fill(POISON);
            self.into.copy_in(0, &buffer)?;
            for request in requests(self.padded(window_bytes)) {
                let lba = self.lba(at + request.start as u64);
                let len_bytes = request.len() as u64;
                times
                    .time(len_bytes, || self.namespace.read(&self.into, request, lba))
                    .with_context(|| format!("read at block {lba}"))?;
            }
            let data = &mut buffer[..window_bytes as usize];
            self.into.copy_out(0, data)?;
            hasher.update(data);
        }
        Ok((hasher.finish(), times.summary()))
    }

    /// Start and length of each window over `len_bytes`.
    fn windows(&self, len_bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let window_bytes = self.window_bytes;
        (0..len_bytes.div_ceil(window_bytes)).map(move |window| {
            let at = window * window_bytes;
            (at, window_bytes.min(len_bytes - at))
        })
    }

    fn padded(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.namespace.lba_bytes().into())
    }

    fn lba(&self, offset_bytes: u64) -> Lba {
        Lba(offset_bytes / u64::from(self.namespace.lba_bytes()))
    }
}

/// The ranges of a region's first `len_bytes` that requests carry.
fn requests(len_bytes: u64) -> impl Iterator<Item = std::ops::Range<usize>> {
    let len_bytes = len_bytes as usize;
    let step = REQUEST_BYTES as usize;
    (0..len_bytes).step_by(step).map(move |start| start..(start + step).min(len_bytes))
}

/// The times of requests that follow one another.
#[derive(Default)]
struct Times {
    measure: Measure,
    sum: Duration,
}

impl Times {
    fn time<E>(&mut self, len_bytes: u64, request: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let start = Instant::now();
        request()?;
        let time = start.elapsed();
        self.measure.add(time, len_bytes);
        self.sum += time;
        Ok(())
    }

    fn summary(&self) -> Summary {
        self.measure.summary(self.sum)
    }
}

const GENERATED_BYTES: u64 = 256 << 20;
const GENERATED_SEED: u64 = 0x5567_4453;
/// Registered at a time, so that a file may be larger than memory.
const WINDOW_BYTES: u64 = 32 << 20;
const REQUEST_BYTES: u64 = 1 << 20;
const POISON: u8 = 0xa5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_cover_a_window_once() {
        let ranges: Vec<_> = requests(REQUEST_BYTES * 2 + 4096).collect();
        let mib = REQUEST_BYTES as usize;
        assert_eq!(ranges, [0..mib, mib..2 * mib, 2 * mib..2 * mib + 4096]);
        assert_eq!(requests(512).next(), Some(0..512));
    }

    #[test]
    fn the_namespace_has_room_for_the_last_block() {
        for (len_bytes, expected) in [(1, "size=4K"), (4096, "size=4K"), (4097, "size=8K")] {
            assert!(uri_of(Path::new("x"), len_bytes).to_string().ends_with(expected));
        }
    }

    #[test]
    fn empty_and_strange_sources_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Source::open(Some(folder.path())).err().unwrap().to_string();
        assert!(error.contains("no regular file"), "{error}");
        let empty = folder.path().join("empty");
        std::fs::write(&empty, b"").unwrap();
        let error = Source::open(Some(&empty)).err().unwrap().to_string();
        assert!(error.contains("is empty"), "{error}");
    }
}
