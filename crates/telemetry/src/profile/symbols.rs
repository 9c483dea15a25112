//! Names of functions: those of the kernel (`/proc/kallsyms`), those that a program with a
//! just-in-time compiler writes for profilers (`/tmp/perf-PID.map`), and readable forms of names
//! that compilers make.

use cpp_demangle::{DemangleOptions, Symbol as CppSymbol};

/// No longer name is shown.
const NAME_CHARS_MAX: usize = 160;

/// Longer names are not made readable: their templates are nested too deeply to be read.
const DEMANGLED_BYTES_MAX: usize = 4096;

/// Functions by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SymbolTable {
    /// Start, end and name, in order.
    symbols: Vec<(u64, u64, String)>,
}

impl SymbolTable {
    /// `ffffffff81000000 T _text`, `ffffffffc0000000 t connect [module]`. Users without privileges
    /// see zeros, which name nothing.
    pub(crate) fn of_kernel(text: &str) -> Self {
        let symbol = |line: &str| {
            let mut fields = line.split_ascii_whitespace();
            let start = u64::from_str_radix(fields.next()?, 16).ok()?;
            let is_code = matches!(fields.next()?, "t" | "T" | "w" | "W");
            (is_code && start > 0).then_some((start, u64::MAX, fields.next()?.to_owned()))
        };
        Self::sorted(text.lines().filter_map(symbol).collect())
    }

    /// `7f0000001000 2a LazyCompile:*handle /srv/app.js:12` (tools/perf/Documentation/
    /// jit-interface.txt in the kernel's sources).
    pub(crate) fn of_compiler(text: &str) -> Self {
        let symbol = |line: &str| {
            let mut fields = line.splitn(3, ' ');
            let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
            let start = hex(fields.next()?)?;
            let end = start.checked_add(hex(fields.next()?)?)?;
            Some((start, end, fields.next()?.trim().to_owned()))
        };
        Self::sorted(text.lines().filter_map(symbol).collect())
    }

    fn sorted(mut symbols: Vec<(u64, u64, String)>) -> Self {
        // Code that was moved is written again: the last one with an address counts.
        symbols.reverse();
        symbols.sort_by_key(|(start, _, _)| *start);
        symbols.dedup_by_key(|(start, _, _)| *start);
        Self { symbols }
    }

    /// The function at an address.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let behind = self
            .symbols
            .partition_point(|(start, _, _)| *start <= address);
        let (_, end, name) = &self.symbols[behind.checked_sub(1)?];
        (address < *end).then_some(name)
    }
}

/// A name as its author wrote it, without types of parameters, on one line.
pub(crate) fn readable(name: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type();
    let demangled = if name.len() > DEMANGLED_BYTES_MAX {
        None
    } else {
        // Without the hash that Rust adds.
        match rustc_demangle::try_demangle(name) {
            Ok(rust) => Some(format!("{rust:#}")),
            Err(_) if name.starts_with("_Z") => CppSymbol::new(name)
                .ok()
                .and_then(|cpp| cpp.demangle_with_options(&options).ok()),
            Err(_) => None,
        }
    };
    let plain = demangled.as_deref().unwrap_or(name).chars();
    let plain = plain.map(|char| if char.is_control() { '?' } else { char });
    plain.take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn functions_of_the_kernel_reach_to_the_next_one() {
        let text = "ffffffff81000000 T first\nffffffff81000100 t second\n\
                    ffffffff81000180 D data\nffffffffc0000000 t third [module]\n";
        let table = SymbolTable::of_kernel(text);
        for (address, name) in [
            (0xffff_ffff_8100_0010, Some("first")),
            (0xffff_ffff_8100_0190, Some("second")),
            (0xffff_ffff_c000_0001, Some("third")),
            (0x1000, None),
        ] {
            assert_eq!(table.name(address), name);
        }
        let hidden = SymbolTable::of_kernel("0000000000000000 T first\n");
        assert_eq!(hidden.name(u64::MAX), None);
    }

    #[test]
    fn functions_of_a_compiler_end_where_it_says_and_the_last_one_at_a_place_counts() {
        let table = SymbolTable::of_compiler("1000 10 old\n0x1000 20 new one\n2000 x broken\n\n");
        for (address, name) in [
            (0x1000, Some("new one")),
            (0x101f, Some("new one")),
            (0x1020, None),
            (0x2000, None),
        ] {
            assert_eq!(table.name(address), name);
        }
    }

    #[test]
    fn names_are_as_their_authors_wrote_them() {
        for (name, expected) in [
            ("ngx_http_handler", "ngx_http_handler"),
            ("_ZN6server6handle17h0123456789abcdefE", "server::handle"),
            ("_ZN3app5StoreIiE3getERKSs", "app::Store<int>::get"),
            ("_Znot a name", "_Znot a name"),
            ("two\nlines", "two?lines"),
        ] {
            assert_eq!(readable(name), expected);
        }
        assert_eq!(readable(&"x".repeat(10_000)).len(), NAME_CHARS_MAX);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(
            text in "\\PC{0,60}",
            lines in proptest::collection::vec("(0x)?[0-9a-f]{0,17} [0-9a-fTt]{1,17} .{0,9}", 0..5),
            address: u64,
        ) {
            for text in [text.clone(), lines.join("\n")] {
                let _ = SymbolTable::of_kernel(&text).name(address);
                let _ = SymbolTable::of_compiler(&text).name(address);
            }
            let _ = readable(&format!("_Z{text}"));
            let _ = readable(&format!("_R{text}"));
        }
    }
}
