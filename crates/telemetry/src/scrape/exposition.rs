//! Reads metrics in Prometheus's text format ("Exposition formats", version 0.0.4) and in that of
//! OpenMetrics 1.0, as servers publish them. Of exemplars and timestamps nothing is kept.

use std::borrow::Cow;
use std::collections::HashMap;

/// A page with more is refused: it is no page of one server.
const SAMPLES_MAX: usize = 100_000;
/// A longer text of an error would fill the screen.
const SHOWN_CHARS_MAX: usize = 40;

/// Why a text has no metrics, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotMetrics {
    /// A line is not in the format.
    #[error("line {line} is no metric in Prometheus's text format: {text:?}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// How it begins.
        text: String,
    },
    /// There are too many.
    #[error("more than {SAMPLES_MAX} values")]
    TooMany,
}

/// What a metric counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the server starts again.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It has buckets, a sum and a count.
    Histogram,
    /// It has quantiles, a sum and a count.
    Summary,
    /// The page does not say.
    #[default]
    Unknown,
}

/// A value of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    /// The name of the metric, with the ending of a part of it like `_total`.
    pub name: &'a str,
    /// Names and values of its labels, in the order of the page.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// It may be infinite or no number.
    pub value: f64,
}

/// All values of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page<'a> {
    /// In the order of the page.
    pub samples: Vec<Sample<'a>>,
    /// By the name of the metric.
    kinds: HashMap<&'a str, Kind>,
}

impl<'a> Page<'a> {
    /// Reads a page.
    ///
    /// # Errors
    /// If a line is no metric, or there are too many.
    pub fn read(text: &'a str) -> Result<Self, NotMetrics> {
        let mut page = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_matches([' ', '\t']);
            if let Some(comment) = line.strip_prefix('#') {
                if comment.trim() == "EOF" {
                    break;
                }
                page.comment(comment);
            } else if !line.is_empty() {
                let sample = sample(line).ok_or_else(|| NotMetrics::Line {
                    line: number + 1,
                    text: line.chars().take(SHOWN_CHARS_MAX).collect(),
                })?;
                if page.samples.len() == SAMPLES_MAX {
                    return Err(NotMetrics::TooMany);
                }
                page.samples.push(sample);
            }
        }
        Ok(page)
    }

    /// The kind of the metric with exactly this name.
    #[must_use]
    pub fn kind(&self, name: &str) -> Kind {
        self.kinds.get(name).copied().unwrap_or_default()
    }

    /// Of comments, only those about the kind of a metric say something.
    fn comment(&mut self, comment: &'a str) {
        let mut words = comment.split_ascii_whitespace();
        let (Some("TYPE"), Some(name), Some(kind)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        let kind = match kind {
            "counter" => Kind::Counter,
            "gauge" => Kind::Gauge,
            "histogram" => Kind::Histogram,
            "summary" => Kind::Summary,
            _ => Kind::Unknown,
        };
        if is_name(name) {
            self.kinds.insert(name, kind);
        }
    }
}

/// `name{label="value",...} value [timestamp] [# exemplar]`
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' ', '\t'])?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start_matches([' ', '\t']);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    // An exemplar is behind the value, where no number has this mark.
    let numbers = rest.split('#').next()?;
    let mut numbers = numbers.split_ascii_whitespace();
    let value = number(numbers.next()?)?;
    if let Some(timestamp) = numbers.next() {
        number(timestamp)?;
    }
    (is_name(name) && numbers.next().is_none()).then_some(Sample {
        name,
        labels,
        value,
    })
}

type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// The labels behind the opening brace, and what is behind the closing one.
fn labels(mut text: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([' ', '\t']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let name = name.trim_end_matches([' ', '\t']);
        let quoted = rest.trim_start_matches([' ', '\t']).strip_prefix('"')?;
        let (value, rest) = quoted_value(quoted)?;
        if !is_name(name) || name.contains(':') {
            return None;
        }
        labels.push((name, value));
        let rest = rest.trim_start_matches([' ', '\t']);
        // A comma may stand behind the last label, too.
        text = match rest.strip_prefix(',') {
            Some(rest) => rest,
            None if rest.starts_with('}') => rest,
            None => return None,
        };
    }
}

/// The text up to the closing quote, and what is behind that.
fn quoted_value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if text[end..].starts_with('"') {
        return Some((text[..end].into(), &text[end + 1..]));
    }
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value.into(), &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped @ ('"' | '\\') => value.push(escaped),
                // Prometheus itself keeps what it does not know.
                other => value.extend(['\\', other]),
            },
            char => value.push(char),
        }
    }
    None
}

