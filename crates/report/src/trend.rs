//! The history of results, as text and as a page: which metric changed when, and a table of all
//! points.

use std::io::{self, Write};

use analysis::{
    Change, Drift, FALSE_ALARM_RATE, History, MetricHistory, NewestDifference, Point, Trend,
};
use plan::printable;
use presentation::tables::{
    self, count, finding, known, number_column, text, toned, unknown, wide, words_column,
};
use presentation::words::{self, counted, sentences};
use presentation::{
    Axis, Block, Chart, Height, Mark, Marks, Page, Section, TableBlock, TableCell, Tone,
};
use results::Better;

use crate::aligned::{self, Layout};
use crate::comparison::{interval_of, p_phrase, percent, signed};
use crate::page::quantities::{self, in_6_digits, show};

/// Writes the changes, a sentence each, and a table for each load.
///
/// # Errors
/// Those of the writer.
pub fn render_trend(trend: &Trend, output: &mut dyn Write) -> io::Result<()> {
    for history in &trend.histories {
        for metric in &history.metrics {
            for (_, sentence) in sentences_of(trend, history, metric) {
                writeln!(output, "{}", printable(&sentence))?;
            }
        }
    }
    for history in &trend.histories {
        writeln!(output)?;
        if !history.place.is_empty() {
            writeln!(output, "{}:", printable(&history.place.join(", ")))?;
        }
        aligned::write(&table(trend, history), Layout::default(), output)?;
    }
    for note in notes(trend) {
        writeln!(output, "Note: {}", printable(&note))?;
    }
    Ok(())
}

/// Makes the page of a history. `notes` are messages from reading the runs, a line each.
#[must_use]
pub fn trend_page(trend: &Trend, title: Option<&str>, notes_of_reading: &[String]) -> Page {
    let all = trend.histories.iter();
    let points: Vec<&Point> = all.flat_map(|history| &history.points).collect();
    let runs: usize = points.iter().map(|point| point.runs.len()).sum();
    let ends = [
        points.iter().min_by_key(|it| &it.started_at),
        points.iter().max_by_key(|it| &it.started_at),
    ];
    let ends = ends.map(|point| point.map_or("", |point| point.name.as_str()));
    let mut details = notes(trend);
    details.extend(notes_of_reading.iter().cloned());
    let mut blocks: Vec<Block> = Vec::new();
    for history in &trend.histories {
        for metric in &history.metrics {
            let found = sentences_of(trend, history, metric).into_iter();
            blocks.extend(found.map(|(tone, text)| finding(tone, text, Vec::new())));
        }
    }
    let mut sections = vec![Section::new("changes", "Changes", method(), blocks)];
    for (number, history) in trend.histories.iter().enumerate() {
        let place = match history.place.as_slice() {
            [] => "History".to_owned(),
            names => words::capital(&names.join(", ")),
        };
        let metrics = history.metrics.iter().enumerate();
        let charts = metrics.map(|(at, metric)| chart(trend, history, metric, (number, at)));
        let charts = Block::Charts {
            charts: charts.collect(),
        };
        let lead = sentences([
            "Each dot is a run, oldest first",
            "The median of each point has its confidence interval if there are at least five runs",
            "The steps are the levels between two changes, or on a drift",
        ]);
        let blocks = vec![charts, Block::Table(table(trend, history))];
        sections.push(Section::new(
            &format!("history-{number}"),
            &place,
            lead,
            blocks,
        ));
    }
    if !details.is_empty() {
        let facts = finding(Tone::Neutral, "What was left out", details);
        sections.push(Section::new("notes", "Notes", "", vec![facts]));
    }
    let answer = answer(trend);
    Page {
        title: title.unwrap_or(&answer).to_owned(),
        answer,
        subtitle: format!(
            "History of {} from {} to {}",
            counted(runs as u64, "run"),
            ends[0],
            ends[1]
        ),
        sections,
    }
}

/// The changes that are the server's, or that there are none.
fn answer(trend: &Trend) -> String {
    let metrics = trend.histories.iter();
    let metrics = metrics.flat_map(|history| history.metrics.iter().map(move |it| (history, it)));
    let found = metrics.flat_map(|(history, metric)| {
        let name = name_of(history, metric);
        let told = MetricSentences::of(trend, history, metric, &name);
        let drift = metric.drift.iter().filter(|drift| !drift.is_explained);
        let drift = drift.map(|drift| told.drift_in_short(drift));
        let changes = metric.changes.iter().filter(|change| !change.is_explained);
        let changes = changes.map(|change| told.change_in_short(change));
        drift.chain(changes).collect::<Vec<_>>()
    });
    let found: Vec<String> = found.collect();
    match found.as_slice() {
        [] => "No change found".to_owned(),
        [one] => words::capital(one),
        [first, others @ ..] => {
            let others = counted(others.len() as u64, "more change");
            words::capital(&format!("{first}, and {others}"))
        }
    }
}

