//! What NVIDIA's assembler says about the kernels of sm_90a: none spills, none waits for products it need not wait for,
//! and the main loops issue faster than the tensor cores multiply.
//!
//! One test per tile size, over layouts, element types, ops, activations and edges.
#![cfg(feature = "llvm")]

mod kernels_layouts;

use raddle_compiler::codegen::nvptx::{
    Architecture, Plan, Report, Sass, Target, Toolkit, emit_tuned,
};
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, TileSize,
};

use kernels_layouts::LAYOUTS;

/// Extents that divide into every tile, and extents that leave every edge ragged.
const REGULAR: (u64, u64, u64) = (2048, 2048, 1024);
const RAGGED: (u64, u64, u64) = (2040, 2056, 1000);
/// One stage of depth and less than a tile.
const SMALL: (u64, u64, u64) = (8, 40, 24);

/// Emits and assembles a kernel, and asserts that it takes no stack, spills nothing, draws no message, and multiplies by
/// `wgmma` what TMA brings.
fn report(kernel: &KernelDescription, tile: Option<TileSize>) -> Report {
    let ptx = emit_tuned(kernel, Target::of(Architecture::Sm90a), tile)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error}"))
        .ptx;
    let toolkit = Toolkit::discover();
    let cubin = toolkit
        .assemble(&ptx)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
    let printed = toolkit
        .disassemble(&cubin)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
    let sass = Sass::read(&printed).unwrap();
    let report = Report::from_parts(&ptx, &cubin, &sass);
    let resources = report.resources;
    let spilled = resources.spill_store_bytes + resources.spill_load_bytes;
    assert_eq!(
        (spilled, resources.stack_bytes),
        (0, 0),
        "{kernel:?}\n{report}"
    );
    assert!(report.messages.is_empty(), "{kernel:?}\n{report}");
    assert!(report.occupancy.blocks > 0, "{kernel:?}\n{report}");
    assert_eq!(report.matrix_instructions, sass.count("HGMMA"), "{report}");
    assert!(
        sass.count("HGMMA") > 0 && sass.count("UTMALDG") > 0,
        "{report}"
    );
    report
}

fn forward(
    element: ElementType,
    (m, n, k): (u64, u64, u64),
    (a, b): (MatrixLayout, MatrixLayout),
) -> KernelDescription {
    KernelDescription {
        a,
        b,
        bias: Some(element),
        activation: Activation::GeluErf,
        auxiliary: true,
        ..KernelDescription::product(element, m, n, k)
    }
}

fn input_gradient(kernel: KernelDescription) -> KernelDescription {
    KernelDescription {
        op: KernelOp::InputGradient,
        bias: None,
        auxiliary: false,
        ..kernel
    }
}

fn weight_gradient(kernel: KernelDescription) -> KernelDescription {
    KernelDescription {
        op: KernelOp::WeightGradient,
        output: ElementType::F32,
        bias: Some(ElementType::F32),
        activation: Activation::None,
        auxiliary: false,
        accumulate: true,
        ..kernel
    }
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
            let round = report.product_loop.expect("the depth takes many rounds");
            let Plan::Warpgroups(plan) = report.plan else {
                panic!("{report}");
            };
            let cycles = rows * columns / plan.groups / 32;
            assert_eq!(round.tensor_cycles, cycles, "{report}");
            let ratio = f64::from(round.stall_cycles) / f64::from(round.tensor_cycles);
            assert!(ratio <= at_most, "{ratio}\n{report}");
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
    let biases = [
        None,
        Some(ElementType::F32),
        Some(ElementType::F16),
        Some(ElementType::Bf16),
    ];
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        let element = [ElementType::Bf16, ElementType::F16][index % 2];
        let layouts = LAYOUTS[index % LAYOUTS.len()];
        let kernel = KernelDescription {
            activation,
            bias: biases[index % biases.len()],
            output: [element, ElementType::F32][index / 2 % 2],
            batch: 1 + index as u64 % 2,
            ..forward(element, [RAGGED, SMALL][index % 2], layouts)
        };
        report(&kernel, None);
        report(&input_gradient(kernel), None);
        // Rows of the result that start anywhere.
        let anywhere = KernelDescription {
            c: MatrixLayout {
                leading: Some(4097),
                ..MatrixLayout::ROW_MAJOR
            },
            ..kernel
        };
        report(&anywhere, None);
    }
}
