//! Optimizers, as Paddle's kernels do it.

use super::{EvalCx, Tensor};
use crate::error::Error;

type Results = Result<Vec<Tensor>, Error>;

/// The parameter to compute with: the master copy if there is one.
fn parameter<'a>(cx: &EvalCx<'a>) -> Result<&'a Tensor, Error> {
    match cx.args.optional("master") {
        Some(master) => Ok(master),
        None => cx.args.one("param"),
    }
}

/// `new_param`, then `state`, then `new_master`.
fn updated(cx: &EvalCx, new: Tensor, state: Vec<Tensor>) -> Results {
    let mut results = vec![new.with_dtype(cx.args.one("param")?.dtype)];
    results.extend(state);
    if let Some(master) = cx.args.optional("master") {
        results.push(new.with_dtype(master.dtype));
    }
    Ok(results)
}

/// A gradient in the element type of the state that it goes into.
fn step(state: &Tensor, grad: &Tensor, f: impl Fn(f64, f64) -> f64) -> Result<Tensor, Error> {
    state.zip(grad, f)
}

pub(crate) fn sgd(cx: &EvalCx) -> Results {
    let lr = cx.args.one("lr")?.item()?;
    let new = step(parameter(cx)?, cx.args.one("grad")?, |p, g| p - lr * g)?;
    updated(cx, new, vec![])
}

pub(crate) fn momentum(cx: &EvalCx) -> Results {
    momentum_with(cx, cx.args.one("grad")?)
}

fn momentum_with(cx: &EvalCx, grad: &Tensor) -> Results {
    let param = parameter(cx)?;
    let lr = cx.args.one("lr")?.item()?;
    let mu = cx.attrs.float("mu")?;
    let (decay, rescale) = (cx.attrs.float("l2_decay")?, cx.attrs.float("rescale_grad")?);
    let grad = step(param, grad, |p, g| rescale * g + decay * p)?;
    let velocity = step(cx.args.one("velocity")?, &grad, |v, g| mu * v + g)?;
    let direction = if cx.attrs.bool("use_nesterov")? {
        grad.zip(&velocity, |g, v| g + mu * v)?
    } else {
        velocity.clone()
    };
    let new = step(param, &direction, |p, d| p - lr * d)?;
    updated(cx, new, vec![velocity])
}

/// Before the rampup momentum, then plain descent, both with the mean gradient of the ranks.
pub(crate) fn dgc_momentum(cx: &EvalCx) -> Results {
    let nranks = cx.args.one("nranks")?.item()?;
    let grad = cx.args.one("grad")?.map(|g| g / nranks);
    let now = cx.args.one("current_step")?.item()?.trunc();
    let mut results = if now < cx.attrs.float("rampup_begin_step")?.trunc() {
        momentum_with(cx, &grad)?
    } else {
        let lr = cx.args.one("lr")?.item()?;
        let new = step(parameter(cx)?, &grad, |p, g| p - lr * g)?;
        updated(cx, new, vec![cx.args.one("velocity")?.clone()])?
    };
    if cx.results.has("new_grad") {
        results.push(grad);
    }
    Ok(results)
}

fn norm(x: &Tensor) -> f64 {
    x.data.iter().map(|v| v * v).sum::<f64>().sqrt()
}

pub(crate) fn lars_momentum(cx: &EvalCx) -> Results {
    let param = parameter(cx)?;
    let lr = cx.args.one("lr")?.item()?;
    let (mu, coefficient) = (cx.attrs.float("mu")?, cx.attrs.float("lars_coeff")?);
    let decay = cx.attrs.float("lars_weight_decay")?;
    let (epsilon, rescale) = (cx.attrs.float("epsilon")?, cx.attrs.float("rescale_grad")?);
    let grad = cx.args.one("grad")?.map(|g| rescale * g);
    let (of_param, of_grad) = (norm(param), norm(&grad));
    let rate = if decay > 0.0 && of_param > 0.0 && of_grad > 0.0 {
        lr * coefficient * of_param / (of_grad + decay * of_param + epsilon)
    } else {
        lr
    };
    let direction = step(param, &grad, |p, g| rate * (g + decay * p))?;
    let velocity = step(cx.args.one("velocity")?, &direction, |v, d| mu * v + d)?;
    let new = step(param, &velocity, |p, v| p - v)?;
    updated(cx, new, vec![velocity])
}

pub(crate) fn decayed_adagrad(cx: &EvalCx) -> Results {
    let grad = cx.args.one("grad")?;
    let lr = cx.args.one("lr")?.item()?;
    let (decay, epsilon) = (cx.attrs.float("decay")?, cx.attrs.float("epsilon")?);
    let moment = step(cx.args.one("moment")?, grad, |m, g| {
        decay * m + (1.0 - decay) * g * g
    })?;
    let quotient = moment.zip(grad, |m, g| g / (m.sqrt() + epsilon))?;
    let new = step(parameter(cx)?, &quotient, |p, q| p - lr * q)?;
    updated(cx, new, vec![moment])
}