/// How changes are found.
fn method() -> String {
    format!(
        "Of histories without a change, at most {} % say anything else here, all metrics of a load \
         together: permutation tests of the energy distance and of the rank sums of both sides, \
         over the medians of the points. Places are those of least squares.",
        percent(FALSE_ALARM_RATE)
    )
}

fn notes(trend: &Trend) -> Vec<String> {
    let left_out = trend.left_out.iter();
    left_out
        .map(|(reason, runs)| match *reason {
            "do not have the label" => {
                format!(
                    "{} left out: they {reason} {}",
                    counted(*runs as u64, "run"),
                    trend.by
                )
            }
            reason => format!("{} left out: they {reason}", counted(*runs as u64, "run")),
        })
        .collect()
}

/// The metric, after its place if there are several.
fn name_of(history: &History, metric: &MetricHistory) -> String {
    let place = history.place.iter().map(String::as_str);
    let (place, label) = (place.collect::<Vec<_>>().join(", "), &metric.metric.label);
    match place.as_str() {
        "" => label.clone(),
        place => format!("{place}: {label}"),
    }
}

/// What is known about a metric of a history: its changes, or that there are none.
fn sentences_of(trend: &Trend, history: &History, metric: &MetricHistory) -> Vec<(Tone, String)> {
    let name = name_of(history, metric);
    let told = MetricSentences::of(trend, history, metric, &name);
    let points = metric.medians.iter().flatten().count();
    let counted = counted(points as u64, &trend.by);
    let drift = metric.drift.iter().map(|drift| told.drift(drift));
    let changes = metric.changes.iter().map(|change| told.change(change));
    let newest = metric.newest.iter().map(|newest| told.newest(newest));
    let mut all: Vec<(Tone, String)> = drift.chain(changes).chain(newest).collect();
    if points < metric.points_min {
        let needed = metric.points_min;
        let few = format!(
            "{name}: not enough to find a change: {counted}, and at least {needed} are needed"
        );
        all.push((Tone::Neutral, few));
    } else if all.is_empty() {
        all.push((
            Tone::Neutral,
            format!("{name}: no change found in {counted}"),
        ));
    }
    all
}

/// What the load generator caused is no finding about the server.
const EXPLAINED: &str = "only as measured: delays of the load generator explain it";

/// A metric of a history, whose findings are put into words.
struct MetricSentences<'a> {
    /// The metric, after its place if there are several.
    name: &'a str,
    /// What points are: `day`, or the name of a label.
    by: &'a str,
    points: &'a [Point],
    metric: &'a MetricHistory,
}

impl<'a> MetricSentences<'a> {
    fn of(
        trend: &'a Trend,
        history: &'a History,
        metric: &'a MetricHistory,
        name: &'a str,
    ) -> Self {
        Self {
            name,
            by: &trend.by,
            points: &history.points,
            metric,
        }
    }

    /// `requests/s is 12 % lower from 2026-11-20 on`
    fn change_in_short(&self, change: &Change) -> String {
        let (name, since) = (self.name, &self.points[change.point].name);
        let is_higher = change.after > change.before;
        let direction = if is_higher { "higher" } else { "lower" };
        let size = change.ratio.map_or_else(String::new, |_| {
            let size = (change.after / change.before - 1.0).abs();
            format!("{} % ", percent(size))
        });
        format!("{name} is {size}{direction} from {since} on")
    }

    fn change(&self, change: &Change) -> (Tone, String) {
        let is_higher = change.after > change.before;
        let (tone, judged) = self.judged(is_higher, change.is_explained);
        let what = self.change_in_short(change);
        let p_value = match change.disagreement {
            None => p_phrase(change.p_value),
            Some([sizes, ranks]) if sizes < ranks => {
                format!(
                    "{} by sizes, not by ranks: {}",
                    p_phrase(sizes),
                    p_phrase(ranks)
                )
            }
            Some([sizes, ranks]) => {
                format!(
                    "{} by ranks, not by sizes: {}",
                    p_phrase(ranks),
                    p_phrase(sizes)
                )
            }
        };
        let [before, after] = self.shown([change.before, change.after]);
        let text = match change.ratio {
            Some(ends) => format!(
                "{what} (95 % interval {}; {p_value}){judged}: {after} after {before}",
                interval_of(change.after / change.before, ends),
            ),
            None => format!("{what} ({p_value}){judged}: {after} after {before}"),
        };
        (tone, text)
    }

