//! `/proc/pressure/cpu` (Documentation/accounting/psi.rst).

/// Time in which some task waited for a CPU, since the machine started, nanoseconds.
pub(crate) fn some_total_ns(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some
        .split_ascii_whitespace()
        .find_map(|field| field.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
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
    fn what_is_no_pressure_is_unknown() {
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
