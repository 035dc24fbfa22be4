//! The forward program: its step, its loss, its parameters.

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Attr, AttrData, BlockId, Module, OpId, Rewriter, ValueId};
use raddle_dialect::layout::{Layout, Reduction, Spread};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::ValueLayouts;
use raddle_dialect::syntax::value_named;
use raddle_dialect::{DType, TensorType};
use rustc_hash::FxHashMap;

use super::options::{Options, Scaling};
use crate::pass::{Failed, PassCx};

/// A parameter that the step reads.
#[derive(Debug)]
pub struct Parameter {
    pub name: String,
    pub global: OpId,
    pub ty: TensorType,
    pub layout: Layout,
    /// Its values in the step, in program order.
    pub loads: Vec<ValueId>,
    /// Whether an f32 copy of it is updated (`dist.master_weight`, which apply-amp sets).
    pub master: bool,
    /// The pipeline stage that reads it first, if stages are known.
    pub stage: Option<Attr>,
}

/// What is differentiated.
pub struct Step {
    pub class: OpId,
    pub function: OpId,
    pub block: BlockId,
    /// The function's `func.return`.
    pub end: OpId,
    pub loss: ValueId,
    /// Those that it reads, in the order of their declarations.
    pub parameters: Vec<Parameter>,
    /// Those that it does not read.
    pub unread: Vec<Parameter>,
    pub mesh: Mesh,
    pub microbatches: i64,
    /// What apply-amp asks for (`dist.loss_scaling`).
    pub scaling: Scaling,
}

impl Step {
    /// Finds the step of a class; none if there is nothing to differentiate.
    ///
    /// # Errors
    /// After reporting what is wrong with it.
    pub fn find(
        module: &Module,
        class: OpId,
        options: &Options,
        cx: &mut PassCx,
    ) -> Result<Option<Self>, Failed> {
        let is_step = |op: &OpId| {
            module.is(*op, "func.func") && module.str_attr(*op, "dist.kind") == Some("step")
        };
        let Some(function) = module.block_ops(module.body(class)).find(is_step) else {
            return Ok(None);
        };
        let fail = |cx: &mut PassCx, code, op: OpId, message: String, help: &str| {
            cx.report(Diagnostic::error(code, module.loc(op), message).help(help));
            Err(Failed)
        };
        let mut blocks = module.regions(function).first().map(|&r| module.blocks(r));
        let (block, second) = match &mut blocks {
            Some(blocks) => (blocks.next(), blocks.next()),
            None => (None, None),
        };
        let (Some(block), None) = (block, second) else {
            let message =
                "the step is not a single block, and only straight code has a backward pass here";
            let help = "lower control flow to straight code first, for example by unrolling loops";
            return fail(cx, "E0621", function, message.into(), help);
        };
        let Some(end) = module.last_op(block) else {
            return Ok(None);
        };
        if let Some(init) = broken_init(module, class) {
            let message = "init is not a single block, so nothing can be added to it";
            let help = "write it as straight code that ends in a return";
            return fail(cx, "E0626", init, message.into(), help);
        }
        if let Some(op) = module.block_ops(block).find(|&op| is_trained(module, op)) {
            cx.remark("R0732", module.loc(op), || {
                "the step has a backward pass already; it stays as it is".into()
            });
            return Ok(None);
        }
        let mesh = match Mesh::of(module, function) {
            Ok(mesh) => mesh,
            Err(error) => {
                let help = error.help().unwrap_or_default();
                return fail(cx, error.code(), function, error.to_string(), &help);
            }
        };
        let loss = match find_loss(module, function, end, &options.loss) {
            Ok(loss) => loss,
            Err(message) => {
                let help = "return the loss from the step, or name it: append-backward{loss=%12}, as the printed module calls it";
                return fail(cx, "E0622", end, message, help);
            }
        };
        let (unread, parameters): (Vec<_>, Vec<_>) = parameters(module, class, block, &mesh)
            .into_iter()
            .partition(|p| p.loads.is_empty());
        for parameter in &unread {
            warn_unread(module, parameter, cx);
        }
        let scaling = module.str_attr(function, "dist.loss_scaling");
        Ok(Some(Self {
            class,
            function,
            block,
            end,
            loss,
            parameters,
            unread,
            mesh,
            microbatches: module
                .i64_attr(class, "dist.microbatches")
                .unwrap_or(1)
                .max(1),
            scaling: scaling.map_or(Scaling::None, Scaling::parse),
        }))
    }

