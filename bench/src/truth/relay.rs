//! A link between clients and a server over UDP, with a known delay. It loses, delays and doubles
//! datagrams, and counts what it has done.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use fastrand::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The end of the case is noticed within this time.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// Datagrams with content have this length at least: those with acknowledgements only are shorter,
/// and nobody knows whether they were lost.
const CONTENT_BYTES_MIN: usize = 50;

/// And this one at most: longer ones try the MTU.
const CONTENT_BYTES_MAX: usize = 1_200;

/// What happens to datagrams of one direction. Only those with content after the handshake are
/// lost, delayed or doubled.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    /// The share that is lost.
    pub(crate) lost: f64,
    /// The share that arrives twice.
    pub(crate) doubled: f64,
    /// The share that is late, by up to twice the delay of the link.
    pub(crate) late: f64,
}

/// A link, before it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// From one end to the other.
    pub(crate) delay: Duration,
    pub(crate) to_server: Weather,
    pub(crate) to_client: Weather,
    pub(crate) seed: u64,
}

/// What was done to the datagrams of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// All that came.
    pub(crate) came: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) late: u64,
}

/// Counts of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) to_server: Counts,
    pub(crate) to_client: Counts,
}

/// A link that stands. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    port: u16,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Passed>>>,
}

impl Relay {
    /// A link to this port.
    ///
    /// # Errors
    /// When there is no socket for it.
    pub(crate) fn start(link: Link, server: u16) -> anyhow::Result<Self> {
        let front = socket().context("no socket for the link")?;
        let port = front.local_addr()?.port();
        let is_over = Arc::<AtomicBool>::default();
        let mut work = Work {
            link,
            server: SocketAddr::from((Ipv4Addr::LOCALHOST, server)),
            front,
            clients: Vec::new(),
            numbers: HashMap::new(),
            flying: BinaryHeap::new(),
            flown: 0,
            random: Rng::with_seed(link.seed),
            passed: Passed::default(),
        };
        let until = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                work.turn()?;
            }
            Ok(work.passed)
        });
        Ok(Self {
            port,
            is_over,
            thread: Some(thread),
        })
    }

    /// The URL of a target of the server behind the link.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// Ends it.
    ///
    /// # Errors
    /// When a socket has failed.
    pub(crate) fn stop(mut self) -> anyhow::Result<Passed> {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the link has ended")?;
        let passed = thread
            .join()
            .map_err(|_| anyhow!("the link has panicked"))?;
        passed.context("the link has failed")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the delay of the link is a real one"
)]
fn now() -> Instant {
    Instant::now()
}

/// A client, and the socket that stands for it at the server.
#[derive(Debug)]
struct Client {
    address: SocketAddr,
    back: UdpSocket,
}

/// A datagram on its way.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    due: Instant,
    /// Of those that are due together, the first one leaves first.
    number: u64,
    client: usize,
    is_to_server: bool,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Work {
    link: Link,
    server: SocketAddr,
    front: UdpSocket,
    clients: Vec<Client>,
    numbers: HashMap<SocketAddr, usize>,
    flying: BinaryHeap<Reverse<Flying>>,
    flown: u64,
    random: Rng,
    passed: Passed,
}

impl Work {
    /// Waits for what comes next, and does it.
    fn turn(&mut self) -> io::Result<()> {
        let due = self.flying.peek().map(|Reverse(next)| next.due);
        let wait = due.map_or(WAIT_MAX, |due| due.saturating_duration_since(now()));
        self.wait(wait.min(WAIT_MAX))?;
        self.receive()?;
        while let Some(Reverse(next)) = self.flying.peek()
            && next.due <= now()
            && let Some(Reverse(next)) = self.flying.pop()
        {
            let client = &self.clients[next.client];
            // What an end does not take is lost, as on any link.
            let _ = if next.is_to_server {
                client.back.send(&next.bytes)
            } else {
                self.front.send_to(&next.bytes, client.address)
            };
        }
        Ok(())
    }

    fn wait(&self, wait: Duration) -> io::Result<()> {
        let sockets = self.clients.iter().map(|client| &client.back);
        let sockets = std::iter::once(&self.front).chain(sockets);
        let mut polled: Vec<_> = sockets
            .map(|socket| PollFd::new(socket, PollFlags::IN))
            .collect();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        match poll(&mut polled, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what has arrived.
    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 2048];
        while let Some((length, address)) = arrived(self.front.recv_from(&mut buffer))? {
            let client = self.number(address)?;
            self.fly(client, true, &buffer[..length]);
        }
        for client in 0..self.clients.len() {
            while let Some(length) = arrived(self.clients[client].back.recv(&mut buffer))? {
                self.fly(client, false, &buffer[..length]);
            }
        }
        Ok(())
    }

    /// The number of the client with this address.
    fn number(&mut self, address: SocketAddr) -> io::Result<usize> {
        if let Some(number) = self.numbers.get(&address) {
            return Ok(*number);
        }
        let back = socket()?;
        back.connect(self.server)?;
        self.clients.push(Client { address, back });
        self.numbers.insert(address, self.clients.len() - 1);
        Ok(self.clients.len() - 1)
    }

