//! Rank tests against figures computed by hand and published ones.

use stats::{
    PValueMethod, Permutations, Ranks, compare_with_reference, holm, mann_whitney,
    mann_whitney_attained_level, mann_whitney_p_min, modified_z_score, trend,
};

const PERMUTATIONS: Permutations = Permutations {
    in_blocks: false,
    draws: 1_999,
    seed: 1,
};

#[track_caller]
fn check(found: f64, expected: f64) {
    assert!((found - expected).abs() < 5e-4, "{found}, not {expected}");
}

#[test]
fn separate_samples_have_the_smallest_p_value_of_their_sizes() {
    for (n, p) in [(3, 0.1), (4, 0.0286), (5, 0.0079), (6, 0.0022)] {
        let low: Vec<f64> = (0..n).map(f64::from).collect();
        let high: Vec<f64> = low.iter().map(|value| value + 100.0).collect();
        for (first, second) in [(&low, &high), (&high, &low)] {
            let test = mann_whitney(first, second).expect("there are enough values");
            check(test.p_value, p);
            assert_eq!(test.method, PValueMethod::Exact);
        }
        check(mann_whitney_p_min(n as usize, n as usize), p);
    }
}

#[test]
fn exact_p_values_with_ties_are_those_of_enumeration() {
    // Of the 6 ways to choose two of {1, 2, 2, 3}, those with the sums 3 and 5 are extreme: 4 of 6.
    check(
        mann_whitney(&[1.0, 2.0], &[2.0, 3.0])
            .expect("there are enough values")
            .p_value,
        4.0 / 6.0,
    );
    check(
        mann_whitney(&[2.0; 4], &[2.0; 5])
            .expect("there are enough values")
            .p_value,
        1.0,
    );
}

#[test]
fn many_values_give_the_normal_p_value_close_to_the_exact_one() {
    let first: Vec<f64> = (0..20).map(f64::from).collect();
    let second: Vec<f64> = first.iter().map(|value| value + 4.5).collect();
    let exact = mann_whitney(&first, &second).expect("there are enough values");
    let mut longer = second.clone();
    longer.push(14.2);
    let normal = mann_whitney(&first, &longer).expect("there are enough values");
    assert_eq!(
        (exact.method, normal.method),
        (PValueMethod::Exact, PValueMethod::Normal)
    );
    assert!(
        (exact.p_value - normal.p_value).abs() < 0.01,
        "{exact:?}, {normal:?}"
    );
}

#[test]
fn invalid_samples_have_no_p_value() {
    assert_eq!(mann_whitney(&[], &[1.0]), None);
    assert_eq!(mann_whitney(&[f64::NAN], &[1.0]), None);
    assert_eq!(Ranks::of(&[vec![1.0]], false), None);
    assert_eq!(Ranks::of(&[vec![1.0], vec![]], false), None);
    assert_eq!(Ranks::of(&[vec![1.0], vec![1.0, 2.0]], true), None);
    assert_eq!(
        compare_with_reference(&[vec![1.0], vec![2.0]], 0, PERMUTATIONS),
        None
    );
    assert_eq!(
        compare_with_reference(&[vec![1.0, 2.0], vec![f64::INFINITY]], 0, PERMUTATIONS),
        None
    );
    assert_eq!(trend(&[1.0; 20]), None);
    assert_eq!(trend(&[1.0, 2.0]), None);
    assert_eq!(modified_z_score(9.0, &[1.0; 9]), None);
}

#[test]
fn only_some_levels_are_attainable() {
    check(mann_whitney_attained_level(3, 0.05), 0.0);
    check(mann_whitney_attained_level(4, 0.05), 2.0 / 70.0);
    check(mann_whitney_attained_level(5, 0.05), 8.0 / 252.0);
    check(mann_whitney_attained_level(50, 0.05), 0.05);
}

#[test]
fn holm_multiplies_the_smallest_p_value_by_their_number_and_never_decreases() {
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        check(*found, expected);
    }
    assert_eq!(holm(&[0.6, 0.9]), [1.0, 1.0]);
    assert_eq!(holm(&[]), [0.0; 0]);
}

