//! Judges the kernel log of a boot against what a bare boot prints.

use std::fmt;

use anyhow::{Context, ensure};

/// One message of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// 0 is an emergency, 4 a warning, 7 for debugging.
    level: u8,
    /// The message with its time.
    line: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>{}", self.level, self.line)
    }
}

impl Message {
    /// The message without its time.
    fn text(&self) -> &str {
        let rest = self.line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
        rest.map_or(&*self.line, |(_, text)| text)
    }
}

impl Message {
    /// Whether the IOMMU reports an access that it refused.
    pub(crate) fn is_dma_fault(&self) -> bool {
        is_dma_fault(self.text())
    }
}

/// Reads the output of `dmesg -r`: `<PRIORITY>[TIME] TEXT`, where the priority's low three bits are the level.
///
/// # Errors
/// When the first message is not the kernel's first: an early part was overwritten, or nothing came out.
pub(crate) fn parse(raw: &str) -> anyhow::Result<Vec<Message>> {
    let mut messages: Vec<Message> = Vec::new();
    for line in raw.lines() {
        let priority = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        match priority.and_then(|(priority, rest)| Some((priority.parse::<u32>().ok()?, rest))) {
            Some((priority, rest)) => {
                messages.push(Message { level: (priority & 7) as u8, line: rest.to_owned() });
            }
            // A message with a line feed in it goes on.
            None => match messages.last_mut() {
                Some(last) => last.line.push_str(&format!("\n{line}")),
                None => continue,
            },
        }
    }
    let first = messages.first().context("the guest sent no kernel log")?;
    ensure!(
        first.text().starts_with("Linux version"),
        "the kernel log lost its beginning; it starts with {first}"
    );
    Ok(messages)
}

/// The messages that a boot may print although they are warnings or worse.
#[derive(Debug)]
pub(crate) struct Allowlist {
    patterns: Vec<String>,
}

impl Allowlist {
    /// The list recorded from a bare boot.
    pub(crate) fn recorded() -> anyhow::Result<Self> {
        Self::parse(include_str!("kernel-log.allow"))
    }

    /// Reads lines `PATTERN :: REASON`; a pattern that ends with `*` is a prefix. Numbers in it stand for any.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let patterns = lines.map(|line| {
            let (pattern, reason) =
                line.split_once(" :: ").with_context(|| format!("`{line}` has no ` :: ` and reason"))?;
            ensure!(!reason.trim().is_empty(), "`{line}` has no reason");
            Ok(normalised(pattern))
        });
        Ok(Self { patterns: patterns.collect::<anyhow::Result<_>>()? })
    }

    /// The messages that must not be in a log: faults of any level, and warnings that are not on the list.
    pub(crate) fn offences<'a>(&self, log: &'a [Message]) -> Vec<&'a Message> {
        log.iter().filter(|message| is_fault(message.text()) || self.is_new_warning(message)).collect()
    }

    fn is_new_warning(&self, message: &Message) -> bool {
        let text = normalised(message.text());
        message.level <= WARNING
            && !self.patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => text.starts_with(prefix),
                None => text == *pattern,
            })
    }
}

/// Whether a message reports what no list can allow.
fn is_fault(text: &str) -> bool {
    FAULTS.iter().any(|fault| text.contains(fault)) || is_dma_fault(text)
}

fn is_dma_fault(text: &str) -> bool {
    text.contains("DMAR") && text.to_ascii_lowercase().contains("fault")
}

/// The lines of a console that tell most: from the first fault on, or else the last ones.
pub(crate) fn telling_lines(console: &str) -> String {
    let start = console.lines().position(is_fault);
    match start {
        Some(start) => {
            let lines: Vec<&str> = console.lines().skip(start).take(CONSOLE_LINES).collect();
            super::tail(&lines.join("\n"), CONSOLE_LINES)
        }
        None => super::tail(console, CONSOLE_LINES),
    }
}

/// The text with every number, decimal or hexadecimal, replaced by `#`.
fn normalised(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word_len = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_len.max(first.len_utf8()));
        push_normalised(&mut result, word);
        rest = after;
    }
    result
}

