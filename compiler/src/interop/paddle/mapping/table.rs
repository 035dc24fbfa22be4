//! Which Paddle op is which `dist` op: one row per Paddle op. What a row cannot say in a table is in its [`Special`].

use super::{Const, Mapping, Rule, Special};

use Const::{Bool as B, Int as I, Text as T};
use Rule::{Always, Bool, Float, Given, Implied, Int, Require};

/// A row without attributes.
const fn row(
    paddle: &'static str,
    dist: &'static str,
    inputs: &'static [&'static str],
    outputs: &'static [&'static str],
) -> Mapping {
    Mapping {
        paddle,
        dist,
        inputs,
        outputs,
        rules: &[],
        special: Special::None,
    }
}

impl Mapping {
    const fn rules(mut self, rules: &'static [Rule]) -> Self {
        self.rules = rules;
        self
    }

    const fn special(mut self, special: Special) -> Self {
        self.special = special;
        self
    }
}

const MATMUL: &[Rule] = &[
    Bool("trans_x", "transpose_a"),
    Bool("trans_y", "transpose_b"),
];
const APPROXIMATE: &[Rule] = &[Bool("approximate", "approximate")];
const LAYER_NORM: &[Rule] = &[
    Int("begin_norm_axis", "begin_norm_axis"),
    Float("epsilon", "epsilon"),
];
const X: &[&str] = &["X"];
const XY: &[&str] = &["X", "Y"];
const OUT: &[&str] = &["Out"];
const GRAD_XY: &[&str] = &["X", "Y", "Out@GRAD"];
const GRADS_XY: &[&str] = &["X@GRAD", "Y@GRAD"];
const GRAD_X: &[&str] = &["X", "Out@GRAD"];
const GRADS_X: &[&str] = &["X@GRAD"];
const BETAS: &[Rule] = &[
    Float("beta1", "beta1"),
    Float("beta2", "beta2"),
    Float("epsilon", "epsilon"),
    Require("lazy_mode", B(false)),
    Require("use_global_beta_pow", B(false)),
];
const ADAMW: &[Rule] = &[
    Float("beta1", "beta1"),
    Float("beta2", "beta2"),
    Float("epsilon", "epsilon"),
    Float("coeff", "weight_decay"),
    Float("lr_ratio", "lr_ratio"),
    Bool("with_decay", "with_decay"),
    Require("lazy_mode", B(false)),
    Require("use_global_beta_pow", B(false)),
];
const LAMB: &[Rule] = &[
    Float("beta1", "beta1"),
    Float("beta2", "beta2"),
    Float("epsilon", "epsilon"),
    Float("weight_decay", "weight_decay"),
    Bool("always_adapt", "always_adapt"),
    Given("local_norms", B(true)),
];
const MOMENTUM: &[Rule] = &[
    Float("mu", "mu"),
    Bool("use_nesterov", "use_nesterov"),
    Float("rescale_grad", "rescale_grad"),
];
const MOMENTUM_IN: &[&str] = &["Param", "Grad", "Velocity", "LearningRate", "MasterParam"];
const MOMENTUM_OUT: &[&str] = &["ParamOut", "VelocityOut", "MasterParamOut"];
const ADAM_IN: &[&str] = &[
    "Param",
    "Grad",
    "Moment1",
    "Moment2",
    "Beta1Pow",
    "Beta2Pow",
    "LearningRate",
    "SkipUpdate",
    "MasterParam",
];
const ADAM_OUT: &[&str] = &[
    "ParamOut",
    "Moment1Out",
    "Moment2Out",
    "Beta1PowOut",
    "Beta2PowOut",
    "MasterParamOut",
];
const BINARY: Special = Special::Elementwise;
const REDUCE: Special = Special::Reduce;

const fn all_reduce(paddle: &'static str, rules: &'static [Rule]) -> Mapping {
    row(paddle, "dist.all_reduce", X, OUT)
        .rules(rules)
        .special(Special::Collective)
}

