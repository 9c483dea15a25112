//! Names of the runs of a text: what distinguishes them becomes their names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::time::Duration;

use plan::secrets::hide_secrets;
use plan::{OptionName, OptionValue, Target, units};
use results::Setting;
use results::metric;

use super::Run;
use super::command::{Command, PROMPT};
use super::lines::SourceLine;
use super::path::{PathLine, ReportContext};
use crate::repetitions::TEXT_ABOVE;
use crate::{Form, LoadPart, Observation, Origin};

/// The setting whose levels are the outermost headings.
pub(super) const HEADING: &str = "heading";

/// Timeout of wrk, wrk2 and wrk-cmm if the command line sets none.
const DEFAULT_TIMEOUT: &str = "2s";

/// A run that took less than this share of its duration was ended early.
const WHOLE_RATIO: f64 = 0.9;

/// The part of a load that is all other options of its command line.
const OTHERS: &str = "other options";

/// What names the runs of a text.
pub(super) struct Names {
    /// Number of outermost titles that all runs share.
    common_titles: usize,
    /// Whether runs below one title go to several URLs, so that URLs name the targets.
    targets_are_urls: bool,
    /// Names of the settings and of the parts of the load that not all runs share.
    varying: BTreeSet<String>,
}

impl Names {
    pub(super) fn of(runs: &[Run]) -> Self {
        let mut names = Self {
            common_titles: common_titles(runs),
            targets_are_urls: false,
            varying: varying(runs),
        };
        let mut url_of: BTreeMap<&str, &str> = BTreeMap::new();
        names.targets_are_urls = runs.iter().any(|run| {
            let (_, title) = names.titles(run);
            let pair = title.map(|title| title.words.as_str()).zip(run.url());
            pair.is_some_and(|(title, url)| *url_of.entry(title).or_insert(url) != url)
        });
        names
    }

    /// The titles that not all runs share; the one that names the target, unless URLs do, is apart.
    fn titles<'r>(&self, run: &'r Run) -> (&'r [Rc<PathLine>], Option<&'r PathLine>) {
        let titles = run.context.titles.get(self.common_titles..);
        match titles.unwrap_or_default() {
            [others @ .., target] if !self.targets_are_urls => (others, Some(target)),
            titles => (titles, None),
        }
    }

    pub(super) fn observation(&self, run: &Run) -> Observation {
        let mut values = run.report.values.clone();
        let rate = run.command().and_then(|command| command.count("R"));
        let rate = rate.filter(|_| run.failure.is_none());
        values.extend(rate.map(|rate| ("rate".to_owned(), rate as f64)));
        let mut origins = self.settings(run);
        let settings = origins.iter().map(|origin| Setting {
            factor: origin.part.clone(),
            level: origin.value.clone(),
        });
        let settings = settings.collect();
        let round = run.context.round();
        let load = load(run);
        let profile = self.profile(run, &load);
        let target = self.target(run);
        let value = |origin: &Option<Origin>| Some(origin.as_ref()?.value.clone());
        let (profile_value, target_value) = (value(&profile), value(&target));
        let of_round = |(round, line): (u32, &SourceLine)| {
            Origin::new("round", round.to_string(), line.to_string())
        };
        origins.extend(profile.into_iter().chain(round.map(of_round)).chain(target));
        let round = round.map(|(round, _)| round);
        Observation {
            form: run.form,
            settings,
            profile: profile_value,
            target: target_value,
            noted_load: load,
            round,
            run: round.unwrap_or_default(),
            values,
            failure: run.failure.clone(),
            origins,
            ..Observation::default()
        }
    }

    /// Headings that are no targets, and settings that not all runs share.
    fn settings(&self, run: &Run) -> Vec<Origin> {
        let headings = self.titles(run).0.iter().filter(|it| !it.is_label());
        let headings = (1..).zip(headings).map(|(rank, title)| {
            let factor = match rank {
                1 => HEADING.to_owned(),
                rank => format!("{HEADING} {rank}"),
            };
            (factor, title.words.as_str(), &title.source)
        });
        let set = run.context.settings();
        let set = set.filter(|(setting, _)| self.varying.contains(&setting.factor));
        let set = set.map(|(it, line)| (it.factor.clone(), it.level.as_str(), line));
        let origin = |(factor, level, line): (String, &str, &SourceLine)| {
            Origin::new(&factor, hide_secrets(level), line.to_string())
        };
        headings.chain(set).map(origin).collect()
    }

    /// Labels that are no targets, and options.
    fn profile(&self, run: &Run, load: &[LoadPart]) -> Option<Origin> {
        let labels = self.titles(run).0.iter().filter(|it| it.is_label());
        let commands = run.command.iter().map(|(_, line)| line);
        let lines = labels.clone().map(|title| &title.source);
        let lines = lines
            .chain(&run.load_line)
            .chain(commands)
            .map(SourceLine::to_string);
        let lines: Vec<String> = lines.collect();
        // Options whose label is their letter are always shown.
        let is_shown = |part: &&LoadPart| {
            let may_be_shown = [OptionName::DURATION.label(), OTHERS, PROMPT].contains(&part.label);
            part.label.starts_with('-') || may_be_shown && self.varying.contains(part.label)
        };
        let options = load.iter().filter(is_shown).map(|part| part.option.clone());
        let words = labels.map(|title| title.words.clone()).chain(options);
        let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        (!words.is_empty()).then(|| Origin::new("profile", words.join(" "), lines.join("; ")))
    }

    fn target(&self, run: &Run) -> Option<Origin> {
        if let (_, Some(title)) = self.titles(run) {
            let line = title.source.to_string();
            return Some(Origin::new("target", &title.words, line));
        }
        let url = run.url()?;
        let line = match &run.report.url {
            Some(url) => SourceLine::new(run.line, url),
            None => run.command.as_ref()?.1.clone(),
        };
        let target = hide_secrets(named_server(url).unwrap_or(url));
        Some(Origin::new("target", target, line.to_string()))
    }
}

