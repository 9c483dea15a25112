//! One report, line by line.

use std::collections::BTreeMap;

use results::metric;

use super::printed;

/// What a line turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineUse {
    /// The line belongs to the report.
    Taken,
    /// The line is the last one of the report.
    Last,
    /// The line does not belong to a report.
    Unknown,
}

/// A report as far as it has been read.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The URL in the first line; `None` if it may be cut off.
    pub(super) url: Option<String>,
    /// The duration in the first line: `30s`.
    pub(super) duration: Option<String>,
    /// Values by the names of their metrics.
    pub(super) values: BTreeMap<String, f64>,
    /// Whether its rows have the smallest value as well, as wrk-cmm's do.
    pub(super) has_min: bool,
    /// Whether it has lines that only wrk2 prints.
    pub(super) is_of_wrk2: bool,
    has_header: bool,
    /// Whether the row of latencies says that there were none.
    has_no_samples: bool,
    /// The metric whose distribution the next lines show.
    distribution: Option<&'static str>,
}

/// The start of a report: duration and URL of its first line.
pub(super) fn start(line: &str) -> Option<Report> {
    let rest = line.strip_prefix("Running ")?;
    let (length, url) = rest.split_once("test @ ")?;
    let length = length.trim();
    Some(Report {
        url: Some(url.trim().to_owned()).filter(|url| !url.is_empty()),
        duration: Some(length.to_owned()).filter(|length| !length.is_empty()),
        ..Report::default()
    })
}

/// What stands before the start of a report in its first line, if anything does.
pub(super) fn start_within(line: &str) -> Option<&str> {
    let (before, _) = line.split_once("Running ")?;
    start(&line[before.len()..]).map(|_| before)
}

/// Whether a report whose first line is missing may start here.
pub(super) fn starts_without_first_line(line: &str) -> bool {
    values(THREADS, line).is_some() || line.starts_with(HEADER)
}

/// Whether a line looks like part of a report, wherever it is.
pub(super) fn looks_like_a_part(line: &str) -> bool {
    [
        "Requests/sec:",
        "Transfer/sec:",
        "Socket errors:",
        "Latency Distribution",
        "Req/Sec ",
    ]
    .iter()
    .any(|label| line.starts_with(label))
}

const HEADER: &str = "Thread Stats ";

/// Reads a number; `None` if it is not one, or cut off.
type Number = fn(&str) -> Option<f64>;

/// What the numbers in a line may be.
const NUMBERS: [(&str, Number); 4] = [
    ("count", printed::whole),
    ("decimal", printed::decimal),
    ("time", printed::time_us),
    ("bytes", printed::bytes),
];

const THREADS: &str = "{threads count} threads and {connections count} connections";

const LAST: &str = "Transfer/sec:{bytes_transfer_per_sec bytes}";

/// The forms of lines, with metrics in place of their numbers.
const FORMS: [&str; 6] = [
    THREADS,
    "{requests count} requests in {duration_in_microseconds time}, {bytes bytes} read",
    "Socket errors: connect {errors_connect count}, read {errors_read count}, \
     write {errors_write count}, timeout {errors_timeout count}",
    "Non-2xx or 3xx responses:{statuses_over_399 count}",
    "Requests/sec:{requests_per_sec decimal}",
    LAST,
];

/// Lines that wrk omits because they show zero.
const OMITTED: [&str; 2] = [
    "Socket errors: connect 0, read 0, write 0, timeout 0",
    "Non-2xx or 3xx responses: 0",
];

/// Rows of the table of times, the prefixes of their metrics, the unit at the end of these, and
/// what their cells are.
const ROWS: [(&str, &str, &str, Number); 6] = [
    ("Latency", "latency", "_us", printed::time_us),
    ("Connect", "connect", "_us", printed::time_us),
    ("TLS", "tls", "_us", printed::time_us),
    ("TTFB", "first_byte", "_us", printed::time_us),
    ("TTLB", "last_byte", "_us", printed::time_us),
    ("Req/Sec", "thread_rate", "", printed::metric),
];

/// What other lines of a report begin and end with. wrk2's spectrum says again, in other steps,
/// what the distribution above it does.
const IGNORED: [(&str, &str); 6] = [
    ("Thread calibration:", ""),
    ("Detailed Percentile spectrum:", ""),
    ("Value ", "1/(1-Percentile)"),
    ("#[", "]"),
    ("---", "---"),
    ("", ", so there is no latency to show"),
];

impl Report {
    /// Whether a line that may start a report starts another one.
    pub(super) fn has(&self, line: &str) -> bool {
        let has_threads = || self.values.contains_key("threads");
        self.has_header || !line.starts_with(HEADER) && has_threads()
    }

    /// Reads the next line, and says whether it belongs to the report.
    pub(super) fn take(&mut self, line: &str) -> LineUse {
        let taken = self.title(line) || self.row(line) || self.form(line) || self.percentile(line);
        if !taken {
            LineUse::Unknown
        } else if values(LAST, line).is_some() {
            LineUse::Last
        } else {
            LineUse::Taken
        }
    }

    /// Why a complete report is not a measurement.
    pub(super) fn failure(&self) -> Option<String> {
        let why = match (
            self.values.get(metric::REQUESTS),
            self.values.get(metric::REQUESTS_PER_SEC),
        ) {
            (None, _) => "the line with the number of requests is missing",
            (_, None) => "the line Requests/sec is missing",
            (Some(0.0), _) => "nothing was answered",
            _ => return None,
        };
        Some(why.to_owned())
    }

