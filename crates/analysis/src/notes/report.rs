//! One report, line by line.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex_lite::Regex;
use results::metric;

use super::lines::regex;

/// A report as far as it has been read.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The URL in the first line; `None` if it may be cut off.
    pub(super) url: Option<String>,
    /// The duration in the first line: `30s`.
    pub(super) duration: Option<String>,
    /// Values by the names of their metrics.
    pub(super) values: BTreeMap<String, f64>,
    /// Whether it has lines that only wrk2 prints.
    pub(super) is_of_wrk2: bool,
    has_header: bool,
    /// Whether the row of latencies says that there were none.
    has_no_samples: bool,
    /// The metric whose distribution the next lines show.
    distribution: Option<&'static str>,
}

/// The first line of a report, with its duration, or the number of its requests, and its URL.
static FIRST: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^Running\s+(?:(\d\S*?(?: requests?)?)\s*)?test @(?:\s+(\S.*))?$"));

/// The start of a report: duration and URL of its first line. One of them is there.
pub(super) fn start(line: &str) -> Option<Report> {
    let first = FIRST.captures(line)?;
    let text = |group| Some(first.get(group)?.as_str().to_owned());
    text(1).or_else(|| text(2).filter(|url| url.contains("://")))?;
    Some(Report {
        url: text(2),
        duration: text(1),
        ..Report::default()
    })
}

/// What stands before the start of a report in its first line, if anything does.
pub(super) fn start_within(line: &str) -> Option<&str> {
    let mut starts = line.match_indices("Running ");
    starts.find_map(|(at, _)| start(&line[at..]).map(|_| &line[..at]))
}

/// Whether a report whose first line is missing may start here.
pub(super) fn starts_without_first_line(line: &str) -> bool {
    FORMS[0].is_match(line) || line.starts_with(HEADER)
}

/// How lines begin that are part of a report, wherever they are.
static PART: LazyLock<Regex> = LazyLock::new(|| {
    regex("^(Requests/sec:|Transfer/sec:|Socket errors:|Latency Distribution|Req/Sec )")
});

/// Whether a line looks like part of a report, wherever it is.
pub(super) fn looks_like_a_part(line: &str) -> bool {
    PART.is_match(line)
}

const HEADER: &str = "Thread Stats ";

/// The title of a distribution, with what wrk2 adds.
static DISTRIBUTION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^Latency Distribution( \(HdrHistogram - .*\))?$"));

/// Lines with metrics in place of their numbers: counts in `[]`, and others in `{}`.
const LINES: [&str; 6] = [
    "[threads] threads and [connections] connections",
    "[requests] requests in {duration_in_microseconds}, {bytes} read",
    "Socket errors: connect [errors_connect], read [errors_read], write [errors_write], timeout \
     [errors_timeout]",
    "Non-2xx or 3xx responses:[statuses_over_399]",
    "Requests/sec:{requests_per_sec}",
    "Transfer/sec:{bytes_transfer_per_sec}",
];

/// Rows of the table of times, the prefixes of their metrics, and their ends.
const ROWS: [(&str, &str, &str); 6] = [
    ("Latency", "latency", "_us"),
    ("Connect", "connect", "_us"),
    ("TLS", "tls", "_us"),
    ("TTFB", "first_byte", "_us"),
    ("TTLB", "last_byte", "_us"),
    ("Req/Sec", "thread_rate", ""),
];

/// The cells of a row, even without spaces between them. Only wrk-cmm prints the smallest value.
const CELLS: &str = "{*_mean$}{*_stdev$}{*_max$}({*_min$})?{*_within_stdev_percent}";

/// A number that is no count. It has exactly two decimals. This tells a number that is cut off from
/// a complete one, and two numbers without a space from a single one.
const NUMBER: &str = r"(?:-*nan|\d+\.\d\d)[a-zA-Z%]*";

static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let rows = ROWS.map(|(label, of, end)| {
        let cells = CELLS.replace('*', of).replace('$', end);
        label.to_owned() + &cells
    });
    let forms = LINES.map(str::to_owned).into_iter().chain(rows);
    let forms = forms.map(|form| {
        let form = form.replace('[', r"\s*(?P<").replace(']', r">\d+)");
        let form = form.replace('{', r"\s*(?P<");
        regex(&format!("^{}$", form.replace('}', &format!(">{NUMBER})"))))
    });
    forms.collect()
});

/// A row of the table of times if there were no samples.
static NO_SAMPLES: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[A-Z][A-Za-z/]*(\s*(0\.00|-*nan)[a-z%]*){4,5}$"));

/// A row of a distribution: `99.999%    6.82ms`.
static PERCENTILE: LazyLock<Regex> = LazyLock::new(|| regex(&format!(r"^([\d.]+)%\s*({NUMBER})$")));

