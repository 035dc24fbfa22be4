//! From the loss to the last store: seed, backward pass, reductions of the parameters' gradients, and what makes updates of them.

use raddle_dialect::ir::{Attr, OpId, Position, ValueId};
use raddle_dialect::ops::OpBuilder;
use raddle_dialect::{DType, Error, TensorType};

use super::globals::{Global, Globals, NewGlobal, Start, function, load, one, store};
use super::options::{Options, Scaling};
use super::program::{NUMBERS, Step, warn_unread};
use super::reverse::Reverse;
use crate::pass::PassCx;

/// A class in the making.
pub struct Training<'p, 'a, 'm> {
    pub builder: &'p mut OpBuilder<'a, 'm>,
    pub step: &'p Step,
    pub options: &'p Options,
    pub globals: Globals,
    /// Axes along which the loss is a partial mean.
    pub means: Vec<usize>,
    /// Where what is being done comes from, for errors.
    pub culprit: OpId,
}

/// The gradient of a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Gradient {
    /// Position of the parameter.
    pub parameter: usize,
    pub value: ValueId,
}

/// Errors, each at an op.
pub type Errors = Vec<(OpId, Error)>;

impl Training<'_, '_, '_> {
    /// Does everything; gives what stood in the way.
    pub fn run(&mut self, cx: &mut PassCx) -> Errors {
        let mut errors = Vec::new();
        for parameters in [&self.step.parameters, &self.step.unread] {
            errors.extend(self.globals.parameters(self.builder, parameters));
        }
        if !errors.is_empty() {
            return errors;
        }
        match self.try_run(cx) {
            Ok(errors) => errors,
            Err(error) => vec![(self.culprit, error)],
        }
    }

    fn try_run(&mut self, cx: &mut PassCx) -> Result<Errors, Error> {
        let step = self.step;
        let ops: Vec<_> = self.builder.rewriter.block_ops(step.block).collect();
        let mut at = step.end;
        let scale = self.scale_global()?;
        let loss = self.builder.rewriter.defining_op(step.loss);
        let stage = loss.and_then(|op| self.builder.rewriter.attr(op, "dist.stage"));
        self.enter(at, "backward", stage);
        let seed = self.seed(scale.as_ref())?;
        let mut reverse = Reverse::new(self.builder, step);
        let found = reverse.run(step, &ops, seed);
        let errors = std::mem::take(&mut reverse.errors);
        if !errors.is_empty() {
            return Ok(errors);
        }
        let mut gradients = Vec::new();
        for (parameter, value) in found.into_iter().enumerate() {
            match value {
                Some(value) => gradients.push(Gradient { parameter, value }),
                None => {
                    let module = self.builder.rewriter.module();
                    warn_unread(module, &step.parameters[parameter], cx);
                }
            }
        }
        let mut factor = 1.0;
        if step.microbatches > 1 {
            at = self.accumulate(&mut gradients)?;
            factor /= step.microbatches as f64;
        }
        for gradient in &mut gradients {
            self.enter(at, "backward", step.parameters[gradient.parameter].stage);
            gradient.value = self.reduce(gradient.value, factor)?;
        }
        self.update(at, gradients, scale)?;
        Ok(vec![])
    }

    /// New ops go before `at` and have this role.
    pub fn enter(&mut self, at: OpId, role: &str, stage: Option<Attr>) {
        self.builder.rewriter.before(at);
        self.builder.loc = self.builder.rewriter.loc(at);
        let role = ("dist.role", self.builder.cx().string(role));
        let stage = stage.map(|s| ("dist.stage", s));
        self.builder.marks = [role].into_iter().chain(stage).collect();
    }

    /// Whether the loss is scaled.
    pub fn scaling(&self) -> Scaling {
        self.options.scaling(self.step)
    }

    /// The gradient of the loss by itself: 1, or the loss scale. It is the same on all ranks even where the loss is a mean over them,
    /// so each rank has the gradients of its own loss, and [`Training::reduce`] makes them those of the mean.
    fn seed(&mut self, scale: Option<&Global>) -> Result<ValueId, Error> {
        let TensorType { shape, dtype } = self.builder.ty(self.step.loss)?;
        let Some(scale) = scale else {
            return self.builder.fill(&shape, dtype, 1.0);
        };
        let scale = load(self.builder, scale);
        let scale = self.builder.cast(scale, dtype)?;
        if shape == [1] {
            return Ok(scale);
        }
        self.builder
            .emit("dist.reshape")?
            .one(scale)
            .tensor(&shape, dtype)
            .value()
    }

    /// A parameter's gradient, times a factor, summed over the axes on which it is partial; along axes of which the loss is the mean,
    /// it becomes the mean too.
    fn reduce(&mut self, gradient: ValueId, factor: f64) -> Result<ValueId, Error> {
        let partial = self.builder.partial_axes(gradient)?;
        let (means, sums): (Vec<_>, Vec<_>) =
            partial.iter().partition(|axis| self.means.contains(axis));
        // Along these the gradient is whole, but each rank's loss counts as much as their mean should.
        let whole = self.means.iter().filter(|axis| !partial.contains(axis));
        let ranks: usize = whole.map(|&axis| self.builder.mesh.sizes()[axis]).product();
        let gradient = self.builder.scaled(gradient, factor / ranks as f64)?;
        let gradient = match self.options.scaled_means {
            false => self.builder.all_reduce(gradient, "avg", &means)?,
            true => {
                let ranks = self.builder.mesh.group_size(&means);
                let sum = self.builder.all_reduce(gradient, "sum", &means)?;
                self.builder.scaled(sum, 1.0 / ranks as f64)?
            }
        };
        self.builder.all_reduce(gradient, "sum", &sums)
    }

    /// Adds the gradients to buffers; makes the function `optimizer`, which reads and clears them. Gives its return.
    fn accumulate(&mut self, gradients: &mut [Gradient]) -> Result<OpId, Error> {
        let step = self.step;
        let name = self.globals.free_name("optimizer");
        let after = Position::After(step.function);
        let optimizer = function(
            self.builder.rewriter,
            after,
            &name,
            "optimizer",
            step.function,
        );
        let body = self.builder.rewriter.body(optimizer);
        let end = self.builder.rewriter.last_op(body).expect("its return");
        for gradient in gradients {
            let parameter = &step.parameters[gradient.parameter];
            let new = NewGlobal {
                name: format!("{}_grad", parameter.name),
                kind: "buffer",
                ty: TensorType::new(&parameter.ty.shape[..], self.options.accumulate),
                layout: self.builder.layout(gradient.value)?.clone(),
                of: None,
                start: Start::Fill(0.0),
            };
            let global = self.declare(new)?;
            self.enter(step.end, "backward", parameter.stage);
            let symbol = self.builder.cx().symbol_ref(&global.name);
            self.builder
                .emit("dist.accumulate")?
                .one(gradient.value)
                .attr("global", symbol)
                .types(&[])
                .build()?;
            self.enter(end, "backward", parameter.stage);
            gradient.value = load(self.builder, &global);
            let zero = self.builder.fill(&global.ty.shape, global.ty.dtype, 0.0)?;
            store(self.builder, &global.name, zero);
        }
        Ok(end)
    }

    /// Declares a global.
    pub fn declare(&mut self, new: NewGlobal) -> Result<Global, Error> {
        self.globals
            .declare(self.builder, new, &self.step.parameters)
    }

    /// A buffer of one number.
    pub fn number(&mut self, name: &str, dtype: DType, value: f64) -> Result<Global, Error> {
        self.declare(NewGlobal {
            name: name.into(),
            kind: "buffer",
            ty: one(dtype),
            layout: raddle_dialect::layout::Layout::replicated(1),
            of: None,
            start: Start::Fill(value),
        })
    }

    fn scale_global(&mut self) -> Result<Option<Global>, Error> {
        match self.scaling() {
            Scaling::None | Scaling::Auto => Ok(None),
            _ => self
                .number("loss_scale", NUMBERS, self.options.loss_scale)
                .map(Some),
        }
    }
}
