//! Values computed by hand, or by another formula than the one under test.

use super::*;
use crate::ops::{OPERAND_SEGMENTS, Value};
use crate::tensor_type::DType;

type Attributes = Vec<(&'static str, Value)>;

fn definition(name: &str) -> &'static OpDef {
    crate::ops::definition(name).expect("an op")
}

fn vector(values: &[f64]) -> Tensor {
    Tensor::new([values.len()], DType::F64, values.to_vec())
}

fn of(dtype: DType, values: &[f64]) -> Tensor {
    Tensor::new([values.len()], dtype, values.to_vec())
}

fn call(
    name: &str,
    attrs: &Attributes,
    operands: &[Tensor],
    results: &[TensorType],
    coordinate: &[usize],
) -> Result<Vec<Tensor>, Error> {
    let mesh = mesh();
    let place = Place {
        mesh: &mesh,
        coordinate,
    };
    let call = Call {
        operands,
        attrs,
        results,
        place: Some(place),
        stream: 7,
        microbatch: 0,
    };
    eval(definition(name), &call)
}

/// Evaluates an op each of whose results has the type of the operand at that position.
fn run(name: &str, attrs: &Attributes, operands: &[Tensor], results: &[usize]) -> Vec<Tensor> {
    let types: Vec<TensorType> = results.iter().map(|&i| operands[i].ty()).collect();
    call(name, attrs, operands, &types, &[0, 0]).unwrap()
}

fn mesh() -> Mesh {
    Mesh::new(vec!["dp".into(), "mp".into()], vec![2, 2]).unwrap()
}

fn assert_close(found: &Tensor, expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (f, e) in found.data.iter().zip(expected) {
        assert!((f - e).abs() <= 1e-12 * (1.0 + e.abs()), "{f} is not {e}");
    }
}

fn float(x: f64) -> Value {
    Value::Float(x)
}

#[test]
fn sgd_and_momentum() {
    let operands = [vector(&[1.0, 2.0]), vector(&[0.5, -1.0]), vector(&[0.1])];
    assert_close(&run("dist.sgd", &vec![], &operands, &[0])[0], &[0.95, 2.1]);

    let attrs = |nesterov: bool| -> Attributes {
        vec![
            ("mu", float(0.9)),
            ("use_nesterov", Value::Bool(nesterov)),
            ("l2_decay", float(0.5)),
            ("rescale_grad", float(2.0)),
        ]
    };
    let operands = [
        vector(&[1.0]),
        vector(&[0.25]),
        vector(&[0.5]),
        vector(&[0.1]),
    ];
    // The gradient is 2·0.25 + 0.5·1 = 1, the velocity 0.9·0.5 + 1 = 1.45.
    let results = run("dist.momentum", &attrs(false), &operands, &[0, 2]);
    assert_close(&results[0], &[1.0 - 0.145]);
    assert_close(&results[1], &[1.45]);
    let results = run("dist.momentum", &attrs(true), &operands, &[0, 2]);
    assert_close(&results[0], &[1.0 - 0.1 * (1.0 + 0.9 * 1.45)]);
}

const ADAM: [f64; 3] = [0.9, 0.99, 1e-3];

fn adam_attrs(decay: Option<(f64, f64)>, with_decay: bool) -> Attributes {
    let [beta1, beta2, epsilon] = ADAM.map(float);
    let sizes = Value::Ints(vec![1, 1, 1, 1, 1, 1, 1, 0, 0]);
    let mut attrs = vec![
        ("beta1", beta1),
        ("beta2", beta2),
        ("epsilon", epsilon),
        (OPERAND_SEGMENTS, sizes),
    ];
    if let Some((weight_decay, lr_ratio)) = decay {
        attrs.push(("weight_decay", float(weight_decay)));
        attrs.push(("lr_ratio", float(lr_ratio)));
        attrs.push(("with_decay", Value::Bool(with_decay)));
    }
    attrs
}

/// param, grad, moments, powers of step 3, learning rate
fn adam_operands() -> Vec<Tensor> {
    let [beta1, beta2, _] = ADAM;
    vec![
        vector(&[1.0, -2.0]),
        vector(&[0.3, 0.0]),
        vector(&[0.1, -0.2]),
        vector(&[0.04, 0.5]),
        vector(&[beta1.powi(3)]),
        vector(&[beta2.powi(3)]),
        vector(&[0.01]),
    ]
}

/// The textbook's Adam with bias-corrected moments (Kingma and Ba, algorithm 1) on one element.
fn textbook([p, g, m, v]: [f64; 4], lr: f64, decay: f64) -> [f64; 3] {
    let [beta1, beta2, epsilon] = ADAM;
    let m = beta1 * m + (1.0 - beta1) * g;
    let v = beta2 * v + (1.0 - beta2) * g * g;
    let corrected = (m / (1.0 - beta1.powi(3)), v / (1.0 - beta2.powi(3)));
    let step = lr * corrected.0 / (corrected.1.sqrt() + epsilon);
    [p - lr * decay * p - step, m, v]
}

