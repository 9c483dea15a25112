//! A comparison of runs that measured a warm-up says so.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;

use analysis::Observation;
use analysis::compare::{Caveat, CompareOptions, Named, compare_with_base};
use results::{Finding, RunResult, SlowStart, Warning, metric};

fn start(first_ms: u64) -> SlowStart {
    SlowStart {
        first_ms,
        first_responses: 500,
        rest_ms: 10_000 - first_ms,
        rest_responses: 10_000,
        first_due: None,
        warmup_ms: 0,
    }
}

fn runs(side: &str, warnings: [Option<Warning>; 4]) -> Vec<Observation> {
    let finding = |data: Warning| Finding {
        text: String::new(),
        data,
    };
    let run = |(number, warning): (u32, Option<Warning>)| {
        let result = RunResult {
            warnings: warning.map(finding).into_iter().collect(),
            ..fixture::result(fixture::recording(3_000))
        };
        Observation {
            source: format!("{side}-{number}.json"),
            run: number,
            values: metric::values(&result),
            result: Some(Box::new(result)),
            ..Observation::default()
        }
    };
    (1..).zip(warnings).map(run).collect()
}

#[test]
fn runs_that_were_slow_at_first_are_counted_with_the_warm_up_that_all_of_them_need() {
    let other = || Some(Warning::NothingAnswered { sent: 0 });
    let base = runs("base", [None, other(), None, None]);
    let new = runs(
        "new",
        [
            Some(Warning::SlowAtFirst(start(3_000))),
            None,
            Some(Warning::NotSettled(start(7_500))),
            other(),
        ],
    );
    let named = |name, runs| Named { name, runs };
    let conclusions = compare_with_base(
        named("base", &base),
        named("new", &new),
        &CompareOptions::default(),
    );
    let caveats = conclusions.expect("they are alike").caveats;
    assert_eq!(
        caveats,
        [Caveat::SlowAtFirst {
            side: Some("new".to_owned()),
            runs: 2,
            of: 4,
            not_settled: 1,
            warmup_s: 8,
        }]
    );
}
