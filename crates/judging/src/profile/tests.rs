//! Profiles of simulated servers, whose truth is known.

use fastrand::Rng;
use results::{BreakdownRecording, FunctionShare, ServerTimes, SlowRequest, StackSample};

use super::*;

const SECOND_NS: u64 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;
/// The clock does not begin with the window.
const START_NS: u64 = 77 * SECOND_NS;

const FUNCTIONS: [&str; 6] = ["server", "main", "handle", "fast", "slow", "copy"];
/// Where the server is while it serves a usual request, in `slow` while it serves another one, and
/// in a function that both call.
const STACKS: [&[u32]; 3] = [&[0, 1, 2, 3], &[0, 1, 2, 4], &[0, 1, 2, 3, 5]];

/// A server on one CPU, and its slow requests.
struct World {
    samples: ProfileSamples,
    slow_ns: Vec<(u64, u64)>,
    window_ns: (u64, u64),
}

/// What goes with slow requests.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    /// This share of the samples is in `slow`.
    Function(f64),
    /// The thread is on no CPU.
    Lock,
    /// The thread waits for a CPU half of the time.
    RunQueue,
}

/// Slow requests of 40 ms, three in a second at random times.
fn world(seconds: u64, seed: u64, planted: Planted) -> World {
    let mut random = Rng::with_seed(seed);
    let slow_ns: Vec<(u64, u64)> = (0..seconds * 3)
        .map(|at| {
            let within = SECOND_NS / 3 - 40 * MS_NS;
            let start = START_NS + at * SECOND_NS / 3 + random.u64(0..within);
            (start, start + 40 * MS_NS)
        })
        .collect();
    let is_slow = |at_ns: u64| {
        let found = slow_ns
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at_ns));
        found && planted != Planted::Nothing
    };
    let mut samples = ProfileSamples {
        functions: FUNCTIONS.map(str::to_owned).to_vec(),
        stacks: STACKS.map(<[u32]>::to_vec).to_vec(),
        pressure_of: "the machine".to_owned(),
        ..ProfileSamples::default()
    };
    // Samples before and after the window do not count.
    for at in 0..(seconds + 2) * 99 {
        let at_ns = START_NS - SECOND_NS + at * SECOND_NS / 99 + random.u64(0..MS_NS);
        let usual = if random.f64() < 0.2 { 2 } else { 0 };
        let stack = match planted {
            Planted::Function(share) if is_slow(at_ns) && random.f64() < share => 1,
            Planted::Lock if is_slow(at_ns) => continue,
            Planted::RunQueue if is_slow(at_ns) && random.bool() => continue,
            _ => usual,
        };
        samples.samples.push(StackSample { at_ns, stack });
    }
    for at in 0..seconds * 50 {
        let start_ns = START_NS + at * 20 * MS_NS;
        // Counted in steps of half a millisecond.
        let slow = (0..40)
            .filter(|step| is_slow(start_ns + step * MS_NS / 2))
            .count() as u64;
        let slow_ns = slow * MS_NS / 2;
        let (lost_ns, wait_ns) = match planted {
            Planted::Lock => (slow_ns, 0),
            Planted::RunQueue => (0, slow_ns / 2),
            _ => (0, 0),
        };
        samples.times.push(ThreadTimes {
            start_ns,
            end_ns: start_ns + 20 * MS_NS,
            threads: 1,
            on_cpu_ns: Some((20 * MS_NS - lost_ns - wait_ns).saturating_sub(random.u64(0..MS_NS))),
            run_queue_wait_ns: Some(wait_ns),
            pressure_ns: [Some(wait_ns), None, Some(0)],
        });
    }
    World {
        samples,
        slow_ns,
        window_ns: (START_NS, START_NS + seconds * SECOND_NS),
    }
}

impl World {
    fn profile(self) -> Profile {
        profile(self.samples, &spans(&self.slow_ns), self.window_ns)
    }
}

/// Requests that were due when they were sent.
fn spans(sent_and_ended_ns: &[(u64, u64)]) -> Vec<SlowSpan> {
    let spans = sent_and_ended_ns.iter();
    spans
        .map(|(sent_ns, ended_ns)| [*sent_ns, *sent_ns, *ended_ns].into())
        .collect()
}

fn row<'a>(profile: &'a Profile, name: &str) -> &'a FunctionShare {
    let row = profile.functions.iter().find(|row| row.name == name);
    row.unwrap_or_else(|| panic!("{name} has a row: {:?}", profile.functions))
}

