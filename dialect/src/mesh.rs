//! The mesh of devices as plain data: ranks, coordinates, groups, and the sets of ranks that classes are.
//!
//! Nothing here lists all ranks of a mesh unless asked to: a rank set is a union of boxes, so a class of ten thousand ranks
//! costs as much as a class of one.

use crate::error::Error;
use crate::ir::{Module, OpId};

/// The largest mesh, in ranks.
pub const MAX_RANKS: usize = 1 << 20;

/// A grid of devices with named axes. Ranks are numbered row-major: the last axis varies fastest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mesh {
    axes: Vec<String>,
    sizes: Vec<usize>,
}

impl Mesh {
    /// A mesh with these axes, slowest first, and as many sizes.
    ///
    /// # Errors
    /// If the lengths differ, a name is empty or repeated, a size is 0, or there are more than [`MAX_RANKS`].
    pub fn new(axes: Vec<String>, sizes: Vec<usize>) -> Result<Self, Error> {
        if axes.len() != sizes.len() {
            return Err(Error::MeshLengths {
                axes: axes.len(),
                sizes: sizes.len(),
            });
        }
        for (index, axis) in axes.iter().enumerate() {
            if axis.is_empty() {
                return Err(Error::UnnamedAxis);
            }
            if axes[..index].contains(axis) {
                return Err(Error::RepeatedAxis(axis.clone()));
            }
            if sizes[index] == 0 {
                return Err(Error::EmptyAxis(axis.clone()));
            }
        }
        sizes
            .iter()
            .try_fold(1usize, |n, &size| {
                n.checked_mul(size).filter(|&n| n <= MAX_RANKS)
            })
            .ok_or(Error::MeshTooLarge)?;
        Ok(Self { axes, sizes })
    }

    /// Reads a `dist.mesh` op.
    ///
    /// # Errors
    /// As [`Mesh::new`], or if its attributes are not what they should be.
    pub fn from_op(module: &Module, op: OpId) -> Result<Self, Error> {
        let cx = module.cx();
        let axes = module.attr(op, "axes").and_then(|a| cx.as_string_array(a));
        let sizes = module.attr(op, "sizes").and_then(|a| cx.as_i64_array(a));
        let (Some(axes), Some(sizes)) = (axes, sizes) else {
            return Err(Error::NoMesh);
        };
        let sizes = sizes.iter().map(|&s| usize::try_from(s).unwrap_or(0));
        Self::new(axes.iter().map(|&a| a.into()).collect(), sizes.collect())
    }

    /// The mesh that an op's class lives on: the one that `dist.mesh` of the closest enclosing module with such an attribute
    /// names in the top module. Searches the top module; keep the result for many ops.
    ///
    /// # Errors
    /// If there is none, or it is not one.
    pub fn of(module: &Module, op: OpId) -> Result<Self, Error> {
        let own = std::iter::once(op).filter(|&o| module.is(o, "builtin.module"));
        let around =
            std::iter::successors(module.enclosing_module(op), |&m| module.enclosing_module(m));
        let name = own
            .chain(around)
            .find_map(|m| module.symbol_attr(m, "dist.mesh"))
            .ok_or(Error::NoMesh)?;
        let mesh = module
            .find_symbol(module.root(), name)
            .filter(|&m| module.is(m, "dist.mesh"))
            .ok_or(Error::NoMesh)?;
        Self::from_op(module, mesh)
    }

    /// Names of the axes.
    pub fn axes(&self) -> &[String] {
        &self.axes
    }

    /// Sizes of the axes.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Position of an axis.
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|a| a == name)
    }

    /// Positions of axes, in mesh order.
    ///
    /// # Errors
    /// If one does not exist or is named twice.
    pub fn axis_set<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<usize>, Error> {
        let mut set = Vec::with_capacity(names.len());
        for name in names {
            let name = name.as_ref();
            let axis = self.axis(name).ok_or_else(|| Error::UnknownAxis {
                axis: name.into(),
                known: self.axes.clone(),
            })?;
            if set.contains(&axis) {
                return Err(Error::RepeatedAxis(name.into()));
            }
            set.push(axis);
        }
        set.sort_unstable();
        Ok(set)
    }

    /// A rank's coordinate: one index per axis.
    pub fn coordinate(&self, rank: usize) -> Vec<usize> {
        let mut rest = rank;
        let mut coordinate = vec![0; self.sizes.len()];
        for (index, &size) in coordinate.iter_mut().zip(&self.sizes).rev() {
            *index = rest % size;
            rest /= size;
        }
        coordinate
    }

    /// The rank at a coordinate.
    pub fn rank(&self, coordinate: &[usize]) -> usize {
        coordinate
            .iter()
            .zip(&self.sizes)
            .fold(0, |rank, (&index, &size)| rank * size + index)
    }

    /// Number of ranks in each group over these axes.
    pub fn group_size(&self, axes: &[usize]) -> usize {
        axes.iter().map(|&a| self.sizes[a]).product()
    }

    /// The group of a rank over axes (positions, in mesh order): all ranks that agree with it on the other axes, row-major.
    pub fn group(&self, rank: usize, axes: &[usize]) -> Vec<usize> {
        let mut coordinate = self.coordinate(rank);
        (0..self.group_size(axes))
            .map(|member| {
                let mut rest = member;
                for &axis in axes.iter().rev() {
                    coordinate[axis] = rest % self.sizes[axis];
                    rest /= self.sizes[axis];
                }
                self.rank(&coordinate)
            })
            .collect()
    }

    /// Position of a coordinate within its group over axes (positions, in mesh order).
    pub fn index_in_group(&self, coordinate: &[usize], axes: &[usize]) -> usize {
        axes.iter()
            .fold(0, |index, &a| index * self.sizes[a] + coordinate[a])
    }

    /// All groups over axes, each listed once, ordered by their first rank.
    pub fn groups(&self, axes: &[usize]) -> Vec<Vec<usize>> {
        (0..self.ranks())
            .filter(|&rank| {
                let coordinate = self.coordinate(rank);
                axes.iter().all(|&a| coordinate[a] == 0)
            })
            .map(|rank| self.group(rank, axes))
            .collect()
    }
}

