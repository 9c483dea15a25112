//! Command lines of the load generators in notes.

use plan::units::parse_count;

use super::lines::setting;

/// The options of a command line of one of the tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Command {
    /// Name of the program.
    pub(super) tool: String,
    /// Number of threads: `-t`.
    pub(super) threads: Option<u64>,
    /// Number of connections: `-c`.
    pub(super) connections: Option<u64>,
    /// The duration as written: `-d`.
    pub(super) duration: Option<String>,
    /// Requests per second: `-R`.
    pub(super) rate: Option<u64>,
    /// The script as written: `-s`.
    pub(super) script: Option<String>,
    /// The timeout as written: `-T`.
    pub(super) timeout: Option<String>,
    /// The argument that contains `://`.
    pub(super) url: Option<String>,
    /// Everything else that may matter: `-H 'Accept-Encoding: gzip'`, `taskset -c 0`.
    pub(super) others: String,
    /// Where its output goes, and other commands on its line.
    pub(super) output: String,
    /// The prompt without its end, which may name a machine.
    pub(super) prompt: Option<String>,
}

/// The tools whose command lines are read.
const TOOLS: [&str; 4] = ["wrk", "wrk2", "wrk-cmm", "wrkbench"];

/// What may precede a tool.
const WRAPPERS: [&str; 10] = [
    "sudo", "time", "exec", "env", "nohup", "nice", "taskset", "numactl", "-c", "-n",
];

/// Options of the tools that only change what is printed or saved. All but the last print.
const OUTPUT_OPTIONS: [&str; 7] = [
    "latency",
    "L",
    "U",
    "u_latency",
    "breakout",
    "percentiles",
    "json",
];

/// Limit on the words of a command line.
const WORDS_MAX: usize = 200;

/// A command line of one of the tools, with or without a prompt before it.
pub(super) fn tool(line: &str) -> Option<Command> {
    let prompted = ["$ ", "# ", "> ", "% "].into_iter();
    let prompted = prompted.filter_map(|end| line.split_once(end));
    let mut candidates = std::iter::once(("", line)).chain(prompted);
    candidates.find_map(|(prompt, text)| {
        let mut command = parse_tool(text.trim_matches(['`', ' ']))?;
        command.prompt = Some(prompt.trim().to_owned()).filter(|prompt| !prompt.is_empty());
        Some(command)
    })
}

/// What follows a prompt: `$ `, `root@host:~# `, `[me@host dir]$ `.
pub(super) fn after_prompt(line: &str) -> Option<&str> {
    let ends = ["$ ", "# ", "% "].into_iter();
    let at = ends.filter_map(|end| line.find(end)).min()?;
    let (prompt, rest) = line.split_at(at);
    let is_prompt = prompt.contains(['@', '~']) && prompt.split(' ').count() < 4;
    (is_prompt || line.starts_with("$ ")).then(|| rest[2..].trim())
}

fn parse_tool(text: &str) -> Option<Command> {
    let mut words = words(text).take(WORDS_MAX).map(unquoted);
    let mut placed = Vec::new();
    // What may precede the tool: `sudo`, `time`, `taskset -c 0`, `A=b`.
    let tool = words.by_ref().take(8).find_map(|word| {
        let program = word.rsplit('/').next().unwrap_or(word);
        if TOOLS.contains(&program) {
            return Some(Some(program));
        }
        placed.push(word);
        let is_number = word.bytes().all(|b| matches!(b, b'0'..=b'9' | b',' | b'-'));
        let may_precede = WRAPPERS.contains(&word) || is_number || setting(word).is_some();
        (!may_precede).then_some(None)
    })??;
    let words: Vec<&str> = words.collect();
    let end = words.iter().position(|word| ends_command(word));
    let (words, after) = words.split_at(end.unwrap_or(words.len()));
    let is_option = |word: &&str| word.starts_with('-') || word.contains("://");
    let mut command = words
        .iter()
        .any(is_option)
        .then(|| options(placed, words))?;
    command.tool = tool.to_owned();
    command.output.push_str(&after.join(" "));
    Some(command)
}

/// Whether a word passes the output on or begins another command.
fn ends_command(word: &str) -> bool {
    let word = word.trim_start_matches(['1', '2']);
    word.starts_with(['|', '>', '&', ';'])
}

fn options(others: Vec<&str>, words: &[&str]) -> Command {
    let mut command = Command::default();
    let mut others: Vec<String> = others.into_iter().map(str::to_owned).collect();
    let mut words = words.iter().map(|word| word.trim_end_matches(';'));
    while let Some(word) = words.next() {
        let Some((name, attached)) = option(word) else {
            if word.contains("://") && command.url.is_none() {
                command.url = Some(word.to_owned());
            } else {
                others.push(word.to_owned());
            }
            continue;
        };
        let mut value = || attached.or_else(|| words.next());
        let mut count = || value().and_then(|text| parse_count(text).ok());
        match name {
            // The arguments of a script.
            "" => {
                others.push(word.to_owned());
                others.extend(words.by_ref().map(str::to_owned));
            }
            "t" | "threads" => command.threads = count(),
            "c" | "connections" => command.connections = count(),
            "R" | "rate" => command.rate = count(),
            "d" | "duration" => command.duration = value().map(str::to_owned),
            "s" | "script" => command.script = value().map(str::to_owned),
            "T" | "timeout" => command.timeout = value().map(str::to_owned),
            "json" => command.output.extend(value()),
            "H" | "header" => others.extend(value().map(|header| format!("-H {header:?}"))),
            name if OUTPUT_OPTIONS.contains(&name) => {}
            _ => others.push(word.to_owned()),
        }
    }
    command.others = others.join(" ");
    command
}

