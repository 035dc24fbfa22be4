//! The whole way from a description to PTX.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::Context;
use inkwell::values::FunctionValue;

use super::ptx::{Parameters, Plan, Ptx, check_externals};
use super::sm80;
use super::target::Target;
use crate::codegen::column_sum::ColumnSumSchedule;
use crate::codegen::contraction::Contraction;
use crate::codegen::description::KernelDescription;
use crate::codegen::error::CodegenError;
use crate::codegen::llvm::{Emitter, Machine, Space};
use crate::codegen::tiling::{self, TileSize};

/// LLVM's number for the calling convention of PTX entry points.
const PTX_KERNEL: u32 = 71;

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
    Ok(emit_tuned(kernel, target, None)?.ptx)
}

/// Emits one kernel, with a tile of a given size if one is wished for, and keeps its IR.
///
/// # Errors
/// As [`emit`]; also if there is no tile of that size.
pub fn emit_tuned(
    kernel: &KernelDescription,
    target: Target,
    wish: Option<TileSize>,
) -> Result<Emitted, CodegenError> {
    let contraction = Contraction::of(kernel)?;
    let limits = target.architecture().limits();
    let (plan, parameters) = match &contraction {
        Some(product) => (
            Plan::Product(tiling::choose(product, &limits, wish)?),
            Parameters::of_product(product),
        ),
        None => (
            Plan::ColumnSum(ColumnSumSchedule::of(kernel)?),
            Parameters::of_column_sum(),
        ),
    };
    let launch = plan.launch();
    let entry = kernel.entry();
    let features = format!("+ptx{}{}", target.ptx().major, target.ptx().minor);
    let machine = Machine::nvptx(target.architecture().name(), &features)?;

    let context = Context::create();
    let module = context.create_module(&entry);
    machine.prepare(&module);
    let pointer = context.ptr_type(inkwell::AddressSpace::from(Space::Global as u16));
    let types = vec![pointer.into(); parameters.as_slice().len()];
    let emitter = Emitter::start(&context, module, &entry, &types);
    declare(&emitter, &parameters, &plan);
    match (&plan, &contraction) {
        (Plan::Product(schedule), Some(product)) => {
            sm80::emit_product(&emitter, product, schedule, &parameters);
        }
        (Plan::ColumnSum(schedule), _) => sm80::emit_column_sum(&emitter, schedule),
        (Plan::Product(_), None) => unreachable!("a product's plan is made from a product"),
    }

    let optimised = machine.optimise(emitter.finish())?;
    let text = optimised.assembly()?;
    check_externals(&text)?;
    Ok(Emitted {
        ir: optimised.ir(),
        ptx: Ptx {
            text,
            entry,
            parameters,
            launch,
            kernel: *kernel,
            plan,
            target,
        },
    })
}

/// Makes the function an entry point, bounds its threads and registers, and says what its pointers promise: no two overlap, and what
/// is only read stays as it is.
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
        add_flag(e, function, location, "noalias");
        if !parameter.is_written() {
            add_flag(e, function, location, "readonly");
        }
        let align = Attribute::get_named_enum_kind_id("align");
        function.add_attribute(location, e.context().create_enum_attribute(align, 16));
        e.parameter(index as u32)
            .into_pointer_value()
            .set_name(parameter.name());
    }
}

fn add_flag(e: &Emitter<'_>, function: FunctionValue<'_>, location: AttributeLoc, name: &str) {
    let kind = Attribute::get_named_enum_kind_id(name);
    function.add_attribute(location, e.context().create_enum_attribute(kind, 0));
}
