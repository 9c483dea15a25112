//! Arguments of `wrkbench man`.

use std::path::PathBuf;

use clap::Args;

use super::guide;

/// Print a manual page, or write all of them to a folder
///
/// The pages are in roff, as man(1) reads them.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ManArgs {
    /// Command whose page to print [default: the page of the whole program]
    #[arg(value_name = "COMMAND", value_parser = guide::commands(), conflicts_with = "output_dir")]
    pub(crate) command: Option<String>,
    /// Write all pages to this folder, which is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
}
