//! How a product is cut for tensor memory: blocks that stay, one thread that copies, one warp that starts products, and four
//! that write results.
//!
//! `tcgen05.mma` multiplies what lies in shared memory and leaves the sums in tensor memory, 128 lanes of 512 columns
//! beside the registers (PTX ISA, "Tensor Memory"). A tile has 128 rows, one for each lane. Where a block takes several tiles
//! there are two accumulators: while one is written, the next tile is multiplied into the other. Everything else is as
//! for warpgroups: the tile, its stages and the way of the results are a [`WarpgroupSchedule`] with one group, whose four
//! warps write instead of multiplying.

use super::contraction::Contraction;
use super::cost::Cost;
use super::depth_shares::Wish;
use super::nvptx::Limits;
use super::warpgroup_tiling::{
    self, Candidate, NoWarpgroups, PANEL_BYTES, PANELS, SUM_WARPS, Table, WarpgroupSchedule,
};

/// The warp of the block's second half that starts products; those before it copy and add up columns.
pub const ISSUING_WARP: u32 = 7;

/// Warps that write results: each reads the lanes of tensor memory that its number allows, 32 of them.
pub const WRITING_WARPS: u32 = 4;

/// The fewest columns of tensor memory that are handed out.
const FEWEST_COLUMNS: u32 = 32;

/// How one kernel's product is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMemorySchedule {
    /// Tiles, stages, copies and the way of the results.
    pub tile: WarpgroupSchedule,
    /// Tiles whose sums tensor memory holds at a time: 1 or 2.
    pub accumulators: u32,
    /// Whether results are also added up over the rows.
    pub result_sums: bool,
}

impl TensorMemorySchedule {
    /// Threads of a block.
    pub const fn threads(&self) -> u32 {
        self.tile.threads()
    }

    /// Columns of tensor memory that a block takes: a power of two.
    pub const fn tensor_columns(&self) -> u32 {
        let columns = (self.accumulators * self.tile.columns).next_power_of_two();
        if columns < FEWEST_COLUMNS {
            FEWEST_COLUMNS
        } else {
            columns
        }
    }

    /// Readers that must have given a stage back before it is filled again: the products, as one, and the warps that add
    /// up columns.
    pub const fn stage_readers(&self) -> u32 {
        1 + if self.tile.column_sums { SUM_WARPS } else { 0 }
    }

    /// Where the accumulators' barriers start, in bytes of shared memory: one for each that says its sums are complete, then
    /// one that says they are read.
    pub const fn accumulator_barriers_start(&self) -> u32 {
        self.tile.shared_bytes().next_multiple_of(16)
    }

    /// Where the address of the block's tensor memory is kept, in bytes of shared memory.
    pub const fn address_start(&self) -> u32 {
        self.accumulator_barriers_start() + self.accumulators * 16
    }

    /// Where sums of results over the rows are kept until a tile is written, in bytes of shared memory: as much for each
    /// writing warp as its buffers take.
    pub const fn result_sums_start(&self) -> u32 {
        self.address_start() + 16
    }

    /// Bytes of shared memory that a block needs.
    pub const fn shared_bytes(&self) -> u32 {
        let sums = if self.result_sums {
            WRITING_WARPS * PANELS * PANEL_BYTES
        } else {
            0
        };
        self.result_sums_start() + sums
    }
}

/// Small tiles read more for each product: 128 × N × 16 takes N/2 cycles, in which shared memory gives at most 64 N bytes.
#[rustfmt::skip]
const CANDIDATES: &[Candidate] = &[
    Candidate { rows: 128, columns: 256, groups: 1, stages: 4, resident: 1, registers: None, registers_with_sums: None, efficiency: 1.00 },
    Candidate { rows: 128, columns: 128, groups: 1, stages: 6, resident: 1, registers: None, registers_with_sums: None, efficiency: 0.90 },
    Candidate { rows: 128, columns: 64, groups: 1, stages: 8, resident: 1, registers: None, registers_with_sums: None, efficiency: 0.60 },
];

