//! In which order a rank runs its functions in a step.
//!
//! A class without a pipeline runs `step` once a micro-batch, then `optimizer`. One with a pipeline runs the jobs of its chunks, in the
//! order of the bundle's schedule, or, without one, all forwards and then all backwards:
//!
//! ```text
//! 0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2 optimizer
//! ```
//!
//! Each rank's list is a part of one order of all jobs, by micro-batch and stage, in which whatever a job waits for comes before it.

use std::collections::HashMap;

use raddle_bundle::{FunctionKind, ScheduledJob};

use super::program::{LoadedClass, LoadedFunction, Program};
use crate::RuntimeError;

/// One run of a function.
#[derive(Clone, Copy)]
pub(super) struct Job<'p> {
    pub function: &'p LoadedFunction,
    pub microbatch: usize,
}

/// What each class's ranks do in a step, by rank.
pub(super) fn of_step(program: &Program) -> Result<Vec<Vec<Job<'_>>>, RuntimeError> {
    (0..program.mesh().ranks())
        .map(|rank| {
            let class = program.class_of(rank);
            check(class)?;
            match scheduled(program, rank)? {
                Some(list) if has_jobs(class) => by_schedule(class, list),
                _ => Ok(by_default(class)),
            }
        })
        .collect()
}

/// The functions of a kind of a class, lowest stage first.
fn of_kind(class: &LoadedClass, kind: FunctionKind) -> Vec<&LoadedFunction> {
    let mut functions: Vec<_> = class
        .functions
        .iter()
        .filter(|f| f.plain.kind == kind)
        .collect();
    functions.sort_by_key(|f| (f.plain.stage, f.plain.chunk));
    functions
}

fn has_jobs(class: &LoadedClass) -> bool {
    let kinds = [FunctionKind::Forward, FunctionKind::Backward];
    kinds.iter().any(|&kind| class.function(kind).is_some())
        || class.function(FunctionKind::BackwardB).is_some()
}

/// No two functions of a class stand for the same job.
fn check(class: &LoadedClass) -> Result<(), RuntimeError> {
    let mut seen = HashMap::new();
    for function in &class.functions {
        let plain = &function.plain;
        if let Some(other) = seen.insert((plain.kind, plain.chunk), &plain.name) {
            return Err(RuntimeError::Jobs {
                class: class.name.clone(),
                why: format!(
                    "functions '{other}' and '{}' are both {} of chunk {}",
                    plain.name,
                    plain.kind.name(),
                    plain.chunk
                ),
            });
        }
    }
    Ok(())
}

fn by_default(class: &LoadedClass) -> Vec<Job<'_>> {
    let mut jobs = Vec::new();
    let [steps, forwards, wholes, inputs, weights] = [
        FunctionKind::Step,
        FunctionKind::Forward,
        FunctionKind::Backward,
        FunctionKind::BackwardB,
        FunctionKind::BackwardW,
    ]
    .map(|kind| of_kind(class, kind));
    for microbatch in 0..class.microbatches {
        let functions = steps.iter().chain(&forwards).copied();
        jobs.extend(functions.map(|function| Job {
            function,
            microbatch,
        }));
    }
    // From the last stage to the first; of a stage's two parts the one that others wait for comes first.
    let mut backwards: Vec<_> = wholes.into_iter().chain(inputs).chain(weights).collect();
    backwards.sort_by_key(|f| {
        (
            std::cmp::Reverse(f.plain.stage),
            f.plain.kind == FunctionKind::BackwardW,
        )
    });
    for microbatch in 0..class.microbatches {
        jobs.extend(backwards.iter().map(|&function| Job {
            function,
            microbatch,
        }));
    }
    jobs.extend(optimizer(class));
    jobs
}

fn optimizer(class: &LoadedClass) -> Option<Job<'_>> {
    let function = class.function(FunctionKind::Optimizer)?;
    Some(Job {
        function,
        microbatch: 0,
    })
}

/// The list of a rank's index on the pipeline axis.
fn scheduled(program: &Program, rank: usize) -> Result<Option<&[ScheduledJob]>, RuntimeError> {
    let Some(schedule) = program.schedule() else {
        return Ok(None);
    };
    let wrong = |why| RuntimeError::Schedule { why };
    let mesh = program.mesh();
    let axis = mesh.axis(&schedule.axis).ok_or_else(|| {
        let axis = &schedule.axis;
        wrong(format!("the mesh has no axis '{axis}'"))
    })?;
    let (lists, ranks) = (schedule.jobs.len(), mesh.sizes()[axis]);
    if lists != ranks {
        let axis = &schedule.axis;
        let why = format!("it has {lists} lists, but axis '{axis}' has {ranks} ranks");
        return Err(wrong(why));
    }
    Ok(Some(&schedule.jobs[mesh.coordinate(rank)[axis]]))
}

fn by_schedule<'p>(
    class: &'p LoadedClass,
    list: &[ScheduledJob],
) -> Result<Vec<Job<'p>>, RuntimeError> {
    let by_place: HashMap<_, _> = class
        .functions
        .iter()
        .map(|f| ((f.plain.kind, f.plain.stage), f))
        .collect();
    let mut jobs = Vec::new();
    let mut times: HashMap<(&str, usize), usize> = HashMap::new();
    for scheduled in list {
        let of = |kind| by_place.get(&(kind, scheduled.stage)).copied();
        let functions = match (scheduled.kind, of(scheduled.kind)) {
            (_, Some(function)) => vec![function],
            (FunctionKind::Backward, None) => {
                let parts = [FunctionKind::BackwardB, FunctionKind::BackwardW];
                parts.into_iter().filter_map(of).collect()
            }
            // A stage may have nothing to do in a backward pass, or in one of its parts, but not another backward than is scheduled.
            (FunctionKind::BackwardB | FunctionKind::BackwardW, None)
                if of(FunctionKind::Backward).is_none() && of(FunctionKind::Forward).is_some() =>
            {
                continue;
            }
            _ => vec![],
        };
        let wrong = |why: &str| RuntimeError::Jobs {
            class: class.name.clone(),
            why: format!(
                "the schedule runs {} of stage {} and micro-batch {}, {why}",
                scheduled.kind.name(),
                scheduled.stage,
                scheduled.microbatch
            ),
        };
        if functions.is_empty() {
            return Err(wrong("but the class has no such function"));
        }
        if scheduled.microbatch >= class.microbatches {
            return Err(wrong("which the step does not have"));
        }
        for function in functions {
            *times
                .entry((&function.plain.name, scheduled.microbatch))
                .or_default() += 1;
            jobs.push(Job {
                function,
                microbatch: scheduled.microbatch,
            });
        }
    }
    let per_microbatch = class.functions.iter().filter(|f| {
        let kind = f.plain.kind;
        kind != FunctionKind::Init && kind != FunctionKind::Optimizer
    });
    for function in per_microbatch {
        for microbatch in 0..class.microbatches {
            let name = function.plain.name.as_str();
            let runs = times.get(&(name, microbatch)).copied().unwrap_or(0);
            if runs != 1 {
                let why = format!(
                    "the schedule runs '{name}' of micro-batch {microbatch} {runs} times, not once"
                );
                let class = class.name.clone();
                return Err(RuntimeError::Jobs { class, why });
            }
        }
    }
    jobs.extend(optimizer(class));
    Ok(jobs)
}
