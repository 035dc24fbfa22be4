//! Ranks of one mesh held against those of another.
//!
//! ```text
//! before: ["mp" = 2]     rank 1 = {mp = 1}     after: ["pp" = 2, "mp" = 2]     ranks 1 and 3 = {mp = 1}
//! ```

use std::collections::HashMap;

use raddle_dialect::mesh::Mesh;
use raddle_dialect::reference::Tensor;

/// Which ranks of the second mesh stand where a rank of the first stands.
pub(crate) struct Places {
    /// By rank of the first mesh: its coordinates on the common axes.
    first: Vec<Vec<usize>>,
    /// By rank of the second mesh, likewise.
    second: Vec<Vec<usize>>,
    at: HashMap<Vec<usize>, Vec<usize>>,
}

impl Places {
    pub fn new(first: &Mesh, second: &Mesh) -> Self {
        let common: Vec<_> = first
            .axes()
            .iter()
            .enumerate()
            .filter_map(|(a, name)| Some((a, second.axis(name)?)))
            .collect();
        let of = |mesh: &Mesh, axes: Vec<usize>| -> Vec<Vec<usize>> {
            (0..mesh.ranks())
                .map(|rank| {
                    let coordinate = mesh.coordinate(rank);
                    axes.iter().map(|&a| coordinate[a]).collect()
                })
                .collect()
        };
        let second_places = of(second, common.iter().map(|c| c.1).collect());
        let mut at: HashMap<_, Vec<_>> = HashMap::new();
        for (rank, place) in second_places.iter().enumerate() {
            at.entry(place.clone()).or_default().push(rank);
        }
        Self {
            first: of(first, common.iter().map(|c| c.0).collect()),
            second: second_places,
            at,
        }
    }

    /// A rank of the second mesh at the place of a rank of the first, or, on a smaller mesh, near it.
    pub fn nearest(&self, rank: usize) -> usize {
        let place = &self.first[rank];
        match self.at.get(place).and_then(|ranks| ranks.first()) {
            Some(&there) => there,
            None => (0..self.second.len())
                .min_by_key(|&other| (apart(place, &self.second[other]), other))
                .unwrap_or(0),
        }
    }

    /// The values of all ranks at the place of a rank; where none of them has one any more, that of its owner: the rank nearest on the
    /// mesh, counted in axes on which the two differ.
    pub fn counterparts<'t>(
        &self,
        rank: usize,
        values: &'t HashMap<usize, Tensor>,
    ) -> Vec<&'t Tensor> {
        let place = &self.first[rank];
        let there = self.at.get(place).into_iter().flatten();
        let there: Vec<_> = there.filter_map(|r| values.get(r)).collect();
        if !there.is_empty() {
            return there;
        }
        let distance = |&other: &usize| (apart(place, &self.second[other]), other);
        let owner = values.keys().copied().min_by_key(distance);
        owner.map(|owner| &values[&owner]).into_iter().collect()
    }
}

fn apart(a: &[usize], b: &[usize]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a != b).count()
}
