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

/// Checks that each request has a valid URL and is one line of a requests file.
pub fn converted(requests: &[convert::Request]) {
    for request in requests {
        request.target().expect("it was checked");
    }
    let lines = convert::requests_file::text(requests);
    assert_eq!(lines.lines().count(), requests.len());
}

/// An input cut at three places.
pub fn pieces(input: &[u8], cuts: [u8; 3]) -> [&[u8]; 4] {
    let mut at = cuts.map(|cut| usize::from(cut) % (input.len() + 1));
    at.sort_unstable();
    let [a, b, c] = at;
    [&input[..a], &input[a..b], &input[b..c], &input[c..]]
}

/// Checks that cuts at three places, of which the first bytes are the positions, and between all
/// bytes do not change what is read.
pub fn cut_anywhere<T: PartialEq + std::fmt::Debug>(data: &[u8], read: fn(&[&[u8]]) -> T) {
    let Some((cuts, input)) = data.split_first_chunk() else {
        return;
    };
    let whole = read(&[input]);
    assert_eq!(read(&pieces(input, *cuts)), whole);
    let bytes: Vec<_> = input.chunks(1).collect();
    assert_eq!(read(&bytes), whole);
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
