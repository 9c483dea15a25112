//! What single lines between reports are: headings, labels, settings.

use plan::secrets::hide_secrets;
use results::Setting;

use super::command;
use crate::read::quote;

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

/// Depth of a framed line (`== x86_64 ==`), below all headings of Markdown.
pub(super) const DEPTH_OF_FRAMED: u8 = 65;

/// Distance between the levels of Markdown's headings.
const DEPTH_STEP: u8 = 10;

/// Longer lines are prose.
const TITLE_MAX_CHARS: usize = 100;

/// A label with more words is prose that ends in a colon.
const LABEL_MAX_WORDS: usize = 12;

/// Limit on settings in one line. More are another kind of text.
const SETTINGS_MAX: usize = 32;

/// The title that json.lua prints above its object.
const JSON_TITLE: &str = "JSON Output";

/// Whether a line ends an unfinished report, because no line of a report looks like it.
pub(super) fn is_outside_of_reports(line: &str) -> bool {
    command::tool(line).is_some() || markdown_heading(line).is_some()
}

/// The depth and the title of a heading on one line.
pub(super) fn heading(line: &str) -> Option<(u8, &str)> {
    let found = markdown_heading(line)
        .or_else(|| html_heading(line))
        .or_else(|| framed(line).map(|title| (DEPTH_OF_FRAMED, title)));
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

/// Depth and title of `<h2>x86_64</h2>`.
fn html_heading(line: &str) -> Option<(u8, &str)> {
    let (level, rest) = line.strip_prefix("<h")?.split_once('>')?;
    let (title, _) = rest.split_once("</h")?;
    let level = level.chars().next()?.to_digit(10)?;
    let depth = u8::try_from(level)
        .ok()
        .filter(|level| (1..=6).contains(level))?;
    Some((depth * DEPTH_STEP, title.trim()))
}

/// Whether a line begins or ends a block of code.
pub(super) fn is_fence(line: &str) -> bool {
    const FENCES: [&str; 4] = ["```", "~~~", "<pre", "</pre"];
    FENCES.iter().any(|fence| line.starts_with(fence))
}

/// The depth and the title of a line that is underlined with `=` or `-`.
pub(super) fn underlined<'a>(line: &str, title: &'a str) -> Option<(u8, &'a str)> {
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

/// `**x86_64**`, `=== x86_64 ===`.
fn framed(line: &str) -> Option<&str> {
    ["**", "==", "--"].into_iter().find_map(|frame| {
        let inner = line.strip_prefix(frame)?.strip_suffix(frame)?;
        let inner = inner.trim_matches(|c: char| frame.contains(c)).trim();
        (!inner.is_empty()).then(|| without_colon(inner))
    })
}

/// `x86_64:`, but not a sentence that ends in a colon.
pub(super) fn label(line: &str) -> Option<&str> {
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
pub(super) fn settings(line: &str) -> Option<Vec<Setting>> {
    let words: Option<Vec<Setting>> = line
        .split([' ', '\t', ',', ';'])
        .filter(|word| !word.is_empty())
        .take(SETTINGS_MAX + 1)
        .map(setting)
        .collect();
    let is_some = |words: &Vec<Setting>| (1..=SETTINGS_MAX).contains(&words.len());
    words.filter(is_some).or_else(|| {
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
pub(super) fn setting(word: &str) -> Option<Setting> {
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
