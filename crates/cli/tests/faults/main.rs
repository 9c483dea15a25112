//! A table of faults, and how wrkbench handles each.
//!
//! A row describes a fault and what is expected: the kind of error, that it is counted once, that
//! the connection recovers, that the run ends in time with the right exit code and one clear line
//! if it fails, that memory stays bounded, and that the document is valid. The quick rows run with
//! all tests; `make faults` runs all of them and prints the table.
//!
//! | module | rows |
//! |---|---|
//! | `places` | F1, F2, F18, F20, F21, F74: targets, files, limits |
//! | `namespaces` | F3, F17 to F19, F22, F74, F77: networks and file systems of their own |
//! | `outage` | F4: a server that goes away |
//! | `tcp` | F5 to F16: connections and bytes |
//! | `http` | F23 to F45: responses |
//! | `tls` | F46 to F55 |
//! | `http2`, `http3` | F56 to F65 |
//! | `order` | F36, F38: responses out of order |
//! | `stops` | F67 to F71: stopped processes, clocks that jump, too little memory |
//! | `drops` | F67: a full receive buffer |
//! | `signals` | F72 |
//! | `scripts` | F75 |
//! | `extremes` | F73, F76, F77, F78: terminals, values at their limits, proxies |
//! | `row` | a row, and the table |
//! | `case` | a fault of the server as a row |
//! | `cost` | what a fault costs where several requests are in flight |
//! | `adversary` | the server that misbehaves |
//! | `client` | a run whose memory, time and output are checked |
//! | `harness`, `judge` | shared with `end_to_end` |
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failing step fails the test"
)]

mod adversary;
mod case;
mod client;
mod cost;
mod drops;
mod extremes;
#[path = "../end_to_end/harness.rs"]
#[allow(dead_code, reason = "the tests from end to end use the rest")]
mod harness;
mod http;
mod http2;
mod http3;
#[path = "../end_to_end/judge.rs"]
#[allow(dead_code, reason = "the tests from end to end use the rest")]
mod judge;
mod namespaces;
mod order;
mod outage;
mod places;
mod row;
mod scripts;
mod signals;
mod stops;
mod tcp;
mod tls;

use std::sync::atomic::Ordering;

use row::{FaultRow, TIME_IS_JUDGED};

fn rows() -> Vec<FaultRow> {
    [
        places::rows(),
        namespaces::rows(),
        outage::rows(),
        tcp::rows(),
        http::rows(),
        tls::rows(),
        http2::rows(),
        http3::rows(),
        signals::rows(),
        scripts::rows(),
        order::rows(),
        stops::rows(),
        drops::rows(),
        extremes::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn packets_behind_a_lost_one_are_not_blamed_on_the_load_generator() {
    row::quick_ones_hold(&namespaces::losses());
}

#[test]
fn faults_of_connections_are_counted_once_by_kind() {
    row::quick_ones_hold(&tcp::rows());
}

#[test]
fn faults_of_responses_are_counted_once_by_kind() {
    row::quick_ones_hold(&http::rows());
}

#[test]
fn faults_of_tls_are_counted_once_by_kind() {
    row::quick_ones_hold(&tls::rows());
}

#[test]
fn faults_of_http2_are_counted_once_by_kind() {
    row::quick_ones_hold(&http2::rows());
}

#[test]
fn faults_of_http3_are_counted_once_by_kind() {
    row::quick_ones_hold(&http3::rows());
}

#[test]
fn datagrams_that_the_load_generator_drops_are_counted_and_judged() {
    row::quick_ones_hold(&drops::rows());
}

#[test]
fn missing_targets_and_servers_are_reported_or_counted() {
    row::quick_ones_hold(&places::rows());
    row::quick_ones_hold(&outage::rows());
}

#[test]
fn responses_out_of_order_are_distinguished_from_failed_requests() {
    row::quick_ones_hold(&order::rows());
}

#[test]
fn values_at_their_limits_are_refused_or_work() {
    row::quick_ones_hold(&extremes::rows());
}

#[test]
fn signals_end_a_run_correctly_at_every_stage() {
    row::quick_ones_hold(&signals::rows());
}

#[test]
fn scripts_that_fail_or_hang_lose_no_result() {
    row::quick_ones_hold(&scripts::rows());
}

/// `make faults`. `WRKBENCH_FAULTS` names the rows to try, such as `F9,F12`.
#[test]
#[ignore = "takes minutes; `make faults` runs it and prints the table"]
fn the_whole_table_holds() {
    TIME_IS_JUDGED.store(true, Ordering::SeqCst);
    let wanted = std::env::var("WRKBENCH_FAULTS").unwrap_or_default();
    let rows = rows();
    let is_wanted = |row: &&FaultRow| wanted.is_empty() || wanted.split(',').any(|id| id == row.id);
    let rows: Vec<&FaultRow> = rows.iter().filter(is_wanted).collect();
    let tried = row::try_all(&rows);
    println!("{}", row::table(&tried));
    let failures = row::failures(&tried);
    assert!(
        failures.is_empty(),
        "{} of {} rows are wrong\n\n{}",
        failures.len(),
        tried.len(),
        failures.join("\n")
    );
}
