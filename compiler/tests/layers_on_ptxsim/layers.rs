//! Every form of `dist.fused_linear` and `dist.fused_linear_grad`: operands given transposed or not, batches or not, each type, each
//! activation, with and without what is optional.

use raddle_bundle::Bundle;
use raddle_bundle::kernel::{Access, Inputs};
use raddle_compiler::bundle::lower;
use raddle_compiler::codegen::Math;
use raddle_compiler::codegen::nvptx::Architecture;
use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::{Context, VerifyOptions, verify};
use raddle_dialect::syntax::{self, ParseOptions};
use raddle_runtime::Training;
use raddle_runtime::device::reference::{Mode, Program};

use super::{assert_right, give_kernels, player};

const ACTIVATIONS: [&str; 5] = ["none", "relu", "gelu", "gelu_tanh", "silu"];
const TYPES: [&str; 3] = ["bf16", "f16", "f32"];

/// What a layer's tensors are like.
struct Form {
    number: usize,
    transpose_x: bool,
    transpose_w: bool,
    is_batch: bool,
    dtype: &'static str,
}

impl Form {
    /// All of them: 24.
    fn all() -> impl Iterator<Item = Form> {
        (0..24).map(|number| Form {
            number,
            transpose_x: number & 1 != 0,
            transpose_w: number & 2 != 0,
            is_batch: number & 4 != 0,
            dtype: TYPES[number / 8],
        })
    }

    /// Tokens of a matrix, out and in features: regular, or of no alignment at all.
    fn extents(&self) -> [usize; 3] {
        match (self.number / 4 + self.number) % 2 {
            0 => [24, 40, 16],
            _ => [5, 11, 7],
        }
    }

    fn tensor(&self, [rows, columns]: [usize; 2], transposed: bool, dtype: &str) -> String {
        let batch = if self.is_batch { "3x" } else { "" };
        match transposed {
            true => format!("tensor<{batch}{columns}x{rows}x{dtype}>"),
            false => format!("tensor<{batch}{rows}x{columns}x{dtype}>"),
        }
    }

    fn weight(&self, dtype: &str) -> String {
        let [_, n, k] = self.extents();
        match self.transpose_w {
            true => format!("tensor<{n}x{k}x{dtype}>"),
            false => format!("tensor<{k}x{n}x{dtype}>"),
        }
    }

    fn flags(&self, activation: &str) -> String {
        let (x, w) = (self.transpose_x, self.transpose_w);
        format!("activation = \"{activation}\", transpose_a = {x}, transpose_b = {w}")
    }
}

/// A function's arguments and ops.
#[derive(Default)]
struct Text {
    arguments: Vec<String>,
    body: String,
}

impl Text {
    fn argument(&mut self, ty: &str) -> String {
        let name = format!("%a{}", self.arguments.len());
        self.arguments.push(format!("{name}: {ty}"));
        name
    }

    fn op(&mut self, name: &str, attrs: &str, operands: &[String], results: &[String]) {
        let values: Vec<String> = operands.iter().map(|ty| self.argument(ty)).collect();
        let number = self.arguments.len();
        self.body += &format!(
            "  %r{number}:{} = \"{name}\"({}) {{{attrs}}} : ({}) -> ({})\n",
            results.len(),
            values.join(", "),
            operands.join(", "),
            results.join(", ")
        );
    }

    /// An op whose groups of operands and results may each be left out.
    fn grouped(&mut self, name: &str, attrs: &str, [operands, results]: [&[Option<String>]; 2]) {
        let sizes = |groups: &[Option<String>]| {
            let sizes = groups
                .iter()
                .map(|group| usize::from(group.is_some()).to_string());
            sizes.collect::<Vec<_>>().join(", ")
        };
        let attrs = format!(
            "{attrs}, operandSegmentSizes = array<i32: {}>, resultSegmentSizes = array<i32: {}>",
            sizes(operands),
            sizes(results)
        );
        let there =
            |groups: &[Option<String>]| groups.iter().flatten().cloned().collect::<Vec<_>>();
        self.op(name, &attrs, &there(operands), &there(results));
    }

