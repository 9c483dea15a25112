//! Machines in network namespaces, joined by a bridge. The hub has a NATS server; others are
//! agents, targets, and the machine of the coordinator. Each may have a clock of its own.
//!
//! All of it ends with the test. Only root can make it.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::process::Command;

use results::RunResult;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use testkit::{Folder, Output, Process, eventually, is_root, require, require_ok, send_signal};

/// Of the machines: the hub is 10.77.0.1, the next one 10.77.0.2.
const NETWORK: &str = "10.77.0";

/// The network and its hub.
pub(crate) struct Network {
    pub(crate) folder: Folder,
    pub(crate) hub: Machine,
    machines: Cell<u8>,
}

/// Network, clock and processes of a machine; the files are those of all.
pub(crate) struct Machine {
    /// Its process keeps the namespaces alive.
    _keeper: Process,
    /// The process that is in them.
    id: String,
    pub(crate) address: String,
    /// The other end of its cable, at the hub.
    cable: String,
}

impl Network {
    /// A network with a hub. `None`: the test is skipped.
    pub(crate) fn new() -> Option<Self> {
        let root = is_root().then_some(());
        require_ok("root", root.ok_or("only root can join namespaces"))?;
        require("ip")?;
        let hub = require_ok("namespaces", Machine::new(1, 0))?;
        // With an address of its own: a bridge without one takes the lowest address of its cables,
        // and the hub is gone for all when the machine of that cable goes.
        let bridge = "link add br0 address 02:00:0a:4d:00:01 type bridge";
        run(hub.inside("ip").args(bridge.split(' ')));
        let address = format!("address add {NETWORK}.1/24 dev br0");
        run(hub.inside("ip").args(address.split(' ')));
        run(hub.inside("ip").args("link set br0 up".split(' ')));
        Some(Self {
            folder: Folder::for_all_users(),
            hub,
            machines: Cell::new(1),
        })
    }

    /// One more machine, whose CLOCK_MONOTONIC is ahead of that of this machine.
    pub(crate) fn machine(&self, ahead_s: u32) -> Machine {
        let number = self.machines.get() + 1;
        self.machines.set(number);
        let machine = Machine::new(number, ahead_s).unwrap();
        let (cable, address) = (&machine.cable, &machine.address);
        let add = format!(
            "link add {cable} type veth peer name eth0 netns {}",
            machine.id
        );
        run(self.hub.inside("ip").args(add.split(' ')));
        let connect = format!("link set {cable} master br0 up");
        run(self.hub.inside("ip").args(connect.split(' ')));
        let own = format!("address add {address}/24 dev eth0");
        run(machine.inside("ip").args(own.split(' ')));
        run(machine.inside("ip").args("link set eth0 up".split(' ')));
        machine
    }

    /// Limits the rate of what comes to a machine.
    pub(crate) fn limit(&self, machine: &Machine, rate: &str) {
        let limit = format!(
            "qdisc add dev {} root tbf rate {rate} burst 64k latency 200ms",
            machine.cable
        );
        run(self.hub.inside("tc").args(limit.split(' ')));
    }

    /// Cuts the cable of a machine, or mends it.
    pub(crate) fn set_link(&self, machine: &Machine, is_up: bool) {
        let state = if is_up { "up" } else { "down" };
        let mut ip = self.hub.inside("ip");
        run(ip.args(["link", "set", &machine.cable, state]));
    }
}

impl Machine {
    fn new(number: u8, ahead_s: u32) -> Result<Self, String> {
        let ahead = ahead_s.to_string();
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--net",
            "--time",
            "--monotonic",
            &ahead,
            "--boottime",
            &ahead,
        ]);
        unshare.args(["--fork", "--kill-child", "sh", "-c"]);
        unshare.arg("ip link set lo up && echo $$ && exec sleep infinity");
        let mut keeper = Process::start(unshare);
        match keeper.next_line() {
            Some(id) => Ok(Self {
                _keeper: keeper,
                id: id.trim().to_owned(),
                address: format!("{NETWORK}.{number}"),
                cable: format!("cable{number}"),
            }),
            None => Err(format!("unshare: {}", keeper.finish().stderr.trim())),
        }
    }

    /// A program on this machine.
    pub(crate) fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.id, "--net", "--time", "--", program]);
        command
    }

    /// wrkbench on this machine.
    pub(crate) fn wrkbench(&self, arguments: &[&str]) -> Command {
        let mut command = self.inside(env!("CARGO_BIN_EXE_wrkbench"));
        command.args(arguments);
        command
    }

    /// A connection from this machine.
    pub(crate) fn connect(&self, address: &str) -> TcpStream {
        let namespace = std::fs::File::open(format!("/proc/{}/ns/net", self.id)).unwrap();
        let address = address.to_owned();
        let thread = std::thread::spawn(move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            TcpStream::connect(address).unwrap()
        });
        thread.join().unwrap()
    }
}

