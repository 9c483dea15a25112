//! Comparisons as sentences with the numbers under them, or as JSON.

mod brief;
pub(crate) mod levels;

use std::fmt::Display;
use std::io::{self, Write};

use analysis::compare::{
    Better, Caveat, ClampedLevels, Comparison, Conclusions, Difference, Explained, FailedShare,
    FixedRate, Level, Metric, NameComparisons, OnlyOneSide, Outcome, Timing, Validity,
};
use judging::sentences::UNDECIDED;
use plan::{printable, printable_json};
use presentation::words::{self, counted};

use crate::aligned::{self, Layout};
use crate::page::quantities::show;
use crate::sequential::sequential_sentences;

/// The layout of the table below a sentence.
const BELOW_SENTENCE: Layout = Layout {
    indent: 4,
    is_of_wrk: false,
    columns_max: None,
};

/// An interval that is wider than this to either side tells nothing: the difference may be anything
/// from 50 % less to 50 % more. Its ends are said then, not what could have been detected.
pub(crate) const WIDE_FROM: f64 = 0.5;

/// A larger number of rounds is not suggested: even with the shortest useful runs it takes hours.
pub(crate) const ROUNDS_SHOWN_MAX: usize = 1_000;

/// The end of a sentence about an effect, if one side was measured after the other.
const MAY_BE_THE_MACHINE: &str = "it may be the machine: measure in turn with versus";

pub use brief::{render_brief, render_one_cell};

/// Writes how far the runs can be trusted, a sentence for each comparison with its numbers below,
/// and then the caveats. Comparisons of requests by name, if requested, come last.
///
/// # Errors
///
/// Those of the writer.
pub fn render(conclusions: &Conclusions, output: &mut dyn Write) -> io::Result<()> {
    let limits = validity_sentences(&conclusions.validity);
    for limit in &limits {
        writeln!(output, "{limit}")?;
    }
    if !limits.is_empty() {
        writeln!(output)?;
    }
    write_comparisons(&conclusions.comparisons, output)?;
    for caveat in &conclusions.caveats {
        writeln!(output, "Note: {}", caveat_sentence(caveat))?;
    }
    match &conclusions.by_name {
        Some(names) => {
            if !conclusions.caveats.is_empty() {
                writeln!(output)?;
            }
            write_names(names, output)
        }
        None => Ok(()),
    }
}

fn write_comparisons(comparisons: &[Comparison], output: &mut dyn Write) -> io::Result<()> {
    for comparison in comparisons {
        writeln!(output, "{}", sentence(comparison))?;
        write_numbers(comparison, output)?;
        writeln!(output)?;
    }
    Ok(())
}

fn write_names(names: &NameComparisons, output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "By name:\n")?;
    write_comparisons(&names.comparisons, output)?;
    let on_one_side = names.only_one_side.iter();
    let on_one_side: Vec<String> = on_one_side
        .map(|OnlyOneSide { side, names }| {
            let names = printable(&names.join(", ")).into_owned();
            format!("only {side} has {names}")
        })
        .collect();
    if on_one_side.is_empty() {
        Ok(())
    } else {
        writeln!(output, "Not compared: {}", on_one_side.join("; "))
    }
}

/// Writes all of it as one document.
///
/// # Errors
/// Those of the writer.
pub fn render_json(conclusions: &Conclusions, output: &mut dyn Write) -> io::Result<()> {
    let text = serde_json::to_string_pretty(conclusions)?;
    output.write_all(printable_json(&text).as_bytes())?;
    writeln!(output)
}

/// What limits the conclusions from a set of runs, a line for each side. These lines go before the
/// conclusions. Empty if nothing limits them.
#[must_use]
pub fn validity_sentences(validity: &[Validity]) -> Vec<String> {
    validity.iter().filter_map(validity_sentence).collect()
}

