//! What the lines above a report say about it.
//!
//! The text is divided by its headings. Below each heading, the lines between two reports are a
//! block; what a block says holds until a later block or heading says something else. A line that
//! is not understood is kept as well, because it may be all that distinguishes two runs.

use std::hash::{DefaultHasher, Hash, Hasher};

use results::Setting;

use super::command::{self, Command, Shell};
use super::lines::{self, SourceLine};
use super::path::{Path, Place};
use super::rounds;

/// What is known about a report when its first line is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Situation {
    /// The headings and labels in effect, outermost first.
    pub(super) titles: Vec<Title>,
    /// The settings below these headings, the innermost of each name.
    pub(super) settings: Vec<(Setting, SourceLine)>,
    /// The round in effect, which is the innermost one.
    pub(super) round: Option<(u32, SourceLine)>,
    /// What commands have set so far.
    pub(super) set: Vec<(Setting, SourceLine)>,
    /// The last commands that may have changed what is measured.
    pub(super) acts: Option<SourceLine>,
    /// Number of command lines of the tools above.
    pub(super) tools: usize,
    /// The text in effect that was not understood: the beginning of its last paragraph.
    pub(super) text: Option<SourceLine>,
    /// The same, if it is below the report above.
    pub(super) own_text: Option<SourceLine>,
    /// The lines in effect, which decide what is a repetition of what.
    pub(super) place: Place,
}

/// A heading or a label in effect.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Title {
    pub(super) depth: u8,
    /// The text without settings, round and colon; empty if nothing else was there.
    pub(super) text: String,
    pub(super) line: SourceLine,
    settings: Vec<Setting>,
}

impl Title {
    /// Whether it is a line such as `x86_64:`.
    pub(super) fn is_label(&self) -> bool {
        self.depth >= DEPTH_OF_LABELS
    }

    /// Reads a title with its settings, and the round that it names.
    fn of(depth: u8, title: &str, line: SourceLine) -> (Self, Option<u32>) {
        let (words, settings): (Vec<&str>, Vec<&str>) = title
            .split_whitespace()
            .partition(|word| lines::setting(word).is_none());
        let (text, round) = rounds::split(&words.join(" "));
        let settings = settings.into_iter().filter_map(lines::setting);
        let settings = settings.take(SETTINGS_MAX).collect();
        (
            Self {
                depth,
                text,
                line,
                settings,
            },
            round,
        )
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.settings.is_empty()
    }
}

/// Depth of the outermost label, below all headings.
const DEPTH_OF_LABELS: u8 = 70;

/// Limit on labels in one block. Earlier ones are text.
const LABELS_MAX: usize = 3;

/// With more lines of text between a label and the report, the label introduces that text.
const TEXT_MAX_LINES: usize = 3;

/// Limit on settings below one heading, and on those set by commands.
const SETTINGS_MAX: usize = 32;

/// What a line turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineMeaning {
    /// The line describes what follows.
    Understood,
    /// The line underlines the one above, which is a heading.
    RuleBelow,
    /// The line may be a label.
    Label,
    /// The line is not understood.
    Nothing,
}

/// The lines above the next report, as far as they have been read.
#[derive(Debug)]
pub(super) struct Context {
    /// The parts of the text around the next line, outermost first. The first is the whole text.
    scopes: Vec<Scope>,
    block: Block,
    path: Path,
    /// The text that the headings since the last report have ended.
    passed_text: Option<SourceLine>,
    /// The command lines of the tools.
    pub(super) tools: Vec<(Command, SourceLine)>,
    set: Vec<(Setting, SourceLine)>,
    acts: Passage,
    acted: usize,
    /// The text in or above this block.
    block_text: Option<SourceLine>,
}

/// A heading with what was said below it.
#[derive(Debug, Default)]
struct Scope {
    depth: u8,
    title: Option<Title>,
    labels: Vec<Title>,
    round: Option<(u32, SourceLine)>,
    settings: Vec<(Setting, SourceLine)>,
    text: Option<SourceLine>,
}

/// The lines since the last report or heading.
#[derive(Debug, Default)]
struct Block {
    labels: Vec<Label>,
    text: Passage,
    acts: Passage,
}

/// A line such as `x86_64:`. With text directly below, it introduces that text.
#[derive(Debug)]
struct Label {
    title: String,
    line: SourceLine,
    is_confirmed: bool,
    /// Number of lines of text below it.
    text_lines: usize,
}

/// Lines of text.
#[derive(Debug, Default)]
struct Passage {
    /// Stands for all of the lines; 0 without any.
    mark: u64,
    /// The first line of the last paragraph.
    line: Option<SourceLine>,
    is_in_paragraph: bool,
    /// The number of the last line, and the passage without it.
    last: Option<(usize, u64, Option<SourceLine>)>,
}

