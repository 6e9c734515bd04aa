//! Plans as text.

use super::error::FaultPlanError as Error;
use super::plan::{Access, Blocks, Fault, FaultPlan, Nth, Trigger, What};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use nvme_proto::{Lba, Qid, Status};

impl FromStr for FaultPlan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        let plan = Self { faults: parts.map(str::parse).collect::<Result<_, _>>()? };
        plan.validate()?;
        Ok(plan)
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, values) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let fault = *NAMES
            .iter()
            .find(|known| **known == name)
            .ok_or_else(|| Error::Name { found: name.to_owned() })?;
        let mut values = Values::read(fault, values)?;
        let what = match fault {
            "fail" => What::Fail(values.status()?),
            "media" => What::Media(values.access()?),
            "drop-cqe" => What::Drop,
            "delay-cqe" => What::Delay(values.duration("by")?),
            "duplicate-cqe" => What::Duplicate,
            "corrupt-cid" => What::CorruptCid(values.needed("xor", BITS, number)?),
            "corrupt-sqhd" => What::CorruptSqhd(values.needed("xor", BITS, number)?),
            "corrupt-phase" => What::CorruptPhase,
            "corrupt-status" => What::CorruptStatus(values.status()?),
            "late-data" => What::LateData(values.duration("by")?),
            "hang" => What::Hang,
            "cfs" => What::Fatal,
            "gone" => What::Gone,
            "slow-ready" => What::SlowReady(values.duration("by")?),
            _ => What::StuckDisable,
        };
        let when = Trigger {
            qid: values.optional("qid", "a queue from 0 to 65535", number)?.map(Qid),
            opcode: values.optional("opcode", "a number from 0 to 0xff", number)?,
            blocks: values.optional("lba", BLOCKS, blocks)?,
            nth: values.optional("nth", NTH, nth)?,
            after: values.optional("after", TIME, time)?.unwrap_or_default(),
        };
        Ok(Self { what, when })
    }
}

/// The values of one fault that nobody asked for yet.
struct Values<'t> {
    fault: &'static str,
    left: Vec<(&'static str, &'t str)>,
}

impl<'t> Values<'t> {
    fn read(fault: &'static str, text: &'t str) -> Result<Self, Error> {
        let mut left: Vec<(&'static str, &str)> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (found, value) = part.split_once('=').unwrap_or((part, ""));
            let found = found.trim();
            let Some(key) = keys(fault).find(|key| *key == found) else {
                let accepted = keys(fault).collect::<Vec<_>>().join(", ");
                return Err(Error::Key { fault, found: found.to_owned(), accepted });
            };
            if left.iter().any(|(known, _)| *known == key) {
                return Err(Error::Twice { fault, key });
            }
            left.push((key, value.trim()));
        }
        Ok(Self { fault, left })
    }

    fn optional<T>(
        &mut self,
        key: &'static str,
        accepted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(at) = self.left.iter().position(|(found, _)| *found == key) else { return Ok(None) };
        let (_, found) = self.left.swap_remove(at);
        let wrong = || Error::Value { fault: self.fault, key, found: found.to_owned(), accepted };
        read(found).map(Some).ok_or_else(wrong)
    }

    fn needed<T>(
        &mut self,
        key: &'static str,
        accepted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let missing = Error::Missing { fault: self.fault, key, accepted };
        self.optional(key, accepted, read)?.ok_or(missing)
    }

    fn status(&mut self) -> Result<Status, Error> {
        self.needed("status", STATUS, status)
    }

    fn duration(&mut self, key: &'static str) -> Result<Duration, Error> {
        self.needed(key, TIME, time)
    }

    fn access(&mut self) -> Result<Access, Error> {
        self.needed("on", "read or write", |text| match text {
            "read" => Some(Access::Read),
            "write" => Some(Access::Write),
            _ => None,
        })
    }
}

/// The values that a fault takes.
fn keys(fault: &str) -> impl Iterator<Item = &'static str> {
    let (own, selects): (&[&str], &[&str]) = match fault {
        "fail" | "corrupt-status" => (&["status"], COMMANDS),
        "media" => (&["on"], &["qid", "lba", "nth", "after"]),
        "delay-cqe" | "late-data" => (&["by"], COMMANDS),
        "corrupt-cid" | "corrupt-sqhd" => (&["xor"], COMMANDS),
        "slow-ready" => (&["by"], RESETS),
        "stuck-disable" => (&[], RESETS),
        _ => (&[], COMMANDS),
    };
    own.iter().chain(selects).copied()
}

