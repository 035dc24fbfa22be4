//! The gradient of one operand of a matrix product, as one product.
//!
//! For `c = op(a) · op(b)` with the batch dimensions of a and b broadcast to those of c: `d op(a) = dout · op(b)ᵀ` and
//! `d op(b) = op(a)ᵀ · dout`, summed over the batch dimensions along which the operand was broadcast. Those are not summed
//! after a batched product; they are flattened together with the contracted dimension, so that
//! `[batch, seq, k]ᵀ · [batch, seq, n]` is one `[k, batch·seq] · [batch·seq, n]`.

use raddle_dialect::ir::DYNAMIC;

/// Which operand's gradient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    A,
    B,
}

/// A product of two matrices with batch dimensions, and its gradient's way.
#[derive(Clone, Debug)]
pub(super) struct Product<'a> {
    pub a: &'a [i64],
    pub b: &'a [i64],
    pub dout: &'a [i64],
    pub transpose_a: bool,
    pub transpose_b: bool,
}

/// One operand of the product that gives a gradient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Factor {
    pub source: Source,
    /// Dimensions reordered, if they have to be.
    pub perm: Option<Vec<i64>>,
    /// The shape after that, if it changes.
    pub shape: Option<Vec<i64>>,
    /// How the product takes it.
    pub transpose: bool,
}

/// What a factor is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    A,
    B,
    Dout,
}

/// How to compute a gradient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Recipe {
    pub left: Factor,
    pub right: Factor,
    /// The product's shape.
    pub product: Vec<i64>,
    /// The gradient's shape, if it is another.
    pub shape: Option<Vec<i64>>,
}

/// Why a gradient cannot be one product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The dimensions to be flattened have no fixed extent.
    Dynamic,
    /// Several of the dimensions to be flattened are cut over mesh axes, and only the outermost may be.
    Cut,
    /// The number of elements overflows.
    Overflow,
}

impl Product<'_> {
    /// The recipe for a gradient. `cut` says which dimensions of dout are cut over a mesh axis.
    pub(super) fn gradient(&self, which: Which, cut: &[bool]) -> Result<Recipe, Refusal> {
        let rank = self.dout.len() - 2;
        let (operand, other, source) = match which {
            Which::A => (self.a, self.b, Source::B),
            Which::B => (self.b, self.a, Source::A),
        };
        let extent = |shape: &[i64], dim: usize| {
            let missing = rank - (shape.len() - 2);
            dim.checked_sub(missing).map_or(1, |at| shape[at])
        };
        let summed: Vec<usize> = (0..rank)
            .filter(|&dim| extent(operand, dim) == 1 && self.dout[dim] != 1)
            .collect();
        if summed.is_empty() {
            return Ok(self.batched(which, operand));
        }
        let contracted = match which {
            Which::A => rank + 1,
            Which::B => rank,
        };
        let flat = self.flattening(&summed, contracted, cut)?;
        let swaps_other = match which {
            // op(a) is wanted as [.., m, k], op(b) as [.., n, k].
            Which::B => self.transpose_a,
            Which::A => !self.transpose_b,
        };
        let other = Arranged::new(other, rank, &flat, contracted, swaps_other)?;
        let dout = Arranged::new(self.dout, rank, &flat, contracted, which == Which::A)?;
        let stored_transposed = match which {
            Which::A => self.transpose_a,
            Which::B => self.transpose_b,
        };
        // B: k × n from op(a) and dout; A: m × k from dout and op(b); the other way round if the operand is stored transposed.
        let other_first = (which == Which::B) != stored_transposed;
        let mut batch: Vec<i64> = Vec::new();
        for (&x, &y) in other.batch.iter().zip(&dout.batch) {
            batch.push(x.max(y));
        }
        let (left, right) = match other_first {
            true => ((source, other), (Source::Dout, dout)),
            false => ((Source::Dout, dout), (source, other)),
        };
        let mut product = batch;
        product.extend([left.1.free, right.1.free]);
        Ok(Recipe {
            left: left.1.factor(left.0, true),
            right: right.1.factor(right.0, false),
            shape: (product != operand).then(|| operand.to_vec()),
            product,
        })
    }

    /// Nothing is summed but the contracted dimension.
    fn batched(&self, which: Which, operand: &[i64]) -> Recipe {
        let (ta, tb) = (self.transpose_a, self.transpose_b);
        let plain = |source, transpose| Factor {
            source,
            perm: None,
            shape: None,
            transpose,
        };
        let (a, b, dout) = (
            |t| plain(Source::A, t),
            |t| plain(Source::B, t),
            |t| plain(Source::Dout, t),
        );
        let (left, right) = match (which, ta, tb) {
            (Which::A, false, _) => (dout(false), b(!tb)),
            (Which::A, true, _) => (b(tb), dout(true)),
            (Which::B, _, false) => (a(!ta), dout(false)),
            (Which::B, _, true) => (dout(true), a(ta)),
        };
        let rank = self.dout.len() - 2;
        let mut product = self.dout[..rank].to_vec();
        product.extend(&operand[operand.len() - 2..]);
        Recipe {
            left,
            right,
            shape: (product != operand).then(|| operand.to_vec()),
            product,
        }
    }

    /// The dimensions of dout that become one, the cut one first.
    fn flattening(
        &self,
        summed: &[usize],
        contracted: usize,
        cut: &[bool],
    ) -> Result<Vec<usize>, Refusal> {
        let mut flat = summed.to_vec();
        flat.push(contracted);
        if flat.iter().any(|&dim| self.dout[dim] == DYNAMIC) {
            return Err(Refusal::Dynamic);
        }
        let is_cut = |dim: usize| cut.get(dim).copied().unwrap_or(false);
        let mut cuts = flat.iter().copied().filter(|&dim| is_cut(dim));
        match (cuts.next(), cuts.next()) {
            (_, Some(_)) => return Err(Refusal::Cut),
            (Some(first), None) => {
                flat.retain(|&dim| dim != first);
                flat.insert(0, first);
            }
            (None, None) => {}
        }
        Ok(flat)
    }
}

