//! Every numeric network setting is changed and restored, together with the settings that the
//! kernel changes with it.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use experiment::{Change, Machine, MachineSettings, Transaction};

use crate::lab::Lab;
use testkit::Folder;

/// Set in the process that changes them: the namespace in which it must not run.
const OUTSIDE: &str = "WRKBENCH_TEST_OUTSIDE";

const TEST: &str = "settings::every_setting_is_restored_with_those_that_depend_on_it";

#[test]
fn every_setting_is_restored_with_those_that_depend_on_it() {
    if let Ok(outside) = env::var(OUTSIDE) {
        assert_ne!(namespace(), outside, "these are the machine's own settings");
        change_everything();
        return;
    }
    let Some(lab) = Lab::new() else {
        return;
    };
    // `conf/default` is copied to interfaces, but not to `lo`.
    let link = lab.output(
        "ip",
        &["link", "add", "v0", "type", "veth", "peer", "name", "v1"],
    );
    assert!(link.status.success(), "{link:?}");
    let before = lab.state();
    let outside = format!("{OUTSIDE}={}", namespace());
    let this = env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let changed = lab.output("env", &[&outside, this, "--exact", TEST, "--nocapture"]);
    let said = String::from_utf8_lossy(&changed.stdout).into_owned();
    let errors = String::from_utf8_lossy(&changed.stderr);
    assert!(changed.status.success(), "{said}{errors}");
    assert!(said.contains("1 passed"), "{said}");
    assert_eq!(lab.differences(&before), Vec::<String>::new(), "{said}");
}

fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/net").unwrap();
    link.to_string_lossy().into_owned()
}

/// Changes all settings at once, in both orders: of two settings that change each other, the sweep
/// applies the first.
fn change_everything() {
    let place = Folder::for_all_users();
    let mut settings = numbers();
    assert!(settings.len() > 300, "{} settings", settings.len());
    for order in ["forwards", "backwards"] {
        let before = everything();
        let mut machine = machine();
        let folder = PathBuf::from(place.file(order));
        let mut transaction = Transaction::begin(&mut machine, &folder, "everything").unwrap();
        let mut refused = Vec::new();
        let mut changed = 0;
        for (path, present) in &settings {
            let key = path.strip_prefix("/proc/sys").unwrap().to_str().unwrap();
            let mut why = String::new();
            let is_changed = candidates(present).into_iter().any(|value| {
                let change = Change::Sysctl {
                    key: key.to_owned(),
                    value,
                };
                let made = transaction.change(&mut machine, &change);
                why = made
                    .as_ref()
                    .err()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                made.is_ok()
            });
            changed += usize::from(is_changed);
            if !is_changed {
                refused.push(why);
            }
        }
        println!(
            "{order}: {changed} changed, refused:\n  {}",
            refused.join("\n  ")
        );
        assert!(changed > 300, "{order}: only {changed} changed");
        let report = transaction.restore_all(&mut machine);
        assert!(report.is_complete(), "{order}: {report:?}");
        let now = everything();
        let differences: Vec<_> = before
            .iter()
            .filter(|(path, was)| now.get(*path) != Some(*was))
            .map(|(path, was)| format!("{}: was {was:?}, is {:?}", path.display(), now.get(path)))
            .collect();
        assert_eq!(differences, Vec::<String>::new(), "{order}");
        settings.reverse();
    }
}

/// Values that differ from the current one. The kernel accepts some of them.
fn candidates(present: &[i64]) -> Vec<String> {
    let text = |numbers: Vec<i64>| {
        let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        words.join(" ")
    };
    let all = |change: fn(i64) -> i64| text(present.iter().map(|number| change(*number)).collect());
    let mut candidates = vec![
        all(|n| n.saturating_add(1)),
        all(|n| n - 1),
        all(|n| n / 2),
        all(|n| i64::from(n == 0)),
    ];
    candidates.retain(|value| *value != text(present.to_vec()));
    candidates
}

/// The settings that are numbers and can be written.
fn numbers() -> Vec<(PathBuf, Vec<i64>)> {
    let number = |word: &str| word.parse().ok();
    everything()
        .into_iter()
        .filter(|(path, _)| fs::OpenOptions::new().write(true).open(path).is_ok())
        .filter_map(|(path, content)| {
            let numbers: Option<Vec<i64>> = content.split_whitespace().map(number).collect();
            Some((path, numbers.filter(|numbers| !numbers.is_empty())?))
        })
        .collect()
}

/// Every readable network setting.
fn everything() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::from("/proc/sys/net")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(content) = fs::read_to_string(&path)
                && !counts(&path)
            {
                found.insert(path, content);
            }
        }
    }
    found
}

/// Whether it is a counter rather than a setting.
fn counts(path: &Path) -> bool {
    path.to_string_lossy().ends_with("_count")
}

fn machine() -> Machine {
    Machine::new(MachineSettings {
        wall_clock: || None,
        guardian: Some(Box::new(|journal| {
            let mut guardian = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
            guardian.arg("guardian").arg(journal);
            guardian
        })),
    })
}
