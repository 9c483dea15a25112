//! The URL of a command line. As in curl, one that begins with a host means `http://`.

use std::net::Ipv4Addr;

use plan::secrets::hide_secrets;
use plan::{Target, UrlError};

use super::Refusal;

/// Ends of names that are files, not hosts.
const FILES: [&str; 12] = [
    ".csv", ".curl", ".gz", ".har", ".html", ".http", ".json", ".jsonl", ".log", ".lua", ".toml",
    ".txt",
];

/// A URL as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GivenUrl {
    pub(super) target: Target,
    /// What was taken for granted, for the user.
    pub(super) note: Option<String>,
    /// Why the tools that links stand for would refuse it.
    pub(super) problem: Option<String>,
}

impl From<Target> for GivenUrl {
    fn from(target: Target) -> Self {
        Self {
            target,
            note: None,
            problem: None,
        }
    }
}

/// Parses a URL, or the rest of one after `http://`.
///
/// # Errors
/// As [`Target::parse`], or that it is a file of options in the wrong place.
pub(super) fn parse(text: &str) -> Result<GivenUrl, Refusal> {
    let error = match Target::parse(text) {
        Ok(target) => return Ok(target.into()),
        Err(error) => error,
    };
    if matches!(error, UrlError::NoScheme(_)) {
        if text.ends_with(".toml") {
            return Err(Refusal(format!(
                "{text:?} is not a URL (a file of options comes first: wrkbench {text} -t4)"
            )));
        }
        if let Some(target) = completed(text) {
            let meant = hide_secrets(&target.url);
            let typed = meant.strip_prefix("http://").unwrap_or_default();
            let note = Some(format!("{typed} is taken for {meant}"));
            return Ok(GivenUrl {
                target,
                note,
                problem: Some(error.to_string()),
            });
        }
    }
    Err(Refusal(error.to_string()))
}

/// The URL that a text means which begins with a host: with a port, a dot or brackets in it, or
/// `localhost`.
pub(super) fn completed(text: &str) -> Option<Target> {
    if text.contains("://") || FILES.iter().any(|end| text.ends_with(end)) && is_path(text) {
        return None;
    }
    let target = Target::parse(&format!("http://{text}")).ok()?;
    let host = target.host.as_str();
    let is_number = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    let has_dot = host.contains('.') && !host.starts_with('.') && !host.ends_with('.');
    let is_host = target.port.is_some()
        || host.eq_ignore_ascii_case("localhost")
        || host.contains(':')
        || if is_number {
            host.parse::<Ipv4Addr>().is_ok()
        } else {
            has_dot
        };
    is_host.then_some(target)
}

/// Whether a text that ends like a file has no path after a host: `example.org/a.json` has.
fn is_path(text: &str) -> bool {
    text.ends_with(".toml")
        || text
            .split_once('/')
            .is_none_or(|(first, _)| !first.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_host_means_http() {
        for text in [
            "localhost",
            "LOCALHOST/x",
            "localhost:8080",
            "h:80/",
            "example.org",
            "example.org/x?a=http",
            "example.org/data.json",
            "127.0.0.1",
            "[::1]/x",
            "me@example.org/",
        ] {
            let given = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(given.target.url, format!("http://{text}"));
            assert!(given.note.is_some(), "{text}");
        }
        let given = parse("me:secret@h:80/").expect("it has a port");
        assert_eq!(
            given.note.as_deref(),
            Some("***@h:80/ is taken for http://***@h:80/")
        );
        assert_eq!(parse("https://h/").map(|given| given.note), Ok(None));
    }

    #[test]
    fn a_word_a_number_or_a_file_is_no_host() {
        for text in [
            "serve",
            "h/x",
            "1.5",
            "5",
            "..",
            "../a",
            ".x",
            "a.",
            "h:",
            "h:x",
            "h:0",
            "ftp://h/",
            "results/a.json",
            "a.jsonl",
            "x.lua",
            "a/b.toml",
            "%l",
            "[]",
            "",
        ] {
            assert_eq!(completed(text), None, "{text}");
            parse(text).expect_err(text);
        }
        assert_eq!(
            parse("load.toml").expect_err("it is a file").to_string(),
            "\"load.toml\" is not a URL (a file of options comes first: wrkbench load.toml -t4)"
        );
    }
}
