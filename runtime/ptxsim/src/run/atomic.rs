//! Strong uses of memory and fences: how threads of different blocks hear of each other (PTX ISA, "Memory Consistency
//! Model").
//!
//! A release hands over what its thread knows and has done; an acquire that reads what it wrote, or what atomic operations
//! made of that, takes it, if the scopes of both cover both threads. A fence before a relaxed use makes that a release, a
//! fence after one an acquire.

use std::sync::Arc;

use super::block::Block;
use super::step::Step;
use super::warp::{LANES, Warp, each};
use crate::clock::{Knowledge, Message, Part};
use crate::global::OpenMemory;
use crate::instruction::{Atomic, Kind, Operand, Operation, Scope, Space, Strength, Type};
use crate::memory::{Fault, check_alignment};
use crate::record::User;

/// What a warp's fences and relaxed uses have to do with each other.
#[derive(Default)]
pub(super) struct Heard {
    /// For lanes that have executed a fence: what their later relaxed writes hand over.
    fences: Vec<(u32, Scope, Arc<Message>)>,
    /// What a lane's relaxed reads have seen, until a fence takes it.
    seen: Vec<(u32, Scope, Part)>,
}

/// A strong use by one lane.
struct Use {
    lane: usize,
    space: Space,
    address: u64,
    of: Type,
    strength: Strength,
}

