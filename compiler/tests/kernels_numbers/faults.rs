//! What happens if a kernel is changed for the worse: one test for each fault that the simulator must find.
//!
//! In order: a wait count off by one, a missing barrier, a wrong number of expected bytes, a missing swizzle, a missing wait for
//! products, a depth that is no multiple of eight, a bias that is one element short, a missing fence between the proxies, a
//! wrong parity of a barrier in shared memory, shared memory that is used again before a store has read it, a wrong stride
//! in a descriptor; then what goes wrong in other ways. Missing roundings to tf32 are in `tf32.rs`, missing fences between
//! blocks in `split.rs`, tensor memory in `blackwell.rs`.

use raddle_compiler::codegen::nvptx::{Architecture, Parameter, Ptx};
use raddle_compiler::codegen::oracle::Inputs;
use raddle_compiler::codegen::{Activation, ElementType, KernelDescription};
use raddle_ptxsim::{Error, FindingKind};

use super::hopper::{emit, tile};
use super::run::{self, WAYS, run, try_run};
use super::{LATE, forward};

/// A kernel of sm_80 whose depth takes more tiles than the pipeline has stages.
fn ampere() -> Ptx {
    let kernel = KernelDescription {
        auxiliary: false,
        ..forward(ElementType::Bf16, (64, 64, 224), 0)
    };
    run::emit(&kernel, Architecture::Sm80, None)
}

/// Changes that kernel, and lists what a run with late copies finds, and whether the numbers are right.
fn changed_ampere(from: &str, to: &str) -> (Vec<FindingKind>, bool) {
    run_changed(ampere(), |text| text.replace(from, to))
}

/// The same for a kernel and any change of its text, in which words are apart by spaces alone.
pub(super) fn run_changed(
    mut ptx: Ptx,
    change: impl Fn(&str) -> String,
) -> (Vec<FindingKind>, bool) {
    let text = ptx.text.replace(" \t", " ");
    ptx.text = change(&text);
    assert_ne!(text, ptx.text, "the change changes nothing");
    let inputs = Inputs::random(&ptx.kernel, 1);
    let (ran, outcome) = run(&ptx, &inputs, LATE);
    let kinds = outcome.findings.iter().map(|finding| finding.kind);
    let right = ran.compare(&ptx.kernel, &inputs).is_right();
    (kinds.collect(), right)
}

/// A kernel with ten stages of depth and a result through shared memory.
pub(super) fn long() -> KernelDescription {
    KernelDescription {
        activation: Activation::Relu,
        ..forward(ElementType::Bf16, (128, 128, 584), 1)
    }
}

/// Changes that kernel on sm_90a, and lists the same.
fn changed(change: impl Fn(&str) -> String) -> (Vec<FindingKind>, bool) {
    run_changed(emit(&long(), tile(2)), change)
}

