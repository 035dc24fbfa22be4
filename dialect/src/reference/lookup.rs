//! Tables of vectors.

use super::softmax::group_index;
use super::{EvalCx, Tensor};
use crate::error::Error;
use crate::ops::shape::static_shape;

type Results = Result<Vec<Tensor>, Error>;

/// For each id the row of this rank's piece that it names, if it is there.
fn own_rows(cx: &EvalCx, rows: usize) -> Result<Vec<Option<usize>>, Error> {
    let (index, size) = group_index(cx)?;
    let row = |&id: &f64| {
        if id < 0.0 || id >= (rows * size) as f64 {
            let message = format!("looks up {id}, but the table has {} rows", rows * size);
            return Err(Error::op("E0350", message));
        }
        let row = (id as usize).checked_sub(index * rows);
        Ok(row.filter(|&r| r < rows))
    };
    cx.args.one("ids")?.data.iter().map(row).collect()
}

pub(crate) fn embedding(cx: &EvalCx) -> Results {
    let (ids, table) = (cx.args.one("ids")?, cx.args.one("table")?);
    let features = table.shape[1];
    let mut out = Vec::with_capacity(ids.len() * features);
    for row in own_rows(cx, table.shape[0])? {
        match row {
            Some(row) => out.extend_from_slice(&table.data[row * features..(row + 1) * features]),
            None => out.extend(std::iter::repeat_n(0.0, features)),
        }
    }
    let mut shape = ids.shape.clone();
    shape.push(features);
    Ok(vec![Tensor::new(shape, table.dtype, out)])
}

pub(crate) fn embedding_grad(cx: &EvalCx) -> Results {
    let dout = cx.args.one("dout")?;
    let ty = cx.results.one("dtable")?;
    let shape = static_shape(ty)?;
    let features = shape[1];
    let mut dtable = vec![0.0; shape.iter().product()];
    for (position, row) in own_rows(cx, shape[0])?.into_iter().enumerate() {
        let Some(row) = row else {
            continue;
        };
        for f in 0..features {
            dtable[row * features + f] += dout.data[position * features + f];
        }
    }
    Ok(vec![Tensor::new(shape, ty.dtype, dtable)])
}