/// Lines without values, and the line that wrkbench prints in place of a row. wrk2's spectrum says
/// again, in other steps, what the distribution above it does: milliseconds, the percentile as a
/// fraction, samples up to it, and `inf` or a number.
static IGNORED: LazyLock<Regex> = LazyLock::new(|| {
    let starts = "Thread Stats |Thread calibration:|Detailed Percentile spectrum:";
    let whole = r"Value .*1/\(1-Percentile\)|#\[(?:Mean|Max|Buckets)\s*=.*\]|---.*---";
    let tick = r"(?:[\d.]+\s+){3}(?:[\d.]+|inf)";
    regex(&format!(
        "^(?:{starts}|(?:{whole}|{tick}|.*, so there is no latency to show)$)"
    ))
});

/// Lines that wrk omits because they show zero.
const OMITTED: [&str; 2] = [
    "Socket errors: connect 0, read 0, write 0, timeout 0",
    "Non-2xx or 3xx responses: 0",
];

impl Report {
    /// Whether a line that may start a report starts another one.
    pub(super) fn has(&self, line: &str) -> bool {
        let has_threads = || self.values.contains_key("threads");
        self.has_header || !line.starts_with(HEADER) && has_threads()
    }

    /// Reads the next line; `false` if it does not belong to a report.
    pub(super) fn take(&mut self, line: &str) -> bool {
        self.title(line) || self.form(line) || self.percentile(line) || self.rest_of_url(line)
    }

    /// Whether its last line was read.
    pub(super) fn is_complete(&self) -> bool {
        self.values.contains_key(metric::BYTES_PER_SEC)
    }

