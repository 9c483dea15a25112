//! The lines that wrk-cmm's report-csv.lua and the example csv.lua append to a file.

use std::collections::BTreeMap;

use results::metric;

/// The columns, which have no titles: microseconds with six decimals, then whole numbers.
const LATENCIES: [&str; 8] = [
    "latency_min_us",
    "latency_max_us",
    "latency_mean_us",
    "latency_stdev_us",
    "latency_p50_us",
    "latency_p90_us",
    "latency_p99_us",
    "latency_p99.999_us",
];
const TOTALS: [&str; 3] = [metric::DURATION_US, metric::REQUESTS, metric::BYTES];

/// Reads a line with its line feed; `None` if it is something else, or cut off.
pub(super) fn line(raw: &str) -> Option<BTreeMap<String, f64>> {
    let line = raw.strip_suffix('\n')?.trim();
    // This rejects most other lines without splitting them.
    if line.len() > MAX_BYTES || !line.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut fields = line.split(',');
    let mut values = BTreeMap::new();
    for name in LATENCIES {
        let (whole, fraction) = fields.next()?.split_once('.')?;
        let value = format!("{}.{fraction}", digits(whole)?);
        if fraction.len() != 6 || digits(fraction).is_none() {
            return None;
        }
        values.insert(name.to_owned(), value.parse().ok()?);
    }
    for name in TOTALS {
        values.insert(name.to_owned(), digits(fields.next()?)?.parse().ok()?);
    }
    if fields.next().is_some() {
        return None;
    }
    if values[metric::REQUESTS] == 0.0 {
        values.retain(|name, _| TOTALS.contains(&name.as_str()));
    }
    let (requests, duration_us) = (values[metric::REQUESTS], values[metric::DURATION_US]);
    if duration_us > 0.0 {
        let bytes = values[metric::BYTES];
        values.insert(
            metric::REQUESTS_PER_SEC.to_owned(),
            requests / duration_us * 1e6,
        );
        values.insert(metric::BYTES_PER_SEC.to_owned(), bytes / duration_us * 1e6);
    }
    Some(values)
}

/// Enough for eleven numbers of 20 digits.
const MAX_BYTES: usize = 320;

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "19.000000,17090.000000,990.120000,1640.500000,187.000000,3050.000000,\
        7540.000000,17010.000000,3020000,82644,12394168\n";

    #[test]
    fn a_line_gives_latencies_totals_and_the_rates_that_follow() {
        let values = line(LINE).unwrap();
        assert_eq!(values["latency_mean_us"], 990.12);
        assert_eq!(values["latency_p99.999_us"], 17_010.0);
        assert_eq!(values["requests"], 82_644.0);
        assert!((values["requests_per_sec"] - 82_644.0 / 3.02).abs() < 1e-6);
        assert_eq!(values.len(), 13);
    }

    #[test]
    fn a_line_that_is_cut_off_is_not_read() {
        for end in 0..LINE.len() {
            assert_eq!(line(&LINE[..end]), None, "cut at {end}");
            assert_eq!(
                line(&format!("{}\n", &LINE[..end.min(LINE.len() - 12)])),
                None
            );
        }
        for other in ["1,2,3\n", "\n", ",,,,,,,,,,\n", "a,b\n"] {
            assert_eq!(line(other), None, "{other:?}");
        }
    }
}
