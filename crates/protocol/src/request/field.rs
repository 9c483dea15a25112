//! A header field that is added to a request.

use memchr::memchr;

use super::split;

/// Appends concatenated requests, with a field added to the first one: behind its request line, so
/// that the rest of its head may have any form. Returns false, and copies the text, if that is no
/// request or has a field with this name.
pub fn add_field(text: &[u8], name: &str, value: &str, output: &mut Vec<u8>) -> bool {
    let first = split(text).next().and_then(Result::ok).filter(|request| {
        let mut fields = request.fields();
        fields.all(|(given, _)| !given.eq_ignore_ascii_case(name.as_bytes()))
    });
    let line_end = first.and_then(|request| {
        // The target is a part of the text.
        let target_end = request.target.as_ptr_range().end as usize - text.as_ptr() as usize;
        Some(target_end + memchr(b'\n', &text[target_end..])? + 1)
    });
    let (line, rest) = text.split_at(line_end.unwrap_or(0));
    output.extend_from_slice(line);
    if line_end.is_some() {
        for part in [name, ": ", value, "\r\n"] {
            output.extend_from_slice(part.as_bytes());
        }
    }
    output.extend_from_slice(rest);
    line_end.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(text: &str) -> (bool, String) {
        let mut output = b"before ".to_vec();
        let is_added = add_field(text.as_bytes(), "traceparent", "00-1", &mut output);
        let output = String::from_utf8(output).expect("it was text");
        (
            is_added,
            output.strip_prefix("before ").expect("it stays").to_owned(),
        )
    }

    #[test]
    fn the_first_request_gets_the_field() {
        let text = "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n";
        let expected = "GET /a HTTP/1.1\r\ntraceparent: 00-1\r\nHost: h\r\n\r\n\
                        GET /b HTTP/1.1\r\nHost: h\r\n\r\n";
        assert_eq!(added(text), (true, expected.to_owned()));
        let post = "POST /a HTTP/1.1\nContent-Length: 3\n\nabc";
        let expected = "POST /a HTTP/1.1\ntraceparent: 00-1\r\nContent-Length: 3\n\nabc";
        assert_eq!(added(post), (true, expected.to_owned()));
    }

    #[test]
    fn a_request_with_such_a_field_and_what_is_no_request_stay_as_they_are() {
        let own = "GET /a HTTP/1.1\r\nHost: h\r\nTraceparent: 00-2\r\n\r\n";
        for text in [own, "", "\r\n", "nonsense", "GET"] {
            assert_eq!(added(text), (false, text.to_owned()), "{text}");
        }
    }
}
