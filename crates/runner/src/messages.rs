//! Messages of gRPC from JSON, before the run.

use std::time::Duration;

use grpc::{Answer, Method, ReflectionError, Schema, Sources};
use plan::{Body, MessageSchema, RequestSpec, RunPlan};
use protocol::h2::grpc::messages;

use serde_json::Value;

use crate::{Invocation, RunnerError, once, request_file};

/// How long the server may take to describe itself.
const REFLECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Encodes the message of a plan that has JSON for one, so that the plan needs no description of
/// types any more. Returns the method; `None` if the plan has bytes already.
///
/// # Errors
/// If the types cannot be read, there is no such method, or the JSON does not fit.
pub fn encode_message(
    plan: &mut RunPlan,
    invocation: &Invocation,
) -> Result<Option<Method>, RunnerError> {
    // The messages of a file may have templates, so they are encoded for each request.
    if plan.request.file.is_some() {
        return Ok(None);
    }
    let Some(described) = plan.request.schema.take() else {
        return Ok(None);
    };
    let body = |problem: String| Err(RunnerError::Body(problem));
    let path = plan.target.path.clone();
    let name = path.trim_start_matches('/');
    let service = name.rsplit_once('/').map_or(name, |(service, _)| service);
    let schema = schema(&described, plan, invocation, &[service.to_owned()])?;
    let method = schema
        .method(name)
        .map_err(|error| RunnerError::Body(format!("--call: {error}")))?;
    if method.is_client_streaming() {
        return body(format!(
            "--call {name}: its calls have a stream of requests, but this program sends one message"
        ));
    }
    let (option, json) = match plan.request.body.take() {
        None => ("--body".to_owned(), b"{}".to_vec()),
        Some(Body::Inline(bytes)) => ("--body".to_owned(), bytes),
        Some(Body::File(file)) => {
            let read = files::read(&file, request_file::MAX_FILE_BYTES);
            let bytes = read.map_err(|error| RunnerError::File {
                option: "--body-file",
                path: file.clone(),
                error,
            })?;
            (format!("--body-file {}", file.display()), bytes)
        }
    };
    let Ok(json) = String::from_utf8(json) else {
        return body(format!("{option}: is not UTF-8 (expected JSON)"));
    };
    if json.contains("{{") {
        return body(format!(
            "{option}: has {{{{, but templates need a file of requests (--requests calls.jsonl, \
             with lines like {{\"call\": \"{name}\", \"message\": {{...}}}})"
        ));
    }
    let message = method.encode(&json);
    let message = message.map_err(|error| RunnerError::Body(format!("{option}: {error}")))?;
    plan.request.body = Some(Body::Inline(message));
    Ok(Some(method))
}

/// The types of the messages of a plan's file; `None` if it has no file, or messages in bytes.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn types_of_file(
    plan: &RunPlan,
    invocation: &Invocation,
) -> Result<Option<Schema>, RunnerError> {
    let described = plan.request.schema.as_ref();
    let described = described.filter(|_| plan.request.file.is_some());
    described
        .map(|described| schema(described, plan, invocation, &[]))
        .transpose()
}

/// The types of a plan. `symbols` are the services that the server is asked for; all of its
/// services if empty.
///
/// # Errors
/// If they cannot be read.
pub fn schema(
    described: &MessageSchema,
    plan: &RunPlan,
    invocation: &Invocation,
    symbols: &[String],
) -> Result<Schema, RunnerError> {
    let failed = |option: &str, problem: String| RunnerError::Body(format!("{option}: {problem}"));
    if let Some(file) = &described.descriptor_set {
        let bytes = files::read(file, request_file::MAX_FILE_BYTES);
        let bytes = bytes.map_err(|error| RunnerError::File {
            option: "--proto-set",
            path: file.to_owned(),
            error,
        })?;
        return Schema::of_set(&bytes, &file.display().to_string())
            .map_err(|error| failed("--proto-set", error.to_string()));
    }
    if !described.reflection {
        let sources = Sources {
            files: described.proto.clone(),
            folders: described.proto_path.clone(),
        };
        return Schema::compile(&sources).map_err(|error| failed("--proto", error.to_string()));
    }
    reflected(plan, invocation, symbols)
}

/// Asks the server: by the current version of reflection, else by the one before.
fn reflected(
    plan: &RunPlan,
    invocation: &Invocation,
    symbols: &[String],
) -> Result<Schema, RunnerError> {
    let mut last = None;
    for service in grpc::SERVICES {
        let mut ask = |question: Vec<u8>| ask(plan, invocation, service, &question);
        let listed = match symbols {
            [] => ask(grpc::list()).map(|answer| match answer {
                Answer::Services(names) => names,
                Answer::Files(_) => Vec::new(),
            }),
            given => Ok(given.to_vec()),
        };
        let schema = listed.and_then(|symbols| Schema::by_reflection(&symbols, &mut ask));
        match schema {
            Ok(schema) => return Ok(schema),
            Err(Unanswered::Runner(error)) => return Err(error),
            Err(Unanswered::Server(problem)) => last = Some(problem),
            // The older version would be told the same.
            Err(Unanswered::Reflection(error)) => {
                last = Some(error.to_string());
                break;
            }
        }
    }
    Err(RunnerError::Body(format!(
        "--reflection: {} (give --proto or --proto-set if the server does not describe itself)",
        last.unwrap_or_default()
    )))
}

/// Why a question has no answer.
enum Unanswered {
    /// It could not be asked.
    Runner(RunnerError),
    /// There was no response, or it has failed.
    Server(String),
    /// The answer cannot be used.
    Reflection(ReflectionError),
}

impl From<ReflectionError> for Unanswered {
    fn from(error: ReflectionError) -> Self {
        Self::Reflection(error)
    }
}

/// Sends one question as a call of its own.
fn ask(
    plan: &RunPlan,
    invocation: &Invocation,
    service: &str,
    question: &[u8],
) -> Result<Answer, Unanswered> {
    let mut plan = plan.clone();
    plan.target.path = format!("/{service}/ServerReflectionInfo");
    plan.load.protocol = plan.load.protocol.with_grpc();
    plan.timeout = plan.timeout.min(REFLECTION_TIMEOUT);
    plan.events = None;
    plan.good = None;
    plan.request = RequestSpec {
        // Metadata may be what lets the caller in.
        headers: plan.request.headers,
        body: Some(Body::Inline(question.to_vec())),
        ..RequestSpec::default()
    };
    let exchange = once(plan, invocation).map_err(Unanswered::Runner)?;
    if let Some(error) = exchange.error {
        return Err(Unanswered::Server(error));
    }
    let body = exchange.response.map(|response| response.body);
    let body = body.unwrap_or_default();
    let message = messages(&body).next().unwrap_or_default();
    Ok(grpc::read(message)?)
}

/// The messages of a response as JSON. One that is not of the type ends them.
pub(crate) fn decoded(method: &Method, body: &[u8]) -> Vec<Value> {
    let decoded = messages(body).map(|message| method.decode(message));
    decoded.map_while(Result::ok).collect()
}
