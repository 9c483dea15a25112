//! One report, line by line.

use std::collections::BTreeMap;

use results::metric;

use super::printed::{self, Printed};

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

/// The distribution that the following lines show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Latency,
    ServiceTime,
}

impl Block {
    fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::ServiceTime => "service_time",
        }
    }
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
    /// Rounded values, which finer ones may replace.
    rounded: BTreeMap<String, Printed>,
    /// Whether its rows have the smallest value as well, as wrk-cmm's do.
    pub(super) has_min: bool,
    /// Whether it has lines that only wrk2 prints.
    pub(super) is_of_wrk2: bool,
    has_header: bool,
    /// Whether the row of latencies says that there were none.
    has_no_samples: bool,
    block: Option<Block>,
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

/// Whether a report whose first line is missing may start here.
pub(super) fn starts_without_first_line(line: &str) -> bool {
    threads_and_connections(line).is_some() || line.starts_with(HEADER)
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

/// Rows of the table of times, and the prefixes of their metrics.
const ROWS: [(&str, &str); 5] = [
    ("Latency", "latency"),
    ("Connect", "connect"),
    ("TLS", "tls"),
    ("TTFB", "first_byte"),
    ("TTLB", "last_byte"),
];

/// wrk's counters, and their metrics.
const ERRORS: [(&str, &str); 4] = [
    ("connect", "errors_connect"),
    ("read", "errors_read"),
    ("write", "errors_write"),
    ("timeout", "errors_timeout"),
];

/// Up to here, the ticks of wrk2's spectrum are exact in the six decimals that it prints.
const LAST_EXACT_TICK: u32 = 984_375;

impl Report {
    /// Whether a line that may start a report starts another one.
    pub(super) fn has(&self, line: &str) -> bool {
        if line.starts_with(HEADER) {
            self.has_header
        } else {
            self.has_header || self.values.contains_key("threads")
        }
    }

    /// Reads the next line, and says whether it belongs to the report.
    pub(super) fn take(&mut self, line: &str) -> LineUse {
        if let Some((threads, connections)) = threads_and_connections(line) {
            self.put("threads", threads);
            self.put("connections", connections);
            return LineUse::Taken;
        }
        if line.starts_with(HEADER) {
            self.has_header = true;
            self.has_min = line.split_whitespace().any(|word| word == "Min");
            return LineUse::Taken;
        }
        if let Some(rest) = line.strip_prefix("Transfer/sec:") {
            let Some(rate) = printed::bytes(rest.trim()) else {
                return LineUse::Unknown;
            };
            self.put(metric::BYTES_PER_SEC, rate.value);
            return LineUse::Last;
        }
        let taken = self.title(line) || self.row(line) || self.total(line) || self.footer(line);
        if taken || self.percentile(line) || self.tick(line) {
            LineUse::Taken
        } else {
            LineUse::Unknown
        }
    }

    /// Why a complete report is not a measurement.
    pub(super) fn failure(&self) -> Option<String> {
        let missing = [metric::REQUESTS, metric::REQUESTS_PER_SEC]
            .into_iter()
            .find(|name| !self.values.contains_key(*name));
        match missing {
            Some(metric::REQUESTS) => {
                Some("the line with the number of requests is missing".to_owned())
            }
            Some(_) => Some("the line Requests/sec is missing".to_owned()),
            None if self.values[metric::REQUESTS] == 0.0 => Some("nothing was answered".to_owned()),
            None => None,
        }
    }

    /// Completes the values once the whole report has been read.
    pub(super) fn finish(&mut self) {
        // Lines that wrk omits when they would show zero.
        let errors = ERRORS.map(|(_, name)| *self.values.entry(name.to_owned()).or_insert(0.0));
        self.put(metric::ERRORS, errors.iter().sum());
        self.put(metric::STATUSES_OVER_399, 0.0);
        let nothing = self
            .values
            .get(metric::REQUESTS)
            .is_none_or(|requests| *requests == 0.0);
        if self.has_no_samples || nothing {
            // Without samples, zeros are printed.
            self.values.retain(|name, _| {
                !name.starts_with("latency_") && !name.starts_with("service_time_")
            });
        }
    }

    /// Reads a line without numbers; `false` if it is none of the known ones.
    fn title(&mut self, line: &str) -> bool {
        if let Some(kind) = line.strip_prefix("Latency Distribution") {
            self.is_of_wrk2 |= kind.contains("HdrHistogram");
            self.block = Some(match kind.contains("Uncorrected") {
                true => Block::ServiceTime,
                false => Block::Latency,
            });
            return true;
        }
        let is_calibration = line.starts_with("Thread calibration:");
        self.is_of_wrk2 |= is_calibration;
        let is_rule = line.len() >= 3 && line.bytes().all(|b| b == b'-');
        is_rule
            || is_calibration
            || line == "Detailed Percentile spectrum:"
            || line.ends_with(", so there is no latency to show")
            || (line.starts_with("Value ") && line.ends_with("1/(1-Percentile)"))
            || line.starts_with("#[Buckets")
    }

    /// Reads a row of the table of times.
    fn row(&mut self, line: &str) -> bool {
        let Some((label, rest)) = line.split_once(char::is_whitespace) else {
            return false;
        };
        let is_rate = label == "Req/Sec";
        let of = match ROWS.iter().find(|(name, _)| *name == label) {
            Some((_, of)) => *of,
            None if is_rate => "thread_rate",
            None => return false,
        };
        let Some(cells) = printed::cells(rest) else {
            return false;
        };
        let [avg, stdev, max, middle @ .., share] = cells.as_slice() else {
            return false;
        };
        let min = match (middle, self.has_min) {
            ([], false) => None,
            ([min], true) => Some(*min),
            _ => return false,
        };
        let no_samples = avg.contains("nan")
            || share.contains("nan")
            || (*share == "0.00%"
                && [avg, stdev, max]
                    .iter()
                    .all(|cell| cell.starts_with("0.00")));
        if no_samples {
            self.has_no_samples |= of == "latency";
            return true;
        }
        let unit = if is_rate { "" } else { "_us" };
        let read = if is_rate {
            printed::metric
        } else {
            printed::time_us
        };
        let mut understood = true;
        let columns = [
            ("mean", Some(*avg)),
            ("stdev", Some(*stdev)),
            ("max", Some(*max)),
            ("min", min),
        ];
        for (what, cell) in columns {
            let Some(cell) = cell else { continue };
            match read(cell) {
                Some(number) => self.put_rounded(format!("{of}_{what}{unit}"), number),
                None => understood = false,
            }
        }
        match share
            .strip_suffix('%')
            .and_then(|share| printed::decimal(share, 2))
        {
            Some(share) => self.put(&format!("{of}_within_stdev_percent"), share),
            None => understood = false,
        }
        understood
    }

    /// Reads a line below the table.
    fn total(&mut self, line: &str) -> bool {
        let known = requests_and_bytes(line)
            .or_else(|| socket_errors(line))
            .or_else(|| {
                let count = line.strip_prefix("Non-2xx or 3xx responses:")?;
                Some(vec![(
                    metric::STATUSES_OVER_399,
                    printed::whole(count.trim())?,
                )])
            })
            .or_else(|| {
                let rate = line.strip_prefix("Requests/sec:")?;
                Some(vec![(
                    metric::REQUESTS_PER_SEC,
                    printed::decimal(rate.trim(), 2)?,
                )])
            });
        let is_known = known.is_some();
        for (name, value) in known.into_iter().flatten() {
            self.put(name, value);
        }
        is_known
    }

    /// Reads a line below wrk2's spectrum, in milliseconds with three decimals.
    fn footer(&mut self, line: &str) -> bool {
        let Some(inner) = line
            .strip_prefix("#[")
            .and_then(|rest| rest.strip_suffix(']'))
        else {
            return false;
        };
        let Some(of) = self.block.map(Block::name) else {
            return false;
        };
        let mut names = Vec::new();
        for part in inner.split(',') {
            let Some((name, value)) = part.split_once('=') else {
                return false;
            };
            let (name, value) = (name.trim(), value.trim());
            match name {
                "Mean" | "StdDeviation" | "Max" => {
                    let Some(value_ms) = printed::decimal(value, 3) else {
                        // `-nan`, if there are no samples.
                        return value.contains("nan");
                    };
                    let what = match name {
                        "Mean" => "mean",
                        "StdDeviation" => "stdev",
                        _ => "max",
                    };
                    names.push((format!("{of}_{what}_us"), value_ms * 1e3));
                }
                "Total count" if printed::whole(value).is_some() => {}
                _ => return false,
            }
        }
        for (name, value_us) in names {
            self.put_finer(name, value_us);
        }
        true
    }

    /// Reads a row of a distribution: `99.999%    6.82ms`.
    fn percentile(&mut self, line: &str) -> bool {
        let Some((percent, value)) = line.split_once('%') else {
            return false;
        };
        let Some(of) = self.block.map(Block::name) else {
            return false;
        };
        let is_number = percent.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let percent = percent
            .parse()
            .ok()
            .filter(|percent| is_number && *percent <= 100.0);
        match (percent, printed::time_us(value.trim())) {
            (Some(percent), Some(value)) => {
                self.put_rounded(metric::percentile(of, percent), value);
                true
            }
            _ => false,
        }
    }

    /// Reads a row of wrk2's spectrum: milliseconds, the percentile as a fraction, samples up to
    /// it.
    fn tick(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [value_ms, fraction, count, inverse] = words.as_slice() else {
            return false;
        };
        let Some(of) = self.block.map(Block::name) else {
            return false;
        };
        let (Some(value_ms), Some(fraction_value)) =
            (printed::decimal(value_ms, 3), printed::decimal(fraction, 6))
        else {
            return false;
        };
        let is_row = printed::whole(count).is_some()
            && (*inverse == "inf" || printed::decimal(inverse, 2).is_some());
        if !is_row || fraction_value > 1.0 {
            return false;
        }
        let millionths = (fraction_value * 1e6).round() as u32;
        let is_exact = millionths <= LAST_EXACT_TICK || millionths == 1_000_000;
        if is_exact && *count != "0" {
            let percent = f64::from(millionths) / 1e4;
            self.put_finer(metric::percentile(of, percent), value_ms * 1e3);
        }
        true
    }

    /// Sets a value, unless the metric already has one.
    fn put(&mut self, name: &str, value: f64) {
        self.values.entry(name.to_owned()).or_insert(value);
    }

    fn put_rounded(&mut self, name: String, number: Printed) {
        self.rounded.entry(name.clone()).or_insert(number);
        self.values.entry(name).or_insert(number.value);
    }

    /// Replaces a value by the same one with more digits. If they disagree, the printed one stays,
    /// because people read it first.
    fn put_finer(&mut self, name: String, value: f64) {
        match self.rounded.remove(&name) {
            Some(shown) if shown.agrees_with(value) => {
                self.values.insert(name, value);
            }
            Some(_) => {}
            None => {
                self.values.entry(name).or_insert(value);
            }
        }
    }
}

/// `2 threads and 10 connections`.
fn threads_and_connections(line: &str) -> Option<(f64, f64)> {
    let (threads, rest) = line.split_once(" threads and ")?;
    let connections = rest.strip_suffix(" connections")?;
    Some((printed::whole(threads)?, printed::whole(connections)?))
}

/// `82644 requests in 3.02s, 11.82MB read`.
fn requests_and_bytes(line: &str) -> Option<Vec<(&'static str, f64)>> {
    let (requests, rest) = line.split_once(" requests in ")?;
    let (duration, bytes) = rest.strip_suffix(" read")?.split_once(", ")?;
    Some(vec![
        (metric::REQUESTS, printed::whole(requests)?),
        (metric::DURATION_US, printed::time_us(duration)?.value),
        (metric::BYTES, printed::bytes(bytes)?.value),
    ])
}

/// `Socket errors: connect 0, read 4, write 15237, timeout 0`.
fn socket_errors(line: &str) -> Option<Vec<(&'static str, f64)>> {
    let mut errors = Vec::new();
    let mut parts = line.strip_prefix("Socket errors:")?.split(',');
    for (word, name) in ERRORS {
        let count = parts.next()?.trim().strip_prefix(word)?;
        errors.push((name, printed::whole(count.trim())?));
    }
    parts.next().is_none().then_some(errors)
}
