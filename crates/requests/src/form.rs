//! Which form a request file has, by what is in it.

use crate::error::Fault;
use crate::lines::{RequestLine, SEPARATOR, directive, lines_of};

/// What is said of a file that is in none of the forms.
pub(crate) const FORMS: &str = "a request file is a list of URLs, vegeta's targets, JSON lines, a \
                                JSON array, or in the .http format";

/// A form of request files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object in each line.
    JsonLines,
    /// The same objects in an array.
    JsonArray,
    /// A list of URLs, or vegeta's targets: a request in a line, and below it what belongs to it.
    Targets,
    /// The format of REST clients: `###` between requests.
    HttpFile,
}

impl Form {
    /// The form of a text that begins at `at` in the file.
    ///
    /// # Errors
    /// If it is a HAR file, which says more than what is to be sent.
    pub(crate) fn of(text: &str, at: usize) -> Result<Self, Fault> {
        let trimmed = text.trim_start();
        // An `.http` file may begin with `{{host}}/path`.
        if trimmed.starts_with("{{") {
            return Ok(Self::of_lines(text));
        }
        if let Some(object) = trimmed.strip_prefix('{') {
            let is_recording = object
                .trim_start()
                .strip_prefix("\"log\"")
                .is_some_and(|rest| rest.trim_start().starts_with(':'));
            return if is_recording {
                let begin = at + (text.len() - trimmed.len());
                let problem = "this is a HAR file: make a request file of it with wrkbench har \
                               FILE -o requests.jsonl";
                Err(Fault::new(begin, problem))
            } else {
                Ok(Self::JsonLines)
            };
        }
        Ok(if trimmed.starts_with('[') {
            Self::JsonArray
        } else {
            Self::of_lines(text)
        })
    }

    /// Tells lists from `.http` files, in which only the first line of a request is one, and what
    /// follows an empty line is a body.
    fn of_lines(text: &str) -> Self {
        let mut first: Option<RequestLine<'_>> = None;
        let (mut has_fields, mut first_has_ended) = (false, false);
        let mut is_list = None;
        for line in lines_of(text, 0) {
            if line.text.starts_with(SEPARATOR) {
                return Self::HttpFile;
            }
            if let Some(comment) = line.comment() {
                let names = ["@name", "@weight", "@capture"];
                if names.iter().any(|it| directive(comment, it).is_some()) {
                    return Self::HttpFile;
                }
                continue;
            }
            if line.is_blank() {
                first_has_ended |= first.is_some();
                continue;
            }
            // The rest must only be without the signs above.
            if is_list.is_some() {
                continue;
            }
            let request = RequestLine::of(line.text);
            let Some(before) = first else {
                match request {
                    None => return Self::HttpFile,
                    Some(_) => first = request,
                }
                continue;
            };
            if !first_has_ended {
                if request.is_some() || line.text.trim_start().starts_with('@') {
                    is_list = Some(true)
                } else {
                    has_fields = true
                }
                continue;
            }
            // A body may be a URL, too, but hardly a whole request.
            is_list = Some(request.is_some_and(|request| {
                let has_body = !matches!(before.method, None | Some("GET" | "HEAD" | "DELETE"));
                (request.is_absolute() || !has_fields) && (request.method.is_some() || !has_body)
            }));
        }
        match is_list {
            Some(true) => Self::Targets,
            _ => Self::HttpFile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_file_is_recognised() {
        use Form::{HttpFile, JsonArray, JsonLines, Targets};
        for (text, form) in [
            ("{\"path\":\"/\"}", JsonLines),
            ("\n {\"logs\":1}", JsonLines),
            (" [\n{}]", JsonArray),
            ("http://h/a\nhttp://h/b\n", Targets),
            ("# c\n\nhttp://h/a\n\n# d\nhttp://h/b", Targets),
            ("/a\n/b", Targets),
            ("{{env:H}}/a\n{{env:H}}/b", Targets),
            ("GET http://h/a\nA: b\n\nGET http://h/b\n", Targets),
            ("POST http://h/a\n@body\n", Targets),
            ("POST http://h/a\nA: b\n@body\n", Targets),
            ("GET http://h/a\n\nhttp://h/b\n", Targets),
            ("http://h/a\nPOST http://h/b\nA: b", Targets),
            // With one request both say the same.
            ("http://h/a\n", HttpFile),
            ("GET http://h/a\nA: b\n", HttpFile),
            ("###\nhttp://h/a\n###\nhttp://h/b\n", HttpFile),
            ("http://h/a\nhttp://h/b\n### more\n", HttpFile),
            ("# @name a\nhttp://h/a\nhttp://h/b\n", HttpFile),
            ("# @capture a $.a\nhttp://h/a\nhttp://h/b\n", HttpFile),
            ("@h = http://h\nGET {{h}}/a\n\nGET {{h}}/b", HttpFile),
            ("{{h}}/a\nA: b\n", HttpFile),
            // Bodies.
            ("POST http://h/a\n\n{\"a\": 1}\n", HttpFile),
            ("POST http://h/a\n\nhttp://callback/\n", HttpFile),
            ("POST http://h/a\nA: b\n\n/b\n", HttpFile),
            ("POST http://h/a\nA: b\n\nGET /b\n", HttpFile),
            ("hello", HttpFile),
            ("", HttpFile),
        ] {
            assert_eq!(Form::of(text, 0), Ok(form), "{text:?}");
        }
    }

    #[test]
    fn a_recording_of_a_browser_is_refused_with_advice() {
        for text in ["{\"log\":{}}", "\n{\n  \"log\" : {"] {
            let fault = Form::of(text, 3).expect_err("it is a HAR file");
            assert_eq!(fault.at, 3 + text.find('{').expect("it has one"));
            assert!(fault.message.contains("wrkbench har FILE -o"), "{text}");
        }
    }
}
