//! tf32: `cvt.rna.tf32.f32`, and `mma.sync.m16n8k8` of its numbers (PTX ISA, "Alternate Floating-Point Data Formats" and "Warp
//! Level Matrix Instructions").
//!
//! A tf32 number lies in a register of 32 bits as a single-precision number whose last 13 bits are zero. Tensor cores do
//! not look at those bits, so a number that was not rounded is cut off, towards zero. That is what happens here too, with
//! a finding.

use super::access::parts;
use super::arithmetic::single;
use super::block::Block;
use super::step::Step;
use super::warp::{LANES, Warp};
use crate::finding::FindingKind;

/// The bits that tensor cores do not look at.
const DROPPED: u64 = 0x1fff;

/// Half of what the last bit that they look at stands for.
const HALF: u64 = 0x1000;

/// What a conversion makes of any NaN.
const NAN: u64 = 0x7fff_ffff;

const ROWS: usize = 16;
const COLUMNS: usize = 8;
const TERMS: usize = 8;

/// The tf32 number nearest to a single-precision one; of two, the one further from zero.
pub(super) fn rounded(bits: u64) -> u64 {
    let bits = bits & 0xffff_ffff;
    if single(bits).is_nan() {
        return NAN;
    }
    (bits + HALF) & !DROPPED
}

/// What tensor cores take a register for.
fn taken(bits: u64) -> f64 {
    let number = single(bits);
    if number.is_nan() {
        return f64::NAN;
    }
    single(bits & !DROPPED).into()
}

impl Block<'_> {
    /// `D[16, 8] = A[16, 8] · B[8, 8] + C[16, 8]`. Products are exact in double precision, and so is nearly their sum; it is
    /// rounded to single precision once.
    pub(super) fn multiply_tf32(&mut self, warp: &mut Warp, step: &Step<'_>) {
        self.counters.matrix_products += 1;
        let operands = &step.instruction.operands;
        let mut registers = |operand: usize| -> Vec<[u64; LANES]> {
            let list = parts(&operands[operand]);
            list.iter()
                .map(|part| self.read(warp, step, part))
                .collect()
        };
        let (left, right, sums) = (registers(1), registers(2), registers(3));
        let is_unrounded = |bits: u64| bits & DROPPED != 0 && single(bits).is_finite();
        let unrounded = left
            .iter()
            .chain(&right)
            .find_map(|values| values.iter().position(|&bits| is_unrounded(bits)));
        if let Some(lane) = unrounded {
            let message =
                "an operand in tf32 has bits that tf32 has not; they are cut off".to_owned();
            let fault = (FindingKind::Unrounded, message);
            self.report(warp, step.instruction, lane, fault);
        }
        let mut a = [[0f64; TERMS]; ROWS];
        let mut b = [[0f64; COLUMNS]; TERMS];
        let mut total = [[0f64; COLUMNS]; ROWS];
        for lane in 0..LANES {
            let (group, member) = (lane / 4, lane % 4);
            for (register, values) in left.iter().enumerate() {
                a[group + register % 2 * 8][member + register / 2 * 4] = taken(values[lane]);
            }
            for (register, values) in right.iter().enumerate() {
                b[member + register * 4][group] = taken(values[lane]);
            }
            for (register, values) in sums.iter().enumerate() {
                total[group + register / 2 * 8][member * 2 + register % 2] =
                    single(values[lane]).into();
            }
        }
        for (row, total) in a.iter().zip(&mut total) {
            for (factor, line) in row.iter().zip(&b) {
                for (sum, term) in total.iter_mut().zip(line) {
                    *sum += factor * term;
                }
            }
        }
        for (register, target) in parts(&operands[0]).iter().enumerate() {
            let values: [u64; LANES] = std::array::from_fn(|lane| {
                let sum = total[lane / 4 + register / 2 * 8][lane % 4 * 2 + register % 2];
                u64::from((sum as f32).to_bits())
            });
            warp.set(target, step.lanes, &values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_nearest_and_away_from_zero() {
        for (from, to) in [
            (0x3f80_0000, 0x3f80_0000),
            (0x3f80_0fff, 0x3f80_0000),
            (0x3f80_1000, 0x3f80_2000),
            (0xbf80_1000, 0xbf80_2000),
            (0x3fff_ffff, 0x4000_0000),
            (0x7f7f_ffff, 0x7f80_0000),
            (0x7f80_0000, 0x7f80_0000),
            (0x7f80_0001, NAN),
            (0x0000_1000, 0x0000_2000),
        ] {
            assert_eq!(rounded(from), to, "{from:x}");
        }
    }
}
