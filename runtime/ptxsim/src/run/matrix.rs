//! `ldmatrix` and `mma.sync` (PTX ISA, "Warp Level Matrix Instructions").

use super::access::parts;
use super::arithmetic::{single, widen_all};
use super::block::Block;
use super::step::Step;
use super::warp::{LANES, Warp};
use crate::instruction::{Element, Operand};
use crate::memory::check_alignment;
use crate::record::User;

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
        let rows = &addresses[..usize::from(count) * 8];
        for (lane, &address) in rows.iter().enumerate() {
            if let Err(fault) = check_alignment(address, 16) {
                return self.report(warp, step.instruction, lane, fault);
            }
        }
        let mut faults = Vec::new();
        let user = User {
            whole_warp: true,
            ..warp.user(0)
        };
        let read = self
            .shared
            .start_reads(user, user.tick, (rows, 16), &mut faults);
        faults.truncate(1);
        self.report_all(warp, step, 0, &mut faults);
        if let Err(fault) = read {
            return self.report(warp, step.instruction, 0, fault);
        }
        for (target, rows) in parts(&operands[0]).iter().zip(rows.chunks_exact(8)) {
            self.count_passes(rows);
            let mut elements = [[0u16; 8]; 8];
            for (line, &address) in elements.iter_mut().zip(rows) {
                let bytes = self.shared.peek(address, 16).chunks_exact(2);
                for (element, bytes) in line.iter_mut().zip(bytes) {
                    *element = u16::from_le_bytes([bytes[0], bytes[1]]);
                }
            }
            let pair = |low: u16, high: u16| u64::from(low) | u64::from(high) << 16;
            let mut values = [0; LANES];
            for (lane, value) in values.iter_mut().enumerate() {
                let (row, column) = (lane / 4, lane % 4 * 2);
                *value = match transposed {
                    true => pair(elements[column][row], elements[column + 1][row]),
                    false => pair(elements[row][column], elements[row][column + 1]),
                };
            }
            warp.set(target, step.lanes, &values);
        }
    }

    /// `stmatrix`: the other way round. Each row counts as written by the lane that addresses it.
    pub(super) fn store_matrix(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        (count, transposed): (u8, bool),
    ) {
        let operands = &step.instruction.operands;
        let addresses = self.read(warp, step, &operands[0]);
        for (matrix, source) in parts(&operands[1]).iter().enumerate().take(count.into()) {
            let values = self.read(warp, step, source);
            let mut rows = [[0u8; 16]; 8];
            for (lane, &bits) in values.iter().enumerate() {
                for (further, half) in [bits as u16, (bits >> 16) as u16].into_iter().enumerate() {
                    let (row, column) = (lane / 4, lane % 4 * 2 + further);
                    let (row, column) = if transposed {
                        (column, row)
                    } else {
                        (row, column)
                    };
                    rows[row][2 * column..][..2].copy_from_slice(&half.to_le_bytes());
                }
            }
            for (row, bytes) in rows.iter().enumerate() {
                let lane = matrix * 8 + row;
                let mut faults = Vec::new();
                let user = warp.user(lane);
                let written = check_alignment(addresses[lane], 16)
                    .and_then(|()| self.shared.write(user, addresses[lane], bytes, &mut faults));
                self.report_all(warp, step, lane, &mut faults);
                if let Err(fault) = written {
                    return self.report(warp, step.instruction, lane, fault);
                }
            }
        }
    }

    /// Eight rows of 16 bytes take one pass if no two different words lie in one bank.
    fn count_passes(&mut self, addresses: &[u64]) {
        // The words in each bank: the eight of them at most, and how many.
        let mut banks = [([0u64; 8], 0usize); BANKS];
        for &address in addresses {
            for word in 0..4 {
                let word = address / 4 + word;
                let (words, count) = &mut banks[word as usize % BANKS];
                if !words[..*count].contains(&word) {
                    words[*count] = word;
                    *count += 1;
                }
            }
        }
        self.counters.matrix_reads += 1;
        let most = banks.iter().map(|(_, count)| *count).max();
        self.counters.matrix_read_passes += most.unwrap_or(0) as u64;
    }

    /// `D[16, 8] = A[16, 16] · B[16, 8] + C[16, 8]`. Products of 16-bit elements are exact in double precision, and so is
    /// nearly their sum; it is rounded to single precision once.
    pub(super) fn multiply_matrix(&mut self, warp: &mut Warp, step: &Step<'_>, element: Element) {
        self.counters.matrix_products += 1;
        let operands = &step.instruction.operands;
        let [left, right, sums] =
            [1, 2, 3].map(|index| self.fragment(warp, step, &operands[index]));
        let mut fragments = std::mem::take(&mut warp.fragments);
        let a = fragments.left.of(warp, left, element, |register, lane| {
            let row = lane / 4 + register % 2 * 8;
            let term = lane % 4 * 2 + register / 2 * 8;
            [(term, row), (term + 1, row)]
        });
        let b = fragments.right.of(warp, right, element, |register, lane| {
            let term = lane % 4 * 2 + register * 8;
            [(lane / 4, term), (lane / 4, term + 1)]
        });
        let mut values = [[0u64; LANES]; 4];
        let mut products = [[0f64; ROWS]; COLUMNS];
        for (factors, sums) in b.iter().zip(&mut products) {
            for (factors, lines) in factors.chunks_exact(4).zip(a.chunks_exact(4)) {
                accumulate(sums, lines, factors);
            }
        }
        for (register, values) in values.iter_mut().enumerate() {
            let zeros = [0; LANES];
            let held = sums[register].map_or(&zeros, |held| &warp.registers[held as usize]);
            for (lane, value) in values.iter_mut().enumerate() {
                let column = lane % 4 * 2 + register % 2;
                let product = products[column][lane / 4 + register / 2 * 8];
                let total = (product + f64::from(single(held[lane]))) as f32;
                *value = total.to_bits().into();
            }
        }
        warp.fragments = fragments;
        for (target, values) in parts(&operands[0]).iter().zip(&values) {
            warp.set(target, step.lanes, values);
        }
    }

    /// The registers of a fragment, all of which must have values. Immediate sums are zero.
    fn fragment(&mut self, warp: &Warp, step: &Step<'_>, operand: &Operand) -> [Option<u32>; 4] {
        let mut registers = [None; 4];
        for (register, part) in registers.iter_mut().zip(parts(operand)) {
            if let Operand::Register(number) = part {
                let defined = warp.defined[*number as usize];
                self.check_defined(warp, step.instruction, step.lanes & !defined);
                *register = Some(*number);
            }
        }
        registers
    }
}

