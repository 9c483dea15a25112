//! One connection: bytes in, moves out. It has no socket and no clock.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::rc::Rc;

use eventloop::CloseMode;
use rustls::ServerConnection;

use crate::fault::Fault;
use crate::plan::{Fin, Plan, Step};
use crate::request::{BadRequest, Found, Head, RequestReader};
use crate::response;
use crate::site::{Arrival, Decision, Site};
use crate::truth::RECORDED_MAX_BYTES;

/// Collected output is sent when it has grown to this, in bytes.
const SEND_BYTES: usize = 64 * 1024;
/// No more is made while so much waits for the peer to read, in bytes.
const WINDOW_BYTES: u64 = 1024 * 1024;
/// The most requests of a connection that wait for their answers; beyond, it is reset.
const QUEUE_MAX: usize = 100_000;
/// How long the peer's end is awaited after ours, in nanoseconds.
const LINGER_NS: u64 = 2_000_000_000;

/// What the owner of a connection is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Send these bytes, tell [`Connection::sent`] when they are handed over, and ask again.
    Send(Vec<u8>),
    /// Nothing until then, unless something comes; ask again.
    Wait(u64),
    /// Nothing unless something comes.
    Idle,
    /// End the sending side and ask again.
    Fin,
    /// Close the socket; the connection is over.
    Close(CloseMode),
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    reader: RequestReader,
    tls: Option<Box<ServerConnection>>,
    /// A request whose head has arrived and whose body has not.
    decided: Option<Decided>,
    queue: VecDeque<Pending>,
    /// Plaintext that has not been handed over.
    output: Vec<u8>,
    /// Handed over and not reported as sent.
    in_flight_bytes: u64,
    /// Requests so far.
    requests: u64,
    phase: Phase,
    peer_ended: bool,
    idle: Option<Idle>,
    /// Bytes of the current request, when they are recorded.
    raw: Vec<u8>,
    /// What the peer said before it is listened to; `None` from then on.
    opening: Option<Opening>,
}

/// How long a connection is left waiting before its first bytes are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Patience {
    /// From the acceptance on nothing is read, in nanoseconds.
    pub(crate) accept_delay_ns: u64,
    /// From then, or from the first bytes if they come later, nothing is answered, in nanoseconds.
    pub(crate) tls_delay_ns: u64,
}

#[derive(Debug)]
struct Opening {
    readable_ns: u64,
    tls_delay_ns: u64,
    /// When the bytes are read; `None` until there are any.
    read_at_ns: Option<u64>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Decided {
    decision: Decision,
    /// Answered before its body was there.
    is_answered: bool,
}

#[derive(Debug)]
struct Pending {
    plan: Rc<Plan>,
    due_ns: u64,
    /// The step that is next, and how much of it is done.
    step: usize,
    progress: u64,
    log_index: Option<usize>,
    bytes: u64,
}

#[derive(Debug)]
struct Idle {
    at_ns: u64,
    say: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Answers are still given, requests no longer read.
    Deaf,
    /// Our end is sent; input is dropped until the peer ends too, or until then.
    Lingering(Option<u64>),
    Broken,
}

impl Connection {
    pub(crate) fn new(number: u64, tls: Option<ServerConnection>) -> Self {
        Self {
            number,
            reader: RequestReader::default(),
            tls: tls.map(Box::new),
            decided: None,
            queue: VecDeque::new(),
            output: Vec::new(),
            in_flight_bytes: 0,
            requests: 0,
            phase: Phase::Serving,
            peer_ended: false,
            idle: None,
            raw: Vec::new(),
            opening: None,
        }
    }

    /// Reads nothing for a while from now on.
    pub(crate) fn wait_before_reading(&mut self, patience: Patience, now_ns: u64) {
        if patience != Patience::default() {
            self.opening = Some(Opening {
                readable_ns: now_ns.saturating_add(patience.accept_delay_ns),
                tls_delay_ns: patience.tls_delay_ns,
                read_at_ns: None,
                bytes: Vec::new(),
            });
        }
    }

