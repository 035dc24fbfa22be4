//! Where the ops of the optimizer, and of `init`, go: what each pipeline rank has of every value.
//!
//! An op follows what it reads: the update of a parameter runs where the parameter is, and on every rank that has a copy of it. What only
//! depends on state that is not a parameter's, such as the learning rate, is computed wherever it is read. Where values of several ranks
//! come together in a sum, as the squares of all gradients do for their norm, each rank adds up its own, and the sum stays a *part* on
//! each until something other than a sum reads it. A copy counts once, on its first rank.
//!
//! ```text
//! %n = dist.sum %a, %b, %c            rank 0: %n0 = dist.sum %a, %b    dist.all_reduce sum %n0 over ["pp"]
//! %r = dist.sqrt %n            ──▶    rank 1: %n1 = %c                 dist.all_reduce sum %n1 over ["pp"]
//! ```

use raddle_dialect::TensorType;
use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Ident, Module, OpId, ValueId};
use raddle_dialect::ops::Effects;
use rustc_hash::{FxHashMap, FxHashSet};

use super::joins::joined;
use super::ranks::Ranks;
use super::ties::is_linear;

/// Parts of at most so many elements are combined by a collective over all ranks; larger ones only among the ranks that have them.
pub(super) const SMALL: i64 = 64;

/// How parts make up a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reduction {
    Sum,
    Any,
}

impl Reduction {
    /// Its name in an attribute.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Any => "any",
        }
    }
}

/// Which ranks have a value, before it is sent anywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Whereabouts {
    /// Any rank can compute it.
    Anywhere,
    /// Any one rank can compute it, but two would not get the same.
    Once,
    /// These ranks have it.
    At(Ranks),
    /// Each of these ranks has a part.
    Parts(Reduction, Ranks),
}

/// How an op is carried out on a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// As it is.
    Copy,
    /// The operands that the rank owns are added up, or combined.
    Join(Reduction),
    /// The operands that the rank owns are stacked.
    Stack,
}

/// How the parts of a value become whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whole {
    /// They do not.
    Never,
    /// By a collective over all ranks.
    Everywhere,
    /// Among the ranks that have parts, over the first of them.
    Among,
}

/// What becomes of an op.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pub form: Form,
    pub whereabouts: Whereabouts,
    pub whole: Whole,
    /// Ranks that carry it out.
    pub ranks: Ranks,
    /// For each operand, whether a rank's part of it is read.
    pub raw: Vec<bool>,
    /// Whether all ranks that can carry it out do, whoever reads the result: ranks of other classes come to the same collective.
    pub meets: bool,
}

/// Who owns the globals.
#[derive(Default, Debug)]
pub(super) struct Owners {
    /// Ranks of each global that is a parameter's, or otherwise settled.
    pub settled: FxHashMap<Ident, Ranks>,
    /// Accumulators to which several ranks add: each holds a part.
    pub parts: FxHashMap<Ident, Ranks>,
    /// Ranks that read or write any other global.
    pub readers: FxHashMap<Ident, Ranks>,
}

impl Owners {
    /// The ranks that have a global; the first rank has those that nobody reads.
    pub fn of(&self, global: Ident) -> Ranks {
        let known = self.settled.get(&global).or(self.parts.get(&global));
        let known = known.or(self.readers.get(&global)).cloned();
        known.filter(|r| !r.is_empty()).unwrap_or(Ranks::one(0))
    }
}

/// The ops to place, and what they read from outside.
pub(super) struct Region<'m> {
    pub module: &'m Module,
    pub ops: Vec<OpId>,
    /// The rank of each value that belongs to a stage; other values from outside can be had anywhere.
    pub homes: FxHashMap<ValueId, u32>,
    /// Ranks along the pipeline axis.
    pub count: u32,
    /// Axes along which rank classes differ.
    pub spans: &'m [String],
    /// Where collectives have to run so that those of all classes meet.
    pub agreed: &'m FxHashMap<OpId, Ranks>,
}

