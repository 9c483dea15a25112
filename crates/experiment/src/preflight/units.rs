//! Checks that the services which a shell command starts or restarts exist, without doing so.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plan::shell::quoted;

use crate::host::HostAccess;

/// The time limit of systemctl.
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// Commands of systemctl that need an existing unit.
const VERBS: [&str; 8] = [
    "start",
    "stop",
    "restart",
    "try-restart",
    "reload",
    "reload-or-restart",
    "try-reload-or-restart",
    "kill",
];

/// Options with which it is about units of another machine, container or user.
const ELSEWHERE: [&str; 7] = [
    "-H",
    "--host",
    "-M",
    "--machine",
    "--root",
    "--user",
    "--global",
];

/// Words after which another command begins.
const INTRODUCTIONS: [&str; 11] = [
    "if", "then", "else", "elif", "while", "until", "do", "!", "{", "exec", "time",
];

/// The most units that are suggested.
const SHOWN: usize = 3;

/// Which services of a command are missing, a line each. Commands with words that the shell would
/// expand are skipped, and so are machines without systemd.
pub(super) fn missing(command: &str, host: &mut dyn HostAccess) -> Vec<String> {
    let mut problems = Vec::new();
    for words in simple_commands(command) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let found = match words.as_slice() {
            ["systemctl", arguments @ ..] => missing_units(arguments, host),
            ["service", name, _, ..] if !name.starts_with('-') => missing_service(name, host),
            _ => Vec::new(),
        };
        for problem in found {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    problems
}

fn missing_units(arguments: &[&str], host: &mut dyn HostAccess) -> Vec<String> {
    let is_option = |word: &&&str| word.starts_with('-');
    // Services of another machine, container or user are unknown here.
    let is_of_others = |word: &&str| ELSEWHERE.iter().any(|option| word.starts_with(option));
    if arguments.iter().any(is_of_others) {
        return Vec::new();
    }
    let mut words = arguments.iter().filter(|word| !is_option(word));
    if !words.next().is_some_and(|verb| VERBS.contains(verb)) {
        return Vec::new();
    }
    words.filter_map(|unit| missing_unit(unit, host)).collect()
}

fn missing_unit(unit: &str, host: &mut dyn HostAccess) -> Option<String> {
    let name = quoted(unit);
    if unit.contains(['*', '?', '[']) {
        let command = format!("systemctl list-units --all --plain --no-legend -- {name}");
        let is_missing = ask(host, &command)?.trim().is_empty();
        let text = "so nothing would be restarted: start the service first";
        return is_missing.then(|| format!("no loaded unit matches {name}, {text}"));
    }
    let command = format!("systemctl show --property=LoadState --value -- {name}");
    let state = ask(host, &command)?;
    match state.trim() {
        "not-found" => {
            let parts = unit.trim_end_matches(".service");
            let pattern = quoted(&format!("*{}*", parts.replace(['-', '_', '.'], "*")));
            let command = format!("systemctl list-unit-files --no-legend -- {pattern}");
            let like = ask(host, &command).unwrap_or_default();
            let names = like.lines().filter_map(|it| it.split_whitespace().next());
            let like: Vec<&str> = names.take(SHOWN).collect();
            Some(match like.as_slice() {
                [] => format!("unit {unit} not found (systemctl list-unit-files lists them)"),
                like => format!("unit {unit} not found: did you mean {}?", like.join(" or ")),
            })
        }
        "masked" => Some(format!("unit {unit} is masked and cannot be started")),
        _ => None,
    }
}

/// A service with neither a script nor a unit.
fn missing_service(name: &str, host: &mut dyn HostAccess) -> Vec<String> {
    if host.read(&Path::new("/etc/init.d").join(name)).is_ok() {
        return Vec::new();
    }
    if host.has_program("systemctl") {
        return missing_unit(name, host).into_iter().collect();
    }
    vec![format!("service {name} not found (/etc/init.d lists them)")]
}

/// The output of a command that changes nothing; `None` if it fails.
fn ask(host: &mut dyn HostAccess, command: &str) -> Option<String> {
    if !host.has_program("systemctl") {
        return None;
    }
    let output = host.run(command, &BTreeMap::new(), ASK_LIMIT).ok()?;
    (output.exit_code == Some(0)).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The simple commands of a shell line, as words without quotes. Commands with words that the shell
/// would expand (`$X`, `` `x` ``) are left out, and so are lines with functions or here-documents.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    if line.contains("()") || line.contains("<<") {
        return Vec::new();
    }
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut is_known = true;
    let mut quote: Option<char> = None;
    let mut chars = line.chars().chain(['\n']).peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '$' | '`') => is_known = false,
            (Some('"') | None, '\\') => {
                if let Some(next) = chars.next().filter(|next| *next != '\n') {
                    word.get_or_insert_default().push(next);
                }
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, '#') if word.is_none() => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            (None, ';' | '&' | '|' | '\n' | '(' | ')') => {
                words.extend(word.take());
                let command = std::mem::take(&mut words);
                if is_known && !command.is_empty() {
                    commands.push(command);
                }
                is_known = true;
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    for command in &mut commands {
        let is_before = |word: &String| {
            INTRODUCTIONS.contains(&word.as_str())
                || word.split_once('=').is_some_and(|(name, _)| {
                    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                })
                || word == "sudo"
        };
        let begin = command.iter().take_while(|word| is_before(word)).count();
        command.drain(..begin);
        // Redirections are not units.
        command.retain(|word| !word.contains(['<', '>']));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::host::CommandOutput;

    /// A machine whose systemctl prints this.
    fn with(answers: &[(&str, &str)]) -> Fake {
        let mut host = Fake::default();
        for (command, answer) in answers {
            let stdout = answer.as_bytes().to_vec();
            host.on_command(command, move |_, _| CommandOutput {
                exit_code: Some(0),
                stdout: stdout.clone(),
                ..CommandOutput::default()
            });
        }
        host
    }

    fn debian() -> Fake {
        with(&[
            (
                "systemctl show --property=LoadState --value -- nginx",
                "loaded\n",
            ),
            (
                "systemctl show --property=LoadState --value -- php-fpm",
                "not-found\n",
            ),
            (
                "systemctl show --property=LoadState --value -- old",
                "masked\n",
            ),
            (
                "systemctl show --property=LoadState --value -- nothing",
                "not-found\n",
            ),
            (
                "systemctl list-unit-files --no-legend -- '*php*fpm*'",
                "php8.2-fpm.service enabled enabled\n",
            ),
            (
                "systemctl list-units --all --plain --no-legend -- 'php*fpm.service'",
                "php8.2-fpm.service loaded active running x\n",
            ),
        ])
    }

    #[test]
    fn a_missing_unit_is_found_with_a_suggestion() {
        for (command, expected) in [
            ("systemctl restart nginx", vec![]),
            (
                "systemctl restart nginx php-fpm",
                vec!["unit php-fpm not found: did you mean php8.2-fpm.service?"],
            ),
            ("systemctl restart nginx 'php*fpm.service'", vec![]),
            (
                "systemctl restart 'x*'",
                vec![
                    "no loaded unit matches 'x*', so nothing would be restarted: start the \
                     service first",
                ],
            ),
            (
                "true && sudo systemctl --no-block try-restart \"old\" 2>/dev/null; :",
                vec!["unit old is masked and cannot be started"],
            ),
            (
                "service nothing reload",
                vec!["unit nothing not found (systemctl list-unit-files lists them)"],
            ),
            ("systemctl restart $UNITS nothing", vec![]),
            ("systemctl -H other restart nothing", vec![]),
            ("systemctl is-active nothing", vec![]),
            ("echo systemctl restart nothing", vec![]),
            ("# systemctl restart nothing", vec![]),
        ] {
            assert_eq!(missing(command, &mut debian()), expected, "{command}");
        }
    }

    #[test]
    fn without_systemd_nothing_is_reported() {
        let mut host = Fake::default();
        host.on_command(
            "systemctl show --property=LoadState --value -- x",
            |_, _| CommandOutput {
                exit_code: Some(1),
                stderr: b"System has not been booted with systemd\n".to_vec(),
                ..CommandOutput::default()
            },
        );
        assert_eq!(
            missing("systemctl restart x", &mut host),
            Vec::<String>::new()
        );
        host.missing_programs.insert("systemctl".to_owned());
        assert_eq!(
            missing("service nginx restart", &mut host),
            ["service nginx not found (/etc/init.d lists them)"]
        );
        host.files.insert("/etc/init.d/nginx".into(), Vec::new());
        assert_eq!(
            missing("service nginx restart", &mut host),
            Vec::<String>::new()
        );
    }
}
