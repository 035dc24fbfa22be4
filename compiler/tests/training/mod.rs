//! Training programs run on whole tensors: cut into the ranks' pieces, run on the reference device, put together again. So programs
//! for different meshes can be held against each other, and gradients against differences of losses.

// Each test file uses some of this.
#![allow(dead_code)]

use std::collections::BTreeMap;

use raddle_bundle::{Bundle, FunctionKind, GlobalKind, Layout};
use raddle_compiler::bundle::lower;
use raddle_compiler::generate::{Spec, generate};
use raddle_compiler::pass::{ManagerOptions, PassManager, Pipeline, Remarks};
use raddle_dialect::DType;
use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Context, Verified, VerifyOptions, verify};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::reference::{Tensor, random};
use raddle_runtime::device::reference::{Machine, Mode, Program};

/// Whole tensors by name.
pub type Whole = BTreeMap<String, Tensor>;

/// The forward program.
pub fn forward(spec: &Spec) -> Verified {
    let module = generate(&Context::new(), spec).unwrap_or_else(|e| panic!("{spec:?}: {e}"));
    let mut diagnostics = Diagnostics::new();
    verify(module, VerifyOptions::default(), &mut diagnostics).unwrap_or_else(|_| {
        let messages: Vec<_> = diagnostics.iter().map(|d| &d.message).collect();
        panic!("{spec:?}: {messages:#?}")
    })
}

/// Runs a pipeline; gives the module and what the passes said, or why it failed.
pub fn run_passes(
    module: Verified,
    pipeline: &str,
) -> Result<(Verified, Vec<Diagnostic>), Vec<String>> {
    let mut diagnostics = Diagnostics::new();
    let messages = |diagnostics: &Diagnostics| -> Vec<String> {
        diagnostics.iter().map(|d| d.message.clone()).collect()
    };
    let pipeline = format!("builtin.module({pipeline})");
    let Ok(pipeline) = Pipeline::parse(&pipeline, &mut diagnostics) else {
        return Err(messages(&diagnostics));
    };
    let options = ManagerOptions {
        remarks: Remarks::Kept,
        ..ManagerOptions::default()
    };
    match PassManager::new(pipeline, options).run(module, &mut diagnostics) {
        Ok(module) => Ok((module, diagnostics.take())),
        Err(_) => Err(messages(&diagnostics)),
    }
}

/// The bundle of a generated program after a pipeline.
pub fn bundle(spec: &Spec, pipeline: &str) -> Bundle {
    let (module, _) = run_passes(forward(spec), pipeline)
        .unwrap_or_else(|messages| panic!("{spec:?}: {pipeline}: {messages:#?}"));
    let mut diagnostics = Diagnostics::new();
    lower(&module, &mut diagnostics).unwrap_or_else(|| {
        let messages: Vec<_> = diagnostics.iter().map(|d| &d.message).collect();
        panic!("{spec:?}: {messages:#?}")
    })
}

/// A program on the reference device.
pub struct Run<'p> {
    program: &'p Program,
    machine: Machine<'p>,
    mode: Mode,
}

impl<'p> Run<'p> {
    /// Runs `init`, then sets some globals.
    pub fn new(program: &'p Program, whole: &Whole) -> Self {
        Self::in_mode(program, whole, Mode::Exact)
    }

    /// Likewise, in doubles or rounded.
    pub fn in_mode(program: &'p Program, whole: &Whole, mode: Mode) -> Self {
        let mut machine = Machine::new(program, mode);
        machine
            .run(FunctionKind::Init, &[], &mut ())
            .unwrap_or_else(|e| panic!("init: {e}"));
        let mut run = Self {
            program,
            machine,
            mode,
        };
        run.set(whole);
        run
    }