/// Every Paddle op that is imported. Where several rows have the same `dist` op (and implied attributes), an op that was
/// not imported is exported as the first.
pub(super) static TABLE: &[Mapping] = &[
    // Linear
    row("matmul_v2", "dist.matmul", XY, OUT).rules(MATMUL),
    row("matmul_v2_grad", "dist.matmul_grad", GRAD_XY, GRADS_XY).rules(MATMUL),
    row(
        "fused_gemm_epilogue",
        "dist.fused_linear",
        &["X", "Y", "Bias"],
        &["Out"],
    )
    .rules(&[
        Bool("trans_x", "transpose_a"),
        Bool("trans_y", "transpose_b"),
        Implied("activation", T("none")),
        Always("activation", T("none")),
    ])
    .special(Special::Fused),
    row(
        "fused_gemm_epilogue_grad",
        "dist.fused_linear_grad",
        &["X", "Y", "DOut"],
        &["DX", "DY", "DBias"],
    )
    .rules(&[
        Bool("trans_x", "transpose_a"),
        Bool("trans_y", "transpose_b"),
        Implied("activation", T("none")),
        Implied("overwrite", B(false)),
        Always("activation_grad", T("none")),
    ])
    .special(Special::Fused),
    // Elementwise
    row("elementwise_add", "dist.add", XY, OUT).special(BINARY),
    row("elementwise_sub", "dist.sub", XY, OUT).special(BINARY),
    row("elementwise_mul", "dist.mul", XY, OUT).special(BINARY),
    row("elementwise_div", "dist.div", XY, OUT).special(BINARY),
    row("elementwise_max", "dist.maximum", XY, OUT).special(BINARY),
    row("elementwise_add_grad", "dist.add_grad", GRAD_XY, GRADS_XY).special(BINARY),
    row("elementwise_mul_grad", "dist.mul_grad", GRAD_XY, GRADS_XY).special(BINARY),
    row("scale", "dist.scale", X, OUT).rules(&[
        Float("scale", "scale"),
        Float("bias", "bias"),
        Bool("bias_after_scale", "bias_after_scale"),
    ]),
    row("cast", "dist.cast", X, OUT).special(Special::Cast),
    row("gelu", "dist.gelu", X, OUT).rules(APPROXIMATE),
    row("gelu_grad", "dist.gelu_grad", GRAD_X, GRADS_X).rules(APPROXIMATE),
    row("relu", "dist.relu", X, OUT),
    row("relu_grad", "dist.relu_grad", &["Out", "Out@GRAD"], GRADS_X),
    row("sqrt", "dist.sqrt", X, OUT),
    row("clip", "dist.clip", X, OUT).rules(&[Float("min", "min"), Float("max", "max")]),
    row("assign", "dist.identity", X, OUT),
    row("nop", "dist.identity", X, OUT),
    row("memcpy_d2h", "dist.identity", X, OUT),
    row("sum", "dist.sum", X, OUT),
    row("logical_or", "dist.any_of", XY, OUT).special(Special::AnyOf),
    // Shape
    row("softmax", "dist.softmax", X, OUT).special(Special::Dim),
    row(
        "softmax_grad",
        "dist.softmax_grad",
        &["Out", "Out@GRAD"],
        GRADS_X,
    )
    .special(Special::Dim),
    row("slice", "dist.slice", &["Input"], OUT).special(Special::Slice),
    row("concat", "dist.concat", X, OUT).special(Special::Dim),
    row("split", "dist.split", X, OUT).special(Special::Split),
    row("stack", "dist.stack", X, &["Y"]).special(Special::Dim),
    // Reductions
    row("reduce_sum", "dist.reduce_sum", X, OUT).special(REDUCE),
    row("reduce_mean", "dist.reduce_mean", X, OUT).special(REDUCE),
    row("reduce_max", "dist.reduce_max", X, OUT).special(REDUCE),
    row("reduce_any", "dist.reduce_any", X, OUT).special(REDUCE),
    row("reduce_sum_grad", "dist.reduce_sum_grad", GRAD_X, GRADS_X).special(REDUCE),
    row("reduce_mean_grad", "dist.reduce_mean_grad", GRAD_X, GRADS_X).special(REDUCE),
    // Constants and random numbers
    row("fill_constant", "dist.fill", &[], OUT).special(Special::Fill),
    row("uniform_random", "dist.uniform", &[], OUT)
        .rules(&[
            Float("min", "min"),
            Float("max", "max"),
            Int("seed", "seed"),
            Require("diag_num", I(0)),
        ])
        .special(Special::Random),
    row("gaussian_random", "dist.gaussian", &[], OUT)
        .rules(&[
            Float("mean", "mean"),
            Float("std", "std"),
            Int("seed", "seed"),
        ])
        .special(Special::Random),
    // Normalisation
    row(
        "layer_norm",
        "dist.layer_norm",
        &["X", "Scale", "Bias"],
        &["Y", "Mean", "Variance"],
    )
    .rules(LAYER_NORM),
    row(
        "layer_norm_grad",
        "dist.layer_norm_grad",
        &["X", "Scale", "Bias", "Mean", "Variance", "Y@GRAD"],
        &["X@GRAD", "Scale@GRAD", "Bias@GRAD"],
    )
    .rules(LAYER_NORM),
    // Collectives
    all_reduce("c_allreduce_sum", &[Implied("reduction", T("sum"))]),
    all_reduce("mp_allreduce_sum", &[Implied("reduction", T("sum"))]),
    all_reduce("c_allreduce_max", &[Implied("reduction", T("max"))]),
    all_reduce("c_allreduce_min", &[Implied("reduction", T("min"))]),
    all_reduce("c_allreduce_prod", &[Implied("reduction", T("prod"))]),
    all_reduce("c_allreduce_avg", &[Implied("reduction", T("avg"))]),
    row("c_reducescatter", "dist.reduce_scatter", X, OUT)
        .rules(&[Implied("reduction", T("sum")), Implied("dim", I(0))])
        .special(Special::Collective),
    row("c_allgather", "dist.all_gather", X, OUT)
        .rules(&[Implied("dim", I(0))])
        .special(Special::Collective),
    row("c_broadcast", "dist.broadcast", X, OUT)
        .rules(&[Int("root", "root")])
        .special(Special::Collective),
    row("broadcast", "dist.broadcast", &["x"], &["out"])
        .rules(&[Int("root", "root")])
        .special(Special::Collective),
    // Mixed precision and clipping
    row(
        "check_finite_and_unscale",
        "dist.check_finite_and_unscale",
        &["X", "Scale"],
        &["Out", "FoundInfinite"],
    )
    .special(Special::CheckFinite),
    row(
        "update_loss_scaling",
        "dist.update_loss_scaling",
        &[
            "X",
            "FoundInfinite",
            "PrevLossScaling",
            "InGoodSteps",
            "InBadSteps",
        ],
        &["Out", "LossScaling", "OutGoodSteps", "OutBadSteps"],
    )
    .rules(&[
        Int("incr_every_n_steps", "incr_every_n_steps"),
        Int("decr_every_n_nan_or_inf", "decr_every_n_nan_or_inf"),
        Float("incr_ratio", "incr_ratio"),
        Float("decr_ratio", "decr_ratio"),
        Bool("stop_update", "stop_update"),
    ])
    .special(Special::UpdateScaling),
    row("squared_l2_norm", "dist.squared_l2_norm", X, OUT),
    row("clip_by_norm", "dist.clip_by_norm", X, OUT).rules(&[Float("max_norm", "max_norm")]),
    // Optimizers
    row(
        "sgd",
        "dist.sgd",
        &["Param", "Grad", "LearningRate", "MasterParam"],
        &["ParamOut", "MasterParamOut"],
    )
    .special(Special::Optimizer),
    row("momentum", "dist.momentum", MOMENTUM_IN, MOMENTUM_OUT)
        .rules(MOMENTUM)
        .special(Special::Momentum),
    row(
        "merged_momentum",
        "dist.merged_momentum",
        MOMENTUM_IN,
        MOMENTUM_OUT,
    )
    .rules(MOMENTUM)
    .special(Special::MergedMomentum),
    row(
        "dgc_momentum",
        "dist.dgc_momentum",
        &[
            "Param",
            "Grad",
            "Velocity",
            "LearningRate",
            "MasterParam",
            "current_step",
            "nranks",
        ],
        &["ParamOut", "VelocityOut", "MasterParamOut", "Grad_out"],
    )
    .rules(&[
        Float("mu", "mu"),
        Bool("use_nesterov", "use_nesterov"),
        Float("rescale_grad", "rescale_grad"),
        Float("rampup_begin_step", "rampup_begin_step"),
    ])
    .special(Special::Momentum),
    row(
        "lars_momentum",
        "dist.lars_momentum",
        MOMENTUM_IN,
        MOMENTUM_OUT,
    )
    .rules(&[
        Float("mu", "mu"),
        Float("lars_coeff", "lars_coeff"),
        Float("epsilon", "epsilon"),
        Float("rescale_grad", "rescale_grad"),
        Given("local_norms", B(true)),
    ])
    .special(Special::LarsMomentum),
    row("lamb", "dist.lamb", ADAM_IN, ADAM_OUT)
        .rules(LAMB)
        .special(Special::Optimizer),
    row(
        "decayed_adagrad",
        "dist.decayed_adagrad",
        &["Param", "Grad", "Moment", "LearningRate"],
        &["ParamOut", "MomentOut"],
    )
    .rules(&[Float("decay", "decay"), Float("epsilon", "epsilon")])
    .special(Special::Optimizer),
    row("adam", "dist.adam", ADAM_IN, ADAM_OUT)
        .rules(BETAS)
        .special(Special::Optimizer),
    row("adamw", "dist.adamw", ADAM_IN, ADAM_OUT)
        .rules(ADAMW)
        .special(Special::Optimizer),
    row(
        "adamax",
        "dist.adamax",
        &[
            "Param",
            "Grad",
            "Moment",
            "InfNorm",
            "Beta1Pow",
            "LearningRate",
            "MasterParam",
        ],
        &["ParamOut", "MomentOut", "InfNormOut", "MasterParamOut"],
    )
    .rules(&[
        Float("beta1", "beta1"),
        Float("beta2", "beta2"),
        Float("epsilon", "epsilon"),
    ])
    .special(Special::Optimizer),
];
