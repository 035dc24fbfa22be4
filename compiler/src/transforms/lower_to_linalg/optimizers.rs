//! Optimizers and loss scaling, each a few elementwise maps with scalars broadcast.

use raddle_dialect::ir::{Type, ValueId};

use super::call::{Call, Outcome, shape_of};
use super::emit::{Emit, Reduction};

/// An update in the making: the parameter that is computed with, and the results so far.
struct Update<'c> {
    call: &'c Call,
    param: ValueId,
    grad: ValueId,
}

impl<'c> Update<'c> {
    fn new(e: &Emit, call: &'c Call) -> Result<Self, String> {
        let param = match call.optional(e, "master") {
            Some(master) => master,
            None => call.arg(e, "param")?,
        };
        Ok(Self {
            call,
            param,
            grad: call.arg(e, "grad")?,
        })
    }

    /// A new piece of state, of the state's own type, from the state, the gradient and further tensors.
    fn state(
        &self,
        e: &mut Emit,
        group: &str,
        more: &[ValueId],
        body: impl FnOnce(&mut Emit, &[ValueId]) -> ValueId,
    ) -> Result<ValueId, String> {
        let state = self.call.arg(e, group)?;
        let (shape, element) = shape_of(e, e.rewriter.ty(state));
        let inputs: Vec<_> = [state, self.grad]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        Ok(e.map(&inputs, &shape, element, |e, args| {
            let ty = e.rewriter.ty(args[0]);
            let args: Vec<_> = args.iter().map(|&a| e.convert(a, ty)).collect();
            body(e, &args)
        }))
    }

    /// `new_param`, the state, and `new_master` if there is a master copy.
    fn finish(
        &self,
        e: &mut Emit,
        inputs: &[ValueId],
        state: Vec<ValueId>,
        body: impl FnOnce(&mut Emit, &[ValueId]) -> ValueId,
    ) -> Outcome {
        let (shape, element) = shape_of(e, e.rewriter.ty(self.param));
        let inputs: Vec<_> = [self.param]
            .into_iter()
            .chain(inputs.iter().copied())
            .collect();
        let new = e.map(&inputs, &shape, element, |e, args| {
            let ty = e.rewriter.ty(args[0]);
            let args: Vec<_> = args.iter().map(|&a| e.convert(a, ty)).collect();
            body(e, &args)
        });
        let (_, stored) = self.call.result_shape(e);
        let mut results = vec![super::elementwise::store_as(e, new, stored)];
        results.extend(state);
        if self.call.optional(e, "master").is_some() {
            results.push(new);
        }
        Ok(results)
    }
}

pub(super) fn sgd(e: &mut Emit, call: &Call) -> Outcome {
    let update = Update::new(e, call)?;
    let lr = call.arg(e, "lr")?;
    update.finish(e, &[update.grad, lr], vec![], |e, args| {
        let step = e.mul(args[2], args[1]);
        e.sub(args[0], step)
    })
}

pub(super) fn momentum(e: &mut Emit, call: &Call) -> Outcome {
    momentum_of(e, Update::new(e, call)?)
}

fn momentum_of(e: &mut Emit, mut update: Update) -> Outcome {
    let call = update.call;
    let lr = call.arg(e, "lr")?;
    let mu = call.float(e, "mu")?;
    let (decay, rescale) = (call.float(e, "l2_decay")?, call.float(e, "rescale_grad")?);
    let nesterov = call.flag(e, "use_nesterov")?;
    let shape = e.shape(update.param);
    let wide = e.wide(e.element(update.param));
    update.grad = e.map(&[update.param, update.grad], &shape, wide, |e, args| {
        let grad = e.convert(args[1], wide);
        let grad = e.mul_number(grad, rescale);
        let decayed = e.mul_number(args[0], decay);
        e.add(grad, decayed)
    });
    let velocity = update.state(e, "velocity", &[], |e, args| {
        let kept = e.mul_number(args[0], mu);
        e.add(kept, args[1])
    })?;
    update.finish(
        e,
        &[velocity, update.grad, lr],
        vec![velocity],
        |e, args| {
            let direction = match nesterov {
                true => {
                    let ahead = e.mul_number(args[1], mu);
                    e.add(args[2], ahead)
                }
                false => args[1],
            };
            let step = e.mul(args[3], direction);
            e.sub(args[0], step)
        },
    )
}

