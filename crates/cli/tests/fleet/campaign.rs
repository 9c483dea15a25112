//! An experiment from three places: two servers, each with Squid before the Apache httpd with a CGI
//! script.

use results::{Trial, TrialOutcome};
use testkit::{Process, eventually, require, require_any};

use crate::harness::{Hub, Machine, Network, await_true, run};

/// Its servers, with their addresses there and here.
const SERVERS: [(&str, &str); 2] = [("x86_64 VM", "192.0.2.7"), ("arm64 VM", "192.0.2.8")];

/// Its places, with the rate of their links.
const PLACES: [(&str, &str, &str); 3] = [
    ("driver", "driver machine", "2mbit"),
    ("external", "client VM, external IP", "20mbit"),
    ("internal", "client VM, internal IP", "1gbit"),
];

const EXPERIMENT: &str = include_str!("../../../../examples/experiments/squid-places.toml");

const SCRIPT: &str = "#!/usr/bin/perl\nprint \"Content-Type: text/html\\n\\n\";\n\
                      print \"$_ = $ENV{$_}<br>\\n\" for sort keys %ENV;\n";

/// Squid and httpd on a machine.
struct Server {
    _daemons: [Process; 2],
    machine: Machine,
}

impl Server {
    /// `None`: one of them is not installed.
    fn start(network: &Network) -> Option<Self> {
        let (squid, httpd) = (require("squid")?, require_any(&["apache2", "httpd"])?);
        let machine = network.machine(0);
        let name = format!("server-{}", machine.address);
        let folder = network.folder.folder(&name);
        let write =
            |file: &str, text: &str| network.folder.file_with(&format!("{name}/{file}"), text);
        network.folder.folder(&format!("{name}/cgi-bin"));
        network
            .folder
            .program(&format!("{name}/cgi-bin/page.pl"), SCRIPT);
        let file = write("httpd.conf", &httpd_configuration(&folder));
        let mut command = machine.inside(httpd.to_str().unwrap());
        command.args(["-D", "FOREGROUND", "-f", &file]);
        let httpd = Process::start(command);
        // Squid marks a parent that refuses connections as dead for a while.
        eventually(|| {
            let status = status_of(&machine, "127.0.0.1", 8081);
            status.contains(" 200 ").then_some(()).ok_or(status)
        });
        let file = write("squid.conf", &squid_configuration(&folder));
        let mut command = machine.inside(squid.to_str().unwrap());
        // The name keeps its shared memory apart from that of any other squid.
        let memory = format!("wrkbench{}", name.replace(['.', '-'], ""));
        command.args(["-N", "-n", &memory, "-f", &file]);
        let squid = Process::start(command);
        Some(Self {
            _daemons: [httpd, squid],
            machine,
        })
    }
}

