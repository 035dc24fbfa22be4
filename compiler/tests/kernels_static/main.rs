//! What NVIDIA's assembler says about the kernels: none spills or has a stack frame, none draws advice, and the main loops
//! issue fast enough for the tensor cores. One file for each target, for products in tf32, and for sums that blocks share.
#![cfg(feature = "llvm")]

#[path = "../kernels_layouts/mod.rs"]
mod kernels_layouts;
mod shared;
mod sm100;
mod sm80;
mod sm90;
mod tf32;

use raddle_compiler::codegen::nvptx::{
    Architecture, Cubin, ProductLoop, Ptx, Report, Sass, Target, Toolkit, emit_tuned,
};
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, Wish,
};

/// Emits and assembles a kernel, and asserts that it takes no stack, spills nothing, and draws no message.
fn assemble(
    kernel: &KernelDescription,
    architecture: Architecture,
    wish: impl Into<Wish>,
) -> (Ptx, Cubin) {
    let ptx = emit_tuned(kernel, Target::of(architecture), wish)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error}"))
        .ptx;
    let cubin = Toolkit::discover()
        .assemble(&ptx)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
    let resources = cubin.resources;
    let spilled = resources.spill_store_bytes + resources.spill_load_bytes;
    assert_eq!(
        (spilled, resources.stack_bytes),
        (0, 0),
        "{kernel:?} {:?}",
        ptx.plan
    );
    assert!(cubin.messages.is_empty(), "{kernel:?} {:?}", cubin.messages);
    (ptx, cubin)
}

/// The same, with a look at the machine code.
fn report(
    kernel: &KernelDescription,
    architecture: Architecture,
    wish: impl Into<Wish>,
) -> (Report, Sass) {
    let (ptx, cubin) = assemble(kernel, architecture, wish);
    look_into(&ptx, &cubin)
}

/// What the machine code of an assembled kernel says.
fn look_into(ptx: &Ptx, cubin: &Cubin) -> (Report, Sass) {
    let kernel = &ptx.kernel;
    let printed = Toolkit::discover()
        .disassemble(cubin)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
    let sass = Sass::read(&printed).unwrap();
    let report = Report::from_parts(ptx, cubin, &sass);
    assert!(report.messages.is_empty(), "{kernel:?}\n{report}");
    assert!(report.occupancy.blocks > 0, "{kernel:?}\n{report}");
    (report, sass)
}

/// The main loop, after asserting the bound on cycles to issue over cycles of the tensor cores.
fn busy_loop(report: &Report, at_most: f64) -> ProductLoop {
    let round = report.product_loop.expect("the depth takes many rounds");
    let ratio = f64::from(round.stall_cycles) / f64::from(round.tensor_cycles);
    assert!(ratio <= at_most, "{ratio}\n{report}");
    round
}

/// A forward kernel with all that an epilogue can do.
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

/// dX of a forward kernel, without the gradient of a bias.
fn input_gradient(kernel: KernelDescription) -> KernelDescription {
    KernelDescription {
        op: KernelOp::InputGradient,
        bias: None,
        auxiliary: false,
        ..kernel
    }
}

/// dW of a forward kernel, with the gradient of its bias, added to what is there.
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

/// What a bias may be.
const BIASES: [Option<ElementType>; 4] = [
    None,
    Some(ElementType::F32),
    Some(ElementType::F16),
    Some(ElementType::Bf16),
];

/// A kernel of 16-bit elements for each activation, ragged or small, with every bias, alone or in a batch, into either type of
/// result; and the same with rows of the result that start anywhere.
fn with_every_activation(
    extents: [(u64, u64, u64); 2],
) -> impl Iterator<Item = [KernelDescription; 2]> {
    let activations = Activation::ALL.into_iter().enumerate();
    activations.map(move |(index, activation)| {
        let element = [ElementType::Bf16, ElementType::F16][index % 2];
        let layouts = kernels_layouts::LAYOUTS[index % kernels_layouts::LAYOUTS.len()];
        let kernel = KernelDescription {
            activation,
            bias: BIASES[index % BIASES.len()],
            output: [element, ElementType::F32][index / 2 % 2],
            batch: 1 + index as u64 % 2,
            ..forward(element, extents[index % 2], layouts)
        };
        let anywhere = KernelDescription {
            c: MatrixLayout {
                leading: Some(4097),
                ..MatrixLayout::ROW_MAJOR
            },
            ..kernel
        };
        [kernel, anywhere]
    })
}
