//! Profiles of simulated servers, whose truth is known.

use fastrand::Rng;
use results::{FunctionShare, StackSample};

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
        profile(self.samples, &self.slow_ns, self.window_ns)
    }
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
                block_ns: SECOND_NS
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

#[test]
fn only_as_many_of_the_slowest_requests_count_as_leave_half_of_the_window() {
    let mut many = world(10, 1, Planted::Nothing);
    // One after the other, of 10 ms, but for ten of 100 ms.
    many.slow_ns = (0..1000)
        .map(|at| (START_NS + at * 10 * MS_NS, 10 * MS_NS))
        .collect();
    for (at, span) in many.slow_ns.iter_mut().enumerate() {
        let length = if at % 100 == 0 {
            100 * MS_NS
        } else {
            10 * MS_NS
        };
        span.1 = span.0 + length;
    }
    let slow = many.profile().slow;
    assert_eq!(slow.shortest_ns, 10 * MS_NS);
    let half = 5 * SECOND_NS;
    assert!(
        (half - 20 * MS_NS..=half).contains(&slow.time_ns),
        "{slow:?}"
    );
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
    let found = profile(ProfileSamples::default(), &[(5, 1), (u64::MAX, 0)], (9, 3));
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
        let profile = profile(world.samples, &world.slow_ns, world.window_ns);
        assert_eq!(profile.clock_bound_ns, clock_bound_ns);
        let is_about_clocks = |note: &String| note.contains("known to within 5 ms");
        assert_eq!(profile.notes.iter().any(is_about_clocks), is_noted);
    }
}
