//! Differences of an experiment that ended as soon as they were known, as sentences.

use analysis::compare::{Conclusions, Outcome};
use analysis::grouped;
use analysis::sequential::{Decision, SequentialDifference};
use judging::sentences::UNDECIDED;
use plan::readable::{count, counted};
use results::metric;

use crate::comparison::{
    self, ROUNDS_SHOWN_MAX, WIDE_FROM, failed_phrase, limited_by_generator, range, value,
};

/// A sentence for each level: the difference by its first metric, then by the others. Metrics that
/// the plan's rate determines are left out.
pub(crate) fn sequential_sentences(conclusions: &Conclusions) -> Vec<String> {
    let judged = |it: &&SequentialDifference| {
        let mut of_metric = conclusions.comparisons.iter();
        !of_metric.any(|one| one.metric == it.metric && one.outcome == Outcome::SetByRate)
    };
    sentences(conclusions.differences.iter().filter(judged))
}

fn sentences<'a>(differences: impl Iterator<Item = &'a SequentialDifference>) -> Vec<String> {
    let level_of =
        |it: &SequentialDifference| (it.factor.clone(), it.place.clone(), it.level.clone());
    let levels = grouped(differences.map(|it| (level_of(it), it)));
    let of_level = |((_, place, _), own): (_, Vec<&SequentialDifference>)| {
        let (first, others) = own.split_first()?;
        let others = others.iter().filter_map(|it| clause(it));
        let clauses: Vec<String> = std::iter::once(headline(first)).chain(others).collect();
        let place: Vec<String> = place;
        Some(match place.as_slice() {
            [] => clauses.join("; "),
            place => format!("{}: {}", place.join(", "), clauses.join("; ")),
        })
    };
    levels.into_iter().filter_map(of_level).collect()
}

/// `B answers 12 % more requests/s than A (95 % interval 11 to 14 %, 14 rounds)`
fn headline(difference: &SequentialDifference) -> String {
    let SequentialDifference {
        metric,
        rounds,
        interval,
        ..
    } = difference;
    let names =
        [&difference.level, &difference.reference].map(|level| match difference.factor.as_str() {
            "target" => level.clone(),
            factor => format!("{factor} {level}"),
        });
    let names = names.each_ref().map(String::as_str);
    let [level, reference] = names;
    let rounds = counted(*rounds as u64, "round");
    let Some((low, high)) = *interval else {
        return format!(
            "{level} and {reference} cannot be told apart yet: {rounds}, and at least {} are \
             needed",
            difference.rounds_min
        );
    };
    // A saturated generator hides which server is better.
    let limited = limited_by_generator(
        difference.alike_idle_shares,
        difference.is_generator_saturated,
    );
    match difference.decision() {
        Decision::Failing => not_compared(difference, names),
        Decision::Same => {
            let within = amount(difference, low.abs().max(high.abs()));
            let same = same(difference, names, &within);
            format!("{same}{limited} ({rounds})")
        }
        Decision::Open if difference.explained_by().is_some() => format!(
            "It is {UNDECIDED} whether {}{limited}: {} ({rounds})",
            relation(difference, names, ""),
            explained(difference).unwrap_or_default()
        ),
        Decision::Open => {
            let [low_end, high_end] = [low, high].map(|end| signed(difference, end));
            let more = more_rounds(difference);
            if is_wide(difference, low, high) {
                format!(
                    "{} of {level} and {reference}: {UNDECIDED} (between {low_end} and \
                     {high_end}, {rounds}{more})",
                    metric.label
                )
            } else {
                format!(
                    "It is {UNDECIDED} whether {}{limited}: the difference is between {low_end} \
                     and {high_end} ({rounds}{more})",
                    relation(difference, names, "")
                )
            }
        }
        Decision::More | Decision::Less => {
            let (amount, range) = amount_and_range(difference, low, high);
            let relation = relation(difference, names, &format!("{amount} "));
            format!("{relation}{limited} (95 % interval {range}, {rounds})")
        }
    }
}

