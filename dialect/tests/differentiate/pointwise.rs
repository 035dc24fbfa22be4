//! Arithmetic with broadcast, functions of one tensor, reductions.

use raddle_dialect::DType;
use raddle_dialect::layout::Reduction::{Avg, Sum};
use raddle_dialect::layout::Spread::{Partial, Replicated as Whole, Sharded as Cut};
use raddle_dialect::ops::Emit;

use crate::case::Case;
use crate::dice::Dice;

const ARITHMETIC: [&str; 5] = [
    "dist.add",
    "dist.sub",
    "dist.mul",
    "dist.div",
    "dist.maximum",
];

fn binary(name: &'static str, seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let rank = dice.between(0, 5);
    let shape = dice.shape(rank);
    let (a, b) = match seed % 3 {
        0 => (shape.clone(), shape.clone()),
        1 => (shape.clone(), dice.broadcasting(&shape)),
        _ => (dice.broadcasting(&shape), shape.clone()),
    };
    Case::new(format!("{name} {a:?} {b:?}"), move |b, v| {
        Ok(vec![b.emit(name)?.one(v[0]).one(v[1]).value()?])
    })
    .positive(&a, &[])
    .positive(&b, &[])
}

/// Both operands cut alike, one broadcast along the cut, and a part of a sum times a whole.
fn cut_binary(name: &'static str) -> Vec<Case> {
    let case = |what: &str| {
        Case::new(format!("{name} {what}"), move |b, v| {
            let c = b.emit(name)?.one(v[0]).one(v[1]).value()?;
            Ok(vec![b.reduced(c)?])
        })
        .mesh(&[("dp", 2), ("mp", 2)])
    };
    let mut cases = vec![
        case("cut alike")
            .positive(&[2, 4], &[Cut(0), Cut(1)])
            .positive(&[2, 4], &[Cut(0), Cut(1)]),
        case("broadcast along the cut")
            .positive(&[2, 4], &[Cut(0), Cut(1)])
            .positive(&[4], &[Whole, Cut(0)]),
        case("a scalar")
            .positive(&[2, 4], &[Cut(0), Cut(1)])
            .positive(&[], &[Whole, Whole]),
    ];
    if name == "dist.mul" || name == "dist.div" {
        cases.push(
            case("a part")
                .positive(&[2, 3], &[Cut(0), Partial(Sum)])
                .positive(&[3], &[Whole, Whole]),
        );
    }
    if name == "dist.add" || name == "dist.sub" {
        cases.push(
            case("parts")
                .positive(&[2, 3], &[Cut(0), Partial(Sum)])
                .positive(&[3], &[Whole, Partial(Sum)]),
        );
    }
    cases
}

fn unary(
    name: &'static str,
    number: usize,
    attrs: impl for<'b, 'a, 'm> Fn(Emit<'b, 'a, 'm>) -> Emit<'b, 'a, 'm> + 'static,
) -> Case {
    let mut dice = Dice::new(number as u64 + 5);
    let shape = dice.shape(number % 6);
    let case = Case::new(format!("{name} {shape:?}"), move |b, v| {
        Ok(vec![attrs(b.emit(name)?.one(v[0])).value()?])
    });
    match ["dist.sqrt", "dist.rsqrt", "dist.log"].contains(&name) {
        true => case.positive(&shape, &[]),
        false => case.arg(&shape, &[]),
    }
}

fn functions() -> Vec<Case> {
    let mut cases = Vec::new();
    for number in 0..6 {
        for name in [
            "dist.sqrt",
            "dist.rsqrt",
            "dist.exp",
            "dist.log",
            "dist.identity",
            "dist.relu",
            "dist.silu",
            "dist.tanh",
        ] {
            cases.push(unary(name, number, |op| op));
        }
        for (bias, last) in [(0.0, true), (0.7, true), (0.7, false)] {
            cases.push(unary("dist.scale", number, move |op| {
                op.float("scale", -1.3)
                    .float("bias", bias)
                    .bool("bias_after_scale", last)
            }));
        }
        for approximate in [false, true] {
            cases.push(unary("dist.gelu", number, move |op| {
                op.bool("approximate", approximate)
            }));
        }
        cases.push(unary("dist.clip", number, |op| {
            op.float("min", -0.5).float("max", 0.6)
        }));
    }
    cases.push(
        Case::new("cast and back", |b, v| {
            let low = b.cast(v[0], DType::F32)?;
            let y = b.emit("dist.tanh")?.one(low).value()?;
            Ok(vec![b.cast(y, DType::F64)?])
        })
        .arg(&[2, 3], &[]),
    );
    cases.push(
        Case::new("one value read twice", |b, v| {
            let y = b.emit("dist.mul")?.one(v[0]).one(v[0]).value()?;
            Ok(vec![b.emit("dist.sub")?.one(y).one(v[0]).value()?])
        })
        .arg(&[2, 3], &[]),
    );
    for parts in 1..4 {
        let mut case = Case::new(format!("sum of {parts}"), |b, v| {
            Ok(vec![b.emit("dist.sum")?.many(v).value()?])
        });
        for _ in 0..parts {
            case = case.arg(&[2, 3], &[]);
        }
        cases.push(case);
    }
    cases.push(
        Case::new("functions of pieces and parts", |b, v| {
            let half = b.scaled(v[0], 0.5)?;
            let whole = b.all_reduce(half, "sum", &[0])?;
            let piece = b.emit("dist.silu")?.one(v[1]).value()?;
            Ok(vec![b.emit("dist.gelu")?.one(whole).value()?, piece])
        })
        .mesh(&[("mp", 3)])
        .arg(&[2, 3], &[Partial(Sum)])
        .arg(&[2, 3], &[Cut(1)]),
    );
    cases
}

