//! Metrics and events of runs for a collector of OpenTelemetry (OTLP over HTTP, protobuf).
//!
//! Each second the totals so far are put into the queue of a thread that sends them. `points.rs`
//! and `events.rs` make the messages.

mod events;
mod exporter;
mod messages;
mod points;
mod settings;

use std::io::{self, Write as _};

use client::{Client, ClientError, Server};
use engine::{Observer, TOO_MANY_THREADS};
use flate2::Compression;
use flate2::write::GzEncoder;
use plan::RunPlan;
use results::snapshot::{Snapshot, Stage};

use crate::attributes::Attributes;
use crate::{ComparisonVerdict, Event, Output, RunEnd, RunStart};
use exporter::{ExportItem, Exporter, Post, Request};
use messages::{KeyValue, Resource, Scope, Value};
use points::Context;
use results::exported::{ExportedMetric, ExportedRun, exported};

pub use settings::{Endpoint, InvalidSetting, Settings};

/// Why nothing can be sent to a collector, one line.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The connections cannot be prepared.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system cannot create the thread.
    #[error("cannot start the thread that sends to the collector: {0} ({TOO_MANY_THREADS})")]
    Thread(io::Error),
}

/// Sends metrics and events of runs to a collector.
pub struct Otlp {
    /// The time by the wall clock, nanoseconds since 1970.
    clock: fn() -> u64,
    settings: Settings,
    /// Taken when it is closed.
    exporter: Option<Exporter>,
    metrics: Vec<ExportedMetric>,
    attributes: Attributes,
    /// Of an experiment as a whole.
    experiment: Option<Resource>,
    runs: u64,
    run: Option<Run>,
}

/// The run in progress.
struct Run {
    number: u64,
    resource: Resource,
    /// Of each point.
    attributes: Vec<KeyValue>,
    /// In addition, of points of metrics of HTTP clients.
    of_http: Vec<KeyValue>,
    start_unix_ns: Option<u64>,
    latest_unix_ns: u64,
    /// The metrics that have to be said to have ended.
    of_now: Vec<&'static str>,
}

impl Otlp {
    /// Prepares the connections and starts the thread.
    ///
    /// # Errors
    /// If the name of a server cannot be resolved, a file of certificates not be read, or the
    /// thread not be created.
    pub fn start(settings: Settings, clock: fn() -> u64) -> Result<Self, StartError> {
        let post = post(&settings)?;
        let exporter = Exporter::start(post).map_err(StartError::Thread)?;
        Ok(Self::with(settings, clock, exporter))
    }

    fn with(settings: Settings, clock: fn() -> u64, exporter: Exporter) -> Self {
        Self {
            clock,
            settings,
            exporter: Some(exporter),
            metrics: exported(),
            attributes: Attributes::default(),
            experiment: None,
            runs: 0,
            run: None,
        }
    }

    fn put(&self, run: u64, is_final: bool, request: Request) {
        if let Some(exporter) = &self.exporter {
            exporter.put(ExportItem {
                run,
                is_final,
                request,
            });
        }
    }

    fn begin(&mut self, start: &RunStart<'_>) {
        let now_unix_ns = (self.clock)();
        self.runs += 1;
        let said = self.attributes.all();
        let is_of_service = |name: &str| name.starts_with("service.");
        let of_points = said.iter().filter(|(name, _)| !is_of_service(name));
        let attributes: Vec<KeyValue> = of_points.map(|(name, value)| text(name, value)).collect();
        let id = match start.run_id {
            Some(id) => id.to_owned(),
            None => format!("{:x}-{:08x}", now_unix_ns / 1_000_000, fastrand::u32(..)),
        };
        let run = Run {
            number: self.runs,
            resource: self.resource(said, Some(id)),
            attributes,
            of_http: of_http(start.plan),
            start_unix_ns: None,
            latest_unix_ns: now_unix_ns,
            of_now: Vec::new(),
        };
        let happened = events::start(start);
        let request = events::request(happened, &run.resource, now_unix_ns);
        self.put(run.number, true, Request::Events(request));
        self.run = Some(run);
    }

    /// The resource with these attributes, and those of the environment.
    fn resource(&self, mut attributes: Vec<(String, String)>, id: Option<String>) -> Resource {
        attributes.extend(id.map(|id| ("service.instance.id".to_owned(), id)));
        for (name, value) in &self.settings.attributes {
            attributes.retain(|(known, _)| known != name);
            attributes.push((name.clone(), value.clone()));
        }
        let attributes = attributes.iter().map(|(name, value)| text(name, value));
        Resource {
            attributes: attributes.collect(),
        }
    }

