//! The first request of a plan, sent once without the engine.

use std::sync::Arc;

use client::Client;
use engine::source::RequestSource;
use engine::{Address, monotonic_ns};
use plan::{RunPlan, Target};
use requests::Renderer;
use results::exchange::Exchange;

use crate::messages::{self, encode_message};
use crate::sources::{self, RequestParts};
use crate::{ClockReading, Invocation, RunnerError};

/// Sends one request and reads its response. With a script or a file it is their first one.
///
/// Only what is wrong before the first packet is an error; the rest is part of the exchange.
///
/// # Errors
/// If a file cannot be read, or the script or TLS cannot be set up.
pub fn once(mut plan: RunPlan, invocation: &Invocation) -> Result<Exchange, RunnerError> {
    (plan.load.threads, plan.load.connections) = (1, 1);
    (plan.load.streams, plan.load.pipeline) = (1, 1);
    let method = encode_message(&mut plan, invocation)?;
    let first = first_request(&plan, invocation)?;
    if let Some(target) = first.target {
        plan.target = target;
    }
    let mut client = Client::of_plan(plan.clone(), invocation.permit.clone())?;
    if let Some(address) = first.address {
        client = client.at(vec![address]);
    }
    let mut exchange = client.exchange(first.text)?;
    let method = match messages::types_of_file(&plan, invocation) {
        Ok(Some(types)) => types.method(&exchange.request.target).ok(),
        _ => method,
    };
    if let Some((method, response)) = method.as_ref().zip(exchange.response.as_mut()) {
        response.messages = messages::decoded(method, &response.body);
    }
    Ok(exchange)
}

/// The request that is sent.
struct FirstRequest {
    text: Vec<u8>,
    /// The address, if a script has looked it up or a file has requests.
    address: Option<Address>,
    /// Where it goes, if not to the target of the plan.
    target: Option<Target>,
}

fn first_request(plan: &RunPlan, invocation: &Invocation) -> Result<FirstRequest, RunnerError> {
    if plan.request.script.is_none() && plan.request.file.is_none() {
        return Ok(FirstRequest {
            text: RequestParts::of(plan)?.encode(plan),
            address: None,
            target: None,
        });
    }
    let read_at = ClockReading {
        unix_ms: invocation.unix_ms,
        monotonic_ns: monotonic_ns(),
    };
    let mut prepared = sources::prepare(plan, invocation, read_at)?;
    let source: &mut Box<dyn RequestSource> = prepared
        .workers
        .first_mut()
        .ok_or_else(|| RunnerError::Script("there are no requests".to_owned()))?;
    let mut text = Vec::new();
    let mut host = 0;
    match (source.fixed(), source.file()) {
        (Some(fixed), _) => text = fixed,
        (None, Some(file)) => {
            let set = Arc::clone(&file.set);
            let mut renderer = Renderer::new(file.set, file.seed, 0, 1);
            let first = renderer.next_request(0);
            renderer.render(first, 0, file.wall_clock, &mut text);
            host = set.host(first) as usize;
        }
        (None, None) => source
            .next(0, &mut text)
            .map_err(|error| RunnerError::Script(error.to_string()))?,
    }
    let addresses = prepared.addresses.into_iter().nth(host).unwrap_or_default();
    let mut others = prepared.more_hosts.into_iter();
    Ok(FirstRequest {
        text,
        address: addresses.into_iter().next(),
        target: host.checked_sub(1).and_then(|at| others.nth(at)),
    })
}
