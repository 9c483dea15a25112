//! Sentences of comparisons against golden texts.

use analysis::Observation;
use analysis::compare::{
    Caveat, CompareOptions, Conclusions, Metric, Named, compare, compare_cells, compare_names,
    compare_with_base,
};
use judging::sentences::finding;
use report::comparison;
use report::export::{self, Export, ExportFormat};
use results::{Setting, Verdict};

#[allow(dead_code, reason = "other tests use more of it")]
mod fixture;
#[allow(dead_code, reason = "other tests use more of it")]
mod swept;

/// Two values of each of the five runs of a level.
type Runs = [(f64, f64); 5];

/// Requests per second and 99th percentile of latency, microseconds: the table published in the
/// readme of github.com/centminmod/centminmod-buffertests, five runs of each size in the order in
/// which they ran.
const PUBLISHED: [(&str, Runs); 7] = [
    (
        "262144",
        [
            (21173.40, 6773.0),
            (31252.33, 10389.0),
            (32445.29, 7209.0),
            (30903.76, 27004.0),
            (32065.25, 8075.0),
        ],
    ),
    (
        "524288",
        [
            (28079.80, 5842.0),
            (29478.14, 181706.0),
            (32519.16, 6362.0),
            (31162.93, 13155.0),
            (30461.94, 80573.0),
        ],
    ),
    (
        "1048576",
        [
            (32470.98, 9120.0),
            (30885.48, 51239.0),
            (32450.29, 7125.0),
            (31558.20, 10651.0),
            (31338.17, 10827.0),
        ],
    ),
    (
        "2097152",
        [
            (32375.61, 8317.0),
            (28157.70, 314501.0),
            (32605.96, 6240.0),
            (28930.91, 171223.0),
            (30648.68, 55082.0),
        ],
    ),
    (
        "4194304",
        [
            (32130.48, 10997.0),
            (31550.97, 10241.0),
            (32715.48, 7120.0),
            (31760.95, 9512.0),
            (28765.99, 177823.0),
        ],
    ),
    (
        "8388608",
        [
            (32370.91, 8483.0),
            (30805.18, 71850.0),
            (32751.82, 9722.0),
            (31501.24, 9496.0),
            (30497.26, 60110.0),
        ],
    ),
    (
        "16777216",
        [
            (32565.03, 13995.0),
            (31720.33, 19046.0),
            (32717.01, 8057.0),
            (29353.38, 179597.0),
            (31568.18, 9287.0),
        ],
    ),
];

fn run(level: &str, number: usize, values: &[(&str, f64)]) -> Observation {
    let settings = ["rmem_max", "wmem_max"].map(|factor| Setting {
        factor: factor.to_owned(),
        level: level.to_owned(),
    });
    Observation {
        settings: settings.to_vec(),
        run: number as u32 + 1,
        values: values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect(),
        ..Observation::default()
    }
}

fn published() -> Vec<Observation> {
    let of_level = |(index, (level, runs)): (usize, &(&str, Runs))| {
        let level = (*level).to_owned();
        let of_run = move |(number, (rate, p99)): (usize, &(f64, f64))| Observation {
            position: Some((5 * index + number) as u32 + 1),
            ..run(
                &level,
                number,
                &[("requests_per_sec", *rate), ("latency_p99_us", *p99)],
            )
        };
        runs.iter().enumerate().map(of_run).collect::<Vec<_>>()
    };
    PUBLISHED.iter().enumerate().flat_map(of_level).collect()
}

fn runs(level: &str, name: &str, values: &[f64]) -> Vec<Observation> {
    let of = |(number, value): (usize, &f64)| run(level, number, &[(name, *value)]);
    values.iter().enumerate().map(of).collect()
}

#[track_caller]
fn check(actual: &str, golden: &str) {
    assert!(actual == golden, "printed:\n{actual}\nexpected:\n{golden}");
}

/// Runs with these rates, of which the load generator lost a share.
fn delayed(level: &str, rates: &[f64], share: f64) -> Vec<Observation> {
    let mut all = runs(level, "requests_per_sec", rates);
    for (run, rate) in all.iter_mut().zip(rates) {
        let measured = rate * (1.0 - share);
        run.values.insert("requests_per_sec".to_owned(), measured);
        run.without_own.insert("requests_per_sec".to_owned(), *rate);
    }
    all
}

