//! Compares sockets with the output of ss (iproute2), value by value.
//!
//! `scripts/install-test-packages.sh` installs it. The sockets belong to this test, on loopback,
//! and are idle during the comparison: constant values must be equal, and times must lie between
//! our readings before and after ss.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::{Map, Value};
use socket2::{Domain, SockRef, Socket as Socket2, TcpKeepalive, Type};
use telemetry::sockets::{Diag, Filter, Socket, States};
use testkit::require;

type Object = Map<String, Value>;

/// Sockets with some history that are idle now.
struct Scene {
    ports: BTreeSet<u16>,
    /// Of the connections, and of the listening sockets.
    cookies: [BTreeSet<u64>; 2],
    _sockets: (Vec<TcpListener>, Vec<TcpStream>),
}

fn listener(address: IpAddr, backlog: i32) -> TcpListener {
    let address = SocketAddr::new(address, 0);
    let socket = Socket2::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    if address.is_ipv6() {
        socket
            .set_only_v6(address.ip() != Ipv6Addr::UNSPECIFIED)
            .unwrap();
    }
    socket.bind(&address.into()).unwrap();
    socket.listen(backlog).unwrap();
    socket.into()
}

/// Connects to a listener at an address, and accepts.
fn pair(listener: &TcpListener, address: IpAddr, prepare: fn(&Socket2)) -> [TcpStream; 2] {
    let address = SocketAddr::new(address, listener.local_addr().unwrap().port());
    let socket = Socket2::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    prepare(&socket);
    socket.connect(&address.into()).unwrap();
    [socket.into(), listener.accept().unwrap().0]
}

fn exchange([from, to]: &mut [TcpStream; 2], bytes: usize) {
    let content = vec![b'x'; bytes];
    let mut received = vec![0; bytes];
    std::thread::scope(|scope| {
        scope.spawn(|| from.write_all(&content).unwrap());
        to.read_exact(&mut received).unwrap();
    });
}

impl Scene {
    fn set() -> Self {
        let v4 = listener(Ipv4Addr::LOCALHOST.into(), 5);
        let v6 = listener(Ipv6Addr::LOCALHOST.into(), 6);
        let both = listener(Ipv6Addr::UNSPECIFIED.into(), 7);
        let mut streams = Vec::new();

        let mut busy = pair(&v4, Ipv4Addr::LOCALHOST.into(), |_| ());
        exchange(&mut busy, 3_000_000);
        busy.reverse();
        exchange(&mut busy, 777);
        streams.extend(busy);

        let mut six = pair(&v6, Ipv6Addr::LOCALHOST.into(), |socket| {
            socket.set_tclass_v6(0x28).unwrap();
        });
        exchange(&mut six, 100_000);
        streams.extend(six);

        let mut mapped = pair(&both, Ipv4Addr::LOCALHOST.into(), |socket| {
            socket.set_tcp_congestion(b"reno").unwrap();
            socket.set_recv_buffer_size(20_000).unwrap();
            let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(3000));
            socket.set_tcp_keepalive(&keepalive).unwrap();
        });
        exchange(&mut mapped, 50_000);
        streams.extend(mapped);

        // Unread data, and one side shut down.
        let mut unread = pair(&v4, Ipv4Addr::LOCALHOST.into(), |socket| {
            let other = SocketAddr::from(([127, 0, 0, 9], 0));
            socket.bind(&other.into()).unwrap();
            socket.set_tos_v4(0x10).unwrap();
        });
        unread[0].write_all(&[1; 4321]).unwrap();
        SockRef::from(&unread[1])
            .shutdown(std::net::Shutdown::Write)
            .unwrap();
        streams.extend(unread);

        // One that waits to be accepted.
        streams.push(TcpStream::connect(both.local_addr().unwrap()).unwrap());

        let listeners = vec![v4, v6, both];
        let ports = listeners
            .iter()
            .map(|listener| listener.local_addr().unwrap().port())
            .collect();
        let cookie = |socket: SockRef<'_>| socket.cookie().unwrap();
        Self {
            ports,
            cookies: [
                streams.iter().map(SockRef::from).map(cookie).collect(),
                listeners.iter().map(SockRef::from).map(cookie).collect(),
            ],
            _sockets: (listeners, streams),
        }
    }

    /// A filter that matches these sockets and few others: other programs may use the same ports on
    /// other addresses.
    fn filter(&self) -> String {
        let either = self
            .ports
            .iter()
            .map(|port| format!("sport = :{port} or dport = :{port}"));
        either.collect::<Vec<_>>().join(" or ")
    }
}