#[test]
fn adam_is_the_textbooks() {
    let operands = adam_operands();
    let elements = |i: usize| [0, 1, 2, 3].map(|o: usize| operands[o].data[i]);
    for (attrs, name, lr, decay) in [
        (adam_attrs(None, false), "dist.adam", 0.01, 0.0),
        (adam_attrs(Some((0.1, 0.5)), true), "dist.adamw", 0.005, 0.1),
        (adam_attrs(Some((0.1, 0.5)), false), "dist.adamw", 0.01, 0.0),
    ] {
        let results = run(name, &attrs, &operands, &[0, 2, 3, 4, 5]);
        for i in 0..2 {
            let expected = textbook(elements(i), lr, decay);
            for (result, expected) in results.iter().zip(expected) {
                assert!((result.data[i] - expected).abs() < 1e-12, "{name}");
            }
        }
        assert_close(&results[3], &[ADAM[0].powi(4)]);
        assert_close(&results[4], &[ADAM[1].powi(4)]);
    }
}

#[test]
fn adam_skips_and_keeps_a_master_copy() {
    let mut attrs = adam_attrs(None, false);
    attrs.retain(|a| a.0 != OPERAND_SEGMENTS);
    attrs.push((OPERAND_SEGMENTS, Value::Ints(vec![1; 9])));
    let mut operands = adam_operands();
    operands[0] = of(DType::F16, &[1.0, -2.0]);
    operands.push(of(DType::Bool, &[1.0]));
    operands.push(vector(&[1.25, -2.25]));
    let results = run("dist.adam", &attrs, &operands, &[0, 2, 3, 4, 5, 8]);
    for (result, operand) in results.iter().zip([0, 2, 3, 4, 5, 8]) {
        assert_eq!(result, &operands[operand]);
    }
    operands[7] = of(DType::Bool, &[0.0]);
    let results = run("dist.adam", &attrs, &operands, &[0, 2, 3, 4, 5, 8]);
    let expected = textbook([1.25, 0.3, 0.1, 0.04], 0.01, 0.0)[0];
    assert!((results[5].data[0] - expected).abs() < 1e-12);
    assert_eq!(results[0].dtype, DType::F16);
    assert_eq!(results[0].data, results[5].data);
}

#[test]
fn adamax() {
    let attrs: Attributes = vec![
        ("beta1", float(0.9)),
        ("beta2", float(0.5)),
        ("epsilon", float(0.01)),
    ];
    let operands = [
        vector(&[1.0, 1.0]),
        vector(&[-2.0, 0.1]),
        vector(&[0.5, 0.5]),
        vector(&[1.0, 3.0]),
        vector(&[0.75]),
        vector(&[0.1]),
    ];
    let results = run("dist.adamax", &attrs, &operands, &[0, 2, 3]);
    assert_close(&results[1], &[0.25, 0.46]);
    assert_close(&results[2], &[2.0, 1.51]);
    assert_close(&results[0], &[1.0 - 0.4 * 0.125, 1.0 - 0.4 * 0.46 / 1.51]);
}

fn scaling_attrs(stop: bool) -> Attributes {
    vec![
        ("group", Value::Int(0)),
        ("incr_every_n_steps", Value::Int(3)),
        ("decr_every_n_nan_or_inf", Value::Int(2)),
        ("incr_ratio", float(2.0)),
        ("decr_ratio", float(0.5)),
        ("stop_update", Value::Bool(stop)),
    ]
}

/// Scale and counters after a step.
fn rescaled(found: bool, [scale, good, bad]: [f64; 3], stop: bool) -> [f64; 3] {
    let operands = [
        vector(&[1.0, 2.0]),
        of(DType::Bool, &[f64::from(found)]),
        of(DType::F32, &[scale]),
        of(DType::I32, &[good]),
        of(DType::I32, &[bad]),
    ];
    let name = "dist.update_loss_scaling";
    let results = run(name, &scaling_attrs(stop), &operands, &[0, 2, 3, 4]);
    let expected = if found { [0.0, 0.0] } else { [1.0, 2.0] };
    assert_close(&results[0], &expected);
    [1, 2, 3].map(|i: usize| results[i].data[0])
}