    /// Follows this plan and reads no requests any more.
    pub(crate) fn only(&mut self, plan: Plan, now_ns: u64) {
        self.phase = Phase::Deaf;
        self.enqueue(Rc::new(plan), now_ns, None);
    }

    /// Takes bytes from the socket.
    pub(crate) fn receive(&mut self, bytes: &[u8], at_ns: u64, site: &mut Site) {
        if let Some(opening) = &mut self.opening {
            let begin_ns = opening.readable_ns.max(at_ns);
            opening
                .read_at_ns
                .get_or_insert_with(|| begin_ns.saturating_add(opening.tls_delay_ns));
            opening.bytes.extend_from_slice(bytes);
            return;
        }
        match self.tls.take() {
            None => self.read(bytes, at_ns, site),
            Some(mut tls) => {
                let is_fine = self.decrypt(&mut tls, bytes, at_ns, site);
                self.tls = Some(tls);
                if !is_fine && self.phase == Phase::Serving {
                    site.counters().tls_failures.add(1);
                    self.queue.clear();
                    let fin = vec![Step::Fin(Fin::LingerUnannounced)];
                    self.only(
                        Plan {
                            is_counted: false,
                            ..Plan::new(0, false, fin)
                        },
                        at_ns,
                    );
                }
            }
        }
    }

    /// The peer will send no more.
    pub(crate) fn end(&mut self) {
        self.peer_ended = true;
    }

    /// So many bytes of a [`Move::Send`] are handed to the kernel.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes as u64);
    }

    /// What to do now. To be asked after every call above and when a wait is over.
    pub(crate) fn next_move(&mut self, now_ns: u64, site: &mut Site) -> Move {
        if let Some(read_at_ns) = self.opening.as_ref().and_then(|held| held.read_at_ns) {
            if now_ns < read_at_ns {
                return Move::Wait(read_at_ns);
            }
            let bytes = self.opening.take().map(|held| held.bytes);
            self.receive(&bytes.unwrap_or_default(), now_ns, site);
        }
        loop {
            if self.phase == Phase::Broken {
                return Move::Close(CloseMode::Abort);
            }
            if self.output.len() >= SEND_BYTES {
                return self.flush(site).unwrap_or(Move::Idle);
            }
            let Some(front) = self.queue.front() else {
                return self.flush(site).unwrap_or_else(|| self.rest(now_ns));
            };
            if front.due_ns > now_ns {
                let wait = Move::Wait(front.due_ns);
                return self.flush(site).unwrap_or(wait);
            }
            if let Some(next) = self.walk(now_ns, site) {
                return next;
            }
        }
    }

    /// Whether nothing stands between a new request and an instant answer.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.is_empty()
            && self.tls.is_none()
            && self.opening.is_none()
            && self.phase == Phase::Serving
            && self.idle.is_none()
            && !self.peer_ended
            && self.decided.is_none()
            && self.reader.is_at_start()
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Reads plain bytes; false when TLS cannot go on.
    fn decrypt(
        &mut self,
        tls: &mut ServerConnection,
        mut bytes: &[u8],
        at_ns: u64,
        site: &mut Site,
    ) -> bool {
        let mut plain = [0; 16 * 1024];
        while !bytes.is_empty() {
            if tls.read_tls(&mut bytes).is_err() || tls.process_new_packets().is_err() {
                return false;
            }
            // Ends with WouldBlock when there is no more, with 0 after close_notify.
            while let Ok(count @ 1..) = tls.reader().read(&mut plain) {
                self.read(&plain[..count], at_ns, site);
            }
        }
        true
    }

