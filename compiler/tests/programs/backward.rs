//! Backward, in Paddle's order: the bias gradient is reduced before the product's gradient is used.

use raddle_dialect::ir::ValueId;

use super::forward::{Linear, Pair};
use super::{BiasReduction, Builder};

impl Builder<'_> {
    /// The gradient of what the last layer gives.
    pub fn seed(&mut self, pairs: &[Pair]) -> ValueId {
        let last = pairs.last().expect("there are layers").out;
        let seed = self.fill(&[], 1.0);
        let dims: Vec<_> = (0..self.shape(last).len() as i64).collect();
        let attrs = [
            ("dims", self.cx.i64_array(&dims)),
            ("keep_dims", self.cx.bool_attr(false)),
        ];
        let ty = self.rewriter.ty(last);
        self.value("dist.reduce_mean_grad", &[last, seed], ty, &attrs)
    }

    /// The gradient of a chunk's input.
    pub fn backward(&mut self, pairs: &[Pair], mut dout: ValueId) -> ValueId {
        for pair in pairs.iter().rev() {
            dout = self.pair_backward(pair, dout);
        }
        dout
    }

    fn pair_backward(&mut self, pair: &Pair, dout: ValueId) -> ValueId {
        let element = self.element();
        let exact = self.cx.bool_attr(false);
        let mut row = pair.row;
        if self.spec.recompute {
            row = self.linear(pair.activated, row.weight, row.bias, true);
        }
        let mut around = None;
        let mut dsum = dout;
        if self.spec.residual {
            around = Some(dout);
        } else {
            let sum = self.cast(row.sum, self.cx.f32());
            let ty = self.rewriter.ty(sum);
            dsum = self.value(
                "dist.gelu_grad",
                &[sum, dout],
                ty,
                &[("approximate", exact)],
            );
        }
        let dsum = self.cast(dsum, element);
        let dactivated = self.linear_backward(pair.activated, &row, dsum, true);
        let ty = self.rewriter.ty(pair.column.sum);
        let attrs = [("approximate", exact)];
        let dcolumn = self.value("dist.gelu_grad", &[pair.column.sum, dactivated], ty, &attrs);
        let dx = self.linear_backward(pair.x, &pair.column, dcolumn, false);
        let dx = self.reduce(dx);
        let dx = self.cast(dx, self.cx.f32());
        match around {
            Some(around) => {
                let ty = self.rewriter.ty(dx);
                self.value("dist.sum", &[dx, around], ty, &[])
            }
            None => dx,
        }
    }

    /// The gradient of a layer's input; those of its parameters are noted.
    fn linear_backward(
        &mut self,
        x: ValueId,
        linear: &Linear,
        dout: ValueId,
        row_parallel: bool,
    ) -> ValueId {
        let mut dproduct = dout;
        if let (Some(b), Some(bias)) = (linear.b, linear.bias) {
            let db;
            (dproduct, db) = self.add_backward(linear.product, b, dout, row_parallel);
            let db = if row_parallel && self.spec.sequence_parallel {
                self.reduce_bias(db)
            } else {
                self.data_parallel(db)
            };
            let db = self.cast(db, self.gradient_element());
            self.parameters[bias].gradients.push(db);
        }
        if row_parallel && self.spec.sequence_parallel {
            dproduct = self.gather(dproduct);
        }
        let (dx, dw) = match self.spec.plain_products {
            true => self.two_products(x, linear.w, dproduct),
            false => self.matmul_grad(x, linear.w, dproduct),
        };
        let dw = self.data_parallel(dw);
        let dw = self.cast(dw, self.gradient_element());
        self.parameters[linear.weight].gradients.push(dw);
        dx
    }

    fn matmul_grad(&mut self, x: ValueId, w: ValueId, dout: ValueId) -> (ValueId, ValueId) {
        let plain = self.cx.bool_attr(false);
        let attrs = [
            ("transpose_a", plain),
            ("transpose_b", plain),
            ("resultSegmentSizes", self.cx.i32_array(&[1, 1])),
        ];
        let results = [x, w].map(|v| self.rewriter.ty(v));
        let op = self.op("dist.matmul_grad", &[x, w, dout], &results, &attrs);
        (self.rewriter.result(op, 0), self.rewriter.result(op, 1))
    }

    /// dout·wᵀ, and xᵀ·dout over all tokens at once.
    fn two_products(&mut self, x: ValueId, w: ValueId, dout: ValueId) -> (ValueId, ValueId) {
        let flag = |b: &Self, set| b.cx.bool_attr(set);
        let transposed = [
            ("transpose_a", flag(self, false)),
            ("transpose_b", flag(self, true)),
        ];
        let ty = self.rewriter.ty(x);
        let dx = self.value("dist.matmul", &[dout, w], ty, &transposed);
        let [x, dout] = [x, dout].map(|v| {
            let shape = self.shape(v);
            let ty = self
                .cx
                .tensor(&[shape[0] * shape[1], shape[2]], self.element());
            self.value("dist.reshape", &[v], ty, &[])
        });
        let transposed = [
            ("transpose_a", flag(self, true)),
            ("transpose_b", flag(self, false)),
        ];
        let ty = self.rewriter.ty(w);
        let dw = self.value("dist.matmul", &[x, dout], ty, &transposed);
        (dx, dw)
    }

    /// The gradients of a product and of the bias added to it.
    fn add_backward(
        &mut self,
        product: ValueId,
        bias: ValueId,
        dout: ValueId,
        row_parallel: bool,
    ) -> (ValueId, ValueId) {
        let types = [product, bias].map(|v| self.rewriter.ty(v));
        if self.spec.explicit {
            let attrs = [
                ("dims", self.cx.i64_array(&[0, 1])),
                ("keep_dims", self.cx.bool_attr(false)),
            ];
            let db = self.value("dist.reduce_sum", &[dout], types[1], &attrs);
            return (dout, db);
        }
        let first = self.spec.bias_first && row_parallel;
        let operands = if first {
            [bias, product, dout]
        } else {
            [product, bias, dout]
        };
        let results = if first { [types[1], types[0]] } else { types };
        let sizes = [("resultSegmentSizes", self.cx.i32_array(&[1, 1]))];
        let op = self.op("dist.add_grad", &operands, &results, &sizes);
        let result = |index| self.rewriter.result(op, index);
        (result(usize::from(first)), result(usize::from(!first)))
    }

    /// A sequence-parallel bias gradient, reduced over the data axis and the tensor axes.
    fn reduce_bias(&mut self, gradient: ValueId) -> ValueId {
        let axes = self.spec.tensor_axes();
        if self.spec.bias_reduction == BiasReduction::Joint {
            return self.all_reduce(gradient, "avg", &self.spec.all_axes());
        }
        let gradient = self.data_parallel(gradient);
        match self.spec.bias_reduction {
            BiasReduction::Average => self.all_reduce(gradient, "avg", axes),
            BiasReduction::Scaled => {
                let sum = self.all_reduce(gradient, "sum", axes);
                self.scale(sum, 1.0 / self.spec.mp as f64)
            }
            _ => self.all_reduce(gradient, "sum", axes),
        }
    }

    /// The mean of a gradient over the data axis; with several micro-batches, the optimizer takes it, of all of them at once.
    fn data_parallel(&mut self, gradient: ValueId) -> ValueId {
        match self.spec.microbatches {
            1 => self.data_mean(gradient),
            _ => gradient,
        }
    }

    pub fn data_mean(&mut self, gradient: ValueId) -> ValueId {
        if self.spec.dp == 1 {
            return gradient;
        }
        let sum = self.all_reduce(gradient, "sum", &["dp"]);
        self.scale(sum, 1.0 / self.spec.dp as f64)
    }
}
