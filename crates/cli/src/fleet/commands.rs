//! `wrkbench agent` and `wrkbench fleet`, and what a run needs of a fleet.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::outputs::{Observers, Output};
use anyhow::{Context, bail};
use fleet::{
    AgentId, AgentOptions, AgentStatus, Bus, Coordinator, FetchedRun, FleetOptions, Label, Limits,
    LinkListener, LinkNews, LocalFleet, Login, Nats, NatsOptions, Number, OnLost, Present,
    RECONNECT_DELAY, RunId, SigningKey, StoppedRun, TrustList, clock, random,
};
use plan::readable::{count, time_ns};
use plan::secrets::hide_secrets;
use report::TextOptions;

use super::args::{AgentArgs, FleetCommand, FleetCommandRequest, FleetRequest, FleetSource};
use super::options::{LinkArgs, LoginArgs};
use crate::args::{Companion, JsonTarget, OutputOptions, Style};
use crate::commands::interrupts::Interrupts;
use crate::commands::run::{deliver, tell_after};
use crate::commands::{outputs, print, restore, result_file};
use crate::console::Console;

/// The connection to the agents of a run.
pub(crate) enum FleetLink {
    Nats(Box<Coordinator>),
    Local(Box<LocalFleet>),
}

impl FleetLink {
    /// Connects to the agents, or starts those of this machine.
    ///
    /// # Errors
    /// When a file cannot be read, or there is no connection.
    pub(crate) fn open(request: &FleetRequest, console: &Console) -> anyhow::Result<Self> {
        match &request.source {
            FleetSource::Nats { servers, link } => {
                let LinkArgs {
                    fleet_name,
                    fleet_key,
                    login,
                } = link;
                let options = FleetOptions {
                    fleet: fleet_name.clone(),
                    key: read_key(fleet_key.as_deref(), console)?,
                    on_lost: request.on_lost,
                };
                let nats = nats(servers, login, "wrkbench coordinator")?;
                Ok(Self::Nats(Box::new(Coordinator::connect(nats, options)?)))
            }
            FleetSource::Local { agents } => {
                // This program, even if its file was replaced or removed meanwhile.
                let program = Path::new("/proc/self/exe");
                let local = LocalFleet::start(*agents, program, load_command, request.on_lost)?;
                Ok(Self::Local(Box::new(local)))
            }
        }
    }

    pub(crate) fn coordinator(&self) -> &Coordinator {
        match self {
            Self::Nats(coordinator) => coordinator,
            Self::Local(local) => local.coordinator(),
        }
    }

    /// What the user should know about a run with this name. One that is made by agents of this
    /// machine ends with this process.
    pub(crate) fn note(&self, run: Option<&str>) -> Option<String> {
        match self {
            Self::Nats(_) => run.map(|run| {
                format!(
                    "the run is {run}; if this process dies, wrkbench fleet fetch gets the results"
                )
            }),
            Self::Local(local) => Some(format!("messages go through {}", local.bus())),
        }
    }
}

/// Carries out a command about fleets.
///
/// # Errors
/// As for each of them.
pub(crate) fn perform(
    request: &FleetCommandRequest,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    match request {
        FleetCommandRequest::Agent(arguments) => agent(arguments, console),
        FleetCommandRequest::Fleet(command) => fleet(command, console),
    }
}

