//! Tests and intervals applied to simulated samples of known distributions.

use fastrand::Rng;
use stats::{
    BlockedValue, PairedDifference, Permutations, Ranks, anytime_interval, block_effects,
    cell_by_cell, compare_with_reference, detectable_difference, detectable_difference_in_blocks,
    detectable_difference_in_cells, holm, mann_whitney, median_difference_interval,
    modified_z_score, noise, trend,
};

/// Distributions as runs have them, each with a median of 0 and a standard deviation of about 1.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Normal,
    Lognormal,
    /// One long tail, as in latencies.
    Exponential,
    /// Every tenth run is an outlier, like a cold run.
    Contaminated,
}

const SHAPES: [Shape; 4] = [
    Shape::Normal,
    Shape::Lognormal,
    Shape::Exponential,
    Shape::Contaminated,
];

fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

impl Shape {
    fn draw(self, random: &mut Rng) -> f64 {
        match self {
            Self::Normal => normal(random),
            Self::Lognormal => 2.0 * ((0.5 * normal(random)).exp() - 1.0),
            Self::Exponential => -(1.0 - random.f64()).ln() - 2_f64.ln(),
            Self::Contaminated => {
                let cold = if random.f64() < 0.1 { -8.0 } else { 0.0 };
                cold + normal(random)
            }
        }
    }

    fn sample(self, random: &mut Rng, count: usize, shift: f64) -> Vec<f64> {
        (0..count).map(|_| shift + self.draw(random)).collect()
    }
}

/// Share of `repeats` trials in which something holds.
fn share(repeats: usize, mut holds: impl FnMut() -> bool) -> f64 {
    (0..repeats).filter(|_| holds()).count() as f64 / repeats as f64
}

fn coverage(shape: Shape, n: usize, repeats: usize) -> f64 {
    let mut random = Rng::with_seed(17 + n as u64);
    share(repeats, || {
        let first = shape.sample(&mut random, n, 0.0);
        let second = shape.sample(&mut random, n, 1.5);
        let seed = random.u64(..);
        let interval = median_difference_interval(&first, &second, 0.95, seed)
            .expect("there are enough values");
        interval.low <= 1.5 && 1.5 <= interval.high
    })
}

#[test]
fn the_interval_of_the_medians_has_the_stated_coverage() {
    for (shape, n) in SHAPES.into_iter().zip([5, 6, 7, 10]) {
        let found = coverage(shape, n, 120);
        assert!((0.89..=0.99).contains(&found), "{shape:?}, {n}: {found}");
    }
}

fn groups(random: &mut Rng, shape: Shape, k: usize, n: usize, shift: f64) -> Vec<Vec<f64>> {
    let sample = |group| shape.sample(random, n, if group == 1 { shift } else { 0.0 });
    (0..k).map(sample).collect()
}

/// Whether any of these groups is found to differ: two groups by the Mann-Whitney test, more groups
/// from the first one after Holm's correction.
fn finds_a_difference(groups: &[Vec<f64>], draws: u32, seed: u64) -> bool {
    if groups.len() == 2 {
        return mann_whitney(&groups[0], &groups[1])
            .expect("there are enough values")
            .p_value
            < 0.05;
    }
    let permutations = Permutations {
        in_blocks: false,
        draws,
        seed,
    };
    let pairs = compare_with_reference(groups, 0, permutations).expect("there are enough values");
    pairs.iter().any(|pair| pair.adjusted_p_value < 0.05)
}

fn false_positives(shape: Shape, k: usize, n: usize, draws: u32, repeats: usize) -> f64 {
    let mut random = Rng::with_seed(29);
    share(repeats, || {
        let groups = groups(&mut random, shape, k, n, 0.0);
        finds_a_difference(&groups, draws, random.u64(..))
    })
}

#[test]
fn equal_groups_are_rarely_found_to_differ() {
    for shape in SHAPES {
        for (k, n) in [(2, 4), (2, 5), (2, 10), (7, 5)] {
            let found = false_positives(shape, k, n, 199, if k == 2 { 600 } else { 150 });
            // 5 % plus three standard errors.
            let most = if k == 2 { 0.077 } else { 0.104 };
            assert!(found <= most, "{k} groups of {n}, {shape:?}: {found}");
        }
    }
}

