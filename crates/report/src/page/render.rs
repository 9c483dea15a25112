//! One HTML file of a page: text by templates, charts as data for the scripts inside.
//!
//! The file asks for nothing but itself. A policy in its head forbids every request and every
//! script that is not one of [`SCRIPTS`], known by its hash, so that even text that got past the
//! escaping would not run.

use std::io::{self, Write};

use askama::Template;

use super::{Block, Column, Height, Page, Shown, TableBlock, TableCell, Tone};

/// A script or a style sheet inside the page.
#[derive(Debug, Clone, Copy)]
struct Asset {
    /// The file below `assets/`.
    name: &'static str,
    /// Its text.
    text: &'static str,
    /// SHA-256 in base64, as the policy names it. A test says the right one.
    sha256: &'static str,
}

/// An asset by its file and hash.
macro_rules! asset {
    ($name:literal, $sha256:literal) => {
        Asset {
            name: $name,
            text: include_str!(concat!("../../assets/", $name)),
            sha256: $sha256,
        }
    };
}

/// In the order in which they run; each may use those before it.
const SCRIPTS: [Asset; 12] = [
    asset!(
        "vendor/uplot/uPlot.iife.min.js",
        "GcjUxq2Ikpp59K5J1vcWFWbf0Lo9FcxJXpdPeH63jx8="
    ),
    asset!("units.js", "HO2eCXZFcj9UnHpl1cQM3uEG8uVyhI7yNezavVGJGZw="),
    asset!("scales.js", "5M+GWW/YEefCjvLfa6lEBFRJWkEY9yURHbnzBtYb5SY="),
    asset!("theme.js", "usJ4Vy9wcuIks0S7FGYA5iyyo0cbx15G+HecbvSR/X8="),
    asset!("draw.js", "M2sPJ0YvSEj1vBzkL9S3CMuRykHMH0AxcXqlBlbNEFI="),
    asset!("prepare.js", "Hjsc/BmnLDdsauudINPS0Lrkz5iOFdq6db5jbU23rvw="),
    asset!("tables.js", "/KYqUhpYJnEN1r0JDaeE8XFdDvxzXE7mxP4HIGJAUjY="),
    asset!("legend.js", "OXM85a6DC2AvPqUCRPBZyw2vOz66CC4qxG0XNvb7Lu0="),
    asset!("data.js", "CUib/6+3Hv2hQFnKzlKrH5ZjYjr3SQJwOVOrDUFt8xI="),
    asset!("pointer.js", "HUEFFKTvS2xlTOLOgtv8hicPijPPdJVkVHNSxXT3n/E="),
    asset!("chart.js", "YDOXjEnlwOnciIu+Iu5NZ6MIK2Xzpzc01b/D8OzbG9Y="),
    asset!("page.js", "XktaX6PtaBrd656E3UzUqSczcvxUcbIuoalzp/BhI+8="),
];

/// In the order in which they apply.
const STYLES: [Asset; 2] = [
    asset!(
        "vendor/uplot/uPlot.min.css",
        "32MMao1vjur/JktQ9zzlsRT2Rv/ZoLt08EmwoAE1+gQ="
    ),
    asset!("page.css", "wQWmvbP5XW+Jke/JYQQEVFA8ffDdakucBJ/qjT+6vdQ="),
];

/// The licence of the chart library asks to be kept with it.
const UPLOT_LICENCE: &str = include_str!("../../assets/vendor/uplot/LICENSE");

/// What the template sees.
#[derive(Template)]
#[template(path = "page.html")]
struct PageTemplate<'a> {
    page: &'a Page,
    policy: String,
    scripts: &'a [Asset],
    styles: &'a [Asset],
    uplot_licence: &'a str,
    version: &'a str,
}

/// Writes a page as one HTML file that works from disk, without any network.
///
/// # Errors
/// Those of the writer.
pub fn render(page: &Page, output: &mut dyn Write) -> io::Result<()> {
    let template = PageTemplate {
        page,
        policy: policy(),
        scripts: &SCRIPTS,
        styles: &STYLES,
        uplot_licence: UPLOT_LICENCE,
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut output = output;
    template.write_into(&mut output)
}

/// The Content-Security-Policy: nothing from anywhere, scripts and styles of these hashes only.
fn policy() -> String {
    let sources = |assets: &[Asset]| {
        let hashes = assets
            .iter()
            .map(|asset| format!("'sha256-{}'", asset.sha256));
        hashes.collect::<Vec<_>>().join(" ")
    };
    format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        sources(&SCRIPTS),
        sources(&STYLES)
    )
}