    /// `p99 latency rises by about 1.2 % a day from 2026-11-20 to 2026-11-28`
    fn drift_in_short(&self, drift: &Drift) -> String {
        let (name, by) = (self.name, self.by);
        let [from, to] = drift.points.map(|point| &self.points[point].name);
        let is_higher = drift.levels[1] > drift.levels[0];
        let direction = if is_higher { "rises" } else { "falls" };
        let [each, ..] = drift.each;
        let size = if drift.is_ratio {
            format!("{} %", percent((each - 1.0).abs()))
        } else {
            show(&self.metric.metric.name, each.abs())
        };
        format!("{name} {direction} by about {size} a {by} from {from} to {to}")
    }

    fn drift(&self, drift: &Drift) -> (Tone, String) {
        let is_higher = drift.levels[1] > drift.levels[0];
        let (tone, judged) = self.judged(is_higher, drift.is_explained);
        let what = self.drift_in_short(drift);
        let p_value = p_phrase(drift.p_value);
        let [before, after] = self.shown(drift.levels);
        let [each, low, high] = drift.each;
        let text = if drift.is_ratio {
            format!(
                "{what} (95 % interval {}; {p_value}){judged}: {after} after {before}",
                interval_of(each, [low, high]),
            )
        } else {
            format!("{what} ({p_value}){judged}: {after} after {before}")
        };
        (tone, text)
    }

    fn newest(&self, newest: &NewestDifference) -> (Tone, String) {
        let by = self.by;
        let is_higher = newest.after > newest.before;
        let (tone, judged) = self.judged(is_higher, newest.is_explained);
        let direction = if is_higher { "higher" } else { "lower" };
        let [first, last] = newest.points;
        let names = self.names(first, last);
        let verb = if first == last { "is" } else { "are" };
        let stable = self.names(newest.stable[0], newest.stable[1]);
        let [before, after] = self.shown([newest.before, newest.after]);
        let difference = newest.ratio.map(|ends| {
            let ratio = newest.after / newest.before;
            let size = percent((ratio - 1.0).abs());
            (
                format!("{size} % "),
                format!(" ({})", interval_of(ratio, ends)),
            )
        });
        let (size, interval) = difference.unwrap_or_default();
        let confirmation = match newest.further {
            _ if newest.is_explained => String::new(),
            Some(1) => format!("; one more {by} at this level would confirm it"),
            Some(further) => format!("; {further} more {by}s at this level would confirm it"),
            None => format!(
                "; more than {} more {by}s would be needed to confirm it",
                NewestDifference::FURTHER_MAX
            ),
        };
        let text = format!(
            "{}: {names} {verb} {size}{direction}{interval} than {stable}{judged}: {after} after \
             {before}{confirmation}",
            self.name
        );
        (tone, text)
    }

    /// What a rise or a fall means.
    fn judged(&self, is_higher: bool, is_explained: bool) -> (Tone, String) {
        if is_explained {
            return (Tone::Neutral, format!(" {EXPLAINED}"));
        }
        let (tone, meaning) = match (self.metric.metric.better, is_higher) {
            (Better::Neither, _) => (Tone::Neutral, ""),
            (Better::Higher, true) | (Better::Lower, false) => (Tone::Better, ", which is better"),
            _ => (Tone::Worse, ", which is worse"),
        };
        (tone, meaning.to_owned())
    }

    fn shown(&self, values: [f64; 2]) -> [String; 2] {
        values.map(|value| show(&self.metric.metric.name, value))
    }

    fn names(&self, first: usize, last: usize) -> String {
        let [from, to] = [first, last].map(|point| &self.points[point].name);
        match last - first {
            0 => from.clone(),
            1 => format!("{from} and {to}"),
            _ => format!("{from} to {to}"),
        }
    }
}

