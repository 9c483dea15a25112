//! What a header block of a request means (RFC 9113 section 8.3.1).

use super::head::{check_field, note_content_length};
use super::hpack::Effect;
use crate::Fields;

/// The head of a request, or a trailer section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// The method, in the pseudo-header field `:method`.
    pub method: String,
    /// The target, in the field `:path`; for CONNECT its authority.
    pub target: String,
    /// The number in `content-length`.
    pub content_length: Option<u64>,
    /// The client waits for a response with status 100 before it sends the body.
    pub expects_continue: bool,
    /// More fields than the limit, which are left out.
    pub is_too_large: bool,
    /// All fields with the pseudo-header fields, in order.
    pub fields: Fields,
    is_trailers: bool,
    fault: Option<&'static str>,
}

/// The pseudo-header fields of a request.
#[derive(Debug, Default)]
struct Pseudo {
    method: Option<String>,
    scheme: Option<String>,
    authority: Option<String>,
    path: Option<String>,
}

impl RequestHead {
    /// Reads the fields of a block.
    pub(crate) fn read(fields: &Fields, effect: Effect) -> Self {
        let mut pseudo = Pseudo::default();
        let mut head = Self {
            method: String::new(),
            target: String::new(),
            content_length: None,
            expects_continue: false,
            is_too_large: effect.oversized.is_some(),
            fields: fields.clone(),
            is_trailers: false,
            fault: None,
        };
        let mut is_regular = false;
        for (name, value) in fields.iter() {
            let noted = match name.first() {
                Some(b':') if is_regular => Err("pseudo-header field after other fields"),
                Some(b':') => pseudo.note(name, value),
                _ => {
                    is_regular = true;
                    head.note_regular(name, value)
                }
            };
            if let Err(reason) = noted {
                head.fault.get_or_insert(reason);
            }
        }
        if let Err(reason) = head.take_over(pseudo) {
            head.fault.get_or_insert(reason);
        }
        head
    }

    /// What is wrong with it as the head of a request.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.is_trailers && !self.is_too_large {
            self.fault.or(Some("a request without :method"))
        } else {
            self.fault
        }
    }

    /// What is wrong with it as trailers.
    pub(crate) fn fault_of_trailers(&self) -> Option<&'static str> {
        if self.is_trailers {
            self.fault
        } else {
            Some("pseudo-header fields in trailers")
        }
    }

    fn note_regular(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        check_field(name, value)?;
        match name {
            b"content-length" => note_content_length(value, &mut self.content_length)?,
            b"expect" => self.expects_continue = value.eq_ignore_ascii_case(b"100-continue"),
            b"te" if value != b"trailers" => return Err("te other than trailers"),
            _ => {}
        }
        Ok(())
    }

    /// Checks that the pseudo-header fields are complete. Trailers have none.
    fn take_over(&mut self, pseudo: Pseudo) -> Result<(), &'static str> {
        let is_connect = pseudo.method.as_deref() == Some("CONNECT");
        match pseudo {
            Pseudo {
                method: None,
                scheme: None,
                authority: None,
                path: None,
            } => self.is_trailers = true,
            Pseudo {
                method: Some(method),
                scheme: None,
                authority: Some(authority),
                path: None,
            } if is_connect => (self.method, self.target) = (method, authority),
            Pseudo {
                method: Some(method),
                scheme: Some(_),
                path: Some(path),
                ..
            } if !is_connect && !path.is_empty() => (self.method, self.target) = (method, path),
            _ => return Err("missing or wrong pseudo-header fields"),
        }
        Ok(())
    }
}

impl Pseudo {
    fn note(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let place = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            _ => return Err("unknown pseudo-header field"),
        };
        match place.replace(String::from_utf8_lossy(value).into_owned()) {
            None => Ok(()),
            Some(_) => Err("a pseudo-header field twice"),
        }
    }
}
