//! Charts with every mark, scale and unit, and those that must not break.

use presentation::{Axis, Block, Chart, Height, Mark, Marks, Scale, Section, Side, Unit};

use super::{axis, section};

/// Numbers that look like noise and are the same each time, 0 to 1.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(u32::MAX >> 1)
    }
}

/// Requests/s with percentiles and errors on the same axis, and strips of the same time below.
pub(super) fn over_time() -> Section {
    let mut random = noise(7);
    let seconds: Vec<f64> = (0..60).map(f64::from).collect();
    let mut series = |mark, side, name: &str, color, base: f64, spread: f64| Marks {
        name: name.to_owned(),
        mark,
        side,
        x: seconds.clone(),
        y: seconds
            .iter()
            .map(|&at| (!(30.0..33.0).contains(&at)).then(|| base + spread * (random() - 0.5)))
            .collect(),
        color,
        ..Marks::default()
    };
    let mut rate = series(Mark::Step, Side::Left, "requests/s", 0, 164_000.0, 9_000.0);
    rate.labels = (0..60).map(|at| format!("second {at}")).collect();
    let p50 = series(Mark::Line, Side::Right, "p50", 2, 390.0, 40.0);
    let p99 = series(Mark::Line, Side::Right, "p99", 1, 1240.0, 500.0);
    let errors = Marks {
        name: "errors".to_owned(),
        mark: Mark::Bars,
        x: vec![12.0, 13.0, 41.0],
        y: vec![Some(12_000.0), Some(45_000.0), Some(3_000.0)],
        color: 3,
        ..Marks::default()
    };
    let rtt = series(Mark::Line, Side::Left, "median", 0, 210.0, 30.0);
    let band = Marks {
        name: "5 % to 95 %".to_owned(),
        mark: Mark::Band,
        x: rtt.x.clone(),
        low: rtt.y.iter().map(|y| y.map(|y| y - 60.0)).collect(),
        high: rtt.y.iter().map(|y| y.map(|y| y + 140.0)).collect(),
        color: 0,
        ..Marks::default()
    };
    let cwnd = series(Mark::Step, Side::Left, "cwnd", 2, 18.0, 10.0);
    let idle = Marks {
        name: "idle".to_owned(),
        mark: Mark::Span,
        x: vec![8.0, 30.0],
        y: vec![None; 2],
        until: vec![8.1, 33.0],
        heights: vec![1.0, 0.4],
        labels: vec!["for 100ms".to_owned(), "for 3s".to_owned()],
        color: 4,
        ..Marks::default()
    };
    let time = || axis("time", Unit::Seconds, Scale::Linear);
    let strip = |id: &str, title: &str, y: Axis, marks: Vec<Marks>| Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        description: format!("{title} over 60 seconds."),
        x: time(),
        y,
        marks,
        height: Height::Low,
        group: Some("time".to_owned()),
        ..Chart::default()
    };
    section(
        "time",
        "Over time",
        "One value for each second; nothing was recorded from 30 to 33 s.",
        vec![
            Block::Charts {
                charts: vec![Chart {
                    id: "rate".to_owned(),
                    title: "Requests per second, latency and errors".to_owned(),
                    description: "About 164,000 requests per second, p50 390us, p99 1.2ms."
                        .to_owned(),
                    x: time(),
                    y: Axis {
                        from_zero: true,
                        ..axis("requests/s", Unit::RequestsPerSec, Scale::Linear)
                    },
                    y_right: Some(axis("latency", Unit::Microseconds, Scale::Log)),
                    marks: vec![errors, rate, p50, p99],
                    height: Height::Tall,
                    group: Some("time".to_owned()),
                }],
            },
            Block::Charts {
                charts: vec![
                    strip(
                        "rtt",
                        "Round-trip time",
                        axis("rtt", Unit::Microseconds, Scale::Linear),
                        vec![band, rtt],
                    ),
                    strip(
                        "cwnd",
                        "Congestion window",
                        axis("cwnd", Unit::Segments, Scale::Linear),
                        vec![idle, cwnd],
                    ),
                ],
            },
        ],
    )
}