/// Requests per second and 99th percentile of latency, microseconds, of seven socket buffer sizes
/// with five runs each: the table published in the readme of
/// github.com/centminmod/centminmod-buffertests.
const PUBLISHED: [[(f64, f64); 5]; 7] = [
    [
        (21173.40, 6773.0),
        (31252.33, 10389.0),
        (32445.29, 7209.0),
        (30903.76, 27004.0),
        (32065.25, 8075.0),
    ],
    [
        (28079.80, 5842.0),
        (29478.14, 181706.0),
        (32519.16, 6362.0),
        (31162.93, 13155.0),
        (30461.94, 80573.0),
    ],
    [
        (32470.98, 9120.0),
        (30885.48, 51239.0),
        (32450.29, 7125.0),
        (31558.20, 10651.0),
        (31338.17, 10827.0),
    ],
    [
        (32375.61, 8317.0),
        (28157.70, 314501.0),
        (32605.96, 6240.0),
        (28930.91, 171223.0),
        (30648.68, 55082.0),
    ],
    [
        (32130.48, 10997.0),
        (31550.97, 10241.0),
        (32715.48, 7120.0),
        (31760.95, 9512.0),
        (28765.99, 177823.0),
    ],
    [
        (32370.91, 8483.0),
        (30805.18, 71850.0),
        (32751.82, 9722.0),
        (31501.24, 9496.0),
        (30497.26, 60110.0),
    ],
    [
        (32565.03, 13995.0),
        (31720.33, 19046.0),
        (32717.01, 8057.0),
        (29353.38, 179597.0),
        (31568.18, 9287.0),
    ],
];

fn published(of: fn(&(f64, f64)) -> f64) -> Vec<Vec<f64>> {
    PUBLISHED
        .iter()
        .map(|runs| runs.iter().map(of).collect())
        .collect()
}

#[test]
fn the_published_buffer_sizes_have_no_effect() {
    let rates = published(|run| run.0);
    let times = published(|run| run.1);
    let two_digits = |p: f64| (p * 100.0).round() / 100.0;
    let p = |groups: &[Vec<f64>]| {
        two_digits(
            Ranks::of(groups, false)
                .expect("there are enough values")
                .test(1)
                .p_value,
        )
    };
    assert_eq!((p(&rates), p(&times)), (0.70, 0.89));
    let ends = mann_whitney(&rates[0], &rates[6]).expect("there are enough values");
    assert_eq!(two_digits(ends.p_value), 0.42);
}

#[test]
fn the_published_cold_first_run_is_an_outlier() {
    let logs: Vec<f64> = PUBLISHED
        .iter()
        .flat_map(|runs| {
            let rates: Vec<f64> = runs.iter().map(|run| run.0.ln()).collect();
            let middle = stats::median(&rates).expect("there are enough values");
            rates.into_iter().map(move |rate| rate - middle)
        })
        .collect();
    let z = modified_z_score(logs[0], &logs[1..]).expect("there are enough values");
    assert!(z < -5.0, "{z}");
}

#[test]
fn few_values_are_judged_by_permutations() {
    let groups = [vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 6.0]];
    let test = Ranks::of(&groups, false)
        .expect("there are enough values")
        .test(3);
    assert_eq!(test.method, PValueMethod::Permutation);
    // 6 of the 90 ways to divide six ranks into three pairs are this far apart.
    assert!((test.p_value - 6.0 / 90.0).abs() < 0.01, "{test:?}");
    check(test.statistic, 4.5714);
}

#[test]
fn an_outlier_neither_makes_a_difference_nor_hides_one() {
    let mut groups = vec![
        vec![-0.2, 0.1, 0.0, 0.2, -0.1],
        vec![0.1, -0.2, 0.2, 0.0, -0.1],
        vec![1.1, 1.0, 0.9, 1.2, 0.8],
    ];
    groups[1][0] = -100.0;
    let p = compare_with_reference(&groups, 0, PERMUTATIONS).expect("there are enough values");
    assert_eq!(p[0].p_value, 1.0);
    assert!(p[1].p_value > 0.1 && p[2].p_value < 0.01, "{p:?}");
}

