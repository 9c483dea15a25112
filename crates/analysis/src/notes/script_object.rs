//! The object that wrk-cmm's json.lua prints, as buffertest saves it.

use std::collections::BTreeMap;

use results::{Setting, metric};
use serde::Deserialize;
use serde_json::Value;

/// The keys that are read. Counts may be `3006606`, `3006606.00` or `3.006606e+06`, depending on
/// the version of jq.
#[derive(Default, PartialEq, Deserialize)]
struct Keys {
    requests: Option<f64>,
    duration_in_microseconds: Option<f64>,
    bytes: Option<f64>,
    requests_per_sec: Option<f64>,
    bytes_transfer_per_sec: Option<f64>,
    #[serde(default)]
    latency_distribution: Vec<Latency>,
    /// The keys that are not read. Those with texts name the run.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The object of a run.
#[derive(Debug)]
pub(crate) struct Object {
    /// Values by the names of their metrics.
    pub(crate) values: BTreeMap<String, f64>,
    /// Other keys with texts, which a script adds to name the run: `variant=old`.
    pub(crate) names: String,
    /// Its length in bytes.
    pub(crate) length: usize,
}

impl Object {
    /// Whether it says what the report above it does, which has a rate with two decimals.
    pub(crate) fn is_of(&self, report: &BTreeMap<String, f64>) -> bool {
        let is_same = |name: &&str| {
            let both = self.values.get(*name).zip(report.get(*name));
            both.is_none_or(|(one, other)| (one - other).abs() < 0.01)
        };
        [metric::REQUESTS, metric::REQUESTS_PER_SEC]
            .iter()
            .all(is_same)
    }

    /// Why it is no measurement.
    pub(crate) fn failure(&self) -> Option<String> {
        let is_empty = self.values.get(metric::REQUESTS) == Some(&0.0);
        is_empty.then(|| "nothing was answered".to_owned())
    }

    /// The names as settings.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        super::lines::settings(&self.names).unwrap_or_default()
    }
}

#[derive(PartialEq, Deserialize)]
struct Latency {
    percentile: f64,
    latency_in_microseconds: Option<f64>,
}

/// Limit on the percentiles of an object.
const PERCENTILES_MAX: usize = 1_000;

/// Why a text is not such an object.
#[derive(Debug)]
pub(crate) struct NoObject {
    pub(crate) reason: String,
    /// Whether it is a whole object of something else, which nobody takes for a run.
    pub(crate) is_of_something_else: bool,
    /// Number of bytes that were parsed to find out.
    pub(crate) bytes: usize,
}

/// Reads the object at the start of a text.
pub(crate) fn first(text: &str) -> Result<Object, NoObject> {
    let refuse = |reason, bytes, is_of_something_else| NoObject {
        reason,
        is_of_something_else,
        bytes,
    };
    let mut objects = serde_json::Deserializer::from_str(text).into_iter::<Keys>();
    match objects.next() {
        Some(Ok(mut object)) => {
            let length = objects.byte_offset();
            let others = std::mem::take(&mut object.others);
            // It has none of the keys.
            let is_other = object == Keys::default();
            let values = values(object).map_err(|reason| refuse(reason, length, is_other))?;
            let names = others
                .iter()
                .filter_map(|(key, value)| Some(format!("{key}={}", quoted(value.as_str()?))));
            let names = names.collect::<Vec<String>>().join(" ");
            Ok(Object {
                values,
                names,
                length,
            })
        }
        Some(Err(error)) => {
            let lines = text.split_inclusive('\n').take(error.line());
            Err(refuse(error.to_string(), lines.map(str::len).sum(), false))
        }
        None => Err(refuse("nothing there".to_owned(), text.len(), false)),
    }
}

/// A text as one word.
fn quoted(text: &str) -> String {
    if text.contains(char::is_whitespace) {
        format!("{text:?}")
    } else {
        text.to_owned()
    }
}

