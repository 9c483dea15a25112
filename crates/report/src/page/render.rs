//! A page as one HTML file: text by templates, charts as data for the scripts inside.
//!
//! The file makes no requests. A policy in its head forbids every request and every
//! script that is not one of [`SCRIPTS`], known by its hash, so that even text that got past the
//! escaping would not run.

use std::io::{self, Write};

use askama::Template;
use flate2::read::DeflateDecoder;
use presentation::{Block, Column, FlameTone, Height, Page, Shown, TableBlock, TableCell, Tone};

/// A script or a style sheet in the page.
#[derive(Debug, Clone, Copy)]
struct Asset {
    /// The file below `assets/`.
    name: &'static str,
    /// Its text, compressed by `build.rs` with deflate.
    compressed: &'static [u8],
    /// SHA-256 in base64, for the policy. A test prints the right one.
    sha256: &'static str,
}

impl Asset {
    /// Its text.
    ///
    /// # Errors
    /// None, unless the program itself is damaged.
    fn text(&self) -> io::Result<String> {
        io::read_to_string(DeflateDecoder::new(self.compressed))
    }
}

macro_rules! asset {
    ($name:literal, $sha256:literal) => {
        Asset {
            name: $name,
            compressed: include_bytes!(concat!(env!("OUT_DIR"), "/assets/", $name)),
            sha256: $sha256,
        }
    };
}

/// In the order in which they run; each may use those before it.
const SCRIPTS: [Asset; 13] = [
    asset!(
        "vendor/uplot/uPlot.iife.min.js",
        "GcjUxq2Ikpp59K5J1vcWFWbf0Lo9FcxJXpdPeH63jx8="
    ),
    asset!("units.js", "2KN7qlxDzmk+W436vm/BYILEQ2j98yVpbJRHKo4vIwM="),
    asset!("scales.js", "TMGnHeLKto7CQ+jr8LCa+mYsBGwx6BcBH1oRKZYzkp4="),
    asset!("theme.js", "gUNxm/8GG3NCwvqErC7bxinvQogNKud9cleYdYeDBR0="),
    asset!("draw.js", "wmFpWdKXRijar+A1B7I+v0MVFGh9S124MJIlkzxkgqA="),
    asset!("prepare.js", "b+uQKPTCMIxD1H8MM2X3MIjVtcDG9JV58o0hSLy7NlA="),
    asset!("tables.js", "CYKsLgdZMF1Rq/WHxLwqvZM8FX0O5ASs2/8+9citrQ8="),
    asset!("legend.js", "ngZk+qWdo/QYv8xl4/73Iols+SVc3hOINmt+lE9ncxw="),
    asset!("data.js", "3kGWrg2cY1hMVrMigsv+eOQGWqzdIw0+DMhCiZmAPoI="),
    asset!("pointer.js", "DKuhg7mD9lQ0KNQqMB+8gmq7/pCZHMeJ+RGNjeSEhJk="),
    asset!("picture.js", "2onSK7OpB8cAEGlcg0mNp9q6DUhWtpUD3NClIpNkhWY="),
    asset!("chart.js", "jIBrPrQxvo+LrdXbHv/np/OkaoNSknnQ+/eI+FWM4Jw="),
    asset!("page.js", "OFAfMsNZlNhnp4ckMl6iyaNhQ8MpZGGyuqvaQOx+w0I="),
];

/// In the order in which they apply.
const STYLES: [Asset; 2] = [
    asset!(
        "vendor/uplot/uPlot.min.css",
        "32MMao1vjur/JktQ9zzlsRT2Rv/ZoLt08EmwoAE1+gQ="
    ),
    asset!("page.css", "/yDfGEsKq95otQU9WCPCwrBaXISY7/97Ph8rC/9hwes="),
];

/// The licence of the chart library must be part of the page.
const UPLOT_LICENCE: &str = include_str!("../../assets/vendor/uplot/LICENSE");

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
    // Names in a page come from other people's results.
    let text = template.render().map_err(io::Error::other)?;
    output.write_all(plan::printable_lines(&text).as_bytes())
}

