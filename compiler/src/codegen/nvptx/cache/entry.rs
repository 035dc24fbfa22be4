//! One entry as a file: a line that names the format, a line with the SHA-256 of the rest, the rest.

use sha2::{Digest, Sha256};

/// The first line.
const FORMAT: &str = "raddle kernel 1";

/// What lies where an entry is looked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No file, or none that can be read.
    Nothing,
    /// A file that is no entry, or whose checksum is not its own.
    Damaged,
    /// An entry.
    Whole(Vec<u8>),
}

/// The file of an entry.
pub(super) fn wrap(payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{FORMAT}\n{}\n", hexadecimal(&Sha256::digest(payload))).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

/// The entry of a file.
pub(super) fn unwrap(bytes: &[u8]) -> Found {
    let mut parts = bytes.splitn(3, |&byte| byte == b'\n');
    let (Some(format), Some(checksum), Some(payload)) = (parts.next(), parts.next(), parts.next())
    else {
        return Found::Damaged;
    };
    if format == FORMAT.as_bytes() && checksum == hexadecimal(&Sha256::digest(payload)).as_bytes() {
        Found::Whole(payload.to_vec())
    } else {
        Found::Damaged
    }
}

/// Bytes as digits, two for each.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_changes_is_seen() {
        for payload in [&b""[..], b"\n", b"one\ntwo\n\n", b"\x00\xff"] {
            let whole = wrap(payload);
            assert_eq!(unwrap(&whole), Found::Whole(payload.to_vec()));
            for place in 0..whole.len() {
                let mut changed = whole.clone();
                changed[place] ^= 0x20;
                assert_eq!(unwrap(&changed), Found::Damaged, "byte {place} changed");
                assert_eq!(unwrap(&whole[..place]), Found::Damaged, "cut at {place}");
            }
            let mut longer = whole;
            longer.push(b'x');
            assert_eq!(unwrap(&longer), Found::Damaged);
        }
    }
}
