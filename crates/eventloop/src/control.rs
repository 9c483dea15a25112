//! Control messages: what the kernel says beside the bytes of a message (cmsg(3)).

/// The header of a control message: length, level and type.
pub(crate) const HEADER_BYTES: usize = size_of::<usize>() + 2 * size_of::<libc::c_int>();

/// The room that a control message with this much content needs.
pub(crate) const fn space(content_bytes: usize) -> usize {
    HEADER_BYTES + content_bytes.next_multiple_of(size_of::<usize>())
}

/// The content of the first message of this level and type. `None` if there is none before the end
/// or before a message that is cut off.
pub(crate) fn find(control: &[u8], level: libc::c_int, kind: libc::c_int) -> Option<&[u8]> {
    const LEVEL_AT: usize = size_of::<usize>();
    const KIND_AT: usize = LEVEL_AT + size_of::<libc::c_int>();
    let mut rest = control;
    loop {
        let length = usize::from_ne_bytes(*rest.first_chunk()?);
        // None if the message is cut off or shorter than its own header.
        let content = rest.get(HEADER_BYTES..length)?;
        let its_level = libc::c_int::from_ne_bytes(*rest.get(LEVEL_AT..)?.first_chunk()?);
        let its_kind = libc::c_int::from_ne_bytes(*rest.get(KIND_AT..)?.first_chunk()?);
        if (its_level, its_kind) == (level, kind) {
            return Some(content);
        }
        rest = rest.get(length.next_multiple_of(size_of::<usize>())..)?;
    }
}

/// A control message in the kernel's form, padded to where the next one may begin.
#[cfg(test)]
pub(crate) fn message(level: libc::c_int, kind: libc::c_int, content: &[u8]) -> Vec<u8> {
    let mut bytes = (HEADER_BYTES + content.len()).to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
    bytes
}
