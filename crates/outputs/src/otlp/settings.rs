//! Where to send to and how: the option and the environment variables of OpenTelemetry.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use plan::{Target, UrlError, percent_decoded};

/// The value of the option that takes the endpoint from the environment.
const FROM_ENVIRONMENT: &str = "env";

/// The endpoint if the environment has none (the specification's "OTLP Exporter Configuration").
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";

/// Time for a request if the environment says nothing (the same specification).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A path that gets requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL of its server. Its path is the whole one.
    pub target: Target,
    /// Names and values that each request has.
    pub headers: Vec<(String, String)>,
    /// How long a request and its response may take.
    pub timeout: Duration,
    /// A file with certificate authorities to trust in place of the system's.
    pub cacert: Option<PathBuf>,
    /// Whether requests are compressed with gzip.
    pub gzip: bool,
}

/// Where metrics and events go, and what is said about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The value of the option, without secrets.
    pub shown: String,
    /// Where metrics go.
    pub metrics: Endpoint,
    /// Where events go.
    pub events: Endpoint,
    /// Attributes of the resource besides those of the run.
    pub attributes: Vec<(String, String)>,
}

/// Why `--otlp` or a variable of the environment is not valid, one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct InvalidSetting {
    /// The option or the variable.
    name: String,
    problem: String,
}

impl InvalidSetting {
    fn new(name: &str, problem: impl ToString) -> Self {
        Self {
            name: name.to_owned(),
            problem: problem.to_string(),
        }
    }
}

impl Settings {
    /// Those of `--otlp VALUE` with these environment variables.
    ///
    /// # Errors
    /// If the URL or a variable is not valid.
    pub fn of(
        value: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, InvalidSetting> {
        // An empty one is as if it were not set, says the specification.
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let environment = Environment(&variable);
        Ok(Self {
            shown: plan::secrets::hide_secrets(value),
            metrics: environment.endpoint(value, "METRICS")?,
            events: environment.endpoint(value, "LOGS")?,
            attributes: environment.attributes()?,
        })
    }
}

struct Environment<'v>(&'v dyn Fn(&str) -> Option<String>);

