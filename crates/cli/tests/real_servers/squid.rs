//! Squid as a reverse proxy for Apache httpd with a CGI script.

use std::process::Command;

use crate::apache::{Apache, Model};
use crate::daemon::{Daemon, free_port};
use crate::trial::{CONNECTIONS, assert_clean, assert_logged, each_backend, sample};
use testkit::{Folder, is_root, require};

/// Squid in front of httpd.
struct Squid {
    daemon: Daemon,
    place: Folder,
    port: u16,
    _apache: Apache,
}

impl Squid {
    fn start() -> Option<Self> {
        let program = require("squid")?;
        let apache = Apache::start(Model::Event)?;
        let place = Folder::for_all_users();
        let (daemon, port) = Daemon::start("Accepting reverse-proxy HTTP Socket", || {
            let port = free_port();
            let file = place.file_with("squid.conf", configuration(&place, port, apache.port));
            let mut command = Command::new(&program);
            // The name keeps its shared memory apart from that of any other squid.
            let name = format!("wrkbench{port}");
            command.args(["-N", "-d", "1", "-n", &name, "-f", &file]);
            (command, port)
        });
        Some(Self {
            daemon,
            place,
            port,
            _apache: apache,
        })
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Ends it and counts the lines of its log for this path.
    fn logged(self, path: &str) -> u64 {
        self.daemon.end("TERM");
        let log = self.place.read("access.log");
        let begin = format!("{path} ");
        log.lines().filter(|line| line.starts_with(&begin)).count() as u64
    }
}

fn configuration(place: &Folder, port: u16, behind: u16) -> String {
    let at = place.file("");
    let user = if is_root() {
        "cache_effective_user proxy"
    } else {
        ""
    };
    format!(
        "http_port 127.0.0.1:{port} accel defaultsite=localhost no-vhost\n\
         cache_peer 127.0.0.1 parent {behind} 0 no-query originserver name=behind\n\
         http_access allow all\nnever_direct allow all\n{user}\nvisible_hostname localhost\n\
         cache_mem 8 MB\ncache_log /dev/null\npid_filename none\ncoredump_dir {at}\n\
         netdb_filename none\npinger_enable off\nshutdown_lifetime 0 seconds\n\
         max_filedescriptors 1024\nlogformat seen %rp %>Hs\n\
         access_log stdio:{at}/access.log logformat=seen\n"
    )
}

#[test]
fn a_cgi_script_behind_the_accelerator() {
    let Some(squid) = Squid::start() else {
        return;
    };
    let url = squid.url("/cgi-bin/hello");
    let of_one = sample(&[], &url);
    assert_eq!(of_one.status, 200, "{of_one:?}");
    let results = each_backend(&[], &url);
    for result in &results {
        assert_clean(result, 200);
    }
    assert_logged(&results, 1, squid.logged("/cgi-bin/hello"));
}

#[test]
fn a_page_from_the_accelerators_memory() {
    let Some(squid) = Squid::start() else {
        return;
    };
    let url = squid.url("/page.html");
    let of_one = sample(&[], &url);
    assert_eq!(of_one.status, 200, "{of_one:?}");
    let results = each_backend(&[], &url);
    for result in &results {
        assert_clean(result, 200);
        let counters = &result.recording.counters;
        assert!(counters.bytes >= counters.answered * 20_000, "{counters:?}");
        assert!(counters.connections_opened <= CONNECTIONS + counters.reconnects);
    }
    assert_logged(&results, 1, squid.logged("/page.html"));
}
