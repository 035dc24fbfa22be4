//! The kernels of sm_90a: none waits for products it need not wait for, and the main loops issue faster than the tensor cores
//! multiply. One test per tile size, over layouts, element types, ops, activations and edges.

use raddle_compiler::codegen::nvptx::{Architecture, Plan, Report};
use raddle_compiler::codegen::{ElementType, KernelDescription, TileSize};

use super::kernels_layouts::LAYOUTS;
use super::{busy_loop, forward, input_gradient, weight_gradient, with_every_activation};

/// Extents that divide into every tile, and extents that leave every edge ragged.
const REGULAR: (u64, u64, u64) = (2048, 2048, 1024);
const RAGGED: (u64, u64, u64) = (2040, 2056, 1000);
/// One stage of depth and less than a tile.
const SMALL: (u64, u64, u64) = (8, 40, 24);

/// What [`super::report`] says, after asserting that `wgmma` multiplies what TMA brings.
fn report(kernel: &KernelDescription, tile: Option<TileSize>) -> Report {
    let (report, sass) = super::report(kernel, Architecture::Sm90a, tile);
    assert_eq!(report.matrix_instructions, sass.count("HGMMA"), "{report}");
    assert!(
        sass.count("HGMMA") > 0 && sass.count("UTMALDG") > 0,
        "{report}"
    );
    report
}

/// A tile size, and what is asked of it.
struct Tile {
    element: ElementType,
    rows: u32,
    columns: u32,
    /// The most stall cycles of the main loop per cycle of the tensor cores.
    at_most: f64,
    /// Ops that are assembled for each layout.
    ops: usize,
}

/// All ops over all layouts between them, and one ragged.
fn check(tile: &Tile) {
    let Tile {
        element,
        rows,
        columns,
        at_most,
        ops,
    } = *tile;
    let tile = Some(TileSize { rows, columns });
    for (index, layouts) in LAYOUTS.into_iter().enumerate() {
        let plain = forward(element, REGULAR, layouts);
        let mut kernels = [plain, weight_gradient(plain), input_gradient(plain)];
        kernels.rotate_left(index % 3);
        for kernel in &kernels[..ops] {
            let report = report(kernel, tile);
            let round = busy_loop(&report, at_most);
            let Plan::Warpgroups(plan) = report.plan else {
                panic!("{report}");
            };
            let cycles = rows * columns / plan.groups / 32;
            assert_eq!(round.tensor_cycles, cycles, "{report}");
        }
    }
    let ragged = forward(element, RAGGED, LAYOUTS[0]);
    report(&ragged, tile);
}

const LARGE: Tile = Tile {
    element: ElementType::Bf16,
    rows: 128,
    columns: 256,
    at_most: 0.5,
    ops: 2,
};

const SMALLER: Tile = Tile { ops: 1, ..LARGE };

#[test]
fn tile_128x256() {
    check(&LARGE);
}

#[test]
fn tile_128x256_f16() {
    check(&Tile {
        element: ElementType::F16,
        ops: 1,
        ..LARGE
    });
}

#[test]
fn tile_256x128() {
    check(&Tile {
        rows: 256,
        columns: 128,
        ..LARGE
    });
}

#[test]
fn tile_128x128() {
    check(&Tile {
        columns: 128,
        ..SMALLER
    });
}

#[test]
fn tile_64x128() {
    check(&Tile {
        rows: 64,
        columns: 128,
        ..SMALLER
    });
}

#[test]
fn tile_128x64() {
    check(&Tile {
        columns: 64,
        at_most: 1.0,
        ..SMALLER
    });
}

#[test]
fn tile_64x64() {
    check(&Tile {
        element: ElementType::F16,
        rows: 64,
        columns: 64,
        at_most: 1.0,
        ..SMALLER
    });
}

#[test]
fn activations_types_and_edges() {
    for [kernel, anywhere] in with_every_activation([RAGGED, SMALL]) {
        report(&kernel, None);
        report(&input_gradient(kernel), None);
        report(&anywhere, None);
    }
}
