//! Names of the runs of a text: what distinguishes them becomes their names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use plan::secrets::hide_secrets;
use plan::{OptionName, OptionValue, Target, units};
use results::Setting;
use results::metric;

use super::Run;
use super::context::{Situation, Title};
use super::lines::SourceLine;

use crate::repetitions::{PRINTED_DURATION, TEXT_ABOVE};
use crate::{Form, LoadPart, Observation, Origin};

/// The setting whose levels are the outermost headings.
pub(super) const HEADING: &str = "heading";

/// Timeout of wrk, wrk2 and wrk-cmm if the command line sets none.
const DEFAULT_TIMEOUT: &str = "2s";

/// A run that took less than this share of its duration was ended early.
const WHOLE_RATIO: f64 = 0.9;

/// What names the runs of a text.
pub(super) struct Names {
    /// Number of outermost titles that all runs share.
    common_titles: usize,
    /// Whether runs below one title go to several URLs, so that URLs name the targets.
    targets_are_urls: bool,
    /// Which options of the load are shown.
    shown: [bool; OPTIONS],
    /// Names of the settings that not all runs share.
    own_settings: BTreeSet<String>,
}

impl Names {
    pub(super) fn of(runs: &[Run]) -> Self {
        let options: Vec<_> = runs.iter().map(options).collect();
        let differ = |at: usize| {
            // Without a command line, the prompt is not known.
            let known = options.iter().filter(|it| at != PROMPT || it[at].is_some());
            known
                .map(|options| &options[at])
                .collect::<BTreeSet<_>>()
                .len()
                > 1
        };
        let mut names = Self {
            common_titles: common_titles(runs),
            targets_are_urls: false,
            shown: std::array::from_fn(|at| ALWAYS_SHOWN[at] || differ(at)),
            own_settings: own_settings(runs),
        };
        let mut url_of: BTreeMap<&str, &str> = BTreeMap::new();
        names.targets_are_urls = runs.iter().any(|run| {
            let title = names.target_title(run).map(|title| title.text.as_str());
            let pair = title.zip(run.url());
            pair.is_some_and(|(title, url)| *url_of.entry(title).or_insert(url) != url)
        });
        names
    }

