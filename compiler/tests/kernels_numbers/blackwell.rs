//! The kernels of sm_100a: the same numbers by TMA and `tcgen05.mma`, and what happens if one of them is changed for the worse.

use raddle_compiler::codegen::nvptx::{Architecture, Plan, Ptx};
use raddle_compiler::codegen::warpgroup_tiling::StorePath;
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, TileSize, Wish,
};
use raddle_ptxsim::FindingKind;

use super::faults::{long, run_changed, with_lines, without};
use super::hopper::{SHAPES, lines};
use super::run::{self, WAYS};
use super::{LAYOUTS, forward, split};

fn emit(kernel: &KernelDescription, tile: Option<TileSize>) -> Ptx {
    run::emit(kernel, Architecture::Sm100a, tile)
}

/// Runs a kernel with its sums in tensor memory in both ways, and compares all that it writes.
fn check(kernel: &KernelDescription, tile: Option<TileSize>) {
    let ptx = emit(kernel, tile);
    assert!(matches!(ptx.plan, Plan::TensorMemory(_)), "{kernel:?}");
    run::check(&ptx, &WAYS);
}

const TILES: [(u32, u32); 3] = [(128, 256), (128, 128), (128, 64)];

fn tile(index: usize) -> Option<TileSize> {
    let (rows, columns) = TILES[index % TILES.len()];
    Some(TileSize { rows, columns })
}

#[test]
fn every_shape_and_layout() {
    for (index, (m, n, k)) in SHAPES.into_iter().enumerate() {
        for layout in [index, index + 1] {
            let shape = (lines(m, layout), n, k);
            let element = [ElementType::Bf16, ElementType::F16][(index + layout) % 2];
            check(&forward(element, shape, layout), None);
        }
    }
}

#[test]
fn every_tile_and_layout() {
    // More stages than the depth has, as many, and fewer.
    for (index, (rows, columns)) in TILES.into_iter().enumerate() {
        for layout in [index, index + 2, index + 3] {
            let depth = [64, 328, 584][(index + layout) % 3];
            let shape = (u64::from(rows) + 8, u64::from(columns) - 8, depth);
            let activation = Activation::ALL[(index + layout) % Activation::ALL.len()];
            let kernel = KernelDescription {
                activation,
                ..forward(ElementType::Bf16, shape, layout)
            };
            check(&kernel, tile(index));
        }
    }
}

#[test]
fn blocks_that_take_several_tiles() {
    // 156 tiles for 148 blocks, which have two accumulators each; one buffer for each half of 64 columns, and three.
    for auxiliary in [false, true] {
        let kernel = KernelDescription {
            auxiliary,
            output: if auxiliary {
                ElementType::F32
            } else {
                ElementType::Bf16
            },
            ..forward(ElementType::Bf16, (13 * 128, 12 * 64, 8), 0)
        };
        let ptx = emit(&kernel, tile(2));
        let Plan::TensorMemory(plan) = ptx.plan else {
            panic!("{:?}", ptx.plan);
        };
        assert!(plan.tile.tiles() > plan.tile.blocks && plan.accumulators == 2);
        run::check(&ptx, &WAYS);
    }
}

#[test]
fn every_activation_both_ways() {
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        let element = [ElementType::Bf16, ElementType::F16][index % 2];
        let (m, n, k) = SHAPES[index % SHAPES.len()];
        let output = [element, ElementType::F32][index / 2 % 2];
        let kernel = KernelDescription {
            activation,
            output,
            bias: [None, Some(ElementType::F32), Some(ElementType::Bf16)][index % 3],
            ..forward(element, (lines(m, index), n, k), index)
        };
        check(&kernel, tile(index));
        let (a, b) = LAYOUTS[(index + 2) % LAYOUTS.len()];
        let kernel = KernelDescription {
            op: KernelOp::InputGradient,
            output,
            a,
            b,
            activation,
            ..KernelDescription::product(element, lines(m, index + 2), n, k)
        };
        check(&kernel, tile(index + 1));
    }
}

