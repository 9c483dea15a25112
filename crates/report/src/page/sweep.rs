//! The page of a sweep.

use super::{Section, Subject};

/// What a sweep comes to, in the order of reading.
pub(crate) fn sections(_subject: &Subject<'_>) -> Vec<Section> {
    Vec::new()
}
