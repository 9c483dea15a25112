//! The text of an experiment file, written from arguments.
//!
//! Whoever makes an experiment without a file fills in a [`Draft`]. Its text is all that is read
//! then: it can be shown, saved and used as a file.

use std::fmt;

use toml::Value;

use super::OptionValue;

/// The tables of an experiment file that is to be written. The values are checked when the text is
/// read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// Keys of the top level, beginning with `name`.
    pub top: Keys,
    /// Options of every run: `[load]`.
    pub load: Keys,
    /// The servers: one `[[target]]` each.
    pub targets: Vec<Keys>,
    /// Named sets of options: one `[[profile]]` each.
    pub profiles: Vec<Keys>,
    /// What is varied: one `[[factor]]` each.
    pub factors: Vec<Keys>,
    /// Commands around the runs: `[hooks]`.
    pub hooks: Keys,
    /// What is searched for: `[search]`.
    pub search: Keys,
    /// What is sampled: `[telemetry]`.
    pub telemetry: Keys,
}

/// The keys of a table with their values, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keys(Vec<(String, Value)>);

impl Keys {
    /// Appends a key and its value.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.push((key.to_owned(), value.into()));
        self
    }

    /// Adds a key, if there is a value for it.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds options of the load by their long names.
    #[must_use]
    pub fn with_options<'o>(
        self,
        options: impl IntoIterator<Item = (&'o str, &'o OptionValue)>,
    ) -> Self {
        options.into_iter().fold(self, |keys, (name, value)| {
            let key = name.replace('-', "_");
            match value {
                OptionValue::Flag(is_given) => keys.with(&key, *is_given),
                OptionValue::Text(text) => keys.with(&key, number_or_text(text)),
                OptionValue::List(list) => keys.with(&key, list.clone()),
            }
        })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As the value of a key.
impl From<Keys> for Value {
    fn from(keys: Keys) -> Self {
        Self::Table(keys.0.into_iter().collect())
    }
}

impl Draft {
    /// A factor that varies an option of the load.
    #[must_use]
    pub fn option_factor(option: &str, levels: &[String]) -> Keys {
        let truth = |level: &String| match level.as_str() {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            level => number_or_text(level),
        };
        let levels: Vec<Value> = levels.iter().map(truth).collect();
        Keys::default().with(&option.replace('-', "_"), levels)
    }

    /// A factor that varies a kernel setting.
    #[must_use]
    pub fn sysctl_factor(key: &str, levels: &[String]) -> Keys {
        let levels: Vec<Value> = levels.iter().map(|level| number_or_text(level)).collect();
        Keys::default().with("sysctl", key).with("levels", levels)
    }
}

/// The text of the file.
impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.top.fmt(f)?;
        let lists = [
            ("target", &self.targets),
            ("profile", &self.profiles),
            ("factor", &self.factors),
        ];
        let once = |name: &'static str, keys| (format!("[{name}]"), keys);
        let several = lists
            .into_iter()
            .flat_map(|(name, list)| list.iter().map(move |keys| (format!("[[{name}]]"), keys)));
        let tables = std::iter::once(once("load", &self.load))
            .chain(several)
            .chain([
                once("hooks", &self.hooks),
                once("search", &self.search),
                once("telemetry", &self.telemetry),
            ]);
        for (heading, keys) in tables.filter(|(_, keys)| !keys.is_empty()) {
            write!(f, "\n{heading}\n{keys}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.0 {
            let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if !key.is_empty() && key.chars().all(is_bare) {
                writeln!(f, "{key} = {value}")?;
            } else {
                // A key in quotes has the form of a text on one line.
                let key = Value::String(plan::printable(key).into_owned());
                writeln!(f, "{key} = {value}")?;
            }
        }
        Ok(())
    }
}

