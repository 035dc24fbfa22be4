//! A thin layer over inkwell's builder with the vocabulary that kernels are written in.
//!
//! inkwell's builder returns an error from every instruction, for one reason that can be met here: building before a
//! block is chosen. An [`Emitter`] is made by starting a function, which chooses one, and every method that leaves a
//! block chooses the next. So `built` unwraps, in one place.

use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::{Linkage, Module};
use inkwell::types::{
    BasicMetadataTypeEnum, BasicType, BasicTypeEnum, FloatType, IntType, PointerType,
};
use inkwell::values::{
    BasicMetadataValueEnum, BasicValue, BasicValueEnum, FloatValue, FunctionValue,
    InstructionValue, IntValue, PointerValue, VectorValue,
};
use inkwell::{AddressSpace, IntPredicate};

/// An address space, as NVPTX numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global = 1,
    Shared = 3,
    /// Tensor memory; its addresses count lanes in the high half and columns in the low one.
    Tensor = 6,
    /// Shared memory of all blocks of a cluster, this block's among it.
    Cluster = 7,
}

/// A module under construction, with a place in it where the next instruction goes.
pub(crate) struct Emitter<'c> {
    pub(super) context: &'c Context,
    module: Module<'c>,
    pub(super) builder: Builder<'c>,
    pub(super) function: FunctionValue<'c>,
}

pub(super) fn built<T>(result: Result<T, BuilderError>) -> T {
    result.expect("an emitter always stands in a block")
}

impl<'c> Emitter<'c> {
    /// Starts a function without result in a module, and stands in its first block.
    pub(crate) fn start(
        context: &'c Context,
        module: Module<'c>,
        name: &str,
        parameters: &[BasicMetadataTypeEnum<'c>],
    ) -> Emitter<'c> {
        let function =
            module.add_function(name, context.void_type().fn_type(parameters, false), None);
        let builder = context.create_builder();
        builder.position_at_end(context.append_basic_block(function, "entry"));
        Emitter {
            context,
            module,
            builder,
            function,
        }
    }

