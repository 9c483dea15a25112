//! Several paths as one reading, and patterns for file names.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{ReadError, Reading, not_understood, unreadable};

/// The path that means the given input.
const INPUT: &str = "-";

impl Reading {
    /// Reads each path once; `-` is `input`. Paths that cannot be read are among the problems.
    #[must_use]
    pub fn of_paths(paths: &[PathBuf], input: &mut dyn Read) -> Self {
        let mut parts = Vec::new();
        let (mut notes, mut problems) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for path in paths {
            // A run that is given twice must not count twice.
            if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                notes.push(format!("{}: given twice; read only once", path.display()));
                continue;
            }
            let part = if path == Path::new(INPUT) {
                let name = PathBuf::from("stdin");
                Self::of_input(input, &name).map(|reading| (name, reading))
            } else {
                Self::of_path(path).map(|reading| (path.clone(), reading))
            };
            match part {
                Ok(part) => parts.push(part),
                Err(error) => problems.push(error.to_string()),
            }
        }
        let mut reading = Self::join(parts);
        notes.append(&mut reading.notes);
        problems.append(&mut reading.problems);
        Self {
            notes,
            problems,
            ..reading
        }
    }
}

/// The paths in one argument: a path, several separated by commas, or patterns with `*` and `?`
/// in the file name. Sorted, without duplicates.
///
/// # Errors
/// When a folder cannot be read, or no file matches a pattern.
pub fn paths_of(argument: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let text = argument.to_str();
    let (Some(text), false) = (text, argument.exists()) else {
        return Ok(vec![argument.to_owned()]);
    };
    let mut paths = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let path = Path::new(part);
        if path.exists() || !part.contains(['*', '?']) {
            paths.push(path.to_owned());
        } else {
            paths.append(&mut matching(path)?);
        }
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// The files in a folder whose names match a pattern.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let folder = match pattern.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = pattern.file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_default();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
        let entry = entry.map_err(|error| unreadable(folder, error))?;
        let candidate = entry.file_name();
        if matches(name.as_bytes(), candidate.to_string_lossy().as_bytes()) {
            found.push(entry.path());
        }
    }
    if found.is_empty() {
        return Err(not_understood(pattern, "no file matches this pattern"));
    }
    Ok(found)
}

/// Matches a name against a pattern with `*` and `?`. After a mismatch, only the last `*` needs to
/// be tried again.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[read] => {
                at += 1;
                read += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, read) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("base-*.json", "base-1.json", true),
            ("base-*.json", "base-.json", true),
            ("base-*.json", "base-1.json.bak", false),
            ("*a*b*", "xxaxxbxaxb", true),
            ("?.txt", "é.txt", false),
            ("?.txt", "e.txt", true),
            ("*", "", true),
            ("a", "", false),
            ("", "a", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
        let long = "a".repeat(2_000);
        assert!(!matches("*a*a*a*a*a*b".as_bytes(), long.as_bytes()));
    }

    #[test]
    fn paths_are_separated_by_commas_and_sorted() {
        let paths = paths_of(Path::new("no/b.json,no/a.json,,no/b.json")).unwrap();
        assert_eq!(paths, [Path::new("no/a.json"), Path::new("no/b.json")]);
        let error = paths_of(Path::new("no-such-file-*.json")).unwrap_err();
        let expected = "no-such-file-*.json: no file matches this pattern";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_path_is_read_once_and_problems_are_collected() {
        let paths = ["-", "-", "no/such.json"].map(PathBuf::from);
        let reading = Reading::of_paths(&paths, &mut "no report".as_bytes());
        assert!(reading.observations.is_empty());
        assert_eq!(reading.notes, ["-: given twice; read only once"]);
        let problems = &reading.problems;
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("stdin: "), "{problems:?}");
        assert!(problems[1].contains("no/such.json"), "{problems:?}");
    }
}
