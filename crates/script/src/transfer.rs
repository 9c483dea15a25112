//! Lua values outside of a state: arguments, results and thread variables.

/// Maximum depth of nested tables. A deeper one probably contains itself.
pub(crate) const DEPTH_MAX: usize = 100;

/// Maximum number of plain values in one transfer. A table that holds the same table twice, which
/// holds the same table twice, and so on, would fill any memory.
pub(crate) const VALUES_MAX: usize = 20_000_000;

/// What a table counts in addition to its content, because it takes about as much memory.
pub(crate) const TABLE_WEIGHT: usize = 20;

/// A copy of a Lua value, owned by Rust.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Nil,
    Boolean(bool),
    Number(f64),
    /// A string of any bytes.
    Text(Vec<u8>),
    /// The pairs of a table, in no particular order.
    Table(Vec<(Self, Self)>),
}

impl Value {
    pub(crate) fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Text(text.as_ref().to_vec())
    }

    pub(crate) fn optional_text(text: Option<impl AsRef<[u8]>>) -> Self {
        text.map_or(Self::Nil, Self::text)
    }

    /// A table with string keys.
    pub(crate) fn record<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Table(
            fields
                .into_iter()
                .map(|(name, value)| (Self::text(name), value))
                .collect(),
        )
    }

    /// A table with keys from 1.
    pub(crate) fn list(values: impl IntoIterator<Item = Self>) -> Self {
        let keys = (1u32..).map(|key| Self::Number(f64::from(key)));
        Self::Table(keys.zip(values).collect())
    }

    pub(crate) fn as_text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The items 1, 2, ... of a table up to the first gap.
    pub(crate) fn into_list(self) -> Vec<Self> {
        let Self::Table(pairs) = self else {
            return Vec::new();
        };
        let mut numbered: Vec<(f64, Self)> = pairs
            .into_iter()
            .filter_map(|(key, value)| Some((key.as_number()?, value)))
            .filter(|(key, _)| *key >= 1.0)
            .collect();
        numbered.sort_by(|a, b| a.0.total_cmp(&b.0));
        let without_gap = numbered.into_iter().zip(1u32..);
        without_gap
            .take_while(|((key, _), expected)| *key == f64::from(*expected))
            .map(|((_, value), _)| value)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_ordered_whatever_the_order_of_its_pairs() {
        let Value::Table(mut pairs) = Value::list((0..5).map(|i| Value::text(i.to_string())))
        else {
            panic!("a list is a table");
        };
        pairs.reverse();
        let items = Value::Table(pairs).into_list();
        let texts: Vec<_> = items.iter().filter_map(Value::as_text).collect();
        assert_eq!(texts, [b"0", b"1", b"2", b"3", b"4"]);
    }

    #[test]
    fn a_list_ends_at_its_first_gap() {
        let pairs = [1.0, 2.0, 4.0].map(|key| (Value::Number(key), Value::Boolean(true)));
        assert_eq!(Value::Table(pairs.to_vec()).into_list().len(), 2);
    }
}