/// The class of an element that is meant so.
fn tone_class(tone: &Tone) -> &'static str {
    match tone {
        Tone::Good | Tone::Better => "good",
        Tone::Neutral | Tone::Same | Tone::NoEffect => "neutral",
        Tone::Warning => "warning",
        Tone::Bad | Tone::Worse => "bad",
    }
}

/// A sign for it, so that colour is not all that tells.
fn tone_sign(tone: &Tone) -> &'static str {
    match tone {
        Tone::Good => "\u{2713}",
        Tone::Neutral => "i",
        Tone::Warning => "!",
        Tone::Bad => "\u{2715}",
        Tone::Better => "+",
        Tone::Worse => "\u{2212}",
        Tone::Same => "=",
        Tone::NoEffect => "~",
    }
}

/// And a word.
fn tone_word(tone: &Tone) -> &'static str {
    match tone {
        Tone::Good => "Good",
        Tone::Neutral => "Note",
        Tone::Warning => "Warning",
        Tone::Bad => "Problem",
        Tone::Better => "Better",
        Tone::Worse => "Worse",
        Tone::Same => "Same",
        Tone::NoEffect => "No effect",
    }
}

/// The class of a chart of this height.
fn height_class(height: &Height) -> &'static str {
    match height {
        Height::Low => "low",
        Height::Normal => "normal",
        Height::Tall => "tall",
    }
}

/// A sentence in which no line ends between a number and its `%`.
fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

/// Up to so many characters a number in large type stays on one line; longer ones, and words, may
/// take two.
const WHOLE_CHARS: usize = 12;

/// The classes of a number in large type.
fn value_class(value: &str) -> &'static str {
    let begins = |c: char| c.is_ascii_digit() || c == '\u{2265}' || c == '+' || c == '-';
    let is_number = value.starts_with(begins);
    if is_number && value.chars().take(WHOLE_CHARS + 1).count() <= WHOLE_CHARS {
        "value whole"
    } else {
        "value"
    }
}

/// Width and height of the drawing of a small line; the page stretches it.
const SPARK: (f64, f64) = (100.0, 24.0);

/// The line through values as an SVG path, from zero at the bottom to the greatest at the top; a
/// value without neighbours is a dot. Empty if there are not two values.
fn spark_path(values: &[Option<f64>]) -> String {
    const EDGE: f64 = 1.5;
    let (width, height) = SPARK;
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    if values.iter().flatten().nth(1).is_none() || most <= 0.0 {
        return String::new();
    }
    let step = width / (values.len() - 1) as f64;
    let mut path = String::new();
    for (at, value) in values.iter().enumerate() {
        let Some(value) = value else {
            continue;
        };
        let has_line = at > 0 && values[at - 1].is_some();
        let is_last = values.get(at + 1).is_none_or(Option::is_none);
        let x = at as f64 * step;
        let y = height - EDGE - (height - 2.0 * EDGE) * (value / most).clamp(0.0, 1.0);
        path += &format!("{}{x:.1} {y:.1}", if has_line { "L" } else { "M" });
        if !has_line && is_last {
            path += "h0.1";
        }
    }
    path
}

/// The class of a column that is not always seen.
fn column_class(column: &Column) -> &'static str {
    match column.shown {
        Shown::Always => "",
        Shown::Wide => "wide",
        Shown::Asked => "asked",
    }
}

/// The classes of a table: which columns can be asked for.
fn table_class(table: &TableBlock) -> &'static str {
    let has = |shown: Shown| table.columns.iter().any(|column| column.shown == shown);
    match (has(Shown::Asked), has(Shown::Wide)) {
        (true, _) => "brief",
        (false, true) => "brief narrow",
        (false, false) => "",
    }
}

/// The classes of a head.
fn head_class(column: &Column) -> String {
    let classes = [
        if column.is_numeric { "number" } else { "" },
        column_class(column),
    ];
    classes.join(" ").trim().to_owned()
}

/// Up to so many characters a cell stays on one line.
const SHORT_CHARS: usize = 24;

/// The classes of a table's cell.
fn cell_class(table: &TableBlock, column: &usize, cell: &TableCell) -> String {
    let column = table.columns.get(*column);
    let is_numeric = column.is_some_and(|column| column.is_numeric);
    let is_short = !is_numeric && cell.text.chars().take(SHORT_CHARS + 1).count() <= SHORT_CHARS;
    let classes = [
        is_numeric.then_some("number"),
        is_short.then_some("short"),
        (cell.tone != Tone::Neutral).then(|| tone_class(&cell.tone)),
        column.map(column_class).filter(|class| !class.is_empty()),
    ];
    classes.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
