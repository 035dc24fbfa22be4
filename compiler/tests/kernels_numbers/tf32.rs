//! Products of f32 elements on tensor cores: rounded to tf32, and in two parts each. The sums to compare with are those of the
//! rounded inputs in the first case and of the inputs as they are in the second, within the same bound.

use raddle_compiler::codegen::nvptx::{Architecture, Plan, Report, Toolkit};
use raddle_compiler::codegen::oracle::Inputs;
use raddle_compiler::codegen::tiling::Method;
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, Math, MatrixLayout, MatrixOrder, TileSize,
};
use raddle_ptxsim::FindingKind;

use super::run::{self, WAYS, run};
use super::{LATE, LAYOUTS, SHAPES, check, forward};

const MATHS: [Math; 2] = [Math::Tf32, Math::ThreeTf32];

fn tf32(math: Math, shape: (u64, u64, u64), layout: usize) -> KernelDescription {
    forward(ElementType::F32, shape, layout).with_math(math)
}

#[test]
fn every_shape_and_layout() {
    for (index, shape) in SHAPES.into_iter().enumerate() {
        // Each shape with half of the layouts, each of which comes with both ways to multiply.
        for layout in [index % 2, index % 2 + 2] {
            let activation = Activation::ALL[(index + layout) % Activation::ALL.len()];
            let kernel = KernelDescription {
                activation,
                ..tf32(MATHS[(index / 2 + layout / 2) % 2], shape, layout)
            };
            check(&kernel, None);
        }
    }
}

#[test]
fn every_tile() {
    let tf32_tiles = [
        (128, 256),
        (256, 128),
        (128, 128),
        (64, 128),
        (128, 64),
        (64, 64),
        (16, 128),
    ];
    let tiles = tf32_tiles.map(|size| (Math::Tf32, size));
    let three = [(128, 128), (64, 64), (16, 128)].map(|size| (Math::ThreeTf32, size));
    for (index, (math, (rows, columns))) in tiles.into_iter().chain(three).enumerate() {
        // More stages than the depth has tiles, as many, and more tiles than stages.
        let depth = [20, 64, 84][index % 3];
        let shape = (u64::from(rows) + 4, u64::from(columns) - 4, depth);
        let tile = Some(TileSize { rows, columns });
        check(&tf32(math, shape, index), tile);
    }
}

#[test]
fn gaps_and_offsets() {
    let gap = |order, leading, offset| MatrixLayout {
        order,
        leading: Some(leading),
        offset,
        batch_stride: None,
    };
    for (index, (a_offset, b_offset, c_offset)) in
        [(0, 8, 16), (4, 2, 6), (1, 3, 5)].into_iter().enumerate()
    {
        for order in [MatrixOrder::RowMajor, MatrixOrder::ColumnMajor] {
            let kernel = KernelDescription {
                a: gap(order, 80, a_offset),
                b: gap(order, 72, b_offset),
                c: gap(MatrixOrder::RowMajor, 56, c_offset),
                auxiliary: false,
                bias: Some(ElementType::Bf16),
                ..tf32(MATHS[index % 2], (66, 50, 70), 0)
            };
            check(&kernel, None);
        }
    }
}

#[test]
fn gradients() {
    for (index, (m, n, k)) in SHAPES.into_iter().enumerate() {
        let (a, b) = LAYOUTS[index % LAYOUTS.len()];
        let plain = KernelDescription {
            a,
            b,
            ..KernelDescription::product(ElementType::F32, m, n, k)
        }
        .with_math(MATHS[index / 2 % 2]);
        check(
            &KernelDescription {
                op: KernelOp::InputGradient,
                activation: Activation::ALL[index % Activation::ALL.len()],
                ..plain
            },
            None,
        );
        check(
            &KernelDescription {
                op: KernelOp::WeightGradient,
                bias: (index % 3 != 0).then_some(ElementType::F32),
                accumulate: index % 2 == 0,
                ..plain
            },
            None,
        );
    }
}

