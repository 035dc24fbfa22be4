//! Every gradient rule against difference quotients, in exact arithmetic, on all ranks of a mesh: rules, gradient ops and their layouts
//! are right together or not at all.

mod case;
mod collectives;
mod dice;
mod layers;
mod linear;
mod machine;
mod pointwise;
mod shape;

use std::collections::BTreeSet;

use case::Case;
use raddle_dialect::ops::{self, OpDef};

#[test]
fn linear_layers() {
    linear::cases().iter().for_each(Case::check);
}

#[test]
fn arithmetic_functions_and_reductions() {
    pointwise::cases().iter().for_each(Case::check);
}

#[test]
fn moved_elements() {
    shape::cases().iter().for_each(Case::check);
}

#[test]
fn layers_of_transformers() {
    layers::cases().iter().for_each(Case::check);
}

#[test]
fn collective_ops() {
    collectives::cases().iter().for_each(Case::check);
}

/// Ops that compute something from operands.
fn computing() -> impl Iterator<Item = &'static OpDef> {
    let all = ops::definitions();
    all.filter(|def| {
        let computes = def.eval.is_some() || def.combine.is_some();
        computes && !def.operands.is_empty()
    })
}

#[test]
fn every_op_has_a_rule_or_says_why_not() {
    for def in computing() {
        assert!(
            def.gradient.is_some() != def.no_gradient.is_some(),
            "{} needs a gradient rule, or a reason why it has none",
            def.name
        );
    }
}

#[test]
fn every_rule_and_gradient_op_is_checked() {
    let (mut forward, mut backward) = (BTreeSet::new(), BTreeSet::new());
    let families = [
        linear::cases(),
        pointwise::cases(),
        shape::cases(),
        layers::cases(),
        collectives::cases(),
    ];
    for case in families.iter().flatten() {
        let [first, second] = case.ops();
        forward.extend(first);
        backward.extend(second);
    }
    for def in computing() {
        if def.gradient.is_some() {
            assert!(
                forward.contains(def.name),
                "no case differentiates {}",
                def.name
            );
        }
        if def.name.ends_with("_grad") {
            assert!(backward.contains(def.name), "no case needs {}", def.name);
        }
    }
}
