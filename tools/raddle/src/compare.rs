//! `raddle compare`: what a rewrite took away, and whether the program still computes the same.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use raddle_bundle::{Bundle, Class, FunctionKind, GlobalKind};
use raddle_compiler::bundle;
use raddle_dialect::ir::{VerifyOptions, verify};
use raddle_runtime::validate::{self, Kind, Report};

use crate::input;

/// Compares two states of a program.
#[derive(clap::Args)]
pub struct Options {
    /// The program before.
    before: PathBuf,
    /// The program after.
    after: PathBuf,
    /// Seed of the random inputs and state that both programs run with.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Training steps to run.
    #[arg(long, default_value_t = 3)]
    steps: usize,
    /// Only count; run nothing.
    #[arg(long)]
    no_run: bool,
}

/// Prints the table; fails if the programs differ.
///
/// # Errors
/// If a file cannot be read, is not a program, or cannot be run.
pub fn run(options: &Options) -> Result<ExitCode> {
    let before = load(&options.before)?;
    let after = load(&options.after)?;
    print!("{}", table(&before, &after));
    if options.no_run {
        return Ok(ExitCode::SUCCESS);
    }
    let report = validate::compare(
        &before,
        &after,
        validate::Options {
            steps: options.steps,
            ..validate::Options::new(options.seed)
        },
    )?;
    print!("\n{}", differences(&report, options));
    let mut findings = validate::check_init(&after)?;
    findings.extend(report.failures.iter().map(ToString::to_string));
    for finding in &findings {
        eprintln!("error: {finding}");
    }
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn load(path: &Path) -> Result<Bundle> {
    let bundle = input::load(path, |module, diagnostics| {
        let module = verify(module, VerifyOptions::default(), diagnostics).ok()?;
        bundle::lower(&module, diagnostics)
    })?;
    bundle.with_context(|| format!("{} is not a program that can be run", path.display()))
}

/// What one rank of a class holds and does.
struct Size {
    step_ops: usize,
    init_ops: usize,
    parameters: usize,
    bytes: usize,
}

impl Size {
    fn of(class: &Class) -> Self {
        let ops = |init: bool| {
            let functions = class
                .functions
                .iter()
                .filter(|f| (f.kind == FunctionKind::Init) == init);
            functions
                .flat_map(|f| &f.instrs)
                .filter(|i| !matches!(&*i.op, "dist.load" | "dist.store"))
                .count()
        };
        let bytes = class.globals.iter().map(|g| {
            let bits = match g.ty.dtype.trim_start_matches(|c: char| c.is_alphabetic()) {
                "" => 0,
                digits => digits.parse::<usize>().unwrap_or(0),
            };
            g.ty.shape.iter().product::<usize>() * bits.div_ceil(8)
        });
        Self {
            step_ops: ops(false),
            init_ops: ops(true),
            parameters: class
                .globals
                .iter()
                .filter(|g| g.kind == GlobalKind::Parameter)
                .count(),
            bytes: bytes.sum(),
        }
    }
}

/// One line a class of the program after, held against the class its ranks belonged to before.
fn table(before: &Bundle, after: &Bundle) -> String {
    let origin = |class: &Class| {
        let rank = first_rank(after, class);
        before.classes.iter().find(|c| holds(before, c, &rank))
    };
    let mut text = format!(
        "{:<28} {:>6} {:>13} {:>13} {:>13} {:>19}\n",
        "rank class", "ranks", "step ops", "init ops", "parameters", "bytes of globals"
    );
    for class in &after.classes {
        let new = Size::of(class);
        let old = origin(class).map(Size::of);
        let pair = |pick: fn(&Size) -> usize| match &old {
            Some(old) => format!("{} → {}", pick(old), pick(&new)),
            None => format!("→ {}", pick(&new)),
        };
        text += &format!(
            "{:<28} {:>6} {:>13} {:>13} {:>13} {:>19}\n",
            class.name,
            rank_count(after, class),
            pair(|s| s.step_ops),
            pair(|s| s.init_ops),
            pair(|s| s.parameters),
            pair(|s| s.bytes),
        );
    }
    text
}

/// Coordinates of some rank of a class, by axis.
fn first_rank<'b>(bundle: &'b Bundle, class: &Class) -> HashMap<&'b str, usize> {
    let set = class.ranks.first();
    let axes = bundle.mesh.axes.iter();
    axes.map(|axis| {
        let index = set.and_then(|s| s.get(axis)).and_then(|i| i.first());
        (axis.as_str(), index.copied().unwrap_or(0))
    })
    .collect()
}

fn holds(bundle: &Bundle, class: &Class, rank: &HashMap<&str, usize>) -> bool {
    let index = |axis: &String| rank.get(axis.as_str()).copied().unwrap_or(0);
    let axes = &bundle.mesh.axes;
    class.ranks.iter().any(|set| {
        axes.iter()
            .all(|axis| set.get(axis).is_none_or(|i| i.contains(&index(axis))))
    })
}

/// How many ranks belong to a class.
pub fn rank_count(bundle: &Bundle, class: &Class) -> usize {
    let along = |set: &std::collections::BTreeMap<String, Vec<usize>>| {
        let axes = bundle.mesh.axes.iter().zip(&bundle.mesh.sizes);
        axes.map(|(axis, &size)| set.get(axis).map_or(size, Vec::len))
            .product::<usize>()
    };
    class.ranks.iter().map(along).sum()
}

fn differences(report: &Report, options: &Options) -> String {
    let mut text = format!(
        "{:<10} {:>9} {:>16} {:>18}   ({} steps, seed {}, all ranks)\n",
        "value", "compared", "largest, exact", "largest, rounded", options.steps, options.seed
    );
    for kind in [Kind::Loss, Kind::Gradient, Kind::Global] {
        let of =
            |map: &std::collections::BTreeMap<Kind, f64>| map.get(&kind).copied().unwrap_or(0.0);
        text += &format!(
            "{:<10} {:>9} {:>16.2e} {:>18.2e}\n",
            kind.to_string(),
            report.compared.get(&kind).copied().unwrap_or(0),
            of(&report.largest),
            of(&report.largest_rounded),
        );
    }
    text
}