/// Latency by percentile, and how often which.
pub(super) fn distributions() -> Section {
    let percents: Vec<f64> = (0..40)
        .map(|step| 100.0 * (1.0 - 10f64.powf(-f64::from(step) / 8.0)))
        .chain([100.0])
        .collect();
    let curve = |name: &str, color, base: f64, power: f64| Marks {
        name: name.to_owned(),
        x: percents.clone(),
        y: percents
            .iter()
            .map(|&percent| {
                let nines = if percent < 100.0 {
                    -(1.0 - percent / 100.0).log10()
                } else {
                    5.4
                };
                Some(base * (1.0 + nines.powf(power)))
            })
            .collect(),
        color,
        ..Marks::default()
    };
    let mut service = curve("service time", 2, 250.0, 2.1);
    service.is_dashed = true;
    let edges: Vec<f64> = (0..60).map(|step| 100.0 * 1.08f64.powi(step)).collect();
    let area = Marks {
        name: "responses".to_owned(),
        mark: Mark::Area,
        y: edges
            .iter()
            .map(|&edge| Some((1e5 * (-((edge / 400.0).ln() * 1.6).powi(2)).exp()).round()))
            .collect(),
        x: edges,
        color: 0,
        ..Marks::default()
    };
    let runs = (0..9).map(|run| {
        curve(
            &format!("run {}", run + 1),
            run,
            200.0 + 25.0 * run as f64,
            2.0,
        )
    });
    section(
        "latency",
        "Latency",
        "",
        vec![Block::Charts {
            charts: vec![
                Chart {
                    id: "percentiles".to_owned(),
                    title: "Latency by percentile".to_owned(),
                    description: "Response time rises from 300us at p50 to 10ms at p99.999."
                        .to_owned(),
                    x: axis("percentile", Unit::Percent, Scale::Nines),
                    y: axis("latency", Unit::Microseconds, Scale::Log),
                    marks: vec![service, curve("response time", 0, 300.0, 2.2)],
                    ..Chart::default()
                },
                Chart {
                    id: "distribution".to_owned(),
                    title: "Distribution of latency".to_owned(),
                    description: "Most responses took 400us.".to_owned(),
                    x: axis("latency", Unit::Microseconds, Scale::Log),
                    y: axis("responses", Unit::Count, Scale::Linear),
                    marks: vec![area],
                    ..Chart::default()
                },
                Chart {
                    id: "overlay".to_owned(),
                    title: "Nine runs, one more than there are colours".to_owned(),
                    description: "Nine curves that rise alike.".to_owned(),
                    x: axis("percentile", Unit::Percent, Scale::Nines),
                    y: axis("latency", Unit::Microseconds, Scale::Linear),
                    marks: runs.collect(),
                    height: Height::Tall,
                    ..Chart::default()
                },
            ],
        }],
    )
}

/// Runs as dots per level with interval; effects in percent; bytes.
pub(super) fn levels() -> Section {
    let names: Vec<String> = (16..23)
        .map(|power| format!("{} KB", (1 << power) / 1024))
        .collect();
    let mut random = noise(3);
    let mut dots = Marks {
        name: "runs".to_owned(),
        mark: Mark::Dots,
        color: 0,
        is_faint: true,
        ..Marks::default()
    };
    let mut medians = Marks {
        name: "median and interval".to_owned(),
        mark: Mark::Interval,
        color: 1,
        ..Marks::default()
    };
    for level in 0..names.len() {
        let center = 31_000.0 + 400.0 * random();
        for round in 0..5 {
            dots.x.push(level as f64 - 0.15);
            dots.y.push(Some(center + 2_000.0 * (random() - 0.5)));
            dots.labels.push(format!(
                "round {}, {} of 35 runs",
                round + 1,
                level * 5 + round + 1
            ));
        }
        medians.x.push(level as f64 + 0.15);
        medians.y.push(Some(center));
        medians.low.push(Some(center - 900.0));
        medians.high.push(Some(center + 700.0));
    }
    let effects = Marks {
        name: "against 64 KB".to_owned(),
        mark: Mark::Interval,
        x: (1..7).map(f64::from).collect(),
        y: (1..7).map(|at| Some(f64::from(at) * 0.6 - 2.0)).collect(),
        low: (1..7).map(|at| Some(f64::from(at) * 0.6 - 5.0)).collect(),
        high: (1..7)
            .map(|at| (at != 3).then_some(f64::from(at) * 0.6 + 1.5))
            .collect(),
        color: 2,
        ..Marks::default()
    };
    // Its last point lies to the left of the one before.
    let path = Marks {
        mark: Mark::Path,
        x: vec![90.0, 170.0, 300.0, 420.0, 400.0],
        y: [51.0, 52.0, 58.0, 90.0, 180.0]
            .map(|ms| Some(ms * 1e3))
            .to_vec(),
        low: [50.0, 51.0, 55.0, 80.0, 150.0]
            .map(|ms| Some(ms * 1e3))
            .to_vec(),
        high: [53.0, 54.0, 61.0, 99.0, 240.0]
            .map(|ms| Some(ms * 1e3))
            .to_vec(),
        labels: (0..5)
            .map(|at| format!("connections {}", 1 << at))
            .collect(),
        texts: (0..5).map(|at| (1 << at).to_string()).collect(),
        name: "first token".to_owned(),
        color: 3,
        ..Marks::default()
    };
    let path = Chart {
        id: "path".to_owned(),
        title: "First token over tokens per second".to_owned(),
        description: "It grows from 51 ms to 180 ms.".to_owned(),
        x: axis("tokens/s", Unit::Number, Scale::Linear),
        y: axis("first token", Unit::Microseconds, Scale::Linear),
        marks: vec![path],
        ..Chart::default()
    };
    let kinds = ["connect", "read", "timeout", "reset"];
    let bars = |name: &str, color, values: [f64; 4]| Marks {
        name: name.to_owned(),
        mark: Mark::Bars,
        x: vec![0.0, 1.0, 2.0, 3.0],
        y: values.map(Some).to_vec(),
        color,
        ..Marks::default()
    };
    let chart = |id: &str, title: &str, names: Vec<String>, y: Axis, marks: Vec<Marks>| Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        description: format!("{title}, for each of {} names.", names.len()),
        x: axis("", Unit::Number, Scale::Names(names)),
        y,
        marks,
        ..Chart::default()
    };
    section(
        "levels",
        "Levels",
        "Every run is a dot; the median has its 95 % interval.",
        vec![Block::Charts {
            charts: vec![
                chart(
                    "dots",
                    "Requests per second",
                    names.clone(),
                    axis("requests/s", Unit::RequestsPerSec, Scale::Linear),
                    vec![dots, medians],
                ),
                chart(
                    "effects",
                    "Change of requests per second",
                    names,
                    axis("change", Unit::ChangePercent, Scale::Linear),
                    vec![effects],
                ),
                path,
                chart(
                    "errors",
                    "Errors by kind",
                    kinds.map(str::to_owned).to_vec(),
                    axis("requests", Unit::Count, Scale::Linear),
                    vec![
                        bars("base", 0, [3.0, 0.0, 41.0, 7.0]),
                        bars("new", 1, [2.0, 5.0, 12.0, 30.0]),
                    ],
                ),
                chart(
                    "long-names",
                    "Bytes received, names that are long",
                    (0..24)
                        .map(|at| format!("net.core.rmem_max={} and more {at}", 65_536 << (at % 5)))
                        .collect(),
                    axis("received", Unit::BytesPerSec, Scale::Linear),
                    vec![Marks {
                        name: "received".to_owned(),
                        mark: Mark::Bars,
                        x: (0..24).map(f64::from).collect(),
                        y: (0..24).map(|at| Some(1e8 + 4e6 * f64::from(at))).collect(),
                        color: 5,
                        ..Marks::default()
                    }],
                ),
            ],
        }],
    )
}

