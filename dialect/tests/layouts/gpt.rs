//! The layout rules of softmax, loss, tables, dropout, attention and normalisation against arithmetic.

use raddle_dialect::DType;
use raddle_dialect::layout::{Layout, Reduction, Spread};
use raddle_dialect::ops::{self, LayoutCall, Value};
use raddle_dialect::reference::{Tensor, combine};

use crate::world::{Case, RANKS, mesh, put_together, take_apart};
use crate::{ints, positive, tensor};

fn whole_numbers(shape: &[usize], below: usize, seed: usize) -> Tensor {
    Tensor::from_fn(shape, DType::I64, |at| ((at * 5 + seed) % below) as f64)
}

fn over_mp() -> Value {
    Value::List(vec![Value::Str("mp".into())])
}

fn nowhere() -> Value {
    Value::List(vec![])
}

#[test]
fn functions_and_gradients() {
    let all = |name: &str| Case::new(name, vec![("x", positive(&[4, 6], 1))]).check();
    for name in ["dist.silu", "dist.rsqrt"] {
        assert_eq!(all(name), ["d0", "d1", "whole"], "{name}");
    }
    for name in ["dist.tanh", "dist.exp"] {
        assert_eq!(all(name), ["d0", "d1", "max", "min", "whole"], "{name}");
    }
    let operands = vec![("x", tensor(&[4, 6], 1)), ("dout", tensor(&[4, 6], 2))];
    let gradient = ["d0 d0", "d1 d1", "whole avg", "whole sum", "whole whole"];
    assert_eq!(
        Case::new("dist.silu_grad", operands.clone()).check(),
        gradient
    );
    let clip = Case::new("dist.clip_grad", operands)
        .attr("min", Value::Float(-0.5))
        .attr("max", Value::Float(0.5));
    assert_eq!(clip.check(), gradient);
    let operands = vec![("y", tensor(&[4, 6], 1)), ("dout", tensor(&[4, 6], 2))];
    assert_eq!(Case::new("dist.tanh_grad", operands).check(), gradient);

    for name in ["dist.div_grad", "dist.maximum_grad"] {
        for (a, b, dout) in [
            (&[4, 6][..], &[6][..], &[4, 6][..]),
            (&[2, 4, 6], &[2, 1, 6], &[2, 4, 6]),
            (&[4], &[4], &[4]),
        ] {
            let operands = vec![
                ("a", positive(a, 1)),
                ("b", positive(b, 2)),
                ("dout", tensor(dout, 3)),
            ];
            let allowed = Case::new(name, operands).check();
            let rows = format!("d0 {} d0", if b.len() == a.len() { "d0" } else { "whole" });
            assert!(allowed.contains(&rows), "{name}: {allowed:?}");
            assert!(allowed.contains(&"whole whole sum".into()));
            // db is linear in the dividend, da does not depend on it.
            assert_eq!(
                allowed.contains(&"sum whole whole".into()),
                name == "dist.div_grad"
            );
        }
    }
}

#[test]
fn maxima() {
    let x = tensor(&[4, 6], 1);
    let y = Tensor::from_fn([4], DType::F64, |r| {
        x.data[6 * r..6 * r + 6]
            .iter()
            .fold(f64::MIN, |m, &v| m.max(v))
    });
    let operands = vec![("x", x), ("y", y), ("dout", tensor(&[4], 2))];
    let allowed = Case::new("dist.reduce_max_grad", operands)
        .attr("dims", ints(&[1]))
        .attr("keep_dims", Value::Bool(false))
        .check();
    let expected = [
        "d0 d0 d0",
        "d1 whole whole",
        "whole whole avg",
        "whole whole sum",
        "whole whole whole",
    ];
    assert_eq!(allowed, expected);
}

