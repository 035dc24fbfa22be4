//! Sums of gradients that are partial until the optimizer reduces them.

use std::collections::HashMap;

use raddle_dialect::ir::{Module, OpId, ValueId};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::super::form::TIED;
use super::function;

/// By the name of a sum, the axes over which the optimizer of a class reduces it before anything else is made of it.
pub(super) fn reduced_axes(
    module: &Module,
    class: OpId,
) -> HashMap<String, Vec<String>, FxBuildHasher> {
    let sums: FxHashSet<&str> = module
        .symbols(class)
        .filter(|&(_, op)| module.attr(op, TIED).is_some())
        .map(|(name, _)| name)
        .collect();
    let Some(optimizer) = function(module, class, "optimizer") else {
        return HashMap::default();
    };
    let loads = module
        .block_ops(module.body(optimizer))
        .filter(|&op| module.is(op, "dist.load"));
    let of = |op| {
        let name = module.symbol_attr(op, "global")?;
        let axes = axes(module, module.result(op, 0));
        (sums.contains(name) && !axes.is_empty()).then(|| (name.to_owned(), axes))
    };
    loads.filter_map(of).collect()
}

/// The axes of the reductions at the end of a chain of scales and casts.
fn axes(module: &Module, sum: ValueId) -> Vec<String> {
    let mut found = Vec::new();
    let mut value = sum;
    while let Some(next) = module.single_use(value) {
        match module.name_str(next.op) {
            "dist.all_reduce" | "dist.reduce_scatter" => {
                let axes = module.axes_attr(next.op, "axes");
                found.extend(axes.into_iter().map(str::to_owned));
            }
            "dist.scale" | "dist.cast" | "dist.identity" => {}
            _ => break,
        }
        value = module.result(next.op, 0);
    }
    found
}

#[cfg(test)]
mod tests {
    use raddle_dialect::diag::{Diagnostics, Source};
    use raddle_dialect::ir::Context;
    use raddle_dialect::syntax::{ParseOptions, parse};

    use super::*;

    #[test]
    fn what_the_optimizer_reduces_first_is_partial() {
        let text = r#"
          dist.mesh @mesh ["dp" = 2, "mp" = 2]
          module @all attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{}]} {
            dist.global @p parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
            dist.global @a buffer {layout = #dist.layout<[[]], []>, paddle.gradient_of = @p} : tensor<4xf32>
            dist.global @b buffer {layout = #dist.layout<[[]], []>, paddle.gradient_of = @p} : tensor<4xf32>
            func.func @optimizer() attributes {dist.kind = "optimizer"} {
              %a = dist.load @a : tensor<4xf32>
              %0 = dist.scale %a {scale = 0.5 : f64} : tensor<4xf32>
              %1 = dist.all_reduce sum %0 over ["dp"] : tensor<4xf32>
              %2 = dist.all_reduce sum %1 over ["mp"] : tensor<4xf32>
              dist.store @p %2 : tensor<4xf32>
              %b = dist.load @b : tensor<4xf32>
              %3 = dist.squared_l2_norm %b : (tensor<4xf32>) -> tensor<1xf32>
              %4 = dist.all_reduce sum %3 over ["dp"] : tensor<1xf32>
              return
            }
          }"#;
        let cx = Context::new();
        let mut diagnostics = Diagnostics::new();
        let source = Source::new("sums", text.as_bytes());
        let module = parse(&cx, &source, ParseOptions::default(), &mut diagnostics).unwrap();
        let class = module
            .members(module.root(), "builtin.module")
            .next()
            .unwrap();
        let found = reduced_axes(&module, class);
        assert_eq!(found["a"], ["dp", "mp"]);
        assert!(!found.contains_key("b"));
    }
}
