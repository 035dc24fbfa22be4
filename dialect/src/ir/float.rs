//! Floating-point formats: how the bits of each [`FloatKind`] are read, and correct rounding into it.
//!
//! Sources: IEEE 754-2019; Micikevicius et al., "FP8 Formats for Deep Learning", 2022 (`E4M3FN`, `E5M2`); the OCP
//! Microscaling specification 1.0 (`F4E2M1FN`, `F6…`, `E8M0FNU`). Rounding is to nearest, ties to even.

use num_bigint::BigUint;

use super::types::FloatKind;

/// What a format does with its highest exponent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NonFinite {
    /// Infinities and NaNs, as in IEEE 754.
    Ieee,
    /// No infinities; all ones is NaN.
    NanAllOnes,
    /// No infinities; minus zero is NaN.
    NanNegativeZero,
    /// Neither.
    None,
}

#[derive(Clone, Copy, Debug)]
struct Format {
    /// Width in bits.
    bits: u32,
    /// Bits of the significand, the leading one included.
    precision: u32,
    /// Exponent of the smallest normal number.
    min_exp: i32,
    /// Exponent of the largest number.
    max_exp: i32,
    non_finite: NonFinite,
}

/// A float taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FloatValue {
    /// `±significand · 2^exponent`; the significand is not zero.
    Finite {
        /// Below zero.
        negative: bool,
        /// Below `2^precision`.
        significand: u128,
        /// Of the significand's last bit.
        exponent: i32,
    },
    /// Plus or minus zero.
    Zero {
        /// Minus zero.
        negative: bool,
    },
    /// Plus or minus infinity.
    Infinity {
        /// Minus infinity.
        negative: bool,
    },
    /// Not a number.
    Nan,
}

impl FloatKind {
    fn format(self) -> Format {
        use NonFinite::*;
        let (bits, precision, min_exp, max_exp, non_finite) = match self {
            FloatKind::F16 => (16, 11, -14, 15, Ieee),
            FloatKind::BF16 => (16, 8, -126, 127, Ieee),
            FloatKind::TF32 => (19, 11, -126, 127, Ieee),
            FloatKind::F32 => (32, 24, -126, 127, Ieee),
            FloatKind::F64 => (64, 53, -1022, 1023, Ieee),
            FloatKind::F80 => (80, 64, -16382, 16383, Ieee),
            FloatKind::F128 => (128, 113, -16382, 16383, Ieee),
            FloatKind::F8E5M2 => (8, 3, -14, 15, Ieee),
            FloatKind::F8E4M3 => (8, 4, -6, 7, Ieee),
            FloatKind::F8E3M4 => (8, 5, -2, 3, Ieee),
            FloatKind::F8E4M3FN => (8, 4, -6, 8, NanAllOnes),
            FloatKind::F8E5M2FNUZ => (8, 3, -15, 15, NanNegativeZero),
            FloatKind::F8E4M3FNUZ => (8, 4, -7, 7, NanNegativeZero),
            FloatKind::F8E4M3B11FNUZ => (8, 4, -10, 4, NanNegativeZero),
            FloatKind::F4E2M1FN => (4, 2, 0, 2, None),
            FloatKind::F6E2M3FN => (6, 4, 0, 2, None),
            FloatKind::F6E3M2FN => (6, 3, -2, 4, None),
            FloatKind::F8E8M0FNU => (8, 1, -127, 127, NanAllOnes),
        };
        Format {
            bits,
            precision,
            min_exp,
            max_exp,
            non_finite,
        }
    }

