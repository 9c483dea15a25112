//! Tidy data as comma-separated values (RFC 4180): one row for each run and metric.
//!
//! Spreadsheets run text that starts with `=`, `+`, `-` or `@` as a formula. Such text gets an
//! apostrophe in front, which they remove; numbers do not.

use std::borrow::Cow;
use std::io::{self, Write};

use results::Metric;
use results::metric;

use super::{Export, names};
use crate::table::csv::line;

/// Columns next to those of the factors.
const FIXED: [&str; 10] = [
    "source",
    "profile",
    "target",
    "run",
    "position",
    "failure",
    "metric",
    "unit",
    "value",
    "lower_bound",
];

/// Writes the rows, results before kernel counters. A run without values has one row without a
/// metric.
pub(super) fn render(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    let factors = names::factors(export.runs());
    let mut titles: Vec<Cow<'_, str>> = vec![FIXED[0].into()];
    titles.extend(titles_of(&factors).into_iter().map(Cow::from));
    titles.extend(FIXED[1..].iter().map(|name| Cow::from(*name)));
    line(&titles, output)?;
    for run in export.runs() {
        let mut begin = vec![text(&run.source)];
        let levels = factors.iter().map(|factor| run.level_of(factor));
        begin.extend(levels.map(|level| text(level.unwrap_or_default())));
        begin.push(text(run.profile.as_deref().unwrap_or_default()));
        begin.push(text(run.target.as_deref().unwrap_or_default()));
        begin.push(run.run.to_string().into());
        let position = run.position.map(|position| position.to_string());
        begin.push(position.unwrap_or_default().into());
        begin.push(text(run.failure.as_deref().unwrap_or_default()));
        let known = run.values.iter().filter(|(_, value)| value.is_finite());
        let mut known: Vec<(&String, &f64)> = known.collect();
        known.sort_by_key(|(metric, _)| metric::rank(metric));
        let mut is_empty = true;
        for (metric, value) in known {
            is_empty = false;
            let known = run.measured(metric);
            let is_lower_bound = known.is_some_and(|known| known.is_lower_bound);
            let mut row = begin.clone();
            row.extend([
                text(metric),
                Metric::named(metric).unit.name().into(),
                value.to_string().into(),
                if is_lower_bound { "true" } else { "" }.into(),
            ]);
            line(&row, output)?;
        }
        if is_empty {
            begin.extend(["", "", "", ""].map(Cow::from));
            line(&begin, output)?;
        }
    }
    Ok(())
}

/// The names of the factors, with a prefix where another column has the same.
fn titles_of(factors: &[&str]) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    for factor in factors {
        let mut title = text(factor).into_owned();
        while FIXED.contains(&title.as_str()) || titles.contains(&title) {
            title.insert_str(0, "factor_");
        }
        titles.push(title);
    }
    titles
}

/// Text that spreadsheets do not run.
fn text(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    if is_formula && text.parse::<f64>().is_err() {
        format!("'{text}").into()
    } else {
        text.into()
    }
}
