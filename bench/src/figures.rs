//! Samples, medians, and whether targets are met.

use serde::Serialize;

use crate::machine::Machine;
use crate::rows::Figure;
use crate::truth::timing::TimingResult;

/// The document of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Measurement {
    /// The machine and the programs.
    pub(crate) machine: Machine,
    /// One result for each row that was measured.
    pub(crate) rows: Vec<RowResult>,
    /// Schedule accuracy of wrkbench; empty if it was not measured.
    pub(crate) timing: Vec<TimingResult>,
}

/// One row: all clients on the same work.
#[derive(Debug, Serialize)]
pub(crate) struct RowResult {
    /// The row's short name.
    pub(crate) name: &'static str,
    /// What the table prints.
    pub(crate) title: String,
    /// Name of the server that answered.
    pub(crate) server: String,
    /// The client that the others are compared with.
    pub(crate) baseline: &'static str,
    /// The target, and the metric that it is about.
    pub(crate) figure: Figure,
    /// Remarks, for instance the cipher.
    pub(crate) notes: Vec<String>,
    /// The baseline first, if it is installed.
    pub(crate) clients: Vec<ClientResult>,
}

/// One client of a row.
#[derive(Debug, Serialize)]
pub(crate) struct ClientResult {
    /// Name of the tool, with its backend.
    pub(crate) label: String,
    /// In order of measurement.
    pub(crate) samples: Vec<Sample>,
    /// Median over the samples.
    pub(crate) median: Option<Medians>,
    /// Median over the repetitions of the ratio to the baseline's run of the same repetition.
    pub(crate) ratio_to_baseline: Option<Medians>,
    /// The cost of a display; only in the row about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<Cost>,
}

/// The figures of one run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    /// Requests answered per second, as the tool printed it.
    pub(crate) requests_per_sec: f64,
    /// User and system time of the client over requests answered, in microseconds.
    pub(crate) cpu_us_per_request: f64,
    /// Peak resident memory of the client, in kB.
    pub(crate) peak_rss_kb: f64,
    /// Share of the machine's CPU time used by other programs, 0..=1.
    pub(crate) others_share: f64,
    /// CPU time of the client's threads other than workers over the duration of the run; only in
    /// the row about displays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) other_threads_share: Option<f64>,
    /// Error lines of the report.
    pub(crate) errors: Vec<String>,
}

/// The cost of a display compared with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Confidence interval of the median ratio of requests per second; needs six repetitions.
    pub(crate) requests_ratio: Option<RatioInterval>,
    /// Median difference to the baseline of the CPU share of threads other than workers.
    pub(crate) other_threads_share: f64,
}

/// A confidence interval of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct RatioInterval {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The confidence that is reached, 0..=1; at least [`CONFIDENCE`].
    pub(crate) confidence: f64,
}

/// The confidence that intervals are asked for.
const CONFIDENCE: f64 = 0.95;

/// Medians of all metrics, in their units or as ratios.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Medians {
    pub(crate) requests_per_sec: f64,
    /// CPU time of the client per request, in microseconds or as a ratio.
    pub(crate) cpu_us_per_request: f64,
    /// Peak resident memory of the client, in kB or as a ratio.
    pub(crate) peak_rss_kb: f64,
}

impl ClientResult {
    /// Summarizes samples; `baseline` has the samples of wrk or wrk2 for the same repetitions.
    pub(crate) fn new(label: String, samples: Vec<Sample>, baseline: Option<&[Sample]>) -> Self {
        let median = Medians::of(&samples, |sample, measure| Some(measure(sample)));
        let ratio_to_baseline = baseline.and_then(|baseline| {
            let pairs: Vec<_> = samples.iter().zip(baseline).collect();
            Medians::of(&pairs, |(ours, theirs), measure| {
                Some(measure(ours) / measure(theirs)).filter(|ratio| ratio.is_finite())
            })
        });
        Self {
            cost: baseline.and_then(|baseline| Cost::of(&samples, baseline)),
            label,
            samples,
            median,
            ratio_to_baseline,
        }
    }

    /// Whether the target is met; `None` without a baseline.
    pub(crate) fn meets(&self, figure: Figure) -> Option<bool> {
        let ratio = self.ratio_to_baseline?;
        match figure {
            Figure::CpuPerRequest(at_most) => Some(ratio.cpu_us_per_request <= at_most),
            Figure::ResidentMemory(at_most) => Some(ratio.peak_rss_kb <= at_most),
            Figure::RequestsLost(at_most) => {
                let cost = self.cost?;
                let is_slower = cost
                    .requests_ratio
                    .is_some_and(|ends| 1.0 - ends.high > at_most);
                Some(cost.other_threads_share <= at_most && !is_slower)
            }
        }
    }
}

impl Cost {
    /// Compares runs of the same repetitions; `None` if threads were not measured.
    fn of(samples: &[Sample], baseline: &[Sample]) -> Option<Self> {
        let pairs = || samples.iter().zip(baseline);
        let shares = pairs()
            .map(|(ours, theirs)| Some(ours.other_threads_share? - theirs.other_threads_share?));
        let shares = shares.collect::<Option<Vec<_>>>()?;
        let ratios: Vec<f64> = pairs()
            .map(|(ours, theirs)| ours.requests_per_sec / theirs.requests_per_sec)
            .collect();
        let ends = |(interval, confidence): (stats::ConfidenceInterval, f64)| RatioInterval {
            low: interval.low,
            high: interval.high,
            confidence,
        };
        Some(Self {
            requests_ratio: stats::median_interval(&ratios, CONFIDENCE).map(ends),
            other_threads_share: stats::median(&shares)?,
        })
    }
}

