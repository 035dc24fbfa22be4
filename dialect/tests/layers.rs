//! Layers against what they are made of: each is computed a second time from simpler ops.

use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{self, OpDef, Value};
use raddle_dialect::reference::{Call, Place, Tensor, combine, eval};
use raddle_dialect::{DType, Error, TensorType};

type Attrs = Vec<(&'static str, Value)>;

fn definition(name: &str) -> &'static OpDef {
    ops::definition(name).unwrap_or_else(|| panic!("no op {name}"))
}

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_fn(shape, DType::F64, |at| {
        let x = (at as f64 + 1.3) * (seed as f64 + 0.7);
        (x * 12.9898).sin() * 1.5 + (x * 0.37).cos() * 0.25
    })
}

fn mesh() -> Mesh {
    Mesh::new(vec!["dp".into(), "mp".into()], vec![2, 3]).unwrap()
}

/// Runs an op on a rank of the mesh, in some micro-batch.
fn run_at(
    name: &str,
    attrs: Attrs,
    operands: &[Tensor],
    (coordinate, microbatch): ([usize; 2], u64),
) -> Result<Vec<Tensor>, Error> {
    let types: Vec<TensorType> = operands.iter().map(Tensor::ty).collect();
    let mesh = mesh();
    let results = ops::infer(
        definition(name),
        &ops::Request {
            operands: &types,
            attrs: &attrs,
            mesh: Some(&mesh),
            counts: None,
        },
    )?;
    let call = Call {
        operands,
        attrs: &attrs,
        results: &results,
        place: Some(Place {
            mesh: &mesh,
            coordinate: &coordinate,
        }),
        stream: 0,
        microbatch,
    };
    eval(definition(name), &call)
}

fn run(name: &str, attrs: Attrs, operands: &[Tensor]) -> Tensor {
    let results = run_at(name, attrs, operands, ([0, 0], 0));
    results
        .unwrap_or_else(|e| panic!("'{name}' op {e}"))
        .swap_remove(0)
}

fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape, b.shape);
    for (x, y) in a.data.iter().zip(b.data.iter()) {
        assert!((x - y).abs() <= 1e-12 * (1.0 + x.abs()), "{x} and {y}");
    }
}

fn axes(names: &[&str]) -> Value {
    Value::List(names.iter().map(|&n| Value::Str(n.into())).collect())
}

fn product(a: &Tensor, b: &Tensor, transpose_b: bool) -> Tensor {
    let attrs = vec![
        ("transpose_a", Value::Bool(false)),
        ("transpose_b", Value::Bool(transpose_b)),
    ];
    run("dist.matmul", attrs, &[a.clone(), b.clone()])
}

#[test]
fn softmax_is_exponentials_over_their_sum() {
    let x = tensor(&[2, 3, 4], 1);
    for dim in 0..3 {
        let exp = run("dist.exp", vec![], std::slice::from_ref(&x));
        let attrs = vec![
            ("dims", Value::Ints(vec![dim])),
            ("keep_dims", Value::Bool(true)),
        ];
        let sum = run("dist.reduce_sum", attrs, std::slice::from_ref(&exp));
        let expected = run("dist.div", vec![], &[exp, sum]);
        let attrs = vec![("dim", Value::Int(dim))];
        close(
            &run("dist.softmax", attrs.clone(), std::slice::from_ref(&x)),
            &expected,
        );
        // Large numbers do not overflow.
        let far = x.map(|v| v + 1e5);
        let found = run("dist.softmax", attrs, &[far]);
        assert!(found.data.iter().all(|v| v.is_finite()));
    }
}

