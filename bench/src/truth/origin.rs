//! `wrkbench serve` as a process, with its log.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};

use super::log::ServerLog;
use crate::process::Process;
use crate::server::announced_port;

/// Time limit for the server to exit and to write its log.
const END_LIMIT: Duration = Duration::from_secs(20);

const POLL: Duration = Duration::from_millis(10);

/// A running server; killed on drop.
#[derive(Debug)]
pub(crate) struct Origin {
    process: Process,
    port: u16,
    has_tls: bool,
    log: PathBuf,
}

impl Origin {
    /// Waits until the process has announced its address.
    ///
    /// # Errors
    /// When it does not announce it.
    pub(crate) fn watched(
        mut process: Process,
        has_tls: bool,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let port = process.announced(announced_port)?;
        Ok(Self {
            process,
            port,
            has_tls,
            log,
        })
    }

    /// The URL of a target.
    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// CPU time used so far, in microseconds.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub(crate) fn cpu_us(&self) -> anyhow::Result<u64> {
        self.process.cpu_us()
    }

    /// Stops the server and reads its log.
    ///
    /// # Errors
    /// When it exits with an error, or its log cannot be read.
    pub(crate) fn stop(self, interrupted: &AtomicBool) -> anyhow::Result<ServerLog> {
        self.process.terminate()?;
        let ended = self.process.watch(END_LIMIT, POLL, interrupted)?;
        if !ended.status.success() {
            bail!("the server failed: {}", ended.stderr.trim());
        }
        let csv = fs::read_to_string(&self.log)
            .with_context(|| format!("cannot read {}", self.log.display()))?;
        ServerLog::parse(&csv, &ended.stdout)
    }
}