    /// Returns from the function and gives the module back.
    pub(crate) fn finish(self) -> Module<'c> {
        built(self.builder.build_return(None));
        self.module
    }

    pub(crate) fn function(&self) -> FunctionValue<'c> {
        self.function
    }

    pub(crate) fn context(&self) -> &'c Context {
        self.context
    }

    pub(crate) fn parameter(&self, index: u32) -> BasicValueEnum<'c> {
        self.function
            .get_nth_param(index)
            .expect("the function was declared with this parameter")
    }

    pub(crate) fn i32_type(&self) -> IntType<'c> {
        self.context.i32_type()
    }

    pub(crate) fn f32_type(&self) -> FloatType<'c> {
        self.context.f32_type()
    }

    pub(crate) fn pointer_type(&self, space: Space) -> PointerType<'c> {
        self.context.ptr_type(AddressSpace::from(space as u16))
    }

    pub(crate) fn i32(&self, value: u32) -> IntValue<'c> {
        self.context.i32_type().const_int(value.into(), false)
    }

    pub(crate) fn i64(&self, value: u64) -> IntValue<'c> {
        self.context.i64_type().const_int(value, false)
    }

    pub(crate) fn f32(&self, value: f64) -> FloatValue<'c> {
        self.context.f32_type().const_float(value)
    }

    pub(crate) fn add(&self, x: IntValue<'c>, y: IntValue<'c>) -> IntValue<'c> {
        built(self.builder.build_int_add(x, y, ""))
    }

    pub(crate) fn add_const(&self, x: IntValue<'c>, y: u32) -> IntValue<'c> {
        self.add(x, x.get_type().const_int(y.into(), false))
    }

    pub(crate) fn sub(&self, x: IntValue<'c>, y: IntValue<'c>) -> IntValue<'c> {
        built(self.builder.build_int_sub(x, y, ""))
    }

    pub(crate) fn mul(&self, x: IntValue<'c>, y: IntValue<'c>) -> IntValue<'c> {
        built(self.builder.build_int_mul(x, y, ""))
    }

    pub(crate) fn mul_const(&self, x: IntValue<'c>, y: u32) -> IntValue<'c> {
        self.mul(x, x.get_type().const_int(y.into(), false))
    }

    pub(crate) fn div_const(&self, x: IntValue<'c>, y: u32) -> IntValue<'c> {
        built(self.builder.build_int_unsigned_div(x, self.i32(y), ""))
    }

    pub(crate) fn rem_const(&self, x: IntValue<'c>, y: u32) -> IntValue<'c> {
        built(self.builder.build_int_unsigned_rem(x, self.i32(y), ""))
    }

    pub(crate) fn and_const(&self, x: IntValue<'c>, y: u32) -> IntValue<'c> {
        built(self.builder.build_and(x, self.i32(y), ""))
    }

    pub(crate) fn and(&self, x: IntValue<'c>, y: IntValue<'c>) -> IntValue<'c> {
        built(self.builder.build_and(x, y, ""))
    }

    pub(crate) fn or(&self, x: IntValue<'c>, y: IntValue<'c>) -> IntValue<'c> {
        built(self.builder.build_or(x, y, ""))
    }

    pub(crate) fn xor(&self, x: IntValue<'c>, y: IntValue<'c>) -> IntValue<'c> {
        built(self.builder.build_xor(x, y, ""))
    }

    pub(crate) fn xor_const(&self, x: IntValue<'c>, y: u32) -> IntValue<'c> {
        self.xor(x, self.i32(y))
    }

    pub(crate) fn shl_const(&self, x: IntValue<'c>, y: u32) -> IntValue<'c> {
        built(
            self.builder
                .build_left_shift(x, x.get_type().const_int(y.into(), false), ""),
        )
    }

    pub(crate) fn shr_const(&self, x: IntValue<'c>, y: u32) -> IntValue<'c> {
        built(
            self.builder
                .build_right_shift(x, x.get_type().const_int(y.into(), false), false, ""),
        )
    }

    /// Widens an unsigned number to 64 bits.
    pub(crate) fn widen(&self, x: IntValue<'c>) -> IntValue<'c> {
        built(
            self.builder
                .build_int_z_extend(x, self.context.i64_type(), ""),
        )
    }

    /// Widens an unsigned number to 32 bits.
    pub(crate) fn zero_extend(&self, x: IntValue<'c>) -> IntValue<'c> {
        built(
            self.builder
                .build_int_z_extend(x, self.context.i32_type(), ""),
        )
    }

    /// The low bits of a number.
    pub(crate) fn truncate(&self, x: IntValue<'c>, to: IntType<'c>) -> IntValue<'c> {
        built(self.builder.build_int_truncate(x, to, ""))
    }

    pub(crate) fn compare(
        &self,
        predicate: IntPredicate,
        x: IntValue<'c>,
        y: IntValue<'c>,
    ) -> IntValue<'c> {
        built(self.builder.build_int_compare(predicate, x, y, ""))
    }

    pub(crate) fn select<V: BasicValue<'c>>(
        &self,
        condition: IntValue<'c>,
        x: V,
        y: V,
    ) -> BasicValueEnum<'c> {
        built(self.builder.build_select(
            condition,
            x.as_basic_value_enum(),
            y.as_basic_value_enum(),
            "",
        ))
    }

    pub(crate) fn select_int(
        &self,
        condition: IntValue<'c>,
        x: IntValue<'c>,
        y: IntValue<'c>,
    ) -> IntValue<'c> {
        self.select(condition, x, y).into_int_value()
    }

    pub(crate) fn add_float(&self, x: FloatValue<'c>, y: FloatValue<'c>) -> FloatValue<'c> {
        built(self.builder.build_float_add(x, y, ""))
    }

    pub(crate) fn mul_float(&self, x: FloatValue<'c>, y: FloatValue<'c>) -> FloatValue<'c> {
        built(self.builder.build_float_mul(x, y, ""))
    }

    pub(crate) fn negate(&self, x: FloatValue<'c>) -> FloatValue<'c> {
        built(self.builder.build_float_neg(x, ""))
    }

    /// `x · y + z`, rounded once.
    pub(crate) fn fma(
        &self,
        x: FloatValue<'c>,
        y: FloatValue<'c>,
        z: FloatValue<'c>,
    ) -> FloatValue<'c> {
        self.call_value(
            "llvm.fma",
            &[x.get_type().into()],
            &[x.into(), y.into(), z.into()],
        )
        .into_float_value()
    }

    pub(crate) fn bit_cast<V: BasicValue<'c>, T: BasicType<'c>>(
        &self,
        value: V,
        to: T,
    ) -> BasicValueEnum<'c> {
        built(self.builder.build_bit_cast(value, to, ""))
    }

    pub(crate) fn extend_float(&self, x: FloatValue<'c>) -> FloatValue<'c> {
        built(self.builder.build_float_ext(x, self.context.f32_type(), ""))
    }

    /// The field of a structure that an instruction returned.
    pub(crate) fn field(&self, value: BasicValueEnum<'c>, index: u32) -> BasicValueEnum<'c> {
        built(
            self.builder
                .build_extract_value(value.into_struct_value(), index, ""),
        )
    }

    pub(crate) fn element(&self, vector: VectorValue<'c>, index: u32) -> BasicValueEnum<'c> {
        built(
            self.builder
                .build_extract_element(vector, self.i32(index), ""),
        )
    }

    /// A vector of scalars of one type.
    pub(crate) fn vector(&self, elements: &[BasicValueEnum<'c>]) -> VectorValue<'c> {
        let count = elements.len() as u32;
        let vector_type = match elements[0].get_type() {
            BasicTypeEnum::FloatType(element) => element.vec_type(count),
            BasicTypeEnum::IntType(element) => element.vec_type(count),
            other => unreachable!("vectors of {other} are not built"),
        };
        let mut vector = vector_type.get_undef();
        for (index, &element) in elements.iter().enumerate() {
            vector = built(self.builder.build_insert_element(
                vector,
                element,
                self.i32(index as u32),
                "",
            ));
        }
        vector
    }

    /// A pointer some bytes after another.
    pub(crate) fn offset(
        &self,
        pointer: PointerValue<'c>,
        bytes: IntValue<'c>,
    ) -> PointerValue<'c> {
        // SAFETY: no `inbounds`, so any offset makes a defined address; only dereferencing it has conditions.
        built(unsafe {
            self.builder
                .build_gep(self.context.i8_type(), pointer, &[bytes], "")
        })
    }

    /// The shared-memory pointer with an address of 32 bits.
    pub(crate) fn shared_pointer(&self, address: IntValue<'c>) -> PointerValue<'c> {
        built(
            self.builder
                .build_int_to_ptr(address, self.pointer_type(Space::Shared), ""),
        )
    }

    /// The tensor-memory pointer with an address of 32 bits.
    pub(crate) fn tensor_pointer(&self, address: IntValue<'c>) -> PointerValue<'c> {
        built(
            self.builder
                .build_int_to_ptr(address, self.pointer_type(Space::Tensor), ""),
        )
    }

    /// The address of a shared-memory pointer, in 32 bits.
    pub(crate) fn shared_address(&self, pointer: PointerValue<'c>) -> IntValue<'c> {
        built(
            self.builder
                .build_ptr_to_int(pointer, self.context.i32_type(), ""),
        )
    }

    /// Loads a value whose address is a multiple of `alignment` bytes.
    pub(crate) fn load<T: BasicType<'c>>(
        &self,
        of: T,
        pointer: PointerValue<'c>,
        alignment: u32,
    ) -> BasicValueEnum<'c> {
        let value = built(self.builder.build_load(of, pointer, ""));
        if let Some(load) = value.as_instruction_value() {
            align(load, alignment);
        }
        value
    }

    /// Loads a value that nothing writes while the kernel runs.
    pub(crate) fn load_constant<T: BasicType<'c>>(
        &self,
        of: T,
        pointer: PointerValue<'c>,
        alignment: u32,
    ) -> BasicValueEnum<'c> {
        let value = self.load(of, pointer, alignment);
        if let Some(load) = value.as_instruction_value() {
            let kind = self.context.get_kind_id("invariant.load");
            load.set_metadata(self.context.metadata_node(&[]), kind)
                .expect("a load takes metadata");
        }
        value
    }

    /// Stores a value at an address that is a multiple of `alignment` bytes.
    pub(crate) fn store<V: BasicValue<'c>>(
        &self,
        pointer: PointerValue<'c>,
        value: V,
        alignment: u32,
    ) {
        align(built(self.builder.build_store(pointer, value)), alignment);
    }

    /// Calls one of LLVM's intrinsics, overloaded on these types.
    pub(crate) fn call(
        &self,
        name: &str,
        overload: &[BasicTypeEnum<'c>],
        arguments: &[BasicValueEnum<'c>],
    ) -> Option<BasicValueEnum<'c>> {
        let function = Intrinsic::find(name)
            .and_then(|intrinsic| intrinsic.get_declaration(&self.module, overload))
            .unwrap_or_else(|| unreachable!("LLVM 22 has the intrinsic {name}"));
        let arguments: Vec<BasicMetadataValueEnum<'c>> =
            arguments.iter().map(|&argument| argument.into()).collect();
        built(self.builder.build_call(function, &arguments, ""))
            .try_as_basic_value()
            .basic()
    }

    /// Calls an intrinsic that has a result.
    pub(crate) fn call_value(
        &self,
        name: &str,
        overload: &[BasicTypeEnum<'c>],
        arguments: &[BasicValueEnum<'c>],
    ) -> BasicValueEnum<'c> {
        self.call(name, overload, arguments)
            .unwrap_or_else(|| unreachable!("{name} has a result"))
    }

    /// Adds the number that the lane has whose number differs in these bits. All lanes of the warp take part.
    pub(crate) fn add_exchanged(&self, x: FloatValue<'c>, lane_bits: u32) -> FloatValue<'c> {
        self.add_float(x, self.exchanged(x, lane_bits))
    }

    /// The number that the lane has whose number differs in these bits. All lanes of the warp take part.
    pub(crate) fn exchanged(&self, x: FloatValue<'c>, lane_bits: u32) -> FloatValue<'c> {
        let arguments = [
            self.i32(u32::MAX).into(),
            x.into(),
            self.i32(lane_bits).into(),
            self.i32(31).into(),
        ];
        self.call_value("llvm.nvvm.shfl.sync.bfly.f32", &[], &arguments)
            .into_float_value()
    }

    /// Whether the lane is the one that acts for its warp, always the same, where all lanes take part. The assembler knows
    /// that there is one, and so keeps what all lanes know in registers that the warp shares.
    pub(crate) fn elected(&self) -> IntValue<'c> {
        let everyone = self.i32(u32::MAX).into();
        let elected = self.call_value("llvm.nvvm.elect.sync", &[], &[everyone]);
        self.field(elected, 1).into_int_value()
    }

    /// Shared memory of this block as a part of its cluster's.
    pub(crate) fn cluster_pointer(&self, pointer: PointerValue<'c>) -> PointerValue<'c> {
        built(
            self.builder
                .build_address_space_cast(pointer, self.pointer_type(Space::Cluster), ""),
        )
    }

    pub(crate) fn boolean(&self, value: bool) -> IntValue<'c> {
        self.context.bool_type().const_int(value.into(), false)
    }

    /// A module-wide array in shared memory whose size the launch decides.
    pub(crate) fn launch_sized_shared(&self, name: &str, alignment: u32) -> PointerValue<'c> {
        let array = self.context.i8_type().array_type(0);
        let global =
            self.module
                .add_global(array, Some(AddressSpace::from(Space::Shared as u16)), name);
        global.set_linkage(Linkage::External);
        global.set_alignment(alignment);
        global.as_pointer_value()
    }
}

fn align(instruction: InstructionValue<'_>, bytes: u32) {
    instruction
        .set_alignment(bytes)
        .expect("loads and stores take a power of two as alignment");
}
