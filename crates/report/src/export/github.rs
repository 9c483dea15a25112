//! Annotations of GitHub's workflows: `::error title=...::message`, one line each on stdout
//! (<https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands>).

use std::io::{self, Write};

use plan::{printable, printable_lines};
use presentation::words::counted;

use super::remarks::{self, Weight};
use super::{Export, names};

/// Writes the remarks, errors first: GitHub shows ten of each kind. The last line is a summary, so
/// that the log is never empty.
pub(super) fn render(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    for remark in remarks::all(export) {
        let command = match remark.weight {
            Weight::Error => "error",
            Weight::Limit | Weight::Warning => "warning",
            Weight::Notice => "notice",
        };
        write_command(command, &remark.title, &remark.lines.join("\n"), output)?;
    }
    let runs = export.runs();
    let failed = runs.iter().filter(|run| run.failure.is_some()).count();
    let summary = format!(
        "{}, {failed} failed; {}",
        counted(runs.len() as u64, "run"),
        counted(export.criteria.len() as u64, "condition")
    );
    write_command("notice", &names::short(export.title()), &summary, output)
}

fn write_command(
    command: &str,
    title: &str,
    message: &str,
    output: &mut dyn Write,
) -> io::Result<()> {
    let (title, message) = (property(&printable(title)), data(&printable_lines(message)));
    writeln!(output, "::{command} title={title}::{message}")
}

/// A message, escaped as in GitHub's own toolkit.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// The value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
