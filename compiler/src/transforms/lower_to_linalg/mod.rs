//! `lower-to-linalg`: from `dist` to MLIR's own dialects, so that MLIR's passes and execution engine can compile it.
//!
//! ```text
//! module @all attributes {dist.mesh = @mesh, …} {         func.func @all_step(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>)
//!   dist.global @w parameter {…} : tensor<4x3xf32>            -> (tensor<f32>, tensor<4x3xf32>)
//!   func.func @step(%x: tensor<2x4xf32>)                      attributes {llvm.emit_c_interface,
//!       -> tensor<f32> {                             ──▶        dist.loads = ["w"], dist.stores = ["w"]} {
//!     %w = dist.load @w : tensor<4x3xf32>                   %0 = linalg.generic … ins(%x, %w) …
//!     %y = dist.matmul %x, %w : …                           …
//!     dist.store @w %new : tensor<4x3xf32>                  return %loss, %new
//!     return %loss                                        }
//! ```
//!
//! Functions of all rank classes move to the top module under the name `class_function`. Globals become parameters (behind
//! the inputs, in the order in which the class declares them) and results (behind the returned values); the attributes
//! `dist.loads` and `dist.stores` name them. Ops that need other ranks become calls; `collectives.rs` documents their C
//! interface. What cannot be lowered (dynamic shapes, ops of other dialects between ours) is an error that names it.

mod attention;
mod call;
mod collectives;
mod contraction;
mod elementwise;
mod emit;
mod norm;
mod optimizers;
mod reduce;
mod scalar;
mod shape;
mod softmax;

use std::collections::{BTreeMap, HashMap, HashSet};

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Attr, DYNAMIC, Module, NewOp, OpId, Position, Rewriter, Type, ValueId};
use raddle_dialect::mesh::Mesh;

use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef};
use call::{Call, Outcome};
use elementwise::{Activation, Arithmetic};
use emit::Emit;
use reduce::Kind;

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "lower-to-linalg",
    summary: "lower dist to linalg, tensor, arith and math on func",
    description: "Takes a program apart into functions on tensors that MLIR's own passes can bufferize and compile. Globals \
                  become parameters and results; collectives become calls with a C interface. Every function of every rank \
                  class is lowered, or none.",
    anchor: Anchor::Top,
    options: &[],
    build: |_| Box::new(LowerToLinalg),
};

struct LowerToLinalg;

impl Pass for LowerToLinalg {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let classes: Vec<_> = module.members(target, "builtin.module").collect();
        let meshes: Vec<_> = module.members(target, "dist.mesh").collect();
        let mut externals = BTreeMap::new();
        let mut failed = false;
        for &class in &classes {
            failed |= lower_class(module, class, &mut externals, cx).is_err();
        }
        if failed {
            return Err(Failed);
        }
        let mut rewriter = Rewriter::new(module);
        for op in classes.into_iter().chain(meshes) {
            rewriter.erase(op);
        }
        let top = rewriter.body(target);
        for (name, (inputs, results)) in externals {
            declare(&mut rewriter, top, &name, &inputs, &results);
        }
        Ok(())
    }
}

/// Functions called by name, with their types.
type Externals = BTreeMap<String, (Vec<Type>, Vec<Type>)>;

fn lower_class(
    module: &mut Module,
    class: OpId,
    externals: &mut Externals,
    cx: &mut PassCx,
) -> Result<(), Failed> {
    let mesh = match Mesh::of(module, class) {
        Ok(mesh) => mesh,
        Err(error) => {
            let message = format!("the class has no mesh: {error}");
            cx.report(Diagnostic::error("E0720", module.loc(class), message));
            return Err(Failed);
        }
    };
    let functions: Vec<_> = module.members(class, "func.func").collect();
    let mut result = Ok(());
    for function in functions {
        let lowered = lower_function(module, class, function, &mesh, externals);
        if let Err(diagnostic) = lowered {
            cx.report(*diagnostic);
            result = Err(Failed);
        }
    }
    result
}

/// What a function reads and writes besides its arguments and results.
struct State {
    loads: Vec<(String, Type)>,
    stores: Vec<String>,
}

