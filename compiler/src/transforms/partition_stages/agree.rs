//! Plans for all classes of a program, in which the ranks of different classes meet.
//!
//! Each class is planned by what its own ops read. Where the optimizer comes to a collective of several classes, one of them may have
//! less to go by than another: after `promote-linear`, the first rank broadcasts a norm that it has on the last stage, and the other
//! ranks broadcast zeros, which they could on any stage.
//!
//! ```text
//! class 0:  %t = dist.broadcast %n over ["mp"]     %n is on stage 3
//! class 1:  %t = dist.broadcast %zeros over ["mp"] anywhere, so on stage 3
//! ```
//!
//! Small values are combined on every stage, in all classes alike. For the others the classes are planned again, each with where the
//! other one needs it.

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Attr, Ident, Module, OpId};
use rustc_hash::FxHashMap;

use super::partition::{Partition, Plan};
use super::ranks::Ranks;
use super::shares::Whereabouts;

/// How often classes are planned anew: a collective that moves may move those that read its result. Whether all ranks meet in the end,
/// `verify-collectives` finds out.
const ROUNDS: usize = 4;

/// A plan for each class.
///
/// # Errors
/// Diagnostics for what cannot be partitioned.
pub(super) fn plans(module: &Module, cuts: &[Partition]) -> Result<Vec<Plan>, Vec<Diagnostic>> {
    let mut agreed = FxHashMap::default();
    let mut plans = planned(module, cuts, &agreed)?;
    for _ in 0..ROUNDS {
        if !agree(module, &plans, &mut agreed) {
            break;
        }
        plans = planned(module, cuts, &agreed)?;
    }
    Ok(plans)
}

fn planned(
    module: &Module,
    cuts: &[Partition],
    agreed: &FxHashMap<OpId, Ranks>,
) -> Result<Vec<Plan>, Vec<Diagnostic>> {
    cuts.iter().map(|cut| cut.plan(module, agreed)).collect()
}

/// Calls that meet are those of one function, with one name and one set of axes, that come at the same place in their order.
#[derive(PartialEq, Eq, Hash)]
struct Meeting {
    function: Option<Ident>,
    name: Ident,
    axes: Option<Attr>,
    number: usize,
}

/// One class's call.
struct Caller {
    op: OpId,
    /// The ranks that carry it out.
    ranks: Ranks,
    /// Whether what it reads says so.
    is_bound: bool,
}

/// Settles where the collectives run that classes carry out on different ranks; whether there were any.
fn agree(module: &Module, plans: &[Plan], agreed: &mut FxHashMap<OpId, Ranks>) -> bool {
    let mut meetings: FxHashMap<Meeting, Vec<Caller>> = FxHashMap::default();
    for plan in plans {
        for planned in std::iter::once(&plan.within).chain(&plan.apart) {
            let mut numbers: FxHashMap<(Ident, Option<Attr>), usize> = FxHashMap::default();
            let shares = &planned.shares;
            for (&op, share) in shares.ops.iter().zip(&shares.of).filter(|s| s.1.meets) {
                let (name, axes) = (module.name(op), module.attr(op, "axes"));
                let number = numbers.entry((name, axes)).or_default();
                let meeting = Meeting {
                    function: module
                        .symbol_name(planned.function)
                        .map(|name| module.cx().ident(name)),
                    name,
                    axes,
                    number: *number,
                };
                *number += 1;
                meetings.entry(meeting).or_default().push(Caller {
                    op,
                    ranks: share.ranks.clone(),
                    is_bound: matches!(share.whereabouts, Whereabouts::At(_)),
                });
            }
        }
    }
    let mut any = false;
    for callers in meetings.values() {
        if callers.iter().all(|c| c.ranks == callers[0].ranks) {
            continue;
        }
        let place = place(callers);
        for caller in callers {
            any |= agreed.insert(caller.op, place.clone()).as_ref() != Some(&place);
        }
    }
    any
}

/// The ranks on which all classes that are bound can carry it out, or else those of the first that is bound; where none is, all that read
/// the result.
fn place(callers: &[Caller]) -> Ranks {
    let mut bound = callers.iter().filter(|c| c.is_bound).map(|c| &c.ranks);
    let Some(first) = bound.next() else {
        let mut all = Ranks::default();
        callers.iter().for_each(|c| all.extend(&c.ranks));
        return all;
    };
    let common = bound.fold(first.clone(), |common, ranks| common.common(ranks));
    match common.is_empty() {
        true => first.clone(),
        false => common,
    }
}
