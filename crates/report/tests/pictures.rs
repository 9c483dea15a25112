//! Charts as SVG files: all of the catalogue, and what a file must not need.

mod catalogue;

use presentation::{Axis, Chart, Mark, Marks, Page, Scale, Unit};
use report::picture::{self, Theme};

const THEMES: [Theme; 2] = [Theme::Light, Theme::Dark];

fn svg(chart: &Chart, theme: Theme) -> String {
    let mut output = Vec::new();
    picture::render(chart, theme, &mut output).expect("memory takes every write");
    String::from_utf8(output).expect("it is text")
}

/// The text of a picture, without its title and description.
fn drawn(svg: &str) -> &str {
    svg.split_once("</desc>").expect("it has a description").1
}

#[test]
fn every_chart_is_a_picture_that_needs_nothing_else() {
    let page = catalogue::page();
    for chart in picture::charts(&page) {
        for theme in THEMES {
            let svg = svg(chart, theme);
            let id = &chart.id;
            assert!(
                svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""),
                "{id}"
            );
            assert!(svg.ends_with("</svg>\n"), "{id}");
            for word in [
                "NaN",
                "inf",
                "var(",
                "light-dark",
                "<script",
                "<style",
                "href=",
            ] {
                assert!(!drawn(&svg).contains(word), "{id} has {word}");
            }
            assert_eq!(
                svg.matches("url(").count(),
                svg.matches("url(#").count(),
                "{id}"
            );
            for tag in ["g", "svg", "text", "clipPath"] {
                let opened = svg.matches(&format!("<{tag}")).count();
                assert_eq!(
                    opened,
                    svg.matches(&format!("</{tag}>")).count(),
                    "{id}: {tag}"
                );
            }
        }
    }
}

#[test]
fn the_themes_have_their_own_colors() {
    let page = catalogue::page();
    let chart = picture::chart_named(&page, "percentiles").expect("it is in the catalogue");
    let [light, dark] = THEMES.map(|theme| svg(chart, theme));
    assert!(light.contains("#ffffff") && !light.contains("#181c22"));
    assert!(dark.contains("#181c22") && !dark.contains("#ffffff"));
}

#[test]
fn marks_are_where_their_values_are() {
    let chart = Chart {
        id: "line".to_owned(),
        title: "A line".to_owned(),
        x: Axis {
            label: "time".to_owned(),
            unit: Unit::Seconds,
            ..Axis::default()
        },
        y: Axis {
            label: "requests/s".to_owned(),
            unit: Unit::RequestsPerSec,
            scale: Scale::Linear,
            from_zero: true,
        },
        marks: vec![Marks {
            name: "rate".to_owned(),
            mark: Mark::Line,
            x: vec![0.0, 5.0, 10.0],
            y: vec![Some(0.0), Some(100.0), Some(50.0)],
            ..Marks::default()
        }],
        ..Chart::default()
    };
    let svg = svg(&chart, Theme::Light);
    let (_, line) = svg.split_once("<g clip-path").expect("marks are clipped");
    let (_, path) = line.split_once("<path d=\"M").expect("there is a line");
    let (path, _) = path.split_once('"').expect("the path ends");
    let numbers = path.split(['L', ' ']).map(|number| number.parse::<f64>());
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().expect("they are numbers");
    let [x0, y0, x1, y1, x2, y2] = numbers[..] else {
        panic!("{path}");
    };
    assert!((x1 - x0 - (x2 - x1)).abs() < 0.3, "{path}");
    assert!(((y0 - y1) / (y0 - y2) - 2.0).abs() < 0.01, "{path}");
    assert!(
        svg.contains(">100</text>") && svg.contains(">10 s</text>"),
        "{svg}"
    );
}

#[test]
fn a_chart_without_values_is_still_a_picture() {
    for scale in [
        Scale::Linear,
        Scale::Log,
        Scale::Nines,
        Scale::Names(Vec::new()),
    ] {
        let chart = Chart {
            x: Axis {
                scale,
                ..Axis::default()
            },
            marks: vec![Marks::default()],
            ..Chart::default()
        };
        assert!(!drawn(&svg(&chart, Theme::Light)).contains("NaN"));
    }
}

#[test]
fn the_beginning_of_a_name_is_enough_and_a_whole_name_comes_first() {
    let page: Page = catalogue::page();
    let id = |name: &str| picture::chart_named(&page, name).map(|chart| chart.id.as_str());
    assert_eq!(id("percentiles"), Some("percentiles"));
    assert_eq!(id("hostile"), Some("hostile-chart"));
    assert_eq!(id("percent"), None, "only whole words");
    assert_eq!(id(""), None);
}
