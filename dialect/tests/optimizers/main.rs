//! Every optimizer, clip and loss scaling against `optimizers.py`, which computes the papers' formulas with NumPy: several steps
//! from random states, each step from the state that the one before left.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{self, Count, OPERAND_SEGMENTS, OpDef, RESULT_SEGMENTS, Request, Value};
use raddle_dialect::reference::{Call, Tensor, eval, random};
use raddle_dialect::{DType, TensorType};
use serde_json::json;

const STEPS: usize = 6;

type Attrs = Vec<(&'static str, Value)>;
type Named = BTreeMap<String, Tensor>;

/// The Python of the environment that `cargo xtask setup` makes in the build folder.
fn python() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let found = exe
        .ancestors()
        .map(|folder| folder.join("venv/bin/python"))
        .find(|python| python.exists());
    found.expect("run `cargo xtask setup`: there is no Python environment in the build folder")
}

/// What the script says about trials: its lines, and whether all agree.
fn judge(trials: &[serde_json::Value]) -> (String, bool) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/optimizers/optimizers.py");
    let mut child = Command::new(python())
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(serde_json::to_string(trials).unwrap().as_bytes())
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.is_empty(),
        "{errors}\n(run `cargo xtask setup` if NumPy is missing)"
    );
    let lines = String::from_utf8(output.stdout).unwrap();
    (lines, output.status.success())
}

fn definition(name: &str) -> &'static OpDef {
    ops::definition(name).unwrap_or_else(|| panic!("no op {name}"))
}

/// Runs an op on operands by group name; its results by group name.
fn run(name: &str, attrs: &Attrs, operands: &Named) -> Named {
    let def = definition(name);
    let mut attrs = attrs.clone();
    let sizes = |groups: &[ops::Group], there: &dyn Fn(&str) -> bool| {
        let varying = groups.iter().filter(|g| g.count != Count::One).count();
        let sizes = groups.iter().map(|g| i64::from(there(g.name)));
        (varying > 1).then(|| Value::Ints(sizes.collect()))
    };
    let has_result = |name: &str| {
        let like = name.strip_prefix("new_").unwrap_or(name);
        like != "master" || operands.contains_key("master")
    };
    let given = sizes(def.operands, &|name| operands.contains_key(name));
    attrs.extend(given.map(|sizes| (OPERAND_SEGMENTS, sizes)));
    attrs.extend(sizes(def.results, &has_result).map(|sizes| (RESULT_SEGMENTS, sizes)));
    let groups = def.operands.iter().map(|g| g.name);
    let list: Vec<Tensor> = groups.filter_map(|g| operands.get(g).cloned()).collect();
    let names = def.results.iter().map(|g| g.name);
    let names: Vec<_> = names.filter(|name| has_result(name)).collect();
    let mesh = Mesh::new(vec!["x".into()], vec![1]).unwrap();
    let types: Vec<_> = list.iter().map(Tensor::ty).collect();
    let counts = def.results.iter().map(|g| usize::from(has_result(g.name)));
    let request = Request {
        operands: &types,
        attrs: &attrs,
        mesh: Some(&mesh),
        counts: Some(&counts.collect::<Vec<_>>()),
    };
    let types = ops::infer(def, &request).unwrap_or_else(|e| panic!("{name}: {e}"));
    let call = Call {
        operands: &list,
        attrs: &attrs,
        results: &types,
        place: None,
        stream: 0,
        microbatch: 0,
    };
    let results = eval(def, &call).unwrap_or_else(|e| panic!("{name}: {e}"));
    let names = names.into_iter().map(str::to_owned);
    names.zip(results).collect()
}

/// Numbers of a stream, between two bounds.
fn drawn(stream: u64, shape: &[usize], low: f64, high: f64) -> Tensor {
    Tensor::from_fn(shape, DType::F64, |at| {
        low + (high - low) * random::unit(stream, at as u64)
    })
}

fn one(value: f64) -> Tensor {
    Tensor::filled([1], DType::F64, value)
}

