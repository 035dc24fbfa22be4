//! Layouts on a mesh of two axes: collectives, and dimensions that both axes cut.

use raddle_dialect::layout::{Layout, Reduction, Spread};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{LayoutCall, Value, layouts};
use raddle_dialect::{DType, TensorType};

use crate::world::{Attrs as Attributes, definition};

fn mesh() -> Mesh {
    Mesh::new(vec!["dp".into(), "mp".into()], vec![2, 2]).unwrap()
}

/// Collectives on a 2×2 mesh: what each axis has before and after.
#[test]
fn layouts_of_collectives() {
    let mesh = mesh();
    let (dp, mp) = (0, 1);
    let ty = |shape: [i64; 2]| TensorType::new(shape, DType::F32);
    let layout = |name: &str, attrs: Attributes, x: [i64; 2], y: [i64; 2], spreads: [Spread; 2]| {
        let mut layout = Layout::replicated(2);
        layout.set(mp, spreads[1]);
        layout.set(dp, spreads[0]);
        let call = LayoutCall {
            operands: &[ty(x)],
            layouts: &[layout],
            attrs: &attrs,
            results: &[ty(y)],
            mesh: &mesh,
        };
        layouts(definition(name), &call)
            .map(|l| l[0].clone())
            .map_err(|e| e.code())
    };
    let axes = |names: &[&str]| {
        let names = names.iter().map(|&n| Value::Str(n.into()));
        ("axes", Value::List(names.collect()))
    };
    let reduce = |r: &str| ("reduction", Value::Str(r.into()));
    let (sum, cut) = (Spread::Partial(Reduction::Sum), Spread::Sharded(0));
    let shape = [4, 4];

    let attrs = vec![axes(&["mp"]), reduce("sum")];
    let reduced = layout("dist.all_reduce", attrs.clone(), shape, shape, [cut, sum]).unwrap();
    assert_eq!((reduced.on(dp), reduced.on(mp)), (cut, Spread::Replicated));
    assert_eq!(
        layout("dist.all_reduce", attrs.clone(), shape, shape, [sum, cut]),
        Err("E0344")
    );
    // A partial sum over the other axis stays one; a maximum of partial sums means nothing.
    let reduced = layout("dist.all_reduce", attrs, shape, shape, [sum, sum]).unwrap();
    assert_eq!(reduced.on(dp), sum);
    let attrs = vec![axes(&["mp"]), reduce("max")];
    assert_eq!(
        layout(
            "dist.all_reduce",
            attrs,
            shape,
            shape,
            [sum, Spread::Replicated]
        ),
        Err("E0344")
    );

    let attrs = vec![axes(&["mp"]), reduce("sum"), ("dim", Value::Int(0))];
    let scattered = layout("dist.reduce_scatter", attrs, shape, [2, 4], [cut, sum]).unwrap();
    assert_eq!(scattered.dims, [vec![dp, mp], vec![]]);
    let attrs = vec![axes(&["mp", "dp"]), ("dim", Value::Int(0))];
    let gathered = layout("dist.all_gather", attrs.clone(), shape, [16, 4], [cut, cut]).unwrap();
    assert!(gathered.is_replicated());
    assert_eq!(
        layout("dist.all_gather", attrs, shape, [16, 4], [cut, sum]),
        Err("E0344")
    );
    let attrs = vec![
        axes(&["mp"]),
        ("split_dim", Value::Int(1)),
        ("concat_dim", Value::Int(0)),
    ];
    let exchanged = layout("dist.all_to_all", attrs.clone(), shape, [8, 2], [cut, cut]).unwrap();
    assert_eq!(exchanged.dims, [vec![dp], vec![mp]]);
    let whole = Spread::Replicated;
    assert_eq!(
        layout("dist.all_to_all", attrs, shape, [8, 2], [whole, whole]),
        Err("E0344")
    );
    let attrs = vec![axes(&["dp"]), ("root", Value::Int(0))];
    let sent = layout("dist.broadcast", attrs, shape, shape, [Spread::Own, cut]).unwrap();
    assert_eq!((sent.on(dp), sent.on(mp)), (Spread::Replicated, cut));
}

