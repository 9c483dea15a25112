//! The servers, each a separate process on loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::options::ServerKind;
use crate::process::{Placement, Process};
use crate::rows::{ROWS, SpeedRow};
use crate::scratch::Scratch;
use crate::setup;

/// The only cipher that nginx offers in the https row.
pub(crate) const CIPHER: &str = "TLS_AES_128_GCM_SHA256";

/// The path whose response is the protocol and cipher of the connection (nginx).
const CIPHER_PATH: &str = "/cipher";

/// nginx opens its port some time after its start: number and interval of the tries to connect.
const LOOKS: u32 = 500;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// As long as the default body of the built-in server.
const SMALL_BODY_BYTES: usize = 63;

/// A running server; killed on drop.
#[derive(Debug)]
pub(crate) struct Server {
    kind: ServerKind,
    tls: bool,
    port: u16,
    process: Process,
}

impl Server {
    /// Starts the server for a row.
    ///
    /// # Errors
    /// When the server does not start.
    pub(crate) fn start(
        kind: ServerKind,
        row: &SpeedRow,
        wrkbench: &Path,
        scratch: &Scratch,
        placement: Placement,
    ) -> anyhow::Result<Self> {
        let (port, process) = match kind {
            ServerKind::Origin => start_origin(wrkbench, row.tls, placement)?,
            ServerKind::Nginx => start_nginx(scratch, row, placement)?,
            ServerKind::Nghttpd => start_nghttpd(scratch, placement)?,
        };
        Ok(Self {
            kind,
            tls: row.tls,
            port,
            process,
        })
    }

    /// The URL for a row's response.
    pub(crate) fn url(&self, body_bytes: Option<u32>) -> String {
        let path = match (body_bytes, self.kind) {
            (None, _) => "/".to_owned(),
            (Some(bytes), ServerKind::Origin) => format!("/?size={bytes}"),
            (Some(bytes), _) => format!("/{}", body_file(bytes)),
        };
        self.url_of(&path)
    }

    /// The URL whose response is the cipher of the connection, if the server supports it.
    pub(crate) fn cipher_url(&self) -> Option<String> {
        (self.tls && self.kind == ServerKind::Nginx).then(|| self.url_of(CIPHER_PATH))
    }

    /// CPU time used so far, in microseconds.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub(crate) fn cpu_us(&self) -> anyhow::Result<u64> {
        self.process.cpu_us()
    }

    /// The name in tables.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            ServerKind::Origin => "wrkbench serve",
            ServerKind::Nginx => "nginx",
            ServerKind::Nghttpd => "nghttpd",
        }
    }

    fn url_of(&self, path: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }
}

/// The path of nginx, if installed; on Debian its folder may be missing in PATH.
pub(crate) fn find_nginx() -> Option<PathBuf> {
    let more = ["/usr/sbin", "/usr/local/sbin"].map(Path::new);
    setup::find_program(Path::new("nginx"), &more)
}

fn start_origin(
    wrkbench: &Path,
    tls: bool,
    placement: Placement,
) -> anyhow::Result<(u16, Process)> {
    let mut arguments = vec!["serve", "--listen", "127.0.0.1:0"];
    if tls {
        arguments.push("--tls");
    }
    let mut process = Process::start(wrkbench, &arguments, placement)?;
    let port = process.announced(announced_port)?;
    Ok((port, process))
}

/// The port in a line that names a loopback address.
pub(crate) fn announced_port(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("127.0.0.1:")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|port| *port != 0)
}

fn start_nginx(
    scratch: &Scratch,
    row: &SpeedRow,
    placement: Placement,
) -> anyhow::Result<(u16, Process)> {
    let nginx = find_nginx().context("nginx is not installed")?;
    let port = free_port()?;
    write_bodies(scratch)?;
    if row.tls {
        let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        scratch.write("server.crt", certificate.cert.pem())?;
        scratch.write("server.key", certificate.signing_key.serialize_pem())?;
    }
    let configuration = nginx_configuration(scratch.path(), port, row, is_root());
    let configuration = scratch.write("nginx.conf", configuration)?;
    let folder = scratch.path().display().to_string();
    let arguments = [
        "-p",
        &folder,
        "-e",
        "stderr",
        "-c",
        &configuration.display().to_string(),
    ];
    let mut process = Process::start(&nginx, &arguments, placement)?;
    wait_until_open(port, &mut process)?;
    Ok((port, process))
}