impl Environment<'_> {
    /// The variable of a signal, or else that of all signals, with its name.
    fn get(&self, signal: &str, what: &str) -> Option<(String, String)> {
        [
            format!("OTEL_EXPORTER_OTLP_{signal}_{what}"),
            format!("OTEL_EXPORTER_OTLP_{what}"),
        ]
        .into_iter()
        .find_map(|name| Some(((self.0)(&name)?, name)))
    }

    fn endpoint(&self, value: &str, signal: &str) -> Result<Endpoint, InvalidSetting> {
        let target = if value == FROM_ENVIRONMENT {
            self.target(signal)?
        } else {
            below(value, signal).map_err(|error| InvalidSetting::new("--otlp", error))?
        };
        let mut headers = Vec::new();
        if let Some((text, name)) = self.get(signal, "HEADERS") {
            headers = pairs(&text, &name)?;
            // Each would end the request or its header.
            let is_bad = |text: &str| text.contains(|c: char| c.is_ascii_control());
            if let Some((key, _)) = headers.iter().find(|it| is_bad(&it.0) || is_bad(&it.1)) {
                let problem = format!("the header {key:?} has a control character");
                return Err(InvalidSetting::new(&name, problem));
            }
        }
        if let Some(credentials) = target.credentials() {
            let value = format!("Basic {}", BASE64.encode(credentials));
            headers.push(("Authorization".to_owned(), value));
        }
        let timeout = match self.get(signal, "TIMEOUT") {
            None => DEFAULT_TIMEOUT,
            Some((text, name)) => match text.trim().parse() {
                Ok(ms) if ms > 0 => Duration::from_millis(ms),
                _ => {
                    let problem = format!("{text:?} is not a number of milliseconds");
                    return Err(InvalidSetting::new(&name, problem));
                }
            },
        };
        let gzip = match self.get(signal, "COMPRESSION") {
            None => false,
            Some((text, name)) => match text.as_str() {
                "gzip" => true,
                "none" => false,
                _ => {
                    let problem = format!("{text:?} is unknown (expected gzip or none)");
                    return Err(InvalidSetting::new(&name, problem));
                }
            },
        };
        Ok(Endpoint {
            target,
            headers,
            timeout,
            cacert: self.get(signal, "CERTIFICATE").map(|(path, _)| path.into()),
            gzip,
        })
    }

    /// The endpoint that the environment names.
    fn target(&self, signal: &str) -> Result<Target, InvalidSetting> {
        if let Some((protocol, name)) = self.get(signal, "PROTOCOL")
            && protocol != "http/protobuf"
        {
            let problem = format!(
                "{protocol:?} is not supported (expected http/protobuf, or --otlp with the URL of \
                 a collector that takes it, like http://localhost:4318)"
            );
            return Err(InvalidSetting::new(&name, problem));
        }
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT");
        if let Some(url) = (self.0)(&own) {
            return Target::parse(&url).map_err(|error| InvalidSetting::new(&own, error));
        }
        let of_all = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let url = (self.0)(of_all).unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        below(&url, signal).map_err(|error| InvalidSetting::new(of_all, error))
    }

    fn attributes(&self) -> Result<Vec<(String, String)>, InvalidSetting> {
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let mut attributes = match (self.0)(name) {
            Some(text) => pairs(&text, name)?,
            None => Vec::new(),
        };
        if let Some(service) = (self.0)("OTEL_SERVICE_NAME") {
            attributes.retain(|(key, _)| key != "service.name");
            attributes.push(("service.name".to_owned(), service));
        }
        Ok(attributes)
    }
}

/// The URL of a signal below that of all signals.
fn below(base: &str, signal: &str) -> Result<Target, UrlError> {
    let mut target = Target::parse(base)?;
    let end = target.path.find(['?', '#']).unwrap_or(target.path.len());
    let (path, rest) = target.path.split_at(end);
    let path = path.trim_end_matches('/');
    target.path = format!("{path}/v1/{}{rest}", signal.to_ascii_lowercase());
    Ok(target)
}

