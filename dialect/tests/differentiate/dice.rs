//! Random shapes from a number.

/// A stream of small decisions (xorshift64*).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Extents from 1 to 3.
    pub fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| self.between(1, 3)).collect()
    }

    /// A shape that broadcasts to another: leading dimensions are left out and some extents are 1.
    pub fn broadcasting(&mut self, to: &[usize]) -> Vec<usize> {
        let missing = self.below(to.len() + 1);
        to[missing..]
            .iter()
            .map(|&extent| if self.below(3) == 0 { 1 } else { extent })
            .collect()
    }

    /// An order of 0, 1, …, n − 1.
    pub fn permutation(&mut self, n: usize) -> Vec<i64> {
        let mut perm: Vec<i64> = (0..n as i64).collect();
        for i in (1..n).rev() {
            perm.swap(i, self.below(i + 1));
        }
        perm
    }

    /// Some of 0, 1, …, n − 1, in any order.
    pub fn some_of(&mut self, n: usize) -> Vec<i64> {
        let mut all = self.permutation(n);
        all.truncate(self.below(n + 1));
        all
    }
}