fn validity_sentence(validity: &Validity) -> Option<String> {
    let Validity {
        side,
        runs,
        failed,
        ended_early,
        saturated,
        failing,
        clamped,
    } = validity;
    let all_counted = validity.counted() as u64;
    let mut parts = Vec::new();
    if *saturated > 0 {
        let consequence = match (validity.is_mostly_saturated(), side) {
            (false, _) => "",
            (true, None) => ": differences between levels may be hidden",
            (true, Some(_)) => ": differences may be hidden",
        };
        let of = counted(all_counted, "run");
        parts.push(format!(
            "load generator saturated in {saturated} of {of}{consequence}"
        ));
    }
    let left_out = |count: usize, what: [&str; 2]| {
        let what = if count == 1 { what[0] } else { what[1] };
        let of = counted(*runs as u64, "run");
        (count > 0).then(|| format!("{count} of {of} {what} excluded"))
    };
    parts.extend(left_out(*failed, ["failed and is", "failed and are"]));
    parts.extend(left_out(
        *ended_early,
        ["was ended early and is", "were ended early and are"],
    ));
    if *failing > 0 {
        let of = counted(all_counted, "run");
        parts.push(format!(
            "more than 1 % of the requests failed in {failing} of {of}"
        ));
    }
    parts.extend(clamped.iter().map(clamped_phrase));
    let text = parts.join("; ");
    match side {
        _ if text.is_empty() => None,
        Some(side) => Some(format!("{side}: {text}")),
        None => Some(words::capital(&text)),
    }
}

/// `levels 1024 and 2048 of rmem_max are the same setting: the kernel used net.core.rmem_max = 2304
/// for each`
fn clamped_phrase(clamped: &ClampedLevels) -> String {
    let taken = clamped.taken.iter();
    let taken: Vec<String> = taken
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    format!(
        "levels {} of {} are the same setting: the kernel used {} for each",
        words::list(&clamped.levels),
        clamped.factor,
        words::list(&taken)
    )
}

/// A sentence for each comparison; for each level, if the runs were looked at after every round.
pub(crate) fn headlines(conclusions: &Conclusions) -> Vec<String> {
    if conclusions.differences.is_empty() {
        conclusions.comparisons.iter().map(sentence).collect()
    } else {
        sequential_sentences(conclusions)
    }
}

/// The conclusion of a comparison in one sentence.
#[must_use]
pub fn sentence(comparison: &Comparison) -> String {
    let place = comparison.place.iter().map(String::as_str);
    let subjects: Vec<&str> = place.chain(comparison.factor.as_deref()).collect();
    let finding = match comparison.outcome {
        Outcome::Failing => format!("no comparison of {}", comparison.metric.label),
        Outcome::TooFewRuns { needed } => too_few(comparison, needed),
        Outcome::SetByRate => set_by_rate(comparison),
        Outcome::LowerBounds => lower_bounds(comparison),
        Outcome::Same => same(comparison),
        Outcome::Undecided { .. } if has_explained(comparison) => explained(comparison).join("; "),
        Outcome::Undecided { level: None } => undecided(comparison),
        Outcome::Undecided { level: Some(level) } => may_matter(comparison, level),
        Outcome::Better { level } | Outcome::Worse { level } | Outcome::Changed { level } => {
            let others = explained(comparison).into_iter();
            let all = std::iter::once(found(comparison, level)).chain(others);
            let doubt = comparison
                .measured_first()
                .map(|_| MAY_BE_THE_MACHINE.to_owned());
            all.chain(doubt).collect::<Vec<_>>().join("; ")
        }
    };
    let finding =
        failed_levels(comparison) + &finding + &missed_rate(comparison) + &left_out(comparison);
    if subjects.is_empty() {
        finding
    } else {
        let subjects = subjects.join(", ");
        let subjects = printable(&subjects);
        format!("{subjects}: {finding}")
    }
}

fn has_explained(comparison: &Comparison) -> bool {
    comparison.levels.iter().any(|it| it.explained.is_some())
}

