//! Proxies between a run and Apache httpd: Squid, tinyproxy, microsocks.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::apache::{Apache, Model};
use crate::daemon::{Daemon, free_port};
use crate::trial::{assert_clean, each_backend};
use results::RunResult;
use testkit::{Folder, eventually, is_root, require};

fn assert_tunnels(results: &[RunResult]) {
    for result in results {
        assert_clean(result, 200);
        let opened = result.recording.counters.connections_opened;
        assert_eq!(result.recording.phases.proxy.count(), opened);
    }
}

fn squid(place: &Folder, port: u16, target: u16) -> String {
    let at = place.file("");
    let user = if is_root() {
        "cache_effective_user proxy"
    } else {
        ""
    };
    format!(
        "http_port 127.0.0.1:{port}\nacl own port {target}\nhttp_access allow own\n\
         http_access deny all\ncache deny all\n{user}\nvisible_hostname localhost\n\
         cache_log /dev/null\npid_filename none\ncoredump_dir {at}\nnetdb_filename none\n\
         pinger_enable off\nshutdown_lifetime 0 seconds\nmax_filedescriptors 1024\n\
         access_log none\n"
    )
}

#[test]
fn squid_forwards_requests_and_opens_tunnels() {
    let (Some(program), Some(apache)) = (require("squid"), Apache::start(Model::Event)) else {
        return;
    };
    let place = Folder::for_all_users();
    let (daemon, port) = Daemon::start("Accepting HTTP Socket", || {
        let port = free_port();
        let file = place.file_with("squid.conf", squid(&place, port, apache.port));
        let mut command = Command::new(&program);
        let name = format!("wrkbench{port}");
        command.args(["-N", "-d", "1", "-n", &name, "-f", &file]);
        (command, port)
    });
    let proxy = format!("127.0.0.1:{port}");
    let url = apache.url("/page.html");
    for result in each_backend(&["-x", &proxy], &url) {
        assert_clean(&result, 200);
        assert!(result.recording.phases.proxy.is_empty());
    }
    assert_tunnels(&each_backend(&["-p", "-x", &proxy], &url));
    daemon.end("TERM");
}

#[test]
fn tinyproxy_opens_tunnels_for_its_user_and_for_nobody_else() {
    let (Some(program), Some(apache)) = (require("tinyproxy"), Apache::start(Model::Event)) else {
        return;
    };
    let place = Folder::for_all_users();
    let proxy = Foreground::start(|port| {
        let text = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nBasicAuth u p\n\
             LogLevel Error\n"
        );
        let mut command = Command::new(&program);
        command.args(["-d", "-c", &place.file_with("tinyproxy.conf", text)]);
        command
    });
    let url = apache.url("/page.html");
    let with_user = format!("u:p@127.0.0.1:{}", proxy.port);
    assert_tunnels(&each_backend(&["-p", "-x", &with_user], &url));
    let others = ["-p", "-x", &format!("u:q@127.0.0.1:{}", proxy.port)];
    let stderr = failure(&others, &url);
    assert!(
        stderr.contains("it answered 401") || stderr.contains("it answered 407"),
        "{stderr}"
    );
}

#[test]
fn microsocks_opens_tunnels_for_its_user_and_for_nobody_else() {
    let (Some(program), Some(apache)) = (require("microsocks"), Apache::start(Model::Event)) else {
        return;
    };
    let proxy = Foreground::start(|port| {
        let mut command = Command::new(&program);
        command.args([
            "-i",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-u",
            "u",
            "-P",
            "p",
        ]);
        command
    });
    let url = apache.url("/page.html");
    for scheme in ["socks5", "socks5h"] {
        let with_user = format!("{scheme}://u:p@127.0.0.1:{}", proxy.port);
        assert_tunnels(&each_backend(&["-x", &with_user], &url));
    }
    let by_name = format!("http://localhost:{}/page.html", apache.port);
    let with_user = format!("socks5h://u:p@127.0.0.1:{}", proxy.port);
    assert_tunnels(&each_backend(&["-x", &with_user], &by_name));
    let other = format!("socks5://u:q@127.0.0.1:{}", proxy.port);
    let stderr = failure(&["-x", &other], &url);
    assert!(stderr.contains("it refused user and password"), "{stderr}");
    let nobody = format!("socks5://127.0.0.1:{}", proxy.port);
    let stderr = failure(&["-x", &nobody], &url);
    assert!(stderr.contains("without user and password"), "{stderr}");
}

/// The messages of a run in which no request succeeds.
fn failure(arguments: &[&str], url: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
        .args(["-t1", "-c1", "-d100ms"])
        .args(arguments)
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A proxy that does not say when it is ready.
struct Foreground {
    child: Child,
    port: u16,
}

impl Foreground {
    fn start(command: impl Fn(u16) -> Command) -> Self {
        let port = free_port();
        let mut command = command(port);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("the proxy starts");
        let proxy = Self { child, port };
        eventually(|| match TcpStream::connect(("127.0.0.1", port)) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        });
        proxy
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
