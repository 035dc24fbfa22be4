//! Cuts a rank class into parts: the ranks that keep a bias and those that lose it, for each set of axes over which biases are
//! promoted. Each part becomes a class of its own.

use raddle_dialect::ir::{Attr, CloneMap, Context, OpId, ValueId};
use raddle_dialect::mesh::{Mesh, RankSet};

/// What a rank is to the biases promoted over some axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Its index on all the axes is 0: it keeps the bias.
    First,
    /// It loses the bias.
    Rest,
}

/// Ranks with the same role for each set of axes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Boxes: per axis of the mesh, the indices.
    pub boxes: Vec<Vec<Vec<usize>>>,
    /// One per set of axes.
    pub roles: Vec<Role>,
}

/// The parts of `ranks`, those that keep most biases first; none is empty.
pub fn split(ranks: &RankSet, sets: &[Vec<usize>]) -> Vec<Part> {
    let mut parts = vec![Part {
        boxes: ranks.boxes().to_vec(),
        roles: Vec::new(),
    }];
    for axes in sets {
        parts = parts.iter().flat_map(|part| cut(part, axes)).collect();
    }
    parts
}

fn cut(part: &Part, axes: &[usize]) -> impl Iterator<Item = Part> + use<> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for whole in &part.boxes {
        // Of what has index 0 on the axes so far, what has another index on the next one is cut off.
        let mut zero = whole.clone();
        for &axis in axes {
            let mut other = zero.clone();
            other[axis].retain(|&i| i != 0);
            zero[axis].retain(|&i| i == 0);
            if other.iter().all(|indices| !indices.is_empty()) {
                rest.push(other);
            }
        }
        if zero.iter().all(|indices| !indices.is_empty()) {
            first.push(zero);
        }
    }
    let roles = part.roles.clone();
    [(first, Role::First), (rest, Role::Rest)]
        .into_iter()
        .filter(|(boxes, _)| !boxes.is_empty())
        .map(move |(boxes, role)| {
            let roles = roles.iter().copied().chain([role]).collect();
            Part { boxes, roles }
        })
}

impl Part {
    /// The part as the attribute `dist.ranks`.
    pub fn to_attr(&self, cx: &Context, mesh: &Mesh) -> Attr {
        let one = |indices: &Vec<Vec<usize>>| {
            let some = (0..indices.len()).filter(|&axis| indices[axis].len() < mesh.sizes()[axis]);
            let entries = some.map(|axis| {
                let list: Vec<_> = indices[axis].iter().map(|&i| i as i64).collect();
                (cx.ident(&mesh.axes()[axis]), cx.i64_array(&list))
            });
            cx.dict(entries.collect())
        };
        let boxes: Vec<_> = self.boxes.iter().map(one).collect();
        cx.array(&boxes)
    }

    /// What tells its class's name from the others': `_first`, `_rest`, or one of them per set of axes.
    pub fn suffix(&self) -> String {
        let word = |role: &Role| match role {
            Role::First => "_first",
            Role::Rest => "_rest",
        };
        self.roles.iter().map(word).collect()
    }
}

/// Finds the ops and values of a part's class, given those of the class it is a copy of.
#[derive(Default)]
pub struct Copied(pub Option<CloneMap>);

impl Copied {
    /// The copy of an op.
    pub fn op(&self, op: OpId) -> OpId {
        self.0.as_ref().map_or(op, |map| map.ops[&op])
    }

    /// The copy of a value. Values made after copying stand for themselves.
    pub fn value(&self, value: ValueId) -> ValueId {
        let copy = self.0.as_ref().and_then(|map| map.values.get(&value));
        copy.copied().unwrap_or(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_cover_the_class() {
        let names = ["dp", "mp", "ep"].map(String::from).to_vec();
        let mesh = Mesh::new(names, vec![2, 4, 3]).unwrap();
        let parts = split(&RankSet::all(&mesh), &[vec![1], vec![1, 2]]);
        let roles: Vec<_> = parts.iter().map(Part::suffix).collect();
        assert_eq!(roles, ["_first_first", "_first_rest", "_rest_rest"]);
        let mut seen = vec![0; mesh.ranks()];
        for (rank, seen) in seen.iter_mut().enumerate() {
            let at = mesh.coordinate(rank);
            for part in &parts {
                let inside = |b: &Vec<Vec<usize>>| b.iter().zip(&at).all(|(l, i)| l.contains(i));
                let count = part.boxes.iter().filter(|b| inside(b)).count();
                *seen += count;
                if count == 1 {
                    assert_eq!(part.roles[0] == Role::First, at[1] == 0);
                    assert_eq!(part.roles[1] == Role::First, at[1] == 0 && at[2] == 0);
                }
            }
        }
        assert!(seen.iter().all(|&n| n == 1), "{seen:?}");
    }

    #[test]
    fn a_class_of_first_ranks_is_not_cut() {
        let mesh = Mesh::new(vec!["mp".into()], vec![4]).unwrap();
        let first = RankSet::from_ranks(&mesh, &[0]);
        assert_eq!(split(&first, &[vec![0]]).len(), 1);
        assert_eq!(split(&RankSet::all(&mesh), &[vec![0]]).len(), 2);
    }
}
