//! The options that a command line gives, and the plan that they make.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::{OPTIONS, OptionSpec, Settable};
use crate::{ConnectionStage, InvalidValue, Pacing, RunPlan, Target, units};

/// The options that a command line or a file gives, with their values as typed.
///
/// They are collected before anything is set, because some need others and the order of setting is
/// that of the table: `-R` and then `--arrivals`, whatever was typed first.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenOptions<T: 'static = RunPlan>(Vec<(&'static OptionSpec<T>, Vec<OsString>)>);

impl<T> Default for GivenOptions<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Why options make no plan; one line that begins with the option and its dashes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--{option}: {problem}")]
pub struct OptionError {
    option: String,
    problem: InvalidValue,
}

impl OptionError {
    fn new(option: impl Into<String>, problem: impl Into<InvalidValue>) -> Self {
        Self {
            option: option.into(),
            problem: problem.into(),
        }
    }
}

impl<T: Settable> GivenOptions<T> {
    /// Adds an option with its values, of which a switch has none.
    pub fn add(&mut self, spec: &'static OptionSpec<T>, values: Vec<OsString>) {
        self.0.push((spec, values));
    }

    /// Adds the options of a file before these, which override them: a repeatable option has the
    /// values of both.
    pub fn add_below(&mut self, mut below: Self) {
        for (spec, values) in std::mem::take(&mut self.0) {
            let known = below.0.iter_mut().find(|(known, _)| *known == spec);
            match known {
                Some((_, of_file)) if spec.is_repeatable => of_file.extend(values),
                Some((_, of_file)) => *of_file = values,
                None => below.add(spec, values),
            }
        }
        *self = below;
    }

    /// Whether the option with this long name is given.
    #[must_use]
    pub fn has(&self, long: &str) -> bool {
        self.0.iter().any(|(spec, _)| spec.long == long)
    }

    /// The file that the option with this long name gives.
    #[must_use]
    pub fn path(&self, long: &str) -> Option<&Path> {
        let (_, values) = self.0.iter().find(|(spec, _)| spec.long == long)?;
        values.last().map(Path::new)
    }

    /// Sets what the options set, in the order of the table.
    ///
    /// # Errors
    /// If a value has another form, or two options contradict each other.
    pub fn apply(&self, to: &mut T) -> Result<(), OptionError> {
        self.check_others()?;
        T::option_table()
            .iter()
            .try_for_each(|spec| self.set(spec, to))
    }

    fn set(&self, spec: &OptionSpec<T>, to: &mut T) -> Result<(), OptionError> {
        let given = self.0.iter().find(|(given, _)| *given == spec);
        let (Some((_, values)), Some(setter)) = (given, spec.setter) else {
            return Ok(());
        };
        let refuse = |problem: InvalidValue| OptionError::new(spec.long, problem);
        if !setter.takes_value() {
            return setter.set(to, "".as_ref()).map_err(refuse);
        }
        for value in values {
            setter.set(to, value).map_err(refuse)?;
        }
        Ok(())
    }

    /// Rejects options that cannot be used together, and those that need another one.
    fn check_others(&self) -> Result<(), OptionError> {
        for (spec, _) in &self.0 {
            let problem = match spec.conflicts.iter().find(|other| self.has(other)) {
                Some(other) => format!("cannot be used together with --{other}"),
                None => match spec.requires.filter(|other| !self.has(other)) {
                    Some(other) => format!("needs --{other}"),
                    None => continue,
                },
            };
            return Err(OptionError::new(spec.long, problem));
        }
        Ok(())
    }
}

impl GivenOptions {
    /// Whether a rate is given, by any of its options.
    #[must_use]
    pub fn has_rate(&self) -> bool {
        self.has("rate") || self.has("stages")
    }

