//! `wrkbench serve`: the built-in server.

use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use origin::{
    Backend, Http2Settings, Http3Settings, Identity, LOG_REQUESTS_DEFAULT, Options, Server,
    ServerReport, TlsSettings,
};
use plan::BackendChoice;

use super::interrupts::signal_pipe;
use crate::args::ServeArgs;
use crate::console::Console;

/// Names in the generated certificate.
const CERTIFICATE_NAMES: &[&str] = &["localhost", "127.0.0.1", "::1"];

/// Serves until Ctrl-C or SIGTERM, then prints the counts.
///
/// # Errors
/// When the server cannot start, or the log cannot be written.
pub(super) fn serve(arguments: &ServeArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let options = options(arguments)?;
    // Before the address is printed, since a reader of it may send the signal at once.
    let mut signals = signal_pipe().context("cannot watch for Ctrl-C")?;
    let server = Server::start(options).context("serve: cannot start")?;
    announce(&server, console)?;
    signals.read_exact(&mut [0])?;
    conclude(&server.stop(), arguments.log.as_deref(), console)
}

fn options(arguments: &ServeArgs) -> anyhow::Result<Options> {
    let options = Options {
        listen: arguments.listen.clone(),
        defaults: arguments.answer.clone(),
        threads: arguments.threads,
        backend: backend(arguments.io),
        seed: arguments.seed,
        stall: arguments.stall,
        slow_start: arguments.slow_start,
        has_service_queue: arguments.queue,
        keepalive_requests: arguments.keepalive_requests,
        http2: (!arguments.http1).then_some(Http2Settings {
            streams_max: arguments.streams,
            window_bytes: arguments.window,
        }),
        http3: arguments.http3.then_some(Http3Settings {
            has_retry: arguments.retry,
            has_grease: arguments.grease,
            loss: arguments.loss,
            streams_delay_ns: arguments.streams_delay,
        }),
        greeting: arguments.greeting,
        accept_delay_ns: arguments.accept_delay,
        tls_delay_ns: arguments.tls_delay,
        is_polling: arguments.poll,
        log_requests: if arguments.log.is_some() {
            LOG_REQUESTS_DEFAULT
        } else {
            0
        },
        tls: tls_settings(arguments)?
            .map(|settings| settings.config())
            .transpose()?,
        ..Options::default()
    };
    options.check().map_err(|why| anyhow!("serve: {why}"))?;
    Ok(options)
}

fn backend(choice: BackendChoice) -> Backend {
    match choice {
        BackendChoice::Auto => Backend::Auto,
        BackendChoice::Uring => Backend::Uring,
        BackendChoice::Epoll => Backend::Epoll,
    }
}

fn tls_settings(arguments: &ServeArgs) -> anyhow::Result<Option<TlsSettings>> {
    if !arguments.tls {
        return Ok(None);
    }
    let identity = match (&arguments.cert, &arguments.key) {
        (Some(cert), Some(key)) => Identity {
            certificate_pem: read("--cert", cert)?,
            key_pem: read("--key", key)?,
        },
        _ => Identity::self_signed(CERTIFICATE_NAMES)?,
    };
    let roots = arguments
        .client_ca
        .as_deref()
        .map(|path| read("--client-ca", path))
        .transpose()?;
    let mut settings = TlsSettings {
        client_roots_pem: roots,
        ..TlsSettings::new(identity)
    };
    if arguments.http1 {
        settings.alpn.retain(|protocol| protocol != b"h2");
    }
    Ok(Some(settings))
}

fn read(option: &str, path: &Path) -> anyhow::Result<String> {
    files::read_text(path, files::SMALL_FILE_BYTES)
        .with_context(|| format!("{option} {path:?}: cannot be read"))
}

fn announce(server: &Server, console: &Console) -> io::Result<()> {
    let mut stdout = &console.stdout;
    match server.address() {
        origin::Address::Tcp(_) if server.has_http3() => {
            writeln!(stdout, "serving {} with HTTP/3", server.url())?;
        }
        origin::Address::Tcp(_) => writeln!(stdout, "serving {}", server.url())?,
        origin::Address::Unix(path) => {
            writeln!(
                stdout,
                "serving {} on unix:{}",
                server.url(),
                path.display()
            )?;
        }
    }
    stdout.flush()
}

/// Prints the counts as one JSON object and writes the log.
fn conclude(
    report: &ServerReport,
    log: Option<&Path>,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    if let Some(path) = log {
        let write = || {
            let mut output = BufWriter::new(files::outputs::create(path)?);
            report.write_csv(&mut output)?;
            output.flush()
        };
        write().with_context(|| format!("--log {path:?}: cannot be written"))?;
    }
    let mut stdout = &console.stdout;
    stdout.write_all(report.counts.to_json().as_bytes())?;
    stdout.flush()?;
    match &report.failure {
        Some(failure) => bail!("serve: {failure}"),
        None => Ok(ExitCode::SUCCESS),
    }
}