#[test]
fn delays_of_the_load_generator_are_in_the_sentence_about_what_they_explain_or_hide() {
    let rates = [1_000.0, 1_003.0, 997.0, 1_001.0, 999.0];
    let metric = Metric::named("requests/s");
    let said = |base: f64, new: f64, effect: f64| {
        let base = delayed("1", &rates, base);
        let new = delayed("1", &rates.map(|rate| rate * effect), new);
        let found = compare(&base, &new, &metric, 0.02);
        comparison::sentence(&found)
    };
    let explained = said(0.0, 0.07, 1.0);
    assert!(
        explained.starts_with(
            "requests/s: undecided: new is 7 % lower than base as measured (95 % interval "
        ) && explained.contains("), but delays of the load generator explain it: 0 % ")
            && explained.contains(" without them ("),
        "{explained}"
    );
    let hidden = said(0.0, 0.09, 1.1);
    assert!(
        hidden.starts_with("requests/s: undecided: new is 0.1 % higher than base as measured")
            && hidden.contains("), but 10 % higher without delays of the load generator ("),
        "{hidden}"
    );
    let both = said(0.0, 0.03, 0.9);
    assert!(
        both.starts_with("new is worse than base: requests/s is 13 % lower")
            && both.ends_with("; 10 % without delays of the load generator)"),
        "{both}"
    );
    let neither = said(0.0, 0.0, 0.9);
    assert!(!neither.contains("delays"), "{neither}");
}

#[test]
fn the_published_buffer_sizes_have_no_effect_and_the_first_run_was_cold() {
    let conclusions =
        compare_cells(&published(), &CompareOptions::default()).expect("there are levels");
    let mut text = Vec::new();
    comparison::render(&conclusions, &mut text).expect("memory takes every write");
    check(
        &String::from_utf8(text).expect("it is text"),
        include_str!("golden/comparison_published.txt"),
    );
}

#[test]
fn the_document_has_every_number() {
    let conclusions =
        compare_cells(&published(), &CompareOptions::default()).expect("there are levels");
    let mut text = Vec::new();
    comparison::render_json(&conclusions, &mut text).expect("memory takes every write");
    let document: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
    let first = &document["comparisons"][0];
    assert_eq!(first["metric"]["label"], "requests/s");
    assert_eq!(first["outcome"]["is"], "undecided");
    assert_eq!(first["levels"][6]["median"], 31720.33);
    assert!(first["levels"][0]["difference"].is_null());
    assert!(first["levels"][6]["difference"]["ratio"].is_f64());
    assert_eq!(document["doubts"][1]["is"], "slow_first_run");
}

/// Fifteen values around a middle, a little apart.
fn around(middle: f64, share: f64) -> Vec<f64> {
    (-7..=7)
        .map(|step| middle * (1.0 + share * f64::from(step) / 7.0))
        .collect()
}

#[track_caller]
fn sentence(name: &str, base: &[f64], new: &[f64], expected: &str) {
    let compared = compare(
        &runs("a", name, base),
        &runs("b", name, new),
        &Metric::named(name),
        0.02,
    );
    check(&comparison::sentence(&compared), expected);
}

#[test]
fn more_requests_beat_and_less_latency_beats() {
    let (low, high) = (around(1_000.0, 0.01), around(1_041.0, 0.01));
    sentence(
        "requests_per_sec",
        &low,
        &high,
        "new beats base by 4.1 % in requests/s (95 % interval 3.4 to 4.8 %)",
    );
    sentence(
        "requests_per_sec",
        &high,
        &low,
        "new is worse than base: requests/s is 3.9 % lower (95 % interval 3.3 to 4.6 %)",
    );
    sentence(
        "latency_p99_us",
        &high,
        &low,
        "new beats base: p99 latency is 3.9 % lower (95 % interval 3.3 to 4.6 %)",
    );
    sentence(
        "latency_p99_us",
        &low,
        &high,
        "new is worse than base: p99 latency is 4.1 % higher (95 % interval 3.4 to 4.8 %)",
    );
    sentence(
        "TcpExt.DelayedACKs",
        &low,
        &high,
        "new differs from base: TcpExt.DelayedACKs is 4.1 % higher (95 % interval 3.4 to 4.8 %)",
    );
}

