//! Episodes of synthetic runs from a seeded generator.

use fastrand::Rng;

use super::*;

const STEP_S: f64 = 0.1;
const STEPS: usize = 150;
const STEPS_OF_INTERVAL: usize = 10;

/// A count of independent events around a mean; for large means by the normal distribution.
fn poisson(rng: &mut Rng, mean: f64) -> u64 {
    if mean > 50.0 {
        let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        return (mean + normal * mean.sqrt()).max(0.0).round() as u64;
    }
    let limit = (-mean).exp();
    let (mut count, mut product) = (0, rng.f64());
    while product > limit {
        count += 1;
        product *= rng.f64();
    }
    count
}

/// A server in steps: its responses and errors in each step, and the latencies of its requests.
struct Server {
    rng: Rng,
    steps: Vec<CourseStep>,
    intervals: Vec<Interval>,
}

impl Server {
    /// A steady server with about `per_step` responses in each step, which take about `usual_ns`
    /// with a heavy tail.
    fn steady(seed: u64, per_step: f64, usual_ns: f64) -> Self {
        let mut server = Self {
            rng: Rng::with_seed(seed),
            steps: Vec::new(),
            intervals: Vec::new(),
        };
        for _ in 0..STEPS {
            let answered = poisson(&mut server.rng, per_step);
            server.steps.push(CourseStep {
                answered,
                arrived: 0,
                errors: 0,
                asked: 1.0,
                shown: 1.0,
            });
        }
        for at in 0..STEPS / STEPS_OF_INTERVAL {
            let steps = &server.steps[at * STEPS_OF_INTERVAL..][..STEPS_OF_INTERVAL];
            let answered: u64 = steps.iter().map(|step| step.answered).sum();
            let values: Vec<u64> = (0..answered).map(|_| server.latency_ns(usual_ns)).collect();
            server.intervals.push(interval(values));
        }
        server
    }

    /// Exponential; one request in a hundred takes twenty times as long.
    fn latency_ns(&mut self, usual_ns: f64) -> u64 {
        let slow = if self.rng.u32(..100) == 0 { 20.0 } else { 1.0 };
        (-self.rng.f64().max(1e-9).ln() * usual_ns * slow) as u64 + 1
    }

    /// No responses arrive in these steps.
    fn stalled(mut self, steps: std::ops::Range<usize>) -> Self {
        for step in &mut self.steps[steps] {
            step.answered = 0;
        }
        self
    }

    fn episodes(&self) -> Vec<Episode> {
        episodes(&Course {
            step_s: STEP_S,
            steps: self.steps.iter().map(|it| arrived(*it)).collect(),
            what: Arrived::Responses,
            comes_in_bursts: false,
            stall_min_s: STALL_MIN_S,
            interval_s: STEP_S * STEPS_OF_INTERVAL as f64,
            intervals: &self.intervals,
        })
    }
}

/// A step in which each arrival is a response.
fn arrived(step: CourseStep) -> CourseStep {
    CourseStep {
        arrived: step.answered,
        ..step
    }
}

fn interval(mut values_ns: Vec<u64>) -> Interval {
    values_ns.sort_unstable();
    let mut samples: Vec<(u64, u64)> = Vec::new();
    for value_ns in &values_ns {
        match samples.last_mut() {
            Some((last, count)) if last == value_ns => *count += 1,
            _ => samples.push((*value_ns, 1)),
        }
    }
    Interval {
        min_ns: values_ns.first().copied().unwrap_or(0),
        max_ns: values_ns.last().copied().unwrap_or(0),
        samples,
    }
}

#[track_caller]
fn about(actual_s: f64, expected_s: f64) {
    assert!(
        (actual_s - expected_s).abs() <= 0.11,
        "{actual_s} for {expected_s}"
    );
}

#[test]
fn a_steady_run_has_no_episodes() {
    for seed in 0..24 {
        // From one response in two steps upwards.
        for per_step in [0.5, 1.0, 3.0, 10.0, 40.0, 200.0] {
            let episodes = Server::steady(seed, per_step, 2e6).episodes();
            assert_eq!(episodes, [], "{per_step} per step, seed {seed}");
        }
    }
}

#[test]
fn evenly_spread_errors_are_not_a_burst() {
    for seed in 0..24 {
        for per_step in [0.05, 0.2, 0.5, 1.0, 3.0] {
            let mut server = Server::steady(seed, 100.0, 2e6);
            for at in 0..STEPS {
                server.steps[at].errors = poisson(&mut server.rng, per_step);
            }
            assert_eq!(server.episodes(), [], "{per_step} per step, seed {seed}");
        }
    }
}

#[test]
fn a_swinging_rate_is_not_a_stall() {
    for seed in 0..16 {
        let mut server = Server::steady(seed, 100.0, 2e6);
        for (at, step) in server.steps.iter_mut().enumerate() {
            let swing = 1.0 + 0.6 * (at as f64 / 4.0).sin();
            step.answered = (step.answered as f64 * swing) as u64;
        }
        assert_eq!(server.episodes(), [], "seed {seed}");
    }
}