fn any_found(profile: &Profile) -> bool {
    let functions = profile
        .functions
        .iter()
        .flat_map(|row| [row.own, row.total]);
    let times = profile.times.iter().map(|row| row.per_sec);
    functions.chain(times).any(|share| share.found().is_some())
}

#[test]
fn a_function_that_runs_for_slow_requests_leads_the_difference_with_its_size() {
    for seed in 0..5 {
        let found = world(20, seed, Planted::Function(0.8)).profile();
        assert_eq!(found.functions[0].name, "slow", "{:?}", found.functions);
        let slow = row(&found, "slow");
        let difference = slow.own.found().expect("it is significant");
        assert!((difference.difference - 0.8).abs() < 0.15, "{difference:?}");
        let fast = row(&found, "fast")
            .total
            .found()
            .expect("it is significant");
        assert!(fast.difference < 0.0, "{fast:?}");
        // What is in every stack is no difference.
        assert_eq!(row(&found, "main").total.found(), None);
        assert!(matches!(
            found.comparison,
            ProfileComparison::Compared {
                blocks: 15..,
                block_ns: SECOND_NS,
                ..
            }
        ));
    }
}

#[test]
fn without_a_cause_nothing_is_found_in_19_of_20_worlds() {
    let wrong = (0..40).filter(|seed| any_found(&world(10, *seed, Planted::Nothing).profile()));
    // Functions and times are tested at 5 % each: more than 8 of 40 has a probability of 2 %.
    let wrong = wrong.count();
    assert!(wrong <= 8, "{wrong} of 40");
}

#[test]
fn a_thread_that_waits_for_a_lock_is_on_no_cpu() {
    let found = world(20, 1, Planted::Lock).profile();
    let not_on_cpu = found.per_sec(ThreadState::NotOnCpu).expect("it is known");
    let difference = not_on_cpu.found().expect("it is significant");
    assert!((difference.difference - 1.0).abs() < 0.1, "{difference:?}");
    assert!(
        not_on_cpu.slow.is_some_and(|slow| slow > 0.85),
        "{not_on_cpu:?}"
    );
    assert!(
        not_on_cpu.other.is_some_and(|other| other < 0.1),
        "{not_on_cpu:?}"
    );
    let wait = found
        .per_sec(ThreadState::RunQueueWait)
        .expect("it is known");
    assert_eq!(wait.found(), None);
}

#[test]
fn a_thread_without_a_cpu_waits_in_the_run_queue() {
    let found = world(20, 1, Planted::RunQueue).profile();
    for (what, expected) in [
        (ThreadState::RunQueueWait, 0.5),
        (ThreadState::OnCpu, -0.5),
        (ThreadState::CpuPressure, 0.5),
    ] {
        let difference = found.per_sec(what).and_then(|it| it.found());
        let difference = difference.expect("it is significant").difference;
        assert!(
            (difference - expected).abs() < 0.1,
            "{what:?}: {difference}"
        );
    }
    assert_eq!(
        found.per_sec(ThreadState::MemoryPressure),
        None,
        "it is not known"
    );
}

#[test]
fn too_few_samples_or_blocks_are_told() {
    let mut few = world(20, 1, Planted::Function(1.0));
    few.samples.samples.retain(|sample| sample.at_ns % 97 == 0);
    let found = few.profile();
    assert!(matches!(
        found.comparison,
        ProfileComparison::TooFew {
            slow_samples: 0..20,
            blocks: 0
        }
    ));
    assert!(!any_found(&found));
    // One episode of slow requests is no more than that.
    let mut once = world(20, 1, Planted::Function(1.0));
    once.slow_ns = vec![(
        START_NS + 5 * SECOND_NS,
        START_NS + 5 * SECOND_NS + 600 * MS_NS,
    )];
    let found = once.profile();
    assert!(matches!(
        found.comparison,
        ProfileComparison::TooFew {
            slow_samples: 50..,
            blocks: 0..5
        }
    ));
    assert!(!any_found(&found));
}

#[test]
fn a_request_that_is_in_flight_all_the_time_leaves_nothing_to_compare_with() {
    let mut always = world(10, 1, Planted::Nothing);
    always.slow_ns.push((0, u64::MAX));
    let found = always.profile();
    assert_eq!(found.comparison, ProfileComparison::AlwaysSlow);
    assert_eq!(
        (found.slow.requests, found.samples),
        (1, found.slow.samples)
    );
}

