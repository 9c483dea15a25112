//! Calls to a host: each is carried out once and in order, whatever the bus does; only orders that
//! are signed, fresh and for this host are obeyed; a host whose coordinator is silent ends the
//! session.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cluster::bus::{Bus, Clock, Hub, Message, Outgoing};
use cluster::host::{
    CallerSettings, DeputyEvent, HostCaller, HostDeputies, HostDeputy, HostError, HostLink,
    HostServer, LEASE_NS, call_hosts, serve_host,
};
use cluster::message::{
    Ask, Audience, Command, FromAgent, MAX_MESSAGE_BYTES, Order, Reply, Stage, ToAgent, decode,
    encode,
};
use cluster::names::{AgentId, Session};
use cluster::pieces::CallBody;
use cluster::refusal::Refusal;
use cluster::session::Identity;
use cluster::signing::{SigningKey, TrustList};

use crate::simulation::{MS, S, fleet, identity, key, numbers, random};

const SUBJECT: &str = "wrkbench.2.lab.host.db1";
const INBOX: &str = "_INBOX.coordinator";
/// How far the clock of the host is ahead.
const AHEAD_NS: u64 = 7 * 3_600 * S;

/// What happened to the deputies of a host.
#[derive(Default)]
struct Record {
    started: usize,
    killed: usize,
    calls: Vec<Vec<u8>>,
}

/// Deputies that say what they hear, backwards; `die` and `wait` are what they say.
#[derive(Clone, Default)]
struct Echoes(Rc<RefCell<Record>>);

struct Echo {
    record: Rc<RefCell<Record>>,
    event: Option<DeputyEvent>,
}

impl HostDeputies for Echoes {
    type Deputy = Echo;

    fn start(&mut self) -> io::Result<Echo> {
        self.0.borrow_mut().started += 1;
        Ok(Echo {
            record: Rc::clone(&self.0),
            event: None,
        })
    }
}

impl HostDeputy for Echo {
    fn begin(&mut self, call: &[u8]) {
        assert_eq!(self.event, None, "the call before has its reply");
        self.record.borrow_mut().calls.push(call.to_vec());
        self.event = match call {
            b"wait" => None,
            b"die" => Some(DeputyEvent::Died("killed".to_owned())),
            call => Some(DeputyEvent::Replied(call.iter().rev().copied().collect())),
        };
    }

    fn next_event(&mut self) -> Option<DeputyEvent> {
        self.event.take()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.record.borrow_mut().killed += 1;
    }
}

fn host() -> Identity {
    identity("db1", "lab", &key(1).public())
}

fn server() -> (HostServer<Echoes>, Echoes) {
    server_with(host())
}

fn server_with(host: Identity) -> (HostServer<Echoes>, Echoes) {
    let deputies = Echoes::default();
    (HostServer::new(host, deputies.clone(), random(5)), deputies)
}

fn caller_settings(inbox: String) -> CallerSettings {
    CallerSettings {
        fleet: fleet(),
        version: "wrkbench 1".into(),
        run: "sweep".parse().expect("a name"),
        host: "db1".parse().expect("a name"),
        inbox,
    }
}

fn caller() -> HostCaller {
    HostCaller::new(caller_settings(INBOX.to_owned()), key(1), S)
}

/// The delays of the copies of a message that arrive.
type Fate = Box<dyn FnMut() -> Vec<u64>>;

/// When a message arrives, its number, whether it goes to the host, and its content.
type Parcel = (u64, u64, bool, Vec<u8>);

