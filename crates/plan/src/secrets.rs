//! Hides passwords, tokens and cookies in results, on pages and on screens.
//!
//! Every secret is replaced by the same mark, [`HIDDEN`]: it reveals nothing, and runs that differ
//! only in a token have the same load.

use std::ops::Range;

use crate::{Body, OPTIONS, PlanError, ProxySpec, RunPlan};

/// The mark that replaces a secret.
pub const HIDDEN: &str = "***";

/// A header, a parameter or a member is secret if its name contains one of these, in lower case.
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

/// Names that are secret in the query of a URL and in a form, but mean too much elsewhere.
const SECRET_PARAMETERS: [&str; 9] = [
    "code",
    "key",
    "sig",
    "pass",
    "passphrase",
    "pwd",
    "auth",
    "sid",
    "otp",
];

/// Whether a header with this name has a secret value.
#[must_use]
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // `max_tokens` is a number of words.
    !name.ends_with("tokens") && SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn is_secret_parameter(name: &str) -> bool {
    let mut known = SECRET_PARAMETERS.iter();
    is_secret_header(name) || known.any(|known| name.eq_ignore_ascii_case(known))
}

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The header, parameter, field or member whose value it is; `url-user` before a host.
    pub name: String,
    /// Its bytes in the text; at least one.
    pub range: Range<usize>,
    /// Quotes that the mark needs around it, because the value of the member is a number.
    quotes: String,
}

impl Secret {
    /// The secret with this value; `None` if the value is empty.
    #[must_use]
    pub fn new(name: &str, range: Range<usize>) -> Option<Self> {
        let secret = Self {
            name: name.to_owned(),
            range,
            quotes: String::new(),
        };
        (!secret.range.is_empty()).then_some(secret)
    }

    /// The name of an environment variable for it: `X_API_KEY`.
    #[must_use]
    pub fn variable(&self) -> String {
        let upper = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        };
        let name: String = self.name.chars().map(upper).collect();
        match name.chars().next() {
            // Every shell has a variable of this name.
            _ if name == "PWD" => "PASSWORD".to_owned(),
            Some(first) if !first.is_ascii_digit() => name,
            _ => format!("_{name}"),
        }
    }
}

/// The parts of a text in their order: what is no secret, then a secret, and so on. `secrets` are
/// in order and do not overlap.
pub fn parts<'t>(
    text: &'t str,
    secrets: &'t [Secret],
) -> impl Iterator<Item = (&'t str, Option<&'t Secret>)> {
    let begins = std::iter::once(0).chain(secrets.iter().map(|secret| secret.range.end));
    let next = secrets.iter().map(Some).chain([None]);
    begins.zip(next).map(move |(begin, secret)| {
        let end = secret.map_or(text.len(), |secret| secret.range.start);
        (&text[begin..end], secret)
    })
}

/// The text with the mark in place of its secrets.
fn hide(text: &str, secrets: &[Secret]) -> String {
    let mut shown = String::with_capacity(text.len());
    for (plain, secret) in parts(text, secrets) {
        shown.push_str(plain);
        if let Some(Secret { quotes, .. }) = secret {
            shown.extend([quotes, HIDDEN, quotes]);
        }
    }
    shown
}

/// Secrets in order. Those that overlap are one.
fn merged(mut secrets: Vec<Secret>) -> Vec<Secret> {
    secrets.sort_by_key(|secret| secret.range.start);
    secrets.dedup_by(|next, before| {
        let overlaps = next.range.start < before.range.end;
        if overlaps {
            before.range.end = before.range.end.max(next.range.end);
        }
        overlaps
    });
    secrets
}

/// The secrets in a URL or its path: the user, and the values of secret parameters.
#[must_use]
pub fn secrets_in_url(url: &str) -> Vec<Secret> {
    let parameters = [parameters(url, Within::Url), encoded_parameters(url)];
    merged([users(url), parameters.concat()].concat())
}

/// The secrets in the value of a header.
#[must_use]
pub fn secrets_in_header(name: &str, value: &str) -> Vec<Secret> {
    if is_secret_header(name) {
        Secret::new(name, 0..value.len()).into_iter().collect()
    } else {
        secrets_in_url(value)
    }
}

/// The secrets in a body, or a part of it: a form, JSON, or several parts.
#[must_use]
pub fn secrets_in_body(text: &str) -> Vec<Secret> {
    let parameters = [parameters(text, Within::Body), encoded_parameters(text)];
    merged([parameters.concat(), fields(text), members(text)].concat())
}

