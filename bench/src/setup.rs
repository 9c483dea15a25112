//! Where programs are and where they run: the binary under test, the cores, the wish to stop.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::process::Placement;
use crate::procfs;

/// The cores of both sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    /// Where the server runs.
    pub(crate) server: Placement,
    /// Where the clients run, one after the other.
    pub(crate) client: Placement,
    /// On a machine with one core nothing is pinned, and the two disturb each other.
    pub(crate) are_apart: bool,
}

impl Cores {
    /// Server and client on these cores, with as many open files as this process may have.
    pub(crate) fn choose(cores: usize, server_core: u32, client_core: u32) -> Self {
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let file_limit = procfs::parse_hard_file_limit(&limits);
        let are_apart = cores > 1;
        let place = |core| Placement {
            core: are_apart.then_some(core),
            file_limit,
        };
        Self {
            server: place(server_core),
            client: place(client_core),
            are_apart,
        }
    }
}

/// A program by its path, or by its name on PATH and in further folders.
pub(crate) fn find_program(name: &Path, more_folders: &[&Path]) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = more_folders.iter().map(|folder| (*folder).to_owned());
    std::env::split_paths(&path)
        .chain(more)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// The binary that was asked for, or the one that cargo put beside this one.
///
/// # Errors
/// When there is none.
pub(crate) fn wrkbench_path(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match asked {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("wrkbench"),
    };
    if !path.is_file() {
        bail!(
            "{} is not there; build it with `make build`, or give --wrkbench",
            path.display()
        );
    }
    Ok(path)
}

/// Set when the user wants all this to end (Ctrl-C or SIGTERM).
///
/// # Errors
/// When signals cannot be watched.
pub(crate) fn interruption() -> std::io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}
