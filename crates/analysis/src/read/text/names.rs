//! Names of the runs of a text: what distinguishes them becomes their names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use plan::secrets::hide_secrets;
use plan::{OptionName, OptionValue, Target, units};
use results::metric;
use results::{PLACE_FACTOR, Setting};

use super::Run;
use super::context::Title;
use super::lines::SourceLine;

use crate::read::grouping::TEXT_ABOVE;
use crate::{Form, LoadPart, Observation, Origin};

/// The setting whose levels are the outermost headings.
pub(crate) const HEADING: &str = "heading";

/// Timeout of wrk, wrk2 and wrk-cmm if the command line sets none.
const DEFAULT_TIMEOUT: &str = "2s";

/// A run that took less than this share of its duration was ended early.
const WHOLE_RATIO: f64 = 0.9;

/// What names the runs of a text.
pub(super) struct Names {
    /// Number of outermost titles that all runs share.
    common_titles: usize,
    /// Whether several runs below one heading go to different URLs, so that URLs and not headings
    /// name the targets.
    targets_are_urls: bool,
    /// Whether labels and not headings name the targets.
    targets_are_labels: bool,
    durations_differ: bool,
    scripts_differ: bool,
    other_options_differ: bool,
    prompts_differ: bool,
    /// Names of the settings that commands have not set to the same level for all runs.
    set_differently: BTreeSet<String>,
    /// The URL of each run.
    urls: Vec<Option<String>>,
    /// Whether all URLs have names of servers in place of addresses (`http://[x86_64 VM]/`).
    has_server_names: bool,
    /// The settings that headings became, by their depths.
    factors: BTreeMap<u8, String>,
}

impl Names {
    pub(super) fn of(runs: &[Run]) -> Self {
        let prompts: BTreeSet<&str> = runs.iter().filter_map(Run::prompt).collect();
        let mut names = Self {
            common_titles: common_titles(runs),
            targets_are_urls: false,
            targets_are_labels: false,
            durations_differ: differ(runs, Run::duration),
            scripts_differ: differ(runs, |run| run.command()?.script.clone()),
            other_options_differ: differ(runs, Run::other_options),
            prompts_differ: prompts.len() > 1,
            set_differently: set_differently(runs),
            urls: runs
                .iter()
                .map(|run| run.url().map(str::to_owned))
                .collect(),
            has_server_names: false,
            factors: BTreeMap::new(),
        };
        names.targets_are_labels = names.are_labels_targets(runs);
        names.targets_are_urls = names.is_any_heading_of_several_urls(runs);
        let mut urls = names.urls.iter().flatten().peekable();
        let has_urls = urls.peek().is_some();
        names.has_server_names = has_urls && urls.all(|url| named_server(url).is_some());
        names.factors = names.factors(runs);
        names
    }

    /// Whether each label has a URL of its own, or there are only labels. Otherwise a line such as
    /// `warm:` says something about the heading above it.
    fn are_labels_targets(&self, runs: &[Run]) -> bool {
        let is_heading = |title: &Title| !title.is_label();
        if !runs
            .iter()
            .any(|run| self.own_titles(run).iter().any(is_heading))
        {
            return true;
        }
        let pairs = runs.iter().zip(&self.urls).filter_map(|(run, url)| {
            let label = self.own_titles(run).last().filter(|title| title.is_label());
            Some((&label?.text, url.as_ref()?))
        });
        let pairs: BTreeSet<_> = pairs.collect();
        let labels: BTreeSet<_> = pairs.iter().map(|(label, _)| label).collect();
        let urls: BTreeSet<_> = pairs.iter().map(|(_, url)| url).collect();
        pairs.len() > 1 && labels.len() == pairs.len() && urls.len() == pairs.len()
    }

    fn is_any_heading_of_several_urls(&self, runs: &[Run]) -> bool {
        let mut url_of: BTreeMap<usize, &str> = BTreeMap::new();
        runs.iter().zip(&self.urls).any(|(run, url)| {
            let (Some(title), Some(url)) = (self.target_title(run), url) else {
                return false;
            };
            *url_of.entry(title.line.number).or_insert(url) != url
        })
    }

