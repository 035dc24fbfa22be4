//! Softmax and the cross entropy of it.

use super::{CombineCx, EvalCx, Tensor};
use crate::error::Error;
use crate::ops::normalisation::statistics_dtype;
use crate::ops::shape::dimension;

type Results = Result<Vec<Tensor>, Error>;

/// Calls `f` with the positions of the elements of each line along a dimension.
fn lines(shape: &[usize], dim: usize, mut f: impl FnMut(&[usize])) {
    let stride: usize = shape[dim + 1..].iter().product();
    let outer: usize = shape[..dim].iter().product();
    for block in 0..outer {
        for offset in 0..stride {
            let first = block * shape[dim] * stride + offset;
            let line: Vec<usize> = (0..shape[dim]).map(|i| first + i * stride).collect();
            f(&line);
        }
    }
}

pub(crate) fn softmax(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let dim = dimension(cx.attrs, "dim", x.rank())?;
    let mut y = x.data.to_vec();
    lines(&x.shape, dim, |line| {
        let max = line.iter().fold(f64::NEG_INFINITY, |m, &i| m.max(y[i]));
        let sum: f64 = line.iter().map(|&i| (y[i] - max).exp()).sum();
        for &i in line {
            y[i] = (y[i] - max).exp() / sum;
        }
    });
    Ok(vec![Tensor::new(x.shape.clone(), x.dtype, y)])
}

pub(crate) fn softmax_grad(cx: &EvalCx) -> Results {
    let (y, dy) = (cx.args.one("y")?, cx.args.one("dy")?);
    let dim = dimension(cx.attrs, "dim", y.rank())?;
    let mut dx = vec![0.0; y.len()];
    lines(&y.shape, dim, |line| {
        let sum: f64 = line.iter().map(|&i| dy.data[i] * y.data[i]).sum();
        for &i in line {
            dx[i] = y.data[i] * (dy.data[i] - sum);
        }
    });
    Ok(vec![Tensor::new(y.shape.clone(), y.dtype, dx)])
}

/// What a label points to.
enum Target {
    /// A row of the whole vocabulary.
    Word(usize),
    /// Nothing: the position does not count.
    Ignored,
}

fn target(label: f64, ignored: i64, vocabulary: usize) -> Result<Target, Error> {
    if label == ignored as f64 {
        return Ok(Target::Ignored);
    }
    if label >= 0.0 && label < vocabulary as f64 {
        return Ok(Target::Word(label as usize));
    }
    Err(Error::op(
        "E0350",
        format!("has the label {label}, which is not in the vocabulary of {vocabulary}"),
    ))
}

/// Rank i of the group has piece i of the vocabulary.
pub(crate) fn cross_entropy(cx: &CombineCx) -> Result<Vec<Vec<Tensor>>, Error> {
    let ignored = cx.attrs.int("ignore_index")?;
    let pieces: Vec<&Tensor> = cx.inputs.iter().map(|i| &i[0]).collect();
    let first = pieces[0];
    let width = first.shape[first.rank() - 1];
    let vocabulary = width * pieces.len();
    let positions = &first.shape[..first.rank() - 1];
    let mut results = Vec::with_capacity(pieces.len());
    let mut softmax: Vec<Vec<f64>> = vec![Vec::with_capacity(first.len()); pieces.len()];
    let mut sums = Vec::new();
    for row in 0..positions.iter().product() {
        let logits = |piece: &Tensor| piece.data[row * width..(row + 1) * width].to_vec();
        let row: Vec<Vec<f64>> = pieces.iter().map(|&p| logits(p)).collect();
        let max = row
            .iter()
            .flatten()
            .fold(f64::NEG_INFINITY, |m, &x| m.max(x));
        let sum: f64 = row.iter().flatten().map(|x| (x - max).exp()).sum();
        for (softmax, piece) in softmax.iter_mut().zip(&row) {
            softmax.extend(piece.iter().map(|x| (x - max).exp() / sum));
        }
        sums.push((max, sum));
    }
    for (rank, softmax) in softmax.into_iter().enumerate() {
        let labels = &cx.inputs[rank][1];
        let mut loss = Vec::with_capacity(labels.len());
        for (row, &label) in labels.data.iter().enumerate() {
            let (max, sum) = sums[row];
            loss.push(match target(label, ignored, vocabulary)? {
                Target::Ignored => 0.0,
                Target::Word(word) => {
                    let logit = pieces[word / width].data[row * width + word % width];
                    sum.ln() + max - logit
                }
            });
        }
        results.push(vec![
            Tensor::new(positions, statistics_dtype(first.dtype), loss),
            Tensor::new(first.shape.clone(), first.dtype, softmax),
        ]);
    }
    Ok(results)
}

/// A group of one rank.
pub(crate) fn cross_entropy_alone(cx: &EvalCx) -> Results {
    if !cx.attrs.strings("axes")?.is_empty() {
        return Err(Error::op("E0350", "cannot be evaluated on one rank alone"));
    }
    let inputs = [cx.args.all().to_vec()];
    let mut results = cross_entropy(&CombineCx {
        inputs: &inputs,
        attrs: cx.attrs,
    })?;
    Ok(results.swap_remove(0))
}

/// The rank's index in the group over the attribute `axes`, and the group's size.
pub(crate) fn group_index(cx: &EvalCx) -> Result<(usize, usize), Error> {
    let names = cx.attrs.strings("axes")?;
    if names.is_empty() {
        return Ok((0, 1));
    }
    let place = cx.place.ok_or(Error::NoMesh)?;
    let axes = place.mesh.axis_set(&names)?;
    let index = place.mesh.index_in_group(place.coordinate, &axes);
    Ok((index, place.mesh.group_size(&axes)))
}

pub(crate) fn cross_entropy_grad(cx: &EvalCx) -> Results {
    let (softmax, labels) = (cx.args.one("softmax")?, cx.args.one("labels")?);
    let dloss = cx.args.one("dloss")?;
    let ignored = cx.attrs.int("ignore_index")?;
    let (index, size) = group_index(cx)?;
    let width = softmax.shape[softmax.rank() - 1];
    let mut dlogits = softmax.data.to_vec();
    for (row, (&label, &d)) in labels.data.iter().zip(dloss.data.iter()).enumerate() {
        let line = &mut dlogits[row * width..(row + 1) * width];
        match target(label, ignored, width * size)? {
            Target::Ignored => line.fill(0.0),
            Target::Word(word) => {
                if let Some(own) = word.checked_sub(index * width).filter(|&w| w < width) {
                    line[own] -= 1.0;
                }
                line.iter_mut().for_each(|x| *x *= d);
            }
        }
    }
    Ok(vec![Tensor::new(
        softmax.shape.clone(),
        softmax.dtype,
        dlogits,
    )])
}