impl Passage {
    fn add(&mut self, line: &SourceLine, whole: &str) {
        // Decoration names nothing.
        if !whole.contains(char::is_alphanumeric) {
            return;
        }
        self.last = Some((line.number, self.mark, self.line.clone()));
        self.mark = mixed(self.mark, whole);
        if !self.is_in_paragraph {
            self.line = Some(line.clone());
        }
        self.is_in_paragraph = true;
    }

    /// Removes the last line if it has this number.
    fn forget(&mut self, number: usize) {
        if let Some((_, mark, line)) = self.last.take_if(|(last, ..)| *last == number) {
            (self.mark, self.line) = (mark, line);
        }
    }

    /// Whether it says something else than what was said before.
    fn is_news(&self, before: &Self) -> bool {
        self.mark != 0 && self.mark != before.mark
    }
}

fn mixed(mark: u64, with: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (mark, with).hash(&mut hasher);
    hasher.finish().max(1)
}

impl Block {
    fn add_label(&mut self, title: &str, line: SourceLine) {
        if self.labels.len() == LABELS_MAX {
            let first = self.labels.remove(0);
            self.text.add(&first.line, &first.title);
        }
        self.text.is_in_paragraph = false;
        self.labels.push(Label {
            title: title.to_owned(),
            line,
            is_confirmed: false,
            text_lines: 0,
        });
    }

    fn add_text(&mut self, line: &SourceLine, whole: &str) {
        if let Some(label) = self.labels.pop_if(|label| !label.is_confirmed) {
            self.text.add(&label.line, &label.title);
        }
        for label in &mut self.labels {
            label.text_lines += 1;
        }
        let is_far = |label: &mut Label| label.text_lines > TEXT_MAX_LINES;
        for label in self.labels.extract_if(.., is_far) {
            self.text.add(&label.line, &label.title);
        }
        self.text.add(line, whole);
    }

    /// Removes the last line, which has turned out to be a heading.
    fn forget(&mut self, number: usize) {
        self.labels.pop_if(|label| label.line.number == number);
        self.text.forget(number);
    }
}

impl Default for Context {
    fn default() -> Self {
        Self {
            scopes: vec![Scope::default()],
            block: Block::default(),
            path: Path::default(),
            passed_text: None,
            tools: Vec::new(),
            set: Vec::new(),
            acts: Passage::default(),
            acted: 0,
            block_text: None,
        }
    }
}

impl Context {
    /// Handles an empty line.
    pub(super) fn blank(&mut self) {
        self.confirm_label();
        self.block.text.is_in_paragraph = false;
    }

    /// Handles a line outside of reports, given the line directly above it. In a block of code,
    /// `# x` is a comment: it says something below the heading above the block.
    pub(super) fn take(
        &mut self,
        number: usize,
        line: &str,
        above: Option<&SourceLine>,
        is_in_code: bool,
    ) -> LineMeaning {
        let noted = SourceLine::new(number, line);
        if let Some(command) = command::tool(line) {
            self.confirm_label();
            self.tools.push((command, noted));
        } else if let Some((text, shell)) = command::shell(line) {
            self.confirm_label();
            match shell {
                Shell::Shows => {}
                Shell::Sets(settings) if put(&mut self.set, &settings, &noted, SETTINGS_MAX) => {}
                Shell::Sets(_) | Shell::Acts => {
                    self.block.acts.add(&SourceLine::new(number, text), text)
                }
            }
        } else if let Some(settings) = lines::settings(line) {
            self.confirm_label();
            let scope = self.scopes.last_mut();
            let known = scope.map(|scope| &mut scope.settings);
            if known.is_none_or(|known| !put(known, &settings, &noted, SETTINGS_MAX)) {
                self.add_text(&noted, line);
                return LineMeaning::Nothing;
            }
            self.path.set(number, line, &settings);
        } else if let Some(above) = above
            && let Some((depth, title)) = lines::underlined(line, &above.text)
        {
            self.forget(above.number);
            self.enter(depth, title, above.clone());
            return LineMeaning::RuleBelow;
        } else if let Some((depth, title)) = lines::heading(line) {
            let depth = match is_in_code && line.starts_with("# ") {
                true => lines::DEPTH_OF_FRAMED,
                false => depth,
            };
            self.enter(depth, title, noted);
        } else if let Some(title) = lines::label(line) {
            self.path.add(number, line);
            self.block.add_label(title, noted);
            return LineMeaning::Label;
        } else {
            self.add_text(&noted, line);
            return LineMeaning::Nothing;
        }
        LineMeaning::Understood
    }

    /// Takes back a line, which has turned out to be the titles of a table.
    pub(super) fn forget(&mut self, number: usize) {
        self.path.forget(number);
        self.block.forget(number);
    }

