//! Loss scaling and clipping, as Paddle's kernels do it.

use super::{EvalCx, Tensor};
use crate::error::Error;
use crate::tensor_type::DType;

type Results = Result<Vec<Tensor>, Error>;

pub(crate) fn check_finite_and_unscale(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let inverse = 1.0 / cx.args.one("scale")?.item()?;
    let found = x.data.iter().any(|v| !v.is_finite());
    Ok(vec![
        x.map(|v| v * inverse),
        Tensor::filled([1], DType::Bool, f64::from(found)),
    ])
}

pub(crate) fn update_loss_scaling(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let found = cx.args.one("found_inf")?.item()? != 0.0;
    let [scale, good, bad] = [
        cx.args.one("scale")?,
        cx.args.one("good")?,
        cx.args.one("bad")?,
    ];
    let out = if found { x.map(|_| 0.0) } else { x.clone() };
    let (mut s, mut g, mut b) = (scale.item()?, good.item()?, bad.item()?);
    if !cx.attrs.bool("stop_update")? {
        if found {
            (g, b) = (0.0, b + 1.0);
            if b == cx.attrs.int("decr_every_n_nan_or_inf")? as f64 {
                s = (s * cx.attrs.float("decr_ratio")?).max(1.0);
                b = 0.0;
            }
        } else {
            (g, b) = (g + 1.0, 0.0);
            if g == cx.attrs.int("incr_every_n_steps")? as f64 {
                let grown = s * cx.attrs.float("incr_ratio")?;
                if scale.dtype.round(grown).is_finite() {
                    s = grown;
                }
                g = 0.0;
            }
        }
    }
    Ok(vec![
        out,
        scale.map(|_| s),
        good.map(|_| good.dtype.wrap(g)),
        bad.map(|_| bad.dtype.wrap(b)),
    ])
}

pub(crate) fn squared_l2_norm(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let sum = x.data.iter().map(|v| v * v).sum();
    Ok(vec![Tensor::filled([1], x.dtype, sum)])
}

pub(crate) fn clip_by_norm(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let max = cx.attrs.float("max_norm")?;
    let norm = x.data.iter().map(|v| v * v).sum::<f64>().sqrt();
    if norm > max {
        Ok(vec![x.map(|v| v * (max / norm))])
    } else {
        Ok(vec![x.clone()])
    }
}
