//! Linear layers of programs computed by kernels on the simulator: every form of the two ops against what they mean, and whole training
//! programs against the reference device.
#![cfg(feature = "llvm")]

mod layers;
mod programs;
#[path = "../training/mod.rs"]
mod training;

use raddle_bundle::Bundle;
use raddle_compiler::codegen::Math;
use raddle_compiler::codegen::bundled::{BuiltKernel, BundleKernels};
use raddle_compiler::codegen::nvptx::{Architecture, Target, emit};
use raddle_runtime::device::kernels::{Check, Player};
use raddle_runtime::device::ptxsim::{Delivery, Options, PtxsimLauncher};
use raddle_runtime::device::reference::Program;

/// Gives a bundle the kernels for its layers; none of them may be without.
fn give_kernels(bundle: &mut Bundle, architecture: Architecture, math: Math) {
    let kernels = BundleKernels::of(bundle, math);
    assert_eq!(kernels.refused(), 0);
    let descriptions = kernels.descriptions().iter();
    let built = descriptions.map(|description| {
        let ptx = emit(description, Target::of(architecture))
            .unwrap_or_else(|error| panic!("{description:?}: {error}"));
        BuiltKernel {
            image: ptx.image(),
            parameters: ptx.parameters,
        }
    });
    let built = built.collect();
    kernels.attach(bundle, built).expect("kernels that fit");
}

/// A player of a program's kernels on the simulator, with copies that arrive as late as they may.
fn player(program: &Program) -> Player<'_> {
    let options = Options {
        delivery: Delivery::Late,
        seed: 7,
        multiprocessors: None,
    };
    let launcher = PtxsimLauncher::new(options);
    Player::new(program, Box::new(launcher), Check::All)
}

/// No kernel has a finding, all of them ran, and all numbers are right.
fn assert_right(player: &Player<'_>) {
    for tally in player.tallies() {
        assert_eq!(tally.findings, [] as [String; 0]);
        assert!(tally.launches > 0);
    }
    let comparison = player.comparison();
    assert!(comparison.compared > 0);
    assert!(comparison.is_right(), "{comparison:?}");
}
