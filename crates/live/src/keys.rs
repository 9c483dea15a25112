//! Keys, decoded from the bytes a terminal sends.

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// End the run or the sweep and print the report.
    Quit,
    /// Freeze or unfreeze the screen; the run continues.
    Pause,
    /// Show what keys and signs mean.
    Help,
    /// Switch the latency scale: linear or logarithmic.
    Scale,
    /// Switch between latency as a histogram and over time.
    Histogram,
    /// Draw the whole screen anew.
    Redraw,
    /// Restore the terminal and suspend the process.
    Suspend,
    /// Close the help text.
    Close,
}

const ESCAPE: u8 = 0x1b;

/// Decodes the keys in one read. Unused keys are skipped, and so are escape sequences (arrows,
/// function keys: ECMA-48 5.4 and xterm's SS3), whose letters are not keys.
#[must_use]
pub fn read(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        let key = match first {
            b'q' | b'Q' | 0x03 => Some(Key::Quit),
            b'p' | b'P' | b' ' => Some(Key::Pause),
            b'?' | b'h' | b'H' => Some(Key::Help),
            b'l' | b'L' => Some(Key::Scale),
            b'd' | b'D' => Some(Key::Histogram),
            0x0c => Some(Key::Redraw),
            0x1a => Some(Key::Suspend),
            &ESCAPE if after.is_empty() => Some(Key::Close),
            &ESCAPE => {
                rest = after_sequence(after);
                None
            }
            _ => None,
        };
        keys.extend(key);
    }
    keys
}

/// The bytes after an escape sequence whose escape has been consumed.
fn after_sequence(bytes: &[u8]) -> &[u8] {
    match bytes {
        [b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| matches!(byte, 0x40..=0x7e));
            end.map_or(&[], |end| &rest[end + 1..])
        }
        [b'O', _, rest @ ..] | [_, rest @ ..] => rest,
        [] => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_in_escape_sequences_are_not_keys() {
        assert_eq!(read(b"\x1b[1;5q\x1bOq\x1bqp"), [Key::Pause]);
        assert_eq!(read(b"\x1b[Ald"), [Key::Scale, Key::Histogram]);
        assert_eq!(read(b"\x1b"), [Key::Close]);
        assert_eq!(read(b"\x1b["), []);
        assert_eq!(read(b"x\xff\x00?q"), [Key::Help, Key::Quit]);
    }
}
