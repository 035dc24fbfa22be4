//! How products of single-precision elements are computed, and what that costs in accuracy.
//!
//! Tensor cores take no single precision; the nearest they take is tf32: 8 bits of exponent as single precision has, 11
//! significant bits instead of 24 (PTX ISA, "Alternate Floating-Point Data Formats"). A product can do without them
//! ([`Math::Full`]), take its operands rounded ([`Math::Tf32`]), or take each operand as a sum of two tf32 numbers
//! ([`Math::ThreeTf32`]).
//!
//! Of the last: with `x = b + s + r`, b being x rounded to tf32 and s being x − b rounded to tf32, |s| ≤ 2⁻¹¹|x|. x − b is
//! exact and has at most 12 significant bits in units of x's last place, s has 11 of them, so |r| is at most one such
//! unit: |r| ≤ 2⁻²³|x|. The three products b·b′, b·s′ and s·b′ leave out s·s′, r·x′ and x·r′, which together are at
//! most (2⁻²² + 2⁻²³ + 2⁻²³)|x·x′| = 4 · 2⁻²³|x·x′|. Kernels keep the sum of the b·b′ apart from the sum of the other two, which is
//! smaller by 2⁻¹⁰, and so are its rounding errors; both are added at the end. The bound that all kernels keep is
//! 1.2(d + 8) · 2⁻²³ times the sum of the d terms' magnitudes. Tensor cores that align 4 products and the sum so far to the
//! largest of them, keep one bit more than a number has, and cut off the rest (Fasi, Higham, Mikaitis and Pranesh, "Numerical
//! behavior of NVIDIA tensor cores", 2021) err by at most 5 · ½ + 1 units of 2⁻²³ in 4 terms, 0.875 d in all. That leaves
//! more than 9 units, for the 4 that are left out and one for the last addition.

use std::fmt;

/// How products of single-precision elements are computed; products of 16-bit elements are exact in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Math {
    /// Of all bits: fused multiply-adds for single precision, tensor cores for 16-bit elements.
    #[default]
    Full,
    /// Both inputs are rounded to tf32, to the nearest and ties away from zero, before anything else is done with them; tensor
    /// cores multiply.
    Tf32,
    /// Three products on tensor cores of each input's leading and following 11 bits: nearly single precision. Infinities,
    /// and numbers that round to one, give NaN.
    ThreeTf32,
}

impl Math {
    /// Every way, in the order of their names in help texts.
    pub const ALL: [Math; 3] = [Math::Full, Math::Tf32, Math::ThreeTf32];

    /// The name that the command line uses.
    pub const fn name(self) -> &'static str {
        match self {
            Math::Full => "full",
            Math::Tf32 => "tf32",
            Math::ThreeTf32 => "3xtf32",
        }
    }
}

impl fmt::Display for Math {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bits of a single-precision number that a tf32 number does not have.
const DROPPED: u32 = 13;

/// The tf32 number nearest to x; of two, the one further from zero (PTX ISA, `cvt.rna.tf32.f32`).
pub fn to_tf32(x: f32) -> f32 {
    if x.is_nan() {
        return x;
    }
    // The carry of a mantissa that is all ones goes into the exponent, where it belongs.
    f32::from_bits((x.to_bits() + (1 << (DROPPED - 1))) & (u32::MAX << DROPPED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_nearest_and_away_from_zero() {
        let unit = 2f32.powi(-10);
        for (x, rounded) in [
            (1.0, 1.0),
            (1.0 + 0.5 * unit, 1.0 + unit),
            (-1.0 - 0.5 * unit, -1.0 - unit),
            (1.0 + 1.5 * unit, 1.0 + 2.0 * unit),
            (1.0 + 0.499 * unit, 1.0),
            (2.0 - unit / 4.0, 2.0),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            (0.0, 0.0),
        ] {
            assert_eq!(to_tf32(x), rounded, "{x}");
        }
        assert!(to_tf32(f32::NAN).is_nan());
    }

    #[test]
    fn two_parts_leave_out_one_unit() {
        let mut bits = 0x3f80_0001u32;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let x = f32::from_bits(0x3f80_0000 | bits >> 9);
            let big = to_tf32(x);
            let small = to_tf32(x - big);
            assert!((x - big).abs() <= 2f32.powi(-11) * x, "{x}");
            assert!((x - big - small).abs() <= 2f32.powi(-23), "{x}");
        }
    }
}
