//! What of a plan makes the load, part by part: names runs, and tells repetitions from runs of another load.

use std::time::Duration;

use crate::{
    BackendChoice, Body, Load, Pacing, RequestSpec, RunPlan, Scheme, Stage, Stop, Target, TlsSpec,
    shell, units,
};

/// One part of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadPart {
    /// What it is, in words: `timeout`.
    pub what: &'static str,
    /// Its whole value in words, `2s`; two parts with the same value make the same load.
    pub value: String,
    /// How the command line says it, `-T2s`; empty where the default applies, which needs no option.
    pub option: String,
    /// The part belongs to every name of a load (`-t2 -c10`). The others are named only where they differ.
    pub is_in_name: bool,
}

impl LoadPart {
    /// A part as it was noted somewhere, with the option that it is given by (`-T`).
    #[must_use]
    pub fn noted(what: &'static str, value: &str, option: &str) -> Self {
        unnamed(what, value, option)
    }
}

impl RunPlan {
    /// The parts that make the load, the same ones in the same order for every plan. Not among them: the
    /// seed of random arrivals and what is watched in the kernel. Secrets are hidden: loads that differ in a token
    /// alone are the same.
    #[must_use]
    pub fn load_parts(&self) -> Vec<LoadPart> {
        let shown = self.without_secrets();
        // Every field by name, here and below: a new one does not compile until somebody decides whether
        // it makes another load.
        let Self {
            target,
            load,
            pacing,
            stop,
            warmup,
            timeout,
            request,
            tls,
            backend,
            telemetry: _,
        } = &shown;
        let mut parts = Vec::new();
        of_load(load, pacing, &mut parts);
        of_request(request, &mut parts);
        of_times(stop, *warmup, *timeout, &mut parts);
        of_target(target, &mut parts);
        of_tls(tls, target.scheme, &mut parts);
        parts.push(of_backend(*backend));
        parts
    }

