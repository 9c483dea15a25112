//! What to send: a fixed request from the plan, or a script.

use crate::source_addresses::check_source;
use crate::{ClockReading, Invocation, Permit, RunnerError, TargetError, messages, request_file};
use client::{SystemNetwork, basic_authorization, plain};
use engine::source::{Fixed, FromFile, RequestSource};
use plan::{Body, DnsUse, EventsFormat, Load, MAX_CONNECTIONS, RunPlan, Target};
use protocol::h2::grpc::framed;
use protocol::request::{Request, encode};
use requests::{Moment, RequestSet};
use script::{Address, Network, NetworkError, Script, ScriptError, Settings};
use std::path::Path;
use std::sync::Arc;

/// The source of one worker.
type WorkerSource = Box<dyn RequestSource>;

/// Sources for the workers, and the address to connect to.
pub(crate) struct Sources {
    /// By host, those that accept connections; at least one host with at least one.
    pub(crate) addresses: Vec<Vec<Address>>,
    /// The hosts of a file, beginning with the target of the run. Empty if it has only that.
    pub(crate) more_hosts: Vec<Target>,
    pub(crate) workers: Vec<WorkerSource>,
    /// The script, whose `done` is called after the run.
    pub(crate) script: Option<Script>,
    /// The names of the requests of a file.
    pub(crate) request_names: Option<Vec<String>>,
    /// Requests of a file depend on the seed.
    pub(crate) draws_requests: bool,
    /// Requests are turns of conversations.
    pub(crate) has_conversations: bool,
    /// Notes for the user about the requests of a file, one line each.
    pub(crate) notes: Vec<String>,
}

/// Resolves the target and creates the sources. A script's `setup` and `init` run here.
pub(crate) fn prepare(
    plan: &RunPlan,
    invocation: &Invocation,
    read_at: ClockReading,
) -> Result<Sources, RunnerError> {
    check_source(&plan.load)?;
    let network = SystemNetwork::new(plan, invocation.permit.clone());
    let request = RequestParts::of(plan)?;
    match plan.request.script.as_deref() {
        None => without_script(plan, invocation, read_at, &request, &network),
        Some(path) => by_script(path, plan, invocation, &request, network),
    }
}

/// The requests of a file, or else the one of the plan.
fn without_script(
    plan: &RunPlan,
    invocation: &Invocation,
    read_at: ClockReading,
    request: &RequestParts,
    network: &SystemNetwork,
) -> Result<Sources, RunnerError> {
    let file = &plan.request.file;
    let types = messages::types_of_file(plan, invocation)?;
    let loaded = file
        .as_ref()
        .map(|file| request_file::load(plan, file, &request.headers, types.as_ref(), invocation))
        .transpose()?;
    let (set, mut notes) = loaded.map_or((None, Vec::new()), |it| (Some(it.set), it.notes));
    let hosts = set.as_ref().map_or(&[][..], RequestSet::hosts);
    let more_hosts = hosts.get(1..).unwrap_or_default().to_vec();
    check_hosts(plan, &more_hosts)?;
    if set.as_ref().is_some_and(RequestSet::has_captures) {
        check_captures(&plan.load)?;
    }
    let has_conversations = set.as_ref().is_some_and(RequestSet::has_conversations);
    let format = plan.events.as_ref().map(|events| events.format);
    if has_conversations && format != Some(EventsFormat::Llm) {
        return Err(RunnerError::SilentConversations);
    }
    let addresses = addresses_of(plan, &more_hosts, network, &mut notes)?;
    let request_names = set.as_ref().map(|set| set.names().to_vec());
    let draws_requests = set.as_ref().is_some_and(RequestSet::uses_seed);
    let workers = match set {
        None => copies(Fixed::new(request.encode(plan)), plan),
        Some(set) => {
            let requests = FromFile {
                set: Arc::new(set),
                seed: file.as_ref().map_or(0, |file| file.seed),
                wall_clock: Moment {
                    unix_ms: read_at.unix_ms,
                },
                monotonic_ns: read_at.monotonic_ns,
            };
            copies(requests, plan)
        }
    };
    Ok(Sources {
        addresses,
        more_hosts,
        workers,
        script: None,
        request_names,
        draws_requests,
        has_conversations,
        notes,
    })
}

/// The addresses of the target and of the other hosts that accept connections.
fn addresses_of(
    plan: &RunPlan,
    more_hosts: &[Target],
    network: &SystemNetwork,
    notes: &mut Vec<String>,
) -> Result<Vec<Vec<Address>>, RunnerError> {
    let mut addresses = Vec::new();
    for target in std::iter::once(&plan.target).chain(more_hosts) {
        let resolved = network.resolve(target)?;
        if plan.addresses.dns == DnsUse::All {
            notes.extend(resolved.notes());
        }
        addresses.push(resolved.addresses);
    }
    if !more_hosts.is_empty() {
        notes.push(format!(
            "requests go to {} hosts, with -c connections to each",
            addresses.len()
        ));
    }
    Ok(addresses)
}

