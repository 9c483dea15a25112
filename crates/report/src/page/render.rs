//! One HTML file of a page: text by templates, charts as data for the scripts inside.
//!
//! The file asks for nothing but itself. A policy in its head forbids every request and every script that is
//! not one of [`SCRIPTS`], known by its hash, so that even text that got past the escaping would not run.

use std::io::{self, Write};

use askama::Template;

use super::{Block, Height, Page, TableBlock, TableCell, Tone};

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
    asset!("units.js", "8i3Mq2pIFvFxMeUvisOCDkC6bpiEZW0LLyx26vI0arE="),
    asset!("scales.js", "5M+GWW/YEefCjvLfa6lEBFRJWkEY9yURHbnzBtYb5SY="),
    asset!("theme.js", "usJ4Vy9wcuIks0S7FGYA5iyyo0cbx15G+HecbvSR/X8="),
    asset!("draw.js", "1lSr2jNmM9524tSub3FNin2lXBraZ96BbM0/INbX23c="),
    asset!("prepare.js", "Hjsc/BmnLDdsauudINPS0Lrkz5iOFdq6db5jbU23rvw="),
    asset!("tables.js", "hAXD9JuLp/Ln/5O/Dz2jb7sQhg4KboArHpuI83pyJq4="),
    asset!("legend.js", "u+wbZQiMsF5f7RA1B72e5uY0HF7r27+z4/dFxZy60fM="),
    asset!("data.js", "CUib/6+3Hv2hQFnKzlKrH5ZjYjr3SQJwOVOrDUFt8xI="),
    asset!("pointer.js", "HUEFFKTvS2xlTOLOgtv8hicPijPPdJVkVHNSxXT3n/E="),
    asset!("chart.js", "zwb/d76x6ROVpQOz7tGq1DyHSqZC+CfSr2C4F1VrjFg="),
    asset!("page.js", "XktaX6PtaBrd656E3UzUqSczcvxUcbIuoalzp/BhI+8="),
];

/// In the order in which they apply.
const STYLES: [Asset; 2] = [
    asset!(
        "vendor/uplot/uPlot.min.css",
        "32MMao1vjur/JktQ9zzlsRT2Rv/ZoLt08EmwoAE1+gQ="
    ),
    asset!("page.css", "bUU8CKXGA64GFrUB1IQ7ESrBUDQt8Z44LO67qxw9cJs="),
];

/// The licence of the chart library asks to be kept with it.
const UPLOT_LICENCE: &str = include_str!("../../assets/vendor/uplot/LICENSE");

/// What the template sees.
#[derive(Template)]
#[template(path = "page.html")]
struct Document<'a> {
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
    let document = Document {
        page,
        policy: policy(),
        scripts: &SCRIPTS,
        styles: &STYLES,
        uplot_licence: UPLOT_LICENCE,
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut output = output;
    document.write_into(&mut output)
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
        Tone::Good => "good",
        Tone::Neutral => "neutral",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}

/// A sign for it, so that colour is not all that tells.
fn tone_sign(tone: &Tone) -> &'static str {
    match tone {
        Tone::Good => "\u{2713}",
        Tone::Neutral => "i",
        Tone::Warning => "!",
        Tone::Bad => "\u{2715}",
    }
}

/// And a word.
fn tone_word(tone: &Tone) -> &'static str {
    match tone {
        Tone::Good => "Good",
        Tone::Neutral => "Note",
        Tone::Warning => "Warning",
        Tone::Bad => "Problem",
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

/// Up to so many characters a number in large type stays on one line; longer ones, and words, may take two.
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

/// Up to so many characters a cell stays on one line.
const SHORT_CHARS: usize = 24;

/// The classes of a table's cell.
fn cell_class(table: &TableBlock, column: &usize, cell: &TableCell) -> String {
    let is_numeric = table.columns.get(*column).is_some_and(|c| c.is_numeric);
    let is_short = !is_numeric && cell.text.chars().take(SHORT_CHARS + 1).count() <= SHORT_CHARS;
    let classes = [
        is_numeric.then_some("number"),
        is_short.then_some("short"),
        (cell.tone != Tone::Neutral).then(|| tone_class(&cell.tone)),
    ];
    classes.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
