//! Pictures of sweeps, as text.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use results::Setting;
use results::snapshot::Stage;

use super::*;
use crate::screen::tests::{Server, plan};

const FULL: Look = Look {
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
        left: Duration::from_secs((total - done) as u64 * 10),
    }
}

/// A sweep of seven levels in the third of its five rounds.
fn sweep() -> (Grid, Server) {
    let cells = cells(&BUFFERS, &["php"]);
    let mut grid = Grid::new("tcp-buffers", &cells, 5);
    let mut done = 0;
    for round in 1..=2 {
        for cell in 1..=7 {
            let spot = Spot { cell, round };
            grid.begin(&cells[cell as usize - 1], round, 1, progress(done, 35));
            done += 1;
            if (cell, round) == (3, 2) {
                grid.note("[10/35] round 2/5, buffers 524288, php: FAILED: no answer");
                grid.fail(spot, false, progress(done, 35));
            } else {
                let rate = 5_600.0 + 220.0 * f64::from(cell) - 40.0 * f64::from(round);
                grid.finish(spot, rate, progress(done, 35));
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

fn picture(grid: &Grid, look: Look, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal
        .draw(|frame| {
            let area = frame.area();
            draw(grid, look, area, frame.buffer_mut());
        })
        .unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_sweep_on_a_usual_terminal() {
    insta::assert_snapshot!(picture(&sweep().0, FULL, 80, 24));
}

#[test]
fn a_sweep_on_the_least_terminal() {
    insta::assert_snapshot!(picture(&sweep().0, FULL, MIN_COLUMNS, MIN_ROWS));
}

#[test]
fn a_sweep_on_a_small_terminal_shows_the_line_of_its_trial() {
    let picture = picture(&sweep().0, FULL, 40, 15);
    let line = picture.lines().next().unwrap();
    assert!(
        line.starts_with("\"[15/35] ") && line.contains("/s"),
        "{picture}"
    );
    assert!(picture.contains("q stops"), "{picture}");
}

#[test]
fn a_sweep_on_a_wide_terminal() {
    insta::assert_snapshot!(picture(&sweep().0, FULL, 130, 44));
}

#[test]
fn a_sweep_in_ascii_without_colours_says_the_same() {
    let look = Look {
        colours: false,
        unicode: false,
    };
    let picture = picture(&sweep().0, look, 100, 30);
    assert!(picture.is_ascii());
    insta::assert_snapshot!(picture);
}

#[test]
fn a_large_sweep_shows_the_rows_and_rounds_around_the_running_trial() {
    let levels: Vec<String> = (1..=40).map(|level| level.to_string()).collect();
    let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    let cells = cells(&levels, &["php", "static"]);
    let mut grid = Grid::new("large", &cells, 60);
    for round in 1..41 {
        grid.finish(Spot { cell: 33, round }, 100.0, progress(0, 4800));
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
fn a_sweep_that_goes_on_shows_what_was_there_before() {
    let mut grid = Grid::new("again", &cells(&["1", "2", "3"], &["php"]), 1);
    let spot = |cell| Spot { cell, round: 1 };
    grid.keep(spot(1), Some(4_200.0));
    grid.keep(spot(2), None);
    let picture = picture(&grid, FULL, 80, 24);
    assert!(picture.contains("4.20k"), "{picture}");
    assert!(picture.contains(" kept"), "{picture}");
}

#[test]
fn between_two_runs_it_is_said_what_is_done() {
    let (mut grid, mut server) = sweep();
    grid.finish(Spot { cell: 4, round: 3 }, 6_000.0, progress(15, 35));
    let ended = picture(&grid, FULL, 80, 24);
    assert!(ended.contains("no trial is running"), "{ended}");
    assert!(
        ended.contains("the trial before: round 3, buffers 1048576"),
        "{ended}"
    );
    grid.begin(&cells(&BUFFERS, &["php"])[4], 3, 1, progress(15, 35));
    let preparing = picture(&grid, FULL, 80, 24);
    assert!(
        preparing.contains("setting levels, starting servers"),
        "{preparing}"
    );
    // What the next run has not shown yet, the one before still does.
    assert!(preparing.contains("the trial before"), "{preparing}");
    // News of a run that nobody has announced are nobody's.
    grid.push(server.second(1_000));
    assert_eq!(picture(&grid, FULL, 80, 24), preparing);
}

#[test]
fn a_held_picture_of_a_sweep_stays() {
    let (mut grid, mut server) = sweep();
    grid.press(Key::Pause);
    let held = picture(&grid, FULL, 80, 24);
    assert!(held.contains("PICTURE HELD"), "{held}");
    grid.push(server.second(9_000));
    grid.finish(Spot { cell: 4, round: 3 }, 6_000.0, progress(15, 35));
    assert_eq!(picture(&grid, FULL, 80, 24), held);
    grid.press(Key::Pause);
    assert!(picture(&grid, FULL, 80, 24).contains("15 of 35 trials"));
}

#[test]
fn any_size_of_terminal_and_of_sweep_has_a_picture() {
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
