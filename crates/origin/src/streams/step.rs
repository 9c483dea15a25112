//! The steps of a response over HTTP/2 and HTTP/3.

use crate::delay::Delay;
use crate::llm::Generation;
use crate::prepared::{ConnectionStep, append_body};

/// One action on a stream or its connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StreamStep {
    /// Send a header block, this many times.
    Head {
        block: Vec<u8>,
        ends_stream: bool,
        times: u64,
    },
    /// Send content, in frames of at most this many bytes, each this long after the one before.
    Data {
        content: Content,
        frame_bytes_max: u64,
        interval_ns: u64,
        ends_stream: bool,
    },
    /// Send the events of a generation when they are due.
    Generate(Box<Generation>),
    /// Announce the end of the connection, which comes with the last response.
    Goaway,
    /// Wait for a time.
    Pause(Delay),
    /// Send each byte of what follows on its own, if the protocol can.
    Split,
    /// Do nothing more on this stream.
    Hang,
    /// Execute these steps on the connection, which ends.
    End(Vec<ConnectionStep>),
    /// Forget the connection if it has had so many requests.
    Forget { after: u64 },
}

impl StreamStep {
    /// Whether its bytes are those of a response, and not of the connection.
    pub(crate) fn is_of_response(&self) -> bool {
        matches!(
            self,
            Self::Head { .. } | Self::Data { .. } | Self::Generate(_)
        )
    }
}

/// The content of DATA frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Bytes of the generated text from this position.
    Text { from: u64, bytes: u64 },
    /// Copied from a request.
    Copy(Vec<u8>),
}

impl Content {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Text { bytes, .. } => *bytes,
            Self::Copy(bytes) => bytes.len() as u64,
        }
    }

    /// Appends `count` bytes from this position.
    pub(crate) fn append(&self, position: u64, count: u64, output: &mut Vec<u8>) {
        match self {
            Self::Text { from, .. } => append_body(from + position, count, output),
            Self::Copy(bytes) => {
                let begin = position as usize;
                output.extend_from_slice(&bytes[begin..begin + count as usize]);
            }
        }
    }

    /// The first `count` bytes, and the rest.
    pub(crate) fn split(self, count: u64) -> (Self, Self) {
        match self {
            Self::Text { from, bytes } => (
                Self::Text { from, bytes: count },
                Self::Text {
                    from: from + count,
                    bytes: bytes - count,
                },
            ),
            Self::Copy(mut bytes) => {
                let rest = bytes.split_off(count as usize);
                (Self::Copy(bytes), Self::Copy(rest))
            }
        }
    }
}
