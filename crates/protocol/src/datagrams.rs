//! Batches of datagrams in one piece of memory: what a session over datagrams sends.
//!
//! A session appends bytes to its output. Over a stream their boundaries mean nothing, but here
//! they are datagrams. So each batch begins with a header of 7 bytes: the length of the batch (4
//! bytes, little-endian), the length of a segment (2 bytes, little-endian), and the ECN bits of its
//! datagrams (1 byte, RFC 3168 section 5). Then follow the datagrams, without anything between
//! them. All have the length of a segment, only the last one may be shorter. That is the form in
//! which the kernel takes several datagrams in one call (`UDP_SEGMENT`, generic segmentation
//! offload).

/// Bytes before each batch.
pub const HEADER_BYTES: usize = 7;

/// Datagrams that may be sent in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The datagrams, one after the other.
    pub bytes: &'a [u8],
    /// The length of each datagram but the last, at least 1.
    pub segment_bytes: u16,
    /// The ECN bits of the IP header: 0 is not ECT, 1 is ECT(1), 2 is ECT(0), 3 is CE.
    pub ecn: u8,
}

impl<'a> Batch<'a> {
    /// The datagrams, in order.
    pub fn datagrams(self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks(usize::from(self.segment_bytes).max(1))
    }
}

/// Appends a batch to the output of a session. Nothing is appended for a batch without bytes, or
/// with more than 2^32-1.
pub fn append(batch: Batch<'_>, output: &mut Vec<u8>) {
    let Ok(length) = u32::try_from(batch.bytes.len()) else {
        return;
    };
    if length == 0 || batch.segment_bytes == 0 {
        return;
    }
    output.reserve(HEADER_BYTES + batch.bytes.len());
    output.extend_from_slice(&length.to_le_bytes());
    output.extend_from_slice(&batch.segment_bytes.to_le_bytes());
    output.push(batch.ecn);
    output.extend_from_slice(batch.bytes);
}

/// The batches in the output of a session, in order. What is not a complete batch ends the
/// iteration.
pub fn batches(output: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    let mut rest = output;
    std::iter::from_fn(move || {
        let (batch, after) = split_first(rest)?;
        rest = after;
        Some(batch)
    })
}

/// The first batch of an output, and the output after it.
#[must_use]
pub fn split_first(output: &[u8]) -> Option<(Batch<'_>, &[u8])> {
    let (&[a, b, c, d, low, high, ecn], rest) = output.split_first_chunk::<HEADER_BYTES>()?;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
    let (bytes, rest) = rest.split_at_checked(length)?;
    let batch = Batch {
        bytes,
        segment_bytes: u16::from_le_bytes([low, high]),
        ecn,
    };
    Some((batch, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(bytes: &[u8], segment_bytes: u16) -> Batch<'_> {
        Batch {
            bytes,
            segment_bytes,
            ecn: 2,
        }
    }

    #[test]
    fn batches_come_out_as_they_went_in_and_are_cut_into_their_datagrams() {
        let given = [batch(b"abcdefgh", 3), batch(b"x", 1), batch(b"12345678", 8)];
        let mut output = Vec::new();
        for batch in given {
            append(batch, &mut output);
        }
        assert_eq!(output.len(), 3 * HEADER_BYTES + 17);
        assert_eq!(batches(&output).collect::<Vec<_>>(), given);
        let datagrams: Vec<_> = batches(&output).flat_map(Batch::datagrams).collect();
        let expected: [&[u8]; 5] = [b"abc", b"def", b"gh", b"x", b"12345678"];
        assert_eq!(datagrams, expected);
    }

    #[test]
    fn a_batch_without_bytes_is_not_written() {
        let mut output = Vec::new();
        append(batch(b"", 3), &mut output);
        append(batch(b"abc", 0), &mut output);
        assert!(output.is_empty());
    }

    #[test]
    fn an_output_that_ends_within_a_batch_has_the_batches_before_it() {
        let mut output = Vec::new();
        append(batch(b"abc", 3), &mut output);
        let first = output.len();
        append(batch(b"defg", 2), &mut output);
        for end in 0..output.len() {
            let whole = batches(&output[..end]).count();
            assert_eq!(whole, usize::from(end >= first), "{end}");
        }
    }
}
