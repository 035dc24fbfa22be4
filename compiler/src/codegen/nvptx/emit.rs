//! The whole way from a description to PTX, and the part of it that every kernel shares: declaring the entry point.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::types::{AnyType, BasicMetadataTypeEnum};
use inkwell::values::FunctionValue;

use super::persistent;
use super::planned::Planned;
use super::ptx::{Parameter, Parameters, Plan, Ptx, check_externals};
use super::sm80;
use super::sm90;
use super::sm100;
use super::target::Target;
use super::tensor_map::TensorMap;
use crate::codegen::depth_shares::Wish;
use crate::codegen::description::KernelDescription;
use crate::codegen::error::CodegenError;
use crate::codegen::llvm::{Emitter, Machine, Optimised, Space};

/// LLVM's number for the calling convention of PTX entry points.
const PTX_KERNEL: u32 = 71;

/// Bytes of a tensor map, and of the alignment of one (CUDA driver API, `CUtensorMap`).
const TENSOR_MAP_BYTES: u32 = 128;
const TENSOR_MAP_ALIGNMENT: u64 = 64;

/// A kernel with the LLVM IR that it was written from.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The kernel.
    pub ptx: Ptx,
    /// The IR after LLVM's passes.
    pub ir: String,
}

/// Emits one kernel.
///
/// # Errors
/// What the description, the tile schedule or LLVM refuse; see [`CodegenError`].
pub fn emit(kernel: &KernelDescription, target: Target) -> Result<Ptx, CodegenError> {
    emit_planned(Planned::of(kernel, target, Wish::default())?)
}

/// Emits one kernel, with a tile of a given size and a depth in so many shares if that is wished for, and keeps its IR.
///
/// # Errors
/// As [`emit`]; also if there is no tile of that size, or the depth has fewer stages than shares.
pub fn emit_tuned(
    kernel: &KernelDescription,
    target: Target,
    wish: impl Into<Wish>,
) -> Result<Emitted, CodegenError> {
    let planned = Planned::of(kernel, target, wish.into())?;
    let (ptx, ir) = compile(planned, |optimised| optimised.ir())?;
    Ok(Emitted { ptx, ir })
}

/// Emits a kernel that is planned.
///
/// # Errors
/// What LLVM refuses.
pub fn emit_planned(planned: Planned) -> Result<Ptx, CodegenError> {
    Ok(compile(planned, |_| ())?.0)
}

/// The whole way through LLVM, with a look at the module after its passes.
fn compile<T>(
    planned: Planned,
    look: impl FnOnce(&Optimised<'_, '_>) -> T,
) -> Result<(Ptx, T), CodegenError> {
    let machine = machine_for(planned.target)?;
    let context = Context::create();
    let optimised = machine.optimise(write(&context, &machine, &planned))?;
    let text = optimised.assembly()?;
    check_externals(&text)?;
    Ok((planned.with_text(text), look(&optimised)))
}

fn machine_for(target: Target) -> Result<Machine, CodegenError> {
    let features = format!("+ptx{}{}", target.ptx().major, target.ptx().minor);
    Machine::nvptx(target.architecture().name(), &features)
}

/// Writes a kernel as a module of LLVM IR, which nothing has verified yet.
fn write<'c>(context: &'c Context, machine: &Machine, planned: &Planned) -> Module<'c> {
    let entry = planned.kernel.entry();
    let parameters = &planned.parameters;
    let tensor_maps = &planned.tensor_maps;
    let module = context.create_module(&entry);
    machine.prepare(&module);
    let pointer = context.ptr_type(inkwell::AddressSpace::from(Space::Global as u16));
    let map = context.ptr_type(inkwell::AddressSpace::default());
    let mut types = vec![pointer.into(); parameters.as_slice().len()];
    types.extend(vec![BasicMetadataTypeEnum::from(map); tensor_maps.len()]);
    let emitter = Emitter::start(context, module, &entry, &types);
    declare(&emitter, parameters, &planned.plan);
    declare_maps(&emitter, parameters, tensor_maps);
    match (&planned.plan, &planned.contraction) {
        (Plan::Product(schedule), Some(product)) => {
            sm80::emit_product(&emitter, product, schedule, parameters);
        }
        (Plan::Warpgroups(schedule), Some(product)) => {
            let kernel = persistent::Kernel {
                contraction: product,
                schedule,
                parameters,
                maps: tensor_maps,
            };
            sm90::emit_product(&emitter, &kernel);
        }
        (Plan::TensorMemory(schedule), Some(product)) => {
            let kernel = persistent::Kernel {
                contraction: product,
                schedule: &schedule.tile,
                parameters,
                maps: tensor_maps,
            };
            sm100::emit_product(&emitter, &kernel, schedule);
        }
        (Plan::ColumnSum(schedule), _) => {
            sm80::emit_column_sum(&emitter, schedule, parameters);
        }
        (Plan::Product(_) | Plan::Warpgroups(_) | Plan::TensorMemory(_), None) => {
            unreachable!("a product's plan is made from a product")
        }
    }
    emitter.finish()
}

/// Makes the function an entry point, bounds its threads and registers, and says what its pointers promise: no two
/// overlap, and what is only read stays as it is. Nothing is promised of what blocks hand each other: a block must not
/// take what it wrote there for what is there.
fn declare(e: &Emitter<'_>, parameters: &Parameters, plan: &Plan) {
    let function = e.function();
    function.set_call_conventions(PTX_KERNEL);
    for (name, value) in [
        ("nvvm.reqntid", plan.launch().threads),
        ("nvvm.minctasm", plan.resident()),
    ] {
        let bound = e
            .context()
            .create_string_attribute(name, &value.to_string());
        function.add_attribute(AttributeLoc::Function, bound);
    }
    for (index, parameter) in parameters.as_slice().iter().enumerate() {
        let location = AttributeLoc::Param(index as u32);
        if !matches!(parameter, Parameter::Workspace | Parameter::Counters) {
            add_flag(e, function, location, "noalias");
            if !parameter.is_written() {
                add_flag(e, function, location, "readonly");
            }
        }
        let align = Attribute::get_named_enum_kind_id("align");
        function.add_attribute(location, e.context().create_enum_attribute(align, 16));
        e.parameter(index as u32)
            .into_pointer_value()
            .set_name(parameter.name());
    }
}

/// Makes the parameters after the pointers tensor maps: passed by value, and left where the launch put them.
fn declare_maps(e: &Emitter<'_>, parameters: &Parameters, maps: &[TensorMap]) {
    let function = e.function();
    let context = e.context();
    let bytes = context.i8_type().array_type(TENSOR_MAP_BYTES);
    for (index, map) in maps.iter().enumerate() {
        let index = (parameters.as_slice().len() + index) as u32;
        let location = AttributeLoc::Param(index);
        let by_value = Attribute::get_named_enum_kind_id("byval");
        let by_value = context.create_type_attribute(by_value, bytes.as_any_type_enum());
        let align = Attribute::get_named_enum_kind_id("align");
        let constant = context.create_string_attribute("nvvm.grid_constant", "");
        for attribute in [
            by_value,
            context.create_enum_attribute(align, TENSOR_MAP_ALIGNMENT),
            constant,
        ] {
            function.add_attribute(location, attribute);
        }
        let name = format!("{}_map", map.parameter.name());
        e.parameter(index).into_pointer_value().set_name(&name);
    }
}

fn add_flag(e: &Emitter<'_>, function: FunctionValue<'_>, location: AttributeLoc, name: &str) {
    let kind = Attribute::get_named_enum_kind_id(name);
    function.add_attribute(location, e.context().create_enum_attribute(kind, 0));
}
