//! Conditions and loops.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue};

use super::emitter::{Emitter, built};

impl<'c> Emitter<'c> {
    /// Emits code that runs only if a condition holds.
    pub(crate) fn when(&self, condition: IntValue<'c>, body: impl FnOnce(&Self)) {
        let then = self.context.append_basic_block(self.function, "then");
        let after = self.context.append_basic_block(self.function, "after");
        built(
            self.builder
                .build_conditional_branch(condition, then, after),
        );
        self.builder.position_at_end(then);
        body(self);
        built(self.builder.build_unconditional_branch(after));
        self.builder.position_at_end(after);
    }

    /// Emits code that runs only if a condition holds, and gives numbers; they are zero if it does not.
    pub(crate) fn when_some(
        &self,
        condition: IntValue<'c>,
        body: impl FnOnce(&Self) -> Vec<FloatValue<'c>>,
    ) -> Vec<FloatValue<'c>> {
        let before = self.current_block();
        let mut values = Vec::new();
        let mut last = before;
        self.when(condition, |e| {
            values = body(e);
            last = e.current_block();
        });
        let zero = self.f32(0.0);
        values
            .iter()
            .map(|value| {
                let phi = built(self.builder.build_phi(self.f32_type(), ""));
                phi.add_incoming(&[(value, last), (&zero, before)]);
                phi.as_basic_value().into_float_value()
            })
            .collect()
    }

    /// Emits code that runs if a condition holds, and code that runs if it does not.
    pub(crate) fn either(
        &self,
        condition: IntValue<'c>,
        body: impl FnOnce(&Self),
        otherwise: impl FnOnce(&Self),
    ) {
        let then = self.context.append_basic_block(self.function, "then");
        let other = self.context.append_basic_block(self.function, "else");
        let after = self.context.append_basic_block(self.function, "after");
        built(
            self.builder
                .build_conditional_branch(condition, then, other),
        );
        self.builder.position_at_end(then);
        body(self);
        built(self.builder.build_unconditional_branch(after));
        self.builder.position_at_end(other);
        otherwise(self);
        built(self.builder.build_unconditional_branch(after));
        self.builder.position_at_end(after);
    }

    /// Emits code that gives values if a condition holds; without it, these others are there.
    pub(crate) fn values_when(
        &self,
        condition: IntValue<'c>,
        others: &[BasicValueEnum<'c>],
        body: impl FnOnce(&Self) -> Vec<BasicValueEnum<'c>>,
    ) -> Vec<BasicValueEnum<'c>> {
        let entry = self.current_block();
        let then = self.context.append_basic_block(self.function, "then");
        let after = self.context.append_basic_block(self.function, "after");
        built(
            self.builder
                .build_conditional_branch(condition, then, after),
        );
        self.builder.position_at_end(then);
        let values = body(self);
        let last = self.current_block();
        built(self.builder.build_unconditional_branch(after));
        self.builder.position_at_end(after);
        let both = values.iter().zip(others);
        both.map(|(value, other)| {
            let phi = built(self.builder.build_phi(value.get_type(), ""));
            phi.add_incoming(&[(value, last), (other, entry)]);
            phi.as_basic_value()
        })
        .collect()
    }

    /// Emits a loop that runs `count` times and carries values from one round to the next: not at all for 0, and
    /// without a branch for 1.
    pub(crate) fn repeat(
        &self,
        count: u32,
        state: Vec<BasicValueEnum<'c>>,
        body: impl FnOnce(&Self, Vec<BasicValueEnum<'c>>) -> Vec<BasicValueEnum<'c>>,
    ) -> Vec<BasicValueEnum<'c>> {
        if count <= 1 {
            return if count == 0 { state } else { body(self, state) };
        }
        self.repeat_counted(self.i32(count), state, body)
    }

    /// Emits a loop that runs as often as a number says, at least once.
    pub(crate) fn repeat_counted(
        &self,
        count: IntValue<'c>,
        state: Vec<BasicValueEnum<'c>>,
        body: impl FnOnce(&Self, Vec<BasicValueEnum<'c>>) -> Vec<BasicValueEnum<'c>>,
    ) -> Vec<BasicValueEnum<'c>> {
        let entry = self.current_block();
        let round = self.context.append_basic_block(self.function, "round");
        built(self.builder.build_unconditional_branch(round));
        self.builder.position_at_end(round);
        let left = built(self.builder.build_phi(self.context.i32_type(), ""));
        left.add_incoming(&[(&count, entry)]);
        let carried: Vec<_> = state
            .iter()
            .map(|value| {
                let phi = built(self.builder.build_phi(value.get_type(), ""));
                phi.add_incoming(&[(value, entry)]);
                phi
            })
            .collect();
        let next = body(
            self,
            carried.iter().map(|phi| phi.as_basic_value()).collect(),
        );
        let remaining = self.sub(left.as_basic_value().into_int_value(), self.i32(1));
        let last = self.current_block();
        left.add_incoming(&[(&remaining, last)]);
        for (phi, value) in carried.iter().zip(&next) {
            phi.add_incoming(&[(value, last)]);
        }
        let done = self.context.append_basic_block(self.function, "done");
        let again = self.compare(IntPredicate::NE, remaining, self.i32(0));
        built(self.builder.build_conditional_branch(again, round, done));
        self.builder.position_at_end(done);
        next
    }

    /// Emits a loop that tests a condition on what it carries before each round.
    pub(crate) fn repeat_while(
        &self,
        state: Vec<BasicValueEnum<'c>>,
        condition: impl FnOnce(&Self, &[BasicValueEnum<'c>]) -> IntValue<'c>,
        body: impl FnOnce(&Self, Vec<BasicValueEnum<'c>>) -> Vec<BasicValueEnum<'c>>,
    ) -> Vec<BasicValueEnum<'c>> {
        let entry = self.current_block();
        let test = self.context.append_basic_block(self.function, "test");
        built(self.builder.build_unconditional_branch(test));
        self.builder.position_at_end(test);
        let carried: Vec<_> = state
            .iter()
            .map(|value| {
                let phi = built(self.builder.build_phi(value.get_type(), ""));
                phi.add_incoming(&[(value, entry)]);
                phi
            })
            .collect();
        let values: Vec<_> = carried.iter().map(|phi| phi.as_basic_value()).collect();
        let goes_on = condition(self, &values);
        let round = self.context.append_basic_block(self.function, "round");
        let done = self.context.append_basic_block(self.function, "done");
        built(self.builder.build_conditional_branch(goes_on, round, done));
        self.builder.position_at_end(round);
        let next = body(self, values.clone());
        let last = self.current_block();
        for (phi, value) in carried.iter().zip(&next) {
            phi.add_incoming(&[(value, last)]);
        }
        built(self.builder.build_unconditional_branch(test));
        self.builder.position_at_end(done);
        values
    }

    /// Asks for a condition until it holds.
    pub(crate) fn until(&self, condition: impl FnOnce(&Self) -> IntValue<'c>) {
        let ask = self.context.append_basic_block(self.function, "ask");
        let after = self.context.append_basic_block(self.function, "after");
        built(self.builder.build_unconditional_branch(ask));
        self.builder.position_at_end(ask);
        let holds = condition(self);
        built(self.builder.build_conditional_branch(holds, after, ask));
        self.builder.position_at_end(after);
    }

    fn current_block(&self) -> BasicBlock<'c> {
        self.builder
            .get_insert_block()
            .expect("an emitter always stands in a block")
    }
}
