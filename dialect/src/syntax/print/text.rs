//! Small pieces of text: numbers, names, strings, in MLIR's spelling.

use std::fmt::Write as _;

use super::super::text::bytes_of_ident;

/// Appends a decimal number.
pub(super) fn push_uint(out: &mut String, mut value: u64) {
    if value < 10 {
        out.push(char::from(b'0' + value as u8));
        return;
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    while value > 0 {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// Appends a decimal number with its sign.
pub(super) fn push_int(out: &mut String, value: i128) {
    match u64::try_from(value) {
        Ok(value) => push_uint(out, value),
        Err(_) => drop(write!(out, "{value}")),
    }
}

/// Appends a string in quotes. What is not printable ASCII, and `"`, becomes `\` and two hex digits; `\` is doubled.
pub(super) fn push_string(out: &mut String, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push('"');
    let clean = |b: &u8| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\');
    let plain = bytes.iter().position(|b| !clean(b)).unwrap_or(bytes.len());
    let (plain, rest) = bytes.split_at(plain);
    out.push_str(std::str::from_utf8(plain).unwrap_or_default());
    for &byte in rest {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' if byte != b'"' => out.push(char::from(byte)),
            _ => {
                out.push('\\');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    out.push('"');
}

/// Appends bytes as two upper-case hex digits each.
pub(super) fn push_hex(out: &mut String, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(2 * bytes.len());
    for &byte in bytes {
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

/// Whether a name can stand without quotes: `[A-Za-z_][A-Za-z0-9_$.]*`.
pub(super) fn is_bare(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'))
}

/// Appends a name, in quotes if it needs them.
pub(super) fn push_name(out: &mut String, name: &str) {
    if is_bare(name) {
        out.push_str(name);
    } else {
        push_string(out, &bytes_of_ident(name));
    }
}

/// Appends `@name`.
pub(super) fn push_symbol(out: &mut String, name: &str) {
    out.push('@');
    push_name(out, name);
}

/// Appends `dialect.body` if the body is a name, perhaps with `<…>` behind, and `dialect<body>` otherwise.
pub(super) fn push_dialect_symbol(out: &mut String, dialect: &str, body: &str) {
    out.push_str(dialect);
    let rest =
        body.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'));
    let named = body.starts_with(|c: char| c.is_ascii_alphabetic());
    if named && (rest.is_empty() || (rest.starts_with('<') && rest.ends_with('>'))) {
        out.push('.');
        out.push_str(body);
    } else {
        out.push('<');
        out.push_str(body);
        out.push('>');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        push(&mut out);
        out
    }

    #[test]
    fn numbers() {
        for value in [0, 9, 10, 12345, u64::MAX] {
            assert_eq!(text(|o| push_uint(o, value)), value.to_string());
        }
        for value in [0, -1, i128::MIN, i128::MAX] {
            assert_eq!(text(|o| push_int(o, value)), value.to_string());
        }
    }

    #[test]
    fn names_and_strings() {
        assert_eq!(
            text(|o| push_string(o, b"a\t\"\\\xFF")),
            r#""a\09\22\\\FF""#
        );
        assert_eq!(text(|o| push_symbol(o, "f.g$1")), "@f.g$1");
        assert_eq!(text(|o| push_symbol(o, "1 f")), "@\"1 f\"");
        assert_eq!(
            text(|o| push_dialect_symbol(o, "foo", "bar<1>")),
            "foo.bar<1>"
        );
        assert_eq!(
            text(|o| push_dialect_symbol(o, "foo", "bar 1")),
            "foo<bar 1>"
        );
        assert_eq!(
            text(|o| push_dialect_symbol(o, "foo", "\"x\"")),
            "foo<\"x\">"
        );
    }
}
