//! Every layout rule against arithmetic: whatever a rule allows is done to whole tensors, and to what two ranks have of them. The
//! results of the ranks, put together as the rule says, must be the whole result.

mod gpt;
mod two_axes;
mod world;

use raddle_dialect::layout::{Layout, Spread};
use raddle_dialect::ops::{self, LayoutCall, Value};
use raddle_dialect::reference::Tensor;
use raddle_dialect::{DType, TensorType};
use world::{Case, RANKS, mesh, noise, put_together};

fn tensor(shape: &[usize], seed: usize) -> Tensor {
    Tensor::from_fn(shape, DType::F64, |at| noise(seed, at))
}

fn positive(shape: &[usize], seed: usize) -> Tensor {
    tensor(shape, seed).map(|x| x.abs() + 0.1)
}

fn flags(shape: &[usize], seed: usize) -> Tensor {
    Tensor::from_fn(shape, DType::Bool, |at| f64::from(noise(seed, at) > 0.0))
}

fn one(value: f64) -> Tensor {
    Tensor::filled([1], DType::F64, value)
}

fn ints(values: &[i64]) -> Value {
    Value::Ints(values.to_vec())
}

#[test]
fn matmul() {
    let case = |ta: bool, tb: bool, a: &[usize], b: &[usize]| {
        Case::new(
            "dist.matmul",
            vec![("a", tensor(a, 1)), ("b", tensor(b, 2))],
        )
        .attr("transpose_a", Value::Bool(ta))
        .attr("transpose_b", Value::Bool(tb))
        .check()
    };
    let allowed = [
        "avg whole",
        "d0 whole",
        "d1 d0",
        "sum whole",
        "whole avg",
        "whole d1",
        "whole sum",
        "whole whole",
    ];
    assert_eq!(case(false, false, &[4, 6], &[6, 2]), allowed);
    let allowed = [
        "avg whole",
        "d0 d1",
        "d1 whole",
        "sum whole",
        "whole avg",
        "whole d0",
        "whole sum",
        "whole whole",
    ];
    assert_eq!(case(true, true, &[6, 4], &[2, 6]), allowed);
    let allowed = case(false, false, &[2, 4, 6], &[2, 6, 2]);
    assert!(allowed.contains(&"d0 d0".into()) && !allowed.contains(&"d0 whole".into()));
    let allowed = case(false, false, &[2, 4, 6], &[6, 2]);
    assert!(allowed.contains(&"d0 whole".into()) && allowed.contains(&"d1 whole".into()));
    assert!(allowed.contains(&"d2 d0".into()));
    assert!(case(false, false, &[1, 4, 6], &[2, 6, 2]).contains(&"whole d0".into()));
}

#[test]
fn matmul_grad() {
    for (a, b, dout) in [
        (&[4, 6][..], &[6, 2][..], &[4, 2][..]),
        (&[2, 4, 6], &[6, 2], &[2, 4, 2]),
        (&[2, 4, 6], &[2, 6, 2], &[2, 4, 2]),
        (&[2, 1, 4, 6], &[2, 6, 2], &[2, 2, 4, 2]),
    ] {
        let operands = vec![
            ("a", tensor(a, 1)),
            ("b", tensor(b, 2)),
            ("dout", tensor(dout, 3)),
        ];
        let allowed = Case::new("dist.matmul_grad", operands)
            .attr("transpose_a", Value::Bool(false))
            .attr("transpose_b", Value::Bool(false))
            .check();
        let batch = a.len() - 2;
        let row_parallel = format!("d{} d{} whole", batch + 1, b.len() - 2);
        let column_parallel = format!("whole d{} d{}", b.len() - 1, dout.len() - 1);
        assert!(allowed.contains(&row_parallel), "{allowed:?}");
        assert!(allowed.contains(&column_parallel), "{allowed:?}");
    }
}

#[test]
fn fused_linear() {
    for activation in ["none", "relu", "gelu"] {
        let operands = vec![
            ("x", tensor(&[2, 4, 6], 1)),
            ("w", tensor(&[6, 2], 2)),
            ("bias", tensor(&[2], 3)),
        ];
        let allowed = Case::new("dist.fused_linear", operands)
            .attr("transpose_a", Value::Bool(false))
            .attr("transpose_b", Value::Bool(false))
            .attr("activation", Value::Str(activation.into()))
            .check();
        assert!(allowed.contains(&"whole d1 d0".into()), "{allowed:?}");
        assert!(allowed.contains(&"d0 whole whole".into()));
        // The promoted form: a partial product takes a bias that is partial too, unless an activation follows.
        assert_eq!(allowed.contains(&"d2 d0 sum".into()), activation == "none");
        assert!(!allowed.contains(&"d2 d0 whole".into()));
    }
}