impl Fault {
    pub(super) fn name(&self) -> &'static str {
        match self.what {
            What::Fail(_) => "fail",
            What::Media(_) => "media",
            What::Drop => "drop-cqe",
            What::Delay(_) => "delay-cqe",
            What::Duplicate => "duplicate-cqe",
            What::CorruptCid(_) => "corrupt-cid",
            What::CorruptSqhd(_) => "corrupt-sqhd",
            What::CorruptPhase => "corrupt-phase",
            What::CorruptStatus(_) => "corrupt-status",
            What::LateData(_) => "late-data",
            What::Hang => "hang",
            What::Fatal => "cfs",
            What::Gone => "gone",
            What::SlowReady(_) => "slow-ready",
            What::StuckDisable => "stuck-disable",
        }
    }

    pub(super) fn validate(&self) -> Result<(), Error> {
        let fault = self.name();
        let wrong = |key, found: String, accepted| Err(Error::Value { fault, key, found, accepted });
        for (key, set) in [
            ("qid", self.when.qid.is_some()),
            ("opcode", self.when.opcode.is_some()),
            ("lba", self.when.blocks.is_some()),
        ] {
            if set && !keys(fault).any(|accepted| accepted == key) {
                let accepted = keys(fault).collect::<Vec<_>>().join(", ");
                return Err(Error::Key { fault, found: key.to_owned(), accepted });
            }
        }
        match self.what {
            What::CorruptCid(0) | What::CorruptSqhd(0) => return wrong("xor", "0".into(), BITS),
            What::Fail(status) | What::CorruptStatus(status) if status.is_success() => {
                return wrong("status", text_of(status), STATUS);
            }
            _ => {}
        }
        if let Some(blocks) = self.when.blocks.filter(|blocks| blocks.count == 0) {
            return wrong("lba", format!("{}+0", blocks.first), BLOCKS);
        }
        match self.when.nth {
            Some(nth) if nth.number() == 0 => wrong("nth", "0".into(), NTH),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let mut separator = ":";
        let mut value = |key: &str, value: &dyn fmt::Display| {
            write!(f, "{}{key}={value}", core::mem::replace(&mut separator, ","))
        };
        match self.what {
            What::Fail(status) | What::CorruptStatus(status) => value("status", &text_of(status))?,
            What::Media(Access::Read) => value("on", &"read")?,
            What::Media(Access::Write) => value("on", &"write")?,
            What::Delay(by) | What::LateData(by) | What::SlowReady(by) => value("by", &Time(by))?,
            What::CorruptCid(bits) | What::CorruptSqhd(bits) => value("xor", &format_args!("{bits:#x}"))?,
            _ => {}
        }
        let Trigger { qid, opcode, blocks, nth, after } = self.when;
        if let Some(qid) = qid {
            value("qid", &qid)?;
        }
        if let Some(opcode) = opcode {
            value("opcode", &format_args!("{opcode:#04x}"))?;
        }
        if let Some(Blocks { first, count }) = blocks {
            value("lba", &format_args!("{first}+{count}"))?;
        }
        match nth {
            Some(Nth::Only(n)) => value("nth", &n)?,
            Some(Nth::From(n)) => value("nth", &format_args!("{n}+"))?,
            None => {}
        }
        if !after.is_zero() {
            value("after", &Time(after))?;
        }
        Ok(())
    }
}

fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = match text.strip_prefix("0x") {
        Some(digits) => plain(digits).then(|| u64::from_str_radix(digits, 16).ok())?,
        None => plain(text).then(|| text.parse().ok())?,
    };
    T::try_from(value?).ok()
}

fn blocks(text: &str) -> Option<Blocks> {
    let (first, count) = text.split_once('+').unwrap_or((text, "1"));
    Some(Blocks { first: Lba(number(first)?), count: number(count)? })
}

fn nth(text: &str) -> Option<Nth> {
    match text.strip_suffix('+') {
        Some(from) => number(from).map(Nth::From),
        None => number(text).map(Nth::Only),
    }
}

fn status(text: &str) -> Option<Status> {
    let (text, lasts) = match text.strip_suffix("+dnr") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (sct, sc) = text.split_once('/')?;
    let hex =
        |digits: &str| u8::from_str_radix(digits.strip_prefix(|c| c == '+').map_or(digits, |_| "?"), 16);
    let status = Status::new(hex(sct).ok().filter(|sct| *sct < 8)?, hex(sc).ok()?);
    Some(if lasts { status.with_do_not_retry() } else { status })
}

fn text_of(status: Status) -> String {
    let lasts = if status.do_not_retry() { "+dnr" } else { "" };
    format!("{:x}/{:02x}{lasts}", status.sct(), status.sc())
}

fn time(text: &str) -> Option<Duration> {
    let (unit, nanoseconds) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let count: u64 = number(text.strip_suffix(unit)?)?;
    Some(Duration::from_nanos(count.checked_mul(nanoseconds)?))
}

/// A time in the largest unit that needs no fraction.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        let fits = |(_, nanoseconds): &(&str, u64)| total.is_multiple_of(*nanoseconds);
        let (unit, nanoseconds) = UNITS.into_iter().rev().find(fits).unwrap_or(UNITS[0]);
        write!(f, "{}{unit}", total / nanoseconds)
    }
}

/// The shortest first; `s` last, since the others end with it.
const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];
pub(super) const NAMES: [&str; 15] = [
    "fail",
    "media",
    "drop-cqe",
    "delay-cqe",
    "duplicate-cqe",
    "corrupt-cid",
    "corrupt-sqhd",
    "corrupt-phase",
    "corrupt-status",
    "late-data",
    "hang",
    "cfs",
    "gone",
    "slow-ready",
    "stuck-disable",
];
/// What selects commands.
const COMMANDS: &[&str] = &["qid", "opcode", "lba", "nth", "after"];
/// What selects enabling or disabling.
const RESETS: &[&str] = &["nth", "after"];
const BITS: &str = "a mask from 1 to 0xffff";
const BLOCKS: &str = "FIRST+COUNT with a count above 0, such as 100+8,";
const NTH: &str = "a number from 1 on, or with a + behind it that one and all later ones,";
const STATUS: &str = "SCT/SC in hexadecimal other than 0/00, such as 2/81 or 0/06+dnr,";
const TIME: &str = "a number with ns, us, ms or s";

#[cfg(test)]
mod tests;