/// A change to a good order, and the refusal.
type Forgery = (&'static str, fn(&mut Order));

/// A coordinator and a host, and what is on the way between them.
struct Way {
    now_ns: u64,
    caller: HostCaller,
    server: HostServer<Echoes>,
    fate: Fate,
    on_the_way: BinaryHeap<Reverse<Parcel>>,
    sent: u64,
    /// The questions that the host got and has not replied to.
    unanswered: u64,
}

impl Way {
    fn new(fate: Fate) -> (Self, Echoes) {
        let (server, deputies) = server();
        let way = Self {
            now_ns: S,
            caller: caller(),
            server,
            fate,
            on_the_way: BinaryHeap::new(),
            sent: 0,
            unanswered: 0,
        };
        (way, deputies)
    }

    fn send(&mut self, messages: Vec<Outgoing>, is_to_host: bool) {
        for message in messages {
            for delay_ns in (self.fate)() {
                self.sent += 1;
                self.on_the_way.push(Reverse((
                    self.now_ns + 100_000 + delay_ns,
                    self.sent,
                    is_to_host,
                    message.payload.clone(),
                )));
            }
        }
    }

    /// Goes on for a millisecond.
    fn step(&mut self) {
        self.now_ns += MS;
        while let Some(Reverse((at_ns, ..))) = self.on_the_way.peek()
            && *at_ns <= self.now_ns
            && let Some(Reverse((_, _, is_to_host, payload))) = self.on_the_way.pop()
        {
            let there_ns = self.now_ns + AHEAD_NS;
            self.unanswered += u64::from(is_to_host);
            if is_to_host {
                self.server
                    .on_message(&to_host(payload, there_ns), there_ns)
            } else {
                self.caller
                    .on_message(&to_caller(payload, self.now_ns), self.now_ns)
            }
        }
        self.caller.on_tick(self.now_ns);
        self.server.on_tick(self.now_ns + AHEAD_NS);
        let (there, here) = (self.caller.take_outgoing(), self.server.take_outgoing());
        // NATS may permit one reply to each question.
        let left = self.unanswered.checked_sub(here.len() as u64);
        self.unanswered = left.expect("each question has one reply");
        self.send(there, true);
        self.send(here, false);
    }

    fn until(&mut self, limit_ns: u64, mut is_over: impl FnMut(&mut Self) -> bool) -> bool {
        let end_ns = self.now_ns + limit_ns;
        while self.now_ns < end_ns {
            if is_over(self) {
                return true;
            }
            self.step();
        }
        false
    }

    fn open(&mut self) {
        assert!(
            self.until(20 * S, |way| way.caller.is_open()),
            "{:?}",
            self.caller.ended()
        );
    }

    fn call(&mut self, call: &[u8]) -> Result<Vec<u8>, HostError> {
        self.caller.begin(call.to_vec(), self.now_ns);
        let mut reply = None;
        self.until(60 * S, |way| {
            reply = way.caller.take_reply();
            reply.is_some()
        });
        reply.expect("every call ends")
    }
}

fn to_host(payload: Vec<u8>, received_ns: u64) -> Message {
    let reply = Some(INBOX.to_owned());
    Message::new(SUBJECT.to_owned(), reply, payload, received_ns)
}

fn to_caller(payload: Vec<u8>, received_ns: u64) -> Message {
    Message::new(INBOX.to_owned(), None, payload, received_ns)
}

fn perfect() -> Fate {
    Box::new(|| vec![0])
}

/// Loses, doubles and delays messages.
fn bad(seed: u64) -> Fate {
    let mut random = numbers(seed);
    Box::new(move || {
        let mut copies = Vec::new();
        for _ in 0..random() % 3 {
            copies.push(random() % (400 * MS));
        }
        copies
    })
}

#[test]
fn calls_are_carried_out_once_each_and_in_order_on_a_bad_bus() {
    for seed in 0..30 {
        let (mut way, deputies) = Way::new(bad(seed));
        way.open();
        for number in 0..20_u32 {
            let call = format!("call {number}").into_bytes();
            let reply = way.call(&call).expect("the link holds");
            assert_eq!(reply, call.iter().rev().copied().collect::<Vec<u8>>());
        }
        let record = deputies.0.borrow();
        let expected: Vec<_> = (0..20)
            .map(|number| format!("call {number}").into_bytes())
            .collect();
        assert_eq!(record.calls, expected, "seed {seed}");
        assert_eq!((record.started, record.killed), (1, 0));
    }
}

#[test]
fn large_calls_and_replies_travel_in_pieces() {
    for (seed, size) in [(1, 16 * 1024 + 1), (2, 1 << 20), (3, 3_000_000)] {
        let (mut way, deputies) = Way::new(bad(seed));
        way.open();
        let call: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let reply = way.call(&call).expect("the link holds");
        assert!(reply == call.iter().rev().copied().collect::<Vec<u8>>());
        assert!(deputies.0.borrow().calls == [call]);
    }
    let (mut way, deputies) = Way::new(perfect());
    way.open();
    let error = way.call(&vec![0; (24 << 20) + 1]).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "the call has 25165825 bytes; the limit is 25165824"
    );
    assert_eq!(way.call(b"x"), Ok(b"x".to_vec()));
    assert_eq!(deputies.0.borrow().calls, [b"x"]);
}