/// A set of ranks: a union of boxes. Each box has, per axis of the mesh, the sorted indices that belong to it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RankSet {
    boxes: Vec<Vec<Vec<usize>>>,
}

impl RankSet {
    /// Every rank.
    pub fn all(mesh: &Mesh) -> Self {
        Self {
            boxes: vec![mesh.sizes.iter().map(|&n| (0..n).collect()).collect()],
        }
    }

    /// Exactly these ranks. Ranks that differ along one axis only are joined into one box, axis by axis.
    pub fn from_ranks(mesh: &Mesh, ranks: &[usize]) -> Self {
        let mut boxes: Vec<Vec<Vec<usize>>> = ranks
            .iter()
            .map(|&r| mesh.coordinate(r).into_iter().map(|i| vec![i]).collect())
            .collect();
        for axis in (0..mesh.axes.len()).rev() {
            let rest = |b: &Vec<Vec<usize>>| {
                let mut key = b.clone();
                key[axis] = Vec::new();
                key
            };
            boxes.sort_by_cached_key(|b| (rest(b), b[axis].clone()));
            let mut joined: Vec<Vec<Vec<usize>>> = Vec::new();
            for b in boxes {
                match joined.last_mut() {
                    Some(last) if rest(last) == rest(&b) => last[axis].extend(&b[axis]),
                    _ => joined.push(b),
                }
            }
            for b in &mut joined {
                b[axis].sort_unstable();
                b[axis].dedup();
            }
            boxes = joined;
        }
        boxes.sort_unstable();
        Self { boxes }
    }

    /// Reads the attribute `dist.ranks` of a class: a list of dictionaries axis → `array<i64>`; an absent axis means all.
    ///
    /// # Errors
    /// If it is missing, not such a list, or an axis or index does not exist.
    pub fn from_module(module: &Module, class: OpId, mesh: &Mesh) -> Result<Self, Error> {
        let cx = module.cx();
        let list = module
            .attr(class, "dist.ranks")
            .and_then(|a| cx.as_array(a))
            .ok_or(Error::NoRanks)?;
        let mut boxes = Vec::with_capacity(list.len());
        for &entry in list {
            if !matches!(cx.attr_data(entry), crate::ir::AttrData::Dict(_)) {
                return Err(Error::NoRanks);
            }
            let mut one: Vec<Vec<usize>> = mesh.sizes.iter().map(|&n| (0..n).collect()).collect();
            for &(name, indices) in cx.dict_entries(entry) {
                let name = cx.str(name);
                let axis = mesh.axis(name).ok_or_else(|| Error::UnknownAxis {
                    axis: name.into(),
                    known: mesh.axes.clone(),
                })?;
                let indices = cx.as_i64_array(indices).ok_or(Error::NoRanks)?;
                one[axis] = indices_on_axis(mesh, axis, &indices)?;
            }
            boxes.push(one);
        }
        Ok(Self { boxes })
    }

    /// The boxes; per axis of the mesh the indices, sorted.
    pub fn boxes(&self) -> &[Vec<Vec<usize>>] {
        &self.boxes
    }

    /// Whether the rank at a coordinate belongs to the set.
    pub fn contains(&self, coordinate: &[usize]) -> bool {
        let inside = |b: &Vec<Vec<usize>>| {
            b.iter()
                .zip(coordinate)
                .all(|(indices, i)| indices.binary_search(i).is_ok())
        };
        self.boxes.iter().any(inside)
    }

    /// Number of ranks, if no two boxes overlap.
    pub fn len(&self) -> usize {
        let volume = |b: &Vec<Vec<usize>>| b.iter().map(Vec::len).product::<usize>();
        self.boxes.iter().map(volume).sum()
    }

