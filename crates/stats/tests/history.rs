//! Changes, drifts and newest values of simulated histories.

use fastrand::Rng;
use stats::Course;

/// The level of each of the three usual metrics.
const LEVEL: f64 = 0.05 / 3.0;

/// The scatter of versions, and of the runs of one version.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Of logarithms, so that the values are lognormal.
    Normal,
    /// With one long tail, in logarithms as well.
    Skewed,
    /// Rounded, so that many values are equal.
    Ties,
}

fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// The logarithms of five runs of each version around these levels. Versions scatter by `noise`, a
/// share, and runs of one version by the same.
fn history(random: &mut Rng, shape: Shape, levels: &[f64], noise: f64) -> Vec<Vec<f64>> {
    let version = |level: &f64| {
        let of_version = match shape {
            Shape::Normal | Shape::Ties => normal(random),
            Shape::Skewed => 1.5 * ((0.5 * normal(random)).exp() - 1.0),
        };
        let run = |_| {
            let value = level + noise * (of_version + normal(random));
            match shape {
                Shape::Ties => (value / noise).round() * noise,
                _ => value,
            }
        };
        (0..5).map(run).collect()
    };
    levels.iter().map(version).collect()
}

/// Levels: so many versions, each followed by a change.
fn steps(parts: &[(usize, f64)]) -> Vec<f64> {
    let part = |(count, level): &(usize, f64)| vec![*level; *count];
    parts.iter().flat_map(part).collect()
}

/// A steady slope from one version to another.
fn slope(count: usize, from: usize, to: usize, each: f64) -> Vec<f64> {
    let level = |at: usize| each * (at.clamp(from, to) - from) as f64;
    (0..count).map(level).collect()
}

fn says_something(course: &Course) -> bool {
    !course.changes.is_empty() || course.drift.is_some() || course.newest.is_some()
}

fn places(course: &Course) -> Vec<usize> {
    course.changes.iter().map(|change| change.at).collect()
}

/// Whether there is a change at each of these places, or next to it.
fn has_near(course: &Course, all: &[usize]) -> bool {
    let places = places(course);
    let mut all = all.iter();
    all.all(|at| places.iter().any(|it| it.abs_diff(*at) <= 1))
}

/// What is found in so many histories with these levels.
fn courses(levels: &[f64], noise: f64, repeats: u64) -> Vec<Course> {
    let mut random = Rng::with_seed(7);
    let course = |seed| {
        let runs = history(&mut random, Shape::Normal, levels, noise);
        Course::of(&runs, LEVEL, seed)
    };
    (0..repeats).map(course).collect()
}

/// How many of these hold.
fn count(courses: &[Course], holds: impl Fn(&Course) -> bool) -> usize {
    courses.iter().filter(|course| holds(course)).count()
}

/// The number of histories without a change that say something.
fn alarms(shape: Shape, versions: usize, level: f64, repeats: u64) -> usize {
    let mut random = Rng::with_seed(3);
    let is_false = |seed: &u64| {
        let runs = history(&mut random, shape, &vec![0.0; versions], 0.02);
        says_something(&Course::of(&runs, level, *seed))
    };
    (0..repeats).filter(is_false).count()
}

#[test]
fn histories_without_a_change_rarely_say_something() {
    for shape in [Shape::Normal, Shape::Skewed, Shape::Ties] {
        for versions in [10, 25] {
            let alarms = alarms(shape, versions, 0.05, 60);
            // 3 expected.
            assert!(alarms <= 9, "{shape:?} {versions}: {alarms}");
        }
    }
}

#[test]
fn newest_versions_that_fell_by_a_tenth_are_named() {
    for noise in [0.008, 0.016] {
        for fallen in [1, 2, 3] {
            let levels = steps(&[(40 - fallen, 0.0), (fallen, -0.105)]);
            let found = courses(&levels, noise, 8);
            assert!(
                count(&found, says_something) >= 7,
                "{noise} {fallen}: {found:?}"
            );
            let is_change = |course: &Course| places(course).contains(&(40 - fallen));
            let changes = count(&found, is_change);
            assert!(fallen == 1 || changes >= 6, "{noise} {fallen}: {changes}");
            assert!(fallen > 1 || changes == 0, "{noise}: {changes}");
        }
    }
}

#[test]
fn changes_are_dated_where_they_are() {
    for age in [4, 6, 20] {
        let levels = steps(&[(40 - age, 0.0), (age, -0.06)]);
        let found = courses(&levels, 0.01, 8);
        let right = count(&found, |course| places(course) == [40 - age]);
        assert!(right >= 6, "{age}: {right}");
    }
}

#[test]
fn two_steps_three_versions_apart_are_two_changes() {
    let levels = steps(&[(20, 0.0), (3, -0.04), (17, -0.08)]);
    let both = count(&courses(&levels, 0.008, 12), |course| {
        has_near(course, &[20, 23])
    });
    assert!(both >= 9, "{both}");
}

#[test]
fn a_slope_is_a_drift_and_a_step_is_none() {
    let is_drift = |course: &Course| course.drift.is_some() && course.changes.is_empty();
    let found = courses(&slope(40, 0, 39, -0.003), 0.01, 8);
    let drifts = count(&found, is_drift);
    assert!(drifts >= 7, "{drifts}");
    for course in found.iter().filter(|course| is_drift(course)) {
        let slope = course.drift.expect("it drifts").slope;
        assert!((slope + 0.003).abs() < 0.001, "{slope}");
    }
    for place in [10, 20, 34] {
        let levels = steps(&[(place, 0.0), (40 - place, -0.06)]);
        let drifts = count(&courses(&levels, 0.01, 4), |course| course.drift.is_some());
        assert_eq!(drifts, 0, "{place}");
    }
}

#[test]
fn a_single_outlier_is_no_change_and_hides_none() {
    let mut random = Rng::with_seed(9);
    let mut quiet = 0;
    let mut right = 0;
    for seed in 0..6 {
        let mut course = |levels: &[f64]| {
            let mut runs = history(&mut random, Shape::Normal, levels, 0.01);
            for run in &mut runs[20] {
                *run -= 0.12;
            }
            Course::of(&runs, LEVEL, seed)
        };
        quiet += usize::from(!says_something(&course(&[0.0; 40])));
        let found = course(&steps(&[(25, 0.0), (15, -0.06)]));
        right += usize::from(places(&found) == [25]);
    }
    assert!(quiet >= 5 && right >= 5, "{quiet} {right}");
}
