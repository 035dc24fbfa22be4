//! Every pass, one line each.

use super::PassDef;
use crate::transforms::{
    append_backward, apply_amp, canonicalize, cse, dce, fuse_linear, infer_stages, lower_to_linalg,
    overlap_comm, partition_stages, plan_memory, promote_linear, schedule_pipeline, split_backward,
    verify_collectives, verify_spmd, verify_streams,
};

/// All passes, in the order in which lists show them.
pub static ALL: &[&PassDef] = &[
    &canonicalize::DEF,
    &cse::DEF,
    &dce::DEF,
    &apply_amp::DEF,
    &append_backward::DEF,
    &promote_linear::DEF,
    &fuse_linear::DEF,
    &infer_stages::DEF,
    &schedule_pipeline::DEF,
    &split_backward::DEF,
    &partition_stages::DEF,
    &plan_memory::DEF,
    &overlap_comm::DEF,
    &verify_streams::DEF,
    &lower_to_linalg::DEF,
    &verify_spmd::DEF,
    &verify_collectives::DEF,
];

/// The pass of this name.
pub fn find(name: &str) -> Option<&'static PassDef> {
    ALL.iter().copied().find(|def| def.name == name)
}

/// Whether a pass makes another program on purpose: one that trains where there was one that only computed a loss. All other passes keep
/// the meaning, and `--validate-each` holds them to it.
pub fn changes_meaning(def: &PassDef) -> bool {
    std::ptr::eq(def, &append_backward::DEF)
}

/// The closest name to one that is unknown, if any is close.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::PassOptions;

    #[test]
    fn names_are_distinct_and_kebab_case_and_defaults_parse() {
        for (index, def) in ALL.iter().enumerate() {
            assert!(
                def.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{}",
                def.name
            );
            assert!(ALL[..index].iter().all(|other| other.name != def.name));
            assert!(!def.summary.is_empty() && !def.description.is_empty());
            (def.build)(&PassOptions::defaults(def.options));
        }
    }

    #[test]
    fn a_slip_of_the_finger_finds_the_pass() {
        assert_eq!(
            closest("canonicalise", ALL.iter().map(|d| d.name)),
            Some("canonicalize")
        );
        assert_eq!(closest("xyzzy", ALL.iter().map(|d| d.name)), None);
    }
}
