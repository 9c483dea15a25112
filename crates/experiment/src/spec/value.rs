//! Values of an experiment file, and the types of its keys.

use std::fmt;
use std::time::Duration;

use judging::Criterion;
use plan::units::{parse_percent, parse_rate, parse_time};
use plan::{Arrivals, InvalidValue, Target};
use results::{Metric, SearchOver};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use super::PlaceMode;
use super::suggestions::shown;

/// Any value. Tables keep the order of the file.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Boolean(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Self>>),
    Table(Vec<TableEntry>),
}

/// A key and its value in a table of an experiment file (TOML), with their places in the text.
pub(super) type TableEntry = (Spanned<String>, Spanned<Value>);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if value.is_finite() {
            Ok(Value::Float(value))
        } else {
            Err(E::custom("expected a finite number"))
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table: Vec<TableEntry> = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            table.push(entry);
        }
        table.sort_by_key(|(key, _)| key.span().start);
        Ok(Value::Table(table))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(truth) => truth.fmt(formatter),
            Self::Integer(number) => number.fmt(formatter),
            Self::Float(number) => number.fmt(formatter),
            Self::Text(text) => formatter.write_str(&shown(text)),
            Self::List(_) => formatter.write_str("a list"),
            Self::Table(_) => formatter.write_str("a table"),
        }
    }
}

impl Value {
    pub(super) fn refuse<T>(&self, expected: &str) -> Result<T, InvalidValue> {
        Err(format!("expected {expected}, found {self}").into())
    }

    /// A text that is not blank.
    pub(super) fn text(&self) -> Result<String, InvalidValue> {
        match self {
            Self::Text(text) if !text.trim().is_empty() && !text.contains('\0') => Ok(text.clone()),
            _ => self.refuse("a text in quotes"),
        }
    }

    /// A text of one line, a number or a truth value, as text.
    pub(super) fn scalar(&self, expected: &str) -> Result<String, InvalidValue> {
        match self {
            Self::Text(text) if text.contains(['\0', '\n', '\r']) => self.refuse("a single line"),
            Self::Text(text) => Ok(text.clone()),
            Self::Boolean(_) | Self::Integer(_) | Self::Float(_) => Ok(self.to_string()),
            Self::List(_) | Self::Table(_) => self.refuse(expected),
        }
    }

    fn time(&self) -> Result<Duration, InvalidValue> {
        const EXPECTED: &str = "a time like \"30s\", \"500ms\", \"1m30s\"";
        match parse_time(&self.scalar(EXPECTED)?) {
            Ok(time) if time <= LONGEST_TIME => Ok(time),
            Ok(_) => self.refuse("a time of at most 30 days"),
            Err(_) => self.refuse(EXPECTED),
        }
    }

    pub(super) fn as_list(&self) -> Option<&[Spanned<Self>]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    pub(super) fn list(&self, expected: &str) -> Result<&[Spanned<Self>], InvalidValue> {
        self.as_list().map_or_else(|| self.refuse(expected), Ok)
    }

    pub(super) fn as_table(&self) -> Option<&[TableEntry]> {
        match self {
            Self::Table(entries) => Some(entries),
            _ => None,
        }
    }
}

/// The longest time; sums of longer ones could overflow.
const LONGEST_TIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// The elements of a list, or the value itself.
pub(super) fn one_or_more(value: &Spanned<Value>) -> &[Spanned<Value>] {
    let list = value.get_ref().as_list();
    list.unwrap_or_else(|| std::slice::from_ref(value))
}

