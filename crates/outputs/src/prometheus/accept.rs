//! What a client wants: the protobuf format or text.

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Protobuf,
}

/// The format that a client prefers by its `Accept` header; text if it has none, or asks for
/// something else.
pub(super) fn preferred(accept: &str) -> Format {
    let mut best = (0.0, Format::Text);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|it| it.split_once('=')).collect();
        let value = |name: &str| {
            let found = parameters.iter().find(|it| it.0.eq_ignore_ascii_case(name));
            found.map(|it| it.1.trim_matches('"'))
        };
        let format = match name.to_ascii_lowercase().as_str() {
            "application/vnd.google.protobuf"
                if value("proto") == Some("io.prometheus.client.MetricFamily")
                    && value("encoding").is_none_or(|it| it == "delimited") =>
            {
                Format::Protobuf
            }
            "text/plain" | "text/*" | "*/*" => Format::Text,
            _ => continue,
        };
        let weight = value("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
        // The first of several that are equal.
        if weight > best.0 {
            best = (weight, format);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::Format::{Protobuf, Text};
    use super::*;

    #[test]
    fn the_preferred_format_is_chosen() {
        const PROTO: &str = "application/vnd.google.protobuf;\
                             proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accept, expected) in [
            ("", Text),
            ("*/*", Text),
            (PROTO, Protobuf),
            // What Prometheus 2.42 sends, without native histograms and with them.
            (
                "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,\
                 */*;q=0.1",
                Text,
            ),
            (
                &format!(
                    "{PROTO},application/openmetrics-text;version=1.0.0;q=0.8,\
                     text/plain;version=0.0.4;q=0.7,*/*;q=0.1"
                ),
                Protobuf,
            ),
            (&format!("{PROTO};q=0.1,text/plain;q=0.9"), Text),
            (&format!("{PROTO};q=0"), Text),
            (&format!("{PROTO};q=x"), Text),
            ("application/vnd.google.protobuf", Text),
            ("application/vnd.google.protobuf;proto=other.Message", Text),
            (";;q=,,=", Text),
        ] {
            assert_eq!(preferred(accept), expected, "{accept}");
        }
    }
}