    /// The titles that not all runs share.
    fn own_titles<'r>(&self, run: &'r Run) -> &'r [Title] {
        let titles = &run.situation.titles;
        titles.get(self.common_titles..).unwrap_or_default()
    }

    /// The title that names the target, unless URLs do.
    fn target_title<'r>(&self, run: &'r Run) -> Option<&'r Title> {
        self.own_titles(run)
            .last()
            .filter(|_| !self.targets_are_urls)
    }

    /// The titles of a run except for its target.
    fn other_titles<'r>(&self, run: &'r Run) -> &'r [Title] {
        match self.own_titles(run) {
            [others @ .., _] if !self.targets_are_urls => others,
            titles => titles,
        }
    }

    pub(super) fn observation(&self, run: Run, source: &str) -> Observation {
        let rate = run.command().and_then(|command| command.rate);
        let mut noted_load = noted_load(&run);
        noted_load.push(text_above(&run.situation));
        let mut origins = Vec::new();
        let settings = self.settings(&run, &mut origins);
        let profile = self.profile(&run, &mut origins);
        if let Some((round, line)) = &run.situation.round {
            origins.push(Origin::new("round", round.to_string(), line.to_string()));
        }
        let target = self.target(&run, &mut origins);
        let mut values = run.report.values;
        if let Some(rate) = rate.filter(|_| run.failure.is_none()) {
            values.insert("rate".to_owned(), rate as f64);
        }
        Observation {
            source: format!("{source}:{}", run.line),
            form: run.form,
            settings,
            profile,
            target,
            noted_load,
            round: run.situation.round.map(|(round, _)| round),
            values,
            failure: run.failure,
            origins,
            ..Observation::default()
        }
    }

    /// Headings that are no targets, and settings that not all runs share.
    fn settings(&self, run: &Run, origins: &mut Vec<Origin>) -> Vec<Setting> {
        let headings = self.other_titles(run).iter().filter(|it| !it.is_label());
        let of_headings = headings.enumerate().map(|(rank, title)| {
            let factor = match rank {
                0 => HEADING.to_owned(),
                rank => format!("{HEADING} {}", rank + 1),
            };
            (factor, title.text.as_str(), &title.line)
        });
        let set = run.situation.settings.iter();
        let set = set.filter(|(setting, _)| self.own_settings.contains(&setting.factor));
        let set = set.map(|(setting, line)| (setting.factor.clone(), setting.level.as_str(), line));
        let named = of_headings.chain(set).map(|(factor, level, line)| {
            let level = hide_secrets(level);
            origins.push(Origin::new(&factor, &level, line.to_string()));
            Setting { factor, level }
        });
        named.collect()
    }

    fn profile(&self, run: &Run, origins: &mut Vec<Origin>) -> Option<String> {
        let labels = self.other_titles(run).iter().filter(|it| it.is_label());
        let from = labels
            .clone()
            .map(|title| &title.line)
            .chain(&run.load_line);
        let from = from.chain(run.command.iter().map(|(_, line)| line));
        let from: Vec<String> = from.map(SourceLine::to_string).collect();
        let words = labels.map(|title| title.text.clone());
        let words: Vec<String> = words.chain(self.load(run)).collect();
        let profile = Some(words.join(" ")).filter(|profile| !profile.is_empty())?;
        origins.push(Origin::new("profile", &profile, from.join("; ")));
        Some(profile)
    }

    fn target(&self, run: &Run, origins: &mut Vec<Origin>) -> Option<String> {
        let (target, from) = match self.target_title(run) {
            Some(title) => (title.text.clone(), title.line.to_string()),
            None => {
                let url = run.url()?;
                let line = match &run.report.url {
                    Some(url) => SourceLine::new(run.line, url),
                    None => run.command.as_ref()?.1.clone(),
                };
                (
                    hide_secrets(named_server(url).unwrap_or(url)),
                    line.to_string(),
                )
            }
        };
        origins.push(Origin::new("target", &target, from));
        Some(target)
    }

    /// The load as options of the command line: `-t12 -c400`.
    fn load(&self, run: &Run) -> impl Iterator<Item = String> + use<> {
        let shown = options(run).into_iter().zip(self.shown);
        shown.filter_map(|(option, is_shown)| option.filter(|_| is_shown))
    }
}

/// Number of the options of a load.
const OPTIONS: usize = 7;

/// The last of them, which may name a machine.
const PROMPT: usize = OPTIONS - 1;

/// Which of them are shown even if all runs have the same.
const ALWAYS_SHOWN: [bool; OPTIONS] = [true, true, false, true, false, false, false];

/// The options of a load; `None` for those that are not known or not set.
fn options(run: &Run) -> [Option<String>; OPTIONS] {
    let command = run.command();
    let count = |option: &str, count: Option<u64>| count.map(|count| format!("{option}{count}"));
    let printed = |name: &str| run.printed(name);
    let threads = printed("threads").or_else(|| command?.threads);
    let connections = printed("connections").or_else(|| command?.connections);
    let script = command.and_then(|command| command.script.as_ref());
    let others = command.map(|command| hide_secrets(&command.others));
    [
        count("-t", threads),
        count("-c", connections),
        run.duration().map(|duration| format!("-d{duration}")),
        count("-R", command.and_then(|command| command.rate)),
        script.map(|script| format!("-s {script}")),
        others.filter(|others| !others.is_empty()),
        command.and_then(|command| command.prompt.clone()),
    ]
}

/// Names of the settings that not all runs have at the same level.
fn own_settings(runs: &[Run]) -> BTreeSet<String> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (setting, _) in runs.iter().flat_map(|run| &run.situation.settings) {
        *counts.entry((&setting.factor, &setting.level)).or_default() += 1;
    }
    let own = counts.into_iter().filter(|(_, count)| *count < runs.len());
    own.map(|((factor, _), _)| factor.to_owned()).collect()
}

fn common_titles(runs: &[Run]) -> usize {
    let [first, .., _] = runs else {
        return 0;
    };
    let text = |run: &Run, at: usize| Some(run.situation.titles.get(at)?.text.clone());
    (0..first.situation.titles.len())
        .take_while(|at| runs.iter().all(|run| text(run, *at) == text(first, *at)))
        .count()
}

