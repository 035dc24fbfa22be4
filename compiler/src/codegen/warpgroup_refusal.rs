//! Why a product goes the older way where there are tensor maps and warpgroups, or tensor memory.

/// Why a product is not for warpgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWarpgroups {
    /// The elements are not of 16 bits.
    Element,
    /// The elements are to be rounded to tf32.
    Rounding,
    /// Lines of an operand start at addresses that are no multiples of 16 bytes.
    Alignment,
    /// The matrices of a batch lie too far apart.
    Stride,
    /// There are more tiles than 32 bits count.
    Tiles,
    /// A tile of another size is wished for.
    Tile,
    /// There are fewer stages than shares of the depth are wished for, or blocks cannot share a depth.
    Splits,
}

impl NoWarpgroups {
    /// The reason in words.
    pub const fn reason(self) -> &'static str {
        match self {
            NoWarpgroups::Element => "wgmma and tcgen05.mma take 16-bit elements here",
            NoWarpgroups::Rounding => {
                "cvt.rna rounds to tf32 in registers; wgmma and tcgen05.mma cut off what lies in shared memory"
            }
            NoWarpgroups::Alignment => "TMA takes lines that start at multiples of 16 bytes",
            NoWarpgroups::Stride => "TMA takes strides below 2^40 bytes",
            NoWarpgroups::Tiles => "there are too many tiles",
            NoWarpgroups::Tile => "no tile for TMA has this size",
            NoWarpgroups::Splits => "it does not cut a sum into so many parts",
        }
    }
}
