//! The calls of a function that other ranks have to join, in program order, as numbers that are quick to compare.

use std::collections::BTreeMap;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Attr, Ident, Module, OpId, Type};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::Effects;
use rustc_hash::FxHashMap;

use super::Job;

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The op.
    pub op: OpId,
    /// Whom it meets.
    pub with: With,
    /// What it does, as a number: calls that may meet have the same. Of a send or receive: what is carried.
    pub signature: u32,
}

/// Whom a call meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum With {
    /// The rank's group over a set of axes, an index into [`Tables::axes`].
    Group(usize),
    /// The rank that it sends to, an index into [`Tables::peers`].
    To(usize),
    /// The rank that it receives from.
    From(usize),
}

/// The calls of one function.
#[derive(Debug)]
pub struct Calls {
    /// The function.
    pub function: OpId,
    /// In program order.
    pub list: Vec<Call>,
    /// Branches or regions decide which calls are made.
    pub hidden: bool,
}

/// What the calls of a module name.
pub struct Tables<'m> {
    module: &'m Module,
    mesh: &'m Mesh,
    /// Sets of axes of size above 1, as positions in the mesh.
    pub axes: Vec<Vec<usize>>,
    /// Per peer, axes and indices.
    pub peers: Vec<Vec<(usize, usize)>>,
    axes_of: FxHashMap<Attr, Option<usize>>,
    peers_of: FxHashMap<Attr, Option<usize>>,
    signatures: FxHashMap<Signature<'m>, u32>,
}

/// All in which calls that meet have to agree, besides whom they meet.
#[derive(PartialEq, Eq, Hash)]
struct Signature<'m> {
    /// None of a send or receive.
    name: Option<Ident>,
    attrs: Vec<(Ident, Attr)>,
    types: Vec<(&'m [i64], Type)>,
}

impl<'m> Tables<'m> {
    pub fn new(module: &'m Module, mesh: &'m Mesh) -> Self {
        Self {
            module,
            mesh,
            axes: Vec::new(),
            peers: Vec::new(),
            axes_of: FxHashMap::default(),
            peers_of: FxHashMap::default(),
            signatures: FxHashMap::default(),
        }
    }

    /// Whether no call was found.
    pub fn is_silent(&self) -> bool {
        self.signatures.is_empty()
    }

    /// The calls of a class, by job. Functions without a kind are run by nobody.
    pub fn jobs(&mut self, class: OpId, found: &mut Vec<Diagnostic>) -> BTreeMap<Job<'m>, Calls> {
        let module = self.module;
        let mut jobs = BTreeMap::new();
        for function in module.block_ops(module.body(class)) {
            if !module.is(function, "func.func") {
                continue;
            }
            let Some(kind) = module.str_attr(function, "dist.kind") else {
                continue;
            };
            let chunk = module.i64_attr(function, "dist.chunk").unwrap_or(0);
            let calls = self.calls(function);
            if calls.hidden {
                found.push(unordered(module, &calls));
            }
            jobs.insert(Job { kind, chunk }, calls);
        }
        jobs
    }

    fn calls(&mut self, function: OpId) -> Calls {
        let module = self.module;
        let mut list = Vec::new();
        let body = module.regions(function).first();
        let body = body.and_then(|&r| module.first_block(r));
        let mut hidden = false;
        for op in module.walk(function) {
            let communicates = module
                .def_of(op)
                .is_some_and(|d| d.effects == Effects::Communicates);
            if let Some(call) = communicates.then(|| self.call(op)).flatten() {
                hidden |= module.parent_block(op) != body;
                list.push(call);
            }
        }
        let several = body.is_some_and(|b| module.next_block(b).is_some());
        hidden |= several && !list.is_empty();
        Calls {
            function,
            list,
            hidden,
        }
    }

    /// None if nobody else takes part, or the op is broken, which the verifier says.
    fn call(&mut self, op: OpId) -> Option<Call> {
        let module = self.module;
        let with = match module.name_str(op) {
            "dist.send" => With::To(self.peer(op)?),
            "dist.recv" => With::From(self.peer(op)?),
            _ => With::Group(self.group(op)?),
        };
        let transfer = !matches!(with, With::Group(_));
        let cx = module.cx();
        let attrs = cx.dict_entries(module.attrs(op)).iter().copied();
        let whom = if transfer { "peer" } else { "axes" };
        let says_what = |&(name, _): &(Ident, Attr)| {
            let name = cx.str(name);
            name != whom && !name.contains('.')
        };
        let received = module.results(op).filter(|_| transfer);
        let types = module.operands(op).chain(received);
        let signature = Signature {
            name: (!transfer).then(|| module.name(op)),
            attrs: attrs.filter(says_what).collect(),
            types: types.filter_map(|v| cx.as_tensor(module.ty(v))).collect(),
        };
        let next = self.signatures.len() as u32;
        Some(Call {
            op,
            with,
            signature: *self.signatures.entry(signature).or_insert(next),
        })
    }

    fn group(&mut self, op: OpId) -> Option<usize> {
        let attr = self.module.attr(op, "axes")?;
        if let Some(&known) = self.axes_of.get(&attr) {
            return known;
        }
        let names = self.module.axes_attr(op, "axes");
        let mut axes = self.mesh.axis_set(&names).unwrap_or_default();
        axes.retain(|&a| self.mesh.sizes()[a] > 1);
        let index = (!axes.is_empty()).then(|| position(&mut self.axes, axes));
        self.axes_of.insert(attr, index);
        index
    }

    fn peer(&mut self, op: OpId) -> Option<usize> {
        let attr = self.module.attr(op, "peer")?;
        if let Some(&known) = self.peers_of.get(&attr) {
            return known;
        }
        let cx = self.module.cx();
        let place = |&(name, index): &(Ident, Attr)| {
            let axis = self.mesh.axis(cx.str(name))?;
            let index = usize::try_from(cx.as_i64(index)?).ok()?;
            (index < self.mesh.sizes()[axis]).then_some((axis, index))
        };
        let places: Option<Vec<_>> = cx.dict_entries(attr).iter().map(place).collect();
        let index = places.map(|places| position(&mut self.peers, places));
        self.peers_of.insert(attr, index);
        index
    }
}

/// The position of an item in a short list, to which it is added if it is not there.
fn position<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|i| *i == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

fn unordered(module: &Module, calls: &Calls) -> Diagnostic {
    let name = module.symbol_name(calls.function).unwrap_or_default();
    Diagnostic::warning(
        "W0721",
        module.loc(calls.list[0].op),
        format!("branches of '@{name}' decide which calls are made, so their order is not checked"),
    )
    .help("have collectives, sends and receives in the only block of the function")
}
