//! Content that is larger than a message is cut into pieces and assembled again.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::message::{Piece, Reply, base64_bytes};
use crate::names::Label;
use crate::refusal::Refusal;

/// The size of every piece but the last. In base64 it fits into the 1 MiB that NATS allows.
pub const PIECE_BYTES: usize = 256 * 1024;

/// A SHA-256 digest, 64 hexadecimal digits in messages.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of a sequence of digests.
    fn of_all(digests: impl IntoIterator<Item = Self>) -> Self {
        let mut hash = Sha256::new();
        for digest in digests {
            hash.update(digest.0);
        }
        Self(hash.finalize().into())
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        const WANTED: &str = "a digest has 64 hexadecimal digits";
        let mut digest = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(WANTED);
        }
        for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16).ok_or(WANTED);
            *byte = u8::try_from(value(digits[0])? * 16 + value(digits[1])?).map_err(|_| WANTED)?;
        }
        Ok(Self(digest))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// What identifies content before it has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Its size in bytes.
    pub bytes: u64,
    /// The digest of the digests of its pieces, in their order.
    pub sha256: Digest,
}

impl Content {
    /// The identity of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.len() as u64,
            sha256: Digest::of_all(digests(bytes)),
        }
    }

    /// Whether these are the digests of its pieces.
    #[must_use]
    pub fn has_pieces(&self, digests: &[Digest]) -> bool {
        digests.len() as u64 == self.pieces()
            && self.sha256 == Digest::of_all(digests.iter().copied())
    }

    /// The number of its pieces.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.bytes.div_ceil(PIECE_BYTES as u64)
    }
}

/// The digests of the pieces of some bytes.
pub fn digests(bytes: &[u8]) -> impl Iterator<Item = Digest> {
    bytes.chunks(PIECE_BYTES).map(Digest::of)
}

/// A piece of some bytes; `None` if they have fewer.
#[must_use]
pub fn piece(bytes: &[u8], index: u32) -> Option<Piece> {
    let data = bytes.chunks(PIECE_BYTES).nth(index as usize)?;
    Some(Piece {
        index,
        sha256: Digest::of(data),
        data: data.to_vec(),
    })
}

/// What is smaller travels within the order or the reply; the rest in pieces.
const INLINE_BYTES: usize = 16 * 1024;

/// The content of a call or of a reply: all of it, or what its pieces will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallBody {
    /// The bytes of the content.
    Inline(#[serde(with = "base64_bytes")] Vec<u8>),
    /// The content follows in pieces, or can be fetched in pieces.
    Pieces {
        /// The size and the digest of the content.
        content: Content,
        /// The digest of each piece of a call. It is signed, so each piece can be checked when it
        /// comes. Empty for replies, which are not signed.
        digests: Vec<Digest>,
    },
}

impl CallBody {
    /// How the content of a call travels.
    #[must_use]
    pub fn of_call(bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_BYTES {
            Self::Inline(bytes.to_vec())
        } else {
            Self::Pieces {
                content: Content::of(bytes),
                digests: digests(bytes).collect(),
            }
        }
    }

    /// How a reply travels.
    #[must_use]
    pub fn of_reply(bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_BYTES {
            Self::Inline(bytes.to_vec())
        } else {
            Self::fetched(Content::of(bytes))
        }
    }

    /// A reply that is fetched in pieces, whatever its size.
    #[must_use]
    pub fn fetched(content: Content) -> Self {
        Self::Pieces {
            content,
            digests: Vec::new(),
        }
    }

