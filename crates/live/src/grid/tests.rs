//! Screens of sweeps, as text.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use results::Setting;
use results::snapshot::Stage;

use super::*;
use crate::screen::tests::{Server, plan};

const FULL: Appearance = Appearance {
    colours: true,
    unicode: true,
};

fn cells(levels: &[&str], targets: &[&str]) -> Vec<Cell> {
    let cell = |level: &&str, target: &&str| Cell {
        settings: vec![Setting {
            factor: "buffers".to_owned(),
            level: (*level).to_owned(),
        }],
        target: (*target).to_owned(),
        ..Cell::default()
    };
    let all = levels
        .iter()
        .flat_map(|level| targets.iter().map(move |target| cell(level, target)));
    (1..)
        .zip(all)
        .map(|(number, cell)| Cell { number, ..cell })
        .collect()
}

const BUFFERS: [&str; 7] = [
    "131072", "262144", "524288", "1048576", "2097152", "4194304", "8388608",
];

fn progress(done: usize, total: usize) -> Progress {
    Progress {
        done,
        total,
        left: TimeLeft {
            time: Duration::from_secs((total - done) as u64 * 10),
            is_at_most: false,
        },
    }
}

/// A sweep of seven levels in the third of its five rounds.
fn sweep() -> (Grid, Server) {
    let cells = cells(&BUFFERS, &["php"]);
    let mut grid = Grid::new("tcp-buffers", &cells, 5);
    let mut done = 0;
    for round in 1..=2 {
        for cell in 1..=7 {
            let position = TilePosition { cell, round };
            grid.begin(&cells[cell as usize - 1], round, 1, progress(done, 35));
            done += 1;
            if (cell, round) == (3, 2) {
                grid.note("[10/35] round 2/5, buffers 524288, php: FAILED: no answer");
                grid.fail(position, false, progress(done, 35));
            } else {
                let rate = 5_600.0 + 220.0 * f64::from(cell) - 40.0 * f64::from(round);
                grid.finish(position, rate, progress(done, 35));
            }
        }
    }
    grid.begin(&cells[3], 3, 2, progress(done, 35));
    let mut server = Server::new(Stage::Measuring);
    grid.start(plan());
    for _ in 0..4 {
        grid.push(server.second(1_500));
    }
    (grid, server)
}

