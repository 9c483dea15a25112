//! Where a run was made, with what plan, and how to make it again.

use analysis::Observation;
use plan::{Arrivals, BackendChoice, Body, Pacing, RunPlan, Scheme, Stage, shell, units};
use results::{Environment, RunResult};

use crate::page::{Block, Section, words};

/// Bodies and scripts' arguments are cut here.
const SHOWN_CHARS_MAX: usize = 200;

/// The command first: it is what this section is opened for.
pub(super) fn section(run: &Observation, result: &RunResult) -> Section {
    let mut blocks = Vec::new();
    blocks.extend(commands(run, result));
    blocks.push(Block::Facts {
        facts: own_facts(run, result),
    });
    if !result.environment.sysctls.is_empty() {
        blocks.push(Block::Facts {
            facts: result.environment.sysctls.clone().into_iter().collect(),
        });
    }
    Section {
        id: "environment".to_owned(),
        title: "Environment and how to repeat it".to_owned(),
        lead: String::new(),
        blocks,
        is_folded: false,
    }
}

/// The plan with every default.
pub(super) fn plan_section(result: &RunResult) -> Section {
    Section {
        id: "plan".to_owned(),
        title: "Plan".to_owned(),
        lead: "What was run, with every default filled in.".to_owned(),
        blocks: vec![Block::Facts {
            facts: plan_facts(&result.plan),
        }],
        is_folded: true,
    }
}

fn commands(run: &Observation, result: &RunResult) -> Vec<Block> {
    let code = |label: &str, words: &[String]| Block::Code {
        label: label.to_owned(),
        text: shell::command(words),
    };
    let typed = &result.environment.command_line;
    let is_sweep = is_of_sweep(run, result);
    let mut blocks = Vec::new();
    if !typed.is_empty() {
        let label = if is_sweep {
            "The sweep that this run is one of"
        } else {
            "To repeat it"
        };
        blocks.push(code(label, &with_seed(typed, &result.plan, is_sweep)));
    }
    if is_sweep || typed.is_empty() {
        let planned = command_of_plan(&result.plan);
        blocks.extend(planned.map(|words| {
            code(
                "The load alone, without a sweep's settings around it",
                &words,
            )
        }));
    }
    blocks
}

/// The command line that was typed, or where there is none the one that makes the same load.
pub(crate) fn command_to_repeat(run: &Observation, result: &RunResult) -> Option<String> {
    let typed = &result.environment.command_line;
    let is_sweep = is_of_sweep(run, result);
    if typed.is_empty() || is_sweep {
        return command_of_plan(&result.plan).map(|words| shell::command(&words));
    }
    Some(shell::command(&with_seed(typed, &result.plan, is_sweep)))
}

fn is_of_sweep(run: &Observation, result: &RunResult) -> bool {
    let typed = &result.environment.command_line;
    run.trial.is_some() || typed.get(1).is_some_and(|word| word == "sweep")
}

/// The command line with the seed that was drawn, if one was.
fn with_seed(typed: &[String], plan: &RunPlan, is_sweep: bool) -> Vec<String> {
    let mut words = typed.to_vec();
    let has_seed = words
        .iter()
        .any(|word| word == "--seed" || word.starts_with("--seed="));
    if let (Some(seed), false, false) = (plan.pacing.random_seed(), has_seed, is_sweep) {
        // Before anything that could end the options.
        let at = match words.get(1) {
            Some(word) if word == "run" => 2,
            _ => 1,
        };
        words.insert(at.min(words.len()), format!("--seed={seed}"));
    }
    words
}