/// `key=value,key=value`, percent-encoded as in a baggage header of W3C without properties.
fn pairs(text: &str, name: &str) -> Result<Vec<(String, String)>, InvalidSetting> {
    let refused = |pair: &str| {
        // The value may be a secret.
        let key = pair.split('=').next().unwrap_or_default();
        let expected = "(expected key=value, with commas between pairs)";
        InvalidSetting::new(name, format!("{key:?} is not a pair {expected}"))
    };
    let pairs = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').ok_or_else(|| refused(pair))?;
            let value = String::from_utf8(percent_decoded(value.trim())).ok();
            match (key.trim(), value) {
                ("", _) | (_, None) => Err(refused(pair)),
                (key, Some(value)) => Ok((key.to_owned(), value)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str, variables: &[(&str, &str)]) -> Result<Settings, InvalidSetting> {
        Settings::of(value, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// Server and path of metrics and of events.
    fn places(value: &str, variables: &[(&str, &str)]) -> [String; 2] {
        let settings = of(value, variables).expect("valid settings");
        [settings.metrics, settings.events]
            .map(|it| format!("{}{}", it.target.host_header, it.target.path))
    }

    #[test]
    fn the_paths_of_metrics_and_events_are_below_the_url() {
        for (url, expected) in [
            ("http://a:4318", "a:4318/v1"),
            ("http://a:4318/", "a:4318/v1"),
            ("http://a/api/v1/otlp", "a/api/v1/otlp/v1"),
            ("http://a/x/", "a/x/v1"),
        ] {
            let [metrics, events] = places(url, &[]);
            assert_eq!(metrics, format!("{expected}/metrics"));
            assert_eq!(events, format!("{expected}/logs"));
        }
        assert_eq!(places("http://a/x?key=1", &[])[0], "a/x/v1/metrics?key=1");
    }

    #[test]
    fn the_environment_names_the_endpoint_only_where_it_is_asked() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:1/base");
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://own:2/m");
        assert_eq!(
            places("env", &[]),
            ["localhost:4318/v1/metrics", "localhost:4318/v1/logs"]
        );
        assert_eq!(
            places("env", &[all]),
            ["all:1/base/v1/metrics", "all:1/base/v1/logs"]
        );
        assert_eq!(
            places("env", &[all, own]),
            ["own:2/m", "all:1/base/v1/logs"]
        );
        assert_eq!(
            places("http://a", &[all, own]),
            ["a/v1/metrics", "a/v1/logs"]
        );
        let empty = ("OTEL_EXPORTER_OTLP_ENDPOINT", "");
        assert_eq!(places("env", &[empty])[1], "localhost:4318/v1/logs");
    }

    #[test]
    fn headers_timeout_compression_and_attributes_come_from_the_environment() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x = 1"),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "only=logs"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a%2Cb"),
            ("OTEL_SERVICE_NAME", "mine"),
        ];
        let settings = of("http://u:p%40@a:1", &variables).expect("valid settings");
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let owned = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            owned.collect()
        };
        let basic = ("Authorization", "Basic dTpwQA==");
        let expected = pairs(&[("api-key", "a b"), ("x", "1"), basic]);
        assert_eq!(settings.metrics.headers, expected);
        assert_eq!(settings.events.headers, pairs(&[("only", "logs"), basic]));
        assert_eq!(settings.metrics.timeout, Duration::from_millis(1500));
        assert!(settings.metrics.gzip);
        assert_eq!(settings.metrics.cacert, Some("/ca.pem".into()));
        let expected = pairs(&[("team", "a,b"), ("service.name", "mine")]);
        assert_eq!(settings.attributes, expected);
        assert!(!settings.shown.contains("p%40"), "{}", settings.shown);
    }

    #[test]
    fn what_is_wrong_is_named_without_its_secrets() {
        for (value, name, text, expected) in [
            ("localhost:4318", "", "", "--otlp: invalid URL"),
            ("", "", "", "--otlp: invalid URL"),
            (
                "env",
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "x",
                "OTEL_EXPORTER_OTLP_ENDPOINT: invalid",
            ),
            (
                "env",
                "OTEL_EXPORTER_OTLP_PROTOCOL",
                "grpc",
                "\"grpc\" is not supported",
            ),
            (
                "http://a",
                "OTEL_EXPORTER_OTLP_HEADERS",
                "secret",
                "\"secret\" is not a pair",
            ),
            (
                "http://a",
                "OTEL_EXPORTER_OTLP_HEADERS",
                "a=secret,=secret",
                "\"\" is not a pair",
            ),
            (
                "http://a",
                "OTEL_EXPORTER_OTLP_HEADERS",
                "a=%0d%0asecret",
                "control character",
            ),
            (
                "http://a",
                "OTEL_EXPORTER_OTLP_TIMEOUT",
                "10s",
                "not a number of milliseconds",
            ),
            (
                "http://a",
                "OTEL_EXPORTER_OTLP_TIMEOUT",
                "0",
                "not a number of milliseconds",
            ),
            (
                "http://a",
                "OTEL_EXPORTER_OTLP_COMPRESSION",
                "zstd",
                "expected gzip or none",
            ),
            (
                "http://a",
                "OTEL_RESOURCE_ATTRIBUTES",
                "x=%ff",
                "\"x\" is not a pair",
            ),
        ] {
            let error = of(value, &[(name, text)]).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
            assert!(text == "secret" || !error.contains("secret"), "{error}");
        }
        // A URL that is given does not depend on the protocol of others.
        of("http://a", &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).expect("valid settings");
    }
}
