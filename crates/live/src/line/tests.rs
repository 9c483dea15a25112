//! Progress lines in every width.

use plan::{Stop, Target};
use results::ErrorKind;
use results::snapshot::AgentSnapshot;

use super::*;

const S: u64 = 1_000_000_000;

const PLAIN: Appearance = Appearance {
    colours: false,
    unicode: true,
};

fn plan(stop: Stop) -> RunPlan {
    RunPlan {
        stop,
        warmup: Duration::from_secs(5),
        ..RunPlan::new(Target::parse("http://127.0.0.1/").unwrap())
    }
}

fn for_a_minute() -> RunPlan {
    plan(Stop {
        duration: Some(Duration::from_secs(60)),
        requests: None,
    })
}

/// A run with 164,010 responses in each second, most in 371 us, some in 1.2 ms.
fn snapshot(elapsed_s: u64) -> Snapshot {
    let mut snapshot = Snapshot {
        stage: Stage::Measuring,
        elapsed_ns: elapsed_s * S + 3_000_000,
        busiest_worker: Some(0.874),
        ..Snapshot::default()
    };
    snapshot.last.duration_ns = S;
    snapshot.last.answered = 164_010;
    snapshot.last.latency.record_n(371_000, 160_000);
    snapshot.last.latency.record_n(1_200_000, 4_010);
    snapshot.counters.answered = 164_010 * elapsed_s;
    for _ in 0..snapshot.counters.answered.min(1000) {
        snapshot.statuses.add(200);
    }
    snapshot
}

fn with_errors(mut snapshot: Snapshot) -> Snapshot {
    for _ in 0..12_345 {
        snapshot.errors.add(ErrorKind::Reset, 1);
    }
    for _ in 0..17 {
        snapshot.statuses.add(503);
    }
    snapshot
}

fn trial_name() -> TrialName {
    [
        "[3/35] round 1/5, buffers 262144, php; 15 min 20 s left",
        "[3/35] round 1/5, buffers 262144, php",
        "[3/35]",
    ]
    .map(str::to_owned)
}

fn shown(snapshot: &Snapshot, columns: usize) -> String {
    line(
        &for_a_minute(),
        snapshot,
        Duration::ZERO,
        None,
        columns,
        PLAIN,
    )
}

#[test]
fn a_wide_line_has_everything_in_words() {
    assert_eq!(
        shown(&snapshot(15), 120),
        "[███████▌                      ] 45 s left, 164,010 requests/s, p50 371 us, p99 1.2 ms, \
         generator CPU 87 %"
    );
}

#[test]
fn words_get_shorter_before_numbers_are_dropped() {
    let lines =
        [112, 96, 68, 60, 50, 40, 30, 20].map(|columns| shown(&with_errors(snapshot(15)), columns));
    assert_eq!(
        lines,
        [
            "[████▌             ] 45 s left, 164,010/s, p50 371 us, p99 1.2 ms, 12,345 errors, \
             17 with status >=400, CPU 87 %",
            "45 s left, 164,010/s, p50 371 us, p99 1.2 ms, 12,345 errors, 17 with status >=400, \
             CPU 87 %",
            "45 s 164,010/s p50 371 us p99 1.2 ms 12,345 errors 17 >=400 CPU 87 %",
            "45 s 164,010/s p50 371 us p99 1.2 ms 12,345 errors 17 >=400",
            "45 s 164,010/s p99 1.2 ms 12,345 errors 17 >=400",
            "45 s 164,010/s 12,345 errors 17 >=400",
            "45 s 164,010/s 12,345 errors",
            "45 s 164,010/s",
        ]
    );
}

#[test]
fn no_line_is_wider_than_it_may_be() {
    let mut wide = trial_name();
    wide[0] = "[3/35] 缓冲区 二十六万, 目标 \u{1b}[31m红".to_owned();
    wide[1] = "[3/35] 缓冲区 二十六万".to_owned();
    for columns in (0..=200).step_by(3) {
        for place in [None, Some(&trial_name()), Some(&wide)] {
            for snapshot in [snapshot(0), with_errors(snapshot(15)), snapshot(75)] {
                let plan = for_a_minute();
                let text = line(&plan, &snapshot, Duration::ZERO, place, columns, PLAIN);
                let width = Span::raw(text.as_str()).width();
                assert!(width <= columns, "{width} of {columns}: {text}");
                assert!(!text.contains(char::is_control), "{text:?}");
                assert!(!text.is_empty() || columns < 6);
            }
        }
    }
}

