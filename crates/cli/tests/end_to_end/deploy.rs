//! The agents of `deploy/`, with the options that its files give them.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::{Folder, Process, eventually, require_any};

use crate::harness::program;

fn deployed(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    fs::read_to_string(folder.join(file)).unwrap()
}

/// The items of the list that begins with `agent`: command and options of a container.
fn agent_arguments(text: &str) -> Vec<String> {
    let items = text.lines().map(|line| line.trim().strip_prefix("- "));
    let from_agent = items.skip_while(|item| *item != Some("agent"));
    let arguments = from_agent.map_while(|item| item.map(str::to_owned));
    arguments.collect()
}

/// Replaces `${NAME:-default}` as Compose does.
fn interpolated(text: &str, variables: &[(&str, &str)]) -> String {
    let mut parts = text.split("${");
    let mut whole = parts.next().unwrap().to_owned();
    for part in parts {
        let (variable, behind) = part.split_once('}').unwrap();
        let (name, default) = variable.split_once(":-").unwrap();
        let set = variables.iter().find(|(set, _)| *set == name);
        whole += set.map_or(default, |(_, value)| value);
        whole += behind;
    }
    whole
}

/// A hub with TLS and keys, and the files that an agent of `deploy/` has.
struct Hub {
    _server: Process,
    folder: Folder,
    port: String,
    trust: String,
}

impl Hub {
    fn start() -> Option<Self> {
        let server = require_any(&["nats-server"])?;
        let folder = Folder::new();
        let hub = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        folder.file_with("ca.pem", hub.cert.pem());
        folder.file_with("hub-key.pem", hub.signing_key.serialize_pem());
        let new_key = |name: &str| {
            let made = Process::start(program(&["fleet", "key", &folder.file(name)])).finish();
            made.stdout.trim().to_owned()
        };
        let trust = new_key("fleet.key");
        folder.file_with("trust", &trust);
        let configuration = format!(
            "listen: \"127.0.0.1:-1\"\nports_file_dir: \"{folder}\"\n\
             tls {{ cert_file: \"{folder}/ca.pem\", key_file: \"{folder}/hub-key.pem\" }}\n\
             authorization {{ users: [ {{ nkey: {user} }} ] }}\n",
            folder = folder.path().display(),
            user = new_key("nats.seed"),
        );
        let mut command = Command::new(server);
        command.args(["-c", &folder.file_with("nats.conf", &configuration)]);
        let server = Process::start(command);
        let ports = format!("nats-server_{}.ports", server.id());
        let port = eventually(|| {
            let text = fs::read(folder.path().join(&ports)).map_err(|error| error.to_string())?;
            let ports: serde_json::Value =
                serde_json::from_slice(&text).map_err(|error| error.to_string())?;
            let url = ports["nats"][0].as_str().unwrap_or_default();
            let port = url.rsplit_once(':').map(|(_, port)| port.to_owned());
            port.ok_or_else(|| format!("a port in {url:?}"))
        });
        Some(Self {
            _server: server,
            folder,
            port,
            trust,
        })
    }

    fn url(&self) -> String {
        format!("tls://127.0.0.1:{}", self.port)
    }

    /// Starts an agent in whose container the files are in /run/wrkbench.
    fn agent(&self, arguments: &[String]) -> Process {
        let folder = self.folder.path().display().to_string();
        let arguments = arguments
            .iter()
            .map(|argument| argument.replace("/run/wrkbench", &folder));
        let mut command = program(&[]);
        command.args(arguments);
        Process::start(command)
    }

    /// Name and place of each of so many agents.
    fn agents(&self, number: usize) -> Vec<(String, String)> {
        let (url, number) = (self.url(), number.to_string());
        let mut command = program(&["fleet", "status", "--nats", &url, "--agents", &number]);
        command.args(["--nats-ca", &self.folder.file("ca.pem")]);
        command.args(["--nats-seed", &self.folder.file("nats.seed")]);
        let status = Process::start(command).finish();
        assert_eq!((status.code, status.stderr.as_str()), (Some(0), ""));
        let rows = status.stdout.lines().skip(1).map(|row| {
            let mut cells = row.split_whitespace().map(str::to_owned);
            (cells.next().unwrap(), cells.next().unwrap())
        });
        rows.collect()
    }
}

#[test]
fn the_files_of_deploy_start_agents_with_names_of_their_own_at_the_given_places() {
    let compose = agent_arguments(&deployed("compose.yaml"));
    // Every machine would have the same.
    let has_name = |argument: &String| argument.starts_with("--name");
    assert!(!compose.iter().any(has_name), "{compose:?}");
    let Some(hub) = Hub::start() else {
        return;
    };
    let url = hub.url();
    let variables = [
        ("NATS", url.as_str()),
        ("PLACE", "eu-vm/internal"),
        ("TRUST", &hub.trust),
    ];
    let compose = compose.iter().map(|it| interpolated(it, &variables));
    let compose: Vec<String> = compose.collect();

    let text = deployed("k8s/agents.yaml").replace("ZONE", "eu-central-1a");
    let pods = agent_arguments(&text);
    assert!(
        pods.contains(&"--nats=tls://nats:4222".to_owned()),
        "{pods:?}"
    );
    let pod = |name: &str| {
        let arguments = pods.iter().map(|it| it.replace("$(POD_NAME)", name));
        let arguments = arguments.map(|it| it.replace("tls://nats:4222", &url));
        arguments.collect::<Vec<String>>()
    };
    // The names that a StatefulSet gives.
    assert!(
        text.contains("\nkind: StatefulSet\nmetadata:\n  name: wrkbench-agent-eu-central-1a\n")
    );
    let names = [
        "wrkbench-agent-eu-central-1a-0",
        "wrkbench-agent-eu-central-1a-1",
    ];

    let _agents = [
        hub.agent(&compose),
        hub.agent(&pod(names[0])),
        hub.agent(&pod(names[1])),
    ];
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let may = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let machine: String = host.trim().replace(|c| !may(c), "-");
    let mut expected = vec![
        (machine, "eu-vm/internal".to_owned()),
        (names[0].to_owned(), "eu-central-1a".to_owned()),
        (names[1].to_owned(), "eu-central-1a".to_owned()),
    ];
    expected.sort();
    assert_eq!(hub.agents(3), expected);
}
