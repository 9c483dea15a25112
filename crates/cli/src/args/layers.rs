//! A run described by tables of options instead of a command line: what a plan's `[load]`, its profiles,
//! targets and factors say.
//!
//! The tables become arguments and are read by the same declaration, so that every option of a run works
//! and is refused in the same words.

use std::ffi::OsString;

use clap::{Arg, ArgAction, CommandFactory};

use super::run::RunArgs;
use super::{Dialect, Refusal, Request, RunRequest};

/// Options that a run of a plan cannot have, each with the reason.
const REFUSED: [(&str, &str); 9] = [
    ("json", "a sweep saves each run by itself"),
    ("hgrm", "a sweep saves each run by itself"),
    ("hlog", "a sweep saves each run by itself"),
    ("samples", "a sweep keeps the samples beside each run"),
    ("version", "it is no load option"),
    ("help", "it is no load option"),
    ("quiet", "give it to the sweep itself"),
    (
        "fail-if",
        "leaving out runs by their outcome would bend what is compared; give sweep --fail-on-regression",
    ),
    ("url", "it belongs to [[target]]"),
];

/// Words for the script, which stand behind `--` on a command line.
const SCRIPT_ARGUMENTS: &str = "script-arguments";

/// What a table says of one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Given {
    /// `true` or `false`.
    Switch(bool),
    /// A value, as it would be typed.
    Value(String),
    /// A list of values.
    List(Vec<String>),
}

/// Options by name, later ones in place of earlier ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers(Vec<(String, Given)>);

impl Layers {
    /// What is said here holds instead of what was said before. Names are those of the command line, with
    /// `_` or `-`.
    ///
    /// # Errors
    /// When the option cannot stand in a plan.
    pub(crate) fn add(&mut self, name: &str, given: Given) -> Result<(), Refusal> {
        let name = canonical(name);
        if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(Refusal(format!("{name}: has no place in a plan: {reason}")));
        }
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, given));
        Ok(())
    }

    /// The run that they describe.
    ///
    /// # Errors
    /// As on the command line, in one line.
    pub(crate) fn request(&self, url: &str) -> Result<RunRequest, Refusal> {
        let mut arguments = Vec::new();
        let mut for_script = Vec::new();
        for (name, given) in &self.0 {
            if name == SCRIPT_ARGUMENTS {
                for_script = words(given);
            } else {
                arguments.extend(typed(name, given)?);
            }
        }
        arguments.push(url.to_owned());
        if !for_script.is_empty() {
            arguments.push("--".to_owned());
            arguments.extend(for_script);
        }
        let arguments = arguments.into_iter().map(OsString::from).collect();
        match super::parse_run(Dialect::Native, arguments)? {
            Request::Run(request) => Ok(*request),
            // There is a URL, and help is refused: nothing else can be asked for.
            other => Err(Refusal(format!("is no run: {other:?}"))),
        }
    }
}

/// The option as arguments.
fn typed(name: &str, given: &Given) -> Result<Vec<String>, Refusal> {
    match given {
        Given::Switch(false) => {
            let takes_value = find(name).is_some_and(|arg| arg.get_action().takes_values());
            if takes_value {
                return Err(Refusal(format!("--{name}: needs a value, and is false")));
            }
            Ok(Vec::new())
        }
        Given::Switch(true) => Ok(vec![format!("--{name}")]),
        Given::Value(value) => Ok(vec![format!("--{name}={value}")]),
        Given::List(values) => {
            let repeats =
                find(name).is_none_or(|arg| matches!(arg.get_action(), ArgAction::Append));
            if !repeats {
                let count = values.len();
                return Err(Refusal(format!(
                    "--{name}: takes one value, and has {count} (several levels belong to a [[factor]])"
                )));
            }
            Ok(values
                .iter()
                .map(|value| format!("--{name}={value}"))
                .collect())
        }
    }
}

fn words(given: &Given) -> Vec<String> {
    match given {
        Given::Switch(switch) => vec![switch.to_string()],
        Given::Value(word) => vec![word.clone()],
        Given::List(words) => words.clone(),
    }
}

