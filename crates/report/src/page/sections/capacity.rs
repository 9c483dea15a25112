//! What several settings carry: how long tokens take at which throughput, and how many requests are
//! good.

use analysis::compare::{Factor, MedianInterval};
use presentation::words::{capital, sentences};
use presentation::{Axis, Block, Chart, Mark, Marks, Section, Unit};
use results::Metric;
use results::metric::{self, Time};
use results::parts::llm::{FIRST_TOKEN, TIME_PER_TOKEN};

use super::levels::{confidence_phrase, interval_phrase};
use crate::page::quantities::{self, in_6_digits, scale, show, title};
use crate::page::runs::{Group, Runs, is_of_files, short_names};

/// The percentiles of times that are drawn, the upper one first, with their colours on a page with
/// one line.
const PERCENTILES: [(f64, usize); 2] = [(99.0, 3), (50.0, 0)];

/// The rate of the plan, for the horizontal axis.
const RATE: &str = "rate";

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let lines = lines(runs);
    let of_tokens = [FIRST_TOKEN, TIME_PER_TOKEN].map(|time| over_tokens(&lines, time));
    let of_good = [good_share(&lines), good_rate(&lines)];
    let pairs = [of_tokens, of_good].map(|pair| pair.into_iter().flatten().collect::<Vec<_>>());
    let blocks = pairs.into_iter().filter(|charts| !charts.is_empty());
    let blocks: Vec<Block> = blocks.map(|charts| Block::Charts { charts }).collect();
    let confidence = lines
        .iter()
        .flat_map(CapacityCurve::confidences)
        .reduce(f64::min);
    let interval = match confidence {
        Some(least) => format!(
            "Bars are confidence intervals of the median, of at least {} (sign test)",
            confidence_phrase(least)
        ),
        None => "Confidence intervals of the median need at least five runs".to_owned(),
    };
    let lead = sentences([
        "Each point is the median of the runs of a setting",
        &interval,
        "A setting that is to the right of another one has more throughput, and one below it makes \
         users wait less",
    ]);
    (!blocks.is_empty()).then(|| Section::new("capacity", "Capacity", lead, blocks))
}

/// Groups that differ in one factor, in the order of its levels.
struct CapacityCurve<'a> {
    /// What sets it apart from the other lines; empty if it is the only one.
    name: String,
    /// Names the settings of its points; empty if nothing does.
    factor: String,
    /// Whether the levels are numbers, so that points have an order.
    is_ordered: bool,
    points: Vec<CapacityPoint<'a>>,
    /// The medians belong to runs that were looked at after every round.
    is_sequential: bool,
}

/// A setting.
struct CapacityPoint<'a> {
    level: String,
    group: &'a Group<'a>,
}

/// Where a point is on the horizontal axis, and that in words; empty if the axis says it.
type PointPosition<'f> = dyn Fn(&CapacityPoint<'_>) -> Option<(f64, String)> + 'f;

/// The median of a metric over the runs of a setting.
struct CapacityMedian {
    value: f64,
    interval: Option<MedianInterval>,
    /// The value in words, marked if it is a lower bound.
    text: String,
}

impl CapacityCurve<'_> {
    fn median(&self, point: &CapacityPoint<'_>, metric: &str) -> Option<CapacityMedian> {
        let runs = point.group.runs.iter();
        let known = runs.filter_map(|run| run.run.measured(metric));
        let known: Vec<_> = known.filter(|known| known.value.is_finite()).collect();
        let values: Vec<f64> = known.iter().map(|known| known.value).collect();
        let value = analysis::median(&values)?;
        let bounds = known.iter().filter(|known| known.is_lower_bound).count();
        let interval = MedianInterval::of(&values).filter(|_| !self.is_sequential && bounds == 0);
        let text = match interval {
            Some(interval) => format!(
                "{} ({})",
                show(metric, value),
                interval_phrase(metric, interval)
            ),
            None if bounds * 2 >= known.len() && bounds > 0 => {
                presentation::tables::marked(show(metric, value))
            }
            None => show(metric, value),
        };
        Some(CapacityMedian {
            value,
            interval,
            text,
        })
    }

    fn confidences(&self) -> impl Iterator<Item = f64> {
        let rows = [metric::OUTPUT_TOKENS_PER_SEC, metric::GOODPUT];
        let of_point = move |point| rows.map(|name| self.median(point, name)?.interval);
        let known = self.points.iter().flat_map(of_point).flatten();
        known.map(|interval| interval.confidence)
    }

    /// `connections 4`
    fn setting(&self, point: &CapacityPoint<'_>) -> String {
        let Self { factor, .. } = self;
        match factor.as_str() {
            "" => point.level.clone(),
            factor => format!("{factor} {}", point.level),
        }
    }

    fn mark(&self) -> Mark {
        if self.is_ordered {
            Mark::Path
        } else {
            Mark::Interval
        }
    }

    /// Points at these places; `None` without two of them.
    fn marks(&self, place: &PointPosition<'_>, metric: &str, marks: Marks) -> Option<Marks> {
        let mut marks = marks;
        let mut points = Vec::new();
        for point in &self.points {
            let (Some((x, words)), Some(median)) = (place(point), self.median(point, metric))
            else {
                continue;
            };
            points.push((x, words, median, point));
        }
        // Only a path may go back.
        if !self.is_ordered {
            points.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        }
        for (x, words, median, point) in points {
            let ends = [
                median.interval.map(|it| it.low),
                Some(median.value),
                median.interval.map(|it| it.high),
            ];
            let parts = [self.setting(point), words, median.text];
            let words = parts.into_iter().filter(|it| !it.is_empty());
            let label = words.collect::<Vec<_>>().join(", ");
            marks.push_interval(in_6_digits(x), ends.map(|end| end.map(in_6_digits)), label);
            marks.texts.push(point.level.clone());
        }
        (marks.x.len() > 1).then_some(marks)
    }

    fn titled(&self, what: &str) -> String {
        match self.name.as_str() {
            "" => what.to_owned(),
            name => format!("{what}, {name}"),
        }
    }
}