    /// Tells what a comparison of all trials has shown.
    fn conclude(&self, verdict: &ComparisonVerdict<'_>) {
        if let Some(experiment) = &self.experiment {
            let happened = events::comparison(verdict);
            let request = events::request(happened, experiment, (self.clock)());
            self.put(0, true, Request::Events(request));
        }
    }

    fn end(&mut self, end: &RunEnd<'_>) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        let now_unix_ns = run.tick((self.clock)());
        if let Ok(result) = end.result {
            let snapshot = Snapshot::at_end(result);
            let state = ExportedRun {
                snapshot: &snapshot,
                verdict: Some(&result.generator.verdict),
            };
            run.note_window(now_unix_ns, snapshot.elapsed_ns);
            let start_unix_ns = run.start_unix_ns.unwrap_or(now_unix_ns);
            let context = Context {
                exemplars: points::exemplars(&result.recording, start_unix_ns),
                ..run.context(now_unix_ns)
            };
            let request = points::request(&self.metrics, state, &run.of_now, &context);
            self.put(run.number, true, Request::Metrics(request));
        }
        for happened in events::end(end) {
            let request = events::request(happened, &run.resource, now_unix_ns);
            self.put(run.number, true, Request::Events(request));
        }
    }
}

impl Run {
    /// The time of the next points: later than that of the latest ones, even if the wall clock was
    /// set back.
    fn tick(&mut self, now_unix_ns: u64) -> u64 {
        self.latest_unix_ns = now_unix_ns.max(self.latest_unix_ns + 1_000_000);
        self.latest_unix_ns
    }

    /// The window started this long ago. Later calls change nothing: a series has one start.
    fn note_window(&mut self, now_unix_ns: u64, elapsed_ns: u64) {
        let started = || now_unix_ns.saturating_sub(elapsed_ns);
        self.start_unix_ns.get_or_insert_with(started);
    }

    fn context(&self, time_unix_ns: u64) -> Context<'_> {
        Context {
            resource: &self.resource,
            attributes: &self.attributes,
            of_http: &self.of_http,
            start_unix_ns: self.start_unix_ns,
            time_unix_ns,
            exemplars: Vec::new(),
        }
    }
}

impl Observer for Otlp {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        let Some(run) = &mut self.run else { return };
        let now_unix_ns = run.tick((self.clock)());
        if snapshot.stage == Stage::Measuring {
            run.note_window(now_unix_ns, snapshot.elapsed_ns);
        }
        let state = ExportedRun {
            snapshot,
            verdict: None,
        };
        run.of_now = points::of_now(&self.metrics, state);
        let context = run.context(now_unix_ns);
        let request = points::request(&self.metrics, state, &[], &context);
        let number = run.number;
        self.put(number, false, Request::Metrics(request));
    }
}

impl Output for Otlp {
    fn event(&mut self, event: &Event<'_>) {
        self.attributes.note(event);
        match event {
            Event::Start(start) => self.begin(start),
            Event::End(end) => self.end(end),
            Event::Experiment(_) => {
                self.experiment = Some(self.resource(self.attributes.all(), None));
            }
            Event::Verdict(verdict) => self.conclude(verdict),
            Event::Trial(_) | Event::ExperimentEnd(_) => {}
        }
    }

    fn close(&mut self) -> Vec<String> {
        let problem = self.exporter.take().and_then(Exporter::close);
        let problem = problem.map(|problem| format!("--otlp {}: {problem}", self.settings.shown));
        problem.into_iter().collect()
    }
}

/// What the semantic conventions want to know of the requests of an HTTP client.
fn of_http(plan: &RunPlan) -> Vec<KeyValue> {
    let target = &plan.target;
    let port = KeyValue {
        key: "server.port".to_owned(),
        value: Some(Value::Int(target.port_number().into()).into()),
    };
    let mut attributes = vec![text("server.address", &target.host), port];
    let request = &plan.request;
    if request.script.is_none() && request.file.is_none() {
        let method = request.method.as_deref();
        let method = method.unwrap_or_else(|| plan.default_method());
        attributes.push(text("http.request.method", method));
    }
    attributes
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(Value::Text(value.to_owned()).into()),
    }
}

