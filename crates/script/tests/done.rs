//! The results that `done(summary, latency, requests)` gets.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod script_test;

use results::{ErrorKind, Histogram, Recording, RunResult};
use script_test::{ScriptTest, rate_result, run_result};

fn recording() -> Recording {
    let mut recording = Recording::new();
    recording.counters.sent = 10;
    recording.counters.answered = 8;
    recording.counters.bytes = 4321;
    for value_us in [100, 200, 200, 200, 300, 400, 400, 1500] {
        recording.service_time.record(value_us * 1000);
    }
    for rate in [1000, 2000, 2000, 3000] {
        recording.rates.add(rate);
    }
    for status in [200, 200, 301, 404, 500] {
        recording.statuses.add(status);
    }
    recording.errors.add(ErrorKind::Refused, 1);
    recording.errors.add(ErrorKind::Reset, 0);
    recording.errors.add(ErrorKind::Reset, 1);
    recording
}

/// At a fixed rate: seven responses, and two requests without one.
fn rate_recording() -> Recording {
    let mut recording = recording();
    recording.counters.due = 9;
    recording.service_time = Histogram::new();
    for value_us in [100, 100, 200, 300, 300, 300, 400] {
        recording.response_time.record(value_us * 1000);
        recording.service_time.record(50_000);
    }
    for age_us in [900, 1500] {
        recording.unanswered.record(age_us * 1000);
    }
    recording
}

/// Runs `body` as `done` after a closed loop.
fn done(body: &str, recording: Recording) {
    done_after(body, &run_result(recording));
}

/// Runs `body` as `done`.
fn done_after(body: &str, result: &RunResult) {
    let test = ScriptTest::script(&format!(
        "function done(summary, latency, requests)\n{body}\nend"
    ));
    let (mut script, _source) = test.one();
    assert!(script.has_done());
    script.done(result).unwrap();
}

#[test]
fn the_summary_has_plain_numbers() {
    done(
        r#"
        assert(summary.duration == 2000000 and summary.requests == 8 and summary.bytes == 4321)
        local errors = summary.errors
        assert(errors.connect == 1 and errors.read == 2 and errors.write == 0)
        assert(errors.timeout == 0 and errors.status == 2)
        "#,
        recording(),
    );
}

#[test]
fn latency_is_in_microseconds() {
    done(
        r#"
        local function near(a, b) return math.abs(a - b) <= b / 1000 + 0.001 end
        assert(latency.min == 100 and latency.max == 1500, latency.max)
        assert(near(latency.mean, 412.5), latency.mean)
        assert(near(latency.stdev, 451.78), latency.stdev)
        assert(near(latency:percentile(50), 200) and near(latency:percentile(75), 400))
        assert(near(latency:percentile(87.5), 400) and near(latency:percentile(87.6), 1500))
        assert(latency:percentile("50") == latency:percentile(50))
        "#,
        recording(),
    );
}