    fn read(&mut self, bytes: &[u8], at_ns: u64, site: &mut Site) {
        site.counters().bytes_in.add(bytes.len() as u64);
        let mut rest = bytes;
        // Where the request began that is being read, if that is in these bytes.
        let mut start = None;
        while self.phase == Phase::Serving {
            if self.reader.is_at_start() && self.decided.is_none() {
                if rest.is_empty() {
                    return;
                }
                start = Some(rest);
                if let Some(taken) = self.answer_known(rest, at_ns, site) {
                    rest = &rest[taken..];
                    continue;
                }
            }
            let before = rest;
            let found = self.reader.next(&mut rest);
            if site.log.records() {
                let taken = &before[..before.len() - rest.len()];
                let room = RECORDED_MAX_BYTES.saturating_sub(self.raw.len());
                self.raw.extend_from_slice(&taken[..taken.len().min(room)]);
            }
            match found {
                Ok(None) => return,
                Ok(Some(Found::Head(head))) => self.on_head(head, rest, at_ns, site),
                Ok(Some(Found::End { body })) => {
                    let request = start.take().map(|from| &from[..from.len() - rest.len()]);
                    self.on_end(body, request, at_ns, site);
                }
                Err(why) => self.refuse(why, at_ns, site),
            }
        }
    }

    /// Answers a request whose bytes were seen before; returns how many they are.
    fn answer_known(&mut self, input: &[u8], at_ns: u64, site: &mut Site) -> Option<usize> {
        if site.log.records() || self.is_last(site) {
            return None;
        }
        let known = site.recipes.find(input)?;
        self.accept(&known.plan, at_ns, site);
        Some(known.request_bytes)
    }

    fn on_head(&mut self, head: Head, rest: &[u8], at_ns: u64, site: &mut Site) {
        let decision = site.decide(head);
        if decision.echoes() {
            self.reader.keep_body();
        }
        let is_answered = matches!(decision.fault(), Some(Fault::Early | Fault::EarlyClose));
        let is_silent = is_answered || decision.fault() == Some(&Fault::NoContinue);
        // RFC 9110 section 10.1.1: not needed when the body is on its way already.
        if decision.head.expects_continue && decision.head.has_body && rest.is_empty() && !is_silent
        {
            self.enqueue(Rc::new(response::continue_plan()), at_ns, None);
        }
        if is_answered {
            self.answer(&decision, Vec::new(), None, at_ns, site);
        }
        if decision.fault() == Some(&Fault::EarlyClose) {
            self.phase = Phase::Deaf;
        }
        self.decided = Some(Decided {
            decision,
            is_answered,
        });
    }

    fn on_end(&mut self, body: Vec<u8>, request: Option<&[u8]>, at_ns: u64, site: &mut Site) {
        if site.log.records() {
            site.log.record(std::mem::take(&mut self.raw));
        }
        if let Some(Decided {
            decision,
            is_answered: false,
        }) = self.decided.take()
        {
            self.answer(&decision, body, request, at_ns, site);
        }
    }

    /// Makes the plan for a request, remembers it if it is the same the next time, and follows it.
    fn answer(
        &mut self,
        decision: &Decision,
        body: Vec<u8>,
        request: Option<&[u8]>,
        at_ns: u64,
        site: &mut Site,
    ) {
        let is_last = self.is_last(site);
        let plan = match site.plan(decision, body, is_last) {
            Ok(plan) => Rc::new(plan),
            Err(why) => return self.refuse(why, at_ns, site),
        };
        if let Some(request) = request
            && plan.is_counted
            && !is_last
        {
            site.recipes.add(request, &plan);
        }
        self.accept(&plan, at_ns, site);
    }

    /// Whether the next request is the last this connection may carry.
    fn is_last(&self, site: &Site) -> bool {
        site.keepalive_requests
            .is_some_and(|most| self.requests + 1 >= most)
    }

    fn accept(&mut self, plan: &Rc<Plan>, at_ns: u64, site: &mut Site) {
        self.requests += u64::from(plan.is_counted);
        let arrival = Arrival {
            connection: self.number,
            at_ns,
        };
        let (plan, due_ns, log_index) = site.arrive(plan, arrival);
        self.enqueue(plan, due_ns, log_index);
    }