/// The command that makes this load, with the seed; `None` if something in it is no text.
pub(crate) fn command_of_plan(plan: &RunPlan) -> Option<Vec<String>> {
    let RunPlan {
        target,
        load,
        pacing,
        stop,
        warmup,
        timeout,
        request,
        tls,
        backend,
        telemetry,
    } = plan;
    let mut words = vec!["wrkbench".to_owned(), "run".to_owned()];
    let mut add = |word: String| words.push(word);
    add(format!("-t{}", load.threads));
    add(format!("-c{}", load.connections));
    if let Some(duration) = stop.duration {
        add(format!("-d{}", units::time(duration)));
    }
    if let Some(requests) = stop.requests {
        add(format!("-n{requests}"));
    }
    match pacing {
        Pacing::Closed => {}
        Pacing::Constant { rate_per_sec, .. } => add(format!("-R{rate_per_sec}")),
        Pacing::Stages { stages, .. } => add(format!("--stages={}", Stage::list(stages))),
    }
    if let Some(seed) = pacing.random_seed() {
        add("--arrivals=poisson".to_owned());
        add(format!("--seed={seed}"));
    }
    if !warmup.is_zero() {
        add(format!("--warmup={}", units::time(*warmup)));
    }
    add(format!("-T{}", units::time(*timeout)));
    if load.pipeline > 1 {
        add(format!("--pipeline={}", load.pipeline));
    }
    if !load.keepalive {
        add("--no-keepalive".to_owned());
    }
    if let Some(requests) = load.requests_per_connection {
        add(format!("--requests-per-connection={requests}"));
    }
    if let Some(source) = &load.source {
        add(format!("--bind-ip={source}"));
    }
    if load.batch_latency {
        add("--batch_latency".to_owned());
    }
    if let Some(method) = &request.method {
        add(format!("--method={method}"));
    }
    for (name, value) in &request.headers {
        add(format!("--header={name}: {value}"));
    }
    match &request.body {
        None => {}
        Some(Body::Inline(bytes)) => {
            add(format!("--body={}", str::from_utf8(bytes).ok()?));
        }
        Some(Body::File(path)) => add(format!("--body-file={}", path.to_str()?)),
    }
    if let Some(script) = &request.script {
        add(format!("--script={}", script.to_str()?));
    }
    if let Some(path) = &target.unix_socket {
        add(format!("--unix-socket={}", path.to_str()?));
    }
    if tls.verify && tls.cacert.is_none() {
        add("--verify".to_owned());
    }
    for (option, path) in [
        ("--cacert", &tls.cacert),
        ("--cert", &tls.cert),
        ("--key", &tls.key),
    ] {
        if let Some(path) = path {
            add(format!("{option}={}", path.to_str()?));
        }
    }
    match backend {
        BackendChoice::Auto => {}
        BackendChoice::Uring => add("--io=uring".to_owned()),
        BackendChoice::Epoll => add("--io=epoll".to_owned()),
    }
    if let Some(wish) = telemetry {
        if let Some(filter) = &wish.sockets {
            add(format!("--sockets={filter}"));
        }
        if wish.counters {
            add("--counters".to_owned());
        }
        add(format!("--interval={}", units::time(wish.interval)));
    }
    add(target.url.clone());
    if !request.script_args.is_empty() {
        add("--".to_owned());
        words.extend(request.script_args.iter().cloned());
    }
    Some(words)
}

/// Facts of the machine and the program; what could not be found out is not there.
pub(crate) fn facts(environment: &Environment) -> Vec<(String, String)> {
    let Environment {
        wrkbench_version,
        command_line: _,
        started_at,
        hostname,
        kernel,
        cpu_model,
        cores,
        clocksource,
        sysctls: _,
    } = environment;
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push((name.to_owned(), value));
        }
    };
    fact("Started", started_at.as_deref().map(words::moment));
    fact("Machine", hostname.clone());
    fact("Kernel", kernel.clone());
    let cores = cores.map(|cores| words::counted(u64::from(cores), "CPU"));
    fact(
        "Processor",
        match (cpu_model, cores) {
            (Some(model), Some(cores)) => Some(format!("{model}, {cores}")),
            (model, cores) => model.clone().or(cores),
        },
    );
    fact("Clock source", clocksource.clone());
    fact("wrkbench", Some(wrkbench_version.clone()));
    facts
}

/// The facts of the environment, and those that only a run has.
fn own_facts(run: &Observation, result: &RunResult) -> Vec<(String, String)> {
    let mut all = facts(&result.environment);
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            all.push((name.to_owned(), value));
        }
    };
    let backend = &result.backend;
    fact(
        "Event loop",
        match backend.reason.as_str() {
            "" => backend.name.clone(),
            reason => format!("{} ({reason})", backend.name),
        },
    );
    let window = &result.window;
    let warmup = match window.warmup_ns {
        0 => String::new(),
        ns => format!(", after a warm-up of {}", words::duration_ns(ns)),
    };
    fact(
        "Window",
        format!("{}{warmup}", words::duration_ns(window.duration_ns)),
    );
    for setting in &run.settings {
        fact(&setting.factor, setting.level.clone());
    }
    if let Some(trial) = &run.trial {
        fact("Round of the sweep", trial.round.to_string());
        for (name, value) in &trial.effective {
            fact(&format!("{name}, as the kernel took it"), value.clone());
        }
    }
    fact("Result", run.source.clone());
    all
}

