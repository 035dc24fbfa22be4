//! Kernels that multiply f32 elements on tensor cores: all multiply matrices, and the main loops keep the tensor cores busy.

use raddle_compiler::codegen::nvptx::{Architecture, Report};
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, Math, MatrixLayout, TileSize,
};

use super::kernels_layouts::LAYOUTS;
use super::{busy_loop, forward};

/// Extents that divide into every tile, that leave every edge ragged, whose lines start at multiples of 8 and of 4 bytes, and less
/// than one stage in every direction.
const REGULAR: (u64, u64, u64) = (2048, 2048, 1024);
const RAGGED: (u64, u64, u64) = (2036, 2044, 1012);
const NARROW: (u64, u64, u64) = (1998, 2002, 1002);
const ODD: (u64, u64, u64) = (1997, 2001, 1003);
const TINY: (u64, u64, u64) = (3, 5, 1);

/// What [`super::report`] says, after asserting that the kernel multiplies tf32 numbers.
fn report_on(
    architecture: Architecture,
    kernel: &KernelDescription,
    tile: Option<TileSize>,
) -> Report {
    let (report, sass) = super::report(kernel, architecture, tile);
    let mut products = sass.instructions().iter().map(|one| one.operation());
    assert!(
        products.any(|operation| operation.ends_with(".TF32")),
        "{report}"
    );
    report
}

fn report(kernel: &KernelDescription, tile: Option<TileSize>) -> Report {
    report_on(Architecture::Sm80, kernel, tile)
}

fn with_everything(
    math: Math,
    extents: (u64, u64, u64),
    layouts: (MatrixLayout, MatrixLayout),
) -> KernelDescription {
    KernelDescription {
        math,
        ..forward(ElementType::F32, extents, layouts)
    }
}

fn weight_gradient(math: Math, extents: (u64, u64, u64), index: usize) -> KernelDescription {
    super::weight_gradient(with_everything(
        math,
        extents,
        LAYOUTS[index % LAYOUTS.len()],
    ))
}

fn input_gradient(math: Math, extents: (u64, u64, u64), index: usize) -> KernelDescription {
    KernelDescription {
        activation: Activation::ALL[index % Activation::ALL.len()],
        ..super::input_gradient(with_everything(
            math,
            extents,
            LAYOUTS[index % LAYOUTS.len()],
        ))
    }
}

/// One tile size and layout with regular extents; asserts the bound on cycles to issue over cycles of the tensor core.
fn check_tile(math: Math, (rows, columns): (u32, u32), layout: usize, at_most: f64) {
    let tile = Some(TileSize { rows, columns });
    let report = report(&with_everything(math, REGULAR, LAYOUTS[layout]), tile);
    let round = busy_loop(&report, at_most);
    assert!(round.asynchronous_copies > 0, "{report}");
    assert!(report.wide_copies >= round.asynchronous_copies, "{report}");
}

/// Tiles with the bound on that ratio.
const TILES: [(Math, (u32, u32), f64); 10] = [
    (Math::Tf32, (128, 256), 1.2),
    (Math::Tf32, (256, 128), 1.2),
    (Math::Tf32, (128, 128), 1.2),
    (Math::Tf32, (64, 128), 1.4),
    (Math::Tf32, (128, 64), 1.5),
    (Math::Tf32, (64, 64), 1.8),
    (Math::Tf32, (16, 128), 3.0),
    (Math::ThreeTf32, (128, 128), 1.4),
    (Math::ThreeTf32, (64, 64), 1.5),
    (Math::ThreeTf32, (16, 128), 2.0),
];

#[test]
fn large_tiles() {
    for (tile, layout) in [(0, 0), (0, 3), (1, 2), (2, 1), (7, 0), (7, 3)] {
        let (math, size, at_most) = TILES[tile];
        check_tile(math, size, layout, at_most);
    }
}

#[test]
fn edges() {
    for (math, extents, layout) in [
        (Math::Tf32, NARROW, 0),
        (Math::ThreeTf32, ODD, 1),
        (Math::Tf32, TINY, 2),
    ] {
        report(&with_everything(math, extents, LAYOUTS[layout]), None);
    }
}

#[test]
fn gradients() {
    report(&input_gradient(Math::Tf32, ODD, 2), None);
    let tile = |rows, columns| Some(TileSize { rows, columns });
    report(&weight_gradient(Math::Tf32, REGULAR, 0), tile(128, 256));
    report(&weight_gradient(Math::ThreeTf32, NARROW, 0), None);
}

#[test]
fn hopper() {
    let kernel = with_everything(Math::Tf32, REGULAR, LAYOUTS[0]);
    let report = report_on(Architecture::Sm90a, &kernel, None);
    assert!(
        report
            .to_string()
            .contains("cvt.rna rounds to tf32 in registers")
    );
}

#[test]
#[ignore = "takes long"]
fn everything() {
    for (index, (math, size, at_most)) in TILES.into_iter().enumerate() {
        let (rows, columns) = size;
        let tile = Some(TileSize { rows, columns });
        for (layout, layouts) in LAYOUTS.into_iter().enumerate() {
            check_tile(math, size, layout, at_most);
            report(&with_everything(math, RAGGED, layouts), tile);
        }
        report(&weight_gradient(math, REGULAR, index), tile);
    }
    for math in [Math::Tf32, Math::ThreeTf32] {
        for (index, extents) in [REGULAR, RAGGED, NARROW, ODD, TINY].into_iter().enumerate() {
            report(&input_gradient(math, extents, index), None);
            report(&weight_gradient(math, extents, index), None);
            for layouts in LAYOUTS {
                let kernel = with_everything(math, extents, layouts);
                report(&kernel, None);
                report_on(Architecture::Sm90a, &kernel, None);
            }
        }
    }
}
