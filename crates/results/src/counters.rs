//! Totals: requests, bytes, connections, and responses by status code.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Totals of one worker, or of a whole run after [`Counters::merge`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Requests whose sending started within the window; with a rate, those that were due within it
    /// and were sent. Each of them is also in `answered`, in [`crate::ErrorCount::exchanges`] of
    /// one kind, or in `in_flight`.
    pub sent: u64,
    /// Those of `sent` with a complete response; interim (1xx) responses do not count.
    pub answered: u64,
    /// Responses within the window to requests of the warm-up. The server sent them in the window,
    /// so rates, bytes and series include them. Latencies, statuses and all other counts are about
    /// the requests of the window.
    #[serde(default)]
    pub answered_of_warmup: u64,
    /// Bytes of responses that arrived within the window: heads, framing, bodies, trailers, interim
    /// responses; inside TLS, the plaintext. Those of responses that were not complete at the start
    /// or at the end of the window are included.
    pub bytes: u64,
    /// Requests sent and not yet answered when the window ended.
    pub in_flight: u64,
    /// Age of the oldest request in flight at the end of the window, nanoseconds; 0 if there is
    /// none.
    pub oldest_in_flight_ns: u64,
    /// Connections established, reconnects included: those of TCP and Unix sockets without the
    /// handshake of TLS, which is counted separately; those of QUIC when the handshake is complete.
    pub connections_opened: u64,
    /// Connections that were already open at the start of the window, after a warm-up;
    /// `connections_opened` does not include them.
    #[serde(default)]
    pub connections_at_start: u64,
    /// Connections opened again because the server closed an idle connection, or announced
    /// `Connection: close`. These are not errors.
    pub reconnects: u64,
    /// Full TLS handshakes, with an exchange of certificates.
    pub tls_full: u64,
    /// TLS handshakes resumed with a session ticket.
    pub tls_resumed: u64,
    /// With a rate: requests that were due within the window by the schedule. Each of them is in
    /// `sent` or in `unsent`. 0 in a closed loop, which has no schedule.
    #[serde(default)]
    pub due: u64,
    /// With a rate: requests that were due within the window and never sent, because no connection
    /// was free.
    #[serde(default)]
    pub unsent: u64,
    /// Requests in flight, integrated over the window: request-nanoseconds. Divided by the length
    /// of the window, this is the mean number in flight, independent of the samples (Little's law).
    #[serde(default)]
    pub in_flight_time_ns: u64,
    /// In a closed loop: from the start of the window until each connection sent its first request,
    /// summed over connections: connection-nanoseconds. Requests wait until all connections are
    /// open; those that probe whether the server keeps up with them do not count as the first. A
    /// connection that sent none counts until the end, one that sent during a warm-up not at all.
    /// 0 with a rate.
    #[serde(default)]
    pub opening_ns: u64,
}

impl Counters {
    /// Responses that were complete within the window, those to requests of the warm-up included:
    /// what the rate counts.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.answered.saturating_add(self.answered_of_warmup)
    }

    /// Adds the totals of another worker; the oldest request in flight is the older of the two.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            sent,
            answered,
            answered_of_warmup,
            bytes,
            in_flight,
            oldest_in_flight_ns,
            connections_opened,
            connections_at_start,
            reconnects,
            tls_full,
            tls_resumed,
            due,
            unsent,
            in_flight_time_ns,
            opening_ns,
        } = other;
        self.sent = self.sent.saturating_add(*sent);
        self.answered = self.answered.saturating_add(*answered);
        self.answered_of_warmup = self.answered_of_warmup.saturating_add(*answered_of_warmup);
        self.bytes = self.bytes.saturating_add(*bytes);
        self.in_flight = self.in_flight.saturating_add(*in_flight);
        self.oldest_in_flight_ns = self.oldest_in_flight_ns.max(*oldest_in_flight_ns);
        self.connections_opened = self.connections_opened.saturating_add(*connections_opened);
        self.connections_at_start = self
            .connections_at_start
            .saturating_add(*connections_at_start);
        self.reconnects = self.reconnects.saturating_add(*reconnects);
        self.tls_full = self.tls_full.saturating_add(*tls_full);
        self.tls_resumed = self.tls_resumed.saturating_add(*tls_resumed);
        self.due = self.due.saturating_add(*due);
        self.unsent = self.unsent.saturating_add(*unsent);
        self.in_flight_time_ns = self.in_flight_time_ns.saturating_add(*in_flight_time_ns);
        self.opening_ns = self.opening_ns.saturating_add(*opening_ns);
    }
}

