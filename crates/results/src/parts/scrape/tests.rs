//! Tests of the server's own metrics in results.

use plan::{RunPlan, Target};
use presentation::{Block, TextBlock};

use super::*;
use crate::{Metric, Window};

fn gauge(name: &str, rows: &[f64]) -> ScrapedSeries {
    let sum: f64 = rows.iter().sum();
    ScrapedSeries {
        name: name.to_owned(),
        labels: BTreeMap::new(),
        values: ScrapedValues::Gauge {
            mean: sum / rows.len() as f64,
            min: rows.iter().copied().fold(f64::INFINITY, f64::min),
            max: rows.iter().copied().fold(0.0, f64::max),
            rows: rows.iter().copied().map(Some).collect(),
        },
    }
}

fn counter(name: &str, growth: f64) -> ScrapedSeries {
    ScrapedSeries {
        name: name.to_owned(),
        labels: BTreeMap::new(),
        values: ScrapedValues::Counter {
            growth,
            rows: vec![Some(0.0), Some(growth)],
        },
    }
}

/// Two readings in two seconds.
fn page(series: Vec<ScrapedSeries>) -> ScrapedPage {
    ScrapedPage {
        url: "http://h/metrics".to_owned(),
        scrapes: 2,
        elapsed_ns: 2_000_000_000,
        at_ms: vec![0, 2_000],
        series,
        ..ScrapedPage::default()
    }
}

fn result(pages: Vec<ScrapedPage>) -> RunResult {
    let plan = RunPlan::new(Target::parse("http://h/").expect("a URL"));
    let mut result = RunResult::new(plan, Window::default());
    result.recording.parts.scraped = Some(ScrapeRecording { pages });
    result
}

/// Two engines of a server.
fn vllm() -> RunResult {
    result(vec![page(vec![
        gauge("vllm:num_requests_running", &[6.0, 8.0]),
        gauge("vllm:num_requests_running", &[2.0, 0.0]),
        gauge("vllm:num_requests_waiting", &[0.0, 3.0]),
        gauge("vllm:kv_cache_usage_perc", &[0.2, 0.6]),
        gauge("vllm:kv_cache_usage_perc", &[0.0, 0.4]),
        counter("vllm:prefix_cache_queries_total", 10_000.0),
        counter("vllm:prefix_cache_hits_total", 7_500.0),
        counter("vllm:num_preemptions_total", 3.0),
        counter("vllm:generation_tokens_total", 5_000.0),
        gauge("process_open_fds", &[70.0, 71.0]),
    ])])
}

fn text(result: &RunResult) -> String {
    let lines = view::text_of_run(result).into_iter();
    let lines = lines.map(|block| match block {
        TextBlock::Line(line) => line + "\n",
        TextBlock::Table(_) => panic!("there are lines only"),
    });
    lines.collect()
}

#[test]
fn known_metrics_have_titles_in_the_text() {
    assert_eq!(
        text(&vllm()),
        "\nMetrics of the server\n\
         \x20 Requests running      mean 8.00, max 8\n\
         \x20 Requests waiting      mean 1.50, max 3\n\
         \x20 KV cache in use       mean 30 %, max 50 %\n\
         \x20 Prefix cache hit rate 75 % of 10,000 tokens\n\
         \x20 Preemptions           3\n\
         \x20 Generated tokens      5,000 (2,500/s)\n"
    );
}

#[test]
fn a_page_without_known_metrics_is_counted() {
    let result = result(vec![page(vec![gauge("up", &[1.0, 1.0])])]);
    assert_eq!(
        text(&result),
        "\nMetrics of the server\n  1 series, none with a title\n"
    );
    assert!(view::figures(&result).rows.is_empty());
    assert_eq!(view::all_series(&result).rows.len(), 1);
}

#[test]
fn each_server_has_metrics_by_its_own_names() {
    for (names, used) in [
        (
            [
                "sglang:num_running_reqs",
                "sglang:num_queue_reqs",
                "sglang:token_usage",
            ],
            50.0,
        ),
        (
            [
                "llamacpp:requests_processing",
                "llamacpp:requests_deferred",
                "llamacpp:kv_cache_usage_ratio",
            ],
            50.0,
        ),
    ] {
        let series = names.iter().map(|name| gauge(name, &[0.5, 0.5]));
        let result = result(vec![page(series.collect())]);
        let value = |name: &str| Metric::named(name).of(&result).map(|known| known.value);
        assert_eq!(value("server_requests_running"), Some(0.5), "{names:?}");
        assert_eq!(value("server_requests_waiting"), Some(0.5));
        assert_eq!(value("server_cache_used_percent"), Some(used));
        assert_eq!(value("server_cache_hit_percent"), None);
    }
    let sglang = result(vec![page(vec![gauge(
        "sglang:cache_hit_rate",
        &[0.1, 0.3],
    )])]);
    let hits = Metric::named("server_cache_hit_percent").of(&sglang);
    assert_eq!(hits.map(|hits| hits.value.round()), Some(20.0));
}

