//! What no gradient rule builds but `fuse-linear` does: a linear layer's gradient op that applies the derivative of the activation
//! before it, and adds to a gradient that is there.

use raddle_dialect::ops::linear::ACTIVATIONS;
use raddle_dialect::ops::{self, OpDef, Value};
use raddle_dialect::reference::{Call, Tensor, eval};
use raddle_dialect::{DType, TensorType};

type Attrs = Vec<(&'static str, Value)>;

fn definition(name: &str) -> &'static OpDef {
    ops::definition(name).unwrap_or_else(|| panic!("no op {name}"))
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

fn flag(value: bool) -> Value {
    Value::Bool(value)
}

/// Two layers: the gradient op of the second applies the derivative of the first one's activation, and adds to what is there.
#[test]
fn fused_linear_chain() {
    for &activation in ACTIVATIONS.iter().filter(|&&a| a != "none") {
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