#[test]
fn the_name_of_a_trial_comes_first_as_long_as_it_fits() {
    let at = |columns| {
        let place = trial_name();
        let plan = for_a_minute();
        let snapshot = snapshot(59);
        line(
            &plan,
            &snapshot,
            Duration::ZERO,
            Some(&place),
            columns,
            PLAIN,
        )
    };
    let [wide, middle, narrow, least] = [200, 125, 79, 40].map(at);
    assert!(wide.starts_with("[3/35] round 1/5, buffers 262144, php; 15 min 20 s left [█"));
    assert!(
        middle.starts_with("[3/35] round 1/5, buffers 262144, php [█"),
        "{middle}"
    );
    assert_eq!(
        narrow,
        "[3/35] [███████████████▊] 1 s left, 164,010/s, p50 371 us, p99 1.2 ms, CPU 87 %"
    );
    assert_eq!(least, "[3/35] 1 s 164,010/s p99 1.2 ms");
}

#[test]
fn the_name_of_a_waiting_trial_is_shortened_to_fit() {
    let mut place = trial_name();
    let at = |place: &TrialName, columns| waiting(place, columns);
    assert_eq!(at(&place, 60), place[0]);
    assert_eq!(at(&place, 40), place[1]);
    assert_eq!(at(&place, 36), "[3/35]");
    assert_eq!(at(&place, 5), "");
    place[0] = "缓冲区\n".to_owned();
    assert_eq!(at(&place, 7), "缓冲区 ");
    assert_eq!(at(&place, 6), "[3/35]");
}

#[test]
fn the_line_counts_down_to_whatever_ends_the_run_first() {
    let both = |requests| {
        plan(Stop {
            duration: Some(Duration::from_secs(60)),
            requests: Some(requests),
        })
    };
    let only = plan(Stop {
        duration: None,
        requests: Some(164_010 * 20),
    });
    let begin = |plan: &RunPlan| {
        let text = line(plan, &snapshot(15), Duration::ZERO, None, 100, PLAIN);
        text.split("] ").nth(1).unwrap_or_default()[..20].to_owned()
    };
    assert_eq!(begin(&both(164_010 * 100)), "45 s left, 164,010 r");
    assert_eq!(begin(&both(164_010 * 15 + 9_000)), "9,000 requests left,");
    assert_eq!(begin(&only), "820,050 requests lef");
}

#[test]
fn a_warm_up_is_labelled_and_shows_the_failures_of_the_last_second() {
    let mut snapshot = snapshot(0);
    snapshot.stage = Stage::WarmingUp;
    snapshot.elapsed_ns = 2 * S + 1;
    snapshot.last.errors = 1;
    snapshot.last.latency = results::Histogram::new();
    assert_eq!(
        shown(&snapshot, 120),
        "[████████████                  ] warm-up 3 s left, 164,010 requests/s, 1 error, \
         generator CPU 87 %"
    );
    // If threads are delayed, the warm-up ends without a snapshot.
    let text = |since_s| {
        let since = Duration::from_secs(since_s);
        line(&for_a_minute(), &snapshot, since, None, 60, PLAIN)
    };
    assert!(
        text(1).starts_with("[██████▋    ] warm-up 2 s left, 164,010/s"),
        "{}",
        text(1)
    );
    assert!(
        text(9).contains("warm-up 0 s left, no update for 9 s"),
        "{}",
        text(9)
    );
}