fn picture(grid: &Grid, appearance: Appearance, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal
        .draw(|frame| {
            let area = frame.area();
            draw(grid, appearance, area, frame.buffer_mut());
        })
        .unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_sweep_on_a_terminal_of_80_by_24() {
    insta::assert_snapshot!(picture(&sweep().0, FULL, 80, 24));
}

#[test]
fn a_sweep_on_the_smallest_terminal() {
    insta::assert_snapshot!(picture(&sweep().0, FULL, MIN_COLUMNS, MIN_ROWS));
}

#[test]
fn a_sweep_on_a_small_terminal_shows_the_progress_line_of_its_trial() {
    let picture = picture(&sweep().0, FULL, 40, 15);
    let line = picture.lines().next().unwrap();
    assert!(
        line.starts_with("\"[15/35] ") && line.contains("/s"),
        "{picture}"
    );
    assert!(picture.contains("q: stop"), "{picture}");
}

#[test]
fn a_sweep_on_a_wide_terminal() {
    insta::assert_snapshot!(picture(&sweep().0, FULL, 130, 44));
}

#[test]
fn a_sweep_in_ascii_without_colours() {
    let appearance = Appearance {
        colours: false,
        unicode: false,
    };
    let picture = picture(&sweep().0, appearance, 100, 30);
    assert!(picture.is_ascii());
    insta::assert_snapshot!(picture);
}

#[test]
fn a_large_sweep_shows_rows_and_rounds_around_the_current_trial() {
    let levels: Vec<String> = (1..=40).map(|level| level.to_string()).collect();
    let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    let cells = cells(&levels, &["php", "static"]);
    let mut grid = Grid::new("large", &cells, 60);
    for round in 1..41 {
        grid.finish(TilePosition { cell: 33, round }, 100.0, progress(0, 4800));
    }
    grid.begin(&cells[32], 41, 1, progress(2400, 4800));
    insta::assert_snapshot!(picture(&grid, FULL, 80, 24));
}

#[test]
fn cells_are_named_by_what_differs() {
    let labels = Labels::of(&cells(&["1", "2"], &["php"]));
    assert_eq!(labels.heading, "buffers");
    assert_eq!(labels.rows[1], (2, "2".to_owned()));
    let labels = Labels::of(&cells(&["1", "2"], &["php", "static"]));
    assert_eq!(labels.heading, "buffers / target");
    assert_eq!(labels.rows[1], (2, "1 / static".to_owned()));
    let labels = Labels::of(&cells(&["1"], &["php"]));
    assert_eq!(
        (labels.heading.as_str(), &*labels.rows[0].1),
        ("target", "php")
    );
    assert_eq!(Labels::of(&[]).len(), 0);
}

#[test]
fn a_resumed_sweep_shows_the_kept_trials() {
    let mut grid = Grid::new("again", &cells(&["1", "2", "3"], &["php"]), 1);
    let position = |cell| TilePosition { cell, round: 1 };
    grid.keep(position(1), Some(4_200.0));
    grid.keep(position(2), None);
    let picture = picture(&grid, FULL, 80, 24);
    assert!(picture.contains("4.20k"), "{picture}");
    assert!(picture.contains(" kept"), "{picture}");
}

#[test]
fn between_two_runs_the_current_step_is_shown() {
    let (mut grid, mut server) = sweep();
    grid.finish(
        TilePosition { cell: 4, round: 3 },
        6_000.0,
        progress(15, 35),
    );
    let ended = picture(&grid, FULL, 80, 24);
    assert!(ended.contains("no trial is running"), "{ended}");
    assert!(
        ended.contains("previous trial: round 3, buffers 1048576"),
        "{ended}"
    );
    grid.begin(&cells(&BUFFERS, &["php"])[4], 3, 1, progress(15, 35));
    let preparing = picture(&grid, FULL, 80, 24);
    assert!(
        preparing.contains("setting levels, starting servers"),
        "{preparing}"
    );
    // Until the next run has data, the previous one is shown.
    assert!(preparing.contains("previous trial"), "{preparing}");
    // Snapshots before the start of a run are ignored.
    grid.push(server.second(1_000));
    assert_eq!(picture(&grid, FULL, 80, 24), preparing);
}

#[test]
fn a_frozen_screen_of_a_sweep_stays() {
    let (mut grid, mut server) = sweep();
    grid.press(Key::Pause);
    let held = picture(&grid, FULL, 80, 24);
    assert!(held.contains("FROZEN"), "{held}");
    grid.push(server.second(9_000));
    grid.finish(
        TilePosition { cell: 4, round: 3 },
        6_000.0,
        progress(15, 35),
    );
    assert_eq!(picture(&grid, FULL, 80, 24), held);
    grid.press(Key::Pause);
    assert!(picture(&grid, FULL, 80, 24).contains("15 of 35 trials"));
}

#[test]
fn any_size_of_terminal_and_of_sweep_can_be_drawn() {
    for (cells, rounds) in [
        (cells(&[], &[]), 0),
        (cells(&["1"], &["php"]), 1),
        (cells(&BUFFERS, &["a", "b", "c"]), u32::MAX),
    ] {
        let mut grid = Grid::new("any", &cells, rounds);
        grid.begin(&Cell::default(), 1, 1, progress(0, 0));
        for columns in (0..140).step_by(7) {
            for rows in (0..60).step_by(3) {
                let area = Rect::new(0, 0, columns, rows);
                draw(&grid, FULL, area, &mut Buffer::empty(area));
            }
        }
    }
}