/// A number as Go's `ParseFloat` takes it: digits, `NaN`, `+Inf`.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Names of metrics; those of labels have no colon.
fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':');
    bytes.next().is_some_and(is_first) && bytes.all(|byte| is_first(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only value of a page, with its labels as text.
    fn read(line: &str) -> Option<(String, String, f64)> {
        let page = Page::read(line).ok()?;
        let [sample] = page.samples.as_slice() else {
            return None;
        };
        let labels = sample.labels.iter();
        let labels: Vec<String> = labels
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        Some((sample.name.to_owned(), labels.join(";"), sample.value))
    }

    #[test]
    fn values_are_read_with_their_labels() {
        for (line, name, labels, value) in [
            ("up 1", "up", "", 1.0),
            ("  up\t1\t", "up", "", 1.0),
            ("up 1\r\n", "up", "", 1.0),
            ("up{} 1", "up", "", 1.0),
            ("up {a=\"b\"} 1", "up", "a=b", 1.0),
            ("up{a=\"b\",c=\"d\",}1", "up", "a=b;c=d", 1.0),
            ("up{ a = \"b\" , c=\"\" } -1.5e-3", "up", "a=b;c=", -0.0015),
            ("up{a=\"x} 7\"} 1", "up", "a=x} 7", 1.0),
            ("up{a=\"\\\"\\\\\\n\\x\"} 1", "up", "a=\"\\\n\\x", 1.0),
            (
                "up{a=\"\u{e9}\u{1f600}\"} 1",
                "up",
                "a=\u{e9}\u{1f600}",
                1.0,
            ),
            ("up 1 1395066363000", "up", "", 1.0),
            ("up 1 -3.5", "up", "", 1.0),
            (
                "b_bucket{le=\"+Inf\"} 17 # {t=\"a\"} 0.6 1.5",
                "b_bucket",
                "le=+Inf",
                17.0,
            ),
            ("vllm:a 2", "vllm:a", "", 2.0),
            ("a +Inf", "a", "", f64::INFINITY),
            ("a -Inf", "a", "", f64::NEG_INFINITY),
            (
                "# HELP a b\n# TYPE a gauge\n#\n\na 1\n# EOF\nnot a metric",
                "a",
                "",
                1.0,
            ),
        ] {
            let expected = Some((name.to_owned(), labels.to_owned(), value));
            assert_eq!(read(line), expected, "{line:?}");
        }
        assert!(read("a NaN").is_some_and(|(_, _, value)| value.is_nan()));
    }

    #[test]
    fn other_texts_are_no_metrics() {
        for line in [
            "up",
            "up one",
            "1up 1",
            "u\u{e9} 1",
            "up{a=\"b\" 1",
            "up{a=\"b} 1",
            "up{a=b} 1",
            "up{a} 1",
            "up{a=\"b\"c=\"d\"} 1",
            "up{a:b=\"c\"} 1",
            "up{,} 1",
            "up{a=\"b\\",
            "up 1 2 3",
            "up 1 x",
            "{a=\"b\"} 1",
            "<!DOCTYPE html>",
            "{\"error\": 1}",
        ] {
            assert_eq!(read(line), None, "{line:?}");
        }
        let page = format!("up 1\n<html>{}", "x".repeat(100));
        let error = Page::read(&page)
            .expect_err("it is a page for people")
            .to_string();
        let shown = format!("<html>{}", "x".repeat(34));
        let expected = format!("line 2 is no metric in Prometheus's text format: {shown:?}");
        assert_eq!(error, expected);
    }

    #[test]
    fn the_kind_of_a_metric_is_that_of_its_comment() {
        let page = "# TYPE a counter\n# TYPE b gauge\n#TYPE c histogram\n#  TYPE d  summary \n\
                    # TYPE e untyped\n# TYPE f\n# HELP g TYPE g counter\n# TYPE \u{e9} gauge";
        let page = Page::read(page).expect("there are comments only");
        let kinds = ["a", "b", "c", "d", "e", "f", "g", "\u{e9}"].map(|name| page.kind(name));
        let (unknown, counter) = (Kind::Unknown, Kind::Counter);
        let expected = [counter, Kind::Gauge, Kind::Histogram, Kind::Summary];
        assert_eq!(kinds[..4], expected);
        assert_eq!(kinds[4..], [unknown; 4]);
    }

    #[test]
    fn a_page_with_too_many_values_is_refused() {
        let page = "a 1\n".repeat(SAMPLES_MAX);
        assert!(Page::read(&page).is_ok());
        assert_eq!(Page::read(&format!("{page}a 1")), Err(NotMetrics::TooMany));
    }
}
