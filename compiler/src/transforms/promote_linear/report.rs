//! What promotion took away from whom, and how a checkpoint gets over.
//!
//! The report compares a module before the pass with the module after it, so it says what happened, not what was planned:
//! per rank class the parameters, gradients and states that are gone, with their bytes on one rank, and for each such global
//! which ranks still have it.

use std::collections::{BTreeMap, BTreeSet};

use raddle_bundle::{
    CHECKPOINT_VERSION, CheckpointMap, GlobalKind, Held, Mesh as PlainMesh, Moved,
    TensorType as PlainType,
};
use raddle_dialect::TensorType;
use raddle_dialect::ir::{AttrData, Module, OpId, Type};
use raddle_dialect::mesh::{Mesh, RankSet};
use serde::{Deserialize, Serialize};

/// Everything that promotion took away.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromotionReport {
    /// The rank classes after the pass.
    pub classes: Vec<ClassReport>,
    /// How checkpoints are converted.
    pub checkpoint: CheckpointMap,
}

/// A rank class after the pass.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// The class that it is a part of before the pass.
    pub before: String,
    /// Its ranks, as boxes: each maps an axis to indices; an absent axis stands for all of its indices.
    pub ranks: Vec<BTreeMap<String, Vec<usize>>>,
    /// How many ranks these are.
    pub rank_count: usize,
    /// Parameters that it no longer has.
    pub parameters: Vec<Removed>,
    /// Gradients that it no longer computes: what the optimizers of these parameters read.
    pub gradients: Vec<Removed>,
    /// Optimizer state that it no longer has.
    pub states: Vec<Removed>,
    /// Other globals that it no longer has: sums of gradients over micro-batches.
    pub buffers: Vec<Removed>,
    /// Bytes that each of its ranks is rid of.
    pub bytes: Bytes,
}

/// A tensor that ranks no longer have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Removed {
    /// The global; of a gradient, its parameter.
    pub name: String,
    /// Shape on one rank, and dtype.
    pub ty: PlainType,
    /// Size on one rank.
    pub bytes: u64,
}

/// Sizes on one rank.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Bytes {
    /// Of parameters.
    pub parameters: u64,
    /// Of gradients.
    pub gradients: u64,
    /// Of states.
    pub states: u64,
    /// Of other globals.
    pub buffers: u64,
    /// All together.
    pub total: u64,
}

impl PromotionReport {
    /// The report as text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("maps have keys that are text")
    }
}

/// What a report needs to know of a module.
pub struct Snapshot {
    mesh: Option<Mesh>,
    classes: Vec<Class>,
}

struct Class {
    name: String,
    ranks: RankSet,
    globals: BTreeMap<String, Global>,
    /// Types of the gradients that optimizers read, by parameter.
    gradients: BTreeMap<String, Vec<TensorType>>,
}

struct Global {
    kind: GlobalKind,
    ty: TensorType,
    partial: BTreeSet<String>,
    of: Option<String>,
}

impl Snapshot {
    /// Looks at the rank classes of a module.
    pub fn of(module: &Module) -> Self {
        let mut snapshot = Self {
            mesh: None,
            classes: Vec::new(),
        };
        for op in module.members(module.root(), "builtin.module") {
            let Ok(mesh) = Mesh::of(module, op) else {
                continue;
            };
            if let Ok(ranks) = RankSet::from_module(module, op, &mesh) {
                snapshot.classes.push(Class::of(module, op, ranks));
                snapshot.mesh = Some(mesh);
            }
        }
        snapshot
    }

    /// What is gone in `after`; `self` is the module before.
    pub fn report(&self, after: &Self) -> PromotionReport {
        let plain = |mesh: &Mesh| PlainMesh {
            axes: mesh.axes().to_vec(),
            sizes: mesh.sizes().to_vec(),
        };
        let empty = PlainMesh {
            axes: vec![],
            sizes: vec![],
        };
        let mut report = PromotionReport {
            classes: Vec::new(),
            checkpoint: CheckpointMap {
                version: CHECKPOINT_VERSION,
                mesh: self.mesh.as_ref().map_or(empty, plain),
                moved: Vec::new(),
            },
        };
        let Some(mesh) = &self.mesh else {
            return report;
        };
        for class in &self.classes {
            let overlaps = |c: &&Class| class.ranks.overlap(&c.ranks).is_some();
            let parts: Vec<_> = after.classes.iter().filter(overlaps).collect();
            let classes = parts.iter().map(|part| class.lost(part, mesh));
            report.classes.extend(classes);
            report.checkpoint.moved.extend(class.moved(&parts, mesh));
        }
        report
    }
}

impl Class {
    fn of(module: &Module, class: OpId, ranks: RankSet) -> Self {
        let mut found = Self {
            name: module.symbol_name(class).unwrap_or_default().to_owned(),
            ranks,
            globals: BTreeMap::new(),
            gradients: BTreeMap::new(),
        };
        for op in module.walk(class).skip(1) {
            if module.is(op, "dist.global") {
                found.declare(module, op);
            } else if let (Some(param), Some(grad)) = (
                module.operand_in(op, "param"),
                module.operand_in(op, "grad"),
            ) {
                let load = module.defining_op(param);
                let name = load.and_then(|l| module.symbol_attr(l, "global"));
                if let (Some(name), Some(ty)) = (name, tensor(module, module.ty(grad))) {
                    let list = found.gradients.entry(name.to_owned()).or_default();
                    list.push(ty);
                }
            }
        }
        found
    }

