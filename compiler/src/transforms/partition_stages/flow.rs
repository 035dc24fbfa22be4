//! Where the forward and backward ops of a step go, and which values cross stages.
//!
//! One walk from the last op to the first: when an op is reached, all that reads it is known. An op of a stage stays there. A free op
//! (parameters and constants, and what follows from them alone) is copied to every rank that reads it. A value that other stages read
//! goes from neighbour to neighbour, up in the forward pass and down in the backward pass:
//!
//! ```text
//! forward:   home ─→ +1 ─→ … ─→ the last stage that reads it, in either pass
//! backward:  home ─→ −1 ─→ … ─→ the first stage whose backward pass reads it
//! ```

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Ident, OpId, ValueId};
use raddle_dialect::ops::Effects;
use rustc_hash::{FxHashMap, FxHashSet};

use super::layout::Pipeline;
use super::ranks::Ranks;
use crate::analysis::stages::Stages;
use crate::analysis::step::{Origin, Role, Step};

/// The part of a step in which an op runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Site {
    pub role: Role,
    pub stage: u32,
}

/// What becomes of an op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It belongs to a stage.
    Stage(Site),
    /// It is copied to these ranks.
    Copies(Vec<(u32, Site)>),
    /// It is the optimizer's.
    Optimizer,
}

/// How far a value travels from its home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reach {
    pub home: Site,
    /// The last stage that has it from the forward pass.
    pub up: u32,
    /// The first stage that has it from the backward pass.
    pub down: u32,
}

/// The plan of a step.
pub(super) struct Flow {
    pub ops: Vec<OpId>,
    pub places: Vec<Place>,
    /// Values that belong to a stage.
    pub reaches: FxHashMap<ValueId, Reach>,
    /// Arguments by rank.
    pub arguments: Vec<Ranks>,
    /// What the step returns, and the rank that has it.
    pub returned: Vec<(ValueId, u32)>,
    /// Ranks that read or write each global in a forward or backward pass.
    pub globals: FxHashMap<Ident, Ranks>,
    /// Globals that a forward or backward pass writes.
    pub stored: FxHashSet<Ident>,
    /// Ranks that add to each global.
    pub accumulated: FxHashMap<Ident, Ranks>,
}

impl Flow {
    /// Plans a step.
    ///
    /// # Errors
    /// Diagnostics for ops that read what does not flow to them.
    pub fn of(step: &Step, stages: &Stages, pipeline: &Pipeline) -> Result<Self, Vec<Diagnostic>> {
        let arguments = step.module.args(step.module.body(step.function)).len();
        let mut planner = Planner {
            step,
            stages,
            pipeline,
            copies: vec![Vec::new(); step.ops.len()],
            flow: Self {
                ops: step.ops.clone(),
                places: vec![Place::Optimizer; step.ops.len()],
                reaches: FxHashMap::default(),
                arguments: vec![Ranks::default(); arguments],
                returned: Vec::new(),
                globals: FxHashMap::default(),
                stored: FxHashSet::default(),
                accumulated: FxHashMap::default(),
            },
            wrong: Vec::new(),
        };
        planner.homes();
        planner.returned();
        for at in (0..step.ops.len()).rev() {
            planner.op(at);
        }
        planner.stored();
        match planner.wrong.is_empty() {
            true => Ok(planner.flow),
            false => Err(planner.wrong),
        }
    }
}

/// Copies of a free op on one rank.
#[derive(Clone, Copy)]
struct Copy {
    rank: u32,
    /// The first stage whose forward pass reads it.
    forward: Option<u32>,
    /// The last stage whose backward pass reads it.
    backward: Option<u32>,
}

struct Planner<'a, 'm> {
    step: &'a Step<'m>,
    stages: &'a Stages,
    pipeline: &'a Pipeline,
    copies: Vec<Vec<Copy>>,
    flow: Flow,
    wrong: Vec<Diagnostic>,
}

impl Planner<'_, '_> {
    fn homes(&mut self) {
        for (at, &op) in self.step.ops.iter().enumerate() {
            let Some(stage) = self.stages.get(at) else {
                continue;
            };
            let home = Site {
                role: self.step.roles[at],
                stage,
            };
            self.flow.places[at] = Place::Stage(home);
            for result in self.step.module.results(op) {
                let reach = Reach {
                    home,
                    up: stage,
                    down: stage,
                };
                self.flow.reaches.insert(result, reach);
            }
        }
    }

    /// Results of the step are returned where they are; what is nowhere in particular, by the last stage.
    fn returned(&mut self) {
        let last = Site {
            role: Role::Forward,
            stage: self.pipeline.stages - 1,
        };
        for &value in &self.step.returned {
            let site = match self.flow.reaches.get(&value) {
                Some(reach) => reach.home,
                None => last,
            };
            match self.step.origin(value) {
                Origin::Op(at) if self.step.roles[at] == Role::Optimizer && !self.step.free[at] => {
                    let op = self.step.ops[at];
                    let message = format!(
                        "'{}' belongs to the optimizer, but the step returns its result",
                        self.step.module.name_str(op)
                    );
                    self.refuse(op, message);
                }
                _ => self.need(None, value, site),
            }
            let rank = self.pipeline.rank(site.stage);
            self.flow.returned.push((value, rank));
        }
    }

