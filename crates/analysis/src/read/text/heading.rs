//! What is written between the reports in people's notes: headings, settings, command lines.

use plan::secrets::hide_secrets;
use plan::units::parse_count;
use results::Setting;

use super::rounds;
use crate::read::quote;

/// What the lines above the next report say about it.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// Headings and settings, outermost first.
    levels: Vec<Level>,
    /// Lines such as `x86_64:`, outermost first. They are headings if a report follows; a script
    /// may print such lines too.
    pending: Vec<Label>,
    /// Labels that turned out not to be headings.
    dropped: Vec<SourceLine>,
    /// The last command line.
    pub(super) command: Option<(Command, SourceLine)>,
}

/// A line of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SourceLine {
    /// Its number, from 1.
    pub(super) number: usize,
    pub(super) text: String,
}

impl SourceLine {
    pub(super) fn new(number: usize, text: &str) -> Self {
        Self {
            number,
            text: quote(text),
        }
    }
}

impl std::fmt::Display for SourceLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Command lines may contain passwords and tokens.
        write!(f, "line {}: \"{}\"", self.number, hide_secrets(&self.text))
    }
}

/// A heading in effect.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Title {
    pub(super) depth: u8,
    /// The text without settings, round and colon.
    pub(super) text: String,
    pub(super) line: SourceLine,
}

#[derive(Debug)]
struct Level {
    depth: u8,
    line: SourceLine,
    title: Option<String>,
    round: Option<u32>,
    settings: Vec<(Setting, SourceLine)>,
    /// Whether it is a label with a blank line below it.
    has_blank_below: bool,
}

/// A line such as `x86_64:`, which may or may not be a heading.
#[derive(Debug)]
struct Label {
    title: String,
    line: SourceLine,
    has_blank_below: bool,
    /// Number of lines of other text below it.
    prose_lines: usize,
}

/// What a line turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineMeaning {
    /// The line describes what follows.
    Understood,
    /// The line underlines the one above, which is a heading.
    RuleBelow,
    /// The line may be a heading.
    Label,
    /// The line is not understood.
    Nothing,
}

/// Depth of a framed line (`== x86_64 ==`), below all of Markdown's headings.
const DEPTH_OF_FRAMED: u8 = 65;

/// Depths of lines that only look like headings (`x86_64:`).
const DEPTHS_OF_LABELS: [u8; 3] = [70, 80, 90];

/// Depth of settings on lines of their own, which hold until the next heading.
const DEPTH_OF_SETTINGS: u8 = 100;

/// Distance between the levels of Markdown's headings.
const DEPTH_STEP: u8 = 10;

/// Longer lines are prose.
const TITLE_MAX_CHARS: usize = 100;

/// A label with more words is prose that ends in a colon.
const LABEL_MAX_WORDS: usize = 12;

/// With more lines of other text between a label and the report, the label introduces that text.
const PROSE_MAX_LINES: usize = 3;

/// Limit on settings in one line and below one heading. More are another kind of text.
const SETTINGS_MAX: usize = 32;

impl Context {
    /// The titles in effect, outermost first.
    pub(super) fn titles(&self) -> Vec<Title> {
        let title = |level: &Level| {
            Some(Title {
                depth: level.depth,
                text: level.title.clone()?,
                line: level.line.clone(),
            })
        };
        self.levels.iter().filter_map(title).collect()
    }

    /// The round in effect, which is the innermost one.
    pub(super) fn round(&self) -> Option<(u32, SourceLine)> {
        let mut rounds = self.levels.iter().rev();
        rounds.find_map(|level| Some((level.round?, level.line.clone())))
    }

    /// The settings in effect, the innermost one of each name.
    pub(super) fn settings(&self) -> Vec<(Setting, SourceLine)> {
        let mut settings: Vec<(Setting, SourceLine)> = Vec::new();
        for setting in self.levels.iter().flat_map(|level| &level.settings) {
            match settings
                .iter_mut()
                .find(|(known, _)| known.factor == setting.0.factor)
            {
                Some(known) => known.clone_from(setting),
                None => settings.push(setting.clone()),
            }
        }
        settings
    }

    /// The labels that turned out not to be headings since the last call.
    pub(super) fn take_dropped(&mut self) -> Vec<SourceLine> {
        std::mem::take(&mut self.dropped)
    }

    /// Handles an empty line.
    pub(super) fn blank(&mut self) {
        if let Some(label) = self.pending.last_mut() {
            label.has_blank_below |= label.prose_lines == 0;
        }
    }