impl Drop for Machine {
    /// Kills what is still running in its network: children of servers outlive a server that was
    /// killed.
    fn drop(&mut self) {
        let network = |id: &str| std::fs::read_link(format!("/proc/{id}/ns/net")).ok();
        let own = network(&self.id).filter(|own| network("self").as_ref() != Some(own));
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let id = entry.file_name().into_string().unwrap_or_default();
            let is_process = id.bytes().all(|byte| byte.is_ascii_digit());
            if is_process && own.is_some() && network(&id) == own {
                let _ = send_signal("KILL", &id);
            }
        }
    }
}

/// Runs a command to its end; it must succeed.
pub(crate) fn run(command: &mut Command) -> Output {
    let shown = format!("{command:?}");
    let output = Process::start(std::mem::replace(command, Command::new("true"))).finish();
    assert_eq!(output.code, Some(0), "{shown}: {output:?}");
    output
}

/// The NATS server at the hub.
pub(crate) struct Hub {
    pub(crate) process: Process,
    _folder: Folder,
}

impl Hub {
    pub(crate) const URL: &str = "nats://10.77.0.1:4222";
    const LISTENS: &str = "10.77.0.1:4222";

    pub(crate) fn start(machine: &Machine) -> Option<Self> {
        let program = require("nats-server")?;
        let folder = Folder::new();
        let mut command = machine.inside(program.to_str().unwrap());
        command.args(["--addr", "10.77.0.1", "--port", "4222"]);
        command.args(["--ports_file_dir", &folder.file("")]);
        let process = Process::start(command);
        let is_there = || folder.names().iter().any(|name| name.ends_with(".ports"));
        eventually(|| {
            is_there()
                .then_some(())
                .ok_or_else(|| "it listens".to_owned())
        });
        Some(Self {
            process,
            _folder: folder,
        })
    }
}

/// The built-in server on a machine of its own, with a log.
pub(crate) struct Target {
    pub(crate) machine: Machine,
    process: Process,
    log: String,
    pub(crate) url: String,
}

impl Target {
    fn start(network: &Network) -> Self {
        let machine = network.machine(0);
        let log = network.folder.file("arrivals.csv");
        let listen = format!("{}:8080", machine.address);
        let options = ["serve", "--listen", &listen, "--io", "epoll", "--log", &log];
        let mut process = Process::start(machine.wrkbench(&options));
        process.await_line(|line| line.starts_with("serving "));
        Self {
            url: format!("http://{listen}/"),
            machine,
            process,
            log,
        }
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Requests that have arrived so far.
    pub(crate) fn arrived(&self) -> u64 {
        let mut stream = self
            .machine
            .connect(&format!("{}:8080", self.machine.address));
        let request = b"GET /__stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let lines = BufReader::new(stream).lines();
        let last = lines.map(Result::unwrap).last().unwrap();
        let counts: serde_json::Value = serde_json::from_str(&last).unwrap();
        counts["requests"].as_u64().unwrap()
    }

    /// Ends it. Returns when each request arrived, in order.
    pub(crate) fn stop(self) -> Vec<u64> {
        self.process.signal("INT");
        let output = self.process.finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let log = std::fs::read_to_string(&self.log).unwrap();
        let arrival = |line: &str| line.split(',').nth(1).unwrap().parse().unwrap();
        log.lines().skip(1).map(arrival).collect()
    }
}

/// An agent on a machine of its own.
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) machine: Machine,
    pub(crate) process: Process,
}

/// What an agent is started with.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) name: &'a str,
    pub(crate) place: &'a str,
    /// How far its clock is ahead.
    pub(crate) ahead_s: u32,
    /// Options beside the usual ones.
    pub(crate) options: &'a [&'a str],
}

