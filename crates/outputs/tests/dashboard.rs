//! The dashboard for Grafana asks for metrics that are exported.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use results::exported::{ExportedMetric, exported, prometheus_label};
use serde_json::Value;

fn dashboard() -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let path = root
        .expect("the repository")
        .join("examples/grafana/wrkbench.json");
    let text = fs::read_to_string(&path).expect("the dashboard is there");
    serde_json::from_str(&text).expect("it is JSON")
}

/// All queries: of panels, of variables, of annotations.
fn queries(value: &Value) -> Vec<String> {
    let own = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut found: Vec<String> = own("expr").into_iter().chain(own("definition")).collect();
    let inner: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    };
    found.extend(inner.into_iter().flat_map(queries));
    found
}

/// The name that ends here.
fn last_name(text: &str) -> &str {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    &text[text.trim_end_matches(is_of_name).len()..]
}

/// The metrics, whose names stand before braces, and the labels that are compared or grouped by.
fn names(query: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let before = |mark| {
        query
            .match_indices(mark)
            .map(|(at, _)| last_name(&query[..at]))
    };
    let metrics = before("{").collect();
    let mut labels: BTreeSet<&str> = before("=~").collect();
    for (_, list) in query
        .match_indices("by (")
        .map(|(at, by)| query.split_at(at + by.len()))
    {
        let list = list.split(')').next().unwrap_or_default();
        labels.extend(list.split(',').map(str::trim));
    }
    (metrics, labels)
}

#[test]
fn every_query_names_metrics_and_labels_that_are_exported() {
    let metrics = exported();
    let known: BTreeSet<String> = metrics
        .iter()
        .map(ExportedMetric::prometheus_name)
        .collect();
    let parts = metrics.iter().filter_map(|metric| metric.attribute);
    let mut labels: BTreeSet<String> = parts.map(prometheus_label).collect();
    // Of each series: what Prometheus makes of the instance, and the target.
    labels.extend(["instance", "wrkbench_target"].map(str::to_owned));
    let queries = queries(&dashboard());
    assert!(queries.len() > 20, "{queries:#?}");
    let mut asked = BTreeSet::new();
    for query in &queries {
        let (of_query, with) = names(query);
        assert!(!of_query.is_empty(), "no metric in {query}");
        for name in &of_query {
            assert!(known.contains(*name), "{name} is not exported: {query}");
        }
        for label in with {
            assert!(labels.contains(label), "{label} is no label: {query}");
        }
        asked.extend(of_query);
    }
    for name in known.iter().filter(|name| *name != "wrkbench_warming_up") {
        assert!(asked.contains(&**name), "{name} is on no panel");
    }
}

#[test]
fn panels_have_numbers_of_their_own_and_do_not_overlap() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let number = |value: &Value| value.as_u64().expect("a number");
    let ids: BTreeSet<u64> = panels.iter().map(|panel| number(&panel["id"])).collect();
    assert_eq!(ids.len(), panels.len());
    let mut cells = BTreeSet::new();
    for panel in panels {
        let place = &panel["gridPos"];
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| number(&place[key]));
        assert!(x + w <= 24, "{}", panel["title"]);
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{} overlaps another", panel["title"]);
        }
    }
}