/// The first secret that is hidden already: what would be sent in its place is the mark.
#[must_use]
pub fn first_hidden<'s>(text: &str, secrets: &'s [Secret]) -> Option<&'s Secret> {
    let is_hidden = |secret: &&Secret| text[secret.range.clone()] == *HIDDEN;
    secrets.iter().find(is_hidden)
}

/// Hides the user information of URLs and the values of secret headers, parameters and JSON
/// members in a text: a URL, an argument, the TOML of an experiment.
///
/// The value of a header ends at the quote that was opened before its name. Without one it ends
/// with the line, or at the next space if other words precede the name.
#[must_use]
pub fn hide_secrets(text: &str) -> String {
    let text = hide_user_options(text);
    let text = hide_proxy_users(&hide(&text, &users(&text)));
    let text = hide_headers(&hide_proxy_options(&text));
    let text = hide(&text, &parameters(&text, Within::Text));
    let text = hide(&text, &encoded_parameters(&text));
    hide(&text, &members(&text))
}

/// Hides secrets in the words of a command line, as [`hide_secrets`] does in each word, and the
/// values of options that are secret or may have a user.
#[must_use]
pub fn hide_in_words(words: &[String]) -> Vec<String> {
    let preceding = [""].into_iter().chain(words.iter().map(String::as_str));
    let hidden = preceding.zip(words).map(|(option, word)| {
        let is_user = is_letter_of(option, 'u') || is_option_with_user(option);
        let is_proxy = is_letter_of(option, 'x') || is_abbreviated(option, "--proxy", "--proxy");
        let (name, value) = word.split_once('=').unwrap_or_default();
        match (word.get(..2), word.get(2..)) {
            _ if is_user => HIDDEN.to_owned(),
            _ if is_option_with_key(option) => hide_key(word),
            _ if is_option_with_key(name) => format!("{name}={}", hide_key(value)),
            _ if is_proxy => hide_user_of_proxy(word),
            _ if is_option_with_user(name) => format!("{name}={HIDDEN}"),
            (Some("-x"), Some(value)) => format!("-x{}", hide_user_of_proxy(value)),
            (Some("-u"), Some(value)) if !value.is_empty() => format!("-u{HIDDEN}"),
            _ => hide_secrets(word),
        }
    });
    hidden.collect()
}

/// What the values of well-known kinds of tokens begin with: a JSON web token, keys of API
/// providers and forges.
const TOKEN_BEGINS: [&str; 8] = [
    "eyJ",
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "glpat-",
    "github_pat_",
    "xoxb-",
];

/// Hides secrets in the arguments of a script, as [`hide_secrets`] does in each of them. The words
/// after an argument with a secret name are hidden, too, and those that look like tokens.
#[must_use]
pub fn hide_in_arguments(arguments: &[String]) -> Vec<String> {
    let preceding = [""].into_iter().chain(arguments.iter().map(String::as_str));
    let hidden = preceding.zip(arguments).map(|(before, argument)| {
        let follows_name = before.starts_with('-') && !before.contains(['=', ':']);
        let is_named = follows_name && is_secret_header(before) || before == "Bearer";
        let is_token = TOKEN_BEGINS.iter().any(|begin| argument.starts_with(begin));
        if is_named || is_token {
            return HIDDEN.to_owned();
        }
        match argument.split_once('=') {
            Some((name, value)) if is_secret_header(name) && !value.is_empty() => {
                format!("{name}={HIDDEN}")
            }
            _ => hide_secrets(argument),
        }
    });
    hidden.collect()
}

/// Whether a word is an option whose value is `user:password`.
fn is_option_with_user(word: &str) -> bool {
    OPTIONS.iter().any(|spec| {
        let shortest = spec.secret_from.unwrap_or_default();
        !shortest.is_empty() && is_abbreviated(word, &format!("--{}", spec.long), shortest)
    })
}

/// Whether a word is the option of `wrkbench llm` whose value is a key, also abbreviated.
fn is_option_with_key(word: &str) -> bool {
    is_abbreviated(word, "--api-key", "--ap")
}

/// A key without its secret: the name of a variable is none.
fn hide_key(key: &str) -> String {
    let is_variable = key.starts_with("{{env:") && key.ends_with("}}");
    if is_variable { key } else { HIDDEN }.to_owned()
}

