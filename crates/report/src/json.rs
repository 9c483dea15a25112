//! The saved document, with the percentiles asked for.

use std::io::{self, Write};

use results::RunResult;

use crate::TextOptions;

/// Writes the document that [`results::file::load`] reads. wrk's correction is not applied: only
/// what was measured is saved.
pub(crate) fn render(
    result: &RunResult,
    options: &TextOptions,
    output: &mut dyn Write,
) -> io::Result<()> {
    results::file::save(
        result,
        options.percentiles.as_deref().unwrap_or(&[]),
        output,
    )
}
