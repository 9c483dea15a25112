//! HTTP/3 of `wrkbench serve` with the client of ngtcp2: what it downloads, and what the server
//! counts.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use testkit::{Folder, Process, require};

use crate::trial::backends;

/// The text of the server's bodies.
const TEXT: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-\n";

/// A server with a client to ask it.
struct Pair {
    server: Process,
    port: String,
    client: PathBuf,
    folder: Folder,
}

impl Pair {
    /// `None` if the client is not installed.
    fn start(io: &str, options: &[&str]) -> Option<Self> {
        let client = require("gtlsclient")?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--tls", "--http3"]);
        command.args(["--io", io]).args(options);
        let mut server = Process::start(command);
        let line = server.next_line().expect("it says where it listens");
        let port = line
            .strip_prefix("serving https://127.0.0.1:")
            .and_then(|rest| rest.strip_suffix("/ with HTTP/3\n"));
        Some(Self {
            port: port.expect("the address").to_owned(),
            server,
            client,
            folder: Folder::new(),
        })
    }

    /// Lets the client ask for these targets. It ends when all of its streams are closed.
    fn ask(&self, options: &[&str], targets: &[&str]) {
        let urls = targets
            .iter()
            .map(|target| format!("https://localhost:{}{target}", self.port));
        let output = Command::new(&self.client)
            .args(["-q", "--exit-on-all-streams-close", "--timeout=20s"])
            .arg(format!("--download={}", self.folder.path().display()))
            .args(options)
            .args(["127.0.0.1", &self.port])
            .args(urls)
            .output()
            .expect("the client starts");
        assert!(output.status.success(), "{options:?}: {output:?}");
    }

    /// Ends the server. Returns its counts.
    fn counts(self) -> Value {
        self.server.signal("INT");
        let output = self.server.finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let (_, counts) = output.stdout.split_once('\n').expect("two lines");
        serde_json::from_str(counts).expect("it is JSON")
    }
}

/// A second for 500 bytes.
const SLOW: &str = "fault=drip:2ms/";

/// Makes one client ask for a body of this recipe, and checks all of its bytes.
fn assert_downloads(server_options: &[&str], client_options: &[&str], bytes: usize, recipe: &str) {
    for io in backends() {
        let Some(pair) = Pair::start(io, server_options) else {
            return;
        };
        let target = format!("/size={bytes}/{recipe}body");
        pair.ask(client_options, &[&target]);
        let body = pair.folder.read("body");
        assert_eq!(body.len(), bytes, "{client_options:?}");
        let expected = TEXT.iter().copied().cycle().take(bytes);
        assert!(body.bytes().eq(expected), "{client_options:?}");
        let counts = pair.counts();
        assert_eq!(counts["responses"], 1, "{counts}");
    }
}

#[test]
fn many_requests_of_one_connection_are_answered() {
    for io in backends() {
        let Some(pair) = Pair::start(io, &[]) else {
            return;
        };
        pair.ask(&["-n50"], &["/size=5/small", "/size=100k/large"]);
        assert_eq!(pair.folder.read("small"), "abcde");
        assert_eq!(pair.folder.read("large").len(), 100_000);
        let counts = pair.counts();
        assert_eq!(counts["connections"], 1, "{counts}");
        assert_eq!(counts["responses"], 50, "{counts}");
    }
}

/// Makes one client send a body of this length in tens, and checks that it gets it back.
fn assert_returns(server_options: &[&str], client_options: &[&str], tens: usize) {
    for io in backends() {
        let Some(pair) = Pair::start(io, server_options) else {
            return;
        };
        let body = "0123456789".repeat(tens);
        let file = pair.folder.file_with("sent", &body);
        let options = [&["-m", "POST", "-d", &file], client_options].concat();
        pair.ask(&options, &["/echo=1/returned"]);
        assert!(pair.folder.read("returned") == body, "{client_options:?}");
        let counts = pair.counts();
        let received = counts["bytes_in"].as_u64();
        assert!(received > Some(body.len() as u64), "{counts}");
    }
}

#[test]
fn a_body_is_taken_and_returned() {
    assert_returns(&["--window", "10k"], &[], 30_000);
}

// At once: the server updates its keys too, after 10 packets at the earliest. Shortly after that
// the client may not, and gives up.
#[test]
fn a_download_goes_on_through_a_key_update() {
    assert_downloads(&[], &["--key-update=1ms"], 500, SLOW);
}

#[test]
fn a_download_goes_on_at_another_address() {
    assert_downloads(&[], &["--change-local-addr=100ms"], 500, SLOW);
}

// A client that only receives sends nothing from its new address, so nobody could answer there.
#[test]
fn an_upload_goes_on_after_the_address_was_changed_on_its_way() {
    let rebinding = ["--change-local-addr=10ms", "--nat-rebinding"];
    assert_returns(&[], &rebinding, 1_000_000);
}

#[test]
fn a_download_is_complete_despite_loss_in_both_directions() {
    let loss = ["--tx-loss=0.05", "--rx-loss=0.05"];
    assert_downloads(&[], &loss, 1_000_000, "");
}

#[test]
fn a_download_begins_with_a_retry() {
    assert_downloads(&["--retry"], &[], 1_000, "");
}

#[test]
fn a_download_is_complete_despite_loss_at_the_server() {
    assert_downloads(&["--loss", "5%"], &[], 1_000_000, "");
}

#[test]
fn a_download_is_complete_among_what_a_client_must_ignore() {
    assert_downloads(&["--grease"], &[], 100_000, "");
}

#[test]
fn a_download_that_is_cut_at_every_byte_is_complete() {
    assert_downloads(&[], &[], 1_000, "fault=split/");
}

#[test]
fn a_download_begins_when_streams_are_allowed() {
    assert_downloads(&["--streams-delay", "300ms"], &[], 1_000, "");
}
