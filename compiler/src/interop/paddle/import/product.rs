//! Which dimension of a product comes from which of its operands.

use raddle_dialect::ir::{OpId, ValueId};

use super::rules::{Facts, Node, State};

/// The dimensions of `c = a·b`.
pub(super) struct Product {
    pub(super) a: ValueId,
    pub(super) b: ValueId,
    pub(super) c: ValueId,
    pub(super) a_k: usize,
    a_m: usize,
    pub(super) b_k: usize,
    pub(super) b_n: usize,
    pub(super) c_n: usize,
    /// How many dimensions c has more than a.
    lead: usize,
}

impl Product {
    pub(super) fn new(facts: &Facts, op: OpId, a: ValueId, b: ValueId, c: ValueId) -> Self {
        let rank = |v| facts.shape(v).len().max(2);
        let flag = |name| facts.module().bool_attr(op, name) == Some(true);
        let (a_last, b_last, c_last) = (rank(a) - 1, rank(b) - 1, rank(c) - 1);
        let (a_m, a_k) = match flag("transpose_a") {
            true => (a_last, a_last - 1),
            false => (a_last - 1, a_last),
        };
        let (b_k, b_n) = match flag("transpose_b") {
            true => (b_last, b_last - 1),
            false => (b_last - 1, b_last),
        };
        Self {
            a,
            b,
            c,
            a_k,
            a_m,
            b_k,
            b_n,
            c_n: c_last,
            lead: rank(c) - rank(a).min(rank(c)),
        }
    }

    /// The dimension of a that a dimension of c (not its last) comes from.
    pub(super) fn row_of_c(&self, dim: usize) -> Option<usize> {
        match dim == self.c_n - 1 {
            true => Some(self.a_m),
            false => dim.checked_sub(self.lead),
        }
    }

    /// The dimension of c that a dimension of a (not k) becomes.
    pub(super) fn c_of_row(&self, dim: usize) -> usize {
        match dim == self.a_m {
            true => self.c_n - 1,
            false => dim + self.lead,
        }
    }
}

/// The second operands of products, with the dimension of their columns, where the first operand is not cut along the
/// summed dimension.
pub(super) fn product_columns(facts: &Facts) -> Vec<(Node, usize)> {
    facts
        .ops()
        .filter(|&op| facts.module().is(op, "dist.matmul"))
        .filter_map(|op| {
            let (a, b) = (facts.module().operand(op, 0), facts.module().operand(op, 1));
            let product = Product::new(facts, op, a, b, facts.module().result(op, 0));
            (facts.of(a) != State::Cut(product.a_k)).then_some((Node::Value(b), product.b_n))
        })
        .collect()
}