    fn add_text(&mut self, line: &SourceLine, whole: &str) {
        // Decoration names nothing.
        if whole.contains(char::is_alphanumeric) {
            self.path.add(line.number, whole);
            self.block.add_text(line, whole);
        }
    }

    /// What is known about a report or a table that begins here.
    pub(super) fn begin_report(&mut self) -> Situation {
        let own_text = self.end_block();
        let mut situation = Situation {
            set: self.set.clone(),
            acts: self.acts.line.clone(),
            tools: self.tools.len(),
            place: self.path.begin_report(self.acted),
            text: self.block_text.clone(),
            own_text,
            ..Situation::default()
        };
        for scope in &self.scopes {
            for title in scope.title.iter().chain(&scope.labels) {
                let all = &mut situation.settings;
                put(all, &title.settings, &title.line, usize::MAX);
                let named = Some(title.clone()).filter(|title| !title.text.is_empty());
                situation.titles.extend(named);
            }
            for (setting, line) in &scope.settings {
                let setting = std::slice::from_ref(setting);
                put(&mut situation.settings, setting, line, usize::MAX);
            }
            situation.round = scope.round.clone().or(situation.round);
            situation.text = scope.text.clone().or(situation.text);
        }
        let title = situation.titles.last().map_or(0, |it| it.line.number);
        let run = situation.place.runs.last();
        let run = run.filter(|(_, line)| line.number > title);
        situation.round = situation.round.or_else(|| run.cloned());
        situation
    }

    /// Ends the block above a report: what it says is in effect from here on. Returns its text.
    fn end_block(&mut self) -> Option<SourceLine> {
        let block = std::mem::take(&mut self.block);
        let has_acted = self.act(block.acts);
        let scope = self.scopes.last_mut()?;
        if !block.labels.is_empty() {
            scope.round = None;
        }
        let mut labels = Vec::new();
        for label in block.labels {
            let (title, round) = Title::of(DEPTH_OF_LABELS, &label.title, label.line.clone());
            if let Some(round) = round {
                scope.round = Some((round, label.line));
            }
            labels.extend(Some(title).filter(|title| !title.is_empty()));
        }
        // Fewer labels than before replace the innermost ones.
        let outer = scope.labels.len().saturating_sub(labels.len());
        let passed = self.passed_text.take();
        let text = block.text.line;
        let before = self.block_text.take().filter(|_| !has_acted);
        self.block_text = text.clone().or(passed).or(before);
        scope.labels.truncate(outer);
        for title in labels {
            let depth = DEPTH_OF_LABELS + scope.labels.len() as u8;
            scope.labels.push(Title { depth, ..title });
        }
        if text.is_some() || has_acted {
            scope.text.clone_from(&text);
        }
        text
    }

    /// Notes commands that may have changed what is measured, unless they only repeat the last
    /// ones.
    fn act(&mut self, acts: Passage) -> bool {
        let has_acted = acts.is_news(&self.acts);
        if has_acted {
            self.acts = acts;
            self.acted += 1;
        }
        has_acted
    }

    /// Begins the part of the text below a heading.
    fn enter(&mut self, depth: u8, title: &str, line: SourceLine) {
        let block = std::mem::take(&mut self.block);
        self.act(block.acts);
        self.block_text = None;
        self.passed_text = block.text.line.or_else(|| self.passed_text.take());
        self.path.enter(line.number, depth, title);
        self.scopes.retain(|scope| scope.depth < depth);
        let (title, round) = Title::of(depth, title, line.clone());
        self.scopes.push(Scope {
            depth,
            title: Some(title),
            round: round.map(|round| (round, line)),
            ..Scope::default()
        });
    }

    /// Something other than text is below the last label.
    fn confirm_label(&mut self) {
        if let Some(label) = self.block.labels.last_mut() {
            label.is_confirmed = true;
        }
    }
}

