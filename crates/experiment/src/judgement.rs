//! How the results of saved experiments are judged.

use std::path::Path;

use results::{Experiment, Metric};

use crate::Spec;

/// The threshold set by the experiments: the smallest relative difference that matters. `None` if
/// they set none, or different ones.
#[must_use]
pub fn common_threshold<'a>(experiments: impl IntoIterator<Item = &'a Experiment>) -> Option<f64> {
    common(experiments, |spec| spec.threshold)
}

/// The metrics that the experiments are judged by. Empty, for the usual ones, if they name none or
/// different ones.
#[must_use]
pub fn common_judge<'a>(experiments: impl IntoIterator<Item = &'a Experiment>) -> Vec<Metric> {
    common(experiments, |spec| Some(spec.judge)).unwrap_or_default()
}

/// What all experiments set alike.
fn common<'a, T: PartialEq>(
    experiments: impl IntoIterator<Item = &'a Experiment>,
    set: impl Fn(Spec) -> Option<T>,
) -> Option<T> {
    let of = |experiment: &Experiment| {
        let spec = Spec::parse(&experiment.plan_toml, Path::new(&experiment.name));
        spec.ok().and_then(&set)
    };
    let mut all = experiments.into_iter().map(of);
    let first = all.next()??;
    all.all(|other| other.as_ref() == Some(&first))
        .then_some(first)
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
}