    /// The ops from which on it is not known how values are spread: those without a rule for it.
    pub fn unknown<'m>(&self, module: &'m Module, layouts: &'m ValueLayouts) -> Vec<OpId> {
        let is_known = |value: &ValueId| layouts.contains_key(value);
        let ops = module.block_ops(self.block);
        ops.filter(|&op| {
            module.operands(op).all(|v| is_known(&v)) && !module.results(op).all(|v| is_known(&v))
        })
        .collect()
    }

    /// Axes along which the loss is a partial mean; none, after reporting it, if the loss is spread in a way that cannot be
    /// differentiated.
    pub fn means(
        &self,
        module: &Module,
        layouts: &ValueLayouts,
        cx: &mut PassCx,
    ) -> Option<Vec<usize>> {
        let op = module.defining_op(self.loss).unwrap_or(self.function);
        let mut report = |message: String, help: &str| {
            cx.report(Diagnostic::error("E0623", module.loc(op), message).help(help));
        };
        let Some(layout) = layouts.get(&self.loss) else {
            let help = "give the step's arguments a dist.layout";
            report(
                "it is not known how the loss is spread over the mesh".into(),
                help,
            );
            return None;
        };
        let mut means = Vec::new();
        for (axis, &size) in self.mesh.sizes().iter().enumerate() {
            match layout.on(axis) {
                _ if size == 1 => {}
                Spread::Replicated | Spread::Partial(Reduction::Sum) => {}
                Spread::Partial(Reduction::Avg) => means.push(axis),
                spread => {
                    let what = match spread {
                        Spread::Partial(reduction) => format!("a partial {}", reduction.name()),
                        Spread::Sharded(_) => "cut into pieces".into(),
                        _ => "each rank's own".into(),
                    };
                    let axis = &self.mesh.axes()[axis];
                    let help = "reduce it to a sum or a mean over that axis";
                    report(format!("the loss is {what} along axis '{axis}'"), help);
                    return None;
                }
            }
        }
        Some(means)
    }

    /// Gives the ops that are there the role `forward`.
    pub fn mark_forward(&self, rewriter: &mut Rewriter) {
        let role = rewriter.cx().string("forward");
        let ops: Vec<_> = rewriter.block_ops(self.block).collect();
        for op in ops {
            if op != self.end && rewriter.attr(op, "dist.role").is_none() {
                rewriter.set_attr(op, "dist.role", Some(role));
            }
        }
    }
}

/// Whether an op belongs to a backward pass or an optimizer.
fn is_trained(module: &Module, op: OpId) -> bool {
    let role = module.str_attr(op, "dist.role");
    matches!(role, Some("backward" | "optimizer"))
        || module
            .def_of(op)
            .is_some_and(|def| def.operands.first().is_some_and(|g| g.name == "param"))
}

/// The class's `init`, if it has one that is no straight code.
fn broken_init(module: &Module, class: OpId) -> Option<OpId> {
    let mut ops = module.block_ops(module.body(class));
    let init = ops.find(|&op| {
        module.is(op, "func.func") && module.str_attr(op, "dist.kind") == Some("init")
    })?;
    let blocks = module
        .regions(init)
        .first()
        .map(|&r| module.blocks(r).count());
    (blocks != Some(1)).then_some(init)
}

fn find_loss(module: &Module, function: OpId, end: OpId, name: &str) -> Result<ValueId, String> {
    let is_scalar = |value: ValueId| {
        TensorType::of(module.cx(), module.ty(value))
            .is_ok_and(|ty| ty.dtype.is_float() && ty.elements() == Some(1))
    };
    if name != "auto" {
        let value = value_named(module, function, name)
            .ok_or_else(|| format!("the step has no value {name} to take as the loss"))?;
        return match is_scalar(value) {
            true => Ok(value),
            false => Err(format!(
                "{name} is no single float, so it cannot be the loss"
            )),
        };
    }
    let mut scalars = module.operands(end).filter(|&v| is_scalar(v));
    match (scalars.next(), scalars.next()) {
        (Some(loss), None) => Ok(loss),
        (None, _) => Err("the step returns no single float to take as the loss".into()),
        _ => Err("the step returns several floats, and none of them is named as the loss".into()),
    }
}

fn parameters(module: &Module, class: OpId, block: BlockId, mesh: &Mesh) -> Vec<Parameter> {
    let cx = module.cx();
    let mut parameters = Vec::new();
    let mut by_name = FxHashMap::default();
    for (name, op) in module.symbols(class) {
        if !module.is(op, "dist.global") || module.str_attr(op, "kind") != Some("parameter") {
            continue;
        }
        let ty = module.attr(op, "type").and_then(|a| cx.as_type(a));
        let ty = ty.and_then(|ty| TensorType::of(cx, ty).ok());
        let Some(ty) = ty.filter(|ty| ty.dtype.is_float()) else {
            continue;
        };
        let Some(layout) = global_layout(module, op, mesh, ty.rank()) else {
            continue;
        };
        by_name.insert(name, parameters.len());
        parameters.push(Parameter {
            name: name.to_owned(),
            global: op,
            ty,
            layout,
            loads: Vec::new(),
            master: module.attr(op, "dist.master_weight").is_some(),
            stage: None,
        });
    }
    for op in module.block_ops(block) {
        if !module.is(op, "dist.load") {
            continue;
        }
        let global = module.symbol_attr(op, "global");
        if let Some(&at) = global.and_then(|g| by_name.get(g)) {
            let parameter: &mut Parameter = &mut parameters[at];
            parameter.loads.push(module.result(op, 0));
            if parameter.stage.is_none() {
                let reader = module.uses(module.result(op, 0)).last().map(|u| u.op);
                let at = [Some(op), reader].into_iter().flatten();
                parameter.stage = at.filter_map(|op| module.attr(op, "dist.stage")).next();
            }
        }
    }
    parameters
}

/// The layout that a global declares.
pub fn global_layout(module: &Module, op: OpId, mesh: &Mesh, rank: usize) -> Option<Layout> {
    let attr = module.attr(op, "layout")?;
    match module.cx().attr_data(attr) {
        AttrData::Layout(data) => Layout::from_data(module.cx(), data, mesh, rank).ok(),
        _ => None,
    }
}

/// Says that a parameter gets no gradient.
pub fn warn_unread(module: &Module, parameter: &Parameter, cx: &mut PassCx) {
    let message = format!(
        "the loss does not depend on parameter @{}, so nothing updates it",
        parameter.name
    );
    cx.report(Diagnostic::warning(
        "W0731",
        module.loc(parameter.global),
        message,
    ));
}

/// What numbers that decide on updates are kept in.
pub const NUMBERS: DType = DType::F32;