impl State {
    /// Globals in the order in which the class declares them.
    fn of(module: &Module, class: OpId, function: OpId) -> Self {
        let mut loaded = HashMap::new();
        let mut stored = HashSet::new();
        let symbols: HashMap<_, _> = module.symbols(class).collect();
        for op in module.walk(function) {
            let Some(global) = module.symbol_attr(op, "global") else {
                continue;
            };
            match module.name_str(op) {
                "dist.load" => {
                    loaded.insert(global, module.ty(module.result(op, 0)));
                }
                "dist.store" => {
                    stored.insert(global);
                }
                "dist.accumulate" => {
                    let declared = symbols.get(global).and_then(|&g| module.attr(g, "type"));
                    if let Some(ty) = declared.and_then(|a| module.cx().as_type(a)) {
                        loaded.insert(global, ty);
                    }
                    stored.insert(global);
                }
                _ => {}
            }
        }
        let names = || module.symbols(class).map(|(name, _)| name);
        Self {
            loads: names()
                .filter_map(|n| Some((n.to_owned(), *loaded.get(n)?)))
                .collect(),
            stores: names()
                .filter(|n| stored.contains(n))
                .map(str::to_owned)
                .collect(),
        }
    }
}

fn lower_function(
    module: &mut Module,
    class: OpId,
    function: OpId,
    mesh: &Mesh,
    externals: &mut Externals,
) -> Result<(), Box<Diagnostic>> {
    let state = State::of(module, class, function);
    let old_body = module.body(function);
    let ops: Vec<_> = module.block_ops(old_body).collect();
    let cx = module.cx().clone();
    let mut inputs: Vec<_> = module
        .args(old_body)
        .iter()
        .map(|&a| module.ty(a))
        .collect();
    inputs.extend(state.loads.iter().map(|(_, ty)| *ty));
    let loc = module.loc(function);
    let old_args = module.args(old_body).to_vec();
    let top = module.body(module.root());
    let name = format!(
        "{}_{}",
        module.symbol_name(class).unwrap_or("main"),
        module.symbol_name(function).unwrap_or("main")
    );
    let mut rewriter = Rewriter::new(module);
    rewriter.set_insertion_point(Position::End(top));
    let strings = |names: Vec<&String>| cx.string_array(&names);
    let attrs = cx.dict(vec![
        (cx.ident("llvm.emit_c_interface"), cx.unit()),
        (
            cx.ident("dist.loads"),
            strings(state.loads.iter().map(|(n, _)| n).collect()),
        ),
        (
            cx.ident("dist.stores"),
            strings(state.stores.iter().collect()),
        ),
    ]);
    let new = rewriter.create(NewOp {
        attrs,
        regions: 1,
        ..NewOp::new(cx.ident("func.func"), loc, &cx)
    });
    let region = rewriter.regions(new)[0];
    let body = rewriter.append_block(region);
    let args: Vec<_> = inputs
        .iter()
        .map(|&ty| rewriter.add_arg(body, ty, loc))
        .collect();
    rewriter.set_insertion_point(Position::End(body));
    let mut values: HashMap<ValueId, ValueId> =
        old_args.iter().copied().zip(args.iter().copied()).collect();
    let globals = state.loads.iter().map(|(name, _)| name.as_str());
    // What each global holds at this point of the function.
    let mut globals: HashMap<_, _> = globals
        .map(str::to_owned)
        .zip(args[old_args.len()..].iter().copied())
        .collect();
    let mut emit = Emit {
        rewriter: &mut rewriter,
        cx: cx.clone(),
        loc,
        mesh: mesh.axes().to_vec(),
        sizes: mesh.sizes().iter().map(|&s| s as i64).collect(),
        externals,
    };
    let mut returned = Vec::new();
    for op in ops {
        emit.loc = emit.rewriter.loc(op);
        let operands: Vec<_> = emit.rewriter.operands(op).map(|v| values[&v]).collect();
        let results = match emit.rewriter.name_str(op) {
            "dist.load" => {
                let name = emit.rewriter.symbol_attr(op, "global").unwrap_or_default();
                Ok(vec![globals[name]])
            }
            "dist.store" => {
                let name = emit.rewriter.symbol_attr(op, "global").unwrap_or_default();
                globals.insert(name.to_owned(), operands[0]);
                Ok(vec![])
            }
            "dist.accumulate" => {
                let name = emit.rewriter.symbol_attr(op, "global").unwrap_or_default();
                let name = name.to_owned();
                let sum = elementwise::accumulate(&mut emit, globals[&name], operands[0]);
                globals.insert(name, sum);
                Ok(vec![])
            }
            "func.return" => {
                returned = operands;
                Ok(vec![])
            }
            _ => lower_op(&mut emit, op, operands),
        };
        let results = results.map_err(|why| {
            let name = emit.rewriter.name_str(op);
            let message = format!("'{name}' cannot be lowered to linalg: {why}");
            Box::new(Diagnostic::error("E0721", emit.loc, message))
        })?;
        values.extend(emit.rewriter.results(op).zip(results));
    }
    returned.extend(state.stores.iter().map(|name| globals[name]));
    let results: Vec<_> = returned.iter().map(|&v| rewriter.ty(v)).collect();
    rewriter.create(NewOp {
        operands: &returned,
        ..NewOp::new(cx.ident("func.return"), loc, &cx)
    });
    let ty = cx.function_type(&inputs, &results);
    rewriter.set_props(new, function_props(&rewriter, &name, ty, None));
    Ok(())
}

