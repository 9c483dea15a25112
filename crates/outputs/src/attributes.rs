//! What tells one run from another, as attributes of OpenTelemetry: the target, the name and labels
//! of the run, and in an experiment its trial.

use crate::Event;

/// Follows the events, and knows the attributes of the current run.
#[derive(Debug, Clone, Default)]
pub struct Attributes {
    experiment: Option<String>,
    trial: Vec<(String, String)>,
    run: Vec<(String, String)>,
}

impl Attributes {
    /// Notes what an event tells about the runs that follow.
    pub fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Experiment(experiment) => self.experiment = Some(experiment.name.clone()),
            Event::Trial(
                experiment::Event::Begins { planned, .. }
                | experiment::Event::Tries { planned, .. },
            ) => {
                let cell = &planned.cell;
                self.trial = vec![
                    ("wrkbench.cell".to_owned(), cell.number.to_string()),
                    ("wrkbench.round".to_owned(), planned.round.to_string()),
                ];
                let profile = cell.profile.iter();
                let profile = profile.map(|name| ("wrkbench.profile".to_owned(), name.clone()));
                let levels = cell.settings.iter().map(|setting| {
                    let name = format!("wrkbench.factor.{}", setting.factor);
                    (name, setting.level.clone())
                });
                self.trial.extend(profile.chain(levels));
            }
            Event::Start(start) => {
                let target = start.plan.target.url.clone();
                self.run = vec![("wrkbench.target".to_owned(), target)];
                let id = start.run_id.iter();
                let id = id.map(|id| ("wrkbench.run.id".to_owned(), (*id).to_owned()));
                let labels = start.labels.iter();
                let labels =
                    labels.map(|(name, value)| (format!("wrkbench.label.{name}"), value.clone()));
                self.run.extend(id.chain(labels));
            }
            _ => {}
        }
    }

    /// Names and values, the same for every metric of the run.
    #[must_use]
    pub fn all(&self) -> Vec<(String, String)> {
        let mut all = vec![
            ("service.name".to_owned(), "wrkbench".to_owned()),
            (
                "service.version".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            ),
        ];
        let experiment = self.experiment.iter();
        all.extend(experiment.map(|name| ("wrkbench.experiment".to_owned(), name.clone())));
        all.extend(self.trial.iter().cloned());
        all.extend(self.run.iter().cloned());
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use experiment::Planned;
    use plan::{RunPlan, Target};
    use results::{Cell, Setting};

    use super::*;
    use crate::RunStart;

    #[test]
    fn a_run_has_its_labels_and_in_an_experiment_its_cell() {
        let mut attributes = Attributes::default();
        let planned = Planned {
            position: 4,
            round: 2,
            repeat: 1,
            cell: Cell {
                number: 3,
                settings: vec![Setting {
                    factor: "net.core.somaxconn".to_owned(),
                    level: "128".to_owned(),
                }],
                ..Cell::default()
            },
            step: None,
        };
        attributes.note(&Event::Trial(&experiment::Event::Tries {
            planned: &planned,
            number: 1,
            of: 2,
        }));
        let target = Target::parse("http://127.0.0.1/").expect("a URL");
        let start = |id: &str| {
            let mut all = Attributes::clone(&attributes);
            all.note(&Event::Start(RunStart {
                plan: &RunPlan::new(target.clone()),
                labels: &BTreeMap::from([("branch".to_owned(), "main".to_owned())]),
                run_id: Some(id),
                agents: &[],
            }));
            all
        };
        let all = start("r2").all();
        let value = |name: &str| {
            let found = all.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("service.name"), Some("wrkbench"));
        assert_eq!(value("wrkbench.factor.net.core.somaxconn"), Some("128"));
        assert_eq!(value("wrkbench.cell"), Some("3"));
        assert_eq!(value("wrkbench.round"), Some("2"));
        assert_eq!(value("wrkbench.label.branch"), Some("main"));
        assert_eq!(value("wrkbench.run.id"), Some("r2"));
        assert_eq!(value("wrkbench.target"), Some("http://127.0.0.1/"));
    }
}
