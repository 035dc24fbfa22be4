//! How a product is cut for warpgroups: persistent blocks, one producer, and consumers that multiply what it brings.
//!
//! A block walks over tiles of the result. Its first warps are consumers: each warpgroup of four warps keeps the sums of
//! a share of the tile's rows in registers. The last warpgroup brings tiles of both operands into a ring of stages in
//! shared memory by the tensor memory accelerator. [`choose`] says no where that cannot be: the accelerator wants lines
//! that start at multiples of 16 bytes, and the tensor cores' descriptors elements of 16 bits.

use super::contraction::{Contraction, Major, Operand, Output};
use super::cost::{Cost, Work};
use super::depth_shares::{DepthShares, Wish};
use super::description::ElementType;
use super::math::Math;
use super::nvptx::Limits;
use super::parts::Parts;

pub use super::warpgroup_refusal::NoWarpgroups;

/// Bytes of a line in shared memory: the widest swizzle, in which eight lines fill every bank eight times.
pub const LINE_BYTES: u32 = 128;

/// Terms that one stage holds: a line of 16-bit elements.
pub const STAGE_DEPTH: u32 = 64;

/// Rows of the result that one `wgmma` produces.
pub const WARPGROUP_ROWS: u32 = 64;

/// Elements of a line of shared memory, and lines of a box, of an operand whose lines run along the outer index.
pub const BOX_EXTENT: u32 = 64;

/// Threads of a warpgroup.
pub const WARPGROUP_THREADS: u32 = 128;

/// Warps of the producer's warpgroup that add up columns, where that is wanted.
pub const SUM_WARPS: u32 = 2;

/// Rows of the result that a warp writes at a time.
pub const PANEL_ROWS: u32 = 16;

/// Bytes of one of a warp's buffers for results on their way to global memory.
pub const PANEL_BYTES: u32 = PANEL_ROWS * LINE_BYTES;

/// Such buffers of a warp: one is filled while the other is written.
pub const PANELS: u32 = 2;

/// Shared memory through which the sums of columns pass, in bytes.
pub const SUM_BYTES: u32 = SUM_WARPS * 32 * 8 * 4;

/// Bytes of shared memory for the words that say whether a block came last.
pub const FLAG_BYTES: u32 = 16;

/// The largest stride that a tensor map takes, in bytes (CUDA driver API, `cuTensorMapEncodeTiled`).
const LARGEST_STRIDE_BYTES: u64 = 1 << 40;

/// Registers of a thread after the warpgroups have shared them anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterSplit {
    /// Of the producer's warpgroup.
    pub producer: u32,
    /// Of the consumers.
    pub consumer: u32,
}

/// How a matrix gets from shared to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorePath {
    /// Through shared memory, by the tensor memory accelerator.
    Tensor,
    /// From registers: so many elements at a time, 1 or 2.
    Direct(u32),
}

/// How one kernel's product is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpgroupSchedule {
    /// Rows of a block's tile.
    pub rows: u32,
    /// Columns of a block's tile.
    pub columns: u32,
    /// Stages in shared memory.
    pub stages: u32,
    /// Consumer warpgroups.
    pub groups: u32,
    /// Blocks that are meant to share a multiprocessor.
    pub resident: u32,
    /// How the warpgroups share registers after the start; `None` leaves them as they are.
    pub registers: Option<RegisterSplit>,
    /// Along which index the left operand's lines run.
    pub left: Major,
    /// Along which index the right operand's lines run.
    pub right: Major,
    /// How the result is written.
    pub output: StorePath,
    /// How the auxiliary output is written, if there is one.
    pub auxiliary_output: Option<StorePath>,
    /// Whether two warps add up the right operand's columns.
    pub column_sums: bool,
    /// What blocks hand each other.
    pub parts: Parts,
    /// Products of the batch.
    pub batch: u32,
    /// Tiles along the rows.
    pub row_tiles: u32,
    /// Tiles along the columns.
    pub column_tiles: u32,
    /// Stages that a share of the depth takes.
    pub depth_tiles: u32,
    /// Blocks of the launch: as many as run at the same time, or fewer.
    pub blocks: u32,
}

impl WarpgroupSchedule {
    /// Threads of a block: the consumers', then the producer's.
    pub const fn threads(&self) -> u32 {
        (self.groups + 1) * WARPGROUP_THREADS
    }

    /// Rows of a consumer's share of the tile.
    pub const fn group_rows(&self) -> u32 {
        self.rows / self.groups
    }

    /// Bytes of the left operand's tile in a stage.
    pub const fn left_bytes(&self) -> u32 {
        self.rows * LINE_BYTES
    }

    /// Bytes of a stage: the left tile, then the right one.
    pub const fn stage_bytes(&self) -> u32 {
        (self.rows + self.columns) * LINE_BYTES
    }

