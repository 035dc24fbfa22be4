//! Loss scaling: gradients are divided by the scale, overflows looked for, and the scale adapted (Micikevicius et al., 2018).

use raddle_dialect::ir::{OpId, ValueId};
use raddle_dialect::{DType, Error};

use super::finish::{Gradient, Training};
use super::globals::{Global, load, store};
use super::options::Scaling;

/// All gradients were one op of a framework's program.
const GROUP: i64 = 0;

impl Training<'_, '_, '_> {
    /// Unscales the gradients; gives the flag that says whether any overflowed, on any rank that has a piece of it.
    pub fn unscale(
        &mut self,
        at: OpId,
        gradients: &mut [Gradient],
        scale: &Global,
    ) -> Result<ValueId, Error> {
        let good = self.number("good_steps", DType::I32, 0.0)?;
        let bad = self.number("bad_steps", DType::I32, 0.0)?;
        self.enter(at, "optimizer", None);
        let scale_value = load(self.builder, scale);
        let (good_value, bad_value) = (load(self.builder, &good), load(self.builder, &bad));
        let mut flags = Vec::new();
        for gradient in gradients.iter_mut() {
            self.enter(
                at,
                "optimizer",
                self.step.parameters[gradient.parameter].stage,
            );
            let op = self.builder.emit("dist.check_finite_and_unscale")?;
            let op = op.each(&[gradient.value, scale_value]);
            let op = op.int("group", GROUP).build()?;
            gradient.value = self.builder.rewriter.result(op, 0);
            flags.push(self.builder.rewriter.result(op, 1));
        }
        self.enter(at, "optimizer", None);
        let found = self.any(&flags)?;
        let mut next = None;
        let fixed = self.scaling() == Scaling::Static;
        for gradient in gradients.iter_mut() {
            self.enter(
                at,
                "optimizer",
                self.step.parameters[gradient.parameter].stage,
            );
            let op = self
                .builder
                .emit("dist.update_loss_scaling")?
                .each(&[gradient.value, found, scale_value, good_value, bad_value])
                .int("group", GROUP)
                .int("incr_every_n_steps", self.options.incr_every)
                .int("decr_every_n_nan_or_inf", self.options.decr_every)
                .float("incr_ratio", self.options.incr_ratio)
                .float("decr_ratio", self.options.decr_ratio)
                .bool("stop_update", fixed)
                .build()?;
            gradient.value = self.builder.rewriter.result(op, 0);
            next.get_or_insert(op);
        }
        self.enter(at, "optimizer", None);
        if let (Some(op), Scaling::Dynamic) = (next, self.scaling()) {
            for (index, global) in [scale, &good, &bad].into_iter().enumerate() {
                let value = self.builder.rewriter.result(op, 1 + index);
                store(self.builder, &global.name, value);
            }
        }
        Ok(found)
    }

    /// Whether any flag is set on any rank. Flags travel as the largest of 0 and 1.
    fn any(&mut self, flags: &[ValueId]) -> Result<ValueId, Error> {
        let found = match flags {
            [only] => *only,
            _ => self.builder.emit("dist.any_of")?.many(flags).value()?,
        };
        let axes = self.builder.partial_axes(found)?;
        if axes.is_empty() {
            return Ok(found);
        }
        let number = self.builder.cast(found, DType::I32)?;
        let number = self.builder.all_reduce(number, "max", &axes)?;
        self.builder.cast(number, DType::Bool)
    }
}
