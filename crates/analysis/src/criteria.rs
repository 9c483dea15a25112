//! Runs checked against failure conditions.

use judging::{Criterion, Judgement};

use crate::Observation;

/// A run checked against one condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged<'a> {
    /// The run that was checked.
    pub run: &'a Observation,
    /// The condition that it was checked against.
    pub criterion: &'a Criterion,
    /// Whether the condition holds.
    pub judgement: Judgement,
}

impl Judged<'_> {
    /// One line if the run failed by the condition or cannot be judged.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        match (&self.run.result, &self.judgement) {
            (Some(result), _) => self.criterion.failure(result),
            (None, Judgement::Unknown { reason }) => {
                Some(format!("{} cannot be judged: {reason}", self.criterion))
            }
            (None, _) => None,
        }
    }
}

impl Judged<'_> {
    /// One line if the run passed by the condition.
    #[must_use]
    pub fn success(&self) -> Option<String> {
        self.criterion.success(self.run.result.as_deref()?)
    }
}

/// Checks each run against each condition: run by run, with conditions in their order. A run
/// without its saved result cannot be judged and counts as failed, since a check that was not made
/// must not pass.
#[must_use]
pub fn judge_all<'a>(
    observations: &'a [Observation],
    criteria: &'a [Criterion],
) -> Vec<Judged<'a>> {
    let pairs = observations
        .iter()
        .flat_map(|run| criteria.iter().map(move |criterion| (run, criterion)));
    pairs
        .map(|(run, criterion)| Judged {
            run,
            criterion,
            judgement: match (&run.result, &run.failure) {
                (Some(result), _) => criterion.judge(result),
                (None, Some(failure)) => Judgement::Unknown {
                    reason: format!("the run failed: {failure}"),
                },
                (None, None) => Judgement::Unknown {
                    reason: "only a saved result can be (--json)".to_owned(),
                },
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_its_result_cannot_be_judged_and_that_is_a_failure() {
        let criteria = Criterion::parse_list("p99>50ms,rps<3").unwrap();
        let text = Observation::default();
        let failed = Observation {
            failure: Some("connection refused".to_owned()),
            ..Observation::default()
        };
        let runs = [text, failed];
        let judged = judge_all(&runs, &criteria);
        let failures: Vec<String> = judged.iter().filter_map(Judged::failure).collect();
        assert_eq!(
            failures,
            [
                "p99>50ms cannot be judged: only a saved result can be (--json)",
                "rps<3 cannot be judged: only a saved result can be (--json)",
                "p99>50ms cannot be judged: the run failed: connection refused",
                "rps<3 cannot be judged: the run failed: connection refused",
            ]
        );
    }
}
