//! State shared by the connections of a worker: settings, random numbers, schedule, log, counters.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fastrand::Rng;

use crate::cache::ResponseCache;
use crate::calls;
use crate::fault::Fault;
use crate::http2::Http2Context;
use crate::llm::{self, JsonAnswer, PrefixCache};
use crate::prepared::PreparedResponse;
use crate::recipe::{Recipe, Version};
use crate::report::{Counters, Log, LoggedRequest};
use crate::request::{BadRequest, ECHO_MAX_BYTES, Head};
use crate::response::RequestTraits;
use crate::schedule::Schedule;
use crate::streams::KnownResponses;

/// The target whose response is the counters.
pub const STATS_TARGET: &str = "/__stats";

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) defaults: Recipe,
    pub(crate) keepalive_requests: Option<u64>,
    pub(crate) random: Rng,
    pub(crate) schedule: Schedule,
    pub(crate) log: Log,
    pub(crate) cache: ResponseCache,
    /// `None` if only HTTP/1 is spoken.
    pub(crate) http2: Option<Http2Context>,
    /// Responses over HTTP/3.
    pub(crate) http3_known: KnownResponses,
    /// The counters of all workers; those of this worker are at `own`.
    pub(crate) counters: Arc<[Counters]>,
    pub(crate) own: usize,
    /// Generations in progress on all workers.
    pub(crate) generating: Arc<AtomicU64>,
    /// The prompts that language models of all workers have read.
    pub(crate) prompts: Arc<PrefixCache>,
}

/// How a protocol writes responses.
pub(crate) struct Form<S> {
    /// The response of a recipe, with its mix.
    pub(crate) prepare: fn(&Recipe, &RequestTraits) -> PreparedResponse<S>,
    /// A short text: status, media type, body, and whether the connection ends after it.
    pub(crate) text: fn(u16, &str, &str, bool) -> PreparedResponse<S>,
    /// Whether it can be HTTP/1.0.
    pub(crate) has_http10: bool,
    /// Whether it is HTTP/3, which has faults of its own.
    pub(crate) is_http3: bool,
}

impl<S> Form<S> {
    /// The response to an invalid request.
    pub(crate) fn refusal(&self, why: BadRequest) -> PreparedResponse<S> {
        let text = format!("{}\n", why.reason);
        (self.text)(why.status, "text/plain", &text, true).uncounted()
    }
}

/// How to respond to a request, decided from its head.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) head: Head,
    pub(crate) kind: DecisionKind,
}

#[derive(Debug)]
pub(crate) enum DecisionKind {
    Recipe(Box<Recipe>),
    Stats,
    /// What a language model's server says beside its streams.
    Json(JsonAnswer),
    /// Invalid parameters: 400 with the reason.
    Invalid(String),
}

impl Decision {
    pub(crate) fn echoes(&self) -> bool {
        matches!(&self.kind, DecisionKind::Recipe(recipe) if recipe.echoes)
    }

    /// Whether the response depends on the body of the request.
    pub(crate) fn needs_body(&self) -> bool {
        self.echoes() || self.is_asked()
    }

    /// Makes it the response to a gRPC call. Questions about types have the default one.
    pub(crate) fn become_call(&mut self) {
        if let DecisionKind::Recipe(recipe) = &mut self.kind {
            if calls::is_reflection(&self.head.target) {
                **recipe = Recipe::default();
            }
            (recipe.echoes, recipe.is_call) = (true, true);
        }
    }

    /// Whether the body of the request determines numbers of tokens.
    fn is_asked(&self) -> bool {
        matches!(&self.kind, DecisionKind::Recipe(recipe) if recipe.events.llm.needs_body())
    }
}