/// A tensor brought into the form `[kept batch…, flattened, free]`.
struct Arranged {
    perm: Option<Vec<i64>>,
    shape: Option<Vec<i64>>,
    batch: Vec<i64>,
    free: i64,
}

impl Arranged {
    /// `flat` and `contracted` are dimensions of dout; `swap`: the tensor holds the free dimension before the contracted one.
    fn new(
        tensor: &[i64],
        rank: usize,
        flat: &[usize],
        contracted: usize,
        swap: bool,
    ) -> Result<Self, Refusal> {
        let missing = rank - (tensor.len() - 2);
        let last = tensor.len() - 1;
        let (inner, free) = match swap {
            true => (last, last - 1),
            false => (last - 1, last),
        };
        // Where a dimension of dout lies in the tensor; broadcast ones have extent 1 or are missing.
        let place = |dim: usize| match dim == contracted {
            true => Some(inner),
            false => dim.checked_sub(missing),
        };
        let mut perm = Vec::with_capacity(tensor.len());
        let mut shape = Vec::with_capacity(rank + 2);
        for dim in (0..rank).filter(|dim| !flat.contains(dim)) {
            perm.extend(place(dim));
            shape.push(place(dim).map_or(1, |at| tensor[at]));
        }
        let batch = shape.clone();
        let mut count = 1i64;
        for &dim in flat {
            perm.extend(place(dim));
            let extent = place(dim).map_or(1, |at| tensor[at]);
            count = count.checked_mul(extent).ok_or(Refusal::Overflow)?;
        }
        perm.push(free);
        shape.extend([count, tensor[free]]);
        if shape.contains(&DYNAMIC) {
            return Err(Refusal::Dynamic);
        }
        let ordered = perm.iter().enumerate().all(|(at, &dim)| at == dim);
        let unchanged = ordered && shape == tensor;
        Ok(Self {
            perm: (!ordered).then(|| perm.iter().map(|&dim| dim as i64).collect()),
            free: tensor[free],
            shape: (!unchanged).then_some(shape),
            batch,
        })
    }

    fn factor(self, source: Source, transpose: bool) -> Factor {
        Factor {
            source,
            perm: self.perm,
            shape: self.shape,
            transpose,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_of_a_matrix_is_one_product_over_all_tokens() {
        let product = Product {
            a: &[4, 8, 16],
            b: &[16, 32],
            dout: &[4, 8, 32],
            transpose_a: false,
            transpose_b: false,
        };
        let recipe = product.gradient(Which::B, &[]).unwrap();
        assert_eq!(recipe.left.shape, Some(vec![32, 16]));
        assert!(recipe.left.transpose && !recipe.right.transpose);
        assert_eq!(recipe.right.shape, Some(vec![32, 32]));
        assert_eq!((recipe.product, recipe.shape), (vec![16, 32], None));
        let recipe = product.gradient(Which::A, &[]).unwrap();
        assert_eq!(recipe.right.source, Source::B);
        assert!(recipe.right.transpose && recipe.left.shape.is_none());
    }

    #[test]
    fn a_cut_dimension_is_flattened_outermost() {
        let product = Product {
            a: &[4, 8, 16],
            b: &[16, 32],
            dout: &[4, 8, 32],
            transpose_a: false,
            transpose_b: false,
        };
        let recipe = product.gradient(Which::B, &[false, true, false]).unwrap();
        assert_eq!(recipe.left.perm, Some(vec![1, 0, 2]));
        let both = product.gradient(Which::B, &[true, true, false]);
        assert_eq!(both, Err(Refusal::Cut));
    }

    #[test]
    fn an_unknown_number_of_tokens_is_refused() {
        let product = Product {
            a: &[DYNAMIC, 8, 16],
            b: &[16, 32],
            dout: &[DYNAMIC, 8, 32],
            transpose_a: false,
            transpose_b: false,
        };
        assert_eq!(product.gradient(Which::B, &[]), Err(Refusal::Dynamic));
        assert!(product.gradient(Which::A, &[]).is_ok());
    }
}
