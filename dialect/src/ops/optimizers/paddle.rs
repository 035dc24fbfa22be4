//! Variants of momentum and Adagrad that Paddle has as ops of their own.

use super::{
    GRAD, GROUP, L2_DECAY, LR, MASTER, MU, NESTEROV, NEW_MASTER, NEW_PARAM, OPTIMIZER, PARAM,
    RESCALE, infer_momentum, layout_momentum, layout_optimizer, optimizer,
};
use crate::error::Error;
use crate::layout::Layout;
use crate::ops::infer::{expect_float, expect_one_element};
use crate::ops::parts::{attr, one, optional};
use crate::ops::rules::LayoutCx;
use crate::ops::{AttrKind, InferCx, OpDef};
use crate::reference;
use crate::tensor_type::TensorType;

/// `dist.merged_momentum`
pub const MERGED_MOMENTUM: OpDef = OpDef {
    name: "dist.merged_momentum",
    summary: "gradient descent with momentum, one of several parameters of one kernel",
    description: "\
As `dist.momentum`. Paddle's merged_momentum updates many parameters in one kernel; here each has an op of its own, and `group` \
says which belong together.",
    operands: &[PARAM, GRAD, one("velocity", "param's shape"), LR, MASTER],
    results: &[
        NEW_PARAM,
        one("new_velocity", "velocity's type"),
        NEW_MASTER,
    ],
    attrs: &[GROUP, MU, NESTEROV, L2_DECAY, RESCALE],
    infer: Some(infer_momentum),
    eval: Some(reference::optimizers::momentum),
    layout: Some(layout_momentum),
    ..OPTIMIZER
};

/// `dist.dgc_momentum`
pub const DGC_MOMENTUM: OpDef = OpDef {
    name: "dist.dgc_momentum",
    summary: "momentum until deep gradient compression begins, then plain descent",
    description: "\
`g = grad / nranks`, for compressed gradients are summed over the ranks. While `current_step`, rounded towards 0, is below \
`rampup_begin_step`, rounded likewise: `dist.momentum` with g. From then on the momentum is applied to the local gradients before \
they are compressed, and here `new_param = param − lr · g`; the velocity stays. `new_grad` is g (Lin et al., 2018, section 3; \
Paddle's dgc_momentum kernel).",
    operands: &[
        PARAM,
        GRAD,
        one("velocity", "param's shape"),
        LR,
        MASTER,
        one("current_step", "number of the step, one element"),
        one(
            "nranks",
            "ranks that the gradient was summed over, one element",
        ),
    ],
    results: &[
        NEW_PARAM,
        one("new_velocity", "velocity's type"),
        NEW_MASTER,
        optional("new_grad", "the gradient's type"),
    ],
    attrs: &[
        MU,
        NESTEROV,
        L2_DECAY,
        RESCALE,
        attr(
            "rampup_begin_step",
            AttrKind::F64,
            "the first step with compressed gradients, not below 0",
        ),
    ],
    infer: Some(infer_dgc_momentum),
    eval: Some(reference::optimizers::dgc_momentum),
    layout: Some(layout_momentum),
    ..OPTIMIZER
};

/// `dist.decayed_adagrad`
pub const DECAYED_ADAGRAD: OpDef = OpDef {
    name: "dist.decayed_adagrad",
    summary: "Adagrad that forgets",
    description: "\
`moment = decay · moment + (1 − decay) · g²`; `param −= lr · g / (√moment + epsilon)` (Duchi, Hazan and Singer, 2011, section 1.1, \
with a decaying sum; Paddle's decayed_adagrad kernel).",
    operands: &[
        PARAM,
        GRAD,
        one("moment", "decayed sum of squares, param's shape"),
        LR,
    ],
    results: &[NEW_PARAM, one("new_moment", "moment's type")],
    attrs: &[
        attr(
            "decay",
            AttrKind::F64,
            "how much of the sum stays, in [0, 1)",
        ),
        attr("epsilon", AttrKind::F64, "keeps the quotient finite"),
    ],
    infer: Some(infer_decayed_adagrad),
    eval: Some(reference::optimizers::decayed_adagrad),
    layout: Some(layout_decayed_adagrad),
    ..OPTIMIZER
};

fn infer_dgc_momentum(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    for name in ["current_step", "nranks"] {
        expect_float(name, cx.args.one(name)?)?;
        expect_one_element(name, cx.args.one(name)?)?;
    }
    let begin = cx.attrs.float("rampup_begin_step")?;
    if begin.is_nan() || begin < 0.0 {
        return Err(Error::op(
            "E0306",
            format!("attribute 'rampup_begin_step' must not be below 0, but is {begin}"),
        ));
    }
    let mut results = infer_momentum(cx)?;
    if cx.wants("new_grad") {
        results.push(cx.args.one("grad")?.clone());
    }
    Ok(results)
}

fn infer_decayed_adagrad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    optimizer(cx, &["moment"], &[])
}

fn layout_decayed_adagrad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_optimizer(cx, &["moment"], &[])
}
