//! Percent-encoding of form values.

/// Encodes a value of a form: `+` for a space, `%XX` for what RFC 3986 does not call unreserved.
pub(crate) fn percent_encoded(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' ' => encoded.push('+'),
            b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => encoded.push(char::from(*byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
