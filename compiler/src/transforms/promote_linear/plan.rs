//! The plan for one bias: every layer that adds it, its gradients, its optimizer, its state and its initialisation. A plan is
//! made without changing anything; if any part does not fit there is none, and the reason says why.

use rustc_hash::{FxHashMap, FxHashSet};

use raddle_dialect::ir::{Attr, OpId};
use raddle_dialect::ops::Effects;

use super::facts::{Facts, Meeting};
use super::flow::{self, Flow, Sources};
use super::gradient::{self, Gradient};
use super::linear::Linear;

/// What is to be done about one bias.
#[derive(Debug)]
pub struct Plan {
    /// Axes over which the layers reduce: positions in the mesh.
    pub axes: Vec<usize>,
    /// The bias's name.
    pub name: String,
    /// The bias, its states, and the sums of its gradients over micro-batches.
    pub globals: Vec<OpId>,
    /// The layers, in program order.
    pub linears: Vec<Linear>,
    /// Gradients of the adds.
    pub gradients: Vec<Gradient>,
    /// What serves only the bias from its gradient on.
    pub flow: Flow,
    /// Broadcasts over the axes that bring only the bias or its state to the other ranks.
    pub broadcasts: Vec<Broadcast>,
    /// Everything to leave out where the bias is gone, last op first.
    pub removed: Vec<OpId>,
}

/// See [`Plan::signature`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Signature {
    bias: String,
    axes: Vec<usize>,
    /// The collectives that the plan looks at or changes.
    meetings: Vec<Meeting>,
    /// Where the plan puts new collectives.
    readers: Vec<Meeting>,
}

/// A broadcast of initialisation that promotion shortens or removes.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// The op.
    pub op: OpId,
    /// Axes that it still runs over on the ranks that keep the bias.
    pub rest: Vec<usize>,
    /// Its root among those.
    pub root: usize,
}

impl Plan {
    /// Makes the plan for the bias that all of `linears` add; `linears` is not empty.
    ///
    /// # Errors
    /// With the reason why none of the layers can be promoted.
    pub fn new(facts: &Facts, linears: Vec<Linear>) -> Result<Self, String> {
        let module = facts.module;
        let bias = linears[0].global;
        let axes = linears[0].axes.clone();
        if let Some(other) = linears.iter().find(|l| l.axes != axes) {
            return Err(format!(
                "it is added after reductions over {} and over {}",
                facts.show(&axes),
                facts.show(&other.axes)
            ));
        }
        let global = facts.global(bias).ok_or("it is not declared")?;
        let globals: FxHashSet<Attr> = std::iter::once(bias).chain(global.states.clone()).collect();
        let mut handled = FxHashSet::default();
        handled.extend(linears.iter().map(|l| (l.add, l.bias_operand)));
        let gradients = gradients(facts, &linears, &mut handled)?;
        let sources = Sources {
            axes: &axes,
            globals: &globals,
            bias,
            gradients: gradients
                .iter()
                .filter_map(|g| Some((g.bias?, g.gather.is_some())))
                .collect(),
            handled: &handled,
        };
        let flow = flow::follow(facts, &sources)?;
        gathers_can_move(facts, &gradients, &flow)?;
        let mut plan = Self {
            name: module.cx().as_symbol(bias).unwrap_or_default().into(),
            globals: Vec::new(),
            axes,
            linears,
            gradients,
            flow,
            broadcasts: Vec::new(),
            removed: Vec::new(),
        };
        plan.flow
            .sums
            .sort_unstable_by_key(|&sum| module.cx().as_symbol(sum));
        let sums = plan.flow.sums.iter();
        let globals: Vec<Attr> = std::iter::once(&bias)
            .chain(&global.states)
            .chain(sums)
            .copied()
            .collect();
        for &name in &globals {
            plan.globals.extend(facts.global(name).and_then(|g| g.op));
        }
        plan.leave_out(facts, &globals)?;
        Ok(plan)
    }

