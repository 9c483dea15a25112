//! Command lines of the load generators in notes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use plan::find_option;
use plan::units::{parse_count, parse_time};
use regex_lite::Regex;

use super::lines::regex;

/// The options of a command line of one of the tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Command {
    /// Name of the program.
    pub(super) tool: String,
    /// Values as written of `-t`, `-c`, `-d`, `-R` and `-T`, by these letters.
    values: BTreeMap<String, String>,
    /// The argument that contains `://`.
    pub(super) url: Option<String>,
    /// Everything else that may matter: `-H 'Accept-Encoding: gzip'`, `taskset -c 0`, the folder of
    /// the program, and what is not understood, such as `-R$RATE`.
    pub(super) others: String,
    /// The prompt without its end, which may name a machine; may be empty.
    pub(super) prompt: String,
    /// Where its output goes, and other commands on its line.
    pub(super) output: String,
}

/// A command line of one of the tools. Before it may be a prompt and what starts a command: `sudo`,
/// `time`, `taskset -c 0`, `A=b`.
static TOOL: LazyLock<Regex> = LazyLock::new(|| {
    let variable = r"\w[\w./-]*=(?:'[^']*'|\S)+";
    let program = r"sudo|time|exec|env|nohup|nice|taskset|numactl|-[cn]|[\d,-]+";
    let tool = r"(?:\./|(?P<folder>\S*/))?(?P<tool>wrk|wrk2|wrk-cmm|wrkbench)\s+";
    // `wrkbench serve` and the other commands make no run.
    let arguments = r"(?P<arguments>(?:localhost\b|\S*[^a-z\s]).*?)[`\s]*$";
    let prompt = r"^(?:(?P<prompt>.*?)[$#>%]\s)??[`\s]*";
    regex(&format!(
        r"{prompt}(?P<wrappers>(?:(?:{program}|{variable})\s+)*){tool}{arguments}"
    ))
});

/// What passes the output on or begins another command.
static END: LazyLock<Regex> = LazyLock::new(|| regex("^[12]*[|>&;]"));

/// Options of the tools that only change what is printed.
const OUTPUT_OPTIONS: [&str; 6] = ["latency", "L", "U", "u_latency", "breakout", "percentiles"];

/// What may name a machine, as a setting and as a part of a load.
pub(super) const PROMPT: &str = "prompt";

/// Limit on the words of a command line.
const WORDS_MAX: usize = 200;

/// A command line of one of the tools, with or without a prompt before it.
pub(super) fn tool(line: &str) -> Option<Command> {
    let found = TOOL.captures(Some(line).filter(|line| line.contains("wrk"))?)?;
    let words = words(&found["arguments"]).take(WORDS_MAX);
    let words: Vec<&str> = words.map(|word| word.trim_matches(['"', '\''])).collect();
    let end = words.iter().position(|word| END.is_match(word));
    let (words, after) = words.split_at(end.unwrap_or(words.len()));
    let is_option = |word: &&&str| word.starts_with('-') || word.contains("://");
    words.iter().find(is_option)?;
    let wrappers = found["wrappers"].split_whitespace();
    let wrappers = wrappers.chain(found.name("folder").map(|folder| folder.as_str()));
    let mut command = Command::of(wrappers.map(str::to_owned).collect(), words);
    command.tool = found["tool"].to_owned();
    command.output.push_str(&after.join(" "));
    let prompt = found.name("prompt").map(|prompt| prompt.as_str().trim());
    command.prompt = prompt.unwrap_or_default().to_owned();
    Some(command)
}

/// A prompt without its end, and what follows it: `$ `, `root@host:~# `, `[me@host dir]$ `.
pub(super) fn after_prompt(line: &str) -> Option<(&str, &str)> {
    let ends = ["$ ", "# ", "% "].into_iter();
    let at = ends.filter_map(|end| line.find(end)).min()?;
    let (prompt, rest) = line.split_at(at);
    let is_prompt = prompt.contains(['@', '~']) && prompt.split(' ').count() < 4;
    (is_prompt || line.starts_with("$ ")).then(|| (prompt, rest[2..].trim()))
}

