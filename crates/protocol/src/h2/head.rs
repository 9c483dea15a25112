//! What a header block of a response means (RFC 9113 section 8).

use super::grpc;
use super::hpack::{Effect, Excess};
use crate::Fields;
use crate::stream_head::StreamFields;

/// A head or a trailer section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// `:status`, which trailers do not have.
    pub(crate) status: Option<u16>,
    pub(crate) content_length: Option<u64>,
    /// The Location of a redirect.
    pub(crate) location: Option<String>,
    pub(crate) stream: StreamFields,
    /// How a gRPC call has ended.
    pub(crate) call: Option<Box<grpc::Status>>,
    /// The fields, if responses are captured.
    pub(crate) fields: Fields,
    fault: Option<Fault>,
}

/// Why a head cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its list of fields exceeds a limit.
    TooLarge(Excess),
    /// It breaks a rule.
    Malformed(&'static str),
}

impl Head {
    /// Reads the fields of a block.
    pub(crate) fn read(fields: &Fields, effect: Effect, captures: bool) -> Self {
        let mut head = Self {
            status: None,
            content_length: None,
            location: None,
            stream: StreamFields::default(),
            call: None,
            fields: Fields::default(),
            fault: effect.oversized.map(Fault::TooLarge),
        };
        let mut is_regular = false;
        for (name, value) in fields.iter() {
            let noted = match name.first() {
                Some(b':') if is_regular => Err("pseudo-header field after other fields"),
                Some(b':') => head.note_pseudo(name, value),
                _ => {
                    is_regular = true;
                    head.note_regular(name, value)
                }
            };
            if let Err(reason) = noted {
                head.fault.get_or_insert(Fault::Malformed(reason));
            }
            if captures && is_regular {
                head.fields.push(name, value);
            }
        }
        if !head
            .status
            .is_some_and(|status| (300..400).contains(&status))
        {
            head.location = None;
        }
        head
    }

    /// Whether it says that a gRPC call has succeeded.
    pub(crate) fn has_succeeded(&self) -> bool {
        let status = self.call.as_ref();
        status.is_some_and(|status| status.code == grpc::Code::OK)
    }

    /// Whether more responses follow.
    pub(crate) fn is_interim(&self) -> bool {
        self.status.is_some_and(|status| status < 200)
    }

    /// What is wrong with it, at this point of a stream.
    pub(crate) fn fault(&self, follows_head: bool, ends_stream: bool) -> Option<Fault> {
        let misplaced = match self.status {
            Some(_) if follows_head => Some("a second head"),
            None if !follows_head => Some("a response without :status"),
            None if !ends_stream => Some("trailers that do not end the stream"),
            Some(100..200) if ends_stream => Some("an interim response that ends the stream"),
            _ => None,
        };
        self.fault.or_else(|| misplaced.map(Fault::Malformed))
    }

    fn call_mut(&mut self) -> &mut grpc::Status {
        self.call.get_or_insert_with(|| {
            Box::new(grpc::Status {
                code: grpc::Code::UNKNOWN,
                message: String::new(),
            })
        })
    }

    fn note_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if name != b":status" {
            return Err("unknown pseudo-header field");
        }
        let [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] = *value else {
            return Err("bad :status");
        };
        let status = u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0');
        if status == 101 {
            return Err("101, which only HTTP/1.1 has");
        }
        match self.status.replace(status) {
            None => Ok(()),
            Some(_) => Err("a second :status"),
        }
    }

    fn note_regular(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        check_field(name, value)?;
        match name {
            b"content-length" => note_content_length(value, &mut self.content_length)?,
            b"grpc-status" => self.call_mut().code = grpc::Code::read(value),
            b"grpc-message" => self.call_mut().message = grpc::read_message(value),
            b"location" => self.location = Some(String::from_utf8_lossy(value).into_owned()),
            _ => self.stream.note(name, value),
        }
        Ok(())
    }
}

/// The rules for any field of a request or response (RFC 9113 section 8.2).
pub(crate) fn check_field(name: &[u8], value: &[u8]) -> Result<(), &'static str> {
    if name.is_empty() || !name.iter().all(|byte| is_name_byte(*byte)) {
        return Err("bad field name");
    }
    if value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        return Err("bad field value");
    }
    match name {
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            Err("a field of HTTP/1.1 connections")
        }
        _ => Ok(()),
    }
}

/// Reads a content-length. A second one must have the same value.
pub(crate) fn note_content_length(
    value: &[u8],
    noted: &mut Option<u64>,
) -> Result<(), &'static str> {
    let length = std::str::from_utf8(value).ok();
    let length = length.and_then(|it| it.parse().ok());
    let length = length.ok_or("bad content-length")?;
    match noted.replace(length) {
        Some(before) if before != length => Err("content-lengths that differ"),
        _ => Ok(()),
    }
}

/// A token without upper-case letters (RFC 9113 section 8.2.1).
fn is_name_byte(byte: u8) -> bool {
    crate::h1::fields::is_token_byte(byte) && !byte.is_ascii_uppercase()
}