    fn fly(&mut self, client: usize, is_to_server: bool, bytes: &[u8]) {
        let (weather, counts) = if is_to_server {
            (self.link.to_server, &mut self.passed.to_server)
        } else {
            (self.link.to_client, &mut self.passed.to_client)
        };
        counts.came += 1;
        let random = &mut self.random;
        let mut has_luck = |share: f64| has_content(bytes) && random.f64() < share;
        if has_luck(weather.lost) {
            counts.lost += 1;
            return;
        }
        let copies = if has_luck(weather.doubled) { 2 } else { 1 };
        counts.doubled += copies - 1;
        let is_late = has_luck(weather.late);
        counts.late += u64::from(is_late);
        let late = if is_late {
            self.link.delay.mul_f64(2.0 * self.random.f64())
        } else {
            Duration::ZERO
        };
        let due = now() + self.link.delay + late;
        for _ in 0..copies {
            self.flown += 1;
            self.flying.push(Reverse(Flying {
                due,
                number: self.flown,
                client,
                is_to_server,
                bytes: bytes.to_vec(),
            }));
        }
    }
}

/// Whether a datagram has one packet after the handshake (RFC 9000 section 17.3), with content.
fn has_content(datagram: &[u8]) -> bool {
    let is_short_header = datagram.first().is_some_and(|first| first & 0x80 == 0);
    is_short_header && (CONTENT_BYTES_MIN..=CONTENT_BYTES_MAX).contains(&datagram.len())
}

/// What has arrived, if anything. A closed port at the other end is no error of the link.
fn arrived<T>(received: io::Result<T>) -> io::Result<Option<T>> {
    match received {
        Ok(received) => Ok(Some(received)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: u64 = 2_000;

    /// As many fit into the buffer of a socket.
    const TOGETHER: u64 = 50;

    /// A datagram that is neither lost nor late, like those of a handshake.
    const MARK: [u8; 1] = [0xff];

    /// Sends datagrams with their numbers to a server that sends each back. Returns the numbers in
    /// the order of their return, and what the link has counted, marks included.
    fn echoed(to_server: Weather, to_client: Weather) -> (Vec<u64>, Passed) {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let link = Link {
            delay: Duration::from_millis(2),
            to_server,
            to_client,
            seed: 7,
        };
        let relay = Relay::start(link, server.local_addr().unwrap().port()).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.connect((Ipv4Addr::LOCALHOST, relay.port)).unwrap();
        let mut seen = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 100];
                for _ in 0..marks() {
                    while let Ok((length, from)) = server.recv_from(&mut buffer) {
                        server.send_to(&buffer[..length], from).unwrap();
                        if buffer[..length] == MARK {
                            break;
                        }
                    }
                }
            });
            for number in 0..SENT {
                let mut datagram = [0; 60];
                datagram[1..9].copy_from_slice(&number.to_le_bytes());
                client.send(&datagram).unwrap();
                if (number + 1).is_multiple_of(TOGETHER) {
                    await_mark(&client, &mut seen);
                }
            }
            // A late datagram arrives at the server before the mark of the next round trip.
            await_mark(&client, &mut seen);
        });
        (seen, relay.stop().unwrap())
    }

    fn marks() -> u64 {
        SENT / TOGETHER + 1
    }

    /// Sends a mark, and takes what comes before it returns.
    fn await_mark(client: &UdpSocket, seen: &mut Vec<u64>) {
        client.send(&MARK).unwrap();
        let mut buffer = [0; 100];
        loop {
            let length = client.recv(&mut buffer).unwrap();
            if buffer[..length] == MARK {
                return;
            }
            seen.push(u64::from_le_bytes(buffer[1..9].try_into().unwrap()));
        }
    }

    #[test]
    fn a_link_in_good_weather_passes_everything_on_in_order() {
        let (seen, passed) = echoed(Weather::default(), Weather::default());
        assert_eq!(seen, Vec::from_iter(0..SENT));
        let all = Counts {
            came: SENT + marks(),
            ..Counts::default()
        };
        assert_eq!((passed.to_server, passed.to_client), (all, all));
    }

    #[test]
    fn what_a_link_has_lost_doubled_and_delayed_is_counted() {
        let rough = Weather {
            lost: 0.1,
            doubled: 0.05,
            late: 0.2,
        };
        let (seen, passed) = echoed(rough, Weather::default());
        let Passed {
            to_server,
            to_client,
        } = passed;
        let expected = SENT - to_server.lost + to_server.doubled;
        assert_eq!(seen.len() as u64, expected);
        assert_eq!(to_client.came, expected + marks());
        assert!((150..250).contains(&to_server.lost), "{to_server:?}");
        assert!((60..130).contains(&to_server.doubled), "{to_server:?}");
        assert!((300..420).contains(&to_server.late), "{to_server:?}");
        assert!(!seen.is_sorted(), "nothing was overtaken");
    }

    #[test]
    fn handshakes_acknowledgements_and_trials_of_the_mtu_pass() {
        let short = |length: usize| vec![0x40; length];
        assert!(has_content(&short(60)));
        for other in [short(33), short(1_300), vec![0xc0; 60], Vec::new()] {
            assert!(!has_content(&other), "{} bytes", other.len());
        }
    }
}
