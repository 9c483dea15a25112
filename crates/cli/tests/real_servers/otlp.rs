//! Metrics over OTLP in Prometheus 3 and in a Collector of OpenTelemetry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use origin::{Options, Server};
use results::RunResult;
use serde_json::Value;
use testkit::{Folder, Process, eventually, require_ok};

use crate::daemon::{Daemon, free_port};

/// A program that `make collectors` builds; `None` if it is missing, and the test is skipped.
fn collector(name: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let readers = target.expect("it is in target").join("readers");
    let is_whole = readers.join(format!("{name}.installed")).exists();
    let found = is_whole.then(|| readers.join(name));
    require_ok(name, found.ok_or("`make collectors` builds it"))
}

fn server() -> Server {
    Server::start(Options::default()).expect("the server starts")
}

/// Makes a run of three seconds, whose export must not fail.
fn run(arguments: &[&str], otlp: &str, url: &str) -> RunResult {
    let folder = Folder::new();
    let json = folder.file("r.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
    command.args(["-t1", "-c4", "-d3s", "--json", &json, "--otlp", otlp]);
    command.args(arguments).arg(url).stdin(Stdio::null());
    let output = Process::start(command).finish();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(!output.stderr.contains("--otlp"), "{}", output.stderr);
    results::file::load(&fs::read(json).expect("there is a result")).expect("it is valid")
}

/// A Prometheus that takes OTLP.
struct Prometheus {
    url: String,
    _daemon: Daemon,
    _folder: Folder,
}

impl Prometheus {
    fn start() -> Option<Self> {
        let program = collector("prometheus3")?;
        let (daemon, (folder, url)) = Daemon::start("Server is ready", || {
            let (folder, port) = (Folder::new(), free_port());
            let mut command = Command::new(&program);
            let config = folder.file_with("prometheus.yml", "");
            command.arg(format!("--config.file={config}"));
            command.arg(format!("--storage.tsdb.path={}", folder.file("data")));
            command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
            command.arg("--web.enable-otlp-receiver");
            (command, (folder, format!("http://127.0.0.1:{port}")))
        });
        Some(Self {
            url,
            _daemon: daemon,
            _folder: folder,
        })
    }

    fn otlp(&self) -> String {
        format!("{}/api/v1/otlp", self.url)
    }

    /// What a query returns: one that is evaluated each second, of the last minute.
    fn range(&self, query: &str) -> Vec<Value> {
        let end = jiff::Timestamp::now().as_second() + 1;
        let times = [("start", end - 60), ("end", end), ("step", 1)];
        let times = times.map(|(name, value)| format!("{name}={value}"));
        self.ask("query_range", query, &times)
    }

    /// The value of a query at the end of all runs: the latest one of each series.
    fn last(&self, query: &str) -> Vec<f64> {
        let series = self.range(query);
        let last = |series: &Value| {
            series["values"].as_array()?.last()?[1]
                .as_str()?
                .parse()
                .ok()
        };
        series.iter().filter_map(last).collect()
    }

    fn ask(&self, path: &str, query: &str, more: &[String]) -> Vec<Value> {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "30", "-G"]);
        curl.arg("--data-urlencode").arg(format!("query={query}"));
        for parameter in more {
            curl.arg("--data-urlencode").arg(parameter);
        }
        let output = curl.arg(format!("{}/api/v1/{path}", self.url)).output();
        let answer: Value = serde_json::from_slice(&output.expect("curl starts").stdout)
            .expect("Prometheus answers in JSON");
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"]
            .as_array()
            .expect("results")
            .clone()
    }
}

#[test]
fn prometheus_has_the_counts_and_percentiles_of_the_result() {
    let Some(prometheus) = Prometheus::start() else {
        return;
    };
    let server = server();
    let result = run(
        &["-R500", "--label", "branch=main"],
        &prometheus.otlp(),
        &server.url(),
    );
    let recording = &result.recording;
    let name = "http_client_request_duration_seconds{wrkbench_label_branch=\"main\"}";
    let counters = &recording.counters;
    for (query, expected) in [
        ("wrkbench_requests_total", counters.responses()),
        ("wrkbench_requests_due_total", counters.due),
        (
            "wrkbench_responses_total{http_response_status_code=\"200\"}",
            counters.answered,
        ),
        (
            &format!("histogram_count({name})"),
            recording.latency().count(),
        ),
        (
            "histogram_count(wrkbench_send_lag_seconds)",
            recording.lags.send.count(),
        ),
    ] {
        let values = prometheus.last(query);
        assert_eq!(values, [expected as f64], "{query}");
    }
    // A bucket is 0.54 % wide.
    for percent in [50.0, 90.0, 99.0] {
        let query = format!("histogram_quantile({}, {name})", percent / 100.0);
        let reported = recording.latency().value_at_percentile(percent) as f64 / 1e9;
        let ratio = prometheus.last(&query)[0] / reported;
        assert!((0.994..1.006).contains(&ratio), "{query}: {ratio}");
    }
    // After the run nothing is in flight, and no server goes on to say so.
    let series = prometheus.range("wrkbench_requests_in_flight");
    let [series] = &series[..] else {
        panic!("{series:?}")
    };
    let values = series["values"].as_array().expect("values").len();
    assert!((1..=5).contains(&values), "{series}");
}