fn httpd_configuration(at: &str) -> String {
    let modules = ["mpm_event", "authz_core", "alias", "cgid"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"));
    format!(
        "ServerRoot {at}\nServerName localhost\nDefaultRuntimeDir {at}\nPidFile {at}/httpd.pid\n\
         {}User www-data\nGroup www-data\nScriptSock {at}/cgid.sock\nListen 127.0.0.1:8081\n\
         ErrorLog {at}/error.log\nTimeout 300\nKeepAlive On\nMaxKeepAliveRequests 500\n\
         ListenBacklog 10000\nThreadsPerChild 64\nServerLimit 8\nMaxRequestWorkers 512\n\
         ScriptAlias /cgi-bin/ {at}/cgi-bin/\n<Directory {at}>\n  Require all granted\n\
         </Directory>\n",
        modules.concat()
    )
}

fn squid_configuration(at: &str) -> String {
    format!(
        "http_port 80 accel defaultsite=localhost vhost\n\
         cache_peer 127.0.0.1 parent 8081 0 no-query originserver name=hp\n\
         http_access allow all\nnever_direct allow all\ncache_effective_user proxy\n\
         visible_hostname localhost\ncache_mem 8 MB\ncache_log /dev/null\naccess_log none\n\
         pid_filename none\ncoredump_dir {at}\nnetdb_filename none\npinger_enable off\n\
         shutdown_lifetime 0 seconds\nmax_filedescriptors 8192\n"
    )
}

/// Gives a machine a second address, on the inside.
fn add_inside(machine: &Machine) -> String {
    let inside = machine.address.replace("10.77.0.", "10.78.0.");
    let add = format!("address add {inside}/24 dev eth0");
    run(machine.inside("ip").args(add.split(' ')));
    inside
}

/// The status line of the response to a request for the page, empty without a response.
fn status_of(from: &Machine, address: &str, port: u16) -> String {
    let mut command = from.inside("bash");
    let request = format!(
        "exec 3<>/dev/tcp/{address}/{port} && \
         printf 'GET /cgi-bin/page.pl HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3"
    );
    command.args(["-c", &request]);
    Process::start(command).finish().stdout
}

#[test]
#[ignore = "needs root, Squid and httpd; make fleet"]
fn three_places_two_profiles_two_rounds_and_two_servers_in_one_summary() {
    let Some(network) = Network::new() else {
        return;
    };
    let Some(_hub) = Hub::start(&network.hub) else {
        return;
    };
    let Some(servers) = SERVERS
        .map(|_| Server::start(&network))
        .into_iter()
        .collect()
    else {
        return;
    };
    let servers: Vec<Server> = servers;
    let mut experiment = EXPERIMENT.replace("duration = \"30s\"", "duration = \"1s\"");
    for (server, (_, address)) in servers.iter().zip(SERVERS) {
        let inside = add_inside(&server.machine);
        let documented = address.replace("192.0.2.", "10.0.0.");
        experiment = experiment.replace(&documented, &inside);
        experiment = experiment.replace(address, &server.machine.address);
        eventually(|| {
            let status = status_of(&network.hub, &server.machine.address, 80);
            status.contains(" 200 ").then_some(()).ok_or(status)
        });
    }
    let key = network.folder.file("fleet.key");
    let public = run(&mut network.hub.wrkbench(&["fleet", "key", &key])).stdout;
    let agents = PLACES.map(|(name, place, rate)| {
        let machine = network.machine(0);
        add_inside(&machine);
        network.limit(&machine, rate);
        let options = [
            "agent",
            "--nats",
            Hub::URL,
            "--name",
            name,
            "--place",
            place,
        ];
        let mut command = machine.wrkbench(&options);
        command.args(["--trust", public.trim()]);
        (Process::start(command), machine)
    });
    let file = network.folder.file_with("campaign.toml", &experiment);
    let mut sweep = network.hub.wrkbench(&["sweep", &file, "--fleet", Hub::URL]);
    sweep.args(["--fleet-key", &key, "--agents", "3", "--seed", "1"]);
    sweep.args(["--journal", &network.folder.file("journal")]);
    let mut sweep = Process::start(sweep);
    let results = network.folder.file("squid-places-results");
    let trials = || std::fs::read_dir(format!("{results}/trials")).map_or(0, Iterator::count);
    // Each trial may take its time: all of them take minutes.
    while sweep.ended().is_none() {
        let before = trials();
        await_true("a trial has ended", || {
            trials() != before || sweep.ended().is_some()
        });
    }
    let output = sweep.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let table = network.hub.wrkbench(&["table", &results, "--summary"]);
    let summary = Process::start(table).finish();
    println!("{}", summary.stdout);
    assert_eq!(shape(&summary.stdout), expected_shape());
    drop(agents);

    for entry in std::fs::read_dir(format!("{results}/trials")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let trial: Trial = results::file::load_trial(&bytes).unwrap();
        let place = trial.cell.place().unwrap();
        let TrialOutcome::Finished(result) = &trial.outcome else {
            panic!("{trial:?}");
        };
        assert_eq!(results::check(result), Ok(()));
        let by: Vec<&str> = result.agents.iter().map(|it| it.place.as_str()).collect();
        assert_eq!(by, [place]);
        let is_inside = result.plan.target.host.starts_with("10.78.0.");
        assert_eq!(is_inside, place.contains("internal"), "{place}");
        let mut statuses = result.recording.statuses.iter();
        assert!(statuses.all(|(status, _)| status == 200), "{place}");
        // The link of the driver machine lets 2 Mbit/s through, and 64 KiB at once.
        let counters = &result.recording.counters;
        let most = 250_000 * result.window.duration_ns / 1_000_000_000 + 65_536;
        assert!(
            place != "driver machine" || counters.bytes <= most,
            "{counters:?}"
        );
        assert!(counters.answered > 0, "{place}");
    }
}

/// The summary without its numbers.
fn shape(summary: &str) -> Vec<String> {
    let lines = summary.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| match line.split_once(": Latency ") {
            Some((target, values)) => format!("{target}: {} rounds", values.matches(", ").count()),
            None => line.to_owned(),
        })
        .collect()
}

fn expected_shape() -> Vec<String> {
    let mut lines = Vec::new();
    for (_, place, _) in PLACES {
        lines.push(format!("{place}:"));
        for profile in ["basic", "focused"] {
            lines.push(format!("{profile}:"));
            lines.extend(SERVERS.map(|(server, _)| format!("{server}: 2 rounds")));
        }
    }
    lines
}