/// `tcgen05.mma` multiplies four times as fast as `mma.sync`, which is no faster here than on sm_80.
const TENSOR_MEMORY: Table = Table {
    candidates: CANDIDATES,
    rate_over_mma_sync: 4.0,
};

/// Picks the tile that the cost model expects to finish first, or the one that is wished for.
///
/// # Errors
/// Why the product is not for tensor memory: for the same reasons as for warpgroups.
pub fn choose(
    contraction: &Contraction,
    limits: &Limits,
    wish: impl Into<Wish>,
) -> Result<TensorMemorySchedule, NoWarpgroups> {
    let tile = warpgroup_tiling::choose_among(contraction, &TENSOR_MEMORY, limits, wish.into())?;
    let takes_several = tile.pieces() > tile.blocks;
    Ok(TensorMemorySchedule {
        tile,
        accumulators: 1 + u32::from(takes_several),
        result_sums: contraction.epilogue.result_sums,
    })
}

/// What the cost model expects of a schedule that [`choose`] made.
pub fn cost_of(
    contraction: &Contraction,
    schedule: &TensorMemorySchedule,
    limits: &Limits,
) -> Option<Cost> {
    warpgroup_tiling::cost_among(contraction, &schedule.tile, (limits, &TENSOR_MEMORY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::TileSize;
    use crate::codegen::description::{ElementType, KernelDescription, KernelOp};
    use crate::codegen::nvptx::Architecture;

    fn chosen(
        kernel: &KernelDescription,
        wish: Option<TileSize>,
    ) -> Result<TensorMemorySchedule, NoWarpgroups> {
        let contraction = Contraction::of(kernel).unwrap().expect("a product");
        choose(&contraction, &Architecture::Sm100a.limits(), wish)
    }

    #[test]
    fn every_tile_fits_a_multiprocessor() {
        let limits = Architecture::Sm100a.limits();
        for candidate in CANDIDATES {
            let wish = TileSize {
                rows: candidate.rows,
                columns: candidate.columns,
            };
            let kernel = KernelDescription {
                op: KernelOp::WeightGradient,
                output: ElementType::F32,
                bias: Some(ElementType::F32),
                ..KernelDescription::product(ElementType::Bf16, 4096, 4096, 4096)
            };
            let summed = KernelDescription {
                op: KernelOp::InputGradient,
                ..kernel
            };
            for kernel in [kernel, summed] {
                let schedule = chosen(&kernel, Some(wish)).unwrap();
                let block =
                    schedule.shared_bytes().next_multiple_of(128) + limits.reserved_shared_bytes;
                let resident = schedule.tile.resident;
                assert!(schedule.shared_bytes() <= limits.shared_bytes_per_block);
                assert!(block * resident <= limits.shared_bytes, "{wish:?}");
                assert!(schedule.tensor_columns() * resident <= limits.tensor_memory_columns);
                assert_eq!(schedule.threads() / 32, ISSUING_WARP + 1);
                assert_eq!(schedule.accumulators, 2);
            }
        }
    }

    #[test]
    fn one_tile_for_each_block_takes_one_accumulator() {
        let small = KernelDescription::product(ElementType::Bf16, 128, 256, 64);
        let schedule = chosen(&small, None).unwrap();
        assert_eq!(schedule.accumulators, 1);
        let large = KernelDescription::product(ElementType::Bf16, 8192, 8192, 8192);
        let schedule = chosen(&large, None).unwrap();
        assert_eq!((schedule.tile.rows, schedule.tile.columns), (128, 256));
        assert_eq!(
            (schedule.tile.blocks, schedule.tensor_columns()),
            (148, 512)
        );
    }

    #[test]
    fn what_tma_cannot_copy_is_refused() {
        let single = KernelDescription::product(ElementType::F32, 64, 64, 64);
        assert_eq!(chosen(&single, None), Err(NoWarpgroups::Element));
        let odd = KernelDescription::product(ElementType::Bf16, 64, 64, 1);
        assert_eq!(chosen(&odd, None), Err(NoWarpgroups::Alignment));
    }
}
