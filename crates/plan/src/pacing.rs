//! When requests are due.

use serde::{Deserialize, Serialize};

/// The declared shape of the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Pacing {
    /// Closed loop: a connection sends its next request when the one before is answered.
    #[default]
    Closed,
}
