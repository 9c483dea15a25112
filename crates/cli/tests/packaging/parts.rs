//! What the program contains, by `scripts/third-party.sh` and `scripts/sbom.py`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use testkit::{Process, require};

use super::root;

/// What a script of ours prints.
fn printed(program: &str, script: &str) -> String {
    let mut command = Command::new(program);
    command
        .arg(root().join("scripts").join(script))
        .env("SOURCE_DATE_EPOCH", "1700000000");
    let output = Process::start(command).finish();
    assert_eq!(output.code, Some(0), "{script}: {}", output.stderr);
    output.stdout
}

/// The lines `NAME vVERSION: LICENCE` at the head of the licence texts.
fn licensed(texts: &str) -> BTreeSet<String> {
    let head = texts.split("\n\n").nth(1).expect("a list of crates");
    let crates = head.lines().filter_map(|line| line.split_once(": "));
    crates.map(|(name, _)| name.replace(" v", " ")).collect()
}

/// `NAME VERSION` of each component.
fn components(bill: &Value) -> BTreeSet<String> {
    let components = bill["components"].as_array().expect("components");
    let text = |component: &Value, key| component[key].as_str().expect("a text").to_owned();
    components
        .iter()
        .map(|component| format!("{} {}", text(component, "name"), text(component, "version")))
        .collect()
}

#[test]
fn the_bill_of_materials_names_what_the_licence_texts_are_about() {
    let Some(python) = require("python3") else {
        return;
    };
    let texts = printed("sh", "third-party.sh");
    let bill = printed(python.to_str().expect("a path"), "sbom.py");
    let bill: Value = serde_json::from_str(&bill).expect("a JSON document");
    let (licensed, components) = (licensed(&texts), components(&bill));
    assert!(licensed.len() > 100, "{licensed:?}");
    let missing: Vec<_> = licensed.difference(&components).collect();
    assert!(missing.is_empty(), "not in the bill: {missing:?}");
    // Other targets have a few crates more.
    let only_there = components.difference(&licensed).count();
    assert!(only_there < 5, "{:?}", components.difference(&licensed));
    for part in ["uPlot 1.6.32", "Copyright (c) 2022 Leon Sorokin", "LuaJIT"] {
        assert!(texts.contains(part), "{part} is not in the licence texts");
    }
}

#[test]
fn every_component_of_the_bill_is_used_by_the_program_or_by_another_component() {
    let Some(python) = require("python3") else {
        return;
    };
    let bill = printed(python.to_str().expect("a path"), "sbom.py");
    let bill: Value = serde_json::from_str(&bill).expect("a JSON document");
    assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    let strings = |value: &Value| -> Vec<String> {
        let values = value.as_array().into_iter().flatten();
        values
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let dependencies = bill["dependencies"].as_array().expect("dependencies");
    let used: BTreeSet<String> = dependencies
        .iter()
        .flat_map(|dependency| strings(&dependency["dependsOn"]))
        .collect();
    let components = bill["components"].as_array().expect("components");
    let named: BTreeSet<String> = components
        .iter()
        .map(|component| component["bom-ref"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(named, used);
}
