//! What was checked, for people and for programs.

use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// The checks so far. Text is printed as they come, JSON at the end.
pub(crate) struct Report {
    json: bool,
    checks: Vec<Value>,
    failed: usize,
}

/// What a check found out, beside that it passed.
pub(crate) type Facts = Vec<(&'static str, String)>;

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, checks: Vec::new(), failed: 0 }
    }

    /// Runs a check.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce(&mut Facts) -> anyhow::Result<()>) {
        let mut facts = Facts::new();
        let result = check(&mut facts);
        let verdict = match &result {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("FAILED: {error:#}"),
        };
        self.failed += usize::from(result.is_err());
        if !self.json {
            println!("{name:<44} {verdict}");
            for (fact, value) in &facts {
                println!("    {fact}: {value}");
            }
        }
        let facts: Map<String, Value> =
            facts.into_iter().map(|(fact, value)| (fact.to_owned(), value.into())).collect();
        let error = result.err().map(|error| format!("{error:#}"));
        self.checks.push(json!({ "check": name, "error": error, "facts": facts }));
    }

    /// Ends the report.
    pub(crate) fn finish(self) -> ExitCode {
        let (all, failed) = (self.checks.len(), self.failed);
        if self.json {
            println!("{}", json!({ "failed": failed, "checks": self.checks }));
        } else {
            println!("{all} checks, {failed} failed");
        }
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
