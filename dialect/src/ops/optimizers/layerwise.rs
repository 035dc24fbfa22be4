//! Optimizers that adapt the learning rate of each parameter to its norm.
//!
//! The norm is that of the tensor the rank holds. Where ranks hold pieces of a parameter it would be the piece's, and the ranks
//! would take steps of different length; that has to be asked for.

use super::{
    ADAM_OPERANDS, ADAM_RESULTS, BETA1, BETA2, EPSILON, GRAD, GROUP, LR, MASTER, MU, NEW_MASTER,
    NEW_PARAM, OPTIMIZER, PARAM, RESCALE, infer_adam, infer_momentum, layout_adam, layout_momentum,
};
use crate::error::Error;
use crate::layout::{Layout, Spread};
use crate::ops::parts::{attr, flag, one};
use crate::ops::rules::LayoutCx;
use crate::ops::{AttrDef, AttrKind, OpDef};
use crate::reference;

const LOCAL_NORMS: AttrDef = flag(
    "local_norms",
    "a rank that holds a piece of the parameter takes the piece's norm, as Paddle does; otherwise the parameter must not be cut",
);

/// `dist.lamb`
pub const LAMB: OpDef = OpDef {
    name: "dist.lamb",
    summary: "Adam with layer-wise adaptive rates",
    description: "\
`m₁ = β₁ m₁ + (1 − β₁) g`; `m₂ = β₂ m₂ + (1 − β₂) g²`; `r = (m₁/(1 − β₁ᵗ)) / (√(m₂/(1 − β₂ᵗ)) + epsilon) + weight_decay · param`; \
`param −= lr · (‖param‖/‖r‖) · r`, where `βᵗ` are the incoming powers; then each power is multiplied by its β. If either norm is 0, \
or if there is no decay and `always_adapt` is not set, the quotient of norms is 1 (You et al., 2020, algorithm 2; Paddle's lamb \
kernel).",
    operands: ADAM_OPERANDS,
    results: ADAM_RESULTS,
    attrs: &[
        BETA1,
        BETA2,
        EPSILON,
        attr("weight_decay", AttrKind::F64, "the coefficient of decay"),
        flag("always_adapt", "adapt the rate without decay, too"),
        LOCAL_NORMS,
    ],
    infer: Some(infer_adam),
    eval: Some(reference::optimizers::lamb),
    layout: Some(layout_lamb),
    ..OPTIMIZER
};

/// `dist.lars_momentum`
pub const LARS_MOMENTUM: OpDef = OpDef {
    name: "dist.lars_momentum",
    summary: "momentum with layer-wise adaptive rates",
    description: "\
`g = rescale_grad · grad`; `rate = lr · lars_coeff · ‖param‖ / (‖g‖ + lars_weight_decay · ‖param‖ + epsilon)`, or `lr` if the decay or \
either norm is 0; `new_velocity = mu · velocity + rate · (g + lars_weight_decay · param)`; `new_param = param − new_velocity` (You, \
Gitman and Ginsburg, 2017, algorithm 1; Paddle's lars_momentum kernel). One op per tensor; `group` says which belong together.",
    operands: &[PARAM, GRAD, one("velocity", "param's shape"), LR, MASTER],
    results: &[
        NEW_PARAM,
        one("new_velocity", "velocity's type"),
        NEW_MASTER,
    ],
    attrs: &[
        GROUP,
        MU,
        attr("lars_coeff", AttrKind::F64, "the trust coefficient η"),
        attr(
            "lars_weight_decay",
            AttrKind::F64,
            "weight of the parameter in its gradient, not below 0",
        ),
        attr("epsilon", AttrKind::F64, "keeps the quotient finite"),
        RESCALE,
        LOCAL_NORMS,
    ],
    infer: Some(infer_momentum),
    eval: Some(reference::optimizers::lars_momentum),
    layout: Some(layout_lars_momentum),
    ..OPTIMIZER
};

/// Refuses a parameter that is cut, unless norms of pieces are asked for.
fn whole_norms(cx: &LayoutCx) -> Result<(), Error> {
    if cx.attrs.bool("local_norms")? {
        return Ok(());
    }
    cx.per_axis(|ax| {
        if let Spread::Sharded(dim) = ax.spread("param")? {
            return Err(Error::op(
                "E0340",
                format!(
                    "takes the norm of 'param', of which each rank holds a piece (dimension {dim} is cut along axis '{}')",
                    ax.axis_name()
                ),
            )
            .with_help(
                "gather the parameter first, or take the norm of each piece with `local_norms = true`",
            ));
        }
        Ok(vec![])
    })
    .map(|_| ())
}

fn layout_lamb(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    whole_norms(cx)?;
    layout_adam(cx)
}

fn layout_lars_momentum(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    whole_norms(cx)?;
    layout_momentum(cx)
}
