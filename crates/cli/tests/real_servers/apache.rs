//! Apache httpd with a CGI script, under two of its process models.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::daemon::{Daemon, free_port};
use crate::trial::{SEEN_BEYOND, assert_clean, assert_logged, each_backend};
use testkit::{Folder, is_root, require_any};

/// Where Debian keeps the modules.
const MODULES: &str = "/usr/lib/apache2/modules";
const CGI: &str =
    "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nhello from a script\\n'\n";
/// The format `combined` as in Debian's configuration.
const COMBINED: &str = concat!(
    r#"LogFormat "%h %l %u %t \"%r\" %>s %O "#,
    r#"\"%{Referer}i\" \"%{User-Agent}i\"" combined"#
);

/// How httpd divides its work, and the module that then runs CGI scripts.
#[derive(Clone, Copy)]
pub(crate) enum Model {
    /// Threads; scripts are started by a process of their own.
    Event,
    /// One process for each connection, which starts the scripts itself.
    Prefork,
}

impl Model {
    fn modules(self) -> [&'static str; 2] {
        match self {
            Self::Event => ["mpm_event", "cgid"],
            Self::Prefork => ["mpm_prefork", "cgi"],
        }
    }
}

/// A running httpd, which is killed on drop.
pub(crate) struct Apache {
    daemon: Daemon,
    pub(crate) place: Folder,
    pub(crate) port: u16,
}

impl Apache {
    pub(crate) fn start(model: Model) -> Option<Self> {
        let program = require_any(&["apache2", "httpd"])?;
        let place = Folder::for_all_users();
        place.folder("htdocs");
        place.folder("cgi-bin");
        place.file_with("htdocs/page.html", "y".repeat(20_000));
        place.program("cgi-bin/hello", CGI);
        let (daemon, port) = Daemon::start("resuming normal operations", || {
            let port = free_port();
            let file = place.file_with("httpd.conf", configuration(&place, port, model));
            (command(&program, &file), port)
        });
        Some(Self {
            daemon,
            place,
            port,
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Ends it gracefully, so that its logs are complete.
    pub(crate) fn end(self) -> Folder {
        self.daemon.end("WINCH");
        self.place
    }

    /// Ends it. For each request the bytes of its response.
    fn logged_bytes(self, path: &str) -> Vec<u64> {
        let log = self.end().read("access.log");
        let begin = format!("{path} 200 ");
        log.lines()
            .filter_map(|line| line.strip_prefix(&begin))
            .map(|bytes| bytes.parse().expect("httpd counts in digits"))
            .collect()
    }
}

pub(crate) fn command(program: &Path, file: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-D", "FOREGROUND", "-f", file]);
    command
}

/// The user of the worker processes.
pub(crate) fn user() -> &'static str {
    if is_root() {
        "User www-data\nGroup www-data"
    } else {
        ""
    }
}

/// The lines that load these modules.
pub(crate) fn modules(names: &[&str]) -> String {
    let line = |name: &&str| {
        let file = PathBuf::from(MODULES).join(format!("mod_{name}.so"));
        format!("LoadModule {name}_module {}\n", file.display())
    };
    names.iter().map(line).collect()
}

fn configuration(place: &Folder, port: u16, model: Model) -> String {
    let at = place.file("");
    let user = user();
    let modules = modules(&[["authz_core", "alias", "mime"].as_slice(), &model.modules()].concat());
    let socket = match model {
        Model::Event => format!("ScriptSock {at}/cgid.sock\n"),
        Model::Prefork => String::new(),
    };
    format!(
        "ServerRoot {at}\nServerName localhost\nDefaultRuntimeDir {at}\nPidFile {at}/httpd.pid\n\
         {modules}{socket}{user}\nListen 127.0.0.1:{port}\nErrorLog /dev/stderr\n\
         LogFormat \"%U %>s %O\" seen\nCustomLog {at}/access.log seen\nTypesConfig /dev/null\n\
         LogFormat \"%{{usec}}t %>s %r\" times\nCustomLog {at}/times.log times\n\
         {COMBINED}\nCustomLog {at}/combined.log combined\n\
         KeepAlive On\nMaxKeepAliveRequests 0\nGracefulShutdownTimeout 5\n\
         DocumentRoot {at}/htdocs\nScriptAlias /cgi-bin/ {at}/cgi-bin/\n\
         <Directory {at}>\n  Require all granted\n</Directory>\n"
    )
}

/// Loads one path, and compares requests and bytes with httpd's log. (Its responses differ in
/// length: a script that has ended soon enough gets a Content-Length instead of chunks, and the
/// ETag of a new file is weak for a second.)
fn load(model: Model, path: &str) {
    let Some(apache) = Apache::start(model) else {
        return;
    };
    let results = each_backend(&[], &apache.url(path));
    let mut bytes = 0;
    for result in &results {
        assert_clean(result, 200);
        bytes += result.recording.counters.bytes;
    }
    let logged = apache.logged_bytes(path);
    assert_logged(&results, 0, logged.len() as u64);
    // Ours leaves out what was on its way at the end of each run.
    let (all, longest) = (logged.iter().sum::<u64>(), logged.iter().max());
    let open = SEEN_BEYOND * results.len() as u64 * longest.copied().unwrap_or(0);
    assert!(
        (all.saturating_sub(open)..=all).contains(&bytes),
        "{bytes}, logged {all}"
    );
}

#[test]
fn a_cgi_script_under_event_and_cgid() {
    load(Model::Event, "/cgi-bin/hello");
}

#[test]
fn a_cgi_script_under_prefork_and_cgi() {
    load(Model::Prefork, "/cgi-bin/hello");
}

#[test]
fn a_static_file() {
    load(Model::Event, "/page.html");
}
