//! Stalls, slow periods and bursts of errors of a run, in sentences.

use judging::episodes::{Arrived, Course, Episode, Stall, episodes};
use presentation::tables::finding;
use presentation::{Block, Tone, words};
use results::is_thin;
use results::{Histogram, RunResult};

/// With more episodes of one kind, a single sentence counts them.
const LISTED_MAX: usize = 3;

/// A percentile is the effect of stalls if it is this number of times the median...
const EFFECT_RATIO: f64 = 3.0;
/// ... and this share of the longest stall.
const EFFECT_SHARE: f64 = 0.1;

/// `None` for a steady run.
pub(super) fn finding_of(result: &RunResult, latency: &Histogram) -> Option<Block> {
    let course = Course::of(result);
    let end_s = course.steps.len() as f64 * course.step_s;
    let sentences = sentences(&episodes(&course), latency, end_s);
    let (first, others) = sentences.split_first()?;
    Some(finding(Tone::Warning, first.clone(), others.to_vec()))
}

fn sentences(episodes: &[Episode], latency: &Histogram, end_s: f64) -> Vec<String> {
    let mut found: Vec<(f64, String)> = Vec::new();
    let stalls: Vec<Stall> = episodes
        .iter()
        .filter_map(|episode| match episode {
            Episode::Stall(stall) => Some(*stall),
            _ => None,
        })
        .collect();
    if let Some(first) = stalls.first() {
        found.push((first.begin_s, stalled(&stalls, latency, end_s)));
    }
    let slow = episodes
        .iter()
        .filter(|episode| matches!(episode, Episode::Slow { .. }));
    found.extend(several(slow.copied().collect(), "slow periods"));
    let errors = episodes
        .iter()
        .filter(|episode| matches!(episode, Episode::Errors { .. }));
    found.extend(several(errors.copied().collect(), "bursts of errors"));
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().map(|(_, sentence)| sentence).collect()
}

/// `from 8.0 to 9.5 s`
fn from_to(begin_s: f64, end_s: f64) -> String {
    format!("from {begin_s:.1} to {end_s:.1} s")
}

pub(super) fn span(stall: &Stall) -> String {
    from_to(stall.begin_s, stall.end_s)
}

fn stalled(stalls: &[Stall], latency: &Histogram, window_s: f64) -> String {
    let length_s = |stall: &Stall| stall.end_s - stall.begin_s;
    let mut text = match stalls {
        [stall] => {
            let when = if stall.end_s >= window_s {
                format!("from {:.1} s to the end of the run", stall.begin_s)
            } else {
                span(stall)
            };
            let unit = match stall.what {
                Arrived::Responses => "response",
                Arrived::Events => "event",
            };
            let what = match stall.arrived {
                0 => format!("no {unit} came"),
                arrived => format!("only {} came", words::counted(arrived, unit)),
            };
            let slow_until = stall.slow_until_s.map_or_else(String::new, |until_s| {
                format!(", and responses were slow until {until_s:.0} s")
            });
            format!("Stalled {when}: {what}{slow_until}")
        }
        few if few.len() <= LISTED_MAX => {
            let whens: Vec<String> = few.iter().map(span).collect();
            format!("Stalled {}", words::list(&whens))
        }
        many => {
            let longest = many
                .iter()
                .max_by(|a, b| length_s(a).total_cmp(&length_s(b)));
            let longest = longest.map_or_else(String::new, |stall| {
                format!(", the longest {}", span(stall))
            });
            let all_s: f64 = many.iter().map(length_s).sum();
            format!(
                "Stalled {} times, {all_s:.1} s in total{longest}",
                many.len()
            )
        }
    };
    let longest_s = stalls.iter().map(length_s).fold(0.0, f64::max);
    text += &effect(latency, longest_s);
    text.push('.');
    text
}

/// `; 10 % of requests took at least 410 ms`, by the lowest percentile that the stalls affect.
fn effect(latency: &Histogram, longest_s: f64) -> String {
    let count = latency.count();
    let median_ns = latency.value_at_percentile(50.0) as f64;
    let least_ns = (median_ns * EFFECT_RATIO).max(longest_s * 1e9 * EFFECT_SHARE);
    for percent in [75.0, 90.0, 95.0, 99.0, 99.9, 99.99] {
        if is_thin(percent, count) {
            break;
        }
        let value_ns = latency.value_at_percentile(percent);
        if value_ns as f64 >= least_ns {
            let share = words::percent((100.0 - percent) / 100.0);
            return format!(
                "; {share} of requests took at least {}",
                words::time_ns(value_ns)
            );
        }
    }
    match latency.max_ns() {
        Some(max_ns) => format!("; the slowest request took {}", words::time_ns(max_ns)),
        None => String::new(),
    }
}

