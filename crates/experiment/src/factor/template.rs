//! Templates with placeholders: `{{level}}`, or the name of one of the level's values.

/// Why a template cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    /// A placeholder names a value that the level does not have.
    #[error("line {line}: {{{{{name}}}}} is not a value of the level (known: {known})")]
    Unknown {
        /// Line of the template, from 1.
        line: usize,
        /// The name in the placeholder.
        name: String,
        /// The names of the level's values.
        known: String,
    },
    /// There is no placeholder: every level would give the same file.
    #[error("contains no placeholder, so every level gives the same file (write {{{{level}}}})")]
    NoPlace,
}

/// Fills in a template. Double braces are left alone unless they enclose a name (letters, digits,
/// `_`, `-`, `.`, with optional blanks), because other programs use double braces as well.
///
/// # Errors
/// When a placeholder names an unknown value, or when there is no placeholder.
pub(crate) fn render(
    template: &[u8],
    values: &[(String, String)],
) -> Result<Vec<u8>, TemplateError> {
    let mut filled = Vec::with_capacity(template.len());
    let mut rest = template;
    let mut places = 0_usize;
    while let Some((before, name, after)) = next_place(rest) {
        filled.extend_from_slice(before);
        let Some((_, value)) = values.iter().find(|(known, _)| known == name) else {
            let consumed = template.len() - rest.len() + before.len();
            let known: Vec<_> = values.iter().map(|(known, _)| known.as_str()).collect();
            return Err(TemplateError::Unknown {
                line: template[..consumed].split(|byte| *byte == b'\n').count(),
                name: name.to_owned(),
                known: known.join(", "),
            });
        };
        filled.extend_from_slice(value.as_bytes());
        places += 1;
        rest = after;
    }
    if places == 0 {
        return Err(TemplateError::NoPlace);
    }
    filled.extend_from_slice(rest);
    Ok(filled)
}

/// The next placeholder: the text before it, its name, and the text after it.
fn next_place(text: &[u8]) -> Option<(&[u8], &str, &[u8])> {
    let mut from = 0;
    loop {
        let begin = from + find(&text[from..], b"{{")?;
        let inside = &text[begin + 2..];
        let end = find(inside, b"}}")?;
        let name = std::str::from_utf8(&inside[..end])
            .unwrap_or_default()
            .trim();
        if is_name(name) {
            return Some((&text[..begin], name, &inside[end + 2..]));
        }
        from = begin + 1;
    }
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len())
        .position(|window| window == pattern)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> Result<String, TemplateError> {
        let values = [
            ("level".to_owned(), "big".to_owned()),
            ("workers".to_owned(), "4".to_owned()),
        ];
        let bytes = render(template.as_bytes(), &values)?;
        Ok(String::from_utf8(bytes).expect("the template is text"))
    }

    #[test]
    fn placeholders_are_filled_in_and_everything_else_is_kept() {
        for (template, expected) in [
            ("{{level}}", "big"),
            (
                "a {{ workers }};\r\nb {{level}}{{level}}",
                "a 4;\r\nb bigbig",
            ),
            ("map { {{level}} }", "map { big }"),
            ("{{{workers}}}", "{4}"),
            ("{{ if x }} {{level}} {{", "{{ if x }} big {{"),
            ("{{\n{{level}}", "{{\nbig"),
        ] {
            assert_eq!(filled(template).as_deref(), Ok(expected), "{template:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_kept() {
        let values = [("level".to_owned(), "1".to_owned())];
        let bytes = render(b"\xff\x00{{level}}\xfe", &values);
        assert_eq!(bytes, Ok(b"\xff\x001\xfe".to_vec()));
    }

    #[test]
    fn an_unknown_placeholder_is_refused_with_its_line() {
        let error = filled("a\nb {{level}}\nc {{lvel}}").expect_err("lvel is no value");
        assert_eq!(
            error.to_string(),
            "line 3: {{lvel}} is not a value of the level (known: level, workers)"
        );
    }

    #[test]
    fn a_template_without_a_placeholder_is_refused() {
        assert_eq!(filled("worker_processes 4;"), Err(TemplateError::NoPlace));
        assert_eq!(filled(""), Err(TemplateError::NoPlace));
    }
}