/// `requests/s: undecided: new is 7.2 % lower than base as measured (95 % interval 4.9 to 8.3 %),
/// but delays of the load generator explain it: 0.3 % lower without them (-1 to 1.6 %)`, for each
/// level.
fn explained(comparison: &Comparison) -> Vec<String> {
    let of_level = |level: &Level| {
        let Explained {
            measured,
            without_own,
        } = level.explained?;
        let reference = comparison.levels.first()?;
        let size = |difference: &Difference| {
            let ratio = difference.ratio?;
            let size = percent((ratio - 1.0).abs());
            Some(format!("{size} % {}", way(ratio)))
        };
        let is_effect = measured.is_found() && comparison.matters(&measured);
        let why = if is_effect {
            "but delays of the load generator explain it: "
        } else {
            "but "
        };
        Some(format!(
            "{}: {UNDECIDED}: {} is {} than {} as measured (95 % interval {}), {why}{} without {} \
             ({})",
            comparison.metric.label,
            level.name,
            size(&measured)?,
            reference.name,
            interval(&measured)?,
            size(&without_own)?,
            if is_effect {
                "them"
            } else {
                "delays of the load generator"
            },
            interval(&without_own)?,
        ))
    };
    comparison.levels.iter().filter_map(of_level).collect()
}

/// `; 10.1 % without delays of the load generator`, if these change the size of an effect by more
/// than the threshold.
fn without_own(comparison: &Comparison, level: &Level, ratio: f64) -> String {
    let other = level.without_own.and_then(|it| it.ratio);
    let differs = |other: &f64| (other / ratio).ln().abs() > comparison.threshold.ln_1p();
    other.filter(differs).map_or_else(String::new, |other| {
        let size = percent((other - 1.0).abs());
        format!("; {size} % without delays of the load generator")
    })
}

/// What limits every finding if the load generator was saturated, as the end of a sentence; its
/// numbers are in [`validity_sentences`].
fn limited(comparison: &Comparison) -> String {
    limited_by_generator(
        comparison.alike_idle_shares(),
        comparison.is_generator_saturated(),
    )
}

/// The same for any comparison.
pub(crate) fn limited_by_generator(
    alike_idle_shares: Option<(f64, f64)>,
    is_saturated: bool,
) -> String {
    match alike_idle_shares {
        Some((low, high)) => format!(
            ", with the load generator saturated alike at all levels (connections waited for it \
             {:.0} to {:.0} % of the time)",
            low * 100.0,
            high * 100.0
        ),
        None if is_saturated => ", with the load generator saturated".to_owned(),
        None => String::new(),
    }
}

/// `; not compared: office (only arm64)`
fn left_out(comparison: &Comparison) -> String {
    match comparison.left_out.as_slice() {
        [] => String::new(),
        cells => format!("; not compared: {}", cells.join("; ")),
    }
}

/// `bad failed 100 % of its requests: `, which goes before the finding about the other levels.
fn failed_levels(comparison: &Comparison) -> String {
    let failing = comparison
        .failing()
        .map(|level| (&level.name, level.failed));
    let failing: Vec<_> = failing.collect();
    match (failing.is_empty(), comparison.outcome) {
        (true, _) => String::new(),
        (false, Outcome::Failing) => failed_phrase(failing) + ": ",
        (false, _) => failed_phrase(failing) + " and is not compared; ",
    }
}

/// `bad failed 100 % of its requests`, or `a failed 5 % and b 100 % of their requests`
pub(crate) fn failed_phrase<N: Display>(
    failing: impl IntoIterator<Item = (N, FailedShare)>,
) -> String {
    let shares = failing
        .into_iter()
        .enumerate()
        .map(|(index, (name, failed))| {
            let verb = if index == 0 { " failed" } else { "" };
            format!("{name}{verb} {} %", percent(failed.share()))
        });
    let shares: Vec<String> = shares.collect();
    let whose = if shares.len() == 1 { "its" } else { "their" };
    format!("{} of {whose} requests", words::list(&shares))
}

