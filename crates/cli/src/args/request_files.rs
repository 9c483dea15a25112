//! `--requests FILE`: wrk's forks have `--requests N`, so a number is a count and anything else a
//! file. Arguments with a file become `--request-file`, before clap sees them.

use std::ffi::OsString;

use plan::units::parse_count;

const REQUESTS: &str = "--requests";
const REQUEST_FILE: &str = "--request-file";

/// Replaces the option before every file. Arguments after `--` belong to the script.
pub(super) fn by_their_option(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut replaced = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            replaced.push(argument);
            replaced.extend(arguments);
            break;
        }
        let text = argument.to_string_lossy();
        let value = text.strip_prefix(REQUESTS);
        let is_replaced = match value.map(|rest| rest.strip_prefix('=')) {
            Some(Some(value)) => {
                let is_file = is_file(value);
                if is_file {
                    replaced.push(format!("{REQUEST_FILE}={value}").into());
                }
                is_file
            }
            Some(None) if text == REQUESTS => {
                let file = arguments.next_if(|next| is_file(&next.to_string_lossy()));
                let is_file = file.is_some();
                if let Some(file) = file {
                    replaced.extend([REQUEST_FILE.into(), file]);
                }
                is_file
            }
            _ => false,
        };
        if !is_replaced {
            replaced.push(argument);
        }
    }
    replaced
}

/// Whether a value is meant as a file: `-` (stdin), or what is not a count and does not begin like
/// one unless it has a dot or a slash.
pub(super) fn is_file(value: &str) -> bool {
    let begins_like_a_count = value.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
    let is_count = parse_count(value).is_ok();
    let is_name = !is_count && (!begins_like_a_count || value.contains(['.', '/']));
    !value.is_empty() && (value == "-" || is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from).collect();
        let replaced = by_their_option(arguments);
        replaced.join(" ".as_ref()).into_string().expect("text")
    }

    #[test]
    fn a_number_is_a_count_and_anything_else_a_file() {
        for (line, expected) in [
            ("--requests 100 U", "--requests 100 U"),
            ("--requests=1.5k U", "--requests=1.5k U"),
            ("--requests 10x U", "--requests 10x U"),
            ("--requests -5 U", "--requests -5 U"),
            ("--requests a.jsonl U", "--request-file a.jsonl U"),
            ("--requests - U", "--request-file - U"),
            ("--requests=- U", "--request-file=- U"),
            ("--requests=a=b.http U", "--request-file=a=b.http U"),
            ("--requests 10.jsonl U", "--request-file 10.jsonl U"),
            ("--requests ./7 U", "--request-file ./7 U"),
            (
                "-n5 --requests mix --requests 5",
                "-n5 --request-file mix --requests 5",
            ),
            ("--requests-per-connection f", "--requests-per-connection f"),
            ("U -- --requests f", "U -- --requests f"),
            ("--requests", "--requests"),
        ] {
            assert_eq!(replaced(line), expected);
        }
    }
}
