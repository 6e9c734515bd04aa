//! `ugds copy`: bytes between files and namespaces, all of them or an error.

mod endpoint;
mod plan;
mod sink;
mod source;

use std::time::Instant;

use anyhow::Context;
use clap::builder::{OsStringValueParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use ugds::uri::Target;

use crate::device::size_text;
use crate::digest::{Digest, Hasher};
use crate::failure::Outcome;
use crate::output;
use endpoint::Endpoint;
use plan::Plan;
use sink::Sink;
use source::Source;

/// Copy between a file and a namespace, or between namespaces
///
/// SRC and DST are each a file, or a place on a namespace: URI[#OFFSET[+LENGTH]], in bytes. OFFSET is a multiple of
/// the block; LENGTH need not be: what follows the last byte in its block stays as it is. Without LENGTH, a source
/// goes to the end of its namespace, and a destination takes what the source has. LENGTHs on both sides must be
/// equal. A file whose name starts like a URI is written with a leading ./
///
/// A file as destination is replaced if it exists, as by cp, and appears complete or not at all. A namespace is
/// written in place, and flushed. That destroys what was there, so a device, or an image with content, needs --erase.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ugds copy model.bin 'emu:disk.img?size=8G#1M' --verify
  ugds copy 'emu:disk.img#1M+52428800' model.bin
  ugds copy new.bin 'emu:disk.img#1M' --erase
  ugds copy 'emu:a.img?ns=1#0+1G' 'emu:b.img?size=2G#512M'
  ugds copy vfio:0000:01:00.0#0+1G backup.bin

Exit status: 0 everything was copied, 1 something failed or --verify found other data, 2 wrong usage.")]
pub(crate) struct Args {
    /// A file, or URI[#OFFSET[+LENGTH]]
    #[arg(value_name = "SRC", value_parser = OsStringValueParser::new().try_map(endpoint::parse))]
    source: Endpoint,
    /// A file, or URI[#OFFSET[+LENGTH]]
    #[arg(value_name = "DST", value_parser = OsStringValueParser::new().try_map(endpoint::parse))]
    destination: Endpoint,
    /// Read the destination back and compare checksums
    #[arg(long)]
    verify: bool,
    /// Allow that what a namespace holds is overwritten
    #[arg(long)]
    erase: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let what = format!("copy {} to {}", args.source, args.destination);
    copy(args).context(what)
}

fn copy(args: &Args) -> anyhow::Result<Outcome> {
    let Plan { mut source, mut sink, devices, len_bytes } =
        Plan::make(&args.source, &args.destination, args.erase.into())?;
    warn_of_loss(&args.destination);
    let start = Instant::now();
    let bar = progress(if args.verify { 2 * len_bytes } else { len_bytes });
    let written = transfer(&mut source, &mut sink, len_bytes, &bar)?;
    sink.flush()?;
    if args.verify {
        let read = sink.digest(len_bytes, &bar)?;
        if read != written {
            bar.finish_and_clear();
            let what = &args.destination;
            output::complain(&format!("ugds: error: {what} differs: wrote sha256 {written}, read {read}"));
            return Ok(Outcome::Mismatch);
        }
    }
    sink.commit()?;
    bar.finish_and_clear();
    drop(source);
    devices.into_iter().try_for_each(|device| device.close().context("close"))?;
    let seconds = start.elapsed().as_secs_f64();
    let verified = if args.verify { format!(", verified, sha256 {written}") } else { String::new() };
    let rate = rate(len_bytes, seconds);
    output::line(format!("copied {} in {seconds:.2} s{rate}{verified}", size_text(len_bytes)))?;
    Ok(Outcome::Success)
}

/// A rate with a separator before it; nothing for so few bytes that it would only tell how long a start takes.
fn rate(len_bytes: u64, seconds: f64) -> String {
    let mebibytes = len_bytes as f64 / f64::from(1 << 20);
    if mebibytes < 1.0 { String::new() } else { format!(", {:.0} MiB/s", mebibytes / seconds.max(1e-9)) }
}

/// Says that a copy to a controller without an image is gone with the program.
fn warn_of_loss(destination: &Endpoint) {
    let Endpoint::Device(place) = destination else { return };
    if matches!(place.uri.target(), Target::Emu(emu) if emu.file.is_none()) {
        let text = "is in memory: what is copied there is gone when this command ends; emu:FILE keeps it";
        output::complain(&format!("ugds: warning: {} {text}", place.uri));
    }
}

fn transfer(
    source: &mut Source,
    sink: &mut Sink,
    len_bytes: u64,
    bar: &ProgressBar,
) -> anyhow::Result<Digest> {
    let mut hasher = Hasher::default();
    for_each_chunk(len_bytes, bar, |at, chunk| {
        source.read(at, chunk)?;
        hasher.update(chunk);
        sink.write(at, chunk)
    })?;
    source.finish(len_bytes)?;
    Ok(hasher.finish())
}

/// Calls `body` with each chunk's place and a buffer of its size.
fn for_each_chunk(
    len_bytes: u64,
    bar: &ProgressBar,
    mut body: impl FnMut(u64, &mut [u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES.min(len_bytes) as usize];
    let mut at = 0;
    while at < len_bytes {
        let chunk_bytes = CHUNK_BYTES.min(len_bytes - at);
        body(at, &mut buffer[..chunk_bytes as usize])?;
        at += chunk_bytes;
        bar.inc(chunk_bytes);
    }
    Ok(())
}

/// A bar on the standard error when that is a terminal, and nothing otherwise.
fn progress(len_bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    let bar = ProgressBar::new(len_bytes);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Moved at a time. A multiple of the largest block, 64 KiB, so that only the last chunk can end within one.
const CHUNK_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_bytes_that_were_asked_for() {
        assert_eq!(rate(64 << 20, 0.5), ", 128 MiB/s");
        assert_eq!(rate(100, 0.5), "");
        assert!(rate(1 << 20, 0.0).ends_with(" MiB/s"));
    }
}