/// All queries of the dashboard's panels and annotations, with values for its variables.
fn queries(value: &Value) -> Vec<String> {
    let own = value.get("expr").and_then(Value::as_str).map(|query| {
        let query = query.replace("$target", ".*").replace("$run", ".*");
        query.replace("$window", "10s").replace("$__range", "1m")
    });
    let inner: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    };
    own.into_iter()
        .chain(inner.into_iter().flat_map(queries))
        .collect()
}

#[test]
fn each_query_of_the_dashboard_returns_data_from_prometheus() {
    let Some(prometheus) = Prometheus::start() else {
        return;
    };
    let server = server();
    let url = server.url();
    let url = url.trim_end_matches('/');
    let otlp = prometheus.otlp();
    run(&["-R200"], &otlp, &format!("{url}/?mix=0.1:reset"));
    let llm = format!("{url}/?llm=openai&tokens=5&gap=5ms");
    run(
        &["--events", "llm", "--good", "first_token<1s"],
        &otlp,
        &llm,
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let path = root
        .expect("the repository")
        .join("examples/grafana/wrkbench.json");
    let text = fs::read_to_string(path).expect("the dashboard is there");
    let dashboard: Value = serde_json::from_str(&text).expect("it is JSON");
    for query in queries(&dashboard) {
        assert!(!prometheus.range(&query).is_empty(), "no data: {query}");
    }
}

/// The numbers of a metric in a line that the Collector wrote.
fn total(line: &Value, name: &str) -> Option<u64> {
    let metrics = line["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?;
    let metric = metrics.iter().find(|metric| metric["name"] == name)?;
    let points = metric["sum"]["dataPoints"].as_array();
    let points = points.or_else(|| metric["exponentialHistogram"]["dataPoints"].as_array())?;
    let number = |point: &Value| {
        let value = [&point["asInt"], &point["count"]];
        value.iter().find_map(|it| it.as_str()?.parse::<u64>().ok())
    };
    Some(points.iter().filter_map(number).sum())
}

#[test]
fn a_collector_of_opentelemetry_takes_metrics_and_events() {
    let Some(program) = collector("otelcol") else {
        return;
    };
    let (_daemon, (folder, url)) = Daemon::start("Everything is ready", || {
        let (folder, port) = (Folder::new(), free_port());
        let config = format!(
            "receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n\
             exporters: {{file: {{path: {}, flush_interval: 100ms}}}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n    \
             metrics: {{receivers: [otlp], exporters: [file]}}\n    \
             logs: {{receivers: [otlp], exporters: [file]}}\n",
            folder.file("out.jsonl")
        );
        let mut command = Command::new(&program);
        command
            .arg("--config")
            .arg(folder.file_with("config.yaml", config));
        (command, (folder, format!("http://127.0.0.1:{port}")))
    });
    let server = server();
    let result = run(&["-R300"], &url, &server.url());
    // It writes after it has answered.
    let lines: Vec<Value> = eventually(|| {
        let text = fs::read_to_string(folder.join("out.jsonl")).unwrap_or_default();
        if text.contains("wrkbench.run.verdict") {
            Ok(text
                .lines()
                .filter_map(|it| serde_json::from_str(it).ok())
                .collect())
        } else {
            Err("no verdict yet".to_owned())
        }
    });
    let recording = &result.recording;
    for (name, expected) in [
        ("wrkbench.requests", recording.counters.responses()),
        ("http.client.request.duration", recording.latency().count()),
    ] {
        let last = lines
            .iter()
            .filter_map(|line| total(line, name))
            .next_back();
        assert_eq!(last, Some(expected), "{name}");
    }
}