/// The style sheet of pages, which is also where the colours of pictures are.
///
/// # Errors
/// None, unless the program itself is damaged.
pub(crate) fn style_sheet() -> io::Result<String> {
    let sheets = STYLES.iter().map(Asset::text);
    sheets.collect()
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

/// The class of a tone, its sign, since colour alone is not accessible, and its word.
fn tone(tone: &Tone) -> (&'static str, &'static str, &'static str) {
    match tone {
        Tone::Good => ("good", "\u{2713}", "Good"),
        Tone::Neutral => ("neutral", "i", "Note"),
        Tone::Warning => ("warning", "!", "Warning"),
        Tone::Bad => ("bad", "\u{2715}", "Problem"),
        // Not plus and minus: they would stand before the sign of a change.
        Tone::Better => ("good", "\u{2713}", "Better"),
        Tone::Worse => ("bad", "\u{2715}", "Worse"),
        Tone::Same => ("neutral", "=", "Same"),
        Tone::Undecided => ("neutral", "~", "Undecided"),
    }
}

fn height_class(height: &Height) -> &'static str {
    match height {
        Height::Low => "low",
        Height::Normal => "normal",
        Height::Tall => "tall",
    }
}

/// The text without line breaks between a number and its unit.
fn unbroken(text: &str) -> String {
    const UNITS: [&str; 8] = ["%", "us", "ms", "s", "B", "KiB", "MiB", "GiB"];
    let mut unbroken = String::with_capacity(text.len());
    for (at, word) in text.split(' ').enumerate() {
        let is_unit = UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')', '/']));
        let is_after_number = unbroken.ends_with(|c: char| c.is_ascii_digit());
        match at {
            0 => {}
            _ if is_unit && is_after_number => unbroken.push('\u{a0}'),
            _ => unbroken.push(' '),
        }
        unbroken += word;
    }
    unbroken
}

/// A number in large type up to this length stays on one line.
const WHOLE_CHARS: usize = 12;

fn value_class(value: &str) -> &'static str {
    let begins = |c: char| c.is_ascii_digit() || c == '\u{2265}' || c == '+' || c == '-';
    let is_number = value.starts_with(begins);
    if is_number && value.chars().take(WHOLE_CHARS + 1).count() <= WHOLE_CHARS {
        "value whole"
    } else {
        "value"
    }
}

/// Width and height of a small line in its own units.
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

/// Height of a row of a flame graph, pixels.
const FLAME_ROW: usize = 18;

fn flame_y(row: &usize) -> usize {
    row * FLAME_ROW
}

fn flame_percent(part: &f64) -> String {
    format!("{part:.2}%")
}

fn flame_class(tone: &FlameTone) -> String {
    match tone {
        FlameTone::Program => "program".to_owned(),
        FlameTone::Kernel => "kernel".to_owned(),
        FlameTone::Unnamed => "unnamed".to_owned(),
        FlameTone::Same => "same".to_owned(),
        FlameTone::More(strength) => format!("more-{strength}"),
        FlameTone::Less(strength) => format!("less-{strength}"),
    }
}

fn column_class(column: &Column) -> &'static str {
    match column.shown {
        Shown::Always => "",
        Shown::Wide => "wide",
        Shown::Asked => "asked",
    }
}

fn table_class(table: &TableBlock) -> &'static str {
    let has = |shown: Shown| table.columns.iter().any(|column| column.shown == shown);
    match (has(Shown::Asked), has(Shown::Wide)) {
        (true, _) => "brief",
        (false, true) => "brief narrow",
        (false, false) => "",
    }
}

fn head_class(column: &Column) -> String {
    let classes = [
        if column.is_numeric { "number" } else { "" },
        column_class(column),
    ];
    classes.join(" ").trim().to_owned()
}

/// A cell up to this length stays on one line.
const SHORT_CHARS: usize = 24;

fn cell_class(table: &TableBlock, column: &usize, cell: &TableCell) -> String {
    let column = table.columns.get(*column);
    let is_numeric = column.is_some_and(|column| column.is_numeric);
    let is_short = !is_numeric && cell.text.chars().take(SHORT_CHARS + 1).count() <= SHORT_CHARS;
    let classes = [
        is_numeric.then_some("number"),
        is_short.then_some("short"),
        (cell.tone != Tone::Neutral).then(|| tone(&cell.tone).0),
        column.map(column_class).filter(|class| !class.is_empty()),
    ];
    classes.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