/// Nothing measured, one point, zeros on a logarithmic axis, one value many times, thousands of
/// points.
pub(super) fn odd_charts() -> Section {
    let chart = |id: &str, title: &str, y: Axis, marks: Vec<Marks>| Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        description: title.to_owned(),
        x: axis("time", Unit::Seconds, Scale::Linear),
        y,
        marks,
        ..Chart::default()
    };
    let line = |name: &str, x: Vec<f64>, y: Vec<Option<f64>>| Marks {
        name: name.to_owned(),
        x,
        y,
        ..Marks::default()
    };
    let mut random = noise(11);
    let many: Vec<f64> = (0..5_000).map(f64::from).collect();
    section(
        "odd",
        "What must not break",
        "",
        vec![Block::Charts {
            charts: vec![
                chart("no-marks", "No marks", Axis::default(), vec![]),
                chart(
                    "all-unknown",
                    "Only unknown values",
                    axis("rtt", Unit::Microseconds, Scale::Linear),
                    vec![line("rtt", vec![1.0, 2.0], vec![None, None])],
                ),
                chart(
                    "one-point",
                    "One point",
                    axis("rate", Unit::RequestsPerSec, Scale::Linear),
                    vec![line("rate", vec![3.0], vec![Some(1_234_567.0)])],
                ),
                chart(
                    "zeros",
                    "Zeros on a logarithmic axis",
                    axis("latency", Unit::Microseconds, Scale::Log),
                    vec![line(
                        "latency",
                        vec![0.0, 1.0, 2.0, 3.0],
                        vec![Some(0.0), Some(-5.0), Some(250.0), Some(260.0)],
                    )],
                ),
                chart(
                    "level",
                    "The same value again and again",
                    axis("retransmits", Unit::Count, Scale::Linear),
                    vec![line("retransmits", vec![0.0, 1.0, 2.0], vec![Some(0.0); 3])],
                ),
                chart(
                    "many",
                    "Five thousand points over more than an hour",
                    axis("delivery rate", Unit::Bytes, Scale::Linear),
                    vec![line(
                        "rate",
                        many.clone(),
                        many.iter().map(|_| Some(6e6 * random())).collect(),
                    )],
                ),
            ],
        }],
    )
}
