//! Writes the ops of each pipeline rank, in the order of the program they come from. Sends and receives stand where the value is made, so
//! that all ranks have them in one common order.

use std::sync::Arc;

use raddle_dialect::ir::{
    Attr, AttrData, BlockId, CloneMap, Context, Loc, Module, OpId, Position, Rewriter, Type,
    ValueId,
};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::transfer::RECEIVED;
use rustc_hash::FxHashMap;

use super::flow::{Flow, Place, Reach, Site};
use super::layout::Pipeline;
use super::ranks::Ranks;
use super::shares::{Form, Reduction, Region, SMALL, Share, Shares, Whereabouts, Whole, elements};
use crate::analysis::layouts::Layouts;
use crate::analysis::stages::STAGE;
use crate::analysis::step::Role;

/// Writes the functions of all ranks.
pub(super) struct Emitter<'r, 'm, 'p> {
    pub rewriter: &'r mut Rewriter<'m>,
    pub pipeline: &'p Pipeline,
    /// By rank, the block that is written.
    pub blocks: Vec<BlockId>,
    /// A value of the program, and a rank: the rank's own value.
    pub locals: FxHashMap<(ValueId, u32), ValueId>,
    /// Parts of sums, likewise.
    pub parts: FxHashMap<(ValueId, u32), ValueId>,
    /// Tags so far.
    pub tags: &'r mut i64,
    /// The role of what is added outside the forward and backward passes.
    pub role: Option<Role>,
    /// How the values of the function are spread: noted on what is received.
    pub spread: &'p Spread,
}

/// How the values of a function are spread over the mesh.
pub(super) struct Spread {
    layouts: Option<Layouts>,
    mesh: Option<Mesh>,
}

impl Spread {
    /// What is known of a function's values.
    pub fn of(module: &Module, function: OpId) -> Self {
        Self {
            layouts: Layouts::of(module, function).ok(),
            mesh: Mesh::of(module, function).ok(),
        }
    }

    fn note(&self, cx: &Context, value: ValueId) -> Option<(&'static str, Attr)> {
        let layout = self.layouts.as_ref()?.get(value)?;
        let data = layout.to_data(cx, self.mesh.as_ref()?)?;
        Some((RECEIVED, cx.attr(AttrData::Layout(data))))
    }
}

/// A value on its way from one rank to another.
struct Hop {
    value: ValueId,
    from: u32,
    to: u32,
    /// The sites of send and receive; none in a function of its own.
    sites: Option<(Site, Site)>,
}