    /// The titles that not all runs share.
    fn own_titles<'r>(&self, run: &'r Run) -> &'r [Title] {
        let titles = &run.situation.titles;
        titles.get(self.common_titles..).unwrap_or_default()
    }

    /// The title that names the target, unless URLs do.
    fn target_title<'r>(&self, run: &'r Run) -> Option<&'r Title> {
        let mut inner_first = self.own_titles(run).iter().rev();
        match self.targets_are_urls {
            true => None,
            false => inner_first.find(|title| self.targets_are_labels || !title.is_label()),
        }
    }

    /// The titles of a run except for its target.
    fn other_titles<'r>(&self, run: &'r Run) -> impl Iterator<Item = &'r Title> + use<'r> {
        let target = self.target_title(run).map(|title| title.depth);
        let titles = self.own_titles(run).iter();
        titles.filter(move |title| Some(title.depth) != target)
    }

    fn factors(&self, runs: &[Run]) -> BTreeMap<u8, String> {
        let titles = || runs.iter().flat_map(|run| self.other_titles(run));
        let headings = || titles().filter(|title| !title.is_label());
        let depths: BTreeSet<u8> = headings().map(|title| title.depth).collect();
        let is_from = |title: &Title| {
            let text = title.text.to_lowercase();
            text.split(' ').any(|word| word == "from")
        };
        let name = |(number, depth): (usize, u8)| {
            let mut of_depth = headings().filter(|title| title.depth == depth);
            let name = match number {
                1 if of_depth.all(is_from) => PLACE_FACTOR.to_owned(),
                1 => HEADING.to_owned(),
                number => format!("{HEADING} {number}"),
            };
            (depth, name)
        };
        (1..).zip(depths).map(name).collect()
    }

    pub(super) fn observation(&self, index: usize, run: Run, source: &str) -> Observation {
        let rate = run.command().and_then(|command| command.rate);
        let mut noted_load = noted_load(&run);
        noted_load.push(self.shared_text(&run));
        let mut origins = Vec::new();
        let settings = self.settings(&run, &mut origins);
        let profile = self.profile(&run, &mut origins);
        if let Some((round, line)) = &run.situation.round {
            origins.push(Origin::new("round", round.to_string(), line.to_string()));
        }
        let target = self.target(index, &run, &mut origins);
        origins.extend(
            run.ignored
                .iter()
                .map(|ignored| Origin::new(Origin::IGNORED, ignored.why, ignored.line.to_string())),
        );
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

    /// What is above a run and not in its name, because it is the same for all runs of the text.
    /// Runs of other texts are no repetitions if it is different there.
    fn shared_text(&self, run: &Run) -> LoadPart {
        let situation = &run.situation;
        let titles = situation.titles.iter().take(self.common_titles);
        let lines = titles.map(|title| &title.line).chain(&situation.text);
        let lines = lines.chain(&situation.acts);
        let shown = lines.last().map(|line| hide_secrets(&line.text));
        let set: Vec<&Setting> = situation.set.iter().map(|(setting, _)| setting).collect();
        let whole = format!("{} {set:?}", situation.place.mark);
        let option = shown
            .as_ref()
            .map(|text| format!("({text})"))
            .unwrap_or_default();
        let shown = shown.unwrap_or_else(|| "none".to_owned());
        LoadPart {
            value: OptionValue::Text(whole),
            // It is no part of the load either.
            is_part_of_url: true,
            ..LoadPart::other(TEXT_ABOVE, &shown, &option)
        }
    }

    fn settings(&self, run: &Run, origins: &mut Vec<Origin>) -> Vec<Setting> {
        let of_headings = self.other_titles(run).filter_map(|title| {
            let factor = self.factors.get(&title.depth)?;
            Some((factor.clone(), &title.text, &title.line))
        });
        let set = run.situation.set.iter();
        let set = set.filter(|(setting, _)| self.set_differently.contains(&setting.factor));
        let mut of_lines: Vec<&(Setting, SourceLine)> = run.situation.settings.iter().collect();
        for set in set {
            // What a command sets is often printed as well. The later line counts.
            let known = of_lines
                .iter_mut()
                .find(|known| known.0.factor == set.0.factor);
            match known {
                Some(known) if known.1.number < set.1.number => *known = set,
                Some(_) => {}
                None => of_lines.push(set),
            }
        }
        let of_lines = of_lines.into_iter();
        let of_lines =
            of_lines.map(|(setting, line)| (setting.factor.clone(), &setting.level, line));
        let mut settings = Vec::new();
        for (factor, level, line) in of_headings.chain(of_lines) {
            let level = hide_secrets(level);
            origins.push(Origin::new(&factor, &level, line.to_string()));
            settings.push(Setting { factor, level });
        }
        settings
    }

    fn profile(&self, run: &Run, origins: &mut Vec<Origin>) -> Option<String> {
        let labels: Vec<&Title> = self.other_titles(run).filter(|it| it.is_label()).collect();
        let from = labels.iter().map(|title| &title.line).chain(&run.load_line);
        let from = from.chain(run.command.iter().map(|(_, line)| line));
        let from: Vec<String> = from.map(SourceLine::to_string).collect();
        let words = labels.iter().map(|title| title.text.clone());
        let words: Vec<String> = words.chain(self.load(run)).collect();
        let profile = Some(words.join(" ")).filter(|profile| !profile.is_empty())?;
        origins.push(Origin::new("profile", &profile, from.join("; ")));
        Some(profile)
    }

    fn target(&self, index: usize, run: &Run, origins: &mut Vec<Origin>) -> Option<String> {
        let (target, from) = match self.target_title(run) {
            Some(title) => (title.text.clone(), title.line.to_string()),
            None => {
                let url = self.urls[index].as_deref()?;
                let name = match named_server(url).filter(|_| self.has_server_names) {
                    Some(name) => name,
                    None => url,
                };
                let line = if run.report.url.is_some() {
                    SourceLine::new(run.line, run.url()?).to_string()
                } else {
                    run.command.as_ref()?.1.to_string()
                };
                (hide_secrets(name), line)
            }
        };
        origins.push(Origin::new("target", &target, from));
        Some(target)
    }

    /// The load as options of the command line: `-t12 -c400`.
    fn load(&self, run: &Run) -> Option<String> {
        let command = run.command();
        let (threads, connections) = run.load();
        let rate = command.and_then(|command| command.rate);
        let count =
            |option: &str, count: Option<u64>| count.map(|count| format!("{option}{count}"));
        let duration = run.duration().filter(|_| self.durations_differ);
        let others = run.other_options().filter(|_| self.other_options_differ);
        let prompt = run.prompt().filter(|_| self.prompts_differ);
        let script = command
            .and_then(|command| command.script.as_ref())
            .filter(|_| self.scripts_differ);
        let parts = [
            count("-t", threads),
            count("-c", connections),
            duration.map(|duration| format!("-d{duration}")),
            count("-R", rate),
            script.map(|script| format!("-s {script}")),
            others.map(|others| hide_secrets(&others)),
            prompt.map(str::to_owned),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

fn differ<T: PartialEq>(runs: &[Run], of: impl Fn(&Run) -> T) -> bool {
    runs.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]))
}

