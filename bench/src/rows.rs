//! The rows of the table: what is asked of the clients, and the figure to reach.

use anyhow::bail;
use serde::Serialize;

/// One kind of work.
#[derive(Debug)]
pub(crate) struct Row {
    /// Short name for `--only` and JSON.
    pub(crate) name: &'static str,
    /// What the table prints.
    pub(crate) title: &'static str,
    /// Open connections, all on one thread.
    pub(crate) connections: u32,
    /// What the server sends back.
    pub(crate) answer: Answer,
    /// Whether the run goes over TLS.
    pub(crate) tls: bool,
    /// The script that all clients run.
    pub(crate) script: Option<Script>,
    /// How many requests go out in one write, by `--pipeline`; wrk takes the script instead.
    pub(crate) pipeline: Option<u32>,
    /// Requests per second that are asked for; the row is then compared with wrk2, which has rates,
    /// and not with wrk.
    pub(crate) rate: Option<u32>,
    /// Seconds that a run of this row needs at least.
    pub(crate) duration_min_s: u32,
    /// The runs are watched on a terminal; they are then compared with one that is not, and with no
    /// other tool.
    pub(crate) watched: bool,
    /// What is to be reached.
    pub(crate) figure: Figure,
}

/// The body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// 63 bytes, the server's default.
    Small,
    /// 100 kB.
    Large,
    /// 1 MB.
    Huge,
}

/// The scripts in `bench/scripts/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Sixteen requests as one string.
    Pipeline,
    /// `request()` that calls `wrk.format`.
    Request,
    /// `response()` that looks at status, headers and body.
    Response,
    /// Prints what the server says about the TLS connection.
    PrintBody,
}

impl Script {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [
        Self::Pipeline,
        Self::Request,
        Self::Response,
        Self::PrintBody,
    ];

    /// The file's name.
    pub(crate) const fn file_name(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline.lua",
            Self::Request => "request.lua",
            Self::Response => "response.lua",
            Self::PrintBody => "print-body.lua",
        }
    }

    /// The file's text, so that the bench runs from any folder.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Pipeline => include_str!("../scripts/pipeline.lua"),
            Self::Request => include_str!("../scripts/request.lua"),
            Self::Response => include_str!("../scripts/response.lua"),
            Self::PrintBody => include_str!("../scripts/print-body.lua"),
        }
    }
}

/// A ratio to the baseline (see [`crate::tool::Client::baseline`]) that is not to be exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "of", content = "at_most", rename_all = "snake_case")]
pub(crate) enum Figure {
    /// Client CPU time per request.
    CpuPerRequest(f64),
    /// Peak resident memory of the client.
    ResidentMemory(f64),
    /// Share of the requests per second that is missing. Two runs differ by far more anyway, so it
    /// is held against the share of a core that the client's threads beside its worker take from
    /// it, and against the interval of the ratio, which must not say that more is missing.
    RequestsLost(f64),
}

/// All rows, in the order of the table.
pub(crate) const ROWS: [Row; 11] = [
    Row {
        name: "keepalive",
        title: "keep-alive GET, 63-byte body, 64 connections",
        connections: 64,
        answer: Answer::Small,
        tls: false,
        script: None,
        pipeline: None,
        rate: None,
        duration_min_s: 1,
        watched: false,
        figure: Figure::CpuPerRequest(0.65),
    },
    Row {
        name: "keepalive-1000",
        title: "keep-alive GET, 63-byte body, 1,000 connections",
        connections: 1_000,
        answer: Answer::Small,
        tls: false,
        script: None,
        pipeline: None,
        rate: None,
        duration_min_s: 1,
        watched: false,
        figure: Figure::CpuPerRequest(0.65),
    },
    Row {
        name: "pipelined",
        title: "64 connections, pipelined 16 deep",
        connections: 64,
        answer: Answer::Small,
        tls: false,
        script: Some(Script::Pipeline),
        pipeline: Some(16),
        rate: None,
        duration_min_s: 1,
        watched: false,
        figure: Figure::CpuPerRequest(0.50),
    },
    Row {
        name: "large",
        title: "100 kB bodies, 64 connections",
        connections: 64,
        answer: Answer::Large,
        tls: false,
        script: None,
        pipeline: None,
        rate: None,
        duration_min_s: 1,
        watched: false,
        figure: Figure::CpuPerRequest(0.40),
    },
    Row {
        name: "huge",
        title: "1 MB bodies, 64 connections",
        connections: 64,
        answer: Answer::Huge,
        tls: false,
        script: None,
        pipeline: None,
        rate: None,
        duration_min_s: 1,
        watched: false,
        figure: Figure::CpuPerRequest(0.40),
    },
    Row {
        name: "lua-request",
        title: "Lua request() with wrk.format, 64 connections",
        connections: 64,
        answer: Answer::Small,
        tls: false,
        script: Some(Script::Request),
        pipeline: None,
        rate: None,
        duration_min_s: 1,
        watched: false,
        figure: Figure::CpuPerRequest(0.80),
    },
    Row {
        name: "lua-response",
        title: "Lua response(), 64 connections",
        connections: 64,
        answer: Answer::Small,
        tls: false,
        script: Some(Script::Response),
        pipeline: None,
        rate: None,
        duration_min_s: 1,
        watched: false,
        figure: Figure::CpuPerRequest(0.80),
    },
    Row {
        name: "https",
        title: "https keep-alive, 64 connections",
        connections: 64,
        answer: Answer::Small,
        tls: true,
        script: None,
        pipeline: None,
        rate: None,
        duration_min_s: 1,
        watched: false,
        figure: Figure::CpuPerRequest(0.85),
    },
    Row {
        name: "memory",
        title: "resident memory with 10,000 connections",
        connections: 10_000,
        answer: Answer::Small,
        tls: false,
        script: None,
        pipeline: None,
        rate: None,
        duration_min_s: 1,
        watched: false,
        figure: Figure::ResidentMemory(1.0 / 3.0),
    },
    Row {
        name: "rate",
        title: "constant rate, 20,000/s over 1,000 connections",
        connections: 1_000,
        answer: Answer::Small,
        tls: false,
        script: None,
        pipeline: None,
        rate: Some(20_000),
        // wrk2 starts its connections 5 ms apart, so it needs 5 s to reach the rate at all.
        duration_min_s: 15,
        watched: false,
        figure: Figure::CpuPerRequest(0.40),
    },
    Row {
        name: "live",
        title: "what being watched costs: keep-alive GET, 63-byte body, 64 connections",
        connections: 64,
        answer: Answer::Small,
        tls: false,
        script: None,
        pipeline: None,
        rate: None,
        duration_min_s: 1,
        watched: true,
        figure: Figure::RequestsLost(0.01),
    },
];

/// The name, for `--only`, of the table that follows the rows: how wrkbench keeps a schedule.
pub(crate) const TIMING: &str = "timing";

/// The rows with these names, in the order of the table; all when none is named.
///
/// # Errors
/// When a name is not one of a row: the message lists them.
pub(crate) fn selected(names: &[String]) -> anyhow::Result<Vec<&'static Row>> {
    for name in names {
        if name != TIMING && !ROWS.iter().any(|row| row.name == name) {
            let known: Vec<_> = ROWS.iter().map(|row| row.name).chain([TIMING]).collect();
            bail!(
                "--only: \"{name}\" is not a row; rows are {}",
                known.join(", ")
            );
        }
    }
    let chosen = |row: &&Row| names.is_empty() || names.iter().any(|name| row.name == name);
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
