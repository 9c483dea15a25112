//! Why the slowest requests were slow: parts of latencies that the server was told to have.

use anyhow::Context;
use results::parts::breakdown::{LatencyComponent, Slowest};

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;
use crate::truth::run_report::RunReport;

/// Allowed difference of a share, in points.
const POINTS: Tolerance = Tolerance::Within(5.0);

/// What the slow requests of a run ask for, beside fast ones of 1 ms, and the shares of their
/// latency in percent.
struct Planted {
    label: &'static str,
    recipe: &'static str,
    shares: &'static [(LatencyComponent, f64)],
}

const PLANTED: [Planted; 4] = [
    Planted {
        label: "the server",
        recipe: "delay=60ms&header=Server-Timing:total;dur=60",
        shares: &[
            (LatencyComponent::Server, 100.0),
            (LatencyComponent::BeforeServer, 0.0),
        ],
    },
    Planted {
        label: "before the server",
        recipe: "delay=60ms&header=Server-Timing:total;dur=15",
        shares: &[
            (LatencyComponent::Server, 25.0),
            (LatencyComponent::BeforeServer, 75.0),
        ],
    },
    Planted {
        label: "three parts",
        recipe: "delay=40ms&tail=20ms&size=10&header=Server-Timing:total;dur=30",
        shares: &[
            (LatencyComponent::Server, 50.0),
            (LatencyComponent::BeforeServer, 100.0 / 6.0),
            (LatencyComponent::Body, 100.0 / 3.0),
        ],
    },
    Planted {
        label: "not stated",
        recipe: "delay=60ms",
        shares: &[
            (LatencyComponent::Unexplained, 100.0),
            (LatencyComponent::Server, 0.0),
        ],
    },
];

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for planted in &PLANTED {
        let file = lab.write("slowest.jsonl", &requests(planted.recipe))?;
        for options in ["-c8", "-c16 -R400 --http2 -m4"] {
            let options = format!(
                "-t1 {options} -d10s --server-timing --order random --seed 1 --request-file {}",
                file.display()
            );
            let (ours, _) =
                lab.observe(case, "", |origin| lab.ours(&options, &origin.url("/"), 10))?;
            let slowest = slowest(&ours)?;
            for (part, percent) in planted.shares {
                let what = format!("{}: {part}", planted.label);
                let seen = share(&slowest, *part);
                case.ours(
                    what,
                    Figure::Plain(*percent),
                    POINTS,
                    Some(Figure::Plain(seen)),
                );
            }
        }
    }
    queue(lab, case)
}

/// 2 % of the requests are slow.
fn requests(slow: &str) -> String {
    let line =
        |recipe: &str, weight: u32| format!("{{\"path\":\"/?{recipe}\",\"weight\":{weight}}}\n");
    let fast = if slow.contains("Server-Timing") {
        "delay=1ms&header=Server-Timing:total;dur=1"
    } else {
        "delay=1ms"
    };
    line(fast, 98) + &line(slow, 2)
}

/// Poisson arrivals at a server that takes 1 ms for each request: all else is its queue.
fn queue(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let server = "--queue --answer delay=1ms&header=Server-Timing:total;dur=1";
    let options = "-t1 -c256 -d20s -R800 --arrivals poisson --seed 1 --server-timing";
    let (ours, log) = lab.observe(case, server, |origin| {
        lab.ours(options, &origin.url("/"), 20)
    })?;
    let slowest = slowest(&ours)?;
    let sojourns_ms = stats::sorted(&log.sojourns_ms());
    let of_slowest = sojourns_ms.iter().rev().take(slowest.requests as usize);
    let mean_ms = of_slowest.sum::<f64>() / slowest.requests.max(1) as f64;
    let in_server = 100.0 / mean_ms;
    for (part, percent) in [
        (LatencyComponent::Server, in_server),
        (LatencyComponent::BeforeServer, 100.0 - in_server),
    ] {
        // What the load generator caused is not in the server's log.
        let of_server = 100.0 - share(&slowest, LatencyComponent::Generator);
        let seen = Figure::Plain(share(&slowest, part) / of_server * 100.0);
        let what = format!("a queue, by the server's log: {part}");
        case.ours(what, Figure::Plain(percent), POINTS, Some(seen));
    }
    Ok(())
}

fn slowest(ours: &RunReport) -> anyhow::Result<Slowest> {
    let breakdown = ours.recording().parts.breakdown.as_ref();
    let breakdown = breakdown.context("the document has no breakdown")?;
    Slowest::of(breakdown).context("the breakdown has no requests")
}

/// The share of a part in the latency of the slowest requests, in percent.
fn share(slowest: &Slowest, part: LatencyComponent) -> f64 {
    let parts = slowest.parts.iter().filter(|it| it.part == part);
    parts.map(|it| it.slowest_us).sum::<f64>() / slowest.mean_us * 100.0
}
