//! Chooses cells by levels of factors, of which targets, profiles and places are some.

use results::{Cell, PLACE_FACTOR};

use super::suggestions::shown;
use super::{Selection, Spec};
use crate::design;

/// Why a text selects no cells; one line, without the option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// The text has no equals sign.
    #[error("{} has no = (expected FACTOR=LEVEL,...)", shown(.0))]
    NoLevels(String),
    /// The experiment has no such factor.
    #[error("there is no factor {} (known: {known})", shown(factor))]
    UnknownFactor {
        /// The name of the factor, as it was typed.
        factor: String,
        /// The factors that there are.
        known: String,
    },
    /// The factor has no such level.
    #[error("{factor} has no level {} (known: {known})", shown(level))]
    UnknownLevel {
        factor: String,
        /// The name of the level, as it was typed.
        level: String,
        /// The levels that there are.
        known: String,
    },
    /// There is no cell with all of these levels.
    #[error("no cell has all of these levels")]
    NoCell,
}

impl Selection {
    /// Whether the cell has, for every factor that the selection names, one of the listed levels.
    #[must_use]
    pub fn selects(&self, cell: &Cell) -> bool {
        self.levels.iter().all(|(factor, levels)| {
            let mut own = design::levels_of(cell).filter(|(name, _)| name == factor);
            own.any(|(_, level)| levels.iter().any(|it| it == level))
        })
    }
}

impl Spec {
    /// The cells that fit all of these texts, each like `buffers=262144,524288`: a factor and one
    /// or more of its levels. Texts of the same factor add to its levels. A comma within a level is
    /// written as `\,`.
    ///
    /// # Errors
    /// When a text names an unknown factor or level, which lists those that there are, or when no
    /// cell fits.
    pub fn select(&self, texts: &[String]) -> Result<Selection, SelectionError> {
        let selectable = selectable(self);
        let mut selection = Selection::default();
        for text in texts {
            let (factor, levels) = text
                .split_once('=')
                .ok_or_else(|| SelectionError::NoLevels(text.clone()))?;
            let Some((_, known)) = selectable.iter().find(|(name, _)| *name == factor) else {
                let known: Vec<&str> = selectable.iter().map(|(name, _)| *name).collect();
                let (factor, known) = (factor.to_owned(), known.join(", "));
                return Err(SelectionError::UnknownFactor { factor, known });
            };
            let chosen = chosen_levels(levels, known).map_err(|level| {
                let (factor, known) = (factor.to_owned(), known.join(", "));
                SelectionError::UnknownLevel {
                    factor,
                    level,
                    known,
                }
            })?;
            let known = selection.levels.iter_mut();
            match known.into_iter().find(|(name, _)| name == factor) {
                Some((_, levels)) => levels.extend(chosen),
                None => selection.levels.push((factor.to_owned(), chosen)),
            }
        }
        if design::cells(self).iter().any(|it| selection.selects(it)) {
            Ok(selection)
        } else {
            Err(SelectionError::NoCell)
        }
    }
}

/// The levels in a text; the error is one that is not among the known ones.
fn chosen_levels(text: &str, known: &[&str]) -> Result<Vec<String>, String> {
    if known.contains(&text) {
        return Ok(vec![text.to_owned()]);
    }
    let levels = comma_separated(text);
    match levels.iter().find(|it| !known.contains(&it.as_str())) {
        Some(level) => Err(level.clone()),
        None => Ok(levels),
    }
}

/// The parts of a list with commas. `\,` is a comma within a part.
#[must_use]
pub fn comma_separated(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ',' => parts.push(std::mem::take(&mut part)),
            '\\' => part.push(characters.next_if_eq(&',').unwrap_or('\\')),
            other => part.push(other),
        }
    }
    parts.push(part);
    parts
}

