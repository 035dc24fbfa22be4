//! Collectives: each is another's way back.

use raddle_dialect::layout::Reduction::{Avg, Sum};
use raddle_dialect::layout::Spread::{self, Partial, Replicated as Whole, Sharded as Cut};

use crate::case::Case;

const MESH: &[(&str, usize)] = &[("dp", 2), ("mp", 3)];

/// A reduction over `mp` of a value that is spread like this, and a function of it.
fn all_reduce(reduction: &'static str, x: Spread) -> Case {
    Case::new(format!("all_reduce {reduction} of {x:?}"), move |b, v| {
        let y = b.all_reduce(v[0], reduction, &[1])?;
        Ok(vec![b.emit("dist.tanh")?.one(y).value()?])
    })
    .mesh(MESH)
    .arg(&[2, 3], &[Cut(0), x])
}

fn reduce_scatter(reduction: &'static str, x: Spread) -> Case {
    Case::new(
        format!("reduce_scatter {reduction} of {x:?}"),
        move |b, v| {
            let (axes, reduction) = (b.axes_attr(&[1]), b.cx().string(reduction));
            let y = b
                .emit("dist.reduce_scatter")?
                .one(v[0])
                .attr("axes", axes)
                .int("dim", 1);
            let y = y.attr("reduction", reduction).value()?;
            Ok(vec![b.emit("dist.tanh")?.one(y).value()?])
        },
    )
    .mesh(MESH)
    .arg(&[2, 6], &[Cut(0), x])
}

/// What is gathered is used by all ranks alike, or by each with its piece of a weight, so that its gradient is partial.
fn all_gather(cut_use: bool) -> Case {
    let weight = if cut_use { Cut(1) } else { Whole };
    Case::new(format!("all_gather, used in pieces {cut_use}"), |b, v| {
        let axes = b.axes_attr(&[1]);
        let y = b
            .emit("dist.all_gather")?
            .one(v[0])
            .attr("axes", axes)
            .int("dim", 0)
            .value()?;
        let y = b.emit("dist.matmul")?.one(y).one(v[1]).value()?;
        Ok(vec![b.emit("dist.tanh")?.one(y).value()?])
    })
    .mesh(MESH)
    .arg(&[3, 2], &[Whole, Cut(0)])
    .arg(&[2, 3], &[Whole, weight])
}

fn gather_over_both() -> Case {
    Case::new("all_gather over two axes", |b, v| {
        let axes = b.axes_attr(&[0, 1]);
        let y = b
            .emit("dist.all_gather")?
            .one(v[0])
            .attr("axes", axes)
            .int("dim", 0)
            .value()?;
        Ok(vec![b.emit("dist.tanh")?.one(y).value()?])
    })
    .mesh(MESH)
    .arg(&[6, 2], &[Cut(0), Cut(0)])
}

fn all_to_all() -> Case {
    Case::new("all_to_all", |b, v| {
        let axes = b.axes_attr(&[1]);
        let y = b.emit("dist.all_to_all")?.one(v[0]).attr("axes", axes);
        let y = y.int("split_dim", 1).int("concat_dim", 0).value()?;
        Ok(vec![b.emit("dist.tanh")?.one(y).value()?])
    })
    .mesh(MESH)
    .arg(&[6, 3], &[Whole, Cut(0)])
}

fn broadcast(x: Spread) -> Case {
    Case::new(format!("broadcast of {x:?}"), |b, v| {
        let axes = b.axes_attr(&[1]);
        let y = b
            .emit("dist.broadcast")?
            .one(v[0])
            .attr("axes", axes)
            .int("root", 2)
            .value()?;
        Ok(vec![b.emit("dist.tanh")?.one(y).value()?])
    })
    .mesh(MESH)
    .arg(&[2, 3], &[Cut(0), x])
}

pub fn cases() -> Vec<Case> {
    vec![
        all_reduce("sum", Partial(Sum)),
        all_reduce("sum", Partial(Avg)),
        all_reduce("sum", Whole),
        all_reduce("avg", Partial(Sum)),
        all_reduce("avg", Partial(Avg)),
        all_reduce("avg", Whole),
        reduce_scatter("sum", Partial(Sum)),
        reduce_scatter("sum", Whole),
        reduce_scatter("avg", Partial(Avg)),
        reduce_scatter("avg", Whole),
        all_gather(false),
        all_gather(true),
        gather_over_both(),
        all_to_all(),
        broadcast(Whole),
    ]
}

/// What has no gradient over the mesh says so.
#[test]
fn refused() {
    for reduction in ["max", "min", "prod"] {
        assert_eq!(all_reduce(reduction, Whole).error().code(), "E0319");
    }
    assert_eq!(broadcast(Cut(1)).error().code(), "E0319");
}
