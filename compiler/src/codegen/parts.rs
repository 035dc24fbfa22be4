//! Sums whose parts several blocks make.
//!
//! Where a product has few tiles and a long depth, several blocks share a tile, each with a share of the depth. The
//! gradient of a bias is a sum over rows that many blocks see. Either way every block writes its part, in single
//! precision, to a workspace in global memory, and counts itself there. The block that counts last adds up all parts in
//! the order of their numbers, so the result does not depend on who is last; its counter is zero again afterwards.
//!
//! ```text
//! workspace: for each tile, for each split: the tile's sums │ for each part: the sums of all columns
//! counters:  for each tile: blocks that are done with it    │ for each tile of columns: parts that are done
//! ```
//!
//! What takes a single block needs neither.

/// Global memory that a kernel takes beside its matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scratch {
    /// Bytes of the workspace. Nothing need be in it before the launch, and nothing of use is in it afterwards.
    pub workspace_bytes: u64,
    /// Bytes of the counters. They are zero before the launch, and zero again after it. Launches that may overlap need
    /// counters, and a workspace, of their own.
    pub counter_bytes: u64,
}

/// How the sums of one kernel are cut into parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Tiles of the results of all products.
    pub tiles: u32,
    /// Elements of a tile.
    pub tile_elements: u32,
    /// Blocks that share a tile; 1 if none do.
    pub splits: u32,
    /// Parts of the sum of a column, if there are such sums.
    pub column_parts: Option<u32>,
    /// Tiles along the columns.
    pub column_tiles: u32,
    /// Columns of a tile.
    pub tile_columns: u32,
}

impl Parts {
    /// Whether several blocks share a tile.
    pub const fn splits_tiles(&self) -> bool {
        self.splits > 1
    }

    /// Whether several blocks have parts of the sum of a column.
    pub const fn splits_columns(&self) -> bool {
        matches!(self.column_parts, Some(parts) if parts > 1)
    }

    /// Where the sums of columns start in the workspace, in elements of 4 bytes.
    pub const fn columns_start(&self) -> u64 {
        if self.splits_tiles() {
            self.tiles as u64 * self.splits as u64 * self.tile_elements as u64
        } else {
            0
        }
    }

    /// Elements of 4 bytes from one part of the sums of all columns to the next.
    pub const fn column_stride(&self) -> u64 {
        self.column_tiles as u64 * self.tile_columns as u64
    }

    /// The number of the first tile of columns' counter.
    pub const fn column_counters_start(&self) -> u32 {
        if self.splits_tiles() { self.tiles } else { 0 }
    }

    /// What the parts take.
    pub const fn scratch(&self) -> Scratch {
        let (mut elements, mut counters) = (self.columns_start(), self.column_counters_start());
        if let Some(parts) = self.column_parts
            && parts > 1
        {
            elements += parts as u64 * self.column_stride();
            counters += self.column_tiles;
        }
        Scratch {
            workspace_bytes: elements * 4,
            counter_bytes: counters as u64 * 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_block_does_takes_nothing() {
        let parts = Parts {
            tiles: 6,
            tile_elements: 64 * 128,
            splits: 1,
            column_parts: Some(1),
            column_tiles: 3,
            tile_columns: 128,
        };
        assert_eq!(parts.scratch(), Scratch::default());
        let split = Parts { splits: 4, ..parts };
        assert_eq!(split.scratch().workspace_bytes, 6 * 4 * 64 * 128 * 4);
        assert_eq!(split.scratch().counter_bytes, 6 * 4);
        let both = Parts {
            column_parts: Some(5),
            ..split
        };
        assert_eq!(
            both.scratch().workspace_bytes,
            split.scratch().workspace_bytes + 5 * 3 * 128 * 4
        );
        assert_eq!(both.scratch().counter_bytes, (6 + 3) * 4);
    }
}