/// Whether a word is an option without a value, as it is or abbreviated to at least `shortest`.
fn is_abbreviated(word: &str, option: &str, shortest: &str) -> bool {
    word.starts_with(shortest) && option.starts_with(word)
}

/// Whether a word of short options ends with this one: `-x`, `-px`.
fn is_letter_of(word: &str, letter: char) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.ends_with(letter) && letters.chars().all(|it| it.is_ascii_alphabetic())
}

/// Hides the user in the value of `--proxy`, whose scheme may be missing.
fn hide_user_of_proxy(value: &str) -> String {
    match (value.contains("://"), value.rfind('@')) {
        (false, Some(at)) => format!("{HIDDEN}{}", &value[at..]),
        _ => hide_secrets(value),
    }
}

/// Hides the user information of a URL, or of its path, and the values of secret parameters.
#[must_use]
pub fn hide_in_url(url: &str) -> String {
    hide(url, &secrets_in_url(url))
}

/// The value of a header in the form that may be shown.
#[must_use]
pub fn hide_in_header(name: &str, value: &str) -> String {
    hide(value, &secrets_in_header(name, value))
}

/// Hides the values of secret fields in a body: a form, JSON, or several parts.
#[must_use]
pub fn hide_in_body(body: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        let text = chunk.valid();
        shown.extend(hide(text, &secrets_in_body(text)).into_bytes());
        shown.extend_from_slice(chunk.invalid());
    }
    shown
}

impl RunPlan {
    /// The plan in the form that may be shown and saved.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut plan = self.clone();
        plan.target.url = hide_in_url(&plan.target.url);
        plan.target.path = hide_in_url(&plan.target.path);
        plan.proxy = plan.proxy.map(ProxySpec::without_secrets);
        for url in &mut plan.scrape {
            *url = hide_in_url(url);
        }
        for (name, value) in &mut plan.request.headers {
            *value = hide_in_header(name, value);
        }
        if let Some(Body::Inline(bytes)) = &mut plan.request.body {
            *bytes = hide_in_body(bytes);
        }
        plan.request.script_args = hide_in_arguments(&plan.request.script_args);
        plan
    }

    /// Refuses a plan with the mark in place of a secret, which would be sent.
    pub(crate) fn check_secrets(&self) -> Result<(), PlanError> {
        let check = |setting, text: &str, secrets: Vec<Secret>| {
            first_hidden(text, &secrets).map_or(Ok(()), |secret| {
                let value = format!("{:?}", secret.name);
                let problem = "is ***, which stands for a secret that was hidden (give the secret)";
                Err(PlanError::new(setting, value, problem))
            })
        };
        let url = &self.target.url;
        check("url", url, secrets_in_url(url))?;
        let path = &self.target.path;
        check("url", path, secrets_in_url(path))?;
        for url in &self.scrape {
            check("scrape", url, secrets_in_url(url))?;
        }
        for (name, value) in &self.request.headers {
            check("header", value, secrets_in_header(name, value))?;
        }
        if let Some(Body::Inline(bytes)) = &self.request.body {
            for chunk in bytes.utf8_chunks() {
                check("body", chunk.valid(), secrets_in_body(chunk.valid()))?;
            }
        }
        let Some(proxy) = &self.proxy else {
            return Ok(());
        };
        for (name, value) in &proxy.headers {
            check("proxy-header", value, secrets_in_header(name, value))?;
        }
        let user = proxy.user.as_deref().unwrap_or_default();
        let secret = Secret::new("proxy-user", 0..user.len());
        check("proxy-user", user, secret.into_iter().collect())
    }
}

impl ProxySpec {
    /// The proxy in the form that may be shown and saved.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        if let Some(user) = &mut self.user {
            HIDDEN.clone_into(user);
        }
        for (name, value) in &mut self.headers {
            *value = hide_in_header(name, value);
        }
        self
    }
}

