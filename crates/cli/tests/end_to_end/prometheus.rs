//! `--prometheus`: scraped by the test itself, and by Prometheus.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use results::metric;
use serde_json::Value;
use testkit::{Process, eventually, require};

use crate::fleet::Fleet;
use crate::harness::{load, site};

/// A port at which nobody listens.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The body of a response with status 200.
fn get(port: u16, path: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|it| it.to_string())?;
    // With this version the body ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .map_err(|it| it.to_string())?;
    let mut response = String::new();
    stream
        .read_to_string(&mut response)
        .map_err(|it| it.to_string())?;
    match response.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 OK") => Ok(body.to_owned()),
        _ => Err(response),
    }
}

/// The value of the only sample with this name and, if it has any, this label.
fn value(text: &str, name: &str, label: &str) -> Option<f64> {
    let mut lines = text.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|it| it.starts_with(['{', ' ']) && it.contains(label))
    });
    let line = lines.next()?;
    assert_eq!(lines.next(), None, "{name} {label}");
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn the_last_scrape_has_the_numbers_of_the_result() {
    let site = site();
    let port = free_port();
    let options = [
        "--prometheus",
        &format!("127.0.0.1:{port}"),
        "-R300",
        "--label",
        "branch=main",
    ];
    let mut running = load(&site).for_ms(2_500).with(&options).start();
    running.await_banner();
    let during = eventually(|| {
        let text = get(port, "/metrics")?;
        match value(&text, "wrkbench_requests_total", "") {
            Some(count) if count > 0.0 => Ok(text),
            _ => Err(text),
        }
    });
    assert_eq!(
        value(&during, "http_client_open_connections", ""),
        Some(4.0),
        "{during}"
    );
    assert!(
        value(&during, "wrkbench_generator_saturated", "").is_none(),
        "{during}"
    );
    running
        .process
        .await_line(|line| line.starts_with("Transfer/sec"));
    // The program waits for it, since there was one before.
    let text = get(port, "/metrics").unwrap();
    let run = running.finish();
    let result = &run.result;
    let counters = &result.recording.counters;
    let latency = result.recording.latency();
    for (name, label, expected) in [
        (
            "wrkbench_requests_total",
            "wrkbench_label_branch=\"main\"",
            counters.responses(),
        ),
        ("wrkbench_requests_sent_total", "", counters.sent),
        ("wrkbench_requests_due_total", "", counters.due),
        ("wrkbench_received_bytes_total", "", counters.bytes),
        (
            "wrkbench_responses_total",
            "http_response_status_code=\"200\"",
            counters.answered,
        ),
        (
            "http_client_request_duration_seconds_count",
            "",
            latency.count(),
        ),
        (
            "http_client_request_duration_seconds_bucket",
            "le=\"+Inf\"",
            latency.count(),
        ),
        (
            "wrkbench_send_lag_seconds_count",
            "",
            result.recording.lags.send.count(),
        ),
        ("wrkbench_warming_up", "", 0),
    ] {
        assert_eq!(
            value(&text, name, label),
            Some(expected as f64),
            "{name}: {text}"
        );
    }
    let sum = value(&text, "http_client_request_duration_seconds_sum", "").unwrap();
    assert!(
        (sum - latency.sum_ns() as f64 / 1e9).abs() < 1e-9 * sum,
        "{sum}"
    );
    assert!(
        value(&text, "target_info", "service_name=\"wrkbench\"").is_some(),
        "{text}"
    );
    assert!(get(port, "/metrics").is_err());
    let told = format!("metrics at http://127.0.0.1:{port}/metrics");
    assert!(run.stderr.contains(&told), "{}", run.stderr);
}

#[test]
fn promtool_has_nothing_to_say_about_the_names() {
    let Some(promtool) = require("promtool") else {
        return;
    };
    let site = site();
    let port = free_port();
    let options = ["--prometheus", &format!("127.0.0.1:{port}"), "-R300"];
    let mut running = load(&site).for_ms(2_000).with(&options).start();
    running.await_banner();
    let text = eventually(|| get(port, "/metrics"));
    running.process.signal("INT");
    running
        .process
        .await_line(|line| line.starts_with("Transfer/sec"));
    let last = get(port, "/metrics").unwrap();
    running.finish();
    for text in [text, last] {
        let mut tool = Command::new(&promtool);
        tool.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut tool = tool
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        tool.stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let output = tool.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert_eq!(String::from_utf8_lossy(&said), "", "{text}");
        assert!(output.status.success());
    }
}

/// Debian's Prometheus, which scrapes this port each second.
struct Server {
    _process: Process,
    port: u16,
}

impl Server {
    /// `None`: there is none.
    fn start(folder: &testkit::Folder, scraped: u16) -> Option<Self> {
        let program = require("prometheus")?;
        let port = free_port();
        let configuration = format!(
            "scrape_configs: [{{job_name: load, scrape_interval: 1s, scrape_timeout: 1s, \
             static_configs: [{{targets: ['127.0.0.1:{scraped}']}}]}}]\n"
        );
        let configuration = folder.file_with("prometheus.yml", &configuration);
        let mut command = Command::new(program);
        command.args(["--enable-feature=native-histograms", "--log.level=error"]);
        command.arg(format!("--config.file={configuration}"));
        command.arg(format!("--storage.tsdb.path={}", folder.file("data")));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let process = Process::start(command);
        // It looks for its targets some seconds after its start. Nobody is there yet.
        eventually(|| match get(port, "/api/v1/targets") {
            Ok(targets) if targets.contains("connection refused") => Ok(()),
            other => Err(format!("{other:?}")),
        });
        Some(Self {
            _process: process,
            port,
        })
    }

