//! `/proc/PID/maps` (proc(5)): what code is where in a process.

use std::ops::Range;
use std::path::Path;

/// A part of a process's memory that has code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Its addresses.
    pub(crate) range: Range<u64>,
    /// Where it begins in its file.
    pub(crate) offset: u64,
    /// The file, a name in brackets such as `[vdso]`, or nothing.
    pub(crate) path: String,
}

impl Mapping {
    /// Whether it is a file.
    pub(crate) fn is_file(&self) -> bool {
        self.path.starts_with('/')
    }

    /// The last part of its path: `libc.so.6`, `[vdso]`; nothing for code that a program has made.
    pub(crate) fn name(&self) -> &str {
        let name = Path::new(&self.path).file_name();
        let name = name.and_then(|name| name.to_str()).unwrap_or_default();
        name.trim_end_matches(" (deleted)")
    }
}

/// No process has more mappings of code (`vm.max_map_count`).
const MAPPINGS_MAX: usize = 65_530;

/// The mappings that can be executed, in order of their addresses.
pub(crate) fn parse(text: &str) -> Vec<Mapping> {
    let mappings = text.lines().filter_map(mapping).take(MAPPINGS_MAX);
    let mut mappings: Vec<Mapping> = mappings.collect();
    mappings.sort_by_key(|mapping| mapping.range.start);
    mappings
}

/// `7f0000001000-7f0000002000 r-xp 00001000 08:01 1234   /usr/lib/libc.so.6`
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = hex(start)?..hex(end)?;
    let has_code = fields.next()?.as_bytes().get(2) == Some(&b'x');
    let offset = hex(fields.next()?)?;
    let (_device, _inode) = (fields.next()?, fields.next()?);
    let path = fields.next().unwrap_or_default().trim();
    (has_code && !range.is_empty()).then(|| Mapping {
        range,
        offset,
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mappings_with_code_are_read_in_order() {
        let text = "7f20-7f30 r-xp 00001000 08:01 12                 /lib/a b.so (deleted)\n\
                    1000-2000 r--p 00000000 08:01 12                 /lib/a b.so\n\
                    5000-6000 rwxp 00000000 00:00 0 \n\
                    6000-7000 r-xp 00000000 00:00 0                  [vdso]\n";
        let found = parse(text);
        let names: Vec<_> = found.iter().map(|it| (it.range.start, it.name())).collect();
        assert_eq!(
            names,
            [(0x5000, ""), (0x6000, "[vdso]"), (0x7f20, "a b.so")]
        );
        assert_eq!(found[2].offset, 0x1000);
        assert!(found[2].is_file() && !found[1].is_file());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(
            text in "\\PC{0,80}",
            lines in prop::collection::vec("[0-9a-f]{0,17}-[0-9a-f]{0,9} ..x. [0-9 ]{0,9}", 0..4),
        ) {
            for mapping in parse(&text).into_iter().chain(parse(&lines.join("\n"))) {
                prop_assert!(!mapping.range.is_empty());
            }
        }
    }
}
