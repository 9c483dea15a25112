//! The remote end of the cases: one script per connection, run by threads on real sockets or by a
//! [`Peer`] of the simulator.

use crate::client::Client;
use crate::datagram_peer::Answerer;
use eventloop::sim::{Actions, Attempt, ConnectReaction, Peer};
use eventloop::{Address, EventLoop};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use testkit::Folder;

/// Connections that may wait for `accept`. The kernel limits it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A peer that waits longer for the client gives up, so that no test hangs.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// What the peer does on one connection, in order. It closes at the end.
pub(crate) type Script = Vec<PeerStep>;

/// One thing that the peer does on a connection.
#[derive(Debug, Clone)]
pub(crate) enum PeerStep {
    /// Reads this many bytes.
    Read(usize),
    /// Reads until FIN or RST.
    ReadToEnd,
    /// Reads until FIN or RST in small pieces, so that the sender has to wait.
    ReadToEndSlowly,
    Write(Vec<u8>),
    /// Sends FIN after what was sent before.
    Finish,
    /// Reads nothing until [`TestPeer::open_gate`] is called.
    Gate,
    /// Waits for the first byte and closes without reading it, which makes the kernel send RST.
    Reset,
}

/// What the peer saw on one connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Number of the script.
    pub(crate) number: usize,
    pub(crate) received: Vec<u8>,
    pub(crate) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The script ended without seeing the client's end.
    Open,
    /// The end is a FIN.
    Fin,
    /// RST, or a write that failed.
    Reset,
}

/// The test's handle of the peer.
pub(crate) struct TestPeer {
    pub(crate) address: Address,
    reports: Receiver<Report>,
    gate: Arc<Gate>,
    /// The folder of a Unix socket, which is removed on drop.
    _folder: Option<Folder>,
}

impl TestPeer {
    pub(crate) fn open_gate(&self) {
        self.gate.open();
    }

    /// The next connection's report. The client keeps working meanwhile.
    pub(crate) fn report<L: EventLoop>(&self, client: &mut Client<L>) -> Report {
        let mut report = None;
        client.until("the peer's report", |_| {
            report = self.reports.try_recv().ok();
            report.is_some()
        });
        report.expect("until() saw it")
    }

    /// The reports of `count` connections in the order of their scripts.
    pub(crate) fn reports<L: EventLoop>(
        &self,
        client: &mut Client<L>,
        count: usize,
    ) -> Vec<Report> {
        let mut reports: Vec<_> = (0..count).map(|_| self.report(client)).collect();
        reports.sort_by_key(|report| report.number);
        reports
    }

    /// Serves TCP on loopback with threads.
    pub(crate) fn tcp(bind_to: &str, scripts: Vec<Script>) -> io::Result<Self> {
        let listener = TcpListener::bind(bind_to)?;
        // The usual queue of 128 overflows when a thousand connect at once. The kernel then drops
        // the last packet of handshakes and repeats its own after 1, 2, 4 ... seconds (tcp(7),
        // tcp_abort_on_overflow).
        SockRef::from(&listener).listen(BACKLOG)?;
        let address = Address::Tcp(listener.local_addr()?);
        let (sender, reports) = channel();
        let gate = Arc::<Gate>::default();
        let accept = move || Ok(listener.accept()?.0);
        serve(accept, scripts, sender, Arc::clone(&gate));
        Ok(Self {
            address,
            reports,
            gate,
            _folder: None,
        })
    }

    /// Serves a Unix socket with threads.
    pub(crate) fn unix(scripts: Vec<Script>) -> io::Result<Self> {
        let folder = Folder::new();
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path)?;
        let (sender, reports) = channel();
        let gate = Arc::<Gate>::default();
        let accept = move || Ok(listener.accept()?.0);
        serve(accept, scripts, sender, Arc::clone(&gate));
        Ok(Self {
            address: Address::Unix(path),
            reports,
            gate,
            _folder: Some(folder),
        })
    }

    /// For the simulator: returns the peer that follows the scripts.
    /// Datagrams get the other answers.
    pub(crate) fn scripted(scripts: Vec<Script>, datagrams: Answerer) -> (Self, ScriptedPeer) {
        let (sender, reports) = channel();
        let gate = Arc::<Gate>::default();
        let scripted = ScriptedPeer {
            connections: scripts.into_iter().map(Scripted::new).collect(),
            sender,
            gate: Arc::clone(&gate),
            datagrams,
        };
        let address = Address::Tcp(([127, 0, 0, 1], 80).into());
        let peer = Self {
            address,
            reports,
            gate,
            _folder: None,
        };
        (peer, scripted)
    }
}