/// The lines of a text with every line that has all of these words replaced.
pub(super) fn with_lines(text: &str, words: &[&str], by: impl Fn(&str) -> String) -> String {
    let lines = text.lines().map(|line| {
        if words.iter().all(|word| line.contains(word)) {
            by(line)
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn without(words: &'static [&'static str]) -> impl Fn(&str) -> String {
    move |text| with_lines(text, words, |_| String::new())
}

#[test]
fn nothing_is_found_in_kernels_that_are_right() {
    for ptx in [ampere(), emit(&long(), tile(2))] {
        let (kinds, right) = run_changed(ptx, |text| format!("{text}\n"));
        assert!(kinds.is_empty() && right);
    }
}

#[test]
fn a_wait_count_off_by_one_is_found() {
    // One group of copies too many may still be under way.
    let (kinds, right) = changed_ampere("cp.async.wait_group 2;", "cp.async.wait_group 3;");
    assert!(kinds.contains(&FindingKind::InFlight), "{kinds:?}");
    assert!(!right);
    // A group is never closed, so no wait waits for it.
    let (kinds, right) = changed_ampere("cp.async.commit_group;", "");
    assert!(kinds.contains(&FindingKind::InFlight), "{kinds:?}");
    assert!(!right);
}

#[test]
fn a_wait_for_too_few_products_is_found() {
    let (kinds, _) = changed(|text| {
        text.replace(
            "wgmma.wait_group.sync.aligned 1;",
            "wgmma.wait_group.sync.aligned 2;",
        )
    });
    // The stage is given back while it is read: the next copy comes too early.
    assert!(!kinds.is_empty(), "nothing was found");
    let too_early = |kind| matches!(kind, FindingKind::InFlight | FindingKind::Race);
    assert!(kinds.iter().copied().all(too_early), "{kinds:?}");
}

#[test]
fn a_missing_barrier_is_found() {
    // Nobody waits for what the others copied, or read.
    let (kinds, _) = changed_ampere("bar.sync 0;", "");
    assert!(kinds.contains(&FindingKind::Race), "{kinds:?}");
    // The lanes of a warp do not wait for each other's part of a slab.
    let (kinds, _) = changed_ampere("bar.warp.sync -1;", "");
    assert_eq!(kinds, [FindingKind::Race; 1].repeat(kinds.len()));
    assert!(!kinds.is_empty());
}

#[test]
fn lanes_that_do_not_wait_for_each_other_are_found() {
    let (kinds, _) = changed(without(&["bar.warp.sync"]));
    assert!(kinds.contains(&FindingKind::Race), "{kinds:?}");
}

#[test]
fn a_missing_barrier_after_the_barriers_are_made_is_found() {
    let (kinds, _) = changed(without(&["bar.sync 0;"]));
    assert!(
        kinds.contains(&FindingKind::Barrier) || kinds.contains(&FindingKind::Race),
        "{kinds:?}"
    );
}

#[test]
fn wrong_numbers_of_expected_bytes_are_found() {
    let expected = "mbarrier.arrive.expect_tx";
    // The bytes of one of the two copies, and a few too many.
    for (bytes, kind) in [
        ("16384", FindingKind::InFlight),
        ("32784", FindingKind::Deadlock),
    ] {
        let (kinds, _) = changed(|text| {
            with_lines(text, &[expected], |line| {
                let (start, _) = line.rsplit_once(' ').expect("an operand");
                format!("{start} {bytes};")
            })
        });
        assert!(kinds.contains(&kind), "{bytes}: {kinds:?}");
    }
}

#[test]
fn a_missing_swizzle_gives_wrong_numbers() {
    let kernel = forward(ElementType::Bf16, (128, 128, 136), 1);
    let ptx = emit(&kernel, tile(2));
    let inputs = Inputs::random(&kernel, 1);
    // The descriptors say that nothing is permuted.
    let constant = ((1u64 << 62) | (64 << 32) | (1 << 16)).to_string();
    let plain = ((64u64 << 32) | (1 << 16)).to_string();
    assert!(ptx.text.contains(&constant));
    let mut changed = ptx.clone();
    changed.text = ptx.text.replace(&constant, &plain);
    let (ran, _) = run(&changed, &inputs, LATE);
    assert!(!ran.compare(&kernel, &inputs).is_right());
}

#[test]
fn a_missing_wait_for_products_is_found() {
    let (kinds, right) = changed(without(&["wgmma.wait_group.sync.aligned 0;"]));
    assert!(kinds.contains(&FindingKind::InFlight), "{kinds:?}");
    assert!(!right);
}

/// A copy of 16 bytes from further on; other lines as they are.
fn eight_bytes_further(line: &str) -> String {
    let Some((start, end)) = line
        .split_once("], 16")
        .filter(|_| line.contains("cp.async.cg"))
    else {
        return line.to_owned();
    };
    let (before, address) = start.rsplit_once('[').expect("an address");
    let (register, offset) = address.split_once('+').unwrap_or((address, "0"));
    let offset: i64 = offset.parse().expect("a number");
    format!("{before}[{register}+{}], 16{end}", offset + 8)
}

#[test]
fn a_depth_that_is_no_multiple_of_eight_is_found() {
    // What was made for lines of 224 elements runs on lines of 220: the last ones end before it expects.
    let ptx = ampere();
    let short = forward(ElementType::Bf16, (64, 64, 220), 0);
    let (_, outcome) = run(&ptx, &Inputs::random(&short, 1), LATE);
    let kinds = outcome.findings.iter().map(|finding| finding.kind);
    assert_eq!(kinds.collect::<Vec<_>>(), [FindingKind::OutOfBounds]);
    // Lines start at a multiple of 8 bytes, and 16 are copied at a time.
    let (kinds, _) = run_changed(ptx, |text| {
        let copies: Vec<String> = text.lines().map(eight_bytes_further).collect();
        copies.join("\n")
    });
    assert!(kinds.contains(&FindingKind::Misaligned), "{kinds:?}");
    // TMA takes no such lines at all.
    let kernel = forward(ElementType::Bf16, (128, 128, 136), 0);
    let mut ptx = emit(&kernel, tile(2));
    let mut maps = ptx.tensor_maps.iter_mut();
    let map = maps.find(|map| map.parameter == Parameter::A).unwrap();
    map.extents[0] = 132;
    map.strides_bytes[0] = 264;
    let inputs = Inputs::random(&kernel, 1);
    let refused = try_run(&ptx, &inputs, LATE).map(|(_, outcome)| outcome);
    assert!(
        matches!(&refused, Err(Error::Launch(message)) if message.contains("multiple of 16")),
        "{refused:?}"
    );
}

#[test]
fn a_bias_one_element_short_is_found() {
    let kernel = forward(ElementType::Bf16, (16, 33, 40), 0);
    let ptx = run::emit(&kernel, Architecture::Sm80, None);
    let mut inputs = Inputs::random(&kernel, 1);
    inputs.bias.columns -= 1;
    let (_, outcome) = run(&ptx, &inputs, WAYS[0]);
    let kinds = outcome.findings.iter().map(|finding| finding.kind);
    assert_eq!(kinds.collect::<Vec<_>>(), [FindingKind::OutOfBounds]);
}

#[test]
fn a_missing_fence_between_the_proxies_is_found() {
    let (kinds, _) = changed(without(&["fence.proxy.async.shared::cta"]));
    assert_eq!(kinds, [FindingKind::Fence; 1].repeat(kinds.len()));
    assert!(!kinds.is_empty());
}

#[test]
fn a_wrong_parity_is_found() {
    // Everyone waits for the phase before the one that is meant.
    let (kinds, _) = changed(|text| {
        with_lines(text, &["mbarrier.try_wait.parity"], |line| {
            let (start, parity) = line.rsplit_once(' ').expect("an operand");
            let register = parity.trim_end_matches(';');
            format!(
                "xor.b32 {register}, {register}, 1;\n{start} {parity}\nxor.b32 {register}, {register}, 1;"
            )
        })
    });
    assert!(
        kinds.iter().any(|kind| matches!(
            kind,
            FindingKind::InFlight | FindingKind::Uninitialised | FindingKind::Deadlock
        )),
        "{kinds:?}"
    );
}

#[test]
fn buffers_filled_while_they_are_read_are_found() {
    let (kinds, _) = changed(|text| {
        text.replace(
            "cp.async.bulk.wait_group.read 1;",
            "cp.async.bulk.wait_group.read 2;",
        )
    });
    assert!(kinds.contains(&FindingKind::InFlight), "{kinds:?}");
    let (kinds, _) = changed(|text| {
        let (start, end) = text
            .rsplit_once("cp.async.bulk.wait_group.read 0;")
            .expect("the last wait");
        format!("{start}{end}")
    });
    assert_eq!(kinds, [FindingKind::InFlight; 1].repeat(kinds.len()));
    assert!(!kinds.is_empty());
}

#[test]
fn a_wrong_stride_in_a_descriptor_gives_wrong_numbers() {
    let constant = |stride: u64| ((1u64 << 62) | (stride << 32) | (1 << 16)).to_string();
    let (_, right) = changed(|text| text.replace(&constant(64), &constant(32)));
    assert!(!right);
}

#[test]
fn a_missing_fence_before_products_is_found() {
    let (kinds, _) = changed(without(&["wgmma.fence.sync.aligned"]));
    assert!(kinds.contains(&FindingKind::Fence), "{kinds:?}");
}

#[test]
fn a_missing_arrival_is_found() {
    let (kinds, _) = changed(without(&["mbarrier.arrive.shared.b64"]));
    assert_eq!(kinds, [FindingKind::Deadlock]);
}

#[test]
fn barriers_that_copies_do_not_see_are_found() {
    let (kinds, _) = changed(without(&["fence.mbarrier_init"]));
    assert!(kinds.contains(&FindingKind::Fence), "{kinds:?}");
}
