//! The other tools: how each is called, and how its output is parsed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use super::lab::Lab;

/// A tool that measures the same load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The original wrk: github.com/wg/wrk.
    Wrk,
    /// wrk with a constant rate: github.com/giltene/wrk2.
    Wrk2,
    /// The fork of centminmod: github.com/centminmod/wrk.
    WrkCmm,
    /// h2load of nghttp2, with HTTP/1.1.
    H2load,
}

/// The load that a tool must generate.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PeerLoad {
    /// Connections, on one thread.
    pub(crate) connections: u32,
    /// Duration of the run, in whole seconds.
    pub(crate) duration_s: u32,
    /// Requests per second over all connections; `None` is a closed loop.
    pub(crate) rate_per_sec: Option<u32>,
    /// Timeout of a request, seconds.
    pub(crate) timeout_s: u32,
    /// Options specific to this tool.
    pub(crate) more: Vec<String>,
    pub(crate) url: String,
}

/// The output of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PeerOutput {
    /// Totals by name, as `bench/scripts/totals.lua` prints them.
    totals: BTreeMap<String, f64>,
    /// The whole text that the tool printed.
    pub(crate) text: String,
}

impl Peer {
    /// All tools, in the order of the table.
    pub(crate) const ALL: [Self; 4] = [Self::Wrk, Self::Wrk2, Self::WrkCmm, Self::H2load];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Wrk2 => "wrk2",
            Self::WrkCmm => "wrk-cmm",
            Self::H2load => "h2load",
        }
    }

    /// Whether the tool can generate this load. wrk2 always needs a rate; the others have none and
    /// run a closed loop instead, as their users would.
    pub(crate) fn can(self, work: &PeerLoad) -> bool {
        self != Self::Wrk2 || work.rate_per_sec.is_some()
    }

    fn arguments(self, work: &PeerLoad, script: &str, log: &str) -> Vec<String> {
        let PeerLoad {
            connections,
            duration_s,
            rate_per_sec,
            timeout_s,
            more,
            url,
        } = work;
        let mut arguments = vec!["-t1".to_owned(), format!("-c{connections}")];
        if self == Self::H2load {
            arguments.extend(["--h1".to_owned(), format!("-D{duration_s}")]);
            arguments.push(format!("--log-file={log}"));
            arguments.push(format!("-N{timeout_s}s"));
            if let Some(rate) = rate_per_sec {
                arguments.push(format!(
                    "--rps={}",
                    f64::from(*rate) / f64::from(*connections)
                ));
            }
        } else {
            arguments.push(format!("-d{duration_s}s"));
            arguments.push(format!("--timeout={timeout_s}s"));
            arguments.extend(["-s".to_owned(), script.to_owned()]);
            if let (Self::Wrk2, Some(rate)) = (self, rate_per_sec) {
                arguments.push(format!("-R{rate}"));
            }
        }
        arguments.extend(more.iter().cloned());
        arguments.push(url.clone());
        arguments
    }

    /// Runs the tool and parses its output.
    ///
    /// # Errors
    /// When it fails or its output cannot be parsed.
    pub(crate) fn run(
        self,
        lab: &Lab,
        program: &Path,
        work: &PeerLoad,
    ) -> anyhow::Result<PeerOutput> {
        let script = lab.file("totals.lua");
        let log = lab.file("h2load.log");
        // h2load appends to the file.
        let _ = fs::remove_file(&log);
        let arguments = self.arguments(
            work,
            &script.display().to_string(),
            &log.display().to_string(),
        );
        let ended = lab.client(program, &arguments, work.duration_s)?;
        if !ended.status.success() {
            bail!("{} failed ({})", self.name(), ended.status);
        }
        let totals = if self == Self::H2load {
            let text = fs::read_to_string(&log).context("h2load wrote no log")?;
            h2load_totals(&text, &ended.stdout)
        } else {
            script_totals(&ended.stdout)
        };
        if totals.is_empty() {
            bail!("{} printed no totals", self.name());
        }
        Ok(PeerOutput {
            totals,
            text: ended.stdout,
        })
    }
}

impl PeerOutput {
    /// A percentile of the latency in milliseconds.
    pub(crate) fn latency_ms(&self, percent: f64) -> Option<f64> {
        Some(self.total(&format!("p{percent}_us"))? / 1e3)
    }

    /// The mean latency in milliseconds.
    pub(crate) fn mean_ms(&self) -> Option<f64> {
        Some(self.total("mean_us")? / 1e3)
    }

    pub(crate) fn total(&self, name: &str) -> Option<f64> {
        self.totals.get(name).copied()
    }

    /// The mean in a row of wrk's statistics, in milliseconds.
    pub(crate) fn row_mean_ms(&self, row: &str) -> Option<f64> {
        let line = |line: &str| Some(line.trim().strip_prefix(row)?.trim().to_owned());
        let line = self.text.lines().find_map(line)?;
        time_ms(line.split_whitespace().next()?)
    }
}