/// Opened once by the test.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().expect("no panic under the lock") = true;
        self.opened.notify_all();
    }

    fn is_open(&self) -> bool {
        *self.is_open.lock().expect("no panic under the lock")
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().expect("no panic under the lock");
        let waited = self
            .opened
            .wait_timeout_while(is_open, WAIT_LIMIT, |open| !*open);
        drop(waited.expect("no panic under the lock"));
    }
}

/// What a script needs of a connected socket, TCP or Unix.
trait Stream: AsFd + Read + Write + Send + Sized + 'static {
    fn prepare(&self) -> io::Result<()> {
        let socket = SockRef::from(self);
        socket.set_read_timeout(Some(WAIT_LIMIT))?;
        socket.set_write_timeout(Some(WAIT_LIMIT))
    }

    fn finish(&self) -> io::Result<()> {
        SockRef::from(self).shutdown(Shutdown::Write)
    }

    /// Blocks until a byte has arrived, without reading it.
    fn await_unread(&mut self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn await_unread(&mut self) -> io::Result<()> {
        self.peek(&mut [0]).map(drop)
    }
}

impl Stream for UnixStream {
    fn await_unread(&mut self) -> io::Result<()> {
        // Peeking is not stable for Unix sockets, so the client must send two bytes.
        self.read_exact(&mut [0])
    }
}

/// Up to this many connections have their own threads. With more connections, the scripts run one
/// after another in the order of acceptance. The client must not rely on that order.
const THREADS_MAX: usize = 16;

fn serve<S: Stream>(
    accept: impl Fn() -> io::Result<S> + Send + 'static,
    scripts: Vec<Script>,
    sender: Sender<Report>,
    gate: Arc<Gate>,
) {
    let one_by_one = scripts.len() > THREADS_MAX;
    let (accepted, in_turn) = channel::<Box<dyn FnOnce() + Send>>();
    std::thread::spawn(move || {
        for run in in_turn {
            run();
        }
    });
    std::thread::spawn(move || {
        for (number, script) in scripts.into_iter().enumerate() {
            let Ok(stream) = accept() else { return };
            let sender = sender.clone();
            let gate = Arc::clone(&gate);
            let run = move || {
                let report = run_script(number, stream, &script, &gate);
                // The test may have ended without waiting for the report.
                let _ = sender.send(report);
            };
            if one_by_one {
                // Keep accepting, so that the backlog does not overflow.
                let _ = accepted.send(Box::new(run));
            } else {
                std::thread::spawn(run);
            }
        }
    });
}

fn run_script<S: Stream>(number: usize, mut stream: S, script: &[PeerStep], gate: &Gate) -> Report {
    let mut report = Report {
        number,
        received: Vec::new(),
        end: End::Open,
    };
    stream.prepare().expect("timeouts can be set");
    for step in script {
        let end = run_step(&mut stream, step, gate, &mut report.received);
        match end {
            Ok(End::Open) => {}
            Ok(end) => report.end = end,
            Err(_) => {
                report.end = End::Reset;
                break;
            }
        }
    }
    report
}

fn run_step<S: Stream>(
    stream: &mut S,
    step: &PeerStep,
    gate: &Gate,
    received: &mut Vec<u8>,
) -> io::Result<End> {
    match step {
        PeerStep::Read(length) => {
            let got = stream.take(*length as u64).read_to_end(received)?;
            if got < *length {
                return Ok(End::Fin);
            }
        }
        PeerStep::ReadToEnd => {
            stream.read_to_end(received)?;
            return Ok(End::Fin);
        }
        PeerStep::ReadToEndSlowly => {
            let mut piece = [0; 1_024];
            loop {
                match stream.read(&mut piece)? {
                    0 => return Ok(End::Fin),
                    got => received.extend_from_slice(&piece[..got]),
                }
            }
        }
        PeerStep::Write(bytes) => stream.write_all(bytes)?,
        PeerStep::Finish => stream.finish()?,
        PeerStep::Gate => gate.wait(),
        PeerStep::Reset => stream.await_unread()?,
    }
    Ok(End::Open)
}

/// Follows the scripts in the simulator. Attempts beyond them are refused.
pub(crate) struct ScriptedPeer {
    connections: Vec<Scripted>,
    sender: Sender<Report>,
    gate: Arc<Gate>,
    datagrams: Answerer,
}

struct Scripted {
    script: std::vec::IntoIter<PeerStep>,
    current: Option<PeerStep>,
    /// Arrived, but not read by the script yet.
    inbox: Vec<u8>,
    received: Vec<u8>,
    saw_end: bool,
    reported: bool,
}