/// Momentum before the rampup, plain descent after it.
pub(super) fn dgc_momentum(e: &mut Emit, call: &Call) -> Outcome {
    let mut update = Update::new(e, call)?;
    let (nranks, now) = (call.arg(e, "nranks")?, call.arg(e, "current_step")?);
    let begin = call.float(e, "rampup_begin_step")?.trunc();
    let (lr, velocity) = (call.arg(e, "lr")?, call.arg(e, "velocity")?);
    let shape = e.shape(update.param);
    let wide = e.wide(e.element(update.param));
    update.grad = e.map(&[update.grad, nranks], &shape, wide, |e, args| {
        let args: Vec<_> = args.iter().map(|&a| e.convert(a, wide)).collect();
        e.div(args[0], args[1])
    });
    let grad = update.grad;
    let plain = Update { ..update };
    let before = momentum_of(e, update)?;
    let after = plain.finish(e, &[grad, lr], vec![velocity], |e, args| {
        let step = e.mul(args[2], args[1]);
        e.sub(args[0], step)
    })?;
    let mut results = Vec::new();
    for (early, late) in before.into_iter().zip(after) {
        let (shape, element) = shape_of(e, e.rewriter.ty(early));
        results.push(e.map(&[early, late, now], &shape, element, |e, args| {
            // ⌊now⌋ < begin, both whole: now < begin.
            let begin = e.like(begin, args[2]);
            let begun = e.greater(begin, args[2]);
            e.select(begun, args[0], args[1])
        }));
    }
    if let Some(ty) = call.result(e, "new_grad") {
        let (_, element) = shape_of(e, ty);
        results.push(super::elementwise::store_as(e, grad, element));
    }
    Ok(results)
}

/// The norm of a tensor, computed wide.
fn norm(e: &mut Emit, x: ValueId) -> ValueId {
    let sum = super::reduce::squares(e, x);
    let (shape, element) = shape_of(e, e.rewriter.ty(sum));
    e.map(&[sum], &shape, element, |e, x| e.math("sqrt", x[0]))
}

/// `quotient` where both norms are positive, else `fallback`.
fn if_positive(e: &mut Emit, norms: [ValueId; 2], quotient: ValueId, fallback: ValueId) -> ValueId {
    let [a, b] = norms.map(|norm| {
        let zero = e.like(0.0, norm);
        e.greater(norm, zero)
    });
    let inner = e.select(b, quotient, fallback);
    e.select(a, inner, fallback)
}

pub(super) fn lars_momentum(e: &mut Emit, call: &Call) -> Outcome {
    let mut update = Update::new(e, call)?;
    let lr = call.arg(e, "lr")?;
    let (mu, coefficient) = (call.float(e, "mu")?, call.float(e, "lars_coeff")?);
    let decay = call.float(e, "lars_weight_decay")?;
    let (epsilon, rescale) = (call.float(e, "epsilon")?, call.float(e, "rescale_grad")?);
    let shape = e.shape(update.param);
    let wide = e.wide(e.element(update.param));
    let grad = e.map(&[update.grad], &shape, wide, |e, args| {
        let grad = e.convert(args[0], wide);
        e.mul_number(grad, rescale)
    });
    let (of_param, of_grad) = (norm(e, update.param), norm(e, grad));
    let inputs = [update.param, grad, lr, of_param, of_grad];
    // What is added to the velocity takes the gradient's place.
    update.grad = e.map(&inputs, &shape, wide, |e, args| {
        let [param, grad, lr, of_param, of_grad] =
            std::array::from_fn(|i| e.convert(args[i], wide));
        let mut rate = lr;
        if decay > 0.0 {
            let decayed = e.mul_number(of_param, decay);
            let below = e.add(of_grad, decayed);
            let below = e.add_number(below, epsilon);
            let above = e.mul_number(lr, coefficient);
            let above = e.mul(above, of_param);
            let adapted = e.div(above, below);
            rate = if_positive(e, [of_param, of_grad], adapted, lr);
        }
        let decayed = e.mul_number(param, decay);
        let direction = e.add(grad, decayed);
        e.mul(rate, direction)
    });
    let velocity = update.state(e, "velocity", &[], |e, args| {
        let kept = e.mul_number(args[0], mu);
        e.add(kept, args[1])
    })?;
    update.finish(e, &[velocity], vec![velocity], |e, args| {
        e.sub(args[0], args[1])
    })
}

