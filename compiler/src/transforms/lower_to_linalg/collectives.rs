//! What needs other ranks, or the device: calls to functions with a C interface, declared as they are used.
//!
//! Tensors go over flat, as one-dimensional buffers of dynamic length. Each function has MLIR's C interface: results come
//! back through a pointer to a descriptor, whose buffer the callee allocates with `malloc`. `T` is the element type's name;
//! `axes` is a set of mesh axes, bit i for the i-th; ranks of a group are in row-major order of its axes.
//!
//! | function | gives |
//! |---|---|
//! | `raddle_all_reduce_T(x, reduction, axes)` | the reduction over the group; 0 sum, 1 avg, 2 max, 3 min, 4 prod, 5 any |
//! | `raddle_reduce_scatter_T(x, reduction, axes)` | the rank's block of it; x holds one block a rank |
//! | `raddle_all_gather_T(x, axes)` | the group's tensors, one behind the other |
//! | `raddle_all_to_all_T(x, axes)` | block i of x goes to rank i, block i of the result comes from rank i |
//! | `raddle_broadcast_T(x, root, axes)` | the root's tensor |
//! | `raddle_send_T(x, axes, index, tag)` | nothing; the peer is `index` in the group |
//! | `raddle_recv_T(count, axes, index, tag)` | `count` elements |
//! | `raddle_barrier(axes)` | nothing |
//! | `raddle_coordinate(axes)` | the rank's index in the group |
//! | `raddle_uniform_T(count, min, max, seed)`, `raddle_gaussian_T(count, mean, std, seed)` | random numbers |

use raddle_dialect::ir::{DYNAMIC, FloatKind, Type, ValueId};
use raddle_dialect::ops::collectives::REDUCTIONS;

use super::call::{Call, Outcome};
use super::emit::Emit;

/// A tensor as calls take it.
fn flat(e: &mut Emit, value: ValueId) -> ValueId {
    let count = e.shape(value).iter().product();
    let line = e.reshape(value, &[count]);
    let ty = dynamic(e, e.element(value));
    e.op("tensor.cast", &[line], &[ty], &[])
}

fn dynamic(e: &Emit, element: Type) -> Type {
    e.cx.tensor(&[DYNAMIC], element)
}

/// What a call gave, in a shape.
fn shaped(e: &mut Emit, value: ValueId, shape: &[i64]) -> ValueId {
    let count = shape.iter().product();
    let ty = e.cx.tensor(&[count], e.element(value));
    let line = e.op("tensor.cast", &[value], &[ty], &[]);
    e.reshape(line, shape)
}

fn int(e: &mut Emit, value: i64) -> ValueId {
    let ty = e.cx.int_type(64);
    let attr = e.cx.int_attr(value, ty);
    e.op("arith.constant", &[], &[ty], &[("value", attr)])
}

/// The set of mesh axes as a number.
fn mask(e: &mut Emit, axes: &[String]) -> ValueId {
    let bit = |axis| {
        e.mesh
            .iter()
            .position(|a| a == axis)
            .map_or(0, |at| 1 << at)
    };
    let mask = axes.iter().map(bit).sum();
    int(e, mask)
}

/// Calls `raddle_<function>_T` and returns its result.
fn call_tensor(e: &mut Emit, function: &str, element: Type, args: &[ValueId]) -> ValueId {
    let name = format!("raddle_{function}_{}", e.cx.display(element));
    let ty = dynamic(e, element);
    e.call(&name, args, Some(ty))
        .expect("the call has a result")
}

fn reduction(e: &mut Emit, call: &Call) -> Result<ValueId, String> {
    let word = call.word(e, "reduction")?;
    reduction_number(e, &word)
}

fn reduction_number(e: &mut Emit, word: &str) -> Result<ValueId, String> {
    let at = REDUCTIONS.iter().position(|&r| r == word);
    let at = at.ok_or_else(|| format!("the reduction '{word}' is not known"))?;
    Ok(int(e, at as i64))
}

