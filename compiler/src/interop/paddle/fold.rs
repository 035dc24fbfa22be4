//! Rank classes: ranks whose programs are equal up to the names of their variables become one class.
//!
//! Each rank's pair of programs is written as a key in which variables are numbered in order of appearance, ring ids are the
//! axes they stand for, and slices have lengths but no starts. Ranks with one key are candidates for a class. A slice's
//! starts must then follow from the rank's coordinates (`start = base + coordinate · length` over some axes); where they do
//! not, the candidates are divided by them. A split of which each rank reads one part is a slice to this end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::Message;
use raddle_dialect::mesh::Mesh;
use rustc_hash::FxBuildHasher;

use super::gradient_merge::Merge;
use super::mapping::{Mapping, Special};
use super::mesh_file::{Rings, group_size, position};
use super::program::{Op, Program, Slot};
use super::transfers::{Pipeline, Transfer};
use super::value::Value;

/// What one rank brought.
#[derive(Clone, Debug)]
pub(super) struct RankProgram {
    pub rank: usize,
    pub main: Program,
    pub startup: Program,
    pub rings: Rings,
    /// The members of every ring.
    pub members: BTreeMap<i64, Vec<i64>>,
    /// What runs after several micro-batches.
    pub merge: Option<Merge>,
    /// Its place in a pipeline.
    pub pipeline: Pipeline,
}

/// Ranks with one program.
#[derive(Debug)]
pub(super) struct Class {
    /// Positions in the list of rank programs; the first stands for all.
    pub members: Vec<usize>,
    /// Per slice of the main program (by op): the axes that shift it, per entry of its `axes`.
    pub main_shifts: Shifts,
    /// The same of the startup program.
    pub startup_shifts: Shifts,
    /// Slices of the main program for which one rank's windows allow several axes, with the possible ones per dimension.
    pub open: Candidates,
    /// Per member, its names where they differ from the first member's.
    pub renames: Vec<BTreeMap<String, String>>,
}

/// Op to the sets of axes that are possible, per sliced dimension; none where the window does not move.
pub(super) type Candidates = HashMap<usize, Vec<Vec<Vec<String>>>, FxBuildHasher>;

/// Op to mesh axes, per sliced dimension.
pub(super) type Shifts = HashMap<usize, Vec<Vec<String>>, FxBuildHasher>;

/// Folds ranks into classes, in order of their first ranks. `everywhere`: the one rank given stands for the whole mesh.
pub(super) fn fold(ranks: &[RankProgram], mesh: &Mesh, everywhere: bool) -> Vec<Class> {
    let mut buckets: HashMap<Vec<u8>, usize, FxBuildHasher> = HashMap::default();
    let mut groups: Vec<(Vec<usize>, Vec<Vec<String>>)> = Vec::new();
    for (index, rank) in ranks.iter().enumerate() {
        let (key, names) = Key::of(rank);
        let bucket = *buckets.entry(key).or_insert(groups.len());
        if bucket == groups.len() {
            groups.push(Default::default());
        }
        groups[bucket].0.push(index);
        groups[bucket].1.push(names);
    }
    let mut classes = Vec::new();
    for (members, names) in groups {
        let names: HashMap<usize, Vec<String>> = members.iter().copied().zip(names).collect();
        let mut open = vec![members];
        while let Some(members) = open.pop() {
            match shifts(ranks, &members, mesh, everywhere) {
                Ok((main_shifts, startup_shifts)) => {
                    let first = &names[&members[0]];
                    let renames = members.iter().map(|m| renames(first, &names[m])).collect();
                    classes.push(Class {
                        members,
                        main_shifts,
                        startup_shifts,
                        open: match everywhere {
                            true => candidates(&ranks[0], mesh),
                            false => Candidates::default(),
                        },
                        renames,
                    });
                }
                Err(parts) => open.extend(parts),
            }
        }
    }
    classes.sort_by_key(|class| class.members[0]);
    classes
}

fn renames(first: &[String], own: &[String]) -> BTreeMap<String, String> {
    first
        .iter()
        .zip(own)
        .filter(|(a, b)| a != b)
        .map(|(a, b)| (a.clone(), b.clone()))
        .collect()
}