#[test]
fn cross_entropy_is_the_logarithm_of_the_softmax() {
    let logits = tensor(&[5, 4], 2);
    let labels = Tensor::new([5], DType::I64, vec![3.0, 0.0, -1.0, 2.0, 2.0]);
    let softmax = run(
        "dist.softmax",
        vec![("dim", Value::Int(1))],
        std::slice::from_ref(&logits),
    );
    let log = run("dist.log", vec![], std::slice::from_ref(&softmax));
    let expected = Tensor::from_fn([5], DType::F64, |row| match labels.data[row] {
        -1.0 => 0.0,
        label => -log.data[row * 4 + label as usize],
    });
    let attrs = |ignored| vec![("axes", axes(&[])), ("ignore_index", Value::Int(ignored))];
    let name = "dist.softmax_cross_entropy";
    let operands = [logits, labels];
    let found = run_at(name, attrs(-1), &operands, ([0, 0], 0)).unwrap();
    close(&found[0], &expected);
    close(&found[1], &softmax);
    let outside = run_at(name, attrs(-100), &operands, ([0, 0], 0));
    assert_eq!(outside.unwrap_err().code(), "E0350");
    // A piece of the vocabulary alone is not enough.
    let alone = vec![("axes", axes(&["mp"])), ("ignore_index", Value::Int(-1))];
    let alone = run_at(name, alone, &operands, ([0, 0], 0));
    assert_eq!(alone.unwrap_err().code(), "E0350");
    let apart = [operands[0].clone(), operands[1].with_dtype(DType::I32)];
    let mixed = combine(
        definition(name),
        &[operands.to_vec(), apart.to_vec()],
        &attrs(-1),
    );
    assert_eq!(mixed.unwrap_err().code(), "E0350");
}

#[test]
fn tables_are_products_with_unit_vectors() {
    let table = tensor(&[4, 3], 3);
    let ids = Tensor::new([2, 2], DType::I32, vec![3.0, 0.0, 1.0, 3.0]);
    let units = Tensor::from_fn([2, 2, 4], DType::F64, |at| {
        f64::from(ids.data[at / 4] == (at % 4) as f64)
    });
    let expected = product(&units, &table, false);
    let attrs = || vec![("axes", axes(&[]))];
    let name = "dist.embedding";
    close(
        &run(name, attrs(), &[ids.clone(), table.clone()]),
        &expected,
    );
    let far = ids.map(|id| id + 1.0);
    let far = run_at(name, attrs(), &[far, table.clone()], ([0, 0], 0));
    assert_eq!(far.unwrap_err().code(), "E0350");
    // The last of three pieces holds rows 8 to 11.
    let ids = ids.map(|id| id + 7.0);
    let attrs = vec![("axes", axes(&["mp"]))];
    let found = run_at(name, attrs, &[ids, table.clone()], ([1, 2], 0)).unwrap();
    let piece = Tensor::from_fn([2, 2, 3], DType::F64, |at| match at / 3 {
        0 | 3 => table.data[2 * 3 + at % 3],
        2 => table.data[at % 3],
        _ => 0.0,
    });
    close(&found[0], &piece);
}

/// Weights of a causal query are the softmax of scores with −∞ where it does not see.
#[test]
fn attention_is_softmax_between_products() {
    for (causal, [n, m]) in [(false, [3, 5]), (true, [5, 5]), (true, [3, 5])] {
        let q = tensor(&[2, 4, n, 3], 4);
        let (k, v) = (tensor(&[2, 2, m, 3], 5), tensor(&[2, 2, m, 2], 6));
        // Two neighbouring heads share keys and values.
        let each = |x: &Tensor| {
            let inner = x.shape[2] * x.shape[3];
            let mut shape = x.shape.clone();
            shape[1] = 4;
            Tensor::from_fn(shape, DType::F64, |at| {
                let (batch, head) = (at / inner / 4, at / inner % 4);
                x.data[(batch * 2 + head / 2) * inner + at % inner]
            })
        };
        let scores = product(&q, &each(&k), true);
        let scores = Tensor::from_fn(scores.shape.clone(), DType::F64, |at| {
            let (query, key) = (at / m % n, at % m);
            match causal && key > query + m - n {
                true => f64::NEG_INFINITY,
                false => 0.5 * scores.data[at],
            }
        });
        let weights = run("dist.softmax", vec![("dim", Value::Int(3))], &[scores]);
        let expected = product(&weights, &each(&v), false);
        let attrs = vec![
            ("causal", Value::Bool(causal)),
            ("scale", Value::Float(0.5)),
            ("dropout", Value::Float(0.0)),
            ("seed", Value::Int(0)),
            ("axes", axes(&[])),
        ];
        close(&run("dist.attention", attrs, &[q, k, v]), &expected);
    }
}

