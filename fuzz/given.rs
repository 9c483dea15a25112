//! What several targets share.
#![allow(dead_code, reason = "each target uses its part")]

use plan::{RunPlan, Target};

/// A plan that passes the checks.
pub fn plan() -> RunPlan {
    RunPlan::new(Target::parse("http://h/").expect("it is a URL"))
}

/// Checks that a message is one line without control characters.
pub fn one_line(message: &str) {
    assert!(!message.is_empty());
    assert!(!message.chars().any(char::is_control), "{message:?}");
}

/// The text with pieces replaced. For each: the position (two bytes), the number of bytes to remove
/// and to insert (one each), and the bytes to insert.
pub fn with_pieces_replaced(text: &[u8], mut edits: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    while let Some((&[low, high, gone, length], rest)) = edits.split_first_chunk() {
        let at = usize::from(u16::from_le_bytes([low, high])) % text.len();
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(length)));
        let end = (at + usize::from(gone)).min(text.len());
        text.splice(at..end, piece.iter().copied());
        if text.is_empty() {
            break;
        }
        edits = rest;
    }
    text
}