#[test]
fn tokens_and_good_requests_are_judged_in_their_directions() {
    let (low, high) = (around(1_000.0, 0.01), around(1_041.0, 0.01));
    for (name, label, is_more_better) in [
        ("output_tokens_per_sec", "output tokens/s", true),
        ("first_token_p50_us", "p50 first token", false),
        ("first_token_p99_us", "p99 first token", false),
        ("time_per_token_p50_us", "p50 time per token", false),
        ("good_requests_per_sec", "good requests/s", true),
    ] {
        let interval = "(95 % interval 3.4 to 4.8 %)";
        let (better, worse) = if is_more_better {
            (
                format!("new beats base by 4.1 % in {label} {interval}"),
                format!(
                    "new is worse than base: {label} is 3.9 % lower (95 % interval 3.3 to 4.6 %)"
                ),
            )
        } else {
            (
                format!("new beats base: {label} is 3.9 % lower (95 % interval 3.3 to 4.6 %)"),
                format!("new is worse than base: {label} is 4.1 % higher {interval}"),
            )
        };
        let (up, down) = if is_more_better {
            (better, worse)
        } else {
            (worse, better)
        };
        sentence(name, &low, &high, &up);
        sentence(name, &high, &low, &down);
        sentence(
            name,
            &low[..3],
            &high[..3],
            &format!(
                "{label} cannot be compared: p < 0.05 is impossible with 3 runs per level (at \
                 least 4 per level are needed)"
            ),
        );
        sentence(
            name,
            &around(1_000.0, 0.2),
            &around(1_010.0, 0.2),
            &format!(
                "{label}: undecided (p = 0.77; with 15 runs per level a difference below 16 % \
                 cannot be detected)"
            ),
        );
    }
    let share = |middle: f64| around(middle, 0.01);
    sentence(
        "goodput",
        &share(95.0),
        &share(76.0),
        "new is worse than base: goodput is 20 % lower (95 % interval 19 to 21 %)",
    );
    sentence(
        "goodput",
        &[95.0, 94.0, 96.0, 95.0, 95.5],
        &[0.0; 5],
        "new is worse than base: goodput 0 % after 95 % (p = 0.008)",
    );
}

#[test]
fn equal_undecided_and_unknown_effects_have_their_own_sentences() {
    let base = around(1_000.0, 0.01);
    sentence(
        "requests_per_sec",
        &base,
        &around(1_002.0, 0.01),
        "requests/s is the same within 2 % with base and new",
    );
    sentence(
        "requests_per_sec",
        &around(1_000.0, 0.2),
        &around(1_010.0, 0.2),
        "requests/s: undecided (p = 0.77; with 15 runs per level a difference below 16 % cannot be \
         detected)",
    );
    sentence(
        "requests_per_sec",
        &base[..1],
        &base[..1],
        "requests/s cannot be compared: 1 run per level does not show the noise between runs (at \
         least 4 per level are needed)",
    );
    sentence(
        "requests_per_sec",
        &base[..3],
        &base[..3],
        "requests/s cannot be compared: p < 0.05 is impossible with 3 runs per level (at least 4 \
         per level are needed)",
    );
    sentence(
        "requests_per_sec",
        &base,
        &[],
        "requests/s was not measured on both sides",
    );
    sentence(
        "errors",
        &[0.0; 5],
        &[4.0, 9.0, 12.0, 5.0, 7.0],
        "new is worse than base: errors 7 after 0 (p = 0.008)",
    );
}