fn set_by_rate(comparison: &Comparison) -> String {
    let metric = &comparison.metric.label;
    match comparison.fixed_rate {
        Some(rate) => format!(
            "{metric} is not judged: the rate was fixed at {} and was kept",
            rate_phrase(rate)
        ),
        None => format!("{metric} is not judged: the rate was fixed"),
    }
}

/// `p99 latency: undecided: it is at least 501 ms with A and at least 502 ms with B, and ...`
fn lower_bounds(comparison: &Comparison) -> String {
    let metric = &comparison.metric;
    let of_level = |level: &Level| {
        let at_least = if level.is_lower_bound() {
            "at least "
        } else {
            ""
        };
        let median = value(metric, level.median);
        format!("{at_least}{median} with {}", level.name)
    };
    let levels: Vec<String> = comparison.levels.iter().map(of_level).collect();
    format!(
        "{}: {UNDECIDED}: it is {}, and depends on requests without a response",
        metric.label,
        words::list(&levels)
    )
}

fn missed_rate(comparison: &Comparison) -> String {
    match comparison.fixed_rate.filter(|rate| rate.missed > 0) {
        Some(rate) => format!(
            "; the fixed rate of {} was missed in {} of {}",
            rate_phrase(rate),
            rate.missed,
            counted(rate.runs as u64, "run")
        ),
        None => String::new(),
    }
}

/// `1,000/s`, or `1,000 to 2,000/s`
fn rate_phrase(rate: FixedRate) -> String {
    let number = words::number;
    if rate.least_per_sec < rate.most_per_sec {
        let (least, most) = (number(rate.least_per_sec), number(rate.most_per_sec));
        format!("{least} to {most}/s")
    } else {
        format!("{}/s", number(rate.most_per_sec))
    }
}

fn too_few(comparison: &Comparison, needed: usize) -> String {
    let metric = &comparison.metric.label;
    let why = match (comparison.runs, comparison.levels.len()) {
        (_, 0 | 1) => return format!("{metric} was not measured on both sides"),
        (rounds, _) if comparison.is_sequential => {
            let rounds = counted(rounds as u64, "round");
            return format!("{metric} cannot be compared yet: {rounds}, and {needed} are needed");
        }
        (1, _) if comparison.levels.iter().any(|level| level.runs > 1) => {
            let single = comparison.levels.iter().filter(|level| level.runs == 1);
            let single: Vec<&str> = single.map(|level| level.name.as_str()).collect();
            format!("there is only 1 run of {}", single.join(" and "))
        }
        (1, _) => "1 run per level does not show the noise between runs".to_owned(),
        (runs, 2) => format!("p < 0.05 is impossible with {runs} runs per level"),
        (_, _) => format!("{} are too few", runs_phrase(comparison)),
    };
    format!("{metric} cannot be compared: {why} (at least {needed} per level are needed)")
}

fn same(comparison: &Comparison) -> String {
    let metric = &comparison.metric.label;
    let threshold = percent(comparison.threshold);
    match comparison.levels.as_slice() {
        [first, second] => format!(
            "{metric} is the same within {threshold} % with {} and {}{}",
            first.name,
            second.name,
            limited(comparison)
        ),
        levels => format!(
            "{metric} is the same within {threshold} % at all {} levels{}",
            levels.len(),
            limited(comparison)
        ),
    }
}

