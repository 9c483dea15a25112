//! The figures of a run in progress, by the names of the registry of metrics.

use std::collections::BTreeMap;

use plan::RunPlan;
use results::metric::{self, Statistic, Time};
use results::snapshot::{Snapshot, Stage};
use results::{Counted, Errors, Histogram, Recording, RunResult, Statuses};
use serde::{Serialize, Serializer};

/// The percentiles of times in every second.
const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];

/// Values by the name of their metric.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Figures(pub(crate) BTreeMap<String, f64>);

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, number(*value))))
    }
}

/// Whole numbers have no decimals.
fn number(value: f64) -> serde_json::Value {
    /// Larger whole numbers are not exact (IEEE 754, binary64).
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&value) {
        serde_json::Value::from(value as u64)
    } else {
        serde_json::Value::from(value)
    }
}

impl Figures {
    /// All figures of a finished run.
    pub(crate) fn of_result(result: &RunResult) -> Self {
        Self(metric::values(result))
    }

    /// Adds statistics of the times that a recording has, and of this latency.
    fn add_times(&mut self, recording: &Recording, latency: &Histogram) {
        self.add_time(Time::LATENCY, latency);
        for time in Time::all().filter(|time| *time != Time::LATENCY) {
            if let Some(samples) = time.samples(recording) {
                self.add_time(time, samples.all());
            }
        }
    }

    fn add_time(&mut self, time: Time, samples: &Histogram) {
        if samples.is_empty() {
            return;
        }
        let percentiles = samples.values_at_percentiles(&PERCENTILES);
        let percentiles = PERCENTILES.into_iter().zip(percentiles);
        let percentiles = percentiles.map(|(percent, ns)| (Statistic::Percentile(percent), ns));
        let largest = samples.max_ns().map(|ns| (Statistic::Max, ns));
        for (statistic, ns) in percentiles.chain(largest) {
            self.0.insert(statistic.of_time(time), ns as f64 / 1e3);
        }
    }
}

/// Makes the figures of a run from its snapshots.
pub(crate) struct RunFigures {
    plan: RunPlan,
    /// Statuses and errors of the window when the previous interval ended.
    before: (Statuses, Errors),
}

/// The figures of a second.
pub(crate) struct SecondFigures {
    /// Of the interval since the previous snapshot.
    pub(crate) interval: Figures,
    /// Of the window so far; `None` during the warm-up.
    pub(crate) total: Option<Figures>,
}

impl RunFigures {
    pub(crate) fn new(plan: &RunPlan) -> Self {
        Self {
            plan: plan.clone(),
            before: Default::default(),
        }
    }

    /// Those of the latest snapshot.
    pub(crate) fn of_second(&mut self, snapshot: &Snapshot) -> SecondFigures {
        let interval = self.of_interval(snapshot);
        let total = match snapshot.stage {
            Stage::WarmingUp => None,
            Stage::Measuring => Some(self.of_window(snapshot)),
        };
        SecondFigures { interval, total }
    }

    fn of_interval(&mut self, snapshot: &Snapshot) -> Figures {
        let Snapshot {
            last,
            statuses,
            errors,
            ..
        } = snapshot;
        let (statuses_before, errors_before) = &self.before;
        let mut recording = Recording {
            statuses: statuses.since(statuses_before),
            errors: errors.since(errors_before),
            parts: last.parts.clone(),
            ..Recording::new()
        };
        recording.counters.answered = last.answered;
        recording.counters.bytes = last.bytes;
        let mut figures = self.figures(&recording, last.duration_ns, &last.latency);
        if snapshot.stage == Stage::WarmingUp {
            // Their kinds are not counted before the window.
            figures
                .0
                .insert(metric::ERRORS.to_owned(), last.errors as f64);
        }
        self.before = (statuses.clone(), errors.clone());
        figures
    }

    fn of_window(&self, snapshot: &Snapshot) -> Figures {
        let recording = Recording {
            counters: snapshot.counters,
            statuses: snapshot.statuses.clone(),
            errors: snapshot.errors.clone(),
            parts: snapshot.parts.clone(),
            ..Recording::new()
        };
        self.figures(&recording, snapshot.elapsed_ns, &snapshot.latency)
    }

    /// The figures of a recording, whose own latency is empty.
    fn figures(&self, recording: &Recording, duration_ns: u64, latency: &Histogram) -> Figures {
        let counted = Counted {
            plan: &self.plan,
            recording,
            duration_ns,
        };
        let mut figures = Figures(metric::counts_so_far(counted));
        figures.add_times(recording, latency);
        figures
    }
}