#[test]
fn loss_scaling() {
    assert_eq!(rescaled(false, [8.0, 0.0, 1.0], false), [8.0, 1.0, 0.0]);
    assert_eq!(rescaled(false, [8.0, 2.0, 0.0], false), [16.0, 0.0, 0.0]);
    assert_eq!(rescaled(true, [8.0, 2.0, 0.0], false), [8.0, 0.0, 1.0]);
    assert_eq!(rescaled(true, [8.0, 2.0, 1.0], false), [4.0, 0.0, 0.0]);
    // Never below 1, and never infinite in the scale's own type.
    assert_eq!(rescaled(true, [1.5, 0.0, 1.0], false), [1.0, 0.0, 0.0]);
    assert_eq!(rescaled(false, [3e38, 2.0, 0.0], false), [3e38, 0.0, 0.0]);
    assert_eq!(rescaled(true, [8.0, 2.0, 1.0], true), [8.0, 2.0, 1.0]);

    let name = "dist.check_finite_and_unscale";
    let attrs: Attributes = vec![("group", Value::Int(0))];
    for (x, found) in [(2.0, 0.0), (f64::INFINITY, 1.0), (f64::NAN, 1.0)] {
        let operands = [vector(&[4.0, x]), vector(&[8.0]), of(DType::Bool, &[0.0])];
        let types = [operands[0].ty(), operands[2].ty()];
        let results = call(name, &attrs, &operands[..2], &types, &[0, 0]).unwrap();
        assert_eq!(results[0].data[0], 0.5);
        assert_close(&results[1], &[found]);
    }
}

#[test]
fn clipping() {
    let x = vector(&[3.0, 4.0]);
    let clip = |max: f64| {
        run(
            "dist.clip_by_norm",
            &vec![("max_norm", float(max))],
            std::slice::from_ref(&x),
            &[0],
        )[0]
        .clone()
    };
    assert_close(&clip(10.0), &[3.0, 4.0]);
    assert_close(&clip(1.0), &[0.6, 0.8]);
    let norm = call(
        "dist.squared_l2_norm",
        &vec![],
        std::slice::from_ref(&x),
        &[TensorType::new([1], DType::F64)],
        &[0, 0],
    );
    assert_close(&norm.unwrap()[0], &[25.0]);
}

#[test]
fn casts_and_integers() {
    let cast = |from: DType, to: DType, value: f64| {
        let x = of(from, &[value]);
        call(
            "dist.cast",
            &vec![],
            &[x],
            &[TensorType::new([1], to)],
            &[0, 0],
        )
        .unwrap()[0]
            .data[0]
    };
    assert_eq!(cast(DType::F32, DType::I32, -2.7), -2.0);
    assert_eq!(cast(DType::F32, DType::I8, 1e9), 127.0);
    assert_eq!(cast(DType::I32, DType::I8, 300.0), 44.0);
    assert_eq!(cast(DType::F32, DType::Bool, 0.5), 1.0);
    // Floats stay as they are until the device rounds them.
    assert_eq!(cast(DType::F32, DType::F16, 0.1), 0.1);
    let div = |a: f64, b: f64| {
        let operands = [of(DType::I32, &[a]), of(DType::I32, &[b])];
        run("dist.div", &vec![], &operands, &[0])[0].data[0]
    };
    assert_eq!([div(7.0, -2.0), div(1.0, 0.0)], [-3.0, 0.0]);
    let operands = [of(DType::I8, &[127.0]), of(DType::I8, &[1.0])];
    assert_close(&run("dist.add", &vec![], &operands, &[0])[0], &[-128.0]);
}

#[test]
fn slices_follow_the_rank() {
    let x = Tensor::from_fn([8, 2], DType::F64, |at| at as f64);
    let axes = ["dp", "mp"].map(|a| Value::Str(a.into()));
    let attrs: Attributes = vec![
        ("dims", Value::Ints(vec![0])),
        ("starts", Value::Ints(vec![0])),
        ("sizes", Value::Ints(vec![2])),
        ("axes", Value::List(vec![Value::List(axes.to_vec())])),
    ];
    let types = [TensorType::new([2, 2], DType::F64)];
    let at = |coordinate: [usize; 2]| {
        call(
            "dist.slice",
            &attrs,
            std::slice::from_ref(&x),
            &types,
            &coordinate,
        )
        .unwrap()[0]
            .clone()
    };
    assert_close(&at([0, 1]), &[4.0, 5.0, 6.0, 7.0]);
    assert_close(&at([1, 0]), &[8.0, 9.0, 10.0, 11.0]);
}

