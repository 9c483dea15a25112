//! `-o FILE` and `--json FILE`: files of a report, with one meaning in every command.

use std::path::{Path, PathBuf};

use clap::Args;
use report::export::ExportFormat;

use super::Refusal;

/// Where reports go at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct ReportFileArgs {
    /// Write a report to this file; .html is a page.
    ///
    /// The extension says the format, as for wrkbench report.
    #[arg(short, long, value_name = "FILE", allow_hyphen_values = true)]
    output: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    json: Option<PathBuf>,
}

/// A file of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportFile {
    /// The option that names the file.
    pub(crate) option: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) format: ExportFormat,
}

impl ReportFile {
    /// The file of `-o`.
    ///
    /// # Errors
    /// When its extension does not say the format.
    pub(super) fn of_output(path: PathBuf) -> Result<Self, Refusal> {
        refuse_stdout("-o", &path)?;
        Ok(Self {
            option: "-o",
            format: format_of_name(&path, "")?,
            path,
        })
    }
}

impl ReportFileArgs {
    /// # Errors
    /// When a format is not known, or both options name the same file.
    pub(super) fn files(&self) -> Result<Vec<ReportFile>, Refusal> {
        let mut files = Vec::new();
        files.extend(self.output.clone().map(ReportFile::of_output).transpose()?);
        if let Some(path) = &self.json {
            refuse_stdout("--json", path)?;
            if self.output.as_ref() == Some(path) {
                return Err(Refusal(format!("--json {path:?}: is also the file of -o")));
            }
            files.push(ReportFile {
                option: "--json",
                path: path.clone(),
                format: ExportFormat::Json,
            });
        }
        Ok(files)
    }
}

/// The format that the extension of `-o FILE` says. `alternative` is what else can say it, for the
/// message.
///
/// # Errors
/// When it says none.
pub(super) fn format_of_name(path: &Path, alternative: &str) -> Result<ExportFormat, Refusal> {
    ExportFormat::of_file(path).ok_or_else(|| {
        let endings = ExportFormat::ALL
            .iter()
            .filter_map(|format| format.endings().first());
        let endings: Vec<String> = endings.map(|ending| format!(".{ending}")).collect();
        Refusal(format!(
            "-o {path:?}: unknown file name extension (expected {}{alternative})",
            endings.join(", ")
        ))
    })
}

/// Stdout has the tables of an experiment, or the report of a run.
fn refuse_stdout(option: &str, path: &Path) -> Result<(), Refusal> {
    if path.as_os_str() == "-" {
        Err(Refusal(format!(
            "{option} \"-\": stdout has the text of the report (expected a file)"
        )))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(output: Option<&str>, json: Option<&str>) -> Result<Vec<ReportFile>, String> {
        let arguments = ReportFileArgs {
            output: output.map(PathBuf::from),
            json: json.map(PathBuf::from),
        };
        arguments.files().map_err(|Refusal(line)| line)
    }

    #[test]
    fn the_extension_says_the_format_and_json_is_always_json() {
        let file = |option, path: &str, format| ReportFile {
            option,
            path: path.into(),
            format,
        };
        assert_eq!(files(None, None), Ok(Vec::new()));
        assert_eq!(
            files(Some("a.md"), Some("b.txt")),
            Ok(vec![
                file("-o", "a.md", ExportFormat::Markdown),
                file("--json", "b.txt", ExportFormat::Json)
            ])
        );
    }

    #[test]
    fn files_that_cannot_be_meant_are_refused() {
        for (output, json, said) in [
            (Some("a"), None, "-o \"a\": unknown file name extension"),
            (Some("-"), None, "-o \"-\": stdout has the text"),
            (None, Some("-"), "--json \"-\": stdout has the text"),
            (Some("a.json"), Some("a.json"), "is also the file of -o"),
        ] {
            let error = files(output, json).expect_err("it cannot be meant");
            assert!(error.contains(said), "{error}");
        }
    }
}