/// The path above a run. Runs of other texts are no repetitions if it is different there.
fn text_above(situation: &Situation) -> LoadPart {
    let lines = situation.titles.iter().map(|title| &title.line);
    let last = lines.chain(&situation.texts).max_by_key(|line| line.number);
    let shown = last.map(|line| hide_secrets(&line.text));
    let option = shown
        .as_ref()
        .map(|text| format!("({text})"))
        .unwrap_or_default();
    LoadPart {
        value: OptionValue::Text(situation.place.mark.to_string()),
        // It is no part of the load either.
        is_part_of_url: true,
        ..LoadPart::other(TEXT_ABOVE, shown.as_deref().unwrap_or("none"), &option)
    }
}

/// What a text says about the load of a run, besides its name.
fn noted_load(run: &Run) -> Vec<LoadPart> {
    let duration = run
        .report
        .duration
        .as_ref()
        .map(|duration| LoadPart::other(PRINTED_DURATION, duration, &format!("-d{duration}")));
    let mut parts: Vec<LoadPart> = duration.into_iter().chain(ended_early(run)).collect();
    if let Some(url) = &run.report.url {
        let (server, path) = match Target::parse(url) {
            Ok(target) => target.server_and_path(),
            Err(_) => {
                let (server, path) = split_url(url);
                (server.to_owned(), path.to_owned())
            }
        };
        for (name, text) in [(OptionName::SERVER, server), (OptionName::PATH, path)] {
            parts.push(LoadPart::of_option(name, OptionValue::Text(text)));
        }
    }
    if let Some(command) = run.command() {
        let timeout = command.timeout.as_deref().unwrap_or(DEFAULT_TIMEOUT);
        let timeout = match units::parse_time(timeout) {
            Ok(time) => OptionValue::Time(time),
            Err(_) => OptionValue::Text(timeout.to_owned()),
        };
        parts.push(LoadPart::of_option(OptionName::TIMEOUT, timeout));
        let (script, option) = match &command.script {
            Some(script) => (script.as_str(), format!("-s {script}")),
            None => ("none", String::new()),
        };
        parts.push(LoadPart::other("script", script, &option));
    }
    let tool = tool(run);
    parts.extend(tool.map(|tool| LoadPart::other("tool", tool, tool)));
    parts
}

/// The tool that made a complete report. wrk sends the next request when a response arrives, and
/// wrk2 by its rate. What is built from wrk2's sources is called `wrk` as well, so the report
/// counts.
fn tool(run: &Run) -> Option<&str> {
    if run.form != Form::Text || run.failure.is_some() {
        return None;
    }
    let of_command = || Some(run.command()?.tool.as_str());
    match (run.report.is_of_wrk2, run.report.has_min) {
        (true, _) => Some("wrk2"),
        (false, true) => Some("wrk-cmm"),
        (false, false) => Some(of_command().unwrap_or("wrk")),
    }
}

/// The share of its duration that a run took, if it was ended early: to ten percent, so that runs
/// which a script ends are still repetitions of each other.
fn ended_early(run: &Run) -> Option<LoadPart> {
    let planned = units::parse_time(run.report.duration.as_deref()?).ok()?;
    let planned_us = run.lasted().unwrap_or(planned).as_secs_f64() * 1e6;
    let took_us = *run.report.values.get(metric::DURATION_US)?;
    let ratio = took_us / planned_us;
    Some(if ratio.is_nan() || ratio >= WHOLE_RATIO {
        let lasted = run.lasted().map(|lasted| format!("{} s", lasted.as_secs()));
        let whole = lasted.unwrap_or_else(|| "whole".to_owned());
        LoadPart::other("length", &whole, "")
    } else {
        let ended = format!("ended after {} %", (ratio * 10.0).round() * 10.0);
        LoadPart::other("length", &ended, &format!("({ended})"))
    })
}

/// Splits a URL into scheme, host and port, and the path.
fn split_url(url: &str) -> (&str, &str) {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path = url[authority..].find('/');
    url.split_at(path.map_or(url.len(), |at| authority + at))
}

/// A name in place of an address: `http://[x86_64 VM IP]:8080/`.
fn named_server(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://[")?;
    let (name, _) = rest.split_once(']')?;
    let address = name.split('%').next().unwrap_or(name);
    (!name.is_empty() && address.parse::<Ipv6Addr>().is_err()).then_some(name)
}