    fn refuse(&mut self, why: BadRequest, at_ns: u64, site: &Site) {
        site.counters().refused.add(1);
        let plan = Plan {
            is_counted: false,
            ..response::refusal(why)
        };
        self.only(plan, at_ns);
    }

    fn enqueue(&mut self, plan: Rc<Plan>, due_ns: u64, log_index: Option<usize>) {
        self.idle = None;
        if self.queue.len() >= QUEUE_MAX {
            self.phase = Phase::Broken;
            return;
        }
        self.queue.push_back(Pending {
            plan,
            due_ns,
            step: 0,
            progress: 0,
            log_index,
            bytes: 0,
        });
    }

    /// What to do when no answer is due.
    fn rest(&mut self, now_ns: u64) -> Move {
        if self.peer_ended {
            // Closing would cancel what is on its way.
            let is_done = self.in_flight_bytes == 0;
            return if is_done {
                Move::Close(CloseMode::Graceful)
            } else {
                Move::Idle
            };
        }
        match (self.phase, &mut self.idle) {
            (Phase::Lingering(Some(until_ns)), _) if now_ns >= until_ns => {
                Move::Close(CloseMode::Graceful)
            }
            (Phase::Lingering(Some(until_ns)), _) => Move::Wait(until_ns),
            (Phase::Lingering(None), _) | (_, None) => Move::Idle,
            (_, Some(idle)) if now_ns < idle.at_ns => Move::Wait(idle.at_ns),
            (_, Some(idle)) => {
                let say = std::mem::take(&mut idle.say);
                let steps = vec![Step::Bytes(say), Step::Flush, Step::Close];
                self.only(
                    Plan {
                        is_counted: false,
                        ..Plan::new(0, false, steps)
                    },
                    now_ns,
                );
                Move::Wait(now_ns)
            }
        }
    }

    /// Does one step of the answer in front, which is due; `None` when there may be more to do.
    fn walk(&mut self, now_ns: u64, site: &mut Site) -> Option<Move> {
        let front = self.queue.front_mut()?;
        let plan = Rc::clone(&front.plan);
        let Some(step) = plan.steps.get(front.step) else {
            self.finish(now_ns, site);
            return None;
        };
        match step {
            Step::Bytes(bytes) => {
                if self.in_flight_bytes >= WINDOW_BYTES {
                    return Some(self.flush(site).unwrap_or(Move::Idle));
                }
                self.output.extend_from_slice(bytes);
                front.bytes += bytes.len() as u64;
                front.step += 1;
                None
            }
            Step::Bytewise { bytes, interval_ns } => self.walk_bytewise(bytes, *interval_ns, site),
            Step::Stream(stream) => {
                if self.in_flight_bytes >= WINDOW_BYTES {
                    return Some(self.flush(site).unwrap_or(Move::Idle));
                }
                let before = self.output.len();
                let room = SEND_BYTES.saturating_sub(before);
                let (progress, has_more) = stream.produce(front.progress, room, &mut self.output);
                front.bytes += (self.output.len() - before) as u64;
                (front.progress, front.step) = if has_more {
                    (progress, front.step)
                } else {
                    (0, front.step + 1)
                };
                // An endless answer ends with its reader.
                let is_unread = has_more && self.peer_ended;
                is_unread.then_some(Move::Close(CloseMode::Graceful))
            }
            Step::Flush => {
                if let Some(send) = self.flush(site) {
                    return Some(send);
                }
                if self.in_flight_bytes > 0 {
                    return Some(Move::Idle);
                }
                self.step_done();
                None
            }
            Step::Pause(delay) => {
                front.due_ns = now_ns.saturating_add(delay.sample_ns(&mut site.random));
                front.step += 1;
                None
            }
            Step::WhenIdle { after_ns, say } => {
                let idle = Idle {
                    at_ns: now_ns.saturating_add(*after_ns),
                    say: say.clone(),
                };
                let is_last = self.queue.len() == 1;
                self.step_done();
                self.idle = is_last.then_some(idle);
                None
            }
            Step::Hang if self.peer_ended => Some(Move::Close(CloseMode::Graceful)),
            Step::Hang => Some(self.flush(site).unwrap_or(Move::Idle)),
            Step::Fin(fin) => Some(self.walk_fin(*fin, now_ns, site)),
            Step::Close => Some(self.walk_close(CloseMode::Graceful, now_ns, site)),
            Step::Reset => Some(self.walk_close(CloseMode::Abort, now_ns, site)),
        }
    }

