//! The rows of the table: the load and the target.

use anyhow::bail;
use serde::Serialize;

use crate::options::ServerKind;

/// A row of the table: one load, made by all clients.
#[derive(Debug)]
pub(crate) struct SpeedRow {
    /// Short name for `--only` and JSON.
    pub(crate) name: &'static str,
    /// What the table prints.
    pub(crate) title: &'static str,
    /// Open connections, on one thread.
    pub(crate) connections: u32,
    /// Bytes of the body of responses; `None` is the server's default, 63.
    pub(crate) body_bytes: Option<u32>,
    /// Whether the server is asked over https.
    pub(crate) tls: bool,
    /// The script for all clients.
    pub(crate) script: Option<Script>,
    /// Depth of `--pipeline`; wrk uses the script instead.
    pub(crate) pipeline: Option<u32>,
    /// Target rate, requests per second; such a row is compared with wrk2 instead of wrk.
    pub(crate) rate: Option<u32>,
    /// HTTP/2; such a row is compared with h2load instead of wrk.
    pub(crate) http2: Option<Http2>,
    /// Minimum duration of a run, seconds.
    pub(crate) duration_min_s: u32,
    /// Compares runs with a display on a terminal with a run without, and with no other tool.
    pub(crate) watched: bool,
    /// The script is a request file; it is compared with one request all the time, and with no
    /// other tool.
    pub(crate) from_file: bool,
    /// The target, and the metric that it is about.
    pub(crate) figure: Figure,
}

/// How a row uses HTTP/2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Http2 {
    /// Number of streams per connection.
    pub(crate) streams: u32,
    /// The server, which the target depends on: some write one response at a time, others many.
    pub(crate) server: ServerKind,
}

/// The scripts in `bench/scripts/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Sixteen requests as one string.
    Pipeline,
    /// `request()` that calls `wrk.format`.
    Request,
    /// `response()` that reads status, headers and body.
    Response,
    /// Prints the server's description of the TLS connection.
    PrintBody,
    /// A request file: requests with and without templates.
    Requests,
}

impl Script {
    /// All scripts, in the order of the enum.
    pub(crate) const ALL: [Self; 5] = [
        Self::Pipeline,
        Self::Request,
        Self::Response,
        Self::PrintBody,
        Self::Requests,
    ];

    /// Name of the file in `bench/scripts/`.
    pub(crate) const fn file_name(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline.lua",
            Self::Request => "request.lua",
            Self::Response => "response.lua",
            Self::PrintBody => "print-body.lua",
            Self::Requests => "requests.jsonl",
        }
    }

    /// The text of the file, included so that the program runs from any folder.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Pipeline => include_str!("../scripts/pipeline.lua"),
            Self::Request => include_str!("../scripts/request.lua"),
            Self::Response => include_str!("../scripts/response.lua"),
            Self::PrintBody => include_str!("../scripts/print-body.lua"),
            Self::Requests => include_str!("../scripts/requests.jsonl"),
        }
    }
}

/// A target: the maximum ratio to the baseline (see [`crate::tool::Client::baseline`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "of", content = "at_most", rename_all = "snake_case")]
pub(crate) enum Figure {
    /// Client CPU time per request.
    CpuPerRequest(f64),
    /// Peak resident memory of the client.
    ResidentMemory(f64),
    /// Maximum loss of requests per second, as a share. Two runs differ by far more, so this is
    /// checked against the CPU share of the client's threads other than the worker, and the
    /// confidence interval of the ratio must not show a larger loss.
    RequestsLost(f64),
}

/// Keep-alive requests without anything else; rows differ from it.
const PLAIN: SpeedRow = SpeedRow {
    name: "",
    title: "",
    connections: 64,
    body_bytes: None,
    tls: false,
    script: None,
    pipeline: None,
    rate: None,
    http2: None,
    duration_min_s: 1,
    watched: false,
    from_file: false,
    figure: Figure::CpuPerRequest(1.0),
};

