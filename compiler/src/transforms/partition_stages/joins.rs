//! Ops that join what different ranks have: sums, disjunctions, and stacks that are reduced again. Each rank joins its own, which gives
//! parts of the whole.

use raddle_dialect::ir::{Module, OpId};

use super::ranks::Ranks;
use super::shares::{Form, Read, Reduction, Share, Whereabouts, Whole};
use super::ties::is_linear;

/// A sum, a disjunction or a stack of what different ranks have.
pub(super) fn joined(module: &Module, op: OpId, read: &[Read]) -> Option<Share> {
    let (form, reduction) = match module.name_str(op) {
        "dist.sum" | "dist.add" if is_linear(module, op) => {
            (Form::Join(Reduction::Sum), Reduction::Sum)
        }
        "dist.any_of" => (Form::Join(Reduction::Any), Reduction::Any),
        "dist.stack" => (Form::Stack, stacked(module, op)?),
        _ => return None,
    };
    let mut ranks = Ranks::default();
    let mut common: Option<Ranks> = None;
    let mut raw = vec![false; read.len()];
    for (read, raw) in read.iter().zip(&mut raw) {
        match &read.whereabouts {
            Whereabouts::At(there) => {
                ranks.extend(&Ranks::one(there.first()?));
                common = Some(common.map_or_else(|| there.clone(), |c| c.common(there)));
            }
            Whereabouts::Parts(of, there) if *of == reduction && form != Form::Stack => {
                ranks.extend(there);
                common = Some(Ranks::default());
                *raw = true;
            }
            Whereabouts::Parts(..) => return None,
            _ => {}
        }
    }
    // Where one rank has all there is nothing to join.
    if common.is_none_or(|c| !c.is_empty()) {
        return None;
    }
    Some(Share {
        form,
        whereabouts: Whereabouts::Parts(reduction, ranks.clone()),
        whole: Whole::Never,
        ranks,
        raw,
        meets: false,
    })
}

/// What all readers of a stack reduce it by along the stacked dimension, so that fewer entries on a rank give its part.
fn stacked(module: &Module, op: OpId) -> Option<Reduction> {
    let dim = module.i64_attr(op, "dim")?;
    let mut found = None;
    for user in module.uses(module.result(op, 0)) {
        let reduction = match module.name_str(user.op) {
            "dist.reduce_sum" => Reduction::Sum,
            "dist.reduce_any" => Reduction::Any,
            _ => return None,
        };
        let dims = module.attr(user.op, "dims")?;
        let along = module.cx().as_i64_array(dims)? == [dim];
        if !along || found.is_some_and(|f| f != reduction) {
            return None;
        }
        found = Some(reduction);
    }
    found
}
