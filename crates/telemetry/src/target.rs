//! Which processes a server is: one by its number, those of a systemd unit, or those of a name.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::file::read;

/// Which processes a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// One process.
    Process(u32),
    /// All processes of a control group, such as that of a systemd unit.
    Group(PathBuf),
    /// All processes of this name.
    Name(String),
}

/// Why a server cannot be measured or sampled, one line.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No process has this number.
    #[error("no process has the number {0}")]
    NoProcess(u32),
    /// No process belongs to this unit.
    #[error("no process belongs to the unit {0}")]
    EmptyUnit(String),
    /// Neither a process nor a unit has this name.
    #[error(
        "no process is called {0:?}, and no unit (expected the number of a process, a systemd \
         unit, or the name of a program)"
    )]
    UnknownName(String),
    /// This server is the load generator.
    #[error("{0} is this program, which makes the load")]
    LoadGenerator(String),
    /// This server has ended meanwhile.
    #[error("{0} has ended")]
    Ended(String),
    /// This process cannot be sampled, for this reason.
    #[error("process {0} cannot be sampled: {1}")]
    Sampling(u32, String),
    /// CPU times of processes cannot be read without it.
    #[error("this system does not tell the length of a tick")]
    NoTick,
    /// The system cannot create the thread that measures.
    #[error("unable to create a thread: {0}")]
    Thread(std::io::Error),
}

/// No service has more processes.
pub(crate) const PROCESSES_MAX: usize = 1024;

/// Groups of services are at most this deep (`user.slice/user-0.slice/user@0.service/app.slice`).
const GROUP_DEPTH_MAX: usize = 6;

/// What ends the name of a unit that has processes (systemd.unit(5)).
const UNIT_ENDINGS: [&str; 3] = [".service", ".scope", ".slice"];

/// The kernel cuts the names of processes to this many bytes (TASK_COMM_LEN).
const COMM_BYTES: usize = 15;

impl Target {
    /// Finds out what a name means: a number, a unit with or without its ending, or the name of a
    /// process.
    ///
    /// # Errors
    /// If nothing has this name.
    pub(crate) fn find(root: &Path, name: &str) -> Result<Self, AttachError> {
        if let Ok(process) = name.parse::<u32>() {
            return if root.join("proc").join(name).exists() {
                Ok(Self::Process(process))
            } else {
                Err(AttachError::NoProcess(process))
            };
        }
        let is_unit = UNIT_ENDINGS.iter().any(|ending| name.ends_with(ending));
        let unit = if is_unit {
            name.to_owned()
        } else {
            format!("{name}.service")
        };
        if let Some(folder) = group(root, &unit) {
            let target = Self::Group(folder);
            if !target.processes(root).is_empty() {
                return Ok(target);
            }
        }
        let target = Self::Name(name.to_owned());
        match is_unit || target.processes(root).is_empty() {
            false => Ok(target),
            true if is_unit => Err(AttachError::EmptyUnit(name.to_owned())),
            true => Err(AttachError::UnknownName(name.to_owned())),
        }
    }

    /// Its processes now, without this one, whose samples would be those of the load generator.
    pub(crate) fn processes(&self, root: &Path) -> BTreeSet<u32> {
        let own = std::process::id();
        let mut processes: BTreeSet<u32> = match self {
            Self::Process(process) => BTreeSet::from([*process]),
            Self::Group(folder) => {
                let mut found = BTreeSet::new();
                members(folder, 0, &mut found);
                found
            }
            Self::Name(name) => {
                let all = numbers_in(&root.join("proc"));
                all.filter(|process| is_called(root, *process, name))
                    .collect()
            }
        };
        processes.remove(&own);
        processes.into_iter().take(PROCESSES_MAX).collect()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(process) => write!(formatter, "process {process}"),
            Self::Group(folder) => {
                let name = folder.file_name().unwrap_or_default();
                write!(formatter, "unit {}", name.display())
            }
            Self::Name(name) => write!(formatter, "processes called {name}"),
        }
    }
}

