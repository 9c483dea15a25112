//! The command lines of `bench` and `truth`.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

/// Options of both programs.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommonOptions {
    /// Only this row or case; may be repeated. An unknown name prints the list
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// Also write machine and results to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// The wrkbench to measure [default: the one in the folder of this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) wrkbench: Option<PathBuf>,

    /// The wrk to compare with; skipped if not found
    #[arg(long, value_name = "PATH", default_value = "wrk")]
    pub(crate) wrk: PathBuf,

    /// The wrk2 to compare with; skipped if not found
    #[arg(long, value_name = "PATH", default_value = "wrk2")]
    pub(crate) wrk2: PathBuf,

    /// The h2load to compare with; skipped if not found
    #[arg(long, value_name = "PATH", default_value = "h2load")]
    pub(crate) h2load: PathBuf,

    /// Core of the server
    #[arg(long, default_value_t = 0)]
    pub(crate) server_core: u32,

    /// Core of the client
    #[arg(long, default_value_t = 1)]
    pub(crate) client_core: u32,
}

/// Compare the speed of wrkbench with wrk and wrk2 on this machine
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub(crate) struct SpeedOptions {
    #[command(flatten)]
    pub(crate) common: CommonOptions,

    /// Seconds for each run. CPU time has a resolution of 10 ms, which is visible below 3 s
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) duration: u32,

    /// Runs of each client in each row
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,

    /// Server to load. The https row always uses nginx if it is installed, since it can be
    /// restricted to one cipher. Rows about HTTP/2 name their server
    #[arg(long, value_enum, default_value_t = ServerKind::Origin)]
    pub(crate) server: ServerKind,
}

/// Check the numbers of wrkbench against the server's own log
#[derive(Debug, Clone, Parser)]
#[command(name = "truth", version)]
pub(crate) struct TruthOptions {
    #[command(flatten)]
    pub(crate) common: CommonOptions,

    /// Run only wrkbench, not the other tools
    #[arg(long)]
    pub(crate) ours_only: bool,

    /// Also keep the client's core from sleeping, with an idle-priority busy loop (the server
    /// polls anyway). On a virtual machine, waking a core can take 0.1 ms, which is part of every
    /// time. Needs more than two cores, or an otherwise idle machine
    #[arg(long)]
    pub(crate) keep_awake: bool,

    /// Event backend of wrkbench: auto, uring or epoll
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    pub(crate) io: String,

    /// The wrk-cmm to compare with; skipped if not found
    #[arg(long, value_name = "PATH", default_value = "wrk-cmm")]
    pub(crate) wrk_cmm: PathBuf,

    /// Combinations that the case `attribution-matrix` measures, 5 s each; 0 for all of them, which
    /// take half a day
    #[arg(long, value_name = "N", default_value_t = 180)]
    pub(crate) rows: usize,

    /// Seed of the choice of these combinations: the same seed chooses the same ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Measure the combinations whose names contain this text, in place of a sample; repeatable
    #[arg(long, value_name = "TEXT")]
    pub(crate) row: Vec<String>,
}

/// The server to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerKind {
    /// The built-in server: `wrkbench serve`
    Origin,
    /// nginx with one worker and its own configuration
    Nginx,
    /// nghttpd, which speaks only HTTP/2: for the rows about it
    #[value(skip)]
    Nghttpd,
}
