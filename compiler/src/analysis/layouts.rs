//! The layout of every value of a function, from the layouts of its arguments and of the globals it loads.
//!
//! Each op's own rule says how its results are spread; this walks a function once and applies them. Where a rule finds that an op
//! reads a value as something that it is not, that is a finding, and what depends on the op's results is unknown.

use std::collections::HashMap;

use raddle_dialect::ir::{AttrData, Module, OpId, ValueId};
use raddle_dialect::layout::{Layout, Reduction, Spread};
use raddle_dialect::mesh::{Mesh, RankSet};
use raddle_dialect::ops::{self, LayoutCall, OpAttributes};
use raddle_dialect::{Error, TensorType};
use rustc_hash::FxBuildHasher;

/// What is known of a function's values.
pub struct Layouts {
    values: HashMap<ValueId, Layout, FxBuildHasher>,
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
}

impl Layouts {
    /// Infers the layouts of the values of a function of a rank class.
    ///
    /// # Errors
    /// If the function is not inside a class with a mesh.
    pub fn of(module: &Module, function: OpId) -> Result<Self, Error> {
        let mesh = Mesh::of(module, function)?;
        let class = module.enclosing_module(function).ok_or(Error::NoMesh)?;
        let mut inference = Inference {
            module,
            mesh: &mesh,
            alone: alone(module, class, &mesh),
            globals: global_layouts(module, class, &mesh),
            layouts: Self {
                values: HashMap::default(),
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
    mesh: &'m Mesh,
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
                && let Ok(layout) = Layout::from_data(cx, data, self.mesh, ty.rank())
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
        let different = (0..self.mesh.axes().len())
            .filter(|&axis| self.mesh.sizes()[axis] > 1)
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
                value.display(self.mesh),
                global.display(self.mesh),
                self.mesh.axes()[axis]
            );
            let error = Error::op("E0346", message);
            self.layouts.findings.push(Finding { op, error });
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
            mesh: self.mesh,
        };
        match ops::layouts(def, &call) {
            Ok(layouts) => self.layouts.values.extend(module.results(op).zip(layouts)),
            Err(error) => self.layouts.findings.push(Finding { op, error }),
        }
    }
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
