//! Screens of runs, as text.

use std::time::Duration;

use plan::{Arrivals, Load, Pacing, RunPlan, Stop, Target};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use results::snapshot::{AgentSnapshot, Snapshot, SnapshotInterval, Stage};
use results::{ErrorKind, GoodRecording, LlmRecording};

use super::*;

const FULL: Appearance = Appearance {
    colours: true,
    unicode: true,
};
const PLAIN: Appearance = Appearance {
    colours: false,
    unicode: false,
};

pub(crate) fn plan() -> RunPlan {
    let target = Target::parse("http://127.0.0.1:8080/list?page=2").unwrap();
    RunPlan {
        load: Load {
            threads: 2,
            connections: 64,
            ..Load::default()
        },
        stop: Stop {
            duration: Some(Duration::from_secs(30)),
            requests: None,
        },
        ..RunPlan::new(target)
    }
}

/// A server whose rate and latency vary from second to second, deterministically.
pub(crate) struct Server {
    snapshot: Snapshot,
    second: u64,
}

impl Server {
    pub(crate) fn new(stage: Stage) -> Self {
        Self {
            snapshot: Snapshot {
                stage,
                open_connections: 64,
                busiest_worker: Some(0.43),
                ..Snapshot::default()
            },
            second: 0,
        }
    }

    /// The next second; one of 50 responses takes thirty times as long.
    pub(crate) fn second(&mut self, answered: u64) -> Snapshot {
        self.second += 1;
        let mut last = SnapshotInterval {
            duration_ns: 1_000_000_000,
            answered,
            bytes: answered * 150,
            ..SnapshotInterval::default()
        };
        let usual_ns = 1_000_000 + 200_000 * (self.second % 7);
        last.latency.record_n(usual_ns, answered - answered / 50);
        last.latency.record_n(usual_ns * 30, answered / 50);
        let snapshot = &mut self.snapshot;
        snapshot.elapsed_ns += last.duration_ns;
        snapshot.counters.sent += answered;
        snapshot.counters.answered += answered;
        snapshot.counters.bytes += last.bytes;
        for _ in 0..answered {
            snapshot.statuses.add(200);
        }
        snapshot.latency.merge(&last.latency);
        snapshot.last = last;
        snapshot.clone()
    }
}

fn running(seconds: u64) -> (Model, Server) {
    let mut model = Model::new(plan());
    let mut server = Server::new(Stage::Measuring);
    for second in 0..seconds {
        model.push(server.second(2_000 + 100 * (second % 5)));
    }
    (model, server)
}