/// Our sockets by cookie, which ss calls `sk`.
fn ours(filter: &Filter, cookies: &BTreeSet<u64>) -> BTreeMap<u64, (Socket, Object)> {
    let mut sockets = Vec::new();
    Diag::open().unwrap().dump(filter, &mut sockets).unwrap();
    sockets
        .into_iter()
        .filter(|socket| cookies.contains(&socket.cookie))
        .map(|socket| {
            let object = serde_json::to_value(&socket).unwrap();
            (socket.cookie, (socket, object.as_object().unwrap().clone()))
        })
        .collect()
}

/// ss's lines by cookie.
fn theirs(options: &str, filter: &[&str], cookies: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let output = Command::new("ss")
        .arg(options)
        .args(filter)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| {
            let cookie = line
                .split_whitespace()
                .find_map(|word| word.strip_prefix("sk:"));
            let cookie = u64::from_str_radix(cookie.unwrap_or_else(|| panic!("{line}")), 16);
            (cookie.unwrap(), line.to_owned())
        })
        .filter(|(cookie, _)| cookies.contains(cookie))
        .collect()
}

/// Values that change on an idle socket.
const TIMES: [&str; 8] = [
    "lastsnd",
    "lastrcv",
    "lastack",
    "timer",
    "busy",
    "rwnd_limited",
    "sndbuf_limited",
    "total_rto_time",
];

fn at_rest(object: &Object) -> Object {
    let mut object = object.clone();
    object.retain(|name, _| !TIMES.contains(&name.as_str()));
    object
}

/// Readings before ss, of ss, and after it.
struct Moment {
    before: BTreeMap<u64, (Socket, Object)>,
    lines: BTreeMap<u64, String>,
    after: BTreeMap<u64, (Socket, Object)>,
}

/// Repeats until nothing has changed between the first and the last reading: delayed
/// acknowledgements are sent a moment later.
fn still_moment(options: &str, filter: &str, states: States, cookies: &BTreeSet<u64>) -> Moment {
    const LOOKS_MAX: usize = 1000;
    let parsed = Filter::parse(filter).unwrap().with_default_states(states);
    let mut moved = BTreeSet::new();
    for _ in 0..LOOKS_MAX {
        let before = ours(&parsed, cookies);
        let lines = theirs(options, &[filter], cookies);
        let after = ours(&parsed, cookies);
        moved.clear();
        for (cookie, (_, object)) in &before {
            let later = after
                .get(cookie)
                .map(|(_, object)| at_rest(object))
                .unwrap_or_default();
            let object = at_rest(object);
            let names = object
                .keys()
                .filter(|name| object.get(*name) != later.get(*name));
            moved.extend(names.cloned());
        }
        if moved.is_empty() && before.len() == after.len() {
            return Moment {
                before,
                lines,
                after,
            };
        }
    }
    panic!("the sockets never came to rest: {moved:?}");
}

/// The values that ss printed for a socket, compared with ours.
struct Comparison<'a> {
    socket: &'a Socket,
    before: &'a Object,
    after: &'a Object,
    line: &'a str,
    /// Our names of the values that ss has printed.
    seen: BTreeSet<&'static str>,
}