#[test]
fn a_server_that_is_only_slower_has_not_stalled() {
    for seed in 0..16 {
        let mut server = Server::steady(seed, 200.0, 2e6);
        for step in &mut server.steps[60..80] {
            step.answered /= 5;
        }
        assert_eq!(server.episodes(), [], "seed {seed}");
    }
}

#[test]
fn a_stall_is_found_where_it_was() {
    for (per_step, from, to) in [
        (200.0, 80, 95),
        (200.0, 80, 82),
        (200.0, 0, 5),
        // The server did not recover.
        (200.0, 60, 150),
        (20.0, 80, 95),
        (5.0, 64, 96),
    ] {
        for seed in 0..20 {
            let server = Server::steady(seed, per_step, 2e6).stalled(from..to);
            let episodes = server.episodes();
            let [Episode::Stall(stall)] = episodes[..] else {
                panic!("{per_step} per step, {from} to {to}, seed {seed}: {episodes:?}");
            };
            // With few responses, steps are longer.
            let precision_s = if per_step < 10.0 { 0.5 } else { 0.11 };
            for (found_s, true_s) in [
                (stall.begin_s, from as f64 * STEP_S),
                (stall.end_s, to as f64 * STEP_S),
            ] {
                assert!(
                    (found_s - true_s).abs() <= precision_s,
                    "{stall:?}, seed {seed}"
                );
            }
            assert_eq!(stall.arrived, 0);
        }
    }
}

#[test]
fn slow_requests_that_were_due_during_a_stall_are_part_of_it() {
    let mut server = Server::steady(1, 200.0, 2e6).stalled(80..95);
    // The requests that were due meanwhile are answered within three seconds after it.
    for step in &mut server.steps[95..125] {
        step.answered += 100;
    }
    for second in 9..12 {
        server.intervals[second] =
            interval((0..2_000).map(|at| 1_000_000_000 - at * 300_000).collect());
    }
    server.intervals[8] = Interval::default();
    let episodes = server.episodes();
    let [Episode::Stall(stall)] = episodes[..] else {
        panic!("{episodes:?}");
    };
    about(stall.begin_s, 8.0);
    about(stall.end_s, 9.5);
    assert_eq!(stall.slow_until_s, Some(12.0));
}

#[test]
fn no_responses_are_missing_while_no_requests_are_due() {
    let mut server = Server::steady(1, 200.0, 2e6).stalled(50..100);
    for step in &mut server.steps[50..100] {
        step.asked = 0.0;
    }
    assert_eq!(server.episodes(), []);
    // A ramp asks for less at its start.
    let mut ramp = Server::steady(1, 200.0, 2e6);
    for (at, step) in ramp.steps.iter_mut().enumerate() {
        step.asked = at as f64 + 1.0;
        step.answered = step.asked as u64 * 4;
    }
    assert_eq!(ramp.episodes(), []);
}

#[test]
fn a_slow_stretch_has_its_share_of_slow_requests() {
    for seed in 0..20 {
        let mut server = Server::steady(seed, 200.0, 2e6);
        for second in 4..6 {
            let values = (0..2_000).map(|_| server.latency_ns(2e7)).collect();
            server.intervals[second] = interval(values);
        }
        let episodes = server.episodes();
        let [
            Episode::Slow {
                begin_s,
                end_s,
                share,
                usual_share,
                above_us,
            },
        ] = episodes[..]
        else {
            panic!("seed {seed}: {episodes:?}");
        };
        assert_eq!((begin_s, end_s), (4.0, 6.0));
        assert!(
            share > 0.7 && usual_share < 0.2,
            "{share} and {usual_share}"
        );
        assert!((3_500.0..5_500.0).contains(&above_us), "{above_us}");
    }
}

#[test]
fn a_burst_of_errors_is_found_where_it_was() {
    for seed in 0..20 {
        let mut server = Server::steady(seed, 100.0, 2e6);
        for at in 0..STEPS {
            server.steps[at].errors = poisson(&mut server.rng, 0.05);
        }
        for step in &mut server.steps[30..34] {
            step.errors += 40;
        }
        let episodes = server.episodes();
        let [
            Episode::Errors {
                begin_s,
                end_s,
                errors,
                ..
            },
        ] = episodes[..]
        else {
            panic!("seed {seed}: {episodes:?}");
        };
        about(begin_s, 3.0);
        about(end_s, 3.4);
        assert!((160..165).contains(&errors), "{errors}");
    }
}

#[test]
fn a_run_with_errors_only_and_an_empty_one_have_no_episodes() {
    let mut server = Server::steady(1, 100.0, 2e6);
    for step in &mut server.steps {
        *step = CourseStep {
            answered: 0,
            arrived: 0,
            errors: 50,
            asked: 1.0,
            shown: 1.0,
        };
    }
    server.intervals.clear();
    assert_eq!(server.episodes(), []);
    let nothing = Course {
        step_s: STEP_S,
        steps: Vec::new(),
        what: Arrived::Responses,
        comes_in_bursts: false,
        stall_min_s: STALL_MIN_S,
        interval_s: 1.0,
        intervals: &[],
    };
    assert_eq!(episodes(&nothing), []);
}