#[test]
fn softmax() {
    let softmax = |dim: i64| {
        Case::new("dist.softmax", vec![("x", tensor(&[2, 4, 6], 1))]).attr("dim", Value::Int(dim))
    };
    assert_eq!(softmax(2).check(), ["d0", "d1", "whole"]);
    assert_eq!(softmax(0).check(), ["d1", "d2", "whole"]);
    let operands = vec![("y", positive(&[4, 6], 1)), ("dy", tensor(&[4, 6], 2))];
    let gradient = Case::new("dist.softmax_grad", operands).attr("dim", Value::Int(1));
    assert_eq!(
        gradient.check(),
        ["d0 d0", "whole avg", "whole sum", "whole whole"]
    );
}

fn loss(axes: Value) -> Case {
    let operands = vec![
        ("logits", tensor(&[2, 4, 6], 1)),
        ("labels", whole_numbers(&[2, 4], 6, 2)),
    ];
    Case::new("dist.softmax_cross_entropy", operands)
        .attr("axes", axes)
        .attr("ignore_index", Value::Int(3))
}

fn loss_gradient(axes: Value) -> Case {
    let operands = vec![
        ("softmax", positive(&[2, 4, 6], 1)),
        ("labels", whole_numbers(&[2, 4], 6, 2)),
        ("dloss", tensor(&[2, 4], 3)),
    ];
    Case::new("dist.softmax_cross_entropy_grad", operands)
        .attr("axes", axes)
        .attr("ignore_index", Value::Int(3))
}

#[test]
fn cross_entropy() {
    assert_eq!(loss(nowhere()).check(), ["d0 d0", "d1 d1", "whole whole"]);
    assert_eq!(
        loss_gradient(nowhere()).check(),
        [
            "d0 d0 d0",
            "d1 d1 d1",
            "whole whole avg",
            "whole whole sum",
            "whole whole whole"
        ]
    );
}

/// What a rule says of an op over the axis, for operands that are spread like this.
fn rule(
    case: &Case,
    parts: &[Tensor],
    spreads: &[Spread],
    results: &[Tensor],
) -> Result<Vec<Spread>, &'static str> {
    let types = |of: &[Tensor]| of.iter().map(Tensor::ty).collect::<Vec<_>>();
    let layouts: Vec<Layout> = parts
        .iter()
        .zip(spreads)
        .map(|(x, &spread)| {
            let mut layout = Layout::replicated(x.rank());
            layout.set(0, spread);
            layout
        })
        .collect();
    let call = LayoutCall {
        operands: &types(parts),
        layouts: &layouts,
        attrs: &case.attrs(),
        results: &types(results),
        mesh: &mesh(),
    };
    let found = ops::layouts(case.def, &call).map_err(|e| e.code())?;
    Ok(found.iter().map(|l| l.on(0)).collect())
}

/// Pieces of the vocabulary give the same loss and gradient as all of it.
#[test]
fn vocabulary_in_pieces() {
    let whole = loss(nowhere());
    let operands = whole.whole();
    let expected = whole.run(&operands, &whole.result_types(&operands), 0);
    let case = loss(over_mp());
    let spreads = [Spread::Sharded(2), Spread::Replicated];
    let pieces: Vec<Vec<Tensor>> = operands
        .iter()
        .zip(spreads)
        .map(|(x, spread)| take_apart(x, spread, 0))
        .collect();
    let inputs: Vec<Vec<Tensor>> = (0..RANKS)
        .map(|rank| pieces.iter().map(|p| p[rank].clone()).collect())
        .collect();
    let results = combine(case.def, &inputs, &case.attrs()).unwrap();
    let layouts = rule(&case, &inputs[0], &spreads, &results[0]).unwrap();
    assert_eq!(layouts, [Spread::Replicated, Spread::Sharded(2)]);
    for (i, expected) in expected.iter().enumerate() {
        let parts: Vec<Tensor> = results.iter().map(|r| r[i].clone()).collect();
        crate::world::close(&put_together(&parts, layouts[i]), expected).unwrap();
    }
    // The vocabulary must be cut, and only it.
    let code = rule(&case, &inputs[0], &[Spread::Replicated; 2], &results[0]);
    assert_eq!(code, Err("E0344"));
    let code = rule(&whole, &inputs[0], &spreads, &results[0]);
    assert_eq!(code, Err("E0340"));

    let whole = loss_gradient(nowhere());
    let operands = whole.whole();
    let expected = whole.run(&operands, &whole.result_types(&operands), 0);
    let case = loss_gradient(over_mp());
    let softmax = take_apart(&operands[0], Spread::Sharded(2), 0);
    let inputs = |rank: usize| {
        vec![
            softmax[rank].clone(),
            operands[1].clone(),
            operands[2].clone(),
        ]
    };
    let types = [softmax[0].ty()];
    let parts: Vec<Tensor> = (0..RANKS)
        .map(|rank| case.run(&inputs(rank), &types, rank)[0].clone())
        .collect();
    let spreads = [Spread::Sharded(2), Spread::Replicated, Spread::Replicated];
    let layouts = rule(&case, &inputs(0), &spreads, &parts[..1]).unwrap();
    assert_eq!(layouts, [Spread::Sharded(2)]);
    crate::world::close(&put_together(&parts, layouts[0]), &expected[0]).unwrap();
}