/// The groups in lines along the factor with the most levels that are numbers. Without one, all
/// groups are one line without order.
fn lines<'a>(runs: &'a Runs<'a>) -> Vec<CapacityCurve<'a>> {
    let is_number = |level: &String| level.starts_with(|c: char| c.is_ascii_digit());
    let numbers = |factor: &&Factor| {
        !is_of_files(&factor.name) && factor.levels.len() > 1 && factor.levels.iter().all(is_number)
    };
    let along = runs.factors.iter().filter(numbers);
    let along = along.reduce(|most, one| {
        if one.levels.len() > most.levels.len() {
            one
        } else {
            most
        }
    });
    let mut lines: Vec<CapacityCurve<'_>> = Vec::new();
    let mut places: Vec<Vec<usize>> = Vec::new();
    for group in &runs.groups {
        let Some(first) = group.runs.first() else {
            continue;
        };
        let run = runs.all.iter().position(|run| std::ptr::eq(run, first.run));
        let level_of = |factor: &Factor| factor.of_runs.get(run?).copied().flatten();
        let (name, place, level) = match along.map(|factor| (factor, level_of(factor))) {
            Some((_, None)) => continue,
            Some((factor, Some(at))) => {
                let others = runs.factors.iter().filter(|it| it.name != factor.name);
                let others = others.filter_map(|it| it.levels.get(level_of(it)?).cloned());
                let profiles = runs.groups.iter().filter_map(|it| it.runs.first());
                let differ = profiles
                    .clone()
                    .any(|it| it.run.profile != first.run.profile);
                let profile = first.run.profile.clone().filter(|_| differ);
                let name: Vec<String> = profile.into_iter().chain(others).collect();
                (name.join(", "), at, factor.levels[at].clone())
            }
            None => (String::new(), runs.groups.len(), group.full_name.clone()),
        };
        let found = lines.iter().position(|line| line.name == name);
        let line = found.unwrap_or_else(|| {
            lines.push(CapacityCurve {
                name,
                factor: along.map_or_else(String::new, |factor| factor.name.clone()),
                is_ordered: along.is_some(),
                points: Vec::new(),
                is_sequential: runs.is_sequential(),
            });
            places.push(Vec::new());
            lines.len() - 1
        });
        let at = places[line].partition_point(|other| *other <= place);
        places[line].insert(at, place);
        lines[line]
            .points
            .insert(at, CapacityPoint { level, group });
    }
    lines
}

/// A chart of these marks; `None` without any.
fn chart(id: &str, title: String, [x, y]: [Axis; 2], marks: Vec<Marks>) -> Option<Chart> {
    let labels = marks
        .iter()
        .map(|marks| format!("{}: {}", marks.name, marks.labels.join("; ")));
    Some(Chart {
        id: format!("capacity-{id}"),
        description: format!("{}.", labels.collect::<Vec<_>>().join(". ")),
        title,
        x,
        y,
        marks,
        ..Chart::default()
    })
    .filter(|chart| !chart.marks.is_empty())
}

