//! The bundle: plain, versioned data that the compiler writes and the runtime reads.
//!
//! It holds one program per rank class, as straight lines of instructions on numbered registers. Nothing here depends on
//! the compiler's IR, so a bundle can be written on one machine and played on another.

mod checkpoint;
pub mod kernel;

pub use checkpoint::{CHECKPOINT_VERSION, CheckpointMap, Held, Moved};
pub use kernel::{KernelImage, Kernels};

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

/// The version this crate writes and the only one it reads.
pub const VERSION: u32 = 3;

/// Everything that is needed to run a compiled program on all ranks of a mesh.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The mesh that the program runs on.
    pub mesh: Mesh,
    /// Rank classes: disjoint, and together the whole mesh.
    pub classes: Vec<Class>,
    /// The order of the jobs of a pipeline, if one was chosen.
    pub schedule: Option<Schedule>,
    /// Kernels for a device that runs them.
    pub kernels: Kernels,
}

/// For each index of the pipeline axis, the jobs of a step in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Schedule {
    /// The mesh axis that the pipeline runs along.
    pub axis: String,
    /// By index on that axis.
    pub jobs: Vec<Vec<ScheduledJob>>,
}

/// One job of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScheduledJob {
    /// Which functions: `Backward` stands for both parts where the stage has two.
    pub kind: FunctionKind,
    /// Pipeline stage.
    pub stage: usize,
    /// Micro-batch.
    pub microbatch: usize,
}

/// A mesh of ranks. Rank numbers are row-major in the order of the axes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mesh {
    /// Axis names.
    pub axes: Vec<String>,
    /// Ranks along each axis.
    pub sizes: Vec<usize>,
}

/// Ranks that run the same program.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Class {
    /// The class's symbol.
    pub name: String,
    /// Boxes of ranks: each maps an axis to indices; an axis that is absent stands for all of its indices.
    pub ranks: Vec<BTreeMap<String, Vec<usize>>>,
    /// Micro-batches in a step.
    pub microbatches: usize,
    /// What the class keeps between functions.
    pub globals: Vec<Global>,
    /// Its functions.
    pub functions: Vec<Function>,
}

/// A tensor that outlives functions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Global {
    /// Symbol, unique in the class.
    pub name: String,
    /// Shape on one rank, and dtype.
    pub ty: TensorType,
    /// What it is for.
    pub kind: GlobalKind,
    /// How it is spread over the mesh.
    pub layout: Layout,
    /// The parameter that a state belongs to.
    pub of: Option<String>,
}

/// What a global is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GlobalKind {
    /// Trained.
    Parameter,
    /// An optimizer's memory.
    State,
    /// Anything else, such as a learning rate.
    Buffer,
}

/// Shape on one rank, and dtype by its MLIR name (`f32`, `bf16`, `i64`, `i1`).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TensorType {
    /// Extents.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: String,
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("tensor<")?;
        for extent in &self.shape {
            write!(f, "{extent}x")?;
        }
        write!(f, "{}>", self.dtype)
    }
}

/// Per dimension the axes that shard it, outermost first, and the axes over which the value is a partial sum.
/// Axes that are named nowhere replicate the value.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Layout {
    /// Axes sharding each dimension.
    pub dims: Vec<Vec<String>>,
    /// Axes over which the value is yet to be summed.
    pub partial: Vec<String>,
}

/// A straight-line program.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Symbol, unique in the class.
    pub name: String,
    /// When it runs.
    pub kind: FunctionKind,
    /// Which of the rank's chunks of the pipeline it belongs to; 0 without a pipeline.
    pub chunk: usize,
    /// Pipeline stage of the chunk; 0 without a pipeline.
    pub stage: usize,
    /// Inputs.
    pub params: Vec<Param>,
    /// What it does, in order.
    pub instrs: Vec<Instr>,
    /// What it returns.
    pub returns: Vec<Return>,
    /// Number of registers.
    pub registers: usize,
}

/// When a function runs (`dist.kind`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum FunctionKind {
    /// Once, before training.
    Init,
    /// Once a micro-batch: forward and backward, and the optimizer if there is no function of its own for it.
    Step,
    /// Once a micro-batch.
    Forward,
    /// Once a micro-batch.
    Backward,
    /// Once a micro-batch: the gradients that other stages wait for.
    BackwardB,
    /// Once a micro-batch: the gradients of parameters.
    BackwardW,
    /// Once a step.
    Optimizer,
}

impl FunctionKind {
    /// The kind named by a `dist.kind` attribute.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "init" => Self::Init,
            "step" => Self::Step,
            "forward" => Self::Forward,
            "backward" => Self::Backward,
            "backward_b" => Self::BackwardB,
            "backward_w" => Self::BackwardW,
            "optimizer" => Self::Optimizer,
            _ => return None,
        })
    }

    /// The name in a `dist.kind` attribute.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Step => "step",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::BackwardB => "backward_b",
            Self::BackwardW => "backward_w",
            Self::Optimizer => "optimizer",
        }
    }
}