#[test]
fn the_clock_of_a_host_is_read_by_the_best_exchange_and_keeps_no_lease() {
    for seed in 0..10 {
        let (mut way, deputies) = Way::new(bad(seed));
        way.open();
        way.caller.begin_clock(way.now_ns);
        let mut read = None;
        way.until(20 * S, |way| {
            read = way.caller.take_clock(way.now_ns);
            read.is_some()
        });
        let offset = read.expect("it ends").expect("some replies are there");
        let error_ns = offset.offset_ns.unsigned_abs().abs_diff(AHEAD_NS);
        assert!(error_ns <= offset.bound_ns, "seed {seed}: {offset:?}");
        assert!(offset.bound_ns <= 200 * MS, "seed {seed}: {offset:?}");
        assert_eq!(way.call(b"ab"), Ok(b"ba".to_vec()));
        assert_eq!(deputies.0.borrow().calls, [b"ab"]);
    }
    // Replies about the clock only.
    let (mut way, deputies) = Way::new(perfect());
    way.open();
    let question = encode(&ToAgent {
        id: 1,
        ask: Ask::Clock,
    });
    let silent_ns = way.now_ns + AHEAD_NS;
    for at_ns in (silent_ns..=silent_ns + LEASE_NS).step_by(MS as usize) {
        way.server
            .on_message(&to_host(question.clone(), at_ns), at_ns);
        way.server.on_tick(at_ns);
    }
    assert_eq!(deputies.0.borrow().killed, 1);
}

#[test]
fn a_clock_whose_replies_contradict_each_other_is_not_read() {
    let (mut way, _) = Way::new(perfect());
    way.open();
    way.caller.begin_clock(way.now_ns);
    let mut read = None;
    // The server is not asked.
    for _ in 0..10_000 {
        way.now_ns += MS;
        way.caller.on_tick(way.now_ns);
        for message in way.caller.take_outgoing() {
            let asked: ToAgent = decode(&message.payload, MAX_MESSAGE_BYTES).expect("it is ours");
            let reply = encode(&FromAgent {
                version: "wrkbench 1".into(),
                agent: "db1".parse().expect("a name"),
                id: asked.id,
                now_ns: 0,
                reply: Reply::Clock {
                    received_ns: u64::MAX,
                },
            });
            way.caller
                .on_message(&to_caller(reply, way.now_ns), way.now_ns);
        }
        read = way.caller.take_clock(way.now_ns);
        if read.is_some() {
            break;
        }
    }
    assert_eq!(read, Some(Err(HostError::Clock)));
}

#[test]
fn a_host_that_dies_while_its_clock_is_read_is_lost() {
    let (mut way, _) = Way::new(perfect());
    way.open();
    way.caller.begin_clock(way.now_ns);
    let mut read = None;
    while read.is_none() && way.now_ns < 30 * S {
        way.now_ns += MS;
        way.caller.on_tick(way.now_ns);
        read = way.caller.take_clock(way.now_ns);
    }
    assert_eq!(read, Some(Err(HostError::Lost)));
}

#[test]
fn a_session_lasts_while_nobody_calls_and_ends_when_it_is_closed() {
    let (mut way, deputies) = Way::new(perfect());
    way.open();
    way.until(120 * S, |_| false);
    assert_eq!(way.call(b"ab"), Ok(b"ba".to_vec()));
    way.caller.close(way.now_ns);
    assert!(way.until(S, |way| way.caller.ended().is_some()));
    assert_eq!(way.caller.ended(), Some(&HostError::Closed));
    assert!(!way.server.is_busy());
    assert_eq!(deputies.0.borrow().killed, 1);
}

#[test]
fn a_long_call_is_waited_for() {
    let (mut way, deputies) = Way::new(perfect());
    way.open();
    way.caller.begin(b"wait".to_vec(), way.now_ns);
    assert!(!way.until(300 * S, |way| way.caller.take_reply().is_some()));
    assert!(way.caller.is_open());
    assert_eq!(deputies.0.borrow().killed, 0);
}

