//! Parses rates and stages.

use std::time::Duration;

use crate::units::{Fault, NS_PER_SECOND, UnitError, parse_single, parse_time};
use crate::{MAX_RATE_PER_SEC, MAX_STAGES, MIN_RATE_PER_SEC, Stage};

const RATE_EXAMPLES: &str = "1000, 1.5k, 600/m";
const STAGES_EXAMPLES: &str = "1k:30s,5k:1m or 0-5k:1m";

/// Powers of a thousand, in upper or lower case. Rates are parsed in billionths of a request, so
/// that fractions are exact.
const NANO_METRIC: &[(&str, u128)] = &[
    ("", 1_000_000_000),
    ("k", 1_000_000_000_000),
    ("m", 1_000_000_000_000_000),
    ("g", 1_000_000_000_000_000_000),
    ("t", 1_000_000_000_000_000_000_000),
    ("p", 1_000_000_000_000_000_000_000_000),
];

/// Units of time after the slash, in seconds; in upper or lower case.
const PER: &[(&str, u32)] = &[("s", 1), ("m", 60), ("h", 3_600)];

/// Parses a rate as requests per second: `1000`, `1.5k`, `0.5`, or per second, minute or hour with
/// `10/s`, `600/m`, `36k/h`. Before the slash `m` is a million, after it a minute.
///
/// # Errors
/// If the text is not such a rate, is negative or zero, is finer than a billionth, or is outside
/// [`MIN_RATE_PER_SEC`]..=[`MAX_RATE_PER_SEC`].
pub fn parse_rate(text: &str) -> Result<f64, UnitError> {
    let refuse = |problem| UnitError::new(text, problem, RATE_EXAMPLES);
    let rate_per_sec = read(text).map_err(refuse)?;
    if rate_per_sec == 0.0 {
        return Err(refuse("is zero"));
    }
    Ok(rate_per_sec)
}

/// Parses stages: `1k:30s,5k:1m` is 30 s at 1,000 requests per second, then a minute at 5,000;
/// `1k-5k:1m` is a linear ramp between these rates. A rate of 0 is a pause, or one end of a ramp.
/// Rates are those of [`parse_rate`].
///
/// # Errors
/// If a stage has no time or no valid rate, if no request is ever due, if there are more than
/// [`MAX_STAGES`], or if they last longer than 584 years.
pub fn parse_stages(text: &str) -> Result<Vec<Stage>, UnitError> {
    let refuse = |problem| UnitError::new(text, problem, STAGES_EXAMPLES);
    let stages = text
        .split(',')
        .map(parse_stage)
        .collect::<Result<Vec<_>, _>>()?;
    if stages.len() > MAX_STAGES {
        return Err(refuse("has more than 1000 stages"));
    }
    if stages.iter().all(Stage::is_pause) {
        return Err(refuse("has no rate above zero"));
    }
    let total_ns: u128 = stages.iter().map(|stage| stage.duration.as_nanos()).sum();
    if u64::try_from(total_ns).is_err() {
        return Err(refuse("is longer than 584 years"));
    }
    Ok(stages)
}

fn parse_stage(text: &str) -> Result<Stage, UnitError> {
    let refuse = |problem| UnitError::new(text, problem, STAGES_EXAMPLES);
    let (rates, time) = text
        .split_once(':')
        .ok_or_else(|| refuse("is not a stage"))?;
    // A minus at the start is a sign, not a ramp.
    let dash = rates.char_indices().skip(1).find(|(_, c)| *c == '-');
    let (from_per_sec, to_per_sec) = match dash {
        Some((at, _)) => (read(&rates[..at]), read(&rates[at + 1..])),
        None => (read(rates), read(rates)),
    };
    let duration = parse_time(time)?;
    if duration == Duration::ZERO {
        return Err(refuse("lasts no time"));
    }
    Ok(Stage {
        from_per_sec: from_per_sec.map_err(refuse)?,
        to_per_sec: to_per_sec.map_err(refuse)?,
        duration,
    })
}

