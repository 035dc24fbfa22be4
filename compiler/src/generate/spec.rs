//! What a generated program is like.

use thiserror::Error;

/// A model that cannot be built: what does not go together.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct SpecError(pub String);

/// Which model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// Pairs of linear layers on a float input, and the mean squared error to a target.
    Mlp,
    /// A decoder: embeddings, blocks of attention and perceptron, vocabulary-parallel cross entropy.
    Gpt,
}

/// Whether the tensor axis cuts the sequence between pairs of linear layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequenceParallel {
    /// Activations between pairs are whole.
    Off,
    /// They are cut.
    On,
}

/// Whether the output layer of a GPT reads the embedding's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tied {
    /// It has a weight of its own.
    No,
    /// It reads the table.
    Yes,
}

/// Between the two linear layers of a perceptron.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// `dist.relu`
    Relu,
    /// `dist.gelu`, erf form.
    Gelu,
    /// `dist.gelu`, tanh form.
    GeluTanh,
}

/// Before each pair of linear layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Norm {
    /// None (perceptrons only).
    None,
    /// `dist.layer_norm`
    Layer,
}

/// A model, its sizes, and the mesh.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Which.
    pub model: Model,
    /// Pairs of linear layers, or blocks.
    pub layers: i64,
    /// Width of activations.
    pub hidden: i64,
    /// Width between the two linear layers of a perceptron.
    pub inner: i64,
    /// Attention heads.
    pub heads: i64,
    /// Rows of the embedding's table.
    pub vocab: i64,
    /// Length of the sequence.
    pub seq: i64,
    /// Samples of a training step, over all data ranks and micro-batches.
    pub batch: i64,
    /// Names and sizes of the mesh's axes. `dp` and `mp` are the data and the tensor axis; over any other everything is replicated.
    pub mesh: Vec<(String, i64)>,
    /// Whether `mp` cuts the sequence.
    pub sequence_parallel: SequenceParallel,
    /// Whether the output layer shares the embedding's table.
    pub tied: Tied,
    /// Whether linear layers have biases.
    pub bias: bool,
    /// Probability that an activation is dropped; 0 leaves dropout out.
    pub dropout: f64,
    /// Micro-batches of a step.
    pub microbatches: i64,
    /// Between linear layers.
    pub activation: Activation,
    /// Before pairs.
    pub norm: Norm,
    /// Whether pairs have a residual connection around them (perceptrons; GPTs always have).
    pub residual: bool,
}

/// The data axis.
pub const DATA: &str = "dp";
/// The tensor axis.
pub const TENSOR: &str = "mp";

impl Default for Spec {
    /// A small perceptron on two by two ranks.
    fn default() -> Self {
        Self {
            model: Model::Mlp,
            layers: 2,
            hidden: 16,
            inner: 32,
            heads: 4,
            vocab: 32,
            seq: 8,
            batch: 4,
            mesh: vec![(DATA.into(), 2), (TENSOR.into(), 2)],
            sequence_parallel: SequenceParallel::Off,
            tied: Tied::No,
            bias: true,
            dropout: 0.0,
            microbatches: 1,
            activation: Activation::Gelu,
            norm: Norm::None,
            residual: true,
        }
    }
}

impl Spec {
    /// Size of an axis; 1 if the mesh lacks it.
    pub fn size(&self, axis: &str) -> i64 {
        let found = self.mesh.iter().find(|a| a.0 == axis);
        found.map_or(1, |a| a.1)
    }

    /// Samples of one micro-batch on one data rank.
    pub fn local_batch(&self) -> i64 {
        self.batch / (self.size(DATA) * self.microbatches).max(1)
    }

    /// Whether there is anything to reduce over the tensor axis.
    pub fn is_tensor_parallel(&self) -> bool {
        self.size(TENSOR) > 1
    }

    /// Whether the sequence is cut.
    pub fn cuts_sequence(&self) -> bool {
        self.sequence_parallel == SequenceParallel::On && self.is_tensor_parallel()
    }

    /// Everything divides what it has to.
    pub(super) fn check(&self) -> Result<(), SpecError> {
        const LARGEST: i64 = 1 << 40;
        let (dp, mp) = (self.size(DATA), self.size(TENSOR));
        let positive = [
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("inner", self.inner),
            ("heads", self.heads),
            ("vocab", self.vocab),
            ("seq", self.seq),
            ("batch", self.batch),
            ("microbatches", self.microbatches),
        ];
        let axes = self.mesh.iter().map(|(name, size)| (name.as_str(), *size));
        for (name, value) in positive.into_iter().chain(axes) {
            if !(1..=LARGEST).contains(&value) {
                return Err(SpecError(format!("{name} must be at least 1, not {value}")));
            }
        }
        if self.mesh.is_empty() {
            return Err(SpecError("the mesh needs an axis".into()));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(SpecError(format!(
                "dropout must be in [0, 1), not {}",
                self.dropout
            )));
        }
        if self.layers > 100_000 {
            return Err(SpecError(format!(
                "{} layers are more than the 100000 that fit a program",
                self.layers
            )));
        }
        let divides = |what: &str, value: i64, by: i64, whose: &str| match value % by {
            0 => Ok(()),
            _ => Err(SpecError(format!(
                "{whose} must divide {what}, but {by} does not divide {value}"
            ))),
        };
        divides(
            "batch",
            self.batch,
            dp.saturating_mul(self.microbatches),
            "dp times microbatches",
        )?;
        divides("inner", self.inner, mp, "mp")?;
        if self.cuts_sequence() {
            divides("seq", self.seq, mp, "mp")?;
        }
        if self.model == Model::Gpt {
            divides("hidden", self.hidden, self.heads, "heads")?;
            divides("heads", self.heads, mp, "mp")?;
            divides("vocab", self.vocab, mp, "mp")?;
        }
        Ok(())
    }
}