    /// Begins to receive a call of at most `limit` bytes. `what` names it in a refusal.
    ///
    /// # Errors
    /// If it is larger, or the digests are not those of its pieces.
    pub(crate) fn receive(self, what: &str, limit: u64) -> Result<Incoming, Refusal> {
        let (content, digests) = match self {
            Self::Inline(bytes) => return Ok(Incoming::Complete(bytes)),
            Self::Pieces { content, digests } => (content, digests),
        };
        if content.bytes > limit {
            return Err(Refusal::TooLarge {
                what: what.into(),
                bytes: content.bytes,
                limit,
            });
        }
        // Content without a piece would be waited for forever.
        let assembly = Assembly::of_pieces(content, &digests, limit);
        let assembly = assembly.filter(|assembly| !assembly.is_complete());
        assembly
            .map(Incoming::Pieces)
            .ok_or_else(|| Refusal::Package {
                reason: Label::new(&format!("the digests of {what} contradict each other")),
            })
    }
}

/// A call that begins to arrive.
pub(crate) enum Incoming {
    /// All of it is here.
    Complete(Vec<u8>),
    /// Its pieces will come.
    Pieces(Assembly),
}

/// The reply to an order to send a piece of the reply to a call.
///
/// # Errors
/// If there is no such piece.
pub(crate) fn piece_of_reply(bytes: &[u8], call: u64, index: u32) -> Result<Reply, Refusal> {
    let piece = piece(bytes, index).ok_or_else(|| Refusal::Malformed {
        detail: Label::new(&format!("the reply to call {call} has no piece {index}")),
    })?;
    Ok(Reply::Piece { call, piece })
}

/// Content that is arriving in pieces: in any order, some of them twice, some damaged.
#[derive(Debug)]
pub struct Assembly {
    content: Content,
    pieces: Vec<Slot>,
}

#[derive(Debug, Clone, Default)]
struct Slot {
    /// The digest that it must have, if it is known.
    wanted: Option<Digest>,
    data: Option<(Digest, Vec<u8>)>,
}

/// The piece is not the one that was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

impl Assembly {
    /// Expects content whose pieces are not known yet. `None` if it is larger than `limit` bytes.
    #[must_use]
    pub fn new(content: Content, limit: u64) -> Option<Self> {
        let pieces = usize::try_from(content.pieces()).ok()?;
        (content.bytes <= limit).then(|| Self {
            content,
            pieces: vec![Slot::default(); pieces],
        })
    }

    /// Expects content with these pieces. `None` if they are not its pieces, or if it is larger
    /// than `limit` bytes.
    #[must_use]
    pub fn of_pieces(content: Content, digests: &[Digest], limit: u64) -> Option<Self> {
        let mut assembly = Self::new(content, limit)?;
        for (slot, digest) in assembly.pieces.iter_mut().zip(digests) {
            slot.wanted = Some(*digest);
        }
        content.has_pieces(digests).then_some(assembly)
    }

    /// The identity of the content that is expected.
    #[must_use]
    pub fn content(&self) -> Content {
        self.content
    }

    /// Adds a piece. One that is there already changes nothing.
    ///
    /// # Errors
    /// If there is no such piece, or its size or digest is wrong.
    pub fn add(&mut self, piece: Piece) -> Result<(), Damaged> {
        let last = self.pieces.len().saturating_sub(1);
        let index = piece.index as usize;
        let slot = self.pieces.get_mut(index).ok_or(Damaged)?;
        if slot.data.is_some() {
            return Ok(());
        }
        let before = index as u64 * PIECE_BYTES as u64;
        let size = if index == last {
            self.content.bytes - before
        } else {
            PIECE_BYTES as u64
        };
        let digest = Digest::of(&piece.data);
        let is_wanted = slot.wanted.is_none_or(|wanted| wanted == digest);
        if piece.data.len() as u64 != size || piece.sha256 != digest || !is_wanted {
            return Err(Damaged);
        }
        slot.data = Some((digest, piece.data));
        Ok(())
    }

