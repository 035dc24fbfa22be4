//! Floats as MLIR prints them: six significant digits and a zero if that reads back as the same value, else enough digits,
//! else the bits in hex. The digits are those of LLVM's `APFloat::toString`, whose way of dropping digits is followed step
//! by step, because it does not always round the last digit correctly.

use std::fmt::Write as _;

use num_bigint::BigUint;

use crate::ir::{FloatKind, FloatValue};

/// Appends a float. Returns whether it was written in hex.
pub(super) fn push_float(out: &mut String, kind: FloatKind, bits: u128) -> bool {
    let value = kind.decode(bits);
    match value {
        FloatValue::Zero { negative } => {
            out.push_str(if negative {
                "-0.000000e+00"
            } else {
                "0.000000e+00"
            });
            return false;
        }
        FloatValue::Finite {
            negative,
            significand,
            exponent,
        } => {
            let short = Decimal::new(significand, exponent, 6);
            if short.nearest(kind, negative) == bits {
                short.push_padded(out, negative);
                return false;
            }
            let digits = 2 + kind.precision() as usize * 59 / 196;
            let long = Decimal::new(significand, exponent, digits);
            if long.push_shortest(out, negative, digits) {
                return false;
            }
        }
        FloatValue::Infinity { .. } | FloatValue::Nan => {}
    }
    let _ = write!(out, "0x{bits:X}");
    true
}

/// `digits · 10^exponent`; the digits are ASCII, most significant first, without trailing zeros.
struct Decimal {
    digits: Vec<u8>,
    exponent: i32,
}

impl Decimal {
    /// About `significand · 2^exponent`, with at most `precision` digits.
    fn new(significand: u128, exponent: i32, precision: usize) -> Self {
        let zeros = significand.trailing_zeros();
        let exponent = exponent + zeros as i32;
        let significand = significand >> zeros;
        // m · 2^-e = m · 5^e · 10^-e
        let power = exponent.min(0);
        let (digits, dropped) = match scaled(significand, exponent) {
            Some(value) => {
                let tens = tens_to_drop(128 - value.leading_zeros() as usize, precision);
                ((value / 10u128.pow(tens)).to_string(), tens)
            }
            None => {
                let value = BigUint::from(significand);
                let value = match exponent {
                    0.. => value << exponent as u32,
                    _ => value * BigUint::from(5u32).pow(exponent.unsigned_abs()),
                };
                let tens = tens_to_drop(value.bits() as usize, precision);
                ((value / BigUint::from(10u32).pow(tens)).to_string(), tens)
            }
        };
        let mut decimal = Self {
            digits: digits.into_bytes(),
            exponent: power + dropped as i32,
        };
        decimal.trim();
        decimal.round(precision);
        decimal
    }

    fn trim(&mut self) {
        while self.digits.len() > 1 && self.digits.last() == Some(&b'0') {
            self.digits.pop();
            self.exponent += 1;
        }
    }

    /// Rounds half up to `precision` digits.
    fn round(&mut self, precision: usize) {
        if self.digits.len() <= precision {
            return;
        }
        let up = self.digits[precision] >= b'5';
        self.exponent += (self.digits.len() - precision) as i32;
        self.digits.truncate(precision);
        if up {
            while self.digits.last() == Some(&b'9') {
                self.digits.pop();
                self.exponent += 1;
            }
            match self.digits.last_mut() {
                Some(digit) => *digit += 1,
                None => self.digits.push(b'1'),
            }
        }
        self.trim();
    }

    /// The bits of the nearest value of a format.
    fn nearest(&self, kind: FloatKind, negative: bool) -> u128 {
        let digits = self
            .digits
            .iter()
            .fold(0u64, |n, d| n * 10 + u64::from(d - b'0'));
        if kind == FloatKind::F64 && self.digits.len() <= 15 && self.exponent.abs() <= 22 {
            // Both factors are exact, so the product or quotient is the nearest value.
            let scale = 10f64.powi(self.exponent.abs());
            let digits = digits as f64;
            let value = if self.exponent < 0 {
                digits / scale
            } else {
                digits * scale
            };
            return u128::from(if negative { -value } else { value }.to_bits());
        }
        kind.from_decimal(negative, &digits.into(), self.exponent)
    }

    /// `d.dddddde±dd` with six digits behind the point.
    fn push_padded(&self, out: &mut String, negative: bool) {
        if negative {
            out.push('-');
        }
        out.push(char::from(self.digits[0]));
        out.push('.');
        out.extend(self.digits[1..].iter().map(|&d| char::from(d)));
        for _ in self.digits.len()..7 {
            out.push('0');
        }
        let exponent = self.exponent + self.digits.len() as i32 - 1;
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
    }

