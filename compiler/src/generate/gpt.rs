//! The decoder (Radford et al., 2019): embeddings, blocks of attention and perceptron with normalisation before each, and the loss of
//! the next token.
//!
//! Megatron-LM's placement: the vocabulary, the heads and the inner width are cut by the tensor axis. Queries, keys and values of a head
//! lie side by side in the columns of one weight, so that a rank's columns are whole heads.

use raddle_dialect::ir::ValueId;
use raddle_dialect::ops::shape::OUTERMOST;
use raddle_dialect::{DType, Error};

use super::layers::{Linear, STD};
use super::program::{Program, Start};
use super::spec::{DATA, Tied};

/// Builds the step; gives the loss.
pub fn build(program: &mut Program) -> Result<ValueId, Error> {
    let spec = program.spec;
    let shape = [spec.local_batch() * spec.size(DATA), spec.seq];
    let cut = [program.data(), None];
    let tokens = program.input(&shape, &cut, DType::I64)?;
    let labels = program.input(&shape, &cut, DType::I64)?;
    let rows = [spec.vocab, spec.hidden];
    let cut = [program.tensor(), None];
    let table = program.parameter("wte", &rows, &cut, Start::Gaussian(STD))?;
    let mut x = program.embed(tokens, table)?;
    x = program.dropout(x)?;
    for layer in 0..spec.layers {
        let name = format!("h{layer}");
        let normed = program.norm(x, &format!("{name}_ln1"))?;
        let y = program.attend(normed, &name)?;
        let y = program.dropout(y)?;
        x = program.add(y, x)?;
        let normed = program.norm(x, &format!("{name}_ln2"))?;
        let y = program.perceptron(normed, &name)?;
        let y = program.dropout(y)?;
        x = program.add(y, x)?;
    }
    let x = program.norm(x, "ln_f")?;
    let x = program.enter_pair(x)?;
    let logits = program.logits(x, table)?;
    program.loss(logits, labels)
}

