//! What a program is like: all that the builder can vary.

use raddle_dialect::ir::FloatKind;

use super::SEQUENCE;

/// What a program is like.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Pairs of a column-parallel and a row-parallel linear layer.
    pub layers: usize,
    /// Size of the data axis; 1 leaves it out.
    pub dp: i64,
    /// Size of the tensor axis.
    pub mp: i64,
    /// Activations between the linear layers are cut along the sequence.
    pub sequence_parallel: bool,
    /// Products and biases are computed in this type.
    pub amp: Option<FloatKind>,
    /// What parameters are stored in, if there is such a type.
    pub stored: Stored,
    pub optimizer: Optimizer,
    pub clip: Clip,
    /// Gradients are checked and unscaled, and flags combined.
    pub loss_scaling: LossScaling,
    /// The forward pass of each row-parallel layer is repeated for the backward pass.
    pub recompute: bool,
    /// A residual connection around each pair.
    pub residual: bool,
    /// All row-parallel layers add one bias.
    pub tied_bias: bool,
    /// Row-parallel layers have a bias.
    pub bias: bool,
    /// How the gradient of sequence-parallel biases is reduced over the tensor axes.
    pub bias_reduction: BiasReduction,
    /// Gradients of adds are written out: the gradient of a bias is a reduce_sum, that of the product is what came in.
    pub explicit: bool,
    /// Four tensor ranks are a grid of two axes, `mp` and `np`; a broadcast runs over both at once.
    pub grid: bool,
    /// The bias is the first operand of its add.
    pub bias_first: bool,
    /// Gradients of products are products of their own, as JAX writes them.
    pub plain_products: bool,
    /// Pipeline stages: classes of their own along an axis `pp`, which send each other activations and gradients.
    pub stages: usize,
    /// Chunks of layers on each stage, interleaved.
    pub chunks: usize,
    /// Micro-batches; with several, gradients are accumulated and an `optimizer` function updates.
    pub microbatches: i64,
    /// The limit of a clip by the global norm is above the norm, so that it changes nothing.
    pub within_limit: bool,
    pub shape: Shape,
}

/// What a model with an amp type stores its parameters in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// f32; they are cast where they are used (o1).
    Full,
    /// The amp type, beside a master copy in f32 that the optimizer updates (o2).
    LowWithMaster,
    /// The amp type, and so are gradients (o3).
    Low,
}

/// Sizes of a model, before any axis but the data axis cuts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub batch: i64,
    pub sequence: i64,
    pub hidden: i64,
    pub inner: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Optimizer {
    Sgd,
    Momentum,
    Adamw,
    /// With the power of beta advanced by an op of its own.
    Adamax,
    DecayedAdagrad,
    /// With norms of pieces where a parameter is cut.
    Lamb,
    /// Likewise; all parameters in one group.
    LarsMomentum,
    /// All parameters in one group.
    MergedMomentum,
    /// With a count of steps that passes the end of the momentum.
    DgcMomentum,
}

impl Optimizer {
    pub const ALL: [Self; 9] = [
        Self::Sgd,
        Self::Momentum,
        Self::Adamw,
        Self::Adamax,
        Self::DecayedAdagrad,
        Self::Lamb,
        Self::LarsMomentum,
        Self::MergedMomentum,
        Self::DgcMomentum,
    ];
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clip {
    None,
    Value,
    Norm,
    /// Squares stacked and summed; those of sharded parameters are summed over the tensor axis too.
    GlobalStack,
    /// Squares summed, likewise.
    GlobalSum,
    /// Squares stacked and summed on each rank by itself, as Paddle does: ranks clip differently, so that a replicated
    /// parameter drifts apart once the norm exceeds the limit, which here it does not.
    PerRank,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BiasReduction {
    /// Summed.
    Sum,
    /// Summed, then divided by the number of ranks, as Paddle does.
    Scaled,
    /// Averaged.
    Average,
    /// Averaged together with the data axis.
    Joint,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossScaling {
    None,
    /// Flags are combined over all ranks.
    Combined,
    /// Each rank looks at its own flags only.
    Local,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            layers: 1,
            dp: 1,
            mp: 2,
            sequence_parallel: false,
            amp: None,
            optimizer: Optimizer::Adamw,
            clip: Clip::None,
            loss_scaling: LossScaling::None,
            recompute: false,
            residual: false,
            tied_bias: false,
            bias: true,
            bias_reduction: BiasReduction::Scaled,
            explicit: false,
            grid: false,
            bias_first: false,
            stored: Stored::Full,
            plain_products: false,
            stages: 1,
            chunks: 1,
            microbatches: 1,
            within_limit: false,
            shape: Shape {
                batch: 2,
                sequence: SEQUENCE,
                hidden: 8,
                inner: 16,
            },
        }
    }
}

impl Spec {
    /// The axes of tensor parallelism.
    pub fn tensor_axes(&self) -> &'static [&'static str] {
        if self.grid && self.mp == 4 {
            &["mp", "np"]
        } else {
            &["mp"]
        }
    }

    /// All axes but those of size 1.
    pub fn all_axes(&self) -> Vec<&'static str> {
        let stages = (self.stages > 1).then_some("pp");
        let data = (self.dp > 1).then_some("dp");
        stages
            .into_iter()
            .chain(data)
            .chain(self.tensor_axes().iter().copied())
            .collect()
    }
}
