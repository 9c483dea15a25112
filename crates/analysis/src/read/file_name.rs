//! The settings of a run in the names of buffertest's files.

use std::path::Path;
use std::sync::LazyLock;

use regex_lite::Regex;
use results::Setting;

use crate::notes::regex;

/// A prefix, keys with their values, the run.
static NAME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[^-]*-((?:[A-Za-z_][^-]*-[^-]+-)+)(\d+)$"));

/// Settings and run number in a name such as `buffertest-rmem_max-262144-wmem_max-262144-1.json`.
/// Names of folders are ignored.
pub(super) fn settings_and_run(path: &Path) -> Option<(Vec<Setting>, u32)> {
    let name = NAME.captures(path.file_stem()?.to_str()?)?;
    let words: Vec<&str> = name[1].split('-').collect();
    let settings = words.chunks_exact(2).map(|pair| Setting {
        factor: pair[0].to_owned(),
        level: pair[1].to_owned(),
    });
    Some((settings.collect(), name[2].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Option<(Vec<(String, String)>, u32)> {
        let (settings, run) = settings_and_run(Path::new(path))?;
        let pairs = settings.into_iter().map(|s| (s.factor, s.level)).collect();
        Some((pairs, run))
    }

    #[test]
    fn settings_and_run_come_from_the_file_name_only() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            read("my-test-logs/buffertest-rmem_max-262144-wmem_max-524288-12.json"),
            Some((
                vec![pair("rmem_max", "262144"), pair("wmem_max", "524288")],
                12
            ))
        );
        assert_eq!(
            read("x-somaxconn-4096-1.log"),
            Some((vec![pair("somaxconn", "4096")], 1))
        );
    }

    #[test]
    fn other_file_names_have_no_settings() {
        for name in [
            "buffertest.json",
            "result-1.json",
            "buffertest-rmem_max-262144-wmem_max-1.json",
            "buffertest-rmem_max-262144-wmem_max-262144-x.json",
            "ss_output-rmem_max-262144-wmem_max-262144.log",
            "2026-11-21-12-30.json",
            "a-b--1.json",
            "",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }
}