fn scope() -> Scope {
    Scope {
        name: "wrkbench".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Prepares the clients of both paths.
fn post(settings: &Settings) -> Result<Box<Post>, ClientError> {
    let path = |endpoint: &Endpoint| -> Result<_, ClientError> {
        let client = Client::of_server(&Server {
            target: &endpoint.target,
            limit: (endpoint.timeout, "OTEL_EXPORTER_OTLP_TIMEOUT"),
            cacert: ("OTEL_EXPORTER_OTLP_CERTIFICATE", endpoint.cacert.as_deref()),
        })?;
        Ok((
            client,
            endpoint.target.path.clone(),
            headers(endpoint),
            endpoint.gzip,
        ))
    };
    let (mut metrics, mut events) = (path(&settings.metrics)?, path(&settings.events)?);
    Ok(Box::new(move |is_metrics, message| {
        let (client, path, headers, gzip) = if is_metrics {
            &mut metrics
        } else {
            &mut events
        };
        let sent = match gzip {
            true => {
                let message = compressed(message).map_err(|error| error.to_string())?;
                client.post(path, headers, &message)
            }
            false => client.post(path, headers, message),
        };
        sent.map_err(|error| error.to_string())
    }))
}

fn headers(endpoint: &Endpoint) -> Vec<(String, String)> {
    let agent = concat!("wrkbench/", env!("CARGO_PKG_VERSION"));
    let own = [
        ("Content-Type", "application/x-protobuf"),
        ("User-Agent", agent),
    ];
    let gzip = endpoint.gzip.then_some(("Content-Encoding", "gzip"));
    let own = own.into_iter().chain(gzip);
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    own.chain(endpoint.headers.iter().cloned()).collect()
}

fn compressed(message: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(message)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use plan::Target;
    use prost::Message as _;
    use results::Counters;
    use results::exchange::ReceivedResponse;

    use super::messages::{Data, LogsRequest, Metric, MetricsRequest, Number};
    use super::*;

    const S: u64 = 1_000_000_000;

    /// What was sent.
    #[derive(Debug)]
    enum Sent {
        Metrics(MetricsRequest),
        Events(LogsRequest),
    }

    /// An output, and what it sends to a server that takes everything.
    fn output(clock: fn() -> u64) -> (Otlp, Receiver<Sent>) {
        let (sender, sent) = channel();
        let post = move |is_metrics, message: &[u8]| {
            let sent = if is_metrics {
                Sent::Metrics(MetricsRequest::decode(message).expect("metrics"))
            } else {
                Sent::Events(LogsRequest::decode(message).expect("events"))
            };
            sender.send(sent).expect("the test goes on");
            Ok(ReceivedResponse {
                status: 200,
                ..ReceivedResponse::default()
            })
        };
        let variables = [("OTEL_RESOURCE_ATTRIBUTES", "team=a,service.name=mine")];
        let settings = Settings::of("http://127.0.0.1:1", |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        let settings = settings.expect("valid settings");
        let exporter = Exporter::start(Box::new(post)).expect("a thread can be started");
        (Otlp::with(settings, clock, exporter), sent)
    }

    fn begin(output: &mut Otlp) {
        let target = Target::parse("http://host:81/path").expect("a URL");
        output.event(&Event::Start(RunStart {
            plan: &RunPlan::new(target),
            labels: &BTreeMap::from([("branch".to_owned(), "main".to_owned())]),
            run_id: None,
            agents: &[],
        }));
    }

    /// The state this long after the start of the window, with a response each second.
    fn second(stage: Stage, elapsed_s: u64) -> Snapshot {
        let mut snapshot = Snapshot {
            stage,
            elapsed_ns: elapsed_s * S,
            counters: Counters {
                answered: elapsed_s,
                in_flight: 3,
                ..Counters::default()
            },
            ..Snapshot::default()
        };
        snapshot.latency.record_n(2_000_000, elapsed_s);
        snapshot
    }

    fn metrics(sent: &Sent) -> &[Metric] {
        match sent {
            Sent::Metrics(request) => &request.resource_metrics[0].scope_metrics[0].metrics,
            Sent::Events(_) => panic!("these are events: {sent:?}"),
        }
    }

    fn metric<'s>(sent: &'s Sent, name: &str) -> Option<&'s Data> {
        let found = metrics(sent).iter().find(|metric| metric.name == name);
        found.and_then(|metric| metric.data.as_ref())
    }

    fn event(sent: &Sent) -> (&Resource, &str) {
        match sent {
            Sent::Events(request) => {
                let logs = &request.resource_logs[0];
                let resource = logs.resource.as_ref().expect("it has a resource");
                (resource, &logs.scope_logs[0].records[0].event_name)
            }
            Sent::Metrics(_) => panic!("these are metrics: {sent:?}"),
        }
    }

    fn value_of<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
        let found = attributes.iter().find(|it| it.key == key);
        found.and_then(|it| it.value.as_ref()?.value.as_ref())
    }

    fn fixed() -> u64 {
        100 * S
    }

    #[test]
    fn totals_count_from_the_start_of_the_window_and_a_warm_up_has_none() {
        let (mut output, sent) = output(fixed);
        begin(&mut output);
        assert_eq!(
            event(&sent.recv().expect("the start")).1,
            "wrkbench.run.start"
        );
        output.snapshot(&second(Stage::WarmingUp, 1));
        let warming_up = sent.recv().expect("metrics");
        assert!(metric(&warming_up, "wrkbench.warming_up").is_some());
        assert!(metric(&warming_up, "wrkbench.requests").is_none());
        assert!(metric(&warming_up, "http.client.request.duration").is_none());
        for elapsed_s in [2, 3] {
            output.snapshot(&second(Stage::Measuring, elapsed_s));
            let measuring = sent.recv().expect("metrics");
            let Some(Data::Sum(sum)) = metric(&measuring, "wrkbench.requests") else {
                panic!("requests are a sum")
            };
            assert!(sum.is_monotonic);
            let [point] = &sum.points[..] else {
                panic!("{sum:?}")
            };
            assert_eq!(point.value, Some(Number::Int(elapsed_s as i64)));
            // The wall clock stands still here, the points go on.
            assert_eq!(point.start_unix_ns, 98 * S + 2_000_000);
            assert_eq!(point.time_unix_ns, 100 * S + elapsed_s * 1_000_000);
            let branch = value_of(&point.attributes, "wrkbench.label.branch");
            assert_eq!(branch, Some(&Value::Text("main".to_owned())));
            let Some(Data::Histogram(times)) = metric(&measuring, "http.client.request.duration")
            else {
                panic!("latency is a histogram")
            };
            let [point] = &times.points[..] else {
                panic!("{times:?}")
            };
            assert_eq!(
                (point.count, point.min, point.max),
                (elapsed_s, Some(0.002), Some(0.002))
            );
            let port = value_of(&point.attributes, "server.port");
            assert_eq!(port, Some(&Value::Int(81)));
        }
        assert_eq!(output.close(), [""; 0]);
    }

    #[test]
    fn a_run_that_fails_has_an_end_with_the_reason_and_no_totals() {
        let (mut output, sent) = output(fixed);
        begin(&mut output);
        output.event(&Event::End(RunEnd {
            result: Err("it did not work"),
            failed: &[],
        }));
        // Nothing belongs to a run any more.
        output.snapshot(&second(Stage::Measuring, 1));
        assert_eq!(output.close(), [""; 0]);
        let sent: Vec<Sent> = sent.try_iter().collect();
        let names: Vec<&str> = sent.iter().map(|sent| event(sent).1).collect();
        assert_eq!(names, ["wrkbench.run.start", "wrkbench.run.end"]);
    }

    #[test]
    fn each_run_is_an_instance_of_its_own_and_the_environment_may_rename_the_service() {
        let (mut output, sent) = output(fixed);
        for _ in 0..2 {
            begin(&mut output);
        }
        assert_eq!(output.close(), [""; 0]);
        let sent: Vec<Sent> = sent.try_iter().collect();
        let instances: Vec<&Value> = sent
            .iter()
            .map(|sent| {
                let attributes = &event(sent).0.attributes;
                let name = value_of(attributes, "service.name");
                assert_eq!(name, Some(&Value::Text("mine".to_owned())));
                assert_eq!(
                    value_of(attributes, "team"),
                    Some(&Value::Text("a".to_owned()))
                );
                let names = attributes.iter().filter(|it| it.key == "service.name");
                assert_eq!(names.count(), 1);
                value_of(attributes, "service.instance.id").expect("it is an instance")
            })
            .collect();
        assert_ne!(instances[0], instances[1]);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_set_points_back() {
        static NOW: AtomicU64 = AtomicU64::new(100 * S);
        let (mut output, sent) = output(|| NOW.load(Ordering::SeqCst));
        begin(&mut output);
        sent.recv().expect("the start");
        let mut times = Vec::new();
        for (elapsed_s, now_s) in [(1, 101), (2, 50), (3, 103)] {
            NOW.store(now_s * S, Ordering::SeqCst);
            output.snapshot(&second(Stage::Measuring, elapsed_s));
            let sent = sent.recv().expect("metrics");
            let Some(Data::Sum(sum)) = metric(&sent, "wrkbench.requests.in_flight") else {
                panic!("requests in flight are a sum")
            };
            assert!(!sum.is_monotonic);
            times.push(sum.points[0].time_unix_ns);
        }
        assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
        drop(output.close());
    }
}
