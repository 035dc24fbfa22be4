//! Runs of elements in global memory as single-precision numbers in registers.

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue, PointerValue};

use crate::codegen::description::ElementType;
use crate::codegen::llvm::Emitter;

/// Whether something writes to memory while a kernel reads it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Nothing writes there while the kernel runs.
    Constant,
    /// The kernel writes there.
    Mutable,
}

/// A run of neighbouring elements in global memory.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub element: ElementType,
    /// How many: a power of two.
    pub count: u32,
    pub memory: Memory,
}

/// Loads a run. Its address is a multiple of the run's bytes, or of 16 if it is longer.
pub(super) fn load<'c>(
    e: &Emitter<'c>,
    pointer: PointerValue<'c>,
    run: Run,
) -> Vec<FloatValue<'c>> {
    let Run { element, count, .. } = run;
    let per_access = count.min(16 / element.bytes());
    let bytes = per_access * element.bytes();
    let mut values = Vec::with_capacity(count as usize);
    for first in (0..count).step_by(per_access as usize) {
        let pointer = e.offset(pointer, e.i64(u64::from(first * element.bytes())));
        if bytes == 2 {
            let half = read(e, run.memory, e.context().i16_type().into(), pointer).into_int_value();
            values.push(low_half(e, element, e.zero_extend(half)));
            continue;
        }
        let words = bytes / 4;
        let loaded: Vec<IntValue<'c>> = if words == 1 {
            vec![read(e, run.memory, e.i32_type().into(), pointer).into_int_value()]
        } else {
            let of = e.i32_type().vec_type(words).into();
            let vector = read(e, run.memory, of, pointer).into_vector_value();
            (0..words)
                .map(|index| e.element(vector, index).into_int_value())
                .collect()
        };
        for word in loaded {
            match element {
                ElementType::F32 => values.push(e.bit_cast(word, e.f32_type()).into_float_value()),
                ElementType::Bf16 | ElementType::F16 => {
                    values.push(low_half(e, element, word));
                    values.push(high_half(e, element, word));
                }
            }
        }
    }
    values
}

/// Rounds a run of numbers, a power of two of them, to the nearest elements and stores them. Their address is a
/// multiple of the run's bytes, which are at most 16.
pub(super) fn store<'c>(
    e: &Emitter<'c>,
    pointer: PointerValue<'c>,
    element: ElementType,
    values: &[FloatValue<'c>],
) {
    let bytes = values.len() as u32 * element.bytes();
    let words: Vec<BasicValueEnum<'c>> = match element {
        ElementType::F32 => values.iter().map(|&value| value.into()).collect(),
        ElementType::Bf16 | ElementType::F16 => values
            .chunks(2)
            .map(|pair| packed(e, element, pair[0], *pair.last().unwrap_or(&pair[0])).into())
            .collect(),
    };
    match words.as_slice() {
        [word] if bytes == 2 => {
            e.store(
                pointer,
                e.truncate(word.into_int_value(), e.context().i16_type()),
                2,
            );
        }
        [word] => e.store(pointer, *word, bytes),
        words => e.store(pointer, e.vector(words), bytes),
    }
}

/// The tf32 number nearest to x (of two, the one further from zero), in a register of 32 bits and as a number.
pub(super) fn as_tf32<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> (IntValue<'c>, FloatValue<'c>) {
    let register = e.call_value("llvm.nvvm.f2tf32.rna", &[], &[x.into()]);
    let number = e.bit_cast(register, e.f32_type());
    (register.into_int_value(), number.into_float_value())
}

/// The two 16-bit elements of a word, the one in the low half first.
pub(super) fn unpack<'c>(
    e: &Emitter<'c>,
    element: ElementType,
    word: IntValue<'c>,
) -> (FloatValue<'c>, FloatValue<'c>) {
    (low_half(e, element, word), high_half(e, element, word))
}

/// Loads a value of 2, 4, 8 or 16 bytes at an address that is a multiple of its size.
fn read<'c>(
    e: &Emitter<'c>,
    memory: Memory,
    of: BasicTypeEnum<'c>,
    pointer: PointerValue<'c>,
) -> BasicValueEnum<'c> {
    let bits = match of {
        BasicTypeEnum::VectorType(vector) => vector.get_size() * 32,
        BasicTypeEnum::IntType(number) => number.get_bit_width(),
        other => unreachable!("{other} is not read"),
    };
    match memory {
        Memory::Constant => e.load_constant(of, pointer, bits / 8),
        Memory::Mutable => e.load(of, pointer, bits / 8),
    }
}

/// Two numbers as 16-bit elements in one word, the first one in the low half.
fn packed<'c>(
    e: &Emitter<'c>,
    element: ElementType,
    low: FloatValue<'c>,
    high: FloatValue<'c>,
) -> IntValue<'c> {
    let name = match element {
        ElementType::F16 => "llvm.nvvm.ff2f16x2.rn",
        _ => "llvm.nvvm.ff2bf16x2.rn",
    };
    let pair = e.call_value(name, &[], &[high.into(), low.into()]);
    e.bit_cast(pair, e.i32_type()).into_int_value()
}

fn low_half<'c>(e: &Emitter<'c>, element: ElementType, word: IntValue<'c>) -> FloatValue<'c> {
    match element {
        ElementType::F16 => {
            let half = e.truncate(word, e.context().i16_type());
            e.extend_float(e.bit_cast(half, e.context().f16_type()).into_float_value())
        }
        _ => e
            .bit_cast(e.shl_const(word, 16), e.f32_type())
            .into_float_value(),
    }
}

fn high_half<'c>(e: &Emitter<'c>, element: ElementType, word: IntValue<'c>) -> FloatValue<'c> {
    match element {
        ElementType::F16 => low_half(e, element, e.shr_const(word, 16)),
        _ => e
            .bit_cast(e.and_const(word, 0xffff_0000), e.f32_type())
            .into_float_value(),
    }
}
