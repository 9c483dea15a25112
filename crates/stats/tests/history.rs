//! Changes, drifts and newest values of simulated histories.
//!
//! The default tests are small; `make statistics` runs the large ones and prints their tables.

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
    /// Every twentieth version is an outlier.
    Contaminated,
}

const SHAPES: [Shape; 4] = [
    Shape::Normal,
    Shape::Skewed,
    Shape::Ties,
    Shape::Contaminated,
];

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
            Shape::Contaminated => {
                let cold = if random.f64() < 0.05 { -8.0 } else { 0.0 };
                cold + normal(random)
            }
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

#[test]
#[ignore = "large: make statistics"]
fn table_of_false_alarms() {
    println!("share of histories of three metrics without a change that say something");
    println!("{:>14} {:>7} {:>7} {:>7} {:>7}", "", 10, 25, 40, 60);
    for shape in SHAPES {
        let found = [10, 25, 40, 60].map(|versions| {
            let one = alarms(shape, versions, LEVEL, 2_000) as f64 / 2_000.0;
            1.0 - (1.0 - one).powi(3)
        });
        let cells: String = found.iter().map(|share| format!(" {share:>7.3}")).collect();
        println!("{:>14}{cells}", format!("{shape:?}"));
        for share in found {
            // The newest value of a long tail, or an outlier, looks like a change.
            let most = match shape {
                Shape::Normal | Shape::Ties => 0.062,
                Shape::Skewed => 0.085,
                Shape::Contaminated => 0.15,
            };
            assert!(share <= most, "{shape:?}: {found:?}");
        }
    }
}

#[test]
#[ignore = "large: make statistics"]
fn table_of_found_changes() {
    println!("of 100 histories of 40 versions: right, a change elsewhere beside it, a drift");
    let two = [(18, 0.0), (3, -0.04), (19, -0.08)];
    let back = [(18, 0.0), (3, -0.04), (19, 0.0)];
    let cases: [(&str, Vec<f64>); 10] = [
        ("10 % in the newest", steps(&[(39, 0.0), (1, -0.105)])),
        ("10 % two versions ago", steps(&[(38, 0.0), (2, -0.105)])),
        ("10 % three versions ago", steps(&[(37, 0.0), (3, -0.105)])),
        ("5 % four versions ago", steps(&[(36, 0.0), (4, -0.051)])),
        ("5 % six versions ago", steps(&[(34, 0.0), (6, -0.051)])),
        ("5 % in the middle", steps(&[(20, 0.0), (20, -0.051)])),
        ("two of 4 %", steps(&two)),
        ("4 % and back", steps(&back)),
        ("0.3 % a version", slope(40, 0, 39, -0.003)),
        ("0.3 % a version from 15 on", slope(40, 15, 39, -0.003)),
    ];
    for noise in [0.009, 0.018] {
        for (name, levels) in &cases {
            let found = courses(levels, noise, 100);
            let changes = (1..40).filter(|at| (levels[*at] - levels[at - 1]).abs() > 0.01);
            let changes: Vec<usize> = changes.collect();
            let is_right = |course: &Course| match changes.as_slice() {
                [] => course.drift.is_some(),
                [39] => course.newest.is_some_and(|newest| newest.count == 1),
                all => has_near(course, all),
            };
            let is_more = |course: &Course| course.changes.len() > changes.len();
            let drifts = count(&found, |course| course.drift.is_some());
            let (right, more) = (count(&found, is_right), count(&found, is_more));
            println!("{noise} {name:>28}: {right:>4} {more:>4} {drifts:>4}");
            let has_steps = !changes.is_empty();
            assert!(!has_steps || more <= 12, "{name}: {more}");
        }
    }
}
