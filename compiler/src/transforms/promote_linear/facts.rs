//! What the pass needs to know about a rank class, gathered in one walk: where each op stands, who loads and stores which
//! global, and what its mesh and ranks are.

use rustc_hash::FxHashMap;

use raddle_dialect::ir::{Attr, AttrData, LayoutData, Module, OpId, ValueId};
use raddle_dialect::mesh::{Mesh, RankSet};
use raddle_dialect::ops::Effects;

/// A global of the class, and who touches it.
#[derive(Default, Debug)]
pub struct Global {
    /// The `dist.global`; none if the name does not resolve.
    pub op: Option<OpId>,
    /// Its loads, in program order.
    pub loads: Vec<OpId>,
    /// Its stores, in program order.
    pub stores: Vec<OpId>,
    /// What adds to it, in program order.
    pub accumulations: Vec<OpId>,
    /// Globals whose `of` names it.
    pub states: Vec<Attr>,
}

/// Where an op stands in its class.
#[derive(Clone, Copy, Default, Debug)]
pub struct Place {
    /// Position in program order.
    pub order: u32,
    /// Collectives before it.
    pub collectives: u32,
    /// Ops of unknown effect before it.
    pub unknown: u32,
    /// Operands of other ops that are results of this op.
    pub uses: u32,
}

/// Facts about one class. The module must not be edited while they are used.
pub struct Facts<'m> {
    /// The module.
    pub module: &'m Module,
    /// Its mesh.
    pub mesh: Mesh,
    /// Its ranks.
    pub ranks: RankSet,
    /// All ops of the class, in program order.
    pub ops: Vec<OpId>,
    globals: FxHashMap<Attr, Global>,
    /// By index of the op, less `first`.
    places: Vec<Place>,
    first: usize,
    /// The functions, in program order, and where each begins.
    functions: Vec<(OpId, u32)>,
    /// Where the collectives over each set of axes stand, in program order.
    collectives: FxHashMap<Vec<usize>, Vec<u32>>,
}

/// Which collective over its axes one is: the rank of another class meets it with the same number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Meeting {
    /// The function's name.
    pub function: String,
    /// The axes: positions in the mesh.
    pub axes: Vec<usize>,
    /// How many collectives over these axes come before it in the function.
    pub number: usize,
}

impl<'m> Facts<'m> {
    /// Gathers the facts. `None` if `class` has no mesh or no ranks: it is not a rank class.
    pub fn new(module: &'m Module, class: OpId) -> Option<Self> {
        let mesh = Mesh::of(module, class).ok()?;
        let ranks = RankSet::from_module(module, class, &mesh).ok()?;
        let ops: Vec<_> = module.walk(class).skip(1).collect();
        let first = ops.iter().map(|op| op.index()).min().unwrap_or_default();
        let last = ops.iter().map(|op| op.index()).max().unwrap_or_default();
        let mut facts = Self {
            module,
            mesh,
            ranks,
            ops,
            globals: FxHashMap::default(),
            places: vec![Place::default(); last - first + 1],
            first,
            functions: Vec::new(),
            collectives: FxHashMap::default(),
        };
        let mut place = Place::default();
        for index in 0..facts.ops.len() {
            let op = facts.ops[index];
            let uses = module.results(op).map(|r| module.uses(r).count());
            place.uses = uses.sum::<usize>() as u32;
            place.order = index as u32;
            facts.places[op.index() - first] = place;
            facts.note(op, &mut place);
        }
        Some(facts)
    }

    fn note(&mut self, op: OpId, place: &mut Place) {
        let module = self.module;
        let Some(def) = module.def_of(op) else {
            place.unknown += 1;
            return;
        };
        let global = module.attr(op, "global");
        match (def.effects, global) {
            (Effects::Reads, Some(global)) => self.entry(global).loads.push(op),
            (Effects::Writes, Some(global)) => self.entry(global).stores.push(op),
            (Effects::Accumulates, Some(global)) => self.entry(global).accumulations.push(op),
            (Effects::Communicates, _) => {
                place.collectives += 1;
                if let Some(axes) = self.axes(op) {
                    let all = self.collectives.entry(axes).or_default();
                    all.push(place.order);
                }
            }
            (Effects::Opaque, _) if module.is(op, "func.func") => {
                place.unknown += 1;
                self.functions.push((op, place.order));
            }
            (Effects::Opaque, _) if module.is(op, "dist.global") => self.declare(op),
            (Effects::Opaque, _) if !def.traits.terminator => place.unknown += 1,
            _ => {}
        }
    }

