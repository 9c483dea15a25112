//! A report page as a file: it is complete, and runs no foreign script.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::collections::BTreeSet;

use base64::Engine as _;
use presentation::{Block, Figure, Page, Section, TableBlock, Tone};
use report::page::render;
use sha2::{Digest, Sha256};

mod catalogue;

/// What a page without any content may weigh.
const EMPTY_BYTES_MAX: usize = 200_000;

fn html(page: &Page) -> String {
    let mut output = Vec::new();
    render(page, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}

/// The texts between `<name ...>` and `</name>`, with the attributes of the opening tag. As in a
/// browser, a script ends at the first `</script`.
fn elements<'a>(html: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let (open, close) = (format!("<{name}"), format!("</{name}"));
    let mut rest = html;
    let mut found = Vec::new();
    while let Some(at) = rest.find(&open) {
        let (attributes, inside) = rest[at + open.len()..].split_once('>').unwrap();
        let end = inside.find(&close).unwrap();
        found.push((attributes, &inside[..end]));
        rest = &inside[end..];
    }
    found
}

/// The names of all elements and attributes that a parser would see outside scripts and styles.
fn tags(html: &str) -> Vec<String> {
    let mut markup = html.to_owned();
    for name in ["script", "style"] {
        for (_, text) in elements(html, name) {
            if !text.is_empty() {
                markup = markup.replace(text, "");
            }
        }
    }
    let parts = markup.split('<').skip(1);
    parts
        .map(|part| part.split('>').next().unwrap_or_default().to_owned())
        .collect()
}

/// A tag without the values of its attributes.
fn bare(tag: &str) -> String {
    tag.split('"').step_by(2).collect()
}

fn policy(html: &str) -> &str {
    let (_, rest) = html
        .split_once("<meta http-equiv=\"Content-Security-Policy\" content=\"")
        .unwrap();
    rest.split_once('"').unwrap().0
}

fn sha256(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text))
}

#[test]
fn the_policy_allows_the_scripts_and_styles_of_the_page_by_hash_and_nothing_else() {
    let html = html(&catalogue::page());
    let policy = policy(&html).replace("&#39;", "'");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!policy.contains("http"), "{policy}");
    let is_ours = |(attributes, _): &(&str, &str)| !attributes.contains("application/json");
    let mut hashes = BTreeSet::new();
    for name in ["script", "style"] {
        for (attributes, text) in elements(&html, name).into_iter().filter(is_ours) {
            let hash = sha256(text);
            assert!(
                policy.contains(&format!("'sha256-{hash}'")),
                "put {hash} into render.rs for{attributes}"
            );
            hashes.insert(hash);
        }
    }
    assert_eq!(hashes.len(), policy.matches("sha256-").count());
}

#[test]
fn the_chart_library_is_the_published_one_byte_for_byte() {
    let sums = include_str!("../assets/vendor/uplot/README.md");
    for (name, bytes) in [
        (
            "uPlot.iife.min.js",
            &include_bytes!("../assets/vendor/uplot/uPlot.iife.min.js")[..],
        ),
        (
            "uPlot.min.css",
            &include_bytes!("../assets/vendor/uplot/uPlot.min.css")[..],
        ),
        (
            "LICENSE",
            &include_bytes!("../assets/vendor/uplot/LICENSE")[..],
        ),
    ] {
        let sum: String = Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert!(
            sums.contains(&format!("| {name} | {sum} |")),
            "{name}: {sum}"
        );
    }
}

#[test]
fn the_licence_of_the_chart_library_is_in_the_page() {
    let html = html(&Page::default());
    assert!(html.contains("The above copyright notice and this permission notice"));
    assert!(html.contains("uPlot 1.6.32 (MIT)"));
}

#[test]
fn scripts_and_styles_contain_nothing_that_ends_them_or_that_a_parser_changes() {
    for (attributes, text) in elements(&html(&Page::default()), "script") {
        for word in ["<!--", "<script", "</script", "\r", "\0"] {
            assert!(!text.contains(word), "{word:?} in{attributes}");
        }
    }
}

