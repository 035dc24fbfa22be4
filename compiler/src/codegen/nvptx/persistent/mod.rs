//! What kernels with tensor maps share, whatever multiplies: blocks that stay and walk over tiles, the ring of stages that one
//! thread keeps filled by the tensor memory accelerator, sums of columns on the side, and the way of a result from
//! registers to global memory.

mod column_sums;
mod epilogue;
mod producer;
mod result_sums;
mod ring;
mod staging;

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::parts;
use super::ptx::{Parameter, Parameters};
use super::tensor_map::TensorMap;
use super::thread::special;
use super::tiles::{Cut, TileNumbers};
use crate::codegen::contraction::Contraction;
use crate::codegen::llvm::Emitter;
use crate::codegen::warpgroup_tiling::{STAGE_DEPTH, WarpgroupSchedule};

pub(in crate::codegen::nvptx) use column_sums::emit as emit_column_sums;
pub(in crate::codegen::nvptx) use epilogue::{PANEL_COLUMNS, PANEL_SUMS, Writer};
pub(in crate::codegen::nvptx) use producer::emit as emit_producer;
pub(in crate::codegen::nvptx) use ring::{Ring, Turn};

/// The alignment of stages: that of the pattern in which chunks are permuted.
pub(in crate::codegen::nvptx) const STAGE_ALIGNMENT: u32 = 1024;

/// What a kernel is made of, and where its parameters are.
pub(in crate::codegen::nvptx) struct Kernel<'l> {
    pub contraction: &'l Contraction,
    pub schedule: &'l WarpgroupSchedule,
    pub parameters: &'l Parameters,
    /// The tensor maps; they are the parameters after the pointers.
    pub maps: &'l [TensorMap],
}

/// Where a thread stands in its block.
pub(in crate::codegen::nvptx) struct Thread<'c> {
    /// The thread's number in its warp.
    pub lane: IntValue<'c>,
    /// The warp's number in the block.
    pub warp: IntValue<'c>,
    /// Shared address of the stages.
    pub shared: IntValue<'c>,
}

/// A tile of the result, or a share of its depth.
pub(in crate::codegen::nvptx) struct Tile<'c> {
    /// The tile's number among those of all products.
    pub number: IntValue<'c>,
    /// Which share of the depth; `None` if there is one.
    pub split: Option<IntValue<'c>>,
    /// The first term of the sums.
    pub depth: IntValue<'c>,
    /// The numbers of its row and column of tiles.
    pub row_tile: IntValue<'c>,
    /// See [`Tile::row_tile`].
    pub column_tile: IntValue<'c>,
    /// Which product of the batch; `None` if there is one.
    pub batch: Option<IntValue<'c>>,
    /// First row.
    pub row: IntValue<'c>,
    /// First column.
    pub column: IntValue<'c>,
}

impl Kernel<'_> {
    /// The address of a parameter's tensor map.
    fn map<'c>(&self, e: &Emitter<'c>, parameter: Parameter) -> PointerValue<'c> {
        let index = self
            .maps
            .iter()
            .position(|map| map.parameter == parameter)
            .expect("the maps were listed from the same schedule");
        let first = self.parameters.as_slice().len();
        e.parameter((first + index) as u32).into_pointer_value()
    }

    /// Whether a parameter's tensor map has a dimension for the batch.
    fn has_batch(&self, parameter: Parameter) -> bool {
        let mut maps = self.maps.iter();
        maps.any(|map| map.parameter == parameter && map.rank == 3)
    }

    /// Where a parameter's data for a product of the batch starts.
    fn pointer<'c>(
        &self,
        e: &Emitter<'c>,
        parameter: Parameter,
        (batch, stride_bytes): (Option<IntValue<'c>>, u64),
    ) -> PointerValue<'c> {
        let index = self
            .parameters
            .index(parameter)
            .expect("the parameters were listed from the same contraction");
        let pointer = e.parameter(index).into_pointer_value();
        match batch {
            Some(batch) => e.offset(pointer, e.mul(e.widen(batch), e.i64(stride_bytes))),
            None => pointer,
        }
    }

    /// Emits a loop over the tiles of the block that carries some values from one to the next.
    pub(in crate::codegen::nvptx) fn for_each_tile<'c>(
        &self,
        e: &Emitter<'c>,
        state: Vec<IntValue<'c>>,
        body: impl FnOnce(&Emitter<'c>, &Tile<'c>, Vec<IntValue<'c>>) -> Vec<IntValue<'c>>,
    ) {
        let schedule = self.schedule;
        let block = special(e, "ctaid.x");
        if schedule.blocks == schedule.pieces() {
            body(e, &self.tile(e, block), state);
            return;
        }
        let mut values: Vec<BasicValueEnum<'c>> = vec![block.into()];
        values.extend(state.into_iter().map(BasicValueEnum::from));
        e.repeat_while(
            values,
            |e, values| {
                let pieces = e.i32(schedule.pieces());
                e.compare(IntPredicate::ULT, values[0].into_int_value(), pieces)
            },
            |e, values| {
                let number = values[0].into_int_value();
                let state = values[1..].iter().map(|value| value.into_int_value());
                let next = body(e, &self.tile(e, number), state.collect());
                let mut values: Vec<BasicValueEnum<'c>> =
                    vec![e.add_const(number, schedule.blocks).into()];
                values.extend(next.into_iter().map(BasicValueEnum::from));
                values
            },
        );
    }

    fn tile<'c>(&self, e: &Emitter<'c>, piece: IntValue<'c>) -> Tile<'c> {
        let schedule = self.schedule;
        let cut = Cut {
            splits: schedule.parts.splits,
            batch: schedule.batch,
            row_tiles: schedule.row_tiles,
            column_tiles: schedule.column_tiles,
        };
        let TileNumbers {
            split,
            tile,
            batch,
            row,
            column,
        } = cut.piece(e, piece);
        let share = schedule.depth_tiles * STAGE_DEPTH;
        Tile {
            number: tile,
            split,
            depth: split.map_or(e.i32(0), |split| e.mul_const(split, share)),
            row_tile: row,
            column_tile: column,
            batch,
            row: e.mul_const(row, schedule.rows),
            column: e.mul_const(column, schedule.columns),
        }
    }

    /// Where parts of sums lie.
    pub(in crate::codegen::nvptx) fn parts(&self) -> parts::Place<'_> {
        parts::Place {
            parts: &self.schedule.parts,
            parameters: self.parameters,
        }
    }
}

impl<'c> Tile<'c> {
    /// The number of a part of the tile's columns' sums among those of all products, of which each has so many.
    fn column_part(
        &self,
        e: &Emitter<'c>,
        (part, each): (Option<IntValue<'c>>, u32),
    ) -> IntValue<'c> {
        let part = part.unwrap_or(e.i32(0));
        match self.batch {
            Some(batch) => e.add(e.mul_const(batch, each), part),
            None => part,
        }
    }
}