    /// What changes within a step can live on one rank only.
    fn stored(&mut self) {
        let step = self.step;
        for (at, &op) in step.ops.iter().enumerate() {
            let Some(name) = step
                .global(at)
                .filter(|_| step.effects(at) == Effects::Writes)
            else {
                continue;
            };
            let global = step.module.cx().ident(name);
            let ranks = self.flow.globals.get(&global);
            if self.flow.stored.contains(&global) && ranks.is_some_and(|r| r.len() > 1) {
                let message = format!(
                    "@{name} is written in the {} pass, but several ranks of the pipeline use it",
                    step.roles[at].name()
                );
                self.refuse(op, message);
            }
        }
    }

    fn op(&mut self, at: usize) {
        let op = self.step.ops[at];
        let operands = || self.step.module.operands(op);
        if let Place::Stage(home) = self.flow.places[at] {
            let rank = self.pipeline.rank(home.stage);
            if let Some(global) = self.step.global(at) {
                let global = self.step.module.cx().ident(global);
                let effects = self.step.effects(at);
                let ranks = match effects {
                    Effects::Accumulates => self.flow.accumulated.entry(global),
                    _ => self.flow.globals.entry(global),
                };
                ranks.or_default().insert(rank);
                if effects == Effects::Writes {
                    self.flow.stored.insert(global);
                }
            }
            operands().for_each(|v| self.need(Some(op), v, home));
            return;
        }
        if !self.step.free[at] {
            return;
        }
        let mut places = Vec::new();
        for copy in std::mem::take(&mut self.copies[at]) {
            let site = match (copy.forward, copy.backward) {
                (Some(stage), _) => Site {
                    role: Role::Forward,
                    stage,
                },
                (None, stage) => Site {
                    role: Role::Backward,
                    stage: stage.unwrap_or(0),
                },
            };
            operands().for_each(|v| self.need(Some(op), v, site));
            if let Some(global) = self.step.global(at) {
                let global = self.step.module.cx().ident(global);
                let ranks = self.flow.globals.entry(global).or_default();
                ranks.insert(copy.rank);
            }
            places.push((copy.rank, site));
        }
        places.sort_by_key(|p| p.0);
        self.flow.places[at] = Place::Copies(places);
    }

    /// `op` reads a value at a site.
    fn need(&mut self, op: Option<OpId>, value: ValueId, site: Site) {
        let rank = self.pipeline.rank(site.stage);
        let source = match self.step.origin(value) {
            Origin::Argument(index) => return self.flow.arguments[index].insert(rank),
            Origin::Op(source) => source,
        };
        if let Some(reach) = self.flow.reaches.get_mut(&value) {
            let home = reach.home;
            match (home.role, site.role) {
                (Role::Forward, _) if site.stage >= home.stage => {
                    reach.up = reach.up.max(site.stage);
                }
                (Role::Forward | Role::Backward, Role::Backward) if site.stage <= home.stage => {
                    reach.down = reach.down.min(site.stage);
                }
                _ => self.refuse_flow(op, source, home, site),
            }
            return;
        }
        if !self.step.free[source] {
            return self.refuse_flow(op, source, site, site);
        }
        let copies = &mut self.copies[source];
        let at = copies
            .iter()
            .position(|c| c.rank == rank)
            .unwrap_or_else(|| {
                copies.push(Copy {
                    rank,
                    forward: None,
                    backward: None,
                });
                copies.len() - 1
            });
        let copy = &mut copies[at];
        match site.role {
            Role::Forward => {
                copy.forward = Some(copy.forward.map_or(site.stage, |s| s.min(site.stage)))
            }
            _ => copy.backward = Some(copy.backward.map_or(site.stage, |s| s.max(site.stage))),
        }
    }

    fn refuse_flow(&mut self, op: Option<OpId>, source: usize, home: Site, site: Site) {
        let module = self.step.module;
        let source = self.step.ops[source];
        let message = format!(
            "the {} pass of stage {} reads a value of the {} pass of stage {}",
            site.role.name(),
            site.stage,
            self.step.roles[self.step.position(source).unwrap_or_default()].name(),
            home.stage
        );
        let diagnostic = Diagnostic::error("E0641", module.loc(op.unwrap_or(source)), message)
            .note(Some(module.loc(source).into()), "computed here")
            .help("forward values flow to later stages, gradients to earlier ones, and the optimizer comes last");
        self.wrong.push(diagnostic);
    }

    fn refuse(&mut self, op: OpId, message: String) {
        let loc = self.step.module.loc(op);
        self.wrong.push(Diagnostic::error("E0644", loc, message));
    }
}