pub(super) fn decayed_adagrad(e: &mut Emit, call: &Call) -> Outcome {
    let update = Update::new(e, call)?;
    let (decay, epsilon) = (call.float(e, "decay")?, call.float(e, "epsilon")?);
    let lr = call.arg(e, "lr")?;
    let moment = update.state(e, "moment", &[], mean(decay, true))?;
    let inputs = [moment, update.grad, lr];
    update.finish(e, &inputs, vec![moment], |e, args| {
        let root = e.math("sqrt", args[1]);
        let root = e.add_number(root, epsilon);
        let quotient = e.div(args[2], root);
        let step = e.mul(args[3], quotient);
        e.sub(args[0], step)
    })
}

/// A decaying mean of gradients, or of their squares.
fn mean(beta: f64, square: bool) -> impl FnOnce(&mut Emit, &[ValueId]) -> ValueId {
    move |e, args| {
        let kept = e.mul_number(args[0], beta);
        let grad = if square {
            e.mul(args[1], args[1])
        } else {
            args[1]
        };
        let new = e.mul_number(grad, 1.0 - beta);
        e.add(kept, new)
    }
}

/// The moments after a step, and the powers of β₁ and β₂ after it.
fn adam_state(e: &mut Emit, update: &Update) -> Result<Vec<ValueId>, String> {
    let call = update.call;
    let (beta1, beta2) = (call.float(e, "beta1")?, call.float(e, "beta2")?);
    let (pow1, pow2) = (call.arg(e, "beta1_pow")?, call.arg(e, "beta2_pow")?);
    let m1 = update.state(e, "moment1", &[], mean(beta1, false))?;
    let m2 = update.state(e, "moment2", &[], mean(beta2, true))?;
    let mut state = vec![m1, m2];
    for (pow, beta) in [(pow1, beta1), (pow2, beta2)] {
        let (shape, element) = shape_of(e, e.rewriter.ty(pow));
        state.push(e.map(&[pow], &shape, element, |e, x| e.mul_number(x[0], beta)));
    }
    Ok(state)
}

/// What came in, where `skip_update` is set.
fn unless_skipped(e: &mut Emit, call: &Call, mut results: Vec<ValueId>) -> Outcome {
    let Some(skip) = call.optional(e, "skip_update") else {
        return Ok(results);
    };
    let groups = [
        "param",
        "moment1",
        "moment2",
        "beta1_pow",
        "beta2_pow",
        "master",
    ];
    let old: Vec<_> = groups.iter().filter_map(|g| call.optional(e, g)).collect();
    for (new, old) in results.iter_mut().zip(old) {
        let (shape, element) = shape_of(e, e.rewriter.ty(*new));
        *new = e.map(&[*new, old, skip], &shape, element, |e, args| {
            e.select(args[2], args[1], args[0])
        });
    }
    Ok(results)
}