#[test]
fn tables() {
    let ids = whole_numbers(&[4], 6, 1);
    let table = tensor(&[6, 2], 1);
    let whole = Case::new(
        "dist.embedding",
        vec![("ids", ids.clone()), ("table", table.clone())],
    );
    let alone = whole.attr("axes", nowhere());
    let allowed = [
        "d0 whole",
        "whole avg",
        "whole d1",
        "whole sum",
        "whole whole",
    ];
    assert_eq!(alone.check(), allowed);

    let expected = alone.run(&alone.whole(), &alone.result_types(&alone.whole()), 0);
    let case = Case::new(
        "dist.embedding",
        vec![("ids", ids.clone()), ("table", table.clone())],
    )
    .attr("axes", over_mp());
    let rows = take_apart(&table, Spread::Sharded(0), 0);
    let types = [expected[0].ty()];
    let parts: Vec<Tensor> = (0..RANKS)
        .map(|rank| case.run(&[ids.clone(), rows[rank].clone()], &types, rank)[0].clone())
        .collect();
    let operands = [ids.clone(), rows[0].clone()];
    let spreads = [Spread::Replicated, Spread::Sharded(0)];
    let layouts = rule(&case, &operands, &spreads, &parts[..1]).unwrap();
    assert_eq!(layouts, [Spread::Partial(Reduction::Sum)]);
    crate::world::close(&put_together(&parts, layouts[0]), &expected[0]).unwrap();
    let code = rule(&case, &operands, &[Spread::Replicated; 2], &parts[..1]);
    assert_eq!(code, Err("E0344"));
    let code = rule(&alone, &operands, &spreads, &parts[..1]);
    assert_eq!(code, Err("E0340"));

    let operands = vec![("ids", ids.clone()), ("dout", tensor(&[4, 2], 2))];
    let mut gradient = Case::new("dist.embedding_grad", operands.clone()).attr("axes", nowhere());
    gradient.given = Some(|_| raddle_dialect::TensorType::new([6, 2], DType::F64));
    let expected = gradient.run(&gradient.whole(), &[table.ty()], 0);
    // The type of the result is that of a whole table, so the features stay whole.
    let allowed = gradient.check_but(|name| name.ends_with("d1"));
    assert!(allowed.contains(&"d0 d0".into()), "{allowed:?}");
    assert!(!allowed.contains(&"d0 whole".into()));
    let case = Case::new("dist.embedding_grad", operands).attr("axes", over_mp());
    let parts: Vec<Tensor> = (0..RANKS)
        .map(|rank| case.run(&gradient.whole(), &[rows[0].ty()], rank)[0].clone())
        .collect();
    let spreads = [Spread::Replicated; 2];
    let layouts = rule(&case, &case.whole(), &spreads, &parts[..1]).unwrap();
    assert_eq!(layouts, [Spread::Sharded(0)]);
    crate::world::close(&put_together(&parts, layouts[0]), &expected[0]).unwrap();
}

