//! The command line of the bench.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures wrkbench beside wrk on this machine and prints the table of figures.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub(crate) struct Options {
    /// Seconds that one run lasts. CPU time is counted in ticks of 10 ms: below 3 s they show.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) duration: u32,

    /// How often each client runs in each row.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,

    /// Only this row; may be given several times. A wrong name lists them all.
    #[arg(long, value_name = "ROW")]
    pub(crate) only: Vec<String>,

    /// The server that is loaded. The https row takes nginx whenever it is there, since that can be
    /// held to one cipher.
    #[arg(long, value_enum, default_value_t = ServerKind::Origin)]
    pub(crate) server: ServerKind,

    /// Also write machine, raw samples and medians to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// The wrkbench to measure [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    pub(crate) wrkbench: Option<PathBuf>,

    /// The wrk to compare with; rows have no ratio when it is absent.
    #[arg(long, value_name = "PATH", default_value = "wrk")]
    pub(crate) wrk: PathBuf,

    /// The wrk2 to compare with at a constant rate; such rows have no ratio when it is absent.
    #[arg(long, value_name = "PATH", default_value = "wrk2")]
    pub(crate) wrk2: PathBuf,

    /// Core of the server.
    #[arg(long, default_value_t = 0)]
    pub(crate) server_core: u32,

    /// Core of the client.
    #[arg(long, default_value_t = 1)]
    pub(crate) client_core: u32,
}

/// Which server is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerKind {
    /// The built-in one: `wrkbench serve`.
    Origin,
    /// nginx with one worker and a configuration of its own.
    Nginx,
}
