//! What a way to cut a product is expected to take, in cycles of a multiprocessor, and of what that is made up.
//!
//! A multiprocessor runs some blocks at a time, so a kernel takes rounds. A round takes the products of its blocks at the
//! tile's share of the peak rate, and a fixed time before the first and after the last of them. Blocks that share a tile
//! hand their sums to the last of them, which takes its time too.

use std::fmt;

use super::depth_shares::{DepthShares, meeting_cycles};

/// What a kernel is expected to take, in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Products.
    pub products: f64,
    /// Rounds of as many blocks as run at a time.
    pub rounds: f64,
    /// Before the first and after the last product of each round.
    pub around: f64,
    /// Handing sums from block to block.
    pub meeting: f64,
}

/// What there is to do, and how it is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Blocks, or pieces that blocks take in turns.
    pub pieces: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Blocks that share a multiprocessor.
    pub resident: u32,
    /// Elements of a tile.
    pub tile_elements: f64,
    /// Terms that a piece adds up for each of them.
    pub depth: f64,
    /// Terms per cycle and multiprocessor.
    pub rate: f64,
    /// Cycles around a round's products.
    pub around_round: f64,
    /// How tiles are shared.
    pub shares: DepthShares,
}

impl Cost {
    /// The cost of some work.
    pub(super) fn of(work: &Work) -> Cost {
        // A last round with few blocks per multiprocessor still has each of them to itself.
        let per_multiprocessor = work.pieces.div_ceil(work.multiprocessors.into()) as f64;
        let rounds = (per_multiprocessor / f64::from(work.resident)).ceil();
        Cost {
            products: per_multiprocessor * work.tile_elements * work.depth / work.rate,
            rounds,
            around: rounds * work.around_round,
            meeting: meeting_cycles(work.tile_elements, work.shares),
        }
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.products + self.around + self.meeting
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} cycles: {:.0} of products, {:.0} around them in {} rounds, {:.0} for handing on sums",
            self.total(),
            self.products,
            self.around,
            self.rounds,
            self.meeting
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_and_products_add_up() {
        let work = Work {
            pieces: 2048,
            multiprocessors: 132,
            resident: 1,
            tile_elements: 128.0 * 256.0,
            depth: 8192.0,
            rate: 2048.0,
            around_round: 1500.0,
            shares: DepthShares {
                splits: 1,
                stages: 128,
            },
        };
        let cost = Cost::of(&work);
        assert_eq!(
            (cost.rounds, cost.around, cost.meeting),
            (16.0, 24000.0, 0.0)
        );
        assert_eq!(cost.products, 16.0 * 128.0 * 256.0 * 8192.0 / 2048.0);
        assert_eq!(cost.total(), cost.products + 24000.0);
        let two = Cost::of(&Work {
            resident: 2,
            ..work
        });
        assert_eq!((two.rounds, two.products), (8.0, cost.products));
    }
}