#[test]
fn fused_linear_grad() {
    let operands = vec![
        ("x", tensor(&[4, 6], 1)),
        ("w", tensor(&[6, 2], 2)),
        ("dout", tensor(&[4, 2], 3)),
        ("aux", tensor(&[4, 6], 4)),
        ("acc", tensor(&[6, 2], 5)),
    ];
    for overwrite in [false, true] {
        let allowed = Case::new("dist.fused_linear_grad", operands.clone())
            .attr("transpose_a", Value::Bool(false))
            .attr("transpose_b", Value::Bool(false))
            .attr("activation", Value::Str("gelu".into()))
            .attr("overwrite", Value::Bool(overwrite))
            .check();
        assert!(allowed.contains(&"d1 d0 whole d1 d0".into()), "{allowed:?}");
        assert!(allowed.contains(&"d0 whole d0 d0 sum".into()));
        assert_eq!(allowed.contains(&"d0 whole d0 d0 whole".into()), overwrite);
        assert!(!allowed.iter().any(|a| a.split(' ').nth(3) == Some("sum")));
    }
}

#[test]
fn arithmetic() {
    let binary = |name: &str, a: &[usize], b: &[usize]| {
        Case::new(name, vec![("a", positive(a, 1)), ("b", positive(b, 2))]).check()
    };
    let same = [
        "avg avg",
        "avg whole",
        "d0 d0",
        "d1 d1",
        "sum sum",
        "whole avg",
        "whole whole",
    ];
    assert_eq!(binary("dist.add", &[4, 6], &[4, 6]), same);
    assert_eq!(binary("dist.sub", &[4, 6], &[4, 6]), same);
    let trailing = [
        "avg avg",
        "avg whole",
        "d0 whole",
        "d1 d0",
        "sum sum",
        "whole avg",
        "whole whole",
    ];
    assert_eq!(binary("dist.add", &[4, 6], &[6]), trailing);
    let product = [
        "avg whole",
        "d0 d0",
        "sum whole",
        "whole avg",
        "whole sum",
        "whole whole",
    ];
    assert_eq!(binary("dist.mul", &[4], &[4]), product);
    assert_eq!(
        binary("dist.div", &[4], &[4]),
        ["avg whole", "d0 d0", "sum whole", "whole whole"]
    );
    assert_eq!(
        binary("dist.maximum", &[4], &[4]),
        ["d0 d0", "max max", "max whole", "whole max", "whole whole"]
    );
    assert!(binary("dist.mul", &[], &[1]).contains(&"sum whole".into()));
}

#[test]
fn gradients_of_arithmetic() {
    for name in ["dist.add_grad", "dist.mul_grad"] {
        for (a, b, dout) in [
            (&[4, 6][..], &[6][..], &[4, 6][..]),
            (&[2, 4, 6], &[2, 1, 6], &[2, 4, 6]),
            (&[4], &[4], &[4]),
        ] {
            let operands = vec![
                ("a", tensor(a, 1)),
                ("b", tensor(b, 2)),
                ("dout", tensor(dout, 3)),
            ];
            let allowed = Case::new(name, operands).check();
            let rows = format!("d0 {} d0", if b.len() == a.len() { "d0" } else { "whole" });
            assert!(allowed.contains(&rows), "{name}: {allowed:?}");
            assert!(allowed.contains(&"whole whole sum".into()));
        }
    }
}