/// A whole number if the text is one as TOML writes it.
fn number_or_text(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) if number.to_string() == text => Value::Integer(number),
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{LoadOption, Spec};
    use super::*;
    use crate::factor::FactorKind;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|&text| text.to_owned()).collect()
    }

    fn target(name: &str, url: &str) -> Keys {
        Keys::default().with("name", name).with("url", url)
    }

    fn draft() -> Draft {
        Draft {
            top: Keys::default().with("name", "try").with("rounds", 5),
            targets: vec![target("here", "http://h/")],
            ..Draft::default()
        }
    }

    fn read(draft: &Draft) -> Spec {
        let text = draft.to_string();
        Spec::parse(&text, Path::new("e.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn the_text_has_the_tables_in_the_usual_order() {
        let draft = Draft {
            top: Keys::default()
                .with("name", "somaxconn")
                .with_some("threshold", Some("1%"))
                .with_some("seed", None::<i64>),
            load: Keys::default().with_options([
                ("threads", &OptionValue::Text("2".to_owned())),
                ("no-keepalive", &OptionValue::Flag(true)),
            ]),
            factors: vec![
                Draft::option_factor("connections", &texts(&["16", "64"])),
                Draft::sysctl_factor("net.core.somaxconn", &texts(&["128", "4096"])),
            ],
            hooks: Keys::default().with("restart", "systemctl restart nginx"),
            telemetry: Keys::default().with("counters", true),
            ..draft()
        };
        assert_eq!(
            draft.to_string(),
            "name = \"somaxconn\"\nthreshold = \"1%\"\n\n\
             [load]\nthreads = 2\nno_keepalive = true\n\n\
             [[target]]\nname = \"here\"\nurl = \"http://h/\"\n\n\
             [[factor]]\nconnections = [16, 64]\n\n\
             [[factor]]\nsysctl = \"net.core.somaxconn\"\nlevels = [128, 4096]\n\n\
             [hooks]\nrestart = \"systemctl restart nginx\"\n\n\
             [telemetry]\ncounters = true\n"
        );
    }

    #[test]
    fn every_text_is_read_back_as_it_was() {
        for text in [
            "plain",
            "it's \"quoted\" \\ and 'more'",
            "'''",
            "\"\"\"",
            "a = [1] # no comment",
            "007",
            "1e3",
            "é \u{1f600}",
        ] {
            let header = OptionValue::List(vec![text.to_owned(), "A: b".to_owned()]);
            let body = OptionValue::Text(text.to_owned());
            let draft = Draft {
                load: Keys::default().with_options([("header", &header), ("body", &body)]),
                hooks: Keys::default().with("before", text),
                targets: vec![target(text, "http://h/")],
                factors: vec![Draft::option_factor("method", &texts(&[text, "GET"]))],
                ..draft()
            };
            let spec = read(&draft);
            assert_eq!(spec.load.get("header"), Some(&header), "{draft}");
            assert_eq!(spec.load.get("body"), Some(&body), "{draft}");
            let before = spec.hooks.before.as_ref().map(|hook| hook.command.as_str());
            assert_eq!(before, Some(text));
            assert_eq!(spec.targets[0].name, text);
            assert_eq!(spec.factors[0].levels[0].name, text);
        }
    }

    #[test]
    fn levels_are_truth_values_numbers_or_texts() {
        let draft = Draft {
            factors: vec![
                Draft::option_factor("no-keepalive", &texts(&["false", "true"])),
                Draft::option_factor("duration", &texts(&["10", "1m"])),
                Draft::sysctl_factor("net.ipv4.tcp_rmem", &texts(&["4096 87380 6291456", "1"])),
            ],
            ..draft()
        };
        let spec = read(&draft);
        let value = |factor: usize, level: &str| {
            let option = spec.factors[factor].load_option(level);
            option.map(|LoadOption { value, .. }| value)
        };
        assert_eq!(value(0, "true"), Some(OptionValue::Flag(true)));
        assert_eq!(value(1, "10"), Some(OptionValue::Text("10".to_owned())));
        assert_eq!(value(1, "1m"), Some(OptionValue::Text("1m".to_owned())));
        assert_eq!(spec.factors[2].levels[0].name, "4096 87380 6291456");
        assert!(matches!(&spec.factors[2].kind, FactorKind::Sysctl { .. }));
    }

    #[test]
    fn a_strange_key_stays_a_key() {
        for key in ["a b", "a\"b", "a\nb", "a.b", "", "a = 1 #", "]"] {
            let text = Draft {
                factors: vec![Draft::option_factor(key, &texts(&["1"]))],
                ..draft()
            };
            let error = Spec::parse(&text.to_string(), Path::new("e.toml")).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("not a long option"), "{key:?}: {error}");
        }
    }
}
