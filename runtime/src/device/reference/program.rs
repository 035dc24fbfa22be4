//! A bundle made ready to run: each instruction with its definition, each rank with its class.

use std::collections::HashMap;

use raddle_bundle::{Bundle, Function, FunctionKind, Global, Instr, Kernels, Schedule, Value};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{self, Attributes, Attrs, Effects, OPERAND_SEGMENTS, OpDef, segments};
use raddle_dialect::reference::{self, Call, Place, Tensor};
use raddle_dialect::{DType, TensorType};

use crate::RuntimeError;

/// What an instruction asks of the machine.
pub(super) enum Role {
    /// Computes its results from its operands.
    Computes(&'static OpDef),
    /// Reads a global.
    Loads,
    /// Writes a global.
    Stores,
    /// Adds to a global.
    Accumulates,
    /// Needs other ranks.
    Meets(&'static OpDef),
}

/// Where and when an instruction runs.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub rank: usize,
    /// Tells an instruction from the function's others.
    pub position: usize,
    /// Number of the micro-batch since the machine was made.
    pub microbatch: u64,
}

/// A function ready to run.
pub struct LoadedFunction {
    /// The bundle's function.
    pub plain: Function,
    pub(super) roles: Vec<Role>,
    groups: Vec<Vec<&'static str>>,
}

impl LoadedFunction {
    /// Each instruction, with the name of the group that each of its operands belongs to in the op's definition.
    pub fn instrs(&self) -> impl Iterator<Item = (&Instr, &[&'static str])> {
        let groups = self.groups.iter().map(Vec::as_slice);
        self.plain.instrs.iter().zip(groups)
    }
}

/// A class ready to run.
pub struct LoadedClass {
    /// Name.
    pub name: String,
    /// Globals.
    pub globals: Vec<Global>,
    /// Micro-batches in a step.
    pub microbatches: usize,
    /// Functions.
    pub functions: Vec<LoadedFunction>,
    by_name: HashMap<String, usize>,
}

impl LoadedClass {
    /// The class's global of a name.
    pub fn global(&self, name: &str) -> Option<&Global> {
        self.by_name.get(name).map(|&at| &self.globals[at])
    }

