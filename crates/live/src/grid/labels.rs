//! Names of the cells of a sweep, made of what differs between them.

use std::collections::BTreeMap;

use results::Cell;

/// Names of the rows and their heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Labels {
    /// The names of what differs: `buffers / target`.
    pub(super) heading: String,
    /// Number and name of each cell, in the order of the experiment.
    pub(super) rows: Vec<(u32, String)>,
}

/// Names and values of a cell's settings, profile and target.
fn parts(cell: &Cell) -> Vec<(&str, &str)> {
    let settings = cell
        .settings
        .iter()
        .map(|it| (it.factor.as_str(), it.level.as_str()));
    let profile = cell.profile.iter().map(|it| ("profile", it.as_str()));
    settings
        .chain(profile)
        .chain([("target", cell.target.as_str())])
        .collect()
}

impl Labels {
    pub(super) fn of(cells: &[Cell]) -> Self {
        let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, value) in cells.iter().flat_map(parts) {
            let values = values.entry(name).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let differs = |name: &str| values.get(name).is_some_and(|values| values.len() > 1);
        let any = values.keys().any(|name| differs(name));
        // If nothing differs there is a single cell, named by its target.
        let is_named = |name: &str| if any { differs(name) } else { name == "target" };
        let joined = |cell: &Cell, part: fn((&str, &str)) -> String| -> String {
            let named = parts(cell).into_iter().filter(|(name, _)| is_named(name));
            named.map(part).collect::<Vec<_>>().join(" / ")
        };
        let name = |(name, _): (&str, &str)| name.to_owned();
        let value = |(_, value): (&str, &str)| value.to_owned();
        let row = |cell: &Cell| {
            let baseline = if cell.is_baseline { " (baseline)" } else { "" };
            (cell.number, joined(cell, value) + baseline)
        };
        Self {
            heading: cells
                .first()
                .map(|cell| joined(cell, name))
                .unwrap_or_default(),
            rows: cells.iter().map(row).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}
