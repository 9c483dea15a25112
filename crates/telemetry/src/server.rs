//! The server, if it runs on this machine: its processes, their CPU time, and whether they share
//! CPUs with the load generator.
//!
//! Its processes are those that have the target's listening socket. The kernel lists that socket
//! with its inode over sock_diag(7), in `/proc/net/tcp` and `tcp6` where it has no sock_diag, or in
//! `/proc/net/unix` (proc(5)), and `/proc/PID/fd` has a link to the inode for each process that has
//! it. Processes of other users can only be seen by root.
//!
//! All of that is CPU time beside the run that a short run shows. So the kernel is asked for the
//! listening sockets of a port, not for all sockets; the links of all processes are read once,
//! before the run; and at its end only those of processes that were started since.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use results::LocalServer;
use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat};

use crate::clock;
use crate::file::read;
use crate::procfs::{process, socket_table};
use crate::sockets::{Diag, Filter, Socket};
use crate::target::numbers_in;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// A TCP address with its port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Reads the CPU time of a server's processes at the start and at the end of a run.
#[derive(Debug)]
pub struct ServerMeter {
    root: PathBuf,
    tick_ns: Option<u64>,
    inodes: BTreeSet<u64>,
    /// The processes without these sockets at the start. A socket is handed on to children, hardly
    /// ever to a process that is there already.
    others: HashSet<u32>,
    /// CPUs on which this program may run.
    own_cpus: Option<BTreeSet<u32>>,
    /// By process: its CPU time at the start, in ticks.
    begin_ticks: BTreeMap<u32, u64>,
}

impl ServerMeter {
    /// Finds the processes behind these addresses; `None` if there are none on this machine, or if
    /// this user may not see them.
    #[must_use]
    pub fn find(addresses: &[ServerAddress]) -> Option<Self> {
        let root = Path::new("/");
        Self::find_below(root, addresses, is_of_this_machine, listening_now)
    }

    fn find_below(
        root: &Path,
        addresses: &[ServerAddress],
        is_local: impl Fn(IpAddr) -> bool,
        listening: impl Fn(SocketAddr) -> Option<Vec<u64>>,
    ) -> Option<Self> {
        let table = |name: &str| read(&root.join("proc/net").join(name)).unwrap_or_default();
        let mut inodes = BTreeSet::new();
        for address in addresses {
            match address {
                ServerAddress::Tcp(address) if is_local(address.ip()) => {
                    inodes.extend(listening(*address).unwrap_or_else(|| {
                        let tables = ["tcp", "tcp6"].map(table);
                        let tables = tables.iter();
                        tables
                            .flat_map(|it| socket_table::listening_tcp(it, *address))
                            .collect()
                    }));
                }
                ServerAddress::Tcp(_) => {}
                ServerAddress::Unix(path) => {
                    inodes.extend(socket_table::listening_unix(&table("unix"), path));
                }
            }
        }
        let mut others = HashSet::new();
        let processes = with_sockets(root, &inodes, &mut others);
        (!processes.is_empty()).then(|| Self {
            root: root.to_owned(),
            tick_ns: clock::tick_ns(),
            own_cpus: allowed_cpus(root, "self"),
            inodes,
            others,
            begin_ticks: cpu_ticks(root, &processes),
        })
    }

    /// Notes the CPU time at the start of the run. Processes that were started since they were
    /// looked for are found at the end: looking through all processes takes too long here.
    pub fn begin(&mut self) {
        let processes: Vec<u32> = self.begin_ticks.keys().copied().collect();
        self.begin_ticks = cpu_ticks(&self.root, &processes);
    }

