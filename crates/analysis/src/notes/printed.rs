//! Numbers as reports print them: `573.06ms`, `12.35k`, `11.82MB`.
//!
//! All of them have exactly two decimals. This tells a number that is cut off from a complete one,
//! and two numbers without a space from a single one.

/// Prefixes of counts with their factors, powers of a thousand.
const METRIC: [(&str, f64); 5] = [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];

/// Prefixes of bytes with their factors, powers of 1024.
const BINARY: [(&str, f64); 5] = [
    ("", 1.0),
    ("K", 1024.0),
    ("M", 1_048_576.0),
    ("G", 1_073_741_824.0),
    ("T", 1_099_511_627_776.0),
];

/// Units of time with their factors, in microseconds.
const TIME: [(&str, f64); 5] = [
    ("us", 1.0),
    ("ms", 1e3),
    ("s", 1e6),
    ("m", 60e6),
    ("h", 3_600e6),
];

/// What a cell of 8 characters shows of `1000.00ms`. A thousand minutes would look the same.
const CUT_MILLISECONDS: &str = "1000.00m";

pub(super) fn time_us(text: &str) -> Option<f64> {
    if text == CUT_MILLISECONDS {
        return None;
    }
    of(text, &TIME)
}

/// A count with a metric prefix.
pub(super) fn metric(text: &str) -> Option<f64> {
    of(text, &METRIC)
}

/// A number of bytes, with `B` after its prefix.
pub(super) fn bytes(text: &str) -> Option<f64> {
    of(text.strip_suffix('B')?, &BINARY)
}

/// A plain number with two decimals.
pub(super) fn decimal(text: &str) -> Option<f64> {
    of(text, &[("", 1.0)])
}

/// A plain whole number.
pub(super) fn whole(text: &str) -> Option<f64> {
    let number: u64 = text.parse().ok().filter(|_| is_digits(text))?;
    Some(number as f64)
}

/// The cells of a row, even without spaces between them; `None` if it is not such a row. A cell
/// without a number contains `nan`.
pub(super) fn cells(row: &str) -> Option<Vec<&str>> {
    let mut cells = Vec::new();
    let mut rest = row.trim();
    while !rest.is_empty() {
        let length = cell_length(rest)?;
        let (cell, after) = rest.split_at(length);
        cells.push(cell);
        rest = after.trim_start();
        if cells.len() > MAX_CELLS {
            return None;
        }
    }
    Some(cells)
}

/// wrk-cmm's rows have five cells, with `Min`.
const MAX_CELLS: usize = 5;

/// `-nanus`, or digits, a point, two digits, and a unit.
fn cell_length(text: &str) -> Option<usize> {
    let letters = |from: usize| {
        let after = text.get(from..)?;
        let unit = after
            .bytes()
            .take_while(|b| b.is_ascii_alphabetic() || *b == b'%')
            .count();
        Some(from + unit)
    };
    if let Some(rest) = text.trim_start_matches('-').strip_prefix("nan") {
        return letters(text.len() - rest.len());
    }
    let point = text.find('.')?;
    let decimals = text.get(point + 1..point + 3)?;
    (is_digits(&text[..point]) && is_digits(decimals)).then_some(())?;
    letters(point + 3)
}

fn of(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let number_length = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(number_length);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.')?;
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() != 2 {
        return None;
    }
    // Hundredths first, so that 573.06 ms are exactly 573060 us.
    let hundredths: u64 = format!("{whole}{fraction}").parse().ok()?;
    Some(hundredths as f64 * factor / 100.0)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let row = "  85.31ms1000.00ms   92.00%";
        assert_eq!(cells(row), Some(vec!["85.31ms", "1000.00ms", "92.00%"]));
        let row = "-nanus    -nanus   0.00us    0.00%";
        assert_eq!(
            cells(row),
            Some(vec!["-nanus", "-nanus", "0.00us", "0.00%"])
        );
        for row in [
            "0.00us307445734     -nan%",
            "0.00      0.00      0.00  18446744.     -nan%",
            "Distribution",
            "1.0us",
            "1.00us 2.00us 3.00us 4.00us 5.00us 6.00us",
        ] {
            assert_eq!(cells(row), None, "{row:?}");
        }
    }
}
