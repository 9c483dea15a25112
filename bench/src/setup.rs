//! Programs, cores and interruption: what both programs of this crate need to start.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::process::Placement;
use crate::procfs;

/// The cores of server and client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    /// The core that only the server uses.
    pub(crate) server: Placement,
    /// The core of the clients.
    pub(crate) client: Placement,
    /// False on a machine with one core, where nothing is pinned and both compete for it.
    pub(crate) are_apart: bool,
}

impl Cores {
    /// Uses these cores and the hard limit of open files of this process.
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

/// Finds a program by its path, or by its name in PATH and additional folders.
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

/// The given binary, or the one in the folder of this program.
///
/// # Errors
/// When it does not exist.
pub(crate) fn wrkbench_path(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match asked {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("wrkbench"),
    };
    if !path.is_file() {
        bail!(
            "{} does not exist; build it with `make build`, or give --wrkbench",
            path.display()
        );
    }
    Ok(path)
}

/// A flag that is set by Ctrl-C and SIGTERM.
///
/// # Errors
/// When the handlers cannot be registered.
pub(crate) fn interruption() -> std::io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}