    /// The class's function of a kind.
    pub fn function(&self, kind: FunctionKind) -> Option<&LoadedFunction> {
        self.functions.iter().find(|f| f.plain.kind == kind)
    }
}

/// A whole bundle ready to run.
pub struct Program {
    mesh: Mesh,
    classes: Vec<LoadedClass>,
    class_of: Vec<usize>,
    schedule: Option<Schedule>,
    kernels: Kernels,
}

impl Program {
    /// Checks a bundle and resolves its instructions.
    ///
    /// # Errors
    /// If the bundle is broken, a rank belongs to no class or to two, or an op is unknown.
    pub fn load(bundle: &Bundle) -> Result<Self, RuntimeError> {
        bundle.check()?;
        check_dtypes(bundle)?;
        let mesh = Mesh::new(bundle.mesh.axes.clone(), bundle.mesh.sizes.clone())?;
        let definitions = definitions();
        let class_of = (0..mesh.ranks())
            .map(|rank| {
                let coords = mesh.coordinate(rank);
                let holds = |at: &usize| {
                    bundle.classes[*at].ranks.iter().any(|ranks| {
                        ranks.iter().all(|(axis, indices)| {
                            let at = mesh.axis(axis).expect("checked by the bundle");
                            indices.contains(&coords[at])
                        })
                    })
                };
                let found: Vec<_> = (0..bundle.classes.len()).filter(holds).collect();
                match found[..] {
                    [only] => Ok(only),
                    _ => Err(RuntimeError::Classes {
                        rank,
                        count: found.len(),
                    }),
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        let load_function = |class: usize, function: &Function| {
            let rank = class_of.iter().position(|&c| c == class).unwrap_or(0);
            load_function(function, &definitions, rank)
        };
        let classes = bundle.classes.iter().enumerate().map(|(at, class)| {
            let functions = class.functions.iter().map(|f| load_function(at, f));
            Ok(LoadedClass {
                name: class.name.clone(),
                globals: class.globals.clone(),
                microbatches: class.microbatches,
                functions: functions.collect::<Result<_, RuntimeError>>()?,
                by_name: class
                    .globals
                    .iter()
                    .enumerate()
                    .map(|(i, g)| (g.name.clone(), i))
                    .collect(),
            })
        });
        let classes = classes.collect::<Result<_, RuntimeError>>()?;
        Ok(Self {
            mesh,
            classes,
            class_of,
            schedule: bundle.schedule.clone(),
            kernels: bundle.kernels.clone(),
        })
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The order of the jobs of a pipeline, if one was chosen.
    pub fn schedule(&self) -> Option<&Schedule> {
        self.schedule.as_ref()
    }

    /// The kernels that compute some of the instructions.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// The class that a rank belongs to.
    pub fn class_of(&self, rank: usize) -> &LoadedClass {
        &self.classes[self.class_of[rank]]
    }

    /// All classes.
    pub fn classes(&self) -> &[LoadedClass] {
        &self.classes
    }

    /// Evaluates an instruction that needs no other rank.
    pub(super) fn eval(
        &self,
        def: &'static OpDef,
        instr: &Instr,
        operands: &[Tensor],
        at: Moment,
    ) -> Result<Vec<Tensor>, String> {
        let results = instr.results.iter().map(|(_, ty)| tensor_type(ty));
        let results: Vec<_> = results.collect::<Result<_, String>>()?;
        let call = Call {
            operands,
            attrs: &PlainAttrs(instr),
            results: &results,
            place: Some(Place {
                mesh: &self.mesh,
                coordinate: &self.mesh.coordinate(at.rank),
            }),
            stream: (at.rank as u64) << 32 | at.position as u64,
            microbatch: at.microbatch,
        };
        reference::eval(def, &call).map_err(|e| e.to_string())
    }

    /// What the reference semantics say of an instruction that needs no other rank and does not depend on its own.
    ///
    /// # Errors
    /// If the op is unknown, or operands do not fit it.
    pub fn evaluate(&self, instr: &Instr, operands: &[Tensor]) -> Result<Vec<Tensor>, String> {
        let def = ops::definitions().find(|def| def.name == instr.op);
        let def = def.ok_or("the reference device does not know this op")?;
        let moment = Moment {
            rank: 0,
            position: 0,
            microbatch: 0,
        };
        self.eval(def, instr, operands, moment)
    }

    /// The ranks that have to come to an instruction that `rank` has come to, in group order.
    pub(super) fn group(&self, rank: usize, instr: &Instr) -> Result<Vec<usize>, String> {
        let axes = Attrs(&PlainAttrs(instr)).strings("axes");
        let axes = axes.map_err(|e| e.to_string())?;
        let axes = self.mesh.axis_set(&axes).map_err(|e| e.to_string())?;
        Ok(self.mesh.group(rank, &axes))
    }

    /// The rank that a send of `rank` goes to, or that a receive comes from.
    pub(super) fn peer(&self, rank: usize, instr: &Instr) -> Result<usize, String> {
        let Some(Value::Dict(peer)) = instr.attrs.get("peer") else {
            return Err("it names no peer".into());
        };
        let mut coords = self.mesh.coordinate(rank);
        for (axis, index) in peer {
            let (Some(at), Value::Int(index)) = (self.mesh.axis(axis), index) else {
                return Err(format!("its peer has a bad coordinate on axis '{axis}'"));
            };
            coords[at] = usize::try_from(*index)
                .ok()
                .filter(|&i| i < self.mesh.sizes()[at])
                .ok_or(format!("axis '{axis}' has no index {index}"))?;
        }
        Ok(self.mesh.rank(&coords))
    }

    /// What each rank of a group gets from a collective, in group order.
    pub(super) fn combine(
        def: &'static OpDef,
        instr: &Instr,
        inputs: &[Vec<Tensor>],
    ) -> Result<Vec<Vec<Tensor>>, String> {
        reference::combine(def, inputs, &PlainAttrs(instr)).map_err(|e| e.to_string())
    }
}

/// Every dtype of the bundle is one that the ops know.
fn check_dtypes(bundle: &Bundle) -> Result<(), RuntimeError> {
    for class in &bundle.classes {
        let params = class
            .functions
            .iter()
            .flat_map(|f| &f.params)
            .map(|p| &p.ty);
        let mut types = class.globals.iter().map(|g| &g.ty).chain(params);
        if let Some(ty) = types.find(|ty| DType::parse(&ty.dtype).is_none()) {
            return Err(RuntimeError::Dtype {
                class: class.name.clone(),
                dtype: ty.dtype.clone(),
            });
        }
    }
    Ok(())
}

/// A bundle's tensor type as the ops know it.
fn tensor_type(ty: &raddle_bundle::TensorType) -> Result<TensorType, String> {
    let dtype = DType::parse(&ty.dtype).ok_or_else(|| format!("unknown dtype '{}'", ty.dtype))?;
    let shape: Vec<i64> = ty.shape.iter().map(|&extent| extent as i64).collect();
    Ok(TensorType::new(shape, dtype))
}

/// Every known op by name.
fn definitions() -> HashMap<&'static str, &'static OpDef> {
    ops::definitions().map(|def| (def.name, def)).collect()
}

fn load_function(
    function: &Function,
    definitions: &HashMap<&str, &'static OpDef>,
    rank: usize,
) -> Result<LoadedFunction, RuntimeError> {
    let mut loaded = LoadedFunction {
        plain: function.clone(),
        roles: Vec::with_capacity(function.instrs.len()),
        groups: Vec::with_capacity(function.instrs.len()),
    };
    for instr in &function.instrs {
        let refused = |why: String| RuntimeError::Instr {
            rank,
            op: instr.op.clone(),
            location: instr.location.clone(),
            why,
        };
        let &def = definitions
            .get(instr.op.as_str())
            .ok_or_else(|| refused("the reference device does not know this op".into()))?;
        loaded.roles.push(match def.effects {
            Effects::Reads => Role::Loads,
            Effects::Writes => Role::Stores,
            Effects::Accumulates => Role::Accumulates,
            Effects::Communicates => Role::Meets(def),
            Effects::Pure | Effects::Draws | Effects::Opaque => Role::Computes(def),
        });
        let sizes = Attrs(&PlainAttrs(instr)).segments(OPERAND_SEGMENTS);
        let ranges = segments(def.operands, instr.operands.len(), sizes.as_deref())
            .map_err(|e| refused(e.to_string()))?;
        let names = def.operands.iter().zip(ranges);
        loaded
            .groups
            .push(names.flat_map(|(g, range)| range.map(|_| g.name)).collect());
    }
    Ok(loaded)
}

/// An instruction's attributes, as op semantics read them.
pub(in crate::device) struct PlainAttrs<'i>(pub &'i Instr);

impl Attributes for PlainAttrs<'_> {
    fn get(&self, name: &str) -> Option<ops::Value> {
        plain(self.0.attrs.get(name)?)
    }
}

/// A bundle's value as op semantics read it; `None` for one without content.
fn plain(value: &Value) -> Option<ops::Value> {
    Some(match value {
        Value::Unit => return None,
        Value::Bool(v) => ops::Value::Bool(*v),
        Value::Int(v) => ops::Value::Int(*v),
        Value::Float(v) => ops::Value::Float(*v),
        Value::Str(v) => ops::Value::Str(v.clone()),
        Value::Ints(v) => ops::Value::Ints(v.clone()),
        Value::List(v) => ops::Value::List(v.iter().map(plain).collect::<Option<_>>()?),
        Value::Dict(v) => {
            let entry = |(name, value): (&String, &Value)| Some((name.clone(), plain(value)?));
            ops::Value::Dict(v.iter().map(entry).collect::<Option<_>>()?)
        }
    })
}
