//! Matrix products and linear layers. One contraction serves all: labels say which dimension of which operand is which.

use raddle_dialect::ir::{Type, ValueId};

use super::call::{Call, Outcome, shape_of};
use super::elementwise::{Activation, store_as};
use super::emit::{Emit, Input, Label, Reduction};

/// The labels of a batched product: batch dimensions first, then m, n and k.
struct Product {
    extents: Vec<i64>,
    batch: usize,
}

impl Product {
    fn new(e: &Emit, a: ValueId, b: ValueId, transpose_a: bool, transpose_b: bool) -> Self {
        let (a, b) = (e.shape(a), e.shape(b));
        let batch = a.len().max(b.len()) - 2;
        let mut extents: Vec<i64> = (0..batch)
            .map(|dim| {
                let extent = |shape: &[i64]| {
                    let at = (dim + shape.len()).checked_sub(batch + 2);
                    at.map_or(1, |at| shape[at])
                };
                extent(&a).max(extent(&b))
            })
            .collect();
        let last = |shape: &[i64], transposed: bool| {
            let [row, column] = [shape[shape.len() - 2], shape[shape.len() - 1]];
            if transposed {
                [column, row]
            } else {
                [row, column]
            }
        };
        let ([m, k], [_, n]) = (last(&a, transpose_a), last(&b, transpose_b));
        extents.extend([m, n, k]);
        Self { extents, batch }
    }

    fn m(&self) -> usize {
        self.batch
    }

    fn n(&self) -> usize {
        self.batch + 1
    }

    fn k(&self) -> usize {
        self.batch + 2
    }

    /// Labels of an operand whose last two dimensions are `row` and `column`, or the other way round if transposed.
    fn operand(&self, e: &Emit, value: ValueId, rows: [usize; 2], transposed: bool) -> Input {
        let shape = e.shape(value);
        let batch = shape.len() - 2;
        let labels = (0..batch).map(|dim| -> Label {
            let label = dim + self.batch - batch;
            (shape[dim] == self.extents[label]).then_some(label)
        });
        let [row, column] = rows;
        let last = if transposed {
            [column, row]
        } else {
            [row, column]
        };
        Input {
            value,
            labels: labels.chain(last.map(Some)).collect(),
        }
    }

    /// The product of two operands, as a tensor of type `ty` whose dimensions have the labels `target` (with `None` where it
    /// has extent 1).
    fn contract(&self, e: &mut Emit, inputs: [Input; 2], target: &[Label], ty: Type) -> ValueId {
        let output: Vec<usize> = target.iter().copied().flatten().collect();
        let value = e.einsum(
            &inputs,
            &self.extents,
            &output,
            Reduction::Sum,
            |e, args| e.mul(args[0], args[1]),
        );
        let (shape, element) = shape_of(e, ty);
        let value = store_as(e, value, element);
        e.reshape(value, &shape)
    }
}

/// `op(a) · op(b)`
fn product(e: &mut Emit, [a, b]: [ValueId; 2], [ta, tb]: [bool; 2], ty: Type) -> ValueId {
    let p = Product::new(e, a, b, ta, tb);
    let inputs = [
        p.operand(e, a, [p.m(), p.k()], ta),
        p.operand(e, b, [p.k(), p.n()], tb),
    ];
    let target: Vec<Label> = (0..p.batch + 2).map(Some).collect();
    p.contract(e, inputs, &target, ty)
}

/// Gradient of the first operand of `op(a) · op(b)`.
fn grad_a(e: &mut Emit, [a, b, dout]: [ValueId; 3], [ta, tb]: [bool; 2], ty: Type) -> ValueId {
    let p = Product::new(e, a, b, ta, tb);
    let target = p.operand(e, a, [p.m(), p.k()], ta).labels;
    let inputs = [
        p.operand(e, dout, [p.m(), p.n()], false),
        p.operand(e, b, [p.k(), p.n()], tb),
    ];
    p.contract(e, inputs, &target, ty)
}