/// The requests that a script makes.
fn by_script(
    path: &Path,
    plan: &RunPlan,
    invocation: &Invocation,
    request: &RequestParts,
    network: SystemNetwork,
) -> Result<Sources, RunnerError> {
    let fleet = invocation.fleet.as_ref();
    let settings = Settings {
        worker_base: fleet.map_or(0, |fleet| fleet.worker_base),
        modules: invocation.modules.as_deref(),
        ..settings(path, plan, request)
    };
    let mut script = Script::load(&settings, Arc::new(OfScripts(network))).map_err(failed)?;
    let workers = script.start().map_err(failed)?;
    let address = script.addresses().first().cloned();
    let address = address.ok_or_else(|| TargetError::NoAddress(plan.target.host.clone()))?;
    Ok(Sources {
        addresses: vec![vec![address]],
        more_hosts: Vec::new(),
        workers,
        script: Some(script),
        request_names: None,
        draws_requests: false,
        has_conversations: false,
        notes: Vec::new(),
    })
}

/// Whether a run with these hosts beside its target is possible.
///
/// # Errors
/// Which setting is for one host only.
fn check_hosts(plan: &RunPlan, more_hosts: &[Target]) -> Result<(), TargetError> {
    let Some(other) = more_hosts.first() else {
        return Ok(());
    };
    let load = &plan.load;
    let settings = [
        ("--proxy", plan.proxy.is_some()),
        ("--connection-stages", !load.connection_stages.is_empty()),
        ("--resolve-every", plan.addresses.resolve_every.is_some()),
        ("--alpn h2,http/1.1", plan.lets_server_choose()),
    ];
    if let Some((option, _)) = settings.into_iter().find(|(_, is_given)| *is_given) {
        let hosts = [&plan.target, other].map(|target| target.host_header.clone());
        let [one, other] = hosts;
        return Err(TargetError::SeveralHosts(option, one, other));
    }
    let hosts = more_hosts.len() as u64 + 1;
    let all = u64::from(load.connections) * hosts + u64::from(load.idle_connections);
    if all <= u64::from(MAX_CONNECTIONS) {
        Ok(())
    } else {
        Err(TargetError::TooManyConnections(load.connections, hosts))
    }
}

/// Refuses several requests at once on a connection, which is one client.
fn check_captures(load: &Load) -> Result<(), TargetError> {
    let given = [("--pipeline", load.pipeline), ("--streams", load.streams)];
    match given.into_iter().find(|(_, requests)| *requests > 1) {
        None => Ok(()),
        Some((option, requests)) => Err(TargetError::Captures(option, requests)),
    }
}

/// The same source for every worker.
fn copies(source: impl RequestSource + Clone + 'static, plan: &RunPlan) -> Vec<WorkerSource> {
    (0..plan.load.threads)
        .map(|_| Box::new(source.clone()) as WorkerSource)
        .collect()
}

/// The script of the plan, if it has one, for `done` alone.
pub(crate) fn script_for_done(plan: &RunPlan) -> Result<Option<Script>, RunnerError> {
    let Some(path) = plan.request.script.as_deref() else {
        return Ok(None);
    };
    let request = RequestParts::of(plan)?;
    let network = Arc::new(OfScripts(SystemNetwork::new(plan, Permit::default())));
    let script = Script::load_for_done(&settings(path, plan, &request), network);
    script.map(Some).map_err(failed)
}

/// The network as scripts see it.
struct OfScripts(SystemNetwork);

impl Network for OfScripts {
    fn lookup(&self, host: &str, service: &str) -> Result<Vec<Address>, NetworkError> {
        let addresses = self.0.permitted_addresses(host, service);
        addresses.map_err(NetworkError::new)
    }

    fn connect(&self, address: &Address) -> Result<(), NetworkError> {
        let connected = self.0.try_connect(address);
        connected.map_err(|error| NetworkError::new(plain(&error)))
    }
}

fn settings<'a>(path: &'a Path, plan: &'a RunPlan, request: &'a RequestParts) -> Settings<'a> {
    Settings {
        path: Some(path),
        url: &plan.target.url,
        scheme: plan.target.scheme.name(),
        host: &plan.target.host,
        port: plan.target.port.as_deref(),
        request_path: &plan.target.path,
        method: &request.method,
        headers: &request.headers,
        body: request.body.as_deref(),
        args: &plan.request.script_args,
        threads: plan.load.threads,
        worker_base: 0,
        modules: None,
    }
}

