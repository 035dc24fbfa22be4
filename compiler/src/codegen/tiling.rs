//! How a product is cut: tiles of a block, of a warp, and of one stage of the copy pipeline.
//!
//! A block computes one tile of the result. It walks along the depth in steps of [`TileSchedule::depth`]; the operands
//! of the next `stages − 1` steps are on their way from global to shared memory while one is multiplied. [`choose`]
//! picks the tile by a cost model and decides for each operand how wide its copies can be. Where tiles are few and the
//! depth is long, several blocks share a tile ([`super::parts`]).

use super::candidates::{CANDIDATES, Candidate};
use super::contraction::{Contraction, Major, Operand};
use super::cost::{Cost, Work};
use super::depth_shares::{DepthShares, Wish};
use super::description::ElementType;
use super::error::CodegenError;
use super::math::Math;
use super::nvptx::Limits;
use super::parts::Parts;

/// Rows of the result that a warp takes through shared memory at a time when it writes its tile.
pub const SLAB_ROWS: u32 = 16;

/// Padding of a slab's rows, in elements of four bytes: rows then start in different banks.
pub const SLAB_PADDING: u32 = 8;

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `mma.sync` on 16-bit elements with sums in single precision.
    TensorCore,
    /// `mma.sync` on single-precision elements rounded to tf32, with sums in single precision.
    Tf32,
    /// The same on both parts of each element: three products.
    ThreeTf32,
    /// One fused multiply-add per term and thread.
    MultiplyAdd,
}

impl Method {
    /// What multiplies the operands of a product.
    pub const fn of(contraction: &Contraction) -> Method {
        match (contraction.left.element, contraction.math) {
            (ElementType::Bf16 | ElementType::F16, _) => Method::TensorCore,
            (ElementType::F32, Math::Full) => Method::MultiplyAdd,
            (ElementType::F32, Math::Tf32) => Method::Tf32,
            (ElementType::F32, Math::ThreeTf32) => Method::ThreeTf32,
        }
    }

    /// Terms of a sum that one step of the inner loop consumes.
    pub const fn step_depth(self) -> u32 {
        match self {
            Method::TensorCore => 16,
            Method::Tf32 | Method::ThreeTf32 => 8,
            Method::MultiplyAdd => 4,
        }
    }
}

/// How an operand gets from global to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPath {
    /// `cp.async` of this many bytes: 16, 8 or 4.
    Async(u32),
    /// Loads of single elements into registers, then a store of 16 bytes: for lines that start at any element.
    Registers,
}

impl CopyPath {
    /// Bytes that one thread moves at a time.
    pub const fn chunk_bytes(self) -> u32 {
        match self {
            CopyPath::Async(bytes) => bytes,
            CopyPath::Registers => 16,
        }
    }
}

/// One operand's tile in shared memory: lines of contiguous elements, their 16-byte chunks permuted by an XOR with the
/// line's number so that neither the copies nor the reads of a warp meet in a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandTile {
    /// Along which index the lines run.
    pub major: Major,
    /// What the elements are.
    pub element: ElementType,
    /// How many lines.
    pub lines: u32,
    /// Bytes of a line: a power of two, at least 16.
    pub line_bytes: u32,
    /// How it is filled.
    pub copy: CopyPath,
    /// Whether some tile reaches beyond the operand's outer extent.
    pub ragged_outer: bool,
    /// Whether the last share of the depth reaches beyond it.
    pub ragged_depth: bool,
}

impl OperandTile {
    /// Bytes of the tile.
    pub const fn bytes(&self) -> u32 {
        self.lines * self.line_bytes
    }

    /// Chunks of the copy path that make up a line.
    pub const fn chunks_per_line(&self) -> u32 {
        self.line_bytes / self.copy.chunk_bytes()
    }

    /// Elements that one thread moves at a time.
    pub const fn chunk_elements(&self) -> u32 {
        self.copy.chunk_bytes() / self.element.bytes()
    }

