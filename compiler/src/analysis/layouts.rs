//! The layout of every value of a function, from the layouts of its arguments and of the globals it loads.
//!
//! Each op's own rule says how its results are spread; this walks a function once and applies them. Where a rule finds that an op
//! reads a value as something that it is not, that is a finding, and what depends on the op's results is unknown.

use std::collections::HashMap;

use raddle_dialect::ir::{AttrData, Module, OpId, ValueId};
use raddle_dialect::layout::{Layout, Reduction, Spread};
use raddle_dialect::mesh::{Mesh, RankSet};
use raddle_dialect::ops::{self, LayoutCall, OpAttributes, OpDef};
use raddle_dialect::{Error, TensorType};
use rustc_hash::FxBuildHasher;

/// What is known of a function's values.
pub struct Layouts {
    /// The mesh that layouts speak of.
    pub mesh: Mesh,
    values: HashMap<ValueId, Layout, FxBuildHasher>,
    /// Values that may be spread otherwise along these axes.
    doubtful: HashMap<ValueId, Vec<usize>, FxBuildHasher>,
    /// Values that are partial along these axes only because this class's ranks own them alone: to these ranks they are whole.
    owned: HashMap<ValueId, Vec<usize>, FxBuildHasher>,
    /// Ops that read a value as something that it is not, in program order.
    pub findings: Vec<Finding>,
}

/// An op at which layouts do not go together.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The op.
    pub op: OpId,
    /// What does not fit.
    pub error: Error,
    /// The mesh axis along which it does not fit, if it is one axis.
    pub axis: Option<usize>,
    /// The op goes by a number that each rank makes for itself, which some systems mean.
    pub own: Option<Own>,
    /// An operand comes from a reshape that may mean something else: see [`Layouts::of`].
    pub doubtful: bool,
}

/// What ranks make for themselves and take for everyone's. It is then taken to be what all ranks mean, so that more can be said of what
/// follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Own {
    /// A norm, of squared norms some of which are of the rank's own pieces.
    Norm,
    /// A flag that some gradient is infinite, of the rank's own gradients.
    Flag,
}

impl Layouts {
    /// Infers the layouts of the values of a function of a rank class.
    ///
    /// Only local shapes are known. A reshape that merges a piece of extent 1 away, as `[4, 1, 8]` to `[4, 8]`, may join it with what stands
    /// before it or after it; it is taken to be the latter, and findings that rest on that are doubtful.
    ///
    /// # Errors
    /// If the function is not inside a class with a mesh.
    pub fn of(module: &Module, function: OpId) -> Result<Self, Error> {
        let mesh = Mesh::of(module, function)?;
        let class = module.enclosing_module(function).ok_or(Error::NoMesh)?;
        let mut inference = Inference {
            module,
            alone: alone(module, class, &mesh),
            globals: global_layouts(module, class, &mesh),
            layouts: Self {
                mesh,
                values: HashMap::default(),
                doubtful: HashMap::default(),
                owned: HashMap::default(),
                findings: Vec::new(),
            },
        };
        inference.arguments(function);
        for &region in module.regions(function) {
            for block in module.blocks(region) {
                for op in module.block_ops(block) {
                    inference.op(op);
                }
            }
        }
        Ok(inference.layouts)
    }

    /// All layouts that are known.
    pub fn into_values(self) -> HashMap<ValueId, Layout, FxBuildHasher> {
        self.values
    }

    /// How a value is spread, if that is known.
    pub fn get(&self, value: ValueId) -> Option<&Layout> {
        self.values.get(&value)
    }
}

struct Inference<'m> {
    module: &'m Module,
    globals: HashMap<&'m str, Layout, FxBuildHasher>,
    /// Per axis, whether each rank of the class is the only one of its group over the axis that the class holds.
    alone: Vec<bool>,
    layouts: Layouts,
}

fn global_layouts<'m>(
    module: &'m Module,
    class: OpId,
    mesh: &Mesh,
) -> HashMap<&'m str, Layout, FxBuildHasher> {
    let mut layouts = HashMap::default();
    for (name, op) in module.symbols(class) {
        if !module.is(op, "dist.global") {
            continue;
        }
        let layout = module.attr(op, "layout").map(|a| module.cx().attr_data(a));
        if let Some(AttrData::Layout(data)) = layout
            && let Ok(layout) = Layout::from_data(module.cx(), data, mesh, data.dims.len())
        {
            layouts.insert(name, layout);
        }
    }
    layouts
}