#[test]
fn servers_add_up_and_shares_do_not() {
    let of_one = vec![
        gauge("vllm:num_requests_running", &[4.0, 6.0]),
        gauge("vllm:kv_cache_usage_perc", &[0.4, 0.6]),
        counter("vllm:num_preemptions_total", 2.0),
    ];
    let mut other = page(of_one.clone());
    other.url = "http://i/metrics".to_owned();
    let result = result(vec![page(of_one), other]);
    let value = |name: &str| Metric::named(name).of(&result).map(|known| known.value);
    assert_eq!(value("server_requests_running"), Some(10.0));
    assert_eq!(value("server_cache_used_percent"), Some(50.0));
    assert_eq!(value("server_cache_used_max_percent"), Some(60.0));
    assert_eq!(value("server_preemptions"), Some(4.0));
}

#[test]
fn known_gauges_are_drawn_over_time() {
    let blocks = view::details(&vllm());
    let charts = blocks.iter().flat_map(|block| match block {
        Block::Charts { charts } => charts.as_slice(),
        other => panic!("{other:?}"),
    });
    let lines: Vec<_> = charts
        .flat_map(|chart| &chart.marks)
        .map(|marks| (marks.name.as_str(), marks.x.clone(), marks.y.clone()))
        .collect();
    let x = vec![0.0, 2.0];
    let expected = [
        ("Requests running", x.clone(), vec![Some(8.0), Some(8.0)]),
        ("Requests waiting", x.clone(), vec![Some(0.0), Some(3.0)]),
        ("KV cache in use", x, vec![Some(10.0), Some(50.0)]),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_was_not_read_is_told() {
    let mut failed = page(Vec::new());
    failed.scrapes = 8;
    failed.failed = 2;
    failed.failure = Some("status 503".to_owned());
    failed.left_out = 70;
    assert_eq!(
        view::notes(&result(vec![failed])),
        [
            "--scrape http://h/metrics: scraped 8 of 10 times: status 503",
            "--scrape http://h/metrics: 70 more series were left out",
        ]
    );
    assert!(view::notes(&vllm()).is_empty());
}

#[test]
fn a_page_that_contradicts_itself_is_refused() {
    let checked = |change: fn(&mut ScrapedPage)| {
        let mut page = page(vec![gauge("a", &[1.0, 2.0]), counter("b_total", 1.0)]);
        change(&mut page);
        check(&result(vec![page])).map_err(|Contradiction(text)| text)
    };
    assert_eq!(checked(|_| {}), Ok(()));
    for (change, expected) in [
        (
            (|page| page.at_ms.push(3_000)) as fn(&mut ScrapedPage),
            "metrics of http://h/metrics: 3 times of readings",
        ),
        (
            |page| page.series[0] = gauge("a", &[1.0]),
            "metrics of http://h/metrics: a has other times",
        ),
        (
            |page| page.series[1] = counter("b_total", f64::INFINITY),
            "metrics of http://h/metrics: b_total is not finite",
        ),
    ] {
        assert_eq!(checked(change), Err(expected.to_owned()));
    }
}

#[test]
fn a_recording_is_saved_and_read_again() {
    let scraped = vllm().recording.parts.scraped;
    let text = serde_json::to_string(&scraped).expect("it is plain data");
    let read: Option<ScrapeRecording> = serde_json::from_str(&text).expect("it was written");
    assert_eq!(read, scraped);
}

#[test]
fn recordings_of_several_runs_keep_the_first_page_of_each_url() {
    let mut all = vllm().recording.parts.scraped.expect("it was read");
    let mut other = ScrapeRecording {
        pages: vec![page(Vec::new()), page(Vec::new())],
    };
    other.pages[1].url = "http://i/metrics".to_owned();
    all.merge(&other);
    let urls = all
        .pages
        .iter()
        .map(|page| (page.url.as_str(), page.series.len()));
    let urls: Vec<_> = urls.collect();
    assert_eq!(urls, [("http://h/metrics", 10), ("http://i/metrics", 0)]);
}
