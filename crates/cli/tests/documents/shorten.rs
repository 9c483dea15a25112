//! Shortens the durations in documents, which are those of real use, and reduces the rounds of
//! experiments.

/// Options whose value is a duration. The value follows a space, `=`, or (short options) the option
/// directly.
const OPTIONS: [(&str, &str); 6] = [
    ("-d", "300ms"),
    ("--duration", "300ms"),
    ("-D", "100ms"),
    ("--warmup", "100ms"),
    ("--budget", "15s"),
    ("--stages", ""),
];

/// The same for keys of an experiment file, with fewer rounds.
const KEYS: [(&str, &str); 5] = [
    ("duration", "\"200ms\""),
    ("warmup", "\"50ms\""),
    ("settle", "\"10ms\""),
    ("interval", "\"50ms\""),
    ("rounds", "2"),
];

/// The commands with short durations.
pub(crate) fn commands(text: &str) -> String {
    let mut result = String::new();
    let mut before: Option<(&str, &str)> = None;
    for word in text.split_inclusive([' ', '\n']) {
        let (word, end) = word.split_at(word.trim_end_matches([' ', '\n']).len());
        let shorter = match before.take() {
            Some((_, time)) if is_time(word) => time.to_owned(),
            Some(("--stages", _)) => stages(word),
            _ => {
                before = OPTIONS.into_iter().find(|(option, _)| *option == word);
                attached(word).unwrap_or_else(|| word.to_owned())
            }
        };
        result.push_str(&shorter);
        result.push_str(end);
    }
    result
}

/// The option and value of a word such as `-d30s` or `--duration=30s`.
fn attached(word: &str) -> Option<String> {
    OPTIONS.into_iter().find_map(|(option, time)| {
        let rest = word.strip_prefix(option)?;
        let value = rest.strip_prefix('=').unwrap_or(rest);
        is_time(value).then(|| format!("{}{time}", &word[..word.len() - value.len()]))
    })
}

/// `1k:30s,1k-5k:1m`: shortens each stage.
fn stages(word: &str) -> String {
    let of_stage = |stage: &str| {
        stage
            .split_once(':')
            .map(|(rate, _)| format!("{rate}:150ms"))
    };
    let stages: Option<Vec<_>> = word.split(',').map(of_stage).collect();
    stages.map_or_else(|| word.to_owned(), |stages| stages.join(","))
}

/// Whole numbers of seconds, minutes or hours.
fn is_time(word: &str) -> bool {
    let number = word.trim_end_matches(['s', 'm', 'h']);
    number.len() < word.len()
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && !word.ends_with("ms")
}

/// The experiment file with short durations and two rounds.
pub(crate) fn plan(text: &str) -> String {
    let of_line = |line: &str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        match KEYS.into_iter().find(|(name, _)| *name == key) {
            Some((name, value)) => format!("{name} = {value}\n"),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_of_load_are_made_short() {
        assert_eq!(
            commands(
                "wrkbench -t2 -d30s --warmup 3s -R2k\\\n  --timeout 5s --fail-if 'p99>50ms' u -d \
                 1m\n"
            ),
            "wrkbench -t2 -d300ms --warmup 100ms -R2k\\\n  --timeout 5s --fail-if 'p99>50ms' u -d \
             300ms\n"
        );
        assert_eq!(
            commands("x --stages 1k:30s,1k-5k:1m u"),
            "x --stages 1k:150ms,1k-5k:150ms u"
        );
        assert_eq!(
            commands("x --duration=10s -d250ms -data"),
            "x --duration=300ms -d250ms -data"
        );
    }

    #[test]
    fn a_plan_keeps_all_but_its_times_and_rounds() {
        let text =
            "name = \"x\"\nrounds = 5\nduration = \"30s\" # long\nready = { within = \"10s\" }\n";
        assert_eq!(
            plan(text),
            "name = \"x\"\nrounds = 2\nduration = \"200ms\"\nready = { within = \"10s\" }\n"
        );
    }
}