#[test]
fn small_uncertain_and_rate_limited_differences_have_their_own_sentences() {
    let base = around(1_000.0, 0.004);
    let compared = |new: &[f64], threshold| {
        let metric = Metric::named("requests_per_sec");
        let sides = [("a", &base[..]), ("b", new)];
        let [old, new] = sides.map(|(level, values)| runs(level, "requests_per_sec", values));
        comparison::sentence(&compare(&old, &new, &metric, threshold))
    };
    check(
        &compared(&around(1_019.0, 0.006), 0.02),
        "requests/s: undecided whether it matters: new is 1.9 % higher than base (95 % interval \
         1.6 to 2.2 %; up to 2 % does not matter)",
    );
    check(
        &compared(&around(1_022.0, 0.006), 0.02),
        "new beats base by 2.2 % in requests/s (95 % interval 1.9 to 2.6 %, partly within the 2 % \
         threshold)",
    );
    let at_rate = |level: &str, made: f64| {
        let mut runs = runs(level, "requests_per_sec", &around(made, 0.0005));
        for run in &mut runs {
            run.values.insert("rate".to_owned(), 1_000.0);
        }
        runs
    };
    let metric = Metric::named("requests_per_sec");
    let at_rates = |made: f64| {
        let (old, new) = (at_rate("a", 1_000.0), at_rate("b", made));
        comparison::sentence(&compare(&old, &new, &metric, 0.002))
    };
    check(
        &at_rates(995.0),
        "requests/s is not judged: the rate was fixed at 1,000/s and was kept",
    );
    check(
        &at_rates(900.0),
        "new is worse than base: requests/s is 10 % lower (95 % interval 9.97 to 10.03 %); the \
         fixed rate of 1,000/s was missed in 15 of 30 runs",
    );
}

/// A sweep of two levels, the second of which is 10 % faster; six runs of each, the first
/// `saturated` of them with a saturated load generator.
fn sweep_with_saturated(saturated: u32) -> Vec<Observation> {
    let cells = swept::cells_of_levels(&["4096", "8192"]);
    let responses = |cell: usize, position: u32| {
        (200.0 + 20.0 * cell as f64) * (1.0 + 0.002 * f64::from(position % 5))
    };
    let mut runs = swept::rounds(&cells, 6, responses);
    for run in &mut runs {
        let result = run.result.as_mut().expect("it was measured");
        result.generator.verdict = Verdict::Undisturbed;
        if run.run <= saturated {
            result.generator.verdict = Verdict::Saturated {
                percentiles: Vec::new(),
                symptoms: vec![finding(results::Symptom::RateMissed { due: 9, unsent: 2 })],
                remedy: "use more threads (-t)".to_owned(),
            };
        }
    }
    runs
}

/// The same, with connections that waited for the load generator for these shares of the time.
fn idle_for(shares: [f64; 2]) -> Vec<Observation> {
    let mut runs = sweep_with_saturated(6);
    for run in &mut runs {
        let share = shares[usize::from(run.settings[0].level == "8192")];
        let result = run.result.as_mut().expect("it was measured");
        let load = &result.plan.load;
        let in_flight = f64::from(load.connections) * f64::from(load.pipeline);
        let idle_ns = result.window.duration_ns as f64 * in_flight * share;
        result.recording.attribution.idle_ns = idle_ns as u64;
    }
    runs
}

#[test]
fn levels_that_the_load_generator_made_slower_alike_are_compared() {
    let better = "8192 beats 4096 by 10 % in requests/s";
    let alike = rendered(&idle_for([0.12, 0.15]));
    assert!(alike.contains(better), "{alike}");
    assert!(
        alike.contains(
            "with the load generator saturated alike at all levels (connections waited for it 12 \
             to 15 % of the time)"
        ),
        "{alike}"
    );
    for shares in [[0.12, 0.2], [0.4, 0.42], [0.0, 0.02]] {
        let text = rendered(&idle_for(shares));
        assert!(!text.contains(better), "{shares:?}: {text}");
        assert!(!text.contains("alike"), "{shares:?}: {text}");
    }
}

fn rendered(runs: &[Observation]) -> String {
    let options = CompareOptions {
        metrics: vec![Metric::named("requests/s")],
        ..CompareOptions::default()
    };
    let conclusions = compare_cells(runs, &options).expect("there are levels");
    let mut text = Vec::new();
    comparison::render(&conclusions, &mut text).expect("memory takes every write");
    String::from_utf8(text).expect("it is text")
}