pub(super) fn lamb(e: &mut Emit, call: &Call) -> Outcome {
    let update = Update::new(e, call)?;
    let (epsilon, decay) = (call.float(e, "epsilon")?, call.float(e, "weight_decay")?);
    let adapts = decay > 0.0 || call.flag(e, "always_adapt")?;
    let (pow1, pow2) = (call.arg(e, "beta1_pow")?, call.arg(e, "beta2_pow")?);
    let lr = call.arg(e, "lr")?;
    let state = adam_state(e, &update)?;
    let shape = e.shape(update.param);
    let wide = e.wide(e.element(update.param));
    let inputs = [state[0], state[1], pow1, pow2, update.param];
    let direction = e.map(&inputs, &shape, wide, |e, args| {
        let [m1, m2, p1, p2, param] = std::array::from_fn(|i| e.convert(args[i], wide));
        let one = e.like(1.0, param);
        let (rest1, rest2) = (e.sub(one, p1), e.sub(one, p2));
        let mean = e.div(m1, rest1);
        let square = e.div(m2, rest2);
        let root = e.math("sqrt", square);
        let root = e.add_number(root, epsilon);
        let quotient = e.div(mean, root);
        let decayed = e.mul_number(param, decay);
        e.add(quotient, decayed)
    });
    let (of_param, of_direction) = (norm(e, update.param), norm(e, direction));
    let inputs = [direction, lr, of_param, of_direction];
    let results = update.finish(e, &inputs, state, |e, args| {
        let mut rate = args[2];
        if adapts {
            let trust = e.div(args[3], args[4]);
            let one = e.like(1.0, trust);
            let trust = if_positive(e, [args[3], args[4]], trust, one);
            rate = e.mul(rate, trust);
        }
        let step = e.mul(rate, args[1]);
        e.sub(args[0], step)
    })?;
    unless_skipped(e, call, results)
}

/// `dist.adam`, and `dist.adamw` with its decay.
pub(super) fn adam(e: &mut Emit, call: &Call, decoupled: bool) -> Outcome {
    let update = Update::new(e, call)?;
    let epsilon = call.float(e, "epsilon")?;
    let (decay, ratio) = match decoupled && call.flag(e, "with_decay")? {
        true => (call.float(e, "weight_decay")?, call.float(e, "lr_ratio")?),
        false => (0.0, 1.0),
    };
    let (pow1, pow2) = (call.arg(e, "beta1_pow")?, call.arg(e, "beta2_pow")?);
    let lr = call.arg(e, "lr")?;
    let state = adam_state(e, &update)?;
    let (m1, m2) = (state[0], state[1]);
    let results = update.finish(e, &[m1, m2, pow1, pow2, lr], state, |e, args| {
        let [param, m1, m2, p1, p2, lr] = args[..] else {
            return args[0];
        };
        let one = e.like(1.0, param);
        let rest2 = e.sub(one, p2);
        let correction = e.math("sqrt", rest2);
        let lr = e.mul_number(lr, ratio);
        let rest1 = e.sub(one, p1);
        let rate = e.mul(lr, correction);
        let rate = e.div(rate, rest1);
        let root = e.math("sqrt", m2);
        let floor = e.mul_number(correction, epsilon);
        let root = e.add(root, floor);
        let quotient = e.div(m1, root);
        let step = e.mul(rate, quotient);
        let shrink = e.mul_number(lr, decay);
        let keep = e.sub(one, shrink);
        let kept = e.mul(param, keep);
        e.sub(kept, step)
    })?;
    unless_skipped(e, call, results)
}

pub(super) fn adamax(e: &mut Emit, call: &Call) -> Outcome {
    let update = Update::new(e, call)?;
    let (beta1, beta2) = (call.float(e, "beta1")?, call.float(e, "beta2")?);
    let epsilon = call.float(e, "epsilon")?;
    let (pow, lr) = (call.arg(e, "beta1_pow")?, call.arg(e, "lr")?);
    let moment = update.state(e, "moment", &[], |e, args| {
        let kept = e.mul_number(args[0], beta1);
        let new = e.mul_number(args[1], 1.0 - beta1);
        e.add(kept, new)
    })?;
    let norm = update.state(e, "inf_norm", &[], |e, args| {
        let kept = e.mul_number(args[0], beta2);
        let kept = e.add_number(kept, epsilon);
        let size = e.math("absf", args[1]);
        e.max(kept, size)
    })?;
    update.finish(
        e,
        &[moment, norm, pow, lr],
        vec![moment, norm],
        |e, args| {
            let one = e.like(1.0, args[0]);
            let rest = e.sub(one, args[3]);
            let rate = e.div(args[4], rest);
            let quotient = e.div(args[1], args[2]);
            let step = e.mul(rate, quotient);
            e.sub(args[0], step)
        },
    )
}

