//! `cargo xtask layers`: the house has one crate a floor, and arrows point down only.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::workspace::Workspace;

/// A crate of ours, and those it may use. An arrow that is not listed points up or sideways.
struct Floor {
    name: &'static str,
    may_use: &'static [&'static str],
}

/// The house, ground floor first: the table of `architecture.md`.
#[rustfmt::skip]
const HOUSE: &[Floor] = &[
    Floor { name: "nvme-proto", may_use: &[] },
    Floor { name: "ugds-hal",   may_use: &["nvme-proto"] },
    Floor { name: "ugds-mem",   may_use: &["nvme-proto", "ugds-hal"] },
    Floor { name: "ugds-queue", may_use: &["nvme-proto", "ugds-hal", "ugds-mem"] },
    Floor { name: "ugds-sched", may_use: &["nvme-proto"] },
    Floor { name: "ugds",       may_use: &["nvme-proto", "ugds-hal", "ugds-mem", "ugds-queue", "ugds-sched"] },
    Floor { name: "ugds-cli",   may_use: &["ugds"] },
    Floor { name: "ugds-null", may_use: &["nvme-proto", "ugds-hal"] },
    Floor { name: "ugds-tests", may_use: &["nvme-proto", "ugds-hal", "ugds-mem", "ugds-queue", "ugds-sched", "ugds", "ugds-cli", "ugds-null"] },
    Floor { name: "xtask",      may_use: &["ugds-sched"] },
];

/// Fails with every arrow that the table does not have; prints the table when there is none.
pub(crate) fn run(workspace: &Workspace, _: &[String]) -> anyhow::Result<()> {
    let members = members(workspace)?;
    let faults = check(HOUSE, &members);
    if !faults.is_empty() {
        bail!("{} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("{:<12} uses", "crate");
    for member in &members {
        println!("{:<12} {}", member.name, member.uses());
    }
    Ok(())
}

/// A crate of the workspace as cargo sees it.
struct Member {
    name: String,
    arrows: Vec<Arrow>,
}

/// One dependency of a crate on another.
struct Arrow {
    to: String,
    kind: &'static str,
}

impl Member {
    fn uses(&self) -> String {
        let names: BTreeSet<&str> = self.arrows.iter().map(|arrow| arrow.to.as_str()).collect();
        if names.is_empty() {
            return "nothing of ours".to_owned();
        }
        names.into_iter().collect::<Vec<_>>().join(", ")
    }
}

fn members(workspace: &Workspace) -> anyhow::Result<Vec<Member>> {
    let metadata = MetadataCommand::new()
        .cargo_path(workspace.cargo_path())
        .manifest_path(workspace.root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo metadata")?;
    let names: Vec<String> = metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let ours = |name: &str| names.iter().any(|ours| ours == name);
    let arrows = |package: &cargo_metadata::Package| {
        let dependencies = package.dependencies.iter().filter(|dependency| ours(&dependency.name));
        dependencies
            .map(|dependency| Arrow { to: dependency.name.clone(), kind: kind_name(dependency.kind) })
            .collect()
    };
    Ok(metadata
        .packages
        .iter()
        .map(|package| Member { name: package.name.to_string(), arrows: arrows(package) })
        .collect())
}

fn kind_name(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::Normal => "dependency",
        DependencyKind::Development => "dev-dependency",
        DependencyKind::Build => "build-dependency",
        _ => "dependency of an unknown kind",
    }
}

/// Every fault of `members` against `house`, a sentence each. Dev-dependencies and build-dependencies count: a test
/// that needs an upper floor belongs on that floor.
fn check(house: &[Floor], members: &[Member]) -> Vec<String> {
    let mut faults = Vec::new();
    for floor in house {
        if !members.iter().any(|member| member.name == floor.name) {
            faults.push(format!("`{}` is in the table but not in the workspace", floor.name));
        }
    }
    for member in members {
        match house.iter().find(|floor| floor.name == member.name) {
            None => faults.push(format!("`{}` is not in the table: give it a floor", member.name)),
            Some(floor) => faults.extend(member.arrows.iter().filter_map(|arrow| fault(floor, arrow))),
        }
    }
    faults
}

fn fault(floor: &Floor, arrow: &Arrow) -> Option<String> {
    if floor.may_use.contains(&arrow.to.as_str()) {
        return None;
    }
    let accepted =
        if floor.may_use.is_empty() { "nothing of ours".to_owned() } else { floor.may_use.join(", ") };
    Some(format!(
        "{} of `{}` on `{}` points up or sideways; it may use {accepted}",
        arrow.kind, floor.name, arrow.to
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_FLOORS: &[Floor] =
        &[Floor { name: "ground", may_use: &[] }, Floor { name: "first", may_use: &["ground"] }];

    fn member(name: &str, arrows: &[(&str, &'static str)]) -> Member {
        let arrows = arrows.iter().map(|&(to, kind)| Arrow { to: to.to_owned(), kind }).collect();
        Member { name: name.to_owned(), arrows }
    }

    #[test]
    fn arrows_down_pass() {
        let members = [member("ground", &[]), member("first", &[("ground", "dependency")])];
        assert_eq!(check(TWO_FLOORS, &members), [""; 0]);
    }

    #[test]
    fn an_arrow_up_is_named() {
        let members = [member("ground", &[("first", "dependency")]), member("first", &[])];
        assert_eq!(
            check(TWO_FLOORS, &members),
            ["dependency of `ground` on `first` points up or sideways; it may use nothing of ours"]
        );
    }

    #[test]
    fn a_dev_dependency_up_is_an_arrow_too() {
        let members = [member("ground", &[("first", "dev-dependency")]), member("first", &[])];
        assert!(check(TWO_FLOORS, &members)[0].starts_with("dev-dependency of `ground` on `first`"));
    }

    #[test]
    fn an_arrow_sideways_is_named() {
        let house = [Floor { name: "left", may_use: &[] }, Floor { name: "right", may_use: &[] }];
        let members = [member("left", &[("right", "dependency")]), member("right", &[])];
        assert_eq!(check(&house, &members).len(), 1);
    }

    #[test]
    fn strangers_and_missing_floors_are_named() {
        let members = [member("ground", &[]), member("shed", &[])];
        assert_eq!(
            check(TWO_FLOORS, &members),
            [
                "`first` is in the table but not in the workspace",
                "`shed` is not in the table: give it a floor"
            ]
        );
    }

    #[test]
    fn the_house_itself_has_no_arrow_up() {
        for (height, floor) in HOUSE.iter().enumerate() {
            for used in floor.may_use {
                let depth = HOUSE.iter().position(|other| other.name == *used);
                assert!(depth.is_some_and(|depth| depth < height), "{} uses {used}", floor.name);
            }
        }
    }
}