const ROWS: usize = 16;
const TERMS: usize = 16;
const COLUMNS: usize = 8;

/// Operands of products that were spread out before, since most are used several times.
#[derive(Default)]
pub(super) struct Fragments {
    /// A line for each term.
    left: Kept<TERMS>,
    /// A line for each column.
    right: Kept<COLUMNS>,
}

/// Operands of so many lines.
#[derive(Default)]
struct Kept<const LINES: usize> {
    fragments: Vec<Fragment<LINES>>,
    /// Which is replaced next.
    next: usize,
}

struct Fragment<const LINES: usize> {
    /// The registers, and how often they had been written.
    registers: [Option<u32>; 4],
    versions: [u32; 4],
    element: Element,
    lines: [[f64; 16]; LINES],
}

/// How many operands are kept: those of a warp that multiplies 64 × 64.
const KEPT: usize = 8;

impl<const LINES: usize> Kept<LINES> {
    /// An operand's lines. `place` is where in them a register's first element of a lane lies, and the second one.
    fn of(
        &mut self,
        warp: &Warp,
        registers: [Option<u32>; 4],
        element: Element,
        place: impl Fn(usize, usize) -> [(usize, usize); 2],
    ) -> &[[f64; 16]; LINES] {
        let versions = registers.map(|one| one.map_or(0, |one| warp.versions[one as usize]));
        let is_it = |one: &Fragment<LINES>| {
            one.registers == registers && one.versions == versions && one.element == element
        };
        let index = self.fragments.iter().position(is_it).unwrap_or_else(|| {
            let mut lines = [[0.0; 16]; LINES];
            for (number, register) in registers.into_iter().flatten().enumerate() {
                let held = &warp.registers[register as usize];
                let (mut low, mut high) = ([0; LANES], [0; LANES]);
                for lane in 0..LANES {
                    low[lane] = held[lane] as u16;
                    high[lane] = (held[lane] >> 16) as u16;
                }
                let (low, high) = (widen_all(element, low), widen_all(element, high));
                for lane in 0..LANES {
                    let [first, second] = place(number, lane);
                    lines[first.0][first.1] = low[lane].into();
                    lines[second.0][second.1] = high[lane].into();
                }
            }
            let fragment = Fragment {
                registers,
                versions,
                element,
                lines,
            };
            let place = self.next;
            self.next = (place + 1) % KEPT;
            match self.fragments.get_mut(place) {
                Some(old) => *old = fragment,
                None => self.fragments.push(fragment),
            }
            place
        });
        &self.fragments[index].lines
    }
}

/// Adds the multiples of four lines. The length is not a constant here, so that the compiler makes a loop of vectors.
#[inline(never)]
fn accumulate(sums: &mut [f64], lines: &[[f64; ROWS]], factors: &[f64]) {
    let (Some([a, b, c, d]), Some([w, x, y, z])) = (lines.first_chunk(), factors.first_chunk())
    else {
        return;
    };
    let lines = a.iter().zip(b).zip(c).zip(d);
    for (sum, (((a, b), c), d)) in sums.iter_mut().zip(lines) {
        *sum += a * w + b * x + c * y + d * z;
    }
}