impl Program<'_, '_, '_> {
    /// `[batch, sequence]` tokens to `[sequence, batch, hidden]`, with learned positions.
    fn embed(&mut self, tokens: ValueId, table: ValueId) -> Result<ValueId, Error> {
        let axes: Vec<_> = self.tensor().into_iter().collect();
        let axes = self.builder.cx().string_array(&axes);
        let embedding = self.builder.emit("dist.embedding")?.each(&[tokens, table]);
        let words = embedding.attr("axes", axes).value()?;
        let words = self.transpose(words, &[1, 0, 2])?;
        let words = self.reduce(words)?;
        let spec = self.spec;
        let shape = [spec.seq, 1, spec.hidden];
        let cut = [None; 3];
        let mut positions = self.parameter("wpe", &shape, &cut, Start::Gaussian(STD))?;
        if let Some(axis) = self.sequence() {
            let axes = self.axes(axis);
            let axes = self.builder.cx().array(&[axes]);
            let rows = spec.seq / spec.size(axis);
            positions = self
                .builder
                .emit("dist.slice")?
                .one(positions)
                .ints("dims", &[0])
                .ints("starts", &[0])
                .ints("sizes", &[rows])
                .attr("axes", axes)
                .value()?;
        }
        self.add(words, positions)
    }

    fn transpose(&mut self, x: ValueId, perm: &[i64]) -> Result<ValueId, Error> {
        let transpose = self.builder.emit("dist.transpose")?.one(x);
        transpose.ints("perm", perm).value()
    }

    /// Dropout of activations between layers. Samples differ along the data axis, and positions along the tensor axis if that cuts
    /// them; elsewhere ranks along the tensor axis drop the same.
    fn dropout(&mut self, x: ValueId) -> Result<ValueId, Error> {
        if self.spec.dropout == 0.0 {
            return Ok(x);
        }
        let axes = self.data().into_iter().chain(self.sequence());
        let axes: Vec<_> = axes.collect();
        let axes = self.builder.cx().string_array(&axes);
        let (rate, seed) = (self.spec.dropout, self.seed());
        let dropout = self.builder.emit("dist.dropout")?.one(x);
        let dropout = dropout.float("rate", rate).int("seed", seed);
        dropout.attr("axes", axes).value()
    }

    /// Attention, `[sequence, batch, hidden]` to the same.
    fn attend(&mut self, x: ValueId, name: &str) -> Result<ValueId, Error> {
        let spec = self.spec;
        let (heads, width) = (spec.heads, spec.hidden / spec.heads);
        let x = self.enter_pair(x)?;
        let qkv = Linear {
            name: &format!("{name}_qkv"),
            from: spec.hidden,
            to: 3 * spec.hidden,
        };
        let qkv = self.column_parallel(x, qkv)?;
        let mut shape = self.builder.ty(qkv)?.shape;
        let local_heads = heads / self.tensor().map_or(1, |axis| spec.size(axis));
        shape[2] = local_heads;
        shape.push(3 * width);
        let by_head = self.builder.emit("dist.reshape")?.one(qkv);
        // The tensor axis cuts the heads, even where a rank has a single one.
        let by_head = by_head.tensor(&shape, DType::F32);
        let by_head = match local_heads {
            1 => by_head.bool(OUTERMOST, true),
            _ => by_head,
        };
        let by_head = by_head.value()?;
        let by_head = self.transpose(by_head, &[1, 2, 0, 3])?;
        let split = self.builder.emit("dist.split")?.one(by_head);
        let split = split.int("dim", 3).counts(&[3]).build()?;
        let [q, k, v] = [0, 1, 2].map(|part| self.builder.rewriter.result(split, part));
        // Each rank drops weights of its own samples and heads.
        let axes = self.data().into_iter().chain(self.tensor());
        let axes: Vec<_> = axes.filter(|_| spec.dropout > 0.0).collect();
        let axes = self.builder.cx().string_array(&axes);
        let seed = if spec.dropout > 0.0 { self.seed() } else { 0 };
        let out = self
            .builder
            .emit("dist.attention")?
            .each(&[q, k, v])
            .bool("causal", true)
            .float("scale", 1.0 / (width as f64).sqrt())
            .float("dropout", spec.dropout)
            .int("seed", seed)
            .attr("axes", axes)
            .value()?;
        let out = self.transpose(out, &[2, 0, 1, 3])?;
        let mut shape = self.builder.ty(out)?.shape;
        shape.truncate(3);
        shape[2] = local_heads * width;
        let out = self.builder.emit("dist.reshape")?.one(out);
        let out = out.tensor(&shape, DType::F32).value()?;
        let projection = Linear {
            name: &format!("{name}_proj"),
            from: spec.hidden,
            to: spec.hidden,
        };
        self.row_parallel(out, projection)
    }

    /// Logits of the whole vocabulary, cut by the tensor axis.
    fn logits(&mut self, x: ValueId, table: ValueId) -> Result<ValueId, Error> {
        let spec = self.spec;
        if spec.tied == Tied::Yes {
            let matmul = self.builder.emit("dist.matmul")?.each(&[x, table]);
            return matmul.bool("transpose_b", true).value();
        }
        let shape = [spec.hidden, spec.vocab];
        let cut = [None, self.tensor()];
        let w = self.parameter("lm_head", &shape, &cut, Start::Gaussian(STD))?;
        self.matmul(x, w)
    }

    /// The mean loss over all positions; labels are `[batch, sequence]`.
    fn loss(&mut self, logits: ValueId, labels: ValueId) -> Result<ValueId, Error> {
        let labels = self.transpose(labels, &[1, 0])?;
        let axes: Vec<_> = self.tensor().into_iter().collect();
        let axes = self.builder.cx().string_array(&axes);
        let loss = self.builder.emit("dist.softmax_cross_entropy")?;
        let loss = loss.each(&[logits, labels]).attr("axes", axes).value()?;
        self.mean(loss)
    }
}
