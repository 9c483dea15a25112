//! `/proc/pressure/` `cpu`, `memory` and `io` (Documentation/accounting/psi.rst).

use super::whole_lines;

/// Time in which some tasks waited, and in which all did (`some` and `full`), since boot,
/// microseconds.
pub(crate) fn totals_us(text: &str) -> impl Iterator<Item = (&'static str, u64)> {
    whole_lines(text).filter_map(|line| {
        let (who, fields) = line.split_once(' ')?;
        let who = ["some", "full"].into_iter().find(|known| *known == who)?;
        Some((who, total_us(fields)?))
    })
}

/// Time in which some task waited for a CPU, since boot, nanoseconds.
pub(crate) fn some_total_ns(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    total_us(some)?.checked_mul(1000)
}

fn total_us(fields: &str) -> Option<u64> {
    let total = fields
        .split_ascii_whitespace()
        .find_map(|field| field.strip_prefix("total="))?;
    total.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_some_is_in_microseconds() {
        let text = "some avg10=35.21 avg60=28.90 avg300=19.70 total=145733697\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(some_total_ns(text), Some(145_733_697_000));
    }

    #[test]
    fn both_totals_are_read_unless_their_line_is_truncated() {
        let totals = |text: &str| totals_us(text).collect::<Vec<_>>();
        let text = "some avg10=1.00 total=12\nfull avg10=0.00 total=3\n";
        assert_eq!(totals(text), [("some", 12), ("full", 3)]);
        assert_eq!(totals(&text[..text.len() - 1]), [("some", 12)]);
        assert_eq!(totals("none total=1\nsome total=x\nfull\n"), []);
    }

    #[test]
    fn invalid_pressure_is_unknown() {
        for text in [
            "",
            "full total=7",
            "some avg10=0.00",
            "some total=",
            "some total=-1",
            "some total=99999999999999999999",
            "some total=18446744073709551615",
        ] {
            assert_eq!(some_total_ns(text), None, "{text:?}");
        }
    }
}