/// How often a group that differs is found, and how often one that does not, if two others differ
/// by far.
fn next_to_distant_groups(
    shape: Shape,
    n: usize,
    far: f64,
    draws: u32,
    repeats: usize,
) -> (f64, f64) {
    let mut random = Rng::with_seed(73 + n as u64);
    let (mut found, mut wrong) = (0, 0);
    for _ in 0..repeats {
        let shifts = [0.0, 4.0, 0.0, 0.0, 0.0, far / 2.0, far];
        let groups = shifts.map(|shift| shape.sample(&mut random, n, shift));
        let permutations = Permutations {
            in_blocks: false,
            draws,
            seed: random.u64(..),
        };
        let pairs =
            compare_with_reference(&groups, 0, permutations).expect("there are enough values");
        let differs: Vec<bool> = pairs.iter().map(|it| it.adjusted_p_value < 0.05).collect();
        found += usize::from(differs[1]);
        wrong += usize::from(differs[2..5].contains(&true));
    }
    let share = |count: usize| count as f64 / repeats as f64;
    (share(found), share(wrong))
}

#[test]
fn a_group_that_differs_by_far_neither_hides_nor_makes_a_difference() {
    for (shape, n) in [
        (Shape::Normal, 5),
        (Shape::Exponential, 5),
        (Shape::Normal, 3),
    ] {
        let (alone, _) = next_to_distant_groups(shape, n, 0.0, 399, 60);
        for far in [10.0, 1_000.0] {
            let (found, wrong) = next_to_distant_groups(shape, n, far, 399, 120);
            assert!(
                found >= alone - 0.05,
                "{shape:?}, {n}, {far}: {found} {alone}"
            );
            // 5 % plus three standard errors.
            assert!(wrong <= 0.11, "{shape:?}, {n}, {far}: {wrong}");
        }
    }
}

/// Two simulated sweeps of several cells.
#[derive(Debug, Clone, Copy)]
struct Sweeps {
    shape: Shape,
    cells: usize,
    runs: usize,
    /// Number of cells, from the first on, whose new runs differ, and by how much.
    shifted: (usize, f64),
    /// How much noisier the last cell is than the others.
    last_noise: f64,
}

impl Sweeps {
    const fn alike(shape: Shape, cells: usize, runs: usize) -> Self {
        Self {
            shape,
            cells,
            runs,
            shifted: (0, 0.0),
            last_noise: 1.0,
        }
    }

    /// Which cells are found to differ: after Holm's correction, and with an interval that excludes
    /// 0.
    fn found(self, random: &mut Rng) -> Vec<bool> {
        let cells: Vec<[Vec<f64>; 2]> = (0..self.cells)
            .map(|cell| {
                let scale = if cell + 1 == self.cells {
                    self.last_noise
                } else {
                    1.0
                };
                // Each cell has its own level.
                let level = 10.0 * cell as f64;
                let shift = if cell < self.shifted.0 {
                    self.shifted.1
                } else {
                    0.0
                };
                [level, level + shift].map(|middle| {
                    let noise = self.shape.sample(random, self.runs, 0.0);
                    noise.iter().map(|noise| middle + scale * noise).collect()
                })
            })
            .collect();
        let p_values = cell_by_cell(&cells, 199, random.u64(..)).expect("there are enough values");
        let leaves_none_out = |[old, new]: &[Vec<f64>; 2], seed| {
            let interval =
                median_difference_interval(old, new, 0.95, seed).expect("there are enough values");
            interval.low <= 0.0 && 0.0 <= interval.high
        };
        holm(&p_values)
            .into_iter()
            .zip(&cells)
            .map(|(p, cell)| p < 0.05 && !leaves_none_out(cell, random.u64(..)))
            .collect()
    }

    /// Share of pairs of sweeps in which a cell without a difference is found to differ.
    fn false_positives(self, repeats: usize) -> f64 {
        let mut random = Rng::with_seed(61);
        share(repeats, || {
            self.found(&mut random)[self.shifted.0..].contains(&true)
        })
    }

    /// Share of pairs of sweeps in which the first cell, which differs, is found to differ.
    fn power(self, repeats: usize) -> f64 {
        let mut random = Rng::with_seed(67);
        share(repeats, || self.found(&mut random)[0])
    }
}

