//! Strings: escapes, and names that are not UTF-8.
//!
//! MLIR's strings are bytes. Identifiers here are UTF-8, so in a name each byte that is not part of a valid character stands as
//! one of 128 characters at the end of Unicode's last private plane, which no text uses.

use std::borrow::Cow;

/// The character that stands for byte 0 of an invalid sequence; byte `b` is this plus `b`.
const STAND_IN: u32 = 0x10_FF00;

/// A name from bytes.
pub fn ident_from_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !has_stand_ins(text)
    {
        return Cow::Borrowed(text);
    }
    let mut name = String::with_capacity(bytes.len());
    let push = |name: &mut String, bytes: &[u8]| {
        let chars = bytes.iter().map(|&b| STAND_IN + u32::from(b));
        name.extend(chars.filter_map(char::from_u32));
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if stands_in(c) {
                push(&mut name, c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                name.push(c);
            }
        }
        push(&mut name, chunk.invalid());
    }
    Cow::Owned(name)
}

/// The bytes of a name: the inverse of [`ident_from_bytes`].
pub fn bytes_of_ident(name: &str) -> Cow<'_, [u8]> {
    if !has_stand_ins(name) {
        return Cow::Borrowed(name.as_bytes());
    }
    let mut bytes = Vec::with_capacity(name.len());
    for c in name.chars() {
        if stands_in(c) {
            bytes.push((u32::from(c) - STAND_IN) as u8);
        } else {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Cow::Owned(bytes)
}

fn stands_in(c: char) -> bool {
    (STAND_IN + 0x80..=STAND_IN + 0xFF).contains(&u32::from(c))
}

fn has_stand_ins(name: &str) -> bool {
    // Such a character starts with byte F4, which hardly any name has.
    memchr::memchr(0xF4, name.as_bytes()).is_some() && name.contains(stands_in)
}

/// What a string literal says, from its text with the quotes. The escapes are valid, as the lexer has checked.
pub(super) fn unescape(literal: &[u8]) -> Cow<'_, [u8]> {
    let body = &literal[1..literal.len() - 1];
    let Some(first) = memchr::memchr(b'\\', body) else {
        return Cow::Borrowed(body);
    };
    let mut bytes = body[..first].to_vec();
    let mut rest = &body[first..];
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'\\' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let (value, len) = match after[0] {
            b'"' => (b'"', 1),
            b'\\' => (b'\\', 1),
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            high => (hex_digit(high) << 4 | hex_digit(after[1]), 2),
        };
        bytes.push(value);
        rest = &after[len..];
    }
    Cow::Owned(bytes)
}

/// The bytes in `0x…`; none if that is not what the text is.
pub(super) fn hex_bytes(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(b"0x")?;
    if digits.len() % 2 != 0 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    Some(
        digits
            .chunks_exact(2)
            .map(|pair| hex_digit(pair[0]) << 4 | hex_digit(pair[1]))
            .collect(),
    )
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_any_bytes() {
        let stand_in = "\u{10FF80}!";
        for bytes in [
            &b"plain"[..],
            b"\xFF\xFE",
            b"a\xC3\xA7\xC3",
            stand_in.as_bytes(),
        ] {
            assert_eq!(*bytes_of_ident(&ident_from_bytes(bytes)), *bytes);
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(*unescape(br#""a\09\n\"\\\41\FF\t""#), *b"a\t\n\"\\A\xFF\t");
        assert_eq!(*unescape(b"\"\""), *b"");
        assert_eq!(hex_bytes(b"0x0fA0"), Some(vec![0x0f, 0xa0]));
        assert_eq!(hex_bytes(b"0x0"), None);
        assert_eq!(hex_bytes(b"0F"), None);
    }
}
