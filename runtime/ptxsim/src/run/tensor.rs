//! Copies by the tensor memory accelerator (PTX ISA, "cp.async.bulk.tensor").
//!
//! A load completes bytes of a barrier; with late delivery it arrives only when no warp can go on without it, and the one
//! that was started last comes first. A store reads shared memory until its thread waits for that, at the latest.

use super::block::Block;
use super::step::Step;
use super::warp::{LANES, Warp, each};
use super::{Delivery, PARAMETER_WINDOW};
use crate::agents::Agent;
use crate::clock::Knowledge;
use crate::finding::FindingKind;
use crate::global::{OpenMemory, Window};
use crate::instruction::{Operand, Operation};
use crate::memory::{Fault, check_alignment};
use crate::record::{UNDER_WAY, User};
use crate::tensor_map::TensorMap;

/// What boxes in shared memory are aligned to, in bytes.
const BOX_ALIGNMENT: usize = 128;

/// Bytes that are permuted as a whole.
const CHUNK: usize = 16;

/// A copy from global to shared memory under way.
pub(super) struct Load {
    /// Where the tensor map lies among the parameters.
    map: u32,
    place: Vec<i64>,
    shared: u64,
    /// The block of the cluster to whose shared memory it goes.
    pub(super) rank: u32,
    /// The number of the barrier that it completes.
    barrier: usize,
    pub(super) line: u32,
    pub(super) thread: u32,
    /// Who started it, when, and what it knew.
    agent: Agent,
    tick: u32,
    knowledge: Knowledge,
}

/// A copy from shared to global memory under way.
#[derive(Clone)]
pub(super) struct Store {
    map: u32,
    place: Vec<i64>,
    shared: u64,
    /// Whether it adds to what is there.
    adds: bool,
    line: u32,
}

/// Copies that are waited for together.
#[derive(Clone, Default)]
pub(super) struct Group {
    /// When its writes count as made.
    tick: u32,
    stores: Vec<Store>,
    /// Whether shared memory is read.
    is_read: bool,
}

/// Groups that have read shared memory and that nothing waits for, which a lane keeps.
const KEPT_GROUPS: usize = 64;

