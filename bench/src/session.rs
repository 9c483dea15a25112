//! A measuring session: programs, cores, and the interleaved runs of each row.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::figures::{ClientResult, RowResult, Sample};
use crate::machine::Machine;
use crate::options::{CommonOptions, ServerKind, SpeedOptions};
use crate::process::{Placement, Process, ProcessOutput};
use crate::report_text;
use crate::rows::{Script, SpeedRow};
use crate::scratch::Scratch;
use crate::server::{self, CIPHER, Server};
use crate::setup::{self, Cores};
use crate::tool::{Client, Programs};
use crate::usage::Usage;

/// Time limit of a run beyond its duration: scripts, connecting, the report.
const GRACE: Duration = Duration::from_secs(30);

/// Interval of polling a client: its peak memory is known as of the last poll before its end.
const POLL: Duration = Duration::from_millis(20);

/// File descriptors that a client needs in addition to its connections.
const SPARE_FILES: u64 = 100;

/// Duration of the uncounted first run, which warms up server and client.
const WARM_UP_S: u32 = 1;

/// The environment of all rows.
#[derive(Debug)]
pub(crate) struct Session {
    machine: Machine,
    programs: Programs,
    scratch: Scratch,
    server_kind: ServerKind,
    duration_s: u32,
    repeats: u32,
    server_place: Placement,
    client_place: Placement,
    interrupted: Arc<AtomicBool>,
}

impl Session {
    /// Finds the programs and describes the machine.
    ///
    /// # Errors
    /// When wrkbench or a core does not exist.
    pub(crate) fn prepare(options: &SpeedOptions) -> anyhow::Result<Self> {
        let CommonOptions {
            wrkbench,
            wrk,
            wrk2,
            h2load,
            server_core,
            client_core,
            ..
        } = &options.common;
        let interrupted = setup::interruption()?;
        let wrkbench = setup::wrkbench_path(wrkbench.as_deref())?;
        let machine = Machine::look(&wrkbench, &options.common);
        if machine.wrk.is_none() {
            progress(&format!("no {}: rows have no ratio", wrk.display()));
        }
        let programs = Programs {
            wrk: machine.wrk.is_some().then(|| wrk.clone()),
            wrk2: machine.wrk2.is_some().then(|| wrk2.clone()),
            h2load: machine.h2load.is_some().then(|| h2load.clone()),
            wrkbench,
        };
        let cores = Cores::choose(machine.cores, *server_core, *client_core);
        if !cores.are_apart {
            progress("only one core: server and client share it, so the rates are unreliable");
        }
        let scratch = Scratch::create()?;
        for script in Script::ALL {
            scratch.write(script.file_name(), script.text())?;
        }
        Ok(Self {
            machine,
            programs,
            scratch,
            server_kind: options.server,
            duration_s: options.duration,
            repeats: options.repeats,
            server_place: cores.server,
            client_place: cores.client,
            interrupted,
        })
    }

    /// What is measured on.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether the user has interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Measures a row: a new server, and all clients in turn.
    ///
    /// # Errors
    /// When a server or a client fails, or the user interrupts.
    pub(crate) fn measure(&self, row: &'static SpeedRow) -> anyhow::Result<RowResult> {
        let mut notes = Vec::new();
        let connections = self.possible_connections(row, &mut notes);
        let server = Server::start(
            self.server_kind_for(row),
            row,
            &self.programs.wrkbench,
            &self.scratch,
            self.server_place,
        )?;
        let clients = Client::all(row, &self.programs);
        let duration_s = self.duration_s.max(row.duration_min_s);
        if duration_s > self.duration_s {
            notes.push(format!("runs of {duration_s} s"));
        }
        if row.tls && row.http2.is_some() {
            // h2load prints no body, but nginx offers nothing else.
            notes.push(format!("cipher of every client: {CIPHER}"));
        } else if row.tls {
            notes.push(self.cipher_note(&server, &clients)?);
        }
        let url = server.url(row.body_bytes);
        let script = row.script.map(|script| self.script_path(script));
        let run = |client: &Client, duration_s| {
            let arguments = client.arguments(connections, duration_s, script.as_deref(), &url);
            self.run(client, &arguments, duration_s)
        };
        if let Some(first) = clients.first() {
            run(first, WARM_UP_S)?;
        }
        let mut samples: BTreeMap<&str, Vec<Sample>> = BTreeMap::new();
        for repetition in 1..=self.repeats {
            for client in &clients {
                progress(&format!(
                    "{}: {}, {repetition}/{}",
                    row.name, client.label, self.repeats
                ));
                let before = Usage::now(server.cpu_us()?)?;
                let ended = run(client, duration_s)?;
                let others_share = Usage::now(server.cpu_us()?)?.others_share(before, ended.cpu_us);
                let sample = sample_of(&ended, others_share)
                    .with_context(|| format!("{} in row {}", client.label, row.name))?;
                samples.entry(&client.label).or_default().push(sample);
            }
        }
        let baseline = samples.get(Client::baseline(row)).cloned();
        let results = clients
            .iter()
            .filter_map(|client| Some((client.label.clone(), samples.remove(&*client.label)?)))
            .map(|(label, samples)| ClientResult::new(label, samples, baseline.as_deref()))
            .collect();
        Ok(RowResult {
            name: row.name,
            title: row.title.to_owned(),
            server: server.name().to_owned(),
            baseline: Client::baseline(row),
            figure: row.figure,
            notes,
            clients: results,
        })
    }