    /// Handles a line outside of reports, given the line directly above it.
    pub(super) fn take(
        &mut self,
        number: usize,
        line: &str,
        above: Option<&SourceLine>,
    ) -> LineMeaning {
        let noted = SourceLine::new(number, line);
        if let Some(command) = command(line) {
            self.confirm_pending();
            self.command = Some((command, noted));
            return LineMeaning::Understood;
        }
        if let Some(settings) = settings(line) {
            self.confirm_pending();
            self.add(settings, &noted);
            return LineMeaning::Understood;
        }
        if let Some(above) = above
            && let Some((depth, title)) = underlined(line, &above.text)
        {
            self.pending
                .retain(|label| label.line.number != above.number);
            self.drop_pending();
            self.enter(depth, title, above.clone(), false);
            return LineMeaning::RuleBelow;
        }
        if let Some((depth, title)) = heading(line) {
            self.drop_pending();
            self.enter(depth, title, noted, false);
            return LineMeaning::Understood;
        }
        match label(line) {
            Some(title) => {
                if self.pending.len() == DEPTHS_OF_LABELS.len() {
                    self.dropped.push(self.pending.remove(0).line);
                }
                self.pending.push(Label {
                    title: title.to_owned(),
                    line: noted,
                    has_blank_below: false,
                    prose_lines: 0,
                });
                LineMeaning::Label
            }
            None => {
                self.prose();
                LineMeaning::Nothing
            }
        }
    }

    /// Turns pending labels into headings: a report, a command line or settings follow.
    pub(super) fn confirm_pending(&mut self) {
        let labels = std::mem::take(&mut self.pending);
        let is_one = labels.len() == 1;
        for (at, label) in labels.into_iter().enumerate() {
            let depth = match is_one {
                true => self.depth_of(&label),
                false => DEPTHS_OF_LABELS[at.min(DEPTHS_OF_LABELS.len() - 1)],
            };
            self.enter(depth, &label.title, label.line, label.has_blank_below);
        }
    }

    /// A single label has the depth of the innermost label with the same formatting.
    fn depth_of(&self, label: &Label) -> u8 {
        let labels = self.levels.iter().rev();
        let mut labels = labels
            .filter(|level| DEPTHS_OF_LABELS.contains(&level.depth) && level.title.is_some())
            .peekable();
        let innermost = labels.peek().map(|level| level.depth);
        let alike = labels.find(|level| level.has_blank_below == label.has_blank_below);
        let depth = alike.map(|level| level.depth).or(innermost);
        depth.unwrap_or(DEPTHS_OF_LABELS[0])
    }

    /// Handles other text. A label directly above it introduces that text and is not a heading.
    fn prose(&mut self) {
        let is_introduction = |label: &Label| !label.has_blank_below && label.prose_lines == 0;
        if self.pending.last().is_some_and(is_introduction) {
            self.dropped
                .extend(self.pending.pop().map(|label| label.line));
        }
        for label in &mut self.pending {
            label.prose_lines += 1;
        }
        let is_far = |label: &mut Label| label.prose_lines > PROSE_MAX_LINES;
        let far = self.pending.extract_if(.., is_far);
        self.dropped.extend(far.map(|label| label.line));
    }

    fn drop_pending(&mut self) {
        self.dropped
            .extend(self.pending.drain(..).map(|label| label.line));
    }

    fn enter(&mut self, depth: u8, title: &str, line: SourceLine, has_blank_below: bool) {
        let (words, settings): (Vec<&str>, Vec<&str>) = title
            .split_whitespace()
            .partition(|word| setting(word).is_none());
        let (title, round) = rounds::split(&words.join(" "));
        if title.is_empty() && settings.is_empty() && round.is_some() {
            // `Run 2` repeats the first run, so everything that the lines above said about it still
            // holds.
            self.levels
                .retain(|level| level.round.is_none() || level.depth < depth);
        } else {
            self.levels.retain(|level| level.depth < depth);
        }
        let settings = settings.into_iter().filter_map(setting).take(SETTINGS_MAX);
        self.levels.push(Level {
            depth,
            title: Some(title).filter(|title| !title.is_empty()),
            round,
            settings: settings.map(|setting| (setting, line.clone())).collect(),
            line,
            has_blank_below,
        });
    }

