//! Which crate uses which, according to ARCHITECTURE.md, the order in Cargo.toml, and cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Each crate in `crates/`, by the name of its folder, and the crates it uses.
pub(crate) type Edges = BTreeMap<String, BTreeSet<String>>;

/// The rows of the table with the header `| crate | uses | ...`. A dash means none.
pub(crate) fn table(markdown: &str) -> Edges {
    let mut edges = Edges::new();
    let mut lines = markdown.lines().skip_while(|line| {
        let header = cells(line);
        header.first().is_none_or(|c| c != "crate") || header.get(1).is_none_or(|c| c != "uses")
    });
    lines.next();
    for line in lines
        .skip(1)
        .take_while(|line| line.trim_start().starts_with('|'))
    {
        if let [name, uses, ..] = cells(line).as_slice() {
            let uses = uses
                .split(',')
                .map(str::trim)
                .filter(|u| !u.is_empty() && *u != "—");
            edges.insert(name.clone(), uses.map(ToOwned::to_owned).collect());
        }
    }
    edges
}

/// The cells of a row of a Markdown table, trimmed and without backticks.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let Some(inner) = line.strip_prefix('|').and_then(|l| l.strip_suffix('|')) else {
        return Vec::new();
    };
    inner
        .split('|')
        .map(|cell| cell.replace('`', "").trim().to_owned())
        .collect()
}

/// The output of `cargo metadata` for the workspace, without external dependencies.
pub(crate) fn cargo_metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo has built this test");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// The normal dependencies between the crates in `crates/`.
pub(crate) fn edges(metadata: &Value) -> Edges {
    let mut edges = Edges::new();
    for package in list(&metadata["packages"]) {
        let Some(name) = package["manifest_path"]
            .as_str()
            .and_then(|manifest| Path::new(manifest).parent())
            .and_then(crate_folder)
        else {
            continue;
        };
        let uses = list(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| crate_folder(Path::new(dependency["path"].as_str()?)))
            .collect();
        edges.insert(name, uses);
    }
    edges
}

/// The name of a folder in `crates/`.
fn crate_folder(path: &Path) -> Option<String> {
    let inside = path.parent()?.file_name()? == "crates";
    inside.then(|| path.file_name()?.to_str().map(ToOwned::to_owned))?
}

/// Where the table differs from cargo.
pub(crate) fn differences(written: &Edges, real: &Edges) -> Vec<String> {
    let mut findings = Vec::new();
    for name in written.keys().filter(|name| !real.contains_key(*name)) {
        findings.push(format!("the table lists {name}, which is not in crates/"));
    }
    for (name, uses) in real {
        let Some(said) = written.get(name) else {
            findings.push(format!("the table does not list {name}"));
            continue;
        };
        for extra in said.difference(uses) {
            findings.push(format!(
                "according to the table {name} uses {extra}; it does not"
            ));
        }
        for missing in uses.difference(said) {
            findings.push(format!(
                "{name} uses {missing}, which is missing from the table"
            ));
        }
    }
    findings
}

/// The crates in the order of `members = [...]` in the root manifest.
pub(crate) fn members(manifest: &str) -> Vec<String> {
    let lines = manifest
        .lines()
        .skip_while(|line| !line.starts_with("members"));
    lines
        .skip(1)
        .take_while(|line| line.trim() != "]")
        .filter_map(|line| line.trim().strip_prefix("\"crates/")?.strip_suffix("\","))
        .map(ToOwned::to_owned)
        .collect()
}

/// Dependencies on a crate further down, which contradict the order of the members.
pub(crate) fn upward_edges(members: &[String], edges: &Edges) -> Vec<String> {
    let position = |name: &str| members.iter().position(|member| member == name);
    let mut findings = Vec::new();
    for (name, uses) in edges {
        for used in uses {
            if position(name) <= position(used) {
                findings.push(format!(
                    "{name} uses {used}, which is not above it in Cargo.toml"
                ));
            }
        }
    }
    findings
}

/// Crates that only tests use: development dependencies.
const FOR_TESTS: [&str; 3] = ["testkit", "hyper", "tokio"];

/// The client of NATS needs a runtime: docs/decisions/0018-nats.md.
const EXCEPT: (&str, &str) = ("cluster", "tokio");

/// Other dependencies on crates that only tests may use.
pub(crate) fn uses_for_tests(metadata: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    for package in list(&metadata["packages"]) {
        for dependency in list(&package["dependencies"]) {
            let (name, used) = (&package["name"], &dependency["name"]);
            let is_for_tests = FOR_TESTS.iter().any(|one| used == one);
            let is_excepted = (name, used) == (&EXCEPT.0.into(), &EXCEPT.1.into());
            if is_for_tests && !is_excepted && dependency["kind"] != "dev" {
                findings.push(format!("{name} uses {used} outside its tests"));
            }
        }
    }
    findings
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TABLE: &str = "# A\n\ntext | with bar\n\n| crate | uses | must not |\n|---|---|---|\n\
                         | `plan` | — | act |\n| `engine` | `plan`, `results` | print |\n\nend\n";

    fn uses(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_table_is_parsed_with_dashes_and_backticks() {
        let table = table(TABLE);
        assert_eq!(table.len(), 2);
        assert_eq!(table["plan"], uses(&[]));
        assert_eq!(table["engine"], uses(&["plan", "results"]));
    }

    #[test]
    fn a_document_without_the_table_gives_no_rows() {
        assert!(table("| name | uses |\n|---|---|\n| a | b |\n").is_empty());
        assert!(table("").is_empty());
    }

    #[test]
    fn development_dependencies_and_crates_elsewhere_are_not_edges() {
        let metadata = json!({ "packages": [
            { "manifest_path": "/r/crates/cli/Cargo.toml", "dependencies": [
                { "kind": null, "path": "/r/crates/plan" },
                { "kind": "dev", "path": "/r/crates/origin" },
                { "kind": null } ] },
            { "manifest_path": "/r/bench/Cargo.toml", "dependencies": [] },
        ] });
        let edges = edges(&metadata);
        assert_eq!(edges.len(), 1);
        assert_eq!(edges["cli"], uses(&["plan"]));
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let written = Edges::from([("a".into(), uses(&["b"])), ("gone".into(), uses(&[]))]);
        let real = Edges::from([("a".into(), uses(&["c"])), ("new".into(), uses(&[]))]);
        let findings = differences(&written, &real);
        assert_eq!(findings.len(), 4, "{findings:?}");
        assert!(differences(&real, &real).is_empty());
    }

    #[test]
    fn a_program_with_a_crate_for_tests_is_found() {
        let found = |dependency: Value| {
            let package = json!({ "name": "cli", "dependencies": [dependency] });
            uses_for_tests(&json!({ "packages": [package] })).len()
        };
        assert_eq!(found(json!({ "name": "plan", "kind": null })), 0);
        assert_eq!(found(json!({ "name": "testkit", "kind": "dev" })), 0);
        assert_eq!(found(json!({ "name": "testkit", "kind": null })), 1);
        assert_eq!(found(json!({ "name": "tokio", "kind": "build" })), 1);
    }

    #[test]
    fn an_edge_against_the_order_of_members_is_found() {
        let manifest =
            "[workspace]\nmembers = [\n    \"crates/a\",\n    \"crates/b\",\n    \"tidy\",\n]\n";
        let members = members(manifest);
        assert_eq!(members, ["a", "b"]);
        assert!(upward_edges(&members, &Edges::from([("b".into(), uses(&["a"]))])).is_empty());
        assert_eq!(
            upward_edges(&members, &Edges::from([("a".into(), uses(&["b"]))])).len(),
            1
        );
    }
}
