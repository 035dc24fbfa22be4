//! Constants and random numbers. An element depends on the seed (or stream) and its position only.

use std::f64::consts::PI;

use super::{EvalCx, Tensor};
use crate::error::Error;
use crate::ops::shape::static_shape;
use crate::tensor_type::DType;

type Results = Result<Vec<Tensor>, Error>;

/// SplitMix64 (Steele, Lea and Flood, 2014): the number at a position of a stream.
pub(super) fn bits(stream: u64, position: u64) -> u64 {
    let mut z = stream.wrapping_add((position.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Uniform in [0, 1).
pub fn unit(stream: u64, position: u64) -> f64 {
    (bits(stream, position) >> 11) as f64 / (1u64 << 53) as f64
}

/// Standard normal (Box and Muller, 1958).
pub(crate) fn normal(stream: u64, position: u64) -> f64 {
    let (u, v) = (unit(stream, 2 * position), unit(stream, 2 * position + 1));
    (-2.0 * (1.0 - u).ln()).sqrt() * (2.0 * PI * v).cos()
}

fn drawn(cx: &EvalCx, number: impl Fn(u64, u64) -> f64) -> Results {
    let ty = cx.results.one("y")?;
    let seed = cx.attrs.int("seed")? as u64;
    // Mixed once, so that neighbouring seeds share no numbers.
    let stream = bits(if seed == 0 { cx.stream } else { seed }, 0);
    let y = Tensor::from_fn(static_shape(ty)?, ty.dtype, |at| number(stream, at as u64));
    Ok(vec![y])
}

pub(crate) fn fill(cx: &EvalCx) -> Results {
    let ty = cx.results.one("y")?;
    let value = cx.attrs.float("value")?;
    let value = match ty.dtype {
        d if d.is_float() => value,
        DType::Bool => f64::from(value != 0.0),
        d => d.round(value),
    };
    Ok(vec![Tensor::filled(static_shape(ty)?, ty.dtype, value)])
}

pub(crate) fn uniform(cx: &EvalCx) -> Results {
    let (min, max) = (cx.attrs.float("min")?, cx.attrs.float("max")?);
    drawn(cx, |stream, at| min + (max - min) * unit(stream, at))
}

pub(crate) fn gaussian(cx: &EvalCx) -> Results {
    let (mean, std) = (cx.attrs.float("mean")?, cx.attrs.float("std")?);
    drawn(cx, |stream, at| mean + std * normal(stream, at))
}