/// Serves coordinators until a signal.
///
/// # Errors
/// When a file cannot be read, or signals cannot be watched.
fn agent(arguments: &AgentArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let machine = runner::environment(&runner::Invocation::default());
    let host = machine.hostname.as_deref().unwrap_or("agent");
    let options = AgentOptions {
        fleet: arguments.fleet_name.clone(),
        agent: arguments
            .name
            .clone()
            .map_or_else(|| agent_name(host), Ok)?,
        place: Label::new(arguments.place.as_deref().unwrap_or(host)),
        trust: trust_list(&arguments.trust)?,
        scripts: !arguments.no_scripts,
        targets: arguments.targets.clone(),
        weight: arguments.weight,
        limits: Limits {
            rate_per_sec: arguments.max_rate,
            connections: arguments.max_connections,
            duration: arguments.max_duration,
        },
        files: std::env::temp_dir(),
        load: load_command,
    };
    let mut followers: Vec<Box<dyn Output>> = Vec::new();
    if let Some(address) = &arguments.prometheus {
        followers.push(Box::new(outputs::prometheus(address)?));
    }
    outputs::tell_notes(&followers, arguments.quiet, console);
    let observers = Observers::new(followers);
    let interrupts = Interrupts::watch(console).context("cannot watch for Ctrl-C")?;
    if arguments.until_eof {
        end_with_stdin(interrupts.stop.clone())?;
    }
    let connection = format!("wrkbench agent {}", options.agent);
    let nats = NatsOptions {
        listener: Some(link_listener(arguments, &options, console)),
        ..nats(&arguments.nats, &arguments.login, &connection)?
    };
    let bus = Nats::connect(nats, clock())?;
    if arguments.allow_changes {
        serve_changes(arguments, &options, &bus, &interrupts.stop, console)?;
    } else {
        fleet::serve(options, observers, &bus, &interrupts.stop)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells whether the agent can get orders.
fn link_listener(arguments: &AgentArgs, options: &AgentOptions, console: &Console) -> LinkListener {
    let (quiet, console) = (arguments.quiet, console.clone());
    let servers = hide_secrets(&arguments.nats);
    let agent = format!("agent {} at {}", options.agent, options.place);
    let fleet = options.fleet.clone();
    Arc::new(move |news| match news {
        _ if quiet => {}
        LinkNews::Connected => console.tell(format_args!(
            "{agent} waits for orders of the fleet {fleet} through {servers}"
        )),
        LinkNews::Disconnected(reason) => console.tell(format_args!(
            "{agent} has no connection to {servers}: {reason}; it tries again every {}",
            time_ns(RECONNECT_DELAY.as_nanos() as u64)
        )),
    })
}

/// Starts the process that makes the load of a run.
fn load_command(folder: &Path) -> Command {
    Companion::LoadProcess.command(folder)
}

/// Serves sweeps that change this machine, until a signal.
fn serve_changes(
    arguments: &AgentArgs,
    options: &AgentOptions,
    bus: &dyn Bus,
    stop: &AtomicBool,
    console: &Console,
) -> anyhow::Result<()> {
    let journal = restore::journal_folder(
        arguments.journal.as_deref(),
        &restore::quiet_machine(),
        console,
    )?;
    let mut tell_news = |line: &str| {
        if !arguments.quiet {
            console.tell(line);
        }
    };
    let deputy = Companion::HostDeputy.command(&journal);
    Ok(fleet::serve_changes(
        options,
        bus,
        deputy,
        stop,
        &mut tell_news,
    )?)
}

/// The name of a machine as the name of an agent.
fn agent_name(host: &str) -> anyhow::Result<AgentId> {
    let may = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = host
        .chars()
        .map(|c| if may(c) { c } else { '-' })
        .take(64)
        .collect();
    name.parse()
        .with_context(|| "the machine's name cannot be used; give the agent one with --name")
}

/// Sets the flag when stdin is closed.
fn end_with_stdin(stop: Arc<AtomicBool>) -> anyhow::Result<()> {
    let body = move || {
        // An error is an end as well.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        stop.store(true, Ordering::Relaxed);
    };
    let thread = std::thread::Builder::new().name("stdin".to_owned());
    thread.spawn(body).context("cannot start a thread")?;
    Ok(())
}

/// `wrkbench fleet`.
///
/// # Errors
/// As for each of its commands.
fn fleet(command: &FleetCommand, console: &Console) -> anyhow::Result<ExitCode> {
    match command {
        FleetCommand::Status {
            servers,
            link,
            agents,
        } => status(servers, link, *agents, console),
        FleetCommand::Fetch {
            servers,
            link,
            run,
            json,
        } => fetch(servers, link, run, json.as_ref(), console),
        FleetCommand::Stop { servers, link, run } => stop(servers, link, run, console),
        FleetCommand::Key { file } => key(file.as_deref(), console),
    }
}

/// Connects to a fleet to give it orders.
fn commander(
    servers: &str,
    link: &LinkArgs,
    name: &str,
    console: &Console,
) -> anyhow::Result<Coordinator> {
    let options = FleetOptions {
        fleet: link.fleet_name.clone(),
        key: read_key(link.fleet_key.as_deref(), console)?,
        on_lost: OnLost::default(),
    };
    let nats = nats(servers, &link.login, name)?;
    Ok(Coordinator::connect(nats, options)?)
}

/// Prints and saves the results of a run whose coordinator is gone, as that would have done.
///
/// # Errors
/// When there is no connection, no agent has a result, or it cannot be written.
fn fetch(
    servers: &str,
    link: &LinkArgs,
    run: &RunId,
    json: Option<&JsonTarget>,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    if let Some(JsonTarget::File(path)) = json {
        result_file::check_destination("--json", path)?;
    }
    let coordinator = commander(servers, link, "wrkbench fleet fetch", console)?;
    let FetchedRun {
        run: mut finished,
        keeps_secrets,
    } = coordinator.fetch(run)?;
    let options = OutputOptions {
        style: if finished.result.plan.pacing.is_open() {
            Style::Wrk2
        } else {
            Style::Wrk
        },
        text: TextOptions {
            plain_if_empty: true,
            ..TextOptions::default()
        },
        json: json.cloned(),
        keep_secrets: keeps_secrets,
        ..OutputOptions::default()
    };
    let mut output = &console.stdout;
    if options.json != Some(JsonTarget::Stdout) {
        output.write_all(report::text::banner(&finished.result.plan).as_bytes())?;
    }
    // No signal is caught.
    let never = AtomicBool::new(false);
    let delivered = deliver(&mut finished, &options, &mut output, &never);
    let code = tell_after(&mut finished, &options, false, console);
    delivered?;
    Ok(ExitCode::from(code))
}

/// Ends the load of a run. The exit code is 1 if an agent goes on.
///
/// # Errors
/// When there is no connection, or no agent knows the run.
fn stop(
    servers: &str,
    link: &LinkArgs,
    run: &RunId,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let coordinator = commander(servers, link, "wrkbench fleet stop", console)?;
    let StoppedRun {
        stopped,
        ended,
        failures,
    } = coordinator.stop(run)?;
    let mut text = String::new();
    for (agents, what) in [(&stopped, "stopped"), (&ended, "had ended before")] {
        if !agents.is_empty() {
            let names: Vec<&str> = agents.iter().map(AgentId::as_str).collect();
            text += &format!("{what}: {}\n", names.join(", "));
        }
    }
    print(text.as_bytes(), console)?;
    for failure in &failures {
        console.tell(failure);
    }
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

/// Lists the agents of a fleet. The exit code is 1 if they cannot be used together.
///
/// # Errors
/// When there is no connection, or stdout cannot be written.
fn status(
    servers: &str,
    link: &LinkArgs,
    wanted: Option<u32>,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let nats = nats(servers, &link.login, "wrkbench fleet status")?;
    let options = FleetOptions {
        fleet: link.fleet_name.clone(),
        // It orders nothing.
        key: SigningKey::generate(&mut random()),
        on_lost: OnLost::default(),
    };
    let coordinator = Coordinator::connect(nats, options)?;
    let number = wanted.map(|agents| Number::Total(agents as usize));
    let (agents, problem) = coordinator.status(number.unwrap_or_default().into())?;
    let hosts = coordinator.call_hosts()?;
    if agents.is_empty() && hosts.is_empty() && problem.is_none() {
        bail!("no agent of the fleet {} responds", link.fleet_name);
    }
    let table = status_table(&agents, &hosts);
    let runs = runs_of_agents(agents.iter().map(|it| &it.present).chain(&hosts));
    print((table + &runs).as_bytes(), console)?;
    let missing = wanted.filter(|wanted| agents.len() < *wanted as usize);
    if let Some(wanted) = missing {
        let there = count(agents.len() as u64);
        console.tell(format_args!("{there} of {wanted} agents respond"));
    }
    if let Some(problem) = &problem {
        console.tell(problem);
    }
    Ok(ExitCode::from(u8::from(
        problem.is_some() || missing.is_some(),
    )))
}

fn status_table(agents: &[AgentStatus], hosts: &[Present]) -> String {
    let state = |present: &Present| match &present.hello.busy {
        Some(_) => "busy".to_owned(),
        None => "ready".to_owned(),
    };
    let header = [
        "agent", "place", "host", "version", "cores", "weight", "clock", "state", "refuses",
    ];
    let rows = agents.iter().map(|agent| {
        let hello = &agent.present.hello;
        let clock = agent.clock_bound_ns.map_or_else(
            || "unknown".to_owned(),
            |bound_ns| format!("+- {}", time_ns(bound_ns)),
        );
        let mut refuses = Vec::new();
        if !hello.scripts {
            refuses.push("scripts".to_owned());
        }
        if !hello.targets.is_empty() {
            let targets: Vec<String> = hello.targets.iter().map(ToString::to_string).collect();
            refuses.push(format!("targets but {}", targets.join(",")));
        }
        refuses.extend(hello.limits.iter().map(ToString::to_string));
        [
            agent.present.agent.to_string(),
            hello.place.to_string(),
            hello.machine.to_string(),
            agent.present.version.to_string(),
            hello.cores.to_string(),
            hello.weight.to_string(),
            clock,
            state(&agent.present),
            refuses.join("; "),
        ]
    });
    let hosts = hosts.iter().map(|host| {
        [
            host.agent.to_string(),
            host.hello.place.to_string(),
            host.hello.machine.to_string(),
            host.version.to_string(),
            String::new(),
            String::new(),
            String::new(),
            state(host),
            "load".to_owned(),
        ]
    });
    let rows: Vec<[String; 9]> = std::iter::once(header.map(str::to_owned))
        .chain(rows)
        .chain(hosts)
        .collect();
    let mut widths = [0; 9];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; 9]| {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// The runs that agents are busy with, and those whose results they keep, one line each behind an
/// empty one; nothing without any.
fn runs_of_agents<'a>(present: impl Iterator<Item = &'a Present>) -> String {
    const BUSY: [&str; 2] = ["makes", "make"];
    const KEPT: [&str; 2] = ["keeps the result of", "keep the result of"];
    let mut runs: Vec<([&str; 2], &RunId, String, Vec<&str>)> = Vec::new();
    for present in present {
        let agent = present.agent.as_str();
        let busy = present.hello.busy.iter();
        let busy = busy.map(|busy| (BUSY, &busy.run, busy.to_string()));
        let kept = present.hello.kept.iter();
        let kept = kept.map(|kept| (KEPT, &kept.run, kept.to_string()));
        for (does, run, told) in busy.chain(kept) {
            match runs.iter_mut().find(|it| (it.0, it.1) == (does, run)) {
                Some((.., agents)) => agents.push(agent),
                None => runs.push((does, run, told, vec![agent])),
            }
        }
    }
    runs.sort_by_key(|(does, ..)| *does == KEPT);
    let lines = runs.iter().map(|([one, many], _, told, agents)| {
        let does = if agents.len() == 1 { one } else { many };
        format!("{} {does} {told}\n", agents.join(", "))
    });
    let lines: String = lines.collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}

/// Prints the public key of a file, which is made if it does not exist.
///
/// # Errors
/// When the file cannot be read or written, or is not a key.
fn key(file: Option<&Path>, console: &Console) -> anyhow::Result<ExitCode> {
    let path = key_path(file, console)?;
    let public = if path.exists() {
        read_key(Some(&path), console)?.public()
    } else {
        let cannot = || format!("{}: cannot be written", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(cannot)?;
        }
        let public = fleet::write_new_key(&path, &mut random()).with_context(cannot)?;
        console.tell(format_args!("{}: new key; keep it secret", path.display()));
        public
    };
    print(format!("{public}\n").as_bytes(), console)
}

fn key_path(given: Option<&Path>, console: &Console) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let folder = |name: &str| console.variable(name).filter(|value| !value.is_empty());
    let configuration = folder("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(folder("HOME")?).join(".config")));
    let configuration =
        configuration.context("HOME is not set: give the file of the key (--fleet-key FILE)")?;
    Ok(configuration.join("wrkbench/fleet.key"))
}

fn read_key(given: Option<&Path>, console: &Console) -> anyhow::Result<SigningKey> {
    let path = key_path(given, console)?;
    let text = files::read_text(&path, files::SMALL_FILE_BYTES).with_context(|| {
        let path = path.display();
        format!("--fleet-key {path}: cannot be read; make a key with: wrkbench fleet key {path}")
    })?;
    SigningKey::from_seed(&text).with_context(|| format!("--fleet-key {}", path.display()))
}

/// Keys with commas between them, or the keys in the lines of a file.
fn trust_list(text: &str) -> anyhow::Result<TrustList> {
    let is_file = text.contains('/') || Path::new(text).is_file();
    let list = if is_file {
        files::read_text(Path::new(text), files::SMALL_FILE_BYTES)
            .with_context(|| format!("--trust {text}: cannot be read"))?
    } else {
        text.replace(',', "\n")
    };
    let lines = list.lines().map(str::trim);
    let keys = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.parse().with_context(|| "--trust"))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if keys.is_empty() {
        bail!("--trust {text}: has no key, so no order would be obeyed");
    }
    Ok(TrustList::new(keys))
}

fn nats(servers: &str, login: &LoginArgs, name: &str) -> anyhow::Result<NatsOptions> {
    let read = |option: &str, path: &Path| {
        files::read_text(path, files::SMALL_FILE_BYTES)
            .with_context(|| format!("{option} {}: cannot be read", path.display()))
    };
    let LoginArgs {
        nats_seed,
        nats_creds,
        nats_ca,
        nats_cert,
        nats_key,
    } = login;
    // The library of NATS reads them, without a limit, and when the connection is made.
    for (option, path) in [
        ("--nats-ca", nats_ca),
        ("--nats-cert", nats_cert),
        ("--nats-key", nats_key),
    ] {
        if let Some(path) = path {
            files::read_regular(path, files::SMALL_FILE_BYTES)
                .with_context(|| format!("{option} {}: cannot be read", path.display()))?;
        }
    }
    Ok(NatsOptions {
        servers: servers.to_owned(),
        login: match (nats_seed, nats_creds) {
            (Some(path), _) => Login::Seed(read("--nats-seed", path)?),
            (None, Some(path)) => Login::Credentials(read("--nats-creds", path)?),
            (None, None) => Login::Address,
        },
        cacert: nats_ca.clone(),
        cert_and_key: nats_cert.clone().zip(nats_key.clone()),
        name: name.to_owned(),
        listener: None,
    })
}