pub(super) fn all_reduce(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let (shape, element) = call.result_shape(e);
    let reduction = reduction(e, call)?;
    let axes = call.axes(e, "axes");
    let args = [flat(e, x), reduction, mask(e, &axes)];
    let got = call_tensor(e, "all_reduce", element, &args);
    Ok(vec![shaped(e, got, &shape)])
}

/// A tensor reduced over the ranks along some axes; itself if there are none.
pub(super) fn reduced_over(
    e: &mut Emit,
    value: ValueId,
    reduction: &str,
    axes: &[String],
) -> Result<ValueId, String> {
    if axes.is_empty() {
        return Ok(value);
    }
    let (shape, element) = (e.shape(value), e.element(value));
    let reduction = reduction_number(e, reduction)?;
    let args = [flat(e, value), reduction, mask(e, axes)];
    let got = call_tensor(e, "all_reduce", element, &args);
    Ok(shaped(e, got, &shape))
}

/// Blocks along `dim`, one behind the other: `[n, …]`.
fn blocks(e: &mut Emit, x: ValueId, dim: usize, block: &[i64]) -> ValueId {
    let count = e.shape(x)[dim] / block[dim].max(1);
    let shape: Vec<i64> = [count].into_iter().chain(block.iter().copied()).collect();
    let ty = e.cx.tensor(&shape, e.element(x));
    let mut all = e.op("tensor.empty", &[], &[ty], &[]);
    for at in 0..count {
        let mut from = vec![0; block.len()];
        from[dim] = at * block[dim];
        let piece = e.extract(x, &from, &[], block);
        let mut one = shape.clone();
        one[0] = 1;
        let mut to = vec![0; shape.len()];
        to[0] = at;
        let piece = e.reshape(piece, &one);
        all = e.insert(piece, all, &to, &one);
    }
    all
}

/// The inverse: `[n, …]` joined along `dim`.
fn join(e: &mut Emit, all: ValueId, dim: usize, shape: &[i64]) -> ValueId {
    let stacked = e.shape(all);
    let block = &stacked[1..];
    let ty = e.cx.tensor(shape, e.element(all));
    let mut whole = e.op("tensor.empty", &[], &[ty], &[]);
    for at in 0..stacked[0] {
        let mut one = stacked.clone();
        one[0] = 1;
        let mut from = vec![0; stacked.len()];
        from[0] = at;
        let piece = e.extract(all, &from, &[], &one);
        let piece = e.reshape(piece, block);
        let mut to = vec![0; shape.len()];
        to[dim] = at * block[dim];
        whole = e.insert(piece, whole, &to, block);
    }
    whole
}

pub(super) fn reduce_scatter(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let dim = call.int(e, "dim")? as usize;
    let (shape, element) = call.result_shape(e);
    let blocks = blocks(e, x, dim, &shape);
    let reduction = reduction(e, call)?;
    let axes = call.axes(e, "axes");
    let args = [flat(e, blocks), reduction, mask(e, &axes)];
    let got = call_tensor(e, "reduce_scatter", element, &args);
    Ok(vec![shaped(e, got, &shape)])
}

pub(super) fn all_gather(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let dim = call.int(e, "dim")? as usize;
    let (shape, element) = call.result_shape(e);
    let block = e.shape(x);
    let axes = call.axes(e, "axes");
    let args = [flat(e, x), mask(e, &axes)];
    let got = call_tensor(e, "all_gather", element, &args);
    let count = shape[dim] / block[dim].max(1);
    let stacked: Vec<i64> = [count].into_iter().chain(block).collect();
    let got = shaped(e, got, &stacked);
    Ok(vec![join(e, got, dim, &shape)])
}

