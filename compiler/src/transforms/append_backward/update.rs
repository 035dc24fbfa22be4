//! The optimizer: one op per parameter, its state as globals, and the learning rate.

use raddle_dialect::Error;
use raddle_dialect::ir::{Context, OpId, ValueId};
use raddle_dialect::layout::Layout;
use raddle_dialect::ops::{Count, OpDef};

use super::finish::{Gradient, Training};
use super::globals::{Global, NewGlobal, Start, load, one, store};
use super::optimizers::{Rule, Setting, StateShape};
use super::program::NUMBERS;

/// What all updates share.
#[derive(Clone, Copy)]
struct Shared {
    rule: &'static Rule,
    lr: ValueId,
    /// Set if gradients overflowed.
    skip: Option<ValueId>,
    /// The number of the step, for optimizers that change with it.
    current_step: Option<ValueId>,
    /// The number of ranks by which the optimizer is to divide gradients: 1, for they are means already.
    ranks: Option<ValueId>,
}

impl Training<'_, '_, '_> {
    /// Everything from reduced gradients to stored parameters, before `at`.
    pub fn update(
        &mut self,
        at: OpId,
        mut gradients: Vec<Gradient>,
        scale: Option<Global>,
    ) -> Result<(), Error> {
        let Some(rule) = self.options.optimizer else {
            return self.keep(at, &gradients);
        };
        if gradients.is_empty() {
            return Ok(());
        }
        if self.options.master_grad {
            for gradient in &mut gradients {
                self.enter(
                    at,
                    "optimizer",
                    self.step.parameters[gradient.parameter].stage,
                );
                gradient.value = self.builder.cast(gradient.value, NUMBERS)?;
            }
        }
        let skip = match &scale {
            Some(scale) => Some(self.unscale(at, &mut gradients, scale)?),
            None => None,
        };
        self.clip(at, &mut gradients)?;
        let lr = self.number("lr", NUMBERS, self.options.hyper.lr)?;
        self.enter(at, "optimizer", None);
        let lr = load(self.builder, &lr);
        let mut shared = Shared {
            rule,
            lr,
            skip,
            current_step: None,
            ranks: None,
        };
        if definition(self.builder.cx(), rule)?
            .operand_group("current_step")
            .is_some()
        {
            self.count(at, &mut shared)?;
        }
        for gradient in gradients {
            self.culprit = self.step.parameters[gradient.parameter].global;
            self.update_one(at, gradient, shared)?;
        }
        Ok(())
    }

    /// Counts steps, from 0.
    fn count(&mut self, at: OpId, shared: &mut Shared) -> Result<(), Error> {
        let global = self.number("current_step", NUMBERS, 0.0)?;
        self.enter(at, "optimizer", None);
        let step = load(self.builder, &global);
        let next = self.builder.emit("dist.scale")?.one(step);
        let next = next.float("scale", 1.0).float("bias", 1.0).value()?;
        store(self.builder, &global.name, next);
        shared.current_step = Some(step);
        shared.ranks = Some(self.builder.fill(&[1], NUMBERS, 1.0)?);
        Ok(())
    }

    /// Without an optimizer, gradients end in buffers.
    fn keep(&mut self, at: OpId, gradients: &[Gradient]) -> Result<(), Error> {
        for gradient in gradients {
            let parameter = &self.step.parameters[gradient.parameter];
            let global = self.declare(NewGlobal {
                name: format!("{}_grad", parameter.name),
                kind: "buffer",
                ty: self.builder.ty(gradient.value)?,
                layout: parameter.layout.clone(),
                of: None,
                start: Start::Fill(0.0),
            })?;
            self.enter(at, "optimizer", parameter.stage);
            store(self.builder, &global.name, gradient.value);
        }
        Ok(())
    }

    fn update_one(&mut self, at: OpId, gradient: Gradient, shared: Shared) -> Result<(), Error> {
        let parameter = &self.step.parameters[gradient.parameter];
        let rule = shared.rule;
        let def = definition(self.builder.cx(), rule)?;
        if parameter.master && def.operand_group("master").is_none() {
            let message = format!("is narrow, but '{}' updates no f32 copy", rule.op);
            return Err(Error::op("E0625", message)
                .with_help("take another optimizer, or another level of apply-amp than o2"));
        }
        let mut states = Vec::new();
        for state in rule.states {
            let like = state.shape == StateShape::Parameter;
            let ty = match like {
                true => raddle_dialect::TensorType::new(&parameter.ty.shape[..], NUMBERS),
                false => one(NUMBERS),
            };
            let layout = match like {
                true => parameter.layout.clone(),
                false => Layout::replicated(1),
            };
            let start = Start::Fill((state.init)(&self.options.hyper));
            states.push(self.state(&parameter.name, state.name, ty, layout, start)?);
        }
        let master = match parameter.master {
            true => {
                let ty = raddle_dialect::TensorType::new(&parameter.ty.shape[..], NUMBERS);
                let start = Start::Parameter(gradient.parameter);
                let layout = parameter.layout.clone();
                Some(self.state(&parameter.name, "master", ty, layout, start)?)
            }
            false => None,
        };
        self.enter(at, "optimizer", parameter.stage);
        self.builder.loc = self.builder.rewriter.loc(parameter.global);
        let param = match self.step.microbatches {
            1 => parameter.loads[0],
            _ => load(
                self.builder,
                &Global {
                    name: parameter.name.clone(),
                    ty: parameter.ty.clone(),
                    layout: parameter.layout.clone(),
                },
            ),
        };
        let values: Vec<_> = states.iter().map(|s| load(self.builder, s)).collect();
        let master_value = master.as_ref().map(|m| load(self.builder, m));
        let mut emit = self.builder.emit(rule.op)?;
        for group in def.operands {
            let state = rule.states.iter().position(|s| s.name == group.name);
            emit = match (group.name, state) {
                (_, Some(state)) => emit.one(values[state]),
                ("param", _) => emit.one(param),
                ("grad", _) => emit.one(gradient.value),
                ("lr", _) => emit.one(shared.lr),
                ("skip_update", _) => emit.optional(shared.skip),
                ("master", _) => emit.optional(master_value),
                ("current_step", _) => emit.optional(shared.current_step),
                ("nranks", _) => emit.optional(shared.ranks),
                _ => emit.many(&[]),
            };
        }
        for (name, setting) in (rule.attrs)(&self.options.hyper, parameter.ty.rank()) {
            emit = match setting {
                Setting::Float(value) => emit.float(name, value),
                Setting::Int(value) => emit.int(name, value),
                Setting::Bool(value) => emit.bool(name, value),
            };
        }
        let wants = def.results.iter();
        let wants: Vec<_> = wants
            .map(|g| g.count == Count::One || g.name == "new_master" && parameter.master)
            .collect();
        let op = emit.wants(&wants).build().map_err(|error| {
            let message = format!("cannot be updated by '{}', which {error}", rule.op);
            let explained = Error::op(error.code(), message);
            match error.help() {
                Some(help) => explained.with_help(help),
                None => explained,
            }
        })?;
        self.put(op, "new_param", &parameter.name);
        for (index, state) in rule.states.iter().enumerate() {
            match state.advanced {
                None => self.put(op, &format!("new_{}", state.name), &states[index].name),
                Some(factor) => {
                    let factor = factor(&self.options.hyper);
                    let advanced = self.builder.scaled(values[index], factor)?;
                    store(self.builder, &states[index].name, advanced);
                }
            }
        }
        if let Some(master) = master {
            self.put(op, "new_master", &master.name);
        }
        Ok(())
    }

    /// Stores a result of an optimizer.
    fn put(&mut self, op: OpId, result: &str, global: &str) {
        if let Some(value) = self.builder.rewriter.result_in(op, result) {
            store(self.builder, global, value);
        }
    }

    fn state(
        &mut self,
        parameter: &str,
        name: &str,
        ty: raddle_dialect::TensorType,
        layout: Layout,
        start: Start,
    ) -> Result<Global, Error> {
        self.declare(NewGlobal {
            name: format!("{parameter}_{name}"),
            kind: "state",
            ty,
            layout,
            of: Some(parameter),
            start,
        })
    }
}

/// The optimizer's op.
fn definition(cx: &Context, rule: &Rule) -> Result<&'static OpDef, Error> {
    cx.op_def(cx.ident(rule.op))
        .ok_or_else(|| Error::op("E0318", format!("no op is called '{}'", rule.op)))
}
