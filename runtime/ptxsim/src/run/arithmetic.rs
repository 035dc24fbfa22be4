//! Instructions on registers alone.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::PARAMETER_WINDOW;
use super::access::parts;
use super::block::Block;
use super::step::Step;
use super::tf32;
use super::warp::{LANES, Warp, each};
use crate::instruction::{Binary, Comparison, Conversion, Element, Kind, Operation, Type, Unary};

impl Block<'_> {
    /// Executes an instruction that changes nothing but a register.
    pub(super) fn compute(&mut self, warp: &mut Warp, step: &Step<'_>) {
        let operands = &step.instruction.operands;
        if let Operation::Move(of) = step.instruction.operation {
            return self.move_values(warp, step, of);
        }
        let x = self.read(warp, step, &operands[1]);
        let mut input = |index: usize| match operands.get(index) {
            Some(operand) => self.read(warp, step, operand),
            None => [0; LANES],
        };
        // Lanes that do not take part compute too; their values go nowhere.
        let values: [u64; LANES] = match step.instruction.operation {
            Operation::Binary(operation, of) => {
                let y = input(2);
                compute_binary(operation, of, &x, &y)
            }
            Operation::Unary(operation, of) => x.map(|x| unary(operation, of, x)),
            Operation::MultiplyAdd(of) => {
                let (y, z) = (input(2), input(3));
                if of.kind == Kind::Float {
                    lanes(|lane| bits(single(x[lane]).mul_add(single(y[lane]), single(z[lane]))))
                } else {
                    lanes(|lane| multiply_add(of, [x[lane], y[lane], z[lane]]))
                }
            }
            Operation::ExtractBits(of) => {
                let (start, count) = (input(2), input(3));
                lanes(|lane| {
                    let place = (start[lane] as u32 & 0xff, count[lane] as u32 & 0xff);
                    extract(of, x[lane], place)
                })
            }
            Operation::Mixed(operation, element) => {
                let y = input(2);
                lanes(|lane| {
                    let (x, y) = (widen(element, x[lane] as u16), single(y[lane]));
                    bits(match operation {
                        Binary::Add => x + y,
                        _ => x - y,
                    })
                })
            }
            Operation::MixedMultiplyAdd(element) => {
                let (y, z) = (input(2), input(3));
                lanes(|lane| {
                    let [x, y] = [x[lane], y[lane]].map(|bits| widen(element, bits as u16));
                    bits(x.mul_add(y, single(z[lane])))
                })
            }
            Operation::Compare(comparison, of) => {
                let y = input(2);
                lanes(|lane| u64::from(compare(comparison, of, x[lane], y[lane])))
            }
            Operation::Select(of) => {
                let (y, chooses) = (input(2), input(3));
                lanes(|lane| {
                    let chosen = if chooses[lane] & 1 == 1 {
                        x[lane]
                    } else {
                        y[lane]
                    };
                    chosen & of.mask()
                })
            }
            Operation::Convert(conversion) => {
                let y = input(2);
                lanes(|lane| convert(conversion, x[lane], y[lane]))
            }
            Operation::ParameterAddress => x.map(|x| x.wrapping_add(PARAMETER_WINDOW)),
            // The partner's value; every lane is here.
            Operation::Exchange => {
                let partner = input(2);
                lanes(|lane| x[lane ^ (partner[lane] as usize & 31)])
            }
            _ => [0; LANES],
        };
        warp.set(&operands[0], step.lanes, &values);
    }

    /// `mov`, which also packs and unpacks vectors.
    fn move_values(&mut self, warp: &mut Warp, step: &Step<'_>, of: Type) {
        let operands = &step.instruction.operands;
        let (targets, sources) = (parts(&operands[0]), parts(&operands[1]));
        let mut values = [0u64; LANES];
        let mut undefined = 0;
        let part_bits = of.bits as usize / sources.len();
        for (index, source) in sources.iter().enumerate() {
            // A move passes on what has no value; its use is what matters.
            let (part, defined) = warp.values(source, self.around);
            undefined |= step.lanes & !defined;
            for lane in each(step.lanes) {
                let shifted = (part[lane] & (u64::MAX >> (64 - part_bits))) << (index * part_bits);
                values[lane] |= shifted;
            }
        }
        let part_bits = of.bits as usize / targets.len();
        for (index, target) in targets.iter().enumerate() {
            let part =
                values.map(|value| (value >> (index * part_bits)) & (u64::MAX >> (64 - part_bits)));
            warp.set(target, step.lanes, &part);
            warp.forget(target, undefined);
        }
    }
}

