//! Cutting a forward pass into stretches.
//!
//! Between any two neighbouring ops some values are alive: made before, read after. They would be sent if the pass were cut there, and
//! their gradients back. A place is fit for a cut if no place nearby has fewer bytes alive; nearby is an eighth of an even stretch's
//! cost. Among all ways to cut at such places, the cost of the costliest stretch is made least (by bisection, filling stretches greedily),
//! and among those that come within 2% of it the sum of the squares is least, so that the other stretches are even too, then the bytes that
//! are sent (by dynamic programming).

use std::collections::VecDeque;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Loc, ValueId};
use rustc_hash::FxHashMap;

use super::weigh::Weights;
use crate::analysis::cost::bytes;
use crate::analysis::stages::STAGE;
use crate::analysis::step::{Origin, Role, Step};

/// How near a place with fewer bytes alive keeps another from being cut, in even stretches.
const NEARBY: f64 = 0.125;
/// How much longer than need be the costliest stretch may be for other ends.
const SLACK: f64 = 1.02;

/// The forward ops that belong to stages, in order, with what the cutting looks at. Place i is before op i.
pub(super) struct Line {
    /// Positions in the step.
    ops: Vec<usize>,
    /// Cost of all ops before a place, in microseconds.
    cost_us: Vec<f64>,
    /// Bytes alive at a place.
    alive: Vec<f64>,
    /// Time to send them there, and their gradients back.
    transfer_us: Vec<f64>,
    loc: Loc,
    /// By place: how many ops before it are labelled.
    labelled_before: Vec<u32>,
    /// By place: the label of the last labelled op before it.
    last_label: Vec<Option<u32>>,
    /// By place: the label of the next labelled op.
    next_label: Vec<Option<u32>>,
}

impl Line {
    /// Lines the forward ops of a step up.
    ///
    /// # Errors
    /// Diagnostics for labels that are out of order or beyond the number of stages.
    pub fn of(step: &Step, weights: &Weights, stages: u32) -> Result<Self, Vec<Diagnostic>> {
        let module = step.module;
        let forward = |&at: &usize| step.roles[at] == Role::Forward && !step.free[at];
        let ops: Vec<usize> = (0..step.ops.len()).filter(forward).collect();
        let mut cost_us = vec![0.0];
        for &at in &ops {
            cost_us.push(cost_us[cost_us.len() - 1] + weights.time_us[at]);
        }
        // A value is alive from the place after its op to the place before its last reader.
        let mut last_reader: FxHashMap<ValueId, (usize, usize)> = FxHashMap::default();
        for (index, &at) in ops.iter().enumerate() {
            for value in module.operands(step.ops[at]) {
                if let Some(reader) = last_reader.get_mut(&value) {
                    reader.1 = index;
                }
            }
            for result in module.results(step.ops[at]) {
                last_reader.insert(result, (index, index));
            }
        }
        let mut changes = vec![0.0; ops.len() + 1];
        for (&value, &(made, read)) in &last_reader {
            let size = bytes(module, value);
            changes[made + 1] += size;
            changes[read + 1] -= size;
        }
        let mut alive = Vec::with_capacity(changes.len());
        let mut now = 0.0;
        for change in changes {
            now += change;
            alive.push(now);
        }
        let transfer_us = alive
            .iter()
            .map(|&b| 2.0 * weights.rates.transfer_us(b))
            .collect();
        let mut line = Self {
            cost_us,
            alive,
            transfer_us,
            loc: module.loc(step.function),
            labelled_before: vec![0; ops.len() + 1],
            last_label: vec![None; ops.len() + 1],
            next_label: vec![None; ops.len() + 1],
            ops,
        };
        line.read_labels(step, stages)?;
        Ok(line)
    }