#[test]
fn latencies_are_whole_microseconds_and_each_value_is_listed_once() {
    let mut recording = Recording::new();
    for value_ns in [400, 600, 1_499, 119_871, 119_999, 120_400, 2_000_300] {
        recording.service_time.record(value_ns);
    }
    done(
        r#"
        local function whole(value) return value == math.floor(value) end
        assert(latency.min == 0 and latency.max == 2000, latency.max)
        assert(latency:percentile(50) == 120 and latency:percentile(99) == 2000)
        assert(not whole(latency.mean))
        local expected = { 0, 1, 1, 2, 120, 3, 2000, 1 }
        assert(#latency == 4, #latency)
        for i = 1, #latency do
          local value, count = latency(i)
          assert(value == expected[2 * i - 1] and count == expected[2 * i], i .. ": " .. value)
        end
        "#,
        recording,
    );
}

#[test]
fn percentiles_are_limited_to_the_minimum_and_the_maximum() {
    done(
        r#"
        assert(latency:percentile(100) == 1500 and latency:percentile(1000) == 1500)
        assert(latency:percentile(99.999) == 1500)
        assert(latency:percentile(0) == 100 and latency:percentile(-1) == 100)
        assert(latency:percentile(0/0) == 100)
        assert(requests:percentile(100) == 3000 and requests:percentile(0) == 1000)
        "#,
        recording(),
    );
}

#[test]
fn distinct_values_are_in_ascending_order() {
    done(
        r#"
        assert(#latency == 5, #latency)
        local total, last = 0, 0
        for i = 1, #latency do
          local value, count = latency(i)
          assert(value > last and count >= 1)
          total, last = total + count, value
        end
        assert(total == 8)
        local value, count = latency(0)
        assert(value == 0 and count == 5)
        value, count = latency(6)
        assert(value == 0 and count == 5)
        value, count = latency(-1)
        assert(value == 0 and count == 5)
        assert(#requests == 3 and select(2, requests(2)) == 2 and requests(2) == 2000)
        "#,
        recording(),
    );
}

#[test]
fn the_first_distinct_value_is_the_minimum_even_if_its_bucket_rounds_to_another_microsecond() {
    let mut recording = recording();
    recording.service_time = Histogram::new();
    for value_ns in [15_499, 15_503, 20_000] {
        recording.service_time.record(value_ns);
    }
    done(
        "assert(latency.min == 15 and latency(1) == 15 and select(2, latency(1)) == 2)",
        recording,
    );
}

#[test]
fn requests_are_per_second_and_thread() {
    done(
        r#"
        assert(requests.min == 1000 and requests.max == 3000 and requests.mean == 2000)
        assert(math.abs(requests.stdev - 816.5) < 0.1, requests.stdev)
        assert(requests:percentile(50) == 2000)
        -- What does not exist has its name as value, as in wrk.
        assert(requests.total == "total" and requests[7] == "7" and latency[1] == "1")
        assert(latency.p50 == "p50" and latency[true] == nil and latency[{}] == nil)
        "#,
        recording(),
    );
}

#[test]
fn at_a_fixed_rate_the_length_is_the_number_of_samples_and_a_key_is_a_rank() {
    done_after(
        r#"
        local function near(a, b) return math.abs(a - b) <= b / 1000 end
        local expected = { 100, 100, 200, 300, 300, 300, 400, 900, 1500 }
        assert(#latency == 9, #latency)
        for i = 1, #latency do
          assert(near(latency[i], expected[i]), i .. ": " .. latency[i])
          assert(latency[i] == latency:percentile(100 * i / #latency), i)
        end
        assert(near(latency[1], latency.min) and latency[9] == latency.max)
        assert(latency[0] == 100 and latency[-5] == 100 and latency[10] == 1500)
        assert(latency[1/0] == 1500 and near(latency[3.9], 200))
        assert(latency.unknown == "unknown" and latency["3"] == "3")
        "#,
        &rate_result(rate_recording()),
    );
}

#[test]
fn at_a_fixed_rate_distinct_values_are_also_available() {
    done_after(
        r#"
        local values, total, i = 0, 0, 1
        while true do
          local value, count = latency(i)
          if value == 0 then
            assert(count == values)
            break
          end
          values, total, i = values + 1, total + count, i + 1
        end
        assert(values == 6 and total == #latency, values .. " " .. total)
        "#,
        &rate_result(rate_recording()),
    );
}

#[test]
fn at_a_fixed_rate_latency_is_the_response_time_including_unanswered_requests() {
    done_after(
        r#"
        assert(latency.min == 100 and latency.max == 1500)
        assert(math.abs(latency.mean - 4100 / 9) < 0.001, latency.mean)
        -- Rates are those of a closed loop: distinct values, no ranks.
        assert(#requests == 3 and requests[1] == "1" and requests(1) == 1000)
        "#,
        &rate_result(rate_recording()),
    );
}

#[test]
fn every_rank_of_many_samples_is_the_sample_of_that_rank() {
    let mut recording = Recording::new();
    for value_us in 1..=1000 {
        recording.response_time.record(value_us * 1000);
    }
    recording.counters.due = 1000;
    done_after(
        r#"
        assert(#latency == 1000)
        for i = 1, 1000 do
          assert(latency[i] >= i and latency[i] <= i * 1.001 + 0.5, i .. ": " .. latency[i])
          assert(latency[i] == latency:percentile(100 * i / 1000), i)
        end
        "#,
        &rate_result(recording),
    );
}

#[test]
fn an_empty_run_at_a_fixed_rate_is_all_zeros() {
    done_after(
        "assert(#latency == 0 and latency[1] == 0 and latency[0] == 0 and latency.max == 0)",
        &rate_result(Recording::new()),
    );
}

#[test]
fn an_empty_run_is_all_zeros() {
    done(
        r#"
        for _, each in ipairs({ latency, requests }) do
          assert(each.min == 0 and each.max == 0 and each.mean == 0 and each.stdev == 0)
          assert(each:percentile(50) == 0 and each:percentile(100) == 0 and #each == 0)
          local value, count = each(1)
          assert(value == 0 and count == 0)
        end
        assert(summary.requests == 0)
        "#,
        Recording::new(),
    );
}

#[test]
fn an_error_in_done_has_its_line_and_done_can_be_called_again() {
    let (mut script, _source) =
        ScriptTest::script("\nfunction done(summary)\n  return summary.nothing.here\nend").one();
    for _ in 0..2 {
        let message = script
            .done(&run_result(recording()))
            .unwrap_err()
            .to_string();
        let expected = "script.lua:3: attempt to index field 'nothing' (a nil value) (in done)";
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn a_percentile_without_an_argument_is_an_error_with_the_line_of_the_script() {
    let (mut script, _source) =
        ScriptTest::script("function done(_, latency)\nlatency:percentile()\nend").one();
    let message = script
        .done(&run_result(recording()))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("script.lua:2: percentile: expected a number"),
        "{message}"
    );
}

#[test]
fn a_script_whose_threads_are_elsewhere_has_only_its_top_level_and_done() {
    let test = ScriptTest::script(
        r#"
        loaded = true
        function setup() error("setup was called") end
        function init() error("init was called") end
        function done(summary)
          assert(loaded and wrk.thread == nil and summary.requests == 0)
        end
        "#,
    );
    let mut script = test.load_for_done().unwrap();
    assert!(script.has_done());
    script.done(&run_result(Recording::new())).unwrap();
}