#[test]
fn a_percentile_with_few_samples_above_it_is_marked() {
    let mut snapshot = snapshot(15);
    snapshot.last.latency = results::Histogram::new();
    snapshot.last.latency.record_n(371_000, 980);
    assert!(shown(&snapshot, 120).contains(", p50 371 us, p99 ~371 us, "));
    snapshot.last.latency.record_n(371_000, 20);
    assert!(shown(&snapshot, 120).contains(", p50 371 us, p99 371 us, "));
    snapshot.last.latency = results::Histogram::new();
    snapshot.last.latency.record_n(371_000, 19);
    assert!(shown(&snapshot, 120).contains(", p50 ~371 us, p99 ~371 us, "));
}

#[test]
fn colours_change_no_word() {
    let coloured = Appearance {
        colours: true,
        unicode: false,
    };
    let plan = for_a_minute();
    let snapshot = with_errors(snapshot(15));
    let text = line(&plan, &snapshot, Duration::ZERO, None, 120, coloured);
    assert!(
        text.contains("\x1b[91m12,345 errors\x1b[0m")
            || text.contains("\x1b[1;91m12,345 errors\x1b[0m"),
        "{text:?}"
    );
    assert!(text.is_ascii());
    let mut plain = String::new();
    let mut parts = text.split('\x1b');
    plain += parts.next().unwrap();
    for part in parts {
        plain += part.split_once('m').unwrap().1;
    }
    let appearance = Appearance {
        colours: false,
        ..coloured
    };
    let expected = line(&plan, &snapshot, Duration::ZERO, None, 120, appearance);
    assert_eq!(plain, expected);
    assert!(expected.starts_with("[####"), "{expected}");
}

#[test]
fn only_long_runs_have_plain_lines() {
    let seconds = |seconds| Stop {
        duration: Some(Duration::from_secs(seconds)),
        requests: None,
    };
    // In addition to a warm-up of 5 s.
    assert!(PlainLines::of(&plan(seconds(25))).is_none());
    assert!(PlainLines::of(&plan(seconds(26))).is_some());
    let requests = Stop {
        duration: None,
        requests: Some(10),
    };
    assert!(PlainLines::of(&plan(requests)).is_some());
}

#[test]
fn a_plain_line_comes_every_ten_seconds_and_covers_all_of_them() {
    let plan = for_a_minute();
    let mut plain = PlainLines::of(&plan).unwrap();
    let mut lines = Vec::new();
    for elapsed_s in 1..=20 {
        let mut snapshot = snapshot(elapsed_s);
        if elapsed_s == 12 {
            snapshot.last.answered += 164_010;
        }
        lines.extend(plain.line(&plan, &snapshot).map(|line| (elapsed_s, line)));
    }
    let rest = "p50 371 us, p99 1.2 ms, generator CPU 87 %";
    assert_eq!(
        lines,
        [
            (10, format!("50 s left, 164,010 requests/s, {rest}")),
            (20, format!("40 s left, 180,411 requests/s, {rest}")),
        ]
    );
}

#[test]
fn a_plain_line_of_the_window_excludes_the_warm_up() {
    let plan = for_a_minute();
    let mut plain = PlainLines::of(&plan).unwrap();
    let mut warm = snapshot(5);
    warm.stage = Stage::WarmingUp;
    for _ in 0..5 {
        assert_eq!(plain.line(&plan, &warm), None);
    }
    for elapsed_s in 1..10 {
        assert_eq!(plain.line(&plan, &snapshot(elapsed_s)), None);
    }
    let line = plain.line(&plan, &snapshot(10)).unwrap();
    assert!(line.starts_with("50 s left, 164,010 requests/s"), "{line}");
}

#[test]
fn the_line_of_a_fleet_says_how_many_agents_there_are_and_how_many_were_lost() {
    let agent = |is_lost| AgentSnapshot {
        is_lost,
        ..AgentSnapshot::default()
    };
    let mut fleet = snapshot(10);
    fleet.agents = vec![agent(false), agent(false), agent(false)];
    assert!(
        shown(&fleet, 160).contains("3 agents"),
        "{}",
        shown(&fleet, 160)
    );
    fleet.agents[1] = agent(true);
    assert!(shown(&fleet, 160).contains("1 of 3 agents lost"));
    assert!(!shown(&snapshot(10), 160).contains("agent"));
}
