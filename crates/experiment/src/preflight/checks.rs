//! Checks for everything that is known to fail; each problem is one line that says what to do.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plan::secrets::hide_in_url;

use super::PlannedLoad;
use crate::agents::Agent;
use crate::change::{Change, FILE_SIZE_MAX, sysctl_path};
use crate::design::Schedule;
use crate::factor::{Factor, FactorKind};
use crate::hooks::Failure;
use crate::host::{Host, HostAccess, check_folder};
use crate::remote::{Machines, label_on};
use crate::settings;
use crate::spec::{OptionValue, Ready, Spec, option_in};

/// The time limit of a request that checks whether a server is there.
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// With fewer rounds, comparing two levels cannot give a significant result at 5 %: with three
/// rounds each, the smallest p of the Mann-Whitney test is 2/20.
const FEW_ROUNDS: u32 = 4;

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) problems: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Findings {
    pub(super) fn problem(&mut self, spec: &Spec, line: usize, text: impl AsRef<str>) {
        let text = format!("{}:{line}: {}", spec.file.display(), text.as_ref());
        if !self.problems.contains(&text) {
            self.problems.push(text);
        }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// A problem, unless a hook that runs before may solve it.
    fn problem_unless(&mut self, may_be_solved: bool, spec: &Spec, line: usize, text: String) {
        if may_be_solved {
            self.note(text)
        } else {
            self.problem(spec, line, text)
        }
    }
}

pub(super) fn check(
    spec: &Spec,
    schedule: &Schedule,
    loads: &[PlannedLoad],
    machines: &mut Machines<'_>,
    agents: Option<&[Agent]>,
    findings: &mut Findings,
) {
    check_loads(spec, loads, findings);
    check_hosts(spec, machines, findings);
    for factor in &spec.factors {
        let Some(host) = machines.get(factor.host.as_deref()) else {
            continue;
        };
        match &factor.kind {
            FactorKind::Sysctl { keys } => check_sysctls(spec, factor, keys, host, findings),
            FactorKind::File { path, .. } => {
                check_file(spec, factor, path, host, &*machines.local, findings);
            }
            FactorKind::Command { .. } | FactorKind::Option { .. } => {}
        }
    }
    check_same_values(spec, findings);
    for host in std::iter::once(None).chain(spec.hosts().into_keys().map(Some)) {
        if let Some(machine) = machines.get(host) {
            check_container(spec, host, machine, findings);
        }
    }
    check_commands(spec, machines, findings);
    check_results(spec, machines.local, findings);
    check_responses(spec, machines.local, agents.is_some(), findings);
    remark(spec, schedule, findings);
}

/// Other machines must be there, and no other sweep may change them.
fn check_hosts(spec: &Spec, machines: &mut Machines<'_>, findings: &mut Findings) {
    for (host, line) in spec.hosts() {
        let Some(machine) = machines.others.get_mut(host) else {
            let text = format!(
                "host {host}: needs an agent on that machine: give --fleet nats://HOST \
                 (docs/fleet.md)"
            );
            findings.problem(spec, line, text);
            continue;
        };
        if let Err(error) = machine.check() {
            findings.problems.push(error.to_string());
        }
    }
}

/// Invalid options and scripts that do not load, as reported by the caller.
fn check_loads(spec: &Spec, loads: &[PlannedLoad], findings: &mut Findings) {
    for load in loads {
        let Err(Failure { reason, .. }) = &load.plan else {
            continue;
        };
        // The same mistake in several cells is reported once.
        let mut known = findings.problems.iter();
        if known.any(|known| known.ends_with(reason.as_str())) {
            continue;
        }
        match option_line(spec, reason) {
            Some(line) => findings.problem(spec, line, reason),
            None => findings
                .problems
                .push(format!("{}: {reason}", spec.file.display())),
        }
    }
}

/// The line of the option, or of the factor, that an error message begins with.
pub(super) fn option_line(spec: &Spec, reason: &str) -> Option<usize> {
    let name = option_in(reason)?;
    let profiles = spec.profiles.iter().map(|profile| &profile.load);
    let targets = spec.targets.iter().map(|target| &target.load);
    let of_factor = spec.factors.iter().find_map(|factor| match &factor.kind {
        FactorKind::Option { option } if option == name => Some(factor.line),
        _ => None,
    });
    let mut layers = std::iter::once(&spec.load).chain(profiles).chain(targets);
    of_factor.or_else(|| layers.find_map(|options| options.line_of(reason)))
}

fn check_sysctls(
    spec: &Spec,
    factor: &Factor,
    keys: &[String],
    host: &dyn HostAccess,
    findings: &mut Findings,
) {
    for setting in keys {
        let Some(path) = sysctl_path(setting) else {
            continue;
        };
        let key = &label_on(factor.host.as_deref(), setting);
        if let Some(why) = settings::why_irreversible(&path) {
            let text = format!("{key}: {why}, so it cannot be a factor");
            findings.problem(spec, factor.line, text);
            continue;
        }
        let present = match host.read(&path) {
            Ok(present) => String::from_utf8_lossy(&present).trim().to_owned(),
            Err(error) => {
                findings.problem(spec, factor.line, format!("{key}: {}", unreadable(&error)));
                continue;
            }
        };
        if let Err(error) = host.check_writable(&path) {
            let why = if host.is_root() {
                read_only(host, &path, &error)
            } else {
                format!("only root may set it: {}", as_root(factor))
            };
            findings.problem(spec, factor.line, format!("{key}: {why}"));
        }
        for level in &factor.levels {
            let refusal = factor
                .sysctl_value(setting, level)
                .and_then(|value| settings::refusal(&path, &present, value));
            if let Some(refusal) = refusal {
                findings.problem(spec, level.line, format!("{key}: {refusal}"));
            }
        }
        check_available(spec, factor, setting, host, findings);
    }
}

/// One value under two names cannot be varied twice: each write would undo the other.
fn check_same_values(spec: &Spec, findings: &mut Findings) {
    let mut seen: Vec<(&str, PathBuf, Option<&String>)> = Vec::new();
    for factor in &spec.factors {
        let host = factor.host.as_ref();
        for key in factor.sysctls() {
            let Some(path) = sysctl_path(key) else {
                continue;
            };
            let other = seen
                .iter()
                .find(|(_, it, on)| *on == host && settings::is_same_value(it, &path));
            if let Some((other, ..)) = other {
                let text = format!("{key}: is the same value as {other}: vary one of the two");
                findings.problem(spec, factor.line, text);
            }
            seen.push((key, path, host));
        }
    }
}

fn as_root(factor: &Factor) -> &'static str {
    match factor.host {
        None => "run the sweep as root (sudo)",
        Some(_) => "start the agent there as root",
    }
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "no such setting on this machine (sysctl -a lists them; some need a kernel module or \
             the initial network namespace)"
                .to_owned()
        }
        _ => format!("cannot be read, so it could not be restored ({error})"),
    }
}