/// A vocabulary over two axes is counted in mesh order, so it must be cut in that order.
#[test]
fn layouts_of_a_vocabulary_over_two_axes() {
    let mesh = mesh();
    let axes = vec![(
        "axes",
        Value::List(vec![Value::Str("mp".into()), Value::Str("dp".into())]),
    )];
    let lookup = |order: [usize; 2]| {
        let table = Layout {
            dims: vec![order.to_vec(), vec![]],
            ..Layout::default()
        };
        let call = LayoutCall {
            operands: &[
                TensorType::new([3], DType::I64),
                TensorType::new([2, 4], DType::F32),
            ],
            layouts: &[Layout::replicated(1), table],
            attrs: &axes,
            results: &[TensorType::new([3, 4], DType::F32)],
            mesh: &mesh,
        };
        layouts(definition("dist.embedding"), &call).map_err(|e| e.code())
    };
    let sum = Spread::Partial(Reduction::Sum);
    let out = &lookup([0, 1]).unwrap()[0];
    assert_eq!((out.on(0), out.on(1)), (sum, sum));
    assert_eq!(lookup([1, 0]), Err("E0343"));
    let loss = |order: [usize; 2]| {
        let logits = Layout {
            dims: vec![vec![], order.to_vec()],
            ..Layout::default()
        };
        let types = [
            TensorType::new([3, 2], DType::F32),
            TensorType::new([3], DType::I64),
        ];
        let call = LayoutCall {
            operands: &types,
            layouts: &[logits, Layout::replicated(1)],
            attrs: &axes,
            results: &[TensorType::new([3], DType::F32), types[0].clone()],
            mesh: &mesh,
        };
        let found = layouts(definition("dist.softmax_cross_entropy"), &call);
        found.map_err(|e| e.code())
    };
    let found = loss([0, 1]).unwrap();
    assert!(found[0].is_replicated());
    assert_eq!(found[1].dims[1], [0, 1]);
    assert_eq!(loss([1, 0]), Err("E0343"));
}

/// A received value is spread as the op notes, and unknown without a note.
#[test]
fn layouts_of_received_values() {
    let mesh = mesh();
    let received = |attrs: Attributes| {
        let call = LayoutCall {
            operands: &[],
            layouts: &[],
            attrs: &attrs,
            results: &[TensorType::new([4, 4], DType::F32)],
            mesh: &mesh,
        };
        layouts(definition("dist.recv"), &call)
            .map(|l| l[0].clone())
            .map_err(|e| e.code())
    };
    assert_eq!(received(vec![]), Err("E0345"));
    let names = |names: &[&str]| Value::List(names.iter().map(|&n| Value::Str(n.into())).collect());
    let note = |dims: Vec<Value>, partial: &[&str]| {
        let parts = [("dims", Value::List(dims)), ("partial", names(partial))];
        let parts = parts.map(|(name, value)| (name.to_owned(), value));
        vec![("dist.layout", Value::Dict(parts.to_vec()))]
    };
    let noted = received(note(vec![names(&["dp"]), names(&[])], &["mp"])).unwrap();
    assert_eq!(noted.on(0), Spread::Sharded(0));
    assert_eq!(noted.on(1), Spread::Partial(Reduction::Sum));
    assert_eq!(received(note(vec![names(&["dp"])], &[])), Err("E0332"));
    assert_eq!(
        received(note(vec![names(&["tp"]), names(&[])], &[])),
        Err("E0322")
    );
    let other = vec![("dist.layout", Value::Str("whole".into()))];
    assert_eq!(received(other), Err("E0301"));
}

/// Two axes that cut one dimension keep their order, and must agree on it.
#[test]
fn layouts_keep_the_order_of_axes() {
    let mesh = mesh();
    let ty = TensorType::new([4], DType::F32);
    let cut = |axes: [usize; 2]| Layout {
        dims: vec![axes.to_vec()],
        ..Layout::default()
    };
    let add = |a: [usize; 2], b: [usize; 2]| {
        let call = LayoutCall {
            operands: &[ty.clone(), ty.clone()],
            layouts: &[cut(a), cut(b)],
            attrs: &Attributes::new(),
            results: std::slice::from_ref(&ty),
            mesh: &mesh,
        };
        layouts(definition("dist.add"), &call)
            .map(|l| l[0].dims[0].clone())
            .map_err(|e| e.code())
    };
    assert_eq!(add([1, 0], [1, 0]), Ok(vec![1, 0]));
    assert_eq!(add([0, 1], [0, 1]), Ok(vec![0, 1]));
    assert_eq!(add([0, 1], [1, 0]), Err("E0343"));
}