/// A value for each lane.
#[inline]
fn lanes(mut value: impl FnMut(usize) -> u64) -> [u64; LANES] {
    let mut values = [0; LANES];
    for (lane, into) in values.iter_mut().enumerate() {
        *into = value(lane);
    }
    values
}

/// The most frequent ones are told apart once for all lanes.
fn compute_binary(operation: Binary, of: Type, x: &[u64; LANES], y: &[u64; LANES]) -> [u64; LANES] {
    let mask = of.mask();
    match operation {
        Binary::Add if of.kind != Kind::Float => lanes(|lane| x[lane].wrapping_add(y[lane]) & mask),
        Binary::Add => lanes(|lane| bits(single(x[lane]) + single(y[lane]))),
        Binary::Multiply if of.kind == Kind::Float => {
            lanes(|lane| bits(single(x[lane]) * single(y[lane])))
        }
        _ => lanes(|lane| binary(operation, of, x[lane], y[lane])),
    }
}

/// A register's bits as a number in single precision.
#[inline]
pub(super) fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

#[inline]
fn bits(value: f32) -> u64 {
    u64::from(value.to_bits())
}

fn binary(operation: Binary, of: Type, x: u64, y: u64) -> u64 {
    if of.kind == Kind::Float {
        let (x, y) = (single(x), single(y));
        return bits(match operation {
            Binary::Add => x + y,
            Binary::Subtract => x - y,
            Binary::Multiply => x * y,
            Binary::Minimum => x.min(y),
            _ => x.max(y),
        });
    }
    let (x, y) = (x & of.mask(), y & of.mask());
    let (sx, sy) = (of.signed(x), of.signed(y));
    let is_signed = of.kind == Kind::Signed;
    let wide = if is_signed {
        i128::from(sx) * i128::from(sy)
    } else {
        (u128::from(x) * u128::from(y)) as i128
    };
    // A shift takes all 32 bits of its count, whatever the type.
    let count = y as u32;
    let result = match operation {
        Binary::Add => x.wrapping_add(y),
        Binary::Subtract => x.wrapping_sub(y),
        Binary::Multiply => x.wrapping_mul(y),
        Binary::MultiplyHigh => (wide >> of.bits) as u64,
        Binary::MultiplyWide => return wide as u64 & (u64::MAX >> (64 - 2 * of.bits)),
        // The hardware leaves a division by zero open; all ones is what it gives.
        Binary::Divide if y == 0 => u64::MAX,
        Binary::Remainder if y == 0 => x,
        Binary::Divide if is_signed => sx.wrapping_div(sy) as u64,
        Binary::Remainder if is_signed => sx.wrapping_rem(sy) as u64,
        Binary::Divide => x / y,
        Binary::Remainder => x % y,
        Binary::Minimum if is_signed => sx.min(sy) as u64,
        Binary::Maximum if is_signed => sx.max(sy) as u64,
        Binary::Minimum => x.min(y),
        Binary::Maximum => x.max(y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::ShiftLeft => x
            .checked_shl(count)
            .filter(|_| count < of.bits)
            .unwrap_or(0),
        Binary::ShiftRight if is_signed => (sx >> count.min(of.bits - 1)) as u64,
        Binary::ShiftRight => x
            .checked_shr(count)
            .filter(|_| count < of.bits)
            .unwrap_or(0),
    };
    result & of.mask()
}

fn unary(operation: Unary, of: Type, x: u64) -> u64 {
    match operation {
        Unary::Not => !x & of.mask(),
        Unary::Negate if of.kind != Kind::Float => x.wrapping_neg() & of.mask(),
        Unary::Negate => bits(-single(x)),
        Unary::Absolute => bits(single(x).abs()),
        Unary::PowerOfTwo => bits(flushed(rounded(f64::from(flushed(single(x))).exp2()))),
        Unary::Reciprocal => bits(flushed(rounded(1.0 / f64::from(flushed(single(x)))))),
        Unary::HyperbolicTangent => bits(rounded(f64::from(single(x)).tanh())),
    }
}

fn rounded(value: f64) -> f32 {
    value as f32
}

/// Numbers too small for a normal one become zero, as `.ftz` says.
fn flushed(value: f32) -> f32 {
    if value.is_subnormal() {
        0.0f32.copysign(value)
    } else {
        value
    }
}

fn multiply_add(of: Type, [x, y, z]: [u64; 3]) -> u64 {
    match of.kind {
        Kind::Float => bits(single(x).mul_add(single(y), single(z))),
        _ => x.wrapping_mul(y).wrapping_add(z) & of.mask(),
    }
}

/// So many bits of a number from a place on (PTX ISA, "bfe"). A signed number's last one fills what is above.
fn extract(of: Type, value: u64, (start, count): (u32, u32)) -> u64 {
    let value = value & of.mask();
    let bits = value.checked_shr(start).unwrap_or(0);
    let mask = 1u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1);
    let bits = bits & mask;
    if of.kind != Kind::Signed || count == 0 {
        return bits;
    }
    let last = (start + count - 1).min(of.bits - 1);
    if value >> last & 1 == 0 {
        return bits;
    }
    // Above the extracted bits, and above those that the number still has from the place on.
    let kept = count.min(of.bits.saturating_sub(start));
    let above = u64::MAX.checked_shl(kept).unwrap_or(0);
    (bits | above) & of.mask()
}