fn reduction(name: &'static str, seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let rank = dice.between(1, 5);
    let shape = dice.shape(rank);
    let (dims, keep) = (dice.some_of(rank), dice.coin());
    Case::new(format!("{name} {shape:?} over {dims:?}"), move |b, v| {
        let y = b.emit(name)?.one(v[0]).ints("dims", &dims);
        Ok(vec![y.bool("keep_dims", keep).value()?])
    })
    .arg(&shape, &[])
}

/// A reduction over a cut dimension and a whole one, completed over the mesh, or left a part of the result.
fn cut_reduction(name: &'static str, complete: Option<&'static str>) -> Case {
    Case::new(
        format!("{name} over a cut dimension, {complete:?}"),
        move |b, v| {
            let y = b.emit(name)?.one(v[0]).ints("dims", &[1, 2]).value()?;
            Ok(vec![match complete {
                Some(reduction) => b.all_reduce(y, reduction, &[1])?,
                None => y,
            }])
        },
    )
    .mesh(&[("dp", 2), ("mp", 2)])
    .arg(&[2, 4, 3], &[Cut(0), Cut(1)])
}

/// The mean loss of data that is cut over `dp`, from a weight that every rank has.
fn mean_loss(complete: bool) -> Case {
    Case::new(format!("mean loss, complete {complete}"), move |b, v| {
        let y = b.emit("dist.matmul")?.one(v[0]).one(v[1]).value()?;
        let y = b.emit("dist.tanh")?.one(y).value()?;
        let loss = b
            .emit("dist.reduce_mean")?
            .one(y)
            .ints("dims", &[0, 1])
            .value()?;
        Ok(vec![if complete {
            b.all_reduce(loss, "avg", &[0])?
        } else {
            loss
        }])
    })
    .mesh(&[("dp", 2)])
    .arg(&[4, 3], &[Cut(0)])
    .arg(&[3, 2], &[Whole])
}

fn squared_norm(shape: &'static [usize]) -> Case {
    Case::new(format!("squared_l2_norm {shape:?}"), |b, v| {
        Ok(vec![b.emit("dist.squared_l2_norm")?.one(v[0]).value()?])
    })
    .arg(shape, &[])
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for name in ARITHMETIC {
        cases.extend((0..24).map(|seed| binary(name, seed)));
        cases.extend(cut_binary(name));
    }
    cases.extend(functions());
    for name in ["dist.reduce_sum", "dist.reduce_mean", "dist.reduce_max"] {
        cases.extend((0..24).map(|seed| reduction(name, seed)));
    }
    cases.push(cut_reduction("dist.reduce_sum", Some("sum")));
    cases.push(cut_reduction("dist.reduce_sum", None));
    cases.push(cut_reduction("dist.reduce_mean", Some("avg")));
    cases.push(cut_reduction("dist.reduce_mean", None));
    cases.extend([true, false].map(mean_loss));
    cases.extend([&[][..], &[3], &[2, 3]].map(squared_norm));
    cases.push(
        Case::new("squared norm of pieces", |b, v| {
            let y = b.emit("dist.squared_l2_norm")?.one(v[0]).value()?;
            Ok(vec![b.reduced(y)?])
        })
        .mesh(&[("mp", 2)])
        .arg(&[4, 2], &[Cut(0)]),
    );
    cases.push(
        Case::new("a partial mean scaled", |b, v| {
            Ok(vec![b.scaled(v[0], 3.0)?])
        })
        .mesh(&[("dp", 2)])
        .arg(&[3], &[Partial(Avg)]),
    );
    cases
}
