//! Normalisation, softmax, loss, tables, dropout and attention.

use raddle_dialect::layout::Spread::{self, Replicated as Whole, Sharded as Cut};

use crate::case::Case;

fn layer_norm(axis: i64, features: &'static [usize], given: usize, rows: Spread) -> Case {
    let (with_scale, with_bias) = (given & 1 > 0, given & 2 > 0);
    let mut case = Case::new(
        format!("layer_norm {axis} {features:?} {given} {rows:?}"),
        move |b, v| {
            let mut rest = v[1..].iter().copied();
            let scale = if with_scale { rest.next() } else { None };
            let op = b
                .emit("dist.layer_norm")?
                .one(v[0])
                .optional(scale)
                .optional(rest.next());
            let op = op.int("begin_norm_axis", axis).float("epsilon", 1e-3);
            Ok(op.groups()?[0].into_iter().collect())
        },
    )
    .mesh(&[("mp", 2)])
    .arg(&[2, 2, 3], &[rows]);
    for _ in 0..usize::from(with_scale) + usize::from(with_bias) {
        case = case.arg(features, &[Whole]);
    }
    case
}

fn rms_norm(axis: i64, features: &'static [usize], with_scale: bool, rows: Spread) -> Case {
    let case = Case::new(
        format!("rms_norm {axis} {features:?} {with_scale} {rows:?}"),
        move |b, v| {
            let op = b
                .emit("dist.rms_norm")?
                .one(v[0])
                .optional(v.get(1).copied());
            let op = op.int("begin_norm_axis", axis).float("epsilon", 1e-3);
            Ok(op.groups()?[0].into_iter().collect())
        },
    )
    .mesh(&[("mp", 2)])
    .arg(&[2, 2, 3], &[rows]);
    if with_scale {
        case.arg(features, &[Whole])
    } else {
        case
    }
}

fn softmax(shape: &'static [usize], dim: i64, spread: Spread) -> Case {
    Case::new(
        format!("softmax {shape:?} {dim} {spread:?}"),
        move |b, v| {
            Ok(vec![
                b.emit("dist.softmax")?.one(v[0]).int("dim", dim).value()?,
            ])
        },
    )
    .mesh(&[("mp", 2)])
    .arg(shape, &[spread])
}

/// The loss of logits whose vocabulary is cut over the axes `over`; `spreads` say how.
fn loss(
    name: &str,
    mesh: &[(&str, usize)],
    over: &'static [usize],
    logits: &[Spread],
    labels: &[Spread],
) -> Case {
    Case::new(format!("loss {name}"), move |b, v| {
        let axes = b.axes_attr(over);
        let op = b.emit("dist.softmax_cross_entropy")?.one(v[0]).one(v[1]);
        let op = op.attr("axes", axes).int("ignore_index", 3);
        Ok(op.groups()?[0].into_iter().collect())
    })
    .mesh(mesh)
    .arg(&[4, 6 * if mesh.len() > 1 { 2 } else { 1 }], logits)
    .integers(&[4], 6, labels)
}

/// A table cut over its rows, features or not at all, and what completes the lookup.
fn embedding(
    name: &'static str,
    table: Spread,
    ids: Spread,
    over: &'static [usize],
    scatter: bool,
) -> Case {
    Case::new(format!("embedding {name}"), move |b, v| {
        let axes = b.axes_attr(over);
        let out = b
            .emit("dist.embedding")?
            .one(v[0])
            .one(v[1])
            .attr("axes", axes)
            .value()?;
        if !scatter {
            return Ok(vec![b.reduced(out)?]);
        }
        let sum = b.cx().string("sum");
        let out = b
            .emit("dist.reduce_scatter")?
            .one(out)
            .attr("axes", axes)
            .int("dim", 1);
        Ok(vec![out.attr("reduction", sum).value()?])
    })
    .mesh(&[("mp", 2)])
    .integers(&[2, 4], 6, &[ids])
    .arg(&[6, 2], &[table])
}

fn dropout(rate: f64, spread: Spread, over: &'static [usize]) -> Case {
    Case::new(
        format!("dropout {rate} {spread:?} over {over:?}"),
        move |b, v| {
            let axes = b.axes_attr(over);
            let op = b
                .emit("dist.dropout")?
                .one(v[0])
                .float("rate", rate)
                .int("seed", 5);
            Ok(op.attr("axes", axes).groups()?[0].into_iter().collect())
        },
    )
    .mesh(&[("mp", 2)])
    .arg(&[4, 4], &[spread])
}

struct Attention {
    causal: bool,
    heads: [usize; 2],
    lengths: [usize; 2],
    features: [usize; 2],
    dropout: f64,
    over: &'static [usize],
}

