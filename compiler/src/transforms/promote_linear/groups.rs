//! Ranks of one group may belong to different classes: then all these classes have to promote the bias, at collectives that
//! meet each other, or none.

use rustc_hash::FxHashMap;

use super::plan::Signature;
use super::{Candidate, decline};
use crate::pass::PassCx;

/// Per axis of the mesh, indices.
type Box = Vec<Vec<usize>>;

/// Gives up the plans of classes whose groups reach into classes that have no such plan.
pub fn agree(candidates: &mut [Candidate], cx: &mut PassCx) {
    while give_up(candidates, cx) {}
}

/// Whether any plan was given up; then others may have lost a partner.
fn give_up(candidates: &mut [Candidate], cx: &mut PassCx) -> bool {
    let open = |c: &Candidate| {
        c.plans
            .iter()
            .any(|p| !c.facts.holds_groups(&p.reach(&c.facts)))
    };
    if !candidates.iter().any(open) {
        return false;
    }
    let mut any = false;
    let mut holders: FxHashMap<Signature, Vec<Box>> = FxHashMap::default();
    for candidate in candidates.iter() {
        for plan in &candidate.plans {
            let boxes = holders.entry(plan.signature(&candidate.facts)).or_default();
            boxes.extend_from_slice(candidate.facts.ranks.boxes());
        }
    }
    for candidate in candidates {
        let Candidate { facts, plans, .. } = candidate;
        let (kept, given_up): (Vec<_>, Vec<_>) =
            std::mem::take(plans).into_iter().partition(|plan| {
                let reach = plan.reach(facts);
                facts.holds_groups(&reach) || {
                    let holders = &holders[&plan.signature(facts)];
                    let groups = whole_groups(facts.ranks.boxes(), &reach, facts.mesh.sizes());
                    covers(holders, &groups)
                }
            });
        *plans = kept;
        any |= !given_up.is_empty();
        for plan in given_up {
            let reason = format!(
                "its rank class does not hold whole groups over {}, and the classes of the other ranks do not add it in the \
                 same place",
                facts.show(&plan.reach(facts))
            );
            decline(facts, &plan.name, &plan.linears, &reason, cx);
        }
    }
    any
}

/// The groups over `axes` of the ranks in these boxes.
fn whole_groups(boxes: &[Box], axes: &[usize], sizes: &[usize]) -> Vec<Box> {
    let mut groups: Vec<Box> = boxes.to_vec();
    for group in &mut groups {
        for &axis in axes {
            group[axis] = (0..sizes[axis]).collect();
        }
    }
    groups.sort();
    groups.dedup();
    groups
}

/// Whether disjoint boxes hold every rank of each of some boxes.
fn covers(disjoint: &[Box], boxes: &[Box]) -> bool {
    let volume = |b: &Box| b.iter().map(Vec::len).product::<usize>();
    let common = |a: &Box, b: &Box| -> usize {
        let both = |(a, b): (&Vec<usize>, &Vec<usize>)| a.iter().filter(|i| b.contains(i)).count();
        a.iter().zip(b).map(both).product()
    };
    boxes.iter().all(|b| {
        let held: usize = disjoint.iter().map(|d| common(d, b)).sum();
        held == volume(b)
    })
}
