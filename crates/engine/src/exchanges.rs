//! The exchanges of one connection that are in flight.

use protocol::ExchangeId;

/// Requests sent together. They share the time of sending and the time at which they were due. Only
/// an HTTP/1 pipeline has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Equal to `sent_ns` in a closed loop.
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    /// How much later than possible it was sent because of the load generator.
    pub(crate) own_ns: u64,
    /// How long it waited in the event loop afterwards, if that was long.
    pub(crate) queued_ns: u64,
    /// When the first byte of the current response arrived, if that was before its last byte.
    pub(crate) began_ns: Option<u64>,
    /// When the last event of the current response arrived; 0 before the first one.
    pub(crate) event_ns: u64,
    /// Requests without a response so far.
    pub(crate) requests: u32,
    /// The number of its name, if requests have names.
    pub(crate) name: u32,
    /// In a replay: the status of the response in the log; 0 if it is not known.
    pub(crate) logged_status: u16,
}

impl Exchange {
    /// When the kernel got it.
    #[inline]
    pub(crate) fn submitted_ns(&self) -> u64 {
        self.sent_ns + self.queued_ns
    }
}

/// When the tokens of a response arrived. 0 is never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TokenTimes {
    pub(crate) first_ns: u64,
    pub(crate) first_text_ns: u64,
    pub(crate) last_ns: u64,
    /// The mean time from one token to the next, once the stream has ended; 0 without two tokens.
    pub(crate) per_token_ns: u64,
    /// How many events with tokens arrived within the window.
    pub(crate) in_window: u64,
    /// The stream has ended, with an error in it.
    pub(crate) has_error: bool,
    /// The stream has ended, but nothing in it says so.
    pub(crate) is_without_end: bool,
    /// Tokens of the prompt and of the response, once the stream has ended; 0 is unknown.
    pub(crate) prompt: u32,
    pub(crate) generated: u32,
    /// Those of the prompt that came from a cache.
    pub(crate) cached: u32,
    /// The number of the conversation within the worker, and of its turn, from 1; 0 without one.
    pub(crate) conversation: u32,
    pub(crate) turn: u32,
}

/// A table of exchanges. Their numbers are indexes, and responses may arrive in any order. The
/// first entry is stored inline, because without pipelining HTTP/1 needs only one.
#[derive(Debug)]
pub(crate) struct Exchanges {
    first: ExchangeEntry,
    more: Vec<ExchangeEntry>,
    /// The tokens of each exchange, by its number. Empty until the first token, so that runs
    /// without tokens take no memory for them.
    tokens: Vec<TokenTimes>,
    /// The numbers of traces, likewise; 0 is none.
    traces: Vec<u128>,
    /// Exchanges in flight form a list in the order of sending.
    oldest: u32,
    newest: u32,
    /// Unused entries form a list, too.
    unused: u32,
    in_flight: u32,
    outstanding: u32,
}

/// An exchange in the list of those of its connection, which is ordered by age.
#[derive(Debug, Clone, Copy)]
struct ExchangeEntry {
    exchange: Exchange,
    older: u32,
    /// The next unused entry, if this one is unused.
    newer: u32,
}

/// The end of a list.
const NONE: u32 = u32::MAX;

impl ExchangeEntry {
    const UNUSED: Self = Self {
        exchange: Exchange {
            due_ns: 0,
            sent_ns: 0,
            own_ns: 0,
            queued_ns: 0,
            began_ns: None,
            event_ns: 0,
            requests: 0,
            name: 0,
            logged_status: 0,
        },
        older: NONE,
        newer: NONE,
    };
}

impl Exchanges {
    pub(crate) fn new() -> Self {
        Self {
            first: ExchangeEntry::UNUSED,
            more: Vec::new(),
            tokens: Vec::new(),
            traces: Vec::new(),
            oldest: NONE,
            newest: NONE,
            unused: 0,
            in_flight: 0,
            outstanding: 0,
        }
    }

