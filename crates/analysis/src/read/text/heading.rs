//! What stands between reports in people's notes: headings, settings, command lines.

use plan::units::parse_count;
use results::Setting;

/// What is known of the next report by what stands above it.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// Outermost first.
    levels: Vec<Level>,
    /// A line like `x86_64:`. It is a heading if a report follows; a script may print such lines too.
    pending: Option<String>,
    /// The last command line.
    pub(super) command: Option<Command>,
}

#[derive(Debug)]
struct Level {
    depth: u8,
    title: Option<String>,
    settings: Vec<Setting>,
}

/// A command line of one of the tools, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Command {
    /// `-t`.
    pub(super) threads: Option<u64>,
    /// `-c`.
    pub(super) connections: Option<u64>,
    /// `-d`, as written.
    pub(super) duration: Option<String>,
    /// `-R`.
    pub(super) rate: Option<u64>,
    /// `-s`, as written.
    pub(super) script: Option<String>,
    /// Whatever has `://` in it.
    pub(super) url: Option<String>,
}

/// Depth of a line that is a heading by its looks only (`x86_64:`), below all of Markdown's.
const DEPTH_OF_LABEL: u8 = 7;

/// Depth of settings on lines of their own: until the next heading.
const DEPTH_OF_SETTINGS: u8 = 8;

/// Longer lines are prose.
const TITLE_MAX_CHARS: usize = 100;

/// Settings on one line, and on the lines below one heading; more is another kind of text.
const SETTINGS_MAX: usize = 32;

impl Context {
    /// The titles that hold, outermost first.
    pub(super) fn titles(&self) -> Vec<String> {
        let titles = self.levels.iter().filter_map(|level| level.title.clone());
        titles.collect()
    }

    /// The settings that hold, the innermost of each name.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let mut settings: Vec<Setting> = Vec::new();
        for setting in self.levels.iter().flat_map(|level| &level.settings) {
            match settings
                .iter_mut()
                .find(|known| known.factor == setting.factor)
            {
                Some(known) => known.level.clone_from(&setting.level),
                None => settings.push(setting.clone()),
            }
        }
        settings
    }

    /// Takes a line that is in no report, and the one above it. Whether it says something.
    pub(super) fn take(&mut self, line: &str, above: Option<&str>) -> bool {
        if let Some(command) = command(line) {
            self.settle();
            self.command = Some(command);
            return true;
        }
        if let Some(settings) = settings(line) {
            self.settle();
            self.add(settings);
            return true;
        }
        self.pending = None;
        if let Some((depth, title)) = heading(line, above) {
            self.enter(depth, title);
            return true;
        }
        self.pending = label(line).map(str::to_owned);
        self.pending.is_some()
    }

    /// What follows tells that the line like `x86_64:` was a heading.
    pub(super) fn settle(&mut self) {
        if let Some(title) = self.pending.take() {
            self.enter(DEPTH_OF_LABEL, &title);
        }
    }

    fn enter(&mut self, depth: u8, title: &str) {
        if is_number_of_a_run(title) {
            return;
        }
        self.levels.retain(|level| level.depth < depth);
        let (words, settings): (Vec<&str>, Vec<&str>) = title
            .split_whitespace()
            .partition(|word| setting(word).is_none());
        let title = words.join(" ");
        self.levels.push(Level {
            depth,
            title: Some(title).filter(|title| !title.is_empty()),
            settings: settings
                .into_iter()
                .filter_map(setting)
                .take(SETTINGS_MAX)
                .collect(),
        });
    }

    fn add(&mut self, more: Vec<Setting>) {
        if self
            .levels
            .last()
            .is_none_or(|level| level.depth != DEPTH_OF_SETTINGS)
        {
            self.levels.push(Level {
                depth: DEPTH_OF_SETTINGS,
                title: None,
                settings: Vec::new(),
            });
        }
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        for setting in more {
            level
                .settings
                .retain(|known| known.factor != setting.factor);
            if level.settings.len() < SETTINGS_MAX {
                level.settings.push(setting);
            }
        }
    }
}

