//! Whether statistics are published: what options and environment want, and what comes of it.

use super::server::{Publisher, Source};
use crate::Options;
use crate::stats::Statistics;
use std::sync::Arc;

/// What is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing, and why.
    Nothing(String),
    /// That they are, under this name.
    Named(String),
}

impl Wish {
    /// What `options` and the environment want, which adds to them what it takes.
    pub(crate) fn of(options: Options) -> (Options, Self) {
        Self::decide(options, std::env::var(VARIABLE).ok().as_deref())
    }

    fn decide(mut options: Options, variable: Option<&str>) -> (Options, Self) {
        if variable == Some("1") {
            options.statistics = Statistics::Latencies;
        }
        let wish = match (variable, &options.publish) {
            (Some("0"), _) => Self::Nothing(format!("{VARIABLE}=0")),
            (_, Some(name)) => Self::Named(name.clone()),
            (Some("1" | "counters"), None) => Self::Named(program()),
            (None | Some(""), None) => Self::Nothing("nobody asked for it".into()),
            (Some(other), None) => {
                Self::Nothing(format!("{VARIABLE}={other} is not known; 1, counters and 0 are accepted"))
            }
        };
        (options, wish)
    }

    /// Publishes, and says where, or why not. A device whose statistics can't be published is as good as any other.
    pub(crate) fn carry_out(self, stats: &Arc<Source>, path: &str) -> (Option<Publisher>, String) {
        let name = match self {
            Self::Nothing(reason) => return (None, format!("not published: {reason}")),
            Self::Named(name) => name,
        };
        match Publisher::new(&name, path, Arc::clone(stats)) {
            Ok(publisher) => {
                let place = format!("published at {}", publisher.path().display());
                (Some(publisher), place)
            }
            Err(error) => (None, format!("not published: {error}")),
        }
    }
}

/// The name of this program, as the system shows it.
fn program() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    name.trim_end().to_owned()
}

const VARIABLE: &str = "UGDS_STATS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_takes_back_and_adds() {
        let decide = |options: Options, variable| {
            let (options, wish) = Wish::decide(options, variable);
            (options.statistics, wish)
        };
        let named = || Options::default().publish_statistics("me");
        assert_eq!(decide(named(), None), (Statistics::Latencies, Wish::Named("me".into())));
        assert_eq!(decide(named(), Some("1")), (Statistics::Latencies, Wish::Named("me".into())));
        assert!(matches!(decide(named(), Some("0")).1, Wish::Nothing(_)));
        let plain = Options::default;
        assert_eq!(decide(plain(), Some("1")), (Statistics::Latencies, Wish::Named(program())));
        assert_eq!(decide(plain(), Some("counters")), (Statistics::Counters, Wish::Named(program())));
        for off in [None, Some(""), Some("0"), Some("yes")] {
            let (statistics, wish) = decide(plain(), off);
            assert_eq!(statistics, Statistics::Counters);
            let Wish::Nothing(reason) = wish else { panic!("{off:?}") };
            assert_eq!(reason.contains("1, counters and 0"), off == Some("yes"), "{reason}");
        }
    }
}