pub(super) fn all_to_all(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let split = call.int(e, "split_dim")? as usize;
    let concat = call.int(e, "concat_dim")? as usize;
    let (shape, element) = call.result_shape(e);
    let axes = call.axes(e, "axes");
    let extents = e
        .mesh
        .iter()
        .zip(&e.sizes)
        .filter(|(name, _)| axes.contains(name));
    let group: i64 = extents.map(|(_, size)| size).product();
    // What goes to one rank: x, shorter along the dimension that is cut.
    let mut block = e.shape(x);
    block[split] /= group;
    let blocks = blocks(e, x, split, &block);
    let args = [flat(e, blocks), mask(e, &axes)];
    let got = call_tensor(e, "all_to_all", element, &args);
    let stacked: Vec<i64> = [group].into_iter().chain(block).collect();
    let got = shaped(e, got, &stacked);
    Ok(vec![join(e, got, concat, &shape)])
}

pub(super) fn broadcast(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let (shape, element) = call.result_shape(e);
    let root = call.int(e, "root")?;
    let axes = call.axes(e, "axes");
    let args = [flat(e, x), int(e, root), mask(e, &axes)];
    let got = call_tensor(e, "broadcast", element, &args);
    Ok(vec![shaped(e, got, &shape)])
}

/// The axes that a transfer's peer is named on, and its index there.
fn peer(e: &mut Emit, call: &Call) -> Result<[ValueId; 2], String> {
    let peer = e.rewriter.attr(call.op, "peer").ok_or("it names no peer")?;
    let mut axes: Vec<(usize, i64)> = Vec::new();
    for &(axis, index) in e.cx.dict_entries(peer) {
        let at = e.mesh.iter().position(|a| a == e.cx.str(axis));
        axes.push((
            at.ok_or("its peer names an unknown axis")?,
            e.cx.as_i64(index)
                .ok_or("its peer's index is not a number")?,
        ));
    }
    axes.sort_unstable();
    let index = axes
        .iter()
        .fold(0, |n, &(at, index)| n * e.sizes[at] + index);
    let names: Vec<String> = axes.iter().map(|&(at, _)| e.mesh[at].clone()).collect();
    Ok([mask(e, &names), int(e, index)])
}

pub(super) fn send(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let [axes, index] = peer(e, call)?;
    let tag = call.int(e, "tag")?;
    let args = [flat(e, x), axes, index, int(e, tag)];
    let name = format!("raddle_send_{}", e.cx.display(e.element(x)));
    e.call(&name, &args, None);
    Ok(vec![])
}

pub(super) fn recv(e: &mut Emit, call: &Call) -> Outcome {
    let (shape, element) = call.result_shape(e);
    let [axes, index] = peer(e, call)?;
    let tag = call.int(e, "tag")?;
    let args = [int(e, shape.iter().product()), axes, index, int(e, tag)];
    let got = call_tensor(e, "recv", element, &args);
    Ok(vec![shaped(e, got, &shape)])
}

pub(super) fn barrier(e: &mut Emit, call: &Call) -> Outcome {
    let axes = call.axes(e, "axes");
    let args = [mask(e, &axes)];
    e.call("raddle_barrier", &args, None);
    Ok(vec![])
}

/// The rank's row-major index on some axes.
pub(super) fn coordinate(e: &mut Emit, axes: &[String]) -> ValueId {
    let args = [mask(e, axes)];
    let index = e.cx.index_type();
    e.call("raddle_coordinate", &args, Some(index))
        .expect("the call has a result")
}

/// `dist.uniform` and `dist.gaussian`: two parameters and a seed.
pub(super) fn random(e: &mut Emit, call: &Call, function: &str, params: [&str; 2]) -> Outcome {
    let (shape, element) = call.result_shape(e);
    let f64 = e.cx.float_type(FloatKind::F64);
    let mut args = vec![int(e, shape.iter().product())];
    for name in params {
        let value = call.float(e, name)?;
        args.push(e.constant(value, f64));
    }
    let seed = call.int(e, "seed")?;
    args.push(int(e, seed));
    let got = call_tensor(e, function, element, &args);
    Ok(vec![shaped(e, got, &shape)])
}
