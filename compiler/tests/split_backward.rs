//! `split-backward` keeps the meaning, and leaves nothing in B that only W needs.

mod programs;

use programs::inspect::{classes, function, run};
use programs::{Clip, LossScaling, Optimizer, Spec, build};
use proptest::prelude::*;
use raddle_compiler::bundle::lower;
use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::{Context, FloatKind, Module, OpId, Verified, VerifyOptions, verify};
use raddle_dialect::ops::Effects;
use raddle_dialect::syntax::{ParseOptions, parse};
use raddle_runtime::validate::{Kind, Options, compare};

fn parsed(text: &str) -> Verified {
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    let source = Source::new("test.mlir", text.as_bytes());
    let module = parse(&cx, &source, ParseOptions::default(), &mut diagnostics);
    let module = module.and_then(|m| verify(m, VerifyOptions::default(), &mut diagnostics).ok());
    module.unwrap_or_else(|| {
        let messages: Vec<_> = diagnostics.iter().map(|d| d.message.clone()).collect();
        panic!("{text}\n{messages:#?}")
    })
}

/// Splits; checks the numbers and the labels.
fn check(module: Verified, what: &str) -> Verified {
    let mut diagnostics = Diagnostics::new();
    let before = lower(&module, &mut diagnostics).expect("the program runs");
    let (module, _) = run(module, "builtin.module(split-backward)");
    let after = lower(&module, &mut diagnostics).expect("the split program runs");
    let options = Options {
        steps: 1,
        ..Options::new(5)
    };
    let report = compare(&before, &after, options).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(report.compared[&Kind::Global] > 0);
    let found: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{what}: {found:#?}");
    for (_, class) in classes(&module) {
        check_labels(&module, function(&module, class, "step"), what);
    }
    module
}

fn part(module: &Module, op: OpId) -> Option<&str> {
    module.str_attr(op, "dist.part")
}

/// Every backward op is labelled; B comes first and reads nothing of W; what only W reads is W, unless it is the gradient of
/// an activation.
fn check_labels(module: &Module, step: OpId, what: &str) {
    let mut w_seen = false;
    for op in module.block_ops(module.body(step)) {
        let name = module.name_str(op);
        if module.str_attr(op, "dist.role") == Some("backward") {
            assert!(part(module, op).is_some(), "{what}: {name} has no label");
        }
        let readers: Vec<_> = module.results(op).flat_map(|r| module.uses(r)).collect();
        match part(module, op) {
            Some("w") => {
                w_seen = true;
                let upstream = readers.iter().find(|u| part(module, u.op) == Some("b"));
                assert!(
                    upstream.is_none(),
                    "{what}: B reads what {name} in W computes"
                );
            }
            Some(_) => {
                assert!(!w_seen, "{what}: {name} of B comes after W");
                let waits = module.def_of(op).is_none_or(|d| d.effects != Effects::Pure);
                let needed = readers.iter().any(|u| part(module, u.op) == Some("b"));
                // The end of the chain: the gradient of the first layer's activations.
                let of_product = |op| module.is(op, "dist.matmul");
                let reshaped = name == "dist.reshape"
                    && module
                        .defining_op(module.operand(op, 0))
                        .is_some_and(of_product);
                let gradient = name.ends_with("_grad") || of_product(op) || reshaped;
                assert!(
                    waits || needed || gradient,
                    "{what}: {name} is in B, but only W reads it"
                );
            }
            None => {}
        }
    }
}

#[test]
fn every_window_of_tensor_parallel_layers() {
    for window in 0..16 {
        let spec = Spec {
            layers: 2,
            dp: if window & 1 == 0 { 1 } else { 2 },
            sequence_parallel: window & 2 != 0,
            amp: (window & 4 != 0).then_some(FloatKind::BF16),
            recompute: window & 8 != 0,
            residual: window & 5 != 0,
            tied_bias: window & 3 == 3,
            optimizer: match window & 3 {
                0 => Optimizer::Adamw,
                1 => Optimizer::Momentum,
                2 => Optimizer::Adamax,
                _ => Optimizer::Sgd,
            },
            clip: match window & 1 {
                0 => Clip::GlobalStack,
                _ => Clip::Norm,
            },
            loss_scaling: match window & 2 {
                0 => LossScaling::None,
                _ => LossScaling::Combined,
            },
            ..Spec::default()
        };
        check(build(&spec), &format!("{spec:?}"));
    }
}

#[test]
fn fused_and_promoted_layers() {
    for amp in [None, Some(FloatKind::BF16)] {
        let spec = Spec {
            layers: 3,
            dp: 2,
            amp,
            sequence_parallel: amp.is_none(),
            ..Spec::default()
        };
        let (module, _) = run(
            build(&spec),
            "builtin.module(promote-linear,fuse-linear,canonicalize,cse)",
        );
        let module = check(module, &format!("{spec:?}"));
        let halves = module.walk_all().filter(|&op| {
            module.is(op, "dist.fused_linear_grad")
                && module.result_in(op, "dx").is_some()
                && module.result_in(op, "dw").is_some()
        });
        assert_eq!(halves.count(), 0, "a fused gradient stayed whole");
    }
}

/// A product of an activation (shaped `a`, itself `x + p`) and a weight, its loss and its gradients.
#[derive(Clone, Debug)]
struct Case {
    activation: Vec<i64>,
    weight: Vec<i64>,
    product: Vec<i64>,
    weight_first: bool,
    transposes: [bool; 2],
}

impl Case {
    fn text(&self) -> String {
        let ty = |shape: &[i64]| {
            let dims: String = shape.iter().map(|d| format!("{d}x")).collect();
            format!("tensor<{dims}f32>")
        };
        let layout = |shape: &[i64]| {
            let dims = vec!["[]"; shape.len()].join(", ");
            format!("#dist.layout<[{dims}], []>")
        };
        let (a, w, c) = (ty(&self.activation), ty(&self.weight), ty(&self.product));
        let dims: Vec<_> = (0..self.product.len()).map(|d| d.to_string()).collect();
        let all = format!("dims = array<i64: {}>, keep_dims = false", dims.join(", "));
        let (left, right, lt, rt, dleft, dright) = match self.weight_first {
            false => ("%a", "%w", &a, &w, "%g#0", "%g#1"),
            true => ("%w", "%a", &w, &a, "%g#1", "%g#0"),
        };
        let flags = format!(
            "transpose_a = {}, transpose_b = {}",
            self.transposes[0], self.transposes[1]
        );
        let (da, dw) = (dleft, dright);
        format!(
            r#"module {{
  dist.mesh @mesh ["dp" = 1]
  module @all attributes {{dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{{}}]}} {{
    dist.global @w parameter {{layout = {lw}}} : {w}
    dist.global @p parameter {{layout = {la}}} : {a}
    func.func @init() attributes {{dist.kind = "init"}} {{
      %0 = dist.uniform {{max = 1.0 : f64, min = -1.0 : f64, seed = 3 : i64}} : {w}
      %1 = dist.uniform {{max = 1.0 : f64, min = -1.0 : f64, seed = 4 : i64}} : {a}
      dist.store @w %0 : {w}
      dist.store @p %1 : {a}
      return
    }}
    func.func @step(%x: {a} {{dist.layout = {la}}}) -> tensor<f32> attributes {{dist.kind = "step"}} {{
      %w = dist.load @w : {w}
      %p = dist.load @p : {a}
      %a = dist.add %x, %p {{dist.role = "forward"}} : ({a}, {a}) -> {a}
      %c = dist.matmul {left}, {right} {{dist.role = "forward", {flags}}} : ({lt}, {rt}) -> {c}
      %q = dist.mul %c, %c {{dist.role = "forward"}} : ({c}, {c}) -> {c}
      %l = dist.reduce_mean %q {{dist.role = "forward", {all}}} : ({c}) -> tensor<f32>
      %s = dist.fill {{value = 1.0 : f64, dist.role = "backward"}} : tensor<f32>
      %dq = dist.reduce_mean_grad %q, %s {{dist.role = "backward", {all}}} : ({c}, tensor<f32>) -> {c}
      %m:2 = dist.mul_grad %c, %c, %dq {{dist.role = "backward"}} : ({c}, {c}, {c}) -> ({c}, {c})
      %dc = dist.sum %m#0, %m#1 {{dist.role = "backward"}} : {c}
      %g:2 = dist.matmul_grad {left}, {right}, %dc {{dist.role = "backward", {flags}}} : ({lt}, {rt}, {c}) -> ({lt}, {rt})
      %dp:2 = dist.add_grad %x, %p, {da} {{dist.role = "backward"}} : ({a}, {a}, {a}) -> ({a}, {a})
      %r = dist.fill {{value = 0.1 : f64, dist.role = "optimizer"}} : tensor<1xf32>
      %w1 = dist.sgd %w, {dw}, %r {{dist.role = "optimizer"}} : ({w}, {w}, tensor<1xf32>) -> {w}
      %p1 = dist.sgd %p, %dp#1, %r {{dist.role = "optimizer"}} : ({a}, {a}, tensor<1xf32>) -> {a}
      dist.store @w %w1 : {w}
      dist.store @p %p1 : {a}
      return %l : tensor<f32>
    }}
  }}
}}
"#,
            lw = layout(&self.weight),
            la = layout(&self.activation),
        )
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let batch = prop::collection::vec((1..4i64, 0..3u8), 0..4);
    (
        batch,
        [1..5i64, 1..5, 1..5],
        0..4usize,
        any::<bool>(),
        any::<[bool; 2]>(),
    )
        .prop_map(|(batch, [m, k, n], missing, weight_first, transposes)| {
            // Per batch dimension: the weight has it, has 1 there, or the activation has 1 there.
            let extents = |weight: bool| -> Vec<i64> {
                batch
                    .iter()
                    .map(|&(extent, kind)| match (kind, weight) {
                        (1, true) | (2, false) => 1,
                        _ => extent,
                    })
                    .collect()
            };
            let out: Vec<i64> = batch.iter().map(|&(extent, _)| extent).collect();
            let mut weight_batch = extents(true);
            // Leading dimensions of extent 1 may be left out.
            let ones = weight_batch.iter().take_while(|&&d| d == 1).count();
            weight_batch.drain(..missing.min(ones));
            let matrix = |mut dims: Vec<i64>, rows, columns, transpose: bool| {
                dims.extend(match transpose {
                    true => [columns, rows],
                    false => [rows, columns],
                });
                dims
            };
            let (left, right) = match weight_first {
                false => (extents(false), weight_batch),
                true => (weight_batch, extents(false)),
            };
            let left = matrix(left, m, k, transposes[0]);
            let right = matrix(right, k, n, transposes[1]);
            let (activation, weight) = match weight_first {
                false => (left, right),
                true => (right, left),
            };
            Case {
                activation,
                weight,
                product: matrix(out, m, n, false),
                weight_first,
                transposes,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn gradients_of_products_of_all_shapes(case in cases()) {
        let module = check(parsed(&case.text()), &format!("{case:?}"));
        let left = module.walk_all().filter(|&op| module.is(op, "dist.matmul_grad"));
        prop_assert_eq!(left.count(), 0);
        // However many dimensions are summed, each gradient is one product.
        let products = module.walk_all().filter(|&op| module.is(op, "dist.matmul"));
        prop_assert_eq!(products.count(), 3);
        let sums = module.walk_all().filter(|&op| module.is(op, "dist.reduce_sum"));
        prop_assert_eq!(sums.count(), 0);
    }
}

#[test]
fn splitting_again_changes_nothing() {
    let (once, _) = run(build(&Spec::default()), "builtin.module(split-backward)");
    let print = |module: &Module| {
        raddle_dialect::syntax::print(module, raddle_dialect::syntax::PrintOptions::default())
    };
    let text = print(&once);
    let (twice, _) = run(once, "builtin.module(split-backward)");
    assert_eq!(text, print(&twice));
}