/// Requests of these lengths, one after the other.
fn in_turn(lengths_ns: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let spans = lengths_ns.scan(START_NS, |end_ns, length_ns| {
        let start_ns = *end_ns;
        *end_ns += length_ns;
        Some((start_ns, *end_ns))
    });
    spans.collect()
}

#[test]
fn only_as_many_of_the_slowest_requests_count_as_leave_half_of_the_window() {
    let mut many = world(10, 1, Planted::Nothing);
    // From 5 to 15 ms.
    many.slow_ns = in_turn((0..1_000).map(|at| (5 + at % 10) * MS_NS + at * 1_000));
    let profile = many.profile();
    let slow = profile.slow;
    let half = 5 * SECOND_NS;
    assert!((half * 8 / 10..=half).contains(&slow.time_ns), "{slow:?}");
    assert!(slow.shortest_ns > 10 * MS_NS, "{slow:?}");
    let note = format!("of the 1,000 slowest requests, {} count", slow.requests);
    assert!(
        profile.notes.iter().any(|it| it.starts_with(&note)),
        "{:?}",
        profile.notes
    );
}

#[test]
fn requests_of_equal_latency_are_slow_together_or_not_at_all() {
    let world_of = |lengths_ns: &[u64]| {
        let mut world = world(10, 1, Planted::Nothing);
        world.slow_ns = in_turn(lengths_ns.iter().copied());
        world.profile().slow
    };
    // Ten of 100 ms, and 990 of 9 ms that would be slow nearly all the time.
    let mut lengths_ns = vec![9 * MS_NS; 1_000];
    lengths_ns[..10].fill(100 * MS_NS);
    assert_eq!(world_of(&lengths_ns).requests, 10);
    // There is nothing slower than these.
    assert_eq!(world_of(&[9 * MS_NS; 600]).requests, 600);
    assert_eq!(world_of(&[9 * MS_NS; 400]).requests, 400);
}

/// A server that is busy for 20 ms in `slow` for one request in fifty, at 400 requests a second,
/// and for 0.2 ms in `fast` for the others. As the run knows it: the breakdown, and all requests.
fn one_in_fifty(seconds: u64, seed: u64) -> (World, BreakdownRecording, Vec<SlowSpan>) {
    let mut random = Rng::with_seed(seed);
    let mut world = world(seconds, seed, Planted::Nothing);
    world.samples.samples.clear();
    let mut breakdown = BreakdownRecording::default();
    let mut all = Vec::new();
    for at in 0..seconds * 400 {
        let sent_ns = START_NS + at * SECOND_NS / 400;
        let is_slow = random.u32(..50) == 0;
        let busy_ns = if is_slow { 20 * MS_NS } else { MS_NS / 5 };
        // Up to 8 % more.
        let latency_ns = busy_ns + (busy_ns as f64 * 0.08 * random.f64()) as u64;
        all.push(SlowSpan::from([sent_ns, sent_ns, sent_ns + latency_ns]));
        breakdown.add(&SlowRequest {
            first_byte_ns: latency_ns,
            ..request()
        });
        // 99 samples per second of CPU time.
        let chance = busy_ns as f64 / SECOND_NS as f64 * 99.0;
        for _ in 0..(chance + random.f64()) as u64 {
            let at_ns = sent_ns + random.u64(0..busy_ns);
            let stack = if is_slow { 1 } else { 0 };
            world.samples.samples.push(StackSample { at_ns, stack });
        }
    }
    world.samples.samples.sort_by_key(|sample| sample.at_ns);
    (world, breakdown, all)
}

fn request() -> SlowRequest {
    SlowRequest {
        due_ns: 0,
        waited_ns: 0,
        connecting_ns: 0,
        own_ns: 0,
        read_late_ns: 0,
        first_byte_ns: 0,
        last_byte_ns: 0,
        status: 200,
        path: None,
        trace_id: None,
        server_timing_ns: ServerTimes::default(),
    }
}