/// What a selection can name, with the levels of each.
pub(super) fn selectable(spec: &Spec) -> Vec<(&str, Vec<&str>)> {
    let mut known: Vec<(&str, Vec<&str>)> = Vec::new();
    let places = spec.places_in_turn();
    if !places.is_empty() {
        let names = places.iter().map(|place| place.name.as_str());
        known.push((PLACE_FACTOR, names.collect()));
    }
    known.extend(spec.factors.iter().map(|factor| {
        let levels = factor.levels.iter().map(|level| level.name.as_str());
        (factor.name.as_str(), levels.collect())
    }));
    if !spec.profiles.is_empty() {
        let names = spec.profiles.iter().map(|profile| profile.name.as_str());
        known.push(("profile", names.collect()));
    }
    let names = spec.targets.iter().map(|target| target.name.as_str());
    known.push(("target", names.collect()));
    known
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn spec() -> Spec {
        let text = "name = 'x'\nexclude = [{ connections = 2, keepalive = 'a, b' }]\n\
                    [[target]]\nname = 'one'\nurl = 'http://h/'\n\
                    [[target]]\nname = 'two'\nurl = 'http://i/'\n\
                    [[profile]]\nname = 'basic'\n\
                    [[factor]]\nconnections = [2, 4, 8]\n\
                    [[factor]]\nname = 'keepalive'\noption = 'header'\nlevels = ['a, b', 'c']\n";
        Spec::parse(text, Path::new("e.toml")).expect("an experiment")
    }

    fn chosen(texts: &[&str]) -> Result<Vec<String>, SelectionError> {
        let (spec, texts) = (spec(), texts.iter().map(|&text| text.to_owned()));
        let selection = spec.select(&texts.collect::<Vec<_>>())?;
        let cells = design::cells(&spec).into_iter();
        Ok(cells
            .filter(|cell| selection.selects(cell))
            .map(|cell| {
                let levels = cell.settings.iter().map(|it| it.level.as_str());
                levels
                    .chain([cell.target.as_str()])
                    .collect::<Vec<_>>()
                    .join("/")
            })
            .collect())
    }

    #[test]
    fn cells_are_chosen_by_levels_targets_and_profiles() {
        for (texts, expected) in [
            (&["connections=2"][..], &["2/c/one", "2/c/two"][..]),
            (
                &[
                    "connections=2,4",
                    "target=two",
                    "keepalive=c",
                    "profile=basic",
                ],
                &["2/c/two", "4/c/two"],
            ),
            (
                &[
                    "connections=4",
                    "target=one",
                    "connections=8",
                    "keepalive=a, b",
                ],
                &["4/a, b/one", "8/a, b/one"],
            ),
            (
                &["keepalive=a\\, b,c", "connections=8", "target=one"],
                &["8/a, b/one", "8/c/one"],
            ),
        ] {
            let expected: Vec<String> = expected.iter().map(|&it| it.to_owned()).collect();
            assert_eq!(chosen(texts), Ok(expected), "{texts:?}");
        }
    }

    #[test]
    fn an_unknown_factor_or_level_is_answered_with_those_that_there_are() {
        for (text, expected) in [
            (
                "buffers=1",
                "there is no factor \"buffers\" (known: connections, keepalive, profile, target)",
            ),
            (
                "connections=3",
                "connections has no level \"3\" (known: 2, 4, 8)",
            ),
            (
                "connections=2,",
                "connections has no level \"\" (known: 2, 4, 8)",
            ),
            (
                "target=three",
                "target has no level \"three\" (known: one, two)",
            ),
            (
                "connections",
                "\"connections\" has no = (expected FACTOR=LEVEL,...)",
            ),
        ] {
            let refused = chosen(&[text]).expect_err(text);
            assert_eq!(refused.to_string(), expected);
        }
        let excluded = chosen(&["connections=2", "keepalive=a, b"]).unwrap_err();
        assert_eq!(excluded.to_string(), "no cell has all of these levels");
    }

    #[test]
    fn a_list_has_commas_between_its_parts() {
        for (text, parts) in [
            ("16,64", &["16", "64"][..]),
            ("a\\,b,c", &["a,b", "c"]),
            (r"a\b", &[r"a\b"]),
            ("", &[""]),
            (",", &["", ""]),
        ] {
            assert_eq!(comma_separated(text), parts, "{text:?}");
        }
    }
}
