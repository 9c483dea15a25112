//! A fleet on one machine: a bus, and agents as processes or threads of this one.

#![allow(
    clippy::disallowed_methods,
    reason = "it waits for its own processes, which report nothing"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cluster::bus::{Hub, Login, NatsOptions};
use cluster::coordinator::OnLost;
use cluster::folder::{PrivateFolder, write_private};
use cluster::limits::Limits;
use cluster::names::{AgentId, FleetName, Label};
use cluster::signing::{PublicKey, SigningKey, TrustList};
use cluster::targets::Targets;
use outputs::Observers;
use serde::Deserialize;

use crate::agent::{AgentOptions, serve};
use crate::coordinator::{Coordinator, FleetError, FleetOptions};
use crate::load::LoadCommand;
use crate::{clock, random};

/// How long nats-server may take to listen. A busy machine needs a second.
const SERVER_LIMIT: Duration = Duration::from_secs(20);

/// How long a process may take to end after its stdin was closed.
const END_LIMIT: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(10);

/// Runs nats-server until stdin is closed, which also happens when this process is killed. Exits
/// with 127 if there is none, as a shell does. Debian installs it where users do not search.
const SERVER_SCRIPT: &str = r#"PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
command -v nats-server >/dev/null || exit 127
nats-server -c "$1" >"$2" 2>&1 &
server=$!
cat >/dev/null
kill "$server"
wait "$server"
"#;

/// The place of all agents of a local fleet.
const PLACE: &str = "local";

/// A fleet on this machine. Its agents end when it is dropped.
pub struct LocalFleet {
    coordinator: Option<Coordinator>,
    // Dropped in this order: agents before their server.
    agents: Agents,
    _server: Option<Process>,
    _folder: PrivateFolder,
}

/// A child that ends when its stdin is closed.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
}

enum Agents {
    Processes {
        _all: Vec<Process>,
    },
    Threads {
        stopped: Arc<AtomicBool>,
        all: Vec<JoinHandle<()>>,
    },
}

impl LocalFleet {
    /// Starts agents: as processes of `program` with a nats-server, if there is one, otherwise as
    /// threads of this process, which start the processes of their loads with `load`.
    ///
    /// # Errors
    /// If something could not be started; the message is one line.
    pub fn start(
        count: usize,
        program: &Path,
        load: LoadCommand,
        on_lost: OnLost,
    ) -> Result<Self, FleetError> {
        let mut bytes = random();
        let folder = PrivateFolder::new(&std::env::temp_dir(), &mut bytes)
            .map_err(|error| failed("a private folder", &error))?;
        let key = SigningKey::generate(&mut bytes);
        let options = FleetOptions {
            fleet: FleetName::random(&mut bytes),
            key,
            on_lost,
        };
        let users = SigningKey::generate(&mut bytes);
        match start_server(&folder, &users)? {
            Some((server, nats)) => {
                let agents = (1..=count)
                    .map(|number| start_agent(program, number, &options, &nats.servers, &folder))
                    .collect::<Result<_, _>>()?;
                Ok(Self {
                    coordinator: Some(Coordinator::connect(nats, options)?),
                    agents: Agents::Processes { _all: agents },
                    _server: Some(server),
                    _folder: folder,
                })
            }
            None => {
                let hub = Hub::new(clock());
                let agents = start_threads(count, &options, &hub, folder.path(), load)?;
                Ok(Self {
                    coordinator: Some(Coordinator::on(Arc::new(hub), options)),
                    agents,
                    _server: None,
                    _folder: folder,
                })
            }
        }
    }

    /// The names of the agents of a local fleet.
    ///
    /// # Panics
    /// Never: they are names.
    #[must_use]
    pub fn agents(count: usize) -> Vec<AgentId> {
        let names = (1..=count).map(|number| name(number).parse());
        names.map(|name| name.expect("it is a name")).collect()
    }

    /// The coordinator of these agents.
    ///
    /// # Panics
    /// Never: it is there until this value is dropped.
    #[must_use]
    pub fn coordinator(&self) -> &Coordinator {
        self.coordinator.as_ref().expect("it is not being dropped")
    }

    /// The name of what carries the messages, for the user.
    #[must_use]
    pub fn bus(&self) -> &'static str {
        match self.agents {
            Agents::Processes { .. } => "nats-server",
            Agents::Threads { .. } => "this process (nats-server is not installed)",
        }
    }
}

impl Drop for LocalFleet {
    fn drop(&mut self) {
        // Its last messages must reach the server.
        self.coordinator = None;
        if let Agents::Threads { stopped, all } = &mut self.agents {
            stopped.store(true, Ordering::Relaxed);
            for agent in all.drain(..) {
                // A panic was reported already.
                let _ = agent.join();
            }
        }
    }
}