impl Command {
    fn of(mut others: Vec<String>, words: &[&str]) -> Self {
        let mut command = Self::default();
        let mut words = words.iter().map(|word| word.trim_end_matches(';'));
        while let Some(word) = words.next() {
            let Some((name, attached)) = option(word) else {
                if word.contains("://") && !word.contains('$') && command.url.is_none() {
                    command.url = Some(word.to_owned());
                } else {
                    others.push(word.to_owned());
                }
                continue;
            };
            let mut value = || attached.or_else(|| words.next()).map(str::to_owned);
            let short = find_option(name).and_then(|spec| spec.short);
            match short.map_or_else(|| name.to_owned(), String::from).as_str() {
                // The arguments of a script.
                "" => {
                    others.push(word.to_owned());
                    others.extend(words.by_ref().map(str::to_owned));
                }
                "json" => command.output.extend(value()),
                "H" => others.extend(value().map(|header| format!("-H {header:?}"))),
                "s" | "script" => others.extend(value().map(|script| format!("-s {script}"))),
                name @ ("t" | "c" | "d" | "R" | "T") => {
                    let value = value().unwrap_or_default();
                    if parse_count(&value).is_ok() || parse_time(&value).is_ok() {
                        command.values.insert(name.to_owned(), value);
                    } else {
                        others.push(format!("-{name}{value}"));
                    }
                }
                name if OUTPUT_OPTIONS.contains(&name) => {}
                _ => others.push(word.to_owned()),
            }
        }
        command.others = others.join(" ");
        command
    }

    /// The value of an option, by its short name.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The number that an option has as its value.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        parse_count(self.value(name)?).ok()
    }
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

/// A word as a shell splits them: spaces within quotes do not split (`-H 'Referer: http://h/'`).
static WORD: LazyLock<Regex> = LazyLock::new(|| regex(r#"(?:"[^"]*"?|'[^']*'?|[^\s"'])+"#));

/// The words of a line.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    WORD.find_iter(text).map(|word| word.as_str())
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
                (command.count("t"), command.count("c")),
                (Some(4), Some(300)),
                "{line}"
            );
            assert_eq!(command.value("d"), Some("30s"), "{line}");
            assert_eq!(command.url.as_deref(), Some("http://localhost/"), "{line}");
        }
        let with_rate = tool("wrk2 -R2k -c10 -s x.lua http://h/ -- -t9").unwrap();
        assert_eq!(
            (with_rate.count("R"), with_rate.count("t")),
            (Some(2_000), None)
        );
    }

    #[test]
    fn quoted_text_is_one_word_of_a_command_line() {
        let command =
            tool("wrk -H \"Referer: http://other/\" -H 'X: -c7 -t9' -c300 'http://h/'").unwrap();
        assert_eq!(command.url.as_deref(), Some("http://h/"));
        assert_eq!((command.count("t"), command.count("c")), (None, Some(300)));
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
            ("/opt/a/wrk -c1 http://h/", "/opt/a/"),
            ("./wrk -c1 http://h/", ""),
            ("wrk2 -c1 -R$LOW http://$HOST/", "-R$LOW http://$HOST/"),
            (
                "wrk2 -R9 --script x.lua http://h/ -- -t9",
                "-s x.lua -- -t9",
            ),
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
        assert_eq!(prompt("$ wrk -c1 http://h/"), "");
        assert_eq!(prompt("[me@one wrk]$ ./wrk -c1 http://h/"), "[me@one wrk]");
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
            "wrkbench serve --delay 5ms --listen http://localhost/",
            "ab -n 1000 http://localhost/",
        ] {
            assert_eq!(tool(line), None, "{line:?}");
        }
    }
}
