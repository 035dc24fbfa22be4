//! The kernels of sm_80: copies by `cp.async`, products by `mma.sync` or fused multiply-adds.
//!
//! Every later architecture runs them too.

mod column_sum;
mod columns;
mod copy;
mod epilogue;
mod mainloop;
pub(super) mod place;
mod scalar;
mod tensor;
mod tf32;

pub(super) use column_sum::emit as emit_column_sum;

use inkwell::IntPredicate;
use inkwell::values::{FloatValue, IntValue, PointerValue};

use super::parts::{self, Barrier, Crew};
use super::ptx::{Parameter, Parameters};
use crate::codegen::contraction::Contraction;
use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::{Method, TileSchedule};

use copy::{CopySource, TileCopy};
use epilogue::{Destinations, EpilogueWriter};
use mainloop::{MainLoop, Multiplier};
use place::Place;
use scalar::MultiplyAdd;
use tensor::TensorCore;
use tf32::Tf32Cores;

/// Emits the body of a matrix product whose parameters are `parameters`, each a pointer to global memory.
pub(super) fn emit_product(
    e: &Emitter<'_>,
    contraction: &Contraction,
    schedule: &TileSchedule,
    parameters: &Parameters,
) {
    let place = Place::emit(e, schedule);
    let shared = e.shared_address(e.launch_sized_shared("stages", 128));
    let tiles = (shared, e.add_const(shared, schedule.left.bytes()));
    let kernel = Kernel {
        contraction,
        schedule,
        parameters,
        place,
        tiles,
    };
    match schedule.method {
        Method::TensorCore => kernel.emit(e, &TensorCore::emit(e, schedule, &kernel.place, tiles)),
        Method::Tf32 | Method::ThreeTf32 => {
            kernel.emit(e, &Tf32Cores::emit(e, schedule, &kernel.place, tiles))
        }
        Method::MultiplyAdd => {
            kernel.emit(e, &MultiplyAdd::emit(e, schedule, &kernel.place, tiles))
        }
    }
}

struct Kernel<'l, 'c> {
    contraction: &'l Contraction,
    schedule: &'l TileSchedule,
    parameters: &'l Parameters,
    place: Place<'c>,
    /// Shared addresses of the first stage's tiles, left and right.
    tiles: (IntValue<'c>, IntValue<'c>),
}

impl<'c> Kernel<'_, 'c> {
    fn emit<M: Multiplier<'c>>(&self, e: &Emitter<'c>, multiplier: &M) {
        if !self.contraction.column_sums {
            return self.emit_tile(e, multiplier, false);
        }
        // Every row of tiles passes the whole right operand by; only the first one adds it up.
        let first_row = e.compare(IntPredicate::EQ, self.place.row, e.i32(0));
        e.either(
            first_row,
            |e| self.emit_tile(e, multiplier, true),
            |e| self.emit_tile(e, multiplier, false),
        );
    }

    fn emit_tile<M: Multiplier<'c>>(&self, e: &Emitter<'c>, multiplier: &M, column_sums: bool) {
        let split = self.place.split;
        let left = CopySource {
            operand: self.contraction.left,
            tile: self.schedule.left,
            pointer: self.pointer(e, &self.place, Parameter::A),
            origin: self.place.row,
            split,
            destination: self.tiles.0,
        };
        let right = CopySource {
            operand: self.contraction.right,
            tile: self.schedule.right,
            pointer: self.pointer(e, &self.place, Parameter::B),
            origin: self.place.column,
            split,
            destination: self.tiles.1,
        };
        let sums = MainLoop {
            schedule: self.schedule,
            multiplier,
            left: &TileCopy::emit(e, &left, self.place.thread, self.schedule),
            right: &TileCopy::emit(e, &right, self.place.thread, self.schedule),
            depth: self.depth(e),
            column_sums,
        }
        .emit(e);
        let cut = (self.contraction, self.schedule);
        // The main loop needs every register.
        let place = Place::emit_again(e, self.schedule);
        let crew = Crew {
            barrier: Barrier::Block,
            threads: self.schedule.threads(),
            thread: place.thread,
            flag: self.tiles.0,
        };
        let shared = (self.parts(), &crew);
        if column_sums {
            columns::write_operand_sums(e, cut, (shared, &place), (multiplier, &sums.columns));
        }
        let write = |e: &Emitter<'c>, place: &Place<'c>, sums: &[FloatValue<'c>]| {
            let destinations = self.destinations(e, place);
            let writer = EpilogueWriter::emit(e, cut, place, self.tiles.0, destinations);
            let columns = writer.write(e, place, multiplier, sums);
            if self.contraction.epilogue.result_sums {
                columns::write_result_sums(e, cut, (shared, place), &columns);
            }
        };
        match place.split {
            None => write(e, &place, &sums.product),
            Some(split) => {
                let part = (place.tile, split);
                shared
                    .0
                    .share_tile(e, &crew, part, &sums.product, |e, sums| {
                        write(e, &place, sums);
                    });
            }
        }
    }

    fn parts(&self) -> parts::Place<'_> {
        parts::Place {
            parts: &self.schedule.parts,
            parameters: self.parameters,
        }
    }

    /// Terms from the first of the block's share of the depth to the last of all.
    fn depth(&self, e: &Emitter<'c>) -> IntValue<'c> {
        let depth = e.i32(self.contraction.depth as u32);
        match self.place.split {
            None => depth,
            Some(split) => {
                let share = self.schedule.depth * self.schedule.depth_tiles;
                e.sub(depth, e.mul_const(split, share))
            }
        }
    }

    fn destinations(&self, e: &Emitter<'c>, place: &Place<'c>) -> Destinations<'c> {
        let epilogue = self.contraction.epilogue;
        let optional = |exists: bool, parameter| exists.then(|| self.pointer(e, place, parameter));
        Destinations {
            output: self.pointer(e, place, Parameter::Output),
            auxiliary_output: optional(
                epilogue.auxiliary_output.is_some(),
                Parameter::AuxiliaryOutput,
            ),
            auxiliary_input: optional(epilogue.derivative.is_some(), Parameter::AuxiliaryInput),
            bias: optional(epilogue.bias.is_some(), Parameter::Bias),
        }
    }

    /// Where a parameter's data for the block's product of the batch starts.
    fn pointer(
        &self,
        e: &Emitter<'c>,
        place: &Place<'c>,
        parameter: Parameter,
    ) -> PointerValue<'c> {
        let index = self
            .parameters
            .index(parameter)
            .expect("the parameters were listed from the same contraction");
        let pointer = e.parameter(index).into_pointer_value();
        let Some(batch) = place.batch else {
            return pointer;
        };
        let Contraction {
            left,
            right,
            output,
            epilogue,
            ..
        } = self.contraction;
        let (stride, element) = match parameter {
            Parameter::A => (left.batch_stride, left.element),
            Parameter::B => (right.batch_stride, right.element),
            Parameter::Output => (output.batch_stride, output.element),
            Parameter::AuxiliaryOutput => {
                let element = epilogue.auxiliary_output.unwrap_or(output.element);
                (output.batch_stride, element)
            }
            Parameter::AuxiliaryInput => {
                let element = epilogue
                    .derivative
                    .map_or(output.element, |(_, element)| element);
                (output.batch_stride, element)
            }
            Parameter::Bias
            | Parameter::BiasGradient
            | Parameter::Workspace
            | Parameter::Counters => return pointer,
        };
        let bytes = e.i64(stride * u64::from(element.bytes()));
        e.offset(pointer, e.mul(e.widen(batch), bytes))
    }
}
