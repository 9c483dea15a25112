//! The text of an SVG file.

use plan::printable;

/// Fonts of the system; a viewer without the first takes the next.
const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', \
                     Arial, sans-serif";

/// Size of all text but the title.
pub(super) const FONT_SIZE: f64 = 12.0;

/// Mean width of a character of [`FONT_SIZE`], slightly more than that of common fonts: the font
/// of the viewer is not known.
const CHAR_WIDTH: f64 = 6.8;

/// Where a text is, as seen from its point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
    /// The text ends at the point, and rises to it by this angle.
    Slanted(f64),
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stroke<'a> {
    pub(super) color: &'a str,
    pub(super) width: f64,
    pub(super) is_dashed: bool,
    pub(super) opacity: f64,
}

impl<'a> Stroke<'a> {
    pub(super) fn thin(color: &'a str) -> Self {
        Self {
            color,
            width: 1.0,
            is_dashed: false,
            opacity: 1.0,
        }
    }
}

pub(super) struct Svg(String);

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let (width, height) = (number(width), number(height));
        let (title, description) = (escaped(title), escaped(description));
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FONTS}\" \
             font-size=\"{FONT_SIZE}\">\n<title>{title}</title>\n<desc>{description}</desc>\n"
        ))
    }

    pub(super) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }

    /// The heading of the picture.
    pub(super) fn title(&mut self, [x, y]: [f64; 2], color: &str, text: &str) {
        let (x, y, text) = (number(x), number(y), escaped(text));
        self.0 += &format!(
            "<text x=\"{x}\" y=\"{y}\" fill=\"{color}\" font-size=\"17\" \
             font-weight=\"600\">{text}</text>\n"
        );
    }

    /// A text whose middle line is at `y`.
    pub(super) fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, color: &str, text: &str) {
        let (at_x, at_y, text) = (number(x), number(y + 0.35 * FONT_SIZE), escaped(text));
        let place = match anchor {
            Anchor::Start => String::new(),
            Anchor::Middle => " text-anchor=\"middle\"".to_owned(),
            Anchor::End => " text-anchor=\"end\"".to_owned(),
            Anchor::Slanted(degrees) => format!(
                " text-anchor=\"end\" transform=\"rotate(-{} {at_x} {at_y})\"",
                number(degrees)
            ),
        };
        self.0 +=
            &format!("<text x=\"{at_x}\" y=\"{at_y}\" fill=\"{color}\"{place}>{text}</text>\n");
    }

    /// `[x, y, width, height]`
    pub(super) fn rect(&mut self, place: [f64; 4], color: &str, opacity: f64) {
        let [x, y, width, height] = place.map(number);
        let opacity = faint("fill-opacity", opacity);
        self.0 += &format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
             fill=\"{color}\"{opacity}/>\n"
        );
    }

    /// A shape, and its outline where it is hollow.
    pub(super) fn shape(&mut self, path: &str, fill: &str, opacity: f64, outline: Option<&str>) {
        let outline = outline.map_or_else(String::new, |color| {
            format!(" stroke=\"{color}\" stroke-width=\"1.75\"")
        });
        let opacity = faint("opacity", opacity);
        self.0 += &format!("<path d=\"{path}\" fill=\"{fill}\"{outline}{opacity}/>\n");
    }

    pub(super) fn line(&mut self, path: &str, stroke: Stroke<'_>) {
        let Stroke { color, width, .. } = stroke;
        let dashes = if stroke.is_dashed {
            " stroke-dasharray=\"6 4\""
        } else {
            ""
        };
        let (width, opacity) = (number(width), faint("stroke-opacity", stroke.opacity));
        self.0 += &format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dashes}{opacity}/>\n"
        );
    }

    /// What is drawn from here on is cut at the edges of the place until [`Self::end_clip`].
    pub(super) fn clip(&mut self, id: &str, place: [f64; 4]) {
        let ([x, y, width, height], id) = (place.map(number), escaped(id));
        self.0 += &format!(
            "<clipPath id=\"{id}\"><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" \
             height=\"{height}\"/></clipPath>\n<g clip-path=\"url(#{id})\">\n"
        );
    }

    pub(super) fn end_clip(&mut self) {
        self.0 += "</g>\n";
    }
}

/// About how wide a text is.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * CHAR_WIDTH
}

/// The points of a line as a path, to a tenth of a pixel.
pub(super) fn path_of(points: &[[f64; 2]]) -> String {
    let mut path = String::new();
    for (at, [x, y]) in points.iter().enumerate() {
        let command = if at == 0 { 'M' } else { 'L' };
        path += &format!("{command}{} {}", number(*x), number(*y));
    }
    path
}

/// With one decimal at most.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    let short = text.strip_suffix(".0").unwrap_or(&text);
    match short {
        "-0" => "0".to_owned(),
        short => short.to_owned(),
    }
}

fn faint(attribute: &str, opacity: f64) -> String {
    if opacity < 1.0 {
        format!(" {attribute}=\"{opacity:.2}\"")
    } else {
        String::new()
    }
}

/// Names come from other people's results.
fn escaped(text: &str) -> String {
    let text = printable(text);
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_stays_text() {
        let mut svg = Svg::new(10.0, 10.0, "</title><script>", "\"&\u{1b}[0m");
        svg.text(
            [1.0, 2.0],
            Anchor::Slanted(32.0),
            "#000",
            "<b onload=\"x\">",
        );
        let text = svg.finish();
        assert!(!text.contains("<script"), "{text}");
        assert!(!text.contains("<b"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains("&lt;b onload=&quot;x&quot;&gt;"), "{text}");
    }

    #[test]
    fn numbers_have_no_digits_that_nobody_sees() {
        let numbers = [1.0, 1.25, -0.01, 120.04].map(number);
        assert_eq!(numbers, ["1", "1.2", "0", "120"]);
    }
}