    /// The type's name: `f32`, `f8E4M3FN`.
    pub fn name(self) -> &'static str {
        match self {
            FloatKind::F16 => "f16",
            FloatKind::BF16 => "bf16",
            FloatKind::TF32 => "tf32",
            FloatKind::F32 => "f32",
            FloatKind::F64 => "f64",
            FloatKind::F80 => "f80",
            FloatKind::F128 => "f128",
            FloatKind::F8E5M2 => "f8E5M2",
            FloatKind::F8E4M3 => "f8E4M3",
            FloatKind::F8E4M3FN => "f8E4M3FN",
            FloatKind::F8E5M2FNUZ => "f8E5M2FNUZ",
            FloatKind::F8E4M3FNUZ => "f8E4M3FNUZ",
            FloatKind::F8E4M3B11FNUZ => "f8E4M3B11FNUZ",
            FloatKind::F8E3M4 => "f8E3M4",
            FloatKind::F4E2M1FN => "f4E2M1FN",
            FloatKind::F6E2M3FN => "f6E2M3FN",
            FloatKind::F6E3M2FN => "f6E3M2FN",
            FloatKind::F8E8M0FNU => "f8E8M0FNU",
        }
    }

    /// Width in bits.
    pub fn width(self) -> u32 {
        self.format().bits
    }

    /// Bits of the significand, the leading one included.
    pub fn precision(self) -> u32 {
        self.format().precision
    }

    /// Takes a value of this format apart.
    pub fn decode(self, bits: u128) -> FloatValue {
        let f = self.format();
        if self == FloatKind::F8E8M0FNU {
            return match bits {
                0xFF => FloatValue::Nan,
                bits => FloatValue::Finite {
                    negative: false,
                    significand: 1,
                    exponent: bits as i32 - 127,
                },
            };
        }
        // The x87 format stores its leading one.
        let stored = if self == FloatKind::F80 {
            64
        } else {
            f.precision - 1
        };
        let negative = bits >> (f.bits - 1) & 1 == 1;
        let fraction = bits & ((1 << stored) - 1);
        let field_bits = f.bits - 1 - stored;
        let field = (bits >> stored & ((1 << field_bits) - 1)) as i32;
        let top = field == (1 << field_bits) - 1;
        match f.non_finite {
            NonFinite::Ieee if top => {
                let infinite = match self {
                    FloatKind::F80 => fraction == 1 << 63,
                    _ => fraction == 0,
                };
                return match infinite {
                    true => FloatValue::Infinity { negative },
                    false => FloatValue::Nan,
                };
            }
            NonFinite::NanAllOnes if top && fraction == (1 << stored) - 1 => {
                return FloatValue::Nan;
            }
            NonFinite::NanNegativeZero if bits == 1 << (f.bits - 1) => return FloatValue::Nan,
            _ => {}
        }
        if self == FloatKind::F80 && field != 0 && fraction >> 63 == 0 {
            return FloatValue::Nan; // an encoding that x87 calls invalid
        }
        let significand = match (field, self) {
            (0, _) | (_, FloatKind::F80) => fraction,
            _ => fraction | 1 << stored,
        };
        if significand == 0 {
            return FloatValue::Zero { negative };
        }
        let exponent = field.max(1) - 1 + f.min_exp - (f.precision as i32 - 1);
        FloatValue::Finite {
            negative,
            significand,
            exponent,
        }
    }

    /// The nearest value of this format to an `f64`. Values out of range become infinite, or NaN or the largest value where
    /// the format has no infinity.
    pub fn from_f64(self, value: f64) -> u128 {
        match FloatKind::F64.decode(value.to_bits().into()) {
            _ if self == FloatKind::F64 => value.to_bits().into(),
            FloatValue::Finite {
                negative,
                significand,
                exponent,
            } => self.round(negative, &significand.into(), exponent, false),
            FloatValue::Zero { negative } => self.zero(negative),
            FloatValue::Infinity { negative } => self.overflow(negative),
            FloatValue::Nan => self.nan(),
        }
    }

    /// The nearest value of this format to `±digits · 10^power`.
    pub fn from_decimal(self, negative: bool, digits: &BigUint, power: i32) -> u128 {
        if digits.bits() == 0 {
            return self.zero(negative);
        }
        // Beyond every format, and too long to compute.
        let magnitude = i64::from(power) + (digits.bits() as i64 * 59 / 196);
        if magnitude > 10_000 {
            return self.overflow(negative);
        }
        if magnitude < -10_000 {
            return self.zero(negative);
        }
        let five = BigUint::from(5u32);
        if power >= 0 {
            let scaled = digits * five.pow(power as u32);
            return self.round(negative, &scaled, power, false);
        }
        let divisor = five.pow(power.unsigned_abs());
        let wanted = u64::from(self.precision()) + 2 + divisor.bits();
        let shift = wanted.saturating_sub(digits.bits());
        let shifted = digits << shift;
        let quotient = &shifted / &divisor;
        let inexact = &quotient * &divisor != shifted;
        self.round(negative, &quotient, power - shift as i32, inexact)
    }

    /// Rounds `±significand · 2^exponent`; with `inexact`, a little more than that (the significand then has at least two
    /// bits more than the format).
    fn round(self, negative: bool, significand: &BigUint, exponent: i32, inexact: bool) -> u128 {
        let f = self.format();
        let top = exponent + significand.bits() as i32 - 1;
        let last = top.max(f.min_exp) - (f.precision as i32 - 1);
        let drop = last - exponent;
        let mut kept = if drop <= 0 {
            to_u128(&(significand << drop.unsigned_abs()))
        } else {
            let drop = u64::from(drop.unsigned_abs());
            let kept = to_u128(&(significand >> drop));
            let half = significand.bit(drop - 1);
            let rest = inexact || significand.trailing_zeros().is_some_and(|z| z < drop - 1);
            kept + u128::from(half && (rest || kept & 1 == 1))
        };
        let mut last = last;
        if kept == 1 << f.precision {
            kept >>= 1;
            last += 1;
        }
        if kept == 0 {
            return self.zero(negative);
        }
        let exponent = last + f.precision as i32 - 1;
        let all_ones = kept == (1 << f.precision) - 1;
        let reserved = f.non_finite == NonFinite::NanAllOnes && f.precision > 1 && all_ones;
        if exponent > f.max_exp || (exponent == f.max_exp && reserved) {
            return self.overflow(negative);
        }
        if self == FloatKind::F8E8M0FNU {
            return (exponent + 127) as u128;
        }
        let sign = u128::from(negative) << (f.bits - 1);
        let normal = kept >> (f.precision - 1) == 1;
        let field = if normal {
            (exponent - f.min_exp + 1) as u128
        } else {
            0
        };
        if self == FloatKind::F80 {
            return sign | field << 64 | kept;
        }
        sign | field << (f.precision - 1) | kept & ((1 << (f.precision - 1)) - 1)
    }

    fn zero(self, negative: bool) -> u128 {
        let f = self.format();
        if !negative || f.non_finite == NonFinite::NanNegativeZero || self == FloatKind::F8E8M0FNU {
            return 0;
        }
        1 << (f.bits - 1)
    }

    fn nan(self) -> u128 {
        let f = self.format();
        match (self, f.non_finite) {
            (FloatKind::F80, _) => 0x7FFF_C000_0000_0000_0000,
            (_, NonFinite::Ieee) => {
                let quiet = 1 << (f.precision - 2);
                ((1 << (f.bits - f.precision)) - 1) << (f.precision - 1) | quiet
            }
            (FloatKind::F8E8M0FNU, _) => 0xFF,
            (_, NonFinite::NanAllOnes) => (1 << (f.bits - 1)) - 1,
            (_, NonFinite::NanNegativeZero) => 1 << (f.bits - 1),
            (_, NonFinite::None) => self.zero(true),
        }
    }

    fn overflow(self, negative: bool) -> u128 {
        let f = self.format();
        let sign = u128::from(negative && self != FloatKind::F8E8M0FNU) << (f.bits - 1);
        match (self, f.non_finite) {
            (FloatKind::F80, _) => sign | 0x7FFF_8000_0000_0000_0000,
            (_, NonFinite::Ieee) => sign | ((1 << (f.bits - f.precision)) - 1) << (f.precision - 1),
            (_, NonFinite::NanAllOnes) => sign | self.nan(),
            (_, NonFinite::NanNegativeZero) => self.nan(),
            (_, NonFinite::None) => sign | ((1 << (f.bits - 1)) - 1),
        }
    }
}