#[test]
fn levels_whose_values_are_all_equal_differ_when_the_levels_do() {
    let levels = |middles: [f64; 3]| -> Vec<f64> {
        let groups = middles.map(|middle| vec![middle; 5]);
        let known =
            compare_with_reference(&groups, 0, PERMUTATIONS).expect("there are enough values");
        known.iter().map(|it| it.adjusted_p_value).collect()
    };
    let differ = levels([100.0, 1_000.0, 5_000.0]);
    assert!(differ[1] < 0.05 && differ[2] < 0.05, "{differ:?}");
    let one_differs = levels([100.0, 100.0, 5_000.0]);
    assert!(
        one_differs[1] > 0.5 && one_differs[2] < 0.05,
        "{one_differs:?}"
    );
    assert_eq!(levels([100.0; 3]), [1.0; 3]);
    // One run of each was slower, but most are still equal.
    let mut groups = [100.0, 1_000.0, 5_000.0].map(|middle| vec![middle; 5]);
    for group in &mut groups {
        group[3] *= 0.99;
    }
    let known = compare_with_reference(&groups, 0, PERMUTATIONS).expect("there are enough values");
    assert!(
        known[1..].iter().all(|it| it.adjusted_p_value < 0.05),
        "{known:?}"
    );
    let cells = [
        [vec![100.0; 5], vec![101.0; 5]],
        [vec![7.0; 5], vec![7.0; 5]],
    ];
    let found = stats::cell_by_cell(&cells, 999, 1).expect("there are enough values");
    assert!(found[0] < 0.01 && found[1] > 0.5, "{found:?}");
}

#[test]
fn levels_far_off_on_both_sides_do_not_hide_each_other() {
    for far in [4.0, 1_000.0] {
        let groups: Vec<Vec<f64>> = [0.0, far, -far, far / 2.0, -far / 2.0]
            .map(|middle| {
                [0.03, -0.04, 0.02, -0.01, 0.0]
                    .map(|it| middle + it)
                    .to_vec()
            })
            .to_vec();
        let known =
            compare_with_reference(&groups, 0, PERMUTATIONS).expect("there are enough values");
        assert!(
            known[1..].iter().all(|it| it.adjusted_p_value < 0.05),
            "{far}: {known:?}"
        );
    }
}

#[test]
fn levels_that_double_all_differ() {
    let groups: Vec<Vec<f64>> = (0..7)
        .map(|level| {
            [0.0, 0.03, -0.04, 0.02, -0.01]
                .map(|it| f64::from(level) * 0.69 + it)
                .to_vec()
        })
        .collect();
    let known = compare_with_reference(&groups, 0, PERMUTATIONS).expect("there are enough values");
    let adjusted: Vec<f64> = known.iter().map(|it| it.adjusted_p_value).collect();
    assert_eq!(adjusted[0], 1.0);
    assert!(adjusted[1..].iter().all(|p| *p < 0.01), "{adjusted:?}");
    assert!(
        known.iter().all(|it| it.p_value <= it.adjusted_p_value),
        "{known:?}"
    );
}

#[test]
fn thousands_of_values_are_judged_without_comparing_every_pair() {
    let mut random = fastrand::Rng::with_seed(5);
    let rising: Vec<f64> = (0..50_000)
        .map(|index| f64::from(index) * 1e-4 + random.f64())
        .collect();
    let found = trend(&rising).expect("there are enough values");
    assert!(
        found.p_value < 1e-9 && (found.slope - 1e-4).abs() < 1e-6,
        "{found:?}"
    );
    // The median distance of two uniform values is 1 - 1 / sqrt(2).
    let flat: Vec<f64> = (0..50_000).map(|_| random.f64()).collect();
    let expected = (1.0 - 0.5_f64.sqrt()) / 0.953_872_552;
    let noise = stats::noise(&[flat]).expect("there are enough values");
    assert!((noise / expected - 1.0).abs() < 0.01, "{noise}");
}