/// One more than the largest status code of three digits.
const STATUS_CODES: usize = 1000;

/// Responses by status code, 0..=999.
#[derive(Clone, PartialEq, Eq)]
pub struct Statuses {
    counts: Box<[u64; STATUS_CODES]>,
}

impl Default for Statuses {
    fn default() -> Self {
        Self {
            counts: Box::new([0; STATUS_CODES]),
        }
    }
}

impl Statuses {
    /// Counts one response. Status lines have three digits; a code above 999 counts as 999.
    #[inline]
    pub fn add(&mut self, status: u16) {
        let index = usize::from(status).min(STATUS_CODES - 1);
        self.counts[index] += 1;
    }

    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// What was added since `earlier`, an earlier state of the same counts.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (count, before) in since.counts.iter_mut().zip(earlier.counts.iter()) {
            *count = count.saturating_sub(*before);
        }
        since
    }

    /// Responses with this status code.
    #[must_use]
    pub fn count(&self, status: u16) -> u64 {
        self.counts.get(usize::from(status)).copied().unwrap_or(0)
    }

    /// Codes that occurred with their counts, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (0_u16..)
            .zip(self.counts.iter().copied())
            .filter(|&(_, count)| count > 0)
    }

    /// Responses of all codes.
    #[must_use]
    pub fn total(&self) -> u64 {
        let counts = self.iter().map(|(_, count)| count);
        counts.fold(0, u64::saturating_add)
    }

    /// Responses with a code above 399: what wrk calls "Non-2xx or 3xx responses".
    #[must_use]
    pub fn over_399(&self) -> u64 {
        let bad = self.iter().filter(|(status, _)| *status > 399);
        bad.map(|(_, count)| count).fold(0, u64::saturating_add)
    }
}

impl fmt::Debug for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Serialized as an object: `{"200": 12, "404": 3}`.
impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.iter()
                .map(|(status, count)| (status.to_string(), count)),
        )
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut statuses = Self::default();
        for (name, count) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            let slot = name
                .parse::<usize>()
                .ok()
                .and_then(|index| statuses.counts.get_mut(index))
                .ok_or_else(|| D::Error::custom(format!("\"{name}\" is not a status code")))?;
            *slot = count;
        }
        Ok(statuses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_counted_by_code_and_only_codes_above_399_are_bad() {
        let mut statuses = Statuses::default();
        for status in [200, 200, 199, 301, 399, 400, 404, 599, 999, 0] {
            statuses.add(status);
        }
        assert_eq!(statuses.count(200), 2);
        assert_eq!(statuses.over_399(), 4);
        assert_eq!(statuses.total(), 10);
        assert_eq!(statuses.iter().next(), Some((0, 1)));
        assert_eq!(statuses.iter().last(), Some((999, 1)));
    }

    #[test]
    fn a_code_of_more_than_three_digits_is_not_lost() {
        let mut statuses = Statuses::default();
        statuses.add(u16::MAX);
        assert_eq!(statuses.total(), 1);
    }

    #[test]
    fn statuses_round_trip_through_json_and_reject_invalid_codes() {
        let mut statuses = Statuses::default();
        statuses.add(200);
        statuses.add(404);
        statuses.add(404);
        let text = serde_json::to_string(&statuses).unwrap();
        assert_eq!(text, r#"{"200":1,"404":2}"#);
        assert_eq!(serde_json::from_str::<Statuses>(&text).unwrap(), statuses);
        for wrong in [
            r#"{"1000":1}"#,
            r#"{"ok":1}"#,
            r#"{"-1":1}"#,
            r#"{"200":-1}"#,
            "[]",
        ] {
            assert!(serde_json::from_str::<Statuses>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn merged_counters_add_up_and_keep_the_oldest_request() {
        let mut a = Counters {
            sent: 5,
            answered: 3,
            in_flight: 2,
            ..Counters::default()
        };
        a.oldest_in_flight_ns = 70;
        let b = Counters {
            sent: 1,
            in_flight: 1,
            oldest_in_flight_ns: 9,
            ..Counters::default()
        };
        a.merge(&b);
        assert_eq!(
            (a.sent, a.answered, a.in_flight, a.oldest_in_flight_ns),
            (6, 3, 3, 70)
        );
    }
}