    /// Whether the warm-up is to end when the server has settled.
    fn is_auto_warmup(&self) -> bool {
        let mut warmups = self.0.iter().filter(|(spec, _)| {
            // The second one is another name of the first.
            ["warmup", "delay-stats"].contains(&spec.long)
        });
        warmups.any(|(_, values)| values.last().is_some_and(|value| value == "auto"))
    }

    /// Whether the plan is random and no seed is given.
    #[must_use]
    pub fn draws_seed(&self, plan: &RunPlan) -> bool {
        let is_random = plan.pacing.random_seed().is_some() || self.has("request-file");
        is_random && !self.has("seed")
    }

    /// Makes a plan replay its request file, whose requests have moments (key `at`), up to the last
    /// one unless an option ends the run earlier.
    ///
    /// # Errors
    /// If there is a rate.
    pub fn follow_moments(&self, plan: &mut RunPlan) -> Result<(), OptionError> {
        if self.has_rate() {
            let problem = "its requests have moments (key at): remove -R and --stages";
            return Err(OptionError::new("request-file", problem));
        }
        let speed = plan.pacing.speed().unwrap_or(1.0);
        plan.pacing = Pacing::Recorded { speed };
        if !self.has("duration") {
            plan.stop.duration = default_duration(plan, None);
        }
        Ok(())
    }

    /// The plan of a run of this target. It is not checked.
    ///
    /// # Errors
    /// If a value has another form, or an option has no effect without another one.
    pub fn plan(&self, target: Target) -> Result<RunPlan, OptionError> {
        self.check()?;
        let mut plan = RunPlan::new(target);
        let usual = plan.stop.duration.take();
        self.apply(&mut plan)?;
        // The file that it also belongs to was set after it.
        for spec in OPTIONS.iter().filter(|spec| spec.long == "seed") {
            self.set(spec, &mut plan)?;
        }
        plan.stop.duration = plan
            .stop
            .duration
            .or_else(|| default_duration(&plan, usual));
        Ok(plan)
    }

    /// Rejects options that would have no effect without another one.
    fn check(&self) -> Result<(), OptionError> {
        let has_file = self.has("request-file");
        let is_watched = self.has("sockets") || self.has("counters");
        for (spec, values) in &self.0 {
            let text = || values.last().map(|text| text.to_string_lossy());
            let refuse = |problem: &str| Err(OptionError::new(spec.long, problem));
            match spec.long {
                "arrivals" if !self.has_rate() => refuse("needs a rate (-R or --stages)")?,
                "seed" if !self.has_rate() && !has_file => {
                    refuse("needs a rate (-R or --stages)")?;
                }
                "order" if !has_file => refuse("needs a request file (--requests FILE)")?,
                "warmup-limit" if !self.is_auto_warmup() => refuse("needs --warmup auto")?,
                "speed" if !has_file && !self.has("replay") => {
                    refuse("needs a log (--replay) or a request file with moments (key at)")?;
                }
                "speed" if has_file && self.has_rate() => {
                    refuse("is of moments, and not of a rate (remove -R and --stages)")?;
                }
                "interval" if !is_watched => {
                    let time = text().and_then(|text| units::parse_time(&text).ok());
                    let time = time.map(units::time).unwrap_or_default();
                    return Err(OptionError::new(
                        format!("interval {time}"),
                        "needs something to watch (--sockets or --counters)",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// How long a run without `-d` lasts; `usual` if nothing else ends it.
fn default_duration(plan: &RunPlan, usual: Option<Duration>) -> Option<Duration> {
    let of_connections = plan.load.connection_stages.iter();
    match &plan.pacing {
        Pacing::Stages { stages, .. } => Some(stages.iter().map(|stage| stage.duration).sum()),
        _ if !plan.load.connection_stages.is_empty() => Some(
            of_connections
                .map(|stage: &ConnectionStage| stage.duration)
                .sum(),
        ),
        // The last request ends it.
        Pacing::Recorded { .. } => None,
        _ if plan.stop.requests.is_some() => None,
        _ => usual,
    }
}
