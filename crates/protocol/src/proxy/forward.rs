//! Requests for a proxy: the target in absolute form (RFC 9112 section 3.2.2).

use crate::request::split;

/// What a proxy needs in each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// `http://host:port`, without a path.
    origin: Vec<u8>,
    /// Header lines, each with its end. May be empty.
    headers: Vec<u8>,
}

impl Forward {
    /// Requests to `authority` (`host` or `host:port`). `headers` are added to each of them: lines,
    /// each with its end.
    #[must_use]
    pub fn new(authority: &str, headers: &str) -> Self {
        Self {
            origin: format!("http://{authority}").into_bytes(),
            headers: headers.into(),
        }
    }

    /// Appends concatenated requests with absolute targets and the headers. Everything else
    /// is copied byte for byte. A target that is absolute already remains; so does that of CONNECT,
    /// and everything from the first byte that is not a request.
    pub fn rewrite(&self, text: &[u8], output: &mut Vec<u8>) {
        let mut rest = text;
        for request in split(text) {
            let Ok(request) = request else { break };
            // The target is a part of the text.
            let at = request.target.as_ptr() as usize - rest.as_ptr() as usize;
            let (before, after) = rest.split_at(at);
            output.extend_from_slice(before);
            match request.target {
                path @ [b'/', ..] => {
                    output.extend_from_slice(&self.origin);
                    output.extend_from_slice(path);
                }
                // OPTIONS for the whole server (RFC 9112 section 3.2.4).
                b"*" => output.extend_from_slice(&self.origin),
                other => output.extend_from_slice(other),
            }
            let after = &after[request.target.len()..];
            let line = memchr::memchr(b'\n', after).map_or(after.len(), |at| at + 1);
            output.extend_from_slice(&after[..line]);
            output.extend_from_slice(&self.headers);
            rest = &after[line..];
        }
        output.extend_from_slice(rest);
    }
}