#[test]
fn a_host_whose_coordinator_is_silent_kills_its_worker_after_the_lease() {
    let (mut way, deputies) = Way::new(perfect());
    way.open();
    assert_eq!(way.call(b"ab"), Ok(b"ba".to_vec()));
    // The coordinator was killed, or the link is down.
    let silent_ns = way.now_ns + AHEAD_NS;
    for at_ns in (silent_ns..silent_ns + LEASE_NS - 3 * S).step_by(MS as usize) {
        way.server.on_tick(at_ns);
    }
    assert_eq!(deputies.0.borrow().killed, 0);
    way.server.on_tick(silent_ns + LEASE_NS);
    assert_eq!(deputies.0.borrow().killed, 1);
    assert!(!way.server.is_busy());
    assert!(way.server.take_news().last().is_some_and(|news| {
        news == "the session was ended: nothing was heard from the coordinator for 10 s, and the \
                 guardian restores what was changed"
    }));
}

#[test]
fn the_coordinator_gives_up_before_the_host_does() {
    for seed in 0..20 {
        let (mut way, deputies) = Way::new(bad(seed));
        way.open();
        let mut random = numbers(seed);
        let cut_ns = way.now_ns + random() % (5 * S);
        way.until(cut_ns - way.now_ns, |_| false);
        way.fate = Box::new(Vec::new);
        assert!(way.until(20 * S, |way| way.caller.ended().is_some()));
        assert_eq!(way.caller.ended(), Some(&HostError::Lost));
        assert_eq!(deputies.0.borrow().killed, 0, "seed {seed}");
        assert!(way.until(20 * S, |way| !way.server.is_busy()));
        assert_eq!(deputies.0.borrow().killed, 1);
    }
}

#[test]
fn a_worker_that_dies_ends_the_session_with_its_reason() {
    let (mut way, deputies) = Way::new(perfect());
    way.open();
    let error = way.call(b"die").expect_err("it died");
    assert_eq!(
        error.to_string(),
        "the agent refuses: the session has ended: the process that changed the machine has died \
         (killed), and its guardian restores what it changed"
    );
    assert_eq!(deputies.0.borrow().killed, 1);
    assert!(way.call(b"x").is_err());
}

#[test]
fn a_coordinator_without_a_host_says_how_to_start_one() {
    let mut caller = caller();
    for now_ns in (S..8 * S).step_by(MS as usize) {
        caller.on_tick(now_ns);
    }
    let text = caller.ended().map(ToString::to_string).unwrap_or_default();
    assert!(
        text.starts_with("no agent with --allow-changes has this name in the fleet lab; start one")
            && text.contains("--name db1 --allow-changes --trust U"),
        "{text}"
    );
}