#[test]
fn functions_of_one_tensor() {
    let unary = |name: &str| Case::new(name, vec![("x", positive(&[4, 6], 1))]);
    let scaled = |scale: f64, bias: f64| {
        unary("dist.scale")
            .attr("scale", Value::Float(scale))
            .attr("bias", Value::Float(bias))
            .attr("bias_after_scale", Value::Bool(true))
            .check()
    };
    assert_eq!(
        scaled(2.0, 0.0),
        ["avg", "d0", "d1", "max", "min", "sum", "whole"]
    );
    assert_eq!(scaled(-2.0, 0.0), ["avg", "d0", "d1", "sum", "whole"]);
    assert_eq!(scaled(2.0, 1.0), ["avg", "d0", "d1", "max", "min", "whole"]);
    let gelu = unary("dist.gelu").attr("approximate", Value::Bool(false));
    assert_eq!(gelu.check(), ["d0", "d1", "whole"]);
    for name in ["dist.relu", "dist.sqrt"] {
        let allowed = match name {
            // Parts of a maximum may be negative, where the root has no value.
            "dist.sqrt" => continue,
            _ => unary(name).check(),
        };
        assert_eq!(allowed, ["d0", "d1", "max", "min", "whole"]);
    }
    let clip = unary("dist.clip")
        .attr("min", Value::Float(0.3))
        .attr("max", Value::Float(0.9));
    assert_eq!(clip.check(), ["d0", "d1", "max", "min", "whole"]);
    assert_eq!(unary("dist.identity").check().len(), 7);
    for name in ["dist.gelu_grad", "dist.relu_grad"] {
        let operands = vec![("x", tensor(&[4, 6], 1)), ("dout", tensor(&[4, 6], 2))];
        let allowed = Case::new(name, operands)
            .attr("approximate", Value::Bool(true))
            .check();
        assert_eq!(
            allowed,
            ["d0 d0", "d1 d1", "whole avg", "whole sum", "whole whole"]
        );
    }
    let mut cast = Case::new("dist.cast", vec![("x", flags(&[4], 1))]);
    cast.given = Some(|spread| {
        let extent = if spread == Spread::Sharded(0) { 2 } else { 4 };
        TensorType::new([extent], DType::I32)
    });
    assert_eq!(cast.check(), ["any", "d0", "whole"]);
}

#[test]
fn sums_and_ors() {
    let operands = vec![
        ("xs", tensor(&[4], 1)),
        ("xs", tensor(&[4], 2)),
        ("xs", tensor(&[4], 3)),
    ];
    let allowed = Case::new("dist.sum", operands).check();
    assert!(allowed.contains(&"sum sum sum".into()) && allowed.contains(&"d0 d0 d0".into()));
    assert!(
        !allowed
            .iter()
            .any(|a| a.contains("sum whole") || a.contains("whole sum"))
    );
    let operands = vec![("xs", flags(&[4], 1)), ("xs", flags(&[4], 2))];
    let allowed = Case::new("dist.any_of", operands).check();
    assert_eq!(
        allowed,
        ["any any", "any whole", "d0 d0", "whole any", "whole whole"]
    );
}

