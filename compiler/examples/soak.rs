//! Promotes random programs and runs them before and after, until the time is up: the property test of `validate_promotion`, for
//! longer.
//!
//! `soak [--minutes N] [--seed S] [--case N]`: without a seed it takes one from the clock, and prints it. Case n of a seed is always the
//! same program; `--case` runs that one only. A program that fails is made as small as it goes, and printed as a module.

#[path = "../tests/programs/mod.rs"]
mod programs;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use programs::generated::{Generated, models, train};
use programs::random::{differences, specs};
use programs::{Spec, build};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use raddle_dialect::ir::Verified;
use raddle_dialect::syntax::{PrintOptions, print};
use raddle_runtime::validate::Options;

struct Arguments {
    minutes: u64,
    seed: u64,
    case: Option<u64>,
}

fn arguments() -> Result<Arguments, String> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut arguments = Arguments {
        minutes: 5,
        seed: clock.map_or(0, |t| t.as_secs()),
        case: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().and_then(|v| v.parse().ok());
        let value: u64 = value.ok_or_else(|| format!("'{word}' needs a number"))?;
        match word.as_str() {
            "--minutes" => arguments.minutes = value,
            "--seed" => arguments.seed = value,
            "--case" => arguments.case = Some(value),
            _ => return Err(format!("there is no option '{word}'")),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("soak: error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let Arguments {
        minutes,
        seed,
        case,
    } = arguments;
    println!("soak: seed {seed}, {minutes} minutes");
    // What panics is a finding, and shown as one.
    std::panic::set_hook(Box::new(|_| {}));
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut number = case.unwrap_or(0);
    let mut shown = Instant::now();
    loop {
        // Half of the programs are built by hand, half are differentiated.
        let found = match number % 2 {
            0 => attempt(specs(), seed, number, build),
            _ => attempt(models(), seed, number, train),
        };
        if let Some(failure) = found {
            println!("{failure}");
            println!(
                "soak: failed: seed {seed}, case {number}; '--seed {seed} --case {number}' runs it again"
            );
            return ExitCode::FAILURE;
        }
        number += 1;
        if case.is_some() || Instant::now() > end {
            println!("soak: {number} cases, no difference");
            return ExitCode::SUCCESS;
        }
        if shown.elapsed() > Duration::from_secs(10) {
            println!("soak: {number} cases");
            shown = Instant::now();
        }
    }
}

/// A kind of program to make.
trait Case: Clone + std::fmt::Debug {}
impl Case for Spec {}
impl Case for Generated {}

/// Runs a case; if it fails, the smallest that does, as text.
fn attempt<S>(
    strategy: S,
    seed: u64,
    number: u64,
    program: impl Fn(&S::Value) -> Verified,
) -> Option<String>
where
    S: Strategy,
    S::Value: Case,
{
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut tree = strategy.new_tree(&mut runner).ok()?;
    let options = Options {
        steps: 2,
        ..Options::exact(seed ^ number)
    };
    let fault = |spec: &S::Value| -> Option<String> {
        match catch_unwind(AssertUnwindSafe(|| differences(&program(spec), options))) {
            Ok(found) if found.is_empty() => None,
            Ok(found) => Some(found.join("\n")),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                Some(text.unwrap_or_else(|| "it panicked".into()))
            }
        }
    };
    let mut smallest = tree.current();
    let mut why = fault(&smallest)?;
    println!("soak: case {number} fails; looking for a smaller one");
    while tree.simplify() {
        loop {
            let spec = tree.current();
            if let Some(found) = fault(&spec) {
                (smallest, why) = (spec, found);
                break;
            }
            if !tree.complicate() {
                break;
            }
        }
    }
    let text = catch_unwind(AssertUnwindSafe(|| {
        print(&program(&smallest), PrintOptions::default())
    }));
    let text = text.unwrap_or_else(|_| "// the program cannot be built\n".into());
    Some(format!("{text}\n// {smallest:?}\n{why}"))
}
