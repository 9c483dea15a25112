//! Messages on a stream between processes, each after its length.

use std::io::{self, Read, Write};

pub(crate) fn write_frame(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length =
        u32::try_from(bytes.len()).map_err(|_| too_large(bytes.len() as u64, u32::MAX.into()))?;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(bytes)?;
    stream.flush()
}

/// Reads a message of at most `limit` bytes; `None` at the end of the stream.
pub(crate) fn read_frame(stream: &mut impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u64::from(u32::from_le_bytes(length));
    if length > limit {
        return Err(too_large(length, limit));
    }
    let mut bytes = Vec::new();
    stream.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length {
        Ok(Some(bytes))
    } else {
        Ok(None)
    }
}

fn too_large(bytes: u64, limit: u64) -> io::Error {
    io::Error::other(format!("a message has {bytes} bytes; the limit is {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let mut stream = Vec::new();
        for message in [&b"one"[..], b"", b"three"] {
            write_frame(&mut stream, message).expect("memory takes it");
        }
        let mut stream = &stream[..];
        let mut read = || read_frame(&mut stream, 5).expect("memory gives it");
        assert_eq!(read().as_deref(), Some(&b"one"[..]));
        assert_eq!(read().as_deref(), Some(&b""[..]));
        assert_eq!(read().as_deref(), Some(&b"three"[..]));
        assert_eq!(read(), None);
    }

    #[test]
    fn a_cut_message_is_the_end_and_a_huge_one_is_not_allocated() {
        let mut stream = Vec::new();
        write_frame(&mut stream, b"abc").expect("memory takes it");
        for length in 0..stream.len() {
            assert_eq!(read_frame(&mut &stream[..length], 3).ok(), Some(None));
        }
        let error = read_frame(&mut &stream[..], 2).map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("a message has 3 bytes; the limit is 2".to_owned())
        );
        assert!(read_frame(&mut &u32::MAX.to_le_bytes()[..], 1 << 20).is_err());
    }
}
