//! The clients and their arguments.

use std::path::{Path, PathBuf};

use crate::rows::SpeedRow;

/// The name of wrk in tables and results.
pub(crate) const WRK_LABEL: &str = "wrk";

/// The name of wrk2.
pub(crate) const WRK2_LABEL: &str = "wrk2";

/// The name of h2load.
pub(crate) const H2LOAD_LABEL: &str = "h2load";

/// The name of wrkbench without a display, in the row about displays.
pub(crate) const QUIET_LABEL: &str = "wrkbench --quiet";

/// The name of wrkbench with one request, in the row about request files.
pub(crate) const FIXED_LABEL: &str = "wrkbench, one request";

/// The binaries of all tools.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) wrk: Option<PathBuf>,
    pub(crate) wrk2: Option<PathBuf>,
    pub(crate) h2load: Option<PathBuf>,
    pub(crate) wrkbench: PathBuf,
}

/// A program with a set of options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Client {
    /// The name in tables and results.
    pub(crate) label: String,
    /// The binary that is started.
    pub(crate) program: PathBuf,
    /// Options before the common ones.
    options: Vec<String>,
    /// Whether to run the row's script.
    scripted: bool,
    /// Whether stderr is a terminal.
    pub(crate) on_terminal: bool,
}

impl Client {
    /// The client that the others in a row are compared with.
    pub(crate) fn baseline(row: &SpeedRow) -> &'static str {
        if row.watched {
            QUIET_LABEL
        } else if row.from_file {
            FIXED_LABEL
        } else if row.http2.is_some() {
            H2LOAD_LABEL
        } else if row.rate.is_some() {
            WRK2_LABEL
        } else {
            WRK_LABEL
        }
    }

    /// The clients of a row: the baseline, then wrkbench on each backend; with `--pipeline`, also
    /// wrkbench with the row's script.
    pub(crate) fn all(row: &SpeedRow, programs: &Programs) -> Vec<Self> {
        if row.watched {
            return Self::watched(programs);
        }
        if row.from_file {
            return Self::from_file(programs);
        }
        let rate = row.rate.map(|rate| format!("-R{rate}"));
        let streams = row.http2.map(|http2| format!("-m{}", http2.streams));
        let common: Vec<String> = rate.into_iter().chain(streams).collect();
        let baseline = match Self::baseline(row) {
            H2LOAD_LABEL => &programs.h2load,
            WRK2_LABEL => &programs.wrk2,
            _ => &programs.wrk,
        };
        let mut clients: Vec<Self> = baseline
            .iter()
            .map(|program| Self {
                label: Self::baseline(row).to_owned(),
                program: program.clone(),
                options: common.clone(),
                scripted: true,
                on_terminal: false,
            })
            .collect();
        for io in ["uring", "epoll"] {
            let ours = |label: String, extra: &[String], scripted| Self {
                label,
                program: programs.wrkbench.clone(),
                options: ["--io".to_owned(), io.to_owned()]
                    .iter()
                    .chain(extra)
                    .cloned()
                    .collect(),
                scripted,
                on_terminal: false,
            };
            if let Some(depth) = row.pipeline {
                let option = ["--pipeline".to_owned(), depth.to_string()];
                clients.push(ours(format!("wrkbench {io}"), &option, false));
                clients.push(ours(format!("wrkbench {io}, script"), &[], true));
            } else {
                let http2 = row.http2.map(|_| "--http2".to_owned());
                let options: Vec<String> = http2.into_iter().chain(common.clone()).collect();
                clients.push(ours(format!("wrkbench {io}"), &options, true));
            }
        }
        clients
    }

    /// wrkbench with one request, and with those of a file.
    fn from_file(programs: &Programs) -> Vec<Self> {
        [(FIXED_LABEL, false), ("wrkbench, request file", true)]
            .into_iter()
            .map(|(label, scripted)| Self {
                label: label.to_owned(),
                program: programs.wrkbench.clone(),
                options: Vec::new(),
                scripted,
                on_terminal: false,
            })
            .collect()
    }

    /// wrkbench on a terminal: without a display, with the progress line, with the full screen.
    fn watched(programs: &Programs) -> Vec<Self> {
        [
            (QUIET_LABEL, Some("--quiet")),
            ("wrkbench, live line", None),
            ("wrkbench --tui", Some("--tui")),
        ]
        .into_iter()
        .map(|(label, option)| Self {
            label: label.to_owned(),
            program: programs.wrkbench.clone(),
            options: option.map(str::to_owned).into_iter().collect(),
            scripted: false,
            on_terminal: true,
        })
        .collect()
    }

    /// The arguments for a run on one thread.
    pub(crate) fn arguments(
        &self,
        connections: u32,
        duration_s: u32,
        script: Option<&Path>,
        url: &str,
    ) -> Vec<String> {
        let mut arguments = self.options.clone();
        arguments.push("-t1".to_owned());
        arguments.push(format!("-c{connections}"));
        if self.label == H2LOAD_LABEL {
            arguments.push(format!("-D{duration_s}"));
            arguments.push("--warm-up-time=0".to_owned());
        } else {
            arguments.push(format!("-d{duration_s}s"));
        }
        if let Some(script) = script.filter(|_| self.scripted) {
            let is_script = script
                .extension()
                .is_some_and(|extension| extension == "lua");
            let option = if is_script { "-s" } else { "--request-file" };
            arguments.push(option.to_owned());
            arguments.push(script.display().to_string());
        }
        arguments.push(url.to_owned());
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    fn programs(wrk: bool) -> Programs {
        Programs {
            wrk: wrk.then(|| "wrk".into()),
            wrk2: wrk.then(|| "wrk2".into()),
            h2load: wrk.then(|| "h2load".into()),
            wrkbench: "wrkbench".into(),
        }
    }

    fn row(name: &str) -> &'static SpeedRow {
        rows::selected(&[name.to_owned()]).unwrap()[0]
    }

    /// The arguments of each client for four seconds.
    fn lines(clients: &[Client], connections: u32, script: Option<&Path>) -> Vec<String> {
        clients
            .iter()
            .map(|client| {
                client
                    .arguments(connections, 4, script, "http://h/")
                    .join(" ")
            })
            .collect()
    }

    #[test]
    fn a_plain_row_has_wrk_and_both_backends() {
        let labels: Vec<_> = Client::all(row("keepalive"), &programs(true))
            .into_iter()
            .map(|c| c.label)
            .collect();
        assert_eq!(labels, ["wrk", "wrkbench uring", "wrkbench epoll"]);
        assert_eq!(Client::all(row("keepalive"), &programs(false)).len(), 2);
    }

    #[test]
    fn a_row_about_being_watched_has_ours_alone_and_one_that_is_not() {
        let row = row("live");
        let clients = Client::all(row, &programs(true));
        assert_eq!(
            lines(&clients, 64, None),
            [
                "--quiet -t1 -c64 -d4s http://h/",
                "-t1 -c64 -d4s http://h/",
                "--tui -t1 -c64 -d4s http://h/",
            ]
        );
        assert_eq!(clients[0].label, Client::baseline(row));
        assert!(clients.iter().all(|client| client.on_terminal));
    }

    #[test]
    fn a_row_with_a_request_file_has_ours_alone_with_and_without_it() {
        let row = row("request-file");
        let clients = Client::all(row, &programs(true));
        let lines: Vec<_> = clients
            .iter()
            .map(|client| {
                let file = Some(Path::new("r.jsonl"));
                client.arguments(64, 4, file, "http://h/").join(" ")
            })
            .collect();
        assert_eq!(
            lines,
            [
                "-t1 -c64 -d4s http://h/",
                "-t1 -c64 -d4s --request-file r.jsonl http://h/",
            ]
        );
        assert_eq!(clients[0].label, Client::baseline(row));
    }

    #[test]
    fn a_row_with_a_rate_has_wrk2_and_tells_all_clients_the_rate() {
        let clients = Client::all(row("rate"), &programs(true));
        assert_eq!(
            lines(&clients, 1000, None),
            [
                "-R20000 -t1 -c1000 -d4s http://h/",
                "--io uring -R20000 -t1 -c1000 -d4s http://h/",
                "--io epoll -R20000 -t1 -c1000 -d4s http://h/",
            ]
        );
        assert_eq!(clients[0].label, Client::baseline(row("rate")));
    }

    #[test]
    fn a_row_over_http2_has_h2load_and_tells_all_clients_the_streams() {
        let row = row("h2");
        let clients = Client::all(row, &programs(true));
        assert_eq!(
            lines(&clients, 10, None),
            [
                "-m32 -t1 -c10 -D4 --warm-up-time=0 http://h/",
                "--io uring --http2 -m32 -t1 -c10 -d4s http://h/",
                "--io epoll --http2 -m32 -t1 -c10 -d4s http://h/",
            ]
        );
        assert_eq!(clients[0].label, Client::baseline(row));
    }

    #[test]
    fn pipelining_is_done_by_option_and_by_the_script_that_wrk_takes() {
        let clients = Client::all(row("pipelined"), &programs(true));
        assert_eq!(
            lines(&clients, 64, Some(Path::new("p.lua"))),
            [
                "-t1 -c64 -d4s -s p.lua http://h/",
                "--io uring --pipeline 16 -t1 -c64 -d4s http://h/",
                "--io uring -t1 -c64 -d4s -s p.lua http://h/",
                "--io epoll --pipeline 16 -t1 -c64 -d4s http://h/",
                "--io epoll -t1 -c64 -d4s -s p.lua http://h/",
            ]
        );
    }
}