#[test]
fn a_saturated_load_generator_is_reported_first_and_no_level_beats_another() {
    let text = rendered(&sweep_with_saturated(0));
    assert!(
        text.starts_with("rmem_max: 8192 beats 4096 by 10 % in requests/s ("),
        "{text}"
    );
    let text = rendered(&sweep_with_saturated(2));
    assert!(
        text.starts_with(
            "Load generator saturated in 4 of 12 runs\n\n\
             rmem_max: 8192 beats 4096 by 10 % in requests/s ("
        ),
        "{text}"
    );
    let text = rendered(&sweep_with_saturated(6));
    assert!(
        text.starts_with(
            "Load generator saturated in 12 of 12 runs: differences between levels may be \
             hidden\n\nrmem_max: 8192 differs from 4096: requests/s is 10 % higher, with the load \
             generator saturated (95 % interval "
        ),
        "{text}"
    );
    assert!(!text.contains("beats"), "{text}");
}

/// Notes on two servers, tested in two rounds from each place: requests/s of old and new.
fn notes(places: &[(&str, &[[f64; 2]])]) -> String {
    let mut text = String::from("Cache in front of Apache\n************************\n\n");
    for (place, rounds) in places {
        text += &format!("Run the tests from the {place}:\n{}\n", "=".repeat(30));
        for (round, rates) in ["first", "second"].iter().zip(*rounds) {
            text += &format!("\nWide test, {round} round:\n\n");
            for (server, rate) in ["old", "new"].iter().zip(rates) {
                let requests = (rate * 30.0).round();
                let latency_ms = 4_000.0 / rate * 10.0;
                text += &format!(
                    "Running 30s test @ http://[{server} server]:8080/list\n  4 threads and 40 \
                     connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency  \
                     {latency_ms:.2}ms   20.10ms 640.12ms   84.50%\n    Req/Sec   {:.2}     24.23   \
                     232.00     62.45%\n  {requests} requests in 30.02s, 20.98MB read\n\
                     Requests/sec:   {rate:.2}\nTransfer/sec:      2.09MB\n\n",
                    rate / 4.0
                );
            }
        }
    }
    text
}

/// The sentences about the servers of such notes.
fn sentences_on_servers(text: &str) -> Vec<String> {
    let path = std::path::Path::new("notes.txt");
    let reading = analysis::Reading::of_bytes(text.as_bytes(), path).expect("there are runs");
    let options = CompareOptions {
        metrics: vec![Metric::named("requests/s")],
        ..CompareOptions::default()
    };
    let conclusions = compare_cells(&reading.observations, &options).expect("there are targets");
    let all = conclusions.comparisons.iter();
    let of_servers = all.filter(|it| it.factor.as_deref() == Some("target"));
    of_servers.map(comparison::sentence).collect()
}

#[test]
fn places_that_disagree_have_a_sentence_each_and_cells_without_a_partner_are_named() {
    let office: &[[f64; 2]] = &[[534.6, 533.9], [534.2, 533.1]];
    let rack: &[[f64; 2]] = &[[2_209.0, 1_551.0], [2_206.0, 1_434.0]];
    let home: &[[f64; 2]] = &[[2_205.0, 1_554.0], [2_210.0, 1_556.0]];
    let apart = sentences_on_servers(&notes(&[
        ("office", office),
        ("rack", rack),
        ("home", home),
    ]));
    assert_eq!(apart.len(), 3, "{apart:#?}");
    assert!(
        apart[0].contains("office, target: requests/s: undecided")
            || apart[0].contains("office, target: requests/s is the same"),
        "{apart:#?}"
    );
    for (sentence, place) in apart[1..].iter().zip(["rack", "home"]) {
        assert!(
            sentence.contains(&format!(
                "{place}, target: new server is worse than old server"
            )),
            "{apart:#?}"
        );
        assert!(sentence.contains(" % lower ("), "{apart:#?}");
    }
    // From the office the new server was not tested.
    let alone = notes(&[("office", office), ("rack", rack), ("home", home)]);
    let (head, rest) = alone
        .split_once("Run the tests from the rack")
        .expect("it is there");
    let blocks = head.split("Running 30s test @ http://[new server]");
    let without: Vec<&str> = blocks
        .enumerate()
        .map(|(at, block)| match at {
            0 => block,
            _ => block.split_once("2.09MB\n").map_or("", |(_, rest)| rest),
        })
        .collect();
    let text = format!("{}Run the tests from the rack{rest}", without.concat());
    let found = sentences_on_servers(&text);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("new server is worse than old server"));
    assert!(
        found[0].ends_with("; not compared: Run the tests from the office (only old server)"),
        "{found:#?}"
    );
}