#[cfg(test)]
mod tests {
    use plan::Target;
    use results::snapshot::SnapshotInterval;
    use results::{Counters, ErrorKind, GoodRecording, LlmRecording, Metric};

    use super::*;

    fn figures() -> RunFigures {
        let target = Target::parse("http://127.0.0.1/").expect("a URL");
        RunFigures::new(&RunPlan::new(target))
    }

    /// A snapshot after some seconds with 100 responses each, one of them with status 500, and an
    /// error.
    fn snapshot(seconds: u64) -> Snapshot {
        let mut snapshot = Snapshot {
            stage: Stage::Measuring,
            elapsed_ns: seconds * 1_000_000_000,
            counters: Counters {
                sent: 101 * seconds,
                answered: 100 * seconds,
                bytes: 5_000 * seconds,
                ..Counters::default()
            },
            last: SnapshotInterval {
                duration_ns: 1_000_000_000,
                answered: 100,
                errors: 1,
                bytes: 5_000,
                ..SnapshotInterval::default()
            },
            ..Snapshot::default()
        };
        for _ in 0..seconds {
            (0..99).for_each(|_| snapshot.statuses.add(200));
            snapshot.statuses.add(500);
            snapshot.errors.add(ErrorKind::Reset, 1);
        }
        snapshot.latency.record_n(2_000_000, 100 * seconds);
        snapshot.last.latency.record_n(3_000_000, 100);
        snapshot
    }

    #[test]
    fn every_name_is_that_of_a_metric() {
        let mut snapshot = snapshot(1);
        let mut tokens = LlmRecording {
            output_tokens: 7,
            ..LlmRecording::default()
        };
        tokens.first_token.record(1);
        snapshot.parts.llm = Some(tokens);
        snapshot.parts.good = Some(GoodRecording {
            good: 99,
            bad: 1,
            undecided: 0,
            ..GoodRecording::default()
        });
        let second = figures().of_second(&snapshot);
        let total = second.total.expect("it is measured");
        for name in second.interval.0.keys().chain(total.0.keys()) {
            assert!(Metric::is_name(name), "{name}");
        }
        assert_eq!(total.0.get("output_tokens_per_sec"), Some(&7.0));
        assert_eq!(total.0.get("goodput"), Some(&99.0));
        assert!(total.0.contains_key("first_token_p99_us"), "{total:?}");
        // Not counted before the end.
        assert!(!total.0.contains_key("input_tokens_per_sec"), "{total:?}");
    }

    #[test]
    fn an_interval_has_what_came_since_the_previous_second() {
        let mut figures = figures();
        figures.of_second(&snapshot(2));
        let second = figures.of_second(&snapshot(3));
        let (interval, total) = (second.interval.0, second.total.expect("it is measured").0);
        let value = |of: &BTreeMap<String, f64>, name: &str| of.get(name).copied();
        for (name, of_interval, of_window) in [
            ("requests", 100.0, 300.0),
            ("requests_per_sec", 100.0, 100.0),
            ("bytes", 5_000.0, 15_000.0),
            ("errors", 1.0, 3.0),
            ("error_reset", 1.0, 3.0),
            ("status_200", 99.0, 297.0),
            ("statuses_over_399", 1.0, 3.0),
            ("latency_max_us", 3_000.0, 2_000.0),
        ] {
            assert_eq!(value(&interval, name), Some(of_interval), "{name}");
            assert_eq!(value(&total, name), Some(of_window), "{name}");
        }
    }

    #[test]
    fn the_warm_up_has_no_total_and_its_errors_no_kinds() {
        let mut warming_up = snapshot(1);
        warming_up.stage = Stage::WarmingUp;
        (warming_up.statuses, warming_up.errors) = Default::default();
        let second = figures().of_second(&warming_up);
        assert_eq!(second.total, None);
        assert_eq!(second.interval.0.get("errors"), Some(&1.0));
        assert!(!second.interval.0.contains_key("error_reset"));
    }

    #[test]
    fn whole_numbers_have_no_decimals_and_the_others_all_of_theirs() {
        let figures = Figures(BTreeMap::from([
            ("a".to_owned(), 12.0),
            ("b".to_owned(), 0.1),
            ("c".to_owned(), 1e300),
        ]));
        let text = serde_json::to_string(&figures).expect("numbers can be written");
        assert_eq!(text, r#"{"a":12,"b":0.1,"c":1e+300}"#);
    }
}