    /// The number that the next exchange will have.
    #[inline]
    pub(crate) fn next_id(&self) -> ExchangeId {
        match self.unused {
            NONE => ExchangeId(1 + self.more.len() as u32),
            index => ExchangeId(index),
        }
    }

    /// Adds an exchange, with the number that [`Self::next_id`] has announced.
    // Always inlined, so that the exchange is written only once, where it stays.
    #[inline(always)]
    pub(crate) fn add(&mut self, exchange: Exchange) {
        let ExchangeId(index) = self.next_id();
        if self.unused == NONE {
            self.more.push(ExchangeEntry::UNUSED);
        } else {
            self.unused = self.entry(index).newer;
        }
        let older = self.newest;
        *self.entry(index) = ExchangeEntry {
            exchange,
            older,
            newer: NONE,
        };
        match older {
            NONE => self.oldest = index,
            older => self.entry(older).newer = index,
        }
        self.newest = index;
        self.in_flight += 1;
        self.outstanding += exchange.requests;
    }

    /// The exchange with this number, if it is in flight.
    #[inline]
    pub(crate) fn get_mut(&mut self, ExchangeId(index): ExchangeId) -> Option<&mut Exchange> {
        let entry = match index {
            0 => &mut self.first,
            index => self.more.get_mut(index as usize - 1)?,
        };
        Some(&mut entry.exchange).filter(|exchange| exchange.requests > 0)
    }

    /// A request of this exchange has its response. Returns the exchange with the remaining
    /// requests.
    #[inline]
    pub(crate) fn answer(&mut self, id: ExchangeId) -> Option<Exchange> {
        let exchange = self.get_mut(id)?;
        exchange.requests -= 1;
        let answered = *exchange;
        exchange.began_ns = None;
        exchange.event_ns = 0;
        self.outstanding -= 1;
        if answered.requests == 0 {
            self.unlink(id);
        }
        Some(answered)
    }

    /// The tokens of the current response of this exchange.
    pub(crate) fn tokens_mut(&mut self, ExchangeId(index): ExchangeId) -> &mut TokenTimes {
        let index = index as usize;
        if self.tokens.len() <= index {
            self.tokens.resize(index + 1, TokenTimes::default());
        }
        &mut self.tokens[index]
    }

    /// Takes the tokens of a response that has ended. The next one of this exchange begins without
    /// any.
    #[inline]
    pub(crate) fn take_tokens(&mut self, ExchangeId(index): ExchangeId) -> TokenTimes {
        let tokens = self.tokens.get_mut(index as usize);
        tokens.map(std::mem::take).unwrap_or_default()
    }

    /// The first request of this exchange has a trace with this number.
    pub(crate) fn set_trace(&mut self, ExchangeId(index): ExchangeId, trace: u128) {
        let index = index as usize;
        if self.traces.len() <= index {
            self.traces.resize(index + 1, 0);
        }
        self.traces[index] = trace;
    }

    /// Takes the number of the trace of a request that has ended; 0 is none.
    #[inline]
    pub(crate) fn take_trace(&mut self, ExchangeId(index): ExchangeId) -> u128 {
        let trace = self.traces.get_mut(index as usize);
        trace.map(std::mem::take).unwrap_or_default()
    }

