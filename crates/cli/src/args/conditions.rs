//! Allows several conditions after one `--fail-if`, `--slo` or `--search`: `--fail-if 'p99>50ms'
//! 'failed>0.1%' URL`.
//!
//! A clap option takes either one value or all that follow, including the URL. So the option is
//! inserted again before each further condition, before clap sees the arguments.

use std::ffi::OsString;

const FAIL_IF: &str = "--fail-if";
const SLO: &str = "--slo";
const SEARCH: &str = "--search";

/// Inserts the option before every condition that directly follows another one. Arguments after
/// `--` belong to the script.
pub(super) fn each_with_its_option(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut spread = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            spread.push(argument);
            spread.extend(arguments);
            break;
        }
        let text = argument.to_string_lossy().into_owned();
        let (name, value) = match text.split_once('=') {
            Some((name, _)) => (name, true),
            None => (text.as_str(), false),
        };
        spread.push(argument);
        let Some(option) = option_of(name) else {
            continue;
        };
        if !value {
            spread.extend(arguments.next());
        }
        while let Some(condition) = arguments.next_if(is_a_condition) {
            spread.push(option.into());
            spread.push(condition);
        }
    }
    spread
}

/// The option that has this name, or that it is a prefix of.
fn option_of(name: &str) -> Option<&'static str> {
    let is_fail_if = name.len() > "--".len() && FAIL_IF.starts_with(name);
    let whole = [SLO, SEARCH].into_iter().find(|option| *option == name);
    is_fail_if.then_some(FAIL_IF).or(whole)
}

/// Looks like a comparison, valid or not: an invalid one should be reported as a condition, not as
/// a URL.
fn is_a_condition(argument: &OsString) -> bool {
    let text = argument.to_string_lossy();
    !text.starts_with('-') && !text.contains("://") && text.contains(['<', '>', '='])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from).collect();
        let spread = each_with_its_option(arguments);
        spread.join(" ".as_ref()).into_string().expect("text")
    }

    #[test]
    fn every_further_condition_gets_the_option() {
        for (line, expected) in [
            (
                "--fail-if p99>1s max>2s http://h/?a=b&c>d",
                "--fail-if p99>1s --fail-if max>2s http://h/?a=b&c>d",
            ),
            (
                "--fail=p99>1s max>2s errors>1 -c5 rps<3",
                "--fail=p99>1s --fail-if max>2s --fail-if errors>1 -c5 rps<3",
            ),
            ("--slo p99<1s errors<1% U", "--slo p99<1s --slo errors<1% U"),
            ("--f p99>1s bad>>x U", "--f p99>1s --fail-if bad>>x U"),
            ("--fail-if p99>1s --fail-if", "--fail-if p99>1s --fail-if"),
            (
                "U a>b -- --fail-if p99>1s max>2s",
                "U a>b -- --fail-if p99>1s max>2s",
            ),
            (
                "-H a=b --faint p99>1s max>2s",
                "-H a=b --faint p99>1s max>2s",
            ),
            ("", ""),
        ] {
            assert_eq!(spread(line), expected, "{line:?}");
        }
    }
}