fn push_normalised(result: &mut String, word: &str) {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let has_number = word.bytes().any(|byte| byte.is_ascii_digit());
    if has_number && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return result.push('#');
    }
    for c in word.chars() {
        match (c.is_ascii_digit(), result.ends_with('#')) {
            (true, true) => {}
            (true, false) => result.push('#'),
            (false, _) => result.push(c),
        }
    }
}

/// The level of `KERN_WARNING`.
const WARNING: u8 = 4;
const CONSOLE_LINES: usize = 20;

/// Parts of messages that are faults of any level. Their case is the kernel's.
const FAULTS: &[&str] = &[
    "BUG:",
    "WARNING:",
    "Oops",
    "Call Trace",
    "cut here",
    "kernel BUG at",
    "general protection fault",
    "Kernel panic",
    "Unable to handle",
    "UBSAN:",
    "KFENCE:",
    "refcount_t:",
    "blocked for more than",
    "detected stall",
    "soft lockup",
    "Out of memory",
    "I/O error",
    "page allocation failure",
    "Bad page",
    "Object already free",
];

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: &str = "<5>[    0.000000] Linux version 7.3.4 (gcc) 14.2\n\
        <6>[    0.100000] DMAR: IOMMU enabled\n\
        <4>[    1.719516] mtrr: your CPUs had inconsistent fixed MTRR settings\n";

    fn offences(tail: &str) -> Vec<String> {
        let allowlist = Allowlist::recorded().unwrap();
        let log = parse(&format!("{BARE}{tail}")).unwrap();
        allowlist.offences(&log).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_bare_boot_passes() {
        assert_eq!(offences(""), [""; 0]);
    }

    #[test]
    fn a_translation_fault_fails_at_any_level() {
        let tail = "<3>[    9.1] DMAR: DRHD: handling fault status reg 2\n\
            <6>[    9.2] DMAR: [DMA Write NO_PASID] Request device [00:04.0] fault addr 0x1000 [fault reason 0x05]\n";
        assert_eq!(offences(tail).len(), 2);
    }

    #[test]
    fn an_oops_fails() {
        let tail = "<1>[    9.1] BUG: kernel NULL pointer dereference, address: 0000000000000008\n\
            <4>[    9.2] Oops: Oops: 0000 [#1] SMP NOPTI\n\
            <4>[    9.3] RIP: 0010:vfio_pci_core_mmap+0x1a/0x40\n\
            <4>[    9.4] Call Trace:\n";
        assert_eq!(offences(tail).len(), 4);
    }

    #[test]
    fn a_warning_that_a_bare_boot_lacks_fails() {
        let new = "<4>[    3.0] nvme nvme0: something odd\n";
        assert_eq!(offences(new), ["<4>[    3.0] nvme nvme0: something odd"]);
        assert_eq!(offences("<6>[    3.0] nvme nvme0: something said\n"), [""; 0]);
        assert_eq!(offences("<12>[    3.0] a program's warning\n").len(), 1, "the facility is not the level");
    }

    #[test]
    fn a_log_without_its_beginning_is_refused() {
        assert!(parse("").is_err());
        let error = parse("<6>[    0.100000] DMAR: IOMMU enabled\n").unwrap_err();
        assert!(error.to_string().contains("lost its beginning"), "{error}");
    }

    #[test]
    fn a_crash_is_shown_from_its_headline_on() {
        let console = format!("booting\nKernel panic - not syncing\n{}", "? frame\n".repeat(40));
        let lines = telling_lines(&console);
        assert!(lines.starts_with("Kernel panic"), "{lines}");
        assert_eq!(telling_lines("a\r\nb\r\n"), "a\nb");
    }

    #[test]
    fn numbers_are_alike() {
        assert_eq!(normalised("pci 0000:00:04.0: BAR 0x1f at ffff88aa12"), "pci #:#:#.#: BAR # at #");
        assert_eq!(normalised("type1 tsc: 2496.2 MHz dead"), "type# tsc: #.# MHz dead");
    }

    #[test]
    fn prefixes_and_reasons() {
        let list = Allowlist::parse("# comment\n\nmtrr: your CPUs had * :: emulated CPUs differ\n").unwrap();
        let log = parse(BARE).unwrap();
        assert!(list.offences(&log).is_empty());
        assert!(Allowlist::parse("mtrr: no reason\n").is_err());
    }
}
