//! File descriptors: none leak, and running out of them is an ordinary completion.
//!
//! The table of open files belongs to the whole process, so these tests must not run in parallel
//! with any other. They have their own binary and run one at a time.
#![allow(unsafe_code, reason = "setrlimit has no safe form in std")]

use eventloop::epoll::Epoll;
use eventloop::uring::Uring;
use eventloop::{
    Address, CloseMode, EventLoop, LoopOptions, Payload, SocketEvent, SocketOptions, Token,
};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Far above what any case needs.
const WAIT_LIMIT_NS: u64 = 30_000_000_000;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("/proc exists")
        .count()
}

fn uring() -> Option<Uring> {
    testkit::require_ok("io_uring", Uring::probe())?;
    Some(Uring::new(&LoopOptions::default()).expect("the probe succeeded"))
}

fn epoll() -> Epoll {
    Epoll::new(&LoopOptions::default()).expect("epoll always exists")
}

/// Takes completions until `wanted` matches an event of this token.
fn await_event<L: EventLoop>(
    io: &mut L,
    token: Token,
    mut wanted: impl FnMut(&SocketEvent) -> bool,
) -> SocketEvent {
    let give_up_ns = io.now_ns() + WAIT_LIMIT_NS;
    loop {
        while let Some(completion) = io.next() {
            if completion.token == token && wanted(&completion.event) {
                return completion.event;
            }
        }
        assert!(io.now_ns() < give_up_ns, "the completion never came");
        io.wait(Some(give_up_ns)).expect("the loop works");
    }
}

fn connect<L: EventLoop>(io: &mut L, address: &Address) -> SocketEvent {
    let token = io.connect(0, address, &SocketOptions::default());
    await_event(io, token, |_| true)
}

/// Accepts this many connections one after another and reads each to its end.
fn reader(connections: usize) -> (Address, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let address = Address::Tcp(listener.local_addr().expect("it is bound"));
    let thread = std::thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("a connection");
            // An abort is an error here; only the end matters.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    (address, thread)
}

/// One connection with a send and a receive in flight, closed gracefully or aborted.
fn open_and_close<L: EventLoop>(io: &mut L, address: &Address, round: usize) {
    let options = SocketOptions {
        timestamps: round.is_multiple_of(3),
        ..SocketOptions::default()
    };
    let token = io.connect(0, address, &options);
    await_event(io, token, |event| matches!(event, SocketEvent::Connected));
    io.send(token, Payload::Owned(vec![0; 100_000]));
    let mode = match round % 2 {
        0 => CloseMode::Graceful,
        _ => CloseMode::Abort,
    };
    io.close(token, mode);
    await_event(io, token, |event| matches!(event, SocketEvent::Closed));
}

fn assert_nothing_is_left_behind<L: EventLoop>(open: impl FnOnce() -> Option<L>) {
    const ROUNDS: usize = 1_000;
    let _alone = alone();
    let before = open_descriptors();
    let Some(mut io) = open() else { return };
    let (address, reader) = reader(ROUNDS);
    for round in 0..ROUNDS {
        open_and_close(&mut io, &address, round);
    }
    // The peer has seen every end, which proves that the sockets are closed and not only forgotten.
    let give_up_ns = io.now_ns() + WAIT_LIMIT_NS;
    while !reader.is_finished() {
        let now_ns = io.now_ns();
        assert!(now_ns < give_up_ns, "a socket was never closed");
        io.wait(Some(now_ns + 1_000_000)).expect("the loop works");
        while io.next().is_some() {}
    }
    reader.join().expect("the peer saw every end");
    drop(io);
    assert_eq!(open_descriptors(), before);
}

#[test]
fn epoll_leaves_no_descriptor_behind_after_a_thousand_connections() {
    assert_nothing_is_left_behind(|| Some(epoll()));
}

#[test]
fn io_uring_leaves_no_descriptor_behind_after_a_thousand_connections() {
    assert_nothing_is_left_behind(uring);
}

