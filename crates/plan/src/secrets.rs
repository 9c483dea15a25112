//! Hides passwords, tokens and cookies in results, on pages and on screens.
//!
//! Every secret is replaced by the same mark, [`HIDDEN`]: it reveals nothing, and runs that differ
//! only in a token have the same load.

use crate::RunPlan;

/// Replaces a secret.
pub const HIDDEN: &str = "***";

/// A header is secret if its name contains one of these, in lower case.
const SECRET_NAMES: [&str; 19] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "passwd",
    "credential",
    "api-key",
    "apikey",
    "api_key",
    "access-key",
    "access_key",
    "auth-key",
    "subscription-key",
    "functions-key",
    "x-auth",
    "session",
    "signature",
    "jwt",
];

/// Whether a header with this name has a secret value.
#[must_use]
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Hides the user information of URLs and the values of secret headers in a text: a URL, an
/// argument, the TOML of an experiment.
///
/// The value of a header ends at the quote that was opened before its name. Without one it ends
/// with the line, or at the next space if other words precede the name.
#[must_use]
pub fn hide_secrets(text: &str) -> String {
    hide_headers(&hide_userinfo(text))
}

impl RunPlan {
    /// The plan in the form that may be shown and saved.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut plan = self.clone();
        plan.target.url = hide_userinfo(&plan.target.url);
        for (name, value) in &mut plan.request.headers {
            if is_secret_header(name) {
                HIDDEN.clone_into(value);
            }
        }
        for argument in &mut plan.request.script_args {
            *argument = hide_secrets(argument);
        }
        plan
    }
}

/// Hides the text between `://` and the `@` of an authority.
fn hide_userinfo(text: &str) -> String {
    const BEGIN: &str = "://";
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let (before, after) = rest.split_at(at + BEGIN.len());
        shown.push_str(before);
        let end = after
            .find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace())
            .unwrap_or(after.len());
        let host = after[..end].rfind('@');
        if host.is_some() {
            shown.push_str(HIDDEN);
        }
        rest = &after[host.unwrap_or(0)..];
    }
    shown.push_str(rest);
    shown
}

/// Hides the text after the colon of a secret header's name.
fn hide_headers(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(colon) = rest.find(':') {
        let (before, after) = rest.split_at(colon);
        shown.push_str(before);
        shown.push(':');
        rest = &after[1..];
        let begin = before
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')))
            .map_or(0, |at| {
                at + before[at..].chars().next().map_or(1, char::len_utf8)
            });
        if !is_secret_header(&before[begin..]) {
            continue;
        }
        // The output so far ends with the name and the colon.
        let opening = shown[..shown.len() - 1 - (before.len() - begin)]
            .chars()
            .next_back();
        let value = rest.trim_start_matches([' ', '\t']);
        shown.push_str(&rest[..rest.len() - value.len()]);
        let end = end_of_value(value, opening);
        if end > 0 {
            shown.push_str(HIDDEN);
        }
        rest = &value[end..];
    }
    shown.push_str(rest);
    shown
}

/// Where the value of a header ends, given the character before its name.
fn end_of_value(text: &str, opening: Option<char>) -> usize {
    let mut is_escaped = false;
    let is_end = |c: char| match opening {
        _ if c == '\n' => true,
        Some('"') if is_escaped => {
            is_escaped = false;
            false
        }
        Some('"') if c == '\\' => {
            is_escaped = true;
            false
        }
        Some(quote @ ('"' | '\'')) => c == quote,
        None | Some('\n' | '=') => false,
        Some(_) => c.is_whitespace() || matches!(c, '"' | '\''),
    };
    text.find(is_end).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_headers_are_known_by_their_names() {
        for name in [
            "Authorization",
            "proxy-authorization",
            "Cookie",
            "X-Api-Key",
            "X-API-KEY",
            "apikey",
            "X-Auth-Token",
            "X-Amz-Security-Token",
            "X-CSRF-Token",
            "Ocp-Apim-Subscription-Key",
            "X-Session-Id",
            "X-Hub-Signature-256",
        ] {
            assert!(is_secret_header(name), "{name}");
        }
        for name in [
            "Accept",
            "Host",
            "X-Request-Id",
            "Content-Type",
            "Idempotency-Key",
            "Sec-WebSocket-Key",
            "Cache-Control",
        ] {
            assert!(!is_secret_header(name), "{name}");
        }
    }

    #[test]
    fn secrets_in_arguments_and_plans_are_hidden_and_nothing_else() {
        for (text, expected) in [
            ("http://h:1/p?a=b", "http://h:1/p?a=b"),
            ("http://u:p@h:1/p@q", "http://***@h:1/p@q"),
            ("https://token@h", "https://***@h"),
            ("http://u:p@w@h/", "http://***@h/"),
            (
                "http://h/?next=http://u:p@i/",
                "http://h/?next=http://***@i/",
            ),
            ("Authorization: Bearer a b", "Authorization: ***"),
            ("authorization:x", "authorization:***"),
            ("-HCookie: a=b; c=d", "-HCookie: ***"),
            ("--header=X-Api-Key: 1:2", "--header=X-Api-Key: ***"),
            ("-LHCookie: a", "-LHCookie: ***"),
            ("Cookie:", "Cookie:"),
            ("Cookie: ", "Cookie: "),
            ("A: 1\r\nCookie: a\nB: 2", "A: 1\r\nCookie: ***\nB: 2"),
            ("X-Trace: abc", "X-Trace: abc"),
            ("12:30:00", "12:30:00"),
            ("\u{e4}Cookie: a", "\u{e4}Cookie: ***"),
            (
                "header = [\"Authorization: Bearer \\\"x\\\" y\", 'Cookie: a b', 'A: b']",
                "header = [\"Authorization: ***\", 'Cookie: ***', 'A: b']",
            ),
            (
                "run = \"curl -H 'X-Token: a b' -HCookie:c http://u:p@h/x\"",
                "run = \"curl -H 'X-Token: ***' -HCookie:*** http://***@h/x\"",
            ),
            ("url = \"http://u:p@h/\"\n", "url = \"http://***@h/\"\n"),
        ] {
            assert_eq!(hide_secrets(text), expected, "{text}");
            assert_eq!(hide_secrets(expected), expected, "a second time");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-zC:/@'\"\\\\ \n\u{e4}=-]{0,60}|\\PC{0,40}") {
            let _ = hide_secrets(&format!("{text}Cookie: {text}"));
        }

        #[test]
        fn no_password_of_a_url_and_no_token_remains(secret in "[a-zA-Z0-9%.~_-]{8,20}") {
            let text = format!("http://user:{secret}@h/ -H 'Authorization: Basic {secret}'");
            proptest::prop_assert!(!hide_secrets(&text).contains(&secret));
        }
    }
}
