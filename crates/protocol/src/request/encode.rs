//! Encodes a request from its parts, in the form that wrk sends (RFC 9112 section 3).

/// The parts of a request. Nothing is checked or escaped; use [`super::scan`] to check the
/// result.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a, F> {
    /// The method, e.g. `GET`.
    pub method: &'a [u8],
    /// The request target: path with query, e.g. `/a?b=c`.
    pub target: &'a [u8],
    /// `host` or `host:port`. A header named Host in `headers` replaces it.
    pub host: &'a [u8],
    /// Names and values, sent in this order.
    pub headers: &'a [(F, F)],
    /// With `None`, no Content-Length is sent, whatever the method. An empty body sends `0`.
    pub body: Option<&'a [u8]>,
}

/// Appends the request: request line, Host, the given headers, Content-Length, empty line, body.
///
/// A Content-Length in the headers is dropped, since this function computes it. If the headers
/// contain Transfer-Encoding, none is written: the two exclude each other (RFC 9112 section 6.2),
/// and the body is assumed to be chunked already.
pub fn encode<F: AsRef<[u8]>>(request: &Request<'_, F>, output: &mut Vec<u8>) {
    let is = |name: &F, other: &[u8]| name.as_ref().eq_ignore_ascii_case(other);
    let given_host = request
        .headers
        .iter()
        .rev()
        .find(|(name, _)| is(name, b"host"));
    let host = given_host.map_or(request.host, |(_, value)| value.as_ref());
    for part in [
        request.method,
        b" ",
        request.target,
        b" HTTP/1.1\r\nHost: ",
        host,
        b"\r\n",
    ] {
        output.extend_from_slice(part);
    }
    let mut is_coded = false;
    for (name, value) in request.headers {
        if is(name, b"host") || is(name, b"content-length") {
            continue;
        }
        is_coded |= is(name, b"transfer-encoding");
        for part in [name.as_ref(), b": ", value.as_ref(), b"\r\n"] {
            output.extend_from_slice(part);
        }
    }
    let body = request.body.unwrap_or_default();
    if request.body.is_some() && !is_coded {
        output.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    output.extend_from_slice(b"\r\n");
    output.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestKind;
    use crate::request::scan;

    fn encoded(method: &str, headers: &[(&str, &str)], body: Option<&str>) -> String {
        let request = Request {
            method: method.as_bytes(),
            target: b"/a?b",
            host: b"example.org:81",
            headers,
            body: body.map(str::as_bytes),
        };
        let mut output = Vec::new();
        encode(&request, &mut output);
        let mut kinds = Vec::new();
        scan(&output, &mut kinds).expect("what is encoded can be scanned");
        let is_head = method == "HEAD";
        assert_eq!(
            kinds,
            [if is_head {
                RequestKind::Head
            } else {
                RequestKind::Plain
            }]
        );
        String::from_utf8(output).expect("the parts are text")
    }

    #[test]
    fn a_minimal_request_has_a_request_line_and_a_host() {
        let expected = "GET /a?b HTTP/1.1\r\nHost: example.org:81\r\n\r\n";
        assert_eq!(encoded("GET", &[], None), expected);
    }

    #[test]
    fn headers_keep_their_order_and_a_body_gets_its_length() {
        let headers = [("X-B", "1"), ("Accept", ""), ("x-b", "2")];
        let expected = "POST /a?b HTTP/1.1\r\nHost: example.org:81\r\n\
            X-B: 1\r\nAccept: \r\nx-b: 2\r\n\
                        Content-Length: 5\r\n\r\nhello";
        assert_eq!(encoded("POST", &headers, Some("hello")), expected);
    }

    #[test]
    fn a_given_host_replaces_the_default_and_a_given_length_is_dropped() {
        let headers = [("X", "1"), ("hOST", "other"), ("content-length", "77")];
        let expected = "HEAD /a?b HTTP/1.1\r\nHost: other\r\nX: 1\r\n\r\n";
        assert_eq!(encoded("HEAD", &headers, None), expected);
    }

    #[test]
    fn without_a_body_no_method_sends_a_length_but_an_empty_body_sends_zero() {
        assert!(!encoded("POST", &[], None).contains("Content-Length"));
        assert!(encoded("PUT", &[], Some("")).contains("Content-Length: 0\r\n"));
    }

    #[test]
    fn an_already_chunked_body_gets_no_length() {
        let headers = [("Transfer-Encoding", "chunked")];
        let request = encoded("POST", &headers, Some("2\r\nhi\r\n0\r\n\r\n"));
        assert!(!request.contains("Content-Length"), "{request}");
    }
}
