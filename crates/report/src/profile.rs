//! The profile of a server: what differs while slow requests are in flight.

use plan::readable::{count, counted, time_ns};
use results::{
    FunctionShare, Profile, ProfileComparison, ProfileDifference, RunResult, ShareByTime,
    ThreadState,
};

use crate::page::tables::{self, columns, known, toned_if};
use crate::page::{TableBlock, TableCell, Tone, words};

/// A line of text names no more functions.
const FUNCTIONS_IN_TEXT: usize = 3;

/// A table has no more functions.
const ROWS_MAX: usize = 40;

/// What threads do, as the text and the page call it.
pub(crate) fn state(what: ThreadState) -> &'static str {
    match what {
        ThreadState::OnCpu => "on a CPU",
        ThreadState::RunQueueWait => "waiting for a CPU",
        ThreadState::NotOnCpu => "not on a CPU",
        ThreadState::CpuPressure => "CPU pressure",
        ThreadState::MemoryPressure => "memory pressure",
        ThreadState::IoPressure => "I/O pressure",
    }
}

/// A line about the samples, one about the functions and one about the threads, and one for each
/// failure.
pub(crate) fn notes(profile: &Profile, window_ns: u64) -> Vec<String> {
    let mut notes = vec![summary(profile, window_ns), functions_note(profile)];
    notes.extend(threads_note(profile));
    notes.extend(losses(profile));
    let failures = profile.notes.iter();
    notes.extend(failures.map(|failure| format!("server profile: {failure}")));
    notes
}

/// What was sampled, and what of it was slow time.
pub(crate) fn summary(profile: &Profile, window_ns: u64) -> String {
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
    format!(
        "server profile: {}: {}, {}, {}{of_slow}",
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
pub(crate) fn functions_note(profile: &Profile) -> String {
    let blocks = match profile.comparison {
        ProfileComparison::Compared { blocks, .. } => blocks,
        undecided => {
            return format!("server profile: functions: {}", why_undecided(undecided));
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
    match found.is_empty() {
        true => format!(
            "server profile: no share of the samples differs significantly in slow time ({})",
            counted(blocks, "block")
        ),
        false => format!(
            "server profile: shares of the samples in slow time minus other time: {}",
            found.join("; ")
        ),
    }
}

/// Why functions were not compared.
pub(crate) fn why_undecided(comparison: ProfileComparison) -> String {
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
fn threads_note(profile: &Profile) -> Option<String> {
    let found = profile.times.iter().filter_map(|row| {
        let found = row.per_sec.found()?;
        Some(format!("{} {}", state(row.what), seconds(&found)))
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| {
        format!(
            "server profile: seconds per second in slow time minus other time: {}",
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
            match profile.incomplete * 20 > profile.samples {
                true => profile.incomplete,
                false => 0,
            },
            "without their outermost functions",
        ),
    ];
    let parts = parts.iter().filter(|(samples, _)| *samples > 0);
    let parts: Vec<String> = parts
        .map(|(samples, what)| format!("{} {what}", counted(*samples, "sample")))
        .collect();
    (!parts.is_empty()).then(|| format!("server profile: {}", parts.join(", ")))
}

/// The larger of the differences of a function that are more than chance.
fn larger(row: &FunctionShare) -> Option<ProfileDifference> {
    let found = [row.own.found(), row.total.found()];
    let found = found.into_iter().flatten();
    found.max_by(|one, other| one.difference.abs().total_cmp(&other.difference.abs()))
}

/// `+52 (48 to 56) percentage points`
fn points(found: &ProfileDifference) -> String {
    let percent = |share: f64| words::number((share * 1000.0).round() / 10.0);
    let ProfileDifference {
        difference,
        low,
        high,
        ..
    } = found;
    let sign = if *difference > 0.0 { "+" } else { "" };
    format!(
        "{sign}{} ({} to {}) percentage points",
        percent(*difference),
        percent(*low),
        percent(*high)
    )
}

/// `+0.91 (0.85 to 0.97)`
fn seconds(found: &ProfileDifference) -> String {
    let rounded = |seconds: f64| words::number((seconds * 1000.0).round() / 1000.0);
    let sign = if found.difference > 0.0 { "+" } else { "" };
    format!(
        "{sign}{} ({} to {})",
        rounded(found.difference),
        rounded(found.low),
        rounded(found.high)
    )
}

fn difference_cell(
    difference: Option<ProfileDifference>,
    show: fn(&ProfileDifference) -> String,
) -> TableCell {
    let Some(found) = difference else {
        return tables::unknown();
    };
    let cell = tables::value(show(&found), found.difference);
    let cell = toned_if(
        found.is_significant() && found.difference > 0.0,
        Tone::Warning,
        cell,
    );
    match found.is_significant() {
        true => cell,
        false => toned_if(true, Tone::NoEffect, cell),
    }
}

/// The functions with their shares; without rows if a run has no profile.
pub(crate) fn functions(result: &RunResult) -> TableBlock {
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
        "Itself, difference",
        "With callees, slow",
        "With callees, other",
        "With callees, difference",
    ];
    TableBlock::new(
        "Functions by their share of the samples",
        columns(&["Function"], &heads),
        rows,
    )
}

/// What threads did; without rows if a run has no profile.
pub(crate) fn times(result: &RunResult) -> TableBlock {
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

#[cfg(test)]
mod tests {
    use results::{SlowTime, TimeShare};

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

    #[test]
    fn a_profile_is_a_few_lines() {
        let expected = [
            "server profile: unit web.service: 1,234 samples, 5 threads, 2 processes; slow time \
             (one of 100 requests of 12 ms or more in flight) is 1.2 s of 10 s and has 130 samples",
            "server profile: shares of the samples in slow time minus other time: \
             slow +52 (48 to 56) percentage points",
            "server profile: seconds per second in slow time minus other time: \
             not on a CPU +0.91 (0.87 to 0.95)",
            "server profile: 3 samples lost by the kernel",
            "server profile: functions of the kernel are missing",
        ];
        assert_eq!(notes(&profile(), 10_000_000_000), expected);
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
            let note = functions_note(&profile);
            assert!(note.contains(part), "{note}");
        }
        let mut same = profile();
        same.functions.remove(0);
        let note = functions_note(&same);
        assert!(
            note.contains("no share of the samples differs significantly"),
            "{note}"
        );
    }
}
