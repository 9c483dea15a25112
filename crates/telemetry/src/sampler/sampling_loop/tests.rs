//! The sampling loop with simulated sockets on a virtual clock.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::Value;

use super::*;
use crate::sampler::fixtures::{SharedBuffer, socket};
use crate::sockets::{TcpInfo, TcpState};

const SECOND_NS: u64 = 1_000_000_000;
const BEGIN_NS: u64 = 5 * SECOND_NS;

/// A simulation in which time passes only during waits.
#[derive(Debug, Default)]
struct World {
    now_ns: u64,
    /// When the window is ended early.
    ended_ns: Option<u64>,
    /// The duration of a dump.
    dump_ns: u64,
    /// When sockets were dumped, nanoseconds.
    dumps_ns: Vec<u64>,
    fetches: u64,
    /// Times at which a dump fails.
    fails_ns: Vec<u64>,
    /// Sockets with their start and end times; they send one byte per millisecond.
    lives: Vec<(u64, u64, u64)>,
    /// The kernel's delay in reporting a closed socket.
    telling_ns: u64,
    told: Vec<u64>,
    overflows: u64,
}

impl World {
    fn socket(&self, cookie: u64, born_ns: u64, until_ns: u64, state: TcpState) -> Socket {
        let info = TcpInfo {
            bytes_sent: Some((until_ns - born_ns) / 1_000_000),
            snd_cwnd: 10,
            ..TcpInfo::default()
        };
        socket(cookie, state, Some(info))
    }