impl Process {
    /// Starts it in a process group of its own: Ctrl-C is for the coordinator, which still needs
    /// the results of its agents and the server between them.
    fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        let stdin = child.stdin.take();
        Ok(Self { child, stdin })
    }

    /// Whether it ends in time.
    fn ends_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Ok(None) | Err(_) => return false,
                Ok(Some(_)) => return true,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stdin = None;
        if !self.ends_within(END_LIMIT) {
            // It has ended in the meantime, or does so now.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> FleetError {
    FleetError::Local(format!("--local: cannot start {what}: {error}"))
}

/// The file that nats-server writes into its folder once it listens.
#[derive(Deserialize)]
struct Ports {
    nats: Vec<String>,
}

/// Starts a server that only holders of the key can use. `None` if none is installed.
fn start_server(
    folder: &PrivateFolder,
    users: &SigningKey,
) -> Result<Option<(Process, NatsOptions)>, FleetError> {
    let what = "nats-server";
    let path = folder.path();
    let configuration = format!(
        "listen: \"127.0.0.1:-1\"\nports_file_dir: \"{}\"\n\
         authorization {{ users: [ {{ nkey: {} }} ] }}\n",
        path.display(),
        users.public()
    );
    let file = path.join("nats.conf");
    write_private(&file, configuration.as_bytes()).map_err(|error| failed(what, &error))?;
    let seed = seed_file(folder);
    write_private(&seed, users.seed().as_bytes()).map_err(|error| failed(what, &error))?;
    let log = path.join("nats.log");
    let spawned = Process::spawn(
        Command::new("sh")
            .args(["-c", SERVER_SCRIPT, what])
            .args([&file, &log])
            .stdout(Stdio::null()),
    );
    let mut server = match spawned {
        Ok(server) => server,
        // A container without a shell has no nats-server either.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(what, &error)),
    };
    let deadline = Instant::now() + SERVER_LIMIT;
    loop {
        if let Some(servers) = ports(path) {
            let nats = NatsOptions {
                servers,
                login: Login::Seed(users.seed()),
                name: "wrkbench fleet --local".to_owned(),
                ..NatsOptions::default()
            };
            return Ok(Some((server, nats)));
        }
        if let Ok(Some(status)) = server.child.try_wait() {
            return match status.code() {
                Some(127) => Ok(None),
                _ => Err(failed(what, &status)),
            };
        }
        if Instant::now() >= deadline {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            let last = log.lines().last().unwrap_or("it does not listen");
            return Err(failed(what, &last));
        }
        std::thread::sleep(PAUSE);
    }
}

fn seed_file(folder: &PrivateFolder) -> PathBuf {
    folder.path().join("nats.seed")
}

/// The address in the server's file of ports, once it is complete.
fn ports(folder: &Path) -> Option<String> {
    let files = std::fs::read_dir(folder).ok()?;
    let is_ports = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "ports")
    };
    let file = files
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(is_ports)?;
    let ports: Ports = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    ports.nats.into_iter().next()
}

fn name(number: usize) -> String {
    format!("local-{number}")
}

fn start_agent(
    program: &Path,
    number: usize,
    options: &FleetOptions,
    servers: &str,
    folder: &PrivateFolder,
) -> Result<Process, FleetError> {
    let trust = options.key.public().to_string();
    let mut command = Command::new(program);
    command
        .args(["agent", "--quiet", "--until-eof", "--nats", servers])
        .arg("--nats-seed")
        .arg(seed_file(folder))
        .args(["--fleet-name", options.fleet.as_str(), "--trust", &trust])
        .args(["--name", &name(number), "--place", PLACE]);
    Process::spawn(&mut command).map_err(|error| failed("an agent", &error))
}

fn start_threads(
    count: usize,
    options: &FleetOptions,
    hub: &Hub,
    files: &Path,
    load: LoadCommand,
) -> Result<Agents, FleetError> {
    let stopped = Arc::new(AtomicBool::new(false));
    let start = |number| {
        let agent: AgentId = name(number)
            .parse()
            .map_err(|error| failed("an agent", &error))?;
        let trusted: PublicKey = options.key.public();
        let agent_options = AgentOptions {
            fleet: options.fleet.clone(),
            agent,
            place: Label::new(PLACE),
            trust: TrustList::new(vec![trusted]),
            scripts: true,
            targets: Targets::default(),
            weight: plan::Weight::default(),
            limits: Limits::default(),
            files: files.to_owned(),
            load,
        };
        let (hub, stopped) = (hub.clone(), Arc::clone(&stopped));
        let body = move || {
            // The hub cannot be closed.
            let _ = serve(agent_options, Observers::default(), &hub, &stopped);
        };
        std::thread::Builder::new()
            .name(name(number))
            .spawn(body)
            .map_err(|error| failed("an agent", &error))
    };
    let all = (1..=count).map(start).collect::<Result<_, FleetError>>()?;
    Ok(Agents::Threads { stopped, all })
}
