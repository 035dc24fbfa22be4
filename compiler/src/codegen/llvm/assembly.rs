//! Inline assembly, for what LLVM has no intrinsic for.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, FloatValue, IntValue, PointerValue};

use super::emitter::{Emitter, built};

impl<'c> Emitter<'c> {
    /// Inline assembly from a number, `$1`, to a number, `$0`, without side effects.
    pub(crate) fn float_assembly(&self, text: &str, x: FloatValue<'c>) -> FloatValue<'c> {
        let f32_type = self.context.f32_type();
        let function_type = f32_type.fn_type(&[f32_type.into()], false);
        let assembly = self.context.create_inline_asm(
            function_type,
            text.to_owned(),
            "=f,f".to_owned(),
            false,
            false,
            None,
            false,
        );
        built(
            self.builder
                .build_indirect_call(function_type, assembly, &[x.into()], ""),
        )
        .try_as_basic_value()
        .basic()
        .expect("the assembly has a result")
        .into_float_value()
    }

    /// Inline assembly with side effects, which all threads of a warp execute together. Gives as many results as there
    /// are types.
    pub(crate) fn assembly(
        &self,
        (text, constraints): (String, String),
        results: &[BasicTypeEnum<'c>],
        arguments: &[BasicValueEnum<'c>],
    ) -> Vec<BasicValueEnum<'c>> {
        let types: Vec<BasicMetadataTypeEnum<'c>> = arguments
            .iter()
            .map(|argument| argument.get_type().into())
            .collect();
        let function_type = match results {
            [] => self.context.void_type().fn_type(&types, false),
            [one] => one.fn_type(&types, false),
            many => self.context.struct_type(many, false).fn_type(&types, false),
        };
        let assembly = self.context.create_inline_asm(
            function_type,
            text,
            constraints,
            true,
            false,
            None,
            false,
        );
        let arguments: Vec<BasicMetadataValueEnum<'c>> =
            arguments.iter().map(|&argument| argument.into()).collect();
        let call = built(
            self.builder
                .build_indirect_call(function_type, assembly, &arguments, ""),
        );
        let convergent = Attribute::get_named_enum_kind_id("convergent");
        let convergent = self.context.create_enum_attribute(convergent, 0);
        call.add_attribute(AttributeLoc::Function, convergent);
        match (results.len(), call.try_as_basic_value().basic()) {
            (0, _) | (_, None) => Vec::new(),
            (1, Some(value)) => vec![value],
            (count, Some(value)) => (0..count as u32)
                .map(|index| self.field(value, index))
                .collect(),
        }
    }

    /// An instruction that waits for numbers: they pass through it, so that nothing uses them before.
    pub(crate) fn pass_through(
        &self,
        text: &str,
        values: &[FloatValue<'c>],
    ) -> Vec<FloatValue<'c>> {
        let count = values.len();
        let mut constraints = vec!["=f".to_owned(); count];
        constraints.extend((0..count).map(|index| index.to_string()));
        let types = vec![BasicTypeEnum::from(self.context.f32_type()); count];
        let values: Vec<BasicValueEnum<'c>> = values.iter().map(|&value| value.into()).collect();
        self.assembly((text.to_owned(), constraints.join(",")), &types, &values)
            .into_iter()
            .map(BasicValueEnum::into_float_value)
            .collect()
    }

    /// Orders what this thread did to memory, and what it knows that others did, before what it does from here on, as
    /// the whole GPU sees it.
    pub(crate) fn device_fence(&self) {
        let text = "fence.acq_rel.gpu;".to_owned();
        self.assembly((text, "~{memory}".to_owned()), &[], &[]);
    }

    /// Counts one up in global memory, in one step, and back to zero after `last`. Gives the count before.
    pub(crate) fn count_up(&self, counter: PointerValue<'c>, last: u32) -> IntValue<'c> {
        let text = "atom.relaxed.gpu.global.inc.u32 $0, [$1], $2;".to_owned();
        let address = built(
            self.builder
                .build_ptr_to_int(counter, self.context.i64_type(), ""),
        );
        self.assembly(
            (text, "=r,l,r,~{memory}".to_owned()),
            &[self.context.i32_type().into()],
            &[address.into(), self.i32(last).into()],
        )[0]
        .into_int_value()
    }

    /// Reads a special register anew, such as `%tid.x`, so that its value need not be kept from an earlier read.
    pub(crate) fn read_special_again(&self, name: &str) -> IntValue<'c> {
        let function_type = self.context.i32_type().fn_type(&[], false);
        let assembly = self.context.create_inline_asm(
            function_type,
            format!("mov.u32 $0, %{name};"),
            "=r".to_owned(),
            true,
            false,
            None,
            false,
        );
        built(
            self.builder
                .build_indirect_call(function_type, assembly, &[], ""),
        )
        .try_as_basic_value()
        .basic()
        .expect("the assembly has a result")
        .into_int_value()
    }
}