    /// The name of the load as the command line says it, `-t12 -c400 -R2000`.
    #[must_use]
    pub fn load_name(&self) -> String {
        let parts = self.load_parts().into_iter();
        let options = parts.filter(|part| part.is_in_name && !part.option.is_empty());
        options
            .map(|part| part.option)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl Target {
    /// Where the requests go, `http://h:80` with the port also where it is the usual one; then the path.
    #[must_use]
    pub fn server_and_path(&self) -> (String, String) {
        let Self {
            url: _,
            scheme,
            host,
            service: _,
            port,
            path,
            host_header: _,
            unix_socket,
        } = self;
        let default_port = scheme.default_port().to_string();
        let port = port.as_ref().unwrap_or(&default_port);
        let server = match unix_socket {
            Some(socket) => format!("{} over {}", scheme.name(), socket.display()),
            None => format!("{}://{host}:{port}", scheme.name()),
        };
        (server, path.clone())
    }
}

fn of_load(load: &Load, pacing: &Pacing, parts: &mut Vec<LoadPart>) {
    let Load {
        threads,
        connections,
        pipeline,
        keepalive,
        requests_per_connection,
        source,
        batch_latency,
    } = load;
    parts.push(named(
        "threads",
        threads.to_string(),
        format!("-t{threads}"),
    ));
    parts.push(named(
        "connections",
        connections.to_string(),
        format!("-c{connections}"),
    ));
    of_pacing(pacing, parts);
    parts.push(switch(
        "only the last response of a batch",
        *batch_latency,
        "-B",
    ));
    let source = source.map(|source| source.to_string());
    parts.push(optional("source address", source, |source| {
        format!("-b {source}")
    }));
    let pipeline_option = match pipeline {
        1 => String::new(),
        more => format!("--pipeline {more}"),
    };
    parts.push(named("pipeline", pipeline.to_string(), pipeline_option));
    parts.push(switch("no keep-alive", !*keepalive, "--no-keepalive"));
    let requests = requests_per_connection.map(|requests| requests.to_string());
    parts.push(optional("requests per connection", requests, |requests| {
        format!("--requests-per-connection {requests}")
    }));
}

/// The rate, and how it changes and is spread. The seed is left out: it is another draw of the same load.
fn of_pacing(pacing: &Pacing, parts: &mut Vec<LoadPart>) {
    let (rate, option) = match pacing {
        Pacing::Closed => ("none".to_owned(), String::new()),
        Pacing::Constant {
            rate_per_sec,
            arrivals: _,
            seed: _,
        } => (format!("{rate_per_sec}/s"), format!("-R{rate_per_sec}")),
        Pacing::Stages {
            stages,
            arrivals: _,
            seed: _,
        } => {
            let stages = Stage::list(stages);
            let option = format!("--stages {}", short(&stages));
            (stages, option)
        }
    };
    parts.push(named("rate", rate, option));
    let is_random = pacing.random_seed().is_some();
    parts.push(switch("random arrivals", is_random, "--arrivals poisson"));
}

fn of_request(request: &RequestSpec, parts: &mut Vec<LoadPart>) {
    let RequestSpec {
        method,
        headers,
        body,
        script,
        script_args,
    } = request;
    parts.push(optional("method", method.clone(), |method| {
        format!("-X {}", short(method))
    }));
    let headers: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let options = headers.iter().map(|header| format!("-H {}", short(header)));
    parts.push(named(
        "headers",
        or_none(headers.join(", ")),
        options.collect::<Vec<_>>().join(" "),
    ));
    let body = body.as_ref().map(|body| match body {
        Body::Inline(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Body::File(path) => format!("@{}", path.display()),
    });
    parts.push(optional("body", body, |body| {
        format!("--body {}", short(body))
    }));
    let script = script.as_ref().map(|script| script.display().to_string());
    parts.push(optional("script", script, |script| {
        format!("-s {}", short(script))
    }));
    let words: Vec<String> = script_args.iter().map(|word| short(word)).collect();
    parts.push(named(
        "arguments of the script",
        or_none(script_args.join(" ")),
        words.join(" "),
    ));
}

fn of_times(stop: &Stop, warmup: Duration, timeout: Duration, parts: &mut Vec<LoadPart>) {
    let Stop { duration, requests } = stop;
    let time = |duration: Duration| match duration {
        Duration::ZERO => "none".to_owned(),
        duration => units::time(duration),
    };
    let duration = duration.map_or_else(|| "none".to_owned(), time);
    parts.push(unnamed("duration", &duration, "-d"));
    let requests = requests.map_or_else(|| "none".to_owned(), |count| count.to_string());
    parts.push(unnamed("requests", &requests, "-n"));
    parts.push(unnamed("warm-up", &time(warmup), "--warmup "));
    parts.push(unnamed("timeout", &time(timeout), "-T"));
}

/// Where the requests go. The URL as typed is left out: the same place can be typed in several ways.
fn of_target(target: &Target, parts: &mut Vec<LoadPart>) {
    let (server, path) = target.server_and_path();
    let host_header = &target.host_header;
    parts.push(unnamed("server", &server, ""));
    parts.push(unnamed("Host header", host_header, "Host: "));
    parts.push(unnamed("path", &path, ""));
    let has_user = target.credentials().is_some();
    parts.push(LoadPart {
        option: String::from(if has_user { "(with a user)" } else { "" }),
        ..unnamed("user in the URL", if has_user { "yes" } else { "no" }, "")
    });
}

/// TLS matters with https only.
fn of_tls(tls: &TlsSpec, scheme: Scheme, parts: &mut Vec<LoadPart>) {
    let TlsSpec {
        verify,
        cacert,
        cert,
        key,
    } = tls;
    let has_tls = scheme == Scheme::Https;
    let verify = if has_tls && *verify { "yes" } else { "no" };
    parts.push(LoadPart {
        option: String::from(if verify == "yes" { "--verify" } else { "" }),
        ..unnamed("verification", verify, "")
    });
    for (what, option, file) in [
        ("CA file", "--cacert ", cacert),
        ("client certificate", "--cert ", cert),
        ("client key", "--key ", key),
    ] {
        let file = file.as_ref().filter(|_| has_tls);
        let file = or_none(file.map_or_else(String::new, |file| file.display().to_string()));
        parts.push(unnamed(what, &file, option));
    }
}

/// [`LoadPart::what`] of the kernel interface.
pub const BACKEND: &str = "backend";

fn of_backend(backend: BackendChoice) -> LoadPart {
    let name = match backend {
        BackendChoice::Auto => "auto",
        BackendChoice::Uring => "uring",
        BackendChoice::Epoll => "epoll",
    };
    unnamed(BACKEND, name, "--io ")
}

/// A part that is in every name.
fn named(what: &'static str, value: String, option: String) -> LoadPart {
    LoadPart {
        what,
        value,
        option,
        is_in_name: true,
    }
}

/// A part that is in a name where it is on.
fn switch(what: &'static str, is_on: bool, option: &str) -> LoadPart {
    let (value, option) = if is_on { ("yes", option) } else { ("no", "") };
    named(what, value.to_owned(), option.to_owned())
}

/// A part that is in a name where it is given.
fn optional(
    what: &'static str,
    value: Option<String>,
    option: impl Fn(&String) -> String,
) -> LoadPart {
    let option = value.as_ref().map(option).unwrap_or_default();
    named(what, or_none(value.unwrap_or_default()), option)
}

/// A part that is named only where runs differ in it.
fn unnamed(what: &'static str, value: &str, option: &str) -> LoadPart {
    LoadPart {
        what,
        value: value.to_owned(),
        option: match value {
            "none" => String::new(),
            _ => format!("{option}{}", short(value)),
        },
        is_in_name: false,
    }
}

fn or_none(value: String) -> String {
    if value.is_empty() {
        "none".to_owned()
    } else {
        value
    }
}

/// A word for a shell; of a long one its begin, and how long it is.
fn short(word: &str) -> String {
    const CHARS_MAX: usize = 60;
    let count = word.chars().count();
    if count <= CHARS_MAX {
        return shell::quoted(word);
    }
    let begin: String = word.chars().take(CHARS_MAX).collect();
    format!("{}... ({count} characters)", shell::quoted(&begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, TelemetrySpec};

    fn plan(url: &str) -> RunPlan {
        RunPlan {
            target: Target::parse(url).unwrap(),
            load: Load::default(),
            pacing: Pacing::Closed,
            stop: Stop {
                duration: Some(Duration::from_secs(10)),
                requests: None,
            },
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(2),
            request: RequestSpec::default(),
            tls: TlsSpec::default(),
            backend: BackendChoice::Auto,
            telemetry: None,
        }
    }

    /// What differs, as `what: value, option / value, option`.
    fn differences(one: &RunPlan, other: &RunPlan) -> Vec<String> {
        let pairs = one.load_parts().into_iter().zip(other.load_parts());
        let differing = pairs.filter(|(one, other)| one != other);
        let shown = |part: &LoadPart| format!("{}, {}", part.value, part.option);
        differing
            .map(|(one, other)| format!("{}: {} / {}", one.what, shown(&one), shown(&other)))
            .collect()
    }

    type Change = fn(&mut RunPlan);

    #[test]
    fn every_part_that_makes_another_load_is_told() {
        let of_https: [(Change, &str); 2] = [
            (
                |plan| plan.tls.verify = true,
                "verification: no,  / yes, --verify",
            ),
            (
                |plan| plan.tls.cacert = Some("ca.pem".into()),
                "CA file: none,  / ca.pem, --cacert ca.pem",
            ),
        ];
        let of_all: [(Change, &str); 15] = [
            (|plan| plan.load.threads = 3, "threads: 2, -t2 / 3, -t3"),
            (
                |plan| plan.load.pipeline = 4,
                "pipeline: 1,  / 4, --pipeline 4",
            ),
            (
                |plan| plan.load.keepalive = false,
                "no keep-alive: no,  / yes, --no-keepalive",
            ),
            (
                |plan| plan.load.source = Some(crate::SourceRange::parse("10.0.0.0/24").unwrap()),
                "source address: none,  / 10.0.0.0/24, -b 10.0.0.0/24",
            ),
            (
                |plan| plan.stop.duration = Some(Duration::from_millis(1_500)),
                "duration: 10s, -d10s / 1.5s, -d1.5s",
            ),
            (
                |plan| plan.stop.requests = Some(500),
                "requests: none,  / 500, -n500",
            ),
            (
                |plan| plan.warmup = Duration::from_secs(1),
                "warm-up: none,  / 1s, --warmup 1s",
            ),
            (
                |plan| plan.timeout = Duration::from_secs(5),
                "timeout: 2s, -T2s / 5s, -T5s",
            ),
            (
                |plan| plan.backend = BackendChoice::Epoll,
                "backend: auto, --io auto / epoll, --io epoll",
            ),
            (
                |plan| plan.request.method = Some("PUT".to_owned()),
                "method: none,  / PUT, -X PUT",
            ),
            (
                |plan| plan.request.headers = vec![("A".to_owned(), "b c".to_owned())],
                "headers: none,  / A: b c, -H 'A: b c'",
            ),
            (
                |plan| plan.request.script = Some("a.lua".into()),
                "script: none,  / a.lua, -s a.lua",
            ),
            (
                |plan| plan.target.path = "/b".to_owned(),
                "path: /, / / /b, /b",
            ),
            (
                |plan| plan.target.port = Some("8080".to_owned()),
                "server: https://h:443, https://h:443 / https://h:8080, https://h:8080",
            ),
            (
                |plan| plan.target.url = "https://u:p@h/".to_owned(),
                "user in the URL: no,  / yes, (with a user)",
            ),
        ];
        for (change, said) in of_https.into_iter().chain(of_all) {
            let mut changed = plan("https://h/");
            change(&mut changed);
            assert_eq!(differences(&plan("https://h/"), &changed), [said]);
        }
    }

    #[test]
    fn what_makes_no_other_load_is_not_told() {
        let poisson = |seed| Pacing::Constant {
            rate_per_sec: 500.0,
            arrivals: Arrivals::Poisson,
            seed,
        };
        let mut one = plan("http://h/");
        let mut other = plan("http://h:80/");
        one.pacing = poisson(1);
        other.pacing = poisson(2);
        other.tls.verify = true;
        one.request.headers = vec![("Authorization".to_owned(), "Bearer one".to_owned())];
        other.request.headers = vec![("Authorization".to_owned(), "***".to_owned())];
        other.telemetry = Some(TelemetrySpec {
            sockets: None,
            interval: Duration::from_secs(1),
            counters: true,
        });
        // The name of the host is what is sent, so it may differ by the port.
        other.target.host_header.clone_from(&one.target.host_header);
        assert_eq!(differences(&one, &other), [""; 0]);
    }

    #[test]
    fn the_name_of_a_load_is_its_options_without_times_and_target() {
        let mut plan = plan("http://h/");
        assert_eq!(plan.load_name(), "-t2 -c10");
        plan.load.pipeline = 4;
        plan.load.batch_latency = true;
        plan.pacing = Pacing::Constant {
            rate_per_sec: 2_000.0,
            arrivals: Arrivals::Poisson,
            seed: 7,
        };
        plan.request.body = Some(Body::Inline(b"x".repeat(100)));
        plan.request.script_args = vec!["a b".to_owned()];
        let body = "x".repeat(60);
        assert_eq!(
            plan.load_name(),
            format!(
                "-t2 -c10 -R2000 --arrivals poisson -B --pipeline 4 --body {body}... (100 characters) 'a b'"
            )
        );
    }
}