fn alone(module: &Module, class: OpId, mesh: &Mesh) -> Vec<bool> {
    let ranks = RankSet::from_module(module, class, mesh);
    let boxes = ranks.as_ref().map_or(&[][..], RankSet::boxes);
    let one = |axis: usize| !boxes.is_empty() && boxes.iter().all(|b| b[axis] == boxes[0][axis]);
    (0..mesh.axes().len())
        .map(|axis| one(axis) && boxes[0][axis].len() == 1)
        .collect()
}

impl Inference<'_> {
    /// Arguments have the layout that `dist.layout` gives.
    fn arguments(&mut self, function: OpId) {
        let (module, cx) = (self.module, self.module.cx());
        let Some(entry) = module
            .regions(function)
            .first()
            .and_then(|&r| module.first_block(r))
        else {
            return;
        };
        let attrs = module.attr(function, "arg_attrs");
        let attrs = attrs.and_then(|a| cx.as_array(a)).unwrap_or_default();
        for (&arg, &dict) in module.args(entry).iter().zip(attrs) {
            let layout = cx.dict_get(dict, "dist.layout").map(|a| cx.attr_data(a));
            let ty = TensorType::of(cx, module.ty(arg));
            if let (Some(AttrData::Layout(data)), Ok(ty)) = (layout, ty)
                && let Ok(layout) = Layout::from_data(cx, data, &self.layouts.mesh, ty.rank())
            {
                self.layouts.values.insert(arg, layout);
            }
        }
    }

    fn op(&mut self, op: OpId) {
        match self.module.name_str(op) {
            "dist.load" => self.load(op),
            "dist.store" | "dist.accumulate" => self.store(op),
            _ => self.apply(op),
        }
    }

    fn load(&mut self, op: OpId) {
        let global = self.module.symbol_attr(op, "global");
        if let Some(layout) = global.and_then(|g| self.globals.get(g)) {
            let value = self.module.result(op, 0);
            let partial = layout.partial.iter().map(|p| p.0);
            let owned: Vec<usize> = partial.filter(|&a| self.alone[a]).collect();
            if !owned.is_empty() {
                self.layouts.owned.insert(value, owned);
            }
            self.layouts.values.insert(value, layout.clone());
        }
    }

    /// What is stored in a global, or added to it, is spread like the global.
    fn store(&mut self, op: OpId) {
        let adds = self.module.is(op, "dist.accumulate");
        let global = self.module.symbol_attr(op, "global");
        let value = self.layouts.get(self.module.operand(op, 0));
        let (Some(global), Some(value)) = (global.and_then(|g| self.globals.get(g)), value) else {
            return;
        };
        let mesh = &self.layouts.mesh;
        let different = (0..mesh.axes().len())
            .filter(|&axis| mesh.sizes()[axis] > 1)
            .find(|&axis| {
                let (value, global) = (value.on(axis), global.on(axis));
                // Adding on every rank what all of them have alike would count it once per rank of a sum.
                let counted = adds && global != value && matches!(global, Spread::Partial(_));
                !may_become(value, global) || counted && !self.alone[axis]
            });
        if let Some(axis) = different {
            let verb = match adds {
                true => "adds",
                false => "stores",
            };
            let message = format!(
                "{verb} a value that is spread as {}, but the global as {}, along axis '{}'",
                value.display(mesh),
                global.display(mesh),
                mesh.axes()[axis]
            );
            self.layouts.findings.push(Finding {
                op,
                error: Error::op("E0346", message),
                axis: Some(axis),
                own: None,
                doubtful: false,
            });
        }
    }

    fn apply(&mut self, op: OpId) {
        let module = self.module;
        let Some(def) = module.def_of(op).filter(|d| d.layout.is_some()) else {
            return;
        };
        let types = |values: Vec<ValueId>| -> Option<Vec<TensorType>> {
            let ty = |v| TensorType::of(module.cx(), module.ty(v)).ok();
            values.into_iter().map(ty).collect()
        };
        let layouts: Option<Vec<Layout>> = module
            .operands(op)
            .map(|v| self.layouts.get(v).cloned())
            .collect();
        let operands = types(module.operands(op).collect());
        let results = types(module.results(op).collect());
        let (Some(layouts), Some(operands), Some(results)) = (layouts, operands, results) else {
            return;
        };
        let call = LayoutCall {
            operands: &operands,
            layouts: &layouts,
            attrs: &OpAttributes { module, op },
            results: &results,
            mesh: &self.layouts.mesh,
        };
        let rule = ops::layouts(def, &call).or_else(|error| self.to_owners(op, &call).ok_or(error));
        let mut layouts = match rule {
            Ok(layouts) => layouts,
            Err(error) => {
                let meant = meant(module, op, &call, &error);
                let axis = axis_of(def, &call);
                let doubtful = axis.is_some_and(|a| self.is_doubtful(op, a));
                self.layouts.findings.push(Finding {
                    op,
                    error,
                    axis,
                    doubtful,
                    own: meant.as_ref().map(|m| m.0),
                });
                let Some((_, layouts)) = meant else {
                    return;
                };
                layouts
            }
        };
        // Where there is one rank only, what is its own is everyone's.
        for layout in &mut layouts {
            layout.own.retain(|&axis| !self.alone[axis]);
        }
        let owned = self.own(op, &call, &layouts);
        self.layouts.owned.extend(owned);
        let doubtful = self.doubt(op, &call, &layouts);
        self.layouts.doubtful.extend(doubtful);
        self.layouts.values.extend(module.results(op).zip(layouts));
    }

    fn owns(&self, value: ValueId, axis: usize) -> bool {
        let axes = self.layouts.owned.get(&value);
        axes.is_some_and(|axes| axes.contains(&axis))
    }

    /// What an op's results are to ranks that own some of its operands alone.
    fn to_owners(&self, op: OpId, call: &LayoutCall) -> Option<Vec<Layout>> {
        if self.layouts.owned.is_empty() {
            return None;
        }
        let mut layouts = call.layouts.to_vec();
        for (value, layout) in self.module.operands(op).zip(&mut layouts) {
            layout.partial.retain(|p| !self.owns(value, p.0));
        }
        let call = LayoutCall {
            layouts: &layouts,
            ..*call
        };
        ops::layouts(self.module.def_of(op)?, &call).ok()
    }

    /// Results of an op that are partial only because some operands are owned, and along which axes.
    fn own(&self, op: OpId, call: &LayoutCall, results: &[Layout]) -> Vec<(ValueId, Vec<usize>)> {
        if self.layouts.owned.is_empty() {
            return vec![];
        }
        let is_owned = |axis: usize| {
            let operands = self.module.operands(op).zip(call.layouts);
            let mut partial = operands
                .filter(|(_, layout)| matches!(layout.on(axis), Spread::Partial(_)))
                .peekable();
            partial.peek().is_some() && partial.all(|(value, _)| self.owns(value, axis))
        };
        let axes: Vec<usize> = (0..call.mesh.axes().len())
            .filter(|&a| is_owned(a))
            .collect();
        let of_result = |(result, layout): (ValueId, &Layout)| {
            let partial = |&a: &usize| matches!(layout.on(a), Spread::Partial(_));
            let axes: Vec<usize> = axes.iter().copied().filter(partial).collect();
            (!axes.is_empty()).then_some((result, axes))
        };
        let results = self.module.results(op).zip(results);
        results.filter_map(of_result).collect()
    }

    fn is_doubtful(&self, op: OpId, axis: usize) -> bool {
        let doubtful = &self.layouts.doubtful;
        !doubtful.is_empty()
            && self
                .module
                .operands(op)
                .any(|v| doubtful.get(&v).is_some_and(|axes| axes.contains(&axis)))
    }

    /// Results of an op that are only perhaps what they are, and along which axes.
    fn doubt(&self, op: OpId, call: &LayoutCall, results: &[Layout]) -> Vec<(ValueId, Vec<usize>)> {
        let reshapes = self.module.is(op, "dist.reshape");
        if !reshapes && self.layouts.doubtful.is_empty() {
            return vec![];
        }
        let axes = 0..call.mesh.axes().len();
        let axes: Vec<usize> = axes
            .filter(|&a| self.is_doubtful(op, a) || reshapes && merges_away(call, results, a))
            .collect();
        let of_result = |(result, layout): (ValueId, &Layout)| {
            let cut = |&a: &usize| layout.on(a) != Spread::Replicated;
            let axes: Vec<usize> = axes.iter().copied().filter(cut).collect();
            (!axes.is_empty()).then_some((result, axes))
        };
        let results = self.module.results(op).zip(results);
        results.filter_map(of_result).collect()
    }
}

