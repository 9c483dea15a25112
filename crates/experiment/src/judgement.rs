//! How the results of saved experiments are judged.

use std::path::Path;

use results::{Experiment, Metric, Stopping};

use crate::Spec;

/// The threshold set by the experiments: the smallest relative difference that matters. `None` if
/// they set none, or different ones.
#[must_use]
pub fn common_threshold<'a>(experiments: impl IntoIterator<Item = &'a Experiment>) -> Option<f64> {
    common(experiments, |of| of.threshold)
}

/// The metrics that the experiments are judged by. Empty, for the usual ones, if they name none or
/// different ones.
#[must_use]
pub fn common_judge<'a>(experiments: impl IntoIterator<Item = &'a Experiment>) -> Vec<Metric> {
    common(experiments, |of| of.judge).unwrap_or_default()
}

/// What all experiments set alike.
fn common<'a, T: PartialEq>(
    experiments: impl IntoIterator<Item = &'a Experiment>,
    set: impl Fn(Judgement) -> Option<T>,
) -> Option<T> {
    let of = |experiment| set(Judgement::of_saved(experiment));
    let mut all = experiments.into_iter().map(of);
    let first = all.next()??;
    all.all(|other| other.as_ref() == Some(&first))
        .then_some(first)
}

/// How an experiment is judged, and when it ends. A field is `None` if nothing sets it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// Differences up to this share do not matter.
    pub threshold: Option<f64>,
    /// The metrics that are judged.
    pub judge: Option<Vec<Metric>>,
    /// When the experiment ends before its last round.
    pub until: Option<Stopping>,
}

impl Judgement {
    pub(crate) fn of_file(spec: &Spec) -> Self {
        Self {
            threshold: spec.threshold,
            judge: (!spec.judge.is_empty()).then(|| spec.judge.clone()),
            until: spec.until,
        }
    }

    fn of_saved_file(experiment: &Experiment) -> Self {
        let spec = Spec::parse(&experiment.plan_toml, Path::new(&experiment.name));
        spec.map_or_else(|_| Self::default(), |spec| Self::of_file(&spec))
    }

    /// The judgement that the experiment was saved with; what that leaves open is taken from its
    /// file.
    fn of_saved(experiment: &Experiment) -> Self {
        let metrics = || experiment.judge.iter().map(|name| Metric::named(name));
        Self {
            threshold: experiment.threshold,
            judge: (!experiment.judge.is_empty()).then(|| metrics().collect()),
            until: experiment.stopping,
        }
        .or(Self::of_saved_file(experiment))
    }

    /// How an experiment is judged when it is resumed: as its file says now if that was edited,
    /// else as before.
    pub(crate) fn resumed(file: Self, saved: &Experiment) -> Self {
        let before = Self::of_saved_file(saved);
        let edited = Self {
            threshold: file
                .threshold
                .filter(|_| file.threshold != before.threshold),
            judge: file.judge.clone().filter(|_| file.judge != before.judge),
            until: file.until.filter(|_| file.until != before.until),
        };
        edited.or(Self::of_saved(saved)).or(file)
    }

    /// Fills what is `None` here with what `other` has.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            threshold: self.threshold.or(other.threshold),
            judge: self.judge.or(other.judge),
            until: self.until.or(other.until),
        }
    }
}

#[cfg(test)]
mod tests {
    use results::{EXPERIMENT_SCHEMA_VERSION, Order};

    use super::*;

    fn sweep(threshold: &str) -> Experiment {
        Experiment {
            schema_version: EXPERIMENT_SCHEMA_VERSION,
            name: "s".to_owned(),
            plan_toml: format!(
                "name = \"s\"\nrounds = 4\n{threshold}\n\
                 [[target]]\nname = \"a\"\nurl = \"http://127.0.0.1/\"\n\
                 [load]\nduration = \"1s\"\n"
            ),
            seed: 1,
            order: Order::Shuffled,
            rounds: 4,
            stopping: None,
            threshold: None,
            judge: Vec::new(),
            slo: None,
            cells: Vec::new(),
            started_at: None,
        }
    }

    #[test]
    fn a_threshold_counts_only_if_all_experiments_agree_on_it() {
        let five = || sweep("threshold = \"5%\"");
        assert_eq!(common_threshold(&[five()]), Some(0.05));
        assert_eq!(common_threshold(&[five(), five()]), Some(0.05));
        assert_eq!(common_threshold(&[five(), sweep("")]), None);
        assert_eq!(common_threshold(&[sweep("")]), None);
        assert_eq!(common_threshold(&[]), None);
        let damaged = Experiment {
            plan_toml: "no plan".to_owned(),
            ..five()
        };
        assert_eq!(common_threshold(&[damaged]), None);
    }

    #[test]
    fn metrics_count_only_if_all_experiments_name_the_same_ones() {
        let p99 = || sweep("judge = [\"p99\"]");
        assert_eq!(common_judge(&[p99(), p99()]), [Metric::named("p99")]);
        assert_eq!(common_judge(&[p99(), sweep("")]), []);
        assert_eq!(common_judge(&[sweep("")]), []);
        assert_eq!(common_judge(&[]), []);
    }

    #[test]
    fn what_the_command_line_said_counts_before_the_file() {
        let said = Experiment {
            threshold: Some(0.01),
            judge: vec!["latency_p99_us".to_owned()],
            ..sweep("threshold = \"5%\"\njudge = [\"requests/s\"]")
        };
        assert_eq!(common_threshold(std::slice::from_ref(&said)), Some(0.01));
        assert_eq!(common_judge(&[said]), [Metric::named("p99")]);
    }

    #[test]
    fn a_resumed_experiment_is_judged_as_before_unless_its_file_was_edited() {
        let saved = Experiment {
            threshold: Some(0.01),
            stopping: Some(Stopping::default()),
            ..sweep("threshold = \"5%\"")
        };
        let resumed = |head: &str| {
            let file = Judgement::of_saved_file(&sweep(head));
            Judgement::resumed(file, &saved)
        };
        let same = resumed("threshold = \"5%\"");
        assert_eq!(
            (same.threshold, same.until),
            (Some(0.01), Some(Stopping::default()))
        );
        let edited = resumed("threshold = \"3%\"\njudge = [\"p99\"]");
        assert_eq!(edited.threshold, Some(0.03));
        assert_eq!(edited.judge, Some(vec![Metric::named("p99")]));
    }
}
