//! A file with the options of one run: `wrkbench run FILE.toml`. Its keys are those of `[load]` in
//! an experiment file.

use std::path::Path;

use toml::Spanned;

use super::options::{LoadOption, LoadOptions, OptionValue, read_options};
use super::problems::{Problems, SpecError};
use super::read::{SECTIONS, file_text, top_of_file};
use super::value::{Value, one_or_more};

/// Options of a run, as a file has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFile {
    /// Where requests go, if the file says it, and the line of that.
    pub url: Option<(String, usize)>,
    /// The options of a plan, and others by their long names.
    pub options: LoadOptions,
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
        let mut repeated = Vec::new();
        for (key, value) in top.rest(&mut problems) {
            let line = problems.line(key.span().start);
            let name = key.get_ref().replace('_', "-");
            if SECTIONS.contains(&name.as_str()) || OF_EXPERIMENTS.contains(&name.as_str()) {
                let problem = format!(
                    "{name}: this is an experiment, which wrkbench sweep {} runs",
                    file.display()
                );
                // Other problems would be those of a file that is not meant.
                return Err(SpecError::new(file, Some(line), problem));
            } else if name == "url" {
                let url = value
                    .get_ref()
                    .scalar("a URL like \"http://host:port/path\"");
                read.url = problems.keep(line, &name, url).map(|url| (url, line));
            } else if REPEATED.contains(&name.as_str()) {
                repeated.extend(repeatable(name, &value, line, &mut problems));
            } else {
                others.push((key, value));
            }
        }
        read.options = read_options(others, folder, &mut problems);
        read.options.set(repeated);
        problems.into_result(file)?;
        Ok(read)
    }
}

fn repeatable(
    name: String,
    value: &Spanned<Value>,
    line: usize,
    problems: &mut Problems,
) -> Option<LoadOption> {
    let elements = one_or_more(value).iter();
    let texts = elements.map(|element| element.get_ref().scalar("a text, or a list of texts"));
    let texts = problems.keep(line, &name, texts.collect())?;
    Some(LoadOption {
        name,
        value: OptionValue::List(texts),
        line,
    })
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
            "--threads=2",
            "--connections=64",
            "--http2",
            "--header=A: b",
            "--header=C: d",
            "--body-file=/folder/b.json",
            "--fail-if=p99>50ms",
            "--fail-if=errors>0.1%",
            "--label=branch=main",
        ];
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(file.options.arguments(), expected);
        assert_eq!(file.url, Some(("http://h:1/p".to_owned(), 1)));
        assert_eq!(read("rate = 5").map(|file| file.url), Ok(None));
    }

    #[test]
    fn mistakes_have_their_lines() {
        for (text, expected) in [
            ("threads = ", "ci.toml:1: not TOML: "),
            (
                "a = 1\n[[target]]\nurl = 'x'\n",
                "ci.toml:2: target: this is an experiment, which wrkbench sweep ci.toml runs",
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