    /// The exchange that was sent first.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<&Exchange> {
        self.iter().next()
    }

    /// The time from when the kernel got the oldest exchange to when it got the newest,
    /// nanoseconds.
    pub(crate) fn sent_over_ns(&self) -> u64 {
        let mut sent_ns = self.iter().map(Exchange::submitted_ns);
        let first_ns = sent_ns.next().unwrap_or(0);
        sent_ns
            .last()
            .map_or(0, |last_ns| last_ns.saturating_sub(first_ns))
    }

    /// The number of the exchange that was sent first.
    pub(crate) fn oldest_id(&self) -> Option<ExchangeId> {
        (self.oldest != NONE).then_some(ExchangeId(self.oldest))
    }

    /// Number of requests without a response.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Number of exchanges in flight.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.in_flight as usize
    }

    /// In the order of sending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Exchange> + '_ {
        self.iter_with_tokens().map(|(exchange, _)| exchange)
    }

    /// The same, each with the tokens of its current response.
    pub(crate) fn iter_with_tokens(&self) -> impl Iterator<Item = (&Exchange, TokenTimes)> + '_ {
        self.entries().map(|(index, entry)| {
            let tokens = self.tokens.get(index as usize);
            (&entry.exchange, tokens.copied().unwrap_or_default())
        })
    }

    /// The same, each with the number of the trace of its next response; 0 is none.
    pub(crate) fn iter_with_traces(&self) -> impl Iterator<Item = (&Exchange, u128)> + '_ {
        self.entries().map(|(index, entry)| {
            let trace = self.traces.get(index as usize);
            (&entry.exchange, trace.copied().unwrap_or_default())
        })
    }

    /// The same, each with its tokens and its trace.
    pub(crate) fn iter_with_all(&self) -> impl Iterator<Item = (&Exchange, TokenTimes, u128)> + '_ {
        self.entries().map(|(index, entry)| {
            let tokens = self.tokens.get(index as usize);
            let trace = self.traces.get(index as usize);
            (
                &entry.exchange,
                tokens.copied().unwrap_or_default(),
                trace.copied().unwrap_or_default(),
            )
        })
    }

    fn entries(&self) -> impl Iterator<Item = (u32, &ExchangeEntry)> + '_ {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let index = next;
            let entry = match index {
                NONE => return None,
                0 => &self.first,
                index => self.more.get(index as usize - 1)?,
            };
            next = entry.newer;
            Some((index, entry))
        })
    }

    /// The exchange that was sent last.
    pub(crate) fn newest_mut(&mut self) -> Option<&mut Exchange> {
        (self.newest != NONE).then(|| &mut self.entry(self.newest).exchange)
    }

    /// Changes all of them.
    pub(crate) fn for_each_mut(&mut self, mut change: impl FnMut(&mut Exchange)) {
        let mut index = self.newest;
        while index != NONE {
            let entry = self.entry(index);
            change(&mut entry.exchange);
            index = entry.older;
        }
    }

    /// Those that were sent at `since_ns` or later have waited in the event loop until
    /// `submitted_ns`.
    pub(crate) fn queued_until(&mut self, since_ns: u64, submitted_ns: u64) {
        let mut index = self.newest;
        while index != NONE {
            let ExchangeEntry {
                exchange, older, ..
            } = self.entry(index);
            if exchange.sent_ns < since_ns {
                return;
            }
            exchange.queued_ns = submitted_ns.saturating_sub(exchange.sent_ns);
            index = *older;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.more.clear();
        self.tokens.clear();
        self.traces.clear();
        *self = Self {
            more: std::mem::take(&mut self.more),
            tokens: std::mem::take(&mut self.tokens),
            traces: std::mem::take(&mut self.traces),
            ..Self::new()
        };
    }

    /// `index` is below the length of the table.
    #[inline]
    fn entry(&mut self, index: u32) -> &mut ExchangeEntry {
        match index {
            0 => &mut self.first,
            index => &mut self.more[index as usize - 1],
        }
    }

    #[inline]
    fn unlink(&mut self, ExchangeId(index): ExchangeId) {
        let unused = self.unused;
        let ExchangeEntry { older, newer, .. } = std::mem::replace(
            self.entry(index),
            ExchangeEntry {
                newer: unused,
                ..ExchangeEntry::UNUSED
            },
        );
        match older {
            NONE => self.oldest = newer,
            older => self.entry(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.entry(newer).older = older,
        }
        self.unused = index;
        self.in_flight -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(sent_ns: u64, requests: u32) -> Exchange {
        Exchange {
            due_ns: sent_ns - 5,
            sent_ns,
            own_ns: 0,
            queued_ns: 0,
            began_ns: None,
            event_ns: 0,
            requests,
            name: 0,
            logged_status: 0,
        }
    }

    fn add(exchanges: &mut Exchanges, sent_ns: u64, requests: u32) -> ExchangeId {
        let id = exchanges.next_id();
        exchanges.add(exchange(sent_ns, requests));
        id
    }

    fn sent_ns(exchanges: &Exchanges) -> Vec<u64> {
        exchanges.iter().map(|exchange| exchange.sent_ns).collect()
    }

    #[test]
    fn only_what_was_sent_since_then_has_waited_in_the_loop() {
        let mut exchanges = Exchanges::new();
        for sent_ns in [10, 20, 30] {
            add(&mut exchanges, sent_ns, 1);
        }
        exchanges.queued_until(20, 100);
        let queued_ns: Vec<_> = exchanges.iter().map(|it| it.queued_ns).collect();
        assert_eq!(queued_ns, [0, 80, 70]);
    }

    #[test]
    fn a_batch_is_in_flight_until_its_last_response() {
        let mut exchanges = Exchanges::new();
        let batch = add(&mut exchanges, 10, 2);
        let single = add(&mut exchanges, 20, 1);
        assert_eq!((exchanges.outstanding(), exchanges.len()), (3, 2));
        assert_eq!(exchanges.answer(batch), Some(exchange(10, 1)));
        assert_eq!(exchanges.oldest(), Some(&exchange(10, 1)));
        assert_eq!(exchanges.answer(batch), Some(exchange(10, 0)));
        assert_eq!(exchanges.answer(batch), None);
        assert_eq!(exchanges.oldest(), Some(&exchange(20, 1)));
        assert_eq!(exchanges.answer(single), Some(exchange(20, 0)));
        assert_eq!((exchanges.outstanding(), exchanges.len()), (0, 0));
        assert_eq!(exchanges.oldest(), None);
    }

    #[test]
    fn responses_arrive_in_any_order_and_numbers_are_used_again() {
        let mut exchanges = Exchanges::new();
        let ids: Vec<ExchangeId> = (1..=4).map(|n| add(&mut exchanges, 10 * n, 1)).collect();
        for (answered, left) in [(2, vec![10, 20, 40]), (0, vec![20, 40]), (3, vec![20])] {
            assert!(exchanges.answer(ids[answered]).is_some());
            assert_eq!(sent_ns(&exchanges), left);
        }
        let more: Vec<ExchangeId> = (5..=8).map(|n| add(&mut exchanges, 10 * n, 1)).collect();
        assert_eq!(sent_ns(&exchanges), [20, 50, 60, 70, 80]);
        let numbers = more.iter().map(|ExchangeId(number)| *number);
        assert_eq!(numbers.collect::<Vec<_>>(), [3, 0, 2, 4]);
    }

    #[test]
    fn the_beginning_of_a_response_belongs_to_one_response() {
        let mut exchanges = Exchanges::new();
        let id = add(&mut exchanges, 10, 2);
        exchanges.get_mut(id).expect("it is in flight").began_ns = Some(15);
        let first = exchanges.answer(id).expect("it has two");
        let second = exchanges.answer(id).expect("it has two");
        assert_eq!((first.began_ns, second.began_ns), (Some(15), None));
    }

    #[test]
    fn nothing_is_in_flight_after_clearing() {
        let mut exchanges = Exchanges::new();
        let ids = [1, 2, 3].map(|n| add(&mut exchanges, 10 * n, n as u32));
        exchanges.clear();
        assert_eq!((exchanges.outstanding(), exchanges.len()), (0, 0));
        assert!(ids.iter().all(|id| exchanges.answer(*id).is_none()));
        assert_eq!(add(&mut exchanges, 40, 1), ExchangeId(0));
        assert_eq!(sent_ns(&exchanges), [40]);
    }

    #[test]
    fn one_exchange_at_a_time_allocates_nothing() {
        let mut exchanges = Exchanges::new();
        for n in 1..100 {
            let id = add(&mut exchanges, 10 * n, 16);
            (0..16).for_each(|_| assert!(exchanges.answer(id).is_some()));
        }
        assert_eq!(exchanges.more.capacity(), 0);
    }
}
