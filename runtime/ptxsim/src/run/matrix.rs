//! `ldmatrix` and `mma.sync` (PTX ISA, "Warp Level Matrix Instructions").

use super::access::parts;
use super::arithmetic::{single, widen};
use super::block::Block;
use super::step::Step;
use super::warp::{LANES, Warp};
use crate::instruction::Element;
use crate::memory::check_alignment;

/// Banks of shared memory, four bytes wide each.
const BANKS: usize = 32;

impl Block<'_> {
    /// Reads 8 × 8 matrices of 16-bit elements: lanes 8 i to 8 i + 7 address the rows of matrix i; lane l then holds the
    /// elements 2 (l mod 4) and one more of row l / 4.
    pub(super) fn load_matrix(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        (count, transposed): (u8, bool),
    ) {
        let operands = &step.instruction.operands;
        let addresses = self.read(warp, step, &operands[1]);
        for (matrix, target) in parts(&operands[0]).iter().enumerate().take(count.into()) {
            let mut rows = [[0u8; 16]; 8];
            for (row, bytes) in rows.iter_mut().enumerate() {
                let lane = matrix * 8 + row;
                let mut faults = Vec::new();
                let user = warp.user(lane);
                let read = check_alignment(addresses[lane], 16)
                    .and_then(|()| self.shared.read(user, addresses[lane], bytes, &mut faults));
                self.report_all(warp, step, lane, &mut faults);
                if let Err(fault) = read {
                    return self.report(warp, step.instruction, lane, fault);
                }
            }
            self.count_passes(&addresses[matrix * 8..][..8]);
            let element = |row: usize, column: usize| {
                u64::from(u16::from_le_bytes([
                    rows[row][2 * column],
                    rows[row][2 * column + 1],
                ]))
            };
            let values: [u64; LANES] = std::array::from_fn(|lane| {
                let (row, column) = (lane / 4, lane % 4 * 2);
                if transposed {
                    element(column, row) | element(column + 1, row) << 16
                } else {
                    element(row, column) | element(row, column + 1) << 16
                }
            });
            warp.set(target, step.lanes, &values);
        }
    }

    /// Eight rows of 16 bytes take one pass if no two different words lie in one bank.
    fn count_passes(&mut self, addresses: &[u64]) {
        let mut banks = vec![Vec::new(); BANKS];
        for &address in addresses {
            for word in 0..4 {
                let word = address / 4 + word;
                let bank: &mut Vec<u64> = &mut banks[word as usize % BANKS];
                if !bank.contains(&word) {
                    bank.push(word);
                }
            }
        }
        self.counters.matrix_reads += 1;
        self.counters.matrix_read_passes += banks.iter().map(Vec::len).max().unwrap_or(0) as u64;
    }

    /// `D[16, 8] = A[16, 16] · B[16, 8] + C[16, 8]`. Products of 16-bit elements are exact in double precision, and so is
    /// nearly their sum; it is rounded to single precision once.
    pub(super) fn multiply_matrix(&mut self, warp: &mut Warp, step: &Step<'_>, element: Element) {
        self.counters.matrix_products += 1;
        let operands = &step.instruction.operands;
        let mut registers = |operand: usize| -> Vec<[u64; LANES]> {
            let list = parts(&operands[operand]);
            list.iter()
                .map(|part| self.read(warp, step, part))
                .collect()
        };
        let (left, right, sums) = (registers(1), registers(2), registers(3));
        let mut a = [[0f64; 16]; 16];
        let mut b = [[0f64; 8]; 16];
        let half = |bits: u64, index: u32| f64::from(widen(element, (bits >> (16 * index)) as u16));
        for lane in 0..LANES {
            let (group, pair) = (lane / 4, lane % 4 * 2);
            for index in 0..2 {
                for (register, values) in left.iter().enumerate() {
                    let row = group + register % 2 * 8;
                    let column = pair + register / 2 * 8 + index as usize;
                    a[row][column] = half(values[lane], index);
                }
                for (register, values) in right.iter().enumerate() {
                    b[pair + register * 8 + index as usize][group] = half(values[lane], index);
                }
            }
        }
        for (register, target) in parts(&operands[0]).iter().enumerate() {
            let values: [u64; LANES] = std::array::from_fn(|lane| {
                let row = lane / 4 + register / 2 * 8;
                let column = lane % 4 * 2 + register % 2;
                let sum: f64 = (0..16).map(|term| a[row][term] * b[term][column]).sum();
                let total = (sum + f64::from(single(sums[register][lane]))) as f32;
                u64::from(total.to_bits())
            });
            warp.set(target, step.lanes, &values);
        }
    }
}
