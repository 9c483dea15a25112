//! Parses the totals of a report in the style of wrk, or of h2load.

use anyhow::{Context, bail};

/// The totals of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Totals {
    /// Number of requests that were answered.
    pub(crate) requests: u64,
    /// Requests per second as printed.
    pub(crate) requests_per_sec: f64,
    /// The lines about errors.
    pub(crate) errors: Vec<String>,
}

/// Parses `<n> requests in ...`, `Requests/sec:` and the error lines.
///
/// # Errors
/// When one of these is missing, or no request was answered.
pub(crate) fn parse(text: &str) -> anyhow::Result<Totals> {
    if let Some(totals) = parse_h2load(text) {
        return Ok(totals);
    }
    let requests = text
        .lines()
        .find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok())
        .context("the report has no line \"<n> requests in ...\"")?;
    let requests_per_sec = text
        .lines()
        .find_map(|line| {
            line.strip_prefix("Requests/sec:")?
                .trim()
                .parse::<f64>()
                .ok()
        })
        .filter(|rate| rate.is_finite())
        .context("the report has no line \"Requests/sec:\"")?;
    if requests == 0 {
        bail!("not a single request was answered");
    }
    let errors = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("Socket errors:") || line.starts_with("Non-2xx"))
        .map(ToOwned::to_owned)
        .collect();
    Ok(Totals {
        requests,
        requests_per_sec,
        errors,
    })
}

/// The lines `finished in 1.00s, 75584.00 req/s, ...` and `requests: ... 75584 succeeded, 0 failed,
/// 0 errored, 0 timeout` of h2load. `None` without them or without a response.
fn parse_h2load(text: &str) -> Option<Totals> {
    let line = |start| text.lines().find_map(|line| line.strip_prefix(start));
    let rate = line("finished in ")?.split_once(" req/s")?.0;
    let requests = line("requests: ")?;
    let count = |name| -> Option<u64> {
        let (number, _) = requests
            .split(", ")
            .filter_map(|part| part.split_once(' '))
            .find(|(_, word)| *word == name)?;
        number.parse().ok()
    };
    let failed = count("failed")? + count("errored")? + count("timeout")?;
    Some(Totals {
        requests: count("succeeded").filter(|requests| *requests > 0)?,
        requests_per_sec: rate.rsplit_once(' ')?.1.parse().ok()?,
        errors: (failed > 0)
            .then(|| format!("requests: {requests}"))
            .into_iter()
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_of_h2load_are_read() {
        let report = |failed| {
            format!(
                "starting benchmark...\n\nfinished in 1.00s, 75584.00 req/s, 6.63MB/s\nrequests: \
                 75584 total, 75904 started, 75584 done, 75580 succeeded, {failed} failed, 0 \
                 errored, 0 timeout\nstatus codes: 75584 2xx, 0 3xx, 0 4xx, 0 5xx\n"
            )
        };
        let totals = parse(&report(0)).unwrap();
        assert_eq!(totals.requests, 75_580);
        assert!((totals.requests_per_sec - 75_584.0).abs() < 1e-9);
        assert_eq!(totals.errors, Vec::<String>::new());
        let errors = parse(&report(4)).unwrap().errors;
        assert!(errors[0].contains("4 failed"), "{errors:?}");
        assert!(parse(&report(0).replace("75580", "0")).is_err());
    }

    const REPORT: &str = "Running 3s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     0.99ms    1.64ms  \
        17.09ms   87.20%\n  82644 requests in 3.02s, 11.82MB read\n  Socket errors: connect 0, \
        read 4, write 1, timeout 0\nRequests/sec:  27388.07\nTransfer/sec:      3.92MB\n";

    #[test]
    fn totals_and_errors_are_read() {
        let totals = parse(REPORT).unwrap();
        assert_eq!(totals.requests, 82_644);
        assert!((totals.requests_per_sec - 27_388.07).abs() < 1e-9);
        assert_eq!(
            totals.errors,
            ["Socket errors: connect 0, read 4, write 1, timeout 0"]
        );
    }

    #[test]
    fn a_report_cut_anywhere_is_read_or_refused_without_panic() {
        for end in 0..REPORT.len() {
            if let Ok(totals) = parse(&REPORT[..end]) {
                assert_eq!(totals.requests, 82_644);
            }
        }
    }

    #[test]
    fn a_run_without_a_response_is_an_error() {
        let text = "  0 requests in 2.01s, 0.00B read\nRequests/sec:      0.00\n";
        assert!(
            parse(text)
                .unwrap_err()
                .to_string()
                .contains("not a single request")
        );
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        assert!(parse("  5 requests in 1.00s, 0.00B read\nRequests/sec:      -nan\n").is_err());
        assert!(parse("  x requests in 1.00s\nRequests/sec:      1.00\n").is_err());
        assert!(parse("").is_err());
    }
}