#[test]
fn a_side_that_fails_is_named_first_and_has_a_column() {
    let with_failures = |level: &str, middle: f64, failed: f64| {
        let mut runs = runs(level, "requests_per_sec", &around(middle, 0.01));
        for run in &mut runs {
            run.values.insert("requests".to_owned(), 1_000.0);
            run.values.insert("statuses_over_399".to_owned(), failed);
        }
        runs
    };
    let text = |failed: [f64; 2]| {
        let old = with_failures("a", 1_000.0, failed[0]);
        let new = with_failures("a", 3_900.0, failed[1]);
        let options = CompareOptions {
            metrics: vec![Metric::named("requests/s")],
            ..CompareOptions::default()
        };
        let named = |name, runs| Named { name, runs };
        let conclusions = compare_with_base(named("good", &old), named("bad", &new), &options)
            .expect("there are runs");
        let mut text = Vec::new();
        comparison::render(&conclusions, &mut text).expect("memory takes every write");
        String::from_utf8(text).expect("it is text")
    };
    let failed = text([0.0, 1_000.0]);
    assert!(
        failed.contains("\nbad failed 100 % of its requests: no comparison of requests/s\n"),
        "{failed}"
    );
    assert!(failed.contains("  runs  failed  median  "), "{failed}");
    assert!(!failed.contains("beats"), "{failed}");
    let both = text([30.0, 1_000.0]);
    assert!(
        both.contains("\ngood failed 3 % and bad 100 % of their requests: no comparison of "),
        "{both}"
    );
    let neither = text([0.0, 0.0]);
    assert!(
        neither.starts_with("bad beats good by 290 % in requests/s ("),
        "{neither}"
    );
    assert!(!neither.contains("failed"), "{neither}");
}

#[test]
fn a_wide_interval_is_undecided_and_small_effects_have_digits() {
    sentence(
        "latency_p99_us",
        &[1_000.0, 4_000.0, 500.0, 9_000.0, 2_000.0],
        &[2_000.0, 700.0, 8_000.0, 1_500.0, 3_000.0],
        "p99 latency: undecided (between -78 and +300 %; p = 1.00, 5 runs per level)",
    );
    let exact = |middle: f64| around(middle, 0.000_001);
    sentence(
        "requests_per_sec",
        &exact(1_000.0),
        &exact(1_000.04),
        "requests/s is the same within 2 % with base and new",
    );
    let metric = Metric::named("requests/s");
    let [old, new] = [1_000.0, 1_000.04].map(|it| runs("a", "requests_per_sec", &exact(it)));
    let small = comparison::sentence(&compare(&old, &new, &metric, 0.000_01));
    assert!(
        small.starts_with("new beats base by 0.004 % in requests/s (95 % interval 0.003"),
        "{small}"
    );
}

#[test]
fn runs_of_one_cell_have_their_limits_first() {
    let told = |saturated: u32| {
        let mut runs = sweep_with_saturated(saturated);
        runs.retain(|run| run.cell == Some(1));
        let mut text = Vec::new();
        comparison::render_one_cell(&runs, &mut text).expect("memory takes every write");
        String::from_utf8(text).expect("it is text")
    };
    assert!(!told(0).contains("saturated"));
    assert!(told(2).starts_with("Load generator saturated in 2 of 6 runs\n\n"));
}

