//! Any text as the value of an option: an accepted value is in range, exact, and survives being
//! printed and parsed again; a refusal is one line.

#![no_main]

#[path = "../given.rs"]
mod given;

use std::fmt::Display;
use std::time::Duration;

use judging::Criterion;
use libfuzzer_sys::fuzz_target;
use plan::units::{parse_count, parse_count_u32, parse_rate, parse_stages, parse_time, time};
use plan::{
    Arrivals, Load, MAX_RATE_PER_SEC, MIN_RATE_PER_SEC, Pacing, ProxySpec, RequestSpec, RunPlan,
    SourceRange, parse_headers,
};

fuzz_target!(|text: &str| {
    counts(text);
    times(text);
    rates(text);
    stages(text);
    sources(text);
    proxies(text);
    headers(text);
    criteria(text);
});

fn counts(text: &str) {
    let count = read(parse_count(text));
    assert_eq!(
        read(parse_count_u32(text)),
        count.and_then(|count| u32::try_from(count).ok())
    );
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits {
        assert_eq!(count, text.parse().ok(), "plain digits mean themselves");
    }
}

fn times(text: &str) {
    if let Some(duration) = read(parse_time(text)) {
        assert!(duration.as_nanos() <= u128::from(u64::MAX));
        assert_eq!(parse_time(&time(duration)), Ok(duration));
    }
}

fn rates(text: &str) {
    let Some(rate_per_sec) = read(parse_rate(text)) else {
        return;
    };
    assert!((MIN_RATE_PER_SEC..=MAX_RATE_PER_SEC).contains(&rate_per_sec));
    runs(Pacing::Constant {
        rate_per_sec,
        arrivals: Arrivals::Even,
        seed: 0,
    });
    // A count that is a rate as well means the same number.
    if let Ok(count) = parse_count(text) {
        assert_eq!(rate_per_sec, count as f64);
    }
}

fn stages(text: &str) {
    let Some(stages) = read(parse_stages(text)) else {
        return;
    };
    let total = stages
        .iter()
        .try_fold(Duration::ZERO, |sum, stage| sum.checked_add(stage.duration));
    assert!(total.is_some_and(|total| total.as_nanos() <= u128::from(u64::MAX)));
    assert_eq!(stages.len(), text.split(',').count());
    runs(Pacing::Stages {
        stages,
        arrivals: Arrivals::Poisson,
        seed: 1,
    });
}

fn runs(pacing: Pacing) {
    let plan = RunPlan {
        pacing,
        ..given::plan()
    };
    assert_eq!(plan.check(), Ok(()));
}

fn sources(text: &str) {
    let Some(range) = read(SourceRange::parse(text)) else {
        return;
    };
    let written = range.to_string();
    assert_eq!(SourceRange::parse(&written), Ok(range), "{written}");
    assert_eq!(
        range.nth(range.len()),
        range.first_host(),
        "round and round"
    );
    let last = range.nth(range.len() - 1);
    assert!(range.first_host() <= last);
    // Every address of a range makes the same range.
    let prefix = text.find('/').map_or("", |at| &text[at..]);
    for host in [range.first_host(), last, range.nth(u128::MAX)] {
        assert_eq!(SourceRange::parse(&format!("{host}{prefix}")), Ok(range));
    }
    let plan = RunPlan {
        load: Load {
            source: Some(range),
            ..Load::default()
        },
        ..given::plan()
    };
    assert_eq!(plan.check(), Ok(()));
}

fn proxies(text: &str) {
    if let Some(proxy) = read(ProxySpec::parse(text)) {
        let again = ProxySpec::parse(&proxy.url());
        assert_eq!(
            again,
            Ok(ProxySpec {
                user: None,
                ..proxy
            })
        );
    }
}

fn headers(text: &str) {
    let Some(headers) = read(parse_headers(text)) else {
        return;
    };
    for (name, value) in &headers {
        let written = format!("{name}: {value}");
        assert_eq!(
            parse_headers(&written),
            Ok(vec![(name.clone(), value.clone())])
        );
    }
    let plan = RunPlan {
        request: RequestSpec {
            headers,
            ..RequestSpec::default()
        },
        ..given::plan()
    };
    assert_eq!(plan.check(), Ok(()));
}

fn criteria(text: &str) {
    for criterion in read(Criterion::parse_list(text)).unwrap_or_default() {
        let written = criterion.to_string();
        given::one_line(&written);
        assert_eq!(Criterion::parse_list(&written), Ok(vec![criterion]));
    }
}

/// The value. The message of a refusal is checked.
fn read<T, E: Display>(result: Result<T, E>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            given::one_line(&error.to_string());
            None
        }
    }
}