/// Whether a reshape merges a piece of extent 1 that an axis cuts with another dimension.
fn merges_away(call: &LayoutCall, results: &[Layout], axis: usize) -> bool {
    match (call.layouts[0].on(axis), results[0].on(axis)) {
        (Spread::Sharded(from), Spread::Sharded(to)) => {
            call.operands[0].shape[from] == 1 && call.results[0].shape[to] != 1
        }
        _ => false,
    }
}

/// The axis along which an op reads something as what it is not: the one that alone is enough for it.
fn axis_of(def: &'static OpDef, call: &LayoutCall) -> Option<usize> {
    let mesh = call.mesh;
    (0..mesh.axes().len()).find(|&axis| {
        let alone = |(other, &size): (usize, &usize)| if other == axis { size } else { 1 };
        let sizes = mesh.sizes().iter().enumerate().map(alone).collect();
        Mesh::new(mesh.axes().to_vec(), sizes).is_ok_and(|mesh| {
            ops::layouts(
                def,
                &LayoutCall {
                    mesh: &mesh,
                    ..*call
                },
            )
            .is_err()
        })
    })
}

/// What an op's results are if what ranks have for themselves is what all of them mean.
fn meant(
    module: &Module,
    op: OpId,
    call: &LayoutCall,
    error: &Error,
) -> Option<(Own, Vec<Layout>)> {
    if !matches!(error.code(), "E0341" | "E0348") {
        return None;
    }
    if joins_squared_norms(module, op) {
        let whole = call.results.iter().map(|t| Layout::replicated(t.rank()));
        return Some((Own::Norm, whole.collect()));
    }
    let mut layouts = call.layouts.to_vec();
    let flags = ["found_inf", "skip_update"];
    for flag in flags.iter().filter_map(|name| module.operand_in(op, name)) {
        let at = module.operands(op).position(|v| v == flag)?;
        layouts[at].partial.retain(|p| p.1 != Reduction::Any);
    }
    let call = LayoutCall {
        layouts: &layouts,
        ..*call
    };
    let results = ops::layouts(module.def_of(op)?, &call).ok()?;
    Some((Own::Flag, results))
}