    /// The permutation: chunk `q` (of 16 bytes) of line `l` lies at `q ^ (((l >> shift) & mask) << doubled)`. Linear over XOR in
    /// `l`, and unchanged by adding a multiple of 8 to it.
    ///
    /// A warp reads eight lines at one chunk; but of words whose lines run along the outer index it reads four lines
    /// at two neighbouring chunks, which the permutation then leaves neighbours.
    pub const fn swizzle(&self) -> Swizzle {
        let of_words = matches!(self.major, Major::Outer) && self.element.bytes() == 4;
        let (shift, mask) = match (self.line_bytes / 16, of_words) {
            (1, _) | (2, true) => (0, 0),
            (2, false) => (2, 1),
            (4, false) => (1, 3),
            (4, true) => (1, 1),
            (_, false) => (0, 7),
            (_, true) => (0, 3),
        };
        Swizzle {
            shift,
            mask,
            doubled: of_words as u32,
        }
    }

    fn of(operand: &Operand, shape: &TileShape, shares: DepthShares) -> OperandTile {
        let outer = if shape.is_left {
            shape.rows
        } else {
            shape.columns
        };
        let bytes = operand.element.bytes();
        let (lines, line) = match operand.major {
            Major::Depth => (outer, shape.depth),
            Major::Outer => (shape.depth, outer),
        };
        let copy = match operand.alignment_bytes() {
            width @ (4 | 8 | 16) => CopyPath::Async(width),
            _ => CopyPath::Registers,
        };
        OperandTile {
            major: operand.major,
            element: operand.element,
            lines,
            line_bytes: line * bytes,
            copy,
            ragged_outer: !operand.outer.is_multiple_of(u64::from(outer)),
            ragged_depth: !operand
                .depth
                .is_multiple_of(u64::from(shape.depth) * u64::from(shares.stages)),
        }
    }
}

/// See [`OperandTile::swizzle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swizzle {
    /// Bits of the line's number that are dropped.
    pub shift: u32,
    /// Bits that are kept.
    pub mask: u32,
    /// How often what is kept is doubled.
    pub doubled: u32,
}

impl Swizzle {
    /// What the number of a chunk in this line is XORed with.
    pub const fn of_line(self, line: u32) -> u32 {
        ((line >> self.shift) & self.mask) << self.doubled
    }
}

struct TileShape {
    rows: u32,
    columns: u32,
    depth: u32,
    is_left: bool,
}

/// How one kernel's product is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileSchedule {
    /// What multiplies.
    pub method: Method,
    /// Rows of a block's tile.
    pub rows: u32,
    /// Columns of a block's tile.
    pub columns: u32,
    /// Terms that one stage holds.
    pub depth: u32,
    /// Stages in shared memory, at least 2.
    pub stages: u32,
    /// Rows of a warp's tile.
    pub warp_rows: u32,
    /// Columns of a warp's tile.
    pub warp_columns: u32,
    /// Blocks that are meant to share a multiprocessor; the assembler keeps registers free for them.
    pub resident: u32,
    /// The left operand's tile.
    pub left: OperandTile,
    /// The right operand's tile.
    pub right: OperandTile,
    /// Products of the batch.
    pub batch: u32,
    /// Blocks along the rows.
    pub row_tiles: u32,
    /// Blocks along the columns.
    pub column_tiles: u32,
    /// Stages that a block's share of the depth takes.
    pub depth_tiles: u32,
    /// Whether the last share of the depth has stages that lie beyond it.
    pub empty_stages: bool,
    /// What blocks hand each other.
    pub parts: Parts,
}

impl TileSchedule {
    /// Warps of a block.
    pub const fn warps(&self) -> u32 {
        (self.rows / self.warp_rows) * (self.columns / self.warp_columns)
    }

    /// Threads of a block.
    pub const fn threads(&self) -> u32 {
        self.warps() * 32
    }

    /// Bytes of one stage: the left tile, then the right one.
    pub const fn stage_bytes(&self) -> u32 {
        self.left.bytes() + self.right.bytes()
    }

    /// Bytes from one row of a slab to the next.
    pub const fn slab_row_bytes(&self) -> u32 {
        (self.warp_columns + SLAB_PADDING) * 4
    }

    /// Bytes of the slab through which one warp writes its sums. It takes the stages' place after the main loop.
    pub const fn slab_bytes(&self) -> u32 {
        SLAB_ROWS * self.slab_row_bytes()
    }

    /// Bytes of shared memory that a block needs.
    pub const fn shared_bytes(&self) -> u32 {
        let pipeline = self.stages * self.stage_bytes();
        let slabs = self.warps() * self.slab_bytes();
        if pipeline > slabs { pipeline } else { slabs }
    }

