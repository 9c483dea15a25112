//! Turns pages of metrics into what each series did over the window.

use std::collections::{BTreeMap, HashMap};

use results::parts::scrape::{ROWS_MAX, ScrapedSeries, ScrapedValues, is_known};

use super::exposition::{Kind, Page, Sample};

/// Series of a server; more make results large, and nobody reads them.
pub(super) const SERIES_MAX: usize = 200;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Collection {
    /// By the name with the labels.
    series: HashMap<String, Series>,
    pages: u64,
    left_out: u64,
    /// Times of rows, milliseconds after the start of the window.
    at_ms: Vec<u64>,
    /// One page in so many has a row. A power of two.
    stride: u64,
}

/// What the values of a series are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Gauge,
    Counter,
    /// The sum or the number of values of a histogram or a summary.
    Sum,
    Count,
}

#[derive(Debug)]
struct Series {
    /// Its place among all, which is that of the page.
    number: usize,
    name: String,
    labels: BTreeMap<String, String>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Gauge(Gauge),
    Counter(Counter, Vec<Option<f64>>),
    Histogram { sum: Counter, count: Counter },
}

#[derive(Debug, Default)]
struct Gauge {
    readings: u64,
    sum: f64,
    min: f64,
    max: f64,
    rows: Vec<Option<f64>>,
}

/// A count that only grows.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    last: Option<f64>,
    growth: f64,
}

impl Collection {
    /// Adds a page that was read at this time.
    pub(super) fn add(&mut self, page: &Page<'_>, at_ms: u64) {
        self.stride = self.stride.max(1);
        let has_row = self.pages.is_multiple_of(self.stride);
        if has_row && self.at_ms.len() == ROWS_MAX {
            self.halve_rows();
        }
        let has_row = self.pages.is_multiple_of(self.stride);
        let row = has_row.then_some(self.at_ms.len());
        if has_row {
            self.at_ms.push(at_ms);
        }
        let mut left_out = 0;
        // Known ones first: they must not be left out.
        for wants_known in [true, false] {
            for sample in &page.samples {
                let Some((name, role)) = role_of(sample, page) else {
                    continue;
                };
                if is_known(name) != wants_known || !sample.value.is_finite() {
                    continue;
                }
                match self.series_of(name, sample, role) {
                    Some(series) => series.add(role, sample.value, row),
                    // The number of values of a histogram belongs to its sum.
                    None => left_out += u64::from(role != Role::Count),
                }
            }
        }
        self.left_out = self.left_out.max(left_out);
        for series in self.series.values_mut() {
            series.fill(self.at_ms.len());
        }
        self.pages += 1;
    }

    /// Times of the rows, the series, and how many were left out.
    pub(super) fn finish(self) -> (Vec<u64>, Vec<ScrapedSeries>, u64) {
        let mut series: Vec<Series> = self.series.into_values().collect();
        series.sort_by_key(|it| it.number);
        let series = series.into_iter().map(Series::finish);
        (self.at_ms, series.collect(), self.left_out)
    }

    /// The series of a sample; `None` if there are too many.
    fn series_of(&mut self, name: &str, sample: &Sample<'_>, role: Role) -> Option<&mut Series> {
        let labels = sample.labels.iter();
        let labels: BTreeMap<&str, &str> = labels
            .map(|(name, value)| (*name, value.as_ref()))
            .collect();
        let key = format!("{name}{labels:?}");
        let number = self.series.len();
        if !self.series.contains_key(&key) {
            if number == SERIES_MAX {
                return None;
            }
            let owned = labels.into_iter();
            let series = Series {
                number,
                name: name.to_owned(),
                labels: owned
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
                values: Values::of(role, self.pages > 0),
            };
            self.series.insert(key.clone(), series);
        }
        self.series.get_mut(&key)
    }

    /// Every second row is enough from now on.
    fn halve_rows(&mut self) {
        self.stride *= 2;
        keep_every_second(&mut self.at_ms);
        for series in self.series.values_mut() {
            match &mut series.values {
                Values::Gauge(Gauge { rows, .. }) | Values::Counter(_, rows) => {
                    keep_every_second(rows);
                }
                Values::Histogram { .. } => {}
            }
        }
    }
}

