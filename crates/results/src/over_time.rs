//! The form in which series of equal, consecutive intervals are saved.

use serde::Deserialize;

/// A series as read from a document, not yet checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenRows<Row> {
    pub(crate) interval_ms: u64,
    pub(crate) rows: Vec<Row>,
}