/// The shifts of all slices, or the members divided by the starts of a slice that follows no rule.
fn shifts(
    ranks: &[RankProgram],
    members: &[usize],
    mesh: &Mesh,
    everywhere: bool,
) -> Result<(Shifts, Shifts), Vec<Vec<usize>>> {
    let of = |program: for<'a> fn(&'a RankProgram) -> &'a Program| {
        let mut found = Shifts::default();
        let first = program(&ranks[members[0]]);
        for (at, op) in first.ops.iter().enumerate() {
            let Some(window) = window(first, op) else {
                continue;
            };
            let starts: Vec<(usize, Vec<i64>)> = members
                .iter()
                .filter_map(|&m| {
                    let program = program(&ranks[m]);
                    Some((m, self::window(program, &program.ops[at])?.starts))
                })
                .collect();
            let mut axes = Vec::new();
            for (i, &size) in window.sizes.iter().enumerate() {
                let here: Vec<_> = starts
                    .iter()
                    .map(|(m, starts)| (ranks[*m].rank, starts[i]))
                    .collect();
                let shift = if everywhere && op.kind == "split" {
                    // One rank's program does not say that the others read other parts.
                    Some(Vec::new())
                } else if everywhere {
                    alone(mesh, here[0], size, window.extents[i])
                } else {
                    together(mesh, &here, size)
                };
                match shift {
                    Some(shift) => axes.push(shift),
                    None => {
                        let mut parts: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
                        for (m, starts) in &starts {
                            parts.entry(starts[i]).or_default().push(*m);
                        }
                        return Err(parts.into_values().collect::<Vec<_>>());
                    }
                }
            }
            if axes.iter().any(|a| !a.is_empty()) {
                found.insert(at, axes);
            }
        }
        Ok(found)
    };
    Ok((of(|r| &r.main)?, of(|r| &r.startup)?))
}

/// The fewest axes over which the starts grow by `size` per coordinate.
fn together(mesh: &Mesh, starts: &[(usize, i64)], size: i64) -> Option<Vec<String>> {
    let fits = |axes: &[String]| {
        let base = |&(rank, start): &(usize, i64)| start - position(mesh, rank, axes) as i64 * size;
        let first = base(&starts[0]);
        first >= 0 && starts.iter().all(|s| base(s) == first)
    };
    subsets(mesh.axes()).into_iter().find(|axes| fits(axes))
}

/// For a program that every rank runs, the only axes over which the windows cover the dimension and this rank's is the one
/// it has; no axes if there are several such or none.
fn alone(mesh: &Mesh, place: (usize, i64), size: i64, extent: i64) -> Option<Vec<String>> {
    match &fitting(mesh, place, size, extent)[..] {
        [only] => Some(only.clone()),
        _ => Some(Vec::new()),
    }
}

/// All axes over which windows of this size cover the dimension and this rank's starts where it does.
fn fitting(mesh: &Mesh, (rank, start): (usize, i64), size: i64, extent: i64) -> Vec<Vec<String>> {
    let mut sets = subsets(mesh.axes());
    sets.retain(|axes| {
        let pieces = group_size(mesh, axes) as i64;
        let needed = axes.iter().all(|a| group_size(mesh, &[a]) > 1);
        needed
            && pieces > 1
            && pieces * size == extent
            && position(mesh, rank, axes) as i64 * size == start
    });
    sets
}

/// The slices that [`alone`] leaves open.
fn candidates(rank: &RankProgram, mesh: &Mesh) -> Candidates {
    let mut found = Candidates::default();
    for (at, op) in rank.main.ops.iter().enumerate() {
        let Some(window) = window(&rank.main, op).filter(|_| op.kind != "split") else {
            continue;
        };
        let sets: Vec<_> = (0..window.sizes.len())
            .map(|i| {
                let place = (rank.rank, window.starts[i]);
                fitting(mesh, place, window.sizes[i], window.extents[i])
            })
            .collect();
        if sets.iter().any(|s| s.len() > 1) {
            found.insert(at, sets);
        }
    }
    found
}

