//! Ops that move elements.

use raddle_dialect::DType;
use raddle_dialect::ir::Attr;
use raddle_dialect::layout::Spread::{Replicated as Whole, Sharded as Cut};
use raddle_dialect::ops::OpBuilder;

use crate::case::Case;
use crate::dice::Dice;

fn reshape(from: &'static [usize], to: &'static [i64]) -> Case {
    Case::new(format!("reshape {from:?} to {to:?}"), move |b, v| {
        Ok(vec![
            b.emit("dist.reshape")?
                .one(v[0])
                .tensor(to, DType::F64)
                .value()?,
        ])
    })
    .arg(from, &[])
}

/// Hidden features cut over the ranks become heads, of which each rank has `heads`.
fn heads(heads: i64) -> Case {
    Case::new(format!("{heads} heads on each rank"), move |b, v| {
        let split = b
            .emit("dist.reshape")?
            .one(v[0])
            .bool("dist.outermost", true);
        let split = split.tensor(&[2, 3, heads, 2], DType::F64).value()?;
        let turned = b
            .emit("dist.transpose")?
            .one(split)
            .ints("perm", &[0, 2, 1, 3])
            .value()?;
        let y = b.emit("dist.tanh")?.one(turned).value()?;
        Ok(vec![y])
    })
    .mesh(&[("dp", 2), ("mp", 2)])
    .arg(&[4, 3, 4 * heads as usize], &[Cut(0), Cut(2)])
}

fn transpose(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let rank = dice.between(0, 5);
    let (shape, perm) = (dice.shape(rank), dice.permutation(rank));
    Case::new(format!("transpose {shape:?} by {perm:?}"), move |b, v| {
        Ok(vec![
            b.emit("dist.transpose")?
                .one(v[0])
                .ints("perm", &perm)
                .value()?,
        ])
    })
    .arg(&shape, &[])
}

/// The attribute `axes` of a slice.
fn lists(b: &OpBuilder, axes: &[&[usize]]) -> Attr {
    let lists: Vec<Attr> = axes.iter().map(|axes| b.axes_attr(axes)).collect();
    b.cx().array(&lists)
}

fn slice(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let rank = dice.between(1, 5);
    let shape = dice.shape(rank);
    let dims = dice.some_of(rank);
    let (mut starts, mut sizes) = (vec![], vec![]);
    for &dim in &dims {
        let extent = shape[dim as usize];
        let start = dice.below(extent);
        starts.push(start as i64);
        sizes.push(dice.between(1, extent - start) as i64);
    }
    Case::new(
        format!("slice {shape:?}, {dims:?} from {starts:?}, {sizes:?}"),
        move |b, v| {
            let axes = lists(b, &vec![&[][..]; dims.len()]);
            let y = b
                .emit("dist.slice")?
                .one(v[0])
                .ints("dims", &dims)
                .ints("starts", &starts);
            Ok(vec![y.ints("sizes", &sizes).attr("axes", axes).value()?])
        },
    )
    .arg(&shape, &[])
}

/// Windows that each rank takes for itself: all of a dimension, some of it, and of two dimensions.
fn own_slice(
    name: &str,
    dims: &'static [i64],
    starts: &'static [i64],
    axes: &'static [&'static [usize]],
) -> Case {
    Case::new(format!("slice {name}"), move |b, v| {
        let axes = lists(b, axes);
        let y = b
            .emit("dist.slice")?
            .one(v[0])
            .ints("dims", dims)
            .ints("starts", starts);
        let y = y
            .ints("sizes", &vec![2; dims.len()])
            .attr("axes", axes)
            .value()?;
        Ok(vec![b.emit("dist.tanh")?.one(y).value()?])
    })
    .mesh(&[("dp", 2), ("mp", 2)])
}

fn joined(name: &'static str, parts: usize, seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let rank = dice.between(1, 4);
    let shape = dice.shape(rank);
    let dim = dice.below(rank) as i64;
    let mut case = Case::new(
        format!("{name} of {parts} {shape:?} along {dim}"),
        move |b, v| Ok(vec![b.emit(name)?.many(v).int("dim", dim).value()?]),
    );
    for _ in 0..parts {
        case = case.arg(&shape, &[]);
    }
    case
}

fn pair(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let rank = dice.between(1, 4);
    let a = dice.shape(rank);
    let dim = dice.below(rank);
    let mut b = a.clone();
    b[dim] = dice.between(1, 3);
    Case::new(
        format!("concat_pair {a:?} {b:?} along {dim}"),
        move |b, v| {
            let y = b.emit("dist.concat_pair")?.one(v[0]).one(v[1]);
            Ok(vec![y.int("dim", dim as i64).value()?])
        },
    )
    .arg(&a, &[])
    .arg(&b, &[])
}

/// A split into three parts of which these are used, x cut along another dimension.
fn split(used: &'static [usize]) -> Case {
    Case::new(format!("split, parts {used:?}"), move |b, v| {
        let op = b
            .emit("dist.split")?
            .one(v[0])
            .int("dim", 1)
            .counts(&[3])
            .build()?;
        let parts: Vec<_> = b.rewriter.module().results(op).collect();
        let mut results = Vec::new();
        for &part in used {
            results.push(b.emit("dist.tanh")?.one(parts[part]).value()?);
        }
        Ok(results)
    })
    .mesh(&[("mp", 2)])
    .arg(&[2, 6], &[Cut(0)])
}

/// Joined along one dimension, cut along another.
fn cut_joined(name: &'static str) -> Case {
    Case::new(format!("{name} of pieces"), move |b, v| {
        let y = b.emit(name)?.many(v).int("dim", 1).value()?;
        Ok(vec![b.emit("dist.tanh")?.one(y).value()?])
    })
    .mesh(&[("mp", 2)])
    .arg(&[4, 3], &[Cut(0)])
    .arg(&[4, 3], &[Cut(0)])
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        reshape(&[2, 3], &[6]),
        reshape(&[6], &[1, 2, 3, 1]),
        reshape(&[], &[1, 1]),
        reshape(&[2, 1, 3, 2], &[3, 4]),
        heads(1),
        heads(2),
        own_slice("a piece for each", &[1], &[0], &[&[1]]).arg(&[3, 4], &[Whole, Whole]),
        own_slice("a piece for each, of pieces", &[1], &[0], &[&[1]])
            .arg(&[4, 4], &[Cut(0), Whole]),
        own_slice("over both axes", &[0], &[0], &[&[0, 1]]).arg(&[8, 2], &[Whole, Whole]),
        own_slice("of a window", &[1], &[1], &[&[1]]).arg(&[3, 6], &[Whole, Whole]),
        own_slice("of two dimensions", &[0, 1], &[0, 1], &[&[0], &[1]])
            .arg(&[4, 6], &[Whole, Whole]),
        own_slice(
            "of two dimensions, one alike",
            &[0, 1],
            &[1, 0],
            &[&[], &[1]],
        )
        .arg(&[4, 4], &[Whole, Whole]),
        split(&[0, 1, 2]),
        split(&[1]),
        split(&[0, 2]),
        cut_joined("dist.concat"),
        cut_joined("dist.stack"),
    ];
    cases.extend((0..24).map(transpose));
    cases.extend((0..24).map(slice));
    cases.extend((0..12).map(pair));
    for seed in 0..8 {
        cases.push(joined("dist.concat", 1 + seed as usize % 3, seed));
        cases.push(joined("dist.stack", 1 + seed as usize % 3, seed + 50));
    }
    cases
}