pub(super) fn check_finite_and_unscale(e: &mut Emit, call: &Call) -> Outcome {
    let (x, scale) = (call.arg(e, "x")?, call.arg(e, "scale")?);
    let (shape, element) = shape_of(e, e.rewriter.ty(x));
    let out = e.map(&[x, scale], &shape, element, |e, args| {
        let ty = e.rewriter.ty(args[0]);
        let scale = e.convert(args[1], ty);
        e.div(args[0], scale)
    });
    let input = e.aligned(x, &shape);
    let flag = e.cx.int_type(1);
    let found = e.einsum_to(&[input], &shape, &[], Reduction::Any, flag, |e, x| {
        e.not_finite(x[0])
    });
    Ok(vec![out, e.reshape(found, &[1])])
}

pub(super) fn update_loss_scaling(e: &mut Emit, call: &Call) -> Outcome {
    let (x, found) = (call.arg(e, "x")?, call.arg(e, "found_inf")?);
    let (scale, good, bad) = (
        call.arg(e, "scale")?,
        call.arg(e, "good")?,
        call.arg(e, "bad")?,
    );
    let (shape, element) = shape_of(e, e.rewriter.ty(x));
    let out = e.map(&[x, found], &shape, element, |e, args| {
        let zero = e.like(0.0, args[0]);
        e.select(args[1], zero, args[0])
    });
    if call.flag(e, "stop_update")? {
        return Ok(vec![out, scale, good, bad]);
    }
    let rules = Scaling {
        inputs: [found, scale, good, bad],
        grow_after: call.int(e, "incr_every_n_steps")? as f64,
        shrink_after: call.int(e, "decr_every_n_nan_or_inf")? as f64,
        grow: call.float(e, "incr_ratio")?,
        shrink: call.float(e, "decr_ratio")?,
    };
    let types = [scale, good, bad].map(|v| e.rewriter.ty(v));
    let [scale, good, bad] = [0, 1, 2].map(|which| rules.next(e, which, types[which]));
    Ok(vec![out, scale, good, bad])
}

/// The state machine of dynamic loss scaling.
struct Scaling {
    inputs: [ValueId; 4],
    grow_after: f64,
    shrink_after: f64,
    grow: f64,
    shrink: f64,
}

impl Scaling {
    /// The next scale (0), count of good steps (1) or of bad steps (2).
    fn next(&self, e: &mut Emit, which: usize, ty: Type) -> ValueId {
        let (shape, element) = shape_of(e, ty);
        e.map(&self.inputs, &shape, element, |e, args| {
            let [found, scale, good, bad] = [args[0], args[1], args[2], args[3]];
            let (more_good, more_bad) = (e.add_number(good, 1.0), e.add_number(bad, 1.0));
            let limit = e.like(self.grow_after, good);
            let grows = e.equal_ints(more_good, limit);
            let limit = e.like(self.shrink_after, bad);
            let shrinks = e.equal_ints(more_bad, limit);
            match which {
                0 => {
                    let grown = e.mul_number(scale, self.grow);
                    let overflow = e.not_finite(grown);
                    let grown = e.select(overflow, scale, grown);
                    let grown = e.select(grows, grown, scale);
                    let shrunk = e.mul_number(scale, self.shrink);
                    let one = e.like(1.0, scale);
                    let shrunk = e.max(shrunk, one);
                    let shrunk = e.select(shrinks, shrunk, scale);
                    e.select(found, shrunk, grown)
                }
                1 => {
                    let zero = e.like(0.0, good);
                    let counted = e.select(grows, zero, more_good);
                    e.select(found, zero, counted)
                }
                _ => {
                    let zero = e.like(0.0, bad);
                    let counted = e.select(shrinks, zero, more_bad);
                    e.select(found, counted, zero)
                }
            }
        })
    }
}
