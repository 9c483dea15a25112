//! What is done for one request: a list of steps, made once and walked by every like request.

use std::rc::Rc;

use crate::delay::Delay;

/// What is done for a request, apart from when it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Status that goes into the log; 0 when no whole head is sent.
    pub(crate) status: u16,
    /// The client gets a whole answer.
    pub(crate) is_whole: bool,
    /// From the arrival of the request to the first step.
    pub(crate) delay: Delay,
    /// What to do, in order.
    pub(crate) steps: Vec<Step>,
    /// Other plans, taken with these probabilities instead of this one.
    pub(crate) mix: Vec<(f64, Rc<Self>)>,
    /// Whether requests and answers of this plan are counted and logged (interim ones are not).
    pub(crate) is_counted: bool,
}

/// One thing to do on a connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Send these bytes.
    Bytes(Vec<u8>),
    /// Send these bytes one by one: each handed over before the next, and the next not before the
    /// interval (nanoseconds) has passed.
    Bytewise { bytes: Vec<u8>, interval_ns: u64 },
    /// Send bytes that are made on the way.
    Stream(Stream),
    /// Wait until the loop has taken everything sent so far.
    Flush,
    /// Wait for a time.
    Pause(Delay),
    /// The rest happens when the connection is idle, once it has been so for a time; unless
    /// another request comes first.
    WhenIdle { after_ns: u64, say: Vec<u8> },
    /// End the sending side, then wait for the peer's end.
    Fin(Fin),
    /// Close the socket.
    Close,
    /// Reset the connection.
    Reset,
    /// Nothing more happens.
    Hang,
}

/// What follows the end of the sending side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fin {
    /// The socket is closed when the peer ends too, or after a while.
    Linger,
    /// The same, without a TLS closing alert.
    LingerUnannounced,
    /// The socket is read until the peer ends.
    ReadOn,
}

/// Bytes that are not worth storing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stream {
    /// So many bytes of body.
    Body { bytes: u64 },
    /// A chunked body of so many bytes, without the last chunk.
    Chunks { bytes: u64, chunk_bytes: u64 },
    /// The same bytes again and again.
    Endless { block: Vec<u8> },
}

impl Stream {
    /// Appends at least a byte and about `room` bytes more, going on where `produced` bytes of
    /// *progress* ended; returns the new progress and whether there is more.
    pub(crate) fn produce(&self, progress: u64, room: usize, output: &mut Vec<u8>) -> (u64, bool) {
        match self {
            Self::Body { bytes } => {
                let now = (bytes - progress).min(room.max(1) as u64);
                append_body(progress, now, output);
                (progress + now, progress + now < *bytes)
            }
            Self::Chunks { bytes, chunk_bytes } => {
                let start = output.len();
                let mut done = progress;
                while done < *bytes && (output.len() - start <= room || done == progress) {
                    let now = (bytes - done).min(*chunk_bytes);
                    output.extend_from_slice(format!("{now:x}\r\n").as_bytes());
                    append_body(done, now, output);
                    output.extend_from_slice(b"\r\n");
                    done += now;
                }
                (done, done < *bytes)
            }
            Self::Endless { block } => {
                for _ in 0..(room / block.len()).max(1) {
                    output.extend_from_slice(block);
                }
                (progress + 1, true)
            }
        }
    }
}

/// The body's text: lines of 64 bytes, so that a byte's place can be told from its value.
const LINE: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-\n";

/// Appends bytes `from..from + count` of the endless body text.
pub(crate) fn append_body(from: u64, count: u64, output: &mut Vec<u8>) {
    let mut place = (from % LINE.len() as u64) as usize;
    let mut left = count as usize;
    output.reserve(left);
    while left > 0 {
        let now = (LINE.len() - place).min(left);
        output.extend_from_slice(&LINE[place..place + now]);
        left -= now;
        place = 0;
    }
}

impl Plan {
    /// A plan without delay and mix.
    pub(crate) fn new(status: u16, is_whole: bool, steps: Vec<Step>) -> Self {
        Self {
            status,
            is_whole,
            delay: Delay::NONE,
            steps,
            mix: Vec::new(),
            is_counted: true,
        }
    }

    /// The bytes of an answer that leaves at once and whole, the same every time, after which the
    /// connection goes on.
    pub(crate) fn instant_bytes(&self) -> Option<&[u8]> {
        match self.steps.as_slice() {
            [Step::Bytes(bytes)]
                if self.delay.is_none() && self.mix.is_empty() && self.is_counted =>
            {
                Some(bytes)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(stream: &Stream, room: usize) -> Vec<u8> {
        let mut output = Vec::new();
        let (mut progress, mut more) = (0, true);
        while more {
            (progress, more) = stream.produce(progress, room, &mut output);
        }
        output
    }

    #[test]
    fn a_body_is_the_same_in_pieces_of_every_size() {
        let mut whole = Vec::new();
        append_body(0, 1000, &mut whole);
        assert_eq!(whole.len(), 1000);
        assert_eq!(whole[64..128], whole[..64]);
        for room in [0, 1, 63, 64, 65, 999, 5000] {
            assert_eq!(all_of(&Stream::Body { bytes: 1000 }, room), whole);
        }
    }

    #[test]
    fn chunks_carry_their_sizes() {
        let text = all_of(
            &Stream::Chunks {
                bytes: 5,
                chunk_bytes: 3,
            },
            0,
        );
        assert_eq!(text, b"3\r\nabc\r\n2\r\nde\r\n");
    }

    #[test]
    fn an_endless_stream_always_has_more() {
        let mut output = Vec::new();
        let stream = Stream::Endless {
            block: b"ab".to_vec(),
        };
        assert!(stream.produce(9, 5, &mut output).1);
        assert_eq!(output, b"abab");
    }
}
