//! What the lines above a report say about it: the path, and what names the runs.

use results::Setting;

use super::command::{self, Command};
use super::lines::{self, SourceLine};
use super::path::{Path, Place};
use super::rounds;

/// What is known about a report when its first line is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Situation {
    /// The headings and labels in effect, outermost first.
    pub(super) titles: Vec<Title>,
    /// The settings in effect.
    pub(super) settings: Vec<(Setting, SourceLine)>,
    /// The number of the run below the innermost title.
    pub(super) round: Option<(u32, SourceLine)>,
    /// Number of command lines of the tools above.
    pub(super) tools: usize,
    /// The last lines of text above: those since the report above, else earlier ones.
    pub(super) texts: Vec<SourceLine>,
    /// Whether these lines are below the report above.
    pub(super) has_own_text: bool,
    /// The lines in effect, which decide what is a repetition of what.
    pub(super) place: Place,
}

/// A heading or a label in effect.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Title {
    pub(super) level: u8,
    /// The text without the number of a run and the colon.
    pub(super) text: String,
    pub(super) line: SourceLine,
}

impl Title {
    fn of(level: u8, title: &str, line: SourceLine) -> Self {
        let (text, _) = rounds::split(title);
        Self { level, text, line }
    }

    /// Whether it is a line such as `x86_64:`.
    pub(super) fn is_label(&self) -> bool {
        self.level == LEVEL_OF_LABELS
    }
}

/// Labels are below all headings.
const LEVEL_OF_LABELS: u8 = 8;

/// Limit on labels and on lines of text that are kept for names.
const LINES_MAX: usize = 32;

/// Limit on settings that are kept for names.
const SETTINGS_MAX: usize = 32;

/// The lines above the next report, as far as they have been read.
#[derive(Debug, Default)]
pub(super) struct Context {
    path: Path,
    /// The line directly above, which may be the text of a heading or the titles of a table.
    above: Option<(usize, String)>,
    titles: Vec<Title>,
    /// Labels since the last report that no text follows.
    labels: Vec<Title>,
    settings: Vec<(Setting, SourceLine)>,
    /// The command lines of the tools.
    pub(super) tools: Vec<(Command, SourceLine)>,
    texts: Vec<SourceLine>,
    has_own_text: bool,
}

impl Context {
    /// Handles a line outside of reports; an empty one ends a paragraph. In a block of code, `# x`
    /// is a comment. Says whether it is text, which a script may print below a report.
    pub(super) fn take(&mut self, number: usize, line: &str, is_in_code: bool) -> bool {
        if let Some((at, above)) = self.above.take() {
            if let Some(level) = lines::underline(line, &above) {
                self.enter(
                    level,
                    lines::without_colon(&above),
                    SourceLine::new(at, &above),
                );
                return false;
            }
            self.add_text(at, &above);
        }
        let noted = || SourceLine::new(number, line);
        if let Some(command) = command::tool(line) {
            if !command.output.is_empty() {
                self.path.add(number, &command.output);
                self.add_to_texts([SourceLine::new(number, &command.output)]);
            }
            self.tools.push((command, noted()));
        } else if let Some(settings) = lines::settings(line) {
            for setting in settings {
                self.path.set(number, &setting.factor, &setting.level);
                self.settings
                    .retain(|(known, _)| known.factor != setting.factor);
                self.settings.push((setting, noted()));
            }
            let surplus = self.settings.len().saturating_sub(SETTINGS_MAX);
            self.settings.drain(..surplus);
        } else if let Some((level, title)) = lines::heading(line, is_in_code) {
            self.enter(level, title, noted());
        } else {
            let has_words = line.contains(char::is_alphanumeric);
            self.above = has_words.then(|| (number, line.to_owned()));
            return true;
        }
        false
    }

    /// Takes back the line directly above, which has turned out to be the titles of a table.
    pub(super) fn forget_line_above(&mut self) {
        self.above = None;
    }

    /// What is known about a report or a table that begins here.
    pub(super) fn begin_report(&mut self) -> Situation {
        self.take(0, "", false);
        let mut labels = std::mem::take(&mut self.labels);
        labels.retain(|label| !label.text.is_empty());
        // The labels of a block nest; fewer of them than before replace the innermost ones.
        let known = self.titles.iter().filter(|title| title.is_label()).count();
        let kept = self.titles.len() - labels.len().min(known);
        self.titles.truncate(kept);
        self.titles.extend(labels);
        let place = self.path.begin_report();
        let last_title = self.titles.last().map_or(0, |title| title.line.number);
        let named = self.titles.iter().filter(|title| !title.text.is_empty());
        let mut rounds = place.runs.iter().rev();
        Situation {
            titles: named.cloned().collect(),
            settings: self.settings.clone(),
            round: rounds.find(|(_, line)| line.number >= last_title).cloned(),
            tools: self.tools.len(),
            texts: self.texts.clone(),
            has_own_text: std::mem::take(&mut self.has_own_text),
            place,
        }
    }

