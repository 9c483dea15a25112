//! Arguments of `wrkbench demo`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use origin::Stall;
use plan::BackendChoice;
use plan::units::{self, parse_time};
use report::export::ExportFormat;

use super::plan_options::backend;
use super::{Dialect, Refusal, ReportRequest, Request};

/// Start a server, load it, print the report and write a page
///
/// The built-in server delays its responses and stalls once. With --llm it streams tokens like a
/// language model's server, more slowly the more streams there are; no model is needed. Server and
/// load generator share the machine, so the numbers say little about either.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct DemoArgs {
    /// File for the page [default: that of --json, with the extension html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// File for the result
    #[arg(long, value_name = "FILE", default_value = "demo-result.json")]
    json: PathBuf,
    /// How long to measure
    #[arg(short, long, value_name = "T", default_value = "8s", value_parser = parse_time,
          allow_hyphen_values = true)]
    duration: Duration,
    /// Load a language model's server, which streams tokens.
    ///
    /// Its users have conversations. The report has first token, time per token, tokens/s, good
    /// requests and turns.
    #[arg(long)]
    llm: bool,
    /// I/O backend
    #[arg(long, value_name = "BACKEND", value_parser = backend(), default_value = "auto")]
    io: BackendChoice,
}

/// A server to show, and the load for it.
struct Show {
    /// What a request asks the server for.
    recipe: &'static str,
    /// The arguments of the run. The server runs on the same machine, which may have two busy
    /// cores. So there is one worker with a light load, and no rate: requests would be sent late.
    load: &'static str,
    /// What the server does.
    server: &'static str,
    /// A command for a server of one's own.
    next: &'static str,
}

/// Responses after a delay. The slowest of some thousand is above the usual timeout of 2 s.
const RESPONSES: Show = Show {
    recipe: "?delay=exp:200ms",
    load: "-t1 -c128 --timeout 10s --latency",
    server: "delays responses by 200 ms on average",
    next: "-t1 -c64 -d10s --tui http://localhost:8080/",
};

/// Users of a language model, each of whom has conversations. Later turns have their first token
/// sooner, since the server has read what came before.
const CONVERSATIONS: Show = Show {
    recipe: "v1/chat/completions?llm=openai&tokens=uniform:8,32&first=lognormal:30ms,0.5&gap=5ms\
             &batch=16&prefill=300us",
    load: "llm --model demo -t1 -c32 --latency --turns uniform:2,6 --think exp:300ms \
           --prompt-words uniform:32,128 --good first_token<150ms,time_per_token<12ms",
    server: "streams 8 to 32 tokens, slower the more streams there are and the more of a prompt \
             is new",
    next: "llm http://localhost:8000 -c16 -d60s --turns 5 --think exp:5s",
};

impl DemoArgs {
    fn show(&self) -> &'static Show {
        if self.llm { &CONVERSATIONS } else { &RESPONSES }
    }

    /// The path and query of requests, without the first slash.
    pub(crate) fn recipe(&self) -> &'static str {
        self.show().recipe
    }

    /// What the server does, as the rest of a sentence.
    pub(crate) fn server(&self) -> &'static str {
        self.show().server
    }

    /// The arguments for a server of one's own.
    pub(crate) fn next(&self) -> &'static str {
        self.show().next
    }

    /// The server stalls once, in the second half of the run and for at most an eighth of it.
    pub(crate) fn stall(&self) -> Stall {
        const LONGEST_NS: u64 = 1_000_000_000;
        let duration_ns = u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX);
        Stall {
            at_ns: duration_ns / 8 * 5,
            for_ns: LONGEST_NS.min(duration_ns / 8),
        }
    }

    /// The file of the page.
    ///
    /// # Errors
    /// When the page would replace the result.
    pub(crate) fn page(&self) -> Result<PathBuf, Refusal> {
        let page = match &self.output {
            Some(page) => page.clone(),
            None => self.json.with_extension("html"),
        };
        if page == self.json {
            return Err(Refusal(format!("-o {page:?}: is also the file of --json")));
        }
        let is_page = ExportFormat::of_file(&page) == Some(ExportFormat::Html);
        if is_page {
            Ok(page)
        } else {
            Err(Refusal(format!(
                "-o {page:?}: is not the name of a page (expected like demo.html)"
            )))
        }
    }

    /// Turns the saved run into the page.
    pub(crate) fn report(&self, page: &Path) -> ReportRequest {
        ReportRequest {
            paths: vec![self.json.clone()],
            output: Some(page.to_owned()),
            is_default_output: false,
            format: ExportFormat::Html,
            title: None,
            chart: None,
            trend: None,
            fail_if: Vec::new(),
        }
    }

    /// A run against a server that already listens at this URL: the request of the arguments that
    /// a user would type for it.
    ///
    /// # Errors
    /// When an option value is invalid.
    pub(crate) fn into_request(self, url: &str) -> Result<Request, Refusal> {
        let load = self.show().load.split_whitespace().map(OsString::from);
        let duration = units::time(self.duration).into();
        let io = self.io.name().into();
        let own: [OsString; 7] = [
            "-d".into(),
            duration,
            "--io".into(),
            io,
            "--json".into(),
            self.json.into(),
            url.into(),
        ];
        super::parse(Dialect::Native, load.chain(own).collect())
    }
}