    fn bundle(&self) -> Bundle {
        let text = format!(
            "dist.mesh @mesh [\"x\" = 1]\nmodule @all attributes {{dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{{}}]}} {{\n\
             func.func @step({}) -> tensor<f32> attributes {{dist.kind = \"step\"}} {{\n{}\
             %loss = dist.fill {{value = 0.000000e+00 : f64}} : tensor<f32>\nreturn %loss : tensor<f32>\n}}\n}}\n",
            self.arguments.join(", "),
            self.body
        );
        let cx = Context::new();
        let mut diagnostics = Diagnostics::new();
        let source = Source::new("layers.mlir", text.as_bytes());
        let module = syntax::parse(&cx, &source, ParseOptions::default(), &mut diagnostics);
        let module =
            module.and_then(|m| verify(m, VerifyOptions::default(), &mut diagnostics).ok());
        let bundle = module.and_then(|module| lower(&module, &mut diagnostics));
        bundle.unwrap_or_else(|| {
            let messages: Vec<_> = diagnostics.iter().map(|d| &d.message).collect();
            panic!("{messages:#?}\n{text}")
        })
    }
}

fn forward(form: &Form, text: &mut Text) {
    let [m, n, k] = form.extents();
    let dtype = form.dtype;
    let out = form.tensor([m, n], false, dtype);
    let mut operands = vec![
        form.tensor([m, k], form.transpose_x, dtype),
        form.weight(dtype),
    ];
    if !form.number.is_multiple_of(3) {
        operands.push(format!("tensor<{n}x{}>", TYPES[form.number % 3]));
    }
    let results = vec![out; 1 + form.number / 2 % 2];
    let attrs = form.flags(ACTIVATIONS[form.number % 5]);
    text.op("dist.fused_linear", &attrs, &operands, &results);
}

fn backward(form: &Form, text: &mut Text) {
    let [m, n, k] = form.extents();
    let (dtype, number) = (form.dtype, form.number);
    let activation = ACTIVATIONS[number % 5];
    let x = form.tensor([m, k], form.transpose_x, dtype);
    // dw is f32 as main gradients are, or as w.
    let weight = form.weight(if number % 2 == 0 { "f32" } else { dtype });
    let [dx, dw, dbias] = match number % 5 {
        0 => [true, false, true],
        1 => [false, true, true],
        2 => [false, true, false],
        _ => [true, true, true],
    };
    let (accumulates, overwrites) = (number % 3 != 0, number % 3 == 1);
    let attrs = format!("{}, overwrite = {overwrites}", form.flags(activation));
    let operands = [
        Some(x.clone()),
        Some(form.weight(dtype)),
        Some(form.tensor([m, n], false, dtype)),
        (activation != "none").then(|| x.clone()),
        (dw && accumulates).then(|| weight.clone()),
    ];
    let results = [
        dx.then(|| x.clone()),
        dw.then(|| weight.clone()),
        dbias.then(|| format!("tensor<{n}x{}>", TYPES[number / 2 % 3])),
    ];
    text.grouped("dist.fused_linear_grad", &attrs, [&operands, &results]);
}

/// Plays layers once, with every number compared.
fn check(forms: impl Iterator<Item = Form>, architecture: Architecture, math: Math) {
    let mut text = Text::default();
    for form in forms {
        forward(&form, &mut text);
        backward(&form, &mut text);
    }
    let mut bundle = text.bundle();
    give_kernels(&mut bundle, architecture, math);
    let program = Program::load(&bundle).expect("a program");
    let mut player = player(&program);
    let mut training = Training::new(&program, Mode::Rounded, 3);
    training.step(&mut (), &mut player).expect("it runs");
    assert_right(&player);
}

#[test]
fn every_form_of_a_layer_has_kernels() {
    check(Form::all(), Architecture::Sm80, Math::Full);
}

#[test]
fn forms_have_kernels_of_warpgroups() {
    let forms = Form::all().filter(|form| form.dtype == "f16");
    check(forms, Architecture::Sm90a, Math::Full);
}

#[test]
fn forms_have_kernels_with_tensor_memory() {
    let forms = Form::all().filter(|form| form.dtype == "bf16");
    check(forms, Architecture::Sm100a, Math::Full);
}

/// Products of f32 on tensor cores: of inputs rounded to tf32, which the comparison rounds too, and of two parts of each.
#[test]
fn forms_have_kernels_in_tf32() {
    for (math, odd) in [(Math::Tf32, 0), (Math::ThreeTf32, 1)] {
        let forms = Form::all().filter(|form| form.dtype == "f32" && form.number % 2 == odd);
        check(forms, Architecture::Sm80, math);
    }
}

