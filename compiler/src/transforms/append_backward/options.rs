//! What the pass can be told.

use raddle_dialect::DType;
use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::Loc;

use super::optimizers::{self, Hyper, Rule};
use super::program::Step;
use crate::pass::{Failed, OptionDef, OptionKind, PassCx, PassOptions};

const fn number(name: &'static str, default: &'static str, doc: &'static str) -> OptionDef {
    OptionDef {
        name,
        kind: OptionKind::Number,
        default,
        doc,
    }
}

const fn count(name: &'static str, default: &'static str, doc: &'static str) -> OptionDef {
    OptionDef {
        name,
        kind: OptionKind::Count,
        default,
        doc,
    }
}

const fn flag(name: &'static str, doc: &'static str) -> OptionDef {
    OptionDef {
        name,
        kind: OptionKind::Flag,
        default: "false",
        doc,
    }
}

const fn word(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
    doc: &'static str,
) -> OptionDef {
    OptionDef {
        name,
        kind: OptionKind::Word(words),
        default,
        doc,
    }
}

/// The options.
pub const DEFS: &[OptionDef] = &[
    OptionDef {
        name: "loss",
        kind: OptionKind::Text,
        default: "auto",
        doc: "the value to differentiate: its name in the printed module (%12), or auto: the only float scalar that the step returns",
    },
    word(
        "optimizer",
        optimizers::WORDS,
        "adamw",
        "what updates the parameters; none leaves the reduced gradients in buffers @PARAMETER_grad",
    ),
    word(
        "mean",
        &["avg", "scaled"],
        "avg",
        "how gradients are averaged over the axes of which the loss is the mean: by an all_reduce avg, or by an all_reduce sum and a scale, as Paddle does",
    ),
    number("lr", "0.001", "what init sets the learning rate to"),
    number("beta1", "0.9", "decay of the first moment"),
    number("beta2", "0.999", "decay of the second moment"),
    number("epsilon", "1e-8", "keeps quotients finite"),
    number("weight-decay", "0.01", "coefficient of decay"),
    word(
        "decay",
        &["matrices", "all"],
        "matrices",
        "which parameters decay: those of rank 2 or more, or all",
    ),
    number("momentum", "0.9", "momentum factor"),
    flag("nesterov", "momentum looks ahead"),
    number(
        "sum-decay",
        "0.95",
        "how much of decayed-adagrad's sum of squares stays",
    ),
    number("trust", "0.001", "the trust coefficient of lars-momentum"),
    flag(
        "local-norms",
        "lamb and lars-momentum take the norm of each rank's piece of a parameter; without it they refuse parameters that are cut",
    ),
    number(
        "compress-from",
        "0.0",
        "the first step whose gradients dgc-momentum takes as compressed",
    ),
    word(
        "clip",
        &["none", "global-norm", "norm", "value"],
        "none",
        "how gradients are limited: by the norm of all of them, by each one's norm, or element by element",
    ),
    number("clip-limit", "1.0", "the largest norm or absolute value"),
    flag(
        "clip-stack",
        "sum squared norms by stack and reduce_sum, as Paddle does from version 2.6 on",
    ),
    word(
        "loss-scaling",
        &["auto", "none", "static", "dynamic"],
        "auto",
        "whether the loss is scaled and overflows are looked for; auto: as apply-amp says",
    ),
    number(
        "loss-scale",
        "65536.0",
        "the scale, or what a dynamic one starts at",
    ),
    count(
        "incr-every",
        "2000",
        "steps without overflow before the scale grows",
    ),
    count(
        "decr-every",
        "1",
        "overflows in a row before the scale shrinks",
    ),
    number("incr-ratio", "2.0", "growth factor of the scale"),
    number("decr-ratio", "0.5", "shrink factor of the scale"),
    flag(
        "master-grad",
        "gradients are converted to f32 before clipping and update",
    ),
    word(
        "accumulate",
        &["f32", "bf16", "f16", "f64"],
        "f32",
        "element type of the buffers that gather micro-batches",
    ),
];

/// How gradients are limited.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Clip {
    None,
    GlobalNorm,
    Norm,
    Value,
}

/// Whether and how the loss is scaled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scaling {
    /// As the program says.
    Auto,
    None,
    Static,
    Dynamic,
}