/// `p99 latency: undecided (p = 0.70; with 5 rounds a difference below 6 % cannot be detected)`. If
/// the runs could not show even a large difference, its ends: `p99 latency: undecided (between -60
/// and +150 %; p = 0.70, 5 rounds)`.
fn undecided(comparison: &Comparison) -> String {
    let what = format!(
        "{}: {UNDECIDED}{}",
        comparison.metric.label,
        limited(comparison)
    );
    let p_value = comparison.p_value.map_or_else(String::new, p_phrase);
    let runs = runs_phrase(comparison);
    if let Some(ends) = wide_interval(comparison) {
        return format!("{what} ({ends}; {p_value}, {runs})");
    }
    let reach = match comparison.detectable {
        _ if comparison.is_sequential || comparison.disagrees => possible(comparison, &runs),
        Some(detectable) => format!("; with {runs} {} cannot be detected", below(detectable)),
        None => String::new(),
    };
    format!("{what} ({p_value}{reach})")
}

/// What an undecided comparison leaves open, in short: `between -60 and +150 %`, or `a difference
/// below 6 % cannot be detected with 5 rounds`.
pub(crate) fn left_open(comparison: &Comparison) -> String {
    if has_explained(comparison) {
        return "delays of the load generator explain what was measured".to_owned();
    }
    wide_interval(comparison).unwrap_or_else(|| {
        let runs = runs_phrase(comparison);
        let limit = comparison.detectable.map(below);
        let note = limit.map(|limit| format!("{limit} cannot be detected with {runs}"));
        note.unwrap_or_default()
    })
}

/// `between -60 and +150 %`, if the runs could not show even a large difference.
fn wide_interval(comparison: &Comparison) -> Option<String> {
    let ends = intervals(comparison);
    let [low, high] = ends.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])?;
    let is_wide = match comparison.detectable {
        Some(detectable) => detectable > WIDE_FROM,
        None => high - low > 2.0 * WIDE_FROM,
    };
    let of_levels = match comparison.levels.len() {
        0..=2 => "",
        _ => " over all levels",
    };
    is_wide.then(|| {
        let [low, high] = [low, high].map(signed);
        format!("between {low} and {high} %{of_levels}")
    })
}

/// The intervals of the levels' ratios.
fn intervals(comparison: &Comparison) -> impl Iterator<Item = [f64; 2]> {
    let differences = comparison.levels.iter().filter_map(|it| it.difference);
    differences.filter_map(|known| Some([known.low?, known.high?]))
}

/// `; with 5 rounds, differences up to 6 % are possible`
fn possible(comparison: &Comparison, rounds: &str) -> String {
    let sizes = intervals(comparison)
        .flatten()
        .map(|ratio| (ratio - 1.0).abs());
    sizes.reduce(f64::max).map_or_else(String::new, |most| {
        let most = percent(most);
        format!("; with {rounds}, differences up to {most} % are possible")
    })
}

/// The sentence about a difference that was found and may or may not matter.
fn may_matter(comparison: &Comparison, index: usize) -> String {
    let (reference, level) = (&comparison.levels[0], &comparison.levels[index]);
    let known = level.difference;
    let Some((ratio, interval)) = known.and_then(|it| Some((it.ratio?, interval(&it)?))) else {
        return undecided(comparison);
    };
    format!(
        "{}: {UNDECIDED} whether it matters{}: {} is {} % {} than {} (95 % interval {interval}; \
         up to {} % does not matter)",
        comparison.metric.label,
        limited(comparison),
        level.name,
        percent((ratio - 1.0).abs()),
        way(ratio),
        reference.name,
        percent(comparison.threshold),
    )
}

fn way(ratio: f64) -> &'static str {
    if ratio < 1.0 { "lower" } else { "higher" }
}

