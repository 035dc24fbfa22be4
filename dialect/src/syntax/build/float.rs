//! Float literals.

use super::number::{is_hex, magnitude};
use crate::ir::FloatKind;

/// Why a literal is not a number of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotAFloat {
    /// A decimal integer: `1` and not `1.0`.
    Integer,
    /// `-0x…`
    NegativeHex,
    /// More bits than the format has.
    TooWide,
}

/// The bits of a literal: a decimal number, rounded as MLIR rounds it (first to a double), or hexadecimal bits.
pub(super) fn bits(text: &[u8], negative: bool, kind: FloatKind) -> Result<u128, NotAFloat> {
    if memchr::memchr(b'.', text).is_some() {
        let text = std::str::from_utf8(text).expect("digits are ASCII");
        let value: f64 = text.parse().expect("the lexer knows numbers");
        return Ok(kind.from_f64(if negative { -value } else { value }));
    }
    if !is_hex(text) {
        return Err(NotAFloat::Integer);
    }
    if negative {
        return Err(NotAFloat::NegativeHex);
    }
    let bits = magnitude(text).ok_or(NotAFloat::TooWide)?;
    match bits.checked_shr(kind.width()) {
        Some(0) | None => Ok(bits),
        Some(_) => Err(NotAFloat::TooWide),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        assert_eq!(bits(b"1.0", false, FloatKind::F8E4M3FN), Ok(0x38));
        assert_eq!(bits(b"1.0", true, FloatKind::F8E4M3FNUZ), Ok(0xC0));
        assert_eq!(bits(b"1.e400", false, FloatKind::F32), Ok(0x7F80_0000));
        assert_eq!(bits(b"0x7F80", false, FloatKind::BF16), Ok(0x7F80));
        assert_eq!(
            bits(b"0x17F80", false, FloatKind::BF16),
            Err(NotAFloat::TooWide)
        );
        assert_eq!(bits(b"1", false, FloatKind::BF16), Err(NotAFloat::Integer));
        assert_eq!(
            bits(b"0x1", true, FloatKind::F32),
            Err(NotAFloat::NegativeHex)
        );
    }
}