/// Interval at which the simulated peer checks the gate.
const GATE_STEP_NS: u64 = 1_000_000;

/// How long the slow reader pauses after each piece.
const SLOW_PAUSE_NS: u64 = 100_000;

impl Scripted {
    fn new(script: Script) -> Self {
        let mut script = script.into_iter();
        Self {
            current: script.next(),
            script,
            inbox: Vec::new(),
            received: Vec::new(),
            saw_end: false,
            reported: false,
        }
    }

    fn read(&mut self, length: usize) {
        let rest = self.inbox.split_off(length);
        self.received.append(&mut self.inbox);
        self.inbox = rest;
    }

    /// Carries out the current step. Returns false if it has to wait.
    fn step(&mut self, gate: &Gate, actions: &mut Actions) -> bool {
        match &self.current {
            None => return false,
            Some(PeerStep::Read(length)) => {
                let length = self.inbox.len().min(*length);
                let wanted = matches!(self.current, Some(PeerStep::Read(all)) if all > length);
                if wanted && !self.saw_end {
                    return false;
                }
                self.read(length);
            }
            Some(PeerStep::ReadToEnd) => {
                self.read(self.inbox.len());
                return self.saw_end && self.advance();
            }
            Some(PeerStep::ReadToEndSlowly) => {
                if !self.inbox.is_empty() {
                    self.read(self.inbox.len());
                    actions.stop_reading(0);
                    actions.resume_reading(SLOW_PAUSE_NS);
                }
                return self.saw_end && self.advance();
            }
            Some(PeerStep::Write(bytes)) => drop(actions.send(0, bytes.clone())),
            Some(PeerStep::Finish) => drop(actions.finish(0)),
            Some(PeerStep::Gate) if gate.is_open() => actions.resume_reading(0),
            Some(PeerStep::Gate) => {
                actions.stop_reading(0);
                actions.wake(GATE_STEP_NS);
                return false;
            }
            Some(PeerStep::Reset) if self.inbox.is_empty() => return false,
            Some(PeerStep::Reset) => drop(actions.reset(0)),
        }
        self.advance()
    }

    fn advance(&mut self) -> bool {
        self.current = self.script.next();
        true
    }
}

impl ScriptedPeer {
    fn run(&mut self, connection: u32, actions: &mut Actions) {
        let scripted = &mut self.connections[connection as usize];
        while scripted.step(&self.gate, actions) {}
        if scripted.current.is_none() {
            actions.close(0);
            let end = if scripted.saw_end {
                End::Fin
            } else {
                End::Open
            };
            self.report(connection, end);
        }
    }

    fn report(&mut self, connection: u32, end: End) {
        let scripted = &mut self.connections[connection as usize];
        if !std::mem::replace(&mut scripted.reported, true) {
            let _ = self.sender.send(Report {
                number: connection as usize,
                received: std::mem::take(&mut scripted.received),
                end,
            });
        }
    }
}

impl Peer for ScriptedPeer {
    fn on_connect(&mut self, attempt: &Attempt<'_>, _now_ns: u64) -> ConnectReaction {
        let is_there = if attempt.is_datagram {
            self.datagrams.is_listening()
        } else {
            (attempt.connection as usize) < self.connections.len()
        };
        if is_there {
            ConnectReaction::Accept { after_ns: 0 }
        } else {
            ConnectReaction::refuse()
        }
    }

    fn on_open(&mut self, connection: u32, _now_ns: u64, actions: &mut Actions) {
        self.run(connection, actions);
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], _now_ns: u64, actions: &mut Actions) {
        let scripted = &mut self.connections[connection as usize];
        scripted.inbox.extend_from_slice(bytes);
        self.run(connection, actions);
    }

    fn on_datagram(&mut self, _: u32, datagram: &[u8], _: u64, actions: &mut Actions) {
        for batch in self.datagrams.take(datagram) {
            for answer in batch.datagrams() {
                actions.send_datagram(0, answer);
            }
        }
    }

    fn on_end_of_stream(&mut self, connection: u32, _now_ns: u64, actions: &mut Actions) {
        self.connections[connection as usize].saw_end = true;
        self.run(connection, actions);
    }

    fn on_reset(&mut self, connection: u32, _now_ns: u64) {
        let scripted = &mut self.connections[connection as usize];
        scripted.read(scripted.inbox.len());
        self.report(connection, End::Reset);
    }

    fn on_wake(&mut self, connection: u32, _now_ns: u64, actions: &mut Actions) {
        self.run(connection, actions);
    }
}
