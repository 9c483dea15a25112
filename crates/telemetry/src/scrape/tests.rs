//! Tests of when pages are read, on a clock of their own.

use super::*;

const S: u64 = 1_000_000_000;

/// A clock on which a page takes some time, and which may end or move the window.
struct TestClock {
    now_ns: u64,
    /// When the run ends.
    ended_ns: u64,
    /// Where the window is moved to at the first wait.
    moved: Option<Window>,
    waits: Vec<u64>,
}

impl Clock for TestClock {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn wait(&mut self, until_ns: u64) -> Wake {
        if let Some(window) = self.moved.take() {
            return Wake::Moved(window);
        }
        self.waits.push(until_ns);
        if until_ns >= self.ended_ns {
            self.now_ns = self.now_ns.max(self.ended_ns);
            return Wake::Ended;
        }
        self.now_ns = self.now_ns.max(until_ns);
        Wake::Due
    }
}

fn clock(ended_ns: u64) -> TestClock {
    TestClock {
        now_ns: 0,
        ended_ns,
        moved: None,
        waits: Vec::new(),
    }
}

/// Pages in their order; the last one is repeated.
struct Pages(Vec<Result<&'static str, u16>>);

impl MetricsSource for Pages {
    fn fetch(&mut self) -> Result<Vec<u8>, ScrapeError> {
        let page = match self.0.len() {
            1 => self.0[0],
            _ => self.0.remove(0),
        };
        page.map(|text| text.as_bytes().to_vec())
            .map_err(ScrapeError::Status)
    }
}

fn window(begin_s: u64, end_s: u64) -> Window {
    Window {
        begin_ns: begin_s * S,
        end_ns: end_s * S,
    }
}

fn watched(mut pages: Pages, window: Window, clock: &mut TestClock) -> ScrapedPage {
    watch("http://h/metrics".to_owned(), &mut pages, window, clock)
}

#[test]
fn a_page_is_read_at_the_start_once_a_second_and_at_the_end() {
    let mut clock = clock(u64::MAX);
    let page = watched(Pages(vec![Ok("a 1")]), window(10, 13), &mut clock);
    assert_eq!(page.at_ms, [0, 1_000, 2_000, 3_000]);
    assert_eq!((page.scrapes, page.failed, page.failure), (4, 0, None));
    assert_eq!(page.elapsed_ns, 3 * S);
    assert_eq!(clock.waits, [10 * S, 11 * S, 12 * S, 13 * S]);
}

#[test]
fn a_run_that_ends_early_has_a_last_reading_then() {
    let page = watched(
        Pages(vec![Ok("a 1")]),
        window(0, 60),
        &mut clock(2 * S + S / 2),
    );
    assert_eq!(page.at_ms, [0, 1_000, 2_000, 2_500]);
    let page = watched(Pages(vec![Ok("a 1")]), window(5, 60), &mut clock(S));
    assert_eq!(page.scrapes, 1);
}

#[test]
fn a_window_that_is_moved_is_waited_for() {
    let mut clock = clock(u64::MAX);
    clock.moved = Some(window(20, 21));
    let page = watched(Pages(vec![Ok("a 1")]), window(10, 13), &mut clock);
    assert_eq!(page.at_ms, [0, 1_000]);
    assert_eq!(clock.waits, [20 * S, 21 * S]);
}

#[test]
fn readings_that_fail_are_counted_and_the_first_reason_is_kept() {
    let pages = vec![Ok("a 1"), Err(503), Ok("<html>"), Ok("a 5")];
    let page = watched(Pages(pages), window(0, 4), &mut clock(u64::MAX));
    assert_eq!((page.scrapes, page.failed), (3, 2));
    assert_eq!(page.failure.as_deref(), Some("status 503"));
    assert_eq!(page.at_ms, [0, 3_000, 4_000]);
    let pages = vec![Ok("<html>")];
    let page = watched(Pages(pages), window(0, 1), &mut clock(u64::MAX));
    assert_eq!((page.scrapes, page.failed, page.series.len()), (0, 2, 0));
    let failure = page.failure.expect("it is no page of metrics");
    assert!(failure.starts_with("line 1 is no metric"), "{failure}");
}

#[test]
fn a_thread_without_a_run_ends_without_a_result() {
    let pages = Box::new(Pages(vec![Ok("a 1")]));
    let scraper = Scraper::start("u".to_owned(), pages).expect("there are threads");
    assert_eq!(scraper.finish(), None);
}

#[test]
fn a_thread_reads_until_the_run_ends() {
    let pages = Box::new(Pages(vec![Ok("a 1")]));
    let scraper = Scraper::start("u".to_owned(), pages).expect("there are threads");
    scraper.begin(window(0, u64::MAX / S));
    let page = scraper.finish().expect("there was a window");
    assert!(page.scrapes >= 1, "{page:?}");
}
