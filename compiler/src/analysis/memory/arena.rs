//! Lays storage out in one piece of memory, so that what is no longer needed makes room for what comes.

use std::collections::{BTreeMap, BTreeSet};

use super::lifetimes::Lifetime;

/// Offsets are multiples of this, as `cudaMalloc`'s are.
pub const ALIGNMENT_BYTES: u64 = 256;

/// Where storage lies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Per lifetime, in bytes from the start; none for what does not lie here.
    pub offsets: Vec<Option<u64>>,
    /// How much memory that takes.
    pub size_bytes: u64,
}

/// Places lifetimes, which come by where they begin. Storage that others get, or that is on its way between ranks, lies elsewhere. Takes the smallest gap that fits; in time n log n.
pub fn place(lifetimes: &[Lifetime]) -> Layout {
    let mut ends: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    let mut memory = Memory::default();
    let mut offsets = Vec::with_capacity(lifetimes.len());
    for lifetime in lifetimes {
        // What the ops before have read for the last time.
        while let Some(entry) = ends.first_entry() {
            if *entry.key() >= lifetime.from {
                break;
            }
            for (offset, size) in entry.remove() {
                memory.give_back(offset, size);
            }
        }
        if lifetime.returned || lifetime.in_transit || lifetime.bytes == 0 {
            offsets.push(None);
            continue;
        }
        let size = lifetime.bytes.next_multiple_of(ALIGNMENT_BYTES);
        let offset = memory.take(size);
        ends.entry(lifetime.to).or_default().push((offset, size));
        offsets.push(Some(offset));
    }
    Layout {
        offsets,
        size_bytes: memory.end,
    }
}

/// The gaps, by offset and by size.
#[derive(Default)]
struct Memory {
    gaps: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    end: u64,
}

impl Memory {
    fn take(&mut self, size: u64) -> u64 {
        let fits = self.by_size.range((size, 0)..).next().copied();
        if let Some((gap, offset)) = fits {
            self.remove(offset, gap);
            if gap > size {
                self.insert(offset + size, gap - size);
            }
            return offset;
        }
        // A gap at the end grows.
        let last = self.gaps.last_key_value().map(|(&o, &s)| (o, s));
        let offset = match last.filter(|&(offset, gap)| offset + gap == self.end) {
            Some((offset, gap)) => {
                self.remove(offset, gap);
                offset
            }
            None => self.end,
        };
        self.end = offset + size;
        offset
    }

    fn give_back(&mut self, mut offset: u64, mut size: u64) {
        let before = self.gaps.range(..offset).next_back();
        if let Some((&at, &gap)) = before.filter(|&(&at, &gap)| at + gap == offset) {
            self.remove(at, gap);
            offset = at;
            size += gap;
        }
        if let Some(&gap) = self.gaps.get(&(offset + size)) {
            self.remove(offset + size, gap);
            size += gap;
        }
        self.insert(offset, size);
    }

    fn insert(&mut self, offset: u64, size: u64) {
        self.gaps.insert(offset, size);
        self.by_size.insert((size, offset));
    }

    fn remove(&mut self, offset: u64, size: u64) {
        self.gaps.remove(&offset);
        self.by_size.remove(&(size, offset));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use raddle_dialect::ir::{Context, Module};

    use super::*;

    /// Lifetimes by where they begin; their values do not matter.
    fn lifetimes(spans: &[(usize, usize, u64)]) -> Vec<Lifetime> {
        let cx = Context::new();
        let mut module = Module::new(&cx, cx.unknown_loc());
        let ty = [cx.f32()];
        let op = raddle_dialect::ir::Rewriter::new(&mut module).build(
            "dist.fill",
            cx.unknown_loc(),
            &[],
            &ty,
            &[],
        );
        let value = module.result(op, 0);
        let mut all: Vec<_> = spans
            .iter()
            .map(|&(from, length, bytes)| Lifetime {
                value,
                bytes,
                from,
                to: from + length,
                returned: false,
                in_transit: false,
            })
            .collect();
        all.sort_by_key(|l| l.from);
        all
    }

    proptest! {
        #[test]
        fn what_lives_at_once_lies_apart(
            spans in prop::collection::vec((0..40usize, 0..20usize, 1..5000u64), 0..60)
        ) {
            let all = lifetimes(&spans);
            let layout = place(&all);
            for (i, a) in all.iter().enumerate() {
                let at = layout.offsets[i].unwrap();
                prop_assert!(at.is_multiple_of(ALIGNMENT_BYTES) && at + a.bytes <= layout.size_bytes);
                for (j, b) in all.iter().enumerate().skip(i + 1) {
                    let other = layout.offsets[j].unwrap();
                    let together = a.from <= b.to && b.from <= a.to;
                    let overlap = at < other + b.bytes && other < at + a.bytes;
                    prop_assert!(!(together && overlap), "{a:?} and {b:?}");
                }
            }
            let total: u64 = all.iter().map(|l| l.bytes.next_multiple_of(ALIGNMENT_BYTES)).sum();
            prop_assert!(layout.size_bytes <= total);
        }
    }

    #[test]
    fn a_chain_takes_the_room_of_two() {
        let spans: Vec<_> = (0..100).map(|at| (at, 1, 1000)).collect();
        assert_eq!(place(&lifetimes(&spans)).size_bytes, 2048);
    }

    #[test]
    fn gaps_join() {
        let spans = [(0, 0, 256), (0, 0, 256), (0, 5, 256), (1, 0, 512)];
        assert_eq!(place(&lifetimes(&spans)).size_bytes, 768);
    }
}