fn found(comparison: &Comparison, index: usize) -> String {
    let (reference, level) = (&comparison.levels[0], &comparison.levels[index]);
    let Some(difference) = level.difference else {
        return undecided(comparison);
    };
    let metric = &comparison.metric;
    let limited = limited(comparison);
    let verb = match comparison.outcome {
        // A saturated generator hides which server is better.
        _ if comparison.is_generator_saturated() => "differs from",
        Outcome::Better { .. } => "beats",
        Outcome::Worse { .. } => "is worse than",
        _ => "differs from",
    };
    let pair = format!("{} {verb} {}", level.name, reference.name);
    match (difference.ratio, interval(&difference)) {
        (Some(ratio), Some(interval)) => {
            let size = percent((ratio - 1.0).abs());
            let edge = if comparison.is_across_threshold(&difference) {
                let threshold = percent(comparison.threshold);
                format!(", partly within the {threshold} % threshold")
            } else {
                String::new()
            };
            let own = without_own(comparison, level, ratio);
            let interval = format!("95 % interval {interval}{edge}{own}");
            if verb == "beats" && metric.better == Better::Higher {
                format!(
                    "{pair} by {size} % in {}{limited} ({interval})",
                    metric.label
                )
            } else {
                format!(
                    "{pair}: {} is {size} % {}{limited} ({interval})",
                    metric.label,
                    way(ratio)
                )
            }
        }
        _ => format!(
            "{pair}: {} {} after {}{limited} ({})",
            metric.label,
            value(metric, level.median),
            value(metric, reference.median),
            p_phrase(difference.adjusted_p_value)
        ),
    }
}

/// `2.8 to 5.5 %`, in the direction of the change that was found.
fn interval(difference: &Difference) -> Option<String> {
    Some(interval_of(
        difference.ratio?,
        [difference.low?, difference.high?],
    ))
}

/// The interval of a ratio, `2.8 to 5.5 %`, in the direction of the change.
pub(crate) fn interval_of(ratio: f64, ends: [f64; 2]) -> String {
    let sign = if ratio < 1.0 { -1.0 } else { 1.0 };
    let mut ends = ends.map(|end| (end - 1.0) * sign);
    ends.sort_by(f64::total_cmp);
    format!("{} %", range(ends[0], ends[1]).join(" to "))
}

/// Both ends of an interval of shares, in percent, with enough digits to tell them apart.
pub(crate) fn range(low: f64, high: f64) -> [String; 2] {
    const DECIMALS_MAX: usize = 6;
    let short = [low, high].map(percent);
    if short[0] != short[1] {
        return short;
    }
    let mut longer = (1..=DECIMALS_MAX)
        .map(|decimals| [low, high].map(|share| format!("{:.decimals$}", share * 100.0)));
    longer.find(|ends| ends[0] != ends[1]).unwrap_or(short)
}

fn write_numbers(comparison: &Comparison, output: &mut dyn Write) -> io::Result<()> {
    let table = levels::table(String::new(), comparison);
    aligned::write(&table, BELOW_SENTENCE, output)?;
    let remarks = remarks(comparison);
    if !remarks.is_empty() {
        writeln!(output, "    {}", remarks.join("; "))?;
    }
    if let Some(remark) = relative_remark(comparison) {
        writeln!(output, "    {remark}")?;
    }
    Ok(())
}

/// `-0.4 to +3.1 %`
pub(crate) fn interval_as_changes(difference: &Difference) -> Option<String> {
    let (low, high) = (difference.low?, difference.high?);
    let ends = range(low - 1.0, high - 1.0).map(|end| with_sign(&end));
    Some(format!("{} %", ends.join(" to ")))
}

/// `+4.1 % (+2.8 to +5.5 %)`
pub(crate) fn change_with_interval(difference: &Difference) -> Option<String> {
    let change = format!("{} %", signed(difference.ratio?));
    Some(match interval_as_changes(difference) {
        Some(interval) => format!("{change} ({interval})"),
        None => change,
    })
}

