//! The resolution of a run: the smallest difference between two values that means anything.

use plan::{OptionName, OptionValue};
use results::metric::Unit;
use results::{Histogram, Metric, metric};

use crate::{Form, Observation};

/// Metrics that are counts of what was completed within the window, or follow from such a count.
const COUNTS: [&str; 6] = [
    metric::REQUESTS,
    metric::REQUESTS_PER_SEC,
    metric::BYTES,
    metric::BYTES_PER_SEC,
    "events_per_sec",
    "thread_rate_mean",
];

impl Observation {
    /// The resolution of a metric in this run, as a share of the value; 0 if it is exact or not
    /// known.
    ///
    /// A count of responses is known to one request per connection: a request that is in flight at
    /// an end of the window counts wholly or not at all, and connections that wait alike do so
    /// together. A time is known to the width of the histogram's bucket, or to the decimals of a
    /// text.
    #[must_use]
    pub fn resolution(&self, of: &Metric) -> f64 {
        let share = match of.unit {
            Unit::Microseconds if self.form == Form::Saved => Histogram::RESOLUTION,
            Unit::Microseconds => match self.value(&of.name) {
                Some(time_us) if time_us > 0.0 => {
                    rounding_us(time_us, self.form == Form::Object) / time_us
                }
                _ => 0.0,
            },
            _ if COUNTS.contains(&of.name.as_str()) => self.in_flight_share(),
            _ => 0.0,
        };
        // A run with fewer responses than connections has no resolution at all.
        share.min(1.0)
    }

    /// Requests that may be in flight at once, as a share of the responses; 0 if not known.
    fn in_flight_share(&self) -> f64 {
        let per_connection = self.result.as_deref().map_or(1.0, |result| {
            f64::from(result.plan.load.streams) * f64::from(result.plan.load.pipeline)
        });
        let noted = || {
            let mut noted = self.noted_load.iter();
            noted.find_map(|part| match part.value {
                OptionValue::Count(count) if part.label == OptionName::CONNECTIONS.label() => {
                    Some(count as f64)
                }
                _ => None,
            })
        };
        let connections = self.value("connections").or_else(noted);
        match (connections, self.value(metric::REQUESTS)) {
            (Some(connections), Some(requests)) if requests > 0.0 => {
                connections * per_connection / requests
            }
            _ => 0.0,
        }
    }
}

/// How far a time may be from its exact value, in microseconds. Texts have two decimals of a unit,
/// which is used from 0.85 of it upwards; json.lua prints whole microseconds.
pub(crate) fn rounding_us(time_us: f64, is_whole: bool) -> f64 {
    let step_us = match time_us {
        _ if time_us >= 51e6 => 600_000.0,
        _ if time_us >= 850_000.0 => 10_000.0,
        _ if time_us >= 850.0 => 10.0,
        _ => 0.01,
    };
    let step_us = if is_whole {
        f64::max(step_us, 1.0)
    } else {
        step_us
    };
    step_us * 0.51
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[(&str, f64)], form: Form) -> Observation {
        let values = values.iter();
        Observation {
            form,
            values: values
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            ..Observation::default()
        }
    }

    #[test]
    fn a_count_is_known_to_one_request_per_connection() {
        let known = run(&[("connections", 10.0), ("requests", 200.0)], Form::Saved);
        for name in ["requests/s", "requests", "bytes"] {
            assert_eq!(known.resolution(&Metric::named(name)), 0.05, "{name}");
        }
        let few = run(&[("connections", 10.0), ("requests", 4.0)], Form::Saved);
        assert_eq!(few.resolution(&Metric::named("requests/s")), 1.0);
        let unknown = run(&[("requests", 200.0)], Form::Table);
        assert_eq!(unknown.resolution(&Metric::named("requests/s")), 0.0);
        assert_eq!(known.resolution(&Metric::named("TcpExt.ListenDrops")), 0.0);
    }

    #[test]
    fn the_connections_that_a_text_notes_count_too() {
        let part = crate::LoadPart::of_option(OptionName::CONNECTIONS, OptionValue::Count(400));
        let noted = Observation {
            noted_load: vec![part],
            ..run(&[("requests", 16_000.0)], Form::Text)
        };
        assert_eq!(noted.resolution(&Metric::named("requests/s")), 0.025);
    }

    #[test]
    fn a_time_is_known_to_a_bucket_or_to_its_decimals() {
        let of = |form, time_us| {
            let run = run(&[("latency_p99_us", time_us)], form);
            run.resolution(&Metric::named("p99"))
        };
        assert_eq!(of(Form::Saved, 1_234.0), Histogram::RESOLUTION);
        assert!((of(Form::Text, 1_000.0) - 0.0051).abs() < 1e-9);
        assert_eq!(of(Form::Text, 0.0), 0.0);
    }
}
