//! `wrkbench grpc`: what a gRPC server offers.

use std::process::ExitCode;

use anyhow::bail;

use super::print;
use super::run::invocation;
use crate::args::{GrpcAction, GrpcRequest};
use crate::console::Console;

/// Prints the services, the methods of one, or a definition.
///
/// # Errors
/// When the server or the files do not say, or there is nothing of this name.
pub(super) fn grpc(request: GrpcRequest, console: &Console) -> anyhow::Result<ExitCode> {
    let GrpcRequest {
        action,
        name,
        mut plan,
    } = request;
    let described = plan.request.schema.take().unwrap_or_default();
    // A server finds the file of a method by the service.
    let asked = name
        .as_deref()
        .map(|name| name.split('/').next().unwrap_or(name).to_owned());
    let symbols: Vec<String> = asked.into_iter().collect();
    let schema = runner::schema(&described, &plan, &invocation(false, console), &symbols)?;
    let text = match (action, name.as_deref()) {
        (GrpcAction::List, None) => lines(&schema.services()),
        (GrpcAction::List, Some(service)) => match schema.methods(service) {
            Some(methods) => lines(&methods),
            None => bail!("there is no service {service}"),
        },
        (GrpcAction::Describe, name) => schema.describe(name.unwrap_or_default())?,
    };
    // Names of a server are texts from outside.
    print(plan::printable_lines(&text).as_bytes(), console)
}

fn lines(names: &[String]) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}
