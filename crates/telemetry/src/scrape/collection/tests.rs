//! Tests of what series did over the window.

use results::parts::scrape::{ScrapedPage, ScrapedSeries, ScrapedValues};

use super::*;

const VLLM: &str = include_str!("../../../tests/metrics/vllm.txt");
const LLAMA: &str = include_str!("../../../tests/metrics/llama.txt");

fn page(pages: &[&str]) -> ScrapedPage {
    let mut collection = Collection::default();
    for (at_s, text) in (0..).zip(pages) {
        let page = Page::read(text).expect("it is a page");
        collection.add(&page, at_s * 1_000);
    }
    let (at_ms, series, left_out) = collection.finish();
    ScrapedPage {
        scrapes: pages.len() as u64,
        at_ms,
        series,
        left_out,
        ..ScrapedPage::default()
    }
}

fn series<'p>(page: &'p ScrapedPage, name: &str) -> &'p ScrapedSeries {
    let found = page
        .series
        .iter()
        .find(|it| it.full_name().starts_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {page:?}"))
}

fn growth(page: &ScrapedPage, name: &str) -> f64 {
    match series(page, name).values {
        ScrapedValues::Counter { growth, .. } => growth,
        ref other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn gauges_have_a_mean_and_extremes_and_their_values() {
    let page = page(&["# TYPE a gauge\na 1", "a 5", "a 3"]);
    assert_eq!(page.at_ms, [0, 1_000, 2_000]);
    let expected = ScrapedValues::Gauge {
        mean: 3.0,
        min: 1.0,
        max: 5.0,
        rows: vec![Some(1.0), Some(5.0), Some(3.0)],
    };
    assert_eq!(series(&page, "a").values, expected);
}

#[test]
fn counters_have_their_growth_also_if_the_server_starts_again() {
    let page = page(&["a_total 100", "a_total 130", "a_total 20", "a_total 25"]);
    let expected = ScrapedValues::Counter {
        growth: 55.0,
        rows: vec![Some(0.0), Some(30.0), Some(50.0), Some(55.0)],
    };
    assert_eq!(series(&page, "a_total").values, expected);
}

#[test]
fn a_series_that_is_missing_in_between_has_no_value_there() {
    let page = page(&["b 1", "a 7\nc_total 3\nb 1", "b 1", "a 9\nc_total 8\nb 1"]);
    let ScrapedValues::Gauge { rows, mean, .. } = &series(&page, "a").values else {
        panic!("it is a gauge");
    };
    assert_eq!(rows, &[None, Some(7.0), None, Some(9.0)]);
    assert_eq!(*mean, 8.0);
    // A counter that was not there before has counted from zero.
    assert_eq!(growth(&page, "c_total"), 8.0);
}

#[test]
fn of_histograms_the_number_and_the_sum_of_new_values_are_kept() {
    let text = |count: u32, sum: f64| {
        format!(
            "# TYPE h histogram\nh_bucket{{le=\"1\"}} 1\nh_sum {sum}\nh_count {count}\n\
             h_created 1.7e9\n# TYPE s summary\ns{{quantile=\"0.5\"}} 1\ns_sum 2\ns_count 4\n"
        )
    };
    let page = page(&[&text(10, 1.5), &text(30, 4.5)]);
    let values = |name| series(&page, name).values.clone();
    let histogram = |count, sum| ScrapedValues::Histogram { count, sum };
    assert_eq!(values("h"), histogram(20.0, 3.0));
    assert_eq!(values("s"), histogram(0.0, 0.0));
    assert_eq!(page.series.len(), 2);
}

#[test]
fn the_kind_of_a_series_follows_from_the_page_and_then_from_its_name() {
    let text = "# TYPE open counter\nopen_total 1\n# TYPE plain counter\nplain 1\n\
                # TYPE odd_total gauge\nodd_total 1\nbare_total 1\nother_count 1\nother 1\n";
    let page = page(&[text]);
    let is_counter = |name| matches!(series(&page, name).values, ScrapedValues::Counter { .. });
    let counters = ["open_total", "plain", "bare_total"].map(is_counter);
    assert_eq!(counters, [true; 3]);
    let gauges = ["odd_total", "other_count", "other"].map(is_counter);
    assert_eq!(gauges, [false; 3]);
}

#[test]
fn values_that_are_not_finite_are_left_out() {
    let page = page(&["a NaN\nb 1", "a +Inf\nb 1", "a 2\nb 1"]);
    let ScrapedValues::Gauge { rows, max, .. } = &series(&page, "a").values else {
        panic!("it is a gauge");
    };
    assert_eq!((rows, *max), (&vec![None, None, Some(2.0)], 2.0));
}

#[test]
fn known_series_are_kept_where_there_are_too_many() {
    let mut text: String = (0..300).map(|number| format!("a{number} 1\n")).collect();
    text += "vllm:num_requests_running 5\n";
    let page = page(&[&text, &text]);
    assert_eq!(page.series.len(), SERIES_MAX);
    assert_eq!(page.left_out, 101);
    assert_eq!(page.series[0].name, "vllm:num_requests_running");
}

#[test]
fn a_long_run_keeps_a_bounded_number_of_rows_over_all_of_it() {
    let mut collection = Collection::default();
    let readings = 5_000_u64;
    for at_s in 0..readings {
        let text = format!("a {at_s}\nb_total {at_s}\n");
        collection.add(&Page::read(&text).expect("it is a page"), at_s * 1_000);
    }
    let (at_ms, series, _) = collection.finish();
    assert!(
        (ROWS_MAX / 2..=ROWS_MAX).contains(&at_ms.len()),
        "{}",
        at_ms.len()
    );
    assert!(at_ms.is_sorted());
    assert!(at_ms.last() > Some(&(4_900 * 1_000)));
    let ScrapedValues::Gauge {
        mean, max, rows, ..
    } = &series[0].values
    else {
        panic!("it is a gauge");
    };
    assert_eq!((*mean, *max), (2_499.5, 4_999.0));
    let expected = at_ms.iter().map(|at_ms| Some(*at_ms as f64 / 1e3));
    assert_eq!(*rows, Vec::from_iter(expected));
    let ScrapedValues::Counter { growth, .. } = &series[1].values else {
        panic!("it is a counter");
    };
    assert_eq!(*growth, 4_999.0);
}

#[test]
fn pages_of_vllm_and_llama_cpp_are_read() {
    let later = VLLM
        .replace(
            "_running{engine=\"0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 8.0",
            "_running{engine=\"0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 16.0",
        )
        .replace(" 12000.0", " 22000.0")
        .replace(" 9000.0", " 17000.0")
        .replace(" 42.0", " 52.0")
        .replace(" 3.36", " 4.36");
    let page = page(&[VLLM, &later]);
    assert_eq!(growth(&page, "vllm:prefix_cache_queries_total"), 10_000.0);
    assert_eq!(growth(&page, "vllm:prefix_cache_hits_total"), 8_000.0);
    let running = series(&page, "vllm:num_requests_running");
    assert_eq!(running.labels["engine"], "0");
    let ScrapedValues::Gauge { mean, .. } = running.values else {
        panic!("it is a gauge");
    };
    assert_eq!(mean, 12.0);
    let first_token = &series(&page, "vllm:time_to_first_token_seconds").values;
    let ScrapedValues::Histogram { count, sum } = first_token else {
        panic!("it is a histogram");
    };
    assert_eq!((*count, (sum * 100.0).round()), (10.0, 100.0));
    let names: Vec<&str> = page.series.iter().map(|it| it.name.as_str()).collect();
    assert!(
        names
            .iter()
            .all(|it| !it.ends_with("_info") && !it.ends_with("_created"))
    );
    let llama = self::page(&[LLAMA]);
    assert_eq!(llama.series.len(), 6);
    let deferred = series(&llama, "llamacpp:requests_deferred");
    assert!(is_known(&deferred.name));
}
