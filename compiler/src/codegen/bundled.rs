//! Kernels into a bundle: what its linear layers need, each kernel once, and for each layer which kernels run on which memory.
//!
//! ```text
//! Bundle ──▶ BundleKernels::of ──▶ descriptions ──▶ emitted, by whatever target ──▶ BundleKernels::attach ──▶ Bundle
//! ```

use std::collections::HashMap;

use raddle_bundle::kernel::{Access, Element, Inputs, InstrBuffer, InstrLaunch, InstrPlan, Start};
use raddle_bundle::{Bundle, Class, Function, FunctionKind, Instr, KernelImage, Kernels, Value};
use raddle_dialect::ops::{self, Attributes};
use raddle_dialect::{DType, TensorType, ops::OpDef};

use super::description::{ElementType, KernelDescription};
use super::error::CodegenError;
use super::layer::{self, LayerPlan};
use super::math::Math;
use super::nvptx::Parameters;

/// The kernels that a bundle's instructions need.
#[derive(Debug)]
pub struct BundleKernels {
    math: Math,
    descriptions: Vec<KernelDescription>,
    plans: Vec<LayerPlan>,
    /// Class, function, instruction and plan.
    assigned: Vec<[usize; 4]>,
    /// Layers that no kernel computes.
    refused: usize,
}

/// What kernels do in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelWork {
    /// Instructions that kernels compute, as often as they are played.
    pub instructions: u128,
    /// Multiplications of 16-bit elements, which matrix instructions do.
    pub matrix_products: u128,
    /// Multiplications of single-precision elements.
    pub scalar_products: u128,
}

/// A kernel that was emitted from a description.
#[derive(Clone, Debug)]
pub struct BuiltKernel {
    /// What its pointers are.
    pub parameters: Parameters,
    /// The kernel.
    pub image: KernelImage,
}

impl BundleKernels {
    /// Plans every linear layer of a bundle; products of single-precision elements are computed as `math` says.
    pub fn of(bundle: &Bundle, math: Math) -> Self {
        let mut kernels = Self {
            math,
            descriptions: Vec::new(),
            plans: Vec::new(),
            assigned: Vec::new(),
            refused: 0,
        };
        let definitions: HashMap<&str, &'static OpDef> = ops::definitions()
            .filter(|def| layer::is_layer(def))
            .map(|def| (def.name, def))
            .collect();
        let mut known = HashMap::new();
        for (class_at, class) in bundle.classes.iter().enumerate() {
            for (function_at, function) in class.functions.iter().enumerate() {
                let types = Registers::of(function);
                for (at, instr) in function.instrs.iter().enumerate() {
                    let Some(&def) = definitions.get(instr.op.as_str()) else {
                        continue;
                    };
                    let key = format!("{:?}", (def.name, types.operands(instr), &instr.attrs))
                        + &format!(
                            "{:?}",
                            instr.results.iter().map(|r| &r.1).collect::<Vec<_>>()
                        );
                    let plan = *known
                        .entry(key)
                        .or_insert_with(|| kernels.plan(def, &types, instr));
                    match plan {
                        Some(plan) => {
                            kernels.assigned.push([class_at, function_at, at, plan]);
                        }
                        None => kernels.refused += 1,
                    }
                }
            }
        }
        let mut seen = HashMap::new();
        for launch in kernels.plans.iter().flat_map(|plan| &plan.launches) {
            seen.entry(launch.kernel).or_insert_with(|| {
                kernels.descriptions.push(launch.kernel);
            });
        }
        kernels
    }

    /// Each kernel once, in the order in which [`BundleKernels::attach`] wants them.
    pub fn descriptions(&self) -> &[KernelDescription] {
        &self.descriptions
    }

    /// How many layers no kernel computes.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// How many layers kernels compute.
    pub fn layers(&self) -> usize {
        self.assigned.len()
    }

    /// What kernels do in a step, on all ranks together.
    pub fn work(&self, bundle: &Bundle) -> KernelWork {
        let mut work = KernelWork::default();
        for &[class, function, _, plan] in &self.assigned {
            let class = &bundle.classes[class];
            let times = match class.functions[function].kind {
                FunctionKind::Init => 0,
                FunctionKind::Optimizer => 1,
                _ => class.microbatches as u128,
            };
            let times = times.saturating_mul(ranks(bundle, class));
            work.instructions = work.instructions.saturating_add(times);
            for launch in &self.plans[plan].launches {
                let products = times.saturating_mul(launch.kernel.flops() / 2);
                let sum = match launch.kernel.element {
                    ElementType::F32 => &mut work.scalar_products,
                    ElementType::Bf16 | ElementType::F16 => &mut work.matrix_products,
                };
                *sum = sum.saturating_add(products);
            }
        }
        work
    }