    fn declare(&mut self, module: &Module, op: OpId) {
        let cx = module.cx();
        let ty = module.attr(op, "type").and_then(|a| cx.as_type(a));
        let (Some(name), Some(ty)) = (module.symbol_name(op), ty.and_then(|ty| tensor(module, ty)))
        else {
            return;
        };
        let layout = module.attr(op, "layout").map(|a| cx.attr_data(a));
        let partial = match layout {
            Some(AttrData::Layout(layout)) => {
                let axes = layout.partial.iter();
                axes.map(|&axis| cx.str(axis).to_owned()).collect()
            }
            _ => BTreeSet::new(),
        };
        let global = Global {
            kind: match module.str_attr(op, "kind") {
                Some("parameter") => GlobalKind::Parameter,
                Some("state") => GlobalKind::State,
                _ => GlobalKind::Buffer,
            },
            ty,
            partial,
            of: module.symbol_attr(op, "of").map(str::to_owned),
        };
        self.globals.insert(name.to_owned(), global);
    }

    /// What a part of this class no longer has.
    fn lost(&self, part: &Self, mesh: &Mesh) -> ClassReport {
        let mut report = ClassReport {
            name: part.name.clone(),
            before: self.name.clone(),
            ranks: boxes(&part.ranks, mesh),
            rank_count: part.ranks.len(),
            parameters: Vec::new(),
            gradients: Vec::new(),
            states: Vec::new(),
            buffers: Vec::new(),
            bytes: Bytes::default(),
        };
        for (name, global) in &self.globals {
            if part.globals.contains_key(name) {
                continue;
            }
            let removed = removed(name, &global.ty);
            match global.kind {
                GlobalKind::Parameter => {
                    let gradients = self.gradients.get(name).into_iter().flatten();
                    let gradients = gradients.map(|ty| self::removed(name, ty));
                    report.gradients.extend(gradients);
                    report.parameters.push(removed);
                }
                GlobalKind::State => report.states.push(removed),
                GlobalKind::Buffer => report.buffers.push(removed),
            }
        }
        let sum = |list: &[Removed]| list.iter().map(|r| r.bytes).sum::<u64>();
        let mut bytes = Bytes {
            parameters: sum(&report.parameters),
            gradients: sum(&report.gradients),
            states: sum(&report.states),
            buffers: sum(&report.buffers),
            total: 0,
        };
        bytes.total = bytes.parameters + bytes.gradients + bytes.states + bytes.buffers;
        report.bytes = bytes;
        report
    }

    /// The globals that some parts of this class no longer have.
    fn moved(&self, parts: &[&Self], mesh: &Mesh) -> Vec<Moved> {
        let gone = |name: &str| parts.iter().any(|p| !p.globals.contains_key(name));
        // Where a parameter is partial now and was not before, one rank of each group owns it.
        let mut axes_of: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (name, global) in self.globals.iter().filter(|(name, _)| gone(name)) {
            let owned = parts.iter().filter_map(|p| p.globals.get(name));
            let axes: BTreeSet<String> = owned
                .flat_map(|after| after.partial.difference(&global.partial).cloned())
                .collect();
            if !axes.is_empty() {
                axes_of.insert(name, axes);
            }
        }
        let candidates: BTreeSet<BTreeSet<String>> = axes_of.values().cloned().collect();
        let mut moved = Vec::new();
        for (name, global) in self.globals.iter().filter(|(name, _)| gone(name)) {
            // A sum whose shares lay on the ranks was partial before; it lies where a parameter's copies do.
            let like_a_parameter = || {
                let mut all = candidates.iter();
                all.find(|axes| owned_by_first(name, axes, parts, mesh))
            };
            let Some(axes) = axes_of.get(name.as_str()).or_else(like_a_parameter) else {
                continue;
            };
            let shares = axes.iter().any(|axis| global.partial.contains(axis));
            moved.push(Moved {
                global: name.clone(),
                kind: global.kind,
                of: global.of.clone(),
                ty: plain(&global.ty),
                ranks: boxes(&self.ranks, mesh),
                owner: axes.iter().map(|axis| (axis.clone(), 0)).collect(),
                before: if shares { Held::Shares } else { Held::Copies },
            });
        }
        moved
    }
}

/// Whether the parts that have a global are those with index 0 on the axes.
fn owned_by_first(name: &str, axes: &BTreeSet<String>, parts: &[&Class], mesh: &Mesh) -> bool {
    let axes: Vec<usize> = axes.iter().filter_map(|axis| mesh.axis(axis)).collect();
    parts.iter().all(|part| {
        let mut boxes = part.ranks.boxes().iter();
        let first = |b: &Vec<Vec<usize>>| axes.iter().all(|&axis| b[axis] == [0]);
        match part.globals.contains_key(name) {
            true => boxes.all(first),
            false => !boxes.any(first),
        }
    })
}

fn tensor(module: &Module, ty: Type) -> Option<TensorType> {
    TensorType::of(module.cx(), ty).ok()
}

fn plain(ty: &TensorType) -> PlainType {
    let extent = |&d: &i64| usize::try_from(d).unwrap_or_default();
    PlainType {
        shape: ty.shape.iter().map(extent).collect(),
        dtype: ty.dtype.name().to_owned(),
    }
}

fn removed(name: &str, ty: &TensorType) -> Removed {
    let elements = ty.elements().unwrap_or_default();
    Removed {
        name: name.to_owned(),
        ty: plain(ty),
        bytes: u64::try_from(elements).unwrap_or_default() * ty.dtype.bytes() as u64,
    }
}

fn boxes(ranks: &RankSet, mesh: &Mesh) -> Vec<BTreeMap<String, Vec<usize>>> {
    let sides = |b: &Vec<Vec<usize>>| {
        let axes = mesh.axes().iter().zip(mesh.sizes()).zip(b);
        axes.filter(|((_, size), indices)| indices.len() < **size)
            .map(|((axis, _), indices)| (axis.clone(), indices.clone()))
            .collect()
    };
    ranks.boxes().iter().map(sides).collect()
}