/// Sets of axes in mesh order, small ones first. Beyond a handful of axes only sets of up to two are tried.
fn subsets(axes: &[String]) -> Vec<Vec<String>> {
    let largest = if axes.len() <= 6 { axes.len() } else { 2 };
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..largest {
        let until = sets.len();
        for at in from..until {
            let next = sets[at].last().map_or(0, |&a| a + 1);
            for axis in next..axes.len() {
                let mut set = sets[at].clone();
                set.push(axis);
                sets.push(set);
            }
        }
        from = until;
    }
    sets.into_iter()
        .map(|set| set.into_iter().map(|a| axes[a].clone()).collect())
        .collect()
}

/// The windows of a slice whose bounds are written plainly, so that they can be computed back.
struct Window {
    starts: Vec<i64>,
    sizes: Vec<i64>,
    extents: Vec<i64>,
}

fn window(program: &Program, op: &Op) -> Option<Window> {
    match Mapping::of_paddle(&op.kind)?.special {
        Special::Slice => {}
        Special::Split => {
            let part = part(program, op)?;
            return Some(Window {
                starts: vec![part.index as i64 * part.size],
                sizes: vec![part.size],
                extents: vec![part.size * part.count as i64],
            });
        }
        _ => return None,
    }
    let ints = |name| match op.attr(name)? {
        Value::Ints(v) => Some(v.iter().map(|&i| i64::from(i)).collect::<Vec<_>>()),
        _ => None,
    };
    let (dims, starts, ends) = (ints("axes")?, ints("starts")?, ints("ends")?);
    let input = program.var(op.input("Input").first()?)?;
    let shape = &input.desc.r#type.lod_tensor.as_ref()?.tensor.dims;
    let extents = dims
        .iter()
        .map(|&d| shape.get(usize::try_from(d).ok()?).copied())
        .collect::<Option<Vec<_>>>()?;
    let plain = starts.len() == dims.len()
        && ends.len() == dims.len()
        && (0..dims.len()).all(|i| 0 <= starts[i] && starts[i] < ends[i] && ends[i] <= extents[i]);
    plain.then(|| Window {
        sizes: starts.iter().zip(&ends).map(|(s, e)| e - s).collect(),
        starts,
        extents,
    })
}

/// The only part of a split that is read.
pub(super) struct Part {
    /// Which part.
    pub index: usize,
    /// Of how many.
    pub count: usize,
    /// The dimension that is cut.
    pub dim: i64,
    /// The part's extent along it.
    pub size: i64,
}

/// The only part of a split that is read, if there is one and the parts are equal and written plainly.
pub(super) fn part(program: &Program, op: &Op) -> Option<Part> {
    let outputs = op.output("Out");
    let mut read = (0..outputs.len()).filter(|&i| program.reads(&outputs[i]));
    let (Some(index), None) = (read.next(), read.next()) else {
        return None;
    };
    let persists = |name: &String| program.var(name)?.desc.persistable;
    let distinct: BTreeSet<_> = outputs.iter().collect();
    if distinct.len() != outputs.len() || outputs.iter().any(|o| persists(o) == Some(true)) {
        return None;
    }
    let dim = op.attr("axis")?.as_i64()?;
    let sections = op.attr("sections")?.as_i64s()?;
    let count = outputs.len();
    let extent = |name: &String| {
        let desc = &program.var(name)?.desc.r#type;
        let dims = &desc.lod_tensor.as_ref()?.tensor.dims;
        dims.get(usize::try_from(dim).ok()?).copied()
    };
    let size = extent(&outputs[index])?;
    let whole = extent(op.input("X").first()?)?;
    let said = op.attr("num")?.as_i64()?;
    let plain = count > 1
        && size > 0
        && size.checked_mul(count as i64) == Some(whole)
        && sections.is_empty()
        && said == count as i64;
    plain.then_some(Part {
        index,
        count,
        dim,
        size,
    })
}

/// A rank's programs with everything taken out that may differ within a class.
struct Key<'a> {
    rank: &'a RankProgram,
    bytes: Vec<u8>,
    numbers: HashMap<&'a str, u32, FxBuildHasher>,
    names: Vec<String>,
}

