//! Keys, as a terminal sends them.

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// End the run, or the sweep, and report.
    Quit,
    /// Hold the picture, or let it go on; the run does not notice.
    Pause,
    /// Say what the keys and signs mean.
    Help,
    /// Show latency on the other scale.
    Scale,
    /// Show latency as a histogram, or over time.
    Histogram,
    /// Draw everything anew.
    Redraw,
    /// Give the terminal back and stop.
    Suspend,
    /// Close the help.
    Close,
}

const ESCAPE: u8 = 0x1b;

/// The keys in what was read from a terminal at once. Keys without a meaning are left out, and so are
/// sequences that others send (arrows, F keys: ECMA-48 5.4 and xterm's SS3), whose letters are no keys.
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

/// What follows a sequence, of which the escape was read.
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
    fn letters_within_sequences_are_no_keys() {
        assert_eq!(read(b"\x1b[1;5q\x1bOq\x1bqp"), [Key::Pause]);
        assert_eq!(read(b"\x1b[Ald"), [Key::Scale, Key::Histogram]);
        assert_eq!(read(b"\x1b"), [Key::Close]);
        assert_eq!(read(b"\x1b["), []);
        assert_eq!(read(b"x\xff\x00?q"), [Key::Help, Key::Quit]);
    }
}
