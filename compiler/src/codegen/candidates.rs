//! The table of tiles for `mma.sync` and fused multiply-adds: what was found to fit into an sm_80 multiprocessor's registers and
//! shared memory without a spill.

use super::tiling::{Method, TileSize};

/// One line of the table of tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub method: Method,
    pub rows: u32,
    pub columns: u32,
    pub warp_rows: u32,
    pub warp_columns: u32,
    pub depth: u32,
    pub stages: u32,
    /// Blocks that share a multiprocessor: what registers and shared memory leave room for on sm_80.
    pub resident: u32,
    /// Share of the peak rate that the main loop reaches with that many blocks. Smaller tiles read each operand more
    /// often and have fewer independent products in flight.
    pub efficiency: f64,
    /// The narrowest copies, in bytes, that leave enough registers; 2 means elements that pass through registers.
    pub narrowest: u32,
    /// The same for kernels that also sum over the right operand's depth; [`NEVER`] if none are narrow enough.
    pub narrowest_with_sums: u32,
}

/// Wider than any copy.
const NEVER: u32 = 32;

impl Candidate {
    /// Whether enough registers are left for copies of this many bytes.
    pub const fn takes(&self, copy_bytes: u32, column_sums: bool) -> bool {
        let narrowest = if column_sums {
            self.narrowest_with_sums
        } else {
            self.narrowest
        };
        narrowest <= copy_bytes
    }

    pub const fn size(&self) -> TileSize {
        TileSize {
            rows: self.rows,
            columns: self.columns,
        }
    }

    /// Bytes of the pipeline with elements of the method's usual size.
    pub const fn shared_bytes(&self) -> u32 {
        let element = match self.method {
            Method::TensorCore => 2,
            Method::Tf32 | Method::ThreeTf32 | Method::MultiplyAdd => 4,
        };
        (self.rows + self.columns) * self.depth * element * self.stages
    }
}

/// The table.
#[rustfmt::skip]
pub(super) const CANDIDATES: &[Candidate] = &[
    Candidate { method: Method::TensorCore, rows: 128, columns: 256, warp_rows: 64, warp_columns: 64, depth: 32, stages: 4, resident: 1, efficiency: 1.00, narrowest: 4, narrowest_with_sums: 16 },
    Candidate { method: Method::TensorCore, rows: 256, columns: 128, warp_rows: 64, warp_columns: 64, depth: 32, stages: 4, resident: 1, efficiency: 1.00, narrowest: 4, narrowest_with_sums: 16 },
    Candidate { method: Method::TensorCore, rows: 128, columns: 128, warp_rows: 64, warp_columns: 64, depth: 32, stages: 4, resident: 2, efficiency: 0.92, narrowest: 4, narrowest_with_sums: 16 },
    Candidate { method: Method::TensorCore, rows: 64, columns: 128, warp_rows: 32, warp_columns: 64, depth: 32, stages: 4, resident: 3, efficiency: 0.75, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::TensorCore, rows: 128, columns: 64, warp_rows: 64, warp_columns: 32, depth: 32, stages: 4, resident: 2, efficiency: 0.75, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::TensorCore, rows: 64, columns: 64, warp_rows: 32, warp_columns: 32, depth: 32, stages: 4, resident: 4, efficiency: 0.55, narrowest: 2, narrowest_with_sums: 2 },
    Candidate { method: Method::TensorCore, rows: 16, columns: 128, warp_rows: 16, warp_columns: 32, depth: 64, stages: 4, resident: 2, efficiency: 0.20, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::Tf32, rows: 128, columns: 256, warp_rows: 64, warp_columns: 64, depth: 16, stages: 4, resident: 1, efficiency: 1.00, narrowest: 4, narrowest_with_sums: 16 },
    Candidate { method: Method::Tf32, rows: 256, columns: 128, warp_rows: 64, warp_columns: 64, depth: 16, stages: 4, resident: 1, efficiency: 1.00, narrowest: 4, narrowest_with_sums: 16 },
    Candidate { method: Method::Tf32, rows: 128, columns: 128, warp_rows: 64, warp_columns: 64, depth: 16, stages: 4, resident: 2, efficiency: 0.92, narrowest: 4, narrowest_with_sums: 16 },
    Candidate { method: Method::Tf32, rows: 64, columns: 128, warp_rows: 32, warp_columns: 64, depth: 16, stages: 4, resident: 3, efficiency: 0.75, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::Tf32, rows: 128, columns: 64, warp_rows: 64, warp_columns: 32, depth: 16, stages: 4, resident: 2, efficiency: 0.75, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::Tf32, rows: 64, columns: 64, warp_rows: 32, warp_columns: 32, depth: 16, stages: 4, resident: 4, efficiency: 0.55, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::Tf32, rows: 16, columns: 128, warp_rows: 16, warp_columns: 32, depth: 32, stages: 4, resident: 2, efficiency: 0.20, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::ThreeTf32, rows: 128, columns: 128, warp_rows: 64, warp_columns: 32, depth: 16, stages: 4, resident: 1, efficiency: 0.95, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::ThreeTf32, rows: 64, columns: 64, warp_rows: 32, warp_columns: 32, depth: 16, stages: 4, resident: 3, efficiency: 0.75, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::ThreeTf32, rows: 16, columns: 128, warp_rows: 16, warp_columns: 32, depth: 32, stages: 4, resident: 2, efficiency: 0.25, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::MultiplyAdd, rows: 128, columns: 128, warp_rows: 32, warp_columns: 64, depth: 16, stages: 3, resident: 1, efficiency: 0.90, narrowest: 16, narrowest_with_sums: NEVER },
    Candidate { method: Method::MultiplyAdd, rows: 64, columns: 64, warp_rows: 32, warp_columns: 32, depth: 16, stages: 3, resident: 4, efficiency: 0.70, narrowest: 4, narrowest_with_sums: 4 },
    Candidate { method: Method::MultiplyAdd, rows: 32, columns: 64, warp_rows: 32, warp_columns: 32, depth: 16, stages: 3, resident: 8, efficiency: 0.55, narrowest: 4, narrowest_with_sums: 4 },
];