/// Hides the password in `-u user:password`, and in what TOML gives as `user`.
fn hide_user_options(text: &str) -> String {
    const OPTIONS: [&str; 7] = [
        "-u ",
        "--user ",
        "--user=",
        "--proxy-user ",
        "user = ",
        "user= ",
        "user=",
    ];
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, option)) = OPTIONS
        .iter()
        .filter_map(|option| Some((rest.find(option)?, option)))
        .min()
    {
        let is_option = rest[..at]
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || matches!(c, '"' | '\''));
        let (before, after) = rest.split_at(at + option.len());
        shown.push_str(before);
        rest = after;
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = &rest[usize::from(quote.is_some())..];
        let is_end = |c: char| match quote {
            Some(quote) => c == quote,
            None => c.is_whitespace() || matches!(c, '"' | '\''),
        };
        let end = value.find(is_end).unwrap_or(value.len());
        if let Some(colon) = value[..end].find(':').filter(|_| is_option) {
            shown.push_str(&rest[..rest.len() - value.len()]);
            shown.push_str(&value[..=colon]);
            if colon + 1 < end {
                shown.push_str(HIDDEN);
            }
            rest = &value[end..];
        }
    }
    shown.push_str(rest);
    shown
}

/// The texts between `://` and the `@` of an authority.
fn users(text: &str) -> Vec<Secret> {
    const BEGIN: &str = "://";
    let mut found = Vec::new();
    let mut begin = 0;
    while let Some(at) = text[begin..].find(BEGIN) {
        begin += at + BEGIN.len();
        let rest = &text[begin..];
        let end = rest
            .find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace())
            .unwrap_or(rest.len());
        if let Some(host) = rest[..end].rfind('@') {
            found.extend(Secret::new("url-user", begin..begin + host));
            begin += host;
        }
    }
    found
}

/// Hides what a text gives as `proxy-user`, and the user in what it gives as `proxy`: in TOML, or
/// as a long option.
fn hide_proxy_users(text: &str) -> String {
    const NAME: &str = "proxy";
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(NAME) {
        let is_word = at == 2 && rest.starts_with("--");
        let (before, after) = rest.split_at(at + NAME.len());
        shown.push_str(before);
        let user = ["-user", "_user"]
            .iter()
            .find_map(|name| after.strip_prefix(name));
        let value = user.unwrap_or(after).trim_start_matches([' ', '\t', '=']);
        if value.len() == user.unwrap_or(after).len() {
            rest = after;
            continue;
        }
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
        shown.push_str(&after[..after.len() - value.len()]);
        let end = match quote {
            Some(quote) => value.find(quote),
            // The rest of a word `--proxy-user=...` may have spaces.
            None if is_word && shown.ends_with('=') => None,
            None => value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')),
        };
        let (value, behind) = value.split_at(end.unwrap_or(value.len()));
        match (user, value.is_empty()) {
            (_, true) => {}
            (Some(_), false) => shown.push_str(HIDDEN),
            // Another one may have a scheme, and is hidden already.
            (None, false) => match (value.contains("://"), value.rfind('@')) {
                (false, Some(at)) => {
                    shown.push_str(HIDDEN);
                    shown.push_str(&value[at..]);
                }
                _ => shown.push_str(value),
            },
        }
        rest = behind;
    }
    shown.push_str(rest);
    shown
}

/// Hides the user and the password in `-x user:password@host`. Other programs have an option `-x`
/// too, so a value without a password stays.
fn hide_proxy_options(text: &str) -> String {
    const OPTION: &str = "-x";
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OPTION) {
        let (before, after) = rest.split_at(at + OPTION.len());
        shown.push_str(before);
        let is_option = shown[..shown.len() - OPTION.len()]
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || matches!(c, '"' | '\''));
        let value = after.trim_start_matches([' ', '\t', '"', '\'']);
        let end = value
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\''))
            .unwrap_or(value.len());
        let host = value[..end].rfind('@');
        let host = host.filter(|at| value[..*at].contains(':') && !value[..*at].contains("://"));
        rest = after;
        if let Some(host) = host.filter(|_| is_option) {
            shown.push_str(&after[..after.len() - value.len()]);
            shown.push_str(HIDDEN);
            rest = &value[host..];
        }
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
        let opening = opening_of(&shown[..shown.len() - 1 - (before.len() - begin)]);
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

/// The character before the name of a header; before a word `--header=NAME: VALUE` in quotes, the
/// quote.
fn opening_of(before: &str) -> Option<char> {
    let option = before.strip_suffix('=').unwrap_or_default();
    let quoted = option.trim_end_matches(|c: char| c.is_ascii_lowercase() || c == '-');
    let quote = quoted.chars().next_back();
    let quote = quote.filter(|c| option.len() > quoted.len() && matches!(c, '"' | '\''));
    quote.or_else(|| before.chars().next_back())
}

/// Where the value of a header ends, given the character before its name or its word.
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