impl Block<'_> {
    /// `atom`, `red`, and loads, stores and fences with an order.
    pub(super) fn use_strongly(&mut self, warp: &mut Warp, memory: &OpenMemory, step: &Step<'_>) {
        let operands = &step.instruction.operands;
        let (space, of, strength) = match step.instruction.operation {
            Operation::Fence(scope) => return fence(warp, step.lanes, scope),
            Operation::Atomic {
                space,
                of,
                strength,
                ..
            }
            | Operation::StrongLoad {
                space,
                of,
                strength,
            }
            | Operation::StrongStore {
                space,
                of,
                strength,
            } => (space, of, strength),
            _ => return,
        };
        let place = usize::from(operands.len() > 1 && matches!(operands[1], Operand::Address(..)));
        let addresses = self.read(warp, step, &operands[place]);
        let mut inputs = [[0; LANES]; 2];
        for (input, operand) in inputs.iter_mut().zip(&operands[place + 1..]) {
            *input = self.read(warp, step, operand);
        }
        let mut values = [0; LANES];
        for lane in each(step.lanes) {
            let mut one = Use {
                lane,
                space: space.of(addresses[lane]),
                address: addresses[lane],
                of,
                strength,
            };
            let inputs = [inputs[0][lane], inputs[1][lane]];
            let rank = self.own_of(warp, step, &mut one);
            let used = rank.and_then(|rank| {
                self.at(rank, |home| {
                    home.use_by_lane(warp, memory, step, &one, inputs)
                })
            });
            match used {
                Ok(value) => values[lane] = value,
                Err(fault) => return self.report(warp, step.instruction, lane, fault),
            }
        }
        if place == 1 {
            warp.set(&operands[0], step.lanes, &values);
        }
        let what = match space.of(addresses[step.lanes.trailing_zeros() as usize % LANES]) {
            Space::Shared | Space::Cluster => "shared memory".to_owned(),
            _ => "global memory".to_owned(),
        };
        let first = step.lanes.trailing_zeros() as usize % LANES;
        let message = format!("{what} at {:#x} to change", addresses[first]);
        warp.asks_again = Some((step.instruction.line, message));
    }

    /// The block whose shared memory a use is of, with its address there.
    fn own_of(&mut self, warp: &Warp, step: &Step<'_>, one: &mut Use) -> Result<u32, Fault> {
        if one.space != Space::Cluster {
            return Ok(self.rank);
        }
        let (rank, address) = self.find_shared(one.address)?;
        self.visit(warp, step, (rank, one.lane))?;
        (one.space, one.address) = (Space::Shared, address);
        Ok(rank)
    }

    /// What was there before.
    fn use_by_lane(
        &mut self,
        warp: &mut Warp,
        memory: &OpenMemory,
        step: &Step<'_>,
        one: &Use,
        inputs: [u64; 2],
    ) -> Result<u64, Fault> {
        let Use { lane, of, .. } = *one;
        check_alignment(one.address, of.bytes())?;
        let operation = step.instruction.operation;
        let mut faults = Vec::new();
        let mut old = 0;
        let mut result = None;
        if !matches!(operation, Operation::StrongStore { .. }) {
            old = self.strong_read(warp, memory, one, &mut faults)?;
        }
        match operation {
            Operation::Atomic { operation, .. } => result = new_value(operation, of, old, inputs),
            Operation::StrongStore { .. } => result = Some(inputs[0] & of.mask()),
            _ => {}
        }
        if let Some(value) = result {
            let is_new = self.strong_write(warp, memory, one, value, &mut faults)?;
            self.changes += u64::from(is_new);
        }
        self.has_news |= self.seen.insert((step.place, one.address));
        self.report_all(warp, step, lane, &mut faults);

        let here = (warp.cluster, warp.rank);
        let key = match one.space {
            Space::Shared => one.address | u64::from(self.rank) << 32,
            _ => one.address,
        };
        let reads = !matches!(operation, Operation::StrongStore { .. });
        let mut parts = match one.space {
            Space::Shared => self.handed_over.remove(&key).unwrap_or_default(),
            _ => memory.handed_over().remove(&key).unwrap_or_default(),
        };
        if reads {
            hear(warp, one, &parts, here);
        } else {
            // A store begins anew.
            parts.clear();
        }
        if result.is_some() {
            tell(warp, one, &mut parts, here, reads);
        }
        if !parts.is_empty() {
            match one.space {
                Space::Shared => {
                    self.handed_over.insert(key, parts);
                }
                _ => {
                    memory.handed_over().insert(key, parts);
                }
            }
        }
        Ok(old)
    }

    fn strong_read(
        &mut self,
        warp: &Warp,
        memory: &OpenMemory,
        one: &Use,
        faults: &mut Vec<Fault>,
    ) -> Result<u64, Fault> {
        let user = one.user(warp);
        let mut bytes = [0; 8];
        let into = &mut bytes[..one.of.bytes()];
        match one.space {
            Space::Shared => self.shared.read(user, one.address, into, faults)?,
            _ => memory.window().read(user, one.address, into, faults)?,
        }
        Ok(u64::from_le_bytes(bytes))
    }

    /// Whether the value was another one before.
    fn strong_write(
        &mut self,
        warp: &Warp,
        memory: &OpenMemory,
        one: &Use,
        value: u64,
        faults: &mut Vec<Fault>,
    ) -> Result<bool, Fault> {
        let user = one.user(warp);
        let bytes = value.to_le_bytes();
        let bytes = &bytes[..one.of.bytes()];
        match one.space {
            Space::Shared => {
                let before = self.shared.peek(one.address, bytes.len()).to_vec();
                self.shared.write(user, one.address, bytes, faults)?;
                Ok(before != bytes)
            }
            _ => {
                let mut window = memory.window();
                let is_new = window.differs(one.address, bytes)?;
                window.write(user, one.address, bytes, faults)?;
                Ok(is_new)
            }
        }
    }
}

impl Use {
    fn user<'w>(&self, warp: &'w Warp) -> User<'w> {
        User {
            strong: Some(self.strength.scope),
            ..warp.user(self.lane)
        }
    }
}

/// A lane reads what was handed over.
fn hear(warp: &mut Warp, one: &Use, parts: &[Part], here: (u32, u32)) {
    for part in parts {
        let taken = one.strength.acquires && part.reaches(one.strength.scope, here);
        if taken {
            warp.learn(1 << one.lane, |knowledge| {
                knowledge.receive(here.0, &part.message);
            });
        } else {
            let seen = &mut warp.heard.seen;
            let lane = 1u32 << one.lane;
            let is_known = |(other, _, old): &(u32, Scope, Part)| {
                *other == lane && Arc::ptr_eq(&old.message, &part.message)
            };
            if !seen.iter().any(is_known) {
                seen.push((lane, one.strength.scope, part.clone()));
            }
        }
    }
}

