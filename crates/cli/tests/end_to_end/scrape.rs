//! `--scrape`: the server's own metrics beside ours.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use results::parts::scrape::{ScrapedPage, ScrapedValues};
use testkit::{Process, Refusing, TestServer};

use crate::harness::{Run, load, program, site};

/// A server whose responses are made from the number of the request, from 1.
fn server(respond: impl Fn(u64) -> String + Send + Sync + 'static) -> TestServer {
    let requests = AtomicU64::new(0);
    TestServer::start(move |mut stream: TcpStream| {
        let mut lines = BufReader::new(stream.try_clone()?);
        loop {
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                if lines.read_line(&mut line)? == 0 {
                    return Ok(());
                }
            }
            let number = requests.fetch_add(1, Ordering::SeqCst) + 1;
            stream.write_all(respond(number).as_bytes())?;
        }
    })
}

fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Metrics of vLLM that grow with each reading.
fn growing() -> TestServer {
    server(|number| {
        let body = format!(
            "# TYPE vllm:num_requests_running gauge\n\
             vllm:num_requests_running{{engine=\"0\"}} {number}\n\
             # TYPE vllm:prefix_cache_queries_total counter\n\
             vllm:prefix_cache_queries_total {}\n\
             # TYPE vllm:prefix_cache_hits_total counter\n\
             vllm:prefix_cache_hits_total {}\n",
            1_000 * number,
            250 * number,
        );
        response("200 OK", &body)
    })
}

fn url(server: &TestServer) -> String {
    format!("http://{}/metrics", server.address())
}

fn page<'r>(run: &'r Run<'_>) -> &'r ScrapedPage {
    let scraped = run.result.recording.parts.scraped.as_ref();
    let [page] = scraped.unwrap().pages.as_slice() else {
        panic!("{scraped:?}");
    };
    page
}

#[test]
fn metrics_of_the_server_are_in_the_text_the_result_and_the_page() {
    let (site, metrics) = (site(), growing());
    let (url, html) = (url(&metrics), site.folder.file("r.html"));
    let run = load(&site).for_ms(1_200);
    let run = run.with(&["--scrape", &url, "-o", &html]).run();
    let page = page(&run);
    assert_eq!((page.url.as_str(), page.failed), (url.as_str(), 0));
    // At the start, after a second, and at the end; a busy machine may miss one.
    assert!((2..=3).contains(&page.scrapes), "{page:?}");
    assert!(page.elapsed_ns > 1_000_000_000, "{page:?}");
    let ScrapedValues::Gauge { min, max, .. } = page.series[0].values else {
        panic!("{page:?}");
    };
    assert_eq!((min, max), (1.0, page.scrapes as f64));
    let text = run.stdout.as_str();
    assert!(text.contains("\nMetrics of the server\n"), "{text}");
    assert!(text.contains("Prefix cache hit rate 25 % of "), "{text}");
    assert!(!run.stderr.contains("scrape"), "{}", run.stderr);
    assert_eq!(metrics.peers().len(), 1, "the connection is kept");
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains("Requests in the server"));
    assert!(html.contains("vllm:num_requests_running"));
}

#[test]
fn metrics_of_the_server_are_conditions_and_columns() {
    let (site, metrics) = (site(), growing());
    let (url, json) = (url(&metrics), site.folder.file("r.json"));
    let condition = "server_cache_hit_percent<50%";
    let options = ["--scrape", &url, "--fail-if", condition, "--json", &json];
    let target = site.url("/");
    let mut arguments = vec!["-t1", "-c1", "-d200ms"];
    arguments.extend(options);
    arguments.push(&target);
    let output = Process::start(program(&arguments)).finish();
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    let columns = ["--columns", "server_cache_hit_percent", &json];
    let table = program(&[&["table"], &columns[..]].concat());
    let table = Process::start(table).finish().stdout;
    assert!(table.contains("| avg | 25.0000 |"), "{table}");
}

#[test]
fn a_page_that_cannot_be_read_costs_a_note_and_not_the_run() {
    let site = site();
    let pages = [
        ("status 404", response("404 Not Found", "")),
        ("line 1 is no metric", response("200 OK", "<html>")),
    ];
    for (why, page) in pages {
        let metrics = server(move |_| page.clone());
        let run = load(&site).for_ms(200);
        let run = run.with(&["--scrape", &url(&metrics)]).run();
        let expected = format!(
            "note: --scrape {}: scraped 0 of 2 times: {why}",
            url(&metrics)
        );
        assert!(run.stderr.contains(&expected), "{}", run.stderr);
    }
    let refusing = Refusing::new();
    let closed = format!("http://{}/metrics", refusing.address());
    let run = load(&site).for_ms(200).with(&["--scrape", &closed]).run();
    let expected = format!("note: --scrape {closed}: scraped 0 of 2 times: ");
    assert!(run.stderr.contains(&expected), "{}", run.stderr);
    assert!(run.stderr.contains("refused"), "{}", run.stderr);
}

#[test]
fn a_page_that_never_comes_does_not_hold_the_run_up() {
    let site = site();
    let silent = TestServer::start(|stream| io::copy(&mut &stream, &mut io::sink()).map(drop));
    let run = load(&site).for_ms(200);
    let run = run.with(&["--scrape", &url(&silent)]).run();
    let page = page(&run);
    assert_eq!(page.scrapes, 0);
    assert!(
        run.stderr.contains("(2s)") || run.stderr.contains("2s"),
        "{}",
        run.stderr
    );
}