    /// Why a complete report is not a measurement.
    pub(super) fn failure(&self) -> Option<String> {
        let value = |name| self.values.get(name).copied();
        let why = match (value(metric::REQUESTS), value(metric::REQUESTS_PER_SEC)) {
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
        self.values.insert(metric::ERRORS.to_owned(), errors);
        let requests = self.values.get(metric::REQUESTS).copied();
        if self.has_no_samples || requests.unwrap_or_default() == 0.0 {
            // Without samples, zeros are printed.
            let times = ["latency_", "service_time_"];
            self.values
                .retain(|name, _| !times.iter().any(|time| name.starts_with(time)));
        }
    }

    /// Reads a line without values; `false` if it is none of the known ones.
    fn title(&mut self, line: &str) -> bool {
        self.is_of_wrk2 |=
            line.starts_with("Thread calibration:") || line.contains("(HdrHistogram");
        self.has_header |= line.starts_with(HEADER);
        if DISTRIBUTION.is_match(line) {
            let is_uncorrected = usize::from(line.contains("Uncorrected"));
            self.distribution = Some(["latency", "service_time"][is_uncorrected]);
            return true;
        }
        let has_no_samples = NO_SAMPLES.is_match(line);
        self.has_no_samples |= has_no_samples && line.starts_with("Latency");
        has_no_samples || start(line).is_some() || IGNORED.is_match(line)
    }

    /// Reads what a terminal wrapped of the first line.
    fn rest_of_url(&mut self, line: &str) -> bool {
        let may_be_url = line.contains(['/', '?', '&', '=']) && !line.contains(' ');
        let is_second = may_be_url && self.values.is_empty() && !self.has_header;
        let url = self.url.as_mut().filter(|_| is_second);
        url.map(|url| url.push_str(line)).is_some()
    }

    /// Reads a line of one of the forms; `false` if it is none, or if a number in it is not
    /// understood. This number is left out.
    fn form(&mut self, line: &str) -> bool {
        let mut forms = FORMS.iter();
        let found = forms.find_map(|form| Some((form, form.captures(line)?)));
        let Some((form, found)) = found else {
            return false;
        };
        let names = form.capture_names().flatten();
        let numbers = names.filter_map(|name| Some((name, found.name(name)?.as_str())));
        numbers.fold(true, |is_whole, (name, text)| {
            self.put(name, text) && is_whole
        })
    }

    /// Reads a row of a distribution.
    fn percentile(&mut self, line: &str) -> bool {
        let (Some(of), Some(row)) = (self.distribution, PERCENTILE.captures(line)) else {
            return false;
        };
        let percent = row[1].parse().ok().filter(|percent| *percent <= 100.0);
        percent.is_some_and(|percent| self.put(&metric::percentile(of, percent), &row[2]))
    }

    /// Sets a value, unless the metric already has one; `false` if it is no number of the metric.
    fn put(&mut self, name: &str, text: &str) -> bool {
        let value = number(name, text);
        if let Some(value) = value {
            self.values.entry(name.to_owned()).or_insert(value);
        }
        value.is_some()
    }
}

/// A number as reports print it for a metric: `573.06ms`, `12.35k`, `11.82MB`.
fn number(of: &str, text: &str) -> Option<f64> {
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(unit.unwrap_or(text.len()));
    let (units, step) = match of {
        _ if of.ends_with("_us") || of == metric::DURATION_US => (&["us", "ms", "s"][..], 1e3),
        _ if of.starts_with("bytes") => (&["B", "KB", "MB", "GB", "TB"][..], 1024.0),
        _ if of.ends_with("percent") => (&["%"][..], 1.0),
        _ if of.starts_with("thread_rate") => (&["", "k", "M", "G", "T"][..], 1e3),
        _ => (&[""][..], 1.0),
    };
    let factor = match (unit, units[0]) {
        // A cell of 8 characters shows this of `1000.00ms`.
        ("m", "us") if number != "1000.00" => 60e6,
        ("h", "us") => 3_600e6,
        _ => f64::powi(
            step,
            units.iter().position(|it| *it == unit)?.try_into().ok()?,
        ),
    };
    // Hundredths first, so that 573.06 ms are exactly 573060 us.
    let steps = if number.contains('.') { 100.0 } else { 1.0 };
    Some(number.replace('.', "").parse::<u64>().ok()? as f64 * factor / steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a metric in a line.
    fn value(of: &str, line: &str) -> Option<f64> {
        let mut report = Report::default();
        report.take(line);
        report.values.get(of).copied()
    }

    fn time_us(text: &str) -> Option<f64> {
        value(
            metric::DURATION_US,
            &format!("1 requests in {text}, 1.00B read"),
        )
    }

    fn metric(text: &str) -> Option<f64> {
        value(
            "thread_rate_mean",
            &format!("Req/Sec {text} 1.00 1.00 1.00%"),
        )
    }

    fn bytes(text: &str) -> Option<f64> {
        value(metric::BYTES_PER_SEC, &format!("Transfer/sec: {text}"))
    }

    fn decimal(text: &str) -> Option<f64> {
        value(metric::REQUESTS_PER_SEC, &format!("Requests/sec: {text}"))
    }

    fn whole(text: &str) -> Option<f64> {
        value(
            "statuses_over_399",
            &format!("Non-2xx or 3xx responses: {text}"),
        )
    }

    #[test]
    fn times_counts_and_bytes_have_the_units_that_wrk_prints() {
        for (text, expected) in [
            ("187.00us", 187.0),
            ("573.06ms", 573_060.0),
            ("0.85ms", 850.0),
            ("1.82s", 1_820_000.0),
            ("0.85m", 51_000_000.0),
            ("1.50h", 5_400e6),
        ] {
            assert_eq!(time_us(text), Some(expected), "{text}");
        }
        for (text, expected) in [
            ("849.00", 849.0),
            ("13.76k", 13_760.0),
            ("0.85M", 850_000.0),
            ("1000.00T", 1e15),
        ] {
            assert_eq!(metric(text), Some(expected), "{text}");
        }
        for (text, expected) in [
            ("0.00B", 0.0),
            ("870.00B", 870.0),
            ("292.80KB", 299_827.2),
            ("11.82MB", 12_394_168.32),
            ("0.91TB", 1_000_555_581_276.0),
        ] {
            let value = bytes(text).unwrap();
            assert!(
                (value - expected).abs() <= expected * 1e-4,
                "{text}: {value}"
            );
        }
        assert_eq!(bytes("11.82MB").unwrap(), 11.82 * 1_048_576.0);
    }

    #[test]
    fn numbers_that_are_cut_off_are_not_read() {
        for text in [
            "",
            "5",
            "5.",
            "5.0",
            "5.00x",
            ".00us",
            "5.000us",
            "5.00u",
            "-5.00us",
            "1e3.00us",
            "1000.00m",
            "5.00 us",
            "5.00M",
            "99999999999999999999999.00us",
            "\u{661}.00us",
        ] {
            assert_eq!(time_us(text), None, "{text:?}");
        }
        for text in ["5.00m", "5.00K", "5.0k", "5k", "5.00kB"] {
            assert_eq!(metric(text), None, "{text:?}");
        }
        for text in ["5.00M", "5.00", "5.00kB", "5B", "5.00 MB"] {
            assert_eq!(bytes(text), None, "{text:?}");
        }
        assert_eq!(decimal("27388.07"), Some(27_388.07));
        for text in [
            "27388.0", "27388.", "27388", "2.738.07", "inf", "-1.00", "nan", "1e5.00",
        ] {
            assert_eq!(decimal(text), None, "{text:?}");
        }
        assert_eq!(whole("82644"), Some(82_644.0));
        assert_eq!(whole("+5"), None);
    }

    #[test]
    fn cells_without_space_between_them_are_split() {
        let read = |row: &str| {
            let mut report = Report::default();
            report
                .take(row)
                .then(|| report.values.into_values().collect::<Vec<f64>>())
        };
        let row = "Latency  85.31ms1000.00us 1000.00ms   92.00%";
        assert_eq!(read(row), Some(vec![1e6, 85_310.0, 1_000.0, 92.0]));
        let row = "Latency -nanus    -nanus   0.00us    0.00%";
        assert_eq!(read(row), Some(Vec::new()));
        for row in [
            "Latency 0.00us307445734     -nan%",
            "Req/Sec 0.00      0.00      0.00  18446744.     -nan%",
            "Latency 1.0us",
            "Latency 1.00us 2.00us 3.00us 4.00us 5.00us 6.00us",
        ] {
            assert_eq!(read(row), None, "{row:?}");
        }
    }
}