    fn read_labels(&mut self, step: &Step, stages: u32) -> Result<(), Vec<Diagnostic>> {
        let module = step.module;
        let mut wrong = Vec::new();
        let mut labels = vec![None; self.ops.len()];
        let mut last = None;
        for (index, &at) in self.ops.iter().enumerate() {
            let op = step.ops[at];
            if let Some(attr) = module.attr(op, STAGE) {
                let label = module.cx().as_i64(attr).and_then(|l| u32::try_from(l).ok());
                match label.filter(|&l| l < stages) {
                    Some(label) if last.is_some_and(|l| l > label) => {
                        let message = format!(
                            "'{}' is labelled with stage {label}, but an op before it with stage {}",
                            module.name_str(op),
                            last.unwrap_or_default()
                        );
                        let help =
                            "a stage is a stretch of the forward pass; the labels have to ascend";
                        wrong.push(Diagnostic::error("E0645", module.loc(op), message).help(help));
                    }
                    Some(label) => {
                        labels[index] = Some(label);
                        last = Some(label);
                    }
                    None => {
                        let message = format!(
                            "'{}' has a '{STAGE}' that is none of {stages} stages",
                            module.name_str(op)
                        );
                        wrong.push(Diagnostic::error("E0645", module.loc(op), message));
                    }
                }
            }
            let labelled = u32::from(labels[index].is_some());
            self.labelled_before[index + 1] = self.labelled_before[index] + labelled;
            self.last_label[index + 1] = last;
        }
        let mut next = None;
        for index in (0..self.ops.len()).rev() {
            next = labels[index].or(next);
            self.next_label[index] = next;
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong),
        }
    }

    /// Number of ops.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Cost of the stretch between two places, with what its ends send.
    fn stretch(&self, from: usize, to: usize) -> f64 {
        self.cost_us[to] - self.cost_us[from] + self.transfer_us[from] + self.transfer_us[to]
    }

    /// Whether the labels allow a stretch to be a stage.
    fn allows(&self, from: usize, to: usize, stage: u32) -> bool {
        let unlabelled = self.labelled_before[from] == self.labelled_before[to];
        unlabelled || (self.next_label[from] == Some(stage) && self.last_label[to] == Some(stage))
    }

    /// Places that are fit for a cut, and both ends. `nearby` is in microseconds.
    fn places(&self, nearby: f64, most: usize) -> Vec<usize> {
        let count = self.len();
        let mut places = vec![0];
        // The least bytes alive from each place on and back, as far as is nearby: a sliding minimum.
        let least = sliding_minimum(&self.alive, &self.cost_us, nearby);
        for (place, &least) in least.iter().enumerate().take(count).skip(1) {
            let begins = self.next_label[place] != self.last_label[place]
                && self.labelled_before[place + 1] > self.labelled_before[place];
            if self.alive[place] <= least || begins {
                places.push(place);
            }
        }
        places.push(count);
        if places.len() > most {
            places = self.thinned(&places, most);
        }
        places
    }

    /// Of many places, the one with the fewest bytes alive in each of so many equal shares of the cost.
    fn thinned(&self, places: &[usize], most: usize) -> Vec<usize> {
        let share = self.cost_us[self.len()] / most as f64;
        let bucket = |place: usize| (self.cost_us[place] / share.max(f64::MIN_POSITIVE)) as usize;
        let mut kept = vec![0];
        let inner = &places[1..places.len() - 1];
        for of_bucket in inner.chunk_by(|&a, &b| bucket(a) == bucket(b)) {
            let least = of_bucket.iter().copied();
            kept.extend(least.min_by(|&a, &b| self.alive[a].total_cmp(&self.alive[b])));
        }
        kept.push(self.len());
        kept
    }

    /// The stage of every forward op of a step, by position. What only turns inputs into other inputs goes where it is read first,
    /// unless its stage would then be left with nothing.
    pub fn stages(&self, step: &Step, cuts: &[usize]) -> Vec<Option<u32>> {
        let mut stages = vec![None; step.ops.len()];
        let mut busy = vec![0usize; cuts.len() + 1];
        for (index, &at) in self.ops.iter().enumerate() {
            let stage = cuts.partition_point(|&cut| cut <= index);
            stages[at] = Some(stage as u32);
            busy[stage] += 1;
        }
        let mut is_input = vec![false; step.ops.len()];
        for &at in &self.ops {
            let mut operands = step.module.operands(step.ops[at]);
            is_input[at] = operands.all(|v| match step.origin(v) {
                Origin::Argument(_) => true,
                Origin::Op(source) => is_input[source] || is_constant(step, source),
            });
        }
        let mut reader: Vec<Option<u32>> = vec![None; step.ops.len()];
        for &at in self.ops.iter().rev() {
            let labelled = step.module.attr(step.ops[at], STAGE).is_some();
            if let (true, false, Some(from), Some(to)) =
                (is_input[at], labelled, stages[at], reader[at])
                && busy[from as usize] > 1
            {
                stages[at] = Some(to);
                busy[from as usize] -= 1;
                busy[to as usize] += 1;
            }
            for source in step.sources(at) {
                reader[source] = match (reader[source], stages[at]) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        stages
    }

    /// For each cut, how many ops come before it that classes of the same program have alike.
    pub fn landmarks(&self, step: &Step, cuts: &[usize]) -> Vec<usize> {
        let significant: Vec<usize> = self.significant(step).collect();
        cuts.iter()
            .map(|&cut| significant.partition_point(|&index| index < cut))
            .collect()
    }

    /// Cuts right before the ops with these numbers among those that classes have alike.
    pub fn after_landmarks(&self, step: &Step, landmarks: &[usize]) -> Vec<usize> {
        let significant: Vec<usize> = self.significant(step).collect();
        let place = |&mark: &usize| significant.get(mark).copied().unwrap_or(self.len());
        landmarks.iter().map(place).collect()
    }

    /// Ops other than those that add a bias or change a value's form, which one class may lack.
    fn significant<'s>(&'s self, step: &'s Step) -> impl Iterator<Item = usize> + 's {
        let form = ["dist.add", "dist.cast", "dist.identity", "dist.reshape"];
        let ops = self.ops.iter().enumerate();
        ops.filter(move |&(_, &at)| !form.contains(&step.module.name_str(step.ops[at])))
            .map(|(index, _)| index)
    }

    /// A stage in a sentence.
    pub fn describe(&self, stage: usize, cuts: &[usize]) -> String {
        let from = stage.checked_sub(1).map_or(0, |s| cuts[s]);
        let to = cuts.get(stage).copied().unwrap_or(self.len());
        let time = self.cost_us[to] - self.cost_us[from];
        let mut text = format!("stage {stage}: {} forward ops, {time:.1} us", to - from);
        if to < self.len() {
            text += &format!(", sends {} bytes", self.alive[to]);
        }
        text
    }
}

/// Whether an op is a constant: it reads nothing, not even a global.
fn is_constant(step: &Step, at: usize) -> bool {
    step.free[at] && step.global(at).is_none() && step.module.num_operands(step.ops[at]) == 0
}

/// By place: the least value among the places that are no further than `reach` on either side.
fn sliding_minimum(values: &[f64], at: &[f64], reach: f64) -> Vec<f64> {
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut next = 1;
    let end = values.len() - 1;
    let mut least = vec![f64::INFINITY; values.len()];
    for place in 1..end {
        while next < end && at[next] <= at[place] + reach {
            while queue.back().is_some_and(|&b| values[b] >= values[next]) {
                queue.pop_back();
            }
            queue.push_back(next);
            next += 1;
        }
        while queue.front().is_some_and(|&f| at[f] < at[place] - reach) {
            queue.pop_front();
        }
        least[place] = queue.front().map_or(values[place], |&f| values[f]);
    }
    least
}

/// Cuts a line into stages.
///
/// # Errors
/// A diagnostic if the labels leave no way to do so.
pub(super) fn cut(line: &Line, stages: u32) -> Result<Vec<usize>, Vec<Diagnostic>> {
    let stages = stages as usize;
    let total = line.cost_us[line.len()];
    let most = MOST_PLACES.max(2 * stages);
    let mut nearby = total / stages as f64 * NEARBY;
    for _ in 0..8 {
        let places = line.places(nearby, most);
        if let Some(cuts) = (Cutter { line, places }).best(stages) {
            return Ok(cuts);
        }
        nearby /= 2.0;
    }
    let places = line.places(-1.0, most);
    let cuts = Cutter { line, places }.best(stages);
    cuts.ok_or_else(|| {
        let message = format!("the labels do not leave room for {stages} stages");
        vec![Diagnostic::error("E0645", line.loc, message)]
    })
}

/// So many places are looked at.
const MOST_PLACES: usize = 4096;

struct Cutter<'l> {
    line: &'l Line,
    places: Vec<usize>,
}

