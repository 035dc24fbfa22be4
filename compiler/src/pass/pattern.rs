//! Patterns, and the greedy driver that applies them until none fits.
//!
//! The driver keeps a list of ops to look at. An edit puts just the ops it created or changed back on the list, so the work
//! is linear in the size of the program plus the number of edits.

use std::collections::HashMap;

use raddle_dialect::ir::{Change, Context, Ident, OpId, Rewriter};

/// A local rewrite, found along definitions and uses from its root op.
pub trait Pattern {
    /// Names of the ops it may start from; none means any op.
    fn roots(&self) -> &'static [&'static str];

    /// Rewrites around `op` if the pattern fits there, and says whether it did. If it did not, nothing has changed.
    fn rewrite(&self, op: OpId, rewriter: &mut Rewriter) -> bool;
}

/// Patterns by the name of their root.
pub struct PatternSet<'p> {
    patterns: Vec<Box<dyn Pattern + 'p>>,
    by_root: HashMap<Ident, Vec<usize>>,
    any: Vec<usize>,
}

impl<'p> PatternSet<'p> {
    /// A set; of several patterns that fit an op, the first counts.
    pub fn new(cx: &Context, patterns: Vec<Box<dyn Pattern + 'p>>) -> Self {
        let mut by_root: HashMap<Ident, Vec<usize>> = HashMap::new();
        let mut any = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            for root in pattern.roots() {
                by_root.entry(cx.ident(root)).or_default().push(index);
            }
            if pattern.roots().is_empty() {
                any.push(index);
            }
        }
        Self {
            patterns,
            by_root,
            any,
        }
    }

    fn apply(&self, op: OpId, rewriter: &mut Rewriter) -> bool {
        let rooted = self.by_root.get(&rewriter.name(op)).map_or(&[][..], |v| v);
        let fits = |&index: &usize| self.patterns[index].rewrite(op, rewriter);
        rooted.iter().chain(&self.any).any(fits)
    }
}

/// What the driver did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Number of rewrites.
    pub rewrites: usize,
    /// Whether rewriting was cut off because patterns kept undoing each other.
    pub cut_off: bool,
}

/// Applies patterns to everything inside `target` until none fits.
pub fn rewrite_greedily(rewriter: &mut Rewriter, target: OpId, patterns: &PatternSet) -> Outcome {
    let mut list = Worklist::default();
    let inside: Vec<_> = rewriter.walk(target).skip(1).collect();
    // Taken from the back, so that the first op comes first.
    inside.iter().rev().for_each(|&op| list.push(op));
    let limit = 1000 + 32 * inside.len();
    let mut outcome = Outcome::default();
    rewriter.take_changes();
    while let Some(op) = list.pop() {
        if rewriter.is_erased(op) || !patterns.apply(op, rewriter) {
            continue;
        }
        outcome.rewrites += 1;
        for change in rewriter.take_changes() {
            match change {
                Change::Created(op) | Change::Modified(op) if op != target => list.push(op),
                _ => {}
            }
        }
        if outcome.rewrites >= limit {
            outcome.cut_off = true;
            break;
        }
    }
    outcome
}

/// A stack without duplicates.
#[derive(Default)]
struct Worklist {
    ops: Vec<OpId>,
    waiting: Vec<bool>,
}

impl Worklist {
    fn push(&mut self, op: OpId) {
        if self.waiting.len() <= op.index() {
            self.waiting.resize(op.index() + 1, false);
        }
        if !std::mem::replace(&mut self.waiting[op.index()], true) {
            self.ops.push(op);
        }
    }

    fn pop(&mut self) -> Option<OpId> {
        let op = self.ops.pop()?;
        self.waiting[op.index()] = false;
        Some(op)
    }
}
