//! Random inputs and random state, equal across ranks exactly where the layout says so.
//!
//! A run does not start from what `init` writes, whose zeros and ones hide errors. What a global may hold depends on what
//! reads it: a second moment must be positive, a power of beta lies below one.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

use raddle_bundle::{Global, Instr, Layout, Reg, Source, TensorType, Value};
use raddle_dialect::DType;
use raddle_dialect::mesh::Mesh;
use raddle_dialect::reference::{Tensor, random};

use crate::device::reference::{Program, Wanted};

/// Values that a tensor may hold.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) enum Draw {
    /// Any sign, at most 1; small whole numbers for integers.
    #[default]
    Signed,
    /// Uniform in this interval.
    Within(f64, f64),
    /// Whole numbers below this one.
    Below(usize),
    /// Nothing but zeros: a sum over micro-batches that has not begun.
    Zero,
}

/// By global: what it may hold, judged by the operands it becomes.
pub(crate) fn draws(program: &Program) -> HashMap<&str, Draw> {
    let mut draws = HashMap::new();
    for function in program.classes().iter().flat_map(|c| &c.functions) {
        let mut holds: HashMap<Reg, &str> = HashMap::new();
        for (instr, groups) in function.instrs() {
            if let ("dist.load", Some(Value::Str(name))) = (&*instr.op, instr.attrs.get("global")) {
                holds.insert(instr.results[0].0, name);
            }
            if let ("dist.accumulate", Some(Value::Str(name))) =
                (&*instr.op, instr.attrs.get("global"))
            {
                draws.insert(name.as_str(), Draw::Zero);
            }
            // What only passes a value on keeps its meaning.
            if matches!(&*instr.op, "dist.cast" | "dist.identity" | "dist.reshape")
                && let Some(&name) = holds.get(&instr.operands[0])
            {
                holds.insert(instr.results[0].0, name);
            }
            for (reg, operand) in instr.operands.iter().zip(groups) {
                if let (Some(&name), Some(draw)) = (holds.get(reg), draw_for(&instr.op, operand)) {
                    draws.insert(name, draw);
                }
            }
        }
    }
    draws
}

fn draw_for(op: &str, operand: &str) -> Option<Draw> {
    Some(match operand {
        "moment2" | "inf_norm" | "mean_square" => Draw::Within(0.5, 1.5),
        "moment" if op == "dist.decayed_adagrad" => Draw::Within(0.5, 1.5),
        "current_step" => Draw::Within(0.0, 4.0),
        "nranks" => Draw::Within(1.0, 4.0),
        "beta1_pow" | "beta2_pow" => Draw::Within(0.5, 0.95),
        "lr" => Draw::Within(0.01, 0.1),
        "scale" if op.contains("finite") || op.contains("loss_scaling") => Draw::Within(1.0, 4.0),
        _ => return None,
    })
}

/// By input: how many rows the table or vocabulary has that it counts through.
pub(crate) fn vocabularies(program: &Program) -> HashMap<&str, usize> {
    let mut sizes = HashMap::new();
    for function in program.classes().iter().flat_map(|c| &c.functions) {
        let mut holds: HashMap<Reg, &str> = HashMap::new();
        let mut shapes: HashMap<Reg, &[usize]> = HashMap::new();
        for param in &function.plain.params {
            shapes.insert(param.reg, &param.ty.shape);
            if let Source::Input(name) = &param.source {
                holds.insert(param.reg, name);
            }
        }
        for (instr, groups) in function.instrs() {
            shapes.extend(instr.results.iter().map(|(reg, ty)| (*reg, &ty.shape[..])));
            if MOVES.contains(&&*instr.op)
                && let Some(&name) = instr.operands.first().and_then(|reg| holds.get(reg))
            {
                holds.extend(instr.results.iter().map(|(reg, _)| (*reg, name)));
            }
            let operand = |group: &str| {
                let at = groups.iter().position(|g| *g == group)?;
                instr.operands.get(at)
            };
            let (counted, pieces) = match &*instr.op {
                "dist.embedding" => ("ids", operand("table").and_then(|r| shapes.get(r)?.first())),
                "dist.softmax_cross_entropy" => (
                    "labels",
                    operand("logits").and_then(|r| shapes.get(r)?.last()),
                ),
                _ => continue,
            };
            let name = operand(counted).and_then(|reg| holds.get(reg));
            if let (Some(&name), Some(&extent)) = (name, pieces) {
                let size = sizes.entry(name).or_insert(usize::MAX);
                *size = extent
                    .saturating_mul(ranks_over(program.mesh(), instr))
                    .min(*size);
            }
        }
    }
    sizes
}