/// The kind of text in which parameters are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// A URL or its path: after `?`, `&` or `;`.
    Url,
    /// A form: as in a URL, and at the beginning of a line.
    Body,
    /// Any text: as in a URL; names that are always secret also after a quote, a blank or `=`.
    Text,
}

/// The secret values in `name=value`.
fn parameters(text: &str, within: Within) -> Vec<Secret> {
    let mut found = Vec::new();
    let mut begin = 0;
    while let Some(at) = text[begin..].find('=') {
        let before = &text[begin..begin + at];
        begin += at + 1;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.[]%$".contains(c);
        let name = &before[before.trim_end_matches(is_name).len()..];
        let preceding = text[..begin - 1 - name.len()].chars().next_back();
        let is_secret = match (within, preceding) {
            (_, Some('?' | '&' | ';')) => is_secret_parameter(name),
            (Within::Body, None | Some('\n')) => is_secret_parameter(name),
            (Within::Text, None | Some('"' | '\'' | ' ' | '\t' | '\n' | '=')) => {
                // An option has its own name: --nats-creds=FILE.
                !name.starts_with('-') && is_secret_header(name)
            }
            _ => false,
        };
        if !is_secret {
            continue;
        }
        let quote = text[begin..].chars().next();
        let quote = quote.filter(|c| matches!(c, '"' | '\''));
        begin += usize::from(within == Within::Text && quote.is_some());
        let is_end = |c: char| match (within, quote) {
            (Within::Body, _) => matches!(c, '&' | '\r' | '\n'),
            (Within::Text, Some(quote)) => c == quote || c == '\n',
            _ => matches!(c, '&' | '#' | '"' | '\'' | '\\') || c.is_whitespace(),
        };
        let end = text[begin..].find(is_end).map(|end| begin + end);
        let end = end.unwrap_or(text.len());
        found.extend(Secret::new(name, begin..end));
        begin = end;
    }
    found
}

/// The secret values in a URL that is the percent-encoded value of a parameter, any number of times
/// encoded: `redirect=%2Fcallback%3Ftoken%3Dabc`.
fn encoded_parameters(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    let mut begin = 0;
    while let Some(at) = text[begin..].find('%') {
        let at = begin + at;
        begin = at + 1;
        let layers = text[begin..].len() - text[begin..].trim_start_matches("25").len();
        let percent = &text[at..begin + layers];
        let equals = &text[begin + layers..];
        if !equals
            .get(..2)
            .is_some_and(|hex| hex.eq_ignore_ascii_case("3d"))
        {
            continue;
        }
        begin += layers + 2;
        let is_end =
            |c: char| matches!(c, '&' | '?' | '#' | '"' | '\'' | '\\') || c.is_whitespace();
        let before = text[..at].rsplit(is_end).next().unwrap_or_default();
        let separators = [("3f", true), ("26", true), ("3b", true), ("23", false)]
            .map(|(hex, is_before)| (format!("{percent}{hex}"), is_before));
        let lower = before.to_ascii_lowercase();
        let of_name = separators.iter().filter(|it| it.1);
        let name_at = of_name
            .filter_map(|(it, _)| Some(lower.rfind(it)? + it.len()))
            .max();
        let Some(name) = name_at
            .map(|at| &before[at..])
            .filter(|it| is_secret_parameter(it))
        else {
            continue;
        };
        let value = &text[begin..];
        let value = &value[..value.find(is_end).unwrap_or(value.len())];
        let lower = value.to_ascii_lowercase();
        let end = separators.iter().filter_map(|(it, _)| lower.find(it)).min();
        let end = begin + end.unwrap_or(value.len());
        found.extend(Secret::new(name, begin..end));
        begin = end;
    }
    found
}

/// The secret values of members in JSON: a string or a number. The quotes may be escaped, as in a
/// string that holds JSON.
fn members(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    let mut begin = 0;
    while let Some(at) = text[begin..].find(':') {
        let before = &text[begin..begin + at];
        begin += at + 1;
        let Some((name, quote)) = quoted_name(before) else {
            continue;
        };
        if !is_secret_header(name) && !matches!(name, "pass" | "pwd" | "passphrase") {
            continue;
        }
        let value = text[begin..].trim_start();
        begin = text.len() - value.len();
        let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        if let Some(inner) = value.strip_prefix(quote) {
            begin += quote.len();
            let end = begin + end_of_string(inner, quote);
            found.extend(Secret::new(name, begin..end));
            begin = end;
        } else if value.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let end = text.len() - value.trim_start_matches(is_number).len();
            found.extend(Secret::new(name, begin..end).map(|secret| Secret {
                quotes: quote.to_owned(),
                ..secret
            }));
            begin = end;
        }
    }
    found
}