/// The numbers among the names in a folder.
pub(crate) fn numbers_in(folder: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// By the name that the process has given itself, or by its program.
fn is_called(root: &Path, process: u32, name: &str) -> bool {
    let folder = root.join("proc").join(process.to_string());
    let cut = name.get(..COMM_BYTES).unwrap_or(name);
    if read(&folder.join("comm")).is_some_and(|comm| comm.trim_end() == cut) {
        return true;
    }
    let program = fs::read_link(folder.join("exe")).ok();
    let program = program.as_deref().and_then(Path::file_name);
    // What has been replaced since it was started.
    let program = program.and_then(|program| program.to_str());
    program.is_some_and(|program| program.trim_end_matches(" (deleted)") == name)
}

/// The folder of a unit's control group.
fn group(root: &Path, unit: &str) -> Option<PathBuf> {
    if unit.contains('/') {
        return None;
    }
    let mount = root.join("sys/fs/cgroup");
    // With both versions of control groups, systemd's own hierarchy has its units.
    ["", "systemd", "unified"]
        .iter()
        .find_map(|hierarchy| group_below(&mount.join(hierarchy), unit, 0))
}

fn group_below(folder: &Path, unit: &str, depth: usize) -> Option<PathBuf> {
    let own = folder.join(unit);
    if own.is_dir() {
        return Some(own);
    }
    if depth == GROUP_DEPTH_MAX {
        return None;
    }
    folders_in(folder).find_map(|below| group_below(&below, unit, depth + 1))
}

fn folders_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

fn members(folder: &Path, depth: usize, found: &mut BTreeSet<u32>) {
    let own = read(&folder.join("cgroup.procs")).unwrap_or_default();
    found.extend(own.lines().filter_map(|line| line.parse::<u32>().ok()));
    // 0 is a process of another namespace.
    found.remove(&0);
    if depth < GROUP_DEPTH_MAX {
        for below in folders_in(folder) {
            members(&below, depth + 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use testkit::Folder;

    use super::*;

    fn machine() -> Folder {
        let folder = Folder::new();
        for (process, comm, program) in [
            (10, "nginx", "/usr/sbin/nginx"),
            (11, "nginx", "/usr/sbin/nginx (deleted)"),
            (12, "worker", "/opt/a server"),
            (13, "a-very-long-nam", "/x/y"),
        ] {
            folder.file_with(&format!("proc/{process}/comm"), format!("{comm}\n"));
            let link = folder.join(&format!("proc/{process}/exe"));
            symlink(program, link).expect("a link");
        }
        let service = "sys/fs/cgroup/system.slice/web.service";
        folder.file_with(&format!("{service}/cgroup.procs"), "12\n");
        folder.file_with(&format!("{service}/below/cgroup.procs"), "13\n0\n");
        folder.file_with("sys/fs/cgroup/system.slice/off.service/cgroup.procs", "");
        folder
    }

    fn found(name: &str) -> Result<Vec<u32>, AttachError> {
        let folder = machine();
        let target = Target::find(folder.path(), name)?;
        Ok(target.processes(folder.path()).into_iter().collect())
    }

    #[test]
    fn a_server_is_found_by_number_unit_name_or_program() {
        for (name, processes) in [
            ("11", vec![11]),
            ("web.service", vec![12, 13]),
            ("web", vec![12, 13]),
            ("nginx", vec![10, 11]),
            ("worker", vec![12]),
            ("a server", vec![12]),
            ("a-very-long-name-of-a-program", vec![13]),
        ] {
            assert_eq!(found(name).unwrap(), processes, "{name}");
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (name, part) in [
            ("99", "no process has the number 99"),
            ("off.service", "no process belongs to the unit off.service"),
            ("other", "no process is called \"other\""),
            ("", "no process is called \"\""),
            ("../system.slice/web", "no process is called"),
            ("99999999999", "no process is called"),
        ] {
            let error = found(name).expect_err(name).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_load_generator_is_no_server() {
        let own = Target::Process(std::process::id());
        assert_eq!(own.processes(Path::new("/")), BTreeSet::new());
    }
}
