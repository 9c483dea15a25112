//! HdrHistogram's files: the distribution of one run, the log of one or several.

use std::io::Write;

use analysis::Observation;
use results::RunResult;

use super::{Export, ExportError, ExportFormat};
use crate::hlog::TaggedRun;
use crate::{hgrm, hlog};

/// Longer tags are cut.
const TAG_CHARS_MAX: usize = 120;

/// Writes the distribution of the one run with a histogram. Histograms of several runs are not
/// added up, since they may be of different things.
pub(super) fn render_hgrm(export: &Export<'_>, output: &mut dyn Write) -> Result<(), ExportError> {
    match measured(export).as_slice() {
        [] => Err(ExportError::NoHistogram {
            format: ExportFormat::Hgrm.name(),
        }),
        [(_, result)] => Ok(hgrm::render(result, output)?),
        several => Err(ExportError::OneRunOnly {
            runs: several.len(),
        }),
    }
}

/// Writes the log: one run as `--hlog` does, several with a tag for each, in the order of their
/// start.
pub(super) fn render_hlog(export: &Export<'_>, output: &mut dyn Write) -> Result<(), ExportError> {
    let mut runs = measured(export);
    match runs.as_slice() {
        [] => Err(ExportError::NoHistogram {
            format: ExportFormat::Hlog.name(),
        }),
        [(_, result)] => Ok(hlog::render(result, output)?),
        _ => {
            runs.sort_by_key(|(_, result)| result.window.started_unix_ms);
            let tagged: Vec<TaggedRun<'_>> = runs
                .iter()
                .zip(1..)
                .map(|((run, result), number)| TaggedRun {
                    tag: tag(run, number),
                    result,
                })
                .collect();
            Ok(hlog::render_tagged(&tagged, output)?)
        }
    }
}

/// The runs that have histograms.
fn measured<'a>(export: &Export<'a>) -> Vec<(&'a Observation, &'a RunResult)> {
    let runs = export.runs().iter();
    runs.filter_map(|run| Some((run, run.result.as_deref()?)))
        .collect()
}

/// `7:buffers=262144:php:run=3`. The number makes it unique; readers split fields at commas and
/// blanks.
fn tag(run: &Observation, number: usize) -> String {
    let levels = run
        .settings
        .iter()
        .map(|setting| format!("{}={}", setting.factor, setting.level));
    let names = run.profile.iter().chain(&run.target).cloned();
    let words: Vec<String> = std::iter::once(number.to_string())
        .chain(levels)
        .chain(names)
        .collect();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.=:/+".contains(c) {
            c
        } else {
            '_'
        }
    };
    let tag: String = words.join(":").chars().map(plain).collect();
    let cut: String = tag.chars().take(TAG_CHARS_MAX).collect();
    format!("{cut}:run={}", run.run)
}