/// `B failed 100 % of its requests: no comparison with A`
fn not_compared(difference: &SequentialDifference, [level, reference]: [&str; 2]) -> String {
    let shares = [reference, level].into_iter().zip(difference.failed);
    let (bad, good): (Vec<_>, Vec<_>) =
        shares.partition(|(_, failed)| failed.forbids(&difference.metric));
    let good = good.first().map(|(name, _)| format!(" with {name}"));
    failed_phrase(bad) + ": no comparison" + &good.unwrap_or_default()
}

/// `B and A answer the same number of requests/s to within 1.2 %`
fn same(difference: &SequentialDifference, [level, reference]: [&str; 2], within: &str) -> String {
    let label = &difference.metric.label;
    if !difference.is_ratio {
        format!("{level} and {reference} have the same {label}")
    } else if difference.metric.name == metric::REQUESTS_PER_SEC {
        format!("{level} and {reference} answer the same number of requests/s to within {within}")
    } else {
        format!("{label} of {level} and {reference} is the same to within {within}")
    }
}

/// `the difference is between -8 % and -5 % as measured, and between -1 % and +2 % without delays
/// of the load generator`, if that is why nothing is decided.
fn explained(difference: &SequentialDifference) -> Option<String> {
    let [measured, other] = [difference.interval?, difference.explained_by()?];
    let ends = |(low, high): (f64, f64)| {
        let [low, high] = [low, high].map(|end| signed(difference, end));
        format!("between {low} and {high}")
    };
    Some(format!(
        "the difference is {} as measured, and {} without delays of the load generator",
        ends(measured),
        ends(other)
    ))
}

/// `B answers 12 % more requests/s than A`; without a decision `more or fewer`.
fn relation(
    difference: &SequentialDifference,
    [level, reference]: [&str; 2],
    amount: &str,
) -> String {
    let SequentialDifference {
        metric, is_ratio, ..
    } = difference;
    let label = &metric.label;
    let is_rate = metric.name == metric::REQUESTS_PER_SEC;
    let is_number = is_rate || (!is_ratio && metric.unit != metric::Unit::Percent);
    let which = match (difference.decision(), is_number) {
        (Decision::More, true) => "more",
        (Decision::Less, true) => "fewer",
        (_, true) => "more or fewer",
        (Decision::More, false) => "higher",
        (Decision::Less, false) => "lower",
        (_, false) => "higher or lower",
    };
    let verb = if *is_ratio { "answers" } else { "has" };
    if is_number {
        format!("{level} {verb} {amount}{which} {label} than {reference}")
    } else {
        format!("{label} of {level} is {amount}{which} than that of {reference}")
    }
}

/// `p99 latency does not differ by more than 1.5 %`, or `p99 latency: undecided (between -2 % and
/// +3 %)`.
fn clause(difference: &SequentialDifference) -> Option<String> {
    let (low, high) = difference.interval?;
    let label = &difference.metric.label;
    let (size, range) = amount_and_range(difference, low, high);
    Some(match difference.decision() {
        // The first sentence says why.
        Decision::Failing => return None,
        Decision::More => format!("{label} is {size} higher ({range})"),
        Decision::Less => format!("{label} is {size} lower ({range})"),
        Decision::Open if difference.explained_by().is_some() => format!(
            "{label}: {UNDECIDED} ({})",
            explained(difference).unwrap_or_default()
        ),
        Decision::Open => format!(
            "{label}: {UNDECIDED} (between {} and {})",
            signed(difference, low),
            signed(difference, high)
        ),
        Decision::Same => format!(
            "{label} does not differ by more than {}",
            amount(difference, low.abs().max(high.abs()))
        ),
    })
}

/// Whether the interval is too wide to say anything.
fn is_wide(difference: &SequentialDifference, low: f64, high: f64) -> bool {
    difference.is_ratio && high - low > 2.0 * WIDE_FROM
}

/// Without signs, the smaller end first.
fn amount_and_range(difference: &SequentialDifference, low: f64, high: f64) -> (String, String) {
    let [near, far] = if high <= 0.0 {
        [-high, -low]
    } else {
        [low, high]
    };
    let size = amount(difference, difference.difference.abs());
    let [first, last] = [near, far].map(|end| amount(difference, end));
    let ends = if difference.is_ratio && first == last {
        range(near, far).join(" to ") + " %"
    } else {
        let mut units = [" %", POINTS].into_iter();
        let number = units.find_map(|unit| first.strip_suffix(unit));
        format!("{} to {last}", number.unwrap_or(&first))
    };
    (size, ends)
}