/// Parses a time as printed by wrk.
fn time_ms(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let value: f64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "us" => Some(value / 1e3),
        "ms" => Some(value),
        "s" => Some(value * 1e3),
        "m" => Some(value * 60e3),
        _ => None,
    }
}

/// Parses the lines printed by the script.
fn script_totals(text: &str) -> BTreeMap<String, f64> {
    let total = |line: &str| {
        let mut words = line.strip_prefix("total ")?.split_whitespace();
        let (name, value) = (words.next()?, words.next()?.parse().ok()?);
        Some((name.to_owned(), value))
    };
    text.lines().filter_map(total).collect()
}

/// Parses h2load's log, which has a line for each response: send time (microseconds), status,
/// duration (microseconds). h2load does not print percentiles.
fn h2load_totals(log: &str, text: &str) -> BTreeMap<String, f64> {
    let took = |line: &str| line.split('\t').nth(2)?.parse::<f64>().ok();
    let times: Vec<f64> = log.lines().filter_map(took).collect();
    let ascending = stats::sorted(&times);
    let mut totals = BTreeMap::new();
    let mut note = |name: &str, value| totals.insert(name.to_owned(), value);
    note("requests", times.len() as f64);
    if let Some(bytes) = h2load_bytes(text) {
        note("bytes", bytes);
    }
    if let Some(mean) = stats::mean(&times) {
        note("mean_us", mean);
    }
    for percent in [50.0, 90.0, 95.0, 99.0, 99.5, 99.9] {
        if let Some(value) = stats::quantile(&ascending, percent / 100.0) {
            note(&format!("p{percent}_us"), value);
        }
    }
    totals
}

/// `traffic: 85.55KB (87600) total, ...`
fn h2load_bytes(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("traffic: "))?;
    let (_, rest) = line.split_once('(')?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(rate_per_sec: Option<u32>) -> PeerLoad {
        PeerLoad {
            connections: 10,
            duration_s: 4,
            rate_per_sec,
            timeout_s: 5,
            more: vec!["--x".to_owned()],
            url: "http://h/".to_owned(),
        }
    }

    #[test]
    fn each_tool_is_asked_in_its_own_words() {
        let line = |peer: Peer, rate| peer.arguments(&work(rate), "t.lua", "l.log").join(" ");
        assert_eq!(
            line(Peer::Wrk, Some(200)),
            "-t1 -c10 -d4s --timeout=5s -s t.lua --x http://h/"
        );
        assert_eq!(
            line(Peer::Wrk2, Some(200)),
            "-t1 -c10 -d4s --timeout=5s -s t.lua -R200 --x http://h/"
        );
        assert_eq!(
            line(Peer::H2load, Some(25)),
            "-t1 -c10 --h1 -D4 --log-file=l.log -N5s --rps=2.5 --x http://h/"
        );
        assert!(!Peer::Wrk2.can(&work(None)) && Peer::Wrk.can(&work(None)));
    }

    #[test]
    fn totals_of_the_script_are_found_among_the_report() {
        let text = "  5 requests in 1s\ntotal requests 5.000\ntotal p99.5_us 1200.5\ntotal x\n";
        let said = PeerOutput {
            totals: script_totals(text),
            text: text.to_owned(),
        };
        assert_eq!(said.total("requests"), Some(5.0));
        assert_eq!(said.latency_ms(99.5), Some(1.2005));
        assert_eq!(said.latency_ms(50.0), None);
    }

    #[test]
    fn h2loads_percentiles_are_those_of_its_log() {
        let log = "1\t200\t1000\n2\t200\t3000\n3\t500\t2000\nbroken\n";
        let text = "finished in 2.50s, 1 req/s\ntraffic: 85.55KB (87600) total, 3 headers\n";
        let totals = h2load_totals(log, text);
        assert_eq!((totals["requests"], totals["p50_us"]), (3.0, 2000.0));
        assert_eq!(totals["bytes"], 87600.0);
        assert!(!h2load_totals("", "nothing").contains_key("p50_us"));
    }

    #[test]
    fn rows_of_wrk_cmm_are_read_in_every_unit() {
        let said = PeerOutput {
            text: "    TTFB        0.95ms    1.88ms\n    TTLB        1.00us\n  Connect 1.50s\n"
                .to_owned(),
            ..PeerOutput::default()
        };
        assert_eq!(said.row_mean_ms("TTFB"), Some(0.95));
        assert_eq!(said.row_mean_ms("TTLB"), Some(0.001));
        assert_eq!(said.row_mean_ms("Connect"), Some(1500.0));
        assert_eq!(said.row_mean_ms("TLS"), None);
        assert_eq!(time_ms("3 parsecs"), None);
    }
}