/// Which test was used, and how many runs it needs.
pub(crate) fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    if let (Some(test), Some(p_value)) = (comparison.test, comparison.p_value) {
        // With several levels, the p-values of single levels answer another question.
        let of_what = match comparison.levels.len() {
            0..=2 => "",
            _ => "all levels at once, ",
        };
        remarks.push(format!("{of_what}{test}: {}", p_phrase(p_value)));
    }
    if let Some(Timing::InPairs { drift }) = comparison.timing.filter(|_| comparison.test.is_some())
        && drift != 0.0
    {
        remarks.push(format!(
            "the interval allows for a drift of {} % within pairs, most of which began with the \
             same side",
            percent(drift.exp_m1().abs())
        ));
    }
    let threshold = percent(comparison.threshold);
    match (comparison.runs_needed, comparison.detectable) {
        (Some(rounds), _) if comparison.is_sequential => remarks.push(format!(
            "intervals and p-values hold at every look; an interval of {threshold} % to either \
             side takes about {} rounds",
            words::count(rounds as u64)
        )),
        (Some(runs), _) => remarks.push(format!(
            "detecting a {threshold} % change needs {runs} runs per level"
        )),
        (None, Some(_)) => remarks.push(format!(
            "detecting a {threshold} % change needs more than 1,000 runs per level"
        )),
        (None, None) => {}
    }
    remarks
}

/// What the finding about one of several levels rests on.
pub(crate) fn pair_remark(comparison: &Comparison) -> Option<String> {
    let index = comparison.outcome.level()?;
    let (reference, level) = (comparison.levels.first()?, comparison.levels.get(index)?);
    let others = comparison.levels.len() - 1;
    (others > 1).then_some(())?;
    Some(format!(
        "{} against {}: {} by permutations, adjusted for {others} such comparisons",
        level.name,
        reference.name,
        p_phrase(level.difference?.adjusted_p_value)
    ))
}

/// What ratios are relative to, if it is anything but the first level.
pub(crate) fn relative_remark(comparison: &Comparison) -> Option<String> {
    let of = match comparison.timing {
        Some(Timing::InPairs { .. }) => "both runs of a pair had in common",
        _ if comparison.has_rounds => "all levels had in the same round",
        _ => "all levels had in the same combination",
    };
    comparison
        .is_relative
        .then(|| format!("ratios are relative to what {of}"))
}

/// The sentence about a caveat.
#[must_use]
pub fn caveat_sentence(caveat: &Caveat) -> String {
    match caveat {
        Caveat::OneAfterTheOther { sides: None } => {
            "all runs of a level were made before those of the next, so a change over time looks \
             like an effect (shuffle the order within rounds)"
                .to_owned()
        }
        Caveat::OneAfterTheOther {
            sides: Some([first, second]),
        } => format!(
            "all runs of {first} were made before those of {second}, so a change of the machine in \
             between looks like an effect, or hides one (measure them in turn with wrkbench versus)"
        ),
        Caveat::Drift {
            side,
            metric,
            change,
            p_value,
        } => format!(
            "{}{} {} by {} % from the first run to the last, regardless of the levels ({})",
            side_phrase(side.as_deref()),
            metric.label,
            if *change < 0.0 { "fell" } else { "rose" },
            percent(change.abs()),
            p_phrase(*p_value)
        ),
        Caveat::SlowFirstRun {
            side,
            metric,
            cells,
            of: all,
            cell,
            is_first_of_all,
            change,
        } => {
            let which = first_run_phrase(*is_first_of_all, cell);
            let others = match cells {
                1 => String::new(),
                _ => format!("; this is so in {cells} of {all} cells"),
            };
            format!(
                "{}{which} was slow: {} is {} % {} than in the cell's other runs (warm up for \
                 longer{others})",
                side_phrase(side.as_deref()),
                metric.label,
                percent(change.abs()),
                if *change < 0.0 { "lower" } else { "higher" },
            )
        }
        Caveat::SlowAtFirst {
            side,
            runs,
            of: all,
            not_settled,
            warmup_s,
        } => {
            let were = if *runs == 1 { "was" } else { "were" };
            let its = if *runs == 1 { "its" } else { "their" };
            let settled = settled_phrase(*not_settled, *runs);
            format!(
                "{}{runs} of {} {were} slower in {its} first seconds{settled} (use --warmup \
                 {warmup_s}s)",
                side_phrase(side.as_deref()),
                counted(*all as u64, "run"),
            )
        }
    }
}