#[test]
fn failures_and_clamped_levels_are_part_of_the_first_sentence() {
    let mut runs = sweep_with_saturated(6);
    runs[0].failure = Some("refused".to_owned());
    runs[1].failure = Some("ended early by Ctrl-C".to_owned());
    runs[1]
        .result
        .as_mut()
        .expect("it was measured")
        .window
        .interrupted = true;
    for run in &mut runs {
        run.values.insert("errors".to_owned(), 1e9);
        let trial = run.trial.as_mut().expect("it is of a sweep");
        trial
            .effective
            .insert("net.core.rmem_max".to_owned(), "2304".to_owned());
    }
    let text = rendered(&runs);
    check(
        text.lines().next().unwrap_or_default(),
        "Load generator saturated in 10 of 10 runs: differences between levels may be hidden; \
         1 of 12 runs failed and is excluded; 1 of 12 runs was ended early and is excluded; more \
         than 1 % of the requests failed in 10 of 10 runs; levels 4096 and 8192 of rmem_max are \
         the same setting: the kernel used net.core.rmem_max = 2304 for each",
    );
}

#[test]
fn every_format_with_conclusions_reports_a_saturated_load_generator_first() {
    let runs = sweep_with_saturated(6);
    let conclusions = compare_cells(&runs, &CompareOptions::default()).expect("there are levels");
    let export = Export {
        subject: report::page::PageSubject {
            observations: &runs,
            conclusions: Some(&conclusions),
            ..Default::default()
        },
        criteria: &[],
    };
    let told = "oad generator saturated in 12 of 12 runs: differences between levels may be hidden";
    for format in [
        ExportFormat::Html,
        ExportFormat::Markdown,
        ExportFormat::Json,
        ExportFormat::Github,
        ExportFormat::Junit,
    ] {
        let mut bytes = Vec::new();
        export::render(&export, format, &mut bytes).expect("memory takes every write");
        let text = String::from_utf8(bytes).expect("it is text");
        assert_eq!(text.matches(told).count(), 1, "{format:?}");
        let first = text.find(told).expect("it was found");
        let differs = text.find("8192 differs from 4096").unwrap_or(usize::MAX);
        assert!(first < differs, "{format:?}");
        assert!(!text.contains("beats"), "{format:?}");
    }
}

#[test]
fn sides_have_the_names_that_were_given() {
    let (old, new) = (
        runs("a", "requests_per_sec", &around(1_000.0, 0.01)),
        runs("a", "requests_per_sec", &around(1_100.0, 0.01)),
    );
    let named = |name, runs| Named { name, runs };
    let conclusions = compare_with_base(
        named("old.txt", &old),
        named("new.txt", &new),
        &CompareOptions::default(),
    )
    .expect("there are runs");
    let mut text = Vec::new();
    comparison::render(&conclusions, &mut text).expect("memory takes every write");
    check(
        &String::from_utf8(text).expect("it is text"),
        include_str!("golden/comparison_sides.txt"),
    );
}

/// Runs with requests of two names: how many responses those of the first name had in each run.
fn named_runs(answered: &[u64], names: [&str; 2]) -> Vec<Observation> {
    let of_run = |&answered: &u64| Observation {
        result: Some(Box::new(fixture::result(fixture::named(&[
            (names[0], answered),
            (names[1], 302),
        ])))),
        ..Observation::default()
    };
    answered.iter().map(of_run).collect()
}

#[test]
fn names_that_both_sides_have_are_compared_and_the_others_are_listed() {
    let old = named_runs(&[3_020, 3_050, 3_080, 3_110, 3_140], ["list", "buy"]);
    let new = named_runs(&[6_040, 6_100, 6_160, 6_220, 6_280], ["list", "sell\nall"]);
    let named = |name, runs| Named { name, runs };
    let (old, new) = (named("old", &old[..]), named("new", &new[..]));
    let names = compare_names(old, new, CompareOptions::THRESHOLD).expect("there are names");
    let conclusions = Conclusions {
        by_name: Some(names),
        ..Conclusions::default()
    };
    let mut text = Vec::new();
    comparison::render(&conclusions, &mut text).expect("memory takes every write");
    check(
        &String::from_utf8(text).expect("it is text"),
        include_str!("golden/comparison_names.txt"),
    );
}