#[test]
fn random_numbers() {
    let ty = [TensorType::new([10_000], DType::F32)];
    let draw = |name: &str, attrs: [(&'static str, f64); 2], seed: i64, stream: u64| {
        let mut attrs: Attributes = attrs.map(|(n, v)| (n, float(v))).to_vec();
        attrs.push(("seed", Value::Int(seed)));
        let call = Call {
            operands: &[],
            attrs: &attrs,
            results: &ty,
            place: None,
            stream,
            microbatch: 0,
        };
        eval(definition(name), &call).unwrap()[0].clone()
    };
    let moments = |x: &Tensor| {
        let mean = x.data.iter().sum::<f64>() / x.len() as f64;
        let variance = x.data.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64;
        (mean, variance)
    };
    let bounds = [("min", -1.0), ("max", 3.0)];
    let uniform = draw("dist.uniform", bounds, 0, 1);
    assert!(uniform.data.iter().all(|v| (-1.0..3.0).contains(v)));
    let (mean, variance) = moments(&uniform);
    assert!((mean - 1.0).abs() < 0.05 && (variance - 16.0 / 12.0).abs() < 0.05);
    let (mean, variance) = moments(&draw("dist.gaussian", [("mean", 2.0), ("std", 0.5)], 0, 1));
    assert!((mean - 2.0).abs() < 0.02 && (variance - 0.25).abs() < 0.02);
    assert_ne!(uniform, draw("dist.uniform", bounds, 0, 2));
    assert_eq!(
        draw("dist.uniform", bounds, 5, 1),
        draw("dist.uniform", bounds, 5, 2)
    );
    assert_ne!(
        draw("dist.uniform", bounds, 5, 1),
        draw("dist.uniform", bounds, 6, 1)
    );
}

#[test]
fn collectives() {
    let inputs: Vec<Tensor> = (0..2)
        .map(|r| Tensor::from_fn([2, 2], DType::F64, |at| (10 * r + at) as f64))
        .collect();
    let each: Vec<Vec<Tensor>> = inputs.iter().map(|x| vec![x.clone()]).collect();
    let group = |name: &str, attrs: Attributes| -> Vec<Tensor> {
        let results = combine(definition(name), &each, &attrs).unwrap();
        results.into_iter().map(|mut r| r.swap_remove(0)).collect()
    };
    let reduce = |r: &str| ("reduction", Value::Str(r.into()));
    let all = group("dist.all_reduce", vec![reduce("avg")]);
    assert_close(&all[0], &[5.0, 6.0, 7.0, 8.0]);
    assert_eq!(all[0], all[1]);
    assert_close(
        &group("dist.all_reduce", vec![reduce("max")])[0],
        &[10.0, 11.0, 12.0, 13.0],
    );
    let scattered = group(
        "dist.reduce_scatter",
        vec![reduce("sum"), ("dim", Value::Int(1))],
    );
    assert_eq!(scattered[1].shape, [2, 1]);
    assert_close(&scattered[1], &[12.0, 16.0]);
    let gathered = group("dist.all_gather", vec![("dim", Value::Int(1))]);
    assert_close(&gathered[1], &[0.0, 1.0, 10.0, 11.0, 2.0, 3.0, 12.0, 13.0]);
    let attrs = vec![("split_dim", Value::Int(0)), ("concat_dim", Value::Int(1))];
    let exchanged = group("dist.all_to_all", attrs);
    assert_close(&exchanged[0], &[0.0, 1.0, 10.0, 11.0]);
    assert_close(&exchanged[1], &[2.0, 3.0, 12.0, 13.0]);
    let sent = group("dist.broadcast", vec![("root", Value::Int(1))]);
    assert_eq!(sent[0], inputs[1]);
}

#[test]
fn bad_calls_are_errors() {
    let x = vector(&[1.0, 2.0, 3.0]);
    let add = |results: &[TensorType]| {
        call(
            "dist.add",
            &vec![],
            &[x.clone(), vector(&[1.0, 2.0])],
            results,
            &[0, 0],
        )
    };
    assert_eq!(add(&[x.ty()]).unwrap_err().code(), "E0311");
    let huge = [TensorType::new([1 << 40], DType::F32)];
    let fill = call(
        "dist.fill",
        &vec![("value", float(0.0))],
        &[],
        &huge,
        &[0, 0],
    );
    assert_eq!(fill.unwrap_err().code(), "E0350");
    let none = call(
        "dist.all_reduce",
        &vec![],
        std::slice::from_ref(&x),
        &[x.ty()],
        &[0, 0],
    );
    assert_eq!(none.unwrap_err().code(), "E0350");
    let attrs: Attributes = vec![("dim", Value::Int(3))];
    let each = |ranks: usize| vec![vec![x.clone()]; ranks];
    let gather = combine(definition("dist.all_gather"), &each(1), &attrs);
    assert_eq!(gather.unwrap_err().code(), "E0313");
    let scatter: Attributes = vec![
        ("dim", Value::Int(0)),
        ("reduction", Value::Str("sum".into())),
    ];
    let scatter = combine(definition("dist.reduce_scatter"), &each(2), &scatter);
    assert_eq!(scatter.unwrap_err().code(), "E0315");
    let nothing = combine(definition("dist.all_gather"), &[vec![], vec![]], &attrs);
    assert_eq!(nothing.unwrap_err().code(), "E0303");
}