/// Selects a metric of a sample.
type Measure = fn(&Sample) -> f64;

impl Medians {
    /// Medians over items, without those for which `value` returns `None`.
    fn of<T>(items: &[T], value: impl Fn(&T, Measure) -> Option<f64>) -> Option<Self> {
        let over = |measure: Measure| {
            let values = items.iter().filter_map(|item| value(item, measure));
            stats::median(&values.collect::<Vec<f64>>())
        };
        Some(Self {
            requests_per_sec: over(|sample| sample.requests_per_sec)?,
            cpu_us_per_request: over(|sample| sample.cpu_us_per_request)?,
            peak_rss_kb: over(|sample| sample.peak_rss_kb)?,
        })
    }
}

/// The largest share of the machine used by other programs in any run of a row, 0..=1.
pub(crate) fn others_share(clients: &[ClientResult]) -> f64 {
    let samples = clients.iter().flat_map(|client| &client.samples);
    samples
        .map(|sample| sample.others_share)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(requests_per_sec: f64, cpu_us_per_request: f64, peak_rss_kb: f64) -> Sample {
        Sample {
            requests_per_sec,
            cpu_us_per_request,
            peak_rss_kb,
            others_share: 0.0,
            other_threads_share: None,
            errors: Vec::new(),
        }
    }

    fn watched(requests_per_sec: f64, other_threads_share: f64) -> Sample {
        Sample {
            other_threads_share: Some(other_threads_share),
            ..sample(requests_per_sec, 1.0, 1.0)
        }
    }

    /// One repetition for each rate, each with a baseline of 100 requests per second.
    fn cost_of_being_watched(rates: &[f64], share: f64) -> ClientResult {
        let quiet = vec![watched(100.0, 0.02); rates.len()];
        let seen = rates
            .iter()
            .map(|rate| watched(*rate, 0.02 + share))
            .collect();
        ClientResult::new("seen".into(), seen, Some(&quiet))
    }

    #[test]
    fn ratios_are_taken_within_a_repetition_so_that_drift_cancels() {
        // The machine gets slower by half each time; wrkbench always costs half of wrk.
        let theirs = [
            sample(8.0, 1.0, 10.0),
            sample(4.0, 2.0, 10.0),
            sample(2.0, 4.0, 10.0),
        ];
        let ours = vec![
            sample(16.0, 0.5, 5.0),
            sample(8.0, 1.0, 5.0),
            sample(4.0, 2.0, 5.0),
        ];
        let result = ClientResult::new("ours".into(), ours, Some(&theirs));
        let ratio = result.ratio_to_baseline.unwrap();
        assert_eq!(
            ratio,
            Medians {
                requests_per_sec: 2.0,
                cpu_us_per_request: 0.5,
                peak_rss_kb: 0.5
            }
        );
        assert_eq!(result.meets(Figure::CpuPerRequest(0.5)), Some(true));
        assert_eq!(result.meets(Figure::CpuPerRequest(0.49)), Some(false));
        assert_eq!(result.meets(Figure::ResidentMemory(0.33)), Some(false));
    }

    #[test]
    fn a_cost_is_what_other_threads_take_unless_the_rates_say_that_it_is_more() {
        let meets = |rates: &[f64], share| {
            cost_of_being_watched(rates, share).meets(Figure::RequestsLost(0.01))
        };
        let noisy = [90.5, 99.6, 107.0, 100.0, 99.9, 99.7];
        assert_eq!(meets(&noisy, 0.009), Some(true));
        assert_eq!(meets(&noisy, 0.011), Some(false));
        let slower = [98.5, 97.6, 98.0, 96.0, 98.9, 98.7];
        assert_eq!(meets(&slower, 0.009), Some(false));
        // The minimum and maximum of five values contain the median with 94 % confidence.
        assert_eq!(meets(&slower[..5], 0.009), Some(true));
    }

    #[test]
    fn a_cost_has_an_interval_and_what_other_threads_take() {
        let cost = cost_of_being_watched(&[98.5, 99.6, 101.0, 100.0, 99.9, 99.7], 0.005)
            .cost
            .unwrap();
        let expected = RatioInterval {
            low: 0.985,
            high: 1.01,
            confidence: 0.96875,
        };
        assert_eq!(cost.requests_ratio, Some(expected));
        assert!((cost.other_threads_share - 0.005).abs() < 1e-9);
        let unwatched = vec![sample(1.0, 1.0, 1.0); 6];
        let result = ClientResult::new("ours".into(), unwatched.clone(), Some(&unwatched));
        assert_eq!(result.cost, None);
    }

    #[test]
    fn without_wrk_there_is_no_ratio_and_no_verdict() {
        let result = ClientResult::new("ours".into(), vec![sample(1.0, 1.0, 1.0)], None);
        assert_eq!(result.median.unwrap().requests_per_sec, 1.0);
        assert_eq!(result.ratio_to_baseline, None);
        assert_eq!(result.meets(Figure::CpuPerRequest(1.0)), None);
    }

    #[test]
    fn a_baseline_of_zero_gives_no_ratio() {
        let theirs = [sample(1.0, 0.0, 1.0)];
        let result = ClientResult::new("ours".into(), vec![sample(1.0, 1.0, 1.0)], Some(&theirs));
        assert_eq!(result.ratio_to_baseline, None);
    }
}