/// Why root cannot set it.
fn read_only(host: &dyn HostAccess, path: &Path, error: &io::Error) -> String {
    if path.starts_with("/proc/sys/net") && !is_first_namespace(host) {
        format!(
            "read-only in this network namespace ({error}): it can only be set in the machine's \
             initial one"
        )
    } else {
        format!("read-only ({error})")
    }
}

/// Whether this is the machine's initial network namespace: `net_core_table` in
/// net/core/sysctl_net_core.c is registered only there.
fn is_first_namespace(host: &dyn HostAccess) -> bool {
    host.read(Path::new("/proc/sys/net/core/netdev_budget"))
        .is_ok()
}

/// The kernel lists the congestion controls that are loaded. It may load others on demand, so one
/// that is not there is a note. One that is there can be restricted to the initial network
/// namespace (`tcp_set_default_congestion_control` in net/ipv4/tcp_cong.c), also for root.
fn check_available(
    spec: &Spec,
    factor: &Factor,
    setting: &str,
    host: &dyn HostAccess,
    findings: &mut Findings,
) {
    if sysctl_path(setting).as_deref()
        != Some(Path::new("/proc/sys/net/ipv4/tcp_congestion_control"))
    {
        return;
    }
    let list = Path::new("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let Ok(available) = host.read(list) else {
        return;
    };
    let available = String::from_utf8_lossy(&available).trim().to_owned();
    let is_restricted = !is_first_namespace(host);
    let allowed = is_restricted
        .then(|| host.read(Path::new(ALLOWED_CONGESTION_CONTROLS)).ok())
        .flatten()
        .map(|it| String::from_utf8_lossy(&it).trim().to_owned());
    let key = label_on(factor.host.as_deref(), setting);
    for level in &factor.levels {
        let value = factor.sysctl_value(setting, level).unwrap_or_default();
        if !available.split_whitespace().any(|known| known == value) {
            findings.note(format!(
                "{}:{}: {key}: {value} is not loaded now (loaded: {available}); if the kernel has \
                 no module \
                 tcp_{value}, its trials will fail",
                spec.file.display(),
                level.line
            ));
        } else if let Some(allowed) = &allowed
            && !allowed.split_whitespace().any(|known| known == value)
        {
            let text = format!(
                "{key}: {value} cannot be set in this network namespace, where only {allowed} are \
                 allowed; in the machine's initial one, `sysctl -w \
                 net.ipv4.tcp_allowed_congestion_control='{allowed} {value}'` allows it"
            );
            findings.problem(spec, level.line, text);
        }
    }
}