impl Emitter<'_, '_, '_> {
    fn cx(&self) -> Arc<Context> {
        self.rewriter.cx().clone()
    }

    /// Writes the forward and backward passes.
    pub fn flow(&mut self, flow: &Flow) {
        for (&op, place) in flow.ops.iter().zip(&flow.places) {
            match place {
                Place::Stage(site) => {
                    let rank = self.pipeline.rank(site.stage);
                    self.copy(op, rank, Some(*site));
                    for index in 0..self.rewriter.num_results(op) {
                        let result = self.rewriter.result(op, index);
                        let reach = flow.reaches[&result];
                        if (reach.up, reach.down) != (site.stage, site.stage) {
                            self.travel(result, reach);
                        }
                    }
                }
                Place::Copies(copies) => {
                    for &(rank, site) in copies {
                        self.copy(op, rank, Some(site));
                    }
                }
                Place::Optimizer => {}
            }
        }
    }

    /// Sends a value from stage to stage. A rank that has it from another stage of its own needs no second one.
    fn travel(&mut self, value: ValueId, reach: Reach) {
        let up = (reach.home.stage..reach.up).map(|s| (Role::Forward, s, s + 1));
        let down = (reach.down..reach.home.stage).rev();
        let down = down.map(|s| (Role::Backward, s + 1, s));
        for (role, from, to) in up.chain(down) {
            let site = |stage| Site { role, stage };
            self.hop(&Hop {
                value,
                from: self.pipeline.rank(from),
                to: self.pipeline.rank(to),
                sites: Some((site(from), site(to))),
            });
        }
    }

    fn hop(&mut self, hop: &Hop) {
        if self.locals.contains_key(&(hop.value, hop.to)) {
            return;
        }
        let local = self.locals[&(hop.value, hop.from)];
        let received = self.transfer(local, hop);
        self.locals.insert((hop.value, hop.to), received);
    }

    /// A send and its receive.
    fn transfer(&mut self, local: ValueId, hop: &Hop) -> ValueId {
        let cx = self.cx();
        let tag = cx.i64_attr(*self.tags);
        *self.tags += 1;
        let peer = |rank: u32| {
            let axis = cx.ident(&self.pipeline.axis);
            cx.dict(vec![(axis, cx.i64_attr(i64::from(rank)))])
        };
        let (loc, ty) = (self.loc_of(local), self.rewriter.ty(local));
        let (send, recv) = hop.sites.unzip();
        let attrs = |peer, site: Option<Site>| {
            let mut attrs = vec![("peer", peer), ("tag", tag)];
            match site {
                Some(site) => attrs.extend(labels(&cx, site)),
                None => attrs.extend(self.role()),
            }
            attrs
        };
        let mut attrs = [attrs(peer(hop.to), send), attrs(peer(hop.from), recv)];
        attrs[1].extend(self.spread.note(&cx, hop.value));
        self.at(hop.from);
        self.rewriter
            .build("dist.send", loc, &[local], &[], &attrs[0]);
        self.at(hop.to);
        let recv = self.rewriter.build("dist.recv", loc, &[], &[ty], &attrs[1]);
        self.rewriter.result(recv, 0)
    }

    /// The label of ops outside the forward and backward passes.
    fn role(&self) -> Option<(&'static str, Attr)> {
        let role = self.role?;
        Some(("dist.role", self.rewriter.cx().string(role.name())))
    }

    /// An op with one result at the end of a rank's block.
    fn build(
        &mut self,
        (name, rank, loc): (&str, u32, Loc),
        operands: &[ValueId],
        ty: Type,
        mut attrs: Vec<(&str, Attr)>,
    ) -> ValueId {
        attrs.extend(self.role());
        self.at(rank);
        let op = self.rewriter.build(name, loc, operands, &[ty], &attrs);
        self.rewriter.result(op, 0)
    }

    fn at(&mut self, rank: u32) {
        let block = self.blocks[rank as usize];
        self.rewriter.set_insertion_point(Position::End(block));
    }

    fn loc_of(&self, value: ValueId) -> Loc {
        match self.rewriter.defining_op(value) {
            Some(op) => self.rewriter.loc(op),
            None => self.rewriter.cx().unknown_loc(),
        }
    }

    /// A rank's copy of an op. What it reads the rank has.
    fn copy(&mut self, op: OpId, rank: u32, site: Option<Site>) -> OpId {
        self.copy_reading(op, rank, site, |this, value| this.locals[&(value, rank)])
    }

    fn copy_reading(
        &mut self,
        op: OpId,
        rank: u32,
        site: Option<Site>,
        local: impl Fn(&Self, ValueId) -> ValueId,
    ) -> OpId {
        let mut map = CloneMap::default();
        for index in 0..self.rewriter.num_operands(op) {
            let value = self.rewriter.operand(op, index);
            map.values.insert(value, local(self, value));
        }
        self.at(rank);
        let copy = self.rewriter.clone_op(op, &mut map);
        let cx = self.cx();
        let mut attrs = self.rewriter.attrs(copy);
        match site {
            Some(site) => {
                for (name, value) in labels(&cx, site) {
                    if cx.dict_get(attrs, name) != Some(value) {
                        attrs = cx.dict_with(attrs, name, Some(value));
                    }
                }
            }
            None => {
                if let Some((name, value)) = self.role()
                    && cx.dict_get(attrs, name) != Some(value)
                {
                    attrs = cx.dict_with(attrs, name, Some(value));
                }
                if cx.dict_get(attrs, STAGE).is_some() {
                    attrs = cx.dict_with(attrs, STAGE, None);
                }
            }
        }
        if attrs != self.rewriter.attrs(copy) {
            self.rewriter.set_attrs(copy, attrs);
        }
        for index in 0..self.rewriter.num_results(op) {
            let result = self.rewriter.result(op, index);
            let own = self.rewriter.result(copy, index);
            self.locals.insert((result, rank), own);
        }
        copy
    }

    /// Writes the optimizer, or `init`.
    pub fn shares(&mut self, region: &Plan, shares: &Shares) {
        let mut homes: Vec<_> = region.homes.iter().map(|(&v, &rank)| (v, rank)).collect();
        homes.retain(|(v, _)| shares.needs.contains_key(v));
        homes.sort_unstable();
        for (value, home) in homes {
            self.spread(value, &Ranks::one(home), shares);
        }
        for (at, share) in shares.of.iter().enumerate() {
            let op = shares.ops[at];
            match share.form {
                Form::Copy if share.raw.contains(&true) => self.part(op, share),
                Form::Copy => {
                    for rank in share.ranks.iter() {
                        self.copy(op, rank, None);
                    }
                }
                Form::Join(_) | Form::Stack => self.join(op, share, &region.owners[&at]),
            }
            let mut there = share.ranks.clone();
            if let Whereabouts::Parts(reduction, ranks) = &share.whereabouts {
                if share.form == Form::Copy && !share.raw.contains(&true) {
                    self.keep_parts(op, ranks);
                }
                there = self.whole(op, *reduction, ranks, share.whole);
            }
            for index in 0..self.rewriter.num_results(op) {
                let result = self.rewriter.result(op, index);
                self.spread(result, &there, shares);
            }
        }
    }

    /// A copy of an op that is linear, on each rank's part.
    fn part(&mut self, op: OpId, share: &Share) {
        for rank in share.ranks.iter() {
            let copy = self.copy_reading(op, rank, None, |this, v| this.parts[&(v, rank)]);
            let (result, own) = (self.rewriter.result(op, 0), self.rewriter.result(copy, 0));
            self.locals.remove(&(result, rank));
            self.parts.insert((result, rank), own);
        }
    }

    /// What a load gave each rank is a part.
    fn keep_parts(&mut self, op: OpId, ranks: &Ranks) {
        let result = self.rewriter.result(op, 0);
        for rank in ranks.iter() {
            if let Some(own) = self.locals.remove(&(result, rank)) {
                self.parts.insert((result, rank), own);
            }
        }
    }

    /// Each rank's own operands, added up.
    fn join(&mut self, op: OpId, share: &Share, owners: &[u32]) {
        let result = self.rewriter.result(op, 0);
        let operands: Vec<_> = self.rewriter.operands(op).collect();
        let mut own: Vec<Vec<ValueId>> = vec![Vec::new(); self.blocks.len()];
        for (index, &value) in operands.iter().enumerate() {
            if share.raw[index] {
                for rank in share.ranks.iter() {
                    own[rank as usize].extend(self.parts.get(&(value, rank)));
                }
            } else {
                let rank = owners[index];
                own[rank as usize].extend(self.locals.get(&(value, rank)));
            }
        }
        let cx = self.cx();
        let (loc, ty) = (self.rewriter.loc(op), self.rewriter.ty(result));
        for rank in share.ranks.iter() {
            let values = &own[rank as usize];
            let part = match (share.form, &values[..]) {
                (_, []) => continue,
                (Form::Join(_), [only]) => *only,
                (Form::Join(Reduction::Any), _) => {
                    self.build(("dist.any_of", rank, loc), values, ty, vec![])
                }
                (Form::Stack, _) => {
                    let dim = self.rewriter.attr(op, "dim").unwrap_or(cx.i64_attr(0));
                    let ty = self.shorter(ty, dim, values.len());
                    self.build(("dist.stack", rank, loc), values, ty, vec![("dim", dim)])
                }
                _ => self.build(("dist.sum", rank, loc), values, ty, vec![]),
            };
            self.parts.insert((result, rank), part);
        }
    }

    /// The type of a stack of fewer entries.
    fn shorter(&self, ty: Type, dim: Attr, entries: usize) -> Type {
        let cx = self.rewriter.cx();
        let (Some((shape, element)), Some(dim)) = (cx.as_tensor(ty), cx.as_i64(dim)) else {
            return ty;
        };
        let mut shape = shape.to_vec();
        if let Some(extent) = usize::try_from(dim).ok().and_then(|d| shape.get_mut(d)) {
            *extent = entries as i64;
        }
        cx.tensor(&shape, element)
    }

    /// Makes a whole of parts; gives the ranks that have it then.
    fn whole(&mut self, op: OpId, reduction: Reduction, ranks: &Ranks, how: Whole) -> Ranks {
        let result = self.rewriter.result(op, 0);
        let cx = self.cx();
        let (loc, ty) = (self.rewriter.loc(op), self.rewriter.ty(result));
        match how {
            Whole::Never => Ranks::default(),
            Whole::Everywhere => {
                let attrs = vec![
                    ("reduction", cx.string(reduction.name())),
                    ("axes", cx.string_array(&[&self.pipeline.axis])),
                ];
                for rank in 0..self.pipeline.ranks {
                    let part = self.parts.get(&(result, rank)).copied();
                    let part = part.unwrap_or_else(|| self.zeros(rank, loc, ty));
                    let at = ("dist.all_reduce", rank, loc);
                    let own = self.build(at, &[part], ty, attrs.clone());
                    self.locals.insert((result, rank), own);
                }
                Ranks::all(self.pipeline.ranks)
            }
            Whole::Among => {
                let first = ranks.first().unwrap_or(0);
                let mut parts = Vec::new();
                for rank in ranks.iter() {
                    let part = self.parts[&(result, rank)];
                    parts.push(match rank == first {
                        true => part,
                        false => self.transfer(
                            part,
                            &Hop {
                                value: result,
                                from: rank,
                                to: first,
                                sites: None,
                            },
                        ),
                    });
                }
                let name = match reduction {
                    Reduction::Sum => "dist.sum",
                    Reduction::Any => "dist.any_of",
                };
                let sum = self.build((name, first, loc), &parts, ty, vec![]);
                self.locals.insert((result, first), sum);
                for to in ranks.iter().filter(|&r| r != first) {
                    self.hop(&Hop {
                        value: result,
                        from: first,
                        to,
                        sites: None,
                    });
                }
                ranks.clone()
            }
        }
    }

    fn zeros(&mut self, rank: u32, loc: Loc, ty: Type) -> ValueId {
        let cx = self.cx();
        let attrs = vec![("value", cx.f64_attr(0.0))];
        self.build(("dist.fill", rank, loc), &[], ty, attrs)
    }

    /// Sends a value from the first rank that has it to all that read it and do not have it.
    fn spread(&mut self, value: ValueId, there: &Ranks, shares: &Shares) {
        let (Some(needs), Some(first)) = (shares.needs.get(&value), there.first()) else {
            return;
        };
        let missing = needs.without(there);
        if missing.len() > 1 && elements(self.rewriter, value) <= SMALL {
            self.broadcast(value, first, there);
            return;
        }
        for to in missing.iter() {
            self.hop(&Hop {
                value,
                from: first,
                to,
                sites: None,
            });
        }
    }

    fn broadcast(&mut self, value: ValueId, root: u32, there: &Ranks) {
        let cx = self.cx();
        let (loc, ty) = (self.loc_of(value), self.rewriter.ty(value));
        let attrs = vec![
            ("axes", cx.string_array(&[&self.pipeline.axis])),
            ("root", cx.i64_attr(i64::from(root))),
        ];
        for rank in 0..self.pipeline.ranks {
            let own = self.locals.get(&(value, rank)).copied();
            let given = own.unwrap_or_else(|| self.zeros(rank, loc, ty));
            let at = ("dist.broadcast", rank, loc);
            let received = self.build(at, &[given], ty, attrs.clone());
            if !there.contains(rank) {
                self.locals.insert((value, rank), received);
            }
        }
    }
}

/// What is written of a region, besides its shares.
pub(super) struct Plan {
    pub homes: FxHashMap<ValueId, u32>,
    /// By position of a join: the rank that counts each operand.
    pub owners: FxHashMap<usize, Vec<u32>>,
}

impl Plan {
    /// Settles who counts what.
    pub fn of(region: &Region, shares: &Shares) -> Self {
        let joins = shares.of.iter().enumerate();
        let joins = joins.filter(|(_, share)| share.form != Form::Copy);
        let owners = joins.map(|(at, share)| {
            let operands = region.module.operands(shares.ops[at]);
            let owners = operands.map(|v| shares.owner(region, v, share)).collect();
            (at, owners)
        });
        Self {
            homes: region.homes.clone(),
            owners: owners.collect(),
        }
    }
}

fn labels(cx: &Context, site: Site) -> Vec<(&'static str, Attr)> {
    vec![
        ("dist.role", cx.string(site.role.name())),
        (STAGE, cx.i64_attr(i64::from(site.stage))),
    ]
}
