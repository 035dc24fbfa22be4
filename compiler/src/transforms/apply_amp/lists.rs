//! Which ops compute in the narrow type.

/// How much of a program is narrow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Products; all else follows its operands.
    O1,
    /// All but what needs range or precision; parameters too, with f32 copies that are updated.
    O2,
    /// All but the loss; parameters too, without copies.
    O3,
}

/// In which type an op computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The narrow type.
    Narrow,
    /// f32.
    Wide,
    /// As its operands come; parameters follow activations.
    Follow,
    /// Its operands stay what they were.
    Keep,
}

/// Products, which tensor cores compute: what level o1 is about.
const PRODUCTS: &[&str] = &["dist.matmul", "dist.fused_linear", "dist.attention"];

/// Ops that neither widen nor lose more than one rounding, so that their operands decide.
const FOLLOWING: &[&str] = &[
    "dist.add",
    "dist.sub",
    "dist.mul",
    "dist.maximum",
    "dist.scale",
    "dist.gelu",
    "dist.relu",
    "dist.silu",
    "dist.tanh",
    "dist.clip",
    "dist.identity",
    "dist.reshape",
    "dist.transpose",
    "dist.slice",
    "dist.concat",
    "dist.concat_pair",
    "dist.split",
    "dist.stack",
    "dist.dropout",
    "dist.all_reduce",
    "dist.reduce_scatter",
    "dist.all_gather",
    "dist.all_to_all",
    "dist.broadcast",
];

/// Ops that sum many elements or leave the narrow types' range: losses, statistics, exponentials.
const WIDE: &[&str] = &[
    "dist.softmax_cross_entropy",
    "dist.softmax",
    "dist.layer_norm",
    "dist.rms_norm",
    "dist.reduce_sum",
    "dist.reduce_mean",
    "dist.squared_l2_norm",
    "dist.exp",
    "dist.log",
    "dist.rsqrt",
    "dist.sqrt",
    "dist.div",
];

/// What stays wide even if everything else is narrow: reductions to the loss. (The cross entropy of narrow logits is f32 by itself.)
const LOSSES: &[&str] = &[
    "dist.reduce_sum",
    "dist.reduce_mean",
    "dist.squared_l2_norm",
];

/// Ops whose types others depend on, or that have none to choose.
const FREE: &[&str] = &[
    "dist.cast",
    "dist.load",
    "dist.store",
    "dist.accumulate",
    "dist.send",
    "dist.recv",
    "dist.fill",
    "dist.uniform",
    "dist.gaussian",
];

/// Ops that only pass a parameter or a constant on.
pub const VIEWS: &[&str] = &[
    "dist.cast",
    "dist.reshape",
    "dist.transpose",
    "dist.identity",
    "dist.slice",
];

/// Normalisations: level o2 leaves their parameters f32.
pub const NORMALISATIONS: &[&str] = &["dist.layer_norm", "dist.rms_norm"];

/// In which type an op computes.
pub fn choose(level: Level, op: &str) -> Choice {
    if !op.starts_with("dist.") || FREE.contains(&op) {
        return Choice::Keep;
    }
    match level {
        Level::O1 if PRODUCTS.contains(&op) => Choice::Narrow,
        Level::O1 if FOLLOWING.contains(&op) => Choice::Follow,
        Level::O1 => Choice::Wide,
        Level::O2 if WIDE.contains(&op) => Choice::Wide,
        Level::O3 if LOSSES.contains(&op) => Choice::Wide,
        _ => Choice::Narrow,
    }
}

#[cfg(test)]
mod tests {
    use raddle_dialect::ir::Context;

    use super::*;

    #[test]
    fn every_listed_op_is_registered_and_on_one_list() {
        let cx = Context::new();
        let lists = [PRODUCTS, FOLLOWING, WIDE, FREE];
        let all: Vec<_> = lists.iter().flat_map(|l| l.iter()).collect();
        for (at, op) in all.iter().enumerate() {
            assert!(cx.op_def(cx.ident(op)).is_some(), "{op}");
            assert!(!all[..at].contains(op), "{op}");
        }
        assert!(
            VIEWS
                .iter()
                .chain(LOSSES)
                .chain(NORMALISATIONS)
                .all(|op| all.contains(&op))
        );
    }
}