#[test]
fn shapes() {
    let transpose = Case::new("dist.transpose", vec![("x", tensor(&[2, 4, 6], 1))])
        .attr("perm", ints(&[2, 0, 1]));
    assert_eq!(
        transpose.check(),
        ["avg", "d0", "d1", "d2", "max", "min", "sum", "whole"]
    );

    let mut reshape = Case::new("dist.reshape", vec![("x", tensor(&[4, 6, 2], 1))]);
    reshape.given = Some(|spread| match spread {
        Spread::Sharded(0) => TensorType::new([12, 2], DType::F64),
        Spread::Sharded(1) => TensorType::new([12, 2], DType::F64),
        Spread::Sharded(_) => TensorType::new([24, 1], DType::F64),
        _ => TensorType::new([24, 2], DType::F64),
    });
    assert_eq!(
        reshape.check(),
        ["avg", "d0", "d2", "max", "min", "sum", "whole"]
    );

    let mut split = Case::new("dist.reshape", vec![("x", tensor(&[8, 3], 1))]);
    split.given = Some(|spread| match spread {
        Spread::Sharded(0) => TensorType::new([1, 2, 2, 3], DType::F64),
        _ => TensorType::new([1, 4, 2, 3], DType::F64),
    });
    assert_eq!(split.check(), ["avg", "d0", "max", "min", "sum", "whole"]);

    let slice = Case::new("dist.slice", vec![("x", tensor(&[4, 6], 1))])
        .attr("dims", ints(&[1]))
        .attr("starts", ints(&[2]))
        .attr("sizes", ints(&[2]))
        .attr("axes", Value::List(vec![Value::List(vec![])]));
    assert_eq!(slice.check(), ["avg", "d0", "max", "min", "sum", "whole"]);

    let split = Case::new("dist.split", vec![("x", tensor(&[4, 6], 1))])
        .attr("dim", Value::Int(1))
        .results(vec!["parts", "parts", "parts"]);
    assert_eq!(split.check(), ["avg", "d0", "max", "min", "sum", "whole"]);

    let pair = || vec![tensor(&[4, 6], 1), tensor(&[4, 6], 2)];
    let all = [
        "avg avg",
        "d0 d0",
        "max max",
        "min min",
        "sum sum",
        "whole whole",
    ];
    let named = |names: [&'static str; 2]| names.into_iter().zip(pair()).collect::<Vec<_>>();
    for (name, names) in [
        ("dist.concat", ["xs", "xs"]),
        ("dist.concat_pair", ["a", "b"]),
    ] {
        let concat = Case::new(name, named(names)).attr("dim", Value::Int(1));
        assert_eq!(concat.check(), all);
    }
    let stack = Case::new("dist.stack", named(["xs", "xs"])).attr("dim", Value::Int(1));
    assert_eq!(
        stack.check(),
        [
            "avg avg",
            "d0 d0",
            "d1 d1",
            "max max",
            "min min",
            "sum sum",
            "whole whole"
        ]
    );
}

/// Cutting a whole value over an axis gives its pieces.
#[test]
fn slice_over_axes() {
    let x = tensor(&[4, 6], 1);
    let case = Case::new("dist.slice", vec![("x", x.clone())])
        .attr("dims", ints(&[1]))
        .attr("starts", ints(&[0]))
        .attr("sizes", ints(&[3]))
        .attr(
            "axes",
            Value::List(vec![Value::List(vec![Value::Str("mp".into())])]),
        );
    let types = [TensorType::new([4, 3], DType::F64)];
    let call = LayoutCall {
        operands: &[x.ty()],
        layouts: &[Layout::replicated(2)],
        attrs: &case.attrs(),
        results: &types,
        mesh: &mesh(),
    };
    let layout = &ops::layouts(case.def, &call).unwrap()[0];
    assert_eq!(layout.on(0), Spread::Sharded(1));
    let parts: Vec<Tensor> = (0..RANKS)
        .map(|r| case.run(std::slice::from_ref(&x), &types, r)[0].clone())
        .collect();
    assert_eq!(put_together(&parts, Spread::Sharded(1)), x);
}

#[test]
fn reductions() {
    for (name, parts) in [
        ("dist.reduce_sum", &["avg", "sum"][..]),
        ("dist.reduce_mean", &["avg", "sum"]),
        ("dist.reduce_max", &["max"]),
    ] {
        for (dims, keep) in [
            (&[1][..], false),
            (&[0], true),
            (&[0, 2], false),
            (&[0, 1, 2], false),
        ] {
            let allowed = Case::new(name, vec![("x", tensor(&[2, 4, 6], 1))])
                .attr("dims", ints(dims))
                .attr("keep_dims", Value::Bool(keep))
                .check();
            let mut expected = vec!["d0", "d1", "d2", "whole"];
            expected.extend(parts);
            expected.sort_unstable();
            assert_eq!(allowed, expected, "{name}");
        }
    }
    let any = Case::new("dist.reduce_any", vec![("x", flags(&[2, 4], 1))])
        .attr("dims", ints(&[0]))
        .attr("keep_dims", Value::Bool(false));
    assert_eq!(any.check(), ["any", "d0", "d1", "whole"]);
    let operands = vec![("x", tensor(&[2, 4], 1)), ("dout", tensor(&[2], 2))];
    let allowed = Case::new("dist.reduce_sum_grad", operands)
        .attr("dims", ints(&[1]))
        .attr("keep_dims", Value::Bool(false))
        .check();
    assert!(allowed.contains(&"d0 d0".into()) && allowed.contains(&"d1 whole".into()));
    assert!(allowed.contains(&"whole sum".into()) && !allowed.contains(&"whole d0".into()));
}

#[test]
fn layer_norm() {
    let attrs = |case: Case| {
        case.attr("begin_norm_axis", Value::Int(2))
            .attr("epsilon", Value::Float(1e-5))
    };
    let operands = vec![
        ("x", tensor(&[2, 4, 6], 1)),
        ("scale", tensor(&[6], 2)),
        ("bias", tensor(&[6], 3)),
    ];
    let allowed = attrs(Case::new("dist.layer_norm", operands.clone())).check();
    assert_eq!(
        allowed,
        ["d0 whole whole", "d1 whole whole", "whole whole whole"]
    );
    let mut operands = operands[..2].to_vec();
    operands.extend([
        ("mean", tensor(&[2, 4], 4)),
        ("variance", positive(&[2, 4], 5)),
        ("dy", tensor(&[2, 4, 6], 6)),
    ]);
    let allowed =
        attrs(Case::new("dist.layer_norm_grad", operands).results(vec!["dx", "dscale"])).check();
    let expected = [
        "d0 whole d0 d0 d0",
        "d1 whole d1 d1 d1",
        "whole whole whole whole avg",
        "whole whole whole whole sum",
        "whole whole whole whole whole",
    ];
    assert_eq!(allowed, expected);
}

#[test]
fn amp() {
    let operands = vec![("x", tensor(&[4, 6], 1)), ("scale", one(2.0))];
    let check = Case::new("dist.check_finite_and_unscale", operands).attr("group", Value::Int(0));
    assert_eq!(check.check(), ["d0 whole", "d1 whole", "whole whole"]);
    let norm = Case::new("dist.squared_l2_norm", vec![("x", tensor(&[4, 6], 1))]);
    assert_eq!(norm.check(), ["d0", "d1", "whole"]);
}

#[test]
fn optimizers() {
    let operands = vec![
        ("param", tensor(&[4], 1)),
        ("grad", tensor(&[4], 2)),
        ("velocity", tensor(&[4], 3)),
        ("lr", one(0.1)),
    ];
    let momentum = Case::new("dist.momentum", operands)
        .results(vec!["new_param", "new_velocity"])
        .attr("mu", Value::Float(0.9))
        .attr("use_nesterov", Value::Bool(true))
        .attr("l2_decay", Value::Float(0.1))
        .attr("rescale_grad", Value::Float(1.0));
    // What one rank owns alone is partial, and has a gradient there alone; that is not arithmetic on two ranks.
    let owned = |name: &str| name.starts_with("sum ");
    let allowed = momentum.check_but(owned);
    assert_eq!(allowed, ["d0 d0 d0 whole", "whole whole whole whole"]);
}

#[test]
fn optimizers_that_take_norms() {
    let case = |local: bool| {
        let operands = vec![
            ("param", tensor(&[4], 1)),
            ("grad", tensor(&[4], 2)),
            ("velocity", tensor(&[4], 3)),
            ("lr", one(0.1)),
        ];
        Case::new("dist.lars_momentum", operands)
            .results(vec!["new_param", "new_velocity"])
            .attr("group", Value::Int(0))
            .attr("mu", Value::Float(0.9))
            .attr("lars_coeff", Value::Float(0.1))
            .attr("lars_weight_decay", Value::Float(0.1))
            .attr("epsilon", Value::Float(0.1))
            .attr("rescale_grad", Value::Float(1.0))
            .attr("local_norms", Value::Bool(local))
    };
    let owned = |name: &str| name.starts_with("sum ");
    assert_eq!(case(false).check_but(owned), ["whole whole whole whole"]);
    // With norms of pieces the ranks take steps of their own: allowed, but not the arithmetic of the whole.
    let pieces = |name: &str| owned(name) || name == "d0 d0 d0 whole";
    assert_eq!(case(true).check_but(pieces), ["whole whole whole whole"]);
    assert!(case(true).allows("d0 d0 d0 whole"));

    let operands = vec![
        ("param", tensor(&[4], 1)),
        ("grad", tensor(&[4], 2)),
        ("moment1", tensor(&[4], 3)),
        ("moment2", positive(&[4], 4)),
        ("beta1_pow", one(0.9)),
        ("beta2_pow", one(0.99)),
        ("lr", one(0.1)),
    ];
    let results = vec![
        "new_param",
        "new_moment1",
        "new_moment2",
        "new_beta1_pow",
        "new_beta2_pow",
    ];
    let lamb = Case::new("dist.lamb", operands)
        .results(results)
        .attr("beta1", Value::Float(0.9))
        .attr("beta2", Value::Float(0.99))
        .attr("epsilon", Value::Float(0.1))
        .attr("weight_decay", Value::Float(0.1))
        .attr("always_adapt", Value::Bool(false))
        .attr("local_norms", Value::Bool(false));
    assert!(lamb.allows("whole whole whole whole whole whole whole"));
    assert!(!lamb.allows("d0 d0 d0 d0 whole whole whole"));
}

#[test]
fn momentum_with_compressed_gradients() {
    let case = |begin: f64| {
        let operands = vec![
            ("param", tensor(&[4], 1)),
            ("grad", tensor(&[4], 2)),
            ("velocity", tensor(&[4], 3)),
            ("lr", one(0.1)),
            ("current_step", one(3.0)),
            ("nranks", one(2.0)),
        ];
        Case::new("dist.dgc_momentum", operands)
            .results(vec!["new_param", "new_velocity", "new_grad"])
            .attr("mu", Value::Float(0.9))
            .attr("use_nesterov", Value::Bool(true))
            .attr("l2_decay", Value::Float(0.1))
            .attr("rescale_grad", Value::Float(1.0))
            .attr("rampup_begin_step", Value::Float(begin))
    };
    let expected = [
        "d0 d0 d0 whole whole whole",
        "whole whole whole whole whole whole",
    ];
    let allowed = case(5.0).check_but(|name| name.starts_with("sum "));
    assert_eq!(allowed, expected);
    assert!(expected.iter().all(|words| case(1.0).allows(words)));
}