/// The screen of a terminal of this size.
fn picture(model: &Model, appearance: Appearance, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal
        .draw(|frame| {
            let area = frame.area();
            draw(model, appearance, area, frame.buffer_mut());
        })
        .unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_run_on_a_terminal_of_80_by_24() {
    let (model, _) = running(12);
    insta::assert_snapshot!(picture(&model, FULL, 80, 24));
}

/// A run of streams of 16 tokens, of which most are good.
fn streaming() -> Model {
    let mut model = Model::new(plan());
    let mut server = Server::new(Stage::Measuring);
    let (mut tokens, mut good) = (LlmRecording::default(), GoodRecording::default());
    for second in 0..12 {
        let mut snapshot = server.second(200);
        tokens
            .first_token
            .record_n(50_000_000 + second * 1_000_000, 200);
        tokens
            .time_per_token
            .record_n(5_000_000 + second * 10_000, 199);
        good.good += 190;
        good.bad += 10;
        snapshot.last.parts.llm = Some(LlmRecording {
            output_tokens: 3_200,
            ..LlmRecording::default()
        });
        snapshot.parts.llm = Some(tokens.clone());
        snapshot.parts.good = Some(good);
        model.push(snapshot);
    }
    model
}

#[test]
fn a_run_of_streams_shows_tokens_and_good_requests() {
    insta::assert_snapshot!(picture(&streaming(), FULL, 120, 24));
}

#[test]
fn a_run_of_streams_on_a_terminal_of_80_by_24() {
    insta::assert_snapshot!(picture(&streaming(), FULL, 80, 24));
}

#[test]
fn a_run_on_the_smallest_terminal() {
    let (model, _) = running(12);
    insta::assert_snapshot!(picture(&model, FULL, MIN_COLUMNS, MIN_ROWS));
}

#[test]
fn a_run_on_a_wide_terminal() {
    let (mut model, _) = running(29);
    model.wait(Duration::from_millis(300));
    insta::assert_snapshot!(picture(&model, FULL, 140, 40));
}

#[test]
fn a_run_in_ascii_without_colours() {
    let (model, _) = running(12);
    let picture = picture(&model, PLAIN, 100, 30);
    assert!(picture.is_ascii());
    insta::assert_snapshot!(picture);
}

#[test]
fn a_small_terminal_shows_the_progress_line() {
    let (mut model, _) = running(1);
    insta::assert_snapshot!(picture(&model, FULL, 40, 15));
    let frozen = |model: &Model| picture(model, FULL, 40, 15).contains("frozen: p continues");
    assert!(!frozen(&model));
    model.press(Key::Pause);
    assert!(frozen(&model));
    let unknown = picture(&Model::new(plan()), FULL, 40, 15);
    assert!(
        unknown.contains("waiting for the first responses"),
        "{unknown}"
    );
    // No size breaks the drawing.
    for columns in (0..70).step_by(3).chain([u16::MAX]) {
        for rows in 0..20 {
            let area = Rect::new(0, 0, columns, rows);
            draw(&model, FULL, area, &mut Buffer::empty(area));
        }
    }
}

#[test]
fn before_the_first_response_no_numbers_are_shown() {
    let picture = picture(&Model::new(plan()), FULL, 80, 24);
    assert!(!picture.contains("100 %") && !picture.contains("p50"));
    insta::assert_snapshot!(picture);
}

#[test]
fn a_warm_up_is_labelled_and_leaves_no_trace() {
    let mut model = Model::new(RunPlan {
        warmup: Duration::from_secs(5),
        ..plan()
    });
    let mut warming = Server::new(Stage::WarmingUp);
    model.push(warming.second(1_000));
    model.push(warming.second(1_000));
    let before = picture(&model, FULL, 80, 24);
    assert!(before.contains("WARM-UP"), "{before}");
    assert!(before.contains("warm-up: 2 s of 5 s"), "{before}");
    let mut server = Server::new(Stage::Measuring);
    model.push(server.second(1_000));
    let mut fresh = Model::new(model.plan.clone());
    fresh.push(Server::new(Stage::Measuring).second(1_000));
    assert_eq!(picture(&model, FULL, 80, 24), picture(&fresh, FULL, 80, 24));
}

#[test]
fn errors_are_listed_by_kind_above_the_statuses() {
    let (mut model, mut server) = running(8);
    let mut snapshot = server.second(1_500);
    snapshot.errors.add(ErrorKind::Timeout, 1);
    for _ in 0..12 {
        snapshot.errors.add(ErrorKind::Refused, 0);
    }
    snapshot.last.errors = 13;
    for _ in 0..37 {
        snapshot.statuses.add(503);
    }
    snapshot.open_connections = 60;
    snapshot.busiest_worker = Some(0.97);
    model.push(snapshot);
    insta::assert_snapshot!(picture(&model, FULL, 120, 30));
}

#[test]
fn a_run_without_responses() {
    let mut model = Model::new(plan());
    for second in 1..=3 {
        let mut snapshot = Snapshot {
            stage: Stage::Measuring,
            elapsed_ns: second * 1_000_000_000,
            last: SnapshotInterval {
                duration_ns: 1_000_000_000,
                errors: 64,
                ..SnapshotInterval::default()
            },
            ..Snapshot::default()
        };
        for _ in 0..64 * second {
            snapshot.errors.add(ErrorKind::Refused, 0);
        }
        model.push(snapshot);
    }
    insta::assert_snapshot!(picture(&model, FULL, 80, 24));
}

#[test]
fn with_a_fixed_rate_the_target_is_shown() {
    let mut model = Model::new(RunPlan {
        pacing: Pacing::Constant {
            rate_per_sec: 4_000.0,
            arrivals: Arrivals::Even,
            seed: 0,
        },
        ..plan()
    });
    let mut server = Server::new(Stage::Measuring);
    for _ in 0..10 {
        let mut snapshot = server.second(3_000);
        snapshot.counters.in_flight = 64;
        model.push(snapshot);
    }
    insta::assert_snapshot!(picture(&model, FULL, 80, 24));
}

#[test]
fn progress_towards_a_number_of_requests_counts_requests() {
    let mut model = Model::new(RunPlan {
        stop: Stop {
            duration: None,
            requests: Some(5_000),
        },
        ..plan()
    });
    model.push(Server::new(Stage::Measuring).second(2_000));
    let picture = picture(&model, FULL, 80, 24);
    assert!(
        picture.contains("1 s, 2,000 of 5,000 requests"),
        "{picture}"
    );
}

#[test]
fn a_frozen_screen_stays_and_then_shows_everything() {
    let (mut model, mut server) = running(5);
    model.press(Key::Pause);
    let held = picture(&model, FULL, 80, 24);
    assert!(held.contains("FROZEN"), "{held}");
    model.push(server.second(5_000));
    assert_eq!(picture(&model, FULL, 80, 24), held);
    model.press(Key::Pause);
    let after = picture(&model, FULL, 80, 24);
    assert!(after.contains("5,000"), "{after}");
    assert!(!after.contains("FROZEN"));
}

#[test]
fn help_replaces_the_plots() {
    let (mut model, _) = running(5);
    let without = picture(&model, FULL, MIN_COLUMNS, MIN_ROWS);
    model.press(Key::Help);
    insta::assert_snapshot!(picture(&model, FULL, 80, MIN_ROWS));
    model.press(Key::Close);
    assert_eq!(picture(&model, FULL, MIN_COLUMNS, MIN_ROWS), without);
}

#[test]
fn the_scale_of_latency_can_be_chosen() {
    let (mut model, _) = running(5);
    let log = picture(&model, FULL, 80, 40);
    assert!(log.contains("  1 ms"), "{log}");
    model.press(Key::Scale);
    let linear = picture(&model, FULL, 80, 40);
    assert!(linear.contains("   0 s"), "{linear}");
}

#[test]
fn the_histogram_replaces_latency_over_time_where_only_one_fits() {
    const TITLE: &str = "latency histogram";
    let (mut model, _) = running(12);
    assert!(!picture(&model, FULL, 80, 24).contains(TITLE));
    for (columns, rows) in [(80, 36), (110, 36), (140, 24)] {
        let both = picture(&model, FULL, columns, rows);
        assert!(both.contains(TITLE), "{columns} x {rows}: {both}");
        assert!(both.contains("latency p50"), "{columns} x {rows}: {both}");
    }
    model.press(Key::Histogram);
    insta::assert_snapshot!(picture(&model, FULL, 80, 24));
}

#[test]
fn colours_are_used_only_if_allowed() {
    let (model, _) = running(5);
    let area = Rect::new(0, 0, 80, 24);
    for (appearance, expected) in [(FULL, true), (PLAIN, false)] {
        let mut buffer = Buffer::empty(area);
        draw(&model, appearance, area, &mut buffer);
        let has_colours = buffer
            .content
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(has_colours, expected);
    }
}

#[test]
fn escape_sequences_in_a_url_do_not_reach_the_terminal() {
    let mut hostile = plan();
    hostile.target.url = "http://h/\u{1b}]0;title\u{7}\u{1b}[2J好好".to_owned();
    let picture = picture(&Model::new(hostile), FULL, 80, 24);
    assert!(!picture.contains('\u{1b}') && !picture.contains('\u{7}'));
}

fn agents(count: u64) -> Vec<AgentSnapshot> {
    (0..count)
        .map(|number| AgentSnapshot {
            id: format!("agent-{number}"),
            place: "eu-vm/internal".to_owned(),
            is_lost: number == 1,
            requests_per_sec: 500.0 + 100.0 * number as f64,
            p99_ns: Some(1_200_000),
            errors: number / 2,
            open_connections: 16,
            busiest_worker: Some(0.43),
        })
        .collect()
}

#[test]
fn a_fleet_has_a_line_for_each_agent() {
    let (mut model, mut server) = running(8);
    let before = picture(&model, FULL, 100, 40);
    assert!(!before.contains("agent"), "{before}");
    model.push(Snapshot {
        agents: agents(4),
        ..server.second(2_000)
    });
    let picture = picture(&model, FULL, 100, 40);
    for expected in [
        "4 agents, 1 lost",
        "agent-0  eu-vm/internal         500/s  p99    1.2 ms  CPU  43 %",
        "agent-1  eu-vm/internal  lost",
        "agent-3  eu-vm/internal         800/s  p99    1.2 ms  CPU  43 %  1 error",
        "requests/s",
        "load generator",
    ] {
        assert!(picture.contains(expected), "{expected}: {picture}");
    }
}

#[test]
fn of_a_large_fleet_the_lost_and_the_slowest_agents_are_shown() {
    let (mut model, mut server) = running(8);
    model.push(Snapshot {
        agents: agents(500),
        ..server.second(2_000)
    });
    let seen = picture(&model, FULL, 100, 40);
    for expected in [
        "500 agents, 1 lost",
        "agent-1 ",
        "agent-0 ",
        "agent-2 ",
        "493 more",
    ] {
        assert!(seen.contains(expected), "{expected}: {seen}");
    }
    assert!(!seen.contains("agent-400"), "{seen}");
    // No size breaks the drawing.
    for (columns, rows) in [(MIN_COLUMNS, MIN_ROWS), (80, 20), (80, 24), (300, 100)] {
        picture(&model, FULL, columns, rows);
    }
}
