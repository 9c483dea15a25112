//! Latency as a histogram of horizontal bars.

use plan::readable;
use ratatui::buffer::Buffer;
use ratatui::layout::{Direction, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Bar, BarChart, BarGroup, Widget};
use results::Histogram;

use super::LINEAR_RATIO;
use super::tables::percent;
use crate::appearance::{BOLD, DIM, RATE_AREA};

/// More buckets would not show more.
const BUCKETS_MAX: u16 = 12;
/// With at least this many rows, one has the column headings.
const HEADED_ROWS: u16 = 5;
/// Width of a bucket's share: `>99.9 %`.
const SHARE_COLUMNS: usize = 8;

/// A range of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    /// Upper end, inclusive, nanoseconds.
    end_ns: u64,
    samples: u64,
}

/// Divides the range of the samples into `count` buckets: of equal ratio if the range is wide,
/// otherwise of equal width; with `other_scale` the other way round.
fn buckets(latency: &Histogram, count: u16, other_scale: bool) -> Vec<Bucket> {
    let (Some(least_ns), Some(most_ns), 1..) = (latency.min_ns(), latency.max_ns(), count) else {
        return Vec::new();
    };
    let (least, most) = (least_ns.max(1) as f64, most_ns.max(1) as f64);
    let is_log = (most / least > LINEAR_RATIO) != other_scale;
    let end_ns = |nth: u16| {
        let share = f64::from(nth) / f64::from(count);
        let end = if is_log {
            least * (most / least).powf(share)
        } else {
            least + (most - least) * share
        };
        end.ceil() as u64
    };
    let mut buckets: Vec<Bucket> = (1..=count)
        .map(|nth| Bucket {
            end_ns: if nth == count { most_ns } else { end_ns(nth) },
            samples: 0,
        })
        .collect();
    // If all samples are similar, several buckets may have the same end.
    buckets.dedup_by_key(|bucket| bucket.end_ns);
    for (value_ns, samples) in latency.distinct() {
        let at = buckets.partition_point(|bucket| bucket.end_ns < value_ns);
        let last = buckets.len() - 1;
        buckets[at.min(last)].samples += samples;
    }
    buckets
}

/// A bar for each bucket, with its upper end and its share of the requests beside it.
pub(super) fn draw(latency: &Histogram, other_scale: bool, area: Rect, buffer: &mut Buffer) {
    let heading_rows = u16::from(area.height >= HEADED_ROWS);
    let rows = area.height.saturating_sub(heading_rows);
    let buckets = buckets(latency, rows.min(BUCKETS_MAX), other_scale);
    if buckets.is_empty() {
        return;
    }
    let ends: Vec<String> = buckets
        .iter()
        .map(|bucket| readable::time_ns(bucket.end_ns))
        .collect();
    let end_columns = ends
        .iter()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("up to".len());
    if heading_rows > 0 {
        let heading = format!("{:>end_columns$}{:>SHARE_COLUMNS$}", "up to", "share");
        buffer.set_stringn(area.x, area.y, heading, usize::from(area.width), DIM);
    }
    let bar = |(bucket, end): (&Bucket, String)| {
        let share = match bucket.samples {
            0 => "-".to_owned(),
            samples => percent(samples, latency.count()),
        };
        let label = Line::from(vec![
            Span::styled(format!("{end:>end_columns$}"), BOLD),
            Span::styled(format!("{share:>SHARE_COLUMNS$}"), Style::new()),
        ]);
        Bar::default()
            .value(bucket.samples)
            .text_value(String::new())
            .label(label)
            .style(RATE_AREA)
    };
    let bars: Vec<Bar<'_>> = buckets.iter().zip(ends).map(bar).collect();
    let place = Rect {
        y: area.y + heading_rows,
        height: rows.min(u16::try_from(bars.len()).unwrap_or(rows)),
        ..area
    };
    BarChart::default()
        .direction(Direction::Horizontal)
        .bar_width(1)
        .bar_gap(0)
        .data(BarGroup::default().bars(&bars))
        .render(place, buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values_ns: &[(u64, u64)]) -> Histogram {
        let mut latency = Histogram::new();
        for (value_ns, count) in values_ns {
            latency.record_n(*value_ns, *count);
        }
        latency
    }

    #[test]
    fn every_sample_is_in_one_bucket() {
        for (values_ns, other_scale) in [
            (vec![(1_000_000, 90), (1_500_000, 9), (2_000_000, 1)], false),
            (
                vec![(100_000, 500), (3_000_000, 40), (1_500_000_000, 1)],
                false,
            ),
            (
                vec![(100_000, 500), (3_000_000, 40), (1_500_000_000, 1)],
                true,
            ),
            (vec![(0, 3), (1, 4)], false),
            (vec![(777, 12)], false),
        ] {
            let latency = samples(&values_ns);
            for count in 1..=BUCKETS_MAX {
                let buckets = buckets(&latency, count, other_scale);
                let sum: u64 = buckets.iter().map(|bucket| bucket.samples).sum();
                assert_eq!(sum, latency.count(), "{values_ns:?} in {count}");
                assert!(
                    buckets.is_sorted_by(|a, b| a.end_ns < b.end_ns),
                    "{buckets:?}"
                );
                assert_eq!(buckets.last().unwrap().end_ns, latency.max_ns().unwrap());
            }
        }
        assert!(buckets(&Histogram::new(), 10, false).is_empty());
    }

    #[test]
    fn far_values_have_buckets_of_equal_ratio() {
        let latency = samples(&[(1_000, 1), (1_000_000, 1)]);
        let ends = |other_scale| -> Vec<u64> {
            let buckets = buckets(&latency, 3, other_scale);
            buckets.iter().map(|bucket| bucket.end_ns / 1_000).collect()
        };
        assert_eq!(ends(false), [10, 100, latency.max_ns().unwrap() / 1_000]);
        assert_eq!(ends(true)[0], 334);
    }
}