/// A lane hands over what it knows, or what it knew at its last fence.
fn tell(
    warp: &mut Warp,
    one: &Use,
    parts: &mut Vec<Part>,
    (cluster, rank): (u32, u32),
    reads: bool,
) {
    let Strength {
        scope,
        acquires,
        releases,
    } = one.strength;
    let mut push = |scope: Scope, message: Arc<Message>| {
        // Whoever took all there is hands all of that on.
        let has_all = acquires && reads;
        if has_all {
            parts.retain(|part| !(part.scope <= scope && part.reaches(scope, (cluster, rank))));
        }
        let mut known = parts.iter_mut();
        let known =
            known.find(|part| (part.scope, part.cluster, part.rank) == (scope, cluster, rank));
        match known {
            Some(part) => Arc::make_mut(&mut part.message).join(&message),
            None => parts.push(Part {
                scope,
                cluster,
                rank,
                message,
            }),
        }
    };
    let lane = 1u32 << one.lane;
    for (lanes, fenced, message) in &warp.heard.fences {
        if lanes & lane != 0 {
            push((*fenced).min(scope), message.clone());
        }
    }
    if releases {
        let mut knowledge = Knowledge::default();
        warp.release(lane, &mut knowledge);
        push(scope, Arc::new(knowledge.message(cluster)));
    }
}

/// `fence.acq_rel` and stronger ones.
fn fence(warp: &mut Warp, lanes: u32, scope: Scope) {
    let here = (warp.cluster, warp.rank);
    let seen = std::mem::take(&mut warp.heard.seen);
    for (reader, read, part) in seen {
        if reader & lanes != 0 && part.reaches(scope.min(read), here) {
            warp.learn(reader, |knowledge| knowledge.receive(here.0, &part.message));
        } else {
            warp.heard.seen.push((reader, read, part));
        }
    }
    for (others, fenced, _) in &mut warp.heard.fences {
        if *fenced <= scope {
            *others &= !lanes;
        }
    }
    warp.heard.fences.retain(|(lanes, ..)| *lanes != 0);
    // Lanes that know the same hand over the same, apart from what only they have done.
    for lane in each(lanes) {
        let mut knowledge = warp.told(lane);
        let agent = warp.agent(lane);
        knowledge.over.learn(agent, warp.tick + 1);
        let message = Arc::new(knowledge.message(here.0));
        warp.heard.fences.push((1 << lane, scope, message));
    }
    warp.tick += 1;
}

/// What an atomic operation leaves behind; `None` if it leaves all as it is.
fn new_value(operation: Atomic, of: Type, old: u64, [first, second]: [u64; 2]) -> Option<u64> {
    let (old, first, second) = (old & of.mask(), first & of.mask(), second & of.mask());
    let is_signed = of.kind == Kind::Signed;
    let less = if is_signed {
        of.signed(first) < of.signed(old)
    } else {
        first < old
    };
    let new = match operation {
        Atomic::Add => old.wrapping_add(first),
        Atomic::Minimum if less => first,
        Atomic::Maximum if !less => first,
        Atomic::Minimum | Atomic::Maximum => old,
        Atomic::And => old & first,
        Atomic::Or => old | first,
        Atomic::Xor => old ^ first,
        Atomic::Exchange => first,
        Atomic::CompareAndSwap if old == first => second,
        Atomic::CompareAndSwap => return None,
        Atomic::Increment if old >= first => 0,
        Atomic::Increment => old + 1,
        Atomic::Decrement if old == 0 || old > first => first,
        Atomic::Decrement => old - 1,
    };
    Some(new & of.mask())
}