    /// Completes the values once the whole report has been read.
    pub(super) fn finish(&mut self) {
        for line in OMITTED {
            self.form(line);
        }
        let errors = self
            .values
            .iter()
            .filter(|(name, _)| name.starts_with("errors_"));
        let errors = errors.map(|(_, count)| count).sum();
        self.put(metric::ERRORS, errors);
        let requests = self.values.get(metric::REQUESTS).copied();
        if self.has_no_samples || requests.unwrap_or_default() == 0.0 {
            // Without samples, zeros are printed.
            self.values.retain(|name, _| {
                !name.starts_with("latency_") && !name.starts_with("service_time_")
            });
        }
    }

    /// Reads a line without values; `false` if it is none of the known ones.
    fn title(&mut self, line: &str) -> bool {
        self.is_of_wrk2 |=
            line.starts_with("Thread calibration:") || line.contains("(HdrHistogram");
        if line.starts_with(HEADER) {
            self.has_header = true;
            self.has_min = line.contains(" Min ");
            return true;
        }
        if let Some(kind) = line.strip_prefix("Latency Distribution") {
            self.distribution = Some(if kind.contains("Uncorrected") {
                "service_time"
            } else {
                "latency"
            });
            return true;
        }
        let mut ignored = IGNORED.iter();
        ignored.any(|(start, end)| line.starts_with(start) && line.ends_with(end))
            || self.distribution.is_some() && is_tick(line)
    }

    /// Reads a row of the table of times. A cell that is not understood is left out.
    fn row(&mut self, line: &str) -> bool {
        let row = ROWS.iter().find_map(|(label, of, unit, read)| {
            let cells = printed::cells(line.strip_prefix(label)?)?;
            Some((*of, *unit, *read, cells))
        });
        let Some((of, unit, read, cells)) = row else {
            return false;
        };
        let (avg, max, min, share) = match (cells.as_slice(), self.has_min) {
            ([avg, _, max, share], false) => (*avg, *max, None, *share),
            ([avg, _, max, min, share], true) => (*avg, *max, Some(*min), *share),
            _ => return false,
        };
        let is_zero = |cell: &&str| cell.starts_with("0.00");
        if avg.contains("nan") || share.contains("nan") || cells.iter().all(is_zero) {
            self.has_no_samples |= of == "latency";
            return true;
        }
        let columns = [
            ("mean", Some(avg)),
            ("stdev", Some(cells[1])),
            ("max", Some(max)),
            ("min", min),
        ];
        let columns = columns
            .into_iter()
            .filter_map(|(what, cell)| Some((what, cell?)));
        let mut found: Vec<(String, Option<f64>)> = columns
            .map(|(what, cell)| (format!("{of}_{what}{unit}"), read(cell)))
            .collect();
        let share = share.strip_suffix('%').and_then(printed::decimal);
        found.push((format!("{of}_within_stdev_percent"), share));
        for (name, value) in &found {
            if let Some(value) = value {
                self.put(name, *value);
            }
        }
        found.iter().all(|(_, value)| value.is_some())
    }

    /// Reads a line of one of the forms.
    fn form(&mut self, line: &str) -> bool {
        let found = FORMS.iter().find_map(|form| values(form, line));
        for (name, value) in found.iter().flatten() {
            self.put(name, *value);
        }
        found.is_some()
    }

    /// Reads a row of a distribution: `99.999%    6.82ms`.
    fn percentile(&mut self, line: &str) -> bool {
        let read = || {
            let (percent, value) = line.split_once('%')?;
            let is_number = percent.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let percent: f64 = percent.parse().ok().filter(|_| is_number)?;
            let name = metric::percentile(self.distribution?, percent);
            (percent <= 100.0).then_some((name, printed::time_us(value.trim())?))
        };
        let found = read();
        if let Some((name, value_us)) = &found {
            self.put(name, *value_us);
        }
        found.is_some()
    }

    /// Sets a value, unless the metric already has one.
    fn put(&mut self, name: &str, value: f64) {
        self.values.entry(name.to_owned()).or_insert(value);
    }
}

/// The metrics and values of a line of this form.
fn values<'f>(form: &'f str, line: &str) -> Option<Vec<(&'f str, f64)>> {
    let (start, fields) = form.split_once('{')?;
    let mut rest = line.strip_prefix(start)?;
    let mut values = Vec::new();
    for field in fields.split('{') {
        let (field, next) = field.split_once('}')?;
        let (name, kind) = field.split_once(' ')?;
        // There is nothing after the last value.
        let (value, after) = match next {
            "" => (rest, ""),
            next => rest.split_once(next)?,
        };
        let (_, read) = NUMBERS.iter().find(|(known, _)| *known == kind)?;
        values.push((name, read(value.trim())?));
        rest = after;
    }
    rest.is_empty().then_some(values)
}

/// Whether a line is a row of wrk2's spectrum: milliseconds, the percentile as a fraction, samples
/// up to it, and `inf` or a number.
fn is_tick(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |word: &str| word == "inf" || word.bytes().all(|b| b"0123456789.".contains(&b));
    words.len() == 4 && words.into_iter().all(is_number)
}