    /// The only value of an expression at a moment, seconds since 1970.
    fn value(&self, expression: &str, time: f64) -> f64 {
        let result = self.query(expression, Some(time)).unwrap();
        let results = result.as_array().unwrap();
        assert_eq!(results.len(), 1, "{expression}: {result}");
        results[0]["value"][1].as_str().unwrap().parse().unwrap()
    }

    fn query(&self, expression: &str, time: Option<f64>) -> Result<Value, String> {
        let encoded: String = expression
            .bytes()
            .map(|byte| format!("%{byte:02x}"))
            .collect();
        let time = time.map_or_else(String::new, |time| format!("&time={time:.3}"));
        let text = get(self.port, &format!("/api/v1/query?query={encoded}{time}"))?;
        let answer: Value = serde_json::from_str(&text).unwrap();
        Ok(answer["data"]["result"].clone())
    }
}

#[test]
fn prometheus_answers_with_the_numbers_of_the_result() {
    let site = site();
    let port = free_port();
    let Some(server) = Server::start(&site.folder, port) else {
        return;
    };
    let options = [
        "--prometheus",
        &format!("127.0.0.1:{port}"),
        "-R500",
        "--arrivals=poisson",
    ];
    let run = load(&site)
        .at("/?delay=exp:5ms")
        .for_ms(5_000)
        .with(&options)
        .run();
    let counters = &run.result.recording.counters;
    // The moment of the last scrape. From then on, the series is stale.
    let samples = eventually(|| {
        let found = server.query("wrkbench_requests_total[5m]", None)?;
        let samples = found[0]["values"].as_array().cloned().unwrap_or_default();
        match samples
            .last()
            .and_then(|it| it[1].as_str()?.parse::<u64>().ok())
        {
            Some(count) if count == counters.responses() => Ok(samples),
            other => Err(format!("{other:?} of {}", counters.responses())),
        }
    });
    let time = samples.last().unwrap()[0].as_f64().unwrap();
    let latency = run.result.recording.latency();
    let of = "http_client_request_duration_seconds";
    let count = server.value(&format!("histogram_count({of})"), time);
    assert_eq!(count, latency.count() as f64);
    // The server interpolates within a bucket of schema 7.
    let width = 2_f64.powf(1.0 / 128.0);
    for (quantile, name) in [
        (0.5, "latency_p50_us"),
        (0.9, "latency_p90_us"),
        (0.99, "latency_p99_us"),
    ] {
        let expected = metric::values(&run.result)[name] / 1e6;
        let found = server.value(&format!("histogram_quantile({quantile}, {of})"), time);
        let ratio = found / expected;
        assert!(
            ratio < width && ratio > 1.0 / width,
            "{name}: {found} for {expected}"
        );
    }
    let statuses = "wrkbench_responses_total{http_response_status_code=\"200\"}";
    assert_eq!(server.value(statuses, time), counters.answered as f64);
}

#[test]
fn an_agent_serves_the_load_that_it_makes() {
    let Some(mut fleet) = Fleet::start() else {
        return;
    };
    let site = site();
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    fleet.agent("a1", "lab/inside", &["--prometheus", &address]);
    let before = get(port, "/metrics").unwrap();
    assert!(!before.contains("wrkbench_requests_total"), "{before}");
    let options = fleet.options();
    let run = load(&site).requests(300).with(&options).run();
    let expected = run.answered() as f64;
    eventually(|| {
        let text = get(port, "/metrics")?;
        let label = "wrkbench_agent=\"a1\",wrkbench_place=\"lab/inside\"";
        match value(&text, "wrkbench_requests_total", label) {
            Some(found) if found == expected => Ok(()),
            _ => Err(text),
        }
    });
}

#[test]
fn an_address_that_cannot_be_used_is_refused_before_the_run() {
    let site = site();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (address, expected) in [
        (
            "9464",
            "is not an address (expected like localhost:9464 or :9464)",
        ),
        ("localhost:", "is not an address"),
        ("localhost:70000", "is not an address"),
        ("::1:9464", "is not an address"),
        (
            &taken,
            "cannot listen (try another port): Address already in use",
        ),
        ("192.0.2.1:9464", "cannot listen (try another port)"),
        ("no-such-host.invalid:9464", "unknown host"),
    ] {
        let output = load(&site)
            .requests(10)
            .with(&["--prometheus", address])
            .output();
        let line = output.only_line();
        assert!(
            line.contains("--prometheus") && line.contains(expected),
            "{line}"
        );
    }
    let output = load(&site).with(&["--once", "--prometheus", ":0"]).output();
    assert!(output.only_line().contains("--prometheus"), "{output:?}");
    assert_eq!(site.stop().counts.requests, 0);
}

#[test]
fn a_run_that_nobody_scrapes_ends_without_waiting() {
    let site = site();
    let output = load(&site)
        .requests(10)
        .with(&["--prometheus", "127.0.0.1:0"])
        .output();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!output.stderr.contains("waiting"), "{output:?}");
}
