//! The messages in the bytes of a NATS server (the client protocol of NATS). Nothing is kept that
//! is larger than its limit, whatever the server announces.

use serde::Deserialize;

use crate::message::MAX_MESSAGE_BYTES;

/// The longest line. `INFO` lists the servers of a cluster; other lines have at most 4 KiB.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The largest payload of any server: the upper limit of `max_payload`.
const MAX_PAYLOAD_BYTES: u64 = 64 << 20;

/// How many lines without a message a server may send until they are forgotten. It sends a PING in
/// two minutes, replies to ours, and complains of messages that may not be sent.
const IDLE_LINES_MAX: u32 = 10_000;

/// What a server sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Info(ServerInfo),
    Message(Delivery),
    Ping,
    Pong,
    /// `-ERR`, with its text.
    Error(String),
}

/// A message for a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) subject: String,
    /// The number of the subscription.
    pub(super) id: u64,
    pub(super) reply: Option<String>,
    pub(super) payload: Vec<u8>,
}

/// What a server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct ServerInfo {
    /// The largest payload that it accepts and delivers.
    #[serde(default)]
    pub(super) max_payload: u64,
    #[serde(default)]
    pub(super) tls_required: bool,
    /// To be signed with the user's key.
    #[serde(default)]
    pub(super) nonce: String,
}

/// Why the bytes are not those of a NATS server; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FramingError {
    #[error("the server sends a line of more than {MAX_LINE_BYTES} bytes")]
    Line,
    #[error("the server announces a message of {bytes} bytes, more than the {limit} it accepts")]
    Size { bytes: u64, limit: u64 },
    #[error("the server sends more than {IDLE_LINES_MAX} lines without a message (PING) in 2 s")]
    Flood,
    #[error("this is not a NATS server: it sends {0:?}")]
    Malformed(String),
    #[error("this is not a NATS server: it does not begin with INFO")]
    NoInfo,
}

/// Finds the messages in a stream of bytes.
#[derive(Debug)]
pub(super) struct Framing {
    /// The beginning of a line, or of a payload.
    kept: Vec<u8>,
    /// What is being received.
    now: Receiving,
    max_payload: u64,
    idle_lines: u32,
}

#[derive(Debug)]
enum Receiving {
    Line,
    /// A payload and the end of its line. `delivery` has no payload yet.
    Payload {
        delivery: Delivery,
        bytes: usize,
    },
    /// The rest of a payload that is too large for a message of ours.
    Rest(u64),
}

const LINE_END: &[u8] = b"\r\n";

impl Default for Framing {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            now: Receiving::Line,
            max_payload: MAX_PAYLOAD_BYTES,
            idle_lines: 0,
        }
    }
}