fn failed(error: ScriptError) -> RunnerError {
    RunnerError::Script(error.to_string())
}

/// Says that of a header which the command line has twice only the last one is sent.
pub(crate) fn repeated_header_note(plan: &RunPlan) -> Option<String> {
    let given = &plan.request.headers;
    let (name, other) = given.iter().enumerate().find_map(|(at, (name, _))| {
        let mut after = given[at + 1..].iter().map(|(other, _)| other);
        let other = after.find(|other| other.eq_ignore_ascii_case(name))?;
        Some((name, other))
    })?;
    // wrk compares names byte for byte.
    let as_in_wrk = if name == other { ", as in wrk" } else { "" };
    Some(format!(
        "the header {name} is given more than once, and the last one is sent{as_in_wrk} (a file of \
         requests can repeat it: --requests)"
    ))
}

/// The last of several headers with the same name wins, in the position of the first. wrk does the
/// same, because its headers are a table.
fn last_of_each_name(given: &[(String, String)]) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in given {
        match headers
            .iter_mut()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
        {
            Some(header) => *header = (name.clone(), value.clone()),
            None => headers.push((name.clone(), value.clone())),
        }
    }
    headers
}

pub(crate) struct RequestParts {
    method: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl RequestParts {
    pub(crate) fn of(plan: &RunPlan) -> Result<Self, RunnerError> {
        let body = match &plan.request.body {
            None => None,
            Some(Body::Inline(bytes)) => Some(bytes.clone()),
            Some(Body::File(path)) => {
                let body = files::read(path, request_file::MAX_FILE_BYTES);
                Some(body.map_err(|error| RunnerError::File {
                    option: "--body-file",
                    path: path.clone(),
                    error,
                })?)
            }
        };
        if plan.load.protocol.is_grpc()
            && let Some(body) = &body
        {
            let option = match &plan.request.body {
                Some(Body::File(path)) => format!("--body-file {}", path.display()),
                _ => "--body".to_owned(),
            };
            if body.first() == Some(&b'{') {
                let problem = "is JSON, whose types are not known (add --reflection, --proto or \
                               --proto-set)";
                return Err(RunnerError::Body(format!("{option}: {problem}")));
            }
            framed(body).map_err(|fault| RunnerError::Body(format!("{option}: {fault}")))?;
        }
        let default = plan.default_method();
        let method = plan
            .request
            .method
            .clone()
            .unwrap_or_else(|| default.to_owned());
        let mut headers = last_of_each_name(&plan.request.headers);
        let has = |headers: &[(String, String)], wanted: &str| {
            headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
        };
        // As in curl, explicit headers have precedence over what the URL implies.
        if let Some(header) = basic_authorization(&plan.target)
            && !has(&headers, &header.0)
        {
            headers.push(header);
        }
        if !plan.load.keepalive && !has(&headers, "Connection") {
            headers.push(("Connection".to_owned(), "close".to_owned()));
        }
        Ok(Self {
            method,
            headers,
            body,
        })
    }

    pub(crate) fn encode(&self, plan: &RunPlan) -> Vec<u8> {
        let mut bytes = Vec::new();
        let request = Request {
            method: self.method.as_bytes(),
            target: plan.target.path.as_bytes(),
            host: plan.target.host_header.as_bytes(),
            headers: &self.headers,
            body: self.body.as_deref(),
        };
        encode(&request, &mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_header_of_which_only_the_last_is_sent() {
        let note = |headers: &[(&str, &str)]| {
            let target = Target::parse("http://h/").expect("it is a URL");
            let mut plan = RunPlan::new(target);
            let owned = |it: &(&str, &str)| (it.0.to_owned(), it.1.to_owned());
            plan.request.headers = headers.iter().map(owned).collect();
            repeated_header_note(&plan)
        };
        assert_eq!(note(&[("A", "1"), ("B", "1")]), None);
        assert_eq!(
            note(&[("B", "1"), ("A", "1"), ("A", "2")]).as_deref(),
            Some(
                "the header A is given more than once, and the last one is sent, as in wrk (a \
                 file of requests can repeat it: --requests)"
            )
        );
        assert_eq!(
            note(&[("A", "1"), ("a", "2")]).as_deref(),
            Some(
                "the header A is given more than once, and the last one is sent (a file of \
                 requests can repeat it: --requests)"
            )
        );
    }

    #[test]
    fn the_last_of_several_headers_with_one_name_wins_in_the_position_of_the_first() {
        let given = [("A", "1"), ("B", "2"), ("a", "3")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let kept = last_of_each_name(&given);
        assert_eq!(
            kept,
            [
                ("a".to_owned(), "3".to_owned()),
                ("B".to_owned(), "2".to_owned())
            ]
        );
    }
}
