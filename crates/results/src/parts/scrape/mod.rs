//! The server's own metrics (`--scrape`), as it publishes them for Prometheus.

mod known;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Measurement, PartSection, PartTable, PartView, SectionPosition};
use crate::{Contradiction, Histogram, RunResult};

pub use known::{Figure, is_known};

/// Rows over time: more than a chart can show.
pub const ROWS_MAX: usize = 600;

/// The pages of metrics that were read during the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScrapeRecording {
    /// One for each URL, in their order.
    pub pages: Vec<ScrapedPage>,
}

// No value is other than finite.
impl Eq for ScrapeRecording {}

/// A page of metrics over the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScrapedPage {
    /// Its URL.
    pub url: String,
    /// How often it was read.
    pub scrapes: u64,
    /// How often that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Why it failed at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Time between the first and the last reading, nanoseconds.
    pub elapsed_ns: u64,
    /// When it was read, milliseconds after the start of the window. In long runs, these are not
    /// all times.
    pub at_ms: Vec<u64>,
    /// What it has, known metrics first.
    pub series: Vec<ScrapedSeries>,
    /// Series of the page that were left out, because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A metric with one set of labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScrapedSeries {
    /// The name of the metric. Of a histogram or a summary, it is without `_sum` and `_count`.
    pub name: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What it did within the window.
    pub values: ScrapedValues,
}

/// What a metric did between the first and the last reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScrapedValues {
    /// A value that goes up and down. Infinite values are not in it.
    Gauge {
        /// The mean of all readings.
        mean: f64,
        /// The least of all readings.
        min: f64,
        /// The greatest of all readings.
        max: f64,
        /// The value at each of the times of the page.
        rows: Vec<Option<f64>>,
    },
    /// A count that only grows.
    Counter {
        /// How much it grew. If the server started again, what it counted since then is added.
        growth: f64,
        /// How much it had grown at each of the times of the page.
        rows: Vec<Option<f64>>,
    },
    /// A histogram or a summary, without its buckets or quantiles.
    Histogram {
        /// How many values were added to it.
        count: f64,
        /// The sum of these values.
        sum: f64,
    },
}

impl ScrapedPage {
    /// What a counter grew per second; `None` if there was only one reading.
    #[must_use]
    pub fn per_sec(&self, growth: f64) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| growth / (self.elapsed_ns as f64 / 1e9))
    }
}

impl ScrapedSeries {
    /// The name with the labels, as the page has it.
    #[must_use]
    pub fn full_name(&self) -> String {
        let labels = self.labels.iter();
        let labels: Vec<String> = labels
            .map(|(name, value)| format!("{name}={value:?}"))
            .collect();
        match labels.as_slice() {
            [] => self.name.clone(),
            labels => format!("{}{{{}}}", self.name, labels.join(",")),
        }
    }
}

impl Measurement for ScrapeRecording {
    /// Runs cannot be added up, so the pages of the first one are kept.
    fn merge(&mut self, other: &Self) {
        for page in &other.pages {
            if self.pages.iter().all(|known| known.url != page.url) {
                self.pages.push(page.clone());
            }
        }
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        Vec::new()
    }
}

pub(super) static VIEW: PartView = PartView {
    metrics: &view::METRICS,
    check,
    text: view::text_of_run,
    notes: view::notes,
    section: Some(PartSection {
        details: view::details,
        ..PartSection::of_tables(
            ("server-metrics", "Metrics of the server"),
            "What the server says of itself, read from its page for Prometheus within the window.",
            SectionPosition::Server,
            &[
                PartTable::OfRuns(view::figures),
                PartTable::OfSingleRun(view::all_series),
            ],
        )
    }),
    ..PartView::NONE
};

/// Checks that each series has a value for each time, and that all are finite.
fn check(result: &RunResult) -> Result<(), Contradiction> {
    let pages = result.recording.parts.scraped.iter();
    for page in pages.flat_map(|scraped| &scraped.pages) {
        let contradiction =
            |problem: String| Err(Contradiction(format!("metrics of {}: {problem}", page.url)));
        if page.at_ms.len() > ROWS_MAX || page.at_ms.len() as u64 > page.scrapes {
            return contradiction(format!("{} times of readings", page.at_ms.len()));
        }
        for series in &page.series {
            let (numbers, rows): (Vec<f64>, _) = match &series.values {
                ScrapedValues::Gauge {
                    mean,
                    min,
                    max,
                    rows,
                } => (vec![*mean, *min, *max], Some(rows)),
                ScrapedValues::Counter { growth, rows } => (vec![*growth], Some(rows)),
                ScrapedValues::Histogram { count, sum } => (vec![*count, *sum], None),
            };
            let of_rows = rows.into_iter().flatten().flatten();
            if !numbers
                .iter()
                .chain(of_rows)
                .all(|number| number.is_finite())
            {
                return contradiction(format!("{} is not finite", series.name));
            }
            if rows.is_some_and(|rows| rows.len() != page.at_ms.len()) {
                return contradiction(format!("{} has other times", series.name));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
