//! The profile of a server: what differs while slow requests are in flight.

use plan::readable::{count, counted, time_ns};
use presentation::tables::{self, columns, known, toned, toned_if};
use presentation::{Block, TableBlock, TableCell, Tone, words};

use super::flames::{self, Samples};
use crate::parts::PartFinding;
use crate::{
    FunctionShare, Profile, ProfileComparison, ProfileDifference, RunResult, ShareByTime,
    ThreadState,
};

/// A line of text names no more functions.
const FUNCTIONS_IN_TEXT: usize = 3;

/// A table has no more functions.
const ROWS_MAX: usize = 25;

/// What threads do, as the text and the page call it.
fn state(what: ThreadState) -> &'static str {
    match what {
        ThreadState::OnCpu => "on a CPU",
        ThreadState::RunQueueWait => "waiting for a CPU",
        ThreadState::NotOnCpu => "not on a CPU",
        ThreadState::CpuPressure => "CPU pressure",
        ThreadState::MemoryPressure => "memory pressure",
        ThreadState::IoPressure => "I/O pressure",
    }
}

/// What is before each line of the text.
const NAME: &str = "server profile";

/// Lines for the text.
pub(super) fn notes(result: &RunResult) -> Vec<String> {
    let lines = lines(result).into_iter();
    lines.map(|line| format!("{NAME}: {line}")).collect()
}

/// A line about the samples, one about the functions and one about the threads, and one for each
/// failure.
pub(in crate::parts) fn lines(result: &RunResult) -> Vec<String> {
    let Some(profile) = &result.profile else {
        return Vec::new();
    };
    // Nothing was sampled, and the notes say why.
    if profile.processes == 0 && !profile.notes.is_empty() {
        return profile.notes.clone();
    }
    let mut lines = vec![
        summary(profile, result.window.duration_ns),
        functions_line(profile),
    ];
    lines.extend(threads_line(profile));
    lines.extend(losses(profile));
    lines.extend(profile.notes.iter().cloned());
    lines
}

/// What was sampled, and what of it was slow time.
fn summary(profile: &Profile, window_ns: u64) -> String {
    let slow = &profile.slow;
    let of_slow = match slow.requests {
        0 => String::new(),
        requests => format!(
            "; slow time (one of {} of {} or more in flight) is {} of {} and has {}",
            counted(requests, "request"),
            time_ns(slow.shortest_ns),
            time_ns(slow.time_ns),
            time_ns(window_ns),
            counted(slow.samples, "sample"),
        ),
    };
    let host = profile.host.as_ref().map(|host| {
        let bound = profile.clock_bound_ns.map(time_ns);
        let known = bound.map(|bound| format!(" (clock known to within {bound})"));
        format!("host {host}{}: ", known.unwrap_or_default())
    });
    format!(
        "{}{}: {}, {}, {}{of_slow}",
        host.unwrap_or_default(),
        profile.target,
        counted(profile.samples, "sample"),
        counted(u64::from(profile.threads), "thread"),
        match profile.processes {
            1 => "1 process".to_owned(),
            processes => format!("{} processes", count(u64::from(processes))),
        }
    )
}

/// Which functions differ, or why that is not known.
fn functions_line(profile: &Profile) -> String {
    let (blocks, shows) = match profile.comparison {
        ProfileComparison::Compared { blocks, shows, .. } => (blocks, shows),
        undecided => {
            return format!("functions: {}", why_undecided(undecided));
        }
    };
    let found = profile
        .functions
        .iter()
        .filter_map(|row| Some((row, larger(row)?)));
    let found: Vec<String> = found
        .take(FUNCTIONS_IN_TEXT)
        .map(|(row, found)| format!("{} {}", row.name, points(&found)))
        .collect();
    if found.is_empty() {
        format!(
            "no share of the samples differs significantly in slow time ({}){}",
            counted(blocks, "block"),
            what_would_show(shows)
        )
    } else {
        format!(
            "shares of the samples in slow time minus other time, percentage points: {}",
            found.join("; ")
        )
    }
}

/// How large a difference has to be, so that it is found in most runs like this one.
fn what_would_show(shows: Option<f64>) -> String {
    match shows {
        None => String::new(),
        Some(share) if share < 1.0 => format!(
            "; a difference of {} points or more would show",
            words::number((share * 100.0).ceil())
        ),
        Some(_) => "; with so few samples no difference would show (a longer run has more)".into(),
    }
}

/// Why functions were not compared.
fn why_undecided(comparison: ProfileComparison) -> String {
    match comparison {
        ProfileComparison::NoSlowRequests => "no slow requests to compare with".to_owned(),
        ProfileComparison::AlwaysSlow => {
            "undecided: a slow request was in flight all the time, so there is nothing to compare \
             with"
                .to_owned()
        }
        ProfileComparison::TooFew {
            slow_samples,
            blocks,
        } => format!(
            "undecided: {} in slow time, and {} of time with both, are too few (a longer run has \
             more)",
            counted(slow_samples, "sample"),
            counted(blocks, "block"),
        ),
        ProfileComparison::Compared { .. } => "compared".to_owned(),
    }
}

