//! Layers that the generated training steps lack: softmax, loss, tables, attention, normalisation, functions and their gradients, each
//! once through MLIR.

use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::{Context, Verified, VerifyOptions, verify};
use raddle_dialect::syntax::{ParseOptions, parse};

/// A program of one function on one rank: `(%a: tensor<…>, …) -> (…)` and its body.
fn program(signature: &str, body: &str) -> Verified {
    let text = format!(
        "dist.mesh @mesh [\"mp\" = 1]
module @all attributes {{dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{{}}]}} {{
  func.func @step{signature} attributes {{dist.kind = \"step\"}} {{
    {body}
  }}
}}
"
    );
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    let source = Source::new("layers", text.as_bytes());
    let module = parse(&cx, &source, ParseOptions::default(), &mut diagnostics);
    let module = module.unwrap_or_else(|| panic!("{diagnostics:#?}\n{text}"));
    verify(module, VerifyOptions::default(), &mut diagnostics)
        .unwrap_or_else(|_| panic!("{diagnostics:#?}\n{text}"))
}

/// A forward op, its gradient op, and nothing else.
pub fn programs() -> Vec<(&'static str, Verified)> {
    vec![
        (
            "softmax",
            program(
                "(%x: tensor<2x3x4xf32>, %d: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>)",
                "%y = dist.softmax %x {dim = 1 : i64} : tensor<2x3x4xf32>
                 %dx = dist.softmax_grad %y, %d {dim = 1 : i64} : tensor<2x3x4xf32>
                 return %y, %dx : tensor<2x3x4xf32>, tensor<2x3x4xf32>",
            ),
        ),
        (
            "loss, one label ignored",
            program(
                "(%x: tensor<5x4xf32>, %l: tensor<5xi64>, %d: tensor<5xf32>) -> (tensor<5xf32>, tensor<5x4xf32>, tensor<5x4xf32>)",
                "%loss, %s = dist.softmax_cross_entropy %x, %l {ignore_index = 2 : i64} : (tensor<5x4xf32>, tensor<5xi64>) -> (tensor<5xf32>, tensor<5x4xf32>)
                 %dx = dist.softmax_cross_entropy_grad %s, %l, %d {ignore_index = 2 : i64} : (tensor<5x4xf32>, tensor<5xi64>, tensor<5xf32>) -> tensor<5x4xf32>
                 return %loss, %s, %dx : tensor<5xf32>, tensor<5x4xf32>, tensor<5x4xf32>",
            ),
        ),
        (
            "embedding",
            program(
                "(%ids: tensor<2x4xi32>, %t: tensor<3x5xf32>, %d: tensor<2x4x5xf32>) -> (tensor<2x4x5xf32>, tensor<3x5xf32>)",
                "%y = dist.embedding %ids, %t : (tensor<2x4xi32>, tensor<3x5xf32>) -> tensor<2x4x5xf32>
                 %dt = dist.embedding_grad %ids, %d : (tensor<2x4xi32>, tensor<2x4x5xf32>) -> tensor<3x5xf32>
                 return %y, %dt : tensor<2x4x5xf32>, tensor<3x5xf32>",
            ),
        ),
        (
            "dropout that drops nothing",
            program(
                "(%x: tensor<2x4xf32>, %d: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)",
                "%y, %mask = dist.dropout %x {rate = 0.0 : f64, seed = 1 : i64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
                 %dx = dist.dropout_grad %d, %mask {rate = 0.5 : f64} : (tensor<2x4xf32>, tensor<2x4xi1>) -> tensor<2x4xf32>
                 return %y, %dx : tensor<2x4xf32>, tensor<2x4xf32>",
            ),
        ),
        (
            "causal attention of grouped queries",
            program(
                "(%q: tensor<2x4x3x2xf32>, %k: tensor<2x2x5x2xf32>, %v: tensor<2x2x5x3xf32>, %d: tensor<2x4x3x3xf32>)
                    -> (tensor<2x4x3x3xf32>, tensor<2x4x3xf32>, tensor<2x4x3x2xf32>, tensor<2x2x5x2xf32>, tensor<2x2x5x3xf32>)",
                "%y, %s = dist.attention %q, %k, %v {causal = true, scale = 0.7 : f64} : (tensor<2x4x3x2xf32>, tensor<2x2x5x2xf32>, tensor<2x2x5x3xf32>) -> (tensor<2x4x3x3xf32>, tensor<2x4x3xf32>)
                 %dq, %dk, %dv = dist.attention_grad %q, %k, %v, %y, %s, %d {causal = true, scale = 0.7 : f64} : (tensor<2x4x3x2xf32>, tensor<2x2x5x2xf32>, tensor<2x2x5x3xf32>, tensor<2x4x3x3xf32>, tensor<2x4x3xf32>, tensor<2x4x3x3xf32>) -> (tensor<2x4x3x2xf32>, tensor<2x2x5x2xf32>, tensor<2x2x5x3xf32>)
                 return %y, %s, %dq, %dk, %dv : tensor<2x4x3x3xf32>, tensor<2x4x3xf32>, tensor<2x4x3x2xf32>, tensor<2x2x5x2xf32>, tensor<2x2x5x3xf32>",
            ),
        ),
        (
            "attention to all keys",
            program(
                "(%q: tensor<1x2x3x2xf32>, %k: tensor<1x2x4x2xf32>, %d: tensor<1x2x3x2xf32>) -> (tensor<1x2x3x2xf32>, tensor<1x2x4x2xf32>)",
                "%y, %s = dist.attention %q, %k, %k {scale = 1.5 : f64} : (tensor<1x2x3x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>) -> (tensor<1x2x3x2xf32>, tensor<1x2x3xf32>)
                 %dk = dist.attention_grad %q, %k, %k, %y, %s, %d {resultSegmentSizes = array<i32: 0, 1, 0>, scale = 1.5 : f64} : (tensor<1x2x3x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x3x2xf32>, tensor<1x2x3xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x4x2xf32>
                 return %y, %dk : tensor<1x2x3x2xf32>, tensor<1x2x4x2xf32>",
            ),
        ),
        (
            "rms_norm",
            program(
                "(%x: tensor<2x3x4xf32>, %w: tensor<12xf32>, %d: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2xf32>, tensor<2x3x4xf32>, tensor<12xf32>)",
                "%y, %r = dist.rms_norm %x, %w {begin_norm_axis = 1 : i64, epsilon = 1.0e-3 : f64} : (tensor<2x3x4xf32>, tensor<12xf32>) -> (tensor<2x3x4xf32>, tensor<2xf32>)
                 %dx, %dw = dist.rms_norm_grad %x, %w, %r, %d {begin_norm_axis = 1 : i64, epsilon = 1.0e-3 : f64} : (tensor<2x3x4xf32>, tensor<12xf32>, tensor<2xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<12xf32>)
                 return %y, %r, %dx, %dw : tensor<2x3x4xf32>, tensor<2xf32>, tensor<2x3x4xf32>, tensor<12xf32>",
            ),
        ),
        (
            "functions",
            program(
                "(%x: tensor<3x4xf32>, %d: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>)",
                "%0 = dist.silu %x : tensor<3x4xf32>
                 %1 = dist.silu_grad %x, %d : tensor<3x4xf32>
                 %2 = dist.tanh %x : tensor<3x4xf32>
                 %3 = dist.tanh_grad %2, %d : tensor<3x4xf32>
                 %4 = dist.exp %x : tensor<3x4xf32>
                 %5 = dist.log %4 : tensor<3x4xf32>
                 %6 = dist.rsqrt %4 : tensor<3x4xf32>
                 %7 = dist.clip_grad %x, %d {max = 0.5 : f64, min = -0.25 : f64} : tensor<3x4xf32>
                 return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>",
            ),
        ),
        (
            "gradients of arithmetic",
            program(
                "(%a: tensor<3x4xf32>, %c: tensor<4xf32>, %d: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<4xf32>)",
                "%b = dist.exp %c : tensor<4xf32>
                 %0:2 = dist.div_grad %a, %b, %d : (tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>)
                 %1:2 = dist.maximum_grad %a, %c, %d : (tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>)
                 return %0#0, %0#1, %1#0, %1#1 : tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<4xf32>",
            ),
        ),
        (
            "gradients of maxima and windows",
            program(
                "(%x: tensor<3x4xf32>, %d: tensor<3xf32>, %w: tensor<2x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)",
                "%m = dist.reduce_max %x {dims = array<i64: 1>} : (tensor<3x4xf32>) -> tensor<3xf32>
                 %0 = dist.reduce_max_grad %x, %m, %d {dims = array<i64: 1>} : (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3x4xf32>
                 %1 = dist.slice_grad %x, %w {axes = [[]], dims = array<i64: 0>, sizes = array<i64: 2>, starts = array<i64: 1>} : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
                 return %0, %1 : tensor<3x4xf32>, tensor<3x4xf32>",
            ),
        ),
    ]
}
