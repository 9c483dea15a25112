//! Decoding of heads with a memory: a field section that has arrived before is not decoded again.
//!
//! Peers under load send few different sections, and without a dynamic table equal bytes mean equal
//! fields, on whatever connection.

use super::error::Violation;
use super::qpack::{self, SectionLimits};
use crate::Fields;
use crate::h2::heads::{BLOCK_BYTES_MAX, BlockCache, ENTRIES_MAX};
use crate::h2::hpack::Effect;

/// The field sections that the connections of a worker have received, and what they mean. `H` is
/// what the session makes of the fields.
#[derive(Debug)]
pub struct Heads<H> {
    limits: SectionLimits,
    known: BlockCache<H>,
    /// The fields of the section that is being decoded.
    fields: Fields,
}

impl<H: Clone> Heads<H> {
    /// An empty memory for sessions with these limits.
    #[must_use]
    pub fn new(limits: SectionLimits) -> Self {
        Self {
            limits,
            known: BlockCache::new(ENTRIES_MAX),
            fields: Fields::default(),
        }
    }

    /// The meaning of a complete field section.
    #[inline]
    pub(super) fn read(
        &mut self,
        section: &[u8],
        make: impl FnOnce(&Fields, Effect) -> H,
    ) -> Result<H, Violation> {
        if let Some(entry) = self.known.find(section) {
            return Ok(entry.head.clone());
        }
        let oversized = qpack::decode(section, self.limits, &mut self.fields)?;
        let effect = Effect {
            oversized,
            ..Effect::default()
        };
        let head = make(&self.fields, effect);
        if section.len() <= BLOCK_BYTES_MAX {
            self.known.insert(section, 0, head.clone());
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::head::Head;
    use crate::h3::qpack::encode;
    use std::rc::Rc;

    #[test]
    fn a_section_that_arrives_again_is_not_decoded_again() {
        let mut heads = Heads::new(SectionLimits::default());
        let section = |status: &[u8], length: usize| {
            let mut section = Vec::new();
            encode::prefix(&mut section);
            encode::field(b":status", status, &mut section);
            encode::field(b"x", &vec![0xff; length], &mut section);
            section
        };
        let make = |fields: &Fields, effect| Rc::new(Head::read(fields, effect, false));
        let mut read = |section: &[u8]| heads.read(section, make).expect("it is valid");
        let (ok, missing) = (section(b"200", 1), section(b"404", 1));
        let first = read(&ok);
        assert_eq!(read(&missing).status, Some(404));
        assert!(Rc::ptr_eq(&first, &read(&ok)));
        let long = section(b"200", BLOCK_BYTES_MAX);
        assert!(!Rc::ptr_eq(&read(&long), &read(&long)), "it is not kept");
        assert_eq!(first.status, Some(200));
    }
}