/// A row for each point: its runs, and for each metric median, interval, and the change at this
/// point.
fn table(trend: &Trend, history: &History) -> TableBlock {
    let mut columns = vec![words_column(&trend.by)];
    let is_by_day = history
        .points
        .iter()
        .all(|point| point.started_at.starts_with(&point.name));
    if !is_by_day {
        columns.push(words_column("first run"));
    }
    columns.push(number_column("runs"));
    for metric in &history.metrics {
        columns.extend([
            number_column(&metric.metric.label),
            wide(number_column("interval")),
            number_column("change"),
        ]);
    }
    let row = |(at, point): (usize, &Point)| {
        let mut cells = vec![text(&point.name)];
        if !is_by_day {
            cells.push(text(words::moment(&point.started_at)));
        }
        cells.push(count(point.runs.len() as u64));
        cells.extend(
            history
                .metrics
                .iter()
                .flat_map(|metric| cells_of(metric, at)),
        );
        cells
    };
    TableBlock::new("", columns, history.points.iter().enumerate().map(row))
}

fn cells_of(metric: &MetricHistory, at: usize) -> [TableCell; 3] {
    let name = &metric.metric.name;
    let interval = metric.intervals[at].map_or_else(unknown, |interval| {
        text(format!(
            "{} to {}",
            show(name, interval.low),
            show(name, interval.high)
        ))
    });
    let mut changes = metric.changes.iter();
    let change = changes.find(|change| change.point == at && !change.is_explained);
    let change = change.map_or_else(
        || text(""),
        |change| {
            let ratio = change.after / change.before;
            let is_worse = match metric.metric.better {
                Better::Higher => ratio < 1.0,
                Better::Lower => ratio > 1.0,
                Better::Neither => false,
            };
            let cell = match change.ratio {
                Some(_) => tables::value(format!("{} %", signed(ratio)), (ratio - 1.0) * 100.0),
                None => text("changed"),
            };
            toned(cell, if is_worse { Tone::Worse } else { Tone::Better })
        },
    );
    [
        known(metric.medians[at], |median| show(name, median)),
        interval,
        change,
    ]
}

