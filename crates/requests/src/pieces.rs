//! The bytes of requests while these are read.
//!
//! They are kept in pieces, so that memory which cannot grow in place is not copied, and so that
//! they are not in memory twice when they are put together in the end.

use std::sync::Arc;

/// A piece is complete with so many bytes. Allocators give memory of this size back to the kernel.
const PIECE_BYTES: usize = 64 << 20;

/// Bytes in pieces. No request is in two of them.
#[derive(Debug)]
pub(crate) struct Pieces {
    piece_bytes: usize,
    complete: Vec<Vec<u8>>,
    /// The sum of the lengths of `complete`.
    complete_bytes: usize,
    last: Vec<u8>,
}

impl Default for Pieces {
    fn default() -> Self {
        Self::new(PIECE_BYTES)
    }
}

impl Pieces {
    fn new(piece_bytes: usize) -> Self {
        Self {
            piece_bytes,
            complete: Vec::new(),
            complete_bytes: 0,
            last: Vec::new(),
        }
    }

    /// The number of bytes: the position of the next one.
    pub(crate) fn len(&self) -> usize {
        self.complete_bytes + self.last.len()
    }

    /// A request begins here.
    pub(crate) fn begin_request(&mut self) {
        if self.last.len() >= self.piece_bytes {
            self.complete_bytes += self.last.len();
            let next = Vec::with_capacity(self.piece_bytes);
            self.complete.push(std::mem::replace(&mut self.last, next));
        }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
    }

    /// The last request so far, which begins at this position.
    pub(crate) fn request_from(&self, begin: usize) -> &[u8] {
        &self.last[begin - self.complete_bytes..]
    }

    /// Removes the last request, which begins at this position.
    pub(crate) fn remove_from(&mut self, begin: usize) {
        self.last.truncate(begin - self.complete_bytes);
    }

    /// All bytes in one piece. Each piece is freed when it has been copied.
    pub(crate) fn into_shared(self) -> Arc<[u8]> {
        let bytes = self.len();
        let mut all = self.complete.into_iter().chain([self.last]).flatten();
        // A range has a known length, so that the memory is allocated once.
        (0..bytes).map(|_| all.next().unwrap_or_default()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_positions_when_pieces_are_put_together() {
        let mut pieces = Pieces::new(10);
        let mut begins = Vec::new();
        for text in ["first", "second", "gone", "third of many", "4"] {
            pieces.begin_request();
            begins.push(pieces.len());
            pieces.put(text.as_bytes());
            assert_eq!(
                pieces.request_from(begins[begins.len() - 1]),
                text.as_bytes()
            );
            if text == "gone" {
                pieces.remove_from(begins[2]);
            }
        }
        assert_eq!(pieces.complete.len(), 2, "{pieces:?}");
        assert_eq!(begins, [0, 5, 11, 11, 24]);
        assert_eq!(pieces.len(), 25);
        assert_eq!(&*pieces.into_shared(), b"firstsecondthird of many4");
        assert_eq!(&*Pieces::default().into_shared(), b"");
    }
}