    /// Only nginx can be restricted to one cipher.
    fn server_kind_for(&self, row: &SpeedRow) -> ServerKind {
        if let Some(http2) = row.http2 {
            http2.server
        } else if row.tls && server::find_nginx().is_some() {
            ServerKind::Nginx
        } else {
            self.server_kind
        }
    }

    /// The connections of a row, limited by the number of open files.
    fn possible_connections(&self, row: &SpeedRow, notes: &mut Vec<String>) -> u32 {
        let limit = self.client_place.file_limit.unwrap_or(u64::MAX);
        let most = u32::try_from(limit.saturating_sub(SPARE_FILES))
            .unwrap_or(u32::MAX)
            .max(1);
        if most < row.connections {
            notes.push(format!(
                "only {most} connections: the limit of open files is {limit}"
            ));
        }
        row.connections.min(most)
    }

    /// Determines the negotiated TLS parameters of each client.
    fn cipher_note(&self, server: &Server, clients: &[Client]) -> anyhow::Result<String> {
        let Some(url) = server.cipher_url() else {
            return Ok(
                "the cipher is what each client agreed on with the server; not the same \
                       cipher for certain (install nginx for that)"
                    .to_owned(),
            );
        };
        let script = self.script_path(Script::PrintBody);
        let mut agreed: Vec<String> = Vec::new();
        for client in clients {
            let arguments = client.arguments(1, WARM_UP_S, Some(&script), &url);
            let ended = self.run(client, &arguments, WARM_UP_S)?;
            let body = ended
                .stdout
                .lines()
                .find_map(|line| line.strip_prefix("body: "));
            let body =
                body.with_context(|| format!("{} got no response over TLS", client.label))?;
            if !agreed.iter().any(|known| known == body) {
                agreed.push(body.to_owned());
            }
        }
        Ok(format!("cipher of every client: {}", agreed.join(" / ")))
    }

    fn script_path(&self, script: Script) -> PathBuf {
        self.scratch.path().join(script.file_name())
    }

    fn run(
        &self,
        client: &Client,
        arguments: &[String],
        duration_s: u32,
    ) -> anyhow::Result<ProcessOutput> {
        let process = if client.on_terminal {
            Process::start_on_terminal(&client.program, arguments, self.client_place)?
        } else {
            Process::start(&client.program, arguments, self.client_place)?
        };
        let limit = Duration::from_secs(duration_s.into()) + GRACE;
        let ended = process.watch(limit, POLL, &self.interrupted)?;
        if !ended.status.success() {
            bail!(
                "{} {} failed ({}): {}",
                client.program.display(),
                arguments.join(" "),
                ended.status,
                ended.stderr.trim()
            );
        }
        Ok(ended)
    }
}

/// Parses the report and relates it to the CPU time.
fn sample_of(ended: &ProcessOutput, others_share: f64) -> anyhow::Result<Sample> {
    let totals = report_text::parse(&ended.stdout)?;
    Ok(Sample {
        requests_per_sec: totals.requests_per_sec,
        cpu_us_per_request: ended.cpu_us as f64 / totals.requests as f64,
        peak_rss_kb: ended.peak_rss_kb as f64,
        other_threads_share: ended
            .other_threads_us
            .map(|us| us as f64 / 1e6 * totals.requests_per_sec / totals.requests as f64),
        others_share,
        errors: totals.errors,
    })
}

/// Prints progress to stderr.
fn progress(message: &str) {
    // A closed stderr must not end a measurement.
    let _ = writeln!(io::stderr(), "bench: {message}");
}
