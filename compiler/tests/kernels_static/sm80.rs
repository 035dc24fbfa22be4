//! The kernels of sm_80: one test per tile size, over layouts, element types, activations and edges.

use raddle_compiler::codegen::nvptx::{Architecture, Report, Target, Toolkit, emit_tuned};
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, TileSize,
};

use super::kernels_layouts::LAYOUTS;
use super::{BIASES, busy_loop, forward, input_gradient};

/// Extents that divide into every tile, and extents that leave every edge ragged.
const REGULAR: (u64, u64, u64) = (2048, 2048, 1024);
const RAGGED: (u64, u64, u64) = (2040, 2056, 1000);
/// Lines that start at addresses divisible by 4, and by 2 only.
const NARROW: (u64, u64, u64) = (1998, 2002, 1002);
const ODD: (u64, u64, u64) = (1997, 2001, 1003);
/// Less than one stage of the pipeline in every direction.
const TINY: (u64, u64, u64) = (3, 5, 1);

fn assemble(kernel: &KernelDescription, tile: Option<TileSize>) {
    super::assemble(kernel, Architecture::Sm80, tile);
}

fn report(kernel: &KernelDescription, tile: Option<TileSize>) -> Report {
    super::report(kernel, Architecture::Sm80, tile).0
}

/// All layouts of one tile size with regular extents, whose reports are returned, and two of them with ragged ones.
fn check_tile(element: ElementType, rows: u32, columns: u32) -> Vec<Report> {
    let tile = Some(TileSize { rows, columns });
    for layouts in [LAYOUTS[0], LAYOUTS[3]] {
        assemble(&forward(element, RAGGED, layouts), tile);
    }
    LAYOUTS
        .iter()
        .map(|&layouts| report(&forward(element, REGULAR, layouts), tile))
        .collect()
}

/// Asserts the bound on cycles to issue over cycles of the tensor core, and that copies are wide and asynchronous.
fn assert_busy(reports: &[Report], at_most: f64) {
    for report in reports {
        let round = busy_loop(report, at_most);
        assert!(round.asynchronous_copies > 0, "{report}");
        assert!(report.wide_copies >= round.asynchronous_copies, "{report}");
    }
}

#[test]
fn tile_128x256() {
    let reports = check_tile(ElementType::Bf16, 128, 256);
    assert_busy(&reports, 1.1);
    assert!(reports.iter().all(|report| {
        report
            .product_loop
            .is_some_and(|round| round.matrix_instructions == 64)
    }));
}

#[test]
fn tile_256x128() {
    assert_busy(&check_tile(ElementType::Bf16, 256, 128), 1.1);
}

#[test]
fn tile_128x256_f16() {
    assert_busy(&check_tile(ElementType::F16, 128, 256), 1.1);
}

#[test]
fn tile_128x128() {
    assert_busy(&check_tile(ElementType::Bf16, 128, 128), 1.1);
}

#[test]
fn tile_64x128() {
    assert_busy(&check_tile(ElementType::Bf16, 64, 128), 1.2);
}

#[test]
fn tile_128x64() {
    assert_busy(&check_tile(ElementType::Bf16, 128, 64), 1.2);
}

#[test]
fn tile_64x64() {
    assert_busy(&check_tile(ElementType::Bf16, 64, 64), 1.3);
}

#[test]
fn tile_16x128() {
    check_tile(ElementType::Bf16, 16, 128);
}

fn check_single_precision(rows: u32, columns: u32) {
    for report in check_tile(ElementType::F32, rows, columns) {
        let round = report.product_loop.expect("the depth takes many rounds");
        assert_eq!(report.matrix_instructions, 0, "{report}");
        // One multiply-add of a warp takes an sm_80 scheduler two cycles.
        let ratio = f64::from(round.stall_cycles) / f64::from(2 * round.multiply_adds);
        assert!(ratio <= 1.1, "{ratio}\n{report}");
    }
}

#[test]
fn single_precision_128x128() {
    check_single_precision(128, 128);
}

#[test]
fn single_precision_64x64() {
    check_single_precision(64, 64);
}

#[test]
fn single_precision_32x64() {
    check_single_precision(32, 64);
}

#[test]
fn narrow_copies() {
    for extents in [NARROW, ODD] {
        for layouts in LAYOUTS {
            assemble(&forward(ElementType::Bf16, extents, layouts), None);
        }
        report(&forward(ElementType::F16, extents, LAYOUTS[1]), None);
        report(&forward(ElementType::F32, extents, LAYOUTS[2]), None);
    }
}

#[test]
fn tiny_extents() {
    for layouts in LAYOUTS {
        for element in ElementType::ALL {
            assemble(&forward(element, TINY, layouts), None);
        }
    }
}

#[test]
fn activations_and_bias_types() {
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        for (shift, element) in ElementType::ALL.into_iter().enumerate() {
            let kernel = KernelDescription {
                activation,
                bias: BIASES[(index + shift) % BIASES.len()],
                ..KernelDescription::product(element, 320, 192, 128)
            };
            assemble(&kernel, None);
        }
    }
}

#[test]
fn input_gradients() {
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        for element in ElementType::ALL {
            let layouts = LAYOUTS[index % LAYOUTS.len()];
            let kernel = KernelDescription {
                activation,
                ..forward(element, (2048, 1000, 1024), layouts)
            };
            assemble(&input_gradient(kernel), None);
        }
    }
}

fn weight_gradient(element: ElementType, (m, n, k): (u64, u64, u64)) -> KernelDescription {
    super::weight_gradient(KernelDescription::product(element, m, n, k))
}

#[test]
fn weight_gradients() {
    let tile = |rows, columns| Some(TileSize { rows, columns });
    let large = weight_gradient(ElementType::Bf16, (4096, 2048, 2048));
    let reports = [
        report(&large, tile(128, 256)),
        report(&large, tile(256, 128)),
        report(&large, tile(128, 128)),
    ];
    assert_busy(&reports, 1.1);
    for size in [tile(64, 128), tile(128, 64), tile(64, 64), tile(16, 128)] {
        assemble(&large, size);
        assemble(&weight_gradient(ElementType::F16, NARROW), size);
    }
}

#[test]
fn weight_gradients_at_the_edges() {
    for element in ElementType::ALL {
        for extents in [RAGGED, NARROW, ODD, TINY] {
            assemble(&weight_gradient(element, extents), None);
        }
    }
}

#[test]
fn bias_gradients() {
    for element in ElementType::ALL {
        for a in [MatrixLayout::ROW_MAJOR, MatrixLayout::COLUMN_MAJOR] {
            for (m, n) in [(4096, 4096), (4097, 33), (1, 1)] {
                let kernel = KernelDescription {
                    op: KernelOp::BiasGradient,
                    a,
                    bias: Some(ElementType::F32),
                    ..KernelDescription::product(element, m, n, 1)
                };
                assemble(&kernel, None);
            }
        }
    }
}

#[test]
fn every_architecture() {
    let kernel = forward(ElementType::Bf16, REGULAR, LAYOUTS[0]);
    for architecture in Architecture::ALL {
        let emitted = emit_tuned(&kernel, Target::of(architecture), None).unwrap();
        let cubin = Toolkit::discover().assemble(&emitted.ptx).unwrap();
        assert_eq!(cubin.resources.spill_store_bytes, 0, "{architecture}");
        let limits = architecture.limits();
        assert!(
            emitted.ptx.launch.shared_bytes <= limits.shared_bytes_per_block,
            "{architecture}"
        );
    }
}