    /// Blocks of the whole kernel.
    pub const fn blocks(&self) -> u64 {
        self.tiles() as u64 * self.parts.splits as u64
    }

    /// Tiles of all products of the batch.
    pub const fn tiles(&self) -> u32 {
        self.batch * self.row_tiles * self.column_tiles
    }

    /// Steps of the inner loop per stage.
    pub const fn steps(&self) -> u32 {
        self.depth / self.method.step_depth()
    }
}

/// Blocks that share a multiprocessor when registers are scarce: narrow copies are many, with an address each, and sums
/// over the right operand's depth come on top of the product's.
const RESIDENT_WHEN_CROWDED: u32 = 2;

/// Cycles before a block's first product and after its last: the latency of the first copies and the epilogue.
const BLOCK_OVERHEAD_CYCLES: f64 = 2500.0;

/// Rows and columns of a block's tile, as a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileSize {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
}

/// Picks the tile and the shares of the depth that the cost model expects to finish first, or those that are wished for.
///
/// # Errors
/// [`CodegenError::Unsupported`] if the grid would have more blocks than a launch takes, or if there is no tile of the
/// size that is wished for, or none whose stages make so many shares.
pub fn choose(
    contraction: &Contraction,
    limits: &Limits,
    wish: impl Into<Wish>,
) -> Result<TileSchedule, CodegenError> {
    let wish = wish.into();
    let method = Method::of(contraction);
    let alignment = narrowest_copy(contraction);
    let possible: Vec<&Candidate> = CANDIDATES
        .iter()
        .filter(|candidate| {
            candidate.method == method && candidate.takes(alignment, contraction.column_sums)
        })
        .filter(|candidate| candidate.shared_bytes() <= limits.shared_bytes_per_block)
        .collect();
    let wanted: Vec<&Candidate> = possible
        .iter()
        .copied()
        .filter(|candidate| wish.tile.is_none_or(|wish| wish == candidate.size()))
        .collect();
    if wanted.is_empty() {
        return Err(CodegenError::Unsupported {
            what: wish.tile.map_or_else(
                || "this product".to_owned(),
                |wish| format!("a tile of {} x {}", wish.rows, wish.columns),
            ),
            hint: format!("the tiles for it are {}", sizes(&possible)),
        });
    }
    let ways = wanted.iter().flat_map(|&candidate| {
        let stages = contraction.depth.div_ceil(candidate.depth.into());
        let at_once = u64::from(limits.multiprocessors) * u64::from(candidate.resident);
        let shares = wish.shares(
            stages,
            contraction.tiles(candidate.rows, candidate.columns),
            at_once,
        );
        shares.into_iter().map(move |shares| (candidate, shares))
    });
    let best = ways.min_by(|&x, &y| {
        let (x, y) = (cost(contraction, x, limits), cost(contraction, y, limits));
        x.total().total_cmp(&y.total())
    });
    match best {
        Some((candidate, shares)) => schedule(contraction, candidate, shares),
        None => Err(too_many_shares(contraction, &wanted, wish)),
    }
}

/// Says that the depth has fewer stages than shares are wished for.
fn too_many_shares(contraction: &Contraction, wanted: &[&Candidate], wish: Wish) -> CodegenError {
    let terms = contraction.depth;
    let stage = wanted.iter().map(|candidate| candidate.depth).min();
    let stage = stage.unwrap_or(1);
    CodegenError::Unsupported {
        what: format!(
            "a sum of {terms} terms in {} parts",
            wish.splits.unwrap_or_default()
        ),
        hint: format!(
            "a stage holds {stage} terms, so there are at most {} parts",
            terms.div_ceil(stage.into())
        ),
    }
}

/// Bytes of the narrower of the two operands' copies.
fn narrowest_copy(contraction: &Contraction) -> u32 {
    let (left, right) = (contraction.left, contraction.right);
    left.alignment_bytes().min(right.alignment_bytes())
}

fn sizes(candidates: &[&Candidate]) -> String {
    let names: Vec<String> = candidates
        .iter()
        .map(|candidate| format!("{}x{}", candidate.rows, candidate.columns))
        .collect();
    names.join(", ")
}