/// JSON has no infinities.
fn numbers(tensor: &Tensor) -> serde_json::Value {
    let number = |&x: &f64| match x.is_finite() {
        true => json!(x),
        false => json!(x.to_string()),
    };
    tensor.data.iter().map(number).collect()
}

fn named(tensors: &Named) -> serde_json::Value {
    let entries = tensors.iter().map(|(name, t)| (name.clone(), numbers(t)));
    serde_json::Value::Object(entries.collect())
}

fn attributes(attrs: &Attrs) -> serde_json::Value {
    let entry = |(name, value): &(&str, Value)| {
        let value = match value {
            Value::Bool(v) => json!(v),
            Value::Int(v) => json!(v),
            Value::Float(v) => json!(v),
            other => panic!("{other:?}"),
        };
        ((*name).to_owned(), value)
    };
    serde_json::Value::Object(attrs.iter().map(entry).collect())
}

/// An optimizer with its attributes, and the state that it starts from.
struct Trial {
    name: &'static str,
    attrs: Attrs,
    state: Named,
    /// What each step gets besides the gradient, and the gradient if it is not random.
    given: Box<dyn Fn(usize) -> Named>,
}

impl Trial {
    fn new(name: &'static str, attrs: &[(&'static str, f64)], state: &[(&str, Tensor)]) -> Self {
        let attrs = attrs.iter().map(|&(name, v)| (name, Value::Float(v)));
        let state = state.iter().map(|(n, t)| ((*n).to_owned(), t.clone()));
        Self {
            name,
            attrs: attrs.collect(),
            state: state.collect(),
            given: Box::new(|_| Named::new()),
        }
    }

    fn flag(mut self, name: &'static str, value: bool) -> Self {
        self.attrs.push((name, Value::Bool(value)));
        self
    }

    fn int(mut self, name: &'static str, value: i64) -> Self {
        self.attrs.push((name, Value::Int(value)));
        self
    }

    /// With a value of its own for each step.
    fn given(mut self, name: &'static str, value: impl Fn(usize) -> Tensor + 'static) -> Self {
        let before = self.given;
        self.given = Box::new(move |step| {
            let mut given = before(step);
            given.insert(name.to_owned(), value(step));
            given
        });
        self
    }

    /// The same with a master copy, which differs from the parameter.
    fn with_master(mut self) -> Self {
        let master = self.state["param"].map(|x| x + 0.001);
        self.state.insert("master".into(), master);
        self
    }

    /// Steps taken by the reference semantics, as the script reads them.
    fn play(&self) -> serde_json::Value {
        let mut state = self.state.clone();
        let (mut given, mut results) = (Vec::new(), Vec::new());
        for step in 0..STEPS {
            let mut now = (self.given)(step);
            let shape = state["param"].shape.clone();
            let grad = || drawn(1000 + step as u64, &shape, -1.0, 1.0);
            now.entry("grad".into()).or_insert_with(grad);
            let mut operands = state.clone();
            operands.extend(now.clone());
            let new = run(&format!("dist.{}", self.name), &self.attrs, &operands);
            let new: Named = new
                .into_iter()
                .map(|(name, t)| (name.strip_prefix("new_").unwrap().to_owned(), t))
                .collect();
            given.push(named(&now));
            results.push(named(&new));
            let kept = new.into_iter().filter(|(name, _)| name != "grad");
            state.extend(kept);
        }
        json!({
            "name": self.name,
            "attrs": attributes(&self.attrs),
            "state": named(&self.state),
            "given": given,
            "results": results,
        })
    }
}

