//! Optimizers. They are pure: all state goes in as operands and comes out as results.
//!
//! Those that take the norm of a parameter are in `layerwise`, those of Paddle's that differ from a textbook's in form only in
//! `paddle`.

mod layerwise;
mod paddle;

pub use layerwise::{LAMB, LARS_MOMENTUM};
pub use paddle::{DECAYED_ADAGRAD, DGC_MOMENTUM, MERGED_MOMENTUM};

use super::infer::{expect_flags, expect_float, expect_one_element, same_shape};
use super::parts::{attr, attr_or, flag, one, optional};
use super::rules::{LayoutCx, Term, labels};
use super::{
    AttrDef, AttrDefault, AttrKind, Effects, Group, InferCx, OpDef, Pretty, TypeShape, Uniform,
};
use crate::error::Error;
use crate::layout::{Layout, Reduction, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

const PARAM: Group = one("param", "the parameter");
const GRAD: Group = one("grad", "its gradient, param's shape");
const LR: Group = one("lr", "learning rate, one element");
const MASTER: Group = optional(
    "master",
    "f32 copy of the parameter: read instead of param, whose new value is its cast",
);
const SKIP: Group = optional("skip_update", "one `i1` element: if set, nothing changes");
const NEW_PARAM: Group = one("new_param", "param's type");
const NEW_MASTER: Group = optional("new_master", "master's type; present if master is");

/// What optimizers share.
const OPTIMIZER: OpDef = OpDef {
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature)),
    no_gradient: Some("it updates a parameter, after gradients are taken"),
    ..OpDef::NONE
};

/// `dist.sgd`
pub const SGD: OpDef = OpDef {
    name: "dist.sgd",
    summary: "stochastic gradient descent",
    description: "`new_param = param − lr · grad`.",
    operands: &[PARAM, GRAD, LR, MASTER],
    results: &[NEW_PARAM, NEW_MASTER],
    infer: Some(infer_sgd),
    eval: Some(reference::optimizers::sgd),
    layout: Some(layout_sgd),
    ..OPTIMIZER
};

const MU: AttrDef = attr("mu", AttrKind::F64, "momentum factor");
const NESTEROV: AttrDef = flag("use_nesterov", "look ahead");
const L2_DECAY: AttrDef = attr_or(
    "l2_decay",
    AttrKind::F64,
    AttrDefault::F64(0.0),
    "weight of the parameter in its gradient",
);
const RESCALE: AttrDef = attr_or(
    "rescale_grad",
    AttrKind::F64,
    AttrDefault::F64(1.0),
    "factor on the gradient",
);
const GROUP: AttrDef = attr(
    "group",
    AttrKind::I64,
    "ops with the same number were one op of the imported program",
);

/// `dist.momentum`
pub const MOMENTUM: OpDef = OpDef {
    name: "dist.momentum",
    summary: "gradient descent with momentum",
    description: "\
`g = rescale_grad · grad + l2_decay · param`; `new_velocity = mu · velocity + g`; `new_param = param − lr · new_velocity`, or \
`param − lr · (g + mu · new_velocity)` with `use_nesterov` (Paddle's momentum kernel).",
    operands: &[PARAM, GRAD, one("velocity", "param's shape"), LR, MASTER],
    results: &[
        NEW_PARAM,
        one("new_velocity", "velocity's type"),
        NEW_MASTER,
    ],
    attrs: &[MU, NESTEROV, L2_DECAY, RESCALE],
    infer: Some(infer_momentum),
    eval: Some(reference::optimizers::momentum),
    layout: Some(layout_momentum),
    ..OPTIMIZER
};

