//! Forward: per pair a column-parallel layer, gelu, and a row-parallel layer whose product is reduced.

use raddle_dialect::ir::ValueId;

use super::{Builder, Parameter};

/// What the backward pass needs of a pair.
pub struct Pair {
    /// Input, whole, in the products' type.
    pub x: ValueId,
    /// Weight and bias of the column-parallel layer as its ops read them, and its product and sum.
    pub column: Linear,
    /// gelu of the column-parallel layer.
    pub activated: ValueId,
    /// The row-parallel layer; its product is the reduced one.
    pub row: Linear,
    /// The result.
    pub out: ValueId,
}

#[derive(Clone, Copy)]
pub struct Linear {
    pub w: ValueId,
    pub b: Option<ValueId>,
    pub product: ValueId,
    pub sum: ValueId,
    /// Indices of the parameters.
    pub weight: usize,
    pub bias: Option<usize>,
}

impl Builder<'_> {
    /// The layers of a chunk.
    pub fn forward(&mut self, chunk: usize, input: ValueId) -> Vec<Pair> {
        let mut at = input;
        let layers = self.spec.layers;
        (0..layers)
            .map(|layer| {
                let pair = self.pair(chunk * layers + layer, at);
                at = pair.out;
                pair
            })
            .collect()
    }

    /// Declares and loads a parameter, once.
    fn parameter(
        &mut self,
        name: String,
        shape: &[i64],
        sharded: Option<usize>,
        init: f64,
    ) -> usize {
        if let Some(known) = self.parameters.iter().position(|p| p.name == name) {
            return known;
        }
        self.global(&name, "parameter", shape, sharded, None, init);
        let value = self.load_parameter(&name, shape);
        self.parameters.push(Parameter {
            name,
            shape: shape.to_vec(),
            sharded,
            value,
            gradients: Vec::new(),
        });
        self.parameters.len() - 1
    }

    fn pair(&mut self, layer: usize, input: ValueId) -> Pair {
        let element = self.element();
        let hidden = self.spec.shape.hidden;
        let inner = self.spec.shape.inner / self.spec.mp;
        let x = self.cast(input, element);
        let x = if self.spec.sequence_parallel {
            self.gather(x)
        } else {
            x
        };
        let weight = self.parameter(format!("w{layer}_in"), &[hidden, inner], Some(1), 0.5);
        let bias = self.parameter(format!("b{layer}_in"), &[inner], Some(0), 0.0);
        let column = self.linear(x, weight, Some(bias), false);
        let ty = self.rewriter.ty(column.sum);
        let exact = self.cx.bool_attr(false);
        let activated = self.value("dist.gelu", &[column.sum], ty, &[("approximate", exact)]);
        let weight = self.parameter(format!("w{layer}_out"), &[inner, hidden], Some(0), 0.5);
        let bias = self.spec.bias.then(|| {
            // Tied among the layers of a stage.
            let first = self.stage * self.spec.layers;
            let layer = if self.spec.tied_bias { first } else { layer };
            self.parameter(format!("b{layer}_out"), &[hidden], None, 0.0)
        });
        let row = self.linear(activated, weight, bias, true);
        let mut out = self.cast(row.sum, self.cx.f32());
        let ty = self.rewriter.ty(out);
        if self.spec.residual {
            out = self.value("dist.add", &[out, input], ty, &[]);
        } else {
            out = self.value("dist.gelu", &[out], ty, &[("approximate", exact)]);
        }
        Pair {
            x,
            column,
            activated,
            row,
            out,
        }
    }

    /// A product, reduced if its layer is row-parallel, plus a bias.
    pub fn linear(
        &mut self,
        x: ValueId,
        weight: usize,
        bias: Option<usize>,
        row_parallel: bool,
    ) -> Linear {
        let element = self.element();
        let w = self.cast(self.parameters[weight].value, element);
        let mut shape = self.shape(x);
        shape[2] = self.shape(w)[1];
        let ty = self.cx.tensor(&shape, element);
        let plain = self.cx.bool_attr(false);
        let attrs = [("transpose_a", plain), ("transpose_b", plain)];
        let mut product = self.value("dist.matmul", &[x, w], ty, &attrs);
        if row_parallel {
            product = self.reduce(product);
        }
        let mut sum = product;
        let mut b = None;
        if let Some(bias) = bias {
            let value = self.cast(self.parameters[bias].value, element);
            let ty = self.rewriter.ty(product);
            let operands = if self.spec.bias_first && row_parallel {
                [value, product]
            } else {
                [product, value]
            };
            sum = self.value("dist.add", &operands, ty, &[]);
            b = Some(value);
        }
        Linear {
            w,
            b,
            product,
            sum,
            weight,
            bias,
        }
    }

    /// Over the tensor axis: the pieces of the sequence, joined.
    pub fn gather(&mut self, x: ValueId) -> ValueId {
        let mut shape = self.shape(x);
        shape[0] = self.spec.shape.sequence;
        let ty = self.cx.tensor(&shape, self.element());
        let attrs = [
            ("axes", self.cx.string_array(self.spec.tensor_axes())),
            ("dim", self.cx.i64_attr(0)),
        ];
        self.value("dist.all_gather", &[x], ty, &attrs)
    }

    /// Over the tensor axis: the sum, or one piece of it along the sequence.
    pub fn reduce(&mut self, x: ValueId) -> ValueId {
        if !self.spec.sequence_parallel {
            return self.all_reduce(x, "sum", self.spec.tensor_axes());
        }
        let mut shape = self.shape(x);
        shape[0] = self.spec.shape.sequence / self.spec.mp;
        let ty = self.cx.tensor(&shape, self.element());
        let attrs = [
            ("reduction", self.cx.string("sum")),
            ("axes", self.cx.string_array(self.spec.tensor_axes())),
            ("dim", self.cx.i64_attr(0)),
        ];
        self.value("dist.reduce_scatter", &[x], ty, &attrs)
    }

    /// The loss.
    pub fn mean(&mut self, x: ValueId) -> ValueId {
        let dims: Vec<_> = (0..self.shape(x).len() as i64).collect();
        let attrs = [
            ("dims", self.cx.i64_array(&dims)),
            ("keep_dims", self.cx.bool_attr(false)),
        ];
        let ty = self.tensor(&[]);
        self.value("dist.reduce_mean", &[x], ty, &attrs)
    }
}
