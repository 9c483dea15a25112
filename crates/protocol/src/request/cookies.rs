//! Adds cookies to requests.

use memchr::memchr;

use super::{RequestText, split};

/// Appends concatenated requests, each with the cookies that `cookies` has for it: `a=1; b=2`, or
/// nothing. A request that has a `Cookie` header keeps those with other names (RFC 6265 section 5.4
/// has one header for all). Everything from the first byte that is not a request is copied.
pub fn add_cookies(
    text: &[u8],
    mut cookies: impl FnMut(&RequestText<'_>) -> String,
    output: &mut Vec<u8>,
) {
    let mut rest = text;
    for request in split(text) {
        let Ok(request) = request else { break };
        // The target is a part of the text.
        let target_end = request.target.as_ptr_range().end as usize - rest.as_ptr() as usize;
        let line_end = memchr(b'\n', &rest[target_end..]);
        let line_end = line_end.map_or(rest.len(), |at| target_end + at + 1);
        let own = cookies(&request);
        let (line, after) = rest.split_at(line_end);
        output.extend_from_slice(line);
        rest = after;
        if own.is_empty() {
            continue;
        }
        let mut given = Vec::new();
        let mut lines = Vec::new();
        let head_end = take_head(after, &mut given, &mut lines);
        let others = given
            .split(|byte| *byte == b';')
            .map(<[u8]>::trim_ascii)
            .filter(|pair| !pair.is_empty() && !has_name_in(pair, &own));
        output.extend_from_slice(b"Cookie: ");
        for pair in others {
            output.extend_from_slice(pair);
            output.extend_from_slice(b"; ");
        }
        output.extend_from_slice(own.as_bytes());
        output.extend_from_slice(b"\r\n");
        output.extend_from_slice(&lines);
        rest = &after[head_end..];
    }
    output.extend_from_slice(rest);
}

/// Separates header lines: values of `Cookie` from the other lines. Returns where the empty line
/// begins.
fn take_head(after: &[u8], given: &mut Vec<u8>, lines: &mut Vec<u8>) -> usize {
    let mut at = 0;
    let mut is_cookie = false;
    while at < after.len() {
        let end = memchr(b'\n', &after[at..]).map_or(after.len(), |length| at + length + 1);
        let line = &after[at..end];
        if line == b"\r\n" || line == b"\n" {
            break;
        }
        let is_folded = matches!(line.first(), Some(b' ' | b'\t'));
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        is_cookie = if is_folded {
            is_cookie
        } else {
            name.eq_ignore_ascii_case(b"cookie")
        };
        if is_cookie {
            let value = if is_folded {
                line
            } else {
                &line[name.len() + 1..]
            };
            if !is_folded && !given.is_empty() {
                given.push(b';');
            }
            given.extend_from_slice(value.trim_ascii());
        } else {
            lines.extend_from_slice(line)
        }
        at = end;
    }
    at
}

/// Whether a list of cookies has one with the name of this pair.
fn has_name_in(pair: &[u8], list: &str) -> bool {
    let name = |pair: &[u8]| {
        let end = memchr(b'=', pair).unwrap_or(0);
        pair[..end].to_vec()
    };
    let own = name(pair);
    list.split("; ").any(|other| name(other.as_bytes()) == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, cookies: &str) -> String {
        let mut output = Vec::new();
        add_cookies(text.as_bytes(), |_| cookies.to_owned(), &mut output);
        String::from_utf8(output).expect("it was text")
    }

    #[test]
    fn cookies_are_added_to_those_that_a_request_has() {
        for (text, cookies, expected) in [
            (
                "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
                "a=1",
                "GET / HTTP/1.1\r\nCookie: a=1\r\nHost: h\r\n\r\n",
            ),
            (
                "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
                "",
                "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            ),
            (
                "GET / HTTP/1.1\r\nHost: h\r\ncookie: a=0; c=3\r\nX: y\r\n\r\n",
                "a=1; b=2",
                "GET / HTTP/1.1\r\nCookie: c=3; a=1; b=2\r\nHost: h\r\nX: y\r\n\r\n",
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nab\r\nGET /b HTTP/1.1\r\n\r\n",
                "a=1",
                "POST / HTTP/1.1\r\nCookie: a=1\r\nContent-Length: 4\r\n\r\nab\r\n\
                 GET /b HTTP/1.1\r\nCookie: a=1\r\n\r\n",
            ),
            (
                "GET / HTTP/1.1\r\n\r\n",
                "a=1",
                "GET / HTTP/1.1\r\nCookie: a=1\r\n\r\n",
            ),
            ("no request", "a=1", "no request"),
            ("", "a=1", ""),
        ] {
            assert_eq!(with(text, cookies), expected, "{text:?} {cookies:?}");
        }
    }

    #[test]
    fn cut_requests_are_copied_or_completed_and_nothing_panics() {
        let text = "POST /a HTTP/1.1\r\nCookie: a=0\r\n b=1\r\nContent-Length: 2\r\n\r\nxy";
        for end in 0..text.len() {
            assert_eq!(with(&text[..end], "c=3"), text[..end], "{end}");
        }
        let whole = with(text, "a=3");
        assert!(
            whole.ends_with("\r\n\r\nxy") && whole.contains("a=3\r\n"),
            "{whole}"
        );
    }
}
