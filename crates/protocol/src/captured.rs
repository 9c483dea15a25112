//! Complete responses, captured for a script.

/// A complete response, captured for a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// Status code of the final response, 100..=999.
    pub status: u16,
    /// Raw names and values in the order in which they arrived. Trailers are last; duplicates are
    /// kept.
    pub headers: Fields,
    /// The body without chunk framing. Content codings are not decoded.
    pub body: Vec<u8>,
}

/// Header fields in one piece of memory. A response costs two allocations for them, however many
/// there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// Name and value of each field, concatenated.
    bytes: Vec<u8>,
    /// The end of the name and the end of the value of each field.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// An empty list with room for this many fields and bytes in total.
    #[must_use]
    pub fn with_capacity(fields: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(fields),
        }
    }

    /// Appends a field, whose name and value are copied.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len()));
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, value_end)| *value_end));
        starts
            .zip(&self.ends)
            .map(|(start, (name_end, value_end))| {
                (
                    &self.bytes[start..*name_end],
                    &self.bytes[*name_end..*value_end],
                )
            })
    }

    /// Number of fields, trailers included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The memory of names and values, for a decoder to append the name and value of a field. It
    /// then calls [`Self::push_buffered`], or removes what it has appended.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Makes a field of what was appended to the buffer. The name ends at this position in it.
    pub(crate) fn push_buffered(&mut self, name_end: usize) {
        self.ends.push((name_end, self.bytes.len()));
    }

    /// Whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(N, V)> for Fields {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, fields: I) {
        for (name, value) in fields {
            self.push(name.as_ref(), value.as_ref());
        }
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        let mut collected = Self::default();
        collected.extend(fields);
        collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_returned_in_order_including_empty_ones_and_duplicates() {
        let given: [(&[u8], &[u8]); 4] = [(b"A", b"1"), (b"B", b""), (b"A", b"2"), (b"", b"x")];
        let fields: Fields = given.into_iter().collect();
        assert_eq!(fields.iter().collect::<Vec<_>>(), given);
        assert_eq!(fields.len(), 4);
        assert!(Fields::default().is_empty() && Fields::default().iter().next().is_none());
    }
}