/// Whether a line ends a report that is not finished, as nothing within a report looks like it.
pub(super) fn is_outside_of_reports(line: &str) -> bool {
    command(line).is_some() || markdown_heading(line).is_some()
}

/// A heading: its depth and title.
fn heading<'a>(line: &'a str, above: Option<&'a str>) -> Option<(u8, &'a str)> {
    let found = markdown_heading(line)
        .or_else(|| underlined(line, above))
        .or_else(|| framed(line).map(|title| (DEPTH_OF_LABEL, title)));
    found.filter(|(_, title)| is_title(title))
}

fn is_title(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= TITLE_MAX_CHARS
}

/// `## x86_64`.
fn markdown_heading(line: &str) -> Option<(u8, &str)> {
    let title = line.trim_start_matches('#');
    let depth = u8::try_from(line.len() - title.len()).ok()?;
    let is_heading = (1..=6).contains(&depth) && title.starts_with([' ', '\t']);
    is_heading.then(|| (depth, title.trim().trim_end_matches('#').trim_end()))
}

/// A title with a line of `=` or `-` below it.
fn underlined<'a>(line: &str, above: Option<&'a str>) -> Option<(u8, &'a str)> {
    let title = above?;
    let all = |rule: u8| line.len() >= 3 && line.bytes().all(|b| b == rule);
    let is_plain = !title.is_empty() && settings(title).is_none() && title != JSON_TITLE;
    let depth = match (all(b'='), all(b'-')) {
        (true, _) => 1,
        (_, true) => 2,
        _ => return None,
    };
    is_plain.then_some((depth, title))
}

/// What json.lua prints above its object.
const JSON_TITLE: &str = "JSON Output";

/// `**x86_64**`, `=== x86_64 ===`.
fn framed(line: &str) -> Option<&str> {
    ["**", "==", "--"].into_iter().find_map(|frame| {
        let inner = line.strip_prefix(frame)?.strip_suffix(frame)?;
        let inner = inner.trim_matches(|c: char| frame.contains(c)).trim();
        (!inner.is_empty()).then(|| inner.trim_end_matches(':'))
    })
}

/// `x86_64:`.
fn label(line: &str) -> Option<&str> {
    let title = line.strip_suffix(':')?.trim_end();
    (is_title(title) && !title.contains("://")).then_some(title)
}

/// `Run 2`, `round #3`: the same again, and nothing else.
fn is_number_of_a_run(title: &str) -> bool {
    let title = title.to_ascii_lowercase();
    ["run", "round", "pass", "test", "attempt"]
        .iter()
        .any(|word| {
            title.strip_prefix(word).is_some_and(|rest| {
                let number = rest.trim_matches([' ', '#', ':', '.']);
                !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
            })
        })
}

/// Settings and nothing else: `rmem=262144 wmem=262144`, `net.ipv4.tcp_rmem = 4096 131072 6291456`.
fn settings(line: &str) -> Option<Vec<Setting>> {
    let words: Option<Vec<Setting>> = line
        .split([' ', '\t', ',', ';'])
        .filter(|word| !word.is_empty())
        .take(SETTINGS_MAX)
        .map(setting)
        .collect();
    words.filter(|words| !words.is_empty()).or_else(|| {
        let (key, value) = line.split_once(" = ")?;
        let value = value.trim().replace('\t', " ");
        let is_setting =
            is_key(key.trim()) && !value.is_empty() && value.chars().count() <= TITLE_MAX_CHARS;
        is_setting.then(|| {
            vec![Setting {
                factor: key.trim().to_owned(),
                level: value,
            }]
        })
    })
}

/// `rmem=262144`.
fn setting(word: &str) -> Option<Setting> {
    let word = word.trim_matches(['`', ',', ';']);
    let (key, value) = word.split_once('=')?;
    let is_setting = is_key(key) && !value.is_empty() && !value.starts_with('=');
    (is_setting && word.chars().count() <= TITLE_MAX_CHARS).then(|| Setting {
        factor: key.to_owned(),
        level: value.to_owned(),
    })
}

