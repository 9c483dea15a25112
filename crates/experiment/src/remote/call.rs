//! What a machine elsewhere is asked to do, and what it returns.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::host::CommandOutput;
use crate::restore::RestoreReport;
use crate::safety::SafetyError;
use crate::transaction::Effective;

/// What a machine elsewhere is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HostCall {
    /// Say what it is.
    Facts,
    /// Read a file of at most [`crate::FILE_SIZE_MAX`] bytes.
    Read { path: PathBuf },
    /// Check that a file can be written.
    CheckWritable { path: PathBuf },
    /// Look for a program.
    HasProgram { name: String },
    /// Run a shell command and return its output.
    Run {
        /// A shell command line.
        command: String,
        /// Added to its environment.
        environment: BTreeMap<String, String>,
        /// The command is killed after this time.
        limit: Duration,
    },
    /// Read the values that [`crate::observe`] reads.
    Observe {
        /// Names of kernel settings.
        sysctls: Vec<String>,
    },
    /// Check whether changes can begin: [`crate::Transaction::check`].
    Check,
    /// Take the lock and begin the changes: [`crate::Transaction::begin`].
    Begin {
        /// Name of the experiment.
        experiment: String,
    },
    /// Make a change and record it in the journal there: [`crate::Transaction::change`].
    Change { change: Change },
    /// Restore everything that was changed: [`crate::Transaction::restore_all`].
    RestoreAll,
}

impl HostCall {
    /// The command that it waits for, and its time limit. The transaction has other commands.
    pub(crate) fn command(&self) -> Option<(&str, Duration)> {
        match self {
            Self::Run { command, limit, .. } => Some((command, *limit)),
            Self::Change {
                change: Change::Command { apply, limit, .. },
            } => Some((apply, *limit)),
            _ => None,
        }
    }
}

/// What a call returns.
pub type HostResult = Result<HostReturn, HostFailure>;

/// What a successful call returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostReturn {
    /// The reply to [`HostCall::Facts`].
    Facts(HostFacts),
    /// The content of a file.
    Content(#[serde(with = "crate::content::bytes")] Vec<u8>),
    /// Whether the program was found.
    HasProgram(bool),
    /// The result of a command.
    Ran(CommandOutput),
    /// The reply to [`HostCall::Observe`]: values by their names.
    Observed(BTreeMap<String, String>),
    /// The reply to [`HostCall::Change`].
    Changed(Effective),
    /// What happened to everything that was changed.
    Restored(RestoreReport),
    /// The reply to a call that returns nothing else.
    Done,
}

/// What a machine says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Whether the user of the agent is root.
    pub is_root: bool,
    /// The command that restores it by hand, there.
    pub restore: String,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFailure {
    /// An operation of the system failed there.
    System {
        /// A file does not exist.
        is_absence: bool,
        /// What the system says, in one line.
        text: String,
    },
    /// A change was not made.
    Refused {
        /// The reason, in one line.
        text: String,
        /// No further change can be made safely.
        ends_sweep: bool,
    },
    /// A command that applies a level failed.
    Apply {
        /// Name of the factor.
        name: String,
        command: String,
        /// What the command printed, and how it ended.
        output: Box<CommandOutput>,
    },
}

impl HostFailure {
    pub(crate) fn ends_sweep(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                ends_sweep: true,
                ..
            }
        )
    }
}

impl fmt::Display for HostFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::System { text, .. } | Self::Refused { text, .. } => text.clone(),
            Self::Apply {
                name,
                command,
                output,
            } => format!("{name}: `{command}` {}", output.failure()),
        };
        f.write_str(&super::plain(&text))
    }
}

impl From<io::Error> for HostFailure {
    fn from(error: io::Error) -> Self {
        Self::System {
            is_absence: error.kind() == io::ErrorKind::NotFound,
            text: error.to_string(),
        }
    }
}

impl From<HostFailure> for io::Error {
    fn from(failure: HostFailure) -> Self {
        let kind = match &failure {
            HostFailure::System {
                is_absence: true, ..
            } => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, failure.to_string())
    }
}

impl From<SafetyError> for HostFailure {
    fn from(error: SafetyError) -> Self {
        let ends_sweep = error.ends_sweep();
        match error {
            SafetyError::Apply {
                name,
                command,
                output,
            } => Self::Apply {
                name,
                command,
                output,
            },
            error => Self::Refused {
                text: error.to_string(),
                ends_sweep,
            },
        }
    }
}
