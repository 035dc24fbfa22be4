//! Backward, in Paddle's order: the bias gradient is reduced before the product's gradient is used.

use raddle_dialect::ir::ValueId;

use super::Builder;
use super::forward::{Linear, Pair};

impl Builder<'_> {
    pub fn backward(&mut self, pairs: &[Pair], loss: ValueId) {
        let last = pairs.last().expect("there are layers").out;
        let seed = self.fill(&[], 1.0);
        let dims: Vec<_> = (0..self.shape(last).len() as i64).collect();
        let attrs = [
            ("dims", self.cx.i64_array(&dims)),
            ("keep_dims", self.cx.bool_attr(false)),
        ];
        let ty = self.rewriter.ty(last);
        debug_assert_eq!(self.shape(loss).len(), 0);
        let mut dout = self.value("dist.reduce_mean_grad", &[last, seed], ty, &attrs);
        for pair in pairs.iter().rev() {
            dout = self.pair_backward(pair, dout);
        }
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
            let first = self.spec.bias_first && row_parallel;
            let (product, types) = (
                linear.product,
                [linear.product, b].map(|v| self.rewriter.ty(v)),
            );
            let operands = if first {
                [b, product, dout]
            } else {
                [product, b, dout]
            };
            let results = if first { [types[1], types[0]] } else { types };
            let sizes = self.cx.i32_array(&[1, 1]);
            let op = self.op(
                "dist.add_grad",
                &operands,
                &results,
                &[("resultSegmentSizes", sizes)],
            );
            dproduct = self.rewriter.result(op, usize::from(first));
            let db = self.rewriter.result(op, usize::from(!first));
            let mut db = self.data_parallel(db);
            if row_parallel && self.spec.sequence_parallel {
                db = self.all_reduce(db, "sum", &["mp"]);
                if self.spec.scaled_bias_gradient {
                    db = self.scale(db, 1.0 / self.spec.mp as f64);
                }
            }
            let db = self.cast(db, self.cx.f32());
            self.parameters[bias].gradients.push(db);
        }
        if row_parallel && self.spec.sequence_parallel {
            dproduct = self.gather(dproduct);
        }
        let plain = self.cx.bool_attr(false);
        let attrs = [
            ("transpose_a", plain),
            ("transpose_b", plain),
            ("resultSegmentSizes", self.cx.i32_array(&[1, 1])),
        ];
        let results = [x, linear.w].map(|v| self.rewriter.ty(v));
        let op = self.op(
            "dist.matmul_grad",
            &[x, linear.w, dproduct],
            &results,
            &attrs,
        );
        let (dx, dw) = (self.rewriter.result(op, 0), self.rewriter.result(op, 1));
        let dw = self.data_parallel(dw);
        let dw = self.cast(dw, self.cx.f32());
        self.parameters[linear.weight].gradients.push(dw);
        dx
    }

    /// The mean of a gradient over the data axis.
    fn data_parallel(&mut self, gradient: ValueId) -> ValueId {
        if self.spec.dp == 1 {
            return gradient;
        }
        let sum = self.all_reduce(gradient, "sum", &["dp"]);
        self.scale(sum, 1.0 / self.spec.dp as f64)
    }
}