/// Requests per second: 0, or within the limits of a rate.
fn read(text: &str) -> Result<f64, &'static str> {
    let (number, seconds) = match text.split_once('/') {
        None => (text, 1),
        Some((number, per)) => {
            let per = per.trim_matches([' ', '\t']);
            let known = PER.iter().find(|(name, _)| name.eq_ignore_ascii_case(per));
            (number, known.ok_or("is not a rate")?.1)
        }
    };
    let nanos = parse_single(number, NANO_METRIC).map_err(|fault| match fault {
        Fault::TooFine => "is finer than a billionth",
        fault => fault.of("a rate"),
    })?;
    let rate_per_sec = nanos as f64 / (NS_PER_SECOND as f64 * f64::from(seconds));
    if rate_per_sec > MAX_RATE_PER_SEC {
        return Err("is more than a request per nanosecond");
    }
    if rate_per_sec > 0.0 && rate_per_sec < MIN_RATE_PER_SEC {
        return Err("is less than a request in three years");
    }
    Ok(rate_per_sec)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_are_requests_per_second_minute_or_hour() {
        for (text, expected) in [
            ("1000", 1_000.0),
            ("1k", 1_000.0),
            ("1.5k", 1_500.0),
            ("1.5 K", 1_500.0),
            ("+20", 20.0),
            (" 20 ", 20.0),
            ("0.5", 0.5),
            (".25", 0.25),
            ("1m", 1_000_000.0),
            ("10/s", 10.0),
            ("600/m", 10.0),
            ("600 / M", 10.0),
            ("36k/h", 10.0),
            ("1m/m", 1_000_000.0 / 60.0),
            ("20/m", 1.0 / 3.0),
            ("1g", 1e9),
            ("3600g/h", 1e9),
            ("0.00000001", 1e-8),
            ("1/h", 1.0 / 3_600.0),
        ] {
            assert_eq!(parse_rate(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn an_invalid_rate_is_refused_with_the_reason() {
        for (text, said) in [
            (
                "10x",
                "\"10x\" is not a rate (expected like 1000, 1.5k, 600/m)",
            ),
            ("", "is not a rate"),
            ("k", "is not a rate"),
            ("1e3", "is not a rate"),
            ("NaN", "is not a rate"),
            ("inf", "is not a rate"),
            ("10/", "is not a rate"),
            ("10/d", "is not a rate"),
            ("/s", "is not a rate"),
            ("10/s/s", "is not a rate"),
            ("10/-m", "is not a rate"),
            ("1k-5k", "is not a rate"),
            ("1,000", "is not a rate"),
            ("0", "is zero"),
            ("0.0k/h", "is zero"),
            ("-5", "is negative"),
            ("-0", "is negative"),
            ("0.0000000001", "is finer than a billionth"),
            ("0.000000001", "is less than a request in three years"),
            ("0.00001/h", "is less than a request in three years"),
            (
                "1000000001",
                "is more than a request per nanosecond (expected",
            ),
            ("1t", "is more than a request per nanosecond"),
            ("99999999999999999999999999999999999999999", "is too large"),
        ] {
            let message = parse_rate(text).expect_err(text).to_string();
            assert!(message.contains(said), "{text:?} gives {message}");
        }
    }

    /// The rate at the start and at the end of each stage, and its seconds.
    fn stages(text: &str) -> Vec<(f64, f64, f64)> {
        parse_stages(text)
            .expect(text)
            .iter()
            .map(|stage| {
                (
                    stage.from_per_sec,
                    stage.to_per_sec,
                    stage.duration.as_secs_f64(),
                )
            })
            .collect()
    }

    #[test]
    fn stages_are_steps_ramps_and_pauses() {
        assert_eq!(stages("1k:30s,5k:1m"), [(1e3, 1e3, 30.0), (5e3, 5e3, 60.0)]);
        assert_eq!(stages("1k-5k:1m"), [(1e3, 5e3, 60.0)]);
        assert_eq!(stages("0-5k:10s"), [(0.0, 5e3, 10.0)]);
        assert_eq!(stages("5k-0:10s"), [(5e3, 0.0, 10.0)]);
        assert_eq!(
            stages(" 600/m - 36k/h : 1.5s , 0:500ms, 10:1h30m "),
            [(10.0, 10.0, 1.5), (0.0, 0.0, 0.5), (10.0, 10.0, 5_400.0)]
        );
    }

    #[test]
    fn an_invalid_stage_is_refused_with_the_stage_and_the_reason() {
        for (text, said) in [
            (
                "1k",
                "\"1k\" is not a stage (expected like 1k:30s,5k:1m or 0-5k:1m)",
            ),
            ("", "\"\" is not a stage"),
            ("1k:30s,", "\"\" is not a stage"),
            ("1k:30s,,1k:30s", "\"\" is not a stage"),
            ("1k:30s,5x:1m", "\"5x:1m\" is not a rate"),
            ("1k-:1m", "\"1k-:1m\" is not a rate"),
            ("1-2-3:1m", "is not a rate"),
            (":1m", "is not a rate"),
            ("-5:1m", "\"-5:1m\" is negative"),
            ("1--5:1m", "is negative"),
            ("1k:", "\"\" is not a time"),
            ("1k:-5s", "\"-5s\" is negative"),
            ("1k:1m:1m", "\"1m:1m\" is not a time"),
            ("1k:0", "\"1k:0\" lasts no time"),
            ("0:1m", "\"0:1m\" has no rate above zero"),
            ("0:1m,0-0:2m", "has no rate above zero"),
            ("2g:1s", "is more than a request per nanosecond"),
            ("1:5000000h,1:5000000h", "is longer than 584 years"),
        ] {
            let message = parse_stages(text).expect_err(text).to_string();
            assert!(message.contains(said), "{text:?} gives {message}");
        }
        let many = vec!["1:1s"; MAX_STAGES + 1].join(",");
        let message = parse_stages(&many).expect_err("too many").to_string();
        assert!(message.contains("has more than 1000 stages"), "{message}");
        assert!(message.len() < 200, "{message}");
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(
            text in "\\PC{0,40}",
            near in "[ +-]?[0-9.kKmMgG/shx:,-]{0,40}",
        ) {
            for text in [&text, &near] {
                if let Ok(rate) = parse_rate(text) {
                    prop_assert!((MIN_RATE_PER_SEC..=MAX_RATE_PER_SEC).contains(&rate));
                }
                if let Ok(stages) = parse_stages(text) {
                    prop_assert!(stages.iter().any(|stage| !stage.is_pause()));
                }
            }
        }

        #[test]
        fn a_whole_rate_means_itself(rate in 1_u32..=1_000_000_000) {
            prop_assert_eq!(parse_rate(&rate.to_string()), Ok(f64::from(rate)));
        }
    }
}
