//! Gradients that are only added to a global: the fused op adds them, in the global's type.
//!
//! ```text
//!                                                       %a = dist.load @sum : tensor<16x32xf32>
//! %0:2 = dist.matmul_grad %x, %w, %d            ──▶     %1:2 = dist.fused_linear_grad none %x, %w, %d, %a
//! dist.accumulate @sum %0#1 : tensor<16x32xbf16>        dist.store @sum %1#1 : tensor<16x32xf32>
//! ```
//!
//! The sum is read where the fused op stands and written right after it, so nothing else may touch the global between that place
//! and the accumulation. Where the sum is known to be zero there, because a store of zeros is the last thing that happened to
//! the global, it is overwritten instead of read.

use std::collections::BTreeMap;
use std::ops::Bound::Excluded;

use rustc_hash::FxHashMap;

use raddle_dialect::ir::{Attr, BlockId, Module, OpId, Type, ValueId};
use raddle_dialect::ops::Effects;

use super::{Fuser, Order, same_block};

/// Where a gradient goes.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    /// The `dist.accumulate`.
    pub op: OpId,
    /// A conversion in between.
    pub cast: Option<OpId>,
    /// The global's name.
    global: Attr,
    /// The global's type.
    pub ty: Type,
}

/// The ops that touch globals, by place in their block; and the types of globals.
pub(super) struct Accesses {
    of_global: FxHashMap<(BlockId, Attr), BTreeMap<u32, OpId>>,
    /// Ops that may touch any global.
    opaque: FxHashMap<BlockId, BTreeMap<u32, OpId>>,
    types: FxHashMap<(OpId, Attr), Type>,
}

impl Accesses {
    pub fn new(module: &Module, ops: &[OpId], order: &Order) -> Self {
        let mut accesses = Self {
            of_global: FxHashMap::default(),
            opaque: FxHashMap::default(),
            types: FxHashMap::default(),
        };
        for &op in ops {
            accesses.note(module, op, order.places[op.index()]);
        }
        accesses
    }

    fn note(&mut self, module: &Module, op: OpId, place: u32) {
        let Some(block) = module.parent_block(op) else {
            return;
        };
        let global = module.attr(op, "global");
        let def = module.def_of(op);
        match (def.map_or(Effects::Opaque, |d| d.effects), global) {
            (Effects::Reads | Effects::Writes | Effects::Accumulates, Some(global)) => {
                let list = self.of_global.entry((block, global)).or_default();
                list.insert(place, op);
            }
            (Effects::Opaque, _) if module.is(op, "dist.global") => {
                let named = module.symbol_name(op).map(|n| module.cx().symbol_ref(n));
                let ty = module.attr(op, "type").and_then(|a| module.cx().as_type(a));
                if let (Some(parent), Some(name), Some(ty)) = (module.parent_op(op), named, ty) {
                    self.types.insert((parent, name), ty);
                }
            }
            (Effects::Opaque, _) if !def.is_some_and(|d| d.traits.terminator) => {
                self.opaque.entry(block).or_default().insert(place, op);
            }
            _ => {}
        }
    }

    /// Whether anything may touch a global between two places of a block, both excluded.
    fn any_between(&self, block: BlockId, global: Attr, [from, to]: [u32; 2]) -> bool {
        let between = |list: Option<&BTreeMap<u32, OpId>>| {
            let range = (Excluded(from), Excluded(to));
            from < to && list.is_some_and(|l| l.range(range).next().is_some())
        };
        between(self.of_global.get(&(block, global))) || between(self.opaque.get(&block))
    }

    /// The last op that touches a global before a place, if nothing unknown comes after it.
    fn last_before(&self, block: BlockId, global: Attr, place: u32) -> Option<OpId> {
        let (&at, &op) = self
            .of_global
            .get(&(block, global))?
            .range(..place)
            .last()?;
        let unknown = self.opaque.get(&block);
        let unknown = unknown.is_some_and(|l| l.range(at..place).next().is_some());
        (!unknown).then_some(op)
    }

    fn remove(&mut self, block: BlockId, global: Attr, place: u32) {
        if let Some(list) = self.of_global.get_mut(&(block, global)) {
            list.remove(&place);
        }
    }
}

