//! Loss scaling, clipping and the optimizer.

use raddle_dialect::ir::{Attr, Type, ValueId};

use super::{Builder, Clip, LossScaling, Optimizer, Stored};

impl Builder<'_> {
    /// With several micro-batches, adds each gradient to a global.
    pub fn accumulate(&mut self) {
        if self.spec.microbatches == 1 {
            return;
        }
        for index in 0..self.parameters.len() {
            let gradient = self.whole_gradient(index);
            let parameter = &self.parameters[index];
            let (name, shape, sharded) = (
                parameter.name.clone(),
                parameter.shape.clone(),
                parameter.sharded,
            );
            self.accumulator(&name, &shape, sharded);
            let global = self.cx.symbol_ref(&format!("{name}_grad"));
            self.op("dist.accumulate", &[gradient], &[], &[("global", global)]);
        }
    }

    /// The gradient of all uses of a parameter.
    fn whole_gradient(&mut self, index: usize) -> ValueId {
        let parts = self.parameters[index].gradients.clone();
        let ty = self.rewriter.ty(parts[0]);
        match parts[..] {
            [only] => only,
            _ => self.value("dist.sum", &parts, ty, &[]),
        }
    }

    /// The gradients of a step, where the optimizer starts.
    fn gradients(&mut self) -> Vec<ValueId> {
        let count = self.parameters.len();
        if self.spec.microbatches == 1 {
            return (0..count).map(|i| self.whole_gradient(i)).collect();
        }
        let mut gradients = Vec::new();
        for index in 0..count {
            let (name, shape) = {
                let parameter = &self.parameters[index];
                (parameter.name.clone(), parameter.shape.clone())
            };
            self.parameters[index].value = self.load_parameter(&name, &shape);
            let accumulator = format!("{name}_grad");
            let sum = self.load(&accumulator, &shape);
            let zero = self.fill(&shape, 0.0);
            self.store(&accumulator, zero);
            let mean = self.scale(sum, 1.0 / self.spec.microbatches as f64);
            let mean = self.data_mean(mean);
            gradients.push(self.cast(mean, self.gradient_element()));
        }
        gradients
    }

    pub fn optimize(&mut self) {
        let mut gradients = self.gradients();
        let skip = self.unscale(&mut gradients);
        self.clip(&mut gradients);
        let lr = self.load("lr", &[1]);
        if self.spec.optimizer == Optimizer::DgcMomentum {
            self.global("current_step", "buffer", &[1], None, None, 0.0);
            self.global("nranks", "buffer", &[1], None, None, 2.0);
        }
        for (index, &gradient) in gradients.iter().enumerate() {
            self.update(index, gradient, lr, skip);
        }
        if self.spec.optimizer == Optimizer::DgcMomentum {
            let step = self.load("current_step", &[1]);
            let one = self.fill(&[1], 1.0);
            let ty = self.tensor(&[1]);
            let next = self.value("dist.add", &[step, one], ty, &[]);
            self.store("current_step", next);
        }
    }

    /// Divides by the loss scale and adapts it; gives the flag that skips the update.
    fn unscale(&mut self, gradients: &mut [ValueId]) -> Option<ValueId> {
        if self.spec.loss_scaling == LossScaling::None {
            return None;
        }
        let cx = self.cx.clone();
        self.global("loss_scale", "buffer", &[1], None, None, 1.0);
        self.global("good", "buffer", &[1], None, None, 0.0);
        self.global("bad", "buffer", &[1], None, None, 0.0);
        let [scale, good, bad] = ["loss_scale", "good", "bad"].map(|name| self.load(name, &[1]));
        let count = cx.tensor(&[1], cx.int_type(32));
        let [good, bad] = [good, bad].map(|v| self.value("dist.cast", &[v], count, &[]));
        let flag = cx.tensor(&[1], cx.int_type(1));
        let group = ("group", cx.i64_attr(0));
        let mut flags = Vec::new();
        for gradient in gradients.iter_mut() {
            let ty = self.rewriter.ty(*gradient);
            let op = self.op(
                "dist.check_finite_and_unscale",
                &[*gradient, scale],
                &[ty, flag],
                &[group],
            );
            *gradient = self.rewriter.result(op, 0);
            flags.push(self.rewriter.result(op, 1));
        }
        let mut found = self.value("dist.any_of", &flags, flag, &[]);
        if self.spec.loss_scaling == LossScaling::Combined {
            let axes = &self.spec.all_axes();
            let number = cx.tensor(&[1], cx.int_type(32));
            found = self.value("dist.cast", &[found], number, &[]);
            found = self.all_reduce(found, "max", axes);
            found = self.value("dist.cast", &[found], flag, &[]);
        }
        let attrs = [
            group,
            ("incr_every_n_steps", cx.i64_attr(1000)),
            ("decr_every_n_nan_or_inf", cx.i64_attr(2)),
            ("incr_ratio", cx.f64_attr(2.0)),
            ("decr_ratio", cx.f64_attr(0.5)),
            ("stop_update", cx.bool_attr(false)),
        ];
        let mut state = None;
        for gradient in gradients.iter_mut().rev() {
            let ty = self.rewriter.ty(*gradient);
            let results = [ty, self.rewriter.ty(scale), count, count];
            let operands = [*gradient, found, scale, good, bad];
            let op = self.op("dist.update_loss_scaling", &operands, &results, &attrs);
            *gradient = self.rewriter.result(op, 0);
            state.get_or_insert([1, 2, 3].map(|i| self.rewriter.result(op, i)));
        }
        let [scale, good, bad] = state.expect("there are gradients");
        let [good, bad] = [good, bad].map(|v| self.cast(v, self.cx.f32()));
        for (name, value) in [("loss_scale", scale), ("good", good), ("bad", bad)] {
            self.store(name, value);
        }
        Some(found)
    }

    fn clip(&mut self, gradients: &mut [ValueId]) {
        let cx = self.cx.clone();
        match self.spec.clip {
            Clip::None => {}
            Clip::Value => {
                let attrs = [("min", cx.f64_attr(-0.01)), ("max", cx.f64_attr(0.01))];
                for gradient in gradients {
                    let ty = self.rewriter.ty(*gradient);
                    *gradient = self.value("dist.clip", &[*gradient], ty, &attrs);
                }
            }
            Clip::Norm => {
                for gradient in gradients {
                    let ty = self.rewriter.ty(*gradient);
                    let attrs = [("max_norm", cx.f64_attr(0.01))];
                    *gradient = self.value("dist.clip_by_norm", &[*gradient], ty, &attrs);
                }
            }
            Clip::GlobalStack | Clip::GlobalSum | Clip::PerRank => self.clip_globally(gradients),
        }
    }

    fn clip_globally(&mut self, gradients: &mut [ValueId]) {
        let one = self.scalar_gradient();
        let squares: Vec<_> = gradients
            .iter()
            .map(|&g| self.value("dist.squared_l2_norm", &[g], one, &[]))
            .collect();
        let per_rank = self.spec.clip == Clip::PerRank;
        let is_whole: Vec<_> = self
            .parameters
            .iter()
            .map(|p| per_rank || p.sharded.is_none())
            .collect();
        let of = |whole: bool| -> Vec<ValueId> {
            let squares = squares.iter().zip(&is_whole);
            squares.filter(|s| *s.1 == whole).map(|s| *s.0).collect()
        };
        let (whole, shares) = (of(true), of(false));
        let mut parts = Vec::new();
        if !shares.is_empty() {
            let sum = self.total(&shares);
            parts.push(self.all_reduce(sum, "sum", self.spec.tensor_axes()));
        }
        if !whole.is_empty() {
            parts.push(self.total(&whole));
        }
        let square = match parts[..] {
            [a, b] => self.value("dist.add", &[a, b], one, &[]),
            _ => parts[0],
        };
        // A stage's norm is a part of the norm.
        let square = match self.spec.stages {
            1 => square,
            _ if per_rank => square,
            _ => self.all_reduce(square, "sum", &["pp"]),
        };
        let norm = self.value("dist.sqrt", &[square], one, &[]);
        let limit = if per_rank || self.spec.within_limit {
            1e4
        } else {
            0.01
        };
        let limit = self.cx.f64_attr(limit);
        let limit = self.value("dist.fill", &[], one, &[("value", limit)]);
        let larger = self.value("dist.maximum", &[limit, norm], one, &[]);
        let factor = self.value("dist.div", &[limit, larger], one, &[]);
        for gradient in gradients {
            let ty = self.rewriter.ty(*gradient);
            *gradient = self.value("dist.mul", &[*gradient, factor], ty, &[]);
        }
    }

    /// One element of a gradient's type.
    fn scalar_gradient(&self) -> Type {
        self.cx.tensor(&[1], self.gradient_element())
    }

    /// The sum of scalars, as the clip says.
    fn total(&mut self, scalars: &[ValueId]) -> ValueId {
        let one = self.scalar_gradient();
        if self.spec.clip == Clip::GlobalSum {
            return self.value("dist.sum", scalars, one, &[]);
        }
        let ty = [scalars.len() as i64, 1];
        let ty = self.cx.tensor(&ty, self.gradient_element());
        let dim = self.cx.i64_attr(0);
        let stack = self.value("dist.stack", scalars, ty, &[("dim", dim)]);
        let attrs = [
            ("dims", self.cx.i64_array(&[0])),
            ("keep_dims", self.cx.bool_attr(false)),
        ];
        self.value("dist.reduce_sum", &[stack], one, &attrs)
    }

    fn update(&mut self, index: usize, gradient: ValueId, lr: ValueId, skip: Option<ValueId>) {
        let cx = self.cx.clone();
        let parameter = &self.parameters[index];
        let (name, shape, sharded, value) = (
            parameter.name.clone(),
            parameter.shape.clone(),
            parameter.sharded,
            parameter.value,
        );
        let mut operands = vec![value, gradient];
        let mut names = Vec::new();
        for &(state, like_parameter, init) in states(self.spec.optimizer) {
            let global = format!("{name}_{state}");
            let (shape, sharded) = if like_parameter {
                (&shape[..], sharded)
            } else {
                (&[1][..], None)
            };
            self.global(&global, "state", shape, sharded, Some(&name), init);
            operands.push(self.load(&global, shape));
            names.push(global);
        }
        let mut results: Vec<_> = operands.iter().map(|&v| self.rewriter.ty(v)).collect();
        results.remove(1);
        operands.push(lr);
        let master = (self.spec.stored == Stored::LowWithMaster).then(|| {
            let global = format!("{name}_master");
            self.global(&global, "state", &shape, sharded, Some(&name), 0.5);
            (self.load(&global, &shape), global)
        });
        let mut attrs = self.attributes(sharded.is_some());
        match self.spec.optimizer {
            Optimizer::Adamw | Optimizer::Lamb => {
                operands.extend(skip);
                let sizes = [
                    1,
                    1,
                    1,
                    1,
                    1,
                    1,
                    1,
                    i32::from(skip.is_some()),
                    i32::from(master.is_some()),
                ];
                attrs.push(("operandSegmentSizes", cx.i32_array(&sizes)));
            }
            Optimizer::Adamax => {
                results.pop();
            }
            Optimizer::DgcMomentum => {
                operands.push(self.load("current_step", &[1]));
                operands.push(self.load("nranks", &[1]));
                attrs.push(("resultSegmentSizes", cx.i32_array(&[1, 1, 0, 0])));
            }
            _ => {}
        }
        let op = match self.spec.optimizer {
            Optimizer::Sgd => "dist.sgd",
            Optimizer::Momentum => "dist.momentum",
            Optimizer::Adamw => "dist.adamw",
            Optimizer::Adamax => "dist.adamax",
            Optimizer::DecayedAdagrad => "dist.decayed_adagrad",
            Optimizer::Lamb => "dist.lamb",
            Optimizer::LarsMomentum => "dist.lars_momentum",
            Optimizer::MergedMomentum => "dist.merged_momentum",
            Optimizer::DgcMomentum => "dist.dgc_momentum",
        };
        if let Some((value, _)) = &master {
            operands.push(*value);
            results.push(self.rewriter.ty(*value));
        }
        let op = self.op(op, &operands, &results, &attrs);
        if let Some((_, global)) = &master {
            let new = self.rewriter.result(op, results.len() - 1);
            self.store(global, new);
        }
        let updated = self.rewriter.result(op, 0);
        self.store(&name, updated);
        for (index, global) in names.iter().enumerate() {
            let new = match self.spec.optimizer {
                Optimizer::Adamax if index == 2 => self.scale(operands[4], 0.9),
                _ => self.rewriter.result(op, index + 1),
            };
            self.store(global, new);
        }
    }

    /// The optimizer's attributes, for a parameter that is cut or not.
    fn attributes(&self, cut: bool) -> Vec<(&'static str, Attr)> {
        let cx = &self.cx;
        let float = |name, value| (name, cx.f64_attr(value));
        let flag = |name, value| (name, cx.bool_attr(value));
        let momentum = || {
            vec![
                float("mu", 0.9),
                flag("use_nesterov", false),
                float("l2_decay", 0.01),
                float("rescale_grad", 1.0),
            ]
        };
        let adam = || {
            vec![
                float("beta1", 0.9),
                float("beta2", 0.999),
                float("epsilon", 1e-8),
            ]
        };
        match self.spec.optimizer {
            Optimizer::Sgd => vec![],
            Optimizer::Momentum => momentum(),
            Optimizer::MergedMomentum => [momentum(), vec![("group", cx.i64_attr(0))]].concat(),
            Optimizer::DgcMomentum => [momentum(), vec![float("rampup_begin_step", 2.0)]].concat(),
            Optimizer::LarsMomentum => vec![
                ("group", cx.i64_attr(0)),
                float("mu", 0.9),
                float("lars_coeff", 0.01),
                float("lars_weight_decay", 0.02),
                float("epsilon", 1e-6),
                float("rescale_grad", 1.0),
                flag("local_norms", cut),
            ],
            Optimizer::Adamw => {
                let more = vec![
                    float("weight_decay", 0.01),
                    float("lr_ratio", 1.0),
                    flag("with_decay", true),
                ];
                [adam(), more].concat()
            }
            Optimizer::Adamax => adam(),
            Optimizer::Lamb => {
                let more = vec![
                    float("weight_decay", 0.01),
                    flag("always_adapt", false),
                    flag("local_norms", cut),
                ];
                [adam(), more].concat()
            }
            Optimizer::DecayedAdagrad => vec![float("decay", 0.95), float("epsilon", 1e-6)],
        }
    }
}

/// An optimizer's state: name, whether it has the parameter's shape, and what it starts from.
fn states(optimizer: Optimizer) -> &'static [(&'static str, bool, f64)] {
    match optimizer {
        Optimizer::Sgd => &[],
        Optimizer::Momentum
        | Optimizer::MergedMomentum
        | Optimizer::LarsMomentum
        | Optimizer::DgcMomentum => &[("velocity", true, 0.0)],
        Optimizer::Adamw | Optimizer::Lamb => &[
            ("moment1", true, 0.0),
            ("moment2", true, 0.0),
            ("beta1_pow", false, 0.9),
            ("beta2_pow", false, 0.999),
        ],
        Optimizer::Adamax => &[
            ("moment", true, 0.0),
            ("inf_norm", true, 0.0),
            ("beta1_pow", false, 0.9),
        ],
        Optimizer::DecayedAdagrad => &[("moment", true, 0.0)],
    }
}
