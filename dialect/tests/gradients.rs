//! Every gradient op against finite differences of its forward op, in exact arithmetic.

use std::collections::HashMap;

use raddle_dialect::ops::{self, OpDef, Value};
use raddle_dialect::reference::{Call, Tensor, eval};
use raddle_dialect::{DType, TensorType};

type Attrs = Vec<(&'static str, Value)>;

/// A forward op, what it is applied to, and the gradient op that belongs to it.
struct Case {
    forward: &'static OpDef,
    backward: &'static OpDef,
    attrs: Attrs,
    /// Attributes that only the gradient op has.
    extra: Attrs,
    /// Operands of the forward op: group and value.
    operands: Vec<(&'static str, Tensor)>,
    /// What the gradient op calls the forward op's results that it reads, by position.
    saved: Vec<(&'static str, usize)>,
    /// What it calls the gradient of the forward op's first result.
    dout: &'static str,
}

fn definition(name: &str) -> &'static OpDef {
    ops::ALL
        .iter()
        .flat_map(|family| family.iter())
        .find(|d| d.name == name)
        .unwrap_or_else(|| panic!("no op {name}"))
}

/// Numbers that look random: smooth functions of a seed and the position.
fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_fn(shape, DType::F64, |at| {
        let x = (at as f64 + 1.3) * (seed as f64 + 0.7);
        (x * 12.9898).sin() * 1.5 + (x * 0.37).cos() * 0.25
    })
}

/// Runs an op whose operands and result types are given by group.
fn run(
    def: &'static OpDef,
    attrs: &Attrs,
    operands: &[(&str, Tensor)],
    results: &[(&str, TensorType)],
) -> Vec<Tensor> {
    let mut attrs = attrs.clone();
    let mut values = Vec::new();
    let mut sizes = Vec::new();
    for group in def.operands {
        let members = operands.iter().filter(|o| o.0 == group.name);
        sizes.push(members.clone().count() as i64);
        values.extend(members.map(|o| o.1.clone()));
    }
    attrs.push((ops::OPERAND_SEGMENTS, Value::Ints(sizes)));
    let mut types = Vec::new();
    let mut sizes = Vec::new();
    for group in def.results {
        let members = results.iter().filter(|r| r.0 == group.name);
        sizes.push(members.clone().count() as i64);
        types.extend(members.map(|r| r.1.clone()));
    }
    attrs.push((ops::RESULT_SEGMENTS, Value::Ints(sizes)));
    let call = Call {
        operands: &values,
        attrs: &attrs,
        results: &types,
        place: None,
        stream: 0,
        microbatch: 0,
    };
    eval(def, &call).unwrap_or_else(|e| panic!("'{}' op {e}", def.name))
}

/// Result types of the forward op: those that inference gives.
fn forward_types(case: &Case) -> Vec<(&'static str, TensorType)> {
    let mut attrs = case.attrs.clone();
    let mut types = Vec::new();
    let mut sizes = Vec::new();
    for group in case.forward.operands {
        let members = case.operands.iter().filter(|o| o.0 == group.name);
        sizes.push(members.clone().count() as i64);
        types.extend(members.map(|o| o.1.ty()));
    }
    attrs.push((ops::OPERAND_SEGMENTS, Value::Ints(sizes)));
    let request = ops::Request {
        operands: &types,
        attrs: &attrs,
        mesh: None,
        counts: None,
    };
    let types = ops::infer(case.forward, &request).unwrap_or_else(|e| panic!("{e}"));
    case.forward
        .results
        .iter()
        .map(|g| g.name)
        .zip(types)
        .collect()
}

fn check(case: &Case) {
    let name = case.backward.name;
    let types = forward_types(case);
    let forward =
        |operands: &[(&'static str, Tensor)]| run(case.forward, &case.attrs, operands, &types);
    let outs = forward(&case.operands);
    let weights = tensor(&outs[0].shape, 99);
    let loss = |operands: &[(&'static str, Tensor)]| -> f64 {
        let out = &forward(operands)[0];
        out.data
            .iter()
            .zip(weights.data.iter())
            .map(|(o, w)| o * w)
            .sum()
    };

    let mut operands: Vec<(&str, Tensor)> = Vec::new();
    for group in case.backward.operands {
        if group.name == case.dout {
            operands.push((group.name, weights.clone()));
        } else if let Some(saved) = case.saved.iter().find(|s| s.0 == group.name) {
            operands.push((group.name, outs[saved.1].clone()));
        } else if let Some(operand) = case.operands.iter().find(|o| o.0 == group.name) {
            operands.push((group.name, operand.1.clone()));
        }
    }
    let mut wanted = Vec::new();
    let mut of = HashMap::new();
    for (operand, value) in &case.operands {
        let gradient = case
            .backward
            .results
            .iter()
            .find(|g| g.name == format!("d{operand}"));
        if let Some(group) = gradient {
            wanted.push((group.name, value.ty()));
            of.insert(group.name, *operand);
        }
    }
    wanted.sort_by_key(|w| case.backward.result_group(w.0));
    assert!(!wanted.is_empty());
    let attrs: Attrs = case.attrs.iter().chain(&case.extra).cloned().collect();
    let gradients = run(case.backward, &attrs, &operands, &wanted);
    assert_eq!(gradients.len(), wanted.len());

    let h = 1e-5;
    for ((result, _), gradient) in wanted.iter().zip(&gradients) {
        let operand = case
            .operands
            .iter()
            .position(|o| o.0 == of[result])
            .unwrap();
        for at in 0..gradient.len() {
            let shifted = |by: f64| {
                let mut operands = case.operands.clone();
                let mut data = operands[operand].1.data.to_vec();
                data[at] += by;
                operands[operand].1 = Tensor::new(gradient.shape.clone(), DType::F64, data);
                loss(&operands)
            };
            let expected = (shifted(h) - shifted(-h)) / (2.0 * h);
            let found = gradient.data[at];
            assert!(
                (expected - found).abs() <= 1e-7 * (1.0 + expected.abs()),
                "{name}: {result}[{at}] is {found}, but the difference quotient is {expected} ({:?})",
                case.attrs
            );
        }
        // Asked for alone, a gradient is the same.
        let alone = run(case.backward, &attrs, &operands, &[(result, gradient.ty())]);
        assert_eq!(&alone[0], gradient, "{name}: {result} alone");
    }
}

fn flag(value: bool) -> Value {
    Value::Bool(value)
}

#[test]
fn add_and_mul() {
    for (forward, backward) in [("dist.add", "dist.add_grad"), ("dist.mul", "dist.mul_grad")] {
        for (a, b) in [
            (&[2, 3, 4][..], &[2, 3, 4][..]),
            (&[2, 3, 4], &[4]),
            (&[4], &[2, 3, 4]),
            (&[2, 1, 4], &[3, 1]),
            (&[], &[1]),
            (&[1], &[2, 2]),
        ] {
            check(&Case {
                forward: definition(forward),
                backward: definition(backward),
                attrs: vec![],
                extra: vec![],
                operands: vec![("a", tensor(a, 1)), ("b", tensor(b, 2))],
                saved: vec![],
                dout: "dout",
            });
        }
    }
}

/// A shape that enters the product with its last two dimensions swapped.
fn swapped(shape: &[usize], swap: bool) -> Vec<usize> {
    let mut shape = shape.to_vec();
    let n = shape.len();
    if swap {
        shape.swap(n - 2, n - 1);
    }
    shape
}

#[test]
fn matmul() {
    for (a, b) in [
        (&[3, 4][..], &[4, 2][..]),
        (&[2, 3, 4], &[4, 2]),
        (&[3, 4], &[5, 4, 2]),
        (&[2, 1, 3, 4], &[5, 4, 2]),
        (&[2, 3, 4], &[2, 4, 2]),
    ] {
        for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
            check(&Case {
                forward: definition("dist.matmul"),
                backward: definition("dist.matmul_grad"),
                attrs: vec![("transpose_a", flag(ta)), ("transpose_b", flag(tb))],
                extra: vec![],
                operands: vec![
                    ("a", tensor(&swapped(a, ta), 3)),
                    ("b", tensor(&swapped(b, tb), 4)),
                ],
                saved: vec![],
                dout: "dout",
            });
        }
    }
}

#[test]
fn fused_linear() {
    for x in [&[3, 4][..], &[2, 3, 4]] {
        for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
            check(&Case {
                forward: definition("dist.fused_linear"),
                backward: definition("dist.fused_linear_grad"),
                attrs: vec![
                    ("transpose_a", flag(ta)),
                    ("transpose_b", flag(tb)),
                    ("activation", Value::Str("none".into())),
                ],
                extra: vec![("overwrite", flag(false))],
                operands: vec![
                    ("x", tensor(&swapped(x, ta), 5)),
                    ("w", tensor(&swapped(&[4, 2], tb), 6)),
                    ("bias", tensor(&[2], 7)),
                ],
                saved: vec![],
                dout: "dout",
            });
        }
    }
}

/// Two layers: the gradient op of the second applies the derivative of the first one's activation, and adds to what is there.
#[test]
fn fused_linear_chain() {
    for activation in ["relu", "gelu", "gelu_tanh"] {
        let forward = definition("dist.fused_linear");
        let attrs = |activation: &str| -> Attrs {
            vec![
                ("transpose_a", flag(false)),
                ("transpose_b", flag(true)),
                ("activation", Value::Str(activation.into())),
            ]
        };
        let f64s = |shape: &[i64]| TensorType::new(shape, DType::F64);
        let (w1, w2) = (tensor(&[5, 4], 11), tensor(&[3, 5], 12));
        let layers = |x: &Tensor, w2: &Tensor| {
            let types = [("out", f64s(&[2, 5])), ("aux", f64s(&[2, 5]))];
            let operands = [("x", x.clone()), ("w", w1.clone())];
            let first = run(forward, &attrs(activation), &operands, &types);
            let operands = [("x", first[0].clone()), ("w", w2.clone())];
            let types = [("out", f64s(&[2, 3]))];
            let second = run(forward, &attrs("none"), &operands, &types);
            (first, second[0].clone())
        };
        let x = tensor(&[2, 4], 10);
        let dout = tensor(&[2, 3], 13);
        let loss = |x: &Tensor, w2: &Tensor| -> f64 {
            let out = layers(x, w2).1;
            out.data
                .iter()
                .zip(dout.data.iter())
                .map(|(o, d)| o * d)
                .sum()
        };
        let (first, _) = layers(&x, &w2);
        let acc = tensor(&[3, 5], 14);
        let gradients = |overwrite: bool| {
            let mut attrs = attrs(activation);
            attrs.push(("overwrite", flag(overwrite)));
            let operands = [
                ("x", first[0].clone()),
                ("w", w2.clone()),
                ("dout", dout.clone()),
                ("aux", first[1].clone()),
                ("acc", acc.clone()),
            ];
            let types = [("dx", f64s(&[2, 5])), ("dw", f64s(&[3, 5]))];
            run(
                definition("dist.fused_linear_grad"),
                &attrs,
                &operands,
                &types,
            )
        };
        let [daux, dw] = &gradients(true)[..] else {
            panic!("two results");
        };
        let added = gradients(false)[1].clone();
        assert_eq!(added, dw.zip(&acc, |d, a| d + a).unwrap());
        let h = 1e-5;
        for at in 0..w2.len() {
            let shifted = |by: f64| {
                let mut data = w2.data.to_vec();
                data[at] += by;
                loss(&x, &Tensor::new([3, 5], DType::F64, data))
            };
            let expected = (shifted(h) - shifted(-h)) / (2.0 * h);
            assert!(
                (expected - dw.data[at]).abs() < 1e-7,
                "{activation} dw[{at}]"
            );
        }
        // The gradient of the first pre-activation times the first weight is the gradient of x.
        let attrs: Attrs = vec![("transpose_a", flag(false)), ("transpose_b", flag(false))];
        let operands = [("a", daux.clone()), ("b", w1.clone())];
        let dx = &run(
            definition("dist.matmul"),
            &attrs,
            &operands,
            &[("c", f64s(&[2, 4]))],
        )[0];
        for at in 0..x.len() {
            let shifted = |by: f64| {
                let mut data = x.data.to_vec();
                data[at] += by;
                loss(&Tensor::new([2, 4], DType::F64, data), &w2)
            };
            let expected = (shifted(h) - shifted(-h)) / (2.0 * h);
            assert!(
                (expected - dx.data[at]).abs() < 1e-7,
                "{activation} dx[{at}]"
            );
        }
    }
}

#[test]
fn activations() {
    let unary = |forward, backward, attrs| {
        check(&Case {
            forward: definition(forward),
            backward: definition(backward),
            attrs,
            extra: vec![],
            operands: vec![("x", tensor(&[5, 7], 8))],
            saved: vec![],
            dout: "dout",
        });
    };
    for approximate in [false, true] {
        unary(
            "dist.gelu",
            "dist.gelu_grad",
            vec![("approximate", flag(approximate))],
        );
    }
    unary("dist.relu", "dist.relu_grad", vec![]);
}

#[test]
fn reductions() {
    for (forward, backward) in [
        ("dist.reduce_sum", "dist.reduce_sum_grad"),
        ("dist.reduce_mean", "dist.reduce_mean_grad"),
    ] {
        for dims in [vec![], vec![0], vec![1], vec![2, 0], vec![0, 1, 2]] {
            for keep in [false, true] {
                check(&Case {
                    forward: definition(forward),
                    backward: definition(backward),
                    attrs: vec![
                        ("dims", Value::Ints(dims.clone())),
                        ("keep_dims", flag(keep)),
                    ],
                    extra: vec![],
                    operands: vec![("x", tensor(&[2, 3, 4], 9))],
                    saved: vec![],
                    dout: "dout",
                });
            }
        }
    }
}

#[test]
fn layer_norm() {
    for (axis, features) in [
        (1, vec![3, 4]),
        (1, vec![12]),
        (2, vec![4]),
        (0, vec![2, 3, 4]),
    ] {
        for (with_scale, with_bias) in [(true, true), (true, false), (false, true), (false, false)]
        {
            let mut operands = vec![("x", tensor(&[2, 3, 4], 15))];
            if with_scale {
                operands.push(("scale", tensor(&features, 16)));
            }
            if with_bias {
                operands.push(("bias", tensor(&features, 17)));
            }
            check(&Case {
                forward: definition("dist.layer_norm"),
                backward: definition("dist.layer_norm_grad"),
                attrs: vec![
                    ("begin_norm_axis", Value::Int(axis)),
                    ("epsilon", Value::Float(1e-3)),
                ],
                extra: vec![],
                operands,
                saved: vec![("mean", 1), ("variance", 2)],
                dout: "dy",
            });
        }
    }
}
