//! `cargo xtask bench sched`: the policies of `ugds-sched` in front of a modelled device, in virtual time.
//!
//! It repeats exactly, on any machine. Fails when a bound is missed.

mod host;
mod model;
mod plot;
mod scenario;
mod table;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};

use scenario::{Beside, Check, Many, Phase, Served};

/// Runs every scenario, prints the tables, writes what was asked for.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = Options::parse(arguments)?;
    let results = Results::measure()?;
    let checks = results.checks();
    print!("{}\n{}", results.tables().join("\n"), table::checks(&checks));
    if let Some(path) = options.json {
        fs::write(&path, table::json(&results))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = options.plot {
        plot::write(&path, &results.beside)?;
    }
    let missed: Vec<&str> =
        checks.iter().filter(|check| !check.holds()).map(|check| check.name.as_str()).collect();
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

/// What came out of every scenario.
struct Results {
    beside: Vec<Beside>,
    many: Vec<Many>,
    phases: Vec<Phase>,
    levels: Vec<Served>,
}

impl Results {
    fn measure() -> anyhow::Result<Self> {
        Ok(Self {
            beside: scenario::beside()?,
            many: scenario::many()?,
            phases: scenario::phases()?,
            levels: scenario::levels(),
        })
    }

    fn checks(&self) -> Vec<Check> {
        let mut checks = scenario::baselines(&self.beside);
        checks.extend(scenario::checks_beside(&self.beside));
        checks.extend(scenario::checks_many(&self.many));
        checks.extend(scenario::checks_phases(&self.phases));
        checks.extend(scenario::checks_levels(&self.levels));
        checks
    }

    fn tables(&self) -> [String; 4] {
        [
            table::beside(&self.beside),
            table::many(&self.many),
            table::phases(&self.phases),
            table::levels(&self.levels),
        ]
    }
}

/// Where to write the results, apart from the terminal.
#[derive(Default)]
struct Options {
    json: Option<PathBuf>,
    plot: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let place = match word.as_str() {
                "--json" => &mut options.json,
                "--plot" => &mut options.plot,
                other => {
                    bail!("`bench sched` accepts `--json FILE` and `--plot FILE`, but was given `{other}`")
                }
            };
            *place = Some(words.next().with_context(|| format!("`{word}` needs a file"))?.into());
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_kept_and_the_tables_fit_80_columns() {
        let results = Results::measure().unwrap();
        let checks = results.checks();
        for check in &checks {
            assert!(check.holds(), "{}: {} {}", check.name, check.value, check.unit);
        }
        for line in results.tables().join("\n").lines().chain(table::checks(&checks).lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn options_by_table() {
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        let options = Options::parse(&words("--plot a.svg --json b")).unwrap();
        assert_eq!((options.plot, options.json), (Some("a.svg".into()), Some("b".into())));
        assert!(Options::parse(&words("--json")).is_err());
        assert!(Options::parse(&words("--yaml x")).is_err());
    }
}
