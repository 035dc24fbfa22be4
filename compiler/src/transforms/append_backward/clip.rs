//! Clipping: gradients are limited element by element, by the norm of each, or by the norm of all (Pascanu et al., 2013, algorithm 1).
//!
//! Norms are those of whole gradients: squares of pieces are summed over the axes that cut them.

use raddle_dialect::Error;
use raddle_dialect::ir::{OpId, ValueId};

use super::finish::{Gradient, Training};
use super::options::Clip;
use super::program::NUMBERS;

impl Training<'_, '_, '_> {
    pub fn clip(&mut self, at: OpId, gradients: &mut [Gradient]) -> Result<(), Error> {
        match self.options.clip {
            Clip::None => Ok(()),
            Clip::Value => self.clip_values(at, gradients),
            Clip::Norm => self.clip_each(at, gradients),
            Clip::GlobalNorm => self.clip_all(at, gradients),
        }
    }

    fn enter_for(&mut self, at: OpId, gradient: &Gradient) {
        self.enter(
            at,
            "optimizer",
            self.step.parameters[gradient.parameter].stage,
        );
    }

    fn clip_values(&mut self, at: OpId, gradients: &mut [Gradient]) -> Result<(), Error> {
        let limit = self.options.clip_limit;
        for gradient in gradients {
            self.enter_for(at, gradient);
            let clip = self.builder.emit("dist.clip")?.one(gradient.value);
            gradient.value = clip.float("min", -limit).float("max", limit).value()?;
        }
        Ok(())
    }

    fn clip_each(&mut self, at: OpId, gradients: &mut [Gradient]) -> Result<(), Error> {
        for gradient in gradients {
            self.enter_for(at, gradient);
            if self.cuts(gradient.value)?.is_empty() {
                let clip = self.builder.emit("dist.clip_by_norm")?.one(gradient.value);
                gradient.value = clip.float("max_norm", self.options.clip_limit).value()?;
            } else {
                let square = self.square(gradient.value)?;
                let square = self.builder.reduced(square)?;
                let factor = self.factor(square)?;
                gradient.value = self.times(gradient.value, factor)?;
            }
        }
        Ok(())
    }

    fn clip_all(&mut self, at: OpId, gradients: &mut [Gradient]) -> Result<(), Error> {
        // Squares of gradients that are cut by the same axes are summed, then reduced together.
        let mut kinds: Vec<(Vec<usize>, Vec<ValueId>)> = Vec::new();
        for gradient in gradients.iter() {
            self.enter_for(at, gradient);
            let square = self.square(gradient.value)?;
            let axes = self.builder.partial_axes(square)?;
            match kinds.iter_mut().find(|k| k.0 == axes) {
                Some(kind) => kind.1.push(square),
                None => kinds.push((axes, vec![square])),
            }
        }
        self.enter(at, "optimizer", None);
        let mut sums = Vec::new();
        for (axes, squares) in kinds {
            let sum = self.sum(&squares)?;
            sums.push(self.builder.all_reduce(sum, "sum", &axes)?);
        }
        if sums.is_empty() {
            return Ok(());
        }
        let total = self.sum(&sums)?;
        let factor = self.factor(total)?;
        for gradient in gradients {
            self.enter_for(at, gradient);
            gradient.value = self.times(gradient.value, factor)?;
        }
        Ok(())
    }

    /// Axes that cut a gradient.
    fn cuts(&self, gradient: ValueId) -> Result<Vec<usize>, Error> {
        let axes = self
            .builder
            .layout(gradient)?
            .dims
            .iter()
            .flatten()
            .copied();
        Ok(axes.filter(|&a| self.builder.mesh.sizes()[a] > 1).collect())
    }

    /// The sum of squares, f32.
    fn square(&mut self, gradient: ValueId) -> Result<ValueId, Error> {
        let gradient = self.builder.cast(gradient, NUMBERS)?;
        let op = self.builder.emit("dist.squared_l2_norm")?;
        op.one(gradient).value()
    }

    /// The sum of numbers.
    fn sum(&mut self, numbers: &[ValueId]) -> Result<ValueId, Error> {
        match numbers {
            [only] => Ok(*only),
            _ if self.options.clip_stack => {
                let stack = self.builder.emit("dist.stack")?.many(numbers);
                let stack = stack.int("dim", 0).value()?;
                let sum = self.builder.emit("dist.reduce_sum")?.one(stack);
                sum.ints("dims", &[0]).value()
            }
            _ => self.builder.emit("dist.sum")?.many(numbers).value(),
        }
    }

    /// `limit / max(limit, norm)`.
    fn factor(&mut self, square: ValueId) -> Result<ValueId, Error> {
        let norm = self.builder.emit("dist.sqrt")?.one(square).value()?;
        let limit = self.builder.fill(&[1], NUMBERS, self.options.clip_limit)?;
        let larger = self.builder.emit("dist.maximum")?;
        let larger = larger.each(&[limit, norm]).value()?;
        let factor = self.builder.emit("dist.div")?;
        factor.each(&[limit, larger]).value()
    }

    fn times(&mut self, gradient: ValueId, factor: ValueId) -> Result<ValueId, Error> {
        let ty = self.builder.ty(gradient)?;
        let factor = self.builder.cast(factor, ty.dtype)?;
        let scaled = self
            .builder
            .emit("dist.mul")?
            .each(&[gradient, factor])
            .value()?;
        if self.builder.ty(scaled)?.shape == ty.shape {
            return Ok(scaled);
        }
        // A parameter without dimensions times one number has one dimension.
        let reshape = self.builder.emit("dist.reshape")?.one(scaled);
        reshape.tensor(&ty.shape, ty.dtype).value()
    }
}
