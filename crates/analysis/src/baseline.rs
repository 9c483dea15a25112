//! Runs that others are compared with, chosen by a label.

use results::Setting;

use crate::{FILE_FACTOR, Observation, distinct};

/// Chooses runs by a label, or by the level of a factor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// The name of the label; `None` for any label with the value.
    pub name: Option<String>,
    /// Its value.
    pub value: String,
}

/// No run, or runs of several labels, are the baseline; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BaselineError {
    /// No run has the label.
    #[error("--baseline {baseline}: no run has it (labels of the runs: {known})")]
    Missing {
        /// The baseline as given.
        baseline: String,
        /// The labels that runs have.
        known: String,
    },
    /// Several labels have the value.
    #[error("--baseline {value}: is the value of {names} (give one of them, like {first}={value})")]
    Ambiguous {
        /// The value.
        value: String,
        /// The names of the labels.
        names: String,
        /// The first of them.
        first: String,
    },
    /// Every run is the baseline.
    #[error("--baseline {baseline}: there is no run to compare with it")]
    Alone {
        /// The baseline as given.
        baseline: String,
    },
}

impl std::fmt::Display for Baseline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}={}", self.value),
            None => f.write_str(&self.value),
        }
    }
}

impl Baseline {
    /// Reads `main`, or `branch=main`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.split_once('=') {
            Some((name, value)) => Self {
                name: Some(name.to_owned()),
                value: value.to_owned(),
            },
            None => Self {
                name: None,
                value: text.to_owned(),
            },
        }
    }

    /// The runs that are the baseline. The names of their files do not set them apart.
    ///
    /// # Errors
    /// If there is none, or if it is not clear which label is meant.
    pub fn only(&self, runs: Vec<Observation>) -> Result<Vec<Observation>, BaselineError> {
        let name = self.name_among(&runs)?;
        let is_it = |run: &Observation| run.label_or_level(&name) == Some(&self.value);
        Ok(without_files(runs.into_iter().filter(is_it).collect()))
    }

    /// The runs with the label as levels of a factor, of which the baseline is the first.
    ///
    /// # Errors
    /// As [`Self::only`], and if no run has another value.
    pub fn first(&self, runs: Vec<Observation>) -> Result<Vec<Observation>, BaselineError> {
        let name = self.name_among(&runs)?;
        let (mut base, mut others) = (Vec::new(), Vec::new());
        for mut run in runs {
            let Some(value) = run.label_or_level(&name).map(str::to_owned) else {
                continue;
            };
            let is_baseline = value == self.value;
            // Levels that are all numbers would be sorted.
            let level = if is_baseline {
                format!("{value} (baseline)")
            } else {
                value
            };
            let factor = name.clone();
            run.settings = vec![Setting { factor, level }];
            // The rounds of several sweeps have nothing in common.
            run.cell = None;
            if is_baseline { &mut base } else { &mut others }.push(run);
        }
        if others.is_empty() {
            Err(BaselineError::Alone {
                baseline: self.to_string(),
            })
        } else {
            Ok(base.into_iter().chain(others).collect())
        }
    }

    /// The name of the label of which a run has the value.
    fn name_among(&self, runs: &[Observation]) -> Result<String, BaselineError> {
        let all = runs.iter().flat_map(Observation::labels_and_levels);
        let all = distinct(all.filter(|(name, _)| *name != FILE_FACTOR));
        let matching = all.iter().filter(|(name, value)| {
            *value == self.value && self.name.as_deref().is_none_or(|wanted| wanted == *name)
        });
        let names: Vec<&str> = matching.map(|(name, _)| *name).collect();
        match names[..] {
            [name] => Ok(name.to_owned()),
            [] => {
                let known: Vec<String> = all
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                Err(BaselineError::Missing {
                    baseline: self.to_string(),
                    known: if known.is_empty() {
                        "none; give runs one with --label".to_owned()
                    } else {
                        known.join(", ")
                    },
                })
            }
            [first, ..] => Err(BaselineError::Ambiguous {
                value: self.value.clone(),
                names: names.join(" and "),
                first: first.to_owned(),
            }),
        }
    }
}

/// The runs without the names of files among their settings: the files of one side are repetitions.
#[must_use]
pub fn without_files(mut runs: Vec<Observation>) -> Vec<Observation> {
    for run in &mut runs {
        run.settings.retain(|setting| setting.factor != FILE_FACTOR);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(settings: &[(&str, &str)]) -> Observation {
        let setting = |(factor, level): &(&str, &str)| Setting {
            factor: (*factor).to_owned(),
            level: (*level).to_owned(),
        };
        Observation {
            settings: settings.iter().map(setting).collect(),
            ..Observation::default()
        }
    }

    fn runs() -> Vec<Observation> {
        [
            &[("branch", "pr-2"), ("host", "a")][..],
            &[("branch", "main"), ("host", "a")],
            &[("branch", "pr-1"), ("host", "main")],
            &[("host", "a")],
            &[("branch", "main")],
        ]
        .map(run)
        .into()
    }

    #[test]
    fn the_baseline_is_the_first_level() {
        let found = Baseline::parse("branch=main")
            .first(runs())
            .expect("two runs have it");
        let levels = found.iter().filter_map(|run| run.level_of("branch"));
        let expected = ["main (baseline)", "main (baseline)", "pr-2", "pr-1"];
        assert_eq!(levels.collect::<Vec<_>>(), expected);
        assert_eq!(
            Baseline::parse("pr-1").only(runs()).map(|runs| runs.len()),
            Ok(1)
        );
    }

    #[test]
    fn what_is_no_baseline_is_a_line_that_helps() {
        for (text, expected) in [
            (
                "main",
                "is the value of branch and host (give one of them, like branch=main)",
            ),
            (
                "dev",
                "no run has it (labels of the runs: branch=pr-2, host=a, branch=main, ",
            ),
            ("branch=a", "no run has it"),
        ] {
            let error = Baseline::parse(text)
                .first(runs())
                .expect_err(text)
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
        let alone = Baseline::parse("x").first(vec![run(&[("b", "x")])]);
        assert!(alone.is_err_and(|error| error.to_string().contains("no run to compare")));
        let none = Baseline::parse("x").only(vec![run(&[])]);
        assert!(none.is_err_and(|error| error.to_string().contains("with --label")));
    }
}
