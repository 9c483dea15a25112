//! Values in the order in which they first appear.

use std::collections::BTreeMap;

/// The values without repetitions.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// The values of each key.
pub fn grouped<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: BTreeMap<K, (usize, Vec<V>)> = BTreeMap::new();
    for (key, value) in pairs {
        let next = groups.len();
        let (_, values) = groups.entry(key).or_insert((next, Vec::new()));
        values.push(value);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (first, _))| *first);
    let without_index = |(key, (_, values))| (key, values);
    groups.into_iter().map(without_index).collect()
}