#[test]
fn dropout() {
    let dropout = |axes: Value| {
        Case::new("dist.dropout", vec![("x", tensor(&[4, 6], 1))])
            .attr("rate", Value::Float(0.4))
            .attr("seed", Value::Int(3))
            .attr("axes", axes)
    };
    // A cut operand has another mask than the whole; that is not arithmetic on pieces.
    let cut = |name: &str| name.starts_with('d');
    assert_eq!(dropout(nowhere()).check_but(cut), ["avg", "sum", "whole"]);
    let case = dropout(over_mp());
    let x = case.whole();
    let types = case.result_types(&x);
    let parts: Vec<Vec<Tensor>> = (0..RANKS).map(|rank| case.run(&x, &types, rank)).collect();
    assert_ne!(parts[0][1], parts[1][1], "each rank has its own mask");
    let found = |spread| rule(&case, &x, &[spread], &parts[0]);
    assert_eq!(found(Spread::Replicated), Ok(vec![Spread::Own; 2]));
    assert_eq!(found(Spread::Sharded(1)), Ok(vec![Spread::Sharded(1); 2]));
    assert_eq!(found(Spread::Partial(Reduction::Sum)), Err("E0341"));

    let mask = Tensor::from_fn([4, 6], DType::Bool, |at| f64::from(at % 3 == 0));
    let operands = vec![("dout", tensor(&[4, 6], 1)), ("mask", mask)];
    let gradient = Case::new("dist.dropout_grad", operands).attr("rate", Value::Float(0.4));
    assert_eq!(
        gradient.check(),
        ["avg whole", "d0 d0", "d1 d1", "sum whole", "whole whole"]
    );
}

fn attention(heads: [usize; 2], causal: bool) -> Case {
    let [heads, groups] = heads;
    let operands = vec![
        ("q", tensor(&[2, heads, 2, 2], 1)),
        ("k", tensor(&[2, groups, 4, 2], 2)),
        ("v", tensor(&[2, groups, 4, 2], 3)),
    ];
    with_attention(Case::new("dist.attention", operands), causal)
}

fn with_attention(case: Case, causal: bool) -> Case {
    case.attr("causal", Value::Bool(causal))
        .attr("scale", Value::Float(0.7))
        .attr("dropout", Value::Float(0.0))
        .attr("seed", Value::Int(0))
        .attr("axes", nowhere())
}

#[test]
fn attention_by_batch_heads_and_queries() {
    let causal = ["d0 d0 d0", "d1 d1 d1", "whole whole whole"];
    assert_eq!(attention([4, 2], true).check(), causal);
    let free = [
        "d0 d0 d0",
        "d1 d1 d1",
        "d2 whole whole",
        "whole whole whole",
    ];
    assert_eq!(attention([2, 2], false).check(), free);
    // One head of keys for all.
    let shared = ["d0 d0 d0", "d1 whole whole", "whole whole whole"];
    assert_eq!(attention([2, 1], true).check(), shared);
}

#[test]
fn attention_gradients() {
    for (heads, causal) in [([4, 2], true), ([2, 1], false)] {
        let forward = attention(heads, causal);
        let operands = forward.whole();
        let saved = forward.run(&operands, &forward.result_types(&operands), 0);
        let operands = vec![
            ("q", operands[0].clone()),
            ("k", operands[1].clone()),
            ("v", operands[2].clone()),
            ("out", saved[0].clone()),
            ("log_sum_exp", saved[1].clone()),
            ("dout", tensor(&saved[0].shape, 4)),
        ];
        let case = with_attention(Case::new("dist.attention_grad", operands), causal);
        // Only the gradient may be partial; trying all parts of all operands takes long.
        let many = |name: &str| {
            let parts = ["max", "min", "avg"];
            let (saved, dout) = name.rsplit_once(' ').unwrap();
            parts.iter().any(|w| saved.contains(w)) || parts[..2].contains(&dout)
        };
        let allowed = case.check_but(many);
        let keys = if heads[1] == 1 { "whole" } else { "d1" };
        let mut expected = vec![
            "d0 d0 d0 d0 d0 d0".to_owned(),
            format!("d1 {keys} {keys} d1 d1 d1"),
            "whole whole whole whole whole avg".into(),
            "whole whole whole whole whole sum".into(),
            "whole whole whole whole whole whole".into(),
        ];
        if !causal {
            expected.push("d2 whole whole d2 d2 d2".into());
        }
        expected.sort();
        assert_eq!(allowed, expected);
    }
}

