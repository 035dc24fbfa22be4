//! Small sets of pipeline ranks.

/// Ranks along the pipeline axis, ascending, without repetition. Most sets hold one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ranks(Vec<u32>);

impl Ranks {
    pub fn one(rank: u32) -> Self {
        Self(vec![rank])
    }

    pub fn all(count: u32) -> Self {
        Self((0..count).collect())
    }

    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    pub fn contains(&self, rank: u32) -> bool {
        self.0.binary_search(&rank).is_ok()
    }

    pub fn insert(&mut self, rank: u32) {
        if let Err(at) = self.0.binary_search(&rank) {
            self.0.insert(at, rank);
        }
    }

    pub fn extend(&mut self, other: &Self) {
        other.iter().for_each(|r| self.insert(r));
    }

    pub fn common(&self, other: &Self) -> Self {
        Self(self.iter().filter(|&r| other.contains(r)).collect())
    }

    pub fn without(&self, other: &Self) -> Self {
        Self(self.iter().filter(|&r| !other.contains(r)).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