    /// Sets globals on all ranks.
    pub fn set(&mut self, whole: &Whole) {
        let mesh = self.program.mesh();
        for rank in 0..mesh.ranks() {
            for global in &self.program.class_of(rank).globals {
                if let Some(value) = whole.get(&global.name) {
                    let dtype = DType::parse(&global.ty.dtype).expect("a known type");
                    let piece = cut(value, &global.layout, mesh, rank).with_dtype(dtype);
                    let piece = match self.mode {
                        Mode::Exact => piece,
                        Mode::Rounded => piece.rounded(),
                    };
                    self.machine.set_global(rank, &global.name, piece);
                }
            }
        }
    }

    /// Runs a training step on whole inputs, of which micro-batches take their samples (of the dimension that `dp` cuts, or would) in
    /// turn; gives the loss, the mean over all ranks.
    pub fn step(&mut self, inputs: &[Tensor], batch_dims: &[usize]) -> f64 {
        let mesh = self.program.mesh();
        let microbatches = self.program.class_of(0).microbatches;
        let mut losses = Vec::new();
        for microbatch in 0..microbatches {
            let pieces: Vec<Vec<Tensor>> = (0..mesh.ranks())
                .map(|rank| {
                    let function = self.program.class_of(rank).function(FunctionKind::Step);
                    let params = &function.expect("a step").plain.params;
                    let inputs = inputs.iter().zip(batch_dims).zip(params);
                    inputs
                        .map(|((whole, &dim), param)| {
                            let part = window(whole, dim, microbatch, microbatches);
                            cut(&part, &param.layout, mesh, rank)
                        })
                        .collect()
                })
                .collect();
            let returned = self
                .machine
                .run(FunctionKind::Step, &pieces, &mut ())
                .unwrap_or_else(|e| panic!("step: {e}"));
            losses.extend(returned.iter().map(|r| r[0].data[0]));
        }
        let classes = self.program.classes();
        if classes
            .iter()
            .any(|c| c.function(FunctionKind::Optimizer).is_some())
        {
            self.machine
                .run(FunctionKind::Optimizer, &[], &mut ())
                .unwrap_or_else(|e| panic!("optimizer: {e}"));
        }
        losses.iter().sum::<f64>() / losses.len() as f64
    }

    /// A global put together; copies must agree.
    pub fn whole(&self, name: &str) -> Tensor {
        let global = self.program.class_of(0).global(name);
        let layout = &global.unwrap_or_else(|| panic!("no global @{name}")).layout;
        join(self.program.mesh(), layout, |rank| {
            self.machine.globals(rank)[name].clone()
        })
    }

    /// All globals of a kind, put together.
    pub fn globals(&self, kind: GlobalKind) -> Whole {
        let globals = self.program.class_of(0).globals.iter();
        let of_kind = globals.filter(|g| g.kind == kind);
        of_kind
            .map(|g| (g.name.clone(), self.whole(&g.name)))
            .collect()
    }
}

/// Random whole values of all parameters of a program.
pub fn parameters(program: &Program, seed: u64) -> Whole {
    let globals = program.class_of(0).globals.iter().enumerate();
    let parameters = globals.filter(|(_, g)| g.kind == GlobalKind::Parameter);
    parameters
        .map(|(_, g)| {
            let shape = whole_shape(&g.ty.shape, &g.layout, program.mesh());
            let stream = seed
                ^ g.name
                    .bytes()
                    .fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
            let scale = 1.0 / (shape[0] as f64).sqrt();
            let centre = if g.name.ends_with("scale") { 1.0 } else { 0.0 };
            let value = Tensor::from_fn(shape, DType::F32, |i| {
                centre + scale * (2.0 * random::unit(stream, i as u64) - 1.0)
            });
            (g.name.clone(), value)
        })
        .collect()
}

/// Random whole inputs of a program's step, all micro-batches together; integers are below `vocab`.
pub fn inputs(program: &Program, batch_dims: &[usize], vocab: i64, seed: u64) -> Vec<Tensor> {
    let class = program.class_of(0);
    let params = &class
        .function(FunctionKind::Step)
        .expect("a step")
        .plain
        .params;
    let params = params.iter().zip(batch_dims).enumerate();
    params
        .map(|(at, (param, &dim))| {
            let mut shape = whole_shape(&param.ty.shape, &param.layout, program.mesh());
            shape[dim] *= class.microbatches;
            let dtype = DType::parse(&param.ty.dtype).expect("a known type");
            Tensor::from_fn(shape, dtype, |i| {
                let unit = random::unit(seed ^ (at as u64 + 1), i as u64);
                match dtype.is_float() {
                    true => 2.0 * unit - 1.0,
                    false => (unit * vocab as f64).floor(),
                }
            })
        })
        .collect()
}