impl Cutter<'_> {
    fn best(&self, stages: usize) -> Option<Vec<usize>> {
        if self.places.len() <= stages {
            return None;
        }
        let line = self.line;
        let all = line.cost_us[line.len()];
        let highest = line.transfer_us.iter().copied().fold(0.0, f64::max);
        let mut high = all + 2.0 * highest;
        self.cheapest(stages, high)?;
        let mut low = all / stages as f64;
        for _ in 0..24 {
            let middle = f64::midpoint(low, high);
            match self.is_possible(stages, middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        self.cheapest(stages, high * SLACK)
    }

    /// Whether every stretch can cost at most `limit`.
    fn is_possible(&self, stages: usize, limit: f64) -> bool {
        let last = self.places.len() - 1;
        let mut reached = vec![false; last + 1];
        reached[0] = true;
        for stage in 0..stages {
            let mut next = vec![false; last + 1];
            let mut from = 0;
            for (to, next) in next.iter_mut().enumerate().skip(stage + 1) {
                from = self.first_within(from, to, limit);
                *next = (from..to).any(|i| reached[i] && self.fits(i, to, stage, limit));
            }
            reached = next;
        }
        reached[last]
    }

    /// The first place, from `from` on, from which a stretch to `to` may be within the limit.
    fn first_within(&self, mut from: usize, to: usize, limit: f64) -> usize {
        let cost =
            |i: usize| self.line.cost_us[self.places[to]] - self.line.cost_us[self.places[i]];
        while from < to && cost(from) > limit {
            from += 1;
        }
        from
    }

    fn fits(&self, from: usize, to: usize, stage: usize, limit: f64) -> bool {
        let (from, to) = (self.places[from], self.places[to]);
        self.line.stretch(from, to) <= limit && self.line.allows(from, to, stage as u32)
    }

    /// The most even cuts, and among those the ones that send the fewest bytes, with every stretch within a limit.
    fn cheapest(&self, stages: usize, limit: f64) -> Option<Vec<usize>> {
        let last = self.places.len() - 1;
        let nothing = (f64::INFINITY, f64::INFINITY);
        let mut best = vec![nothing; last + 1];
        best[0] = (0.0, 0.0);
        let mut parents: Vec<Vec<u32>> = Vec::with_capacity(stages);
        for stage in 0..stages {
            let mut next = vec![nothing; last + 1];
            let mut parent = vec![u32::MAX; last + 1];
            let mut start = 0;
            for to in stage + 1..=last {
                start = self.first_within(start, to, limit);
                for (from, &(uneven, sent)) in best.iter().enumerate().take(to).skip(start) {
                    if uneven.is_infinite() || !self.fits(from, to, stage, limit) {
                        continue;
                    }
                    let (a, b) = (self.places[from], self.places[to]);
                    let length = self.line.stretch(a, b);
                    let found = (uneven + length * length, sent + self.line.alive[b]);
                    if found < next[to] {
                        next[to] = found;
                        parent[to] = from as u32;
                    }
                }
            }
            best = next;
            parents.push(parent);
        }
        if best[last].0.is_infinite() {
            return None;
        }
        let mut cuts = Vec::with_capacity(stages);
        let mut at = last;
        for parent in parents.iter().rev() {
            at = parent[at] as usize;
            cuts.push(self.places[at]);
        }
        cuts.reverse();
        // The first stage begins at place 0.
        cuts.remove(0);
        Some(cuts)
    }
}