#[test]
fn hosts_that_cannot_be_used_say_why() {
    let changed = |change: fn(&mut Identity)| {
        let (mut way, deputies) = Way::new(perfect());
        let mut host = host();
        change(&mut host);
        (way.server, _) = server_with(host);
        way.until(20 * S, |way| way.caller.ended().is_some());
        assert_eq!(deputies.0.borrow().started, 0);
        way.caller
            .ended()
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    let text = changed(|host| host.version = "wrkbench 2".into());
    assert_eq!(
        text,
        "the agent is wrkbench 2, this is wrkbench 1; install the same version on both \
             machines"
    );
    let text = changed(|host| host.trust = TrustList::new(vec![key(2).public()]));
    assert!(text.starts_with("the agent refuses: the key U"), "{text}");
    assert!(
        text.contains("is not trusted; start the agent with --trust U"),
        "{text}"
    );
}

#[test]
fn two_hosts_of_one_name_are_refused() {
    let (mut way, _) = Way::new(perfect());
    let other = HostServer::new(host(), Echoes::default(), random(9));
    let mut other = other;
    way.until(20 * S, |way| {
        // It hears the same questions.
        for Reverse((_, _, is_to_host, payload)) in way.on_the_way.iter() {
            if *is_to_host {
                other.on_message(&to_host(payload.clone(), way.now_ns), way.now_ns);
            }
        }
        let replies = other.take_outgoing();
        way.send(replies, false);
        way.caller.ended().is_some()
    });
    assert_eq!(way.caller.ended(), Some(&HostError::SameName));
}

/// A host with an open session, and orders for it.
struct Orders {
    server: HostServer<Echoes>,
    deputies: Echoes,
    session: Session,
    number: u64,
}

impl Orders {
    fn new() -> Self {
        let (mut server, deputies) = server();
        let payload = encode(&ToAgent {
            id: 1,
            ask: Ask::RollCall,
        });
        server.on_message(&to_host(payload, S), S);
        let session = match replies(&mut server).pop() {
            Some(Reply::Hello(hello)) => hello.session,
            other => panic!("{other:?}"),
        };
        let mut orders = Self {
            server,
            deputies,
            session,
            number: 0,
        };
        let open = orders.order(Command::Open);
        assert!(matches!(
            orders.say(&key(1), &open),
            Some(Reply::Stage { .. })
        ));
        orders
    }

    fn order(&mut self, command: Command) -> Order {
        self.number += 1;
        Order {
            version: "wrkbench 1".into(),
            fleet: fleet(),
            run: "sweep".parse().expect("a name"),
            audience: Audience::Agent {
                agent: "db1".parse().expect("a name"),
                session: self.session.clone(),
                number: self.number,
                expires_ns: 2 * S,
            },
            command,
        }
    }

    fn say(&mut self, key: &SigningKey, order: &Order) -> Option<Reply> {
        let ask = Ask::Order(key.sign(order));
        let payload = encode(&ToAgent { id: 1, ask });
        self.server.on_message(&to_host(payload, S), S);
        let mut replies = replies(&mut self.server);
        assert!(replies.len() <= 1, "{replies:?}");
        replies.pop()
    }

    fn refusal(&mut self, key: &SigningKey, order: &Order) -> Refusal {
        match self.say(key, order) {
            Some(Reply::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }
}

fn replies(server: &mut HostServer<Echoes>) -> Vec<Reply> {
    let messages = server.take_outgoing().into_iter();
    messages
        .map(|message| {
            let answer: FromAgent = decode(&message.payload, MAX_MESSAGE_BYTES).expect("a reply");
            answer.reply
        })
        .collect()
}

fn call(number: u64) -> Command {
    Command::Call {
        call: number,
        body: CallBody::Inline(b"x".to_vec()),
    }
}

/// Whom the order is for, and until when.
fn addressed(order: &mut Order) -> (&mut AgentId, &mut Session, &mut u64) {
    match &mut order.audience {
        Audience::Agent {
            agent,
            session,
            expires_ns,
            ..
        } => (agent, session, expires_ns),
        Audience::Run { .. } => panic!("it is for one host"),
    }
}

#[test]
fn only_fresh_orders_of_the_key_that_opened_the_session_are_obeyed() {
    let mut orders = Orders::new();
    let mine = key(1);
    let good = orders.order(call(1));
    let changes: [Forgery; 6] = [
        ("the versions differ", |order| {
            order.version = "wrkbench 0".into()
        }),
        ("the order is for the fleet other", |order| {
            order.fleet = "other".parse().expect("a name");
        }),
        ("earlier session", |order| {
            *addressed(order).0 = "db2".parse().expect("a name")
        }),
        ("earlier session", |order| {
            *addressed(order).1 = "s".parse().expect("a name")
        }),
        ("the order expired 0 ms ago", |order| {
            *addressed(order).2 = S
        }),
        ("longer than the 60000 ms allowed", |order| {
            *addressed(order).2 = 62 * S
        }),
    ];
    for (expected, change) in changes {
        let mut order = good.clone();
        change(&mut order);
        let refusal = orders.refusal(&mine, &order).to_string();
        assert!(refusal.contains(expected), "{refusal}");
    }
    let refusal = orders.refusal(&key(2), &good);
    assert!(matches!(refusal, Refusal::UntrustedKey { .. }));
    assert_eq!(orders.deputies.0.borrow().calls.len(), 0);
    // It is replied to when it is done.
    assert_eq!(orders.say(&mine, &good), None);
    // Somebody has recorded it.
    assert_eq!(orders.refusal(&mine, &good), Refusal::Replayed);
    orders.server.on_tick(S);
    assert!(matches!(
        replies(&mut orders.server)[..],
        [Reply::Stage {
            stage: Stage::Finished { .. },
            ..
        }]
    ));
    let skipped = orders.order(call(3));
    let refusal = orders.refusal(&mine, &skipped);
    assert_eq!(refusal, Refusal::CallOutOfOrder { call: 3, latest: 1 });
    assert_eq!(orders.deputies.0.borrow().calls.len(), 1);
}

#[test]
fn another_coordinator_waits_for_the_end_of_the_session() {
    let mut orders = Orders::new();
    let payload = encode(&ToAgent {
        id: 1,
        ask: Ask::RollCall,
    });
    orders.server.on_message(&to_host(payload, S), S);
    let Some(Reply::Hello(hello)) = replies(&mut orders.server).pop() else {
        panic!("no introduction");
    };
    let busy = hello.busy.map(|occupation| occupation.to_string());
    assert_eq!(
        busy.as_deref(),
        Some("the run sweep, which began 0 s ago (its end is not known)")
    );
    let own = std::mem::replace(&mut orders.session, hello.session);
    let open = orders.order(Command::Open);
    assert_eq!(orders.refusal(&key(1), &open), Refusal::HostBusy);
    orders.session = own;
    let close = orders.order(Command::Close);
    assert!(matches!(orders.say(&key(1), &close), Some(Reply::Closed)));
    assert_eq!(orders.deputies.0.borrow().started, 1);
}

#[test]
fn orders_to_make_load_are_not_orders_to_a_host() {
    let mut orders = Orders::new();
    for command in [Command::Stop, Command::Start { start_ns: 2 * S }] {
        let order = orders.order(command);
        let refusal = orders.refusal(&key(1), &order);
        assert!(matches!(refusal, Refusal::Malformed { .. }), "{refusal}");
    }
    let mut for_all = orders.order(Command::Stop);
    for_all.audience = Audience::Run { sequence: 9 };
    assert_eq!(orders.refusal(&key(1), &for_all), Refusal::Session);
}

#[test]
fn a_host_is_used_through_a_bus_in_real_time() {
    let clock: Clock = Arc::new(now_ns);
    let hub = Hub::new(Arc::clone(&clock));
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (bus, their_clock, stopped) = (hub.clone(), Arc::clone(&clock), &stopped);
        let host = scope.spawn(move || {
            let (mut server, deputies) = server();
            let mut news = Vec::new();
            let mut tell = |line: &str| news.push(line.to_owned());
            serve_host(&mut server, &bus, &their_clock, stopped, &mut tell).expect("it is open");
            (deputies.0.borrow().calls.len(), news)
        });
        let bus: Arc<dyn Bus> = Arc::new(hub);
        let open = |bus: &Arc<dyn Bus>| {
            HostLink::open(
                Arc::clone(bus),
                Arc::clone(&clock),
                caller_settings(bus.new_inbox()),
                key(1),
            )
        };
        let link = open(&bus).expect("it is there");
        let large = vec![7; 600_000];
        assert_eq!(link.call(b"abc".to_vec(), &mut || {}), Ok(b"cba".to_vec()));
        assert_eq!(link.call(large.clone(), &mut || {}), Ok(large));
        let offset = link.read_clock().expect("it replies");
        assert!(
            offset.offset_ns.unsigned_abs() <= offset.bound_ns,
            "{offset:?}"
        );
        let busy = open(&bus).err().map(|error| error.to_string());
        let expected =
            "the agent refuses: another sweep or profile uses this machine; wait for its end";
        assert_eq!(busy.as_deref(), Some(expected));
        let present = call_hosts(&*bus, &clock, &fleet()).expect("it is open");
        assert_eq!(present.len(), 1);
        assert!(present[0].hello.busy.is_some() && present[0].agent.as_str() == "db1");
        drop(link);
        drop(open(&bus).expect("it is free again"));
        stopped.store(true, Ordering::Relaxed);
        let (calls, news) = host.join().expect("it ends");
        assert_eq!(calls, 2);
        assert_eq!(
            news.iter()
                .filter(|line| *line == "the session has ended")
                .count(),
            2
        );
    });
}

fn now_ns() -> u64 {
    use std::time::Instant;
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_nanos()).expect("not for centuries") + S
}