#[test]
fn sums_of_rounded_gradients() {
    for a in [MatrixLayout::ROW_MAJOR, MatrixLayout::COLUMN_MAJOR] {
        for (m, n) in [(70, 33), (1, 1), (64, 128)] {
            let kernel = KernelDescription {
                op: KernelOp::BiasGradient,
                math: Math::Tf32,
                a,
                bias: Some(ElementType::F32),
                ..KernelDescription::product(ElementType::F32, m, n, 1)
            };
            check(&kernel, None);
        }
    }
}

#[test]
fn batches() {
    for (index, math) in MATHS.into_iter().enumerate() {
        let padded = |stride| MatrixLayout {
            batch_stride: Some(stride),
            ..MatrixLayout::ROW_MAJOR
        };
        let plain = tf32(math, (36, 40, 24), index);
        check(&KernelDescription { batch: 3, ..plain }, None);
        let kernel = KernelDescription {
            op: [KernelOp::InputGradient, KernelOp::WeightGradient][index],
            batch: 2,
            a: padded(5001),
            b: padded(4802),
            c: padded(6002),
            bias: None,
            auxiliary: false,
            ..tf32(math, (66, 60, 72), 0)
        };
        check(&kernel, None);
    }
}

#[test]
fn hopper_names_the_path() {
    let toolkit = Toolkit::discover();
    for layout in 0..LAYOUTS.len() {
        let kernel = tf32(MATHS[layout % 2], SHAPES[layout + 1], layout);
        let ptx = run::emit(&kernel, Architecture::Sm90a, None);
        let method = [Method::Tf32, Method::ThreeTf32][layout % 2];
        assert!(matches!(ptx.plan, Plan::Product(plan) if plan.method == method));
        run::check(&ptx, &WAYS);
        if layout == 1 {
            let report = Report::of(&ptx, &toolkit).unwrap().to_string();
            assert!(report.contains("mma.sync m16n8k8 on tf32"), "{report}");
            assert!(
                report.contains("cvt.rna rounds to tf32 in registers"),
                "{report}"
            );
        }
    }
}

#[test]
fn elements_that_are_not_rounded_are_found() {
    let kernel = tf32(Math::Tf32, (64, 64, 32), 1);
    let ptx = run::emit(&kernel, Architecture::Sm80, None);
    let mut changed = ptx.clone();
    changed.text = ptx.text.replace("cvt.rna.tf32.f32", "mov.b32");
    assert_ne!(changed.text, ptx.text);
    let inputs = Inputs::random(&kernel, 1);
    for way in WAYS {
        let (ran, outcome) = run(&changed, &inputs, way);
        let kinds = outcome.findings.iter().map(|finding| finding.kind);
        let kinds: Vec<_> = kinds.collect();
        assert!(!kinds.is_empty());
        assert_eq!(kinds, [FindingKind::Unrounded].repeat(kinds.len()));
        assert!(!ran.compare(&kernel, &inputs).is_right());
    }
    // One is enough.
    let (start, end) = ptx.text.rsplit_once("cvt.rna.tf32.f32").unwrap();
    changed.text = format!("{start}mov.b32{end}");
    let (_, outcome) = run(&changed, &inputs, LATE);
    assert_eq!(outcome.findings[0].kind, FindingKind::Unrounded);
}

#[test]
fn two_parts_are_as_good_as_single_precision() {
    let shape = (64, 64, 256);
    let worst = |math| {
        let kernel = KernelDescription {
            auxiliary: false,
            bias: None,
            ..tf32(math, shape, 0)
        };
        let inputs = Inputs::random(&kernel, 3);
        // What the kernel rounds does not count here.
        let exact = KernelDescription {
            math: Math::Full,
            ..kernel
        };
        let exact_inputs = Inputs::random(&exact, 3);
        let (ran, outcome) = run(&run::emit(&kernel, Architecture::Sm80, None), &inputs, LATE);
        assert!(outcome.findings.is_empty());
        ran.compare(&exact, &exact_inputs).worst
    };
    let [full, rounded, parts] = Math::ALL.map(worst);
    assert!(parts < 2.0 * full, "{parts} {full}");
    assert!(rounded > 50.0 * full, "{rounded} {full}");
}
