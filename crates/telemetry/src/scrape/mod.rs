//! Reads the server's own metrics once a second during a run, on a thread of its own: a server that
//! is slow to answer delays no other samples.

mod collection;
mod exposition;

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use results::parts::scrape::ScrapedPage;

use crate::clock::monotonic_ns;
use crate::sampler::Window;
use collection::Collection;

pub use exposition::{Kind, NotMetrics, Page, Sample};

/// Time between readings.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Why a page could not be read, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// There was no response, or not in time.
    #[error("{0}")]
    NoResponse(String),
    /// There was one with another status than 200.
    #[error("status {0}")]
    Status(u16),
    /// It is no page of metrics.
    #[error(transparent)]
    NotMetrics(#[from] NotMetrics),
}

/// Where a page comes from.
pub trait MetricsSource: Send {
    /// The body of the page now. It must return within seconds, since the run waits for the last
    /// one.
    ///
    /// # Errors
    /// If it cannot be read.
    fn fetch(&mut self) -> Result<Vec<u8>, ScrapeError>;
}

/// Reads a page of metrics within a window. Dropping it ends it without a result.
#[derive(Debug)]
pub struct Scraper {
    /// Sending starts the window, dropping ends it.
    window: Sender<Window>,
    thread: JoinHandle<Option<ScrapedPage>>,
}

impl Scraper {
    /// Starts the thread, which waits for [`Self::begin`]. `url` is the page's name in the result.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(url: String, mut source: Box<dyn MetricsSource>) -> io::Result<Self> {
        let (window, windows) = mpsc::channel();
        let thread = std::thread::Builder::new().name("scrape".to_owned());
        let thread = thread.spawn(move || {
            // Without a window the run never started.
            let window = windows.recv().ok()?;
            let mut clock = SystemClock { windows };
            Some(watch(url, source.as_mut(), window, &mut clock))
        })?;
        Ok(Self { window, thread })
    }

    /// Starts the window. Until it has begun, another call moves it.
    pub fn begin(&self, window: Window) {
        // If the thread has ended, there is no result.
        let _ = self.window.send(window);
    }

    /// Ends the window, unless it has already ended, and returns the result; `None` if there was no
    /// window.
    #[must_use]
    pub fn finish(self) -> Option<ScrapedPage> {
        drop(self.window);
        self.thread.join().ok().flatten()
    }
}

/// The clock and the waits of the thread.
trait Clock {
    /// CLOCK_MONOTONIC, nanoseconds.
    fn now_ns(&mut self) -> u64;
    /// Waits until this time.
    fn wait(&mut self, until_ns: u64) -> Wake;
}

/// Why a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// It is this time.
    Due,
    /// The window was moved before it began.
    Moved(Window),
    /// The run is over.
    Ended,
}

struct SystemClock {
    windows: Receiver<Window>,
}

impl Clock for SystemClock {
    fn now_ns(&mut self) -> u64 {
        monotonic_ns().unwrap_or(u64::MAX)
    }

    fn wait(&mut self, until_ns: u64) -> Wake {
        let left = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        match self.windows.recv_timeout(left) {
            Ok(window) => Wake::Moved(window),
            Err(RecvTimeoutError::Timeout) => Wake::Due,
            Err(RecvTimeoutError::Disconnected) => Wake::Ended,
        }
    }
}

/// Reads the page at the start of the window, once a second, and at its end.
fn watch(
    url: String,
    source: &mut dyn MetricsSource,
    mut window: Window,
    clock: &mut impl Clock,
) -> ScrapedPage {
    let mut reader = Reader::default();
    let mut wake = clock.wait(window.begin_ns);
    while let Wake::Moved(moved) = wake {
        window = moved;
        wake = clock.wait(window.begin_ns);
    }
    let mut due_ns = window.begin_ns;
    loop {
        reader.read(source, window.begin_ns, clock);
        let now_ns = clock.now_ns();
        if wake != Wake::Due || now_ns >= window.end_ns {
            break;
        }
        // Readings that are missed are not made up for.
        let passed = now_ns.saturating_sub(due_ns) / INTERVAL_NS;
        due_ns = due_ns.saturating_add((passed + 1).saturating_mul(INTERVAL_NS));
        wake = match clock.wait(due_ns.min(window.end_ns)) {
            Wake::Ended => Wake::Ended,
            // The window has begun.
            Wake::Due | Wake::Moved(_) => Wake::Due,
        };
    }
    reader.finish(url)
}

/// What was read, and what failed.
#[derive(Debug, Default)]
struct Reader {
    collection: Collection,
    scrapes: u64,
    failed: u64,
    failure: Option<ScrapeError>,
    first_ns: u64,
    last_ns: u64,
}

impl Reader {
    fn read(&mut self, source: &mut dyn MetricsSource, begin_ns: u64, clock: &mut impl Clock) {
        let bytes = source.fetch();
        let now_ns = clock.now_ns();
        let at_ms = now_ns.saturating_sub(begin_ns) / 1_000_000;
        let added = bytes.and_then(|bytes| {
            let text = String::from_utf8_lossy(&bytes);
            let page = Page::read(&text)?;
            self.collection.add(&page, at_ms);
            Ok(())
        });
        match added {
            Ok(()) => {
                self.scrapes += 1;
                self.last_ns = now_ns;
                if self.scrapes == 1 {
                    self.first_ns = now_ns;
                }
            }
            Err(error) => {
                self.failed += 1;
                self.failure.get_or_insert(error);
            }
        }
    }

    fn finish(self, url: String) -> ScrapedPage {
        let (at_ms, series, left_out) = self.collection.finish();
        ScrapedPage {
            url,
            scrapes: self.scrapes,
            failed: self.failed,
            failure: self.failure.map(|error| error.to_string()),
            elapsed_ns: self.last_ns.saturating_sub(self.first_ns),
            at_ms,
            series,
            left_out,
        }
    }
}

#[cfg(test)]
mod tests;