/// What would decide it.
fn more_rounds(difference: &SequentialDifference) -> String {
    let SequentialDifference {
        resolution,
        threshold,
        ..
    } = *difference;
    match difference.rounds_to_decide() {
        _ if !difference.is_ratio => String::new(),
        None if difference.interval.is_some() => format!(
            "; a run measures no finer than {}, so longer runs (-d) are needed for {}",
            percent(resolution),
            percent(threshold)
        ),
        Some(needed) if needed <= ROUNDS_SHOWN_MAX => format!(
            "; about {} would decide between the same within {} and a difference",
            count(needed as u64),
            percent(threshold)
        ),
        _ => format!(
            "; more than {} would be needed for {}",
            count(ROUNDS_SHOWN_MAX as u64),
            percent(threshold)
        ),
    }
}

/// A difference or an end of its interval: in percent, or in the metric's unit.
fn amount(difference: &SequentialDifference, size: f64) -> String {
    let SequentialDifference {
        metric, is_ratio, ..
    } = difference;
    match is_ratio {
        true => percent(size),
        // Of two shares the difference is not a percentage of either.
        false if metric.unit == metric::Unit::Percent => {
            format!("{}{POINTS}", percent(size / 100.0).trim_end_matches(" %"))
        }
        false => value(metric, Some(size)),
    }
}

/// Follows the difference of two percentages.
const POINTS: &str = " percentage points";

/// With the digits that other comparisons have.
fn percent(share: f64) -> String {
    format!("{} %", comparison::percent(share))
}

fn signed(difference: &SequentialDifference, size: f64) -> String {
    if size < 0.0 {
        format!("-{}", amount(difference, -size))
    } else {
        format!("+{}", amount(difference, size))
    }
}

#[cfg(test)]
mod tests {
    use analysis::compare::FailedShare;
    use results::Metric;

    use super::*;

    fn difference(
        metric: &str,
        difference: f64,
        interval: Option<(f64, f64)>,
    ) -> SequentialDifference {
        SequentialDifference {
            factor: "target".to_owned(),
            place: Vec::new(),
            reference: "A".to_owned(),
            level: "B".to_owned(),
            metric: Metric::named(metric),
            rounds: 14,
            is_ratio: true,
            difference,
            interval,
            p_value: 0.5,
            adjusted_p_value: 0.5,
            rounds_min: 4,
            threshold: 0.02,
            resolution: 0.0,
            failed: [FailedShare::default(); 2],
            is_generator_saturated: false,
            without_own: None,
            alike_idle_shares: None,
        }
    }

    #[test]
    fn a_difference_that_the_load_generator_explains_is_undecided_with_both_intervals() {
        let with = |name: &str, value, without_own: (f64, f64)| SequentialDifference {
            without_own: Some(analysis::sequential::Change {
                difference: 0.003,
                interval: Some(without_own),
                p_value: 0.5,
                adjusted_p_value: 0.5,
            }),
            ..difference(name, value, Some((value - 0.02, value + 0.02)))
        };
        let rate = with(metric::REQUESTS_PER_SEC, -0.07, (-0.01, 0.016));
        let p99 = with("latency_p99_us", 0.2, (-0.01, 0.03));
        let text = sentences([rate, p99].iter()).join("\n");
        let both = |measured: &str, without_own: &str| {
            format!(
                "the difference is between {measured} as measured, and between {without_own} \
                 without delays of the load generator"
            )
        };
        assert_eq!(
            text,
            format!(
                "It is undecided whether B answers more or fewer requests/s than A: {} (14 \
                 rounds); p99 latency: undecided ({})",
                both("-9 % and -5 %", "-1 % and +1.6 %"),
                both("+18 % and +22 %", "-1 % and +3 %")
            )
        );
        // What holds in both is said as it was measured.
        let slower = with(metric::REQUESTS_PER_SEC, -0.1, (-0.09, -0.05));
        let text = sentences([slower].iter()).join("\n");
        assert!(
            text.starts_with("B answers 10 % fewer requests/s than A"),
            "{text}"
        );
    }

