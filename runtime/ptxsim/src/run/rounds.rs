//! Clusters run side by side on the host's threads, and meet where they hear of each other.
//!
//! Each cluster runs until its warps want to use global memory in a way that others can hear of. When all that are resident
//! have come that far, those uses are made one after the other, in an order that the seed decides. So what a launch does
//! depends on no race between the host's threads. Only uses that nothing orders can still differ; a launch that shows some
//! is run again, one cluster after the other, so that what it reports is always the same.

use std::collections::VecDeque;

use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};

use super::block::{Block, POLITE, Pause, RESIGNED, Shape};
use super::order::Order;
use super::{Outcome, Residency};
use crate::finding::FindingKind;
use crate::global::OpenMemory;
use crate::instruction::Instruction;
use crate::memory::Memory;

/// Clusters that never hear of each other are taken up so many at a time.
const AT_A_TIME: usize = 4096;

/// A cluster that is resident.
struct Resident<'k> {
    number: u32,
    /// Made when it first runs; gone when it has ended.
    block: Option<Box<Block<'k>>>,
    pause: Pause,
    outcome: Option<Outcome>,
}

/// Runs all clusters of a launch.
pub(super) fn run(shape: &Shape<'_>, memory: &mut Memory) -> Outcome {
    let hears = |one: &Instruction| one.operation.is_heard_by_others();
    let apart = !shape.kernel.instructions.iter().any(hears);
    let before = (shape.launch.blocks > 1).then(|| memory.clone());
    let outcome = memory.open(apart, |memory| run_once(shape, memory, (apart, true)));
    let is_open = |kind| matches!(kind, FindingKind::Race | FindingKind::Uninitialised);
    match before {
        Some(before) if outcome.findings.iter().any(|finding| is_open(finding.kind)) => {
            *memory = before;
            memory.open(apart, |memory| run_once(shape, memory, (apart, false)))
        }
        _ => outcome,
    }
}

fn run_once(shape: &Shape<'_>, memory: &OpenMemory, (apart, beside): (bool, bool)) -> Outcome {
    let mut order = Order::of(shape.launch.seed);
    let clusters = shape.launch.blocks / shape.launch.cluster;
    let mut numbers: Vec<u32> = (0..clusters).collect();
    order.shuffle(&mut numbers);
    let mut rounds = Rounds {
        shape,
        memory,
        order,
        waiting: numbers.into(),
        resident: Vec::new(),
        // Clusters that never hear of each other do not wait for each other either.
        most: match apart {
            true => AT_A_TIME,
            false => shape.residency.clusters as usize,
        },
        idle: 0,
        outcomes: Vec::new(),
    };
    while rounds.fill() {
        rounds.take_turns(beside);
        rounds.meet();
    }
    rounds.outcomes.sort_by_key(|(number, _)| *number);
    let mut whole = Outcome {
        residency: shape.residency,
        ..Outcome::default()
    };
    for (_, outcome) in rounds.outcomes {
        whole.add(outcome);
    }
    whole
}

/// A launch on its way.
struct Rounds<'k> {
    shape: &'k Shape<'k>,
    memory: &'k OpenMemory,
    order: Order,
    waiting: VecDeque<u32>,
    resident: Vec<Resident<'k>>,
    /// Clusters that are resident at a time.
    most: usize,
    /// Rounds that changed nothing, one after the other.
    idle: u32,
    outcomes: Vec<(u32, Outcome)>,
}

impl Rounds<'_> {
    /// Lets clusters become resident; `false` if there are none left.
    fn fill(&mut self) -> bool {
        while self.resident.len() < self.most
            && let Some(number) = self.waiting.pop_front()
        {
            self.resident.push(Resident {
                number,
                block: None,
                pause: Pause::Tired,
                outcome: None,
            });
            self.idle = 0;
        }
        !self.resident.is_empty()
    }

    /// Lets every cluster run as far as it comes by itself.
    fn take_turns(&mut self, beside: bool) {
        let (shape, memory) = (self.shape, self.memory);
        if beside {
            let all = self.resident.par_iter_mut();
            all.for_each(|one| one.take_turn(shape, memory));
        } else {
            let all = self.resident.iter_mut();
            all.for_each(|one| one.take_turn(shape, memory));
        }
        self.retire();
    }

    /// Lets those who hear of each other use memory, one after the other.
    fn meet(&mut self) {
        let is_busy = |one: &Resident<'_>| one.pause == Pause::Tired;
        let mut has_news = self.resident.iter().any(is_busy);
        self.order.shuffle(&mut self.resident);
        for block in self
            .resident
            .iter_mut()
            .filter_map(|one| one.block.as_mut())
        {
            block.meet(self.memory);
            has_news |= block.has_news;
        }
        self.idle = if has_news { 0 } else { self.idle + 1 };
        if self.idle > 0 && self.idle.is_multiple_of(POLITE) {
            // Nobody goes on without what is under way.
            for block in self
                .resident
                .iter_mut()
                .filter_map(|one| one.block.as_mut())
            {
                if block.deliver(self.memory) {
                    self.idle = 0;
                }
            }
        }
        if self.idle >= RESIGNED {
            self.resident.sort_by_key(|one| one.number);
            let why = self.why_others_wait();
            for block in self
                .resident
                .iter_mut()
                .filter_map(|one| one.block.as_mut())
            {
                block.give_up(&why);
            }
        }
    }

    /// Why others have not even started, if there are any.
    fn why_others_wait(&self) -> String {
        if self.waiting.is_empty() {
            return String::new();
        }
        let Residency {
            multiprocessors,
            blocks,
            limit,
            ..
        } = self.shape.residency;
        format!(
            "{} of {} blocks have not started: {multiprocessors} multiprocessors hold {blocks} each, by their {limit}",
            self.waiting.len() as u32 * self.shape.launch.cluster,
            self.shape.launch.blocks
        )
    }

    /// Takes note of the clusters that have come to their end.
    fn retire(&mut self) {
        for one in &mut self.resident {
            if let Some(outcome) = one.outcome.take() {
                self.outcomes.push((one.number, outcome));
                self.idle = 0;
            }
        }
        self.resident.retain(|one| one.pause != Pause::Over);
    }
}

impl<'k> Resident<'k> {
    fn take_turn(&mut self, shape: &'k Shape<'k>, memory: &OpenMemory) {
        let number = self.number;
        let mut block = self
            .block
            .take()
            .unwrap_or_else(|| Box::new(Block::new(shape, number)));
        self.pause = block.run(memory);
        if self.pause == Pause::Over {
            self.outcome = Some(block.outcome());
        } else {
            self.block = Some(block);
        }
    }
}