/// The name under which the option is declared, so that one said twice in different words is the same.
fn canonical(name: &str) -> String {
    let declared = find(name).and_then(|arg| arg.get_long().map(str::to_owned));
    declared.unwrap_or_else(|| name.replace('_', "-"))
}

/// The option of this name. What is not found is left to the parser, whose refusal says what was meant.
fn find(name: &str) -> Option<Arg> {
    let plain = name.replace('_', "-");
    let command = RunArgs::command();
    let arg = command.get_arguments().find(|arg| {
        let names = arg.get_long().into_iter();
        let aliases = arg.get_all_aliases().unwrap_or_default();
        names
            .chain(aliases)
            .any(|known| known == plain || known == name)
    });
    arg.cloned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const URL: &str = "http://h:1/p";

    fn value(text: &str) -> Given {
        Given::Value(text.to_owned())
    }

    fn list(texts: &[&str]) -> Given {
        Given::List(texts.iter().map(|&text| text.to_owned()).collect())
    }

    fn request(options: &[(&str, Given)]) -> Result<RunRequest, String> {
        let mut layers = Layers::default();
        for (name, given) in options {
            layers
                .add(name, given.clone())
                .map_err(|Refusal(why)| why)?;
        }
        layers.request(URL).map_err(|Refusal(why)| why)
    }

    #[test]
    fn options_mean_what_they_mean_on_the_command_line() {
        let request = request(&[
            ("threads", value("4")),
            ("requests_per_connection", value("7")),
            ("duration", value("1.5s")),
            ("breakout", Given::Switch(true)),
            ("header", list(&["A: b", "C: -d"])),
            ("no-keepalive", Given::Switch(false)),
            ("script_arguments", list(&["--x", "y"])),
        ])
        .unwrap();
        let plan = request.plan;
        assert_eq!(plan.load.threads, 4);
        assert_eq!(plan.load.requests_per_connection, Some(7));
        assert_eq!(plan.stop.duration, Some(Duration::from_millis(1500)));
        assert!(plan.load.keepalive && request.report.text.breakout);
        assert_eq!(plan.request.headers.len(), 2);
        assert_eq!(plan.request.script_args, ["--x", "y"]);
        assert_eq!(plan.target.url, URL);
    }

    #[test]
    fn a_later_layer_replaces_an_earlier_one_whatever_name_it_uses() {
        let request = request(&[
            ("connections", value("5")),
            ("batch_latency", Given::Switch(true)),
            ("header", list(&["A: b", "C: d"])),
            ("c", value("50")),
            ("batch-latency", Given::Switch(false)),
            ("header", value("E: f")),
        ])
        .unwrap();
        assert_eq!(request.plan.load.connections, 50);
        assert!(!request.plan.load.batch_latency);
        assert_eq!(request.plan.request.headers.len(), 1);
    }

    #[test]
    fn what_cannot_stand_in_a_plan_is_refused_by_its_name() {
        for (name, given, expected) in [
            ("json", value("x"), "json: has no place in a plan"),
            (
                "fail_if",
                value("p99>1s"),
                "fail-if: has no place in a plan",
            ),
            ("quiet", Given::Switch(true), "quiet: has no place"),
            ("help", Given::Switch(true), "help: has no place"),
            ("thread", value("x"), "--threads: "),
            ("conections", value("5"), "did you mean --connections?"),
            ("connections", value("2x"), "--connections: "),
            ("connections", Given::Switch(true), "--connections: "),
            (
                "connections",
                Given::Switch(false),
                "--connections: needs a value",
            ),
            (
                "connections",
                list(&["1", "2"]),
                "--connections: takes one value, and has 2",
            ),
            ("connections", value("1"), "--connections 1: must"),
            (
                "breakout",
                value("yes"),
                "--breakout: takes no value, and has \"yes\"",
            ),
            ("x y", value("1"), "--x y"),
            ("", value("1"), "-"),
        ] {
            let refusal = request(&[(name, given)]).unwrap_err();
            assert!(refusal.contains(expected), "{name}: {refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
        }
    }
}