/// Ops whose results hold elements of their first operand.
const MOVES: &[&str] = &[
    "dist.cast",
    "dist.identity",
    "dist.reshape",
    "dist.transpose",
    "dist.slice",
    "dist.split",
    "dist.all_gather",
];

/// Number of ranks over an instruction's `axes`.
fn ranks_over(mesh: &Mesh, instr: &Instr) -> usize {
    let Some(Value::List(axes)) = instr.attrs.get("axes") else {
        return 1;
    };
    let size = |axis: &Value| match axis {
        Value::Str(name) => mesh.axis(name).map_or(1, |at| mesh.sizes()[at]),
        _ => 1,
    };
    axes.iter().map(size).product()
}

/// A rank's random value of a global.
pub(crate) fn global(mesh: &Mesh, rank: usize, global: &Global, draw: Draw, seed: u64) -> Tensor {
    let place = place(mesh, rank, &global.layout);
    random(&global.ty, draw, &(seed, "global", &global.name, place))
}

/// The random data that a function takes; `salt` numbers the micro-batches of all steps. What counts through a vocabulary reaches all
/// of it.
pub(crate) fn input(
    program: &Program,
    vocabularies: &HashMap<&str, usize>,
    wanted: &Wanted,
    (seed, salt): (u64, u64),
) -> Option<Tensor> {
    let param = &wanted.function.plain.params[wanted.param];
    let Source::Input(name) = &param.source else {
        return None;
    };
    let place = place(program.mesh(), wanted.rank, &param.layout);
    let key = (seed, "input", name, salt, place);
    let draw = match vocabularies.get(name.as_str()) {
        Some(&size) => Draw::Below(size),
        None => Draw::Signed,
    };
    Some(random(&param.ty, draw, &key))
}

/// The rank's coordinates on the axes over which values of this layout differ.
fn place(mesh: &Mesh, rank: usize, layout: &Layout) -> Vec<usize> {
    let differ: HashSet<&String> = layout
        .dims
        .iter()
        .flatten()
        .chain(&layout.partial)
        .collect();
    let coords = mesh.coordinate(rank);
    mesh.axes()
        .iter()
        .zip(coords)
        .filter(|(axis, _)| differ.contains(axis))
        .map(|(_, coord)| coord)
        .collect()
}

fn random(ty: &TensorType, draw: Draw, key: &impl Hash) -> Tensor {
    let dtype = DType::parse(&ty.dtype).expect("checked when the program was loaded");
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    key.hash(&mut hasher);
    let stream = hasher.finish();
    Tensor::from_fn(ty.shape.clone(), dtype, |at| {
        let unit = random::unit(stream, at as u64);
        match draw {
            Draw::Zero => 0.0,
            _ if dtype == DType::Bool => f64::from(unit < 0.5),
            Draw::Below(size) => (unit * size as f64).floor(),
            _ if !dtype.is_float() => (unit * 4.0).floor(),
            Draw::Signed => 2.0 * unit - 1.0,
            Draw::Within(low, high) => low + (high - low) * unit,
        }
    })
}

/// FNV-1a: the same on every machine and in every release.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