    /// Whether there is no rank.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ranks, ascending.
    pub fn ranks(&self, mesh: &Mesh) -> Vec<usize> {
        let mut ranks = Vec::new();
        for b in &self.boxes {
            let mut partial = vec![0];
            for (indices, &size) in b.iter().zip(&mesh.sizes) {
                partial = partial
                    .iter()
                    .flat_map(|&r| indices.iter().map(move |&i| r * size + i))
                    .collect();
            }
            ranks.extend(partial);
        }
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The coordinate of a rank in both sets, if there is one.
    pub fn overlap(&self, other: &Self) -> Option<Vec<usize>> {
        self.boxes
            .iter()
            .flat_map(|a| other.boxes.iter().map(move |b| (a, b)))
            .find_map(|(a, b)| common_point(a, b))
    }

    /// The coordinate of a rank in two boxes of this set, if there is one.
    pub fn self_overlap(&self) -> Option<Vec<usize>> {
        (0..self.boxes.len()).find_map(|i| {
            self.boxes[..i]
                .iter()
                .find_map(|b| common_point(&self.boxes[i], b))
        })
    }

    /// The ranks of this set whose index on `axis` is one of `indices`.
    pub fn restrict(&self, axis: usize, indices: &[usize]) -> Self {
        let boxes = self.boxes.iter().filter_map(|b| {
            let mut b = b.clone();
            b[axis].retain(|i| indices.contains(i));
            (!b[axis].is_empty()).then_some(b)
        });
        Self {
            boxes: boxes.collect(),
        }
    }
}

fn indices_on_axis(mesh: &Mesh, axis: usize, indices: &[i64]) -> Result<Vec<usize>, Error> {
    let mut list = Vec::with_capacity(indices.len());
    for &index in indices {
        let valid = usize::try_from(index)
            .ok()
            .filter(|&i| i < mesh.sizes[axis]);
        list.push(valid.ok_or_else(|| Error::IndexOutside {
            axis: mesh.axes[axis].clone(),
            index,
            size: mesh.sizes[axis],
        })?);
    }
    list.sort_unstable();
    list.dedup();
    Ok(list)
}

fn common_point(a: &[Vec<usize>], b: &[Vec<usize>]) -> Option<Vec<usize>> {
    a.iter()
        .zip(b)
        .map(|(a, b)| a.iter().find(|i| b.binary_search(i).is_ok()).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh() -> Mesh {
        Mesh::new(vec!["dp".into(), "pp".into(), "mp".into()], vec![2, 3, 4]).unwrap()
    }

    #[test]
    fn ranks_are_row_major() {
        let mesh = mesh();
        assert_eq!(mesh.ranks(), 24);
        assert_eq!(mesh.coordinate(17), [1, 1, 1]);
        for rank in 0..24 {
            assert_eq!(mesh.rank(&mesh.coordinate(rank)), rank);
        }
    }

    #[test]
    fn groups_are_row_major_in_mesh_order() {
        let mesh = mesh();
        let axes = mesh.axis_set(&["mp", "dp"]).unwrap();
        assert_eq!(axes, [0, 2]);
        assert_eq!(mesh.group(5, &axes), [4, 5, 6, 7, 16, 17, 18, 19]);
        assert_eq!(mesh.index_in_group(&mesh.coordinate(17), &axes), 5);
        let groups = mesh.groups(&axes);
        assert_eq!(groups.len(), 3);
        for group in &groups {
            for (index, &rank) in group.iter().enumerate() {
                assert_eq!(&mesh.group(rank, &axes), group);
                assert_eq!(mesh.index_in_group(&mesh.coordinate(rank), &axes), index);
            }
        }
    }

    #[test]
    fn rank_sets_are_small_unions_of_boxes() {
        let mesh = mesh();
        let first = RankSet::from_ranks(&mesh, &[0, 4, 8, 12, 16, 20]);
        assert_eq!(first.boxes(), [vec![vec![0, 1], vec![0, 1, 2], vec![0]]]);
        assert_eq!(first.ranks(&mesh), [0, 4, 8, 12, 16, 20]);
        let others = RankSet::all(&mesh).restrict(2, &[1, 2, 3]);
        assert_eq!(others.len() + first.len(), 24);
        assert_eq!(first.overlap(&others), None);
        assert_eq!(first.overlap(&RankSet::all(&mesh)), Some(vec![0, 0, 0]));
        let ragged = [1, 2, 7, 11, 19, 23];
        assert_eq!(RankSet::from_ranks(&mesh, &ragged).ranks(&mesh), ragged);
    }

    #[test]
    fn bad_meshes_are_refused() {
        let new = |axes: &[&str], sizes: &[usize]| {
            Mesh::new(axes.iter().map(|&a| a.into()).collect(), sizes.to_vec())
        };
        assert!(matches!(new(&["a"], &[]), Err(Error::MeshLengths { .. })));
        assert!(matches!(
            new(&["a", "a"], &[1, 1]),
            Err(Error::RepeatedAxis(_))
        ));
        assert!(matches!(new(&["a"], &[0]), Err(Error::EmptyAxis(_))));
        assert!(matches!(new(&[""], &[1]), Err(Error::UnnamedAxis)));
        let huge = new(&["a", "b"], &[usize::MAX, 2]);
        assert!(matches!(huge, Err(Error::MeshTooLarge)));
        assert!(matches!(
            mesh().axis_set(&["tp"]),
            Err(Error::UnknownAxis { .. })
        ));
    }
}
