//! Dropout, and the masks that it shares with attention.

use super::random::{bits, unit};
use super::softmax::group_index;
use super::{EvalCx, Tensor};
use crate::error::Error;
use crate::tensor_type::DType;

type Results = Result<Vec<Tensor>, Error>;

/// A mask that is counted out.
pub(super) struct Mask {
    stream: u64,
    rate: f64,
}

impl Mask {
    /// The mask of an op with `seed` and `axes` that drops with this probability.
    pub fn of(cx: &EvalCx, rate: f64) -> Result<Self, Error> {
        let (index, _) = group_index(cx)?;
        let numbers = [cx.attrs.int("seed")? as u64, cx.microbatch, index as u64];
        let stream = numbers.into_iter().fold(0, |s, n| bits(s ^ n, n));
        Ok(Self { stream, rate })
    }

    /// Whether the element at a position stays.
    pub fn keeps(&self, position: usize) -> bool {
        unit(self.stream, position as u64) >= self.rate
    }

    /// What an element at a position is multiplied by.
    pub fn factor(&self, position: usize) -> f64 {
        match self.keeps(position) {
            true => 1.0 / (1.0 - self.rate),
            false => 0.0,
        }
    }
}

pub(crate) fn dropout(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let mask = Mask::of(cx, cx.attrs.float("rate")?)?;
    let out = Tensor::from_fn(x.shape.clone(), x.dtype, |at| match mask.keeps(at) {
        true => x.data[at] * mask.factor(at),
        false => 0.0,
    });
    let kept = Tensor::from_fn(x.shape.clone(), DType::Bool, |at| f64::from(mask.keeps(at)));
    Ok(vec![out, kept])
}

pub(crate) fn dropout_grad(cx: &EvalCx) -> Results {
    let (dout, mask) = (cx.args.one("dout")?, cx.args.one("mask")?);
    let factor = 1.0 / (1.0 - cx.attrs.float("rate")?);
    let dx = dout.zip(mask, |d, kept| if kept == 0.0 { 0.0 } else { d * factor })?;
    Ok(vec![dx])
}