/// Whether an op makes one norm of squared norms of several tensors.
fn joins_squared_norms(module: &Module, op: OpId) -> bool {
    let joins = ["dist.stack", "dist.sum", "dist.add", "dist.sqrt"];
    joins.contains(&module.name_str(op)) && module.operands(op).all(|v| is_squared_norm(module, v))
}

fn is_squared_norm(module: &Module, mut value: ValueId) -> bool {
    while let Some(op) = module.defining_op(value) {
        value = match module.name_str(op) {
            // What is broadcast is a term of another rank.
            "dist.squared_l2_norm" | "dist.broadcast" => return true,
            "dist.cast" | "dist.identity" | "dist.reshape" | "dist.reduce_sum" | "dist.stack"
            | "dist.sum" | "dist.add" | "dist.all_reduce" => module.operand(op, 0),
            _ => return false,
        };
    }
    false
}

/// Whether a value may be stored in a global: what all ranks have alike, the one rank that owns a partial global has too, and a
/// rank's own numbers may serve as its piece.
fn may_become(value: Spread, global: Spread) -> bool {
    match (value, global) {
        (value, global) if value == global => true,
        (Spread::Replicated, Spread::Partial(Reduction::Sum)) => true,
        (Spread::Own | Spread::Replicated, Spread::Sharded(_)) => true,
        _ => false,
    }
}
