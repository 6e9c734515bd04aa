//! Figures that were written down, and what may become of them.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Measured;

/// Counts by their keys, with the compiler that made them.
pub(super) struct Figures {
    rustc: String,
    counts: BTreeMap<String, f64>,
}

impl Figures {
    /// The figures of this moment.
    pub(super) fn of(measured: &[Measured]) -> anyhow::Result<Self> {
        let counts = measured.iter().map(|m| (m.key.to_owned(), (m.count * 10.0).round() / 10.0)).collect();
        Ok(Self { rustc: rustc()?, counts })
    }

    pub(super) fn read(file: &str) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        Self::parse(&text).with_context(|| format!("{file} holds no figures"))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut all: BTreeMap<String, Value> = serde_json::from_str(text)?;
        let rustc = all.remove(RUSTC).and_then(|value| Some(value.as_str()?.to_owned()));
        let rustc = rustc.context("the version of rustc is missing")?;
        let count = |(key, value): (String, Value)| {
            let count = value.as_f64().with_context(|| format!("{key} is no number"))?;
            Ok((key, count))
        };
        Ok(Self { rustc, counts: all.into_iter().map(count).collect::<anyhow::Result<_>>()? })
    }

    pub(super) fn write(&self, file: &str) -> anyhow::Result<()> {
        let mut all: BTreeMap<&str, Value> =
            self.counts.iter().map(|(key, count)| (&**key, Value::from(*count))).collect();
        all.insert(RUSTC, Value::from(&*self.rustc));
        let text = serde_json::to_string_pretty(&all)? + "\n";
        fs::write(file, text).with_context(|| format!("cannot write {file}"))
    }

    /// Refuses what is beyond its gate and was not, and with the same compiler also what became 2 % more. What was
    /// beyond its gate before is only told.
    pub(super) fn judge(&self, measured: &[Measured]) -> anyhow::Result<()> {
        let same_compiler = self.rustc == rustc()?;
        if !same_compiler {
            println!("figures are of rustc {}: only the gates hold", self.rustc);
        }
        let mut wrong = Vec::new();
        for m in measured {
            let Some(figure) = self.counts.get(m.key) else {
                wrong.push(format!("{}: no figure was written down", m.key));
                continue;
            };
            if m.count > m.gate && *figure <= m.gate {
                wrong.push(format!("{}: {:.1} is beyond its gate of {}", m.key, m.count, m.gate));
            } else if m.count > m.gate {
                println!("{}: still beyond its gate of {} (goal {})", m.key, m.gate, m.goal);
            }
            if same_compiler && m.count > figure * REGRESSION + ROUNDING {
                wrong.push(format!("{}: {:.1}, and was {figure:.1}", m.key, m.count));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        Ok(())
    }
}

/// The compiler's version, such as `1.95.0`.
fn rustc() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("--version").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.split(' ').nth(1).map(str::to_owned).context("rustc does not say its version")
}

const RUSTC: &str = "rustc";
/// 2 % more is a regression.
const REGRESSION: f64 = 1.02;
/// Figures are written down with one digit.
const ROUNDING: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(figure: f64, count: f64, gate: f64) -> Result<(), String> {
        let figures =
            Figures { rustc: rustc().unwrap(), counts: BTreeMap::from([("key".to_owned(), figure)]) };
        figures.judge(&[Measured { key: "key", count, goal: 1.0, gate }]).map_err(|error| error.to_string())
    }

    #[test]
    fn two_percent_more_and_the_gate_are_the_bounds() {
        assert_eq!(judged(100.0, 101.9, 120.0), Ok(()));
        assert_eq!(judged(100.0, 50.0, 120.0), Ok(()));
        assert!(judged(100.0, 102.2, 120.0).unwrap_err().contains("102.2, and was 100.0"));
        assert!(judged(119.0, 120.5, 120.0).unwrap_err().contains("beyond its gate of 120"));
        assert_eq!(judged(500.0, 499.0, 300.0), Ok(()), "told, but no news");
        assert!(judged(0.0, 1.0, 0.0).unwrap_err().contains("beyond its gate of 0"));
    }

    #[test]
    fn another_compiler_leaves_only_the_gates() {
        let figures = Figures::parse(r#"{"key": 100.0, "rustc": "1.0.0"}"#).unwrap();
        let measured = |count| [Measured { key: "key", count, goal: 1.0, gate: 120.0 }];
        assert!(figures.judge(&measured(119.0)).is_ok());
        assert!(figures.judge(&measured(121.0)).is_err());
    }

    #[test]
    fn a_key_without_a_figure_is_refused() {
        let figures = Figures::parse(r#"{"rustc": "1.0.0"}"#).unwrap();
        let error = figures.judge(&[Measured { key: "new", count: 1.0, goal: 1.0, gate: 2.0 }]).unwrap_err();
        assert!(error.to_string().contains("new: no figure"));
    }

    #[test]
    fn figures_that_are_none_say_why() {
        for (text, reason) in [
            ("{}", "rustc is missing"),
            (r#"{"rustc": "1", "key": "x"}"#, "key is no number"),
            ("[", "expected a map"),
        ] {
            let error = Figures::parse(text).err().unwrap();
            assert!(format!("{error:#}").contains(reason), "{text}: {error:#}");
        }
    }
}