impl Fuser<'_, '_, '_> {
    /// The global that a gradient is added to, if that is all that happens to it.
    ///
    /// # Errors
    /// If it is added to a global, but the fused op cannot do that.
    pub(super) fn sum_of(&self, name: &str, gradient: ValueId) -> Result<Option<Sum>, String> {
        let module = self.rewriter.module();
        let is_sum = |op| module.is(op, "dist.accumulate");
        let mut readers = module.uses(gradient).map(|u| u.op);
        let Some(first) = readers.next() else {
            return Ok(None);
        };
        if readers.next().is_some() {
            let added = module.uses(gradient).any(|u| is_sum(u.op));
            return match added {
                true => Err(format!("{name} is read by other ops than its accumulation")),
                false => Ok(None),
            };
        }
        let mut cast = None;
        let mut op = first;
        if module.is(first, "dist.cast") {
            let converted = module.result(first, 0);
            match module.single_use(converted) {
                Some(user) if is_sum(user.op) => (cast, op) = (Some(first), user.op),
                _ => return Ok(None),
            }
        }
        if !is_sum(op) {
            return Ok(None);
        }
        let global = module.attr(op, "global");
        let found = global.and_then(|g| {
            let ty = self
                .accesses
                .types
                .get(&(module.enclosing_module(op)?, g))?;
            Some((g, *ty))
        });
        let Some((global, ty)) = found else {
            return Ok(None);
        };
        let element = |ty| module.cx().as_tensor(ty).map(|(_, element)| element);
        let given = module.ty(module.operand(op, 0));
        if cast.is_some() && element(given) != element(ty) {
            return Err(format!(
                "{name} is rounded to another type than the sum's before it is added"
            ));
        }
        Ok(Some(Sum {
            op,
            cast,
            global,
            ty,
        }))
    }

    /// Whether a fused op that stands at `at` can add to the sum.
    ///
    /// # Errors
    /// With the reason if not.
    pub(super) fn can_add(&self, name: &str, sum: &Sum, at: OpId) -> Result<(), String> {
        let module = self.rewriter.module();
        let Some(block) = same_block(module, &[at, sum.op]) else {
            return Err(format!("{name} is accumulated in another block"));
        };
        let places = [at, sum.op].map(|op| self.order.places[op.index()]);
        if self.accesses.any_between(block, sum.global, places) {
            return Err(format!(
                "the sum that {name} is added to may be read or written in between"
            ));
        }
        Ok(())
    }

    /// The sum so far, loaded before `at`; `None` if it is zero there.
    pub(super) fn load_sum(&mut self, sum: &Sum, at: OpId) -> Option<ValueId> {
        let place = self.order.places[at.index()];
        let block = self.rewriter.parent_block(at)?;
        let last = self.accesses.last_before(block, sum.global, place);
        if let Some(store) = last.filter(|&op| self.stores_zero(op)) {
            self.accesses
                .remove(block, sum.global, self.order.places[store.index()]);
            self.rewriter.erase(store);
            return None;
        }
        let loc = self.rewriter.loc(sum.op);
        let attrs = self.labels(sum.op, &[("global", sum.global)]);
        let load = self
            .rewriter
            .before(at)
            .build("dist.load", loc, &[], &[sum.ty], &attrs);
        self.order.put(load, at);
        Some(self.rewriter.result(load, 0))
    }

    fn stores_zero(&self, op: OpId) -> bool {
        let module = self.rewriter.module();
        module.is(op, "dist.store")
            && module
                .defining_op(module.operand(op, 0))
                .is_some_and(|fill| {
                    module.is(fill, "dist.fill") && module.f64_attr(fill, "value") == Some(0.0)
                })
    }

    /// Stores what the fused op, which stands before `at`, has made of the sum; the accumulation goes.
    pub(super) fn store_sum(&mut self, sum: &Sum, value: ValueId, at: OpId) {
        let loc = self.rewriter.loc(sum.op);
        let attrs = self.labels(sum.op, &[("global", sum.global)]);
        let store = self
            .rewriter
            .before(at)
            .build("dist.store", loc, &[value], &[], &attrs);
        self.order.put(store, at);
        if let Some(block) = self.rewriter.parent_block(at) {
            let [here, there] = [at, sum.op].map(|op| self.order.places[op.index()]);
            self.accesses.remove(block, sum.global, there);
            let list = self.accesses.of_global.entry((block, sum.global));
            list.or_default().insert(here, store);
        }
        self.erase_sum(sum);
    }

    /// Lets the accumulation read the gradient as it comes, without the conversion.
    pub(super) fn add_directly(&mut self, sum: &Sum, value: ValueId) {
        self.rewriter.set_operand(sum.op, 0, value);
        if let Some(cast) = sum.cast {
            self.rewriter.erase(cast);
        }
    }

    fn erase_sum(&mut self, sum: &Sum) {
        self.rewriter.erase(sum.op);
        if let Some(cast) = sum.cast {
            self.rewriter.erase(cast);
        }
    }
}
