//! Counts by name match what the server sent: each name has a status of its own.

use crate::truth::check::CaseResult;
use crate::truth::lab::{HTTP3_SERVER, Lab};

const REQUESTS: u32 = 4_000;

/// Exceeds the duration of the run.
const LIMIT_S: u32 = 30;

/// The statuses of the names in `names.jsonl`.
const NAMES: [(&str, u16); 4] = [
    ("ok", 200),
    ("created", 201),
    ("missing", 404),
    ("unnamed", 203),
];

/// Label, options of the server, options of the client.
const RUNS: [(&str, &str, &str); 7] = [
    ("in sequence", "", "--order sequence"),
    ("weighted, pipelined", "", "--pipeline 8"),
    ("at random, at a rate", "", "--order random -R2000"),
    ("over TLS", "--tls", ""),
    ("HTTP/2", "", "--http2 -m8"),
    ("HTTP/3", HTTP3_SERVER, "--http3 -m8"),
    ("two agents", "", "--local 2"),
];

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let file = lab.file("names.jsonl");
    for (label, server, options) in RUNS {
        let (ours, log) = lab.observe(case, server, |origin| {
            let file = file.display();
            let options = format!("-t1 -c8 -n {REQUESTS} --request-file {file} {options}");
            lab.ours(&options, &origin.url("/"), LIMIT_S)
        })?;
        for (name, status) in NAMES {
            let mut names = ours.recording().parts.by_name.iter();
            let seen = names.find(|named| named.name == name);
            let (responses, bytes) = log.of_status(status);
            case.count(
                format!("{label}: responses of {name}"),
                responses,
                seen.map_or(0, |named| named.answered),
            );
            case.count(
                format!("{label}: bytes of {name}"),
                bytes,
                seen.map_or(0, |named| named.bytes),
            );
        }
    }
    Ok(())
}