    /// Everything about the plan that another class, whose ranks meet this class's, must do alike.
    pub fn signature(&self, facts: &Facts) -> Signature {
        let own = |op| {
            let axes = facts.axes(op).unwrap_or_default();
            facts.meeting(op, &axes)
        };
        let comms = self.linears.iter().map(|l| l.comm);
        let gathers = self.gradients.iter().filter_map(|g| g.gather);
        let left_out = self.collectives(facts);
        let mut meetings: Vec<_> = comms.chain(gathers).chain(left_out).map(own).collect();
        meetings.sort();
        let terms = self.flow.terms.iter();
        let mut readers: Vec<_> = terms
            .map(|t| facts.meeting(t.consumer, &self.axes))
            .collect();
        readers.sort();
        Signature {
            bias: self.name.clone(),
            axes: self.axes.clone(),
            meetings,
            readers,
        }
    }

    /// The collectives that are left out, or shortened, on some ranks.
    fn collectives<'a>(&'a self, facts: &'a Facts) -> impl Iterator<Item = OpId> + 'a {
        self.removed.iter().copied().filter(|&op| {
            let def = facts.module.def_of(op);
            def.is_some_and(|d| d.effects == Effects::Communicates)
        })
    }

    /// All axes over which ranks meet in what the plan changes.
    pub fn reach(&self, facts: &Facts) -> Vec<usize> {
        let left_out = self.collectives(facts).filter_map(|op| facts.axes(op));
        let mut axes: Vec<_> = self
            .axes
            .iter()
            .copied()
            .chain(left_out.flatten())
            .collect();
        axes.sort_unstable();
        axes.dedup();
        axes
    }

    /// Collects what goes where the bias is gone, and the broadcasts that only initialise it.
    fn leave_out(&mut self, facts: &Facts, globals: &[Attr]) -> Result<(), String> {
        let mut gone = self.flow.ops.clone();
        gone.extend(self.linears.iter().map(|l| l.add));
        gone.extend(self.gradients.iter().map(|g| g.op));
        for &global in globals {
            gone.extend(facts.global(global).iter().flat_map(|g| &g.stores));
        }
        // What an add or its gradient passes on is passed on without it; it only stops reading the bias.
        let mut passed_on: FxHashSet<(OpId, usize)> = FxHashSet::default();
        passed_on.extend(self.linears.iter().map(|l| (l.add, l.product_operand())));
        for gradient in &self.gradients {
            let linear = &self.linears[gradient.linear];
            passed_on.insert((gradient.op, linear.product_operand()));
            if gradient.product.is_some() {
                passed_on.insert((gradient.op, 2));
            }
        }
        let mut list: Vec<_> = gone.iter().copied().collect();
        // How many uses of an op's results are left once all that is gone is gone.
        let mut left: FxHashMap<OpId, u32> = FxHashMap::default();
        while let Some(op) = list.pop() {
            for (index, value) in facts.module.operands(op).enumerate() {
                let source = facts.definition(value);
                let Some(source) = source.filter(|_| !passed_on.contains(&(op, index))) else {
                    continue;
                };
                let uses = left
                    .entry(source)
                    .or_insert_with(|| facts.place(source).uses);
                *uses = uses.saturating_sub(1);
                if *uses == 0 && !gone.contains(&source) && self.may_go(facts, source)? {
                    gone.insert(source);
                    list.push(source);
                }
            }
        }
        self.flow.terms.retain(|t| !gone.contains(&t.consumer));
        self.removed = gone.into_iter().collect();
        self.removed
            .sort_unstable_by_key(|&op| std::cmp::Reverse(facts.place(op).order));
        self.broadcasts
            .sort_unstable_by_key(|b| facts.place(b.op).order);
        Ok(())
    }

    /// Whether an op that only serves the bias can be left out where the bias is gone.
    fn may_go(&mut self, facts: &Facts, op: OpId) -> Result<bool, String> {
        let module = facts.module;
        let Some(def) = module.def_of(op) else {
            return Ok(false);
        };
        match def.effects {
            Effects::Pure | Effects::Draws | Effects::Reads => Ok(module.regions(op).is_empty()),
            Effects::Communicates => self.collective_may_go(facts, op),
            Effects::Writes | Effects::Accumulates | Effects::Opaque => Ok(false),
        }
    }