    /// Puts the kernels, one for each description, into the bundle, and names in each instruction what computes it.
    ///
    /// # Errors
    /// [`CodegenError::InvalidDescription`] if a kernel takes a pointer that its layer has nothing for.
    pub fn attach(&self, bundle: &mut Bundle, built: Vec<BuiltKernel>) -> Result<(), CodegenError> {
        let numbers: HashMap<_, _> = self.descriptions.iter().zip(0..).collect();
        let mut plans = Vec::new();
        for plan in &self.plans {
            let buffers = plan.buffers.iter().map(|buffer| InstrBuffer {
                element: buffer.element,
                bytes: buffer.elements * u64::from(buffer.element.bytes()),
                start: buffer.start,
                result: buffer.result,
            });
            let mut planned = InstrPlan {
                buffers: buffers.collect(),
                launches: Vec::new(),
                inputs: match plan.math {
                    Math::Tf32 => Inputs::Tf32,
                    Math::Full | Math::ThreeTf32 => Inputs::Whole,
                },
            };
            for launch in &plan.launches {
                let kernel: usize = numbers[&launch.kernel];
                let mut arguments = Vec::new();
                let pointers = &built[kernel].image.parameters;
                for (parameter, pointer) in built[kernel].parameters.as_slice().iter().zip(pointers)
                {
                    let mut given = launch.arguments.iter();
                    let start = match pointer.access {
                        Access::Scratch => Start::Nothing,
                        Access::ZeroedScratch => Start::Zeros,
                        _ => match given.find(|(named, _)| named == parameter) {
                            Some(&(_, buffer)) => {
                                arguments.push(buffer);
                                continue;
                            }
                            None => {
                                let what =
                                    format!("{} has no {}", launch.kernel.entry(), pointer.name);
                                return Err(CodegenError::InvalidDescription(what));
                            }
                        },
                    };
                    arguments.push(planned.buffers.len());
                    planned.buffers.push(InstrBuffer {
                        element: Element::F32,
                        bytes: pointer.bytes,
                        start,
                        result: None,
                    });
                }
                planned.launches.push(InstrLaunch { kernel, arguments });
            }
            plans.push(planned);
        }
        for &[class, function, at, plan] in &self.assigned {
            bundle.classes[class].functions[function].instrs[at].kernels = Some(plan);
        }
        bundle.kernels = Kernels {
            images: built.into_iter().map(|kernel| kernel.image).collect(),
            plans,
        };
        Ok(())
    }

    fn plan(&mut self, def: &OpDef, types: &Registers, instr: &Instr) -> Option<usize> {
        let operands = types.operands(instr)?;
        let results = instr.results.iter().map(|(_, ty)| tensor_type(ty));
        let results: Vec<_> = results.collect::<Option<_>>()?;
        let plan = layer::plan(def, &operands, &results, &InstrAttributes(instr), self.math)?;
        self.plans.push(plan.ok()?);
        Some(self.plans.len() - 1)
    }
}

/// The type of each register of a function.
struct Registers(Vec<Option<TensorType>>);

impl Registers {
    fn of(function: &Function) -> Self {
        let mut types = vec![None; function.registers];
        for param in &function.params {
            types[param.reg] = tensor_type(&param.ty);
        }
        for (reg, ty) in function.instrs.iter().flat_map(|instr| &instr.results) {
            types[*reg] = tensor_type(ty);
        }
        Self(types)
    }

    fn operands(&self, instr: &Instr) -> Option<Vec<TensorType>> {
        let operands = instr.operands.iter();
        operands.map(|&reg| self.0[reg].clone()).collect()
    }
}

fn tensor_type(ty: &raddle_bundle::TensorType) -> Option<TensorType> {
    let shape: Vec<i64> = ty.shape.iter().map(|&extent| extent as i64).collect();
    Some(TensorType::new(shape, DType::parse(&ty.dtype)?))
}

/// The attributes of an instruction, as far as linear layers have them.
struct InstrAttributes<'i>(&'i Instr);

impl Attributes for InstrAttributes<'_> {
    fn get(&self, name: &str) -> Option<ops::Value> {
        match self.0.attrs.get(name)? {
            Value::Bool(value) => Some(ops::Value::Bool(*value)),
            Value::Str(value) => Some(ops::Value::Str(value.clone())),
            Value::Ints(values) => Some(ops::Value::Ints(values.clone())),
            _ => None,
        }
    }
}

/// How many ranks belong to a class.
fn ranks(bundle: &Bundle, class: &Class) -> u128 {
    let axes = || bundle.mesh.axes.iter().zip(&bundle.mesh.sizes);
    let boxes = class.ranks.iter().map(|indices| {
        let along = |(axis, &size): (&String, &usize)| indices.get(axis).map_or(size, Vec::len);
        axes()
            .map(along)
            .map(|count| count as u128)
            .product::<u128>()
    });
    boxes.sum()
}