impl Attention {
    const SMALL: Self = Self {
        causal: false,
        heads: [2, 2],
        lengths: [2, 3],
        features: [2, 2],
        dropout: 0.0,
        over: &[],
    };

    /// Queries, and keys and values, spread over the axis.
    fn case(self, q: Spread, kv: Spread) -> Case {
        let name = format!(
            "attention causal {} heads {:?} {:?} {:?} dropout {} {q:?} {kv:?}",
            self.causal, self.heads, self.lengths, self.features, self.dropout
        );
        let ([heads, groups], [n, m], [d, e]) = (self.heads, self.lengths, self.features);
        Case::new(name, move |b, v| {
            let axes = b.axes_attr(self.over);
            let op = b
                .emit("dist.attention")?
                .each(v)
                .bool("causal", self.causal);
            let op = op
                .float("scale", 0.8)
                .float("dropout", self.dropout)
                .int("seed", 9);
            Ok(op.attr("axes", axes).groups()?[0].into_iter().collect())
        })
        .mesh(&[("mp", 2)])
        .arg(&[2, heads, n, d], &[q])
        .arg(&[2, groups, m, d], &[kv])
        .arg(&[2, groups, m, e], &[kv])
    }
}

fn attention() -> Vec<Case> {
    let small = || Attention::SMALL;
    let causal = || Attention {
        causal: true,
        ..Attention::SMALL
    };
    vec![
        small().case(Whole, Whole),
        causal().case(Whole, Whole),
        Attention {
            lengths: [3, 3],
            ..causal()
        }
        .case(Whole, Whole),
        Attention {
            features: [3, 1],
            ..causal()
        }
        .case(Whole, Whole),
        Attention {
            heads: [4, 2],
            ..causal()
        }
        .case(Whole, Whole),
        Attention {
            heads: [3, 1],
            ..small()
        }
        .case(Whole, Whole),
        Attention {
            dropout: 0.4,
            ..causal()
        }
        .case(Whole, Whole),
        Attention {
            dropout: 0.4,
            over: &[0],
            ..causal()
        }
        .case(Cut(1), Cut(1)),
        small().case(Cut(0), Cut(0)),
        causal().case(Cut(1), Cut(1)),
        Attention {
            heads: [4, 2],
            ..causal()
        }
        .case(Cut(1), Cut(1)),
        Attention {
            heads: [2, 1],
            ..causal()
        }
        .case(Cut(1), Whole),
        small().case(Cut(2), Whole),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = attention();
    for (axis, features) in [(1, &[2, 3][..]), (1, &[6]), (2, &[3]), (0, &[2, 2, 3])] {
        for given in 0..4 {
            cases.push(layer_norm(axis, features, given, Whole));
            if axis > 0 {
                cases.push(layer_norm(axis, features, given, Cut(0)));
            }
        }
        for with_scale in [false, true] {
            cases.push(rms_norm(axis, features, with_scale, Whole));
            if axis > 0 {
                cases.push(rms_norm(axis, features, with_scale, Cut(0)));
            }
        }
    }
    for dim in 0..3 {
        cases.push(softmax(&[2, 2, 4], dim, Whole));
        cases.push(softmax(&[2, 2, 4], dim, Cut((dim as usize + 1) % 3)));
    }
    cases.push(softmax(&[3], 0, Whole));
    let (mp, both) = (&[("mp", 2)][..], &[("dp", 2), ("mp", 2)][..]);
    cases.push(loss("alone", mp, &[], &[Whole], &[Whole]));
    cases.push(loss("of cut positions", mp, &[], &[Cut(0)], &[Cut(0)]));
    cases.push(loss("of a cut vocabulary", mp, &[0], &[Cut(1)], &[Whole]));
    cases.push(loss(
        "of three pieces",
        &[("mp", 3)],
        &[0],
        &[Cut(1)],
        &[Whole],
    ));
    cases.push(loss(
        "cut both ways",
        both,
        &[1],
        &[Cut(0), Cut(1)],
        &[Cut(0), Whole],
    ));
    cases.push(loss(
        "over two axes",
        both,
        &[0, 1],
        &[Cut(1), Cut(1)],
        &[Whole, Whole],
    ));
    cases.push(embedding("alone", Whole, Whole, &[], false));
    cases.push(embedding("of cut ids", Whole, Cut(0), &[], false));
    cases.push(embedding("of cut features", Cut(1), Whole, &[], false));
    cases.push(embedding("of cut rows", Cut(0), Whole, &[0], false));
    cases.push(embedding(
        "of cut rows, scattered",
        Cut(0),
        Whole,
        &[0],
        true,
    ));
    cases.push(dropout(0.0, Whole, &[]));
    cases.push(dropout(0.4, Whole, &[]));
    cases.push(dropout(0.4, Cut(0), &[]));
    cases.push(dropout(0.4, Cut(1), &[0]));
    cases
}