fn to_u128(value: &BigUint) -> u128 {
    u128::try_from(value).expect("a rounded significand fits 128 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f32_and_f16_round_like_the_hardware() {
        for value in [
            0.1, 1.0, -2.5, 1e-45, 3.4e38, 3.5e38, 65504.0, 65519.9, 65520.0, 6e-8, 1e-320, -0.0,
        ] {
            let single = u128::from((value as f32).to_bits());
            assert_eq!(FloatKind::F32.from_f64(value), single, "{value}");
            let half = u128::from(half::f16::from_f64(value).to_bits());
            assert_eq!(FloatKind::F16.from_f64(value), half, "{value}");
            let brain = u128::from(half::bf16::from_f64(value).to_bits());
            assert_eq!(FloatKind::BF16.from_f64(value), brain, "{value}");
        }
    }

    #[test]
    fn every_short_value_survives_decoding() {
        use FloatKind::*;
        let kinds = [
            F16,
            BF16,
            F8E5M2,
            F8E4M3,
            F8E4M3FN,
            F8E5M2FNUZ,
            F8E4M3FNUZ,
            F8E4M3B11FNUZ,
            F8E3M4,
            F4E2M1FN,
            F6E2M3FN,
            F6E3M2FN,
            F8E8M0FNU,
            TF32,
        ];
        for kind in kinds {
            for bits in 0..1u128 << kind.width() {
                let back = match kind.decode(bits) {
                    FloatValue::Finite {
                        negative,
                        significand,
                        exponent,
                    } => kind.round(negative, &significand.into(), exponent, false),
                    FloatValue::Zero { negative } => kind.zero(negative),
                    FloatValue::Infinity { negative } => kind.overflow(negative),
                    FloatValue::Nan => continue,
                };
                assert_eq!(back, bits, "{kind:?}");
            }
        }
    }

    #[test]
    fn decimals_round_correctly() {
        let f64_of = |digits: u64, power| FloatKind::F64.from_decimal(false, &digits.into(), power);
        assert_eq!(f64_of(1, -1), u128::from(0.1f64.to_bits()));
        assert_eq!(f64_of(5, -324), 1);
        assert_eq!(
            f64_of(17976931348623157, 292),
            u128::from(f64::MAX.to_bits())
        );
        assert_eq!(f64_of(123456789, 400), u128::from(f64::INFINITY.to_bits()));
        let f32_of = |digits: u64, power| FloatKind::F32.from_decimal(false, &digits.into(), power);
        assert_eq!(f32_of(140130, -50), 1);
    }
}