/// Adds settings, which replace those of the same name. `false` if there are more than `max`, and
/// not all were added.
fn put(
    known: &mut Vec<(Setting, SourceLine)>,
    settings: &[Setting],
    line: &SourceLine,
    max: usize,
) -> bool {
    for setting in settings {
        known.retain(|(known, _)| known.factor != setting.factor);
        if known.len() == max {
            return false;
        }
        known.push((setting.clone(), line.clone()));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handles lines, and says what is in effect below them: titles, settings, the round, text.
    fn below(context: &mut Context, lines: &[&str]) -> String {
        let mut above = None;
        for (number, line) in (1..).zip(lines) {
            if line.is_empty() {
                context.blank();
                above = None;
            } else {
                context.take(number, line, above.as_ref(), false);
                above = Some(SourceLine::new(number, line));
            }
        }
        let found = context.begin_report();
        let titles = found.titles.into_iter().map(|title| title.text);
        let settings = found.set.into_iter().chain(found.settings);
        let settings = settings.map(|(setting, _)| format!("{}={}", setting.factor, setting.level));
        let round = found.round.map(|(round, _)| format!("round {round}"));
        let text = found.text.map(|line| format!("({})", line.text));
        let parts: Vec<String> = titles.chain(settings).chain(round).chain(text).collect();
        parts.join(" | ")
    }

    fn check(cases: &[(&[&str], &str)]) {
        let mut context = Context::default();
        for (lines, expected) in cases {
            assert_eq!(below(&mut context, lines), *expected, "{lines:?}");
        }
    }

    #[test]
    fn headings_nest_and_what_is_below_them_ends_with_them() {
        check(&[
            (
                &[
                    "# Notes",
                    "## x86_64",
                    "rmem=262144 wmem=262144",
                    "net.ipv4.tcp_rmem = 4096 131072 6291456",
                    "### Run 2",
                    "rmem=524288",
                ],
                "Notes | x86_64 | wmem=262144 | net.ipv4.tcp_rmem=4096 131072 6291456 | \
                 rmem=524288 | round 2",
            ),
            (
                &["### Run 3"],
                "Notes | x86_64 | rmem=262144 | wmem=262144 | \
                 net.ipv4.tcp_rmem=4096 131072 6291456 | round 3",
            ),
            (
                &["## arm64 conns=400", "some words about it"],
                "Notes | arm64 | conns=400 | (some words about it)",
            ),
        ]);
    }

    #[test]
    fn headings_may_be_underlined_framed_or_labels() {
        for lines in [
            &["x86_64", "======"][..],
            &["x86_64", "------"],
            &["x86_64:", "======"],
            &["**x86_64**"],
            &["=== x86_64 ==="],
            &["<h2>x86_64</h2>"],
            &["## x86_64: ##"],
            &["x86_64:"],
            &["x86_64:", "", "---------"],
        ] {
            assert_eq!(below(&mut Context::default(), lines), "x86_64", "{lines:?}");
        }
        for (lines, text) in [
            (&["JSON Output", "-----------"][..], "JSON Output"),
            (
                &["It was slow. This happened:"],
                "It was slow. This happened:",
            ),
            (&["In a script:", "wrk.method = \"POST\""], "In a script:"),
        ] {
            let found = below(&mut Context::default(), lines);
            assert_eq!(found, format!("({text})"), "{lines:?}");
        }
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
            (&["Run 2:"], "Last | x86_64 | round 2"),
            (&["arm64:"], "Last | arm64"),
        ]);
    }

    #[test]
    fn text_holds_until_other_text_or_a_command_and_commands_hold_to_the_end() {
        check(&[
            (&["nginx 1.18"], "(nginx 1.18)"),
            (&["$ sysctl -w a=1"], "a=1 | (nginx 1.18)"),
            (&["nginx 1.24"], "a=1 | (nginx 1.24)"),
            (&["## Last"], "Last | a=1 | (nginx 1.24)"),
        ]);
        let mut context = Context::default();
        let acted = |context: &mut Context, line: &str| {
            context.take(1, line, None, false);
            context.begin_report();
            context.acted
        };
        for (line, times) in [
            ("$ systemctl restart nginx", 1),
            ("$ systemctl restart nginx", 1),
            ("$ date", 1),
            ("java -jar two.jar", 2),
            ("$ systemctl restart nginx", 3),
        ] {
            assert_eq!(acted(&mut context, line), times, "{line}");
        }
    }

    #[test]
    fn settings_beyond_the_limit_are_text() {
        let mut context = Context::default();
        let mut marks = Vec::new();
        for value in ["1", "2"] {
            for number in 0..=SETTINGS_MAX {
                context.take(number, &format!("k{number}={value}"), None, false);
            }
            marks.push(context.begin_report().place.mark);
        }
        assert_ne!(marks[0], marks[1]);
        let acted = |context: &mut Context| {
            for number in 0..=SETTINGS_MAX {
                let line = format!("$ export K{number}=1");
                context.take(number, &line, None, false);
            }
            context.begin_report();
            context.acted
        };
        assert_eq!(acted(&mut context), 1);
    }

    #[test]
    fn a_comment_in_code_does_not_end_the_heading_above_the_code() {
        let mut context = Context::default();
        context.take(1, "## nginx", None, false);
        context.take(2, "# after tuning", None, true);
        let titles = context.begin_report().titles;
        let titles: Vec<&str> = titles.iter().map(|title| title.text.as_str()).collect();
        assert_eq!(titles, ["nginx", "after tuning"]);
    }
}