/// What threads do more or less of in slow time.
fn threads_line(profile: &Profile) -> Option<String> {
    let found = profile.times.iter().filter_map(|row| {
        let found = row.per_sec.found()?;
        Some(format!("{} {}", state(row.what), seconds(&found)))
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| {
        format!(
            "seconds per second in slow time minus other time: {}",
            found.join("; ")
        )
    })
}

/// A line about samples that are missing or incomplete, if these are many.
fn losses(profile: &Profile) -> Option<String> {
    let parts = [
        (profile.lost, "lost by the kernel"),
        (profile.dropped, "left out because there were too many"),
        (
            // A few samples of every program are of its start or its end.
            if profile.incomplete * 20 > profile.samples {
                profile.incomplete
            } else {
                0
            },
            "without their outermost functions",
        ),
    ];
    let parts = parts.iter().filter(|(samples, _)| *samples > 0);
    let parts: Vec<String> = parts
        .map(|(samples, what)| format!("{} {what}", counted(*samples, "sample")))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The larger of the differences of a function that are more than chance.
fn larger(row: &FunctionShare) -> Option<ProfileDifference> {
    let found = [row.own.found(), row.total.found()];
    let found = found.into_iter().flatten();
    found.max_by(|one, other| one.difference.abs().total_cmp(&other.difference.abs()))
}

/// `+52 (48 to 56)`, in percentage points.
fn points(found: &ProfileDifference) -> String {
    with_interval(found, |share| (share * 1000.0).round() / 10.0)
}

/// `+0.91 (0.85 to 0.97)`, in seconds per second.
fn seconds(found: &ProfileDifference) -> String {
    with_interval(found, |seconds| (seconds * 1000.0).round() / 1000.0)
}

fn with_interval(found: &ProfileDifference, rounded: fn(f64) -> f64) -> String {
    let ends = [found.difference, found.low, found.high].map(rounded);
    let sign = if ends[0] > 0.0 { "+" } else { "" };
    // Without the sign of a zero.
    let [difference, low, high] = ends.map(|end| words::number(end + 0.0));
    format!("{sign}{difference} ({low} to {high})")
}

fn difference_cell(
    difference: Option<ProfileDifference>,
    show: fn(&ProfileDifference) -> String,
) -> TableCell {
    let Some(found) = difference else {
        return tables::unknown();
    };
    let cell = tables::value(show(&found), found.difference);
    if found.is_significant() {
        toned_if(found.difference > 0.0, Tone::Warning, cell)
    } else {
        toned(cell, Tone::Undecided)
    }
}

/// The functions with their shares; without rows if a run has no profile.
pub(super) fn functions(result: &RunResult) -> TableBlock {
    let share = |share: Option<f64>| known(share, words::percent);
    let rows = result.profile.iter().flat_map(|profile| &profile.functions);
    let rows = rows.take(ROWS_MAX).map(|row| {
        let cells = |part: &ShareByTime| {
            [
                share(part.slow),
                share(part.other),
                difference_cell(part.difference, points),
            ]
        };
        let mut all = vec![tables::text(row.name.as_str())];
        all.extend(cells(&row.own));
        all.extend(cells(&row.total));
        all
    });
    let heads = [
        "Itself, slow",
        "Itself, other",
        "Itself, difference in points",
        "With callees, slow",
        "With callees, other",
        "With callees, difference in points",
    ];
    TableBlock::new(
        "Functions by their share of the samples",
        columns(&["Function"], &heads),
        rows,
    )
}

/// What threads did; without rows if a run has no profile.
pub(super) fn times(result: &RunResult) -> TableBlock {
    let rows = result.profile.iter().flat_map(|profile| &profile.times);
    let rows = rows.map(|row| {
        let per_sec = |value: Option<f64>| {
            known(value, |value| {
                words::number((value * 1000.0).round() / 1000.0)
            })
        };
        vec![
            tables::text(words::capital(state(row.what))),
            per_sec(row.per_sec.slow),
            per_sec(row.per_sec.other),
            difference_cell(row.per_sec.difference, seconds),
        ]
    });
    let heads = ["Slow time, s/s", "Other time, s/s", "Difference, s/s"];
    TableBlock::new(
        "Threads of the server, seconds per second",
        columns(&["Threads"], &heads),
        rows,
    )
}

/// The first of [`lines`] with the others as its evidence.
pub(super) fn finding(result: &RunResult) -> Option<PartFinding> {
    let is_decided = matches!(
        result.profile.as_ref()?.comparison,
        ProfileComparison::Compared { .. } | ProfileComparison::NoSlowRequests
    );
    let mut lines = lines(result).into_iter();
    let first = lines.next()?;
    Some(PartFinding {
        tone: if is_decided {
            Tone::Neutral
        } else {
            Tone::Warning
        },
        text: words::capital(&first),
        details: lines.collect(),
    })
}

/// Flame graphs of slow time, of the rest, and of their difference.
pub(super) fn graphs(result: &RunResult) -> Vec<Block> {
    let Some(profile) = &result.profile else {
        return Vec::new();
    };
    let kinds: &[Samples] = match profile.slow.samples {
        0 => &[Samples::All],
        _ => &[Samples::Difference, Samples::Slow, Samples::Other],
    };
    let graphs = kinds
        .iter()
        .filter_map(|kind| flames::graph(profile, *kind));
    graphs.map(Block::Flames).collect()
}

#[cfg(test)]
mod tests {
    use crate::{SlowTime, TimeShare, Window};

    use super::*;

    fn found(difference: f64, p_value: f64) -> ShareByTime {
        ShareByTime {
            slow: Some(0.6),
            other: Some(0.1),
            difference: Some(ProfileDifference {
                difference,
                low: difference - 0.04,
                high: difference + 0.04,
                p_value,
            }),
        }
    }

    fn profile() -> Profile {
        Profile {
            target: "unit web.service".to_owned(),
            processes: 2,
            threads: 5,
            samples: 1_234,
            lost: 3,
            incomplete: 2,
            slow: SlowTime {
                requests: 100,
                shortest_ns: 12_000_000,
                time_ns: 1_200_000_000,
                samples: 130,
            },
            comparison: ProfileComparison::Compared {
                blocks: 9,
                block_ns: 1_000_000_000,
                shows: Some(0.396),
            },
            functions: vec![
                FunctionShare {
                    name: "slow".to_owned(),
                    own: found(0.5, 0.001),
                    total: found(0.52, 0.001),
                },
                FunctionShare {
                    name: "other".to_owned(),
                    own: found(0.1, 0.2),
                    total: ShareByTime::default(),
                },
            ],
            times: vec![TimeShare {
                what: ThreadState::NotOnCpu,
                per_sec: found(0.91, 0.01),
            }],
            notes: vec!["functions of the kernel are missing".to_owned()],
            ..Profile::default()
        }
    }

    /// A run of ten seconds with this profile.
    fn result(profile: Profile) -> RunResult {
        let target = plan::Target::parse("http://127.0.0.1/").expect("a URL");
        let window = Window {
            duration_ns: 10_000_000_000,
            ..Window::default()
        };
        RunResult {
            profile: Some(profile),
            ..RunResult::new(plan::RunPlan::new(target), window)
        }
    }

    #[test]
    fn a_profile_is_a_few_lines() {
        let expected = [
            "server profile: unit web.service: 1,234 samples, 5 threads, 2 processes; slow time \
             (one of 100 requests of 12 ms or more in flight) is 1.2 s of 10 s and has 130 samples",
            "server profile: shares of the samples in slow time minus other time, \
             percentage points: slow +52 (48 to 56)",
            "server profile: seconds per second in slow time minus other time: \
             not on a CPU +0.91 (0.87 to 0.95)",
            "server profile: 3 samples lost by the kernel",
            "server profile: functions of the kernel are missing",
        ];
        assert_eq!(notes(&result(profile())), expected);
    }

    #[test]
    fn the_machine_of_a_server_elsewhere_is_named_with_the_bound_of_its_clock() {
        let elsewhere = Profile {
            host: Some("web1".to_owned()),
            clock_bound_ns: Some(85_000),
            ..profile()
        };
        let line = summary(&elsewhere, 10_000_000_000);
        let expected = "host web1 (clock known to within 85 us): unit web.service: 1,234 samples";
        assert!(line.starts_with(expected), "{line}");
    }

    #[test]
    fn without_a_profile_only_the_reason_is_said() {
        let lost = Profile {
            notes: vec!["no profile: host web1: the link is lost".to_owned()],
            ..Profile::default()
        };
        assert_eq!(lines(&result(lost.clone())), lost.notes);
    }

    #[test]
    fn what_is_undecided_or_the_same_is_said() {
        for (comparison, part) in [
            (ProfileComparison::NoSlowRequests, "no slow requests"),
            (ProfileComparison::AlwaysSlow, "in flight all the time"),
            (
                ProfileComparison::TooFew {
                    slow_samples: 1,
                    blocks: 3,
                },
                "1 sample in slow time, and 3 blocks of time with both, are too few",
            ),
        ] {
            let profile = Profile {
                comparison,
                ..profile()
            };
            let note = functions_line(&profile);
            assert!(note.contains(part), "{note}");
        }
        let mut same = profile();
        same.functions.remove(0);
        let note = functions_line(&same);
        assert_eq!(
            note,
            "no share of the samples differs significantly in slow time (9 blocks); a difference \
             of 40 points or more would show"
        );
        for (shows, end) in [
            (None, "(9 blocks)"),
            (
                Some(1.2),
                "no difference would show (a longer run has more)",
            ),
        ] {
            same.comparison = ProfileComparison::Compared {
                blocks: 9,
                block_ns: 1_000_000_000,
                shows,
            };
            let note = functions_line(&same);
            assert!(note.ends_with(end), "{note}");
        }
    }
}