impl Region<'_> {
    /// Whether ranks of other classes come to a collective as well. They may lack some of what this class has, so where it runs must not
    /// depend on that.
    fn meets_classes(&self, op: OpId) -> bool {
        let axes = self.module.axes_attr(op, "axes");
        axes.iter().any(|axis| self.spans.iter().any(|s| s == axis))
    }
}

/// The plan of a region.
pub(super) struct Shares {
    pub ops: Vec<OpId>,
    /// By op, as in `ops`.
    pub of: Vec<Share>,
    /// Ranks that read a value in full.
    pub needs: FxHashMap<ValueId, Ranks>,
    positions: FxHashMap<OpId, u32>,
}

/// How often the ranks of globals may change before all ranks get what still changes.
const ROUNDS: usize = 4;

impl Shares {
    /// Places the ops of a region, and finds out who reads the globals that are nobody's.
    ///
    /// # Errors
    /// Diagnostics for ops that cannot be placed.
    pub fn of(region: &Region, owners: &mut Owners) -> Result<Self, Vec<Diagnostic>> {
        let mut shares = forward(region, owners)?;
        for round in 0.. {
            let stored = shares.stored(region, owners);
            let grown = shares.backward(region, owners);
            if !stored && grown.is_empty() {
                break;
            }
            if round >= ROUNDS {
                for global in grown {
                    owners.readers.insert(global, Ranks::all(region.count));
                }
            }
        }
        Ok(shares)
    }

    /// Who has what is stored into a global that is nobody's, has the global. Whether anything changed.
    fn stored(&self, region: &Region, owners: &mut Owners) -> bool {
        let module = region.module;
        let places: FxHashMap<ValueId, &Ranks> = self
            .ops
            .iter()
            .zip(&self.of)
            .filter_map(|(&op, share)| match &share.whereabouts {
                Whereabouts::At(ranks) => Some((op, ranks)),
                _ => None,
            })
            .flat_map(|(op, ranks)| module.results(op).map(move |r| (r, ranks)))
            .collect();
        let mut changed = false;
        for &op in self.ops.iter().filter(|&&op| writes(module, op)) {
            let Some(global) = global(module, op) else {
                continue;
            };
            if owners.settled.contains_key(&global) || owners.parts.contains_key(&global) {
                continue;
            }
            let ranks = owners.readers.entry(global).or_default();
            let before = ranks.len();
            let value = module.operand(op, 0);
            match (places.get(&value), region.homes.get(&value)) {
                (Some(there), _) => ranks.extend(there),
                (None, Some(&home)) => ranks.insert(home),
                (None, None) if ranks.is_empty() => ranks.insert(0),
                _ => {}
            }
            changed |= ranks.len() != before;
        }
        changed
    }

    /// From the last op to the first: which ranks carry each op out. Gives the stored globals that more ranks read than before.
    fn backward(&mut self, region: &Region, owners: &mut Owners) -> Vec<Ident> {
        let module = region.module;
        self.needs.clear();
        let mut read: FxHashMap<Ident, Ranks> = FxHashMap::default();
        let mut written: FxHashSet<Ident> = FxHashSet::default();
        for at in (0..self.ops.len()).rev() {
            let op = self.ops[at];
            let mut needed = Ranks::default();
            for result in module.results(op) {
                if let Some(needs) = self.needs.get(&result) {
                    needed.extend(needs);
                }
            }
            let share = &mut self.of[at];
            share.ranks = match &share.whereabouts {
                _ if writes(module, op) => {
                    let global = global(module, op);
                    written.extend(global);
                    global.map(|g| owners.of(g)).unwrap_or_default()
                }
                _ if module.num_results(op) == 0 => Ranks::all(region.count),
                Whereabouts::Anywhere => needed,
                Whereabouts::Once => needed.first().map(Ranks::one).unwrap_or_default(),
                Whereabouts::At(ranks) if share.meets => ranks.clone(),
                Whereabouts::At(ranks) => {
                    let mut here = ranks.common(&needed);
                    if here.is_empty() && !needed.is_empty() {
                        here.extend(&Ranks::one(ranks.first().unwrap_or(0)));
                    }
                    here
                }
                Whereabouts::Parts(_, ranks) => ranks.clone(),
            };
            if let (Some(global), false) = (global(module, op), writes(module, op)) {
                read.entry(global).or_default().extend(&share.ranks);
            }
            let share = &self.of[at];
            for (index, value) in module.operands(op).enumerate() {
                if share.raw[index] {
                    continue;
                }
                let readers = match share.form {
                    Form::Copy => share.ranks.clone(),
                    Form::Join(_) | Form::Stack => Ranks::one(self.owner(region, value, share)),
                };
                self.needs.entry(value).or_default().extend(&readers);
            }
        }
        let mut grown = Vec::new();
        for (global, ranks) in read {
            if owners.settled.contains_key(&global) || owners.parts.contains_key(&global) {
                continue;
            }
            let known = owners.readers.entry(global).or_default();
            let before = known.len();
            known.extend(&ranks);
            if known.len() != before && written.contains(&global) {
                grown.push(global);
            }
        }
        grown
    }

