//! What single lines between reports are: headings, labels, settings.

use std::sync::LazyLock;

use plan::secrets::hide_secrets;
use regex_lite::Regex;
use results::Setting;

use super::command;

/// A regular expression of this program.
pub(crate) fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is one")
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

/// The level of a framed line (`== x86_64 ==`), below all headings of Markdown.
const LEVEL_OF_FRAMED: u8 = 7;

/// Longer lines are prose.
const TITLE_MAX_CHARS: usize = 100;

/// Limit on settings in one line. More are another kind of text.
const SETTINGS_MAX: usize = 32;

/// The title that json.lua prints above its object.
const JSON_TITLE: &str = "JSON Output";

/// A heading: `## x86_64`, `**x86_64**`, `=== x86_64 ===`.
static HEADING: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:(#{1,6})[ \t]+|\*\*+|==+|--+)\s*(.*?)[#\s:]*(\*\*+|==+|--+)?$"));

/// A setting as a word or a line: `rmem=262144`, `net.ipv4.tcp_rmem = 4096 131072 6291456`.
static SETTING: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"^[`,;]*([A-Za-z_][\w./-]*)(?: = |=)["']?([^=\s].*?)["'`,;]*$"#));

/// What may precede settings.
static SETTING_COMMAND: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:sudo )?(?:sysctl -w |export )?"));

/// Whether a line ends an unfinished report, because no line of a report looks like it.
pub(super) fn is_outside_of_reports(line: &str) -> bool {
    command::tool(line).is_some() || heading(line, false).is_some()
}

/// The level and the title of a heading on one line. In a block of code, `# x` is a comment.
pub(super) fn heading(line: &str, is_in_code: bool) -> Option<(u8, &str)> {
    let found = HEADING.captures(line)?;
    let level = match (found.get(1), found.get(3)) {
        (Some(marks), _) if !is_in_code => u8::try_from(marks.len()).ok()?,
        (None, Some(_)) => LEVEL_OF_FRAMED,
        _ => return None,
    };
    let title = found.get(2)?.as_str();
    is_title(title).then_some((level, title))
}

fn is_title(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= TITLE_MAX_CHARS
}

/// Whether a line begins or ends a block of code.
pub(super) fn is_fence(line: &str) -> bool {
    line.starts_with("```") || line.starts_with("~~~")
}

/// The level of the heading that a line of `=` or `-` makes of the line above it.
pub(super) fn underline(line: &str, above: &str) -> Option<u8> {
    let is_of = |rule: char| line.len() >= 3 && line.trim_start_matches(rule).is_empty();
    let level = match (is_of('='), is_of('-')) {
        (true, _) => 1,
        (_, true) => 2,
        _ => return None,
    };
    (is_title(above) && above != JSON_TITLE).then_some(level)
}

pub(super) fn without_colon(title: &str) -> &str {
    title.trim_end_matches([':', ' '])
}

/// `x86_64:`.
pub(super) fn label(line: &str) -> Option<&str> {
    let title = without_colon(line.strip_suffix(':')?);
    (is_title(title) && !title.contains("://")).then_some(title)
}

/// Settings and nothing else: `rmem=262144 wmem=262144`, `net.ipv4.tcp_rmem = 4096 131072 6291456`,
/// `$ sudo sysctl -w net.core.somaxconn=128`, `$ export GOMAXPROCS=1`.
pub(super) fn settings(line: &str) -> Option<Vec<Setting>> {
    let line = command::after_prompt(line).unwrap_or(line);
    let line = SETTING_COMMAND.replace(line, "");
    if line.contains(" = ") {
        return Some(vec![setting(&line)?]);
    }
    let words = command::words(&line).take(SETTINGS_MAX + 1);
    let settings: Vec<Setting> = words.map(setting).collect::<Option<_>>()?;
    (1..=SETTINGS_MAX)
        .contains(&settings.len())
        .then_some(settings)
}

fn setting(text: &str) -> Option<Setting> {
    let found = SETTING.captures(text)?;
    let (factor, level) = (found[1].to_owned(), found[2].replace('\t', " "));
    // Scripts, which notes may quote, set fields of the table `wrk`.
    let is_setting = !factor.starts_with("wrk.") && is_title(&level);
    is_setting.then_some(Setting { factor, level })
}

/// A line of a text as messages quote it: on one line, and shortened if it is long.
pub(crate) fn quote(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    let text = plan::printable(text.trim());
    let mut chars = text.chars();
    let mut quoted: String = chars.by_ref().take(CHARS_MAX).collect();
    if chars.next().is_some() {
        quoted.push_str("...");
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_listed_forms() {
        for (line, level) in [
            ("# x86_64", 1),
            ("## x86_64: ##", 2),
            ("**x86_64**", 7),
            ("=== x86_64 ===", 7),
            ("--- x86_64: ---", 7),
        ] {
            assert_eq!(heading(line, false), Some((level, "x86_64")), "{line}");
        }
        assert_eq!(heading("# after tuning", true), None);
        for line in ["#x86_64", "####### x", "====", "**", "== x86_64", ""] {
            assert_eq!(heading(line, false), None, "{line}");
        }
        assert_eq!(underline("======", "x86_64"), Some(1));
        assert_eq!(underline("------", "x86_64:"), Some(2));
        assert_eq!(underline("-----------", "JSON Output"), None);
    }

    #[test]
    fn lines_of_settings_have_nothing_else() {
        let shown = |line: &str| {
            let settings = settings(line)?.into_iter();
            let shown = settings.map(|it| format!("{}:{}", it.factor, it.level));
            Some(shown.collect::<Vec<_>>().join(" "))
        };
        for (line, expected) in [
            ("rmem=262144, wmem=262144", "rmem:262144 wmem:262144"),
            (
                "net.ipv4.tcp_rmem = 4096 131072",
                "net.ipv4.tcp_rmem:4096 131072",
            ),
            ("$ sudo sysctl -w a.b=1 c=\"2 3\"", "a.b:1 c:2 3"),
            ("me@h:~$ export X='y'", "X:y"),
        ] {
            assert_eq!(shown(line).as_deref(), Some(expected), "{line}");
        }
        for line in [
            "a=1 && reboot",
            "wrk.method = \"POST\"",
            "a == b",
            "x=",
            "$ date",
            "",
        ] {
            assert_eq!(shown(line), None, "{line}");
        }
    }
}