/// Percentiles of a time over the output tokens per second.
fn over_tokens(lines: &[CapacityCurve<'_>], time: Time) -> Option<Chart> {
    const TOKENS: &str = metric::OUTPUT_TOKENS_PER_SEC;
    let mut marks = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let x = |point: &CapacityPoint<'_>| {
            let tokens = line.median(point, TOKENS)?;
            Some((tokens.value, format!("{} {}", tokens.text, title(TOKENS))))
        };
        for (nth, (percent, color)) in PERCENTILES.into_iter().enumerate() {
            let is_only = lines.len() == 1;
            let name = line.titled(&format!("p{percent}"));
            let style = Marks {
                is_dashed: !is_only && nth == 0,
                ..Marks::new(name, line.mark(), if is_only { color } else { index })
            };
            let metric = metric::percentile(time.name(), percent);
            marks.extend(line.marks(&x, &metric, style));
        }
    }
    let values = marks.iter().flat_map(|marks| marks.y.iter().flatten());
    let scale = scale(values.map(|value| (*value, *value)));
    let y = Axis {
        scale,
        ..Axis::from_zero(time.label(), Unit::Microseconds)
    };
    let x = Axis::from_zero(title(TOKENS), quantities::unit(TOKENS));
    let heading = format!("{} over {}", capital(&time.label()), title(TOKENS));
    chart(
        time.name().replace('_', "-").as_str(),
        heading,
        [x, y],
        marks,
    )
}

/// The horizontal axis of settings: their rate if that is what differs, otherwise their names.
fn settings(lines: &[CapacityCurve<'_>]) -> (Axis, bool) {
    let rates = |line: &CapacityCurve<'_>| -> Option<Vec<f64>> {
        let rate = |point| line.median(point, RATE).map(|rate| rate.value);
        line.points.iter().map(rate).collect()
    };
    let ascend = |line| rates(line).is_some_and(|rates| rates.is_sorted_by(|a, b| a < b));
    if lines
        .iter()
        .all(|line| line.points.len() > 1 && ascend(line))
    {
        let axis = Axis::from_zero(title(RATE), quantities::unit(RATE));
        return (axis, true);
    }
    let longest = lines.iter().max_by_key(|line| line.points.len());
    let levels = longest.iter().flat_map(|line| &line.points);
    let names = short_names(levels.map(|point| point.level.as_str()));
    let factor = longest.map_or_else(String::new, |line| line.factor.clone());
    (Axis::names(factor, names), false)
}

/// Marks of a metric over the settings.
fn over_settings(lines: &[CapacityCurve<'_>], of: &[(&str, bool)]) -> (Axis, Vec<Marks>) {
    let (axis, is_of_rate) = settings(lines);
    let longest = lines.iter().max_by_key(|line| line.points.len());
    let levels: Vec<&str> = longest
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.level.as_str())
        .collect();
    let mut marks = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let x = |point: &CapacityPoint<'_>| {
            let place = levels.iter().position(|level| *level == point.level);
            let x = if is_of_rate {
                line.median(point, RATE)?.value
            } else {
                place? as f64
            };
            Some((x, String::new()))
        };
        for (metric, is_context) in of {
            let style = Marks {
                is_dashed: *is_context,
                is_faint: *is_context,
                ..Marks::new(line.titled(&title(metric)), line.mark(), index)
            };
            let known = line.marks(&x, metric, style);
            // The axis names the settings.
            marks.extend(known.map(|known| Marks {
                texts: Vec::new(),
                ..known
            }));
        }
    }
    (axis, marks)
}

fn good_share(lines: &[CapacityCurve<'_>]) -> Option<Chart> {
    let (x, marks) = over_settings(lines, &[(metric::GOODPUT, false)]);
    let y = Axis::from_zero(title(metric::GOODPUT), quantities::unit(metric::GOODPUT));
    chart("goodput", over("Good requests", &x), [x, y], marks)
}

/// Good requests per second, and for comparison all.
fn good_rate(lines: &[CapacityCurve<'_>]) -> Option<Chart> {
    const GOOD: &str = metric::GOOD_REQUESTS_PER_SEC;
    let of = [(metric::REQUESTS_PER_SEC, true), (GOOD, false)];
    let (x, marks) = over_settings(lines, &of);
    let is_judged = lines.iter().any(|line| {
        let mut points = line.points.iter();
        points.any(|point| line.median(point, GOOD).is_some())
    });
    let y = Axis::from_zero(
        Metric::named(metric::REQUESTS_PER_SEC).label,
        quantities::unit(GOOD),
    );
    let title = over("Good requests per second", &x);
    chart("good-rate", title, [x, y], marks).filter(|_| is_judged)
}

/// `Good requests over connections`
fn over(what: &str, x: &Axis) -> String {
    match x.label.as_str() {
        "" => what.to_owned(),
        label => format!("{what} over {label}"),
    }
}