fn values(object: Keys) -> Result<BTreeMap<String, f64>, String> {
    let totals = [
        (metric::REQUESTS, object.requests),
        (metric::DURATION_US, object.duration_in_microseconds),
        (metric::BYTES, object.bytes),
        (metric::REQUESTS_PER_SEC, object.requests_per_sec),
        (metric::BYTES_PER_SEC, object.bytes_transfer_per_sec),
    ];
    let totals = totals.into_iter();
    let mut values: BTreeMap<String, f64> = totals
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    if !values.contains_key(metric::REQUESTS) {
        return Err("it has no \"requests\"".to_owned());
    }
    // Without responses the object still has latencies: zeros.
    let nothing = values[metric::REQUESTS] == 0.0;
    let latencies = object.latency_distribution.iter().take(PERCENTILES_MAX);
    let latencies = latencies.filter(|it| !nothing && (0.0..=100.0).contains(&it.percentile));
    values.extend(latencies.filter_map(|it| {
        let name = metric::percentile("latency", it.percentile);
        Some((name, it.latency_in_microseconds?))
    }));
    match values
        .iter()
        .find(|(_, value)| !value.is_finite() || **value < 0.0)
    {
        Some((name, value)) => Err(format!("\"{name}\" is {value}")),
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{
	"requests": 52340,
	"duration_in_microseconds": 2006296.00,
	"bytes": 7851000,
	"requests_per_sec": 26087.88,
	"bytes_transfer_per_sec": 3913181.31,
	"latency_distribution": [
		{"percentile": 50, "latency_in_microseconds": 185},
		{"percentile": 99.999, "latency_in_microseconds": 7540}
	]
}"#;

    #[test]
    fn the_object_gives_its_values_and_its_length() {
        let Object {
            values,
            names,
            length,
        } = first(&format!("{WHOLE}\nmore")).unwrap();
        assert_eq!(names, "");
        assert_eq!(length, WHOLE.len());
        let expected = [
            ("bytes", 7_851_000.0),
            ("bytes_transfer_per_sec", 3_913_181.31),
            ("duration_in_microseconds", 2_006_296.0),
            ("latency_p50_us", 185.0),
            ("latency_p99.999_us", 7_540.0),
            ("requests", 52_340.0),
            ("requests_per_sec", 26_087.88),
        ];
        let values: Vec<_> = values
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        assert_eq!(values, expected);
    }

    #[test]
    fn numbers_are_read_in_every_form_that_jq_gives_them() {
        for number in ["3006606", "3006606.00", "3.006606e+06", "3006606.0"] {
            let text = format!("{{\"requests\": {number}}}");
            assert_eq!(
                first(&text).unwrap().values["requests"],
                3_006_606.0,
                "{number}"
            );
        }
    }

    #[test]
    fn other_texts_are_names() {
        let text = r#"{"kernel": "6.1 rt", "requests": 5, "variant": "old", "n": 7}"#;
        let object = first(text).unwrap();
        assert_eq!(object.names, "kernel=\"6.1 rt\" variant=old");
        assert_eq!(object.settings().len(), 2);
    }

    #[test]
    fn missing_values_are_absent_and_so_are_latencies_without_responses() {
        let text = r#"{"requests": 5,
            "latency_distribution": [{"percentile": 50, "latency_in_microseconds": null}]}"#;
        let values = first(text).unwrap().values;
        assert_eq!(values.keys().collect::<Vec<_>>(), ["requests"]);
        let text = WHOLE.replace("52340", "0");
        let values = first(&text).unwrap().values;
        assert!(!values.contains_key("latency_p50_us"));
    }

    #[test]
    fn an_object_that_is_cut_off_or_a_different_one_is_refused() {
        for end in 0..WHOLE.len() {
            assert!(first(&WHOLE[..end]).is_err(), "cut at {end}");
        }
        for text in [
            "{}",
            "[]",
            r#"{"requests": "5"}"#,
            r#"{"requests": -5}"#,
            r#"{"requests": 1e999}"#,
            r#"{"requests": null}"#,
        ] {
            assert!(first(text).is_err(), "{text}");
        }
    }
}