#[test]
fn rms_norm() {
    let attrs = |case: Case| {
        case.attr("begin_norm_axis", Value::Int(2))
            .attr("epsilon", Value::Float(1e-5))
    };
    let operands = vec![("x", tensor(&[2, 4, 6], 1)), ("scale", tensor(&[6], 2))];
    let allowed = attrs(Case::new("dist.rms_norm", operands.clone())).check();
    assert_eq!(allowed, ["d0 whole", "d1 whole", "whole whole"]);
    let mut operands = operands;
    operands.extend([
        ("inverse_rms", positive(&[2, 4], 4)),
        ("dy", tensor(&[2, 4, 6], 6)),
    ]);
    let allowed = attrs(Case::new("dist.rms_norm_grad", operands)).check();
    let expected = [
        "d0 whole d0 d0",
        "d1 whole d1 d1",
        "whole whole whole avg",
        "whole whole whole sum",
        "whole whole whole whole",
    ];
    assert_eq!(allowed, expected);
}

/// The windows of all ranks, each in its place, add up to the whole gradient.
#[test]
fn slice_gradients() {
    let alone = Case::new(
        "dist.slice_grad",
        vec![("x", tensor(&[4, 6], 1)), ("dout", tensor(&[4, 2], 2))],
    )
    .attr("dims", ints(&[1]))
    .attr("starts", ints(&[1]))
    .attr("sizes", ints(&[2]))
    .attr("axes", Value::List(vec![nowhere()]));
    let any_x = |name: &str| {
        ["avg ", "sum ", "max ", "min "]
            .iter()
            .any(|w| name.starts_with(w))
    };
    assert_eq!(
        alone.check_but(any_x),
        ["d0 d0", "whole avg", "whole sum", "whole whole"]
    );
    let (x, dout) = (tensor(&[4, 6], 1), tensor(&[4, 4], 2));
    let case = Case::new(
        "dist.slice_grad",
        vec![("x", x.clone()), ("dout", dout.clone())],
    )
    .attr("dims", ints(&[1]))
    .attr("starts", ints(&[1]))
    .attr("sizes", ints(&[2]))
    .attr("axes", Value::List(vec![over_mp()]));
    let pieces = take_apart(&dout, Spread::Sharded(1), 0);
    let parts: Vec<Tensor> = (0..RANKS)
        .map(|rank| case.run(&[x.clone(), pieces[rank].clone()], &[x.ty()], rank)[0].clone())
        .collect();
    let operands = [x.clone(), pieces[0].clone()];
    let layouts = rule(
        &case,
        &operands,
        &[Spread::Replicated, Spread::Sharded(1)],
        &parts[..1],
    );
    assert_eq!(layouts, Ok(vec![Spread::Partial(Reduction::Sum)]));
    let found = put_together(&parts, Spread::Partial(Reduction::Sum));
    let expected = Tensor::from_fn([4, 6], DType::F64, |at| match at % 6 {
        column @ 1..5 => dout.data[at / 6 * 4 + column - 1],
        _ => 0.0,
    });
    assert_eq!(found, expected);
    let code = rule(&case, &operands, &[Spread::Replicated; 2], &parts[..1]);
    assert_eq!(code, Err("E0340"));
}
