//! Differences of an experiment that ended as soon as they were known, as sentences.

use analysis::sequential::{Decision, SequentialDifference};
use plan::readable::{self, count, counted};
use results::metric;

/// A sentence for each level: what its first metric says, then the others.
#[must_use]
pub(crate) fn sequential_sentences(differences: &[SequentialDifference]) -> Vec<String> {
    let mut levels: Vec<(&str, &str)> = Vec::new();
    for it in differences {
        let level = (it.factor.as_str(), it.level.as_str());
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    let of_level = |(factor, level): (&str, &str)| {
        let mut own = differences
            .iter()
            .filter(|it| it.factor == factor && it.level == level);
        let first = own.next()?;
        let others = own.filter_map(clause);
        Some(
            std::iter::once(headline(first))
                .chain(others)
                .collect::<Vec<_>>()
                .join("; "),
        )
    };
    levels.into_iter().filter_map(of_level).collect()
}

/// `B answers 12.4 % more requests/s than A (95 % interval 10.9 to 13.8 %, 14 rounds)`
fn headline(difference: &SequentialDifference) -> String {
    let SequentialDifference {
        metric,
        rounds,
        interval,
        ..
    } = difference;
    let [level, reference] =
        [&difference.level, &difference.reference].map(|level| match difference.factor.as_str() {
            "target" => level.clone(),
            factor => format!("{factor} {level}"),
        });
    let rounds = counted(*rounds as u64, "round");
    let Some((low, high)) = *interval else {
        return format!(
            "{level} and {reference} cannot be told apart yet: {rounds}, and at least four are \
             needed"
        );
    };
    let is_rate = metric.name == metric::REQUESTS_PER_SEC;
    let label = &metric.label;
    match difference.decision() {
        Decision::Same => {
            let within = percent(low.abs().max(high.abs()));
            match is_rate {
                true => format!(
                    "{level} and {reference} answer the same number of requests/s to within \
                     {within} ({rounds})"
                ),
                false => format!(
                    "{label} of {level} and {reference} is the same to within {within} ({rounds})"
                ),
            }
        }
        Decision::Open => {
            let question = match is_rate {
                true => format!("{level} answers more or fewer requests/s than {reference}"),
                false => format!("{label} of {level} is higher or lower than that of {reference}"),
            };
            format!(
                "It is not decided whether {question}: the difference is between {} and {} \
                 ({rounds}{})",
                signed(low),
                signed(high),
                more_rounds(difference)
            )
        }
        decision => {
            let (amount, range) = amount_and_range(difference, low, high);
            match is_rate {
                true => format!(
                    "{level} answers {amount} {} requests/s than {reference} (95 % interval \
                     {range}, {rounds})",
                    if decision == Decision::More {
                        "more"
                    } else {
                        "fewer"
                    }
                ),
                false => format!(
                    "{label} of {level} is {amount} {} than that of {reference} (95 % interval \
                     {range}, {rounds})",
                    if decision == Decision::More {
                        "higher"
                    } else {
                        "lower"
                    }
                ),
            }
        }
    }
}

/// `p99 does not differ by more than 3 %`
fn clause(difference: &SequentialDifference) -> Option<String> {
    let (low, high) = difference.interval?;
    let label = &difference.metric.label;
    let (amount, range) = amount_and_range(difference, low, high);
    Some(match difference.decision() {
        Decision::More => format!("{label} is {amount} higher ({range})"),
        Decision::Less => format!("{label} is {amount} lower ({range})"),
        Decision::Same | Decision::Open => format!(
            "{label} does not differ by more than {}",
            percent(low.abs().max(high.abs()))
        ),
    })
}

/// Without signs, the smaller end first.
fn amount_and_range(difference: &SequentialDifference, low: f64, high: f64) -> (String, String) {
    let ends = if high <= 0.0 {
        [-high, -low]
    } else {
        [low, high]
    };
    let amount = percent(difference.difference.abs());
    let [first, last] = ends.map(percent);
    let first = first
        .strip_suffix(" %")
        .map_or_else(|| first.clone(), str::to_owned);
    (amount, format!("{first} to {last}"))
}

fn more_rounds(difference: &SequentialDifference) -> String {
    let Some(needed) = difference.rounds_needed(difference.threshold) else {
        return String::new();
    };
    let (needed, shown) = (count(needed as u64), percent(difference.threshold));
    format!("; about {needed} would show differences of {shown}")
}

/// In three digits.
fn percent(share: f64) -> String {
    readable::percent(share * 100.0)
}

fn signed(share: f64) -> String {
    match share < 0.0 {
        true => format!("-{}", percent(-share)),
        false => format!("+{}", percent(share)),
    }
}

#[cfg(test)]
mod tests {
    use results::Metric;

    use super::*;

    fn difference(
        metric: &str,
        difference: f64,
        interval: Option<(f64, f64)>,
    ) -> SequentialDifference {
        SequentialDifference {
            factor: "target".to_owned(),
            reference: "A".to_owned(),
            level: "B".to_owned(),
            metric: Metric::named(metric),
            rounds: 14,
            difference,
            interval,
            threshold: 0.02,
        }
    }

    #[test]
    fn a_difference_is_one_sentence_with_its_interval() {
        let rate = |value, interval| difference(metric::REQUESTS_PER_SEC, value, interval);
        let p99 = |value, interval| difference("latency_p99_us", value, Some(interval));
        let one = |list: Vec<SequentialDifference>| sequential_sentences(&list).join("\n");
        assert_eq!(
            one(vec![
                rate(0.124, Some((0.109, 0.138))),
                p99(0.001, (-0.02, 0.03))
            ]),
            "B answers 12.4 % more requests/s than A (95 % interval 10.9 to 13.8 %, 14 rounds); \
             p99 latency does not differ by more than 3 %"
        );
        assert_eq!(
            one(vec![
                rate(-0.124, Some((-0.138, -0.109))),
                p99(0.4, (0.3, 0.5))
            ]),
            "B answers 12.4 % fewer requests/s than A (95 % interval 10.9 to 13.8 %, 14 rounds); \
             p99 latency is 40 % higher (30 to 50 %)"
        );
        assert_eq!(
            one(vec![rate(0.001, Some((-0.01, 0.012)))]),
            "B and A answer the same number of requests/s to within 1.2 % (14 rounds)"
        );
        assert_eq!(
            one(vec![rate(0.01, Some((-0.03, 0.05)))]),
            "It is not decided whether B answers more or fewer requests/s than A: the difference \
             is between -3 % and +5 % (14 rounds; about 56 would show differences of 2 %)"
        );
        assert_eq!(
            one(vec![rate(0.01, None)]),
            "B and A cannot be told apart yet: 14 rounds, and at least four are needed"
        );
        assert_eq!(
            one(vec![p99(-0.3, (-0.4, -0.2))]),
            "p99 latency of B is 30 % lower than that of A (95 % interval 20 to 40 %, 14 rounds)"
        );
    }
}