#[test]
fn a_name_has_missed_the_fixed_rate_if_its_run_has() {
    for (due, is_missed) in [(3_000, true), (2_002, false)] {
        let mut result = fixture::result(fixture::named(&[("list", 1_000), ("buy", 1_000)]));
        result.recording.counters.due = due;
        result.plan.pacing = plan::Pacing::Constant {
            rate_per_sec: 1_000.0,
            arrivals: plan::Arrivals::Even,
            seed: 0,
        };
        let run = Observation {
            result: Some(Box::new(result)),
            ..Observation::default()
        };
        assert_eq!(run.has_missed_rate(), is_missed);
        for part in analysis::by_request_name(&[run]) {
            assert_eq!(part.has_missed_rate(), is_missed, "{:?}", part.settings);
        }
    }
}

#[test]
fn sides_without_names_are_not_compared_by_name() {
    let old = named_runs(&[1_000], ["list", "buy"]);
    let new = runs("a", "requests_per_sec", &[1_000.0]);
    let named = |name, runs| Named { name, runs };
    let error = compare_names(named("old", &old), named("new", &new), 0.02)
        .expect_err("one side has no names")
        .to_string();
    assert_eq!(error, "--by-name: requests have no names in new");
}

#[test]
fn a_single_run_next_to_several_is_named() {
    let cells = swept::cells_of_levels(&["4096", "8192"]);
    let mut runs = swept::rounds(&cells, 3, |cell, position| {
        200.0 + 20.0 * cell as f64 + f64::from(position)
    });
    let mut seen = 0;
    runs.retain(|run| {
        let is_second = run.cell == Some(2);
        seen += usize::from(is_second);
        !is_second || seen == 1
    });
    let text = rendered(&runs);
    assert!(text.contains("there is only 1 run of 8192"), "{text}");
    assert!(!text.contains("1 run per level"), "{text}");
}

#[test]
fn the_short_form_has_sentences_first_and_a_table_that_fits_a_terminal() {
    let brief = |levels: &[&str]| {
        let cells = swept::cells_of_levels(levels);
        let runs = swept::rounds(&cells, 6, |cell, position| {
            (200.0 + 20.0 * cell as f64) * (1.0 + 0.002 * f64::from(position % 5))
        });
        let conclusions =
            compare_cells(&runs, &CompareOptions::default()).expect("there are levels");
        let mut text = Vec::new();
        comparison::render_brief(&conclusions, &runs, &mut text).expect("memory takes every write");
        String::from_utf8(text).expect("it is text")
    };
    let text = brief(&["4096", "8192"]);
    assert!(text.starts_with("rmem_max: 8192 beats 4096 by "), "{text}");
    let table: Vec<&str> = text.lines().skip_while(|line| !line.is_empty()).collect();
    let words: Vec<&str> = table[1].split_whitespace().collect();
    assert_eq!(
        words,
        [
            "rmem_max",
            "n",
            "requests/s",
            "p50",
            "p99",
            "change",
            "in",
            "requests/s"
        ]
    );
    assert!(table[2].starts_with("4096      6  "), "{text}");
    assert!(table[3].contains("  +10 % ("), "{text}");
    assert_eq!(text.matches("change in").count(), 1, "{text}");
    let long = "a level with a name that is far longer than any terminal is wide, and then some \
                more of it";
    let text = brief(&["4096", long]);
    let table: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.is_empty())
        .take(4)
        .collect();
    assert!(
        table.iter().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(
        table[3].starts_with("a level with") && table[3].contains("...  6  "),
        "{text}"
    );
}

#[test]
fn runs_that_were_slow_at_first_are_a_note_with_the_warm_up_that_helps() {
    let sentence = |side: Option<&str>, runs, not_settled| {
        comparison::caveat_sentence(&Caveat::SlowAtFirst {
            side: side.map(str::to_owned),
            runs,
            of: 5,
            not_settled,
            warmup_s: 3,
        })
    };
    for (found, expected) in [
        (
            sentence(Some("base"), 3, 0),
            "base: 3 of 5 runs were slower in their first seconds (use --warmup 3s)",
        ),
        (
            sentence(None, 1, 1),
            "1 of 5 runs was slower in its first seconds and had not settled at the end (use \
             --warmup 3s)",
        ),
        (
            sentence(None, 4, 1),
            "4 of 5 runs were slower in their first seconds, and 1 of them had not settled at the \
             end (use --warmup 3s)",
        ),
    ] {
        assert_eq!(found, expected);
    }
}