    #[test]
    fn a_difference_is_one_sentence_with_its_interval() {
        let rate = |value, interval| difference(metric::REQUESTS_PER_SEC, value, interval);
        let p99 = |value, interval| difference("latency_p99_us", value, Some(interval));
        let one = |list: Vec<SequentialDifference>| sentences(list.iter()).join("\n");
        assert_eq!(
            one(vec![
                rate(0.124, Some((0.109, 0.138))),
                p99(0.001, (-0.02, 0.03))
            ]),
            "B answers 12 % more requests/s than A (95 % interval 11 to 14 %, 14 rounds); \
             p99 latency: undecided (between -2 % and +3 %)"
        );
        assert_eq!(
            one(vec![
                rate(-0.124, Some((-0.138, -0.109))),
                p99(0.4, (0.3, 0.5))
            ]),
            "B answers 12 % fewer requests/s than A (95 % interval 11 to 14 %, 14 rounds); \
             p99 latency is 40 % higher (30 to 50 %)"
        );
        assert_eq!(
            one(vec![rate(0.001, Some((-0.01, 0.012)))]),
            "B and A answer the same number of requests/s to within 1.2 % (14 rounds)"
        );
        assert_eq!(
            one(vec![rate(0.01, Some((-0.03, 0.05)))]),
            "It is undecided whether B answers more or fewer requests/s than A: the difference \
             is between -3 % and +5 % (14 rounds; about 224 would decide between the same within \
             2 % and a difference)"
        );
        assert_eq!(
            one(vec![rate(0.01, None)]),
            "B and A cannot be told apart yet: 14 rounds, and at least 4 are needed"
        );
        assert_eq!(
            one(vec![p99(-0.3, (-0.4, -0.2))]),
            "p99 latency of B is 30 % lower than that of A (95 % interval 20 to 40 %, 14 rounds)"
        );
    }

    #[test]
    fn what_is_undecided_is_called_that() {
        let one = |it| sentences([&it].into_iter()).join("\n");
        let rate = |interval| difference(metric::REQUESTS_PER_SEC, 0.1, Some(interval));
        let p99 = difference("latency_p99_us", 0.1, Some((-0.6, 1.5)));
        assert_eq!(
            sentences([&rate((0.09, 0.11)), &p99].into_iter()).join("\n"),
            "B answers 10 % more requests/s than A (95 % interval 9 to 11 %, 14 rounds); p99 \
             latency: undecided (between -60 % and +150 %)"
        );
        assert_eq!(
            one(p99),
            "p99 latency of B and A: undecided (between -60 % and +150 %, 14 rounds; more than \
             1,000 would be needed for 2 %)"
        );
        let coarse = SequentialDifference {
            resolution: 0.05,
            ..rate((-0.076, 0.024))
        };
        assert_eq!(
            one(coarse),
            "It is undecided whether B answers more or fewer requests/s than A: the difference \
             is between -7.6 % and +2.4 % (14 rounds; a run measures no finer than 5 %, so longer \
             runs (-d) are needed for 2 %)"
        );
        assert_eq!(
            one(rate((0.100_01, 0.100_02))),
            "B answers 10 % more requests/s than A (95 % interval 10.001 to 10.002 %, 14 rounds)"
        );
    }

    #[test]
    fn a_side_that_fails_is_named_first_and_nobody_wins() {
        let failing = |shares: [f64; 2]| SequentialDifference {
            failed: shares.map(|share| FailedShare {
                failed: share * 1_000.0,
                of: 1_000.0,
            }),
            ..difference(metric::REQUESTS_PER_SEC, 2.9, Some((2.8, 3.0)))
        };
        let p99 = |it: SequentialDifference| SequentialDifference {
            metric: Metric::named("p99"),
            ..it
        };
        let told =
            |it: SequentialDifference| sentences([&it, &p99(it.clone())].into_iter()).join("");
        assert_eq!(
            told(failing([0.0, 1.0])),
            "B failed 100 % of its requests: no comparison with A"
        );
        assert_eq!(
            told(failing([0.055, 0.0])),
            "A failed 5.5 % of its requests: no comparison with B"
        );
        assert_eq!(
            told(failing([0.055, 1.0])),
            "A failed 5.5 % and B 100 % of their requests: no comparison"
        );
        assert!(told(failing([0.0, 0.005])).starts_with("B answers 290 % more requests/s than A"));
    }

