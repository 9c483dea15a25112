//! Requests as HTTP/2 sends them.

use super::grpc;
use super::hpack::encode::{Literal, field};
use crate::RequestKind;
use crate::request::RequestText;
use std::borrow::Cow;
use std::sync::Arc;

/// A request whose head is encoded. The same bytes serve every stream and every connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub(super) kind: RequestKind,
    /// The header block, encoded without the dynamic table.
    pub(super) block: Vec<u8>,
    /// Its bytes, if there are any.
    pub(super) body: Option<Arc<[u8]>>,
}

/// Translates a request (RFC 9113 section 8.3.1).
pub(super) fn prepare(request: &RequestText<'_>, scheme: &'static str, is_call: bool) -> Prepared {
    let mut block = Vec::new();
    for_each_field(request, scheme, is_call, |name, value| {
        field(name, value, Literal::for_field(name), &mut block);
    });
    let mut body = request.body();
    if is_call && let Ok(Cow::Owned(framed)) = grpc::framed(&body) {
        body = Cow::Owned(framed);
    }
    Prepared {
        kind: request.kind,
        block,
        body: (!body.is_empty()).then(|| Arc::from(body.as_ref())),
    }
}

/// Calls `add` with each field of a request in HTTP/2 and HTTP/3 (RFC 9113 section 8.3.1, RFC 9114
/// section 4.3.1). Fields that concern the connection of HTTP/1.1 are left out (section 8.2.2 and
/// 4.2). A gRPC call gets what it lacks: the prefix of its message and the fields that every call
/// has.
pub(crate) fn for_each_field(
    request: &RequestText<'_>,
    scheme: &'static str,
    is_call: bool,
    mut add: impl FnMut(&[u8], &[u8]),
) {
    let (authority, path) = split_target(request.target);
    let host = request
        .fields()
        .find(|(name, _)| name.eq_ignore_ascii_case(b"host"));
    let authority = match (authority, host) {
        (Some(authority), _) => authority.to_vec(),
        (None, Some((_, host))) => host.into_owned(),
        (None, None) => Vec::new(),
    };
    add(b":method", request.method);
    if request.kind == RequestKind::Connect {
        add(b":authority", request.target);
    } else {
        add(b":scheme", scheme.as_bytes());
        add(b":authority", &authority);
        add(b":path", path);
    }
    let mut missing: Vec<(&[u8], &[u8])> = if is_call {
        vec![(b"te", b"trailers"), (b"content-type", b"application/grpc")]
    } else {
        Vec::new()
    };
    for (name, value) in request.fields() {
        let name = name.to_ascii_lowercase();
        let is_for_connection = match name.as_slice() {
            b"host" | b"connection" | b"keep-alive" | b"proxy-connection" | b"upgrade"
            | b"transfer-encoding" | b"http2-settings" => true,
            b"te" => *value != *b"trailers",
            // The message may get a prefix.
            b"content-length" => is_call,
            _ => false,
        };
        if !is_for_connection {
            missing.retain(|(known, _)| *known != name);
            add(&name, &value);
        }
    }
    for (name, value) in missing {
        add(name, value);
    }
}

/// Authority and path of a target in absolute form, or just the path.
fn split_target(target: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let is_scheme = |scheme: &&[u8]| target.starts_with(scheme);
    let schemes: [&[u8]; 2] = [b"http://", b"https://"];
    let Some(scheme) = schemes.iter().find(|scheme| is_scheme(scheme)) else {
        return (None, target);
    };
    let rest = &target[scheme.len()..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
    match end.map(|end| rest.split_at(end)) {
        Some((authority, path)) => (Some(authority), path),
        None => (Some(rest), b"/"),
    }
}
