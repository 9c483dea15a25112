//! A table of the file: known keys are deserialized by serde, others are left.

use serde::Deserialize;
use serde::de::value::Error as NoValue;
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer as _, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::problems::Problems;
use super::suggestions::unknown;
use super::value::{TableEntry, Value};

/// A table of the file, or what is left of it.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// How messages name it: `[hooks]`.
    pub(super) name: String,
    pub(super) line: usize,
    left: Vec<(Spanned<DeString<'a>>, Spanned<DeValue<'a>>)>,
}

impl<'a> Section<'a> {
    pub(super) fn new(name: impl Into<String>, line: usize, table: DeTable<'a>) -> Self {
        Self {
            name: name.into(),
            line,
            left: table.into_iter().collect(),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.left.iter().any(|(known, _)| known.get_ref() == key)
    }

    /// Deserializes the keys that are fields of `T`, which must all be optional. A value that
    /// cannot be deserialized is recorded as a problem and counts as absent.
    pub(super) fn read<T: DeserializeOwned + Default>(&mut self, problems: &mut Problems) -> T {
        let fields = fields_of::<T>();
        let is_field = |key: &str| fields.contains(&key);
        let (mut known, left) = std::mem::take(&mut self.left)
            .into_iter()
            .partition::<Vec<_>, _>(|(key, _)| is_field(key.get_ref()));
        self.left = left;
        loop {
            let table = DeValue::Table(known.iter().cloned().collect());
            let error = match T::deserialize(Spanned::new(0..0, table).into_deserializer()) {
                Ok(read) => return read,
                Err(_) if known.is_empty() => return T::default(),
                Err(error) => error,
            };
            let offset = error.span().map_or(0, |span| span.start);
            let at = known
                .iter()
                .position(|(_, value)| value.span().contains(&offset))
                .unwrap_or_default();
            let (key, value) = known.remove(at);
            let mut key = key.get_ref().to_string();
            if let DeValue::Table(inner) = value.get_ref()
                && let Some((inner, _)) = inner.iter().find(|(_, it)| it.span().contains(&offset))
            {
                key = format!("{key}.{}", inner.get_ref());
            }
            let line = problems.line(offset);
            problems.add(line, format!("{key}: {}", error.message()));
        }
    }

    /// A table within this one, `[key]`.
    pub(super) fn section(&mut self, key: &str, problems: &mut Problems) -> Option<Self> {
        let (key, value) = self.take(key)?;
        let name = format!("[{}]", key.get_ref());
        let line = problems.line(key.span().start);
        match value.into_inner() {
            DeValue::Table(table) => Some(Self::new(name, line, table)),
            _ => {
                problems.add(line, format!("{}: expected a table, {name}", key.get_ref()));
                None
            }
        }
    }

    /// The tables of a list, `[[key]]`.
    pub(super) fn sections(&mut self, key: &str, problems: &mut Problems) -> Vec<Self> {
        let Some((key, value)) = self.take(key) else {
            return Vec::new();
        };
        let name = format!("[[{}]]", key.get_ref());
        let problem = format!("{}: expected tables, each below {name}", key.get_ref());
        let DeValue::Array(elements) = value.into_inner() else {
            problems.add(problems.line(key.span().start), problem);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for element in elements {
            let line = problems.line(element.span().start);
            match element.into_inner() {
                DeValue::Table(table) => sections.push(Self::new(name.as_str(), line, table)),
                _ => problems.add(line, problem.as_str()),
            }
        }
        sections
    }

    fn take(&mut self, key: &str) -> Option<(Spanned<DeString<'a>>, Spanned<DeValue<'a>>)> {
        let at = self
            .left
            .iter()
            .position(|(known, _)| known.get_ref() == key)?;
        Some(self.left.remove(at))
    }

    /// All keys that are left, in the order of the file.
    pub(super) fn rest(&mut self, problems: &mut Problems) -> Vec<TableEntry> {
        let mut entries = Vec::new();
        for (key, value) in std::mem::take(&mut self.left) {
            let (line, span) = (problems.line(key.span().start), value.span());
            let read = Value::deserialize(value.into_deserializer());
            let read = read.map_err(|error| error.message().to_owned());
            if let Some(value) = problems.keep(line, key.get_ref(), read) {
                let key = Spanned::new(key.span(), key.into_inner().into_owned());
                entries.push((key, Spanned::new(span, value)));
            }
        }
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
    }

    /// As [`Self::read`], and refuses all other keys.
    pub(super) fn read_all<T: DeserializeOwned + Default>(mut self, problems: &mut Problems) -> T {
        let keys = self.read(problems);
        self.refuse_rest(fields_of::<T>(), problems);
        keys
    }

    /// Refuses all keys that are left; `known` are those that could have been there.
    pub(super) fn refuse_rest(&mut self, known: &[&str], problems: &mut Problems) {
        for (key, _) in std::mem::take(&mut self.left) {
            let line = problems.line(key.span().start);
            problems.add(line, unknown(key.get_ref(), &self.name, known));
        }
    }
}

/// The names of a struct's fields, as its derived `Deserialize` asks for them.
pub(super) fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut fields: &[&str] = &[];
    let _ = T::deserialize(FieldNames(&mut fields));
    fields
}

struct FieldNames<'f>(&'f mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = NoValue;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, NoValue> {
        Err(NoValue::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
