//! Golden files of each format, byte for byte. With `UPDATE_GOLDEN=1` the files are written.

use std::fs;
use std::path::PathBuf;

use report::export::ExportFormat;

use crate::runs::{self, Set};

/// Formats whose files are looked at here; the page has tests of its own.
fn text_formats() -> impl Iterator<Item = ExportFormat> {
    let all = ExportFormat::ALL.iter().copied();
    all.filter(|format| *format != ExportFormat::Html)
}

#[track_caller]
#[allow(
    clippy::disallowed_methods,
    reason = "the environment says whether files are written"
)]
fn check(case: &str, set: &Set) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/export");
    for format in text_formats() {
        let shown = match set.shown(format) {
            Ok(shown) => shown,
            Err(error) => format!("error: {error}\n"),
        };
        let path = folder.join(format!("{case}.{}", format.name()));
        if std::env::var("UPDATE_GOLDEN").is_ok() {
            fs::write(&path, &shown).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            shown == golden,
            "{}: shown:\n{shown}\nexpected:\n{golden}",
            path.display()
        );
    }
}

#[test]
fn one_run_is_shown_in_every_format_as_it_was() {
    check("one", &runs::one().judged_by("p50>1ms,errors>0,p99.9>1s"));
}

#[test]
fn several_runs_are_shown_in_every_format_as_they_were() {
    check("several", &runs::several().titled("Old and new"));
}

#[test]
fn a_sweep_with_a_failed_trial_is_shown_in_every_format_as_it_was() {
    check("sweep", &runs::sweep().judged_by("p50>2ms"));
}

#[test]
fn texts_of_the_three_tools_are_shown_in_every_format_as_they_were() {
    check("texts", &runs::texts().judged_by("p99>1ms"));
}

#[test]
fn every_format_renders_every_kind_of_run() {
    for (name, set) in runs::all() {
        for &format in ExportFormat::ALL {
            let has_histogram = set.runs.iter().any(|run| run.result.is_some());
            let several = set.runs.iter().filter(|run| run.result.is_some()).count() > 1;
            let refused = match format {
                ExportFormat::Hgrm => !has_histogram || several,
                ExportFormat::Hlog => !has_histogram,
                _ => false,
            };
            match set.shown(format) {
                Ok(shown) => {
                    assert!(!refused, "{name} as {}: is not refused", format.name());
                    let is_bare = shown.is_empty() && !set.runs.is_empty();
                    assert!(!is_bare, "{name} as {}: empty", format.name());
                    for no_number in ["NaN", "inf ", "inf\n", "Infinity"] {
                        assert!(
                            format == ExportFormat::Html || !shown.contains(no_number),
                            "{name} as {}: {no_number}:\n{shown}",
                            format.name()
                        );
                    }
                }
                Err(error) => {
                    assert!(refused, "{name} as {}: {error}", format.name());
                    assert_eq!(error.to_string().lines().count(), 1);
                }
            }
        }
    }
}

#[test]
fn names_and_file_extensions_of_formats_are_unique() {
    let mut names: Vec<&str> = ExportFormat::ALL.iter().map(|f| f.name()).collect();
    let mut endings: Vec<&str> = ExportFormat::ALL
        .iter()
        .flat_map(|format| format.endings().iter().copied())
        .collect();
    for words in [&mut names, &mut endings] {
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count, "{words:?}");
    }
    for (name, expected) in [
        ("a/report.html", Some(ExportFormat::Html)),
        ("REPORT.HTM", Some(ExportFormat::Html)),
        ("r.xml", Some(ExportFormat::Junit)),
        ("html", None),
        ("r.txt", None),
        ("", None),
    ] {
        assert_eq!(ExportFormat::of_file(name.as_ref()), expected, "{name:?}");
    }
}
