//! The text format of Prometheus, version 0.0.4, with classic histograms.

use std::fmt::Write as _;

use super::families::{CLASSIC_BOUNDS, Family, MetricType, SampleValue, classic};

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All families as text.
pub(super) fn encode(families: &[Family<'_>]) -> Vec<u8> {
    let mut text = String::new();
    for family in families {
        let name = &family.name;
        let kind = match family.kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        // Writing to a string never fails.
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
        for sample in &family.samples {
            let labels = &sample.labels;
            match sample.value {
                SampleValue::Number(value) => line(&mut text, name, labels, None, value),
                SampleValue::Times(times) => {
                    let bucket = format!("{name}_bucket");
                    for (bound, count) in CLASSIC_BOUNDS.iter().zip(classic(times)) {
                        let bound = Some(bound.to_string());
                        line(&mut text, &bucket, labels, bound, count as f64);
                    }
                    let count = times.count() as f64;
                    line(&mut text, &bucket, labels, Some("+Inf".to_owned()), count);
                    let sum = times.sum_ns() as f64 / 1e9;
                    line(&mut text, &format!("{name}_sum"), labels, None, sum);
                    line(&mut text, &format!("{name}_count"), labels, None, count);
                }
            }
        }
    }
    text.into_bytes()
}

fn line(
    text: &mut String,
    name: &str,
    labels: &[(String, String)],
    bound: Option<String>,
    value: f64,
) {
    text.push_str(name);
    let bound = bound.map(|bound| ("le".to_owned(), bound));
    let mut labels = labels.iter().chain(&bound).peekable();
    if labels.peek().is_some() {
        text.push('{');
        while let Some((name, value)) = labels.next() {
            let comma = if labels.peek().is_some() { "," } else { "" };
            let _ = write!(text, "{name}=\"{}\"{comma}", escaped(value));
        }
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use results::Histogram;

    use super::super::families::Sample;
    use super::*;

    #[test]
    fn families_are_written_as_the_format_says() {
        let mut times = Histogram::new();
        times.record_n(1_500_000, 3);
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let families = [
            Family {
                name: "requests_total".to_owned(),
                help: "Responses",
                kind: MetricType::Counter,
                samples: vec![Sample {
                    labels: vec![label("a", "x\\y"), label("b", "say \"no\"\n")],
                    value: SampleValue::Number(12.0),
                }],
            },
            Family {
                name: "duration_seconds".to_owned(),
                help: "Latency",
                kind: MetricType::Histogram,
                samples: vec![Sample {
                    labels: Vec::new(),
                    value: SampleValue::Times(&times),
                }],
            },
        ];
        let text = String::from_utf8(encode(&families)).expect("it is text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..5],
            [
                "# HELP requests_total Responses",
                "# TYPE requests_total counter",
                r#"requests_total{a="x\\y",b="say \"no\"\n"} 12"#,
                "# HELP duration_seconds Latency",
                "# TYPE duration_seconds histogram",
            ]
        );
        for expected in [
            r#"duration_seconds_bucket{le="0.001"} 0"#,
            r#"duration_seconds_bucket{le="0.0025"} 3"#,
            r#"duration_seconds_bucket{le="+Inf"} 3"#,
            "duration_seconds_sum 0.0045",
            "duration_seconds_count 3",
        ] {
            assert!(lines.contains(&expected), "{expected}: {text}");
        }
    }
}
