//! Crews: sets of ranks that act alike, because they run the same program and the ranks that they meet do too.
//!
//! A mesh is first cut into cells: along each axis, indices that belong to the same boxes of all classes, and that no send or
//! receive names, cannot be told apart. Cells of one class are then one crew unless the crews that they meet differ.

use rustc_hash::FxHashMap;

use raddle_dialect::mesh::Mesh;

use super::Class;
use super::calls::{Tables, With};

/// A crew, from 0.
pub type Crew = usize;

/// Nobody: a cell that no class holds.
const NOBODY: usize = usize::MAX;

/// All crews and whom they meet.
pub struct Crews {
    /// Per crew, the position of its class.
    pub class: Vec<usize>,
    /// Per set of axes and crew, the group: an index into `members`.
    group: Vec<Vec<usize>>,
    /// Per group, its crews, ascending.
    members: Vec<Vec<Crew>>,
    /// Per peer and crew, the crew of that rank.
    peer: Vec<Vec<Option<Crew>>>,
}

impl Crews {
    pub fn new(mesh: &Mesh, classes: &[Class], tables: &Tables) -> Self {
        let cells = Cells::new(mesh, classes, tables);
        let mut crew = cells.first_guess(tables);
        loop {
            let finer = cells.refine(&crew, tables);
            let settled = count(&finer) == count(&crew);
            crew = finer;
            if settled {
                break;
            }
        }
        cells.meetings(&crew, tables)
    }

    /// Number of crews.
    pub fn len(&self) -> usize {
        self.class.len()
    }

    /// The group of a crew over a set of axes.
    pub fn group(&self, axes: usize, crew: Crew) -> usize {
        self.group[axes][crew]
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.members.len()
    }

    /// The crews of a group.
    pub fn members(&self, group: usize) -> &[Crew] {
        &self.members[group]
    }

    /// The crew that a crew's peer belongs to.
    pub fn peer(&self, peer: usize, crew: Crew) -> Option<Crew> {
        self.peer[peer][crew]
    }
}

/// Number of crews in a colouring of cells by numbers from 0.
fn count(crew: &[usize]) -> usize {
    let some = crew.iter().filter(|&&c| c != NOBODY);
    some.max().map_or(0, |&c| c + 1)
}

/// The cells of a mesh, numbered row-major like ranks.
struct Cells {
    /// Per axis, number of parts.
    sizes: Vec<usize>,
    /// Per axis and index, the part.
    part: Vec<Vec<usize>>,
    /// Per cell, the class.
    class: Vec<usize>,
    /// Per class, the peers that its functions name.
    peers: Vec<Vec<usize>>,
}

impl Cells {
    fn new(mesh: &Mesh, classes: &[Class], tables: &Tables) -> Self {
        let whole = |&n: &usize| Parts {
            of: vec![0; n],
            sizes: vec![n],
        };
        let mut axes: Vec<Parts> = mesh.sizes().iter().map(whole).collect();
        for (axis, parts) in axes.iter_mut().enumerate() {
            let boxes = classes.iter().flat_map(|c| c.ranks.boxes());
            for b in boxes.filter(|b| b[axis].len() < mesh.sizes()[axis]) {
                parts.split(&b[axis]);
            }
        }
        for &(axis, index) in tables.peers.iter().flatten() {
            axes[axis].split(&[index]);
        }
        let sizes: Vec<usize> = axes.iter().map(|p| p.sizes.len()).collect();
        let mut cells = Self {
            class: vec![NOBODY; sizes.iter().product()],
            sizes,
            part: axes.into_iter().map(Parts::in_order).collect(),
            peers: Vec::new(),
        };
        for (at, class) in classes.iter().enumerate() {
            for b in class.ranks.boxes() {
                for cell in cells.of_box(b) {
                    cells.class[cell] = at;
                }
            }
            let calls = class.jobs.values().flat_map(|c| &c.list);
            let mut peers: Vec<usize> = calls
                .filter_map(|call| match call.with {
                    With::Group(_) => None,
                    With::To(peer) | With::From(peer) => Some(peer),
                })
                .collect();
            peers.sort_unstable();
            peers.dedup();
            cells.peers.push(peers);
        }
        cells
    }

    fn of_box(&self, indices: &[Vec<usize>]) -> Vec<usize> {
        let mut cells = vec![0];
        for (axis, &size) in self.sizes.iter().enumerate() {
            let mut parts: Vec<_> = indices[axis].iter().map(|&i| self.part[axis][i]).collect();
            parts.sort_unstable();
            parts.dedup();
            cells = cells
                .iter()
                .flat_map(|&cell| parts.iter().map(move |&p| cell * size + p))
                .collect();
        }
        cells
    }

    /// Distance between cells that are neighbours along an axis.
    fn stride(&self, axis: usize) -> usize {
        self.sizes[axis + 1..].iter().product()
    }

    /// The cell with the part of another index on some axes.
    fn moved(&self, cell: usize, places: impl Iterator<Item = (usize, usize)>) -> usize {
        places.fold(cell, |cell, (axis, part)| {
            let stride = self.stride(axis);
            let own = cell / stride % self.sizes[axis];
            cell - own * stride + part * stride
        })
    }

    /// The cell of a peer.
    fn peer(&self, cell: usize, peer: &[(usize, usize)]) -> usize {
        let places = peer.iter().map(|&(axis, i)| (axis, self.part[axis][i]));
        self.moved(cell, places)
    }

