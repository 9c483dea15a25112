//! The smallest difference that matters, according to saved experiments.

use std::path::Path;

use results::Experiment;

use crate::Spec;

/// The threshold set by the experiments: the smallest relative difference that matters. `None` if
/// they set none, or different ones.
#[must_use]
pub fn common_threshold<'a>(experiments: impl IntoIterator<Item = &'a Experiment>) -> Option<f64> {
    let threshold = |experiment: &Experiment| {
        let spec = Spec::parse(&experiment.plan_toml, Path::new(&experiment.name));
        spec.ok()?.threshold
    };
    let mut thresholds = experiments.into_iter().map(threshold);
    let first = thresholds.next()??;
    thresholds
        .all(|other| other == Some(first))
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
}