/// One datagram socket with a send and a receive in flight, closed gracefully or aborted.
fn open_and_close_datagrams<L: EventLoop>(io: &mut L, address: SocketAddr, round: usize) {
    let options = SocketOptions {
        timestamps: round.is_multiple_of(3),
        ..SocketOptions::default()
    };
    let token = io.connect_datagrams(0, address, &options);
    await_event(io, token, |event| matches!(event, SocketEvent::Connected));
    io.send(
        token,
        Payload::Datagrams {
            buffer: vec![0; 5_000],
            segment: 1_200,
        },
    );
    let mode = match round % 2 {
        0 => CloseMode::Graceful,
        _ => CloseMode::Abort,
    };
    io.close(token, mode);
    await_event(io, token, |event| matches!(event, SocketEvent::Closed));
}

/// How many datagram sockets are connected to this port (proc(5), /proc/net/udp).
fn datagram_sockets_to(address: SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/net/udp").expect("/proc exists");
    let port = format!(":{:04X}", address.port());
    let remote = |line: &&str| line.split_whitespace().nth(2).map(str::to_owned);
    let connected = |line: &&str| remote(line).is_some_and(|remote| remote.ends_with(&port));
    table.lines().filter(connected).count()
}

fn assert_no_datagram_socket_is_left_behind<L: EventLoop>(open: impl FnOnce() -> Option<L>) {
    let _alone = alone();
    let before = open_descriptors();
    let Some(mut io) = open() else { return };
    let peer = UdpSocket::bind("127.0.0.1:0").expect("loopback works");
    let address = peer.local_addr().expect("it is bound");
    // A loop has descriptors of its own, and one that keeps timestamps enabled.
    open_and_close_datagrams(&mut io, address, 0);
    let with_loop = open_descriptors();
    for round in 0..1_000 {
        open_and_close_datagrams(&mut io, address, round);
    }
    assert_eq!(open_descriptors(), with_loop, "while the loop lives");
    // Sockets of io_uring are in no table of the process, so the kernel is asked for them.
    let give_up_ns = io.now_ns() + WAIT_LIMIT_NS;
    while datagram_sockets_to(address) > 0 {
        let now_ns = io.now_ns();
        assert!(now_ns < give_up_ns, "a socket was never closed");
        io.wait(Some(now_ns + 1_000_000)).expect("the loop works");
        while io.next().is_some() {}
    }
    drop((io, peer));
    assert_eq!(open_descriptors(), before);
}

#[test]
fn epoll_leaves_no_descriptor_behind_after_a_thousand_datagram_sockets() {
    assert_no_datagram_socket_is_left_behind(|| Some(epoll()));
}

#[test]
fn io_uring_leaves_no_descriptor_behind_after_a_thousand_datagram_sockets() {
    assert_no_datagram_socket_is_left_behind(uring);
}

/// While it lives, this process gets no new descriptor.
struct Shortage {
    before: libc::rlimit,
}

impl Shortage {
    fn begin() -> Self {
        let mut before = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: `before` lives through the call.
        let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) };
        assert_eq!(got, 0, "the limit can be read");
        set_limit(libc::rlimit {
            rlim_cur: 0,
            ..before
        });
        Self { before }
    }
}

impl Drop for Shortage {
    fn drop(&mut self) {
        set_limit(self.before);
    }
}

fn set_limit(limit: libc::rlimit) {
    // SAFETY: `limit` lives through the call.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0, "the soft limit can be moved below the hard one");
}

fn assert_a_shortage_is_survived<L: EventLoop>(open: impl FnOnce() -> Option<L>) {
    let _alone = alone();
    let Some(mut io) = open() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let address = Address::Tcp(listener.local_addr().expect("it is bound"));
    let shortage = Shortage::begin();
    for _ in 0..10 {
        let event = connect(&mut io, &address);
        assert!(
            matches!(event, SocketEvent::ConnectFailed(libc::EMFILE)),
            "{event:?}"
        );
    }
    drop(shortage);
    let event = connect(&mut io, &address);
    assert!(matches!(event, SocketEvent::Connected), "{event:?}");
}

#[test]
fn epoll_reports_a_full_file_table_and_goes_on_when_there_is_room() {
    assert_a_shortage_is_survived(|| Some(epoll()));
}

#[test]
fn io_uring_reports_a_full_file_table_and_goes_on_when_there_is_room() {
    assert_a_shortage_is_survived(uring);
}
