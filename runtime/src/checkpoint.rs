//! Takes the state of all ranks from a program to the same program after a pass has taken globals away from some ranks, and back.

use raddle_bundle::{CHECKPOINT_VERSION, CheckpointMap, Held, Moved};
use raddle_dialect::DType;
use raddle_dialect::mesh::Mesh;
use raddle_dialect::reference::Tensor;

use crate::RuntimeError;
use crate::device::reference::Globals;

/// The state after the pass, from that before it: owners keep what they have, or the sum of all shares; the others lose it.
///
/// # Errors
/// If there is not one state per rank, or a rank lacks a global or has one of another type.
pub fn after(map: &CheckpointMap, state: &[Globals]) -> Result<Vec<Globals>, RuntimeError> {
    let mesh = mesh(map, state)?;
    let mut state = state.to_vec();
    for moved in &map.moved {
        let owners = owners(&mesh, moved)?;
        for &(rank, owner) in &owners {
            let value = take(moved, &state, rank)?;
            if moved.before == Held::Shares && rank != owner {
                let own = take(moved, &state, owner)?;
                let sum = own.zip(&value, |a, b| a + b)?;
                state[owner].insert(moved.global.clone(), sum);
            }
        }
        for (rank, _) in owners.iter().filter(|(rank, owner)| rank != owner) {
            state[*rank].remove(&moved.global);
        }
    }
    Ok(state)
}

/// The state before the pass, from that after it: every rank gets its owner's copy, or zeros where it had a share.
///
/// # Errors
/// If there is not one state per rank, or an owner lacks a global or has one of another type.
pub fn before(map: &CheckpointMap, state: &[Globals]) -> Result<Vec<Globals>, RuntimeError> {
    let mesh = mesh(map, state)?;
    let mut state = state.to_vec();
    for moved in &map.moved {
        for (rank, owner) in owners(&mesh, moved)? {
            let value = take(moved, &state, owner)?;
            let own = match moved.before {
                Held::Shares if rank != owner => value.map(|_| 0.0),
                _ => value,
            };
            state[rank].insert(moved.global.clone(), own);
        }
    }
    Ok(state)
}

fn mesh(map: &CheckpointMap, state: &[Globals]) -> Result<Mesh, RuntimeError> {
    let wrong = |why: String| RuntimeError::Checkpoint { why };
    if map.version != CHECKPOINT_VERSION {
        return Err(wrong(format!(
            "the map has version {}, but this runtime reads version {CHECKPOINT_VERSION}",
            map.version
        )));
    }
    let mesh = Mesh::new(map.mesh.axes.clone(), map.mesh.sizes.clone())?;
    if state.len() != mesh.ranks() {
        return Err(wrong(format!(
            "there are {} states for {} ranks",
            state.len(),
            mesh.ranks()
        )));
    }
    Ok(mesh)
}

/// Every rank that had the global, with the rank that has it after the pass.
fn owners(mesh: &Mesh, moved: &Moved) -> Result<Vec<(usize, usize)>, RuntimeError> {
    let axis = |name: &str| {
        let found = mesh.axis(name);
        found.ok_or_else(|| RuntimeError::Checkpoint {
            why: format!("the mesh has no axis '{name}'"),
        })
    };
    let mut owned = Vec::new();
    for (name, &index) in &moved.owner {
        let at = axis(name)?;
        if index >= mesh.sizes()[at] {
            let why = format!("axis '{name}' has no index {index}");
            return Err(RuntimeError::Checkpoint { why });
        }
        owned.push((at, index));
    }
    let mut boxes = Vec::new();
    for one in &moved.ranks {
        let sides = one.iter().map(|(name, indices)| Ok((axis(name)?, indices)));
        boxes.push(sides.collect::<Result<Vec<_>, RuntimeError>>()?);
    }
    let mut owners = Vec::new();
    for rank in 0..mesh.ranks() {
        let mut coordinate = mesh.coordinate(rank);
        let inside = |sides: &Vec<(usize, &Vec<usize>)>| {
            let mut sides = sides.iter();
            sides.all(|(axis, indices)| indices.contains(&coordinate[*axis]))
        };
        if boxes.iter().any(inside) {
            owned
                .iter()
                .for_each(|&(axis, index)| coordinate[axis] = index);
            owners.push((rank, mesh.rank(&coordinate)));
        }
    }
    Ok(owners)
}

fn take(moved: &Moved, state: &[Globals], rank: usize) -> Result<Tensor, RuntimeError> {
    let name = &moved.global;
    let wrong = |what: String| RuntimeError::Checkpoint {
        why: format!("rank {rank} has {what}"),
    };
    let Some(value) = state[rank].get(name) else {
        return Err(wrong(format!("no global '@{name}'")));
    };
    let fits = value.shape == moved.ty.shape && Some(value.dtype) == DType::parse(&moved.ty.dtype);
    match fits {
        true => Ok(value.clone()),
        false => Err(wrong(format!(
            "a global '@{name}' of type {}, not {}",
            value.ty(),
            moved.ty
        ))),
    }
}
