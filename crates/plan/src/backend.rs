//! Which kernel interface is asked for.

use serde::{Deserialize, Serialize};

/// The wish; what really ran stands in the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendChoice {
    /// The one that measures faster for this load, if the kernel allows it.
    #[default]
    Auto,
    /// io_uring, or an error when the kernel forbids it.
    Uring,
    /// epoll.
    Epoll,
}
