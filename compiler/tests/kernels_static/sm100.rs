//! The kernels of sm_100a: products are started one after the other with operands that the warp shares, and the main loop
//! issues faster than the tensor cores multiply.

use raddle_compiler::codegen::nvptx::{Architecture, Plan, Report, Target, Toolkit, emit_tuned};
use raddle_compiler::codegen::{ElementType, KernelDescription, TileSize, Wish};

use super::kernels_layouts::LAYOUTS;
use super::{busy_loop, forward, input_gradient, weight_gradient, with_every_activation};

/// Extents that divide into every tile, and extents that leave every edge ragged.
const REGULAR: (u64, u64, u64) = (4096, 4096, 1024);
const RAGGED: (u64, u64, u64) = (2040, 2056, 1000);
/// One stage of depth and less than a tile.
const SMALL: (u64, u64, u64) = (8, 40, 24);

/// What [`super::report`] says, after asserting that `tcgen05.mma` multiplies what TMA brings.
fn report(kernel: &KernelDescription, wish: impl Into<Wish>) -> Report {
    let (report, sass) = super::report(kernel, Architecture::Sm100a, wish);
    assert_eq!(
        report.matrix_instructions,
        sass.count("UTCHMMA"),
        "{report}"
    );
    // Four for each stage, of which the loop holds one; loads of sums and of tiles.
    assert_eq!(sass.count("UTCHMMA"), 4, "{report}");
    assert!(
        sass.count("LDTM") > 0 && sass.count("UTMALDG") > 0,
        "{report}"
    );
    report
}

/// A tile size, and what is asked of it.
struct Tile {
    columns: u32,
    /// The most stall cycles of the main loop per cycle of the tensor cores.
    at_most: f64,
    /// The element types of the ops that are assembled for each layout.
    elements: &'static [ElementType],
}

/// Ops over all layouts between them, and one ragged.
fn check(tile: &Tile) {
    let Tile {
        columns,
        at_most,
        elements,
    } = *tile;
    let size = Some(TileSize { rows: 128, columns });
    for (index, layouts) in LAYOUTS.into_iter().enumerate() {
        for (further, &element) in elements.iter().enumerate() {
            let plain = forward(element, REGULAR, layouts);
            let kernels = [plain, weight_gradient(plain), input_gradient(plain)];
            let report = report(&kernels[(index + further) % 3], size);
            assert!(matches!(report.plan, Plan::TensorMemory(_)), "{report}");
            let round = busy_loop(&report, at_most);
            assert_eq!(round.matrix_instructions, 4, "{report}");
            // Four products of 128 rows and 16 terms, at 4096 multiply-adds a cycle.
            assert_eq!(round.tensor_cycles, 4 * columns / 2, "{report}");
        }
    }
    let ragged = forward(elements[0], RAGGED, LAYOUTS[0]);
    report(&ragged, size);
}

#[test]
fn tile_128x256() {
    check(&Tile {
        columns: 256,
        at_most: 0.5,
        elements: &[ElementType::Bf16, ElementType::F16],
    });
}

#[test]
fn tile_128x128() {
    check(&Tile {
        columns: 128,
        at_most: 0.75,
        elements: &[ElementType::F16],
    });
}

#[test]
fn tile_128x64() {
    check(&Tile {
        columns: 64,
        at_most: 1.5,
        elements: &[ElementType::Bf16],
    });
}

#[test]
fn activations_types_and_edges() {
    for (index, [kernel, anywhere]) in with_every_activation([RAGGED, SMALL]).enumerate() {
        let next = [kernel, input_gradient(kernel)][index % 2];
        report(&next, Wish::default());
        report(&anywhere, Wish::default());
    }
}

#[test]
fn shared_tiles_and_sums_over_rows() {
    let plain = forward(ElementType::Bf16, (256, 512, 8192), LAYOUTS[0]);
    let summed = KernelDescription {
        bias: Some(ElementType::F32),
        ..input_gradient(forward(ElementType::F16, RAGGED, LAYOUTS[1]))
    };
    for (kernel, splits) in [(plain, 8), (summed, 1), (summed, 4)] {
        let wish = Wish {
            tile: Some(TileSize {
                rows: 128,
                columns: 256,
            }),
            splits: Some(splits),
        };
        report(&kernel, wish);
    }
}

#[test]
fn what_goes_the_older_way_is_assembled_too() {
    for (element, shape, reason) in [
        (ElementType::Bf16, (512, 512, 513), "16 bytes"),
        (ElementType::F32, (512, 512, 512), "16-bit elements"),
    ] {
        let kernel = forward(element, shape, LAYOUTS[0]);
        let ptx = emit_tuned(&kernel, Target::of(Architecture::Sm100a), None)
            .unwrap()
            .ptx;
        let report = Report::of(&ptx, &Toolkit::discover()).unwrap();
        let said = report.to_string();
        assert!(
            said.contains("without tcgen05:") && said.contains(reason),
            "{said}"
        );
        assert_eq!(report.resources.spill_store_bytes, 0, "{said}");
    }
}