    /// Where the consumers' buffers for results start, in bytes of shared memory.
    pub const fn panels_start(&self) -> u32 {
        self.stages * self.stage_bytes()
    }

    /// Where the sums of columns pass through, in bytes of shared memory.
    pub const fn sums_start(&self) -> u32 {
        self.panels_start() + self.groups * 4 * PANELS * PANEL_BYTES
    }

    /// Where the barriers start, in bytes of shared memory: one for each stage that says it is full, then one that says
    /// it is empty.
    pub const fn barriers_start(&self) -> u32 {
        let sums = if self.column_sums { SUM_BYTES } else { 0 };
        self.sums_start() + sums
    }

    /// Where the words lie that say whether a block came last, in bytes of shared memory: one for the consumers, one for
    /// those that add up columns.
    pub const fn flags_start(&self) -> u32 {
        self.barriers_start() + self.stages * 16
    }

    /// Bytes of shared memory that a block needs.
    pub const fn shared_bytes(&self) -> u32 {
        self.flags_start() + FLAG_BYTES
    }

    /// Warps that must have read a stage before it is filled again.
    pub const fn readers(&self) -> u32 {
        let sums = if self.column_sums { SUM_WARPS } else { 0 };
        self.groups * 4 + sums
    }

    /// Tiles of all products of the batch.
    pub const fn tiles(&self) -> u32 {
        self.batch * self.row_tiles * self.column_tiles
    }

    /// Pieces of work: a tile, or a share of its depth.
    pub const fn pieces(&self) -> u32 {
        self.tiles() * self.parts.splits
    }
}

/// One line of the table of tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub rows: u32,
    pub columns: u32,
    pub groups: u32,
    pub stages: u32,
    pub resident: u32,
    pub registers: Option<RegisterSplit>,
    /// The same for kernels that also sum over the right operand's depth.
    pub registers_with_sums: Option<RegisterSplit>,
    /// Share of the peak rate that the main loop reaches with that many blocks. Smaller tiles read each operand more
    /// often: a `wgmma` of n columns reads its left operand in as many cycles whatever n is.
    pub efficiency: f64,
}

/// Tiles to choose from, and how fast what multiplies them is.
pub(super) struct Table {
    pub candidates: &'static [Candidate],
    /// How many times as fast as the `mma.sync` that [`Limits::tensor_terms_per_cycle`] states.
    pub rate_over_mma_sync: f64,
}

const WIDE: Option<RegisterSplit> = Some(RegisterSplit {
    producer: 24,
    consumer: 240,
});
const WIDE_WITH_SUMS: Option<RegisterSplit> = Some(RegisterSplit {
    producer: 56,
    consumer: 224,
});

#[rustfmt::skip]
const CANDIDATES: &[Candidate] = &[
    Candidate { rows: 128, columns: 256, groups: 2, stages: 4, resident: 1, registers: WIDE, registers_with_sums: WIDE_WITH_SUMS, efficiency: 1.00 },
    Candidate { rows: 256, columns: 128, groups: 2, stages: 4, resident: 1, registers: WIDE, registers_with_sums: WIDE_WITH_SUMS, efficiency: 0.98 },
    Candidate { rows: 128, columns: 128, groups: 2, stages: 6, resident: 1, registers: WIDE, registers_with_sums: WIDE_WITH_SUMS, efficiency: 0.85 },
    Candidate { rows: 64, columns: 128, groups: 1, stages: 3, resident: 2, registers: None, registers_with_sums: None, efficiency: 0.80 },
    Candidate { rows: 128, columns: 64, groups: 2, stages: 8, resident: 1, registers: None, registers_with_sums: None, efficiency: 0.60 },
    Candidate { rows: 64, columns: 64, groups: 1, stages: 5, resident: 2, registers: None, registers_with_sums: None, efficiency: 0.55 },
];

/// Cycles before a block's first product and after its last: the latency of the first copies and the epilogue, which the
/// next tile's copies overlap.
const TILE_OVERHEAD_CYCLES: f64 = 1500.0;

/// `wgmma` multiplies twice as fast as `mma.sync`.
pub(super) const WARPGROUPS: Table = Table {
    candidates: CANDIDATES,
    rate_over_mma_sync: 2.0,
};

/// Picks the tile and the shares of the depth that the cost model expects to finish first, or those that are wished for.
///
/// # Errors
/// Why the product is not for warpgroups.
pub fn choose(
    contraction: &Contraction,
    limits: &Limits,
    wish: impl Into<Wish>,
) -> Result<WarpgroupSchedule, NoWarpgroups> {
    choose_among(contraction, &WARPGROUPS, limits, wish)
}