fn is_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/'))
}

/// The tools whose command lines are read.
const TOOLS: [&str; 4] = ["wrk", "wrk2", "wrk-cmm", "wrkbench"];

/// Prompts end so. More of them in one line would be another kind of text.
const PROMPT_ENDS: [&str; 4] = ["$ ", "# ", "> ", "% "];

/// A command line of one of the tools, with or without a prompt before it.
pub(super) fn command(line: &str) -> Option<Command> {
    let prompted = PROMPT_ENDS.iter().filter_map(|end| {
        let (_, command) = line.split_once(end)?;
        Some(command)
    });
    std::iter::once(line)
        .chain(prompted)
        .find_map(|candidate| parse_command(candidate.trim_matches(['`', ' '])))
}

/// More words are not looked at.
const COMMAND_MAX_WORDS: usize = 200;

fn parse_command(text: &str) -> Option<Command> {
    let mut words = words(text).take(COMMAND_MAX_WORDS).map(unquoted);
    // What may stand before: `sudo`, `time`, `taskset -c 0`, `A=b`.
    let found = words.by_ref().take(8).find_map(|word| {
        let is_tool = TOOLS.contains(&word.rsplit('/').next().unwrap_or(word));
        let goes_before = [
            "sudo", "time", "exec", "env", "nice", "taskset", "numactl", "-c", "-n",
        ]
        .contains(&word)
            || setting(word).is_some()
            || word.bytes().all(|b| b.is_ascii_digit() || b == b',');
        match (is_tool, goes_before) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        }
    })?;
    if !found {
        return None;
    }
    let words: Vec<&str> = words.collect();
    let has_arguments = words
        .iter()
        .any(|word| word.starts_with('-') || word.contains("://"));
    has_arguments.then(|| options(&words))
}

fn options(words: &[&str]) -> Command {
    let mut command = Command::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        let (name, attached) = match word.strip_prefix("--") {
            Some(long) => match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            },
            None => match word
                .strip_prefix('-')
                .and_then(|short| short.split_at_checked(1))
            {
                Some((name, "")) => (name, None),
                Some((name, value)) => (name, Some(value)),
                None => {
                    if command.url.is_none() && word.contains("://") {
                        command.url = Some(word.to_owned());
                    }
                    continue;
                }
            },
        };
        let mut value = || attached.or_else(|| words.next());
        match name {
            "t" | "threads" => command.threads = value().and_then(|text| parse_count(text).ok()),
            "c" | "connections" => {
                command.connections = value().and_then(|text| parse_count(text).ok());
            }
            "R" | "rate" => command.rate = value().and_then(|text| parse_count(text).ok()),
            "d" | "duration" => command.duration = value().map(str::to_owned),
            "s" | "script" => command.script = value().map(str::to_owned),
            "H" | "header" | "T" | "timeout" | "b" | "bind-ip" | "D" | "delay-stats" => {
                let _ = value();
            }
            _ => {}
        }
    }
    command
}

