//! Titles, units and axes of metrics on a page.

use presentation::{Axis, Scale, Unit, words};
use results::Metric;

/// How a chart writes values of this name.
pub(crate) fn unit(name: &str) -> Unit {
    Metric::named(name).unit
}

/// A value of a metric in its unit.
pub(crate) fn show(name: &str, value: f64) -> String {
    in_unit(unit(name), value)
}

pub(crate) fn in_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Microseconds => words::time_us(value),
        Unit::BytesPerSec => words::bytes_per_sec(value),
        Unit::Bytes => words::bytes(value),
        Unit::Percent => words::percent(value / 100.0),
        _ => words::number(value),
    }
}

/// A short title for a column or an axis.
pub(crate) fn title(name: &str) -> String {
    match name.strip_prefix("sockets_") {
        Some(rest) => {
            let rest = rest.strip_suffix("_us").unwrap_or(rest);
            rest.replace("_percent", " %").replace('_', " ")
        }
        None => Metric::named(name).label,
    }
}

/// An axis for these values; logarithmic where they are far apart.
pub(crate) fn axis(name: &str, values: impl IntoIterator<Item = f64>) -> Axis {
    Axis {
        label: title(name),
        unit: unit(name),
        scale: scale(values.into_iter().map(|value| (value, value))),
        from_zero: false,
    }
}

/// Logarithmic if the greatest value of these ranges is many times the least.
pub(crate) fn scale(ranges: impl IntoIterator<Item = (f64, f64)>) -> Scale {
    const LOG_FROM: f64 = 20.0;
    let ends = ranges
        .into_iter()
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    match ends {
        Some((least, most)) if least > 0.0 && most > least * LOG_FROM => Scale::Log,
        _ => Scale::Linear,
    }
}

/// The value in six digits, which is more than any chart can show.
pub(crate) fn in_6_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_titles_and_units() {
        for (name, value, expected_title, expected) in [
            ("requests_per_sec", 6_587.4, "requests/s", "6,587"),
            ("latency_p99_us", 12_340.0, "p99 latency", "12.3 ms"),
            ("bytes_transfer_per_sec", 2_048.0, "bytes/s", "2 KiB/s"),
            ("duration_in_microseconds", 2e6, "duration", "2 s"),
            ("sockets_rtt_p50_us", 31.0, "rtt p50", "31 us"),
            (
                "sockets_retransmitted_percent",
                0.51,
                "retransmitted %",
                "0.51 %",
            ),
            ("sockets_cwnd_p50", 17.0, "cwnd p50", "17"),
            ("TcpExt.ListenDrops", 0.0, "TcpExt.ListenDrops", "0"),
        ] {
            assert_eq!(title(name), expected_title);
            assert_eq!(show(name, value), expected, "{name}");
        }
    }

    #[test]
    fn an_axis_is_logarithmic_where_values_are_far_apart() {
        assert_eq!(axis("latency_p99_us", [10.0, 150.0]).scale, Scale::Linear);
        assert_eq!(axis("latency_p99_us", [10.0, 500.0]).scale, Scale::Log);
        assert_eq!(axis("errors", [0.0, 500.0]).scale, Scale::Linear);
        assert_eq!(axis("errors", []).scale, Scale::Linear);
    }

    #[test]
    fn six_digits_are_kept() {
        assert_eq!(in_6_digits(1_234_567.8), 1_234_570.0);
        assert_eq!(in_6_digits(0.001_234_567_8), 0.001_234_57);
        assert_eq!(in_6_digits(0.0), 0.0);
    }
}