impl Context {
    /// A worker's state without sockets.
    #[cfg(test)]
    pub(crate) fn simulated(defaults: &str) -> Self {
        Self {
            defaults: Recipe::from_text(defaults).unwrap(),
            keepalive_requests: None,
            random: Rng::with_seed(1),
            schedule: Schedule::new(None, None, false, Arc::default()),
            log: Log::new(10, 0),
            cache: ResponseCache::default(),
            http2: None,
            http3_known: KnownResponses::default(),
            counters: Arc::from([Counters::default()]),
            own: 0,
            generating: Arc::default(),
            prompts: Arc::default(),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters[self.own]
    }

    /// Whether instant responses need no schedule, limits or recording.
    pub(crate) fn is_instant(&self) -> bool {
        self.schedule.is_trivial() && self.keepalive_requests.is_none() && !self.log.records()
    }

    pub(crate) fn decide(&self, head: Head) -> Decision {
        let kind = if head.target == STATS_TARGET {
            DecisionKind::Stats
        } else {
            match self.defaults.changed_by(&head.target) {
                Ok(recipe) => match llm::answer(&recipe, &head) {
                    Some(answer) => DecisionKind::Json(answer),
                    None => DecisionKind::Recipe(Box::new(recipe)),
                },
                Err(why) => DecisionKind::Invalid(why.to_string()),
            }
        };
        Decision { head, kind }
    }

    /// Prepares the response; `is_last` if the connection must not carry more requests.
    pub(crate) fn response<S>(
        &self,
        form: &Form<S>,
        decision: &Decision,
        body: Vec<u8>,
        is_last: bool,
    ) -> Result<PreparedResponse<S>, BadRequest> {
        if decision.echoes() && body.len() > ECHO_MAX_BYTES {
            return Err(BadRequest {
                status: 413,
                reason: "the body to echo exceeds 16 MiB",
            });
        }
        let head = &decision.head;
        let keeps_alive = head.keeps_alive && !is_last;
        let invalid = |why: &str| (form.text)(400, "text/plain", &format!("{why}\n"), true);
        Ok(match &decision.kind {
            DecisionKind::Recipe(recipe) => {
                if recipe.version != Version::Http11 && !form.has_http10 {
                    return Ok(invalid("http10: only HTTP/1 has it"));
                }
                if !form.is_http3 && recipe.faults().any(Fault::needs_http3) {
                    return Ok(invalid(
                        "stateless-reset, dynamic-entry: only HTTP/3 has them",
                    ));
                }
                let asked = decision.is_asked().then(|| {
                    let mut asked = recipe.clone();
                    asked.events.llm.read_request(&body, &self.prompts);
                    asked
                });
                let recipe = asked.as_ref().unwrap_or(recipe);
                let is_success = (200..300).contains(&recipe.status);
                let traits = RequestTraits {
                    is_bodiless: head.method == "HEAD" || head.method == "CONNECT" && is_success,
                    is_http10: head.is_http10,
                    keeps_alive,
                    body: if decision.echoes() { body } else { Vec::new() },
                };
                (form.prepare)(recipe, &traits)
            }
            DecisionKind::Stats => {
                let json = Counters::sum(self.counters.iter()).to_json();
                (form.text)(200, "application/json", &json, !keeps_alive).uncounted()
            }
            DecisionKind::Json(JsonAnswer { status, body }) => {
                (form.text)(*status, "application/json", body, !keeps_alive)
            }
            DecisionKind::Invalid(why) => invalid(why),
        })
    }

    /// Records the arrival of a request. Returns its response, when that is due, and its index in
    /// the log.
    pub(crate) fn arrive<S>(
        &mut self,
        response: &Rc<PreparedResponse<S>>,
        arrival: Arrival,
    ) -> (Rc<PreparedResponse<S>>, u64, Option<usize>) {
        let response = self.drawn(response);
        if !response.is_counted {
            return (response, arrival.at_ns, None);
        }
        self.counters().requests.add(1);
        let delay_ns = response.delay.sample_ns(&mut self.random);
        let due_ns = self.schedule.due_ns(arrival.at_ns, delay_ns);
        let index = self.log.arrive(LoggedRequest {
            connection: arrival.connection,
            arrival_ns: arrival.at_ns,
            departure_ns: None,
            status: response.status,
            bytes: 0,
            generated: None,
        });
        (response, due_ns, index)
    }

    /// This response, or one of its mix.
    fn drawn<S>(&mut self, response: &Rc<PreparedResponse<S>>) -> Rc<PreparedResponse<S>> {
        if response.mix.is_empty() {
            return Rc::clone(response);
        }
        let mut left = self.random.f64();
        for (probability, other) in &response.mix {
            if left < *probability {
                return Rc::clone(other);
            }
            left -= probability;
        }
        Rc::clone(response)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) connection: u64,
    pub(crate) at_ns: u64,
}