/// Words as a shell parts them: blanks within quotes part nothing (`-H 'Referer: http://h/'`).
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let mut quote = None;
        let ends_word = |c: char| {
            match quote {
                Some(open) if c == open => quote = None,
                None if matches!(c, '"' | '\'') => quote = Some(c),
                _ => {}
            }
            quote.is_none() && c.is_whitespace()
        };
        let end = rest.find(ends_word).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(settings: &[Setting]) -> Vec<(&str, &str)> {
        settings
            .iter()
            .map(|setting| (setting.factor.as_str(), setting.level.as_str()))
            .collect()
    }

    #[test]
    fn command_lines_are_found_behind_prompts_and_helpers() {
        for line in [
            "wrk -t4 -c300 -d30s http://localhost/",
            "$ wrk -t 4 -c 300 -d 30s http://localhost/",
            "# wrk --threads=4 --connections 300 --duration=30s 'http://localhost/'",
            "root@host:~# /usr/local/bin/wrk-cmm -t4 -c300 -d30s --breakout http://localhost/",
            "[me@host dir]$ sudo taskset -c 0,1 wrkbench -t4 -c300 -d30s http://localhost/",
            "`wrk -c300 -t4 -d30s http://localhost/`",
            "> FOO=bar time wrk2 http://localhost/ -t4 -d30s -c300",
        ] {
            let command = command(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                (command.threads, command.connections),
                (Some(4), Some(300)),
                "{line}"
            );
            assert_eq!(command.duration.as_deref(), Some("30s"), "{line}");
            assert_eq!(command.url.as_deref(), Some("http://localhost/"), "{line}");
        }
        let with_rate = command("wrk2 -R2k -c10 -s x.lua http://h/ -- -t9").unwrap();
        assert_eq!((with_rate.rate, with_rate.threads), (Some(2_000), None));
        assert_eq!(with_rate.script.as_deref(), Some("x.lua"));
    }

    #[test]
    fn what_stands_in_quotes_is_one_word_of_a_command_line() {
        let command =
            command("wrk -H \"Referer: http://other/\" -H 'X: -c7 -t9' -c300 'http://h/'").unwrap();
        assert_eq!(command.url.as_deref(), Some("http://h/"));
        assert_eq!((command.threads, command.connections), (None, Some(300)));
    }

    #[test]
    fn prose_about_the_tools_is_no_command_line() {
        for line in [
            "wrk is a load generator",
            "I ran wrk -t4 -c300",
            "Usage: wrk <options> <url>",
            "# wrk results",
            "",
            "$ ",
            "wrk",
            "ab -n 1000 http://localhost/",
        ] {
            assert_eq!(command(line), None, "{line:?}");
        }
    }

    #[test]
    fn headings_nest_and_settings_end_with_them() {
        let mut context = Context::default();
        let mut above = None;
        for line in [
            "# Notes",
            "## x86_64",
            "rmem=262144 wmem=262144",
            "net.ipv4.tcp_rmem = 4096 131072 6291456",
            "### Run 2",
            "rmem=524288",
        ] {
            assert!(context.take(line, above), "{line}");
            above = Some(line);
        }
        assert_eq!(context.titles(), ["Notes", "x86_64"]);
        assert_eq!(
            pairs(&context.settings()),
            [
                ("wmem", "262144"),
                ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
                ("rmem", "524288"),
            ]
        );
        assert!(context.take("## arm64 conns=400", None));
        assert_eq!(context.titles(), ["Notes", "arm64"]);
        assert_eq!(pairs(&context.settings()), [("conns", "400")]);
        assert!(!context.take("some words about it", None));
    }

    #[test]
    fn headings_are_also_underlined_framed_or_labels() {
        for (line, above, title) in [
            ("======", Some("x86_64"), "x86_64"),
            ("------", Some("x86_64"), "x86_64"),
            ("**x86_64**", None, "x86_64"),
            ("=== x86_64 ===", None, "x86_64"),
            ("x86_64:", None, "x86_64"),
        ] {
            let mut context = Context::default();
            assert!(context.take(line, above), "{line}");
            context.settle();
            assert_eq!(context.titles(), [title], "{line}");
        }
        let mut context = Context::default();
        assert!(!context.take("-----------", Some("JSON Output")));
        assert!(!context.take("----------------", None));
    }

    #[test]
    fn a_label_is_a_heading_only_right_above_a_report() {
        let mut context = Context::default();
        context.take("answers by status:", None);
        assert!(!context.take("200 17", None));
        context.settle();
        assert!(context.titles().is_empty());
        context.take("x86_64:", None);
        context.take("rmem=1", None);
        context.settle();
        assert_eq!(context.titles(), ["x86_64"]);
        assert_eq!(pairs(&context.settings()), [("rmem", "1")]);
    }
}
