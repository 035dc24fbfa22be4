//! All ranks of a mesh in lockstep: values taken apart over the mesh, ops carried out on every rank, results put together.

use std::collections::HashMap;

use raddle_dialect::TensorType;
use raddle_dialect::ir::{Module, OpId, ValueId};
use raddle_dialect::layout::{Layout, Reduction, Spread};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{Attrs, Effects, OpAttributes};
use raddle_dialect::reference::{Call, Place, Tensor, combine, eval, ravel, unravel};

/// Per value the tensor of each rank.
pub type Values = HashMap<ValueId, Vec<Tensor>>;

/// Numbers that look random.
pub fn noise(seed: usize, at: usize) -> f64 {
    let x = (at as f64 + 1.7) * (seed as f64 + 0.9);
    (x * 12.9898).sin() * 1.5 + (x * 0.37).cos() * 0.25
}

/// The part of a rank among `parts` along a dimension.
fn piece(x: &Tensor, dim: usize, parts: usize, rank: usize) -> Tensor {
    let mut shape = x.shape.clone();
    assert_eq!(shape[dim] % parts, 0, "{:?} along {dim}", x.shape);
    shape[dim] /= parts;
    Tensor::from_fn(shape.clone(), x.dtype, |at| {
        let mut index = unravel(at, &shape);
        index[dim] += rank * shape[dim];
        x.data[ravel(&index, &x.shape)]
    })
}

/// What the ranks along one axis have of a tensor.
fn split(x: &Tensor, spread: Spread, parts: usize) -> Vec<Tensor> {
    match spread {
        Spread::Sharded(dim) => (0..parts).map(|r| piece(x, dim, parts, r)).collect(),
        Spread::Partial(reduction) if reduction.is_linear() => {
            let mut rest = match reduction {
                Reduction::Avg => x.map(|v| v * parts as f64),
                _ => x.clone(),
            };
            let mut all = Vec::new();
            for part in 1..parts {
                let other = Tensor::from_fn(x.shape.clone(), x.dtype, |at| noise(part + 40, at));
                rest = rest.zip(&other, |x, o| x - o).unwrap();
                all.push(other);
            }
            all.push(rest);
            all
        }
        _ => vec![x.clone(); parts],
    }
}

/// What each rank has of a whole tensor.
pub fn take_apart(whole: &Tensor, layout: &Layout, mesh: &Mesh) -> Vec<Tensor> {
    let mut parts = vec![whole.clone()];
    for (axis, &size) in mesh.sizes().iter().enumerate() {
        let spread = layout.on(axis);
        parts = parts.iter().flat_map(|x| split(x, spread, size)).collect();
    }
    parts
}

/// The whole tensor that the ranks have.
pub fn put_together(parts: &[Tensor], layout: &Layout, mesh: &Mesh) -> Tensor {
    let mut parts = parts.to_vec();
    for (axis, &size) in mesh.sizes().iter().enumerate().rev() {
        let spread = layout.on(axis);
        parts = parts.chunks(size).map(|p| join(p, spread)).collect();
    }
    parts.swap_remove(0)
}

fn join(parts: &[Tensor], spread: Spread) -> Tensor {
    match spread {
        Spread::Sharded(dim) => {
            let attrs = vec![("dim", raddle_dialect::ops::Value::Int(dim as i64))];
            let each: Vec<Vec<Tensor>> = parts.iter().map(|p| vec![p.clone()]).collect();
            let gather = crate::case::definition("dist.all_gather");
            combine(gather, &each, &attrs).unwrap()[0][0].clone()
        }
        Spread::Partial(reduction) if reduction.is_linear() => {
            let sum = parts[1..]
                .iter()
                .fold(parts[0].clone(), |sum, p| sum.zip(p, |a, b| a + b).unwrap());
            match reduction {
                Reduction::Avg => sum.map(|v| v / parts.len() as f64),
                _ => sum,
            }
        }
        Spread::Replicated => {
            for other in parts {
                let pairs = other.data.iter().zip(parts[0].data.iter());
                for (a, b) in pairs {
                    assert!(
                        (a - b).abs() <= 1e-9 * (1.0 + a.abs()),
                        "copies differ: {a}, {b}"
                    );
                }
            }
            parts[0].clone()
        }
        other => panic!("no whole is made of {other:?}"),
    }
}

/// Carries out ops on all ranks.
pub fn run(module: &Module, mesh: &Mesh, ops: &[OpId], values: &mut Values) {
    for &op in ops {
        let def = module.def_of(op).unwrap();
        let attributes = OpAttributes { module, op };
        let operands: Vec<Vec<Tensor>> = (0..mesh.ranks())
            .map(|rank| {
                module
                    .operands(op)
                    .map(|v| values[&v][rank].clone())
                    .collect()
            })
            .collect();
        let mut results = vec![Vec::new(); mesh.ranks()];
        if def.effects == Effects::Communicates {
            let axes = Attrs(&attributes).strings("axes").unwrap();
            let axes = mesh.axis_set(&axes).unwrap();
            for group in mesh.groups(&axes) {
                let inputs: Vec<_> = group.iter().map(|&r| operands[r].clone()).collect();
                let outputs = combine(def, &inputs, &attributes);
                let outputs = outputs.unwrap_or_else(|e| panic!("'{}' op {e}", def.name));
                for (&rank, outputs) in group.iter().zip(outputs) {
                    results[rank] = outputs;
                }
            }
        } else {
            let types: Vec<TensorType> = module
                .results(op)
                .map(|r| TensorType::of(module.cx(), module.ty(r)).unwrap())
                .collect();
            for (rank, operands) in operands.iter().enumerate() {
                let call = Call {
                    operands,
                    attrs: &attributes,
                    results: &types,
                    place: Some(Place {
                        mesh,
                        coordinate: &mesh.coordinate(rank),
                    }),
                    stream: 0,
                    microbatch: 3,
                };
                let outputs = eval(def, &call);
                results[rank] = outputs.unwrap_or_else(|e| panic!("'{}' op {e}", def.name));
            }
        }
        for (index, result) in module.results(op).enumerate() {
            let of_ranks = results.iter().map(|r| r[index].clone()).collect();
            values.insert(result, of_ranks);
        }
    }
}