impl Comparison<'_> {
    fn number(&mut self, name: &'static str) -> f64 {
        self.seen.insert(name);
        let value = self.before.get(name).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("we lack {name}, ss says {}", self.line))
    }

    /// ss prints six digits of quotients.
    fn same(&mut self, name: &'static str, theirs: &str, scale: f64) {
        let ours = self.number(name) / scale;
        let theirs = number(theirs);
        let is_same = (ours - theirs).abs() <= theirs.abs() * 1e-5;
        assert!(is_same, "{name}: {ours} is not {theirs}: {}", self.line);
    }

    /// A running time: between the readings before and after.
    fn between(&mut self, name: &'static str, theirs: &str) {
        let before = self.number(name);
        let after = self.after[name].as_f64().unwrap();
        let theirs = number(theirs);
        assert!(
            (before..=after).contains(&theirs),
            "{name}: {theirs} is not within {before} to {after}: {}",
            self.line
        );
    }

    fn option(&mut self, name: &str) {
        let options = self.before["options"].as_array().unwrap();
        assert!(options.contains(&name.into()), "{name}: {}", self.line);
    }

    /// A pair of values; the second may be missing if it is zero or unlimited.
    fn pair(&mut self, value: &str, names: [&'static str; 2], separator: char, scale: f64) {
        match value.split_once(separator) {
            Some((first, second)) => {
                self.same(names[0], first, scale);
                self.same(names[1], second, scale);
            }
            None => self.same(names[0], value, scale),
        }
    }

    /// Compares times such as `busy:12ms`, `rwnd_limited:8ms(66.7%)`.
    fn limited(&mut self, name: &'static str, value: &str) {
        let (ms, _) = value.split_once("ms").unwrap();
        // Truncated to whole milliseconds.
        let before = (self.number(name) / 1000.0).floor();
        let after = (self.after[name].as_f64().unwrap() / 1000.0).floor();
        let is_between = (before..=after).contains(&number(ms));
        assert!(is_between, "{name}: {before} to {after}: {}", self.line);
    }

    fn check(mut self) -> BTreeSet<&'static str> {
        let mut words = self.line.split_whitespace();
        let mut column = || words.next().unwrap();
        assert_eq!(self.before["state"], column());
        let (receive, send) = match self.socket.listen {
            Some(_) => ("listen_queue", "listen_limit"),
            None => ("recv_q", "send_q"),
        };
        self.same(receive, column(), 1.0);
        self.same(send, column(), 1.0);
        assert_eq!(self.before["local_address_port"], column());
        assert_eq!(self.before["peer_address_port"], column());
        let rest: Vec<_> = words.collect();
        let mut at = 0;
        while let Some(word) = rest.get(at) {
            at += 1;
            let next = rest.get(at).copied().unwrap_or_default();
            match word.split_once(':') {
                Some((key, value)) => self.key_and_value(key, value),
                None => at += self.word(word, next),
            }
        }
        self.nothing_hidden();
        self.seen
    }

    /// Returns how many of the following words belong to it.
    fn word(&mut self, word: &str, next: &str) -> usize {
        let rate = |text: &str| text.strip_suffix("bps").unwrap().to_owned();
        match word {
            // In bits; the kernel uses bytes.
            "pacing_rate" => {
                let names = ["pacing_rate", "max_pacing_rate"];
                let next = next.replace("bps", "");
                self.pair(&next, names, '/', 1.0 / 8.0);
                1
            }
            "delivery_rate" => {
                self.same("delivery_rate", &rate(next), 1.0 / 8.0);
                1
            }
            "send" => {
                let ours = self.number("cwnd") * self.number("snd_mss") * 8e6 / self.number("rtt");
                let theirs = number(&rate(next));
                assert!((ours / theirs - 1.0).abs() < 1e-5, "{ours}: {}", self.line);
                1
            }
            "app_limited" => {
                self.seen.insert("delivery_rate_app_limited");
                assert_eq!(self.before["delivery_rate_app_limited"], true);
                0
            }
            "ts" | "sack" | "ecn" | "ecnseen" | "fastopen" => {
                self.option(word);
                0
            }
            // An arrow for each open direction.
            "<->" | "-->" | "<--" | "---" => {
                let shut = self.number("shutdown");
                assert_eq!(arrow(shut as u8), word, "{}", self.line);
                0
            }
            name => {
                assert_eq!(self.before["congestion"], name, "{}", self.line);
                0
            }
        }
    }

    fn key_and_value(&mut self, key: &str, value: &str) {
        let plain = [
            ("uid", "uid"),
            ("ino", "inode"),
            ("mss", "snd_mss"),
            ("pmtu", "pmtu"),
            ("rcvmss", "rcvmss"),
            ("advmss", "advmss"),
            ("cwnd", "cwnd"),
            ("ssthresh", "ssthresh"),
            ("bytes_sent", "bytessent"),
            ("bytes_retrans", "bytesretrans"),
            ("bytes_acked", "bytesacked"),
            ("bytes_received", "bytesreceived"),
            ("segs_out", "segsout"),
            ("segs_in", "segsin"),
            ("data_segs_out", "datasegsout"),
            ("data_segs_in", "datasegsin"),
            ("delivered", "delivered"),
            ("delivered_ce", "delivered_ce"),
            ("unacked", "unacked"),
            ("lost", "lost"),
            ("sacked", "sacked"),
            ("fackets", "fackets"),
            ("dsack_dups", "dsackdups"),
            ("reordering", "reordering"),
            ("reord_seen", "reordseen"),
            ("rcv_space", "rcvspace"),
            ("rcv_ssthresh", "rcvssthresh"),
            ("notsent", "notsent_bytes"),
            ("rcv_ooopack", "rcv_ooopack"),
            ("snd_wnd", "sndwnd"),
            ("rcv_wnd", "rcv_wnd"),
            ("rehash", "rehash"),
            ("backoff", "backoff"),
            ("class_id", "class_id"),
            ("v6only", "v6only"),
        ];
        match key {
            "v6only" => {
                self.seen.insert("v6only");
                assert_eq!(self.before["v6only"], value == "1", "{}", self.line);
            }
            // No process has it open.
            "ino" if value == "0" => assert!(!self.before.contains_key("inode")),
            "sk" => {
                self.seen.insert("cookie");
                assert_eq!(
                    self.before["cookie"],
                    u64::from_str_radix(value, 16).unwrap()
                );
            }
            // ss looks up the path; the number itself cannot be compared.
            "cgroup" => assert!(self.before.contains_key("cgroup_id")),
            "wscale" => self.pair(value, ["snd_wscale", "rcv_wscale"], ',', 1.0),
            "rto" => self.same("rto", value, 1000.0),
            "ato" => self.same("ato", value, 1000.0),
            "rtt" => self.pair(value, ["rtt", "rttvar"], '/', 1000.0),
            "minrtt" => self.same("minrtt", value, 1000.0),
            "rcv_rtt" => self.same("rcvrtt", value, 1000.0),
            "retrans" => self.pair(value, ["retrans", "total_retrans"], '/', 1.0),
            "lastsnd" => self.between("lastsnd", value),
            "lastrcv" => self.between("lastrcv", value),
            "lastack" => self.between("lastack", value),
            "busy" => self.limited("busy", value),
            "rwnd_limited" => self.limited("rwnd_limited", value),
            "sndbuf_limited" => self.limited("sndbuf_limited", value),
            "skmem" => self.memory(value),
            "timer" => self.timer(value),
            "bbr" => self.bbr(value),
            _ => match plain.iter().find(|(theirs, _)| *theirs == key) {
                Some((_, ours)) => self.same(ours, value, 1.0),
                None => panic!("ss says {key}:{value}, of which this test knows nothing"),
            },
        }
    }

    /// Compares memory such as `(r0,rb131072,t0,tb2626560,f0,w0,o0,bl0,d0)`.
    fn memory(&mut self, value: &str) {
        self.seen.insert("skmem");
        let memory = self.before["skmem"].as_object().unwrap();
        let names = [
            ("r", "rmem_alloc"),
            ("rb", "rcvbuf"),
            ("t", "wmem_alloc"),
            ("tb", "sndbuf"),
            ("f", "fwd_alloc"),
            ("w", "wmem_queued"),
            ("o", "optmem"),
            ("bl", "backlog"),
            ("d", "drops"),
        ];
        let parts: Vec<_> = inside(value).split(',').collect();
        assert_eq!(parts.len(), names.len(), "{value}");
        assert_eq!(memory.len(), names.len());
        for (part, (theirs, ours)) in parts.into_iter().zip(names) {
            assert_eq!(format!("{theirs}{}", memory[ours]), part, "{}", self.line);
        }
    }

    /// `(keepalive,120min,0)`: ss rounds the time.
    fn timer(&mut self, value: &str) {
        self.seen.insert("timer");
        let timer = self.before["timer"].as_object().unwrap();
        let parts: Vec<_> = inside(value).split(',').collect();
        let retries = timer["retrans"].to_string();
        assert_eq!(timer["name"], parts[0], "{}", self.line);
        assert_eq!(retries, parts[2], "{}", self.line);
    }

    /// Compares values of BBR such as `(bw:1024bps,mrtt:0.02,pacing_gain:2.88,cwnd_gain:2.88)`.
    fn bbr(&mut self, value: &str) {
        self.seen.insert("congestion_info");
        let values = self.before["congestion_info"].clone();
        for part in inside(value).split(',') {
            let (key, theirs) = part.split_once(':').unwrap();
            let scale = match key {
                "bw" => 1.0 / 8.0,
                "mrtt" => 1000.0,
                _ => 256.0,
            };
            let ours = values[key].as_f64().unwrap() / scale;
            let theirs = number(theirs.trim_end_matches("bps"));
            assert!(
                (ours - theirs).abs() <= theirs * 1e-5,
                "{key} {ours}: {}",
                self.line
            );
        }
    }

    /// Counts that ss does not print are zero.
    fn nothing_hidden(&self) {
        for name in [
            "uid",
            "bytessent",
            "bytesretrans",
            "bytesacked",
            "bytesreceived",
            "segsout",
            "segsin",
            "datasegsout",
            "datasegsin",
            "lastsnd",
            "lastrcv",
            "lastack",
            "delivered",
            "unacked",
            "lost",
            "sacked",
            "retrans",
            "total_retrans",
            "dsackdups",
            "reordseen",
            "rcvrtt",
            "rcvspace",
            "minrtt",
            "notsent_bytes",
            "rcv_ooopack",
            "sndwnd",
            "ato",
        ] {
            let ours = self.before.get(name).and_then(Value::as_u64).unwrap_or(0);
            let is_told = ours == 0 || self.seen.contains(name);
            assert!(
                is_told,
                "{name} is {ours}, and ss has nothing: {}",
                self.line
            );
        }
    }
}