/// Defines types that are read from a [`Value`] with a function.
macro_rules! key_types {
    ($($(#[$doc:meta])* $name:ident($inner:ty) = $read:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(try_from = "Value")]
        pub(super) struct $name(pub(super) $inner);

        impl TryFrom<Value> for $name {
            type Error = InvalidValue;

            fn try_from(value: Value) -> Result<Self, InvalidValue> {
                let read: fn(&Value) -> Result<$inner, InvalidValue> = $read;
                read(&value).map(Self)
            }
        }
    )*};
}

key_types! {
    /// A text that is not blank.
    Text(String) = Value::text;
    /// A name: one line, not blank, not too long.
    Name(String) = |value| check_name(value.text()?);
    /// The name of another machine: that of the agent there.
    HostName(String) = |value| {
        let name = value.text()?;
        let may = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.len() <= HOST_BYTES && name.bytes().all(may) { Ok(name) } else { Err(format!(
            "{} is not the name of an agent (at most {HOST_BYTES} letters, digits, - and _)",
            shown(&name)
        ).into()) }
    };
    /// A URL that requests can be sent to.
    Url(String) = |value| {
        let url = value.text()?;
        let parsed = Target::parse(&url);
        parsed.map(|_| url).map_err(InvalidValue::new)
    };
    /// How places make the runs.
    Places(PlaceMode) = |value| match value {
        Value::Text(text) if text == "in turn" => Ok(PlaceMode::InTurn),
        Value::Text(text) if text == "together" => Ok(PlaceMode::Together),
        Value::List(_) => Err("a place is written below [[place]]".into()),
        _ => value.refuse("\"in turn\" or \"together\""),
    };
    /// A time with its unit, or a number of seconds.
    Time(Duration) = Value::time;
    /// A time above zero.
    Limit(Duration) = |value| match value.time()? {
        Duration::ZERO => Err("the time must be above zero".into()),
        time => Ok(time),
    };
    /// Conditions that runs have to meet, like `["p99<50ms", "failed<0.1%"]`.
    Conditions(Vec<Criterion>) = |value| {
        let texts = match value {
            Value::List(list) => list.iter().map(|it| it.get_ref().text()).collect(),
            one => one.text().map(|text| vec![text]),
        };
        let texts: Result<Vec<String>, InvalidValue> = texts;
        Criterion::parse_list(&texts?.join(",")).map_err(InvalidValue::new)
    };
    /// Requests per second, like `800` or `"2k"`.
    Rate(f64) = |value| {
        let text = value.scalar("a rate like 800 or \"2k\"")?;
        parse_rate(&text).map_err(InvalidValue::new)
    };
    /// How the requests of a rate are distributed over time.
    ArrivalsName(Arrivals) = |value| match value {
        Value::Text(text) => Arrivals::parse(text),
        _ => value.refuse("\"poisson\", \"even\" or \"gamma:0.5\""),
    };
    /// What a search finds the highest value of.
    OverName(SearchOver) = |value| match value {
        Value::Text(text) => {
            let found = SearchOver::ALL.into_iter().find(|it| it.name() == text);
            found.ok_or_else(|| {
                format!("{} is neither rate nor connections", shown(text)).into()
            })
        }
        _ => value.refuse("\"rate\" or \"connections\""),
    };
    /// Metrics by their names, at least one.
    Metrics(Vec<Metric>) = |value| {
        const EXPECTED: &str = "a list of metrics like [\"requests/s\", \"p99\"]";
        let mut metrics: Vec<Metric> = Vec::new();
        for name in value.list(EXPECTED)? {
            let name = name.get_ref().text()?;
            let metric = Metric::parse(&name).map_err(InvalidValue::new)?;
            if metrics.contains(&metric) {
                return Err(format!("{} is given twice", shown(&name)).into());
            }
            metrics.push(metric);
        }
        if metrics.is_empty() { value.refuse(EXPECTED) } else { Ok(metrics) }
    };
    /// A percentage like `"2%"`, as a share.
    Percentage(f64) = |value| {
        let text = value.text().unwrap_or_default();
        let number = text.trim().strip_suffix('%').map(str::trim_end);
        match number.and_then(parse_percent) {
            Some(percent) if percent > 0.0 => Ok(percent / 100.0),
            _ => value.refuse("a percentage like \"2%\", above 0 and at most 100%"),
        }
    };
}

/// The longest name of an agent.
const HOST_BYTES: usize = 64;

/// The most characters of a name.
const NAME_CHARS: usize = 100;

pub(super) fn check_name(name: String) -> Result<String, InvalidValue> {
    if name.trim().is_empty() {
        return Err("the name is empty".into());
    }
    if name.chars().count() > NAME_CHARS || !name.chars().all(plan::is_printable) {
        return Err(format!(
            "{} is not a name (one line, at most {NAME_CHARS} characters)",
            shown(&name)
        )
        .into());
    }
    Ok(name)
}

/// A whole number in a range.
#[derive(Debug, Deserialize)]
#[serde(
    try_from = "Value",
    bound(deserialize = "Self: TryFrom<Value, Error = InvalidValue>")
)]
pub(super) struct NumberIn<T, const LEAST: u64, const GREATEST: u64>(pub(super) T);

impl<T: TryFrom<i128>, const LEAST: u64, const GREATEST: u64> TryFrom<Value>
    for NumberIn<T, LEAST, GREATEST>
{
    type Error = InvalidValue;

    fn try_from(value: Value) -> Result<Self, InvalidValue> {
        let range = i128::from(LEAST)..=i128::from(GREATEST);
        match value {
            Value::Integer(number) if range.contains(&number) => T::try_from(number).ok(),
            _ => None,
        }
        .map(Self)
        .ok_or_else(|| {
            format!("expected a whole number from {LEAST} to {GREATEST}, found {value}").into()
        })
    }
}

/// A command, or a table with a command and its time limit.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a command in quotes, or { run = \"command\", timeout = \"60s\" }"
)]
pub(super) enum Command {
    Line(Text),
    Limited {
        run: Text,
        timeout: Option<Limit>,
        host: Option<HostName>,
    },
}

/// The sockets to sample: a filter, or `true` for all.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a filter like \"sport = :80\", or true for all sockets"
)]
pub(super) enum Sockets {
    All(bool),
    Matching(String),
}