/// All rows, in the order of the table.
pub(crate) const ROWS: [SpeedRow; 22] = [
    SpeedRow {
        name: "keepalive",
        title: "keep-alive GET, 63-byte body, 64 connections",
        figure: Figure::CpuPerRequest(0.65),
        ..PLAIN
    },
    SpeedRow {
        name: "keepalive-1000",
        title: "keep-alive GET, 63-byte body, 1,000 connections",
        connections: 1_000,
        figure: Figure::CpuPerRequest(0.65),
        ..PLAIN
    },
    SpeedRow {
        name: "pipelined",
        title: "64 connections, pipelined 16 deep",
        script: Some(Script::Pipeline),
        pipeline: Some(16),
        figure: Figure::CpuPerRequest(0.50),
        ..PLAIN
    },
    of_bodies("3k", "3 kB bodies, 64 connections", 3_000),
    of_bodies("12k", "12 kB bodies, 64 connections", 12_000),
    of_bodies("67k", "67 kB bodies, 64 connections", 67_000),
    SpeedRow {
        name: "large",
        title: "100 kB bodies, 64 connections",
        body_bytes: Some(100_000),
        figure: Figure::CpuPerRequest(0.40),
        ..PLAIN
    },
    SpeedRow {
        name: "huge",
        title: "1 MB bodies, 64 connections",
        body_bytes: Some(1_000_000),
        figure: Figure::CpuPerRequest(0.40),
        ..PLAIN
    },
    SpeedRow {
        name: "lua-request",
        title: "Lua request() with wrk.format, 64 connections",
        script: Some(Script::Request),
        figure: Figure::CpuPerRequest(0.80),
        ..PLAIN
    },
    SpeedRow {
        name: "lua-response",
        title: "Lua response(), 64 connections",
        script: Some(Script::Response),
        figure: Figure::CpuPerRequest(0.80),
        ..PLAIN
    },
    SpeedRow {
        name: "https",
        title: "https keep-alive, 64 connections",
        tls: true,
        figure: Figure::CpuPerRequest(0.85),
        ..PLAIN
    },
    SpeedRow {
        name: "memory",
        title: "resident memory with 10,000 connections",
        connections: 10_000,
        figure: Figure::ResidentMemory(1.0 / 3.0),
        ..PLAIN
    },
    SpeedRow {
        name: "rate",
        title: "constant rate, 20,000/s over 1,000 connections",
        connections: 1_000,
        rate: Some(20_000),
        // wrk2 opens a connection every 5 ms, so it needs 5 s to reach the rate.
        duration_min_s: 15,
        figure: Figure::CpuPerRequest(0.40),
        ..PLAIN
    },
    SpeedRow {
        name: "live",
        title: "cost of watching a run: keep-alive GET, 63-byte body, 64 connections",
        watched: true,
        figure: Figure::RequestsLost(0.01),
        ..PLAIN
    },
    SpeedRow {
        name: "request-file",
        title: "requests of a file, half of them with templates, 64 connections",
        script: Some(Script::Requests),
        from_file: true,
        figure: Figure::CpuPerRequest(1.15),
        ..PLAIN
    },
    SpeedRow {
        name: "h2",
        title: "HTTP/2, 63-byte body, 10 connections with 32 streams",
        figure: Figure::CpuPerRequest(0.40),
        ..over_http2(ServerKind::Nghttpd, 10, 32)
    },
    SpeedRow {
        name: "h2-100-streams",
        title: "HTTP/2, 63-byte body, 64 connections with 100 streams",
        figure: Figure::CpuPerRequest(0.40),
        ..over_http2(ServerKind::Nghttpd, 64, 100)
    },
    SpeedRow {
        name: "h2-one-stream",
        title: "HTTP/2, 63-byte body, 64 connections with one stream",
        figure: Figure::CpuPerRequest(0.80),
        ..over_http2(ServerKind::Nghttpd, 64, 1)
    },
    SpeedRow {
        name: "h2-nginx",
        title: "HTTP/2, 63-byte body, 10 connections with 32 streams",
        figure: Figure::CpuPerRequest(0.85),
        ..over_http2(ServerKind::Nginx, 10, 32)
    },
    SpeedRow {
        name: "h2-large",
        title: "HTTP/2, 100 kB bodies, 10 connections with 32 streams",
        body_bytes: Some(100_000),
        figure: Figure::CpuPerRequest(0.60),
        ..over_http2(ServerKind::Nghttpd, 10, 32)
    },
    SpeedRow {
        name: "h2-tls",
        title: "HTTP/2 over TLS, 63-byte body, 10 connections with 32 streams",
        tls: true,
        figure: Figure::CpuPerRequest(0.85),
        ..over_http2(ServerKind::Nginx, 10, 32)
    },
    SpeedRow {
        name: "h2-memory",
        title: "HTTP/2, resident memory with 10,000 connections",
        figure: Figure::ResidentMemory(0.5),
        ..over_http2(ServerKind::Nghttpd, 10_000, 1)
    },
];

/// Bodies like those of pages and interfaces.
const fn of_bodies(name: &'static str, title: &'static str, bytes: u32) -> SpeedRow {
    SpeedRow {
        name,
        title,
        body_bytes: Some(bytes),
        ..PLAIN
    }
}

const fn over_http2(server: ServerKind, connections: u32, streams: u32) -> SpeedRow {
    SpeedRow {
        connections,
        http2: Some(Http2 { streams, server }),
        ..PLAIN
    }
}

/// The name of the table of schedule accuracy, for `--only`.
pub(crate) const TIMING: &str = "timing";

/// The rows with these names, in the order of the table; all if there are no names.
///
/// # Errors
/// When a name is unknown: the message lists the rows.
pub(crate) fn selected(names: &[String]) -> anyhow::Result<Vec<&'static SpeedRow>> {
    for name in names {
        if name != TIMING && !ROWS.iter().any(|row| row.name == name) {
            let known: Vec<_> = ROWS.iter().map(|row| row.name).chain([TIMING]).collect();
            bail!(
                "--only: \"{name}\" is not a row; rows are {}",
                known.join(", ")
            );
        }
    }
    let chosen = |row: &&SpeedRow| names.is_empty() || names.iter().any(|name| row.name == name);
    Ok(ROWS.iter().filter(chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_names_all_rows_are_taken() {
        assert_eq!(selected(&[]).unwrap().len(), ROWS.len());
    }

    #[test]
    fn rows_come_in_the_order_of_the_table_whatever_the_order_of_names() {
        let rows = selected(&["https".into(), "keepalive".into()]).unwrap();
        assert_eq!(
            rows.iter().map(|row| row.name).collect::<Vec<_>>(),
            ["keepalive", "https"]
        );
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_list() {
        let message = selected(&["nothing".into()]).unwrap_err().to_string();
        assert!(
            message.contains("\"nothing\"") && message.contains("lua-response"),
            "{message}"
        );
    }

    #[test]
    fn names_of_rows_are_unique() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(
                !ROWS[index + 1..].iter().any(|other| other.name == row.name),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn a_row_that_pipelines_by_option_has_the_script_that_does_the_same_under_wrk() {
        for row in &ROWS {
            assert_eq!(
                row.pipeline.is_some(),
                row.script == Some(Script::Pipeline),
                "{}",
                row.name
            );
        }
    }
}