/// Gradient of the second operand of `op(a) · op(b)`.
fn grad_b(e: &mut Emit, [a, b, dout]: [ValueId; 3], [ta, tb]: [bool; 2], ty: Type) -> ValueId {
    let p = Product::new(e, a, b, ta, tb);
    let target = p.operand(e, b, [p.k(), p.n()], tb).labels;
    let inputs = [
        p.operand(e, a, [p.m(), p.k()], ta),
        p.operand(e, dout, [p.m(), p.n()], false),
    ];
    p.contract(e, inputs, &target, ty)
}

fn transposes(e: &Emit, call: &Call) -> Result<[bool; 2], String> {
    Ok([call.flag(e, "transpose_a")?, call.flag(e, "transpose_b")?])
}

pub(super) fn matmul(e: &mut Emit, call: &Call) -> Outcome {
    let transposes = transposes(e, call)?;
    let ty = call.result_type(e);
    Ok(vec![product(
        e,
        [call.arg(e, "a")?, call.arg(e, "b")?],
        transposes,
        ty,
    )])
}

pub(super) fn matmul_grad(e: &mut Emit, call: &Call) -> Outcome {
    let transposes = transposes(e, call)?;
    let args = [call.arg(e, "a")?, call.arg(e, "b")?, call.arg(e, "dout")?];
    let mut results = Vec::new();
    if let Some(ty) = call.result(e, "da") {
        results.push(grad_a(e, args, transposes, ty));
    }
    if let Some(ty) = call.result(e, "db") {
        results.push(grad_b(e, args, transposes, ty));
    }
    Ok(results)
}

pub(super) fn fused_linear(e: &mut Emit, call: &Call) -> Outcome {
    let transposes = transposes(e, call)?;
    let activation = Activation::parse(&call.word(e, "activation")?)?;
    let (x, w) = (call.arg(e, "x")?, call.arg(e, "w")?);
    let (shape, element) = call.result_shape(e);
    // The sum stays in the type that it is computed in until bias and activation are applied.
    let wide = e.wide(element);
    let wide = e.cx.tensor(&shape, wide);
    let mut pre = product(e, [x, w], transposes, wide);
    if let Some(bias) = call.optional(e, "bias") {
        let wide = e.element(pre);
        pre = e.map(&[pre, bias], &shape, wide, |e, args| {
            let bias = e.convert(args[1], wide);
            e.add(args[0], bias)
        });
    }
    let out = e.map(&[pre], &shape, element, |e, x| activation.value(e, x[0]));
    let mut results = vec![out];
    if call.result(e, "aux").is_some() {
        results.push(store_as(e, pre, element));
    }
    Ok(results)
}

pub(super) fn fused_linear_grad(e: &mut Emit, call: &Call) -> Outcome {
    let transposes = transposes(e, call)?;
    let activation = Activation::parse(&call.word(e, "activation")?)?;
    let args = [call.arg(e, "x")?, call.arg(e, "w")?, call.arg(e, "dout")?];
    let mut results = Vec::new();
    if let Some(ty) = call.result(e, "dx") {
        let (shape, element) = shape_of(e, ty);
        let wide = e.wide(element);
        let wide = e.cx.tensor(&shape, wide);
        let dx = grad_a(e, args, transposes, wide);
        results.push(match call.optional(e, "aux") {
            Some(aux) => e.map(&[dx, aux], &shape, element, |e, args| {
                let slope = activation.derivative(e, args[1]);
                e.mul(args[0], slope)
            }),
            None => store_as(e, dx, element),
        });
    }
    if let Some(ty) = call.result(e, "dw") {
        let (shape, element) = shape_of(e, ty);
        let wide = e.wide(element);
        let wide = e.cx.tensor(&shape, wide);
        let dw = grad_b(e, args, transposes, wide);
        let overwrite = call.flag(e, "overwrite")?;
        results.push(match call.optional(e, "acc") {
            Some(acc) if !overwrite => e.map(&[dw, acc], &shape, element, |e, x| e.add(x[0], x[1])),
            _ => store_as(e, dw, element),
        });
    }
    if let Some(ty) = call.result(e, "dbias") {
        let dout = args[2];
        let shape = e.shape(dout);
        let input = e.aligned(dout, &shape);
        results.push(super::elementwise::unbroadcast(
            e,
            &[input],
            &shape,
            ty,
            |_, x| x[0],
        ));
    }
    Ok(results)
}