/// Four agents at two places, with clocks that are hours apart.
pub(crate) const FOUR: [Setting<'_>; 4] = {
    const fn agent(name: &'static str, place: &'static str, ahead_s: u32) -> Setting<'static> {
        Setting {
            name,
            place,
            ahead_s,
            options: &[],
        }
    }
    [
        agent("a0", "east", 0),
        agent("a1", "east", 5_000),
        agent("a2", "west", 10_800),
        agent("a3", "west", 90_000),
    ]
};

/// A fleet, its hub, its target, and the machine of its coordinator.
pub(crate) struct Lab {
    pub(crate) agents: Vec<Agent>,
    pub(crate) target: Target,
    pub(crate) coordinator: Machine,
    pub(crate) hub: Hub,
    /// The file of the coordinator's key, and its public key.
    pub(crate) key: String,
    pub(crate) trust: String,
    pub(crate) network: Network,
}

impl Lab {
    /// `None`: the test is skipped.
    pub(crate) fn new(agents: &[Setting<'_>]) -> Option<Self> {
        let network = Network::new()?;
        let hub = Hub::start(&network.hub)?;
        let key = network.folder.file("fleet.key");
        let trust = new_key(&key);
        let mut lab = Self {
            agents: Vec::new(),
            target: Target::start(&network),
            coordinator: network.machine(0),
            hub,
            key,
            trust,
            network,
        };
        for setting in agents {
            let agent = lab.agent(env!("CARGO_BIN_EXE_wrkbench"), setting);
            lab.agents.push(agent);
        }
        Some(lab)
    }

    /// Starts an agent on a new machine.
    pub(crate) fn agent(&self, program: &str, setting: &Setting<'_>) -> Agent {
        let machine = self.network.machine(setting.ahead_s);
        let mut command = machine.inside(program);
        command.args(["agent", "--nats", Hub::URL, "--trust", &self.trust]);
        command.args(["--name", setting.name, "--place", setting.place]);
        command.args(setting.options);
        command.env("TMPDIR", self.network.folder.folder(setting.name));
        Agent {
            name: setting.name.to_owned(),
            machine,
            process: Process::start(command),
        }
    }

    /// The options that have all agents make a run, and this key.
    pub(crate) fn fleet_options(&self) -> [String; 3] {
        [
            format!("--fleet={}", Hub::URL),
            format!("--fleet-key={}", self.key),
            format!("--agents={}", self.agents.len()),
        ]
    }

    /// Begins a run of all agents on the machine of the coordinator. The document goes to a file.
    pub(crate) fn load(&self, options: &[&str]) -> Process {
        let mut command = self.coordinator.wrkbench(&[]);
        command.args(self.fleet_options());
        command.args(["--json", &self.document(), "--io", "epoll"]);
        command.args(options).arg(&self.target.url);
        Process::start(command)
    }

    /// The file of the document of a run.
    pub(crate) fn document(&self) -> String {
        self.network.folder.file("result.json")
    }

    /// The result of the last run, whose numbers must agree with those of its agents.
    pub(crate) fn result(&self) -> RunResult {
        let document = std::fs::read(self.document()).unwrap();
        let result = results::file::load(&document).unwrap();
        assert_eq!(results::check(&result), Ok(()));
        result
    }

    /// Makes a run to its end.
    pub(crate) fn run(&self, options: &[&str]) -> (Output, RunResult) {
        let output = self.load(options).finish();
        assert!(output.code.is_some_and(|code| code != 1), "{output:?}");
        (output, self.result())
    }

    /// Waits until this many requests have arrived: the load has begun.
    pub(crate) fn await_arrivals(&self, requests: u64) {
        eventually(|| match self.target.arrived() {
            arrived if arrived >= requests => Ok(()),
            arrived => Err(format!("{arrived} of {requests} requests")),
        });
    }

    pub(crate) fn agent_named(&self, name: &str) -> &Agent {
        self.agents.iter().find(|agent| agent.name == name).unwrap()
    }

    /// Kills the NATS server and starts another one.
    pub(crate) fn restart_hub(&mut self) {
        self.hub.process.signal("KILL");
        let killed = || self.hub.process.ended().is_some();
        await_true("the NATS server is dead", killed);
        self.hub = Hub::start(&self.network.hub).unwrap();
    }

    /// No agent has a run or a file of a plan, or soon has none.
    pub(crate) fn expect_nothing_left(&self) {
        await_true("no agent is busy", || {
            let options = ["fleet", "status", "--nats", Hub::URL];
            let status = Process::start(self.coordinator.wrkbench(&options)).finish();
            assert_eq!(status.code, Some(0), "{status:?}");
            let is_listed = |agent: &Agent| status.stdout.contains(&agent.name);
            self.agents.iter().all(is_listed) && !status.stdout.contains("busy")
        });
        for agent in &self.agents {
            let folder = self.network.folder.join(&agent.name);
            let files = std::fs::read_dir(folder).unwrap().count();
            assert_eq!(files, 0, "{}", agent.name);
        }
    }

    /// A connection to the NATS server, spoken by hand.
    pub(crate) fn by_hand(&self) -> ByHand {
        let stream = self.coordinator.connect(Hub::LISTENS);
        let mut by_hand = ByHand {
            reader: BufReader::new(stream.try_clone().unwrap()),
            stream,
        };
        by_hand.line();
        // Without echo: a hub that must hand large messages back to their sender stops reading from
        // it, and closes the connection after ten seconds.
        by_hand.write(b"CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":false}\r\n");
        by_hand
    }
}

/// Waits for a state.
pub(crate) fn await_true(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(|| is_so().then_some(()).ok_or_else(|| what.to_owned()));
}

/// Makes a key, and returns the public one.
pub(crate) fn new_key(file: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
    let output = run(command.args(["fleet", "key", file]));
    let is_key = |word: &&str| word.len() == 56 && word.starts_with('U');
    let key = output.stdout.split_whitespace().find(is_key);
    key.unwrap_or_else(|| panic!("{output:?}")).to_owned()
}

/// A client of NATS that can say what no client of the fleet would say.
pub(crate) struct ByHand {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

/// A message on its way.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) subject: String,
    pub(crate) payload: Vec<u8>,
}

impl ByHand {
    /// Hears these subjects from now on.
    pub(crate) fn subscribe(&mut self, subject: &str) {
        self.write(format!("SUB {subject} 1\r\nPING\r\n").as_bytes());
        while self.line() != "PONG" {}
    }