    /// The numbers of the pieces that are missing.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        let empty = |(index, slot): (u32, &Slot)| slot.data.is_none().then_some(index);
        (0..).zip(&self.pieces).filter_map(empty)
    }

    /// Whether no piece is missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing().next().is_none()
    }

    /// Adds a piece of a call. Returns the call once it is complete.
    ///
    /// # Errors
    /// If it is not a piece of the call.
    pub(crate) fn accept(&mut self, piece: Piece) -> Result<Option<Vec<u8>>, Refusal> {
        let index = piece.index;
        self.add(piece).map_err(|_| Refusal::Piece { index })?;
        Ok(self.take())
    }

    /// The content, if it is complete. If the pieces do not belong together, all of them are
    /// dropped, and all are missing again.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let digests: Option<Vec<Digest>> = self
            .pieces
            .iter()
            .map(|slot| slot.data.as_ref().map(|(digest, _)| *digest))
            .collect();
        let digests = digests?;
        let pieces = self.pieces.iter_mut().filter_map(|slot| slot.data.take());
        let bytes = pieces.flat_map(|(_, data)| data).collect();
        self.content.has_pieces(&digests).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn content_is_put_together_from_pieces_in_any_order_and_doubled() {
        for size in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES - 1] {
            let bytes = content(size);
            let mut assembly = Assembly::new(Content::of(&bytes), 1 << 20).expect("small");
            let count = u32::try_from(Content::of(&bytes).pieces()).expect("few");
            assert_eq!(assembly.missing().count(), count as usize);
            for index in (0..count).rev().chain(0..count) {
                let piece = piece(&bytes, index).expect("it exists");
                assert_eq!(assembly.add(piece), Ok(()));
            }
            assert_eq!(assembly.missing().count(), 0);
            assert_eq!(assembly.take(), Some(bytes));
        }
    }

    #[test]
    fn a_damaged_cut_or_foreign_piece_is_not_taken() {
        let bytes = content(PIECE_BYTES + 10);
        let list: Vec<Digest> = digests(&bytes).collect();
        let of_pieces = |list: &[Digest]| Assembly::of_pieces(Content::of(&bytes), list, 1 << 20);
        let mut assembly = of_pieces(&list).expect("they are its pieces");
        assert!(of_pieces(&list[..1]).is_none());
        assert!(of_pieces(&[list[1], list[0]]).is_none());
        let good = piece(&bytes, 1).expect("it exists");
        assert_eq!(piece(&bytes, 2), None);
        let mut damaged = good.clone();
        damaged.data[3] ^= 1;
        let mut resigned = damaged.clone();
        resigned.sha256 = Digest::of(&resigned.data);
        let mut cut = good.clone();
        cut.data.pop();
        cut.sha256 = Digest::of(&cut.data);
        let mut beyond = good.clone();
        beyond.index = 2;
        for bad in [damaged, resigned, cut, beyond] {
            assert_eq!(assembly.add(bad), Err(Damaged));
        }
        assert_eq!(assembly.missing().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(assembly.add(good), Ok(()));
        assert_eq!(assembly.take(), None);
    }

    #[test]
    fn pieces_of_different_contents_do_not_make_one() {
        let (one, mut other) = (content(PIECE_BYTES + 5), content(PIECE_BYTES + 5));
        other[PIECE_BYTES] ^= 1;
        let mut assembly = Assembly::new(Content::of(&one), 1 << 20).expect("small");
        assert_eq!(assembly.add(piece(&one, 0).expect("it exists")), Ok(()));
        assert_eq!(assembly.add(piece(&other, 1).expect("it exists")), Ok(()));
        assert_eq!(assembly.take(), None);
        assert_eq!(assembly.missing().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn content_above_the_limit_is_refused_before_anything_is_allocated() {
        let huge = Content {
            bytes: u64::MAX,
            sha256: Digest::of(b""),
        };
        assert!(Assembly::new(huge, 1 << 20).is_none());
        assert!(Assembly::of_pieces(huge, &[], 1 << 20).is_none());
    }

    #[test]
    fn a_digest_is_64_hexadecimal_digits() {
        let digest = Digest::of(b"abc");
        let text = digest.to_string();
        assert!(text.starts_with("ba7816bf"), "{text}");
        assert_eq!(Digest::try_from(text), Ok(digest));
        for bad in ["", "zz", &"ä".repeat(32), &"+1".repeat(32)] {
            assert!(Digest::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
