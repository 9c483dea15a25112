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
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    let framed = r"(?:\*\*+|==+|--+)\s*(.*?)[\s:]*(?:\*\*+|==+|--+)";
    regex(&format!(
        r"^(?:(#{{1,6}})[ \t]+(.*?)[\s:]*(?:\s#+)?|{framed})$"
    ))
});

/// A setting as a word or a line: `rmem=262144`, `net.ipv4.tcp_rmem = 4096 131072 6291456`.
static SETTING: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"^[`,;]*([A-Za-z_][\w./-]*)(?: = |=)["']?([^=\s].*?)["'`,;]*$"#));

/// What may precede settings.
static SETTING_COMMAND: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:(?:# )?(?:sudo )?(?:sysctl -w |export ))?"));

/// The level and the title of a heading on one line. In a block of code, `# x` is a comment.
pub(super) fn heading(line: &str, is_in_code: bool) -> Option<(u8, &str)> {
    let found = HEADING.captures(line)?;
    let level = match found.get(1) {
        Some(marks) if !is_in_code => u8::try_from(marks.len()).ok()?,
        Some(_) => return None,
        None => LEVEL_OF_FRAMED,
    };
    let title = found.get(2).or_else(|| found.get(3))?.as_str();
    is_title(title).then_some((level, title))
}

fn is_title(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= TITLE_MAX_CHARS
}

/// The start or the end of a block of code, with the words after it.
static FENCE: LazyLock<Regex> = LazyLock::new(|| regex("^(?:```+|~~~+)(.*)$"));

/// The words at the start or the end of a block of code.
pub(super) fn fence(line: &str) -> Option<&str> {
    Some(FENCE.captures(line)?.get(1)?.as_str().trim())
}

/// A line below a heading.
static RULE: LazyLock<Regex> = LazyLock::new(|| regex("^(?:===+|---+)$"));

/// The level of the heading that a line of `=` or `-` makes of the line above it.
pub(super) fn underline(line: &str, above: &str) -> Option<u8> {
    let is_heading = RULE.is_match(line) && is_title(above) && above != JSON_TITLE;
    is_heading.then(|| if line.starts_with('=') { 1 } else { 2 })
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
/// `$ sudo sysctl -w net.core.somaxconn=128`, `$ export GOMAXPROCS=1`. The prompt before them may
/// name a machine, so it is a setting as well.
pub(super) fn settings(line: &str) -> Option<Vec<Setting>> {
    let (prompt, line) = command::after_prompt(line).unwrap_or(("", line));
    let line = SETTING_COMMAND.replace(line, "");
    let mut settings: Vec<Setting> = if line.contains(" = ") {
        vec![setting(&line)?]
    } else {
        let words = command::words(&line).take(SETTINGS_MAX + 1);
        words.map(setting).collect::<Option<_>>()?
    };
    let is_setting = (1..=SETTINGS_MAX).contains(&settings.len());
    settings.extend((!prompt.is_empty()).then(|| Setting {
        factor: command::PROMPT.to_owned(),
        level: prompt.to_owned(),
    }));
    is_setting.then_some(settings)
}

fn setting(text: &str) -> Option<Setting> {
    let found = SETTING.captures(text)?;
    let (factor, level) = (found[1].to_owned(), found[2].replace('\t', " "));
    // Scripts, which notes may quote, set fields of the table `wrk`.
    let is_setting = !factor.starts_with("wrk.") && is_title(&level);
    is_setting.then_some(Setting { factor, level })
}

/// Longer lines are shortened where they are quoted.
const QUOTED_MAX_CHARS: usize = 100;

/// A line of a text as messages quote it: on one line, and shortened if it is long.
pub(crate) fn quote(text: &str) -> String {
    let text = plan::printable(text.trim());
    match text.char_indices().nth(QUOTED_MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
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
            ("## x86_64 #", 2),
        ] {
            assert_eq!(heading(line, false), Some((level, "x86_64")), "{line}");
        }
        assert_eq!(heading("## C#", false), Some((2, "C#")));
        assert_eq!(heading("== C# ==", false), Some((7, "C#")));
        assert_eq!(heading("## nginx --", false), Some((2, "nginx --")));
        assert_eq!(heading("# after tuning", true), None);
        for line in ["#x86_64", "####### x", "====", "**", "== x86_64", ""] {
            assert_eq!(heading(line, false), None, "{line}");
        }
        assert_eq!(underline("======", "x86_64"), Some(1));
        assert_eq!(underline("------", "x86_64:"), Some(2));
        assert_eq!(underline("-----------", "JSON Output"), None);
    }

    #[test]
    fn a_block_of_code_may_have_words_at_its_start() {
        for (line, words) in [
            ("```", Some("")),
            ("~~~~ Console", Some("Console")),
            ("```baseline", Some("baseline")),
            ("``x``", None),
        ] {
            assert_eq!(fence(line), words, "{line}");
        }
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
            ("me@h:~$ export X='y'", "X:y prompt:me@h:~"),
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
