//! Names of the runs of a text: what distinguishes them becomes their names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use plan::secrets::hide_secrets;
use plan::{OptionName, OptionValue, Target, units};
use results::metric;
use results::{PLACE_FACTOR, Setting};

use super::Run;
use super::heading::{SourceLine, Title};

use crate::{LoadPart, Observation, Origin};

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
    durations_differ: bool,
    scripts_differ: bool,
    /// For each run, the URL that its rounds share.
    urls: Vec<Option<String>>,
    /// Whether names of servers in place of addresses (`http://[x86_64 VM]/`) distinguish all URLs.
    has_server_names: bool,
    /// Depths of headings that became settings, outermost first, with what they name.
    headings: Vec<(u8, Heading)>,
    /// Rounds with another URL than the first round of the same thing.
    pub(super) notes: Vec<String>,
}

/// What headings of a depth name.
#[derive(Debug, Clone, PartialEq)]
enum Heading {
    /// Levels of a setting.
    Setting(String),
    /// Sets of load options, one for each heading.
    Profile,
}

impl Names {
    pub(super) fn of(runs: &[Run]) -> Self {
        let differ =
            |of: fn(&Run) -> Option<&str>| runs.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]));
        let mut names = Self {
            common_titles: common_titles(runs),
            targets_are_urls: false,
            durations_differ: differ(|run| run.report.duration.as_deref()),
            scripts_differ: differ(|run| run.own_command()?.script.as_deref()),
            urls: runs
                .iter()
                .map(|run| run.url().map(str::to_owned))
                .collect(),
            has_server_names: false,
            headings: Vec::new(),
            notes: Vec::new(),
        };
        names.unite_rounds(runs);
        names.targets_are_urls = names.is_any_heading_of_several_urls(runs);
        let urls: BTreeSet<&String> = names.urls.iter().flatten().collect();
        let servers: Option<BTreeSet<(&str, (&str, &str))>> =
            urls.iter().map(|url| named_server(url)).collect();
        names.has_server_names = servers.is_some_and(|servers| {
            let elsewhere: BTreeSet<_> = servers.iter().map(|(_, rest)| rest).collect();
            !servers.is_empty() && elsewhere.len() == 1
        });
        names.headings = names.headings(runs);
        names
    }

    /// Gives rounds of the same thing, according to their headings, the URL of the first round:
    /// people mistype addresses, which does not make another target. The URL that was requested is
    /// still part of the load.
    fn unite_rounds(&mut self, runs: &[Run]) {
        let mut sections: BTreeMap<_, BTreeMap<u32, Vec<usize>>> = BTreeMap::new();
        for (index, run) in runs.iter().enumerate() {
            let Some((round, _)) = run.round else {
                continue;
            };
            let titles: Vec<&str> = run.titles.iter().map(|title| title.text.as_str()).collect();
            let settings: Vec<&Setting> = run.settings.iter().map(|(setting, _)| setting).collect();
            let key = (titles, settings, run.load());
            let rounds: &mut BTreeMap<u32, Vec<usize>> = sections.entry(key).or_default();
            rounds.entry(round).or_default().push(index);
        }
        for rounds in sections.values() {
            let mut rounds = rounds.values();
            let Some(first) = rounds.next() else {
                continue;
            };
            let servers = |runs: &[usize]| -> Option<Vec<&str>> {
                let urls = runs.iter().map(|index| self.urls[*index].as_deref());
                urls.map(|url| url.map(|url| split_url(url).0)).collect()
            };
            let Some(known) = servers(first) else {
                continue;
            };
            let are_apart = known.iter().collect::<BTreeSet<_>>().len() == known.len();
            let alike: Vec<&Vec<usize>> = rounds
                .filter(|round| are_apart && servers(round).as_ref() == Some(&known))
                .collect();
            for (place, index) in alike.into_iter().flat_map(|round| round.iter().enumerate()) {
                let url = self.urls[first[place]].clone();
                if self.urls[*index] != url {
                    self.notes.push(format!(
                        "line {}: asks for {}, and the first round for {}: taken for the same \
                         target",
                        runs[*index].line,
                        hide_secrets(self.urls[*index].as_deref().unwrap_or_default()),
                        hide_secrets(url.as_deref().unwrap_or_default()),
                    ));
                    self.urls[*index] = url;
                }
            }
        }
    }

    fn is_any_heading_of_several_urls(&self, runs: &[Run]) -> bool {
        let mut url_of: BTreeMap<usize, &str> = BTreeMap::new();
        runs.iter().zip(&self.urls).any(|(run, url)| {
            let (Some(title), Some(url)) = (run.titles.last(), url) else {
                return false;
            };
            let is_common = run.titles.len() <= self.common_titles;
            !is_common && *url_of.entry(title.line.number).or_insert(url) != url
        })
    }

    /// The titles of a run except for its target.
    fn other_titles<'r>(&self, run: &'r Run) -> &'r [Title] {
        let own = run.titles.get(self.common_titles..).unwrap_or_default();
        match own.split_last() {
            Some((_, outer)) if !self.targets_are_urls => outer,
            _ => own,
        }
    }

    fn headings(&self, runs: &[Run]) -> Vec<(u8, Heading)> {
        let titles = || runs.iter().flat_map(|run| self.other_titles(run));
        let depths: BTreeSet<u8> = titles().map(|title| title.depth).collect();
        let mut headings = Vec::new();
        let mut settings = 0;
        let mut inner_first = depths.iter().rev();
        let of_profiles = inner_first.find(|depth| self.is_of_profiles(runs, **depth));
        for &depth in &depths {
            if Some(&depth) == of_profiles {
                headings.push((depth, Heading::Profile));
                continue;
            }
            settings += 1;
            let mut of_depth = titles().filter(|title| title.depth == depth);
            let is_from = |title: &Title| {
                title
                    .text
                    .to_lowercase()
                    .split(' ')
                    .any(|word| word == "from")
            };
            let name = match settings {
                1 if of_depth.all(is_from) => PLACE_FACTOR.to_owned(),
                1 => HEADING.to_owned(),
                number => format!("{HEADING} {number}"),
            };
            headings.push((depth, Heading::Setting(name)));
        }
        headings
    }

    /// Whether each heading of a depth has one load, which is below no other heading.
    fn is_of_profiles(&self, runs: &[Run], depth: u8) -> bool {
        let mut pairs = BTreeSet::new();
        for run in runs {
            let titles = self.other_titles(run);
            let Some(title) = titles.iter().find(|title| title.depth == depth) else {
                return false;
            };
            let Some(load) = self.load(run) else {
                return false;
            };
            pairs.insert((&title.text, load));
        }
        let titles: BTreeSet<_> = pairs.iter().map(|(title, _)| title).collect();
        let loads: BTreeSet<_> = pairs.iter().map(|(_, load)| load).collect();
        pairs.len() > 1 && titles.len() == pairs.len() && loads.len() == pairs.len()
    }

    pub(super) fn observation(&self, index: usize, run: Run, source: &str) -> Observation {
        let rate = run.own_command().and_then(|command| command.rate);
        let noted_load = noted_load(&run);
        let mut origins = Vec::new();
        let settings = self.settings(&run, &mut origins);
        let profile = self.profile(&run, &mut origins);
        if let Some((round, line)) = &run.round {
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
            round: run.round.map(|(round, _)| round),
            values,
            failure: run.failure,
            origins,
            ..Observation::default()
        }
    }

    fn settings(&self, run: &Run, origins: &mut Vec<Origin>) -> Vec<Setting> {
        let of_headings = self.other_titles(run).iter().filter_map(|title| {
            let (_, heading) = self
                .headings
                .iter()
                .find(|(depth, _)| *depth == title.depth)?;
            match heading {
                Heading::Setting(factor) => Some((factor.clone(), &title.text, &title.line)),
                Heading::Profile => None,
            }
        });
        let of_lines = run
            .settings
            .iter()
            .map(|(setting, line)| (setting.factor.clone(), &setting.level, line));
        let mut settings = Vec::new();
        for (factor, level, line) in of_headings.chain(of_lines) {
            origins.push(Origin::new(&factor, level, line.to_string()));
            settings.push(Setting {
                factor,
                level: level.clone(),
            });
        }
        settings
    }

    fn profile(&self, run: &Run, origins: &mut Vec<Origin>) -> Option<String> {
        let mut from = Vec::new();
        let is_of_profile = |title: &&Title| {
            self.headings
                .iter()
                .any(|(depth, heading)| *depth == title.depth && *heading == Heading::Profile)
        };
        let title = self.other_titles(run).iter().find(is_of_profile);
        from.extend(title.map(|title| title.line.to_string()));
        from.extend(run.load_line.as_ref().map(SourceLine::to_string));
        if run.own_command().is_some() {
            from.extend(run.command.iter().map(|(_, line)| line.to_string()));
        }
        let title = title.map(|title| title.text.clone());
        let words: Vec<String> = title.into_iter().chain(self.load(run)).collect();
        let profile = Some(words.join(" ")).filter(|profile| !profile.is_empty())?;
        origins.push(Origin::new("profile", &profile, from.join("; ")));
        Some(profile)
    }

    fn target(&self, index: usize, run: &Run, origins: &mut Vec<Origin>) -> Option<String> {
        let own = run.titles.get(self.common_titles..).unwrap_or_default();
        let (target, from) = match own.last().filter(|_| !self.targets_are_urls) {
            Some(title) => (title.text.clone(), title.line.to_string()),
            None => {
                let url = self.urls[index].as_deref()?;
                let name = match named_server(url).filter(|_| self.has_server_names) {
                    Some((name, _)) => name,
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
        let command = run.own_command();
        let (threads, connections) = run.load();
        let rate = command.and_then(|command| command.rate);
        let count =
            |option: &str, count: Option<u64>| count.map(|count| format!("{option}{count}"));
        let duration = run
            .report
            .duration
            .as_ref()
            .filter(|_| self.durations_differ);
        let script = command
            .and_then(|command| command.script.as_ref())
            .filter(|_| self.scripts_differ);
        let parts = [
            count("-t", threads),
            count("-c", connections),
            duration.map(|duration| format!("-d{duration}")),
            count("-R", rate),
            script.map(|script| format!("-s {script}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

fn common_titles(runs: &[Run]) -> usize {
    let [first, .., _] = runs else {
        return 0;
    };
    let text = |run: &Run, at: usize| run.titles.get(at).map(|title| title.text.clone());
    (0..first.titles.len())
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
    if let Some(command) = run.own_command() {
        let timeout = command.timeout.as_deref().unwrap_or(DEFAULT_TIMEOUT);
        let timeout = match units::parse_time(timeout) {
            Ok(time) => OptionValue::Time(time),
            Err(_) => OptionValue::Text(timeout.to_owned()),
        };
        parts.push(LoadPart::of_option(OptionName::TIMEOUT, timeout));
    }
    let tool = match (run.report.is_of_wrk2, run.report.has_min) {
        (true, _) => Some("wrk2"),
        (false, true) => Some("wrk-cmm"),
        (false, false) => None,
    };
    parts.extend(tool.map(|tool| LoadPart::other("tool", tool, tool)));
    parts
}

/// The share of its duration that a run took, if it was ended early: to ten percent, so that runs
/// which a script ends are still repetitions of each other.
fn ended_early(run: &Run) -> Option<LoadPart> {
    let planned_us = least_us(run.report.duration.as_deref()?)?;
    let took_us = *run.report.values.get(metric::DURATION_US)?;
    let ratio = took_us / planned_us;
    Some(if ratio >= WHOLE_RATIO {
        LoadPart::other("length", "whole", "")
    } else {
        let ended = format!("ended after {} %", (ratio * 10.0).round() * 10.0);
        LoadPart::other("length", &ended, &format!("({ended})"))
    })
}

/// The shortest time that is printed like this, in microseconds: 90 s are printed as `2m`.
fn least_us(printed: &str) -> Option<f64> {
    let duration = units::parse_time(printed).ok()?;
    let seconds = duration.as_secs_f64();
    let least = match printed.bytes().last()? {
        b'm' => seconds - 30.0,
        b'h' => seconds - 1_800.0,
        _ => seconds,
    };
    (least > 0.0).then_some(least * 1e6)
}

/// Splits a URL into scheme, host and port, and the path.
fn split_url(url: &str) -> (&str, &str) {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path = url[authority..].find('/');
    url.split_at(path.map_or(url.len(), |at| authority + at))
}

/// A name in place of an address, `http://[x86_64 VM IP]:8080/`, and the text before and after it.
fn named_server(url: &str) -> Option<(&str, (&str, &str))> {
    let (scheme, rest) = url.split_once("://")?;
    let (open, close) = match rest.chars().next()? {
        '[' => ('[', ']'),
        '<' => ('<', '>'),
        '{' => ('{', '}'),
        _ => return None,
    };
    let (name, rest) = rest.strip_prefix(open)?.split_once(close)?;
    let address = name.split('%').next().unwrap_or(name);
    let is_name = !name.trim().is_empty() && address.parse::<Ipv6Addr>().is_err();
    is_name.then_some((name.trim(), (scheme, rest)))
}