fn function_props(module: &Module, name: &str, ty: Type, visibility: Option<&str>) -> Attr {
    let cx = module.cx();
    let mut props = vec![
        (cx.ident("function_type"), cx.type_attr(ty)),
        (cx.ident("sym_name"), cx.string(name)),
    ];
    props.extend(visibility.map(|v| (cx.ident("sym_visibility"), cx.string(v))));
    cx.dict(props)
}

fn declare(
    rewriter: &mut Rewriter,
    top: raddle_dialect::ir::BlockId,
    name: &str,
    inputs: &[Type],
    results: &[Type],
) {
    let cx = rewriter.cx().clone();
    let loc = rewriter.loc(rewriter.root());
    let ty = cx.function_type(inputs, results);
    let props = function_props(rewriter, name, ty, Some("private"));
    rewriter.set_insertion_point(Position::Start(top));
    rewriter.create(NewOp {
        props,
        attrs: cx.dict(vec![(cx.ident("llvm.emit_c_interface"), cx.unit())]),
        regions: 1,
        ..NewOp::new(cx.ident("func.func"), loc, &cx)
    });
}

/// One op. Its results come in the order of the old op's results.
fn lower_op(e: &mut Emit, op: OpId, args: Vec<ValueId>) -> Outcome {
    let types = e
        .rewriter
        .results(op)
        .map(|v| e.rewriter.ty(v))
        .collect::<Vec<_>>();
    for ty in types {
        match e.cx.as_tensor(ty) {
            Some((shape, _)) if !shape.contains(&DYNAMIC) => {}
            _ => return Err("its results are not tensors of static shape".into()),
        }
    }
    let call = &Call { op, args };
    let name = e.rewriter.name_str(op).to_owned();
    match name.as_str() {
        "dist.matmul" => contraction::matmul(e, call),
        "dist.matmul_grad" => contraction::matmul_grad(e, call),
        "dist.fused_linear" => contraction::fused_linear(e, call),
        "dist.fused_linear_grad" => contraction::fused_linear_grad(e, call),
        "dist.add" => elementwise::map(e, call, |e, x| e.add(x[0], x[1])),
        "dist.sub" => elementwise::map(e, call, |e, x| e.sub(x[0], x[1])),
        "dist.mul" => elementwise::map(e, call, |e, x| e.mul(x[0], x[1])),
        "dist.div" => elementwise::map(e, call, |e, x| e.div(x[0], x[1])),
        "dist.maximum" => elementwise::map(e, call, |e, x| e.max(x[0], x[1])),
        "dist.add_grad" => elementwise::binary_grad(e, call, Arithmetic::Sum),
        "dist.mul_grad" => elementwise::binary_grad(e, call, Arithmetic::Product),
        "dist.div_grad" => elementwise::binary_grad(e, call, Arithmetic::Quotient),
        "dist.maximum_grad" => elementwise::binary_grad(e, call, Arithmetic::Maximum),
        "dist.scale" => elementwise::scale(e, call),
        "dist.cast" => {
            let (_, element) = call.result_shape(e);
            elementwise::map(e, call, |e, x| e.convert(x[0], element))
        }
        "dist.gelu" => {
            let gelu = elementwise::gelu(e, call)?;
            elementwise::map(e, call, |e, x| gelu.value(e, x[0]))
        }
        "dist.gelu_grad" => {
            let gelu = elementwise::gelu(e, call)?;
            elementwise::activation_grad(e, call, gelu)
        }
        "dist.relu" => elementwise::map(e, call, |e, x| Activation::Relu.value(e, x[0])),
        "dist.relu_grad" => elementwise::activation_grad(e, call, Activation::Relu),
        "dist.silu" => elementwise::map(e, call, |e, x| Activation::Silu.value(e, x[0])),
        "dist.silu_grad" => elementwise::activation_grad(e, call, Activation::Silu),
        "dist.tanh_grad" => elementwise::tanh_grad(e, call),
        "dist.sqrt" | "dist.rsqrt" | "dist.exp" | "dist.log" | "dist.tanh" => {
            let function = name.trim_start_matches("dist.");
            elementwise::map(e, call, |e, x| e.math(function, x[0]))
        }
        "dist.clip_grad" => elementwise::clip_grad(e, call),
        "dist.clip" => elementwise::clip(e, call),
        "dist.identity" => Ok(call.args.clone()),
        "dist.sum" => elementwise::sum(e, call),
        "dist.any_of" => elementwise::any_of(e, call),
        "dist.fill" => {
            let (shape, element) = call.result_shape(e);
            let wide = e.wide(element);
            let value = call.float(e, "value")?;
            let splat = e.splat(value, &shape, wide);
            Ok(vec![elementwise::store_as(e, splat, element)])
        }
        "dist.uniform" => collectives::random(e, call, "uniform", ["min", "max"]),
        "dist.gaussian" => collectives::random(e, call, "gaussian", ["mean", "std"]),
        "dist.reshape" => shape::reshape(e, call),
        "dist.transpose" => shape::transpose(e, call),
        "dist.slice" => shape::slice(e, call),
        "dist.slice_grad" => shape::slice_grad(e, call),
        "dist.split" => shape::split(e, call),
        "dist.concat" | "dist.concat_pair" => shape::join(e, call, false),
        "dist.stack" => shape::join(e, call, true),
        "dist.reduce_sum" => reduce::reduce(e, call, Kind::Sum),
        "dist.reduce_mean" => reduce::reduce(e, call, Kind::Mean),
        "dist.reduce_max" => reduce::reduce(e, call, Kind::Max),
        "dist.reduce_any" => reduce::reduce(e, call, Kind::Any),
        "dist.reduce_sum_grad" => reduce::reduce_grad(e, call, false),
        "dist.reduce_mean_grad" => reduce::reduce_grad(e, call, true),
        "dist.reduce_max_grad" => reduce::reduce_max_grad(e, call),
        "dist.layer_norm" => norm::layer_norm(e, call),
        "dist.layer_norm_grad" => norm::layer_norm_grad(e, call),
        "dist.rms_norm" => norm::rms_norm(e, call),
        "dist.rms_norm_grad" => norm::rms_norm_grad(e, call),
        "dist.softmax" => softmax::softmax(e, call),
        "dist.softmax_grad" => softmax::softmax_grad(e, call),
        "dist.softmax_cross_entropy" => softmax::cross_entropy(e, call),
        "dist.softmax_cross_entropy_grad" => softmax::cross_entropy_grad(e, call),
        "dist.embedding" => softmax::embedding(e, call),
        "dist.embedding_grad" => softmax::embedding_grad(e, call),
        "dist.dropout" => softmax::dropout(e, call),
        "dist.dropout_grad" => softmax::dropout_grad(e, call),
        "dist.attention" => attention::attention(e, call),
        "dist.attention_grad" => attention::attention_grad(e, call),
        "dist.squared_l2_norm" => reduce::squared_l2_norm(e, call),
        "dist.clip_by_norm" => reduce::clip_by_norm(e, call),
        "dist.check_finite_and_unscale" => optimizers::check_finite_and_unscale(e, call),
        "dist.update_loss_scaling" => optimizers::update_loss_scaling(e, call),
        "dist.sgd" => optimizers::sgd(e, call),
        "dist.momentum" | "dist.merged_momentum" => optimizers::momentum(e, call),
        "dist.dgc_momentum" => optimizers::dgc_momentum(e, call),
        "dist.lars_momentum" => optimizers::lars_momentum(e, call),
        "dist.decayed_adagrad" => optimizers::decayed_adagrad(e, call),
        "dist.lamb" => optimizers::lamb(e, call),
        "dist.adam" => optimizers::adam(e, call, false),
        "dist.adamw" => optimizers::adam(e, call, true),
        "dist.adamax" => optimizers::adamax(e, call),
        "dist.all_reduce" => collectives::all_reduce(e, call),
        "dist.reduce_scatter" => collectives::reduce_scatter(e, call),
        "dist.all_gather" => collectives::all_gather(e, call),
        "dist.all_to_all" => collectives::all_to_all(e, call),
        "dist.broadcast" => collectives::broadcast(e, call),
        "dist.send" => collectives::send(e, call),
        "dist.recv" => collectives::recv(e, call),
        "dist.barrier" => collectives::barrier(e, call),
        _ => Err("there is no lowering for it".into()),
    }
}