/// The arrow that ss prints for the open directions: 1 is reading, 2 writing.
fn arrow(shut: u8) -> String {
    let left = if shut & 1 == 0 { '<' } else { '-' };
    let right = if shut & 2 == 0 { '>' } else { '-' };
    format!("{left}-{right}")
}

fn inside(value: &str) -> &str {
    value
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap()
}

fn number(text: &str) -> f64 {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Compares each of these sockets, and returns our names of all values that ss printed.
fn compare(
    options: &str,
    filter: &str,
    states: States,
    cookies: &BTreeSet<u64>,
) -> BTreeSet<&'static str> {
    let moment = still_moment(options, filter, states, cookies);
    assert!(moment.before.keys().eq(cookies), "{:?}", moment.before);
    assert!(moment.lines.keys().eq(cookies), "{:?}", moment.lines);
    let mut seen = BTreeSet::new();
    for (cookie, (socket, before)) in &moment.before {
        let comparison = Comparison {
            socket,
            before,
            after: &moment.after[cookie].1,
            line: &moment.lines[cookie],
            seen: BTreeSet::new(),
        };
        seen.extend(comparison.check());
    }
    seen
}

#[test]
fn every_value_that_ss_prints_is_the_same_here() {
    if require("ss").is_none() {
        return;
    }
    let scene = Scene::set();
    let filter = scene.filter();
    let seen = compare("-tieOnH", &filter, States::OPEN, &scene.cookies[0]);
    let usual = "inode cookie pmtu rcvmss advmss cwnd bytessent bytesacked bytesreceived segsout \
                 segsin \
                 datasegsout datasegsin lastsnd lastrcv lastack delivered rcvspace rcvssthresh \
                 minrtt \
                 sndwnd rto rtt rttvar snd_mss snd_wscale pacing_rate delivery_rate";
    for name in usual.split_whitespace() {
        assert!(seen.contains(name), "ss never said {name}");
    }
    let seen = compare("-tieOnmoH", &filter, States::OPEN, &scene.cookies[0]);
    for name in ["skmem", "timer"] {
        assert!(seen.contains(name), "ss never said {name}");
    }
}

