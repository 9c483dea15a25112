//! The kernel interface that a plan asks for.

use serde::{Deserialize, Serialize};

/// The backend that a plan asks for. The result has the one that was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BackendChoice {
    /// io_uring if the kernel allows it, otherwise epoll.
    #[default]
    Auto,
    /// io_uring; an error if the kernel does not allow it.
    Uring,
    /// epoll, even if the kernel allows io_uring.
    Epoll,
}

impl BackendChoice {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Uring, Self::Epoll];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        }
    }
}
