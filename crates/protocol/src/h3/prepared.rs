//! Requests as HTTP/3 sends them.

use std::borrow::Cow;
use std::sync::Arc;

use plan::may_be_early_data;

use super::frame::{self, frame_type};
use super::qpack::encode;
use crate::RequestKind;
use crate::h2::grpc;
use crate::h2::prepared::for_each_field;
use crate::request::RequestText;

/// A request whose frames are encoded. The same bytes serve every stream and every connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub(super) kind: RequestKind,
    /// It may be sent before the handshake is complete.
    pub(super) may_be_early: bool,
    /// The HEADERS frame and, if there is a body, the beginning of the DATA frame.
    pub(super) head: Arc<[u8]>,
    /// The content of the DATA frame; empty without a body.
    pub(super) body: Arc<[u8]>,
}

/// Translates a request (RFC 9114 section 4.3.1). Fields that concern the connection of HTTP/1.1
/// are left out (section 4.2). The scheme is always `https`.
pub(super) fn prepare(request: &RequestText<'_>, is_call: bool) -> Prepared {
    let mut section = Vec::new();
    encode::prefix(&mut section);
    for_each_field(request, "https", is_call, |name, value| {
        encode::field(name, value, &mut section);
    });
    let mut head = Vec::new();
    frame::append(frame_type::HEADERS, &section, &mut head);
    let mut body = request.body();
    if is_call && let Ok(Cow::Owned(framed)) = grpc::framed(&body) {
        body = Cow::Owned(framed);
    }
    if !body.is_empty() {
        frame::append_header(frame_type::DATA, body.len() as u64, &mut head);
    }
    Prepared {
        kind: request.kind,
        may_be_early: may_be_early_data(request.method),
        head: Arc::from(head),
        body: Arc::from(body.as_ref()),
    }
}
