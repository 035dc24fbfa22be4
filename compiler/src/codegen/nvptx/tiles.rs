//! Which tile of a product a number stands for.

use inkwell::IntPredicate;
use inkwell::values::IntValue;

use crate::codegen::llvm::Emitter;

/// Tiles along the rows that run together. Blocks are numbered so that a group's tiles of one column of tiles come one
/// after the other; blocks that run at the same time then share operands in the second-level cache.
const GROUP: u32 = 8;

/// How a kernel's products are cut.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Shares of the depth.
    pub splits: u32,
    /// Products of the batch.
    pub batch: u32,
    /// Tiles along the rows.
    pub row_tiles: u32,
    /// Tiles along the columns.
    pub column_tiles: u32,
}

/// A tile, or a share of its depth, in numbers.
pub(super) struct TileNumbers<'c> {
    /// Which share of the depth; `None` if there is one.
    pub split: Option<IntValue<'c>>,
    /// The tile's number among those of all products.
    pub tile: IntValue<'c>,
    /// Which product of the batch; `None` if there is one.
    pub batch: Option<IntValue<'c>>,
    /// The number of its row of tiles.
    pub row: IntValue<'c>,
    /// The number of its column of tiles.
    pub column: IntValue<'c>,
}

impl Cut {
    /// What the piece of a number is. Blocks that run at the same time have the same share of the depth, and so operands in
    /// common.
    pub(super) fn piece<'c>(self, e: &Emitter<'c>, number: IntValue<'c>) -> TileNumbers<'c> {
        let of_product = self.row_tiles * self.column_tiles;
        let of_all = of_product * self.batch;
        let (split, tile) = match self.splits {
            1 => (None, number),
            _ => (
                Some(e.div_const(number, of_all)),
                e.rem_const(number, of_all),
            ),
        };
        let (batch, within) = match self.batch {
            1 => (None, tile),
            _ => (
                Some(e.div_const(tile, of_product)),
                e.rem_const(tile, of_product),
            ),
        };
        let (row, column) = self.place(e, within);
        TileNumbers {
            split,
            tile,
            batch,
            row,
            column,
        }
    }

    /// Row and column of one product's tile of this number, in tiles.
    fn place<'c>(self, e: &Emitter<'c>, number: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
        let height = GROUP.min(self.row_tiles);
        let per_group = height * self.column_tiles;
        let group = e.div_const(number, per_group);
        let within = e.rem_const(number, per_group);
        let mut row = e.rem_const(within, height);
        let mut column = e.div_const(within, height);
        let rest = self.row_tiles % height;
        if rest != 0 {
            // The last group is lower than the others.
            let is_last = e.compare(IntPredicate::EQ, group, e.i32(self.row_tiles / height));
            row = e.select_int(is_last, e.rem_const(within, rest), row);
            column = e.select_int(is_last, e.div_const(within, rest), column);
        }
        (e.add(e.mul_const(group, height), row), column)
    }
}