/// Every run as a dot, the median of each point, and the levels between changes.
fn chart(
    trend: &Trend,
    history: &History,
    metric: &MetricHistory,
    (number, at): (usize, usize),
) -> Chart {
    let name = &metric.metric.name;
    let mut dots = Marks::new("A run", Mark::Dots, 0);
    let mut medians = Marks::new("Median and its confidence interval", Mark::Interval, 1);
    let mut levels = Marks::new("Level", Mark::Step, 3);
    for (x, point) in history.points.iter().enumerate() {
        let (place, values) = (x as f64, &metric.values[x]);
        for value in values {
            let label = format!("{}: {}", point.name, show(name, *value));
            dots.push(in_6_digits(place), Some(in_6_digits(*value)), label);
        }
        if let Some(median) = metric.medians[x] {
            let interval = metric.intervals[x];
            let ends = [
                interval.map(|it| it.low),
                Some(median),
                interval.map(|it| it.high),
            ];
            let label = format!("{}: median {}", point.name, show(name, median));
            let ends = ends.map(|end| end.map(in_6_digits));
            medians.push_interval(place + 0.2, ends, label);
        }
        if let Some(level) = metric.levels[x] {
            levels.push(place, Some(in_6_digits(level)), show(name, level));
        }
    }
    let names = history.points.iter().map(|point| point.name.clone());
    let all = metric.values.iter().flatten().copied();
    Chart {
        id: format!("history-{number}-{at}"),
        title: quantities::title(name),
        description: format!(
            "{} over {}; {}.",
            metric.metric.label,
            counted(history.points.len() as u64, &trend.by),
            counted(metric.changes.len() as u64, "change")
        ),
        x: Axis::names(trend.by.clone(), names.collect()),
        y: quantities::axis(name, all),
        marks: [levels, dots, medians]
            .into_iter()
            .filter(|it| !it.x.is_empty())
            .collect(),
        height: Height::Tall,
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Metric;

    /// A history of the rate over the versions 1.1 to 1.9.
    fn history(metric: MetricHistory) -> Trend {
        let point = |number: u32| Point {
            name: format!("1.{number}"),
            started_at: format!("2026-10-0{number}T03:00:00Z"),
            runs: Vec::new(),
        };
        Trend {
            by: "version".to_owned(),
            histories: vec![History {
                points: (1..=9).map(point).collect(),
                metrics: vec![metric],
                ..History::default()
            }],
            ..Trend::default()
        }
    }

    fn rate() -> MetricHistory {
        MetricHistory {
            metric: Metric::named("requests_per_sec"),
            values: vec![Vec::new(); 9],
            medians: vec![Some(1_000.0); 9],
            intervals: vec![None; 9],
            changes: Vec::new(),
            drift: None,
            newest: None,
            levels: vec![None; 9],
            points_min: 9,
        }
    }

    fn change() -> Change {
        Change {
            point: 7,
            before: 1_000.0,
            after: 900.0,
            ratio: Some([0.89, 0.91]),
            p_value: 0.004,
            disagreement: None,
            is_explained: false,
        }
    }

    fn newest() -> NewestDifference {
        NewestDifference {
            points: [8, 8],
            stable: [0, 7],
            before: 1_000.0,
            after: 910.0,
            ratio: Some([0.88, 0.94]),
            further: Some(1),
            is_explained: false,
        }
    }

    /// The sentences in the text, which the page must have as well.
    fn told(metric: MetricHistory) -> Vec<String> {
        let trend = history(metric);
        let mut text = Vec::new();
        render_trend(&trend, &mut text).expect("a vector takes everything");
        let text = String::from_utf8(text).expect("it is text");
        let sentences = text.lines().take_while(|line| !line.is_empty());
        let sentences: Vec<String> = sentences.map(str::to_owned).collect();
        let mut page = Vec::new();
        crate::page::render(&trend_page(&trend, None, &[]), &mut page)
            .expect("it takes everything");
        let page = String::from_utf8(page).expect("it is text");
        let page = page.replace("&#60;", "<").replace('\u{a0}', " ");
        for sentence in &sentences {
            assert!(page.contains(sentence), "{sentence}");
        }
        sentences
    }

    #[test]
    fn a_change_says_by_what_it_is_found() {
        let with = |change: Change| MetricHistory {
            changes: vec![change],
            ..rate()
        };
        let end = "which is worse: 900 after 1,000";
        let begin = "requests/s is 10 % lower from 1.8 on (95 % interval 9 to 11 %; p = 0.004";
        assert_eq!(told(with(change())), [format!("{begin}), {end}")]);
        for (sizes, ranks, words) in [
            (0.004, 0.31, "by sizes, not by ranks: p = 0.31"),
            (0.2, 0.004, "by ranks, not by sizes: p = 0.20"),
        ] {
            let disagreement = Some([sizes, ranks]);
            let found = told(with(Change {
                disagreement,
                ..change()
            }));
            assert_eq!(found, [format!("{begin} {words}), {end}")]);
        }
        let found = told(with(Change {
            is_explained: true,
            ..change()
        }));
        let explained = "only as measured: delays of the load generator explain it";
        assert_eq!(found, [format!("{begin}) {explained}: 900 after 1,000")]);
    }

    #[test]
    fn a_drift_has_its_slope() {
        let drift = Drift {
            points: [0, 8],
            levels: [1_000.0, 976.0],
            each: [0.997, 0.9965, 0.9975],
            is_ratio: true,
            p_value: 0.0005,
            is_explained: false,
        };
        let found = told(MetricHistory {
            drift: Some(drift),
            ..rate()
        });
        let expected = "requests/s falls by about 0.3 % a version from 1.1 to 1.9 (95 % interval \
                        0.25 to 0.35 %; p < 0.001), which is worse: 976 after 1,000";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn newest_versions_say_how_many_more_would_confirm_them() {
        let with = |newest: NewestDifference| {
            told(MetricHistory {
                newest: Some(newest),
                ..rate()
            })
        };
        let numbers = "which is worse: 910 after 1,000";
        let one = "requests/s: 1.9 is 9 % lower (6 to 12 %) than 1.1 to 1.8";
        let expected = format!("{one}, {numbers}; one more version at this level would confirm it");
        assert_eq!(with(newest()), [expected]);
        let (points, stable) = ([7, 8], [5, 6]);
        let found = with(NewestDifference {
            points,
            stable,
            further: Some(2),
            ..newest()
        });
        let two = "requests/s: 1.8 and 1.9 are 9 % lower (6 to 12 %) than 1.6 and 1.7";
        let expected = format!("{two}, {numbers}; 2 more versions at this level would confirm it");
        assert_eq!(found, [expected]);
        let found = with(NewestDifference {
            further: None,
            ..newest()
        });
        let more = "more than 6 more versions would be needed to confirm it";
        assert_eq!(found, [format!("{one}, {numbers}; {more}")]);
    }

    #[test]
    fn nothing_found_is_said_once() {
        assert_eq!(told(rate()), ["requests/s: no change found in 9 versions"]);
        let few = MetricHistory {
            points_min: 10,
            ..rate()
        };
        let expected = "requests/s: not enough to find a change: 9 versions, and at least 10 are \
                        needed";
        assert_eq!(told(few), [expected]);
    }
}