const ADAM_OPERANDS: &[Group] = &[
    PARAM,
    GRAD,
    one("moment1", "mean of gradients, param's shape"),
    one("moment2", "mean of squares, param's shape"),
    one("beta1_pow", "β₁ to the number of the step, one element"),
    one("beta2_pow", "β₂ to the number of the step, one element"),
    LR,
    SKIP,
    MASTER,
];
const ADAM_RESULTS: &[Group] = &[
    NEW_PARAM,
    one("new_moment1", "moment1's type"),
    one("new_moment2", "moment2's type"),
    one("new_beta1_pow", "beta1_pow's type"),
    one("new_beta2_pow", "beta2_pow's type"),
    NEW_MASTER,
];
const BETA1: AttrDef = attr(
    "beta1",
    AttrKind::F64,
    "decay of the first moment, in [0, 1)",
);
const BETA2: AttrDef = attr(
    "beta2",
    AttrKind::F64,
    "decay of the second moment, in [0, 1)",
);
const EPSILON: AttrDef = attr("epsilon", AttrKind::F64, "keeps the quotient finite");

/// `dist.adam`
pub const ADAM: OpDef = OpDef {
    name: "dist.adam",
    summary: "Adam",
    description: "\
`m₁ = β₁ m₁ + (1 − β₁) g`; `m₂ = β₂ m₂ + (1 − β₂) g²`; `param −= lr · √(1 − β₂ᵗ)/(1 − β₁ᵗ) · m₁/(√m₂ + epsilon · √(1 − β₂ᵗ))`, where \
`βᵗ` are the incoming powers; then each power is multiplied by its β (Kingma and Ba, 2015, section 2; Paddle's adam kernel).",
    operands: ADAM_OPERANDS,
    results: ADAM_RESULTS,
    attrs: &[BETA1, BETA2, EPSILON],
    infer: Some(infer_adam),
    eval: Some(reference::optimizers::adam),
    layout: Some(layout_adam),
    ..OPTIMIZER
};

/// `dist.adamw`
pub const ADAMW: OpDef = OpDef {
    name: "dist.adamw",
    summary: "Adam with decoupled weight decay",
    description: "\
As `dist.adam` with learning rate `lr · lr_ratio`, after `param ·= 1 − lr · lr_ratio · weight_decay` (Loshchilov and Hutter, 2019, \
algorithm 2; Paddle's adamw kernel). Without `with_decay` it is `dist.adam`, and `lr_ratio` is not read.",
    operands: ADAM_OPERANDS,
    results: ADAM_RESULTS,
    attrs: &[
        BETA1,
        BETA2,
        EPSILON,
        attr("weight_decay", AttrKind::F64, "the coefficient of decay"),
        attr_or(
            "lr_ratio",
            AttrKind::F64,
            AttrDefault::F64(1.0),
            "factor on the learning rate",
        ),
        attr_or(
            "with_decay",
            AttrKind::Bool,
            AttrDefault::Bool(true),
            "whether to decay",
        ),
    ],
    infer: Some(infer_adam),
    eval: Some(reference::optimizers::adamw),
    layout: Some(layout_adam),
    ..OPTIMIZER
};

/// `dist.adamax`
pub const ADAMAX: OpDef = OpDef {
    name: "dist.adamax",
    summary: "Adam with the infinity norm",
    description: "\
`m = β₁ m + (1 − β₁) g`; `u = max(β₂ u + epsilon, |g|)`; `param −= lr/(1 − β₁ᵗ) · m/u` (Kingma and Ba, 2015, section 7.1; Paddle's adamax \
kernel). The power of β₁ is advanced by a `dist.scale` of its own.",
    operands: &[
        PARAM,
        GRAD,
        one("moment", "mean of gradients, param's shape"),
        one("inf_norm", "decayed infinity norm, param's shape"),
        one("beta1_pow", "β₁ to the number of the step, one element"),
        LR,
        MASTER,
    ],
    results: &[
        NEW_PARAM,
        one("new_moment", "moment's type"),
        one("new_inf_norm", "inf_norm's type"),
        NEW_MASTER,
    ],
    attrs: &[BETA1, BETA2, EPSILON],
    infer: Some(infer_adamax),
    eval: Some(reference::optimizers::adamax),
    layout: Some(layout_adamax),
    ..OPTIMIZER
};

