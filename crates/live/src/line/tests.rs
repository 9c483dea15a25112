//! Lines of runs, in every width.

use plan::{BackendChoice, Load, Pacing, RequestSpec, Stop, Target, TlsSpec};
use results::ErrorKind;

use super::*;

const S: u64 = 1_000_000_000;

const PLAIN: Look = Look {
    colours: false,
    unicode: true,
};

fn plan(stop: Stop) -> RunPlan {
    RunPlan {
        telemetry: None,
        target: Target::parse("http://127.0.0.1/").unwrap(),
        load: Load::default(),
        pacing: Pacing::Closed,
        stop,
        warmup: Duration::from_secs(5),
        timeout: Duration::from_secs(2),
        request: RequestSpec::default(),
        tls: TlsSpec::default(),
        backend: BackendChoice::Auto,
    }
}

fn for_a_minute() -> RunPlan {
    plan(Stop {
        duration: Some(Duration::from_secs(60)),
        requests: None,
    })
}

/// After so many seconds; each answers 164 010 requests, most in 371 us, some in 1.2 ms.
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

fn place() -> Place {
    [
        "[3/35] round 1/5, buffers 262144, php; 15m20s left in all",
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
fn a_wide_line_says_everything_in_words() {
    assert_eq!(
        shown(&snapshot(15), 120),
        "[███████▌                      ] 45s left, 164.01k requests/s, p50 371.20us, p99 1.20ms, generator CPU 87%"
    );
}

#[test]
fn words_get_shorter_before_figures_are_left_out() {
    let lines =
        [96, 82, 79, 60, 50, 40, 30, 20].map(|columns| shown(&with_errors(snapshot(15)), columns));
    assert_eq!(
        lines,
        [
            "[██▊        ] 45s left, 164.01k/s, p50 371.20us, p99 1.20ms, 12.35k errors, 17 over 399, CPU 87%",
            "45s left, 164.01k/s, p50 371.20us, p99 1.20ms, 12.35k errors, 17 over 399, CPU 87%",
            "45s 164.01k/s p50 371.20us p99 1.20ms 12.35k errors 17 >399 CPU 87%",
            "45s 164.01k/s p50 371.20us p99 1.20ms 12.35k errors 17 >399",
            "45s 164.01k/s p99 1.20ms 12.35k errors 17 >399",
            "45s 164.01k/s 12.35k errors 17 >399",
            "45s 164.01k/s 12.35k errors",
            "45s 164.01k/s",
        ]
    );
}

#[test]
fn no_line_is_wider_than_it_may_be() {
    let mut wide = place();
    wide[0] = "[3/35] 缓冲区 二十六万, 目标 \u{1b}[31m红".to_owned();
    wide[1] = "[3/35] 缓冲区 二十六万".to_owned();
    for columns in (0..=200).step_by(3) {
        for place in [None, Some(&place()), Some(&wide)] {
            for snapshot in [snapshot(0), with_errors(snapshot(15)), snapshot(75)] {
                let plan = for_a_minute();
                let text = line(&plan, &snapshot, Duration::ZERO, place, columns, PLAIN);
                let width = Span::raw(text.as_str()).width();
                assert!(width <= columns, "{width} of {columns}: {text}");
                assert!(!text.contains(char::is_control), "{text:?}");
                assert!(!text.is_empty() || columns < 3);
            }
        }
    }
}

#[test]
fn a_trial_has_its_place_before_it_as_far_as_there_is_room() {
    let at = |columns| {
        let place = place();
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
    assert!(wide.starts_with("[3/35] round 1/5, buffers 262144, php; 15m20s left in all [█"));
    assert!(
        middle.starts_with("[3/35] round 1/5, buffers 262144, php [█"),
        "{middle}"
    );
    assert_eq!(
        narrow,
        "[3/35] [███████████████▊] 1s left, 164.01k/s, p50 371.20us, p99 1.20ms, CPU 87%"
    );
    assert_eq!(least, "[3/35] 1s 164.01k/s p99 1.20ms");
}

#[test]
fn a_trial_that_waits_is_told_of_as_far_as_there_is_room() {
    let mut place = place();
    let at = |place: &Place, columns| waiting(place, columns);
    assert_eq!(at(&place, 60), place[0]);
    assert_eq!(at(&place, 40), place[1]);
    assert_eq!(at(&place, 36), "[3/35]");
    assert_eq!(at(&place, 5), "");
    place[0] = "缓冲区\n".to_owned();
    assert_eq!(at(&place, 7), "缓冲区 ");
    assert_eq!(at(&place, 6), "[3/35]");
}

#[test]
fn what_ends_the_run_first_is_what_is_left() {
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
    assert_eq!(begin(&both(164_010 * 100)), "45s left, 164.01k re");
    assert_eq!(begin(&both(164_010 * 15 + 9_000)), "9000 requests left, ");
    assert_eq!(begin(&only), "820.05k requests lef");
}

#[test]
fn a_warm_up_is_called_one_and_its_failures_are_those_of_the_last_second() {
    let mut snapshot = snapshot(0);
    snapshot.stage = Stage::WarmingUp;
    snapshot.elapsed_ns = 2 * S + 1;
    snapshot.last.errors = 1;
    snapshot.last.latency = results::Histogram::new();
    assert_eq!(
        shown(&snapshot, 120),
        "[████████████                  ] warming up 3s left, 164.01k requests/s, 1 error, generator CPU 87%"
    );
    // The warm-up ends without a snapshot when threads are held up.
    let text = |since_s| {
        let since = Duration::from_secs(since_s);
        line(&for_a_minute(), &snapshot, since, None, 60, PLAIN)
    };
    assert!(
        text(1).starts_with("[██████    ] warming up 2s left, 164.01k/s"),
        "{}",
        text(1)
    );
    assert!(
        text(9).contains("warming up 0s left, no news for 9s"),
        "{}",
        text(9)
    );
}

#[test]
fn a_percentile_that_few_samples_lie_above_is_marked() {
    let mut snapshot = snapshot(15);
    snapshot.last.latency = results::Histogram::new();
    snapshot.last.latency.record_n(371_000, 980);
    assert!(shown(&snapshot, 120).contains(", p50 371.00us, p99 ~371.00us, "));
    snapshot.last.latency.record_n(371_000, 20);
    assert!(shown(&snapshot, 120).contains(", p50 371.00us, p99 371.00us, "));
    snapshot.last.latency = results::Histogram::new();
    snapshot.last.latency.record_n(371_000, 19);
    assert!(shown(&snapshot, 120).contains(", p50 ~371.00us, p99 ~371.00us, "));
}

#[test]
fn colours_are_added_and_change_no_word() {
    let coloured = Look {
        colours: true,
        unicode: false,
    };
    let plan = for_a_minute();
    let snapshot = with_errors(snapshot(15));
    let text = line(&plan, &snapshot, Duration::ZERO, None, 120, coloured);
    assert!(
        text.contains("\x1b[91m12.35k errors\x1b[0m")
            || text.contains("\x1b[1;91m12.35k errors\x1b[0m"),
        "{text:?}"
    );
    assert!(text.is_ascii());
    let mut plain = String::new();
    let mut parts = text.split('\x1b');
    plain += parts.next().unwrap();
    for part in parts {
        plain += part.split_once('m').unwrap().1;
    }
    let look = Look {
        colours: false,
        ..coloured
    };
    let expected = line(&plan, &snapshot, Duration::ZERO, None, 120, look);
    assert_eq!(plain, expected);
    assert!(expected.starts_with("[####"), "{expected}");
}

#[test]
fn only_long_runs_have_plain_lines() {
    let seconds = |seconds| Stop {
        duration: Some(Duration::from_secs(seconds)),
        requests: None,
    };
    // The warm-up takes five more.
    assert!(Plain::of(&plan(seconds(25))).is_none());
    assert!(Plain::of(&plan(seconds(26))).is_some());
    let requests = Stop {
        duration: None,
        requests: Some(10),
    };
    assert!(Plain::of(&plan(requests)).is_some());
}

#[test]
fn a_plain_line_comes_every_ten_seconds_and_is_about_all_of_them() {
    let plan = for_a_minute();
    let mut plain = Plain::of(&plan).unwrap();
    let mut lines = Vec::new();
    for elapsed_s in 1..=20 {
        let mut snapshot = snapshot(elapsed_s);
        if elapsed_s == 12 {
            snapshot.last.answered += 164_010;
        }
        lines.extend(plain.line(&plan, &snapshot).map(|line| (elapsed_s, line)));
    }
    let figures = "p50 371.20us, p99 1.20ms, generator CPU 87%";
    assert_eq!(
        lines,
        [
            (10, format!("50s left, 164.01k requests/s, {figures}")),
            (20, format!("40s left, 180.41k requests/s, {figures}")),
        ]
    );
}

#[test]
fn a_plain_line_of_the_window_has_nothing_of_the_warm_up() {
    let plan = for_a_minute();
    let mut plain = Plain::of(&plan).unwrap();
    let mut warm = snapshot(5);
    warm.stage = Stage::WarmingUp;
    for _ in 0..5 {
        assert_eq!(plain.line(&plan, &warm), None);
    }
    for elapsed_s in 1..10 {
        assert_eq!(plain.line(&plan, &snapshot(elapsed_s)), None);
    }
    let line = plain.line(&plan, &snapshot(10)).unwrap();
    assert!(line.starts_with("50s left, 164.01k requests/s"), "{line}");
}