/// The same among other tiles.
pub(super) fn choose_among(
    contraction: &Contraction,
    table: &Table,
    limits: &Limits,
    wish: impl Into<Wish>,
) -> Result<WarpgroupSchedule, NoWarpgroups> {
    let wish = wish.into();
    if contraction.math != Math::Full {
        return Err(NoWarpgroups::Rounding);
    }
    let operands = [&contraction.left, &contraction.right];
    for operand in operands {
        if operand.element.bytes() != 2 {
            return Err(NoWarpgroups::Element);
        }
        if operand.alignment_bytes() < 16 {
            return Err(NoWarpgroups::Alignment);
        }
        if operand.batch_stride * 2 >= LARGEST_STRIDE_BYTES {
            return Err(NoWarpgroups::Stride);
        }
    }
    let wanted: Vec<&Candidate> = table
        .candidates
        .iter()
        .filter(|candidate| {
            wish.tile
                .is_none_or(|wish| (wish.rows, wish.columns) == (candidate.rows, candidate.columns))
        })
        .collect();
    if wanted.is_empty() {
        return Err(NoWarpgroups::Tile);
    }
    let stages = contraction.depth.div_ceil(STAGE_DEPTH.into());
    let ways = wanted.into_iter().flat_map(|candidate| {
        let at_once = u64::from(limits.multiprocessors) * u64::from(candidate.resident);
        let shares = wish.shares(
            stages,
            contraction.tiles(candidate.rows, candidate.columns),
            at_once,
        );
        shares.into_iter().map(move |shares| (candidate, shares))
    });
    let cycles = |way| cost(contraction, way, (limits, table)).total();
    let (best, shares) = ways
        .min_by(|&x, &y| cycles(x).total_cmp(&cycles(y)))
        .ok_or(NoWarpgroups::Splits)?;
    schedule(contraction, (best, shares), limits)
}

/// What the cost model expects of a kernel.
fn cost(
    contraction: &Contraction,
    (candidate, shares): (&Candidate, DepthShares),
    (limits, table): (&Limits, &Table),
) -> Cost {
    let rate = f64::from(limits.tensor_terms_per_cycle) * table.rate_over_mma_sync;
    Cost::of(&Work {
        pieces: contraction
            .tiles(candidate.rows, candidate.columns)
            .saturating_mul(shares.splits.into()),
        multiprocessors: limits.multiprocessors,
        resident: candidate.resident,
        tile_elements: f64::from(candidate.rows) * f64::from(candidate.columns),
        depth: f64::from(STAGE_DEPTH) * f64::from(shares.stages),
        rate: rate * candidate.efficiency,
        around_round: TILE_OVERHEAD_CYCLES,
        shares,
    })
}

/// What the cost model expects of a schedule that was chosen among some tiles.
pub(super) fn cost_among(
    contraction: &Contraction,
    schedule: &WarpgroupSchedule,
    (limits, table): (&Limits, &Table),
) -> Option<Cost> {
    let size = (schedule.rows, schedule.columns);
    let mut candidates = table.candidates.iter();
    let candidate = candidates.find(|candidate| (candidate.rows, candidate.columns) == size)?;
    let shares = DepthShares {
        splits: schedule.parts.splits,
        stages: schedule.depth_tiles,
    };
    Some(cost(contraction, (candidate, shares), (limits, table)))
}

fn schedule(
    contraction: &Contraction,
    (candidate, shares): (&Candidate, DepthShares),
    limits: &Limits,
) -> Result<WarpgroupSchedule, NoWarpgroups> {
    let row_tiles = contraction.rows.div_ceil(candidate.rows.into());
    let column_tiles = contraction.columns.div_ceil(candidate.columns.into());
    let at_once = u64::from(limits.multiprocessors * candidate.resident);
    let pieces = contraction
        .tiles(candidate.rows, candidate.columns)
        .saturating_mul(shares.splits.into());
    // The number of a piece is added to once more than the last one's, so it must not come close to 2^32.
    if pieces > u64::from(super::nvptx::LARGEST_GRID) {
        return Err(NoWarpgroups::Tiles);
    }
    let parts = Parts {
        tiles: contraction.tiles(candidate.rows, candidate.columns) as u32,
        tile_elements: candidate.rows * candidate.columns,
        splits: shares.splits,
        column_parts: contraction
            .column_parts(row_tiles, shares.splits)
            .map_err(|_| NoWarpgroups::Tiles)?,
        column_tiles: column_tiles as u32,
        tile_columns: candidate.columns,
    };
    let store = |element| store_path(contraction, &contraction.output, element);
    Ok(WarpgroupSchedule {
        rows: candidate.rows,
        columns: candidate.columns,
        stages: candidate.stages,
        groups: candidate.groups,
        resident: candidate.resident,
        registers: if contraction.column_sums {
            candidate.registers_with_sums
        } else {
            candidate.registers
        },
        left: contraction.left.major,
        right: contraction.right.major,
        output: store(contraction.output.element),
        auxiliary_output: contraction.epilogue.auxiliary_output.map(store),
        column_sums: contraction.column_sums,
        parts,
        batch: contraction.batch as u32,
        row_tiles: row_tiles as u32,
        column_tiles: column_tiles as u32,
        depth_tiles: shares.stages,
        blocks: pieces.min(at_once) as u32,
    })
}