#[test]
fn equal_cells_of_two_sweeps_are_rarely_found_to_differ() {
    let alike = Sweeps::alike(Shape::Normal, 7, 5);
    for sweeps in [
        alike,
        Sweeps::alike(Shape::Contaminated, 7, 5),
        // One cell differs by far, which must not affect the others.
        Sweeps {
            shifted: (1, 20.0),
            ..alike
        },
        Sweeps {
            last_noise: 3.0,
            ..alike
        },
    ] {
        let found = sweeps.false_positives(150);
        // 5 % plus three standard errors.
        assert!(found <= 0.104, "{sweeps:?}: {found}");
    }
}

#[test]
fn a_difference_in_one_cell_and_in_all_cells_of_two_sweeps_is_found() {
    let shift = detectable_difference_in_cells(1.0, 5, 7).expect("there are enough values");
    for cells in [1, 7] {
        let of = |shift| Sweeps {
            shifted: (cells, shift),
            ..Sweeps::alike(Shape::Normal, 7, 5)
        };
        let (less, more) = (of(shift / 1.4).power(120), of(shift / 0.75).power(120));
        assert!(more > 0.8, "{cells}: {more}");
        assert!(cells == 7 || less < 0.8, "{cells}: {less}");
    }
}

/// How often two groups that differ by exactly the threshold are found to be equivalent.
fn wrongly_same(shape: Shape, n: usize, threshold: f64, repeats: usize) -> f64 {
    let mut random = Rng::with_seed(71 + n as u64);
    share(repeats, || {
        let first = shape.sample(&mut random, n, 0.0);
        let second = shape.sample(&mut random, n, threshold);
        let seed = random.u64(..);
        let near = median_difference_interval(&first, &second, 0.90, seed)
            .expect("there are enough values");
        -threshold < near.low && near.high < threshold
    })
}

#[test]
fn groups_that_differ_by_the_threshold_are_rarely_found_to_be_equivalent() {
    // Large compared with the noise, so that groups can be found to be equivalent at all.
    for (shape, n) in SHAPES.into_iter().zip([5, 8, 6, 10]) {
        let found = wrongly_same(shape, n, 4.0, 200);
        // 5 % plus three standard errors.
        assert!(found <= 0.097, "{shape:?}, {n}: {found}");
    }
}

/// How often a difference of one group from the others is found.
fn power(k: usize, n: usize, difference: f64, draws: u32, repeats: usize) -> f64 {
    let mut random = Rng::with_seed(31);
    share(repeats, || {
        let groups = groups(&mut random, Shape::Normal, k, n, difference);
        finds_a_difference(&groups, draws, random.u64(..))
    })
}

#[test]
fn the_smallest_detectable_difference_is_the_simulated_one_within_a_fifth() {
    for (k, n) in [(2, 4), (2, 5), (2, 8), (2, 15), (7, 5)] {
        let difference = detectable_difference(1.0, n, k).expect("there are enough values");
        let (less, more) = (
            power(k, n, difference / 1.2, 199, 120),
            power(k, n, difference / 0.8, 199, 120),
        );
        assert!(
            less < 0.8 && more > 0.8,
            "{k} groups of {n}: {less}, {more}"
        );
    }
}

#[test]
fn pairs_within_rounds_show_the_detectable_difference_four_times_out_of_five() {
    let mut random = Rng::with_seed(41);
    for n in [4, 5, 8, 15] {
        let difference = detectable_difference_in_blocks(1.0, n, 2).expect("there are pairs");
        let found = share(2_000, || {
            let round = Shape::Normal.sample(&mut random, n, 0.0);
            let side = |shift: f64, random: &mut Rng| -> Vec<f64> {
                round
                    .iter()
                    .map(|it| 5.0 * it + shift + normal(random))
                    .collect()
            };
            let [first, second] = [0.0, difference].map(|shift| side(shift, &mut random));
            PairedDifference::of(&first, &second).is_some_and(|pairs| pairs.p_value() < 0.05)
        });
        assert!((found - 0.8).abs() < 0.05, "{n} rounds: {found}");
    }
}

#[test]
fn noise_is_estimated_from_few_values_and_an_outlier_does_not_change_it() {
    let mut random = Rng::with_seed(37);
    let mut found: Vec<f64> = (0..300)
        .map(|_| {
            noise(&groups(&mut random, Shape::Normal, 2, 5, 0.0)).expect("there are enough values")
        })
        .collect();
    found.sort_by(f64::total_cmp);
    assert!((0.85..1.15).contains(&found[150]), "{}", found[150]);
    let mut wild = groups(&mut random, Shape::Normal, 4, 5, 0.0);
    let before = noise(&wild).expect("there are enough values");
    wild[0][0] = 1_000.0;
    assert!(noise(&wild).expect("there are enough values") < 1.7 * before);
}