#[test]
fn weight_gradients() {
    for (index, (m, n, k)) in [(72, 264, 136), (200, 72, 72), (8, 40, 264)]
        .into_iter()
        .enumerate()
    {
        for layout in [index, index + 1] {
            let (a, b) = LAYOUTS[layout % LAYOUTS.len()];
            let kernel = KernelDescription {
                op: KernelOp::WeightGradient,
                output: ElementType::F32,
                a,
                b,
                bias: (layout != 2).then_some(ElementType::F32),
                accumulate: (index + layout) % 2 == 0,
                ..KernelDescription::product(ElementType::Bf16, m, n, k)
            };
            check(&kernel, tile(index + 2 * layout));
        }
    }
}

#[test]
fn results_at_any_address_and_batches() {
    for (leading, offset) in [(45, 3), (46, 2), (48, 8)] {
        let kernel = KernelDescription {
            c: MatrixLayout {
                leading: Some(leading),
                offset,
                ..MatrixLayout::ROW_MAJOR
            },
            b: MatrixLayout {
                leading: Some(48),
                ..MatrixLayout::ROW_MAJOR
            },
            ..forward(ElementType::Bf16, (70, 41 + u64::from(offset != 3), 72), 0)
        };
        let ptx = emit(&kernel, None);
        let Plan::TensorMemory(plan) = ptx.plan else {
            panic!("{:?}", ptx.plan);
        };
        let is_direct = matches!(plan.tile.output, StorePath::Direct(_));
        assert_eq!(is_direct, leading != 48, "{kernel:?}");
        run::check(&ptx, &WAYS);
    }
    let plain = forward(ElementType::Bf16, (72, 40, 56), 0);
    check(&KernelDescription { batch: 3, ..plain }, None);
    let weights = KernelDescription {
        op: KernelOp::WeightGradient,
        batch: 2,
        output: ElementType::F32,
        accumulate: true,
        ..KernelDescription::product(ElementType::F16, 72, 48, 64)
    };
    check(&weights, None);
}

