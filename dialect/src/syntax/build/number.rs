//! Integer literals.

use num_bigint::BigInt;

use super::super::token::Tok;
use super::Builder;
use crate::ir::{Int, Signedness};

/// The width and reading of an integer type; `index` is a signed 64-bit integer.
#[derive(Clone, Copy)]
pub(super) struct IntFormat {
    pub width: u32,
    pub signedness: Signedness,
    pub is_index: bool,
}

impl Builder<'_> {
    /// A decimal number that fits 32 bits.
    pub(super) fn small_integer(&self, tok: Tok) -> Option<u32> {
        u32::try_from(self.magnitude(tok)?).ok()
    }

    /// A number that fits 128 bits.
    pub(super) fn magnitude(&self, tok: Tok) -> Option<u128> {
        magnitude(self.bytes(tok))
    }
}

/// The value of a decimal or hexadecimal literal, if it fits 128 bits.
pub(super) fn magnitude(text: &[u8]) -> Option<u128> {
    let (digits, radix) = digits(text);
    let mut value = 0u128;
    for &digit in digits {
        let digit = char::from(digit).to_digit(radix)?;
        value = value.checked_mul(radix.into())?.checked_add(digit.into())?;
    }
    Some(value)
}

pub(super) fn is_hex(text: &[u8]) -> bool {
    text.len() > 1 && text[1] == b'x'
}

fn digits(text: &[u8]) -> (&[u8], u32) {
    if is_hex(text) {
        (&text[2..], 16)
    } else {
        (text, 10)
    }
}

/// The value of a literal in a type; none if the type cannot hold it.
///
/// Like MLIR, signless types take what fits either as a signed or as an unsigned number.
pub(super) fn int_value(text: &[u8], negative: bool, format: IntFormat) -> Option<Int> {
    match magnitude(text) {
        Some(value) if format.width <= 127 => small_value(value, negative, format),
        Some(value) => big_value(BigInt::from(value), negative, format),
        None => {
            let (digits, radix) = digits(text);
            let start = digits.iter().take_while(|&&d| d == b'0').count();
            let digits = &digits[start..];
            // A digit of a number without leading zeros stands for more than three bits.
            if (digits.len() as u64).saturating_sub(1) * 3 > u64::from(format.width) {
                return None;
            }
            big_value(BigInt::parse_bytes(digits, radix)?, negative, format)
        }
    }
}

fn small_value(value: u128, negative: bool, format: IntFormat) -> Option<Int> {
    let IntFormat {
        width,
        signedness,
        is_index,
    } = format;
    if width == 0 {
        return (value == 0 && !negative).then_some(Int::Small(0));
    }
    if value >> width != 0 {
        return None;
    }
    let half = 1u128 << (width - 1);
    let value = if negative {
        if value == 0 || value > half {
            return None;
        }
        -(value as i128)
    } else if value < half || signedness == Signedness::Unsigned {
        value as i128
    } else if signedness == Signedness::Signed || is_index {
        return None;
    } else {
        value as i128 - (1i128 << width)
    };
    Some(Int::Small(value))
}

fn big_value(value: BigInt, negative: bool, format: IntFormat) -> Option<Int> {
    let IntFormat {
        width,
        signedness,
        is_index,
    } = format;
    if value.bits() > u64::from(width) {
        return None;
    }
    let half = BigInt::from(1) << (width - 1);
    let value = if negative {
        if value == BigInt::ZERO || value > half {
            return None;
        }
        -value
    } else if value < half || signedness == Signedness::Unsigned {
        value
    } else if signedness == Signedness::Signed || is_index {
        return None;
    } else {
        value - (half << 1u32)
    };
    Some(value.into())
}

/// The value's low bytes, little-endian, as many as `width` bits need; bits beyond the width are 0.
pub(super) fn int_bytes(value: &Int, width: u32, out: &mut Vec<u8>) {
    let len = width.div_ceil(8) as usize;
    let start = out.len();
    match value {
        Int::Small(value) => {
            let bytes = value.to_le_bytes();
            let fill = if *value < 0 { 0xFF } else { 0 };
            out.extend((0..len).map(|i| bytes.get(i).copied().unwrap_or(fill)));
        }
        Int::Big(value) => {
            let bytes = value.to_signed_bytes_le();
            let fill = if value.sign() == num_bigint::Sign::Minus {
                0xFF
            } else {
                0
            };
            out.extend((0..len).map(|i| bytes.get(i).copied().unwrap_or(fill)));
        }
    }
    if !width.is_multiple_of(8) && out.len() > start {
        let last = out.len() - 1;
        out[last] &= (1u8 << (width % 8)) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, negative: bool, width: u32, signedness: Signedness) -> Option<i128> {
        let format = IntFormat {
            width,
            signedness,
            is_index: false,
        };
        match int_value(text.as_bytes(), negative, format)? {
            Int::Small(v) => Some(v),
            Int::Big(_) => panic!("does not fit"),
        }
    }

    #[test]
    fn signless_takes_both_readings() {
        use Signedness::{Signed, Signless, Unsigned};
        assert_eq!(value("255", false, 8, Signless), Some(-1));
        assert_eq!(value("255", false, 8, Unsigned), Some(255));
        assert_eq!(value("255", false, 8, Signed), None);
        assert_eq!(value("256", false, 8, Signless), None);
        assert_eq!(value("128", true, 8, Signless), Some(-128));
        assert_eq!(value("129", true, 8, Signless), None);
        assert_eq!(value("1", false, 1, Signless), Some(-1));
        assert_eq!(value("2", false, 1, Signless), None);
        assert_eq!(value("0", true, 8, Signless), None);
        assert_eq!(value("0xFF", false, 8, Signless), Some(-1));
        assert_eq!(value("0", false, 0, Signless), Some(0));
        let max = "340282366920938463463374607431768211455";
        assert_eq!(value(max, false, 128, Signless), Some(-1));
        assert_eq!(
            value(
                "00000000000000000000000000000000000000000000000007",
                false,
                8,
                Signless
            ),
            Some(7)
        );
    }

    #[test]
    fn bytes_are_cut_to_the_width() {
        let mut out = Vec::new();
        int_bytes(&Int::Small(-1), 4, &mut out);
        int_bytes(&Int::Small(-2), 16, &mut out);
        int_bytes(&Int::Small(1), 136, &mut out);
        assert_eq!(out[..4], [0x0F, 0xFE, 0xFF, 1]);
        assert_eq!(out.len(), 3 + 17);
    }
}