/// Names of the settings and of the parts of the load that are not the same in all runs.
fn varying(runs: &[Run]) -> BTreeSet<String> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for run in runs {
        let settings = run.context.settings();
        let settings = settings.map(|(it, _)| (it.factor.clone(), it.level.clone()));
        let parts = load(run).into_iter().filter(|part| !part.option.is_empty());
        let parts = parts.map(|part| (part.label.to_owned(), part.option));
        for pair in settings.chain(parts) {
            *counts.entry(pair).or_default() += 1;
        }
    }
    // Without a command line, the prompt is not known.
    let prompts = counts.iter().filter(|((name, _), _)| name == PROMPT);
    let prompts = prompts.map(|(_, count)| count).sum();
    let all = |name: &str| if name == PROMPT { prompts } else { runs.len() };
    let vary = counts.into_iter();
    let vary = vary.filter(|((name, _), count)| *count < all(name));
    vary.map(|((name, _), _)| name).collect()
}

fn common_titles(runs: &[Run]) -> usize {
    let common = runs.windows(2).map(|pair| {
        let titles = pair[0].context.titles.iter().zip(&pair[1].context.titles);
        let is_same = |(one, other): &(&Rc<PathLine>, &Rc<PathLine>)| one.words == other.words;
        titles.take_while(is_same).count()
    });
    common.min().unwrap_or_default()
}

/// The path above a run or a table. Runs of other texts are no repetitions if it is different
/// there.
pub(super) fn text_above(context: &ReportContext) -> LoadPart {
    let lines = context.titles.iter().map(|title| &title.source);
    let last = lines.chain(context.texts()).max_by_key(|line| line.number);
    let shown = last.map(|line| hide_secrets(&line.text));
    let text = shown.unwrap_or_default();
    LoadPart {
        value: OptionValue::Text(format!("{} {}", context.mark, context.passed)),
        // It is no part of the load either.
        is_part_of_url: true,
        ..LoadPart::other(TEXT_ABOVE, &text, &format!("({text})"))
    }
}

