//! The cases and their names and titles.

mod arrivals;
mod attribution;
mod bytes;
mod closed;
mod connections;
mod events;
mod few_samples;
mod histogram;
mod hung;
mod littles_law;
mod loss;
mod matrix;
mod names;
mod phases;
mod queue;
mod search;
mod slowest;
mod stall;
mod starved;
mod threads;
mod tokens;
mod unloaded;
mod wall_clock;
mod warmup;

use anyhow::bail;

use super::check::CaseResult;
use super::lab::Lab;

/// A case: a server, clients, and numbers with a known truth.
#[derive(Debug)]
pub(crate) struct Case {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    /// What the table prints.
    pub(crate) title: &'static str,
    check: fn(&Lab, &mut CaseResult) -> anyhow::Result<()>,
    /// It takes so long that it only runs when it is named.
    is_long: bool,
}

/// In the order of the table.
pub(crate) const ALL: [Case; 33] = [
    Case {
        name: "stall",
        title: "The server stalls 2 s of 10 s, 200 requests/s over 10 connections",
        check: stall::run,
        is_long: false,
    },
    Case {
        name: "stall-http2",
        title: "The same stall, over 2 connections with 5 streams of HTTP/2",
        check: stall::http2,
        is_long: false,
    },
    Case {
        name: "stall-http3",
        title: "The same stall, over 2 connections with 5 streams of HTTP/3",
        check: stall::http3,
        is_long: false,
    },
    Case {
        name: "attribution",
        title: "Whose delay it was: 7 kinds of pauses x 4 servers x 1 and 4 threads x 2 backends",
        check: attribution::run,
        is_long: false,
    },
    Case {
        name: "attribution-matrix",
        title: "Whose delay it was: 1 to 1,000 connections, 4 protocols, 10 causes, 5 servers",
        check: matrix::run,
        is_long: true,
    },
    Case {
        name: "slowest",
        title: "Why the slowest requests were slow: planted parts, and a queue",
        check: slowest::run,
        is_long: false,
    },
    Case {
        name: "even",
        title: "Even arrivals, 1,000/s over 16 connections",
        check: arrivals::even,
        is_long: false,
    },
    Case {
        name: "even-http2",
        title: "Even arrivals, 1,000/s over 4 connections with 4 streams of HTTP/2",
        check: arrivals::even_http2,
        is_long: false,
    },
    Case {
        name: "even-http3",
        title: "Even arrivals, 1,000/s over 4 connections with 4 streams of HTTP/3",
        check: arrivals::even_http3,
        is_long: false,
    },
    Case {
        name: "poisson",
        title: "Poisson arrivals, 200/s over 64 connections, five seeds",
        check: arrivals::poisson,
        is_long: false,
    },
    Case {
        name: "queue",
        title: "M/M/1: 700/s at a single server with a capacity of 1,000/s",
        check: queue::run,
        is_long: false,
    },
    Case {
        name: "queue-http3",
        title: "The same queue, over 16 connections with 16 streams of HTTP/3",
        check: queue::http3,
        is_long: false,
    },
    Case {
        name: "threads",
        title: "1, 2, 4 and 8 threads: a stall, a slow drain, and 95 % load",
        check: threads::run,
        is_long: false,
    },
    Case {
        name: "threads-http3",
        title: "1, 2, 4 and 8 threads over HTTP/3: a stall and a slow drain",
        check: threads::http3,
        is_long: false,
    },
    Case {
        name: "unloaded-http3",
        title: "One request at a time takes as long over HTTP/3 as over HTTP/2",
        check: unloaded::run,
        is_long: false,
    },
    Case {
        name: "loss-http3",
        title: "A link of 5 ms that loses 2 % each way, HTTP/3: 1 to 4 threads, both backends",
        check: loss::losses,
        is_long: false,
    },
    Case {
        name: "disorder-http3",
        title: "A link that delays 10 % and doubles 2 %, HTTP/3: 1 to 4 threads, both backends",
        check: loss::disorder,
        is_long: false,
    },
    Case {
        name: "closed",
        title: "Closed loop of N connections and a single server: exact MVA",
        check: closed::run,
        is_long: false,
    },
    Case {
        name: "warmup",
        title: "A server of 200/s: 1 to 256 connections, warmed up or not",
        check: warmup::run,
        is_long: false,
    },
    Case {
        name: "little",
        title: "Little's law: in flight = rate x time",
        check: littles_law::run,
        is_long: false,
    },
    Case {
        name: "histogram",
        title: "A million lognormal samples: percentiles, and merging",
        check: histogram::run,
        is_long: false,
    },
    Case {
        name: "hung",
        title: "One of a hundred requests is never answered, timeout 1 s",
        check: hung::run,
        is_long: false,
    },
    Case {
        name: "few",
        title: "A thousand requests: which percentiles have enough samples",
        check: few_samples::run,
        is_long: false,
    },
    Case {
        name: "starved",
        title: "Half a core for the load generator: the verdict",
        check: starved::run,
        is_long: false,
    },
    Case {
        name: "wall-clock",
        title: "The wall clock is set forward and back by an hour",
        check: wall_clock::run,
        is_long: false,
    },
    Case {
        name: "phases",
        title: "Phases of known length over TLS: 5 + 7 ms, 11 ms, 13 ms",
        check: phases::run,
        is_long: false,
    },
    Case {
        name: "events",
        title: "Streaming responses: 50 ms to the first event, 20 ms between events",
        check: events::run,
        is_long: false,
    },
    Case {
        name: "tokens",
        title: "Tokens of a language model's server, with a stall: 1 to 8 threads, both backends",
        check: tokens::run,
        is_long: false,
    },
    Case {
        name: "bytes",
        title: "Bytes and responses match what the server sent",
        check: bytes::run,
        is_long: false,
    },
    Case {
        name: "names",
        title: "Responses and bytes by name match what the server sent",
        check: names::run,
        is_long: false,
    },
    Case {
        name: "connections",
        title: "Connections match what the server saw",
        check: connections::run,
        is_long: false,
    },
    Case {
        name: "connections-http3",
        title: "Connections and handshakes of HTTP/3 match what the server saw",
        check: connections::http3,
        is_long: false,
    },
    Case {
        name: "search",
        title: "10 searches of M/M/1 and of M/D/1 at a capacity of 1,000/s; 45 minutes",
        check: search::run,
        is_long: true,
    },
];

