//! The command line of the truth suite.

use std::path::PathBuf;

use clap::Parser;

/// Holds the numbers of wrkbench against what the server knows, and prints a table.
#[derive(Debug, Clone, Parser)]
#[command(name = "truth", version)]
pub(crate) struct Options {
    /// Only this case; may be given several times. A wrong name lists them all.
    #[arg(long, value_name = "CASE")]
    pub(crate) only: Vec<String>,

    /// Also write machine and findings to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Leave the other tools out.
    #[arg(long)]
    pub(crate) ours_only: bool,

    /// Keep the client's core from sleeping, too, by a program that yields to everything: the server polls
    /// anyway. On a virtual machine a core that slept needs a tenth of a millisecond to wake up, and every
    /// time has that in it. With two cores nothing else should run: it would have the client's only.
    #[arg(long)]
    pub(crate) keep_awake: bool,

    /// The event backend of our client: auto, uring or epoll.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    pub(crate) io: String,

    /// The wrkbench under test [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    pub(crate) wrkbench: Option<PathBuf>,

    /// Where wrk is; left out when it is not there.
    #[arg(long, value_name = "PATH", default_value = "wrk")]
    pub(crate) wrk: PathBuf,

    /// Where wrk2 is; left out when it is not there.
    #[arg(long, value_name = "PATH", default_value = "wrk2")]
    pub(crate) wrk2: PathBuf,

    /// Where wrk-cmm is; left out when it is not there.
    #[arg(long, value_name = "PATH", default_value = "wrk-cmm")]
    pub(crate) wrk_cmm: PathBuf,

    /// Where h2load is; left out when it is not there.
    #[arg(long, value_name = "PATH", default_value = "h2load")]
    pub(crate) h2load: PathBuf,

    /// Core of the server.
    #[arg(long, default_value_t = 0)]
    pub(crate) server_core: u32,

    /// Core of the client.
    #[arg(long, default_value_t = 1)]
    pub(crate) client_core: u32,
}