    /// The cell that stands for a cell's group.
    fn root(&self, cell: usize, axes: &[usize]) -> usize {
        self.moved(cell, axes.iter().map(|&axis| (axis, 0)))
    }

    /// Cells of one class, and at one place on the axes along which any rank sends: on these, ranks name each other.
    fn first_guess(&self, tables: &Tables) -> Vec<usize> {
        let named: Vec<usize> = {
            let axes = tables.peers.iter().flatten().map(|p| p.0);
            let mut axes: Vec<_> = axes.collect();
            axes.sort_unstable();
            axes.dedup();
            axes
        };
        let mut numbers = Numbers::default();
        let key = |cell: usize| {
            let place = named
                .iter()
                .map(|&a| cell / self.stride(a) % self.sizes[a])
                .collect::<Vec<_>>();
            (self.class[cell], place)
        };
        let number = |cell: usize| match self.class[cell] {
            NOBODY => NOBODY,
            _ => numbers.of(key(cell)),
        };
        (0..self.class.len()).map(number).collect()
    }

    /// Takes apart cells of a crew that meet different crews.
    fn refine(&self, crew: &[usize], tables: &Tables) -> Vec<usize> {
        let groups: Vec<_> = tables.axes.iter().map(|a| self.groups(crew, a)).collect();
        let mut numbers = Numbers::default();
        let key = |cell: usize| {
            let mut key = vec![crew[cell]];
            for (axes, of_root) in tables.axes.iter().zip(&groups) {
                key.push(of_root[&self.root(cell, axes)].0);
            }
            let peers = self.peers[self.class[cell]].iter();
            key.extend(peers.map(|&p| crew[self.peer(cell, &tables.peers[p])]));
            key
        };
        let number = |cell: usize| match crew[cell] {
            NOBODY => NOBODY,
            _ => numbers.of(key(cell)),
        };
        (0..crew.len()).map(number).collect()
    }

    /// By root of a group over axes: a number for its set of crews, and the set.
    fn groups(&self, crew: &[usize], axes: &[usize]) -> FxHashMap<usize, (usize, Vec<Crew>)> {
        let mut sets: FxHashMap<usize, (usize, Vec<Crew>)> = FxHashMap::default();
        for (cell, &crew) in crew.iter().enumerate().filter(|c| *c.1 != NOBODY) {
            let root = self.root(cell, axes);
            sets.entry(root).or_default().1.push(crew);
        }
        let mut numbers = Numbers::default();
        for (number, set) in sets.values_mut() {
            set.sort_unstable();
            set.dedup();
            *number = numbers.of(set.clone());
        }
        sets
    }

    fn meetings(&self, crew: &[usize], tables: &Tables) -> Crews {
        let crews = count(crew);
        let mut first = vec![NOBODY; crews];
        for (cell, &crew) in crew.iter().enumerate().rev() {
            if crew != NOBODY {
                first[crew] = cell;
            }
        }
        let mut members = Vec::new();
        let mut group = Vec::new();
        for axes in &tables.axes {
            let of_root = self.groups(crew, axes);
            let mut known: FxHashMap<usize, usize> = FxHashMap::default();
            let of_crew = first.iter().map(|&cell| {
                let (number, set) = &of_root[&self.root(cell, axes)];
                *known.entry(*number).or_insert_with(|| {
                    members.push(set.clone());
                    members.len() - 1
                })
            });
            group.push(of_crew.collect());
        }
        let peer = |places: &Vec<(usize, usize)>| {
            let of_crew = first.iter().map(|&cell| crew[self.peer(cell, places)]);
            of_crew.map(|c| (c != NOBODY).then_some(c)).collect()
        };
        Crews {
            class: first.iter().map(|&cell| self.class[cell]).collect(),
            group,
            members,
            peer: tables.peers.iter().map(peer).collect(),
        }
    }
}

/// An axis cut into parts whose indices cannot be told apart.
struct Parts {
    /// Per index, the part.
    of: Vec<usize>,
    /// Per part, number of indices.
    sizes: Vec<usize>,
}

impl Parts {
    /// Cuts so that these indices, each given once, are told from the others.
    fn split(&mut self, indices: &[usize]) {
        let mut taken: FxHashMap<usize, usize> = FxHashMap::default();
        for &i in indices {
            *taken.entry(self.of[i]).or_default() += 1;
        }
        taken.retain(|&part, count| *count < self.sizes[part]);
        let mut fresh: FxHashMap<usize, usize> = FxHashMap::default();
        for &i in indices {
            let old = self.of[i];
            let Some(&count) = taken.get(&old) else {
                continue;
            };
            let sizes = &mut self.sizes;
            self.of[i] = *fresh.entry(old).or_insert_with(|| {
                sizes[old] -= count;
                sizes.push(count);
                sizes.len() - 1
            });
        }
    }
}

impl Parts {
    /// Per index its part, parts numbered in the order in which they come.
    fn in_order(self) -> Vec<usize> {
        let mut numbers = Numbers::default();
        self.of.into_iter().map(|part| numbers.of(part)).collect()
    }
}

/// Numbers things from 0 in the order in which they come.
struct Numbers<K>(FxHashMap<K, usize>);

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: std::hash::Hash + Eq> Numbers<K> {
    fn of(&mut self, key: K) -> usize {
        let next = self.0.len();
        *self.0.entry(key).or_insert(next)
    }
}