/// What the cost model expects of a kernel.
fn cost(
    contraction: &Contraction,
    (candidate, shares): (&Candidate, DepthShares),
    limits: &Limits,
) -> Cost {
    let rate = match candidate.method {
        Method::TensorCore => f64::from(limits.tensor_terms_per_cycle),
        Method::Tf32 => f64::from(limits.tensor_terms_per_cycle) / 2.0,
        Method::ThreeTf32 => f64::from(limits.tensor_terms_per_cycle) / 6.0,
        Method::MultiplyAdd => f64::from(limits.scalar_terms_per_cycle),
    };
    Cost::of(&Work {
        pieces: contraction
            .tiles(candidate.rows, candidate.columns)
            .saturating_mul(shares.splits.into()),
        multiprocessors: limits.multiprocessors,
        resident: candidate.resident,
        tile_elements: f64::from(candidate.rows) * f64::from(candidate.columns),
        depth: f64::from(candidate.depth) * f64::from(shares.stages),
        rate: rate * candidate.efficiency,
        around_round: BLOCK_OVERHEAD_CYCLES,
        shares,
    })
}

/// What the cost model expects of a schedule that [`choose`] made.
pub fn cost_of(
    contraction: &Contraction,
    schedule: &TileSchedule,
    limits: &Limits,
) -> Option<Cost> {
    let candidate = CANDIDATES.iter().find(|candidate| {
        candidate.method == schedule.method
            && candidate.size()
                == TileSize {
                    rows: schedule.rows,
                    columns: schedule.columns,
                }
            && (candidate.warp_rows, candidate.warp_columns)
                == (schedule.warp_rows, schedule.warp_columns)
            && candidate.depth == schedule.depth
    })?;
    let shares = DepthShares {
        splits: schedule.parts.splits,
        stages: schedule.depth_tiles,
    };
    Some(cost(contraction, (candidate, shares), limits))
}

fn schedule(
    contraction: &Contraction,
    candidate: &Candidate,
    shares: DepthShares,
) -> Result<TileSchedule, CodegenError> {
    let crowded = narrowest_copy(contraction) < 16 || contraction.column_sums;
    let row_tiles = contraction.rows.div_ceil(candidate.rows.into());
    let column_tiles = contraction.columns.div_ceil(candidate.columns.into());
    let depth_tiles = shares.stages;
    let blocks = contraction
        .tiles(candidate.rows, candidate.columns)
        .saturating_mul(shares.splits.into());
    if blocks > u64::from(super::nvptx::LARGEST_GRID) {
        return Err(CodegenError::Unsupported {
            what: format!(
                "a batch of {} results of {row_tiles} × {column_tiles} tiles",
                contraction.batch
            ),
            hint: format!(
                "a launch takes at most {} blocks",
                super::nvptx::LARGEST_GRID
            ),
        });
    }
    // Extents are at most 2^30, so the numbers of tiles fit.
    let parts = Parts {
        tiles: contraction.tiles(candidate.rows, candidate.columns) as u32,
        tile_elements: candidate.rows * candidate.columns,
        splits: shares.splits,
        column_parts: contraction.column_parts(row_tiles, shares.splits)?,
        column_tiles: column_tiles as u32,
        tile_columns: candidate.columns,
    };
    let terms = u64::from(candidate.depth) * u64::from(shares.stages) * u64::from(shares.splits);
    let shape = |is_left| TileShape {
        rows: candidate.rows,
        columns: candidate.columns,
        depth: candidate.depth,
        is_left,
    };
    Ok(TileSchedule {
        method: candidate.method,
        rows: candidate.rows,
        columns: candidate.columns,
        depth: candidate.depth,
        stages: candidate.stages.min(depth_tiles.max(2)),
        warp_rows: candidate.warp_rows,
        warp_columns: candidate.warp_columns,
        resident: if crowded {
            candidate.resident.min(RESIDENT_WHEN_CROWDED)
        } else {
            candidate.resident
        },
        left: OperandTile::of(&contraction.left, &shape(true), shares),
        right: OperandTile::of(&contraction.right, &shape(false), shares),
        batch: contraction.batch as u32,
        row_tiles: row_tiles as u32,
        column_tiles: column_tiles as u32,
        depth_tiles,
        empty_stages: terms - contraction.depth >= candidate.depth.into(),
        parts,
    })
}