#[test]
fn blocks_that_share_tiles_and_sums_over_rows() {
    let forward = forward(ElementType::Bf16, (136, 200, 712), 0);
    let input_gradient = KernelDescription {
        op: KernelOp::InputGradient,
        activation: Activation::Relu,
        bias: Some(ElementType::F32),
        ..KernelDescription::product(ElementType::F16, 264, 136, 72)
    };
    let weight_gradient = KernelDescription {
        op: KernelOp::WeightGradient,
        output: ElementType::F32,
        bias: Some(ElementType::Bf16),
        accumulate: true,
        ..KernelDescription::product(ElementType::Bf16, 520, 72, 136)
    };
    for (index, (kernel, splits)) in [
        (forward, 4),
        (input_gradient, 1),
        (
            KernelDescription {
                n: 456,
                batch: 2,
                ..input_gradient
            },
            3,
        ),
        (weight_gradient, 5),
        // 160 pieces for 148 blocks.
        (
            KernelDescription {
                m: 40 * 128,
                n: 64,
                k: 256,
                ..forward
            },
            4,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let wish = Wish {
            tile: tile([0, 1, 2, 0, 2][index]),
            splits: Some(splits),
        };
        let ptx = run::emit(&kernel, Architecture::Sm100a, wish);
        let Plan::TensorMemory(plan) = ptx.plan else {
            panic!("{:?}", ptx.plan);
        };
        assert_eq!(plan.tile.parts.splits, splits);
        run::check(&ptx, &split::WAYS);
    }
}

#[test]
fn what_tma_cannot_copy_goes_the_older_way() {
    for kernel in [
        forward(ElementType::Bf16, (40, 24, 1), 0),
        forward(ElementType::F16, (33, 29, 37), 0),
        forward(ElementType::F32, (64, 64, 32), 0),
        KernelDescription {
            op: KernelOp::BiasGradient,
            bias: Some(ElementType::F32),
            ..KernelDescription::product(ElementType::Bf16, 64, 72, 1)
        },
    ] {
        let ptx = emit(&kernel, None);
        let is_product = matches!(ptx.plan, Plan::Product(_));
        assert_eq!(is_product, ptx.without_warpgroups.is_some(), "{kernel:?}");
        assert!(!matches!(ptx.plan, Plan::TensorMemory(_)), "{kernel:?}");
        run::check(&ptx, &WAYS);
    }
}

/// Changes a kernel with ten stages of depth, and lists what a run with late copies finds, and whether the numbers are right.
fn changed(change: impl Fn(&str) -> String) -> (Vec<FindingKind>, bool) {
    run_changed(emit(&long(), tile(1)), change)
}

fn all_are(kinds: &[FindingKind], kind: FindingKind) {
    assert!(
        !kinds.is_empty() && kinds.iter().all(|&one| one == kind),
        "{kinds:?}"
    );
}

#[test]
fn a_missing_wait_for_loads_is_found() {
    let (kinds, right) = changed(without(&["tcgen05.wait::ld"]));
    assert!(kinds.contains(&FindingKind::InFlight), "{kinds:?}");
    assert!(!right);
}

#[test]
fn a_missing_wait_for_products_is_found() {
    // The writers do not ask the accumulator's barrier again.
    let (kinds, right) = changed(|text| {
        let (before, after) = text.split_once("tcgen05.ld").expect("a load");
        let (start, wait) = before
            .rsplit_once("mbarrier.try_wait")
            .expect("a wait for the accumulator");
        let wait = with_lines(wait, &["@", "bra"], |_| String::new());
        format!("{start}mbarrier.try_wait{wait}tcgen05.ld{after}")
    });
    assert!(kinds.contains(&FindingKind::InFlight), "{kinds:?}");
    assert!(!right);
}

#[test]
fn missing_commits_are_found() {
    let (kinds, _) = changed(without(&["tcgen05.commit"]));
    assert_eq!(kinds, [FindingKind::Deadlock]);
}

#[test]
fn missing_fences_are_found() {
    let (kinds, _) = changed(without(&["tcgen05.fence::after_thread_sync"]));
    assert!(kinds.contains(&FindingKind::Fence), "{kinds:?}");
    // Nobody knows that the writers have read when the memory is given back.
    let (kinds, _) = changed(without(&["tcgen05.fence::before_thread_sync"]));
    all_are(&kinds, FindingKind::InFlight);
}

#[test]
fn tensor_memory_that_is_kept_is_found() {
    let (kinds, right) = changed(without(&["tcgen05.dealloc"]));
    assert_eq!(kinds, [FindingKind::TensorMemory]);
    assert!(right);
}

#[test]
fn too_few_columns_are_found() {
    let (kinds, _) = changed(|text| {
        let (_, after) = text.split_once("tcgen05.alloc").expect("an allocation");
        let (_, register) = after.split_once("], ").expect("a number of columns");
        let (register, _) = register.split_once(';').expect("a number of columns");
        let moved = format!("mov.b32 {register}, 128;");
        assert!(text.contains(&moved), "{moved}");
        text.replace(&moved, &moved.replace("128", "64"))
    });
    all_are(&kinds, FindingKind::OutOfBounds);
}

/// The constant of a shared memory descriptor along the depth: 128-byte permutation, groups of eight lines this far apart,
/// and the architecture's version.
fn constant(swizzle: u64, stride: u64, version: u64) -> String {
    (swizzle << 61 | version << 46 | stride << 32 | 1 << 16).to_string()
}

#[test]
fn wrong_descriptors_are_found() {
    let right = constant(2, 64, 1);
    let (_, numbers) = changed(|text| text.replace(&right, &constant(2, 32, 1)));
    assert!(!numbers, "a wrong stride");
    let (_, numbers) = changed(|text| text.replace(&right, &constant(0, 64, 1)));
    assert!(!numbers, "a missing swizzle");
    let (kinds, _) = changed(|text| text.replace(&right, &constant(2, 64, 0)));
    all_are(&kinds, FindingKind::Descriptor);
}

#[test]
fn sums_that_start_with_what_is_there_are_found() {
    let (kinds, _) = changed(|text| {
        with_lines(text, &["tcgen05.mma"], |line| {
            let (start, _) = line.rsplit_once(' ').expect("an operand");
            format!("{start} 1;")
        })
    });
    all_are(&kinds, FindingKind::Uninitialised);
}

#[test]
fn stages_that_are_given_back_too_early_are_found() {
    // The threads that start products say that they are complete at once.
    let (kinds, _) = changed(|text| {
        with_lines(text, &["tcgen05.commit"], |line| {
            let (_, barrier) = line.split_once('[').expect("a barrier");
            format!("mbarrier.arrive.shared.b64 _, [{barrier}")
        })
    });
    let too_early = |kind: &FindingKind| matches!(kind, FindingKind::InFlight | FindingKind::Race);
    assert!(
        !kinds.is_empty() && kinds.iter().all(too_early),
        "{kinds:?}"
    );
}