fn several(episodes: Vec<Episode>, kind: &str) -> Vec<(f64, String)> {
    if episodes.len() <= LISTED_MAX {
        let sentence = |episode: &Episode| (episode.begin_s(), format!("{}.", one(episode)));
        return episodes.iter().map(sentence).collect();
    }
    let length_s = |episode: &Episode| match episode {
        Episode::Stall(stall) => stall.end_s - stall.begin_s,
        Episode::Slow { begin_s, end_s, .. } | Episode::Errors { begin_s, end_s, .. } => {
            end_s - begin_s
        }
    };
    let longest = episodes
        .iter()
        .max_by(|a, b| length_s(a).total_cmp(&length_s(b)));
    let longest = longest.map(|episode| {
        let text = format!("{} {kind}. The longest: {}.", episodes.len(), one(episode));
        (episode.begin_s(), text)
    });
    longest.into_iter().collect()
}

fn one(episode: &Episode) -> String {
    match episode {
        Episode::Stall(stall) => format!("Stalled {}", span(stall)),
        Episode::Slow {
            begin_s,
            end_s,
            above_us,
            share,
            usual_share,
        } => format!(
            "Slow {}: {} of the responses took more than {}, otherwise {}",
            from_to(*begin_s, *end_s),
            words::percent(*share),
            words::time_us(*above_us),
            words::percent(*usual_share)
        ),
        Episode::Errors {
            begin_s,
            end_s,
            errors,
            answered,
        } => format!(
            "Errors {}: {} and {}",
            from_to(*begin_s, *end_s),
            words::counted(*errors, "error"),
            words::counted(*answered, "response")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stall(begin_s: f64, end_s: f64) -> Episode {
        Episode::Stall(Stall {
            begin_s,
            end_s,
            arrived: 0,
            what: Arrived::Responses,
            slow_until_s: None,
        })
    }

    #[test]
    fn a_sentence_about_a_stall_has_its_time_and_its_effect_on_latency() {
        let mut latency = Histogram::new();
        latency.record_n(3_000_000, 8_900);
        latency.record_n(456_000_000, 1_100);
        assert_eq!(
            sentences(&[stall(8.0, 9.5)], &latency, 15.0),
            ["Stalled from 8.0 to 9.5 s: no response came; 10 % of requests took at least 456 ms."]
        );
        assert_eq!(
            sentences(&[stall(13.5, 15.0)], &latency, 15.0),
            [
                "Stalled from 13.5 s to the end of the run: no response came; 10 % of requests \
                 took at least 456 ms."
            ]
        );
        let many: Vec<Episode> = (0..5)
            .map(|at| stall(f64::from(at), f64::from(at) + 0.2 + 0.1 * f64::from(at)))
            .collect();
        assert_eq!(
            sentences(&many, &Histogram::new(), 15.0),
            ["Stalled 5 times, 2.0 s in total, the longest from 4.0 to 4.6 s."]
        );
    }

    #[test]
    fn sentences_are_in_the_order_of_time() {
        let found = sentences(
            &[
                Episode::Slow {
                    begin_s: 4.0,
                    end_s: 6.0,
                    above_us: 9_000.0,
                    share: 0.42,
                    usual_share: 0.001,
                },
                stall(1.0, 2.0),
                Episode::Errors {
                    begin_s: 2.0,
                    end_s: 2.1,
                    errors: 32,
                    answered: 1,
                },
            ],
            &Histogram::new(),
            15.0,
        );
        assert_eq!(
            found,
            [
                "Stalled from 1.0 to 2.0 s: no response came.",
                "Errors from 2.0 to 2.1 s: 32 errors and 1 response.",
                "Slow from 4.0 to 6.0 s: 42 % of the responses took more than 9 ms, otherwise \
                 0.1 %.",
            ]
        );
        assert!(sentences(&[], &Histogram::new(), 15.0).is_empty());
    }
}
