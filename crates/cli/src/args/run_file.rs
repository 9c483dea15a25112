//! `wrkbench run FILE.toml`: the options of a run in a file, in place of the file's name on the
//! command line. What follows overrides the file, since the last of repeated options wins.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use experiment::RunFile;

use super::Refusal;

/// Replaces the file by what it says, if the first argument, or that of `run`, is one.
///
/// # Errors
/// If the file cannot be used.
pub(super) fn expanded(arguments: Vec<OsString>) -> Result<Vec<OsString>, Refusal> {
    let at = usize::from(arguments.first().is_some_and(|first| first == "run"));
    let Some(file) = arguments.get(at).filter(|argument| is_file(argument)) else {
        return Ok(arguments);
    };
    let read = RunFile::read(Path::new(file)).map_err(|error| Refusal(error.to_string()))?;
    let (before, rest) = arguments.split_at(at);
    let rest = &rest[1..];
    let options = rest.iter().take_while(|argument| *argument != "--");
    let url = options
        .filter_map(|argument| argument.to_str())
        .find(|text| {
            let is_option = text.starts_with('-');
            !is_option && text.contains("://")
        });
    let mut given: Vec<OsString> = read
        .arguments(url)
        .into_iter()
        .map(OsString::from)
        .collect();
    // What follows `--` is for the script.
    let end = given
        .iter()
        .position(|argument| argument == "--")
        .unwrap_or(given.len());
    let of_script = given.split_off(end);
    let others = rest
        .iter()
        .filter(|argument| url.is_none_or(|url| *argument != url))
        .cloned();
    let has_own = rest.iter().any(|argument| argument == "--");
    let all = before.iter().cloned().chain(given).chain(others);
    Ok(match has_own {
        true => all.collect(),
        false => all.chain(of_script).collect(),
    })
}

/// Whether an argument is a file of options: no URL ends like this without a scheme.
fn is_file(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    text.ends_with(".toml") && !text.starts_with('-') && !text.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Folder;

    fn line(folder: &Folder, arguments: &[&str]) -> Result<String, String> {
        let file = folder.file("ci.toml");
        let arguments = arguments.iter().map(|it| match *it {
            "FILE" => OsString::from(&file),
            other => OsString::from(other),
        });
        let expanded = expanded(arguments.collect()).map_err(|Refusal(text)| text)?;
        Ok(expanded
            .join(OsStr::new(" "))
            .to_string_lossy()
            .into_owned())
    }

    #[test]
    fn a_file_stands_for_its_options_and_others_follow() {
        let folder = Folder::new();
        folder.file_with(
            "ci.toml",
            "url = 'http://h:1/'\nthreads = 2\nscript = '/s.lua'\nscript_arguments = ['a']\n",
        );
        for (arguments, expected) in [
            (
                &["run", "FILE"][..],
                "run --threads=2 --script=/s.lua http://h:1/ -- a",
            ),
            (
                &["FILE", "-t4"],
                "--threads=2 --script=/s.lua http://h:1/ -t4 -- a",
            ),
            (
                &["run", "FILE", "-t4", "http://other/", "--", "b"],
                "run --threads=2 --script=/s.lua http://other/ -t4 -- b",
            ),
            (&["-t4", "FILE"], &format!("-t4 {}", folder.file("ci.toml"))),
            (&["sweep", "x.toml"], "sweep x.toml"),
            (&["http://h/x.toml"], "http://h/x.toml"),
        ] {
            assert_eq!(line(&folder, arguments).as_deref(), Ok(expected));
        }
        let missing = line(&folder, &["run", "none.toml"]).expect_err("there is no such file");
        assert!(
            missing.starts_with("none.toml: cannot read the file"),
            "{missing}"
        );
    }
}