/// Elements that are tf32 are multiplied as such.
#[test]
fn tensors_of_tf32_have_kernels() {
    let forms = Form::all().filter(|form| form.dtype == "f32" && form.number / 2 % 2 == 0);
    let forms = forms.map(|form| Form {
        dtype: "tf32",
        ..form
    });
    check(forms, Architecture::Sm80, Math::Full);
}

/// Blocks that share a sum get memory for its parts, and counters.
#[test]
fn layers_of_great_depth_have_kernels_that_share_it() {
    let mut text = Text::default();
    let attrs = "activation = \"relu\", transpose_a = false, transpose_b = true";
    let operands = ["16x4096", "16x4096", "16"].map(|shape| format!("tensor<{shape}xbf16>"));
    let result = "tensor<16x16xbf16>".to_owned();
    text.op(
        "dist.fused_linear",
        attrs,
        &operands,
        &[result.clone(), result],
    );
    let mut bundle = text.bundle();
    give_kernels(&mut bundle, Architecture::Sm80, Math::Full);
    let kernels = &bundle.kernels;
    let accesses: Vec<_> = kernels.images[0]
        .parameters
        .iter()
        .map(|p| p.access)
        .collect();
    assert!(accesses.contains(&Access::ZeroedScratch), "{accesses:?}");
    let program = Program::load(&bundle).expect("a program");
    let mut player = player(&program);
    let mut training = Training::new(&program, Mode::Rounded, 3);
    training.step(&mut (), &mut player).expect("it runs");
    assert_right(&player);
}

/// A square layer with its kernel, whose plan may then be spoilt.
fn square(math: Math) -> Bundle {
    let mut text = Text::default();
    let square = "tensor<16x16xf32>".to_owned();
    let attrs = "activation = \"none\", transpose_a = false, transpose_b = false";
    let operands = [square.clone(), square.clone()];
    text.op("dist.fused_linear", attrs, &operands, &[square]);
    let mut bundle = text.bundle();
    give_kernels(&mut bundle, Architecture::Sm80, math);
    bundle
}

/// How many of the 256 numbers are wrong, and the first of them.
fn wrong(bundle: &Bundle) -> (u64, String) {
    let program = Program::load(bundle).expect("a program");
    let mut player = player(&program);
    let mut training = Training::new(&program, Mode::Rounded, 3);
    training.step(&mut (), &mut player).expect("it runs");
    let comparison = player.comparison();
    assert_eq!(comparison.compared, 256);
    let first = comparison.first_wrong.clone();
    (comparison.wrong, first.unwrap_or_default())
}

/// The comparison bites: a kernel that gets its inputs the wrong way round is found.
#[test]
fn swapped_inputs_are_found() {
    let mut bundle = square(Math::Full);
    assert_eq!(wrong(&bundle), (0, String::new()));
    bundle.kernels.plans[0].launches[0].arguments.swap(0, 1);
    let (count, first) = wrong(&bundle);
    assert!(count > 200, "{count}");
    assert!(first.starts_with("out[0] at "), "{first}");
}

/// And so is a kernel that rounds its inputs where it should not.
#[test]
fn rounded_inputs_are_found() {
    let mut bundle = square(Math::Tf32);
    assert_eq!(wrong(&bundle), (0, String::new()));
    bundle.kernels.plans[0].inputs = Inputs::Whole;
    let (count, _) = wrong(&bundle);
    assert!(count > 200, "{count}");
}

/// A buffer that is smaller than what the kernel reaches is no launch.
#[test]
fn short_buffers_are_refused() {
    let mut text = Text::default();
    let form = Form::all().next().expect("a form");
    forward(&form, &mut text);
    let mut bundle = text.bundle();
    give_kernels(&mut bundle, Architecture::Sm80, Math::Full);
    let output = bundle.kernels.plans[0].buffers.iter_mut();
    let output = output.rev().find(|buffer| buffer.result.is_some());
    output.expect("a result").bytes -= 2;
    let program = Program::load(&bundle).expect("a program");
    let mut training = Training::new(&program, Mode::Rounded, 3);
    let refused = training.step(&mut (), &mut player(&program));
    let message = refused.expect_err("a buffer is short").to_string();
    assert!(
        message.contains("a buffer of 1918 bytes for `out`, which reaches over 1920"),
        "{message}"
    );
}
