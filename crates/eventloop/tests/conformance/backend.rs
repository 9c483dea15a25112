//! The backends under test, and how each makes a loop and a peer.

use crate::client::Client;
use crate::datagram_peer::{Answer, Answerer, DatagramPeer};
use crate::peer::{Script, TestPeer};
use eventloop::epoll::Epoll;
use eventloop::sim::{Sim, SimOptions};
use eventloop::uring::Uring;
use eventloop::{Acceptor, Address, EventLoop, LoopOptions};
use std::marker::PhantomData;
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU8, Ordering};

/// One way to make a loop. `None` means that this machine forbids it; the reason has been printed.
pub(crate) trait Backend {
    type Loop: EventLoop;

    /// A loop, and a peer that serves one connection per script.
    fn start(options: &LoopOptions, scripts: Vec<Script>)
    -> Option<(Client<Self::Loop>, TestPeer)>;

    /// A loop, and peers for streams and for datagrams.
    fn start_both(
        options: &LoopOptions,
        scripts: Vec<Script>,
        answer: Answer,
    ) -> Option<(Client<Self::Loop>, TestPeer, DatagramPeer)>;

    /// A loop, and an address without a listener.
    fn start_deserted() -> Option<(Client<Self::Loop>, Address)>;
}

/// A backend on the real kernel.
pub(crate) trait Kernel {
    type Loop: Acceptor;

    /// Whether all sockets of its clients use timestamps.
    const TIMESTAMPS: bool = false;

    /// A loop, or `None` as in [`Backend`].
    fn open(options: &LoopOptions) -> Option<Self::Loop>;
}

pub(crate) struct OnEpoll;
pub(crate) struct OnUring;
pub(crate) struct OnSimulator;

/// The same backend with what a fixed rate needs: it polls before deadlines, and its sockets have
/// timestamps.
pub(crate) struct Precise<K>(PhantomData<K>);

impl<K: Kernel> Kernel for Precise<K> {
    type Loop = K::Loop;

    const TIMESTAMPS: bool = true;

    fn open(options: &LoopOptions) -> Option<K::Loop> {
        K::open(&LoopOptions {
            spin_ns: 100_000,
            ..options.clone()
        })
    }
}

impl Kernel for OnEpoll {
    type Loop = Epoll;

    fn open(options: &LoopOptions) -> Option<Epoll> {
        Some(Epoll::new(options).expect("epoll always exists"))
    }
}

impl Kernel for OnUring {
    type Loop = Uring;

    fn open(options: &LoopOptions) -> Option<Uring> {
        // Only what the probe forbids is skipped. If the loop cannot be made after that, the test
        // fails.
        testkit::require_ok("io_uring", Uring::probe())?;
        Some(Uring::new(options).expect("the probe succeeded"))
    }
}

impl<K: Kernel> Backend for K {
    type Loop = K::Loop;

    fn start(options: &LoopOptions, scripts: Vec<Script>) -> Option<(Client<K::Loop>, TestPeer)> {
        let io = K::open(options)?;
        let peer = TestPeer::tcp("127.0.0.1:0", scripts).expect("loopback works");
        Some((Client::new(io, K::TIMESTAMPS), peer))
    }

    fn start_both(
        options: &LoopOptions,
        scripts: Vec<Script>,
        answer: Answer,
    ) -> Option<(Client<K::Loop>, TestPeer, DatagramPeer)> {
        let (client, peer) = Self::start(options, scripts)?;
        let datagrams = DatagramPeer::on_loopback("127.0.0.1", answer);
        Some((client, peer, datagrams.expect("loopback works")))
    }

    fn start_deserted() -> Option<(Client<K::Loop>, Address)> {
        let io = K::open(&LoopOptions::default())?;
        // A separate host address: it is shared with no other test's listener, and no socket
        // happens to get the same port and connects to itself.
        static HOSTS: AtomicU8 = AtomicU8::new(1);
        let host = [127, 99, 0, HOSTS.fetch_add(1, Ordering::Relaxed)];
        let listener = TcpListener::bind((Ipv4Addr::from(host), 0)).expect("loopback works");
        let address = Address::Tcp(listener.local_addr().expect("it is bound"));
        Some((Client::new(io, K::TIMESTAMPS), address))
    }
}

impl Backend for OnSimulator {
    type Loop = Sim<crate::peer::ScriptedPeer>;

    fn start(
        options: &LoopOptions,
        scripts: Vec<Script>,
    ) -> Option<(Client<Self::Loop>, TestPeer)> {
        let (client, peer, _) = Self::start_both(options, scripts, Answer::Nothing)?;
        Some((client, peer))
    }

    fn start_both(
        _: &LoopOptions,
        scripts: Vec<Script>,
        answer: Answer,
    ) -> Option<(Client<Self::Loop>, TestPeer, DatagramPeer)> {
        let answerer = Answerer::new(answer);
        let (peer, scripted) = TestPeer::scripted(scripts, answerer.clone());
        // A difficult network: everything is split, late and uneven, and a close takes time.
        let options = SimOptions {
            seed: 1,
            latency_ns: 50_000,
            jitter_ns: 20_000,
            random_cuts: true,
            uplink_bytes_per_s: NonZeroU64::new(1_000_000_000),
            close_ns: 100_000,
            receive_delay_ns: 10_000,
            ..SimOptions::default()
        };
        let client = Client::new(Sim::new(options, scripted), false);
        Some((client, peer, DatagramPeer::simulated(answerer)))
    }

    fn start_deserted() -> Option<(Client<Self::Loop>, Address)> {
        let (client, peer) = Self::start(&LoopOptions::default(), Vec::new())?;
        Some((client, peer.address))
    }
}