/// `base: `, or nothing if a single set of runs is compared.
fn side_phrase(side: Option<&str>) -> String {
    side.map_or_else(String::new, |name| format!("{name}: "))
}

/// `the first run`, if there is only one cell, or `the first run of all, of rmem = 1024,`
fn first_run_phrase(is_first_of_all: bool, cell: &[String]) -> String {
    match (is_first_of_all, cell.is_empty()) {
        (_, true) => "the first run".to_owned(),
        (true, false) => format!("the first run of all, of {},", cell.join(", ")),
        (false, false) => format!("the first run of {}", cell.join(", ")),
    }
}

/// `, and 2 of them had not settled at the end`, of runs that were slow at first.
fn settled_phrase(not_settled: usize, runs: usize) -> String {
    match not_settled {
        0 => String::new(),
        all if all == runs => " and had not settled at the end".to_owned(),
        some => format!(", and {some} of them had not settled at the end"),
    }
}

/// `a difference below 6 %`, or `a change by less than a factor of 2.5` where a percentage would be
/// above 100.
pub(crate) fn below(detectable: f64) -> String {
    if detectable < 1.0 {
        format!("a difference below {} %", percent(detectable))
    } else {
        format!("a change by less than a factor of {:.1}", detectable + 1.0)
    }
}

/// `5 rounds`, `5 pairs`, `5 runs per level`
pub(crate) fn runs_phrase(comparison: &Comparison) -> String {
    let runs = comparison.runs as u64;
    match comparison.timing {
        Some(Timing::InPairs { .. }) => counted(runs, "pair"),
        _ if comparison.has_rounds => counted(runs, "round"),
        _ => counted(runs, "run") + " per level",
    }
}

/// A value in its unit; empty if it is not known.
pub(crate) fn value(metric: &Metric, value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| show(&metric.name, value))
}

/// A share in percent: `0.42`, `4.1`, `12`, `1,840`. Small ones keep two digits, so that only
/// nothing is 0.
pub(crate) fn percent(share: f64) -> String {
    /// Smaller ones are errors of rounding.
    const LEAST: f64 = 1e-6;
    let percent = share * 100.0;
    match percent.abs() {
        size if size < LEAST => "0".to_owned(),
        size if size < 0.0995 => {
            let decimals = 1 - size.log10().floor() as i32;
            trimmed(format!("{percent:.*}", decimals.unsigned_abs() as usize))
        }
        size if size < 0.995 => trimmed(format!("{percent:.2}")),
        size if size < 9.95 => trimmed(format!("{percent:.1}")),
        _ => plan::readable::decimal(percent, 0),
    }
}

/// A ratio's distance from 1 in percent, with its sign.
pub(crate) fn signed(ratio: f64) -> String {
    with_sign(&percent(ratio - 1.0))
}

fn with_sign(percent: &str) -> String {
    if percent.starts_with('-') || percent == "0" {
        percent.to_owned()
    } else {
        format!("+{percent}")
    }
}

/// The number without zeros at the end of its decimals, and a zero without a sign.
fn trimmed(number: String) -> String {
    let short = number.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" {
        "0".to_owned()
    } else {
        short.to_owned()
    }
}

/// A p-value as sentences have it: `p = 0.70`.
pub(crate) fn p_phrase(p_value: f64) -> String {
    match p(p_value) {
        text if text.starts_with('<') => format!("p {text}"),
        text => format!("p = {text}"),
    }
}

pub(crate) fn p(p_value: f64) -> String {
    match p_value {
        p if p < 0.001 => "< 0.001".to_owned(),
        p if p < 0.0995 => format!("{p:.3}"),
        p => format!("{p:.2}"),
    }
}