#[test]
fn listening_sockets_have_the_same_queue_and_limit_as_in_ss() {
    if require("ss").is_none() {
        return;
    }
    let scene = Scene::set();
    let either: Vec<_> = scene
        .ports
        .iter()
        .map(|port| format!("sport = :{port}"))
        .collect();
    let filter = either.join(" or ");
    let seen = compare("-tleOnmH", &filter, States::LISTENING, &scene.cookies[1]);
    assert!(
        seen.contains("listen_limit") && seen.contains("skmem"),
        "{seen:?}"
    );
    let listening = Filter::parse(&format!("state listening {filter}")).unwrap();
    let listed = ours(&listening, &scene.cookies[1]);
    let queues: BTreeSet<_> = listed
        .values()
        .filter_map(|(socket, _)| socket.listen)
        .map(|queue| (queue.waiting, queue.limit))
        .collect();
    assert_eq!(queues, BTreeSet::from([(0, 5), (0, 6), (1, 7)]));
}

#[test]
fn filters_find_the_sockets_that_ss_finds() {
    if require("ss").is_none() {
        return;
    }
    let scene = Scene::set();
    let ports: Vec<_> = scene.ports.iter().collect();
    let [a, b, c] = ports[..] else {
        panic!("{ports:?}")
    };
    let all = &scene.cookies[0] | &scene.cookies[1];
    let scene_only = format!("( {} )", scene.filter());
    for (states, condition) in [
        ("", "sport = :A or dport = :B"),
        ("", "( sport = :A or sport = :B )"),
        ("", "not sport = :A"),
        ("", "! dport = :C dport >= :1024"),
        ("", "sport gt :A and sport le :C or dport = :B"),
        ("", "sport = :A or sport = :B and sport = :B"),
        ("", "sport = :A or sport = :B sport = :B"),
        ("", "sport = :B sport = :A or sport = :C"),
        ("", "src 127.0.0.9"),
        ("", "dst 127.0.0.8/31"),
        ("", "src 127/8"),
        ("", "src 0/0"),
        ("", "src [::1]"),
        ("", "src [::1]:A or dst [::1]:B or src 127.0.0.1:C"),
        ("", "dst = 127.0.0.1 and dport != A"),
        ("", "src *:A or dst :B"),
        ("state established", "sport = :*"),
        ("state fin-wait-2", "sport > 0"),
        ("state close-wait", "sport > 0"),
        ("state listening", "sport neq B"),
        ("state listening state established", "src 127.0.0.1"),
        ("state connected exclude established", "dport > 0"),
        ("exclude listening", "sport eq A"),
        ("state big", "sport lt 65535"),
        ("state synchronized", "sport geq 1"),
    ] {
        let condition = condition
            .replace('A', &a.to_string())
            .replace('B', &b.to_string())
            .replace('C', &c.to_string());
        let condition = format!("{scene_only} and ( {condition} )");
        let filter = Filter::parse(&format!("{states} {condition}")).unwrap();
        let ours: BTreeSet<_> = ours(&filter, &all).into_keys().collect();
        // ss takes the keywords of states as separate arguments.
        let words: Vec<_> = states
            .split_whitespace()
            .chain([condition.as_str()])
            .collect();
        let theirs: BTreeSet<_> = theirs("-teOnH", &words, &all).into_keys().collect();
        assert_eq!(ours, theirs, "{states} {condition}");
    }
}

