//! The layout of documents: objects are indented, and each list element is on one line.

use std::io::{self, Write};

use plan::printable_json;
use serde_json::ser::Formatter;

/// Indents by two spaces per level. Within a list, lines are broken only before an object, so a
/// time series has one row per line and is easy to read and to compare.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Number of open objects and lists.
    depth: usize,
    /// Number of open lists and of open objects within them; 0 outside lists.
    depth_in_list: usize,
    /// Whether the outermost open list contains objects, each on its own line.
    rows: bool,
    /// Whether the innermost open object has no field yet.
    empty: bool,
}

impl Layout {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(bracket)
    }

    fn indent<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.depth_in_list == 0 {
            self.rows = false;
        }
        self.depth_in_list += 1;
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        self.depth_in_list -= 1;
        if self.depth_in_list == 0 && self.rows {
            self.indent(writer)?;
        }
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        match (first, self.depth_in_list == 1 && self.rows) {
            (true, _) => Ok(()),
            (false, true) => writer.write_all(b","),
            (false, false) => writer.write_all(b", "),
        }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.depth_in_list == 1 {
            self.rows = true;
            self.indent(writer)?;
        }
        if self.depth_in_list > 0 {
            self.depth_in_list += 1;
        }
        self.empty = true;
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.depth_in_list > 0 {
            self.depth_in_list -= 1;
        } else if !self.empty {
            self.indent(writer)?;
        }
        self.empty = false;
        writer.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.empty = false;
        if !first {
            writer.write_all(b",")?;
        }
        match (self.depth_in_list, first) {
            (0, _) => self.indent(writer),
            (_, true) => Ok(()),
            (_, false) => writer.write_all(b" "),
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        writer.write_all(printable_json(fragment).as_bytes())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Serializer, json};

    use super::Layout;

    #[test]
    fn objects_are_indented_and_a_list_has_one_line_or_one_line_per_object() {
        let value = json!({
            "a": {"b": 1, "c": {}},
            "d": [1, "x", null, [2, []]],
            "e": [{"f": 1, "g": [2, {"h": 3}, 4]}, {"f": 2}],
            "i": [],
        });
        let mut bytes = Vec::new();
        value
            .serialize(&mut Serializer::with_formatter(
                &mut bytes,
                Layout::default(),
            ))
            .unwrap();
        let expected = r#"{
  "a": {
    "b": 1,
    "c": {}
  },
  "d": [1, "x", null, [2, []]],
  "e": [
    {"f": 1, "g": [2, {"h": 3}, 4]},
    {"f": 2}
  ],
  "i": []
}"#;
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(expected).unwrap(),
            value
        );
    }
}
