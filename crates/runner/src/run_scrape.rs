//! The server's own metrics (`--scrape`), from the plan to the result. Its errors never affect the
//! run, except for a name that is not known before it.

use std::time::Duration;

use client::{Client, basic_authorization};
use engine::RunTimes;
use plan::Target;
use plan::secrets::hide_in_url;
use results::parts::scrape::ScrapeRecording;
use telemetry::Window;
use telemetry::scrape::{MetricsSource, ScrapeError, Scraper};

use crate::RunnerError;

/// The run waits this long for the last page of a server that does not answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Pages of large servers have some 100 KB.
const BODY_BYTES_MAX: usize = 8 << 20;
/// What servers publish in more than one form.
const ACCEPT: &str =
    "text/plain;version=0.0.4;q=1, application/openmetrics-text;version=1.0.0;q=0.5";

/// A page of metrics over HTTP.
struct HttpPage {
    client: Client,
    headers: Vec<(String, String)>,
}

impl MetricsSource for HttpPage {
    fn fetch(&mut self) -> Result<Vec<u8>, ScrapeError> {
        let response = self.client.get(&self.headers);
        let response = response.map_err(|error| ScrapeError::NoResponse(error.to_string()))?;
        match response.status {
            200 => Ok(response.body),
            status => Err(ScrapeError::Status(status)),
        }
    }
}

/// Starts a thread for each page, which waits for the window.
///
/// # Errors
/// If the host of a page is not known.
pub(crate) fn prepare(urls: &[String]) -> Result<Vec<Scraper>, RunnerError> {
    urls.iter().map(|url| scraper(url)).collect()
}

fn scraper(url: &str) -> Result<Scraper, RunnerError> {
    let shown = hide_in_url(url);
    let refused = |problem: String| RunnerError::Telemetry(format!("--scrape {shown}: {problem}"));
    let target = Target::parse(url).map_err(|error| refused(error.to_string()))?;
    let client = Client::of_page(&target, TIMEOUT, BODY_BYTES_MAX);
    let mut headers = vec![("Accept".to_owned(), ACCEPT.to_owned())];
    headers.extend(basic_authorization(&target));
    let page = HttpPage {
        client: client.map_err(|error| refused(error.to_string()))?,
        headers,
    };
    let scraper = Scraper::start(shown, Box::new(page));
    scraper.map_err(|error| RunnerError::Thread {
        task: "reads the server's metrics",
        error,
    })
}

/// The times of the window are known, or have changed before it has begun.
pub(crate) fn begin(scrapers: &[Scraper], times: RunTimes) {
    for scraper in scrapers {
        scraper.begin(Window {
            begin_ns: times.measure_ns,
            end_ns: times.end_ns,
        });
    }
}

/// The run is over; `None` if nothing was to be read.
pub(crate) fn finish(scrapers: Vec<Scraper>) -> Option<ScrapeRecording> {
    let pages: Vec<_> = scrapers.into_iter().filter_map(Scraper::finish).collect();
    (!pages.is_empty()).then_some(ScrapeRecording { pages })
}