fn keep_every_second<T>(rows: &mut Vec<T>) {
    let mut number = 0_u64;
    rows.retain(|_| {
        number += 1;
        number % 2 == 1
    });
}

/// The name of the series that a sample belongs to, and as what; `None` if it is not kept: buckets,
/// quantiles, times at which counters were made, and texts in the form of a number.
fn role_of<'a>(sample: &Sample<'a>, page: &Page<'_>) -> Option<(&'a str, Role)> {
    let name = sample.name;
    let is_distribution = |name: &str| matches!(page.kind(name), Kind::Histogram | Kind::Summary);
    if name.ends_with("_created") || name.ends_with("_info") || is_distribution(name) {
        return None;
    }
    for (ending, role) in [
        ("_bucket", None),
        ("_sum", Some(Role::Sum)),
        ("_count", Some(Role::Count)),
    ] {
        if let Some(base) = name
            .strip_suffix(ending)
            .filter(|base| is_distribution(base))
        {
            return Some((base, role?));
        }
    }
    // OpenMetrics names the kind of a counter without its ending.
    let base = name.strip_suffix("_total");
    let of_base = base.map_or(Kind::Unknown, |base| page.kind(base));
    let role = match (page.kind(name), of_base) {
        (Kind::Counter, _) | (Kind::Unknown, Kind::Counter) => Role::Counter,
        (Kind::Unknown, _) if base.is_some() => Role::Counter,
        _ => Role::Gauge,
    };
    Some((name, role))
}

impl Values {
    /// A counter that appears after the first page counts from zero: servers publish many counters
    /// only when there is something to count.
    fn of(role: Role, is_late: bool) -> Self {
        let counter = Counter {
            last: is_late.then_some(0.0),
            growth: 0.0,
        };
        match role {
            Role::Gauge => Self::Gauge(Gauge::default()),
            Role::Counter => Self::Counter(counter, Vec::new()),
            Role::Sum | Role::Count => Self::Histogram {
                sum: counter,
                count: counter,
            },
        }
    }
}

impl Series {
    fn add(&mut self, role: Role, value: f64, row: Option<usize>) {
        match (&mut self.values, role) {
            (Values::Gauge(gauge), _) => {
                gauge.add(value);
                set_row(&mut gauge.rows, row, value);
            }
            (Values::Counter(counter, rows), _) => {
                counter.add(value);
                set_row(rows, row, counter.growth);
            }
            (Values::Histogram { sum, .. }, Role::Sum) => sum.add(value),
            (Values::Histogram { count, .. }, _) => count.add(value),
        }
    }

    /// It has no value in rows in which it is missing.
    fn fill(&mut self, rows_now: usize) {
        match &mut self.values {
            Values::Gauge(Gauge { rows, .. }) | Values::Counter(_, rows) => {
                rows.resize(rows_now, None);
            }
            Values::Histogram { .. } => {}
        }
    }

    fn finish(self) -> ScrapedSeries {
        let values = match self.values {
            Values::Gauge(gauge) => ScrapedValues::Gauge {
                mean: gauge.sum / gauge.readings.max(1) as f64,
                min: gauge.min,
                max: gauge.max,
                rows: gauge.rows,
            },
            Values::Counter(counter, rows) => ScrapedValues::Counter {
                growth: counter.growth,
                rows,
            },
            Values::Histogram { sum, count } => ScrapedValues::Histogram {
                count: count.growth,
                sum: sum.growth,
            },
        };
        ScrapedSeries {
            name: self.name,
            labels: self.labels,
            values,
        }
    }
}

/// The rows before it in which a series was missing have no value.
fn set_row(rows: &mut Vec<Option<f64>>, row: Option<usize>, value: f64) {
    if let Some(row) = row {
        rows.resize(row, None);
        rows.push(Some(value));
    }
}

impl Gauge {
    fn add(&mut self, value: f64) {
        (self.min, self.max) = match self.readings {
            0 => (value, value),
            _ => (self.min.min(value), self.max.max(value)),
        };
        self.readings += 1;
        self.sum += value;
    }
}

impl Counter {
    fn add(&mut self, value: f64) {
        self.growth += match self.last {
            None => 0.0,
            // The server has started again.
            Some(last) if value < last => value,
            Some(last) => value - last,
        };
        self.last = Some(value);
    }
}

#[cfg(test)]
mod tests;