    /// The rank that adds an operand to its own part: one of those that have it.
    pub fn owner(&self, region: &Region, value: ValueId, share: &Share) -> u32 {
        let first = share.ranks.first().unwrap_or(0);
        if let Some(&home) = region.homes.get(&value) {
            return home;
        }
        let op = region.module.defining_op(value);
        let at = op.and_then(|op| self.position(op));
        match at.map(|at| &self.of[at].whereabouts) {
            Some(Whereabouts::At(ranks)) => ranks.first().unwrap_or(first),
            _ => first,
        }
    }

    /// Where an op stands in the region.
    pub fn position(&self, op: OpId) -> Option<usize> {
        self.positions.get(&op).map(|&at| at as usize)
    }
}

/// Whether an op writes a global.
pub(super) fn writes(module: &Module, op: OpId) -> bool {
    let effects = module.def_of(op).map(|d| d.effects);
    matches!(effects, Some(Effects::Writes | Effects::Accumulates))
}

/// The global that an op names.
fn global(module: &Module, op: OpId) -> Option<Ident> {
    let name = module.symbol_attr(op, "global")?;
    Some(module.cx().ident(name))
}

/// From the first op to the last: who has what.
fn forward(region: &Region, owners: &Owners) -> Result<Shares, Vec<Diagnostic>> {
    let module = region.module;
    let ops = region.ops.iter().enumerate();
    let mut shares = Shares {
        ops: region.ops.clone(),
        of: Vec::with_capacity(region.ops.len()),
        needs: FxHashMap::default(),
        positions: ops.map(|(at, &op)| (op, at as u32)).collect(),
    };
    let mut wrong = Vec::new();
    for &op in &region.ops {
        let effects = module.def_of(op).map_or(Effects::Opaque, |d| d.effects);
        let transfer = matches!(module.name_str(op), "dist.send" | "dist.recv");
        if effects == Effects::Opaque || transfer || !module.regions(op).is_empty() {
            let message = format!(
                "'{}' cannot be given to the ranks of a pipeline: what it does is not known",
                module.name_str(op)
            );
            wrong.push(Diagnostic::error("E0644", module.loc(op), message));
        }
        let share = match (effects, global(module, op)) {
            (Effects::Reads, Some(global)) => plain(loaded(global, owners), 0),
            _ => placed(region, &mut shares, op, effects),
        };
        shares.of.push(share);
    }
    match wrong.is_empty() {
        true => Ok(shares),
        false => Err(wrong),
    }
}

fn loaded(global: Ident, owners: &Owners) -> Whereabouts {
    if let Some(ranks) = owners.parts.get(&global) {
        return Whereabouts::Parts(Reduction::Sum, ranks.clone());
    }
    match owners.settled.get(&global) {
        Some(ranks) => Whereabouts::At(ranks.clone()),
        None => Whereabouts::Anywhere,
    }
}

fn plain(whereabouts: Whereabouts, operands: usize) -> Share {
    Share {
        form: Form::Copy,
        whereabouts,
        whole: Whole::Never,
        ranks: Ranks::default(),
        raw: vec![false; operands],
        meets: false,
    }
}

/// What an op reads: of each operand who has it, and which op of the region made it.
pub(super) struct Read {
    pub whereabouts: Whereabouts,
    at: Option<usize>,
}