    /// The processes and their CPU time since [`Self::begin`]. The whole CPU time of processes that
    /// were started since then counts.
    #[must_use]
    pub fn end(&self) -> LocalServer {
        let mut others = self.others.clone();
        let processes = with_sockets(&self.root, &self.inodes, &mut others);
        let end_ticks = cpu_ticks(&self.root, &processes);
        let used = end_ticks.iter().map(|(process, ticks)| {
            let begin = self.begin_ticks.get(process).copied().unwrap_or(0);
            ticks.saturating_sub(begin)
        });
        let used_ticks = used.fold(0, u64::saturating_add);
        let all: BTreeSet<&u32> = self.begin_ticks.keys().chain(end_ticks.keys()).collect();
        let shares = |process: &&u32| {
            let cpus = allowed_cpus(&self.root, &process.to_string());
            match (&self.own_cpus, cpus) {
                (Some(own), Some(cpus)) => !own.is_disjoint(&cpus),
                _ => true,
            }
        };
        LocalServer {
            processes: u32::try_from(all.len()).unwrap_or(u32::MAX),
            // Those that have ended took their CPU time with them.
            cpu_ns: (!end_ticks.is_empty())
                .then_some(self.tick_ns)
                .flatten()
                .map(|tick_ns| used_ticks.saturating_mul(tick_ns)),
            shares_cpus: end_ticks.keys().any(|process| shares(&process)),
        }
    }
}

/// The inodes of the sockets that accept connections to an address; `None` if the kernel does not
/// tell.
fn listening_now(address: SocketAddr) -> Option<Vec<u64>> {
    let text = format!("state listening sport = :{}", address.port());
    let filter = Filter::parse(&text).ok()?;
    let mut sockets = Vec::new();
    Diag::open().ok()?.dump(&filter, &mut sockets).ok()?;
    let is_it = |socket: &&Socket| {
        let own = socket.local_address;
        own.is_unspecified() || own.to_canonical() == address.ip().to_canonical()
    };
    let inodes = sockets.iter().filter(is_it).filter_map(|it| it.inode);
    Some(inodes.map(u64::from).collect())
}

/// The processes that have one of these sockets, without this one and those among `others`, to
/// which it adds all that have none of them.
fn with_sockets(root: &Path, inodes: &BTreeSet<u64>, others: &mut HashSet<u32>) -> Vec<u32> {
    if inodes.is_empty() {
        return Vec::new();
    }
    others.insert(std::process::id());
    let mut found = Vec::new();
    for process in numbers_in(&root.join("proc")) {
        if others.contains(&process) {
            continue;
        }
        if has_socket(root, process, inodes) {
            found.push(process)
        } else {
            others.insert(process);
        }
    }
    found
}

/// Whether a process has one of these sockets among its first descriptors. Programs open their
/// listening sockets first, and one with many connections has a descriptor for each.
fn has_socket(root: &Path, process: u32, inodes: &BTreeSet<u64>) -> bool {
    const DESCRIPTORS_MAX: usize = 1024;
    let path = root.join("proc").join(process.to_string()).join("fd");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Relative names spare the kernel the way through the folders.
    let Ok(folder) = openat(CWD, &path, flags, Mode::empty()) else {
        return false;
    };
    let Ok(entries) = Dir::read_from(&folder) else {
        return false;
    };
    let mut link = Vec::new();
    for entry in entries.flatten().take(DESCRIPTORS_MAX) {
        let Ok(target) = readlinkat(&folder, entry.file_name(), std::mem::take(&mut link)) else {
            continue;
        };
        let inode = target.to_str().ok().and_then(socket_table::inode_of_link);
        if inode.is_some_and(|inode| inodes.contains(&inode)) {
            return true;
        }
        link = target.into_bytes();
    }
    false
}

/// CPU time since the start of each process, in ticks.
fn cpu_ticks(root: &Path, processes: &[u32]) -> BTreeMap<u32, u64> {
    let ticks = |process: &u32| {
        let stat = root.join("proc").join(process.to_string()).join("stat");
        Some((*process, process::Usage::of_stat(&read(&stat)?)?.own_ticks))
    };
    processes.iter().filter_map(ticks).collect()
}

fn allowed_cpus(root: &Path, process: &str) -> Option<BTreeSet<u32>> {
    let status = read(&root.join("proc").join(process).join("status"))?;
    process::allowed_cpus(&status)
}