    #[test]
    fn levels_that_the_load_generator_made_slower_alike_are_compared_with_its_share() {
        let saturated_alike = SequentialDifference {
            alike_idle_shares: Some((0.12, 0.15)),
            ..difference(metric::REQUESTS_PER_SEC, 0.124, Some((0.109, 0.138)))
        };
        assert_eq!(
            sentences([&saturated_alike].into_iter()).join(""),
            "B answers 12 % more requests/s than A, with the load generator saturated alike at \
             all levels (connections waited for it 12 to 15 % of the time) (95 % interval 11 to \
             14 %, 14 rounds)"
        );
    }

    #[test]
    fn a_saturated_load_generator_is_part_of_the_sentence() {
        let saturated = SequentialDifference {
            is_generator_saturated: true,
            ..difference(metric::REQUESTS_PER_SEC, 0.124, Some((0.109, 0.138)))
        };
        assert_eq!(
            sentences([&saturated].into_iter()).join(""),
            "B answers 12 % more requests/s than A, with the load generator saturated (95 % \
             interval 11 to 14 %, 14 rounds)"
        );
    }

    #[test]
    fn errors_where_there_were_none_are_a_number() {
        let errors = |value, interval| SequentialDifference {
            is_ratio: false,
            ..difference(metric::ERRORS, value, Some(interval))
        };
        let one = |it| sentences([&it].into_iter()).join("\n");
        assert_eq!(
            one(errors(12.0, (8.0, 16.0))),
            "B has 12 more errors than A (95 % interval 8 to 16, 14 rounds)"
        );
        assert_eq!(
            one(errors(1.0, (-2.0, 4.0))),
            "It is undecided whether B has more or fewer errors than A: the difference is \
             between -2 and +4 (14 rounds)"
        );
        assert_eq!(
            one(errors(0.0, (0.0, 0.0))),
            "B and A have the same errors (14 rounds)"
        );
    }

    #[test]
    fn shares_of_which_one_is_zero_differ_by_percentage_points() {
        let goodput = |value, interval| SequentialDifference {
            is_ratio: false,
            ..difference(metric::GOODPUT, value, Some(interval))
        };
        let one = |it| sentences([&it].into_iter()).join("\n");
        assert_eq!(
            one(goodput(-40.0, (-45.0, -35.0))),
            "goodput of B is 40 percentage points lower than that of A (95 % interval 35 to 45 \
             percentage points, 14 rounds)"
        );
        assert_eq!(
            one(goodput(1.0, (-2.0, 4.0))),
            "It is undecided whether goodput of B is higher or lower than that of A: the \
             difference is between -2 percentage points and +4 percentage points (14 rounds)"
        );
    }

    #[test]
    fn tokens_have_sentences_in_their_own_directions() {
        let one = |name: &str, value, interval| {
            let name = Metric::named(name).name;
            let it = difference(&name, value, Some(interval));
            sentences([&it].into_iter()).join("\n")
        };
        assert_eq!(
            one(metric::OUTPUT_TOKENS_PER_SEC, -0.167, (-0.17, -0.16)),
            "output tokens/s of B is 17 % lower than that of A (95 % interval 16 to 17 %, 14 \
             rounds)"
        );
        assert_eq!(
            one("first_token_p50", 0.2, (0.19, 0.21)),
            "p50 first token of B is 20 % higher than that of A (95 % interval 19 to 21 %, 14 \
             rounds)"
        );
        assert_eq!(
            one("first_token_p99", 0.0, (-0.01, 0.01)),
            "p99 first token of B and A is the same to within 1 % (14 rounds)"
        );
    }

    #[test]
    fn each_profile_has_a_sentence_of_its_own() {
        let of = |place: &str| SequentialDifference {
            place: vec![place.to_owned()],
            ..difference(metric::REQUESTS_PER_SEC, 0.124, Some((0.109, 0.138)))
        };
        let sentences = sentences([&of("light"), &of("heavy")].into_iter());
        assert_eq!(sentences.len(), 2);
        assert!(
            sentences[0].starts_with("light: B answers 12 % more"),
            "{sentences:?}"
        );
    }
}