    fn walk_bytewise(&mut self, bytes: &[u8], interval_ns: u64, site: &mut Site) -> Option<Move> {
        if let Some(send) = self.flush(site) {
            return Some(send);
        }
        if self.in_flight_bytes > 0 {
            return Some(Move::Idle);
        }
        let front = self.queue.front_mut()?;
        if let Some(byte) = bytes.get(front.progress as usize) {
            self.output.push(*byte);
            front.bytes += 1;
            front.progress += 1;
        }
        if front.progress as usize >= bytes.len() {
            self.step_done();
        } else {
            // From the last due time, not from now: drips do not drift.
            front.due_ns = front.due_ns.saturating_add(interval_ns);
        }
        None
    }

    fn walk_fin(&mut self, fin: Fin, now_ns: u64, site: &mut Site) -> Move {
        let says_goodbye = fin != Fin::LingerUnannounced;
        if let (Some(tls), Some(front), true) =
            (&mut self.tls, self.queue.front_mut(), says_goodbye)
            && front.progress == 0
        {
            front.progress = 1;
            // What stands in `output` must be encrypted before the alert.
            site.counters().bytes_out.add(self.output.len() as u64);
            let _ = tls.writer().write_all(&self.output);
            self.output.clear();
            tls.send_close_notify();
        }
        if let Some(send) = self.flush(site) {
            return send;
        }
        self.finish(now_ns, site);
        self.queue.clear();
        let until_ns = now_ns.saturating_add(LINGER_NS);
        self.phase = Phase::Lingering((fin != Fin::ReadOn).then_some(until_ns));
        Move::Fin
    }

    fn walk_close(&mut self, mode: CloseMode, now_ns: u64, site: &mut Site) -> Move {
        self.finish(now_ns, site);
        self.queue.clear();
        Move::Close(mode)
    }

    fn step_done(&mut self) {
        if let Some(front) = self.queue.front_mut() {
            front.step += 1;
            front.progress = 0;
        }
    }

    /// Takes the answer in front off the queue: all was done for it.
    fn finish(&mut self, now_ns: u64, site: &mut Site) {
        let Some(done) = self.queue.pop_front() else {
            return;
        };
        if done.plan.is_counted && done.plan.is_whole {
            site.counters().responses.add(1);
        }
        if let Some(index) = done.log_index {
            site.log.depart(index, now_ns, done.bytes);
        }
    }