/// The name of a member before its colon, and its quote with the backslashes before it.
fn quoted_name(before: &str) -> Option<(&str, &str)> {
    let before = before.trim_end();
    let inner = before.strip_suffix('"')?;
    let name = inner.trim_end_matches('\\');
    let quote = &before[name.len()..];
    let begin = name.rfind(quote)? + quote.len();
    Some((&name[begin..], quote))
}

/// Where a string of JSON ends whose quotes look like this.
fn end_of_string(text: &str, quote: &str) -> usize {
    let depth = quote.len() - 1;
    let mut backslashes = 0;
    for (at, c) in text.char_indices() {
        match c {
            '\\' => backslashes += 1,
            '"' => {
                let is_end = match depth {
                    0 => backslashes % 2 == 0,
                    depth => backslashes <= depth,
                };
                if is_end {
                    return at - backslashes.min(depth);
                }
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
    }
    text.len()
}

/// The content of secret fields of a multipart body.
fn fields(text: &str) -> Vec<Secret> {
    const NAME: &str = "name=\"";
    const END_OF_HEAD: &str = "\r\n\r\n";
    let mut found = Vec::new();
    let mut begin = 0;
    while let Some(at) = text[begin..].find(NAME) {
        begin += at + NAME.len();
        let rest = &text[begin..];
        let name = rest.split('"').next().unwrap_or_default();
        let head = rest.find(END_OF_HEAD);
        let Some(head) = head.filter(|_| is_secret_parameter(name)) else {
            continue;
        };
        begin += head + END_OF_HEAD.len();
        let end = text[begin..].find("\r\n--").map(|end| begin + end);
        let end = end.unwrap_or(text.len());
        found.extend(Secret::new(name, begin..end));
        begin = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

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
            (
                "proxy_user = \"u:p q\"\nd = 1",
                "proxy_user = \"***\"\nd = 1",
            ),
            ("proxy-user='u:p'", "proxy-user='***'"),
            ("--proxy-user=u:p q", "--proxy-user=***"),
            (
                "curl --proxy-user u:p http://h/",
                "curl --proxy-user *** http://h/",
            ),
            ("proxy = \"u:p@h:1\"", "proxy = \"***@h:1\""),
            (
                "proxy = \"socks5h://u:p@h:1\"",
                "proxy = \"socks5h://***@h:1\"",
            ),
            ("--proxy=u:p@h:1", "--proxy=***@h:1"),
            ("--proxy h:1 http://i/a@b", "--proxy h:1 http://i/a@b"),
            ("proxies are proxy", "proxies are proxy"),
            ("curl -x u:p@h:1 http://i/", "curl -x ***@h:1 http://i/"),
            (
                "run = \"curl -xu:p@h -x 'u:p@h'\"",
                "run = \"curl -x***@h -x '***@h'\"",
            ),
            (
                "rsync -x me@h:/p /q -x h:1 a@b",
                "rsync -x me@h:/p /q -x h:1 a@b",
            ),
            (
                "-c1 '--header=X-Api-Key: a b' --header=Accept:c",
                "-c1 '--header=X-Api-Key: ***' --header=Accept:c",
            ),
            ("--body=password=a&b=c d", "--body=password=***&b=c d"),
            (
                "http://h/?a=1&token=x&b=2#c",
                "http://h/?a=1&token=***&b=2#c",
            ),
            ("http://h/?key=x", "http://h/?key=***"),
            ("http://h/cb?code=4%2F0A&s=1", "http://h/cb?code=***&s=1"),
            ("code=5", "code=5"),
            (
                "http://h/?redirect=%2Fcb%3Ftoken%3Dabc%26a%3D1&b=2",
                "http://h/?redirect=%2Fcb%3Ftoken%3D***%26a%3D1&b=2",
            ),
            (
                "http://h/?u=http%253a%252f%252fi%253fa%253d1%2526code%253dabc%2523x",
                "http://h/?u=http%253a%252f%252fi%253fa%253d1%2526code%253d***%2523x",
            ),
            ("http://h/?q=token%3D5", "http://h/?q=token%3D5"),
            (
                "http://h/?X-Amz-Signature=x y",
                "http://h/?X-Amz-Signature=*** y",
            ),
            ("a=http://h/?sig=b' c", "a=http://h/?sig=***' c"),
            ("key=http://h/", "key=http://h/"),
            (
                "--nats-creds=file --key=a.pem",
                "--nats-creds=file --key=a.pem",
            ),
            ("API_TOKEN=\"a b\" run", "API_TOKEN=\"***\" run"),
            ("user=a&password=b&c=d", "user=a&password=***&c=d"),
            (
                "{\"password\": \"a\\\"b\", \"c\": 1}",
                "{\"password\": \"***\", \"c\": 1}",
            ),
            (
                "{\"api_key\":12,\"max_tokens\":5}",
                "{\"api_key\":\"***\",\"max_tokens\":5}",
            ),
            (
                "body = \"{\\\"token\\\": \\\"a\\\\\\\"b\\\"}\"",
                "body = \"{\\\"token\\\": \\\"***\\\"}\"",
            ),
            ("max_tokens=5", "max_tokens=5"),
            ("curl -u me:b http://h/", "curl -u me:*** http://h/"),
            ("curl --user 'me:b c' -u x", "curl --user 'me:***' -u x"),
            ("user = \"me:b c\"\nd = 1", "user = \"me:***\"\nd = 1"),
            ("user='me:b'", "user='me:***'"),
            ("--user=me:b x", "--user=me:*** x"),
            ("user = \"me\"", "user = \"me\""),
            ("id -u root; cp -u a b:c", "id -u root; cp -u a b:c"),
        ] {
            assert_eq!(hide_secrets(text), expected, "{text}");
            assert_eq!(hide_secrets(expected), expected, "a second time");
        }
    }

    #[test]
    fn secrets_in_urls_headers_and_bodies_are_hidden() {
        assert_eq!(hide_in_url("/a?key=x&b=c"), "/a?key=***&b=c");
        assert_eq!(hide_in_url("/token=x"), "/token=x");
        assert_eq!(hide_in_header("Cookie", "a=b"), HIDDEN);
        assert_eq!(hide_in_header("Cookie", ""), "");
        let referer = hide_in_header("Referer", "http://u:p@h/?token=x");
        assert_eq!(referer, "http://***@h/?token=***");
        for (body, expected) in [
            ("user=a&password=b c\r\nd", "user=a&password=***\r\nd"),
            ("user%5Bpassword%5D=b&x=y", "user%5Bpassword%5D=***&x=y"),
            ("pass=\"b\"", "pass=***"),
            (
                "[{\"token\":\"a\"},{\"token\" : \"b\"}]",
                "[{\"token\":\"***\"},{\"token\" : \"***\"}]",
            ),
            ("{\"token\":{\"id\":1}}", "{\"token\":{\"id\":1}}"),
            (
                "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\na\nb\r\n--b--",
                "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n***\r\n--b--",
            ),
        ] {
            let shown = hide_in_body(body.as_bytes());
            assert_eq!(String::from_utf8_lossy(&shown), expected);
            assert_eq!(hide_in_body(&shown), shown, "a second time");
        }
        let overlapping = "--b\r\nname=\"token\"\r\n\r\na\npassword=b\r\n--b--";
        let shown = hide_in_body(overlapping.as_bytes());
        assert_eq!(shown, b"--b\r\nname=\"token\"\r\n\r\n***\r\n--b--");
        let number = hide_in_body(b"{\"pin\": 1, \"secret\": -12.5e3}");
        assert_eq!(number, b"{\"pin\": 1, \"secret\": \"***\"}");
        let mixed = hide_in_body(b"\xff token=a\n&password=b&\xfe");
        assert_eq!(mixed, b"\xff token=a\n&password=***&\xfe");
    }

    #[test]
    fn secrets_in_the_words_of_a_command_are_hidden() {
        for (command, expected) in [
            ("-x u:p@h:1 http://i/", "-x ***@h:1 http://i/"),
            ("-xu:p@h:1 -px u:p@h", "-x***@h:1 -px ***@h"),
            ("--proxy socks5://u:p@h", "--proxy socks5://***@h"),
            ("--proxy=u:p@h", "--proxy=***@h"),
            ("--proxy-user u:p -c1", "--proxy-user *** -c1"),
            ("--proxy-us u:p -c1", "--proxy-us *** -c1"),
            ("--proxy-user=u:p", "--proxy-user=***"),
            ("-u u:p -c1", "-u *** -c1"),
            ("-uu:p -Lu u:p", "-u*** -Lu ***"),
            ("--user u:p --us u:p", "--user *** --us ***"),
            ("--user=u:p --use=u:p", "--user=*** --use=***"),
            ("--u http://i/", "--u http://i/"),
            ("-HCookie:a -x h:1", "-HCookie:*** -x h:1"),
            ("http://u:p@h/ -d1", "http://***@h/ -d1"),
            ("--api-key abc -c1", "--api-key *** -c1"),
            ("--ap abc --api-key=abc", "--ap *** --api-key=***"),
            ("--api-key {{env:KEY}}", "--api-key {{env:KEY}}"),
            ("--api-key={{env:KEY}}", "--api-key={{env:KEY}}"),
            ("--a b", "--a b"),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(hide_in_words(&words).join(" "), expected);
        }
    }

    #[test]
    fn secrets_in_the_arguments_of_a_script_are_hidden() {
        for (arguments, expected) in [
            ("--api-token abc x", "--api-token *** x"),
            ("--api-token=abc x", "--api-token=*** x"),
            ("eyJhbGciOi.a.b 5", "*** 5"),
            ("sk-proj-1 users.txt", "*** users.txt"),
            ("--max-tokens 5", "--max-tokens 5"),
        ] {
            let words: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            assert_eq!(hide_in_arguments(&words).join(" "), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-zC:/@'\"\\\\ \n\u{e4}=&?;-]{0,60}|\\PC{0,40}") {
            let _ = hide_secrets(&format!("{text}Cookie: {text}"));
            let body = format!("{text}token={text}\"token\":{text}name=\"token\"\r\n\r\n{text}");
            let _ = (hide_in_body(body.as_bytes()), hide_in_url(&body), hide_secrets(&body));
        }

        #[test]
        fn no_password_of_a_url_and_no_token_remains(secret in "[a-zA-Z0-9%.~_-]{8,20}") {
            let text = format!("http://user:{secret}@h/ -H 'Authorization: Basic {secret}'");
            proptest::prop_assert!(!hide_secrets(&text).contains(&secret));
        }
    }

    #[test]
    fn a_secret_has_a_name_for_a_variable() {
        for (name, variable) in [
            ("X-Api-Key", "X_API_KEY"),
            ("user[password]", "USER_PASSWORD_"),
            ("pwd", "PASSWORD"),
            ("2fa-token", "_2FA_TOKEN"),
            ("\u{e4}token", "_TOKEN"),
        ] {
            let secret = Secret::new(name, 0..1).expect("it is not empty");
            assert_eq!(secret.variable(), variable);
        }
    }

    #[test]
    fn a_plan_with_hidden_secrets_is_refused() {
        let plan = |url: &str| RunPlan::new(Target::parse(url).expect("it is a URL"));
        let with_header = |name: &str, value: &str| {
            let mut plan = plan("http://h/");
            plan.request.headers = vec![(name.to_owned(), value.to_owned())];
            plan
        };
        let with_body = |text: &str| {
            let mut plan = plan("http://h/");
            plan.request.body = Some(Body::Inline(text.as_bytes().to_vec()));
            plan
        };
        let with_proxy = |user: &str| {
            let mut plan = plan("http://h/");
            let mut proxy = ProxySpec::parse("http://p:1").expect("it is a proxy");
            proxy.user = Some(user.to_owned());
            plan.proxy = Some(proxy);
            plan
        };
        for (plan, said) in [
            (plan("http://***@h/"), "url \"url-user\""),
            (plan("http://h/?a=1&token=***"), "url \"token\""),
            (with_header("Cookie", "***"), "header \"Cookie\""),
            (
                with_header("Referer", "http://h/?sig=***"),
                "header \"sig\"",
            ),
            (with_body("a=1&password=***"), "body \"password\""),
            (with_body("{\"token\": \"***\"}"), "body \"token\""),
            (with_proxy("***"), "proxy-user \"proxy-user\""),
        ] {
            let error = plan.check().expect_err(said).to_string();
            assert!(error.starts_with(&format!("{said}: is ***")), "{error}");
        }
        for plan in [
            plan("http://u:p@h/?a=***"),
            with_header("Cookie", "a=***"),
            with_header("Accept", "***"),
            with_body("*** a title ***\ntoken=****"),
            with_proxy("u:***"),
        ] {
            assert_eq!(plan.check(), Ok(()));
        }
    }
}
