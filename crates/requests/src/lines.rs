//! Lines of a text, and which of them are requests.

use std::fmt::Display;

use crate::error::Fault;

/// Begins a request of an `.http` file. In JetBrains' client the text after it is the name.
pub(crate) const SEPARATOR: &str = "###";

/// A line without its end.
#[derive(Clone, Copy)]
pub(crate) struct TextLine<'t> {
    pub(crate) text: &'t str,
    /// Where it begins in the file.
    pub(crate) at: usize,
}

impl<'t> TextLine<'t> {
    pub(crate) fn is_blank(self) -> bool {
        self.text.trim().is_empty()
    }

    /// The text of a comment.
    pub(crate) fn comment(self) -> Option<&'t str> {
        let text = self.text.trim_start();
        let comment = text.strip_prefix('#').or_else(|| text.strip_prefix("//"));
        comment.map(str::trim)
    }

    /// Where a part of the line is in the file.
    pub(crate) fn position(self, part: &str) -> usize {
        self.at + (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    pub(crate) fn fault(self, part: &str, message: impl Display) -> Fault {
        Fault::new(self.position(part), message)
    }

    /// The name and the value of `Name: value`.
    ///
    /// # Errors
    /// If the line has no colon, or is another request: a list of URLs must not become one request
    /// with strange headers.
    pub(crate) fn header(self, advice: &str) -> Result<(&'t str, &'t str), Fault> {
        let text = self.text.trim();
        if RequestLine::of(text).is_some() || is_address_without_scheme(text) {
            let problem = format!("expected a header like Name: value, but this is a URL {advice}");
            return Err(self.fault(text, problem));
        }
        let (name, value) = self.text.split_once(':').ok_or_else(|| {
            let problem = "expected a header like Name: value, or an empty line";
            self.fault(text, problem)
        })?;
        Ok((name.trim(), value.trim()))
    }
}

/// The lines of a text that begins at `at` in the file.
pub(crate) fn lines_of(text: &str, at: usize) -> impl Iterator<Item = TextLine<'_>> {
    let mut begin = at;
    text.split_inclusive('\n').map(move |with_end| {
        let text = with_end.strip_suffix('\n').unwrap_or(with_end);
        let line = TextLine {
            text: text.strip_suffix('\r').unwrap_or(text),
            at: begin,
        };
        begin += with_end.len();
        line
    })
}

/// The argument of `# @name login` and of `# @name = login`.
pub(crate) fn directive<'t>(comment: &'t str, name: &str) -> Option<&'t str> {
    let rest = comment.strip_prefix(name)?;
    let rest = rest.strip_prefix([' ', '\t', '='])?;
    let argument = rest.trim().trim_start_matches('=').trim_start();
    (!argument.is_empty()).then_some(argument)
}

/// A line that is nothing but a request: `GET http://host/path`, also without the method, and with
/// a version at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestLine<'t> {
    pub(crate) method: Option<&'t str>,
    /// A URL or a path.
    pub(crate) target: &'t str,
}

impl<'t> RequestLine<'t> {
    pub(crate) fn of(text: &'t str) -> Option<Self> {
        let text = text.trim();
        let is_method = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase());
        let (method, rest) = match text.split_once([' ', '\t']) {
            Some((method, rest)) if is_method(method) => (Some(method), rest),
            _ => (None, text),
        };
        let target = without_version(rest.trim());
        let is_one_word = !target.contains([' ', '\t']);
        (is_one_word && is_address(target)).then_some(Self { method, target })
    }

    /// Whether it says where it goes.
    pub(crate) fn is_absolute(self) -> bool {
        self.target.contains("://")
    }
}

/// A target without ` HTTP/1.1` behind it.
pub(crate) fn without_version(target: &str) -> &str {
    match target.rsplit_once([' ', '\t']) {
        Some((target, version)) if version.starts_with("HTTP/") => target.trim_end(),
        _ => target,
    }
}

/// A URL of any scheme, a path, or a template that makes one.
fn is_address(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    text.starts_with(['/'])
        || text.starts_with("{{")
        || text.split_once("://").is_some_and(|it| is_scheme(it.0))
}

/// Whether a line is like `localhost:8080/path`. A header may be written without a space after its
/// colon, but hardly begins with a number and a slash then.
fn is_address_without_scheme(text: &str) -> bool {
    let Some((host, rest)) = text.split_once(':') else {
        return false;
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    host.bytes().all(is_host) && behind.len() < rest.len() && behind.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_nothing_but_a_request_is_recognised() {
        for (text, method, target) in [
            ("http://h/a", None, "http://h/a"),
            (" HTTPS://h ", None, "HTTPS://h"),
            ("/path?q", None, "/path?q"),
            ("{{base}}/x", None, "{{base}}/x"),
            ("GET http://h/", Some("GET"), "http://h/"),
            ("PURGE\t/x HTTP/1.1", Some("PURGE"), "/x"),
            ("ftp://h/", None, "ftp://h/"),
        ] {
            let expected = RequestLine { method, target };
            assert_eq!(RequestLine::of(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "hello",
            "GET",
            "GET x",
            "get http://h/",
            "GET /a 200",
            "http://h/a POST b=c",
            "Referer: http://h/",
            "Referer:http://h/",
            "{\"a\": 1}",
            "GET /a b HTTP/1.1",
        ] {
            assert_eq!(RequestLine::of(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_is_no_header() {
        for (text, is_header) in [
            ("Accept: */*", true),
            ("Referer:http://h/", true),
            ("X-Id:12", true),
            ("X-Range: 1/2", true),
            ("http://h/b", false),
            ("GET http://h/b", false),
            ("localhost:8080/b", false),
            ("example.com:80/", false),
            ("example.com/b", false),
        ] {
            let line = TextLine { text, at: 0 };
            assert_eq!(line.header("").is_ok(), is_header, "{text}");
        }
    }
}