fn whole_shape(local: &[usize], layout: &Layout, mesh: &Mesh) -> Vec<usize> {
    let size = |axes: &Vec<String>| -> usize {
        axes.iter()
            .map(|a| mesh.sizes()[mesh.axis(a).expect("an axis")])
            .product()
    };
    let dims = layout.dims.iter().map(size).chain(std::iter::repeat(1));
    local
        .iter()
        .zip(dims)
        .map(|(&extent, n)| extent * n)
        .collect()
}

/// Where a rank's piece starts in each dimension, in pieces, and how many pieces there are.
fn place(layout: &Layout, mesh: &Mesh, rank: usize, dim: usize) -> (usize, usize) {
    let coordinate = mesh.coordinate(rank);
    let axes = layout.dims.get(dim).into_iter().flatten();
    axes.fold((0, 1), |(at, n), axis| {
        let axis = mesh.axis(axis).expect("an axis");
        let size = mesh.sizes()[axis];
        (at * size + coordinate[axis], n * size)
    })
}

/// Piece `at` of `n` along a dimension.
fn window(whole: &Tensor, dim: usize, at: usize, n: usize) -> Tensor {
    let mut shape = whole.shape.clone();
    shape[dim] /= n;
    let extent = shape[dim];
    Tensor::from_fn(shape.clone(), whole.dtype, |i| {
        let mut index = raddle_dialect::reference::unravel(i, &shape);
        index[dim] += at * extent;
        whole.data[raddle_dialect::reference::ravel(&index, &whole.shape)]
    })
}

/// A rank's piece of a whole tensor.
pub fn cut(whole: &Tensor, layout: &Layout, mesh: &Mesh, rank: usize) -> Tensor {
    (0..whole.shape.len()).fold(whole.clone(), |piece, dim| {
        let (at, n) = place(layout, mesh, rank, dim);
        window(&piece, dim, at, n)
    })
}

/// The whole tensor of the ranks' pieces. Copies must agree.
fn join(mesh: &Mesh, layout: &Layout, piece: impl Fn(usize) -> Tensor) -> Tensor {
    let first = piece(0);
    let shape = whole_shape(&first.shape, layout, mesh);
    let mut data: Vec<Option<f64>> = vec![None; shape.iter().product()];
    for rank in 0..mesh.ranks() {
        let piece = piece(rank);
        let places: Vec<_> = (0..shape.len())
            .map(|dim| place(layout, mesh, rank, dim).0)
            .collect();
        for (i, &value) in piece.data.iter().enumerate() {
            let mut index = raddle_dialect::reference::unravel(i, &piece.shape);
            for (dim, at) in index.iter_mut().enumerate() {
                *at += places[dim] * piece.shape[dim];
            }
            let slot = &mut data[raddle_dialect::reference::ravel(&index, &shape)];
            if let Some(other) = *slot {
                assert!(
                    (other - value).abs() <= 1e-9 * (1.0 + value.abs()),
                    "copies differ on rank {rank}: {other} and {value}"
                );
            }
            *slot = Some(value);
        }
    }
    let data = data
        .into_iter()
        .map(|v| v.expect("every element has an owner"));
    Tensor::new(shape, first.dtype, data.collect::<Vec<_>>())
}

/// ‖a − b‖ / ‖a‖.
pub fn distance(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.shape, b.shape);
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut a.data.iter().zip(b.data.iter()).map(|(x, y)| x - y));
    let size = norm(&mut a.data.iter().copied());
    if apart == 0.0 { 0.0 } else { apart / size }
}