impl<'a> Key<'a> {
    /// The key, and the variables in the order in which they are numbered.
    fn of(rank: &'a RankProgram) -> (Vec<u8>, Vec<String>) {
        let mut key = Self {
            rank,
            bytes: Vec::new(),
            numbers: HashMap::default(),
            names: Vec::new(),
        };
        key.program(&rank.startup, None);
        key.program(&rank.main, Some(&rank.pipeline));
        if let Some(merge) = &rank.merge {
            key.text(&merge.microbatches.to_le_bytes());
            key.program(&merge.optimizer, None);
        }
        (key.bytes, key.names)
    }

    fn program(&mut self, program: &'a Program, pipeline: Option<&Pipeline>) {
        let header = &program.header;
        self.text(format!("{:?}", header.version).as_bytes());
        let versions = header.op_versions.as_ref();
        self.text(&versions.map_or_else(Vec::new, |v| v.encode_to_vec()));
        self.text(format!("{:?}", header.forward_block).as_bytes());
        for (at, op) in program.ops.iter().enumerate() {
            let transfer = pipeline.and_then(|p| p.transfers.get(&at));
            self.op(program, op, transfer);
        }
        for at in 0..self.names.len() {
            let var = program.var(&self.names[at]).map(|var| {
                let mut desc = var.desc.clone();
                desc.name.clear();
                desc.encode_to_vec()
            });
            self.text(&var.unwrap_or_default());
        }
    }

    fn op(&mut self, program: &Program, op: &'a Op, transfer: Option<&Transfer>) {
        self.text(op.kind.as_bytes());
        self.text(format!("{:?}", op.is_target).as_bytes());
        self.slots(&op.inputs, 0);
        // The part that is read comes first, whichever it is.
        let first = match Mapping::of_paddle(&op.kind).map(|m| m.special) {
            Some(Special::Split) => part(program, op).map_or(0, |part| part.index),
            _ => 0,
        };
        self.slots(&op.outputs, first);
        let window = window(program, op);
        if let Some(transfer) = transfer {
            self.text(format!("{transfer:?}").as_bytes());
        }
        for (name, value) in &op.attrs {
            if transfer.is_some() && matches!(name.as_str(), "ring_id" | "peer") {
                continue;
            }
            self.text(name.as_bytes());
            match (name.as_str(), value) {
                ("ring_id", value) => self.ring(value),
                ("op_role_var", Value::Strings(vars)) => {
                    for var in vars {
                        let known = std::str::from_utf8(var)
                            .ok()
                            .and_then(|v| self.numbers.get(v).copied());
                        match known {
                            Some(number) => self.text(&number.to_le_bytes()),
                            None => self.text(var),
                        }
                    }
                }
                ("starts" | "ends", _) if window.is_some() => {
                    for size in window.iter().flat_map(|w| &w.sizes) {
                        self.bytes.extend(size.to_le_bytes());
                    }
                }
                _ => self.text(&value.to_proto("").encode_to_vec()),
            }
        }
        self.bytes.push(0xff);
    }

    fn ring(&mut self, value: &Value) {
        let axes = value.as_i64().and_then(|id| self.rank.rings.axes.get(&id));
        match axes {
            Some(axes) => self.text(axes.join("\0").as_bytes()),
            None => self.text(&value.to_proto("").encode_to_vec()),
        }
    }

    fn slots(&mut self, slots: &'a [Slot], first: usize) {
        self.bytes.extend((slots.len() as u32).to_le_bytes());
        for slot in slots {
            self.text(slot.name.as_bytes());
            self.bytes.extend((slot.args.len() as u32).to_le_bytes());
            let (before, from) = slot.args.split_at(first.min(slot.args.len()));
            let (read, after) = from.split_at(from.len().min(1));
            for arg in read.iter().chain(before).chain(after) {
                let next = self.names.len() as u32;
                let number = *self.numbers.entry(arg).or_insert(next);
                if number == next {
                    self.names.push(arg.clone());
                }
                self.bytes.extend(number.to_le_bytes());
            }
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        self.bytes.extend((bytes.len() as u32).to_le_bytes());
        self.bytes.extend(bytes);
    }
}
