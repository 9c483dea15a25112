//! Arguments of `wrkbench completions`.

use clap::Args;
use clap_complete::Shell;

/// Print a completion script for a shell
///
/// The script completes commands, options, their values and file names after `wrkbench`. Links
/// named wrk, wrk2 and wrk-cmm have no commands, so it does not apply to them.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
