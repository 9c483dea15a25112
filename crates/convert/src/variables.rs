//! Environment variables in place of secrets.

use plan::secrets::{Secret, parts};
use plan::shell;

/// The variables that stand for the secrets of requests. Equal secrets of the same name have one.
#[derive(Debug, Default)]
pub struct Variables {
    known: Vec<Variable>,
    /// Bodies with secrets that cannot have variables.
    pub(crate) hidden_bodies: usize,
}

#[derive(Debug)]
struct Variable {
    name: String,
    value: String,
    /// What it is, for people.
    place: String,
}

/// Where a secret is in a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SecretPlace {
    Url,
    Header,
    Body,
    Proxy,
}

/// A text, and the secrets in it.
#[derive(Debug)]
pub(crate) struct MarkedText {
    pub(crate) text: String,
    pub(crate) secrets: Vec<Secret>,
    pub(crate) part: SecretPlace,
}

impl MarkedText {
    /// A text without secrets.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Vec::new(), SecretPlace::Url)
    }

    pub(crate) fn new(text: impl Into<String>, secrets: Vec<Secret>, part: SecretPlace) -> Self {
        Self {
            text: text.into(),
            secrets,
            part,
        }
    }

    /// The text with another one before it.
    pub(crate) fn after(mut self, before: &str) -> Self {
        for Secret { range, .. } in &mut self.secrets {
            *range = range.start + before.len()..range.end + before.len();
        }
        self.text.insert_str(0, before);
        self
    }
}

impl Variables {
    /// The variables and what each is for, on one line; `None` if there is no secret.
    #[must_use]
    pub fn list(&self) -> Option<String> {
        let known = self.known.iter();
        let known = known.map(|Variable { name, place, .. }| format!("{name} ({place})"));
        let list = known.collect::<Vec<_>>().join(", ");
        (!list.is_empty()).then_some(list)
    }

    /// The number of bodies in which secrets are `***`, because they are not text.
    #[must_use]
    pub fn hidden_bodies(&self) -> usize {
        self.hidden_bodies
    }

    /// A text as a template of a requests file.
    pub(crate) fn template(&mut self, marked: &MarkedText) -> String {
        let variable = |name: &str| format!("{{{{env:{name}}}}}");
        // Braces that are no template.
        self.filled(marked, |text| text.replace("{{", "{{'{{'}}"), variable)
    }

    /// A word of a shell command, which fails if a variable is not set.
    pub(crate) fn word(&mut self, marked: &MarkedText) -> String {
        if marked.secrets.is_empty() {
            return shell::quoted(&marked.text);
        }
        let literal = |text: &str| {
            if text.is_empty() {
                String::new()
            } else {
                shell::quoted(text)
            }
        };
        self.filled(marked, literal, |name| format!("\"${{{name}:?}}\""))
    }

    fn filled(
        &mut self,
        marked: &MarkedText,
        literal: impl Fn(&str) -> String,
        variable: impl Fn(&str) -> String,
    ) -> String {
        let MarkedText {
            text,
            secrets,
            part,
        } = marked;
        let mut filled = String::with_capacity(text.len());
        for (plain, secret) in parts(text, secrets) {
            filled.push_str(&literal(plain));
            if let Some(secret) = secret {
                filled.push_str(&variable(self.of(
                    secret,
                    &text[secret.range.clone()],
                    *part,
                )));
            }
        }
        filled
    }

    fn of(&mut self, secret: &Secret, value: &str, part: SecretPlace) -> &str {
        let base = secret.variable();
        let name = |number: usize| match number {
            1 => base.clone(),
            _ => format!("{base}_{number}"),
        };
        let mut number = 1;
        let found = loop {
            let its = name(number);
            match self.known.iter().position(|known| known.name == its) {
                Some(at) if self.known[at].value == value => break at,
                Some(_) => number += 1,
                None => {
                    let place = match part {
                        SecretPlace::Url => "in a URL",
                        SecretPlace::Header => "in a header",
                        SecretPlace::Body => "in a body",
                        SecretPlace::Proxy => "of the proxy",
                    };
                    self.known.push(Variable {
                        name: its,
                        value: value.to_owned(),
                        place: format!("{} {place}", secret.name),
                    });
                    break self.known.len() - 1;
                }
            }
        };
        &self.known[found].name
    }
}

#[cfg(test)]
mod tests {
    use plan::Body;
    use plan::secrets::secrets_in_body;
    use proptest::prelude::*;

    use super::*;
    use crate::Request;
    use crate::requests_file::{text, text_with_variables};

    /// Texts in which secrets are found, often next to each other and within each other.
    fn tricky_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            proptest::sample::select(vec![
                "token",
                "\"password\"",
                "=",
                ":",
                "\"",
                "'",
                "&",
                "?",
                "{{",
                "}}",
                "{",
                "\\",
                "1",
                "-",
                "http://",
                "u:p@",
                "/",
                " ",
                "\r\n",
                "\r\n\r\n",
                "--b",
                "name=\"secret\"",
                "\u{e4}",
                "***",
            ])
            .prop_map(str::to_owned),
            "[a-z]{1,3}",
        ];
        proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn variables_with_their_values_make_the_request_as_it_was(
            url in tricky_text(),
            header in tricky_text(),
            cookie in tricky_text(),
            body in tricky_text(),
        ) {
            let requests = [Request {
                url,
                headers: vec![("A".to_owned(), header), ("Cookie".to_owned(), cookie)],
                body: Some(Body::Inline(body.into_bytes())),
                ..Request::default()
            }];
            let mut variables = Variables::default();
            let mut filled = text_with_variables(&requests, &mut variables);
            for Variable { name, value, .. } in &variables.known {
                let value = value.replace("{{", "{{'{{'}}");
                let json = serde_json::Value::from(value).to_string();
                filled = filled.replace(&format!("{{{{env:{name}}}}}"), &json[1..json.len() - 1]);
            }
            prop_assert_eq!(filled, text(&requests));
        }

        #[test]
        fn a_word_for_a_shell_has_no_secret(body in tricky_text()) {
            let secrets = secrets_in_body(&body);
            let texts: Vec<String> = secrets.iter().map(|it| body[it.range.clone()].to_owned()).collect();
            let plain: String = parts(&body, &secrets).map(|(plain, _)| plain).collect();
            let word = Variables::default().word(&MarkedText::new(body, secrets, SecretPlace::Body));
            for text in texts.iter().filter(|text| text.len() > 9 && !plain.contains(*text)) {
                prop_assert!(!word.contains(text.as_str()), "{} in {}", text, word);
            }
        }
    }
}
