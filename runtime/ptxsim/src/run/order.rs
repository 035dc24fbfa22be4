//! Seeded orders.

/// Numbers that decide the order in which warps and blocks take turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order(u64);

impl Order {
    /// The orders of a seed; 0 leaves everything in order.
    pub(super) const fn of(seed: u64) -> Order {
        Order(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Puts a list into another order (Fisher and Yates), if that is wanted.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        if self.0 == 0 {
            return;
        }
        for last in (1..list.len()).rev() {
            // Marsaglia's xorshift, 2003.
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            list.swap(last, (self.0 % (last as u64 + 1)) as usize);
        }
    }
}