/// What was run.
pub(crate) fn plan_facts(plan: &RunPlan) -> Vec<(String, String)> {
    let RunPlan {
        target,
        load,
        pacing,
        stop,
        warmup,
        timeout,
        request,
        tls,
        backend,
        telemetry,
    } = plan;
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    let path = |path: &std::path::Path| path.display().to_string();
    let yes_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    fact("URL", target.url.clone());
    if let Some(socket) = &target.unix_socket {
        fact("Unix socket", path(socket));
    }
    fact("Threads", words::count(u64::from(load.threads)));
    fact("Connections", words::count(u64::from(load.connections)));
    fact("Requests in flight on each", load.pipeline.to_string());
    fact("Connections are kept", yes_no(load.keepalive));
    fact(
        "Requests per connection",
        load.requests_per_connection
            .map_or_else(|| "no limit".to_owned(), words::count),
    );
    fact(
        "Local addresses",
        load.source
            .as_ref()
            .map_or_else(|| "chosen by the kernel".to_owned(), ToString::to_string),
    );
    fact("Rate", rate(pacing));
    fact(
        "Ends",
        match (stop.duration, stop.requests) {
            (Some(duration), Some(requests)) => format!(
                "after {} or {}",
                units::time(duration),
                words::counted(requests, "request")
            ),
            (Some(duration), None) => format!("after {}", units::time(duration)),
            (None, Some(requests)) => format!("after {}", words::counted(requests, "request")),
            (None, None) => words::UNKNOWN.to_owned(),
        },
    );
    fact("Warm-up", units::time(*warmup));
    fact(
        "Timeout",
        if timeout.is_zero() {
            "none".to_owned()
        } else {
            units::time(*timeout)
        },
    );
    let has_body = request.body.is_some();
    fact(
        "Method",
        request
            .method
            .clone()
            .unwrap_or_else(|| if has_body { "POST" } else { "GET" }.to_owned()),
    );
    for (name, value) in &request.headers {
        fact(
            "Header",
            words::cut(&format!("{name}: {value}"), SHOWN_CHARS_MAX),
        );
    }
    match &request.body {
        None => {}
        Some(Body::File(file)) => fact("Body", format!("the file {}", path(file))),
        Some(Body::Inline(bytes)) => fact(
            "Body",
            words::cut(&String::from_utf8_lossy(bytes), SHOWN_CHARS_MAX),
        ),
    }
    if let Some(script) = &request.script {
        fact("Script", path(script));
        if !request.script_args.is_empty() {
            let arguments = shell::command(&request.script_args);
            fact("Its arguments", words::cut(&arguments, SHOWN_CHARS_MAX));
        }
    }
    if target.scheme == Scheme::Https {
        fact("Certificate must be valid", yes_no(tls.verify));
        for (name, file) in [
            ("Trusted authorities", &tls.cacert),
            ("Our certificate", &tls.cert),
            ("Its key", &tls.key),
        ] {
            if let Some(file) = file {
                fact(name, path(file));
            }
        }
    }
    fact(
        "Event loop asked for",
        match backend {
            BackendChoice::Auto => "the one that is faster here",
            BackendChoice::Uring => "io_uring",
            BackendChoice::Epoll => "epoll",
        }
        .to_owned(),
    );
    fact(
        "Telemetry",
        match telemetry {
            None => "none".to_owned(),
            Some(wish) => {
                let sockets = match wish.sockets.as_deref() {
                    None => "no sockets".to_owned(),
                    Some("") => format!("all sockets every {}", units::time(wish.interval)),
                    Some(filter) => {
                        format!(
                            "sockets where {filter} every {}",
                            units::time(wish.interval)
                        )
                    }
                };
                let counters = if wish.counters { ", counters" } else { "" };
                format!("{sockets}{counters}")
            }
        },
    );
    facts
}

fn rate(pacing: &Pacing) -> String {
    let spread = |arrivals: Arrivals, seed: u64| match arrivals {
        Arrivals::Even => "evenly spread".to_owned(),
        Arrivals::Poisson => format!("Poisson arrivals, seed {seed}"),
    };
    match pacing {
        Pacing::Closed => "none: a closed loop".to_owned(),
        Pacing::Constant {
            rate_per_sec,
            arrivals,
            seed,
        } => format!(
            "{} requests/s, {}",
            words::number(*rate_per_sec),
            spread(*arrivals, *seed)
        ),
        Pacing::Stages {
            stages,
            arrivals,
            seed,
        } => format!(
            "{}, {}",
            words::cut(&Stage::list(stages), SHOWN_CHARS_MAX),
            spread(*arrivals, *seed)
        ),
    }
}