    fn declare(&mut self, op: OpId) {
        let module = self.module;
        let Some(name) = module.symbol_name(op) else {
            return;
        };
        let name = module.cx().symbol_ref(name);
        self.entry(name).op = Some(op);
        if let Some(parameter) = module.attr(op, "of") {
            self.entry(parameter).states.push(name);
        }
    }

    fn entry(&mut self, name: Attr) -> &mut Global {
        self.globals.entry(name).or_default()
    }

    /// The global that a symbol reference names.
    pub fn global(&self, name: Attr) -> Option<&Global> {
        self.globals.get(&name)
    }

    /// Where an op of the class stands.
    pub fn place(&self, op: OpId) -> Place {
        self.places[op.index() - self.first]
    }

    /// Whether `a` stands before `b` in the text of the class.
    pub fn precedes(&self, a: OpId, b: OpId) -> bool {
        self.place(a).order < self.place(b).order
    }

    /// The op that a value is a result of, if it belongs to the class.
    pub fn definition(&self, value: ValueId) -> Option<OpId> {
        self.module.defining_op(value)
    }

    /// Positions in the mesh of the axes that a collective names; `None` if one does not exist.
    pub fn axes(&self, collective: OpId) -> Option<Vec<usize>> {
        let names = self.module.axes_attr(collective, "axes");
        self.mesh.axis_set(&names).ok()
    }

    /// Axes as they are written: `["dp", "mp"]`.
    pub fn show(&self, axes: &[usize]) -> String {
        show_axes(&self.mesh, axes)
    }

    /// Which of the collectives over `axes` the next one from `op` on is.
    pub fn meeting(&self, op: OpId, axes: &[usize]) -> Meeting {
        let here = self.place(op).order;
        let before = self.functions.partition_point(|&(_, start)| start < here);
        let function = before.checked_sub(1).map(|i| self.functions[i]);
        let start = function.map_or(0, |(_, start)| start);
        let all = self.collectives.get(axes).map_or(&[][..], |all| all);
        let name = function.and_then(|(f, _)| self.module.symbol_name(f));
        Meeting {
            function: name.unwrap_or_default().into(),
            axes: axes.to_vec(),
            number: all.partition_point(|&o| o < here) - all.partition_point(|&o| o < start),
        }
    }

    /// Whether an op stands in a function that runs once a step, after all micro-batches.
    pub fn in_optimizer(&self, op: OpId) -> bool {
        let here = self.place(op).order;
        let before = self.functions.partition_point(|&(_, start)| start < here);
        let function = before.checked_sub(1).map(|i| self.functions[i].0);
        function.and_then(|f| self.module.str_attr(f, "dist.kind")) == Some("optimizer")
    }

    /// How a global is spread over the mesh.
    pub fn layout(&self, global: OpId) -> Option<&'m LayoutData> {
        let layout = self.module.attr(global, "layout")?;
        match self.module.cx().attr_data(layout) {
            AttrData::Layout(layout) => Some(layout),
            _ => None,
        }
    }

    /// Whether a global is the same on all ranks over these axes.
    pub fn is_replicated(&self, global: OpId, axes: &[usize]) -> bool {
        self.layout(global).is_some_and(|layout| {
            let mut named = layout.dims.iter().flatten().chain(&layout.partial);
            let varies = |axis| self.mesh.axis(axis).is_none_or(|a| axes.contains(&a));
            !named.any(|&axis| varies(self.module.cx().str(axis)))
        })
    }

    /// Whether the class holds every rank of each group over these axes that it holds a rank of.
    pub fn holds_groups(&self, axes: &[usize]) -> bool {
        let whole = |b: &Vec<Vec<usize>>| {
            axes.iter()
                .all(|&axis| b[axis].len() == self.mesh.sizes()[axis])
        };
        self.ranks.boxes().iter().all(whole)
    }

    /// The shape and element type of a value.
    pub fn shape(&self, value: ValueId) -> Option<(&'m [i64], raddle_dialect::ir::Type)> {
        self.module.cx().as_tensor(self.module.ty(value))
    }
}

/// Axes as they are written: `["dp", "mp"]`.
pub fn show_axes(mesh: &Mesh, axes: &[usize]) -> String {
    let names: Vec<_> = axes.iter().map(|&a| mesh.axes()[a].as_str()).collect();
    format!("{names:?}")
}