    /// Everything collected, encrypted if need be; `None` when there is nothing.
    fn flush(&mut self, site: &Site) -> Option<Move> {
        site.counters().bytes_out.add(self.output.len() as u64);
        let bytes = match &mut self.tls {
            None => std::mem::take(&mut self.output),
            Some(tls) => {
                // Writing into rustls and out of it into memory cannot fail; without a handshake
                // the text is dropped with the connection.
                let _ = tls.writer().write_all(&self.output);
                self.output.clear();
                let mut encrypted = Vec::new();
                while tls.wants_write() && tls.write_tls(&mut encrypted).is_ok_and(|n| n > 0) {}
                encrypted
            }
        };
        self.in_flight_bytes += bytes.len() as u64;
        (!bytes.is_empty()).then_some(Move::Send(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::answer::Answer;
    use crate::recipes::Recipes;
    use crate::schedule::Schedule;
    use crate::truth::{Counters, Log};

    fn site(defaults: &str) -> Site {
        Site {
            defaults: Answer::from_text(defaults).unwrap(),
            keepalive_requests: None,
            random: fastrand::Rng::with_seed(1),
            schedule: Schedule::new(None, false, Arc::default()),
            log: Log::new(10, 0),
            recipes: Recipes::default(),
            counters: Arc::from([Counters::default()]),
            own: 0,
        }
    }

    const GET: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    fn asked(site: &mut Site, requests: usize) -> Connection {
        let mut connection = Connection::new(0, None);
        connection.receive(&GET.repeat(requests), 1000, site);
        connection
    }

    /// Everything sent without waiting, each send reported at once, and the move after it.
    fn moved(connection: &mut Connection, now_ns: u64, site: &mut Site) -> (Vec<Vec<u8>>, Move) {
        let mut sends = Vec::new();
        loop {
            match connection.next_move(now_ns, site) {
                Move::Send(bytes) => {
                    connection.sent(bytes.len());
                    sends.push(bytes);
                }
                other => return (sends, other),
            }
        }
    }

    #[test]
    fn answers_of_one_receive_leave_in_one_send() {
        let mut site = site("size=1");
        let mut connection = asked(&mut site, 5);
        let (sends, last) = moved(&mut connection, 1000, &mut site);
        assert_eq!((sends.len(), last), (1, Move::Idle));
        assert_eq!(
            sends[0].windows(4).filter(|bytes| bytes == b"HTTP").count(),
            5
        );
    }

    #[test]
    fn an_answer_waits_for_its_time_and_not_longer() {
        let mut site = site("delay=5us");
        let mut connection = asked(&mut site, 1);
        assert_eq!(connection.next_move(1000, &mut site), Move::Wait(6000));
        assert_eq!(connection.next_move(5999, &mut site), Move::Wait(6000));
        assert!(matches!(
            connection.next_move(6000, &mut site),
            Move::Send(_)
        ));
        let truth = site.log.into_truth(site.counters[0].counts(), None);
        assert_eq!(truth.sojourns_ns(), [5000]);
    }

    #[test]
    fn a_split_answer_sends_each_byte_when_the_one_before_is_reported() {
        let mut site = site("size=2&fault=split");
        let mut connection = asked(&mut site, 1);
        assert_eq!(
            connection.next_move(1000, &mut site),
            Move::Send(b"H".to_vec())
        );
        assert_eq!(connection.next_move(1000, &mut site), Move::Idle);
        connection.sent(1);
        let (sends, _) = moved(&mut connection, 1000, &mut site);
        assert!(sends.iter().all(|bytes| bytes.len() == 1));
        assert!(sends.concat().ends_with(b"ab"));
    }

    #[test]
    fn drips_leave_on_time_to_the_nanosecond() {
        let mut site = site("size=2&fault=drip:3us");
        let mut connection = asked(&mut site, 1);
        let (mut now_ns, mut bytes) = (1000, 0);
        loop {
            let (sends, next) = moved(&mut connection, now_ns, &mut site);
            bytes += sends.concat().len() as u64;
            match next {
                Move::Wait(until_ns) => {
                    assert_eq!(until_ns, 1000 + bytes * 3000);
                    now_ns = until_ns;
                }
                other => break assert_eq!(other, Move::Idle),
            }
        }
        assert_eq!(now_ns, 1000 + (bytes - 1) * 3000);
    }

    #[test]
    fn what_the_peer_does_not_read_is_not_made() {
        let mut site = site("fault=endless-body");
        let mut connection = asked(&mut site, 1);
        let mut bytes = 0;
        while let Move::Send(part) = connection.next_move(1000, &mut site) {
            bytes += part.len() as u64;
            assert!(bytes < 2 * WINDOW_BYTES);
        }
        assert!(bytes >= WINDOW_BYTES);
        connection.sent(SEND_BYTES * 2);
        assert!(matches!(
            connection.next_move(1000, &mut site),
            Move::Send(_)
        ));
    }

    #[test]
    fn a_client_that_asks_and_never_reads_is_reset_in_the_end() {
        let mut site = site("fault=hang");
        let mut connection = asked(&mut site, QUEUE_MAX);
        assert_eq!(connection.next_move(1000, &mut site), Move::Idle);
        connection.receive(GET, 1000, &mut site);
        assert_eq!(
            connection.next_move(1000, &mut site),
            Move::Close(CloseMode::Abort)
        );
    }

    #[test]
    fn after_an_announced_close_the_peer_is_awaited_but_not_for_ever() {
        let mut site = site("close");
        let mut connection = asked(&mut site, 3);
        let (sends, next) = moved(&mut connection, 1000, &mut site);
        assert_eq!((sends.len(), next), (1, Move::Fin));
        assert_eq!(
            connection.next_move(1000, &mut site),
            Move::Wait(1000 + LINGER_NS)
        );
        let end = connection.next_move(1000 + LINGER_NS, &mut site);
        assert_eq!(end, Move::Close(CloseMode::Graceful));

        let mut connection = asked(&mut site, 1);
        assert_eq!(moved(&mut connection, 1000, &mut site).1, Move::Fin);
        connection.end();
        assert_eq!(
            connection.next_move(1000, &mut site),
            Move::Close(CloseMode::Graceful)
        );
    }

    #[test]
    fn a_reset_waits_until_the_bytes_before_it_are_handed_over() {
        let mut site = site("fault=reset-after-head");
        let mut connection = asked(&mut site, 1);
        let Move::Send(bytes) = connection.next_move(1000, &mut site) else {
            panic!("no head")
        };
        assert_eq!(connection.next_move(1000, &mut site), Move::Idle);
        connection.sent(bytes.len());
        assert_eq!(
            connection.next_move(1000, &mut site),
            Move::Close(CloseMode::Abort)
        );
    }

    #[test]
    fn first_bytes_are_read_when_acceptance_and_handshake_have_had_their_time() {
        let patience = Patience {
            accept_delay_ns: 500,
            tls_delay_ns: 70,
        };
        // Accepted at 1000. Bytes that come before 1500 count as having come then.
        for (first_ns, read_ns) in [(1100, 1570), (1500, 1570), (1800, 1870)] {
            let mut site = site("");
            let mut connection = Connection::new(0, None);
            connection.wait_before_reading(patience, 1000);
            assert_eq!(moved(&mut connection, 1000, &mut site).1, Move::Idle);
            let (early, late) = GET.split_at(5);
            connection.receive(early, first_ns, &mut site);
            connection.receive(late, first_ns + 1, &mut site);
            let waiting = moved(&mut connection, read_ns - 1, &mut site);
            assert_eq!(waiting, (Vec::new(), Move::Wait(read_ns)));
            assert!(!connection.is_quiet());
            let (answer, end) = moved(&mut connection, read_ns, &mut site);
            assert!(answer.concat().starts_with(b"HTTP/1.1 200"), "{end:?}");
            assert!(
                connection.is_quiet(),
                "only the first bytes are kept waiting"
            );
        }
    }

    #[test]
    fn an_idle_close_counts_from_the_answer_and_is_called_off_by_a_request() {
        let mut site = site("fault=idle-close:1us");
        let mut connection = asked(&mut site, 1);
        assert_eq!(moved(&mut connection, 1000, &mut site).1, Move::Wait(2000));
        connection.receive(GET, 1500, &mut site);
        assert_eq!(moved(&mut connection, 1500, &mut site).1, Move::Wait(2500));
        assert_eq!(moved(&mut connection, 2500, &mut site).1, Move::Wait(2500));
        let end = connection.next_move(2500, &mut site);
        assert_eq!(end, Move::Close(CloseMode::Graceful));
    }
}