/// Whether an address belongs to this machine: only then can a socket be bound to it.
fn is_of_this_machine(address: IpAddr) -> bool {
    let is_any = address == IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        || address == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    address.is_loopback() || is_any || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, symlink};

    use testkit::Folder;

    use super::*;

    const STATUS: &str = "Name:\tserver\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n";
    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
        retrnsmt   uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 \
        00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0\n";

    fn address() -> ServerAddress {
        ServerAddress::Tcp("127.0.0.1:8080".parse().expect("an address"))
    }

    /// A process with a listening socket that has used `ticks` of CPU time.
    fn process(folder: &Folder, id: u32, ticks: u64, status: &str) {
        let stat = format!("{id} (a (b) c) S 1 1 1 0 -1 0 1 2 3 4 {ticks} 0 0 0 20 0 1 0 9\n");
        folder.file_with(&format!("proc/{id}/stat"), &stat);
        folder.file_with(&format!("proc/{id}/status"), status);
        let fds = folder.join(&format!("proc/{id}/fd"));
        fs::create_dir_all(&fds).expect("a folder");
        let _ = symlink("socket:[4711]", fds.join("3"));
    }

    #[test]
    fn the_processes_with_the_listening_socket_are_the_server() {
        let folder = Folder::new();
        folder.file_with("proc/net/tcp", TABLE);
        folder.file_with("proc/self/status", STATUS);
        process(&folder, 10, 100, STATUS);
        process(&folder, 11, 200, STATUS);
        let found = ServerMeter::find_below(folder.path(), &[address()], |_| true, |_| None);
        let meter = found.expect("there is a server");
        process(&folder, 10, 150, STATUS);
        process(&folder, 11, 225, STATUS);
        process(&folder, 12, 5, STATUS);
        let expected = LocalServer {
            processes: 3,
            cpu_ns: Some((50 + 25 + 5) * 10_000_000),
            shares_cpus: true,
        };
        assert_eq!(meter.end(), expected);
        let elsewhere = ServerMeter::find_below(folder.path(), &[address()], |_| false, |_| None);
        assert!(elsewhere.is_none(), "the address is not of this machine");
    }

    #[test]
    fn a_server_on_other_cpus_shares_none() {
        let folder = Folder::new();
        folder.file_with("proc/net/tcp", TABLE);
        folder.file_with("proc/self/status", "Cpus_allowed_list:\t2,4-5\n");
        process(&folder, 10, 100, STATUS);
        let found = ServerMeter::find_below(folder.path(), &[address()], |_| true, |_| None);
        assert!(!found.expect("there is a server").end().shares_cpus);
    }

    #[test]
    fn the_kernel_tells_the_sockets_that_listen_at_an_address() {
        let listeners = ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"];
        for listener in listeners.map(TcpListener::bind) {
            let Ok(listener) = listener else {
                continue;
            };
            let port = listener.local_addr().expect("it is bound").port();
            let own = fs::metadata(format!("/proc/self/fd/{}", listener.as_raw_fd()));
            let own = own.expect("it is open").ino();
            let at = |host: &str| {
                let address = format!("{host}:{port}").parse().expect("an address");
                listening_now(address).is_some_and(|it| it.contains(&own))
            };
            let address = listener.local_addr().expect("it is bound").ip();
            let is_v4 = address.is_ipv4() || address.is_unspecified();
            assert_eq!(at("127.0.0.1"), is_v4, "{address}");
            assert_eq!(at("127.0.0.2"), address.is_unspecified(), "{address}");
            let is_v6 = address.is_ipv6() || address.is_unspecified();
            assert_eq!(at("[::1]"), is_v6, "{address}");
        }
    }

    #[test]
    fn the_own_process_is_no_server_and_neither_is_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = ServerAddress::Tcp(listener.local_addr().expect("it is bound"));
        assert!(ServerMeter::find(&[own]).is_none());
        assert!(ServerMeter::find(&[]).is_none());
        let missing = ServerAddress::Unix(PathBuf::from("/nonexistent"));
        assert!(ServerMeter::find(&[missing]).is_none());
    }
}