/// What a text says about the load of a run. A command line has all options that matter, so those
/// that are not there are not set. A run without a command line counts as one without options.
fn load(run: &Run) -> Vec<LoadPart> {
    let no_options = Command::default();
    let command = run.command().unwrap_or(&no_options);
    let count = |name, option: &'static str| {
        let count = run.printed(name).or_else(|| command.count(&option[1..]))?;
        let shown = format!("{option}{count}");
        Some(LoadPart::other(option, &count.to_string(), &shown))
    };
    let prompt = command.prompt.as_str();
    let others = LoadPart::other(OTHERS, &command.others, &command.others);
    let timeout = command.value("T").unwrap_or(DEFAULT_TIMEOUT);
    let timeout = units::parse_time(timeout).ok().map(OptionValue::Time);
    let (server, path) = run.report.url.as_deref().map(server_and_path).unzip();
    let of_plan = |name, value: Option<OptionValue>| Some(LoadPart::of_option(name, value?));
    let parts = [
        count("threads", "-t"),
        count("connections", "-c"),
        run.planned().map(duration),
        count("rate", "-R"),
        Some(without_secrets(others)),
        run.command()
            .map(|_| LoadPart::other(PROMPT, prompt, prompt)),
        of_plan(OptionName::TIMEOUT, timeout),
        of_plan(OptionName::SERVER, server.map(OptionValue::Text)).map(without_secrets),
        of_plan(OptionName::PATH, path.map(OptionValue::Text)).map(without_secrets),
        ended_early(run),
        tool(run).map(|tool| LoadPart::other("tool", tool, tool)),
        Some(text_above(&run.context)),
    ];
    parts.into_iter().flatten().collect()
}

/// The same part, shown without its secrets and compared with them.
fn without_secrets(part: LoadPart) -> LoadPart {
    LoadPart {
        text: hide_secrets(&part.text),
        option: hide_secrets(&part.option),
        ..part
    }
}

/// The planned duration, as people write it: `-d90s`.
fn duration(planned: Duration) -> LoadPart {
    let printed = Some(units::banner_duration(planned));
    let exact = printed.filter(|printed| units::parse_time(printed) == Ok(planned));
    let written = exact.unwrap_or_else(|| format!("{}s", planned.as_secs()));
    LoadPart {
        option: format!("-d{written}"),
        ..LoadPart::of_option(OptionName::DURATION, OptionValue::Time(planned))
    }
}

/// The tool that made a complete report. wrk sends the next request when a response arrives, and
/// wrk2 by its rate. What is built from wrk2's sources is called `wrk` as well, so the report
/// counts.
fn tool(run: &Run) -> Option<&str> {
    if run.form != Form::Text || run.failure.is_some() {
        return None;
    }
    let of_command = run.command().map(|command| command.tool.as_str());
    if run.report.is_of_wrk2 {
        Some("wrk2")
    } else if run.report.values.contains_key("latency_min_us") {
        Some("wrk-cmm")
    } else {
        of_command.or(Some("wrk"))
    }
}

/// The share of its duration that a run took, if it was ended early: to ten percent, so that runs
/// which a script ends are still repetitions of each other.
fn ended_early(run: &Run) -> Option<LoadPart> {
    let planned_us = run.planned()?.as_secs_f64() * 1e6;
    let ratio = run.report.values.get(metric::DURATION_US)? / planned_us;
    if ratio.is_nan() || ratio >= WHOLE_RATIO {
        return Some(LoadPart::other("length", "whole", ""));
    }
    let ended = format!("ended after {} %", (ratio * 10.0).round() * 10.0);
    Some(LoadPart::other("length", &ended, &format!("({ended})")))
}

/// Splits a URL into scheme, user, host and port, and the path.
fn server_and_path(url: &str) -> (String, String) {
    // A target has no user.
    if let Ok(target) = Target::parse(url)
        && !url.contains('@')
    {
        return target.server_and_path();
    }
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path = url[authority..].find('/').map(|at| authority + at);
    let (server, path) = url.split_at(path.unwrap_or(url.len()));
    (server.to_owned(), path.to_owned())
}

/// A name in place of an address: `http://[x86_64 VM IP]:8080/`.
fn named_server(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://[")?;
    let (name, _) = rest.split_once(']')?;
    let address = name.split('%').next().unwrap_or(name);
    (!name.is_empty() && address.parse::<Ipv6Addr>().is_err()).then_some(name)
}