#[test]
fn what_two_percent_of_the_requests_do_is_found_and_the_table_is_about_the_same_requests() {
    for seed in 0..20 {
        let (world, breakdown, all) = one_in_fifty(12, seed);
        let from_ns =
            results::parts::breakdown::slowest_from_ns(&breakdown).expect("there are requests");
        let is_slow = |span: &&SlowSpan| span.latency_ns() >= from_ns;
        let slow: Vec<SlowSpan> = all.iter().filter(is_slow).copied().collect();
        let truth = all
            .iter()
            .filter(|span| span.latency_ns() >= 20 * MS_NS)
            .count();
        assert_eq!(slow.len(), truth, "seed {seed}: from {from_ns}");
        let table = results::parts::breakdown::Slowest::of(&breakdown).expect("there are requests");
        let profile = profile(world.samples, &slow, world.window_ns);
        assert_eq!(
            (table.requests, profile.slow.requests),
            (truth as u64, truth as u64)
        );
        let difference = row(&profile, "slow")
            .own
            .found()
            .expect("it is significant");
        assert!(difference.difference > 0.8, "seed {seed}: {difference:?}");
    }
}

#[test]
fn a_difference_that_would_show_is_found_in_most_worlds() {
    let shows = |profile: &Profile| match profile.comparison {
        ProfileComparison::Compared { shows, .. } => shows.expect("it is known"),
        other => panic!("{other:?}"),
    };
    let least = (0..5).map(|seed| shows(&world(10, seed, Planted::Nothing).profile()));
    let least = least.sum::<f64>() / 5.0;
    assert!((0.1..0.6).contains(&least), "{least}");
    let found = |share: f64| {
        let worlds = (100..120).map(|seed| world(10, seed, Planted::Function(share)));
        let found = worlds.map(World::profile).filter(|found| {
            let slow = found.functions.iter().find(|row| row.name == "slow");
            slow.is_some_and(|row| row.own.found().is_some())
        });
        found.count()
    };
    // It is meant for the function that scatters most; others are found with less.
    assert!(found(least) >= 16, "{} of 20 at {least}", found(least));
    assert!(found(least / 8.0) < 16, "{} of 20", found(least / 8.0));
}

#[test]
fn without_slow_requests_the_profile_is_shown_whole() {
    let mut world = world(10, 1, Planted::Nothing);
    world.slow_ns.clear();
    let found = world.profile();
    assert_eq!(found.comparison, ProfileComparison::NoSlowRequests);
    assert_eq!(found.slow, SlowTime::default());
    let fast = row(&found, "fast");
    assert_eq!((fast.own.slow, fast.own.difference), (None, None));
    assert!(fast.total.other.is_some_and(|share| share > 0.99));
    let on_cpu = found.per_sec(ThreadState::OnCpu).expect("it is known");
    assert!(
        on_cpu.other.is_some_and(|on_cpu| on_cpu > 0.9),
        "{on_cpu:?}"
    );
}

#[test]
fn folded_stacks_are_bounded_and_add_up() {
    let mut many = world(10, 1, Planted::Nothing);
    let names = 0..2_000_u32;
    many.samples.functions = names.clone().map(|at| format!("f{at}")).collect();
    many.samples.stacks = names.map(|at| vec![0, at]).collect();
    for (at, sample) in (0..).zip(&mut many.samples.samples) {
        sample.stack = at;
    }
    let found = many.profile();
    let counted: u64 = found.stacks.iter().map(|it| it.slow + it.other).sum();
    assert_eq!(counted + found.samples_left_out, found.samples);
    assert!(found.stacks.len() <= STACKS_MAX);
    // A function that calls itself counts once.
    let mut own = world(10, 1, Planted::Nothing);
    own.samples.stacks = vec![vec![0, 1, 1, 1]; 3];
    let found = own.profile();
    assert_eq!(row(&found, "main").total.other, Some(1.0));
}

#[test]
fn nothing_at_all_is_no_error() {
    let found = profile(
        ProfileSamples::default(),
        &spans(&[(5, 1), (u64::MAX, 0)]),
        (9, 3),
    );
    assert_eq!(found.samples, 0);
    assert_eq!(found.functions, []);
}

#[test]
fn clocks_that_are_not_known_well_enough_are_noted() {
    for (clock_bound_ns, is_noted) in [
        (None, false),
        (Some(4 * MS_NS), false),
        (Some(5 * MS_NS), true),
    ] {
        let mut world = world(20, 1, Planted::Function(0.9));
        world.samples.clock_bound_ns = clock_bound_ns;
        let profile = world.profile();
        assert_eq!(profile.clock_bound_ns, clock_bound_ns);
        let is_about_clocks = |note: &String| note.contains("known to within 5 ms");
        assert_eq!(profile.notes.iter().any(is_about_clocks), is_noted);
    }
}