impl Case {
    /// The cases with these names, in the order of the table; all but the long ones if there are no
    /// names.
    ///
    /// # Errors
    /// When a name is unknown: the message lists the cases.
    pub(crate) fn selected(names: &[String]) -> anyhow::Result<Vec<&'static Self>> {
        for name in names {
            if !ALL.iter().any(|case| case.name == name) {
                let known = ALL.map(|case| case.name).join(", ");
                bail!("--only: \"{name}\" is not a case; cases are {known}");
            }
        }
        let is_chosen = |case: &&Self| match names {
            [] => !case.is_long,
            _ => names.iter().any(|it| it == case.name),
        };
        Ok(ALL.iter().filter(is_chosen).collect())
    }

    /// Runs the case.
    ///
    /// # Errors
    /// When it fails, or the user interrupts.
    pub(crate) fn run(&self, lab: &Lab) -> anyhow::Result<CaseResult> {
        let mut result = CaseResult::new(self);
        (self.check)(lab, &mut result)?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_name_in_the_order_of_the_table() {
        let usual = ALL.iter().filter(|case| !case.is_long).count();
        assert_eq!(Case::selected(&[]).unwrap().len(), usual);
        let chosen = Case::selected(&["hung".into(), "stall".into()]).unwrap();
        let chosen: Vec<&str> = chosen.iter().map(|case| case.name).collect();
        assert_eq!(chosen, ["stall", "hung"]);
        let message = Case::selected(&["x".into()]).unwrap_err().to_string();
        assert!(
            message.contains("\"x\"") && message.contains("wall-clock"),
            "{message}"
        );
    }

    #[test]
    fn names_of_cases_are_unique() {
        let mut names = ALL.map(|case| case.name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