/// How a matrix that is laid out like the result is written.
fn store_path(contraction: &Contraction, output: &Output, element: ElementType) -> StorePath {
    let bytes = u64::from(element.bytes());
    let leading = if contraction.rows > 1 {
        output.leading
    } else {
        0
    };
    let places = (leading | output.offset | output.batch_stride) * bytes;
    if places.is_multiple_of(16) && output.batch_stride * bytes < LARGEST_STRIDE_BYTES {
        StorePath::Tensor
    } else {
        StorePath::Direct(contraction.row_run(2))
    }
}

/// Bytes from one line of a matrix to the next, as a tensor map takes them: where there is one line, any stride will do.
pub fn line_stride_bytes(lines: u64, leading: u64, line: u64, element: ElementType) -> u64 {
    let elements = if lines > 1 { leading } else { line };
    (elements * u64::from(element.bytes())).next_multiple_of(16)
}

/// Elements of a line of an operand.
pub const fn line_elements(operand: &Operand) -> u64 {
    match operand.major {
        Major::Depth => operand.depth,
        Major::Outer => operand.outer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::TileSize;
    use crate::codegen::description::{KernelDescription, KernelOp, MatrixLayout};
    use crate::codegen::nvptx::Architecture;

    fn chosen(kernel: &KernelDescription) -> Result<WarpgroupSchedule, NoWarpgroups> {
        let contraction = Contraction::of(kernel).unwrap().expect("a product");
        choose(&contraction, &Architecture::Sm90a.limits(), None)
    }

    #[test]
    fn every_tile_fits_a_multiprocessor() {
        let limits = Architecture::Sm90a.limits();
        for candidate in CANDIDATES {
            let wish = Some(TileSize {
                rows: candidate.rows,
                columns: candidate.columns,
            });
            for bias in [None, Some(ElementType::F32)] {
                let kernel = KernelDescription {
                    op: KernelOp::WeightGradient,
                    output: ElementType::F32,
                    bias,
                    ..KernelDescription::product(ElementType::Bf16, 512, 512, 512)
                };
                let contraction = Contraction::of(&kernel).unwrap().expect("a product");
                let schedule = choose(&contraction, &limits, wish).unwrap();
                let block =
                    schedule.shared_bytes().next_multiple_of(128) + limits.reserved_shared_bytes;
                assert!(schedule.shared_bytes() <= limits.shared_bytes_per_block);
                assert!(block * schedule.resident <= limits.shared_bytes, "{wish:?}");
                if let Some(split) = schedule.registers {
                    let at_start = limits.registers / schedule.threads() / 8 * 8;
                    let after = split.producer + split.consumer * schedule.groups;
                    assert!(after <= at_start * (schedule.groups + 1), "{wish:?}");
                }
            }
        }
    }

    #[test]
    fn what_tma_cannot_copy_is_refused() {
        let aligned = KernelDescription::product(ElementType::Bf16, 100, 104, 72);
        assert!(chosen(&aligned).is_ok());
        for (kernel, reason) in [
            (
                KernelDescription::product(ElementType::F32, 64, 64, 64),
                NoWarpgroups::Element,
            ),
            (
                KernelDescription::product(ElementType::Bf16, 64, 64, 1),
                NoWarpgroups::Alignment,
            ),
            (
                KernelDescription {
                    a: MatrixLayout {
                        offset: 4,
                        ..MatrixLayout::ROW_MAJOR
                    },
                    ..aligned
                },
                NoWarpgroups::Alignment,
            ),
        ] {
            assert_eq!(chosen(&kernel), Err(reason));
        }
    }

    #[test]
    fn large_products_take_large_tiles_and_one_block_per_multiprocessor() {
        let kernel = KernelDescription::product(ElementType::Bf16, 8192, 8192, 8192);
        let schedule = chosen(&kernel).unwrap();
        assert_eq!((schedule.rows, schedule.columns), (128, 256));
        assert_eq!((schedule.blocks, schedule.tiles()), (132, 64 * 32));
        assert_eq!(schedule.output, StorePath::Tensor);
    }

    #[test]
    fn results_with_odd_rows_are_written_from_registers() {
        let odd = KernelDescription {
            c: MatrixLayout {
                leading: Some(107),
                ..MatrixLayout::ROW_MAJOR
            },
            ..KernelDescription::product(ElementType::Bf16, 100, 104, 72)
        };
        assert_eq!(chosen(&odd).unwrap().output, StorePath::Direct(1));
    }
}
