//! Moving elements: transposes, pieces, and putting pieces together.

use raddle_dialect::ir::{DYNAMIC, ValueId};

use super::call::{Call, Outcome};
use super::collectives;
use super::elementwise::store_as;
use super::emit::{Emit, Input};

pub(super) fn reshape(e: &mut Emit, call: &Call) -> Outcome {
    let (shape, _) = call.result_shape(e);
    Ok(vec![e.reshape(call.arg(e, "x")?, &shape)])
}

pub(super) fn transpose(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let perm = call.ints(e, "perm")?;
    let (shape, element) = call.result_shape(e);
    let labels = (0..perm.len()).map(|dim| perm.iter().position(|&p| p as usize == dim));
    let input = Input {
        value: x,
        labels: labels.collect(),
    };
    Ok(vec![e.map_inputs(&[input], &shape, element, |_, x| x[0])])
}

/// Where the window of a slice of this shape begins: a number per dimension or, with [`DYNAMIC`], the next of the values.
fn window(e: &mut Emit, call: &Call, sizes: &[i64]) -> Result<(Vec<i64>, Vec<ValueId>), String> {
    let (dims, starts) = (call.ints(e, "dims")?, call.ints(e, "starts")?);
    let lists = e.rewriter.attr(call.op, "axes");
    let lists = lists
        .and_then(|a| e.cx.as_array(a))
        .unwrap_or_default()
        .to_vec();
    let mut offsets = vec![0; sizes.len()];
    let mut dynamic = vec![None; sizes.len()];
    for (at, (&dim, &start)) in dims.iter().zip(&starts).enumerate() {
        let dim = dim as usize;
        offsets[dim] = start;
        let axes = lists
            .get(at)
            .and_then(|&a| e.cx.as_string_array(a))
            .unwrap_or_default();
        let axes: Vec<String> = axes.iter().map(|a| a.to_string()).collect();
        if axes.is_empty() {
            continue;
        }
        let coordinate = collectives::coordinate(e, &axes);
        let shift = e.mul_number(coordinate, sizes[dim] as f64);
        dynamic[dim] = Some(e.add_number(shift, start as f64));
        offsets[dim] = DYNAMIC;
    }
    Ok((offsets, dynamic.into_iter().flatten().collect()))
}

/// Keeps `sizes[i]` of `dims[i]`, from `starts[i]` plus the rank's coordinate on `axes[i]` times the size.
pub(super) fn slice(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let (sizes, _) = call.result_shape(e);
    let (offsets, dynamic) = window(e, call, &sizes)?;
    Ok(vec![e.extract(x, &offsets, &dynamic, &sizes)])
}

/// The window put back among zeros.
pub(super) fn slice_grad(e: &mut Emit, call: &Call) -> Outcome {
    let dout = call.arg(e, "dout")?;
    let sizes = e.shape(dout);
    let (offsets, dynamic) = window(e, call, &sizes)?;
    let (shape, element) = call.result_shape(e);
    let wide = e.wide(element);
    let zeros = e.splat(0.0, &shape, wide);
    let zeros = store_as(e, zeros, element);
    Ok(vec![e.insert_at(dout, zeros, (&offsets, &dynamic), &sizes)])
}

pub(super) fn split(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let dim = call.int(e, "dim")? as usize;
    let (sizes, _) = call.result_shape(e);
    let count = e.rewriter.num_results(call.op);
    Ok((0..count as i64)
        .map(|at| {
            let mut offsets = vec![0; sizes.len()];
            offsets[dim] = at * sizes[dim];
            e.extract(x, &offsets, &[], &sizes)
        })
        .collect())
}

/// `dist.concat`, `dist.concat_pair` and `dist.stack`: each operand goes behind the one before along `dim`.
pub(super) fn join(e: &mut Emit, call: &Call, new_dim: bool) -> Outcome {
    let dim = call.int(e, "dim")? as usize;
    let (shape, element) = call.result_shape(e);
    let ty = e.cx.tensor(&shape, element);
    let mut whole = e.op("tensor.empty", &[], &[ty], &[]);
    let mut at = 0;
    for &piece in &call.args {
        let mut sizes = shape.clone();
        sizes[dim] = if new_dim { 1 } else { e.shape(piece)[dim] };
        let piece = e.reshape(piece, &sizes);
        let mut offsets = vec![0; shape.len()];
        offsets[dim] = at;
        whole = e.insert(piece, whole, &offsets, &sizes);
        at += sizes[dim];
    }
    Ok(vec![whole])
}