    fn add(&mut self, more: Vec<Setting>, line: &SourceLine) {
        let is_of_settings = |level: &Level| level.depth == DEPTH_OF_SETTINGS;
        if !self.levels.iter().any(is_of_settings) {
            self.levels.push(Level {
                depth: DEPTH_OF_SETTINGS,
                line: line.clone(),
                title: None,
                round: None,
                settings: Vec::new(),
                has_blank_below: false,
            });
        }
        let Some(level) = self.levels.iter_mut().find(|level| is_of_settings(level)) else {
            return;
        };
        for setting in more {
            level
                .settings
                .retain(|(known, _)| known.factor != setting.factor);
            if level.settings.len() < SETTINGS_MAX {
                level.settings.push((setting, line.clone()));
            }
        }
    }
}

/// The relevant options of a command line of one of the tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Command {
    /// Number of threads: `-t`.
    pub(super) threads: Option<u64>,
    /// Number of connections: `-c`.
    pub(super) connections: Option<u64>,
    /// The duration as written: `-d`.
    pub(super) duration: Option<String>,
    /// Requests per second: `-R`.
    pub(super) rate: Option<u64>,
    /// The script as written: `-s`.
    pub(super) script: Option<String>,
    /// The timeout as written: `-T`.
    pub(super) timeout: Option<String>,
    /// The argument that contains `://`.
    pub(super) url: Option<String>,
}

/// Whether a line ends an unfinished report, because no line of a report looks like it.
pub(super) fn is_outside_of_reports(line: &str) -> bool {
    command(line).is_some() || markdown_heading(line).is_some()
}

/// The depth and the title of a heading on one line.
fn heading(line: &str) -> Option<(u8, &str)> {
    let found =
        markdown_heading(line).or_else(|| framed(line).map(|title| (DEPTH_OF_FRAMED, title)));
    found.filter(|(_, title)| is_title(title))
}

fn is_title(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= TITLE_MAX_CHARS
}

/// Depth and title of a heading such as `## x86_64`.
fn markdown_heading(line: &str) -> Option<(u8, &str)> {
    let title = line.trim_start_matches('#');
    let depth = u8::try_from(line.len() - title.len()).ok()?;
    let is_heading = (1..=6).contains(&depth) && title.starts_with([' ', '\t']);
    let title = title.trim().trim_end_matches('#');
    is_heading.then(|| (depth * DEPTH_STEP, without_colon(title)))
}

/// A title underlined with `=` or `-`.
fn underlined<'a>(line: &str, title: &'a str) -> Option<(u8, &'a str)> {
    let all = |rule: u8| line.len() >= 3 && line.bytes().all(|b| b == rule);
    let depth = match (all(b'='), all(b'-')) {
        (true, _) => DEPTH_STEP,
        (_, true) => 2 * DEPTH_STEP,
        _ => return None,
    };
    let is_plain = is_title(title) && settings(title).is_none() && title != JSON_TITLE;
    is_plain.then(|| (depth, without_colon(title)))
}

fn without_colon(title: &str) -> &str {
    title.trim_end().trim_end_matches(':').trim_end()
}

/// The title that json.lua prints above its object.
const JSON_TITLE: &str = "JSON Output";

/// `**x86_64**`, `=== x86_64 ===`.
fn framed(line: &str) -> Option<&str> {
    ["**", "==", "--"].into_iter().find_map(|frame| {
        let inner = line.strip_prefix(frame)?.strip_suffix(frame)?;
        let inner = inner.trim_matches(|c: char| frame.contains(c)).trim();
        (!inner.is_empty()).then(|| without_colon(inner))
    })
}

/// `x86_64:`, but not a sentence that ends in a colon.
fn label(line: &str) -> Option<&str> {
    let title = line.strip_suffix(':')?.trim_end();
    let is_sentence = title.contains('。')
        || title
            .split('.')
            .skip(1)
            .any(|after| after.starts_with(|c: char| c == ' ' || !c.is_ascii()));
    let is_short = title.split_whitespace().count() <= LABEL_MAX_WORDS;
    (is_title(title) && is_short && !is_sentence && !title.contains("://")).then_some(title)
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

/// The setting in a word such as `rmem=262144`.
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
    // Scripts, which notes may quote, set fields of the table `wrk`.
    !text.starts_with("wrk.")
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/'))
}

/// The tools whose command lines are read.
const TOOLS: [&str; 4] = ["wrk", "wrk2", "wrk-cmm", "wrkbench"];

/// The ends of shell prompts.
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

/// Limit on the words of a command line.
const COMMAND_MAX_WORDS: usize = 200;

fn parse_command(text: &str) -> Option<Command> {
    let mut words = words(text).take(COMMAND_MAX_WORDS).map(unquoted);
    // What may precede the tool: `sudo`, `time`, `taskset -c 0`, `A=b`.
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
            "T" | "timeout" => command.timeout = value().map(str::to_owned),
            "H" | "header" | "b" | "bind-ip" | "D" | "delay-stats" => {
                let _ = value();
            }
            _ => {}
        }
    }
    command
}