/// The name of an option, and the value that is attached to it.
fn option(word: &str) -> Option<(&str, Option<&str>)> {
    if let Some(long) = word.strip_prefix("--") {
        let attached = long.split_once('=');
        return Some(attached.map_or((long, None), |(name, value)| (name, Some(value))));
    }
    let (name, value) = word.strip_prefix('-')?.split_at_checked(1)?;
    Some((name, Some(value).filter(|value| !value.is_empty())))
}

/// Splits words as a shell does: spaces within quotes do not split (`-H 'Referer: http://h/'`).
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let mut quote = None;
        let ends_word = |c: char| {
            match quote {
                Some(open) if c == open => quote = None,
                None if matches!(c, '"' | '\'') => quote = Some(c),
                _ => {}
            }
            quote.is_none() && c.is_whitespace()
        };
        let end = rest.find(ends_word).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_found_after_prompts_and_wrappers() {
        for line in [
            "wrk -t4 -c300 -d30s http://localhost/",
            "$ wrk -t 4 -c 300 -d 30s http://localhost/",
            "# wrk --threads=4 --connections 300 --duration=30s 'http://localhost/'",
            "root@host:~# /usr/local/bin/wrk-cmm -t4 -c300 -d30s --breakout http://localhost/",
            "[me@host dir]$ sudo taskset -c 0,1 wrkbench -t4 -c300 -d30s http://localhost/",
            "`wrk -c300 -t4 -d30s http://localhost/`",
            "> FOO=bar time wrk2 http://localhost/ -t4 -d30s -c300",
        ] {
            let command = tool(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                (command.threads, command.connections),
                (Some(4), Some(300)),
                "{line}"
            );
            assert_eq!(command.duration.as_deref(), Some("30s"), "{line}");
            assert_eq!(command.url.as_deref(), Some("http://localhost/"), "{line}");
        }
        let with_rate = tool("wrk2 -R2k -c10 -s x.lua http://h/ -- -t9").unwrap();
        assert_eq!((with_rate.rate, with_rate.threads), (Some(2_000), None));
        assert_eq!(with_rate.script.as_deref(), Some("x.lua"));
    }

    #[test]
    fn quoted_text_is_one_word_of_a_command_line() {
        let command =
            tool("wrk -H \"Referer: http://other/\" -H 'X: -c7 -t9' -c300 'http://h/'").unwrap();
        assert_eq!(command.url.as_deref(), Some("http://h/"));
        assert_eq!((command.threads, command.connections), (None, Some(300)));
    }

    #[test]
    fn what_else_a_command_line_has_is_kept_unless_it_is_about_the_output() {
        for (line, others) in [
            ("wrk -c1 --latency -d1s http://h/ > log.txt", ""),
            ("wrk -c1 http://h/ 2>&1 | tee log-2.txt", ""),
            ("wrkbench -c1 --json a-1.json http://h/", ""),
            ("wrk -c1 -H 'A: b' http://h/", "-H \"A: b\""),
            ("A=1 taskset -c 0-3 wrk -c1 http://h/", "A=1 taskset -c 0-3"),
            ("wrk -c1 http://h/ -- --big 1", "-- --big 1"),
            ("wrk -c1 http://h/ # cold", "# cold"),
        ] {
            assert_eq!(tool(line).unwrap().others, others, "{line}");
        }
        let output = |line: &str| tool(line).unwrap().output;
        assert_eq!(
            output("wrk -c1 http://h/ 2>&1 | tee a.txt"),
            "2>&1 | tee a.txt"
        );
        assert_eq!(output("wrkbench -c1 --json a.json http://h/"), "a.json");
        let prompt = |line: &str| tool(line).unwrap().prompt;
        assert_eq!(prompt("$ wrk -c1 http://h/"), None);
        let of_host = prompt("[me@one wrk]$ ./wrk -c1 http://h/");
        assert_eq!(of_host.as_deref(), Some("[me@one wrk]"));
    }

    #[test]
    fn prose_about_the_tools_is_not_a_command_line() {
        for line in [
            "wrk is a load generator",
            "I ran wrk -t4 -c300",
            "Usage: wrk <options> <url>",
            "# wrk results",
            "",
            "$ ",
            "wrk",
            "ab -n 1000 http://localhost/",
        ] {
            assert_eq!(tool(line), None, "{line:?}");
        }
    }
}