#[test]
fn a_retransmitting_socket_has_the_same_values_as_in_ss() {
    if require("ss").is_none() {
        return;
    }
    // One connection fills the queue; from then on the listener drops connections.
    let full = listener(Ipv4Addr::LOCALHOST.into(), 0);
    let address = full.local_addr().unwrap();
    let _queued = TcpStream::connect(address).unwrap();
    let asking = Socket2::new(Domain::IPV4, Type::STREAM, None).unwrap();
    asking.set_nonblocking(true).unwrap();
    assert!(
        asking.connect(&address.into()).is_err(),
        "it is in progress"
    );
    let cookies = BTreeSet::from([asking.cookie().unwrap()]);
    let filter = format!("dport = :{}", address.port());
    let parsed = Filter::parse(&format!("state syn-sent {filter}")).unwrap();
    // The kernel tries again after a second.
    let has_asked_again = (0..60_000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(1));
        let found = ours(&parsed, &cookies);
        found
            .values()
            .any(|(_, object)| object["total_retrans"].as_u64() >= Some(1))
    });
    assert!(has_asked_again);
    let seen = compare("-tieOnmoH", &filter, States::OPEN, &cookies);
    for name in ["unacked", "lost", "retrans", "total_retrans", "timer"] {
        assert!(seen.contains(name), "ss never said {name}: {seen:?}");
    }
}