#[test]
fn no_hostile_text_becomes_an_element_or_an_attribute() {
    let known: BTreeSet<&str> = [
        "a",
        "body",
        "button",
        "caption",
        "code",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "footer",
        "h1",
        "h2",
        "h3",
        "head",
        "header",
        "html",
        "li",
        "main",
        "meta",
        "nav",
        "noscript",
        "ol",
        "p",
        "path",
        "pre",
        "script",
        "section",
        "span",
        "strong",
        "style",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "title",
        "tr",
        "ul",
        "!DOCTYPE",
    ]
    .into();
    let page = catalogue::page();
    let html = html(&page);
    for tag in tags(&html) {
        let name = tag
            .trim_start_matches('/')
            .split([' ', '\n'])
            .next()
            .unwrap();
        assert!(known.contains(name), "<{tag}>");
        for attribute in [" on", " src=", " style="] {
            assert!(!bare(&tag).contains(attribute), "<{tag}>");
        }
    }
    // Its charts stay data: what is in them comes out as it went in, as far as it may be shown.
    let mut charts = page
        .sections
        .iter()
        .flat_map(|section| &section.blocks)
        .filter_map(|block| {
            let Block::Charts { charts } = block else {
                return None;
            };
            Some(charts)
        })
        .flatten();
    for (attributes, text) in elements(&html, "script") {
        if attributes.contains("application/json") {
            assert!(!text.contains(['<', '>', '&', '\'']), "{attributes}");
            let read: serde_json::Value = serde_json::from_str(text).unwrap();
            let chart = charts.next().unwrap();
            let meant = serde_json::to_string(chart).unwrap();
            let meant: serde_json::Value =
                serde_json::from_str(&plan::printable_lines(&meant)).unwrap();
            assert!(read == meant, "{}", chart.id);
        }
    }
    assert!(charts.next().is_none());
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let html = html(&catalogue::page());
    for tag in tags(&html) {
        for attribute in [
            "src=",
            "srcset=",
            "action=",
            "data=",
            "poster=",
            "background=",
            "ping=",
        ] {
            assert!(!bare(&tag).contains(&format!(" {attribute}")), "<{tag}>");
        }
        if let Some((_, target)) = tag.split_once(" href=\"") {
            assert!(target.starts_with('#'), "<{tag}>");
        }
        assert!(!tag.starts_with("link"), "<{tag}>");
    }
    for (attributes, text) in elements(&html, "style") {
        for word in ["url(", "@import", "@font-face"] {
            assert!(!text.contains(word), "{word} in{attributes}");
        }
    }
}

#[test]
fn an_empty_page_is_valid_and_small() {
    let html = html(&Page::default());
    assert!(html.starts_with("<!DOCTYPE html>"));
    assert!(html.trim_end().ends_with("</html>"));
    assert!(html.len() < EMPTY_BYTES_MAX, "{} bytes", html.len());
}

#[test]
fn rows_longer_and_shorter_than_their_columns_do_not_break_the_page() {
    let table = TableBlock {
        caption: "Uneven".to_owned(),
        columns: vec![Default::default()],
        rows: vec![vec![], vec![Default::default(), Default::default()]],
    };
    let page = Page {
        sections: vec![Section {
            id: "uneven".to_owned(),
            blocks: vec![Block::Table(table)],
            ..Section::default()
        }],
        ..Page::default()
    };
    assert_eq!(html(&page).matches("<td").count(), 2);
}

#[test]
fn no_line_ends_between_a_number_and_its_percent_or_within_a_large_number() {
    let figure = |value: &str| Figure {
        value: value.to_owned(),
        note: "12 % of all".to_owned(),
        ..Figure::default()
    };
    let section = Section {
        lead: "At most 3 % of them, p99 5.45 ms; 2 things.".to_owned(),
        blocks: vec![Block::Figures {
            figures: ["423.83 KiB/s", "undecided", "1,234,567,890,123"]
                .map(figure)
                .into(),
        }],
        ..Section::default()
    };
    let html = html(&Page {
        sections: vec![section],
        ..Page::default()
    });
    assert!(html.contains("At most 3\u{a0}% of them, p99 5.45\u{a0}ms; 2 things."));
    assert!(html.contains("12\u{a0}% of all"));
    assert!(html.contains("<dd class=\"value whole\">423.83 KiB/s<"));
    assert!(html.contains("<dd class=\"value\">undecided<"));
    assert!(html.contains("<dd class=\"value\">1,234,567,890,123<"));
}

#[test]
fn no_sign_of_a_judgement_looks_like_that_of_a_change() {
    let figure = |value: &str, tone| Figure {
        value: value.to_owned(),
        tone,
        ..Figure::default()
    };
    let figures = vec![figure("-18 %", Tone::Better), figure("+12 %", Tone::Worse)];
    let html = html(&Page {
        sections: vec![Section {
            blocks: vec![Block::Figures { figures }],
            ..Section::default()
        }],
        ..Page::default()
    });
    for sign in ["+", "-", "\u{2212}"] {
        assert!(!html.contains(&format!(">{sign}</span>")), "{sign}");
    }
    assert!(html.contains("aria-label=\"Better\""));
}

#[test]
fn the_answer_is_the_description_and_below_a_heading_of_the_user() {
    let page = |title: &str| {
        html(&Page {
            title: title.to_owned(),
            answer: "b: 4 % fewer \"requests/s\" than a".to_owned(),
            ..Page::default()
        })
    };
    let html = page("Before and after");
    let description =
        "<meta name=\"description\" content=\"b: 4 % fewer &#34;requests/s&#34; than a\">";
    assert!(html.contains(description), "{}", &html[..2_000]);
    assert!(html.contains("<title>Before and after</title>"));
    assert!(html.contains("<p class=\"answer\">b: 4\u{a0}% fewer"));
}

#[test]
fn a_failing_writer_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = render(&Page::default(), &mut Full).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