    fn add_text(&mut self, number: usize, text: &str) {
        self.path.add(number, text);
        let line = SourceLine::new(number, command::after_prompt(text).unwrap_or(text));
        let label = lines::label(text).filter(|_| self.labels.len() < LINES_MAX);
        if let Some(title) = label {
            self.labels.push(Title::of(LEVEL_OF_LABELS, title, line));
            return;
        }
        // A label with text below it introduces that text.
        let labels: Vec<Title> = self.labels.drain(..).collect();
        self.add_to_texts(labels.into_iter().map(|label| label.line).chain([line]));
    }

    fn add_to_texts(&mut self, lines: impl IntoIterator<Item = SourceLine>) {
        if !std::mem::replace(&mut self.has_own_text, true) {
            self.texts.clear();
        }
        self.texts.extend(lines);
        let surplus = self.texts.len().saturating_sub(LINES_MAX);
        self.texts.drain(..surplus);
    }

    fn enter(&mut self, level: u8, title: &str, line: SourceLine) {
        self.path.enter(line.number, level, title);
        self.labels.clear();
        if !self.has_own_text {
            self.texts.clear();
        }
        self.titles.retain(|known| known.level < level);
        self.titles.push(Title::of(level, title, line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handles lines, and says what is in effect below them: titles, settings, the round, text.
    fn below(context: &mut Context, from: usize, lines: &[&str]) -> String {
        for (number, line) in (from..).zip(lines) {
            context.take(number, line, false);
        }
        let found = context.begin_report();
        let titles = found.titles.into_iter().map(|title| title.text);
        let settings = found.settings.into_iter();
        let settings = settings.map(|(setting, _)| format!("{}={}", setting.factor, setting.level));
        let round = found.round.map(|(round, _)| format!("round {round}"));
        let text = found.texts.last().map(|line| format!("({})", line.text));
        let parts: Vec<String> = titles.chain(settings).chain(round).chain(text).collect();
        parts.join(" | ")
    }

    fn check(cases: &[(&[&str], &str)]) {
        let mut context = Context::default();
        for (at, (lines, expected)) in cases.iter().enumerate() {
            let found = below(&mut context, at * 10, lines);
            assert_eq!(found, *expected, "{lines:?}");
        }
    }

    #[test]
    fn headings_nest_and_settings_hold_until_they_are_set_again() {
        check(&[
            (
                &[
                    "# Notes",
                    "## x86_64",
                    "rmem=262144 wmem=262144",
                    "### Run 2",
                    "rmem=524288",
                ],
                "Notes | x86_64 | wmem=262144 | rmem=524288 | round 2",
            ),
            (
                &["### Run 3"],
                "Notes | x86_64 | wmem=262144 | rmem=524288 | round 3",
            ),
            (
                &["## arm64", "some words about it"],
                "Notes | arm64 | wmem=262144 | rmem=524288 | (some words about it)",
            ),
        ]);
    }

    #[test]
    fn headings_may_be_underlined_or_framed() {
        for lines in [
            &["x86_64", "======"][..],
            &["x86_64:", "------"],
            &["**x86_64**"],
            &["=== x86_64 ==="],
            &["## x86_64: ##"],
        ] {
            assert_eq!(
                below(&mut Context::default(), 1, lines),
                "x86_64",
                "{lines:?}"
            );
        }
        let found = below(&mut Context::default(), 1, &["JSON Output", "-----------"]);
        assert_eq!(found, "(JSON Output)");
    }

    #[test]
    fn labels_of_one_block_nest_and_fewer_labels_replace_the_innermost() {
        check(&[
            (&["Basic:", "", "x86_64:"], "Basic | x86_64"),
            (&["arm64:"], "Basic | arm64"),
            (
                &["Last:", "", "x86_64:", "Run 1:"],
                "Last | x86_64 | round 1",
            ),
            (&["Run 3:"], "Last | x86_64 | round 3"),
            (&["arm64:"], "Last | arm64"),
            (&["Then:", "the caches"], "Last | arm64 | (the caches)"),
        ]);
    }

    #[test]
    fn a_comment_in_code_is_text() {
        let mut context = Context::default();
        context.take(1, "## nginx", false);
        context.take(2, "# after tuning", true);
        let found = context.begin_report();
        let titles: Vec<&str> = found
            .titles
            .iter()
            .map(|title| title.text.as_str())
            .collect();
        assert_eq!((titles, found.texts.len()), (vec!["nginx"], 1));
    }
}
