//! MESH.json: the mesh, which rank the programs beside it belong to, and that rank's rings.
//!
//! ```json
//! {"mesh": {"axes": ["dp", "mp"], "shape": [2, 2]}, "rank": 0,
//!  "rings": {"12": [0, 2], "13": [0, 1]},
//!  "inputs": {"tokens": [["dp"], []]}}
//! ```
//!
//! `inputs` is optional: per data input the mesh axes that cut each dimension. A ring that an op uses must be the rank's
//! group over some of the axes; other rings may be anything.

use std::collections::{BTreeMap, BTreeSet};

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::Loc;
use raddle_dialect::mesh::Mesh;
use serde::Deserialize;

/// More ranks than any machine has; lists of ranks stay small enough to hold.
const MAX_RANKS: usize = 1 << 20;

/// What a MESH.json says.
#[derive(Clone, Debug)]
pub(super) struct MeshFile {
    pub mesh: Mesh,
    pub rank: usize,
    pub rings: Rings,
    /// The members of every ring, in order.
    pub members: BTreeMap<i64, Vec<i64>>,
    pub inputs: BTreeMap<String, Vec<Vec<String>>>,
}

/// A rank's communication groups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Rings {
    /// Rings that are this rank's group over mesh axes (of size above 1, in mesh order).
    pub axes: BTreeMap<i64, Vec<String>>,
    /// Those of `axes` whose members are not listed row-major, so that gathers and roots mean something else on them.
    pub shuffled: BTreeSet<i64>,
    /// All other rings, with their members.
    pub others: BTreeMap<i64, Vec<i64>>,
}

#[derive(Deserialize)]
struct RawFile {
    mesh: RawMesh,
    rank: i64,
    #[serde(default)]
    rings: BTreeMap<String, Vec<i64>>,
    #[serde(default)]
    inputs: BTreeMap<String, Vec<Vec<String>>>,
}

#[derive(Deserialize)]
struct RawMesh {
    axes: Vec<String>,
    shape: Vec<i64>,
}

/// A rank's position in its group over these axes; 0 if one of them does not exist.
pub(super) fn position<S: AsRef<str>>(mesh: &Mesh, rank: usize, axes: &[S]) -> usize {
    mesh.axis_set(axes)
        .map_or(0, |axes| mesh.index_in_group(&mesh.coordinate(rank), &axes))
}

/// Number of ranks in a group over these axes; axes that do not exist do not count.
pub(super) fn group_size<S: AsRef<str>>(mesh: &Mesh, axes: &[S]) -> usize {
    mesh.axis_set(axes).map_or(1, |axes| mesh.group_size(&axes))
}

/// The axes over which `members` is the group of `rank`, in whatever order; `None` if there are none such.
fn axes_of(mesh: &Mesh, rank: usize, members: &[i64]) -> Option<Vec<String>> {
    let ranks = mesh.ranks();
    let members: BTreeSet<usize> = members
        .iter()
        .map(|&m| usize::try_from(m).ok().filter(|&m| m < ranks))
        .collect::<Option<_>>()?;
    if !members.contains(&rank) {
        return None;
    }
    let own = mesh.coordinate(rank);
    let mut varies = vec![false; own.len()];
    for &member in &members {
        for (varies, (at, own)) in varies
            .iter_mut()
            .zip(mesh.coordinate(member).iter().zip(&own))
        {
            *varies |= at != own;
        }
    }
    let axes: Vec<_> = (0..own.len()).filter(|&axis| varies[axis]).collect();
    // Members agree with the rank outside `axes`, so it is enough to count them.
    (mesh.group_size(&axes) == members.len())
        .then(|| axes.iter().map(|&axis| mesh.axes()[axis].clone()).collect())
}

impl MeshFile {
    /// Reads MESH.json.
    ///
    /// # Errors
    /// `None`, with a diagnostic that points into the text.
    pub(super) fn parse(text: &str, at: Loc, diagnostics: &mut Diagnostics) -> Option<Self> {
        let raw: RawFile = match serde_json::from_str(text) {
            Ok(raw) => raw,
            Err(error) => {
                diagnostics.push(
                    Diagnostic::error("E0806", at, format!("not a mesh file: {error}")).help(
                        r#"a mesh file looks like {"mesh": {"axes": ["dp"], "shape": [2]}, "rank": 0, "rings": {"0": [0, 1]}}"#,
                    ),
                );
                return None;
            }
        };
        let mut fail = |message: String, help: &str| {
            diagnostics.push(Diagnostic::error("E0806", at, message).help(help));
        };
        let RawMesh { axes, shape } = raw.mesh;
        let sizes = shape.iter().map(|&s| usize::try_from(s).unwrap_or(0));
        let mesh = match Mesh::new(axes, sizes.collect()) {
            Ok(mesh) if mesh.ranks() > MAX_RANKS => {
                fail(
                    format!("the mesh has {} ranks", mesh.ranks()),
                    "at most 1,048,576 ranks are imported",
                );
                return None;
            }
            Ok(mesh) => mesh,
            Err(error) => {
                fail(
                    error.to_string(),
                    "`axes` names every axis once, `shape` gives each a size of at least 1",
                );
                return None;
            }
        };
        let Some(rank) = usize::try_from(raw.rank).ok().filter(|&r| r < mesh.ranks()) else {
            fail(
                format!(
                    "rank {} is not in a mesh of {} ranks",
                    raw.rank,
                    mesh.ranks()
                ),
                "ranks are numbered from 0, row-major in the order of the axes",
            );
            return None;
        };
        let mut rings = Rings::default();
        let mut all = BTreeMap::new();
        for (id, members) in raw.rings {
            let Ok(id) = id.parse::<i64>() else {
                fail(
                    format!("ring id `{id}` is not a number"),
                    "ring ids are integers, written as strings",
                );
                return None;
            };
            all.insert(id, members.clone());
            match axes_of(&mesh, rank, &members) {
                Some(axes) => {
                    if !members.is_sorted() {
                        rings.shuffled.insert(id);
                    }
                    rings.axes.insert(id, axes);
                }
                None => {
                    rings.others.insert(id, members);
                }
            }
        }
        Some(Self {
            mesh,
            rank,
            rings,
            members: all,
            inputs: raw.inputs,
        })
    }
}

impl Rings {
    /// The ring ids that name these axes, ascending.
    pub(super) fn of_axes<'a, S: AsRef<str>>(
        &'a self,
        axes: &'a [S],
    ) -> impl Iterator<Item = i64> + 'a {
        self.axes
            .iter()
            .filter(|(_, a)| {
                a.iter()
                    .map(String::as_str)
                    .eq(axes.iter().map(AsRef::as_ref))
            })
            .map(|(&id, _)| id)
    }
}