fn compare(comparison: Comparison, of: Type, x: u64, y: u64) -> bool {
    let order = match of.kind {
        Kind::Float if of.bits == 16 => {
            widen(Element::F16, x as u16).partial_cmp(&widen(Element::F16, y as u16))
        }
        Kind::Float => single(x).partial_cmp(&single(y)),
        Kind::Signed => Some(of.signed(x).cmp(&of.signed(y))),
        _ => Some((x & of.mask()).cmp(&(y & of.mask()))),
    };
    let Some(order) = order else {
        // A NaN is neither; `ne` among floats holds for ordered numbers only.
        return false;
    };
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterEqual => order.is_ge(),
    }
}

fn convert(conversion: Conversion, x: u64, second: u64) -> u64 {
    match conversion {
        Conversion::Integer { to, from } => {
            let value = match from.kind {
                Kind::Signed => from.signed(x) as u64,
                _ => x & from.mask(),
            };
            value & to.mask()
        }
        Conversion::Widen(element) => bits(widen(element, x as u16)),
        Conversion::Narrow(element) => narrow(element, single(x)).into(),
        Conversion::RoundToTf32 => tf32::rounded(x),
        Conversion::NarrowPair(element) => {
            let (high, low) = (narrow(element, single(x)), narrow(element, single(second)));
            u64::from(high) << 16 | u64::from(low)
        }
    }
}

/// A 16-bit element as a number in single precision.
#[inline]
pub(super) fn widen(element: Element, bits: u16) -> f32 {
    match element {
        Element::F16 => f16::from_bits(bits).to_f32(),
        // The high half of the same number.
        Element::Bf16 => f32::from_bits(u32::from(bits) << 16),
    }
}

/// The same for several.
#[inline]
pub(super) fn widen_all<const COUNT: usize>(element: Element, bits: [u16; COUNT]) -> [f32; COUNT] {
    let mut values = [0.0; COUNT];
    match element {
        Element::F16 => {
            let mut halves = [f16::ZERO; COUNT];
            for (half, bits) in halves.iter_mut().zip(bits) {
                *half = f16::from_bits(bits);
            }
            halves.convert_to_f32_slice(&mut values);
        }
        Element::Bf16 => {
            for (value, bits) in values.iter_mut().zip(bits) {
                *value = f32::from_bits(u32::from(bits) << 16);
            }
        }
    }
    values
}

fn narrow(element: Element, value: f32) -> u16 {
    match element {
        Element::F16 => f16::from_f32(value).to_bits(),
        Element::Bf16 => bf16::from_f32(value).to_bits(),
    }
}
