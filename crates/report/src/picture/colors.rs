//! The colours of pictures: those of the style sheet of pages.

use std::io;

use crate::page::style_sheet;

/// The colours of a picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Theme {
    /// For a light ground.
    #[default]
    Light,
    /// For a dark ground.
    Dark,
}

/// Colours as SVG has them.
pub(super) struct Colors {
    pub(super) ink: String,
    pub(super) muted: String,
    pub(super) grid: String,
    pub(super) line: String,
    pub(super) surface: String,
    series: Vec<String>,
}

/// The number of colours of series.
pub(super) const SERIES: usize = 8;

impl Colors {
    /// # Errors
    /// None, unless the program itself is damaged.
    pub(super) fn of(theme: Theme) -> io::Result<Self> {
        let sheet = style_sheet()?;
        let color = |name: &str| {
            let missing = || io::Error::other(format!("the style sheet has no color --{name}"));
            named(&sheet, name, theme).ok_or_else(missing)
        };
        let series = (0..SERIES).map(|at| color(&format!("series-{at}")));
        Ok(Self {
            ink: color("ink")?,
            muted: color("muted")?,
            grid: color("grid")?,
            line: color("line")?,
            surface: color("surface")?,
            series: series.collect::<io::Result<_>>()?,
        })
    }

    /// After the last one they repeat.
    pub(super) fn series(&self, index: usize) -> &str {
        &self.series[index % SERIES]
    }
}

/// Of `--grid: light-dark(#e9ecf0, #262c34);` one of both.
fn named(sheet: &str, name: &str, theme: Theme) -> Option<String> {
    let (_, value) = sheet.split_once(&format!("--{name}: light-dark("))?;
    let (both, _) = value.split_once(')')?;
    let (light, dark) = both.split_once(", ")?;
    Some(match theme {
        Theme::Light => light.to_owned(),
        Theme::Dark => dark.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_themes_have_all_colors_of_the_style_sheet_and_they_differ() {
        let [light, dark] = [Theme::Light, Theme::Dark].map(|theme| Colors::of(theme).unwrap());
        for at in 0..SERIES {
            assert!(light.series(at).starts_with('#'), "{}", light.series(at));
            assert_ne!(light.series(at), dark.series(at));
        }
        assert_ne!(light.surface, dark.surface);
    }
}