impl Framing {
    /// Takes more bytes, and hands out what is complete.
    ///
    /// # Errors
    /// If the server exceeds a limit, or speaks another protocol. The connection must be closed.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        hand_out: &mut dyn FnMut(Operation),
    ) -> Result<(), FramingError> {
        while !bytes.is_empty() {
            bytes = match &mut self.now {
                Receiving::Line => self.take_line(bytes, hand_out)?,
                Receiving::Payload { .. } => self.take_payload(bytes, hand_out)?,
                Receiving::Rest(left) => {
                    let skipped = (bytes.len() as u64).min(*left);
                    *left -= skipped;
                    if *left == 0 {
                        self.now = Receiving::Line;
                    }
                    // It is at most the length.
                    &bytes[skipped as usize..]
                }
            };
        }
        Ok(())
    }

    /// Counts lines without a message anew.
    pub(super) fn forget_idle_lines(&mut self) {
        self.idle_lines = 0;
    }

    /// Whether nothing is kept for later.
    pub(super) fn is_between_lines(&self) -> bool {
        self.kept.is_empty() && matches!(self.now, Receiving::Line)
    }

    fn take_line<'b>(
        &mut self,
        bytes: &'b [u8],
        hand_out: &mut dyn FnMut(Operation),
    ) -> Result<&'b [u8], FramingError> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
        if self.kept.len() + part.len() > MAX_LINE_BYTES {
            return Err(FramingError::Line);
        }
        self.kept.extend_from_slice(part);
        if end.is_some() {
            let line = std::mem::take(&mut self.kept);
            self.on_line(line.trim_ascii_end(), hand_out)?;
        }
        Ok(rest)
    }

    fn on_line(
        &mut self,
        line: &[u8],
        hand_out: &mut dyn FnMut(Operation),
    ) -> Result<(), FramingError> {
        const SHOWN_CHARS: usize = 40;
        let text = String::from_utf8_lossy(line);
        let malformed = || FramingError::Malformed(text.chars().take(SHOWN_CHARS).collect());
        let (name, rest) = text.split_once([' ', '\t']).unwrap_or((&text, ""));
        let name = name.to_ascii_uppercase();
        self.idle_lines += u32::from(name != "MSG");
        if self.idle_lines > IDLE_LINES_MAX {
            return Err(FramingError::Flood);
        }
        match name.as_str() {
            "MSG" => {
                let (delivery, bytes) = delivery(rest).ok_or_else(malformed)?;
                self.expect(delivery, bytes)?;
            }
            "PING" => hand_out(Operation::Ping),
            "PONG" => hand_out(Operation::Pong),
            "+OK" => {}
            "-ERR" => hand_out(Operation::Error(rest.trim_matches(['\'', ' ']).to_owned())),
            "INFO" => {
                let info: ServerInfo = serde_json::from_str(rest).map_err(|_| malformed())?;
                if info.max_payload > 0 {
                    self.max_payload = info.max_payload.min(MAX_PAYLOAD_BYTES);
                }
                hand_out(Operation::Info(info));
            }
            _ => return Err(malformed()),
        }
        Ok(())
    }

    /// A payload of this size follows.
    fn expect(&mut self, delivery: Delivery, bytes: u64) -> Result<(), FramingError> {
        let limit = self.max_payload;
        if bytes > limit {
            return Err(FramingError::Size { bytes, limit });
        }
        let with_end = bytes + LINE_END.len() as u64;
        self.now = match usize::try_from(bytes) {
            Ok(bytes) if bytes <= MAX_MESSAGE_BYTES => Receiving::Payload { delivery, bytes },
            // Nobody would read it.
            _ => Receiving::Rest(with_end),
        };
        Ok(())
    }

    fn take_payload<'b>(
        &mut self,
        bytes: &'b [u8],
        hand_out: &mut dyn FnMut(Operation),
    ) -> Result<&'b [u8], FramingError> {
        let Receiving::Payload {
            delivery,
            bytes: size,
        } = &mut self.now
        else {
            return Ok(bytes);
        };
        let missing = *size + LINE_END.len() - self.kept.len();
        let (part, rest) = bytes.split_at(missing.min(bytes.len()));
        self.kept.extend_from_slice(part);
        if part.len() < missing {
            return Ok(rest);
        }
        let mut payload = std::mem::take(&mut self.kept);
        if !payload.ends_with(LINE_END) {
            let wrong = "a message without an end".to_owned();
            return Err(FramingError::Malformed(wrong));
        }
        payload.truncate(*size);
        hand_out(Operation::Message(Delivery {
            payload,
            subject: std::mem::take(&mut delivery.subject),
            reply: delivery.reply.take(),
            id: delivery.id,
        }));
        self.now = Receiving::Line;
        Ok(rest)
    }
}

