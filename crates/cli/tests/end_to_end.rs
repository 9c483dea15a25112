//! The program against the built-in server, compared with the counts of the server. It is called
//! like a function where a test needs no process (`in_process.rs`).
//!
//! | module | what is run |
//! |---|---|
//! | `options` | every option of a run once, with its effect at the server or in the result |
//! | `rates` | rates, stages, arrivals, warm-up: what is due, sent and left out |
//! | `source_addresses` | the addresses that the server sees |
//! | `secrets` | passwords, tokens and cookies: sent, and neither shown nor saved |
//! | `links` | notes, versions and texts through links |
//! | `styles` | the texts of wrk2 and wrk-cmm, HdrHistogram's files |
//! | `messages` | lines on stderr and their order |
//! | `verdicts` | exit codes of `--fail-if` and `--strict` |
//! | `unusual_responses` | unusual but valid responses: none is an error |
//! | `tls` | https: versions, resumption, certificates |
//! | `adapters` | profiles of public comparisons, run by `examples/adapters/` |
//! | `traces` | request files made of traces of language models' servers |
//! | `warmup` | `--warmup auto` in comparisons, sweeps and searches |
//! | `prometheus` | `--prometheus`, scraped by the test and by Prometheus |
//! | `proxies` | runs through proxies, and proxies that fail |
//! | `http2` | `--http2` in clear and over TLS: every kind of load, response and upload |
//! | `http3` | `--http3` against the built-in server: loads, uploads, ends of connections |
//! | `fleet` | runs and sweeps by agents of this machine; `make fleet` runs them |
//! | `deploy` | the agents of `deploy/` with the options that its files give them |
//! | `timeouts` | servers that hang |
//! | `scripts` | Lua from end to end: examples, errors, endless loops, order of output |
//! | `refusals` | wrong input: one line, exit code 1, nothing started |
//! | `connecting` | rates of new connections, idle connections |
//! | `cookies` | what connections keep and send |
//! | `hosts` | requests of a file to several hosts |
//! | `many_connections` | ten thousand connections on one worker |
//! | `sockets` | the list of sockets: filters, states, watching |
//! | `stream` | `--stream`: its lines, destinations that fail, sweeps, searches, fleets |
//! | `scrape` | the server's own metrics: text, result, page, pages that cannot be read |
//! | `telemetry` | sockets and counters of a run: summary, samples, write errors |
//! | `sweep` | experiments: order, hooks, dry runs, kills, resuming |
//! | `sweep_url` | experiments without a file, and some cells of an experiment |
//! | `otlp` | what collectors of OpenTelemetry get, and collectors that fail |
//! | `table` | runs as a table: input, formats, unreadable files |
//! | `report` | runs as a page or for other tools: formats, files, conditions, refusals |
//! | `compare` | whether runs differ: input, exit codes, formats |
//! | `once` | one exchange as text: connection, TLS, errors, exit codes |
//! | `convert` | curl commands and HAR files as loads; what curl itself sends |
//! | `commands` | `serve`, `demo`, `completions`, `man` |
//! | `harness`, `judge` | starting runs; what must hold of every run |
//!
//! Faults are in `faults/`. Tests of single runs that do not need the counts of the server are
//! in `run.rs`.
//!
//! Runs use the backend named by the environment variable `WRKBENCH_TEST_IO`, or else the default
//! of the program. Nothing here asserts speed. A program that hangs is killed and fails its test.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failing step fails the test"
)]

#[path = "end_to_end/adapters.rs"]
mod adapters;
#[path = "end_to_end/addresses.rs"]
mod addresses;
#[path = "end_to_end/captures.rs"]
mod captures;
#[path = "end_to_end/commands.rs"]
mod commands;
#[path = "end_to_end/compare.rs"]
mod compare;
#[path = "end_to_end/connecting.rs"]
mod connecting;
#[path = "end_to_end/conversations.rs"]
mod conversations;
#[path = "end_to_end/convert.rs"]
mod convert;
#[path = "end_to_end/cookies.rs"]
mod cookies;
#[path = "end_to_end/deploy.rs"]
mod deploy;
#[path = "end_to_end/fleet/mod.rs"]
mod fleet;
#[path = "end_to_end/grpc.rs"]
mod grpc;
#[path = "end_to_end/harness.rs"]
#[allow(dead_code, reason = "faults/ uses the rest")]
mod harness;
#[path = "end_to_end/history.rs"]
mod history;
#[path = "end_to_end/hosts.rs"]
mod hosts;
#[path = "end_to_end/http2.rs"]
mod http2;
#[path = "end_to_end/http3.rs"]
mod http3;
#[path = "end_to_end/http3_flood.rs"]
mod http3_flood;
#[path = "end_to_end/inputs.rs"]
mod inputs;
#[path = "end_to_end/judge.rs"]
mod judge;
#[path = "end_to_end/links.rs"]
mod links;
#[path = "end_to_end/llm.rs"]
mod llm;
#[path = "end_to_end/llm_command.rs"]
mod llm_command;
#[path = "end_to_end/many_connections.rs"]
mod many_connections;
#[path = "end_to_end/messages.rs"]
mod messages;
#[path = "end_to_end/once.rs"]
mod once;
#[path = "end_to_end/options.rs"]
mod options;
#[path = "end_to_end/otlp.rs"]
mod otlp;
#[path = "end_to_end/prometheus.rs"]
mod prometheus;
#[path = "end_to_end/proxies.rs"]
mod proxies;
#[path = "end_to_end/rates.rs"]
mod rates;
#[path = "end_to_end/records.rs"]
mod records;
#[path = "end_to_end/refusals.rs"]
mod refusals;
#[path = "end_to_end/replay.rs"]
mod replay;
#[path = "end_to_end/report.rs"]
mod report;
#[path = "end_to_end/request_files.rs"]
mod request_files;
#[path = "end_to_end/scrape.rs"]
mod scrape;
#[path = "end_to_end/scripts.rs"]
mod scripts;
#[path = "end_to_end/search.rs"]
mod search;
#[path = "end_to_end/secrets.rs"]
mod secrets;
#[path = "end_to_end/slowest.rs"]
mod slowest;
#[path = "end_to_end/sockets.rs"]
mod sockets;
#[path = "end_to_end/source_addresses.rs"]
mod source_addresses;
#[path = "end_to_end/stream.rs"]
mod stream;
#[path = "end_to_end/streaming.rs"]
mod streaming;
#[path = "end_to_end/styles.rs"]
mod styles;
#[path = "end_to_end/sweep.rs"]
mod sweep;
#[path = "end_to_end/sweep_url.rs"]
mod sweep_url;
#[path = "end_to_end/table.rs"]
mod table;
#[path = "end_to_end/telemetry.rs"]
mod telemetry;
#[path = "end_to_end/timeouts.rs"]
mod timeouts;
#[path = "end_to_end/tls.rs"]
mod tls;
#[path = "end_to_end/traces.rs"]
mod traces;
#[path = "end_to_end/unusual_responses.rs"]
mod unusual_responses;
#[path = "end_to_end/verdicts.rs"]
mod verdicts;
#[path = "end_to_end/versus.rs"]
mod versus;
#[path = "end_to_end/warmup.rs"]
mod warmup;
