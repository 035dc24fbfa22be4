//! Layers that models share: linear layers by columns and by rows, normalisation, dropout, residual connections.

use raddle_dialect::Error;
use raddle_dialect::ir::ValueId;

use super::program::{Program, Start};
use super::spec::{Activation, Norm};

/// Standard deviation of weights (GPT-2's).
pub const STD: f64 = 0.02;

/// A linear layer to build.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'n> {
    /// Parameters are called `NAME_w` and `NAME_b`.
    pub name: &'n str,
    /// Whole width of the input.
    pub from: i64,
    /// Whole width of the output.
    pub to: i64,
}

impl Program<'_, '_, '_> {
    pub fn add(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.builder.emit("dist.add")?.each(&[a, b]).value()
    }

    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.builder.emit("dist.matmul")?.each(&[a, b]).value()
    }

    /// Where a pair of linear layers starts: with sequence parallelism the pieces of the sequence are joined.
    pub fn enter_pair(&mut self, x: ValueId) -> Result<ValueId, Error> {
        let Some(axis) = self.sequence() else {
            return Ok(x);
        };
        let axes = self.axes(axis);
        let gather = self.builder.emit("dist.all_gather")?.one(x);
        gather.attr("axes", axes).int("dim", 0).value()
    }

    /// Sums over the tensor axis what each rank has a part of, `[sequence, batch, hidden]`; with sequence parallelism each rank gets its
    /// piece of the sequence.
    pub fn reduce(&mut self, x: ValueId) -> Result<ValueId, Error> {
        let Some(axis) = self.tensor() else {
            return Ok(x);
        };
        let (axes, sum) = (self.axes(axis), self.builder.cx().string("sum"));
        let op = match self.sequence() {
            Some(_) => self.builder.emit("dist.reduce_scatter")?.int("dim", 0),
            None => self.builder.emit("dist.all_reduce")?,
        };
        op.one(x).attr("reduction", sum).attr("axes", axes).value()
    }

    /// `x · w + b`, where the tensor axis cuts the columns of w.
    pub fn column_parallel(&mut self, x: ValueId, layer: Linear) -> Result<ValueId, Error> {
        let Linear { name, from, to } = layer;
        let tensor = self.tensor();
        let start = Start::Gaussian(STD);
        let w = self.parameter(&format!("{name}_w"), &[from, to], &[None, tensor], start)?;
        let mut y = self.matmul(x, w)?;
        if self.spec.bias {
            let b = self.parameter(&format!("{name}_b"), &[to], &[tensor], Start::Fill(0.0))?;
            y = self.add(y, b)?;
        }
        Ok(y)
    }

    /// `x · w`, summed over the tensor axis, which cuts the rows of w, `+ b`.
    pub fn row_parallel(&mut self, x: ValueId, layer: Linear) -> Result<ValueId, Error> {
        let Linear { name, from, to } = layer;
        let tensor = self.tensor();
        // Residual paths add up, so what feeds them starts smaller (Radford et al., 2019).
        let std = STD / ((2 * self.spec.layers) as f64).sqrt();
        let start = Start::Gaussian(std);
        let w = self.parameter(&format!("{name}_w"), &[from, to], &[tensor, None], start)?;
        let product = self.matmul(x, w)?;
        let mut y = self.reduce(product)?;
        if self.spec.bias {
            let b = self.parameter(&format!("{name}_b"), &[to], &[None], Start::Fill(0.0))?;
            y = self.add(y, b)?;
        }
        Ok(y)
    }

    /// Normalisation over the last dimension.
    pub fn norm(&mut self, x: ValueId, name: &str) -> Result<ValueId, Error> {
        if self.spec.norm == Norm::None {
            return Ok(x);
        }
        let hidden = [self.spec.hidden];
        let scale = self.parameter(&format!("{name}_scale"), &hidden, &[None], Start::Fill(1.0))?;
        let bias = match self.spec.bias {
            true => {
                Some(self.parameter(&format!("{name}_bias"), &hidden, &[None], Start::Fill(0.0))?)
            }
            false => None,
        };
        let begin = self.builder.ty(x)?.rank() as i64 - 1;
        self.builder
            .emit("dist.layer_norm")?
            .one(x)
            .optional(Some(scale))
            .optional(bias)
            .int("begin_norm_axis", begin)
            .float("epsilon", 1e-5)
            .value()
    }

    pub fn activation(&mut self, x: ValueId) -> Result<ValueId, Error> {
        match self.spec.activation {
            Activation::Relu => self.builder.emit("dist.relu")?.one(x).value(),
            Activation::Gelu => self.builder.emit("dist.gelu")?.one(x).value(),
            Activation::GeluTanh => {
                let gelu = self.builder.emit("dist.gelu")?.one(x);
                gelu.bool("approximate", true).value()
            }
        }
    }

    /// A perceptron: by columns, activation, by rows.
    pub fn perceptron(&mut self, x: ValueId, name: &str) -> Result<ValueId, Error> {
        let (hidden, inner) = (self.spec.hidden, self.spec.inner);
        let x = self.enter_pair(x)?;
        let up = Linear {
            name: &format!("{name}_fc1"),
            from: hidden,
            to: inner,
        };
        let x = self.column_parallel(x, up)?;
        let x = self.activation(x)?;
        let down = Linear {
            name: &format!("{name}_fc2"),
            from: inner,
            to: hidden,
        };
        self.row_parallel(x, down)
    }

    /// The mean over all elements. It stays a partial mean along the data axis, of which each rank returns its part; over the tensor axis
    /// it is completed.
    pub fn mean(&mut self, x: ValueId) -> Result<ValueId, Error> {
        let dims: Vec<_> = (0..self.builder.ty(x)?.rank() as i64).collect();
        let mean = self.builder.emit("dist.reduce_mean")?.one(x);
        let mean = mean.ints("dims", &dims).value()?;
        let axis = self.tensor().and_then(|axis| self.builder.mesh.axis(axis));
        let cut = self.builder.partial_axes(mean)?;
        let axes: Vec<_> = axis.into_iter().filter(|a| cut.contains(a)).collect();
        self.builder.all_reduce(mean, "avg", &axes)
    }
}
