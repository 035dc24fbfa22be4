//! How many blocks share a tile, each with a share of the depth.
//!
//! A product of few tiles leaves most multiprocessors without work. Cut into shares, its depth takes less time, but the
//! blocks of a tile must hand each other their sums ([`super::parts`]), which takes some. The cost models of both tilings
//! weigh one against the other.

use super::tiling::TileSize;

/// Cycles from a block's last product until the block that comes last can add up the parts of their tile: fences, the
/// counter, and the barriers around it.
const MEETING_CYCLES: f64 = 3000.0;

/// Bytes of parts that a multiprocessor writes to or reads from the second-level cache per cycle.
const PART_BYTES_PER_CYCLE: f64 = 32.0;

/// The most shares of a depth that the cost model considers.
const MOST_SPLITS: u64 = 64;

/// What is asked of a schedule beside its kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wish {
    /// The size of a block's tile.
    pub tile: Option<TileSize>,
    /// Blocks that share a tile, each with a share of the depth; 1 means none do.
    pub splits: Option<u32>,
}

impl From<Option<TileSize>> for Wish {
    fn from(tile: Option<TileSize>) -> Wish {
        Wish { tile, splits: None }
    }
}

impl Wish {
    /// The ways to cut a depth of so many stages that are considered where there are so many tiles: the one that is
    /// wished for, or all that fill multiprocessors which would have nothing to do.
    pub(super) fn shares(self, stages: u64, tiles: u64, blocks_at_once: u64) -> Vec<DepthShares> {
        if let Some(splits) = self.splits {
            return DepthShares::of(stages, splits).into_iter().collect();
        }
        let most = (blocks_at_once / tiles.max(1)).clamp(1, MOST_SPLITS);
        let mut shares: Vec<DepthShares> = (1..=most as u32)
            .filter_map(|splits| DepthShares::of(stages, splits))
            .collect();
        shares.dedup();
        shares
    }
}

/// Cycles that handing parts of a tile of so many elements from block to block takes.
pub(super) fn meeting_cycles(tile_elements: f64, shares: DepthShares) -> f64 {
    if shares.splits == 1 {
        return 0.0;
    }
    // Every block writes a part at the same time; the last one reads them all.
    let parts = f64::from(shares.splits + 1);
    MEETING_CYCLES + parts * tile_elements * 4.0 / PART_BYTES_PER_CYCLE
}

/// A depth cut into shares of whole stages, as equal as that allows: all but the last are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthShares {
    /// How many shares.
    pub splits: u32,
    /// Stages of a share; the last may have fewer.
    pub stages: u32,
}

impl DepthShares {
    /// Cuts a depth of so many stages into as many shares as are wanted, or fewer, if fewer shares of the same number of
    /// stages do. `None` if there are fewer stages than shares.
    pub const fn of(stages: u64, wanted: u32) -> Option<DepthShares> {
        if wanted == 0 || stages < wanted as u64 {
            return None;
        }
        let each = stages.div_ceil(wanted as u64);
        // A depth is at most 2^30.
        Some(DepthShares {
            splits: stages.div_ceil(each) as u32,
            stages: each as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_depth_and_none_is_empty() {
        for stages in 1..40u64 {
            for wanted in 1..=stages as u32 {
                let shares = DepthShares::of(stages, wanted).unwrap();
                assert!((1..=wanted).contains(&shares.splits));
                let before_last = u64::from(shares.splits - 1) * u64::from(shares.stages);
                assert!(before_last < stages);
                assert!(before_last + u64::from(shares.stages) >= stages);
            }
            assert_eq!(DepthShares::of(stages, stages as u32 + 1), None);
        }
        assert_eq!(DepthShares::of(1, 0), None);
    }

    #[test]
    fn depths_are_shared_only_where_multiprocessors_are_idle() {
        let splits = |stages, tiles| -> Vec<u32> {
            let shares = Wish::default().shares(stages, tiles, 108);
            shares.iter().map(|shares| shares.splits).collect()
        };
        assert_eq!(splits(100, 108), [1]);
        assert_eq!(splits(100, 60), [1]);
        assert_eq!(splits(100, 54), [1, 2]);
        assert_eq!(splits(3, 1), [1, 2, 3]);
        assert_eq!(splits(1, 1), [1]);
        let wish = Wish {
            splits: Some(4),
            ..Wish::default()
        };
        assert_eq!(wish.shares(3, 1, 108), []);
        assert_eq!(wish.shares(9, 1000, 1)[0].splits, 3);
    }
}
