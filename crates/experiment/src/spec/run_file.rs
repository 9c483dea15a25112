//! A file with the options of one run: `wrkbench run FILE.toml`. Its keys are those of `[load]` in
//! an experiment file.

use std::path::Path;

use toml::Spanned;

use super::options::{LoadOptions, read_options};
use super::problems::{Problems, SpecError};
use super::read::{SECTIONS, file_text, top_of_file};
use super::value::{Value, one_or_more};

/// Options of a run, as a file has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFile {
    /// Where requests go, if the file says it.
    pub url: Option<String>,
    /// The options of a plan, and others by their long names.
    pub options: LoadOptions,
    /// Options that may be repeated and are not part of a plan, with their values in order:
    /// conditions and labels.
    pub repeated: Vec<(&'static str, String)>,
}

/// Options with a list of values that no experiment has.
const REPEATED: [&str; 2] = ["fail-if", "label"];

/// Keys at the top of an experiment file that no run has.
const OF_EXPERIMENTS: [&str; 4] = ["rounds", "results", "judge", "until"];

impl RunFile {
    /// Reads a file. Names of files in it are relative to its folder.
    ///
    /// # Errors
    /// If it cannot be read, or is not such a file: every problem with its line.
    pub fn read(file: &Path) -> Result<Self, SpecError> {
        let (text, folder) = file_text(file)?;
        Self::parse(&text, file, &folder)
    }

    fn parse(text: &str, file: &Path, folder: &Path) -> Result<Self, SpecError> {
        let mut problems = Problems::new(text);
        let mut top = top_of_file(text, file, &problems)?;
        let mut read = Self::default();
        let mut others = Vec::new();
        for (key, value) in top.rest(&mut problems) {
            let line = problems.line(key.span().start);
            let name = key.get_ref().replace('_', "-");
            if SECTIONS.contains(&name.as_str()) || OF_EXPERIMENTS.contains(&name.as_str()) {
                let problem = format!(
                    "{name}: this is an experiment, which wrkbench sweep {} runs",
                    file.display()
                );
                problems.add(line, problem);
            } else if name == "url" {
                let url = value
                    .get_ref()
                    .scalar("a URL like \"http://host:port/path\"");
                read.url = problems.keep(line, &name, url);
            } else if let Some(option) = REPEATED.iter().find(|option| **option == name) {
                read.repeat(option, &value, line, &mut problems);
            } else {
                others.push((key, value));
            }
        }
        read.options = read_options(others, folder, &mut problems);
        problems.into_result(file)?;
        Ok(read)
    }

    fn repeat(
        &mut self,
        option: &'static str,
        value: &Spanned<Value>,
        line: usize,
        problems: &mut Problems,
    ) {
        for element in one_or_more(value) {
            let text = element.get_ref().scalar("a text, or a list of texts");
            if let Some(text) = problems.keep(line, option, text) {
                self.repeated.push((option, text));
            }
        }
    }

    /// The command line of the run, without the program's name. `url` is in place of that of the
    /// file.
    #[must_use]
    pub fn arguments(&self, url: Option<&str>) -> Vec<String> {
        let repeated = self.repeated.iter();
        let mut arguments: Vec<String> = repeated
            .map(|(option, text)| format!("--{option}={text}"))
            .collect();
        let url = url.or(self.url.as_deref());
        let mut rest = self.options.arguments(url.unwrap_or_default());
        // Without a URL there is none to leave out.
        if url.is_none() {
            rest.retain(|argument| !argument.is_empty());
        }
        arguments.extend(rest);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RunFile, String> {
        let read = RunFile::parse(text, Path::new("ci.toml"), Path::new("/folder"));
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_a_command_line() {
        let file = read(
            "url = 'http://h:1/p'\nthreads = 2\nconnections = 64\nhttp2 = true\n\
             header = ['A: b', 'C: d']\nbody_file = 'b.json'\n\
             fail-if = ['p99>50ms', 'errors>0.1%']\nlabel = 'branch=main'\n",
        );
        let expected = [
            "--fail-if=p99>50ms",
            "--fail-if=errors>0.1%",
            "--label=branch=main",
            "--threads=2",
            "--connections=64",
            "--http2",
            "--header=A: b",
            "--header=C: d",
            "--body-file=/folder/b.json",
            "http://h:1/p",
        ];
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(file.arguments(None), expected);
        let other = file.arguments(Some("http://other/"));
        assert_eq!(other.last().map(String::as_str), Some("http://other/"));
        assert_eq!(
            read("rate = 5").map(|it| it.arguments(None)),
            Ok(vec!["--rate=5".to_owned()])
        );
    }

    #[test]
    fn mistakes_have_their_lines() {
        for (text, expected) in [
            ("threads = ", "ci.toml:1: not TOML: "),
            (
                "a = 1\n[[target]]\nurl = 'x'\n",
                "ci.toml:2: target: this is an experiment, which",
            ),
            (
                "rounds = 5\n",
                "ci.toml:1: rounds: this is an experiment, which wrkbench sweep ci.toml",
            ),
            ("\nurl = ['a']\n", "ci.toml:2: url: "),
            ("fail_if = [['p99>1s']]", "ci.toml:1: fail-if: "),
            ("threads = 1\nthreads = 2", "ci.toml:2: not TOML: "),
            (
                "connections = [1, 2]",
                "ci.toml:1: connections: takes one value",
            ),
            ("--threads = 1", "ci.toml:1: "),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