/// Reads the line of a message, `subject id [reply] bytes`, with the size of its payload.
fn delivery(line: &str) -> Option<(Delivery, u64)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (subject, id, reply, bytes) = match words.as_slice() {
        [subject, id, bytes] => (subject, id, None, bytes),
        [subject, id, reply, bytes] => (subject, id, Some(*reply), bytes),
        _ => return None,
    };
    // Sizes that are too large for a number are sizes all the same.
    let is_number = !bytes.is_empty() && bytes.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = is_number.then(|| bytes.parse().unwrap_or(u64::MAX))?;
    let delivery = Delivery {
        subject: (*subject).to_owned(),
        id: id.parse().ok()?,
        reply: reply.map(str::to_owned),
        payload: Vec::new(),
    };
    Some((delivery, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is in the bytes, given in parts of this size.
    fn found(bytes: &[u8], part: usize) -> Result<Vec<Operation>, FramingError> {
        let (mut framing, mut found) = (Framing::default(), Vec::new());
        for part in bytes.chunks(part) {
            framing.take(part, &mut |operation| found.push(operation))?;
            let largest = MAX_MESSAGE_BYTES + LINE_END.len();
            assert!(framing.kept.capacity() <= 2 * largest, "{framing:?}");
        }
        Ok(found)
    }

    fn message(subject: &str, reply: Option<&str>, payload: &[u8]) -> Operation {
        Operation::Message(Delivery {
            subject: subject.to_owned(),
            id: 7,
            reply: reply.map(str::to_owned),
            payload: payload.to_vec(),
        })
    }

    #[test]
    fn messages_are_found_however_the_bytes_are_cut() {
        let bytes = b"INFO {\"max_payload\":1048576,\"nonce\":\"n\",\"x\":[1]} \r\n+OK\r\nPING\r\n\
                      MSG a.b 7 5\r\na\r\nbc\r\nMSG  a 7 _INBOX.1 0\r\n\r\nPONG\r\n\
                      -ERR 'Authorization Violation'\r\n-ERR\r\n";
        let info = ServerInfo {
            max_payload: 1_048_576,
            tls_required: false,
            nonce: "n".to_owned(),
        };
        let expected = [
            Operation::Info(info),
            Operation::Ping,
            message("a.b", None, b"a\r\nbc"),
            message("a", Some("_INBOX.1"), b""),
            Operation::Pong,
            Operation::Error("Authorization Violation".to_owned()),
            Operation::Error(String::new()),
        ];
        for part in 1..bytes.len() {
            assert_eq!(found(bytes, part).as_deref(), Ok(&expected[..]), "{part}");
        }
    }

    #[test]
    fn a_message_larger_than_the_server_accepts_ends_the_connection_before_its_payload() {
        let error = |text: &str| found(text.as_bytes(), 4096).expect_err("it is too large");
        assert_eq!(
            error("INFO {\"max_payload\":1048576}\r\nMSG a 1 100000000000\r\n").to_string(),
            "the server announces a message of 100000000000 bytes, more than the 1048576 it accepts"
        );
        // What the server says about itself is not believed without a limit either.
        let boast = "INFO {\"max_payload\":100000000000}\r\nMSG a 1 99999999999\r\n";
        assert_eq!(
            error(boast),
            FramingError::Size {
                bytes: 99_999_999_999,
                limit: MAX_PAYLOAD_BYTES
            }
        );
        let beyond_numbers = format!("MSG a 1 1{}\r\n", "0".repeat(40));
        assert!(matches!(error(&beyond_numbers), FramingError::Size { .. }));
    }

    #[test]
    fn a_message_that_is_too_large_for_us_is_skipped_and_the_next_one_is_found() {
        let mut bytes = b"MSG a 1 2000000\r\n".to_vec();
        bytes.resize(bytes.len() + 2_000_000, b'x');
        bytes.extend_from_slice(b"\r\nPING\r\n");
        for part in [1_000, 65_536, 3_000_000] {
            assert_eq!(found(&bytes, part), Ok(vec![Operation::Ping]), "{part}");
        }
    }

    #[test]
    fn a_line_without_an_end_ends_the_connection_at_the_limit() {
        for beginning in ["INFO {\"x\":\"", "MSG ", "", "-ERR '"] {
            let bytes = beginning.to_owned() + &"x".repeat(MAX_LINE_BYTES + 1);
            assert_eq!(found(bytes.as_bytes(), 1_000), Err(FramingError::Line));
        }
        let short = "INFO {\"max_payload\":1".to_owned();
        assert_eq!(found(short.as_bytes(), 10), Ok(Vec::new()));
    }

    #[test]
    fn lines_without_a_message_are_limited_until_they_are_forgotten() {
        let line = |line: &str, times: u32| line.repeat(times as usize).into_bytes();
        let mut framing = Framing::default();
        let take = |framing: &mut Framing, bytes: Vec<u8>| framing.take(&bytes, &mut |_| {});
        assert_eq!(take(&mut framing, line("PING\r\n", IDLE_LINES_MAX)), Ok(()));
        let messages = line("MSG a 1 1\r\nx\r\n", 2 * IDLE_LINES_MAX);
        assert_eq!(take(&mut framing, messages), Ok(()));
        framing.forget_idle_lines();
        for text in [
            "PING\r\n",
            "PONG\r\n",
            "+OK\r\n",
            "INFO {}\r\n",
            "-ERR 'x'\r\n",
        ] {
            assert_eq!(take(&mut framing, line(text, IDLE_LINES_MAX / 5)), Ok(()));
        }
        assert_eq!(
            take(&mut framing, line("+OK\r\n", 1)),
            Err(FramingError::Flood)
        );
    }

    #[test]
    fn another_protocol_is_named_by_its_first_words() {
        let error = |bytes: &[u8]| found(bytes, 10).expect_err("it is none").to_string();
        assert_eq!(
            error(b"HTTP/1.1 400 Bad Request\r\n"),
            "this is not a NATS server: it sends \"HTTP/1.1 400 Bad Request\""
        );
        for other in [
            &b"INFO {\r\n"[..],
            b"MSG a 1\r\n",
            b"MSG a b 3\r\n",
            b"MSG a 1 -3\r\n",
            b"HMSG a 1 3 5\r\n",
            b"MSG a 1 3\r\nabcde",
            b"\x16\x03\x01\n",
            b"\r\n",
        ] {
            assert!(
                error(other).starts_with("this is not a NATS server"),
                "{other:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, part in 1_usize..50) {
            let _ = found(&bytes, part);
        }
    }
}