/// Splits words as a shell does: spaces within quotes do not split (`-H 'Referer: http://h/'`).
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

    /// What is in effect below these lines: titles, then settings, then the round.
    fn below(lines: &[&str]) -> String {
        let mut context = Context::default();
        take_all(&mut context, lines);
        context.confirm_pending();
        shown(&context)
    }

    fn take_all(context: &mut Context, lines: &[&str]) {
        let mut above = None;
        for (number, line) in (1..).zip(lines) {
            if line.is_empty() {
                context.blank();
                above = None;
            } else {
                context.take(number, line, above.as_ref());
                above = Some(SourceLine::new(number, line));
            }
        }
    }

    fn shown(context: &Context) -> String {
        let titles = context.titles().into_iter().map(|title| title.text);
        let settings = context.settings().into_iter();
        let settings = settings.map(|(setting, _)| format!("{}={}", setting.factor, setting.level));
        let round = context.round().map(|(round, _)| format!("round {round}"));
        let parts: Vec<String> = titles.chain(settings).chain(round).collect();
        parts.join(" | ")
    }

    #[test]
    fn command_lines_are_found_after_prompts_and_wrappers() {
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
    fn quoted_text_is_one_word_of_a_command_line() {
        let command =
            command("wrk -H \"Referer: http://other/\" -H 'X: -c7 -t9' -c300 'http://h/'").unwrap();
        assert_eq!(command.url.as_deref(), Some("http://h/"));
        assert_eq!((command.threads, command.connections), (None, Some(300)));
    }

    #[test]
    fn prose_about_the_tools_is_not_a_command_line() {
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
        let lines = [
            "# Notes",
            "## x86_64",
            "rmem=262144 wmem=262144",
            "net.ipv4.tcp_rmem = 4096 131072 6291456",
            "### Run 2",
            "rmem=524288",
        ];
        assert_eq!(
            below(&lines),
            "Notes | x86_64 | wmem=262144 | net.ipv4.tcp_rmem=4096 131072 6291456 | rmem=524288 | \
             round 2"
        );
        let lines = [&lines[..], &["## arm64 conns=400", "some words about it"]].concat();
        assert_eq!(below(&lines), "Notes | arm64 | conns=400");
    }

    #[test]
    fn headings_may_be_underlined_framed_or_labels() {
        for lines in [
            &["x86_64", "======"][..],
            &["x86_64", "------"],
            &["x86_64:", "======"],
            &["**x86_64**"],
            &["=== x86_64 ==="],
            &["## x86_64: ##"],
            &["x86_64:"],
            &["Something else:", "", "x86_64", "======"],
        ] {
            assert_eq!(below(lines), "x86_64", "{lines:?}");
        }
        for lines in [
            &["JSON Output", "-----------"][..],
            &["----------------"],
            &["The server was slow. This is what it did:"],
            &["x86_64:", "", "# Other", "# "],
            &["In a script:", "wrk.method = \"POST\""],
        ] {
            let found = below(lines);
            assert!(found.is_empty() || found == "Other", "{lines:?}: {found}");
        }
    }

    #[test]
    fn a_label_is_a_heading_unless_it_introduces_other_text() {
        for (lines, said) in [
            (&["answers by status:", "200 17"][..], ""),
            (&["x86_64:", "rmem=1"], "x86_64 | rmem=1"),
            (&["x86_64:", "", "The caches are warm.", ""], "x86_64"),
            (&["x86_64:", "", "a", "b", "c", "d"], ""),
            (&["Basic:", "", "answers by status:", "200 17", ""], "Basic"),
            (&["Basic test, first round:", ""], "Basic test | round 1"),
        ] {
            assert_eq!(below(lines), said, "{lines:?}");
        }
    }

    #[test]
    fn labels_nest_by_their_formatting() {
        let mut context = Context::default();
        for (lines, said) in [
            (&["Basic:", "", "x86_64:"][..], "Basic | x86_64"),
            (&["arm64:"], "Basic | arm64"),
            (&["Focused:", ""], "Focused"),
            (
                &["Last:", "", "x86_64:", "Run 1:"],
                "Last | x86_64 | round 1",
            ),
            (&["Run 2:"], "Last | x86_64 | round 2"),
            (&["arm64:"], "Last | arm64"),
        ] {
            take_all(&mut context, lines);
            context.confirm_pending();
            assert_eq!(shown(&context), said, "{lines:?}");
        }
    }
}