    /// `0.00123`, `12.3` or `1.23E+45`; nothing, and `false`, if there would be no point in it.
    fn push_shortest(&self, out: &mut String, negative: bool, precision: usize) -> bool {
        const PADDING: i32 = 3;
        let count = self.digits.len() as i32;
        let leading = self.exponent + count - 1;
        let scientific = if self.exponent >= 0 {
            self.exponent > PADDING || count + self.exponent > precision as i32
        } else {
            leading < 0 && -leading > PADDING
        };
        if !scientific && self.exponent >= 0 {
            return false;
        }
        if negative {
            out.push('-');
        }
        let digits = std::str::from_utf8(&self.digits).expect("digits are ASCII");
        if scientific {
            let (first, rest) = digits.split_at(1);
            let rest = if rest.is_empty() { "0" } else { rest };
            let sign = if leading < 0 { '-' } else { '+' };
            let _ = write!(out, "{first}.{rest}E{sign}{}", leading.abs());
        } else if leading >= 0 {
            let (whole, rest) = digits.split_at(leading as usize + 1);
            let _ = write!(out, "{whole}.{rest}");
        } else {
            out.push_str("0.");
            for _ in 1..-leading {
                out.push('0');
            }
            out.push_str(digits);
        }
        true
    }
}

/// `significand · 2^exponent`, times `10^-exponent` if the exponent is negative, if that fits.
fn scaled(significand: u128, exponent: i32) -> Option<u128> {
    match exponent {
        0.. if exponent.unsigned_abs() < significand.leading_zeros() => {
            Some(significand << exponent)
        }
        0.. => None,
        _ => 5u128
            .checked_pow(exponent.unsigned_abs())?
            .checked_mul(significand),
    }
}

/// By which power of ten a value of this many bits is divided (cut off, not rounded) so that about `precision` digits stay.
fn tens_to_drop(bits: usize, precision: usize) -> u32 {
    // 196/59 is slightly more than log2(10).
    let wanted = (precision * 196).div_ceil(59);
    (bits.saturating_sub(wanted) * 59 / 196) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: FloatKind, value: f64) -> String {
        let mut out = String::new();
        push_float(&mut out, kind, kind.from_f64(value));
        out
    }

    /// Printed by mlir-opt 22.1.8.
    #[test]
    fn prints_as_mlir_does() {
        use FloatKind::*;
        let cases = [
            (F32, 1e10, "1.000000e+10"),
            (F32, 123456789.0, "0x4CEB79A3"),
            (F64, 1e100, "1.000000e+100"),
            (F64, 0.1234567890123, "0.12345678901230001"),
            (F32, 16777216.0, "0x4B800000"),
            (F32, -0.0, "-0.000000e+00"),
            (F32, 3.14159274, "3.14159274"),
            (F32, 3.4028234663852886e+38, "3.40282347E+38"),
            (F32, 1.401298464324817e-45, "1.401300e-45"),
            (F64, 5e-324, "4.940660e-324"),
            (F64, f64::MAX, "1.7976931348623157E+308"),
            (F64, f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (F64, 12345678901234567890.0, "1.2345678901234567E+19"),
            (F64, 9007199254740993.0, "0x4340000000000000"),
            (F64, f64::INFINITY, "0x7FF0000000000000"),
            (F16, 65504.0, "6.550400e+04"),
            (F16, 0.333, "3.330080e-01"),
            (BF16, 0.333, "3.320310e-01"),
            (BF16, 3.39e38, "3.389530e+38"),
            (F8E4M3FN, 0.3, "3.125000e-01"),
            (F8E4M3FN, 448.0, "4.480000e+02"),
            (F8E5M2, 57344.0, "5.734400e+04"),
            (TF32, 0.333, "3.330080e-01"),
            (F80, 0.1, "0.100000000000000005551"),
            (F128, 0.1, "0.100000000000000005551115123125782702"),
            (F80, f64::INFINITY, "0x7FFF8000000000000000"),
            (F4E2M1FN, 6.0, "6.000000e+00"),
            (F8E3M4, 0.1, "9.375000e-02"),
            (F8E8M0FNU, 1.0, "1.000000e+00"),
        ];
        for (kind, value, expected) in cases {
            assert_eq!(text(kind, value), expected, "{kind:?} {value}");
        }
    }
}