/// An input of a function.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Param {
    /// Where it is put.
    pub reg: Reg,
    /// Its type.
    pub ty: TensorType,
    /// How the data is spread over the mesh.
    pub layout: Layout,
    /// Where it comes from.
    pub source: Source,
}

/// Where a parameter's value comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Source {
    /// Data from outside, by name: a new one each micro-batch.
    Input(String),
    /// What an earlier function of the same rank and micro-batch returned under this name.
    Value(String),
}

/// A result of a function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Return {
    /// Where it is.
    pub reg: Reg,
    /// Where it goes.
    pub target: Target,
}

/// Where a function's result goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Target {
    /// It is the step's result of this number; 0 is the loss.
    Result(usize),
    /// To later functions of the same rank and micro-batch, under this name.
    Value(String),
}

/// A register of a function.
pub type Reg = usize;

/// One instruction: a `dist` op.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Instr {
    /// Op name, `dist.matmul`.
    pub op: String,
    /// Registers read.
    pub operands: Vec<Reg>,
    /// Registers written, and their types.
    pub results: Vec<(Reg, TensorType)>,
    /// Attributes that the op's meaning depends on.
    pub attrs: BTreeMap<String, Value>,
    /// Where the op came from, for messages.
    pub location: String,
    /// How kernels compute it, by number among the program's plans, if they do.
    pub kernels: Option<usize>,
}

/// A plain attribute value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Value {
    /// Present without a value.
    Unit,
    /// `true` or `false`
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Floating point.
    Float(f64),
    /// Text; a symbol's name.
    Str(String),
    /// Integers.
    Ints(Vec<i64>),
    /// Values.
    List(Vec<Value>),
    /// Named values.
    Dict(BTreeMap<String, Value>),
}

/// What is wrong with a bundle.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// Written by another version.
    #[error("the bundle has version {found}, but this runtime reads version {VERSION}")]
    Version {
        /// The bundle's version.
        found: u32,
    },
    /// Kernels that do not fit together.
    #[error("the bundle's kernels are broken: {what}")]
    Kernels {
        /// What is wrong.
        what: String,
    },
    /// Refers to something that is not there.
    #[error("class '{class}': {what}")]
    Broken {
        /// The class.
        class: String,
        /// What is wrong.
        what: String,
    },
}

impl Bundle {
    /// Checks that registers, globals and ranks exist, so that a player needs not.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), BundleError> {
        if self.version != VERSION {
            return Err(BundleError::Version {
                found: self.version,
            });
        }
        self.check_kernels()?;
        self.classes.iter().try_for_each(|c| self.check_class(c))
    }

    fn check_kernels(&self) -> Result<(), BundleError> {
        let broken = |what: String| Err(BundleError::Kernels { what });
        let images = &self.kernels.images;
        for (at, image) in images.iter().enumerate() {
            let maps = &image.tensor_maps;
            if let Some(map) = maps.iter().find(|m| m.parameter >= image.parameters.len()) {
                return broken(format!("kernel {at} has no pointer {}", map.parameter));
            }
        }
        for (at, plan) in self.kernels.plans.iter().enumerate() {
            for launch in &plan.launches {
                let Some(image) = images.get(launch.kernel) else {
                    return broken(format!("plan {at} launches kernel {}", launch.kernel));
                };
                let fits = launch.arguments.len() == image.parameters.len()
                    && launch.arguments.iter().all(|&b| b < plan.buffers.len());
                if !fits {
                    return broken(format!("plan {at} has other buffers than its kernels take"));
                }
            }
        }
        Ok(())
    }

    fn check_class(&self, class: &Class) -> Result<(), BundleError> {
        let broken = |what: String| {
            Err(BundleError::Broken {
                class: class.name.clone(),
                what,
            })
        };
        for (axis, indices) in class.ranks.iter().flatten() {
            let Some(at) = self.mesh.axes.iter().position(|a| a == axis) else {
                return broken(format!("the mesh has no axis '{axis}'"));
            };
            if let Some(index) = indices.iter().find(|&&i| i >= self.mesh.sizes[at]) {
                return broken(format!("axis '{axis}' has no index {index}"));
            }
        }
        let globals: HashSet<&str> = class.globals.iter().map(|g| g.name.as_str()).collect();
        for function in &class.functions {
            let params = function.params.iter().map(|p| p.reg);
            let written = function
                .instrs
                .iter()
                .flat_map(|i| i.results.iter().map(|r| r.0));
            let read = function
                .instrs
                .iter()
                .flat_map(|i| i.operands.iter().copied());
            let mut all = params
                .chain(written)
                .chain(read)
                .chain(function.returns.iter().map(|r| r.reg));
            if let Some(reg) = all.find(|&r| r >= function.registers) {
                return broken(format!(
                    "function '{}' has no register {reg}",
                    function.name
                ));
            }
            for instr in &function.instrs {
                if let Some(plan) = instr.kernels.filter(|&p| p >= self.kernels.plans.len()) {
                    return broken(format!("there is no plan {plan} of kernels"));
                }
                if let Some(Value::Str(name)) = instr.attrs.get("global")
                    && !globals.contains(name.as_str())
                {
                    return broken(format!("there is no global '{name}'"));
                }
            }
        }
        Ok(())
    }
}
