//! Rounding a number to an element type.

use crate::tensor_type::DType;

impl DType {
    /// The element of this type that a number becomes: floats to nearest even, overflowing to infinity (to NaN in f8E4M3FN, which has
    /// none); integers towards zero and saturating, NaN to 0; `i1` is whether the number is not 0.
    pub fn round(self, x: f64) -> f64 {
        match self {
            DType::Bool => f64::from(x != 0.0),
            DType::I8 => f64::from(x as i8),
            DType::I16 => f64::from(x as i16),
            DType::I32 => f64::from(x as i32),
            DType::I64 => x as i64 as f64,
            DType::U8 => f64::from(x as u8),
            DType::U16 => f64::from(x as u16),
            DType::U32 => f64::from(x as u32),
            DType::U64 => x as u64 as f64,
            DType::F8E4M3FN => {
                let y = round_binary(x, 3, -6);
                if y.abs() > 448.0 {
                    f64::NAN.copysign(y)
                } else {
                    y
                }
            }
            DType::F8E5M2 => overflow(round_binary(x, 2, -14), 57344.0),
            DType::F16 => overflow(round_binary(x, 10, -14), 65504.0),
            DType::BF16 => overflow(round_binary(x, 7, -126), 3.389_531_389_251_535_5e38),
            DType::TF32 => overflow(round_binary(x, 10, -126), 3.401_162_134_214_653e38),
            DType::F32 => f64::from(x as f32),
            DType::F64 => x,
        }
    }

    /// What an integer (given as a number) becomes in this integer type: it wraps around.
    pub fn wrap(self, x: f64) -> f64 {
        let x = x as i128;
        match self {
            DType::I8 => f64::from(x as i8),
            DType::I16 => f64::from(x as i16),
            DType::I32 => f64::from(x as i32),
            DType::I64 => x as i64 as f64,
            DType::U8 => f64::from(x as u8),
            DType::U16 => f64::from(x as u16),
            DType::U32 => f64::from(x as u32),
            DType::U64 => x as u64 as f64,
            _ => x as f64,
        }
    }
}

fn overflow(x: f64, largest: f64) -> f64 {
    if x.abs() > largest {
        f64::INFINITY.copysign(x)
    } else {
        x
    }
}

/// Rounds to nearest even with `mantissa` bits after the point and a smallest exponent, as if exponents had no upper limit.
fn round_binary(x: f64, mantissa: i32, smallest_exponent: i32) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    // A subnormal f64 reads as exponent -1023, far below every smallest exponent here.
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let quantum = exponent.max(smallest_exponent) - mantissa;
    (x * exp2(-quantum)).round_ties_even() * exp2(quantum)
}

/// 2ⁿ for exponents of normal f64 numbers.
fn exp2(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    /// Every f16 and bf16, the point between each and the next, and a bit to either side of that point.
    #[test]
    fn half_precision_is_rounded_to_nearest_even() {
        for bits in 0..0x7c00u16 {
            let (low, high) = (f16::from_bits(bits), f16::from_bits(bits + 1));
            let limit =
                f64::from(low) + (f64::from(low) - f64::from(f16::from_bits(bits.max(1) - 1)));
            let next = if high.is_infinite() {
                limit
            } else {
                high.into()
            };
            check(DType::F16, low.into(), next, high.into(), bits % 2 == 0);
        }
        for bits in 0..0x7f80u16 {
            let (low, high) = (bf16::from_bits(bits), bf16::from_bits(bits + 1));
            let limit =
                f64::from(low) + (f64::from(low) - f64::from(bf16::from_bits(bits.max(1) - 1)));
            let next = if high.is_infinite() {
                limit
            } else {
                high.into()
            };
            check(DType::BF16, low.into(), next, high.into(), bits % 2 == 0);
        }
    }

    /// `next` is where the grid would go on; `high` is what a number there becomes.
    fn check(dtype: DType, low: f64, next: f64, high: f64, low_is_even: bool) {
        let middle = (low + next) / 2.0;
        assert_eq!(dtype.round(low), low);
        assert_eq!(dtype.round(middle.next_down()), low, "{low} in {dtype}");
        assert_eq!(dtype.round(middle.next_up()), high, "{low} in {dtype}");
        assert_eq!(dtype.round(middle), if low_is_even { low } else { high });
        assert_eq!(dtype.round(-middle.next_up()), -high);
    }

    #[test]
    fn the_eight_bit_formats() {
        assert_eq!(DType::F8E4M3FN.round(448.0), 448.0);
        assert!(DType::F8E4M3FN.round(480.0).is_nan());
        assert_eq!(DType::F8E4M3FN.round(464.0), 448.0);
        assert_eq!(DType::F8E4M3FN.round(0.001_953_125), 0.001_953_125);
        assert_eq!(DType::F8E4M3FN.round(0.000_976_562_5), 0.0);
        assert_eq!(DType::F8E5M2.round(57344.0), 57344.0);
        assert_eq!(DType::F8E5M2.round(61440.0), f64::INFINITY);
        assert_eq!(DType::F8E5M2.round(1.3), 1.25);
        assert_eq!(DType::TF32.round(1.0 + 1.0 / 2048.0), 1.0);
        assert_eq!(DType::TF32.round(f64::from(f32::MAX)), f64::INFINITY);
    }

    #[test]
    fn integers_saturate_or_wrap() {
        assert_eq!(DType::I8.round(300.7), 127.0);
        assert_eq!(DType::U8.round(-1.0), 0.0);
        assert_eq!(DType::I32.round(f64::NAN), 0.0);
        assert_eq!(DType::I8.wrap(300.0), 44.0);
        assert_eq!(DType::U8.wrap(-1.0), 255.0);
        assert_eq!(DType::Bool.round(-0.5), 1.0);
    }
}
