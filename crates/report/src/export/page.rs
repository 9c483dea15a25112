//! The page, as one format among others.

use std::io::{self, Write};

use super::Export;

/// Writes one HTML file.
pub(super) fn render(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    crate::page::render(&crate::page::of(&export.subject), output)
}