    fn dump(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()> {
        sockets.clear();
        self.dumps_ns.push(self.now_ns);
        if self.fails_ns.contains(&self.now_ns) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        for &(cookie, born_ns, died_ns) in &self.lives {
            if (born_ns..died_ns).contains(&self.now_ns) {
                sockets.push(self.socket(cookie, born_ns, self.now_ns, TcpState::Established));
            }
        }
        self.now_ns += self.dump_ns;
        Ok(())
    }

    fn closed(&mut self, sockets: &mut Vec<Socket>) {
        self.fetches += 1;
        for &(cookie, born_ns, died_ns) in &self.lives {
            let is_known = died_ns != u64::MAX && died_ns + self.telling_ns <= self.now_ns;
            if is_known && !self.told.contains(&cookie) {
                self.told.push(cookie);
                sockets.push(self.socket(cookie, born_ns, died_ns, TcpState::Closed));
            }
        }
    }
}

struct Handle(Rc<RefCell<World>>);

impl SocketSource for Handle {
    fn dump_any_state(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()> {
        self.0.borrow_mut().dump(sockets)
    }
    fn dump(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()> {
        self.0.borrow_mut().dump(sockets)
    }
    fn takes(&self, _: &Socket) -> bool {
        true
    }
    fn closed(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()> {
        self.0.borrow_mut().closed(sockets);
        Ok(())
    }
    fn counts_unseen(&self) -> bool {
        true
    }
    fn overflows(&self) -> u64 {
        self.0.borrow().overflows
    }
}

impl Clock for Handle {
    fn now_ns(&mut self) -> u64 {
        self.0.borrow().now_ns
    }
    fn unix_ms(&mut self) -> i64 {
        (self.0.borrow().now_ns / 1_000_000) as i64
    }
    fn cpu_ns(&mut self) -> Option<u64> {
        Some(self.0.borrow().dumps_ns.len() as u64 * 1_000)
    }
    fn wait(&mut self, until_ns: u64) -> Wake {
        let mut world = self.0.borrow_mut();
        let end_ns = world.ended_ns.unwrap_or(u64::MAX);
        assert!(until_ns.min(end_ns) < u64::MAX, "a wait without an end");
        world.now_ns = world.now_ns.max(until_ns.min(end_ns));
        if world.now_ns >= end_ns {
            Wake::Ended
        } else {
            Wake::Due
        }
    }
    fn settle(&mut self, until_ns: u64) {
        let mut world = self.0.borrow_mut();
        world.now_ns = world.now_ns.max(until_ns);
    }
    fn counters(&mut self) -> Counters {
        Counters::default()
    }
}

/// Runs a window of this many seconds with one sample per second.
fn watched(world: World, seconds: u64) -> (Telemetry, World, Vec<Value>) {
    let page = SharedBuffer::default();
    let world = Rc::new(RefCell::new(world));
    let watch = SamplingLoop {
        kernel: Some(Handle(Rc::clone(&world))),
        interval_ns: SECOND_NS,
        counters: false,
        lines: SampleWriter::new(Some(Box::new(page.clone()))),
        notes: Vec::new(),
    };
    let window = Window {
        begin_ns: BEGIN_NS,
        end_ns: match seconds {
            0 => u64::MAX,
            seconds => BEGIN_NS + seconds * SECOND_NS,
        },
    };
    let telemetry = watch.run(window, &mut Handle(Rc::clone(&world)));
    (telemetry, world.take(), page.lines())
}

/// Seconds since the start of the window.
fn seconds(times_ns: &[u64]) -> Vec<f64> {
    let since = |time_ns: &u64| (*time_ns as f64 - BEGIN_NS as f64) / SECOND_NS as f64;
    times_ns.iter().map(since).collect()
}

fn at(seconds: f64) -> u64 {
    BEGIN_NS.saturating_add_signed((seconds * 1e9) as i64)
}

#[test]
fn samples_are_taken_just_before_the_start_at_each_interval_and_at_the_end() {
    let (telemetry, world, lines) = watched(World::default(), 3);
    assert_eq!(seconds(&world.dumps_ns), [-0.001, 1.0, 2.0, 3.0]);
    assert_eq!(telemetry.samples, 4);
    assert_eq!(telemetry.interval_ns, SECOND_NS);
    assert_eq!(telemetry.notes, Vec::<String>::new());
    // All four dumps are between the two readings of the clock.
    assert_eq!(telemetry.cpu_ns, Some(4_000));
    let times: Vec<_> = lines.iter().map(|line| line["at_ms"].as_u64()).collect();
    assert_eq!(times, [Some(0), Some(1_000), Some(2_000), Some(3_000)]);
    assert_eq!(lines[1]["time"], "1970-01-01T00:00:06.000Z");
}

#[test]
fn what_was_sent_before_the_window_and_after_it_does_not_count() {
    let world = World {
        lives: vec![
            (1, at(-2.0), u64::MAX),
            (2, at(0.5), at(2.25)),
            (3, at(0.1), at(0.2)),
            (4, at(-4.0), at(-1.0)),
            (5, at(-1.0), at(0.7)),
        ],
        ..World::default()
    };
    let (telemetry, _, lines) = watched(world, 3);
    let summary = telemetry.sockets.unwrap();
    assert_eq!((summary.sockets, summary.closed), (4, 3));
    assert_eq!(summary.bytes_sent, Some(3_001 + 1_750 + 100 + 701));
    let closed: Vec<_> = lines
        .iter()
        .filter_map(|line| line["closed"].as_array())
        .flatten()
        .map(|socket| socket["cookie"].as_u64())
        .collect();
    assert_eq!(closed, [Some(3), Some(5), Some(2)]);
}

#[test]
fn a_late_report_belongs_to_the_time_before_the_window() {
    let world = World {
        lives: vec![(1, at(-4.0), at(-0.002))],
        telling_ns: 1_500_000,
        dump_ns: 1_000_000,
        ..World::default()
    };
    let (telemetry, world, _) = watched(world, 1);
    assert_eq!(world.told, [1]);
    assert_eq!(telemetry.sockets.unwrap().sockets, 0);
}

#[test]
fn samples_that_take_longer_than_the_interval_are_not_made_up_for() {
    let world = World {
        dump_ns: 2_300_000_000,
        ..World::default()
    };
    let (telemetry, world, _) = watched(world, 10);
    assert_eq!(seconds(&world.dumps_ns), [-0.001, 2.299, 5.0, 8.0, 10.3]);
    assert_eq!(telemetry.samples, 5);
}

#[test]
fn ending_the_window_takes_effect_at_once_and_waits_for_closing_sockets() {
    let world = World {
        ended_ns: Some(at(1.5)),
        lives: vec![(1, at(0.0), at(1.45)), (2, at(0.0), at(9.0))],
        telling_ns: 60_000_000,
        ..World::default()
    };
    let (telemetry, world, _) = watched(world, 0);
    assert_eq!(seconds(&world.dumps_ns), [-0.001, 1.0, 1.5]);
    let summary = telemetry.sockets.unwrap();
    assert_eq!((summary.sockets, summary.closed), (2, 1));
    assert_eq!(summary.bytes_sent, Some(1_450 + 1_500));
    assert!(seconds(&[world.now_ns])[0] < 1.53);
}

#[test]
fn a_socket_that_closes_at_the_end_is_waited_for_also_if_the_window_ended_by_time() {
    let world = World {
        lives: vec![(1, at(0.0), at(2.999))],
        telling_ns: 15_000_000,
        ..World::default()
    };
    let (telemetry, _, _) = watched(world, 3);
    let summary = telemetry.sockets.unwrap();
    assert_eq!((summary.sockets, summary.closed), (1, 1));
    assert_eq!(summary.bytes_sent, Some(2_999));
}

#[test]
fn the_wait_for_an_unreported_socket_is_bounded() {
    let world = World {
        ended_ns: Some(at(1.5)),
        lives: vec![(1, at(0.0), at(1.45))],
        telling_ns: 60 * SECOND_NS,
        ..World::default()
    };
    let (telemetry, world, _) = watched(world, 0);
    let summary = telemetry.sockets.unwrap();
    assert_eq!((summary.sockets, summary.closed), (1, 0));
    assert_eq!(summary.bytes_sent, Some(1_000));
    assert!(seconds(&[world.now_ns])[0] < 1.54);
}

#[test]
fn a_window_that_is_ended_during_the_warm_up_is_empty() {
    let world = World {
        ended_ns: Some(at(-3.0)),
        lives: vec![(1, at(-4.0), u64::MAX)],
        ..World::default()
    };
    let (telemetry, world, _) = watched(world, 3);
    assert_eq!(seconds(&[world.now_ns]), [-3.0]);
    let summary = telemetry.sockets.unwrap();
    assert_eq!((summary.sockets, summary.bytes_sent), (1, Some(0)));
}

#[test]
fn closed_sockets_are_fetched_before_the_kernels_queue_is_full() {
    let (_, world, _) = watched(World::default(), 3);
    // Eight seconds, ten times a second.
    assert!((80..100).contains(&world.fetches), "{}", world.fetches);
}

#[test]
fn failed_samples_are_reported_and_the_others_count() {
    let world = World {
        lives: vec![(1, at(-2.0), u64::MAX)],
        fails_ns: vec![at(1.0), at(2.0)],
        ..World::default()
    };
    let (telemetry, _, lines) = watched(world, 4);
    assert_eq!(telemetry.samples, 3);
    assert_eq!(lines.len(), 3);
    assert_eq!(
        telemetry.notes,
        ["2 of 5 samples of the sockets failed: out of memory"]
    );
    assert_eq!(telemetry.sockets.unwrap().bytes_sent, Some(4_001));
}

#[test]
fn if_the_first_sample_fails_the_next_one_is_the_start() {
    let world = World {
        lives: vec![(1, at(-2.0), u64::MAX)],
        fails_ns: vec![at(-0.001)],
        ..World::default()
    };
    let (telemetry, _, _) = watched(world, 4);
    assert_eq!(telemetry.sockets.unwrap().bytes_sent, Some(3_000));
}

#[test]
fn dropped_reports_of_closed_sockets_are_noted() {
    let world = World {
        overflows: 7,
        ..World::default()
    };
    let (telemetry, _, _) = watched(world, 1);
    let expected =
        "the kernel's queue of closed sockets was full (7x): some final values are missing";
    assert_eq!(telemetry.notes, [expected]);
}

#[test]
fn without_sockets_there_are_no_intermediate_wakeups() {
    let world = Rc::new(RefCell::new(World::default()));
    let watch: SamplingLoop<Handle> = SamplingLoop {
        kernel: None,
        interval_ns: 1,
        counters: true,
        lines: SampleWriter::new(None),
        notes: vec!["before".to_owned()],
    };
    let window = Window {
        begin_ns: BEGIN_NS,
        end_ns: BEGIN_NS + 3_600 * SECOND_NS,
    };
    let telemetry = watch.run(window, &mut Handle(Rc::clone(&world)));
    assert_eq!(telemetry.sockets, None);
    assert_eq!((telemetry.samples, telemetry.notes.len()), (0, 1));
    assert_eq!(world.borrow().now_ns, window.end_ns);
}

/// Per row of the timeline: start, sockets, and bytes sent.
fn rows(telemetry: &Telemetry) -> Vec<(u64, Option<u64>, Option<u64>)> {
    let rows = telemetry.timeline.iter().flat_map(|line| &line.rows);
    rows.map(|row| (row.start_ms, row.sockets, row.bytes_sent))
        .collect()
}

fn assert_rows_add_up(telemetry: &Telemetry) {
    let rows = &telemetry.timeline.as_ref().unwrap().rows;
    let summary = telemetry.sockets.as_ref().unwrap();
    let sent: u64 = rows.iter().filter_map(|row| row.bytes_sent).sum();
    assert_eq!(Some(sent), summary.bytes_sent);
    let again: u64 = rows
        .iter()
        .filter_map(|row| row.segments_retransmitted)
        .sum();
    assert_eq!(again, summary.segments_retransmitted);
}

#[test]
fn each_interval_has_a_row_with_what_was_sent_in_it() {
    let world = World {
        lives: vec![
            (1, at(-2.0), u64::MAX),
            (2, at(0.5), at(2.25)),
            (3, at(0.1), at(0.2)),
        ],
        ended_ns: Some(at(3.5)),
        ..World::default()
    };
    let (telemetry, _, _) = watched(world, 0);
    assert_eq!(telemetry.timeline.as_ref().unwrap().interval_ms, 1_000);
    let expected = [
        (0, Some(2), Some(1_001 + 500 + 100)),
        (1_000, Some(2), Some(1_000 + 1_000)),
        (2_000, Some(1), Some(1_000 + 250)),
        (3_000, Some(1), Some(500)),
    ];
    assert_eq!(rows(&telemetry), expected);
    assert_rows_add_up(&telemetry);
    let cwnds = telemetry.timeline.unwrap().rows;
    assert!(cwnds.iter().all(|row| row.cwnd_p50 == Some(10.0)));
    assert!(cwnds.iter().all(|row| row.rtt_p50_us.is_none()));
}

#[test]
fn after_missing_samples_the_next_one_has_what_was_sent() {
    let world = World {
        lives: vec![(1, at(-2.0), u64::MAX)],
        fails_ns: vec![at(2.0)],
        ..World::default()
    };
    let (telemetry, _, _) = watched(world, 4);
    let expected = [
        (0, Some(1), Some(1_001)),
        (1_000, None, None),
        (2_000, Some(1), Some(2_000)),
        (3_000, Some(1), Some(1_000)),
    ];
    assert_eq!(rows(&telemetry), expected);
    assert_rows_add_up(&telemetry);

    let slow = World {
        lives: vec![(1, at(-2.0), u64::MAX)],
        dump_ns: 2_300_000_000,
        ..World::default()
    };
    // Samples start at -0.001, 2.299, 5, 8 and 10.3 seconds.
    let (telemetry, _, _) = watched(slow, 10);
    let sent: Vec<_> = rows(&telemetry).into_iter().map(|row| row.2).collect();
    let (none, some) = (None, Some);
    let expected = [some(0), some(2_300), none, none, some(2_701)];
    assert_eq!(sent[..5], expected);
    assert_eq!(sent[5..], [none, none, some(3_000), none, some(2_300)]);
    assert_rows_add_up(&telemetry);
}

#[test]
fn a_long_window_has_rows_of_several_intervals() {
    let world = World {
        lives: vec![(1, at(-2.0), at(1_700.3)), (2, at(900.2), u64::MAX)],
        ..World::default()
    };
    let (telemetry, _, _) = watched(world, 2_500);
    let timeline = telemetry.timeline.as_ref().unwrap();
    assert_eq!((timeline.interval_ms, timeline.rows.len()), (8_000, 313));
    assert_rows_add_up(&telemetry);
}

#[test]
fn without_sockets_there_is_nothing_over_time() {
    let watch: SamplingLoop<Handle> = SamplingLoop {
        kernel: None,
        interval_ns: SECOND_NS,
        counters: true,
        lines: SampleWriter::new(None),
        notes: Vec::new(),
    };
    let window = Window {
        begin_ns: BEGIN_NS,
        end_ns: BEGIN_NS + SECOND_NS,
    };
    let world = Rc::new(RefCell::new(World::default()));
    assert_eq!(watch.run(window, &mut Handle(world)).timeline, None);
}