fn set_differently(runs: &[Run]) -> BTreeSet<String> {
    let of = |run: &Run| -> BTreeMap<String, String> {
        let set = run.situation.set.iter();
        set.map(|(it, _)| (it.factor.clone(), it.level.clone()))
            .collect()
    };
    let mut found = BTreeSet::new();
    for pair in runs
        .windows(2)
        .filter(|pair| pair[0].situation.set != pair[1].situation.set)
    {
        let (one, other) = (of(&pair[0]), of(&pair[1]));
        let names = one.keys().chain(other.keys());
        found.extend(
            names
                .filter(|name| one.get(*name) != other.get(*name))
                .cloned(),
        );
    }
    found
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

/// What a text says about the load of a run, besides its name.
fn noted_load(run: &Run) -> Vec<LoadPart> {
    let mut parts = Vec::new();
    if let Some(duration) = &run.report.duration {
        let option = format!("-d{duration}");
        parts.push(LoadPart::other(
            crate::read::PRINTED_DURATION,
            duration,
            &option,
        ));
    }
    if let Some(share) = ended_early(run) {
        parts.push(share);
    }
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
    let (_, rest) = url.split_once("://")?;
    let close = match rest.chars().next()? {
        '[' => ']',
        '<' => '>',
        '{' => '}',
        _ => return None,
    };
    let (name, _) = rest[1..].split_once(close)?;
    let address = name.split('%').next().unwrap_or(name);
    let is_name = !name.trim().is_empty() && address.parse::<Ipv6Addr>().is_err();
    is_name.then(|| name.trim())
}
