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
    let param = parameter(cx)?;
    let lr = cx.args.one("lr")?.item()?;
    let mu = cx.attrs.float("mu")?;
    let (decay, rescale) = (cx.attrs.float("l2_decay")?, cx.attrs.float("rescale_grad")?);
    let grad = step(param, cx.args.one("grad")?, |p, g| rescale * g + decay * p)?;
    let velocity = step(cx.args.one("velocity")?, &grad, |v, g| mu * v + g)?;
    let direction = if cx.attrs.bool("use_nesterov")? {
        grad.zip(&velocity, |g, v| g + mu * v)?
    } else {
        velocity.clone()
    };
    let new = step(param, &direction, |p, d| p - lr * d)?;
    updated(cx, new, vec![velocity])
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
    let param = parameter(cx)?;
    let grad = cx.args.one("grad")?;
    let (moment1, moment2) = (cx.args.one("moment1")?, cx.args.one("moment2")?);
    let (pow1, pow2) = (cx.args.one("beta1_pow")?, cx.args.one("beta2_pow")?);
    if let Some(skip) = cx.args.optional("skip_update")
        && skip.item()? != 0.0
    {
        let state = [moment1, moment2, pow1, pow2].map(Tensor::clone);
        let mut results = vec![cx.args.one("param")?.clone()];
        results.extend(state);
        results.extend(cx.args.optional("master").cloned());
        return Ok(results);
    }
    let lr = cx.args.one("lr")?.item()? * decay.lr_ratio;
    let (beta1, beta2) = (cx.attrs.float("beta1")?, cx.attrs.float("beta2")?);
    let (p1, p2) = (pow1.item()?, pow2.item()?);
    let correction = (1.0 - p2).sqrt();
    let epsilon = cx.attrs.float("epsilon")? * correction;
    let rate = lr * correction / (1.0 - p1);
    let m1 = step(moment1, grad, |m, g| beta1 * m + (1.0 - beta1) * g)?;
    let m2 = step(moment2, grad, |m, g| beta2 * m + (1.0 - beta2) * g * g)?;
    let quotient = m1.zip(&m2, |a, b| a / (b.sqrt() + epsilon))?;
    let keep = 1.0 - lr * decay.coefficient;
    let new = step(param, &quotient, |p, q| p * keep - rate * q)?;
    let state = vec![m1, m2, pow1.map(|p| p * beta1), pow2.map(|p| p * beta2)];
    updated(cx, new, state)
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