/// What goes in comes out, if the update is to be skipped.
fn skipped(cx: &EvalCx) -> Result<Option<Vec<Tensor>>, Error> {
    match cx.args.optional("skip_update") {
        Some(skip) if skip.item()? != 0.0 => {}
        _ => return Ok(None),
    }
    let state = ["param", "moment1", "moment2", "beta1_pow", "beta2_pow"];
    let mut results = Vec::new();
    for name in state {
        results.push(cx.args.one(name)?.clone());
    }
    results.extend(cx.args.optional("master").cloned());
    Ok(Some(results))
}

/// The moments after a gradient.
fn moments(cx: &EvalCx) -> Result<(Tensor, Tensor), Error> {
    let grad = cx.args.one("grad")?;
    let (beta1, beta2) = (cx.attrs.float("beta1")?, cx.attrs.float("beta2")?);
    let m1 = step(cx.args.one("moment1")?, grad, |m, g| {
        beta1 * m + (1.0 - beta1) * g
    })?;
    let m2 = step(cx.args.one("moment2")?, grad, |m, g| {
        beta2 * m + (1.0 - beta2) * g * g
    })?;
    Ok((m1, m2))
}

/// The powers of β₁ and β₂ after a step.
fn advanced(cx: &EvalCx) -> Result<[Tensor; 2], Error> {
    let (beta1, beta2) = (cx.attrs.float("beta1")?, cx.attrs.float("beta2")?);
    let (pow1, pow2) = (cx.args.one("beta1_pow")?, cx.args.one("beta2_pow")?);
    Ok([pow1.map(|p| p * beta1), pow2.map(|p| p * beta2)])
}

pub(crate) fn lamb(cx: &EvalCx) -> Results {
    if let Some(unchanged) = skipped(cx)? {
        return Ok(unchanged);
    }
    let param = parameter(cx)?;
    let lr = cx.args.one("lr")?.item()?;
    let (epsilon, decay) = (cx.attrs.float("epsilon")?, cx.attrs.float("weight_decay")?);
    let rest1 = 1.0 - cx.args.one("beta1_pow")?.item()?;
    let rest2 = 1.0 - cx.args.one("beta2_pow")?.item()?;
    let (m1, m2) = moments(cx)?;
    let adam = m1.zip(&m2, |a, b| a / rest1 / ((b / rest2).sqrt() + epsilon))?;
    let direction = adam.zip(param, |r, p| r + decay * p)?;
    let (of_param, of_direction) = (norm(param), norm(&direction));
    let adapts = decay > 0.0 || cx.attrs.bool("always_adapt")?;
    let trust = if adapts && of_param > 0.0 && of_direction > 0.0 {
        of_param / of_direction
    } else {
        1.0
    };
    let new = step(param, &direction, |p, r| p - lr * trust * r)?;
    let [pow1, pow2] = advanced(cx)?;
    updated(cx, new, vec![m1, m2, pow1, pow2])
}

/// The part that decay takes of the parameter, and the factor on the learning rate.
struct Decay {
    coefficient: f64,
    lr_ratio: f64,
}

pub(crate) fn adam(cx: &EvalCx) -> Results {
    let decay = Decay {
        coefficient: 0.0,
        lr_ratio: 1.0,
    };
    adam_with(cx, &decay)
}

pub(crate) fn adamw(cx: &EvalCx) -> Results {
    if !cx.attrs.bool("with_decay")? {
        return adam(cx);
    }
    let decay = Decay {
        coefficient: cx.attrs.float("weight_decay")?,
        lr_ratio: cx.attrs.float("lr_ratio")?,
    };
    adam_with(cx, &decay)
}

fn adam_with(cx: &EvalCx, decay: &Decay) -> Results {
    if let Some(unchanged) = skipped(cx)? {
        return Ok(unchanged);
    }
    let lr = cx.args.one("lr")?.item()? * decay.lr_ratio;
    let p1 = cx.args.one("beta1_pow")?.item()?;
    let p2 = cx.args.one("beta2_pow")?.item()?;
    let correction = (1.0 - p2).sqrt();
    let epsilon = cx.attrs.float("epsilon")? * correction;
    let rate = lr * correction / (1.0 - p1);
    let (m1, m2) = moments(cx)?;
    let quotient = m1.zip(&m2, |a, b| a / (b.sqrt() + epsilon))?;
    let keep = 1.0 - lr * decay.coefficient;
    let new = step(parameter(cx)?, &quotient, |p, q| p * keep - rate * q)?;
    let [pow1, pow2] = advanced(cx)?;
    updated(cx, new, vec![m1, m2, pow1, pow2])
}

pub(crate) fn adamax(cx: &EvalCx) -> Results {
    let param = parameter(cx)?;
    let grad = cx.args.one("grad")?;
    let (beta1, beta2) = (cx.attrs.float("beta1")?, cx.attrs.float("beta2")?);
    let epsilon = cx.attrs.float("epsilon")?;
    let rate = cx.args.one("lr")?.item()? / (1.0 - cx.args.one("beta1_pow")?.item()?);
    let moment = step(cx.args.one("moment")?, grad, |m, g| {
        beta1 * m + (1.0 - beta1) * g
    })?;
    let norm = step(cx.args.one("inf_norm")?, grad, |u, g| {
        (beta2 * u + epsilon).max(g.abs())
    })?;
    let quotient = moment.zip(&norm, |m, u| m / u)?;
    let new = step(param, &quotient, |p, q| p - rate * q)?;
    updated(cx, new, vec![moment, norm])
}