#[test]
fn blocks_remove_what_all_groups_share() {
    let mut random = Rng::with_seed(41);
    let mut sweep = |effect: f64| {
        let mut values = Vec::new();
        for block in 0..5 {
            values.extend((0..7).map(|level| {
                let effect = if level == 1 { effect } else { 0.0 };
                let value = 4.0 * block as f64 + effect + normal(&mut random);
                BlockedValue {
                    level,
                    block,
                    value,
                }
            }));
        }
        let effects = block_effects(&values);
        let mut groups = vec![vec![]; 7];
        for blocked in values {
            groups[blocked.level].push(blocked.value - effects[blocked.block]);
        }
        Ranks::of(&groups, true)
            .expect("there are enough values")
            .test(1)
            .p_value
            < 0.05
    };
    let (none, some) = (share(600, || sweep(0.0)), share(200, || sweep(3.0)));
    assert!(none <= 0.077, "{none}");
    assert!(some >= 0.5, "{some}");
}

#[test]
fn few_values_are_judged_by_permutations_and_rarely_wrong() {
    let mut random = Rng::with_seed(43);
    let found = share(60, || {
        let groups = groups(&mut random, Shape::Normal, 3, 3, 0.0);
        Ranks::of(&groups, false)
            .expect("there are enough values")
            .test(7)
            .p_value
            < 0.05
    });
    assert!(found <= 0.14, "{found}");
}

#[test]
fn steady_runs_have_no_trend_and_drifting_ones_have() {
    let mut random = Rng::with_seed(47);
    let mut drifts = |slope: f64| {
        let values: Vec<f64> = (0..35)
            .map(|index| slope * f64::from(index) + normal(&mut random))
            .collect();
        trend(&values).expect("there are enough values").p_value < 0.01
    };
    let (steady, drifting) = (share(500, || drifts(0.0)), share(200, || drifts(0.1)));
    assert!(steady <= 0.025, "{steady}");
    assert!(drifting >= 0.95, "{drifting}");
}

#[test]
fn ordinary_runs_are_rarely_outliers() {
    let mut random = Rng::with_seed(53);
    let found = share(1_000, || {
        let values = Shape::Normal.sample(&mut random, 10, 0.0);
        modified_z_score(values[0], &values[1..]).expect("there are enough values") < -5.0
    });
    assert!(found <= 0.05, "{found}");
}

/// Whether whoever looks at the interval after each round, up to this number, ever finds sides
/// different that are alike. All sides are compared with the first one.
fn ever_finds_alike_sides_different(
    random: &mut Rng,
    shape: Shape,
    sides: usize,
    looks: usize,
) -> bool {
    let mut differences = vec![Vec::new(); sides - 1];
    (0..looks).any(|_| {
        let values: Vec<f64> = (0..sides).map(|_| shape.draw(random)).collect();
        for (side, differences) in differences.iter_mut().enumerate() {
            differences.push(values[side + 1] - values[0]);
        }
        let level = 0.05 / differences.len() as f64;
        differences.iter().any(|values| {
            anytime_interval(values, level).is_some_and(|it| it.low > 0.0 || it.high < 0.0)
        })
    })
}

/// Rounds until the interval excludes zero, at most this many; the sides differ by this many
/// standard deviations of a run.
fn rounds_until_decided(random: &mut Rng, difference: f64, most: usize) -> usize {
    let mut values = Vec::new();
    while values.len() < most {
        values.push(difference + normal(random) - normal(random));
        if anytime_interval(&values, 0.05).is_some_and(|it| it.low > 0.0 || it.high < 0.0) {
            break;
        }
    }
    values.len()
}

#[test]
fn looking_after_every_round_rarely_finds_alike_sides_different() {
    for (shape, sides) in SHAPES.into_iter().zip([2, 3, 5, 2]) {
        let mut random = Rng::with_seed(41);
        let found = share(1000, || {
            ever_finds_alike_sides_different(&mut random, shape, sides, 60)
        });
        assert!(found <= 0.06, "{shape:?}, {sides} sides: {found}");
    }
    let mut random = Rng::with_seed(43);
    let found = share(200, || rounds_until_decided(&mut random, 3.0, 100) <= 12);
    assert!(found > 0.8, "{found}");
}