fn placed(region: &Region, shares: &mut Shares, op: OpId, effects: Effects) -> Share {
    let module = region.module;
    let operands: Vec<_> = module.operands(op).collect();
    let read: Vec<Read> = operands
        .iter()
        .map(|v| {
            let at = module.defining_op(*v).and_then(|op| shares.position(op));
            let whereabouts = match (region.homes.get(v), at) {
                (Some(&home), _) => Whereabouts::At(Ranks::one(home)),
                (None, Some(at)) => shares.of[at].seen(),
                (None, None) => Whereabouts::Anywhere,
            };
            Read { whereabouts, at }
        })
        .collect();
    if let Some(share) = joined(module, op, &read) {
        return share;
    }
    let meets = effects == Effects::Communicates && region.meets_classes(op);
    if let ([only], false) = (&read[..], meets)
        && let Whereabouts::Parts(reduction, ranks) = &only.whereabouts
    {
        let passes = match reduction {
            Reduction::Sum => is_linear(module, op) || module.is(op, "dist.reduce_sum"),
            Reduction::Any => module.is(op, "dist.reduce_any"),
        };
        if passes {
            let mut share = plain(Whereabouts::Parts(*reduction, ranks.clone()), 1);
            share.raw = vec![true];
            return share;
        }
    }
    // Everything else reads wholes.
    let mut common: Option<Ranks> = None;
    let mut largest: (i64, Option<Ranks>) = (-1, None);
    let mut once = effects == Effects::Draws && module.i64_attr(op, "seed").unwrap_or(0) == 0;
    for (read, &value) in read.iter().zip(&operands) {
        let mut whereabouts = read.whereabouts.clone();
        if let (Whereabouts::Parts(..), Some(at)) = (&whereabouts, read.at) {
            shares.of[at].make_whole(elements(module, value), region.count);
            whereabouts = shares.of[at].seen();
        }
        match whereabouts {
            Whereabouts::Once => once = true,
            Whereabouts::At(ranks) => {
                if elements(module, value) > largest.0 {
                    largest = (elements(module, value), Some(ranks.clone()));
                }
                common = Some(common.map_or_else(|| ranks.clone(), |c| c.common(&ranks)));
            }
            _ => {}
        }
    }
    if meets && operands.iter().all(|&v| elements(module, v) <= SMALL) {
        let mut share = plain(Whereabouts::At(Ranks::all(region.count)), operands.len());
        share.meets = true;
        return share;
    }
    let whereabouts = match (common, largest.1) {
        _ if region.agreed.contains_key(&op) => Whereabouts::At(region.agreed[&op].clone()),
        (Some(common), _) if !common.is_empty() => Whereabouts::At(common),
        // No rank has all: the others send it to who has most.
        (_, Some(largest)) => Whereabouts::At(largest),
        _ if once => Whereabouts::Once,
        _ => Whereabouts::Anywhere,
    };
    let mut share = plain(whereabouts, operands.len());
    share.meets = meets;
    share
}

impl Share {
    /// Who has the op's results, as what reads them sees it.
    fn seen(&self) -> Whereabouts {
        match (&self.whereabouts, self.whole) {
            (Whereabouts::Parts(..), Whole::Everywhere) => Whereabouts::Anywhere,
            (Whereabouts::Parts(_, ranks), Whole::Among) => Whereabouts::At(ranks.clone()),
            (whereabouts, _) => whereabouts.clone(),
        }
    }

    fn make_whole(&mut self, elements: i64, count: u32) {
        if let (Whereabouts::Parts(_, ranks), Whole::Never) = (&self.whereabouts, self.whole) {
            self.whole = match elements <= SMALL || ranks.len() == count as usize {
                true => Whole::Everywhere,
                false => Whole::Among,
            };
        }
    }
}

/// Elements of a value; many if that is not known.
pub(super) fn elements(module: &Module, value: ValueId) -> i64 {
    let ty = TensorType::of(module.cx(), module.ty(value));
    ty.ok().and_then(|ty| ty.elements()).unwrap_or(i64::MAX)
}
