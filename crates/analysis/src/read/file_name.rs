//! The settings of a run in the names of buffertest's files.

use std::path::Path;

use results::Setting;

/// Settings and run number in a name such as `buffertest-rmem_max-262144-wmem_max-262144-1.json`: a
/// prefix, keys with their values, the run. Names of folders are ignored.
pub(super) fn settings_and_run(path: &Path) -> Option<(Vec<Setting>, u32)> {
    let stem = path.file_stem()?.to_str()?;
    let words: Vec<&str> = stem.split('-').collect();
    let [_, pairs @ .., run] = words.as_slice() else {
        return None;
    };
    let run = run
        .parse()
        .ok()
        .filter(|_| run.bytes().all(|b| b.is_ascii_digit()))?;
    let is_key = |key: &str| key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let well_formed = !pairs.is_empty()
        && pairs.len().is_multiple_of(2)
        && pairs
            .chunks_exact(2)
            .all(|pair| is_key(pair[0]) && !pair[1].is_empty());
    let settings = pairs.chunks_exact(2).map(|pair| Setting {
        factor: pair[0].to_owned(),
        level: pair[1].to_owned(),
    });
    well_formed.then(|| (settings.collect(), run))
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