fn trials() -> Vec<Trial> {
    let shape = [3, 4];
    let param = || ("param", drawn(1, &shape, -1.0, 1.0));
    let lr = || ("lr", one(0.05));
    let velocity = || ("velocity", drawn(2, &shape, -0.5, 0.5));
    let adam_state = || {
        [
            param(),
            ("moment1", drawn(3, &shape, -0.1, 0.1)),
            ("moment2", drawn(4, &shape, 0.0, 0.1)),
            ("beta1_pow", one(0.81)),
            ("beta2_pow", one(0.99 * 0.99)),
            lr(),
        ]
    };
    let betas = [("beta1", 0.9), ("beta2", 0.99), ("epsilon", 1e-3)];
    let with = |more: &[(&'static str, f64)]| [&betas, more].concat();
    let momentum = [("mu", 0.9), ("rescale_grad", 0.5)];
    let moving = |more: &[(&'static str, f64)]| [&momentum, more].concat();
    let skips = |step: usize| Tensor::filled([1], DType::Bool, f64::from(step == 2));
    let mut all = vec![
        Trial::new("sgd", &[], &[param(), lr()]),
        Trial::new("sgd", &[], &[param(), lr()]).with_master(),
        Trial::new(
            "decayed_adagrad",
            &[("decay", 0.95), ("epsilon", 1e-4)],
            &[param(), ("moment", drawn(5, &shape, 0.0, 0.1)), lr()],
        ),
    ];
    for nesterov in [false, true] {
        for decay in [0.0, 0.01] {
            let attrs = moving(&[("l2_decay", decay)]);
            let state = [param(), velocity(), lr()];
            let trial = |name| Trial::new(name, &attrs, &state).flag("use_nesterov", nesterov);
            all.push(trial("momentum"));
            all.push(trial("momentum").with_master());
            all.push(trial("merged_momentum").int("group", 3));
            all.push(trial("merged_momentum").int("group", 3).with_master());
            let attrs = moving(&[("l2_decay", decay), ("rampup_begin_step", 3.0)]);
            let dgc = || {
                Trial::new("dgc_momentum", &attrs, &state)
                    .flag("use_nesterov", nesterov)
                    .given("current_step", |step| one(step as f64))
                    .given("nranks", |_| one(4.0))
            };
            all.push(dgc());
            all.push(dgc().with_master());
        }
    }
    for decay in [0.0, 0.05] {
        let attrs = moving(&[
            ("lars_coeff", 0.01),
            ("lars_weight_decay", decay),
            ("epsilon", 1e-3),
        ]);
        let lars = |param: Tensor| {
            Trial::new(
                "lars_momentum",
                &attrs,
                &[("param", param), velocity(), lr()],
            )
            .int("group", 0)
            .flag("local_norms", false)
        };
        all.push(lars(param().1));
        all.push(lars(param().1).with_master());
        all.push(lars(Tensor::filled(shape, DType::F64, 0.0)));
        all.push(lars(param().1).given("grad", move |_| Tensor::filled(shape, DType::F64, 0.0)));
        for always in [false, true] {
            let attrs = with(&[("weight_decay", decay)]);
            let lamb = |param: Tensor| {
                let mut state = adam_state();
                state[0].1 = param;
                Trial::new("lamb", &attrs, &state)
                    .flag("always_adapt", always)
                    .flag("local_norms", false)
            };
            all.push(lamb(param().1));
            all.push(lamb(param().1).with_master());
            all.push(lamb(param().1).given("skip_update", skips));
            all.push(lamb(Tensor::filled(shape, DType::F64, 0.0)));
        }
    }
    all.push(Trial::new("adam", &betas, &adam_state()));
    all.push(Trial::new("adam", &betas, &adam_state()).with_master());
    all.push(Trial::new("adam", &betas, &adam_state()).given("skip_update", skips));
    for decays in [false, true] {
        let attrs = with(&[("weight_decay", 0.02), ("lr_ratio", 0.5)]);
        let adamw = || Trial::new("adamw", &attrs, &adam_state()).flag("with_decay", decays);
        all.push(adamw());
        all.push(adamw().with_master().given("skip_update", skips));
    }
    let adamax = || {
        let state = [
            param(),
            ("moment", drawn(6, &shape, -0.1, 0.1)),
            ("inf_norm", drawn(7, &shape, 0.1, 0.3)),
            lr(),
        ];
        // The power is advanced outside the op.
        Trial::new("adamax", &betas, &state)
            .given("beta1_pow", |step| one(0.9f64.powi(step as i32 + 1)))
    };
    all.push(adamax());
    all.push(adamax().with_master());
    all
}

#[test]
fn optimizers_follow_their_papers() {
    let trials = trials();
    let all = ops::optimizers::OPS.iter();
    for op in all.map(|d| d.name.strip_prefix("dist.").unwrap()) {
        assert!(trials.iter().any(|t| t.name == op), "{op} has no trial");
        let masters = definition(&format!("dist.{op}")).operand_group("master");
        let tried = trials
            .iter()
            .any(|t| t.name == op && t.state.contains_key("master"));
        assert_eq!(tried, masters.is_some(), "{op} with a master copy");
    }
    let trials: Vec<_> = trials.iter().map(Trial::play).collect();
    let (lines, agree) = judge(&trials);
    assert!(agree, "{lines}");
    assert!(lines.ends_with(", 0 differ\n"), "{lines}");
}

fn binary(name: &str, a: &Tensor, b: &Tensor) -> Tensor {
    let operands = [("a", a), ("b", b)].map(|(n, t)| (n.to_owned(), t.clone()));
    run(name, &vec![], &operands.into()).remove("c").unwrap()
}

fn unary(name: &str, attrs: Attrs, x: &Tensor) -> Tensor {
    let operands = [("x".to_owned(), x.clone())].into();
    run(name, &attrs, &operands).remove("y").unwrap()
}

/// As programs write it: the squares of all norms added up, then the limit over the larger of limit and norm.
fn clip_by_global_norm(tensors: &[Tensor], limit: f64, stacked: bool) -> Vec<Tensor> {
    let squares: Vec<_> = tensors
        .iter()
        .map(|t| unary("dist.squared_l2_norm", vec![], t))
        .collect();
    let name = if stacked { "dist.stack" } else { "dist.sum" };
    let def = definition(name);
    let mut attrs: Attrs = vec![];
    if stacked {
        attrs.push(("dim", Value::Int(0)));
    }
    let types: Vec<_> = squares.iter().map(Tensor::ty).collect();
    let shape = if stacked {
        vec![squares.len() as i64, 1]
    } else {
        vec![1]
    };
    let call = Call {
        operands: &squares,
        attrs: &attrs,
        results: &[TensorType::new(shape, types[0].dtype)],
        place: None,
        stream: 0,
        microbatch: 0,
    };
    let mut total = eval(def, &call).unwrap().remove(0);
    if stacked {
        let attrs = vec![
            ("dims", Value::Ints(vec![0])),
            ("keep_dims", Value::Bool(false)),
        ];
        total = unary("dist.reduce_sum", attrs, &total);
    }
    let norm = unary("dist.sqrt", vec![], &total);
    let larger = binary("dist.maximum", &norm, &one(limit));
    let factor = binary("dist.div", &one(limit), &larger);
    tensors
        .iter()
        .map(|t| binary("dist.mul", t, &factor))
        .collect()
}

#[test]
fn clips_limit_norms_above_and_leave_norms_below() {
    let tensors = [
        drawn(20, &[3, 4], -1.0, 1.0),
        drawn(21, &[7], -0.2, 0.2),
        drawn(22, &[1], -2.0, 2.0),
    ];
    let mut trials = Vec::new();
    let mut add = |name: &str, limit: f64, results: Vec<Tensor>| {
        let changed = tensors.iter().zip(&results).filter(|(a, b)| a != b).count();
        trials.push(json!({
            "name": name,
            "attrs": {"limit": limit},
            "tensors": tensors.iter().map(numbers).collect::<Vec<_>>(),
            "results": results.iter().map(numbers).collect::<Vec<_>>(),
        }));
        changed
    };
    // The norms are about 2, 0.3 and 1; all together 2.3.
    for (limit, by_norm, together) in [(0.1, 3, 3), (0.5, 2, 3), (100.0, 0, 0)] {
        let attrs = || vec![("max_norm", Value::Float(limit))];
        let clipped = tensors
            .iter()
            .map(|t| unary("dist.clip_by_norm", attrs(), t));
        assert_eq!(add("norm", limit, clipped.collect()), by_norm);
        for stacked in [false, true] {
            let clipped = clip_by_global_norm(&tensors, limit, stacked);
            assert_eq!(add("global_norm", limit, clipped), together);
        }
        let attrs = || vec![("min", Value::Float(-limit)), ("max", Value::Float(limit))];
        let clipped = tensors.iter().map(|t| unary("dist.clip", attrs(), t));
        add("value", limit, clipped.collect());
    }
    let (lines, agree) = judge(&trials);
    assert!(agree, "{lines}");
}

#[test]
fn loss_scaling_grows_and_shrinks() {
    let attrs: Attrs = vec![
        ("group", Value::Int(0)),
        ("incr_every_n_steps", Value::Int(2)),
        ("decr_every_n_nan_or_inf", Value::Int(2)),
        ("incr_ratio", Value::Float(2.0)),
        ("decr_ratio", Value::Float(0.25)),
        ("stop_update", Value::Bool(false)),
    ];
    let count = |n: f64| Tensor::filled([1], DType::parse("i32").unwrap(), n);
    let start = [
        ("scale", one(4.0)),
        ("good", count(0.0)),
        ("bad", count(0.0)),
    ];
    let start: Named = start.map(|(n, t)| (n.to_owned(), t)).into();
    let (mut state, mut given, mut results) = (start.clone(), Vec::new(), Vec::new());
    // Two good steps, an overflow, a good step, three overflows, three good steps.
    let bad = [2, 4, 5, 6];
    for step in 0..10 {
        let mut data = drawn(40 + step, &[5], -1.0, 1.0).data.to_vec();
        if bad.contains(&step) {
            data[3] = [f64::INFINITY, f64::NAN][step as usize % 2];
        }
        let grad = Tensor::new([5], DType::F64, data);
        given.push(json!({"grad": numbers(&grad)}));
        let scale = state["scale"].clone();
        let operands = [("x", grad), ("scale", scale)].map(|(n, t)| (n.to_owned(), t));
        let check = vec![("group", Value::Int(0))];
        let checked = run("dist.check_finite_and_unscale", &check, &operands.into());
        let mut operands = state.clone();
        operands.insert("x".into(), checked["out"].clone());
        operands.insert("found_inf".into(), checked["found_inf"].clone());
        let new = run("dist.update_loss_scaling", &attrs, &operands);
        for name in ["scale", "good", "bad"] {
            state.insert(name.into(), new[&format!("new_{name}")].clone());
        }
        let mut now = state.clone();
        now.insert("out".into(), new["out"].clone());
        results.push(named(&now));
    }
    let trial = json!({
        "name": "loss_scaling",
        "attrs": attributes(&attrs),
        "state": named(&start),
        "given": given,
        "results": results,
    });
    let (lines, agree) = judge(&[trial]);
    assert!(agree, "{lines}");
}

/// A result that is off by a millionth, in any op, is found.
#[test]
fn the_script_finds_errors() {
    let mut trials: Vec<_> = trials().iter().map(Trial::play).collect();
    for trial in &mut trials {
        let changed = &mut trial["results"][STEPS - 1]["param"][5];
        *changed = json!(changed.as_f64().unwrap() * (1.0 + 1e-6) + 1e-6);
    }
    let (lines, agree) = judge(&trials);
    assert!(!agree);
    let mut lines = lines.lines();
    for (number, trial) in trials.iter().enumerate() {
        let name = trial["name"].as_str().unwrap();
        let expected = format!("trial {number}, {name}, step {}, param: ", STEPS - 1);
        let line = lines.next().unwrap();
        assert!(line.starts_with(&expected), "{line}");
    }
    let last = lines.next().unwrap();
    assert!(
        last.ends_with(&format!(", {} differ", trials.len())),
        "{last}"
    );
}