/// Checks an optimizer: `state` has the parameter's shape, `powers` hold one element.
fn optimizer(cx: &InferCx, state: &[&str], powers: &[&str]) -> Result<Vec<TensorType>, Error> {
    for name in ["grad"].iter().chain(state) {
        expect_float(name, cx.args.one(name)?)?;
        same_shape(cx, "param", name)?;
    }
    for name in ["lr"].iter().chain(powers) {
        expect_float(name, cx.args.one(name)?)?;
        expect_one_element(name, cx.args.one(name)?)?;
    }
    if let Some(skip) = cx.args.optional("skip_update") {
        expect_flags("skip_update", skip)?;
        expect_one_element("skip_update", skip)?;
    }
    if let Some(master) = cx.args.optional("master") {
        expect_float("master", master)?;
        same_shape(cx, "param", "master")?;
    }
    expect_float("param", cx.args.one("param")?)?;
    if cx.args.has("master") != cx.wants("new_master") {
        return Err(Error::op(
            "E0304",
            "needs the operand 'master' and the result 'new_master' together, or neither",
        ));
    }
    let names = ["param"].into_iter();
    let names = names
        .chain(state.iter().copied())
        .chain(powers.iter().copied());
    let mut results = Vec::new();
    for name in names {
        results.push(cx.args.one(name)?.clone());
    }
    results.extend(cx.args.optional("master").cloned());
    Ok(results)
}

fn infer_sgd(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    optimizer(cx, &[], &[])
}

fn infer_momentum(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    optimizer(cx, &["velocity"], &[])
}

fn infer_adam(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    optimizer(cx, &["moment1", "moment2"], &["beta1_pow", "beta2_pow"])
}

fn infer_adamax(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let power = cx.args.one("beta1_pow")?;
    expect_float("beta1_pow", power)?;
    expect_one_element("beta1_pow", power)?;
    optimizer(cx, &["moment", "inf_norm"], &[])
}

/// Parameter, gradient and state are cut alike; all else is whole. A parameter that only some ranks along an axis own (partial over it)
/// has a gradient of its own there.
fn layout_optimizer(
    cx: &LayoutCx,
    state: &'static [&'static str],
    powers: &'static [&'static str],
) -> Result<Vec<Layout>, Error> {
    const OWNED: Spread = Spread::Partial(Reduction::Sum);
    let all = labels(cx.args.one("param")?.ty.rank());
    let masters = usize::from(cx.args.has("master"));
    let gradients = usize::from(cx.results.has("new_grad"));
    cx.per_axis(|ax| {
        let others = [
            "lr",
            "skip_update",
            "beta1_pow",
            "beta2_pow",
            "current_step",
            "nranks",
        ];
        for name in others.into_iter().filter(|n| cx.args.has(n)) {
            if ax.spread(name)? != OWNED || ax.spread("param")? != OWNED {
                ax.whole(name)?;
            }
        }
        let mut terms = vec![
            ax.term("param", all.clone())?,
            ax.term("grad", all.clone())?,
        ];
        for &name in state {
            terms.push(ax.term(name, all.clone())?);
        }
        if cx.args.has("master") {
            terms.push(ax.term("master", all.clone())?);
        }
        let owned = |t: &Term| t.spread == OWNED || t.spread == Spread::Replicated;
        let spread = match terms[0].spread {
            OWNED if terms.iter().all(owned) => OWNED,
            _ => ax.elementwise(&terms.iter().collect::<Vec<_>>(), &all)?,
        };
        let mut spreads = vec![spread; 1 + state.len()];
        for name in powers {
            spreads.push(ax.spread(name)?);
        }
        spreads.extend(vec![spread; masters + gradients]);
        Ok(spreads)
    })
}

fn layout_sgd(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_optimizer(cx, &[], &[])
}

fn layout_momentum(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_optimizer(cx, &["velocity"], &[])
}

fn layout_adam(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_optimizer(cx, &["moment1", "moment2"], &["beta1_pow", "beta2_pow"])
}

fn layout_adamax(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_optimizer(cx, &["moment", "inf_norm"], &[])
}

/// The family.
pub static OPS: &[OpDef] = &[
    SGD,
    MOMENTUM,
    MERGED_MOMENTUM,
    DGC_MOMENTUM,
    LARS_MOMENTUM,
    ADAM,
    ADAMW,
    ADAMAX,
    LAMB,
    DECAYED_ADAGRAD,
];