    fn collective_may_go(&mut self, facts: &Facts, op: OpId) -> Result<bool, String> {
        let module = facts.module;
        if module.attr(op, "axes").is_none() {
            return Ok(false);
        }
        let Some(axes) = facts.axes(op) else {
            return Ok(false);
        };
        if axes.iter().all(|a| !self.axes.contains(a)) {
            return Ok(true);
        }
        if !module.is(op, "dist.broadcast") {
            // Its groups hold ranks that keep the bias and ranks that lose it: all of them go on taking part.
            return Ok(false);
        }
        let root = module.i64_attr(op, "root").unwrap_or_default();
        let root = usize::try_from(root).unwrap_or_default();
        let (mut index, mut rest, mut rest_root, mut stride) = (root, Vec::new(), 0, 1);
        for &axis in axes.iter().rev() {
            let size = facts.mesh.sizes()[axis];
            let coordinate = index % size;
            index /= size;
            if !self.axes.contains(&axis) {
                rest_root += coordinate * stride;
                stride *= size;
                rest.insert(0, axis);
            } else if coordinate != 0 {
                return Err(format!(
                    "it is initialised by a broadcast from index {coordinate} of \"{}\", and not from the first",
                    facts.mesh.axes()[axis]
                ));
            }
        }
        self.broadcasts.push(Broadcast {
            op,
            rest,
            root: rest_root,
        });
        Ok(true)
    }
}

/// The gradients of the layers' adds; their operands are added to `handled`.
fn gradients(
    facts: &Facts,
    linears: &[Linear],
    handled: &mut FxHashSet<(OpId, usize)>,
) -> Result<Vec<Gradient>, String> {
    let module = facts.module;
    let mut gradients: Vec<Gradient> = Vec::new();
    let by_comm = linears
        .iter()
        .enumerate()
        .map(|(i, l)| (l.comm, i))
        .collect();
    let biases: FxHashSet<_> = linears.iter().map(|l| l.bias).collect();
    for bias in biases {
        for user in module.uses(bias) {
            if module.is(user.op, "dist.add_grad") && user.index < 2 {
                handled.insert((user.op, user.index));
                gradients.push(gradient::read(
                    facts, user.op, user.index, linears, &by_comm,
                )?);
            }
        }
    }
    // An add_grad that names the reduced product, but not the bias as the add read it, is not understood.
    for linear in linears {
        let product = module.operand(linear.add, linear.product_operand());
        for user in module.uses(product).filter(|u| u.op != linear.add) {
            if !handled.contains(&(user.op, linear.bias_operand)) {
                return Err("the gradient of its add names another operand".into());
            }
        }
    }
    gradients.sort_unstable_by_key(|g| facts.place(g.op).order);
    Ok(gradients)
}

/// With sequence parallelism the all_gather moves before the add_grad. Between the two there may be no other collective than
/// those of the bias gradient itself, or ranks could come to wait for each other.
fn gathers_can_move(facts: &Facts, gradients: &[Gradient], flow: &Flow) -> Result<(), String> {
    let moved = gradients.iter().filter(|g| g.gather.is_some());
    if moved.clone().next().is_none() {
        return Ok(());
    }
    let is_collective = |&&op: &&OpId| {
        let def = facts.module.def_of(op);
        def.is_some_and(|d| d.effects == Effects::Communicates)
    };
    let mut own: Vec<u32> = flow
        .ops
        .iter()
        .filter(is_collective)
        .map(|&op| facts.place(op).order)
        .collect();
    own.sort_unstable();
    for gradient in moved {
        let Some(gather) = gradient.gather else {
            continue;
        };
        let (from, to) = (facts.place(gradient.op), facts.place(gather));
        let between =
            own.partition_point(|&o| o < to.order) - own.partition_point(|&o| o < from.order);
        if (to.collectives - from.collectives) as usize != between || to.unknown != from.unknown {
            return Err("other collectives stand between its gradient and the all_gather that has to move before it".into());
        }
    }
    Ok(())
}