/// One thread, without TLS.
fn start_nghttpd(scratch: &Scratch, placement: Placement) -> anyhow::Result<(u16, Process)> {
    let nghttpd = Path::new("nghttpd");
    let nghttpd = setup::find_program(nghttpd, &[]).context("nghttpd is not installed")?;
    let port = free_port()?;
    write_bodies(scratch)?;
    let folder = scratch.path().display().to_string();
    let arguments = ["--no-tls", "-n1", "-d", &folder, &port.to_string()];
    let mut process = Process::start(&nghttpd, &arguments, placement)?;
    wait_until_open(port, &mut process)?;
    Ok((port, process))
}

/// These servers cannot report a port chosen by the kernel, so a free one is chosen here. If
/// another program takes it in between, the server fails to start, which is detected.
fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// What servers of files have.
fn write_bodies(scratch: &Scratch) -> anyhow::Result<()> {
    scratch.write("index.html", small_body())?;
    for bytes in ROWS.iter().filter_map(|row| row.body_bytes) {
        scratch.write(&body_file(bytes), vec![b'x'; bytes as usize])?;
    }
    Ok(())
}

/// The name of a file of this size.
fn body_file(bytes: u32) -> String {
    format!("body-{bytes}")
}

fn small_body() -> String {
    format!("{}\n", "x".repeat(SMALL_BODY_BYTES - 1))
}

fn wait_until_open(port: u16, process: &mut Process) -> anyhow::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for _ in 0..LOOKS {
        if !process.is_running() {
            bail!("the server did not start; its port {port} may have been taken");
        }
        if TcpStream::connect(address).is_ok() {
            return Ok(());
        }
        thread::park_timeout(BETWEEN_LOOKS);
    }
    bail!("the server does not listen on port {port}");
}

/// A single process, which is simple to pin and kill; no log; connections are never closed.
fn nginx_configuration(folder: &Path, port: u16, row: &SpeedRow, is_root: bool) -> String {
    let user = if is_root { "user root;\n" } else { "" };
    let body = small_body().trim_end().to_owned();
    let folder = folder.display();
    let ssl = if row.tls { "ssl" } else { "" };
    let http2 = if row.http2.is_some() { "http2" } else { "" };
    let tls = if row.tls {
        format!(
            "ssl_certificate {folder}/server.crt; ssl_certificate_key {folder}/server.key; \
             ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites {CIPHER};"
        )
    } else {
        String::new()
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path {folder}/{name}; "))
        .collect();
    format!(
        "{user}daemon off; master_process off; pid {folder}/nginx.pid;\n\
         events {{ worker_connections 16384; }}\n\
         http {{ access_log off; {temporary}\n\
         keepalive_requests 1000000000; keepalive_timeout 1h; default_type text/plain; {tls}\n\
         server {{ listen 127.0.0.1:{port} backlog=16384 {ssl} {http2}; root {folder};\n\
         location / {{ return 200 \"{body}\\n\"; }}\n\
         location = {CIPHER_PATH} {{ return 200 \"$ssl_protocol $ssl_cipher\"; }}\n\
         location ^~ /body- {{ open_file_cache max=10; }}\n\
         }} }}\n"
    )
}

/// Whether this process runs as root: nginx would switch to a user that may not exist.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    #[test]
    fn the_port_of_an_announcement_is_found() {
        assert_eq!(
            announced_port("listening on 127.0.0.1:40123\n"),
            Some(40_123)
        );
        assert_eq!(
            announced_port("listening on https://127.0.0.1:8443/\n"),
            Some(8443)
        );
    }

    #[test]
    fn lines_without_a_usable_port_are_not_announcements() {
        for line in [
            "",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:0",
            "127.0.0.1:99999",
            "[::1]:80",
        ] {
            assert_eq!(announced_port(line), None, "{line:?}");
        }
    }

    fn row(name: &str) -> &'static SpeedRow {
        rows::selected(&[name.to_owned()]).unwrap()[0]
    }

    #[test]
    fn nginx_is_held_to_one_cipher_only_over_tls() {
        let folder = Path::new("/x");
        let configuration = |name, is_root| nginx_configuration(folder, 1, row(name), is_root);
        assert!(configuration("https", false).contains(CIPHER));
        assert!(configuration("h2-tls", false).contains("ssl http2;"));
        assert!(!configuration("keepalive", false).contains(CIPHER));
        assert!(configuration("keepalive", true).starts_with("user root;"));
    }

    #[test]
    fn braces_of_the_configuration_are_balanced() {
        let text = nginx_configuration(Path::new("/x"), 1, row("h2-tls"), true);
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
