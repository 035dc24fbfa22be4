//! What each optimizer needs: its op, its state and its attributes. One line in [`RULES`] adds one.

/// Numbers that optimizers take.
#[derive(Clone, Debug)]
pub struct Hyper {
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    pub weight_decay: f64,
    /// Whether parameters of rank 0 and 1 decay too.
    pub decay_all: bool,
    pub momentum: f64,
    pub nesterov: bool,
    /// How much of Adagrad's sum stays.
    pub sum_decay: f64,
    /// LARS's trust coefficient.
    pub trust: f64,
    /// Whether layer-wise rates take the norm of each rank's piece.
    pub local_norms: bool,
    /// The first step whose gradients are compressed.
    pub compress_from: f64,
}

/// An attribute of an optimizer op.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Setting {
    Float(f64),
    Int(i64),
    Bool(bool),
}

/// State of an optimizer: an operand group of its op.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The group, and what the global's name ends in.
    pub name: &'static str,
    pub shape: StateShape,
    /// What it starts as.
    pub init: fn(&Hyper) -> f64,
    /// What the op multiplies the state by itself, if the new value is no result of it.
    pub advanced: Option<fn(&Hyper) -> f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateShape {
    /// The parameter's shape and layout.
    Parameter,
    /// One number, the same on all ranks.
    Scalar,
}

/// An optimizer.
#[derive(Debug)]
pub struct Rule {
    /// As the option calls it.
    pub word: &'static str,
    pub op: &'static str,
    pub states: &'static [State],
    /// Attributes for a parameter of this rank.
    pub attrs: fn(&Hyper, usize) -> Vec<(&'static str, Setting)>,
}

/// What the option `optimizer` takes; `none` besides the rules.
pub const WORDS: &[&str] = &[
    "none",
    "sgd",
    "momentum",
    "adam",
    "adamw",
    "adamax",
    "decayed-adagrad",
    "lamb",
    "lars-momentum",
    "merged-momentum",
    "dgc-momentum",
];

const fn tensor(name: &'static str) -> State {
    State {
        name,
        shape: StateShape::Parameter,
        init: |_| 0.0,
        advanced: None,
    }
}

const fn power(name: &'static str, init: fn(&Hyper) -> f64) -> State {
    State {
        name,
        shape: StateShape::Scalar,
        init,
        advanced: None,
    }
}

const MOMENTS: &[State] = &[
    tensor("moment1"),
    tensor("moment2"),
    power("beta1_pow", |h| h.beta1),
    power("beta2_pow", |h| h.beta2),
];

/// Whether a parameter of this rank decays.
fn decays(h: &Hyper, rank: usize) -> bool {
    h.decay_all || rank >= 2
}

fn momentum(h: &Hyper, rank: usize) -> Vec<(&'static str, Setting)> {
    let decay = if decays(h, rank) { h.weight_decay } else { 0.0 };
    vec![
        ("mu", Setting::Float(h.momentum)),
        ("use_nesterov", Setting::Bool(h.nesterov)),
        ("l2_decay", Setting::Float(decay)),
    ]
}

fn betas(h: &Hyper) -> Vec<(&'static str, Setting)> {
    vec![
        ("beta1", Setting::Float(h.beta1)),
        ("beta2", Setting::Float(h.beta2)),
        ("epsilon", Setting::Float(h.epsilon)),
    ]
}

static RULES: &[Rule] = &[
    Rule {
        word: "sgd",
        op: "dist.sgd",
        states: &[],
        attrs: |_, _| vec![],
    },
    Rule {
        word: "momentum",
        op: "dist.momentum",
        states: &[tensor("velocity")],
        attrs: momentum,
    },
    Rule {
        word: "adam",
        op: "dist.adam",
        states: MOMENTS,
        attrs: |h, _| betas(h),
    },
    Rule {
        word: "adamw",
        op: "dist.adamw",
        states: MOMENTS,
        attrs: |h, rank| {
            let mut attrs = betas(h);
            attrs.push(("weight_decay", Setting::Float(h.weight_decay)));
            attrs.push(("with_decay", Setting::Bool(decays(h, rank))));
            attrs
        },
    },
    Rule {
        word: "adamax",
        op: "dist.adamax",
        states: &[
            tensor("moment"),
            tensor("inf_norm"),
            State {
                advanced: Some(|h| h.beta1),
                ..power("beta1_pow", |h| h.beta1)
            },
        ],
        attrs: |h, _| betas(h),
    },
    Rule {
        word: "decayed-adagrad",
        op: "dist.decayed_adagrad",
        states: &[tensor("moment")],
        attrs: |h, _| {
            vec![
                ("decay", Setting::Float(h.sum_decay)),
                ("epsilon", Setting::Float(h.epsilon)),
            ]
        },
    },
    Rule {
        word: "lamb",
        op: "dist.lamb",
        states: MOMENTS,
        attrs: |h, rank| {
            let decay = if decays(h, rank) { h.weight_decay } else { 0.0 };
            let mut attrs = betas(h);
            attrs.push(("weight_decay", Setting::Float(decay)));
            attrs.push(("local_norms", Setting::Bool(h.local_norms)));
            attrs
        },
    },
    Rule {
        word: "lars-momentum",
        op: "dist.lars_momentum",
        states: &[tensor("velocity")],
        attrs: |h, rank| {
            let decay = if decays(h, rank) { h.weight_decay } else { 0.0 };
            vec![
                ("group", Setting::Int(0)),
                ("mu", Setting::Float(h.momentum)),
                ("lars_coeff", Setting::Float(h.trust)),
                ("lars_weight_decay", Setting::Float(decay)),
                ("epsilon", Setting::Float(h.epsilon)),
                ("local_norms", Setting::Bool(h.local_norms)),
            ]
        },
    },
    Rule {
        word: "merged-momentum",
        op: "dist.merged_momentum",
        states: &[tensor("velocity")],
        attrs: |h, rank| {
            let mut attrs = momentum(h, rank);
            attrs.push(("group", Setting::Int(0)));
            attrs
        },
    },
    Rule {
        word: "dgc-momentum",
        op: "dist.dgc_momentum",
        states: &[tensor("velocity")],
        attrs: |h, rank| {
            let mut attrs = momentum(h, rank);
            attrs.push(("rampup_begin_step", Setting::Float(h.compress_from)));
            attrs
        },
    },
];

/// The optimizer of this word.
pub fn find(word: &str) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.word == word)
}

#[cfg(test)]
mod tests {
    use raddle_dialect::ir::Context;

    use super::*;

    #[test]
    fn every_word_has_a_rule_whose_states_are_operands_of_its_op() {
        let cx = Context::new();
        for word in WORDS.iter().filter(|w| **w != "none") {
            let rule = find(word).expect("a rule");
            let def = cx.op_def(cx.ident(rule.op)).expect("an op");
            for state in rule.states {
                assert!(
                    def.operand_group(state.name).is_some(),
                    "{word}: {}",
                    state.name
                );
                let result = def.result_group(&format!("new_{}", state.name));
                assert_eq!(result.is_none(), state.advanced.is_some(), "{word}");
            }
        }
        assert_eq!(WORDS.len(), RULES.len() + 1);
    }
}