#[test]
fn rms_norm_is_division_by_the_root_of_the_mean_square() {
    let (x, scale) = (tensor(&[2, 3, 4], 7), tensor(&[4], 8));
    let square = run("dist.mul", vec![], &[x.clone(), x.clone()]);
    let attrs = vec![
        ("dims", Value::Ints(vec![2])),
        ("keep_dims", Value::Bool(true)),
    ];
    let mean = run("dist.reduce_mean", attrs, &[square]);
    let root = run("dist.rsqrt", vec![], &[mean.map(|v| v + 0.25)]);
    let normal = run("dist.mul", vec![], &[x.clone(), root]);
    let expected = run("dist.mul", vec![], &[normal, scale.clone()]);
    let attrs = vec![
        ("begin_norm_axis", Value::Int(2)),
        ("epsilon", Value::Float(0.25)),
    ];
    close(&run("dist.rms_norm", attrs, &[x, scale]), &expected);
}

#[test]
fn silu_is_a_product_with_a_sigmoid() {
    let x = tensor(&[20], 9);
    // σ(x) = ½(1 + tanh(x/2))
    let sigmoid = run("dist.tanh", vec![], &[x.map(|v| v / 2.0)]).map(|t| 0.5 * (1.0 + t));
    let expected = run("dist.mul", vec![], &[x.clone(), sigmoid]);
    close(&run("dist.silu", vec![], &[x]), &expected);
}

/// The mask is a function of seed, micro-batch, coordinate on the axes and position; kept elements are scaled up.
#[test]
fn dropout_counts_its_mask() {
    let x = tensor(&[100, 100], 10);
    let mask = |seed: i64, over: &[&str], at: ([usize; 2], u64)| {
        let attrs = vec![
            ("rate", Value::Float(0.3)),
            ("seed", Value::Int(seed)),
            ("axes", axes(over)),
        ];
        let results = run_at("dist.dropout", attrs, std::slice::from_ref(&x), at).unwrap();
        for ((x, out), kept) in x
            .data
            .iter()
            .zip(results[0].data.iter())
            .zip(results[1].data.iter())
        {
            assert_eq!(*out, if *kept == 1.0 { x * (1.0 / 0.7) } else { 0.0 });
        }
        results[1].clone()
    };
    let first = mask(1, &["mp"], ([0, 1], 4));
    let kept = first.data.iter().sum::<f64>() / first.len() as f64;
    // Four standard deviations of 10,000 draws.
    assert!(
        (kept - 0.7).abs() < 4.0 * (0.3f64 * 0.7 / 1e4).sqrt(),
        "{kept}"
    );
    assert_eq!(
        mask(1, &["mp"], ([1, 1], 4)),
        first,
        "another rank along an axis that is not named"
    );
    assert_eq!(mask(1, &[], ([0, 2], 4)), mask(1, &[], ([1, 0], 4)));
    for other in [
        mask(1, &["mp"], ([0, 2], 4)),
        mask(1, &["mp"], ([0, 1], 5)),
        mask(2, &["mp"], ([0, 1], 4)),
    ] {
        let same = first
            .data
            .iter()
            .zip(other.data.iter())
            .filter(|(a, b)| a == b)
            .count();
        // Two independent masks agree where both keep or both drop: 0.58 of all.
        assert!((same as f64 / 1e4 - 0.58).abs() < 0.02, "{same}");
    }
}