impl Scaling {
    pub fn parse(word: &str) -> Self {
        match word {
            "static" => Self::Static,
            "dynamic" => Self::Dynamic,
            "none" => Self::None,
            _ => Self::Auto,
        }
    }
}

/// The options, read.
#[derive(Clone, Debug)]
pub struct Options {
    pub loss: String,
    /// None: gradients only.
    pub optimizer: Option<&'static Rule>,
    pub hyper: Hyper,
    /// Means are sums that are scaled.
    pub scaled_means: bool,
    pub clip: Clip,
    pub clip_limit: f64,
    pub clip_stack: bool,
    pub scaling: Scaling,
    pub loss_scale: f64,
    pub incr_every: i64,
    pub decr_every: i64,
    pub incr_ratio: f64,
    pub decr_ratio: f64,
    pub master_grad: bool,
    pub accumulate: DType,
}

impl Options {
    pub fn read(options: &PassOptions) -> Self {
        let int = |name| i64::try_from(options.count(name)).unwrap_or(i64::MAX);
        Self {
            loss: options.text("loss").into(),
            optimizer: optimizers::find(options.text("optimizer")),
            hyper: Hyper {
                lr: options.number("lr"),
                beta1: options.number("beta1"),
                beta2: options.number("beta2"),
                epsilon: options.number("epsilon"),
                weight_decay: options.number("weight-decay"),
                decay_all: options.text("decay") == "all",
                momentum: options.number("momentum"),
                nesterov: options.flag("nesterov"),
                sum_decay: options.number("sum-decay"),
                trust: options.number("trust"),
                local_norms: options.flag("local-norms"),
                compress_from: options.number("compress-from"),
            },
            scaled_means: options.text("mean") == "scaled",
            clip: match options.text("clip") {
                "global-norm" => Clip::GlobalNorm,
                "norm" => Clip::Norm,
                "value" => Clip::Value,
                _ => Clip::None,
            },
            clip_limit: options.number("clip-limit"),
            clip_stack: options.flag("clip-stack"),
            scaling: Scaling::parse(options.text("loss-scaling")),
            loss_scale: options.number("loss-scale"),
            incr_every: int("incr-every"),
            decr_every: int("decr-every"),
            incr_ratio: options.number("incr-ratio"),
            decr_ratio: options.number("decr-ratio"),
            master_grad: options.flag("master-grad"),
            accumulate: DType::parse(options.text("accumulate")).unwrap_or(DType::F32),
        }
    }

    /// Whether a step's loss is scaled. Gradients that nothing updates with are not.
    pub fn scaling(&self, step: &Step) -> Scaling {
        match self.scaling {
            _ if self.optimizer.is_none() => Scaling::None,
            Scaling::Auto => step.scaling,
            scaling => scaling,
        }
    }

    /// Numbers must make sense.
    ///
    /// # Errors
    /// After reporting those that do not.
    pub fn check(&self, loc: Loc, cx: &mut PassCx) -> Result<(), Failed> {
        let h = &self.hyper;
        let fraction = |v: f64| (0.0..1.0).contains(&v);
        let rules = [
            ("lr", "not negative", h.lr >= 0.0),
            ("beta1", "in [0, 1)", fraction(h.beta1)),
            ("beta2", "in [0, 1)", fraction(h.beta2)),
            ("epsilon", "not negative", h.epsilon >= 0.0),
            ("weight-decay", "not negative", h.weight_decay >= 0.0),
            ("sum-decay", "in [0, 1)", fraction(h.sum_decay)),
            ("compress-from", "not negative", h.compress_from >= 0.0),
            ("clip-limit", "above 0", self.clip_limit > 0.0),
            ("loss-scale", "above 0", self.loss_scale > 0.0),
            ("incr-every", "above 0", self.incr_every > 0),
            ("decr-every", "above 0", self.decr_every > 0),
            ("incr-ratio", "above 1", self.incr_ratio > 1.0),
            (
                "decr-ratio",
                "between 0 and 1",
                self.decr_ratio > 0.0 && self.decr_ratio < 1.0,
            ),
        ];
        let mut result = Ok(());
        for (name, wanted, _) in rules.iter().filter(|r| !r.2) {
            let message = format!("option '{name}' of append-backward must be {wanted}");
            cx.report(Diagnostic::error("E0620", loc, message));
            result = Err(Failed);
        }
        result
    }
}