impl Block<'_> {
    /// Bulk copies and what goes with them.
    pub(super) fn copy_tensor(&mut self, warp: &mut Warp, memory: &OpenMemory, step: &Step<'_>) {
        let operands = &step.instruction.operands;
        match step.instruction.operation {
            Operation::LoadTensor { multicast, .. } => {
                let masks = match multicast {
                    true => Some(self.read(warp, step, &operands[3])),
                    false => None,
                };
                let shared = self.read(warp, step, &operands[0]);
                let barriers = self.read(warp, step, &operands[2]);
                let (maps, places) = self.read_tensor(warp, step, &operands[1]);
                for lane in each(step.lanes) {
                    let place = places.iter().map(|index| index[lane] as i32 as i64);
                    let target = (maps[lane], place.collect());
                    let mask = masks.map(|masks| masks[lane] as u16);
                    let (shared, barrier) = (shared[lane], barriers[lane]);
                    let started =
                        self.start_loads((warp, step, lane), mask, &target, (shared, barrier));
                    match started {
                        Ok(loads) if self.delivery == Delivery::Eager => {
                            for load in &loads {
                                self.finish_load(memory, load);
                            }
                        }
                        Ok(loads) => self.loads.extend(loads),
                        Err(fault) => return self.report(warp, step.instruction, lane, fault),
                    }
                }
            }
            Operation::StoreTensor { adds, .. } => {
                let shared = self.read(warp, step, &operands[1]);
                let (maps, places) = self.read_tensor(warp, step, &operands[0]);
                for lane in each(step.lanes) {
                    let place = places.iter().map(|index| index[lane] as i32 as i64);
                    let target = (maps[lane], place.collect());
                    let started = self.start_store(warp, step, lane, target, (shared[lane], adds));
                    let tick = warp.bulk_tick_of(lane);
                    let done = started.and_then(|store| {
                        if self.delivery == Delivery::Eager {
                            self.perform_store(warp, memory, (lane, tick), &store)?;
                        }
                        Ok(store)
                    });
                    match done {
                        Ok(store) => {
                            if let Some(open) = warp.bulk[lane].last_mut() {
                                open.stores.push(store);
                            }
                        }
                        Err(fault) => return self.report(warp, step.instruction, lane, fault),
                    }
                }
            }
            Operation::CommitBulk => {
                for lane in each(step.lanes) {
                    warp.bulk[lane].push(Group::default());
                }
            }
            Operation::WaitBulk { read } => {
                if let Operand::Immediate(left) = operands[0] {
                    for lane in each(step.lanes) {
                        let until = (left as usize, read);
                        let finished = self.finish_groups(warp, memory, lane, until);
                        if let Err(fault) = finished {
                            return self.report(warp, step.instruction, lane, fault);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// The address of a tensor map and a place, for all lanes.
    fn read_tensor(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        operand: &Operand,
    ) -> ([u64; LANES], Vec<[u64; LANES]>) {
        let Operand::Tensor(map, place) = operand else {
            return ([0; LANES], Vec::new());
        };
        let map = self.read(warp, step, map);
        let place = place
            .iter()
            .map(|index| self.read(warp, step, index))
            .collect();
        (map, place)
    }

    /// Checks that there is a tensor map at an address, that a box is aligned, and gives the map's place among the
    /// parameters with the box's bytes.
    fn tensor_map(
        &self,
        (address, rank): (u64, usize),
        shared: u64,
    ) -> Result<(u32, usize), Fault> {
        let place = address.wrapping_sub(PARAMETER_WINDOW);
        let found = u32::try_from(place)
            .ok()
            .and_then(|place| Some((place, self.maps.get(&place)?)));
        let Some((place, map)) = found else {
            let message = format!("there is no tensor map at {address:#x}");
            return Err((FindingKind::OutOfBounds, message));
        };
        if map.extents.len() != rank {
            let message = format!(
                "a tensor map of {} dimensions is used with {rank}",
                map.extents.len()
            );
            return Err((FindingKind::OutOfBounds, message));
        }
        check_alignment(shared, BOX_ALIGNMENT)?;
        Ok((place, map.box_bytes()))
    }

    /// Starts a load to one block, or to the same places in each block of a mask.
    fn start_loads(
        &mut self,
        (warp, step, lane): (&Warp, &Step<'_>, usize),
        mask: Option<u16>,
        target: &(u64, Vec<i64>),
        (shared, barrier): (u64, u64),
    ) -> Result<Vec<Load>, Fault> {
        let (rank, shared) = self.find_shared(shared)?;
        let (completed, barrier) = self.find_shared(barrier)?;
        if rank != completed {
            let message = "a copy to one block's shared memory completes another's barrier";
            return Err((FindingKind::Barrier, message.to_owned()));
        }
        let ranks = mask.map_or(1 << rank, u32::from);
        if ranks >> self.agents.ranks != 0 {
            let message = format!(
                "a copy to the blocks {ranks:#x} of a cluster of {}",
                self.agents.ranks
            );
            return Err((FindingKind::OutOfBounds, message));
        }
        let mut loads = Vec::new();
        for rank in each(ranks).map(|rank| rank as u32) {
            self.check_running(rank)?;
            let started = self.at(rank, |home| {
                home.start_load(warp, step, lane, target.clone(), (shared, barrier))
            });
            loads.extend(started?.map(|load| Load { rank, ..load }));
        }
        Ok(loads)
    }

    fn start_load(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        lane: usize,
        (address, place): (u64, Vec<i64>),
        (shared, barrier): (u64, u64),
    ) -> Result<Option<Load>, Fault> {
        let (map, bytes) = self.tensor_map((address, place.len()), shared)?;
        let Some(barrier) = self.fenced_barrier_at(warp, step, (barrier, lane)) else {
            return Ok(None);
        };
        let user = User {
            asynchronous: true,
            ..warp.user(lane)
        };
        let writer = self.copies_of(barrier);
        let mut faults = Vec::new();
        self.shared
            .start_copy(user, (shared, bytes), writer, &mut faults)?;
        self.report_all(warp, step, lane, &mut faults);
        self.counters.tensor_copies += 1;
        Ok(Some(Load {
            map,
            place,
            shared,
            rank: self.rank,
            barrier,
            line: step.instruction.line,
            thread: warp.thread(lane),
            agent: warp.agent(lane),
            tick: warp.tick,
            knowledge: warp.told(lane),
        }))
    }

    /// Lets a load arrive.
    pub(super) fn finish_load(&mut self, memory: &OpenMemory, load: &Load) {
        self.at(load.rank, |home| home.finish_load_here(memory, load));
    }

    fn finish_load_here(&mut self, memory: &OpenMemory, load: &Load) {
        let maps = self.maps;
        let Some(map) = maps.get(&load.map) else {
            return;
        };
        let width = (map.box_extents[0] * map.element_bytes) as usize;
        let user = User {
            cluster: self.cluster,
            agents: self.agents,
            thread: load.agent,
            whole_warp: false,
            is_apart: true,
            tick: load.tick,
            synced: 0,
            knowledge: &load.knowledge,
            asynchronous: true,
            reads_as: None,
            strong: None,
        };
        let mut window = memory.window();
        let mut faults = Vec::new();
        let mut line_bytes = vec![0; width];
        for (number, line) in map.lines(&load.place).enumerate() {
            line_bytes.fill(0);
            if line.elements > 0 {
                let first = line.skipped * map.element_bytes as usize;
                let count = line.elements * map.element_bytes as usize;
                let into = &mut line_bytes[first..first + count];
                if let Err(fault) = window.read(user, line.address, into, &mut faults) {
                    return self.add_finding(load.line, load.thread, fault);
                }
            }
            for (index, chunk) in line_bytes.chunks(CHUNK).enumerate() {
                let address = load.shared + (number * width + index * CHUNK) as u64;
                self.shared.place(map.swizzle.apply(address), chunk);
            }
        }
        for fault in faults {
            self.add_finding(load.line, load.thread, fault);
        }
        let writer = User {
            thread: self.copies_of(load.barrier),
            tick: self.phase_of(load.barrier),
            ..user
        };
        let bytes = map.box_bytes();
        self.shared.finish_copy(writer, (load.shared, bytes));
        self.bytes_came(load.barrier, bytes);
    }

    fn start_store(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        lane: usize,
        (address, place): (u64, Vec<i64>),
        (shared, adds): (u64, bool),
    ) -> Result<Store, Fault> {
        let (map, bytes) = self.tensor_map((address, place.len()), shared)?;
        if adds
            && self
                .maps
                .get(&map)
                .is_some_and(|map| map.element_bytes != 4)
        {
            let message = "only elements of four bytes are added up".to_owned();
            return Err((FindingKind::OutOfBounds, message));
        }
        let user = User {
            asynchronous: true,
            ..warp.user(lane)
        };
        let mut faults = Vec::new();
        self.shared
            .start_reads(user, UNDER_WAY, (&[shared], bytes), &mut faults)?;
        self.report_all(warp, step, lane, &mut faults);
        self.counters.tensor_copies += 1;
        Ok(Store {
            map,
            place,
            shared,
            adds,
            line: step.instruction.line,
        })
    }

    /// Reads shared memory and writes what lies within the tensor, as a lane's store that counts as made at this tick.
    fn perform_store(
        &mut self,
        warp: &Warp,
        memory: &OpenMemory,
        (lane, tick): (usize, u32),
        store: &Store,
    ) -> Result<(), Fault> {
        let maps = self.maps;
        let Some(map) = maps.get(&store.map) else {
            return Ok(());
        };
        let knowledge = warp.told(lane);
        let user = User {
            thread: self.agents.stores(warp.rank, warp.index),
            is_apart: true,
            tick,
            synced: 0,
            knowledge: &knowledge,
            asynchronous: true,
            ..warp.user(lane)
        };
        let mut window = memory.window();
        let mut faults = Vec::new();
        let width = (map.box_extents[0] * map.element_bytes) as usize;
        let mut bytes = vec![0; width];
        for (number, line) in map.lines(&store.place).enumerate() {
            if line.elements == 0 {
                continue;
            }
            for (index, chunk) in bytes.chunks_mut(CHUNK).enumerate() {
                let address = store.shared + (number * width + index * CHUNK) as u64;
                let address = map.swizzle.apply(address);
                chunk.copy_from_slice(self.shared.peek(address, chunk.len()));
            }
            let first = line.skipped * map.element_bytes as usize;
            let count = line.elements * map.element_bytes as usize;
            let bytes = &mut bytes[first..first + count];
            if store.adds {
                add_to(&mut window, user, line.address, bytes, &mut faults)?;
            }
            window.write(user, line.address, bytes, &mut faults)?;
        }
        for fault in faults {
            self.add_finding(store.line, warp.thread(lane), fault);
        }
        Ok(())
    }

    /// Ends a lane's oldest groups, or their reads of shared memory, until only so many that are committed are left.
    fn finish_groups(
        &mut self,
        warp: &mut Warp,
        memory: &OpenMemory,
        lane: usize,
        (left, read): (usize, bool),
    ) -> Result<(), Fault> {
        let committed = warp.bulk[lane].len() - 1;
        let ended = committed.saturating_sub(left);
        for index in 0..ended {
            if std::mem::replace(&mut warp.bulk[lane][index].is_read, true) {
                continue;
            }
            let group = std::mem::take(&mut warp.bulk[lane][index].stores);
            let tick = warp.bulk[lane][index].tick;
            for store in group {
                if self.delivery == Delivery::Late {
                    self.perform_store(warp, memory, (lane, tick), &store)?;
                }
                let bytes = self.maps.get(&store.map).map_or(0, TensorMap::box_bytes);
                self.shared
                    .finish_reads(warp.user(lane), (&[store.shared], bytes));
            }
        }
        if read {
            let surplus = ended.saturating_sub(KEPT_GROUPS);
            warp.bulk[lane].drain(..surplus);
            return Ok(());
        }
        // What they have written is over, to the one who waited.
        let stores = self.agents.stores(warp.rank, warp.index);
        let ticks = warp.bulk[lane].drain(..ended).map(|group| group.tick);
        if let Some(last) = ticks.max() {
            warp.learn(1 << lane, |knowledge| {
                knowledge.over.learn(stores, last + 1);
            });
        }
        Ok(())
    }

    /// What is still under way when the block ends: its shared memory is given to others, so a store that still reads it
    /// is a fault.
    pub(super) fn finish_stores(&mut self, warps: &mut [Warp], memory: &OpenMemory) {
        for warp in warps {
            self.enter(warp.rank);
            for lane in 0..LANES {
                let groups = std::mem::take(&mut warp.bulk[lane]);
                for group in groups.into_iter().filter(|group| !group.is_read) {
                    for store in group.stores {
                        let message =
                            "the block ends while a copy reads its shared memory".to_owned();
                        let fault = (FindingKind::InFlight, message);
                        self.add_finding(store.line, warp.thread(lane), fault);
                        if self.delivery == Delivery::Late
                            && let Err(fault) =
                                self.perform_store(warp, memory, (lane, group.tick), &store)
                        {
                            self.add_finding(store.line, warp.thread(lane), fault);
                        }
                    }
                }
            }
        }
    }
}

impl Warp {
    /// The tick of a lane's open group.
    fn bulk_tick_of(&mut self, lane: usize) -> u32 {
        let next = &mut self.bulk_tick;
        let Some(open) = self.bulk[lane].last_mut() else {
            return *next;
        };
        if open.tick == 0 {
            open.tick = *next;
            *next += 1;
        }
        open.tick
    }
}

/// Adds the single-precision numbers in memory to those in a buffer.
fn add_to(
    window: &mut Window<'_>,
    user: User<'_>,
    address: u64,
    bytes: &mut [u8],
    faults: &mut Vec<Fault>,
) -> Result<(), Fault> {
    let mut existing = vec![0; bytes.len()];
    window.read(user, address, &mut existing, faults)?;
    for (new, old) in bytes.chunks_exact_mut(4).zip(existing.chunks_exact(4)) {
        let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        new.copy_from_slice(&(number(old) + number(new)).to_le_bytes());
    }
    Ok(())
}