const ALLOWED_CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

fn check_file(
    spec: &Spec,
    factor: &Factor,
    path: &Path,
    host: &dyn HostAccess,
    local: &dyn HostAccess,
    findings: &mut Findings,
) {
    let file = label_on(factor.host.as_deref(), &path.display().to_string());
    match host.read(path) {
        Ok(content) if content.len() > FILE_SIZE_MAX => {
            let text =
                format!("{file}: larger than {FILE_SIZE_MAX} bytes: not a configuration file");
            findings.problem(spec, factor.line, text);
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => findings.note(format!(
            "{file}: does not exist; the sweep creates it, and removes it at the end"
        )),
        Err(error) => {
            let text = format!("{file}: cannot be read, so it could not be restored ({error})");
            findings.problem(spec, factor.line, text);
        }
    }
    if let Err(error) = host.check_writable(path) {
        let text = format!("{file}: cannot be written ({error})");
        findings.problem(spec, factor.line, text);
    }
    let mut contents: Vec<(Vec<u8>, &str)> = Vec::new();
    for level in &factor.levels {
        let changes = factor.changes(&level.name, |path| local.read(path));
        let changes =
            changes.map_err(|error| findings.problem(spec, level.line, error.to_string()));
        for change in changes.unwrap_or_default() {
            let Change::File { content, .. } = change else {
                continue;
            };
            if let Some((_, other)) = contents.iter().find(|(known, _)| *known == content) {
                let (level_name, name) = (&level.name, &factor.name);
                let text = format!("levels {other} and {level_name} of {name} give the same file");
                findings.problem(spec, level.line, text);
            }
            contents.push((content, &level.name));
        }
    }
}

/// A container that shares the machine's network would change settings of the whole machine.
/// Process 2 of a machine is a kernel thread; a container has none.
fn check_container(
    spec: &Spec,
    name: Option<&str>,
    host: &dyn HostAccess,
    findings: &mut Findings,
) {
    let keys = spec.sysctls(name);
    let Some(key) = keys.first().map(|key| label_on(name, key)) else {
        return;
    };
    let second = host.read(Path::new("/proc/2/comm")).unwrap_or_default();
    let is_machine = second.starts_with(b"kthreadd");
    let has_processes = host.read(Path::new("/proc/1/comm")).is_ok();
    if has_processes && !is_machine && is_first_namespace(host) {
        findings.problems.push(format!(
            "{key}: this container shares the machine's network namespace, so the setting would \
             change for the whole machine: run the sweep on the machine itself, or give the \
             container its own network"
        ));
    }
}

/// The first program of each command, unless the shell would have to expand its name.
fn check_commands(spec: &Spec, machines: &Machines<'_>, findings: &mut Findings) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
    for (what, command, line, host) in commands(spec) {
        let Some(host) = machines.get(host) else {
            continue;
        };
        let program = command.split_whitespace().next().unwrap_or_default();
        if !program.is_empty() && program.chars().all(is_plain) && !host.has_program(program) {
            findings.problem(spec, line, format!("{what}: program {program} not found"));
        }
    }
}

/// Every command of the experiment, with its name, its line and its machine.
pub(super) fn commands(spec: &Spec) -> Vec<(String, &str, usize, Option<&str>)> {
    let mut commands = Vec::new();
    for (what, hook) in spec.all_hooks() {
        let host = hook.host.as_deref();
        let what = label_on(host, &what);
        commands.push((what, hook.command.as_str(), hook.line, host));
    }
    for factor in &spec.factors {
        let host = factor.host.as_deref();
        let named = |what: &str| label_on(host, &format!("{what} of {}", factor.name));
        match &factor.kind {
            FactorKind::Command { apply, restore, .. } => {
                commands.push((named("apply"), apply, factor.line, host));
                commands.push((named("restore"), restore, factor.line, host));
            }
            FactorKind::File {
                check: Some(check), ..
            } => {
                commands.push((named("check"), &check.command, factor.line, host));
            }
            FactorKind::File { .. } | FactorKind::Sysctl { .. } | FactorKind::Option { .. } => {}
        }
    }
    commands
}

fn check_results(spec: &Spec, host: &dyn Host, findings: &mut Findings) {
    if let Err(error) = check_folder(host, &spec.results) {
        findings.problems.push(format!(
            "{}: cannot write results ({error}): choose another folder with results = \"...\" \
             or --results",
            spec.results.display()
        ));
    }
}

/// Options with which the URL of a target cannot be requested here: the option, its name in a file,
/// and what our request uses instead. With a Unix socket, the host of the URL is only a name. A
/// server with HTTP/2 need not speak HTTP/1.
const NOT_REQUESTED: [(&str, &str, &str); 5] = [
    ("proxy", "proxy", "no proxy"),
    ("unix-socket", "unix_socket", "TCP"),
    ("http2", "http2", "HTTP/1.1"),
    ("grpc", "grpc", "HTTP/1.1"),
    ("alpn", "alpn", "HTTP/1.1"),
];

/// Whether a server that fits this value of one of [`NOT_REQUESTED`] may refuse our request.
fn excludes_ours(value: &OptionValue) -> bool {
    match value {
        OptionValue::Flag(is_given) => *is_given,
        // A list of protocols for ALPN.
        OptionValue::Text(text) => !text.contains("http/1.1"),
        OptionValue::List(_) => true,
    }
}

/// Requests each URL once: those of the targets, and that of `ready`.
fn check_responses(spec: &Spec, host: &mut dyn Host, is_fleet: bool, findings: &mut Findings) {
    let hooks = &spec.hooks;
    let ready = hooks.ready.as_ref();
    let mut urls: BTreeMap<&str, usize> = BTreeMap::new();
    let profiles = spec.profiles.iter().map(|profile| &profile.load);
    let of_all: Vec<_> = std::iter::once(&spec.load).chain(profiles).collect();
    for target in &spec.targets {
        let layers = of_all.iter().copied().chain([&target.load]);
        let in_layers = |name: &str| {
            let mut layers = layers.clone();
            layers.any(|load| load.get(name).is_some_and(excludes_ours))
        };
        // With one level that allows our request, the server must answer it.
        let in_factors = |name: &str| {
            spec.factors.iter().any(|factor| {
                factor.levels.iter().all(|level| {
                    let option = factor.load_option(&level.name);
                    option.is_some_and(|it| it.name == name && excludes_ours(&it.value))
                })
            })
        };
        let is_used = |option: &&(&str, &str, &str)| in_layers(option.0) || in_factors(option.0);
        let Some((_, option, ours)) = NOT_REQUESTED.iter().find(is_used) else {
            urls.insert(&target.url, target.line);
            continue;
        };
        if ready.is_some_and(|ready| ready.url.is_none()) {
            let text = format!(
                "{}: uses {option}, but ready uses {ours}: give ready a url, or remove it",
                target.name
            );
            findings.problem(spec, target.line, text);
        }
    }
    let own = ready.and_then(|ready| ready.url.as_deref());
    if let Some(own) = own {
        let line = spec.targets.first().map_or(1, |target| target.line);
        urls.entry(own).or_insert(line);
    }
    // The hooks that start the server have not run yet; `before` runs when it is ready.
    let may_start = hooks.setup.is_some()
        || spec.targets.iter().any(|target| target.before.is_some())
        || (hooks.before.is_some() && ready.is_none());
    // It runs before the first trial if that changes the machine.
    let restarts = hooks.restart.is_some() && spec.factors.iter().any(Factor::needs_restart);
    let limit = ready.map_or(ASK_LIMIT, |ready| ready.within.min(ASK_LIMIT));
    for (url, line) in urls {
        let asked = own.is_none_or(|own| own == url);
        let ready = ready.filter(|_| asked);
        let answer = host.http_status(url, limit);
        let url = &hide_in_url(url);
        match answer {
            Ok(status) => judge_status(spec, line, url, status, ready, may_start, findings),
            Err(error) if may_start || restarts => findings.note(format!(
                "{url}: no response yet ({error}); the setup, restart or before hook must start \
                 the server"
            )),
            Err(error) if is_fleet && ready.is_none() => findings.note(format!(
                "{url}: no response to this machine ({error}); the agents must reach it"
            )),
            Err(error) => {
                let text = format!(
                    "{url}: no response ({error}): start the server first, or in the setup hook"
                );
                findings.problem(spec, line, text);
            }
        }
    }
}

fn judge_status(
    spec: &Spec,
    line: usize,
    url: &str,
    status: u16,
    ready: Option<&Ready>,
    may_start: bool,
    findings: &mut Findings,
) {
    match ready {
        Some(ready) if !ready.takes(status) => {
            let expected = ready.expected();
            let text =
                format!("{url}: responds with status {status}, but ready waits for {expected}");
            findings.problem_unless(may_start, spec, line, text);
        }
        // A file of requests may have none for this page.
        None if status >= 400 && spec.load.get("request-file").is_none() => {
            findings.note(format!(
                "{url}: responds with status {status}: is this the intended page?"
            ));
        }
        _ => {}
    }
}

/// Notes: not wrong, but worth knowing before the start.
fn remark(spec: &Spec, schedule: &Schedule, findings: &mut Findings) {
    let varies = schedule.cells.len() > 1;
    if spec.order == results::Order::Sequential && varies {
        findings.note(
            "order = \"sequential\": slow changes of the machine (caches, temperature, other \
             guests) will look like effects of the levels; remove it unless changing levels is \
             very slow",
        );
    }
    // Every cell with a level adds to its runs.
    let is_pair = schedule.cells.len() == 2;
    if spec.rounds < FEW_ROUNDS && is_pair {
        findings.note(format!(
            "rounds = {}: fewer than {FEW_ROUNDS} cannot show a difference between two levels at \
             p < 0.05",
            spec.rounds
        ));
    }
    let sockets = spec.telemetry.as_ref().and_then(|it| it.sockets.as_deref());
    if sockets == Some("") {
        findings.note(
            "telemetry: samples all sockets of this network namespace, not only those of the \
             server",
        );
    }
    let needs_restart = spec.factors.iter().any(Factor::needs_restart);
    match (spec.hooks.restart.is_some(), needs_restart) {
        (true, false) => findings.note(
            "the restart hook never runs: it follows changes of kernel settings, files or \
             commands, and no factor makes any",
        ),
        (false, true) => findings.note(
            "no restart hook: servers read many settings only when they start, and open \
             connections keep their buffers",
        ),
        _ => {}
    }
}

/// The files that factors set.
pub(super) fn files(spec: &Spec) -> Vec<(&Factor, &PathBuf, &PathBuf)> {
    let files = spec.factors.iter().filter_map(|factor| match &factor.kind {
        FactorKind::File { path, template, .. } => Some((factor, path, template)),
        _ => None,
    });
    files.collect()
}
