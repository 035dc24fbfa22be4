//! Kernels whose blocks hand each other parts of sums: the main loops are as busy as those of other kernels, and nothing is
//! added up by atomic operations.

use raddle_compiler::codegen::nvptx::{Architecture, Report};
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, TileSize, Wish,
};

use super::kernels_layouts::LAYOUTS;
use super::{assemble, busy_loop, forward, look_into};

/// What [`super::report`] says, after asserting that the kernel's only atomic operations count.
fn report(kernel: &KernelDescription, architecture: Architecture, wish: Wish) -> Report {
    let (ptx, cubin) = assemble(kernel, architecture, wish);
    let operations = ptx.text.lines().map(str::trim_start);
    for line in operations.filter(|line| line.starts_with("atom.") || line.starts_with("red.")) {
        assert!(
            line.starts_with("atom.relaxed.gpu.global.inc.u32"),
            "{line}"
        );
    }
    look_into(&ptx, &cubin).0
}

fn wish(rows: u32, columns: u32, splits: u32) -> Wish {
    Wish {
        tile: Some(TileSize { rows, columns }),
        splits: Some(splits),
    }
}

fn weight_gradient((m, n, k): (u64, u64, u64), bias: ElementType) -> KernelDescription {
    KernelDescription {
        bias: Some(bias),
        ..super::weight_gradient(KernelDescription::product(ElementType::Bf16, m, n, k))
    }
}

/// dX with the gradient of the bias of the layer before.
fn input_gradient((m, n, k): (u64, u64, u64), layout: usize) -> KernelDescription {
    let (a, b) = LAYOUTS[layout];
    KernelDescription {
        op: KernelOp::InputGradient,
        a,
        b,
        bias: Some(ElementType::F32),
        activation: Activation::GeluTanh,
        ..KernelDescription::product(ElementType::Bf16, m, n, k)
    }
}

const ROUND: (u64, u64, u64) = (1024, 1024, 8192);
const RAGGED: (u64, u64, u64) = (1000, 1016, 8200);

#[test]
fn split_products_of_sm_80() {
    let architecture = Architecture::Sm80;
    let large = forward(ElementType::Bf16, ROUND, LAYOUTS[0]);
    busy_loop(&report(&large, architecture, wish(128, 256, 4)), 1.1);
    let ragged = forward(ElementType::F16, RAGGED, LAYOUTS[3]);
    report(&ragged, architecture, wish(256, 128, 6));
    report(&ragged, architecture, wish(64, 64, 8));
    report(
        &forward(ElementType::F32, RAGGED, LAYOUTS[1]),
        architecture,
        wish(64, 64, 5),
    );
    let odd = forward(ElementType::Bf16, (77, 99, 4097), LAYOUTS[0]);
    report(&odd, architecture, Wish::default());
}

#[test]
fn split_weight_gradients_of_sm_80() {
    let architecture = Architecture::Sm80;
    let large = weight_gradient((16384, 512, 512), ElementType::Bf16);
    busy_loop(&report(&large, architecture, wish(128, 256, 8)), 1.1);
    let ragged = weight_gradient((16380, 520, 500), ElementType::F32);
    report(&ragged, architecture, Wish::default());
}

#[test]
fn sums_of_results_of_sm_80() {
    let architecture = Architecture::Sm80;
    let large = input_gradient((2048, 1024, 2048), 0);
    busy_loop(&report(&large, architecture, wish(128, 256, 1)), 1.1);
    report(
        &input_gradient((2040, 1000, 2056), 1),
        architecture,
        wish(256, 128, 1),
    );
    report(
        &input_gradient((201, 8192, 99), 2),
        architecture,
        Wish::default(),
    );
}

#[test]
fn split_products_of_sm_90a() {
    let architecture = Architecture::Sm90a;
    let large = forward(ElementType::Bf16, ROUND, LAYOUTS[0]);
    busy_loop(&report(&large, architecture, wish(128, 256, 4)), 0.5);
    let ragged = forward(ElementType::F16, RAGGED, LAYOUTS[3]);
    report(&ragged, architecture, wish(256, 128, 6));
    report(&ragged, architecture, wish(64, 128, 8));
}

#[test]
fn split_weight_gradients_of_sm_90a() {
    let architecture = Architecture::Sm90a;
    let large = weight_gradient((16384, 512, 512), ElementType::Bf16);
    busy_loop(&report(&large, architecture, wish(128, 256, 8)), 0.5);
    let ragged = weight_gradient((16384, 520, 504), ElementType::F32);
    report(&ragged, architecture, wish(64, 128, 3));
}

#[test]
fn sums_of_results_of_sm_90a() {
    let architecture = Architecture::Sm90a;
    let large = input_gradient((2048, 1024, 2048), 0);
    busy_loop(&report(&large, architecture, wish(128, 256, 1)), 0.5);
    let ragged = input_gradient((2040, 1000, 2056), 1);
    busy_loop(&report(&ragged, architecture, wish(256, 128, 1)), 0.5);
    report(&ragged, architecture, wish(64, 64, 2));
}

#[test]
fn gradients_of_pre_activations() {
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        let element = ElementType::ALL[index % 3];
        let (m, n) = [(8192, 4096), (4097, 999)][index % 2];
        let kernel = KernelDescription {
            op: KernelOp::ActivationGradient,
            a: [MatrixLayout::ROW_MAJOR, MatrixLayout::COLUMN_MAJOR][index / 2 % 2],
            bias: [Some(ElementType::F32), Some(ElementType::Bf16), None][index % 3],
            activation,
            ..KernelDescription::product(element, m, n, 1)
        };
        report(&kernel, Architecture::Sm80, Wish::default());
    }
}
