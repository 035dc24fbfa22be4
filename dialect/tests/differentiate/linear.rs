//! Matrix products and linear layers, alone and cut over the mesh.

use raddle_dialect::Error;
use raddle_dialect::ir::ValueId;
use raddle_dialect::layout::Reduction;
use raddle_dialect::layout::Spread::{Partial, Replicated as Whole, Sharded as Cut};
use raddle_dialect::ops::OpBuilder;
use raddle_dialect::ops::linear::ACTIVATIONS;

use crate::case::Case;
use crate::dice::Dice;

/// Last two dimensions swapped if asked to.
fn oriented(batch: &[usize], rows: usize, columns: usize, transpose: bool) -> Vec<usize> {
    let last = if transpose {
        [columns, rows]
    } else {
        [rows, columns]
    };
    [batch, &last].concat()
}

fn matmul(b: &mut OpBuilder, x: ValueId, w: ValueId) -> Result<ValueId, Error> {
    b.emit("dist.matmul")?.one(x).one(w).value()
}

fn random_matmul(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let (ta, tb) = (dice.coin(), dice.coin());
    let rank = dice.between(0, 3);
    let batch = dice.shape(rank);
    let (a_batch, b_batch) = match dice.coin() {
        true => (batch.clone(), dice.broadcasting(&batch)),
        false => (dice.broadcasting(&batch), batch.clone()),
    };
    let [m, k, n] = [0; 3].map(|_: usize| dice.between(1, 3));
    Case::new(format!("matmul {seed}"), move |b, v| {
        let c = b.emit("dist.matmul")?.one(v[0]).one(v[1]);
        Ok(vec![
            c.bool("transpose_a", ta).bool("transpose_b", tb).value()?,
        ])
    })
    .arg(&oriented(&a_batch, m, k, ta), &[])
    .arg(&oriented(&b_batch, k, n, tb), &[])
}

/// Every activation and orientation, with and without bias; the pre-activation not kept, kept, and read.
fn fused_linear(activation: &'static str, number: usize) -> Case {
    let (ta, tb, bias) = (number & 1 > 0, number & 2 > 0, number & 4 > 0);
    let (aux, read) = [(false, false), (true, false), (true, true)][number % 3];
    let batch: &[usize] = [&[][..], &[2], &[2, 1]][number % 3];
    let case = Case::new(
        format!("fused_linear {activation} {number}"),
        move |b, v| {
            let kind = b.cx().string(activation);
            let layer = b
                .emit("dist.fused_linear")?
                .one(v[0])
                .one(v[1])
                .optional(v.get(2).copied());
            let layer = layer.bool("transpose_a", ta).bool("transpose_b", tb);
            let results = layer
                .attr("activation", kind)
                .wants(&[true, aux])
                .groups()?;
            Ok(results
                .into_iter()
                .flatten()
                .take(1 + usize::from(read))
                .collect())
        },
    )
    .arg(&oriented(batch, 2, 3, ta), &[])
    .arg(&oriented(&[], 3, 2, tb), &[]);
    if bias { case.arg(&[2], &[]) } else { case }
}

/// Two layers, the first cut along its columns and the second along its rows, over `mp`; the batch over `dp`.
fn tensor_parallel(sequence_parallel: bool) -> Case {
    let name = format!("tensor parallel, sequence {sequence_parallel}");
    let sequence = if sequence_parallel { Cut(1) } else { Whole };
    let bias = if sequence_parallel {
        Whole
    } else {
        Partial(Reduction::Sum)
    };
    Case::new(name, move |b, v| {
        let [x, w1, b1, w2, b2] = v[..] else {
            unreachable!()
        };
        let mp = b.axes_attr(&[1]);
        let sum = b.cx().string("sum");
        let mut h = x;
        if sequence_parallel {
            h = b
                .emit("dist.all_gather")?
                .one(x)
                .int("dim", 1)
                .attr("axes", mp)
                .value()?;
        }
        h = matmul(b, h, w1)?;
        h = b.emit("dist.add")?.one(h).one(b1).value()?;
        h = b.emit("dist.gelu")?.one(h).value()?;
        h = matmul(b, h, w2)?;
        let y = if sequence_parallel {
            let y = b
                .emit("dist.reduce_scatter")?
                .one(h)
                .int("dim", 1)
                .attr("axes", mp);
            let y = y.attr("reduction", sum).value()?;
            b.emit("dist.add")?.one(y).one(b2).value()?
        } else {
            // The promoted form: the bias is a part of the sum.
            let y = b.emit("dist.add")?.one(h).one(b2).value()?;
            b.all_reduce(y, "sum", &[1])?
        };
        // A residual connection uses x twice.
        Ok(vec![b.emit("dist.add")?.one(x).one(y).value()?])
    })
    .mesh(&[("dp", 2), ("mp", 2)])
    .arg(&[2, 2, 3], &[Cut(0), sequence])
    .arg(&[3, 4], &[Whole, Cut(1)])
    .arg(&[4], &[Whole, Cut(0)])
    .arg(&[4, 3], &[Whole, Cut(0)])
    .arg(&[3], &[Whole, bias])
}

/// The fused form of a layer whose input and weight are cut along the contracted dimension.
fn fused_row_parallel() -> Case {
    Case::new("fused row parallel", |b, v| {
        let none = b.cx().string("none");
        let y = b.emit("dist.fused_linear")?.one(v[0]).one(v[1]).one(v[2]);
        let y = y.attr("activation", none).wants(&[true, false]).value()?;
        Ok(vec![b.all_reduce(y, "sum", &[0])?])
    })
    .mesh(&[("mp", 3)])
    .arg(&[2, 6], &[Cut(1)])
    .arg(&[6, 2], &[Cut(0)])
    .arg(&[2], &[Partial(Reduction::Sum)])
}

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = (0..40).map(random_matmul).collect();
    for activation in ACTIVATIONS {
        cases.extend((0..12).map(|number| fused_linear(activation, number)));
    }
    cases.extend([false, true].map(tensor_parallel));
    cases.push(fused_row_parallel());
    cases
}