    pub(crate) fn publish(&mut self, subject: &str, reply: &str, payload: &[u8]) {
        let head = format!("PUB {subject} {reply} {}\r\n", payload.len());
        self.write(&[head.as_bytes(), payload, b"\r\n"].concat());
    }

    /// The next message; none if there is none for a second.
    pub(crate) fn next(&mut self) -> Option<Heard> {
        let second = std::time::Duration::from_secs(1);
        self.stream.set_read_timeout(Some(second)).unwrap();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).ok()?;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["MSG", subject, .., length] => {
                    let mut payload = vec![0; length.parse::<usize>().unwrap() + 2];
                    std::io::Read::read_exact(&mut self.reader, &mut payload).unwrap();
                    payload.truncate(payload.len() - 2);
                    let subject = (*subject).to_owned();
                    return Some(Heard { subject, payload });
                }
                ["PING"] => self.write(b"PONG\r\n"),
                _ => {}
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }
}

#[test]
#[ignore = "needs root; make fleet"]
fn machines_reach_each_other_and_have_clocks_of_their_own() {
    let Some(network) = Network::new() else {
        return;
    };
    let Some(_hub) = Hub::start(&network.hub) else {
        return;
    };
    let target = Target::start(&network);
    let machine = network.machine(5_000);
    let uptime_s = |machine: &Machine| -> f64 {
        let output = run(machine.inside("cat").arg("/proc/uptime"));
        output.stdout.split(' ').next().unwrap().parse().unwrap()
    };
    let ahead_s = uptime_s(&machine) - uptime_s(&network.hub);
    assert!((4_990.0..5_010.0).contains(&ahead_s), "{ahead_s}");
    let request = || {
        let options = ["-t1", "-c1", "-n1", "-T1s", &target.url];
        Process::start(machine.wrkbench(&options)).finish()
    };
    assert_eq!(request().code, Some(0));
    network.set_link(&machine, false);
    assert_eq!(request().code, Some(1));
    network.set_link(&machine, true);
    await_true("it is reached again", || request().code == Some(0));
    assert_eq!(target.arrived(), 2);
    assert_eq!(target.stop().len(), 2);

    let mut orphan = machine.inside("sh");
    let orphan = run(orphan.args(["-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]));
    let process = format!("/proc/{}/exe", orphan.stdout.trim());
    assert!(std::fs::read_link(&process).is_ok());
    drop(machine);
    await_true("its processes are gone", || {
        std::fs::read_link(&process).is_err()
    });
}
