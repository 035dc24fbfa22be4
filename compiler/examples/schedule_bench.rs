//! The schedule search beside the results of others, as a table: the Zero Bubble authors' schedules in the same memory, and
//! the optima CP-SAT proved. `cargo xtask bench` runs it; by hand, arguments choose groups (`zb_unit/V-Half`, `speed`).
//!
//! Exit code 1 if any row is longer than its reference, or if a promise about means or times is broken.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use raddle_compiler::schedule::optimizer::Optimizer;
use raddle_compiler::schedule::{Backward, Costs, Kind, Made, PerIndex, Request, make};
use serde_json::Value;

/// Rows of one kind in one file.
#[derive(Default)]
struct Group {
    rows: usize,
    worse: usize,
    better: usize,
    optimal: usize,
    their_gap: f64,
    our_gap: f64,
    slowest: f64,
    seconds: f64,
}

/// One row to search for.
struct Job {
    group: String,
    row_number: usize,
    row: Value,
    request: Request,
}

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted =
        |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str()));
    let mut jobs = Vec::new();
    for file in [
        "zero_bubble_paper",
        "zb_unit",
        "zb_uneven",
        "zb_vauto",
        "optimum_small",
    ] {
        for (row_number, row) in rows(file).into_iter().enumerate() {
            let kind = row["schedule"]
                .as_str()
                .or(row["tag"].as_str())
                .unwrap_or("all");
            let group = format!("{file}/{kind}");
            if !is_wanted(&group) || (file == "optimum_small" && row["status"] != "OPTIMAL") {
                continue;
            }
            let request = request(file, &row);
            jobs.push(Job {
                group,
                row_number,
                row,
                request,
            });
        }
    }
    let groups = search_all(&jobs);
    print(&groups);
    let mut kept = groups.values().all(|group| group.worse == 0);
    if wanted.is_empty() {
        kept &= promises(&groups);
    }
    if is_wanted("speed") {
        kept &= speed();
    }
    if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Searches for every row, as many at a time as the machine has cores. The effort is counted in steps and the time is that of
/// the thread, so other work changes neither.
fn search_all(jobs: &[Job]) -> BTreeMap<String, Group> {
    let next = AtomicUsize::new(0);
    let groups: Mutex<BTreeMap<String, Group>> = Mutex::default();
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (name, n) = (&job.group, job.row_number);
            let begin = cpu_seconds();
            let made = make(&job.request, &mut |_, _| {});
            let seconds = cpu_seconds() - begin;
            let mut groups = groups.lock().expect("no thread panics with the lock");
            let group = groups.entry(name.clone()).or_default();
            match made {
                Err(error) => {
                    println!("{name} row {n}: {error}");
                    group.worse += 1;
                }
                Ok(made) => {
                    if !enter(group, &job.row, &made, seconds) {
                        let (ours, theirs) = (ours(&job.row, &made), theirs(&job.row));
                        println!("{name} row {n}: {seconds} s, ours {ours} theirs {theirs}");
                    }
                }
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    groups.into_inner().expect("all threads are over")
}

fn rows(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../lit-tests/data/schedules/{file}.json.gz"));
    let reader = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(reader)
        .read_to_string(&mut text)
        .expect("gzip");
    serde_json::from_str(&text).expect("json")
}

fn numbers(value: &Value) -> PerIndex {
    match value {
        Value::Array(list) => PerIndex::Each(list.iter().filter_map(Value::as_f64).collect()),
        one => PerIndex::Same(one.as_f64().unwrap_or(0.0)),
    }
}

/// A row as a wish, with its memory in activations of a rank and a ten-thousandth more, to which the peaks are rounded.
fn request(file: &str, row: &Value) -> Request {
    let count = |key: &str| row[key].as_u64().map(|n| n as u32);
    let name = row["schedule"]
        .as_str()
        .or(row["tag"].as_str())
        .unwrap_or_default();
    let is_v = file == "zb_vauto" || ["ZB-V", "V-Half", "V-Min", "V"].contains(&name);
    let unit = if file == "zb_vauto" { 2.0 } else { 1.0 };
    let limit = match file {
        "optimum_small" => row["mem_limit_stage_acts"].as_f64(),
        _ => row["peak_mem_max"]
            .as_f64()
            .or(row["mem_limit"].as_f64())
            .map(|limit| limit / unit + 1e-4),
    };
    let whole = row["split"] == false || name.starts_with("1F1B");
    Request {
        kind: if is_v { Kind::AutoV } else { Kind::Auto },
        ranks: count("p").unwrap_or(1),
        microbatches: count("m").unwrap_or(1),
        chunks: if is_v {
            Some(2)
        } else {
            Some(count("v").unwrap_or(1))
        },
        costs: Costs {
            forward: numbers(&row["T_F"]),
            input_grad: numbers(&row["T_B"]),
            weight_grad: numbers(&row["T_W"]),
            transfer: numbers(&row["T_C"]),
            ..Costs::default()
        },
        held_for_weights: row["mem_w_over_mem_b"]
            .as_f64()
            .or(row["wact_ratio"].as_f64())
            .unwrap_or(1.0),
        limit: limit.map(PerIndex::Same),
        optimizer: if row["objective"] == "makespan" {
            Optimizer::Barrier
        } else {
            Optimizer::PostValidate
        },
        backward: Some(if whole {
            Backward::Whole
        } else {
            Backward::Split
        }),
        placement: None,
        round: None,
        time_limit: None,
    }
}

fn ours(row: &Value, made: &Made) -> f64 {
    if row["objective"] == "makespan" {
        made.report.makespan
    } else {
        made.report.span
    }
}

/// Infinite where the authors' scheduler failed.
fn theirs(row: &Value) -> f64 {
    row["value"]
        .as_f64()
        .or(row["span"].as_f64())
        .unwrap_or(f64::INFINITY)
}

/// Counts a row; whether it is as short as its reference.
fn enter(group: &mut Group, row: &Value, made: &Made, seconds: f64) -> bool {
    let (ours, theirs) = (ours(row, made), theirs(row));
    let bound = if row["objective"] == "makespan" {
        made.report.bound_makespan
    } else {
        made.report.bound_span
    };
    let worse = ours > theirs * (1.0 + 1e-9) || made.report.fits == Some(false);
    group.rows += 1;
    group.worse += usize::from(worse);
    group.better += usize::from(ours < theirs * (1.0 - 1e-9));
    group.optimal += usize::from(made.optimal);
    if theirs.is_finite() {
        group.their_gap += theirs / bound - 1.0;
        group.our_gap += ours / bound - 1.0;
    }
    group.slowest = group.slowest.max(seconds);
    group.seconds += seconds;
    !worse
}

fn print(groups: &BTreeMap<String, Group>) {
    println!(
        "{:30}{:>6}{:>8}{:>8}{:>8}{:>12}{:>12}{:>10}{:>10}",
        "group", "rows", "worse", "better", "proven", "their gap", "our gap", "slowest", "CPU time"
    );
    for (name, g) in groups {
        let part = 100.0 / g.rows.max(1) as f64;
        println!(
            "{name:30}{:>6}{:>8}{:>8}{:>8}{:>11.3}%{:>11.3}%{:>8.2} s{:>8.1} s",
            g.rows,
            g.worse,
            g.better,
            g.optimal,
            g.their_gap * part,
            g.our_gap * part,
            g.slowest,
            g.seconds
        );
    }
}

/// Strictly shorter than the authors on average where their schedules leave room.
fn promises(groups: &BTreeMap<String, Group>) -> bool {
    let mut kept = true;
    for name in ["zb_unit/V-Half", "zb_unit/V-Min", "zb_uneven/all"] {
        let holds = groups.get(name).is_some_and(|g| g.our_gap < g.their_gap);
        kept &= judge(holds, &format!("shorter on average: {name}"));
    }
    kept
}

/// Large searches within their CPU time, and in memory that grows no faster than the lists.
fn speed() -> bool {
    let mut kept = true;
    let mut peaks = Vec::new();
    for (kind, ranks, microbatches, limit, most) in [
        (Kind::Auto, 32, 256, 64.0, 1.0),
        (Kind::Auto, 64, 256, 128.0, 10.0),
        (Kind::Auto, 64, 1024, 128.0, 10.0),
        (Kind::AutoV, 16, 64, 16.0, 2.0),
        (Kind::AutoV, 16, 64, 9.0, 2.0),
    ] {
        let row = serde_json::json!({
            "p": ranks, "m": microbatches, "T_F": 14412, "T_B": 14393, "T_W": 9688, "T_C": 1621,
            "peak_mem_max": limit, "mem_w_over_mem_b": 0.43243, "schedule": if kind == Kind::AutoV { "V" } else { "-" },
        });
        let begin = cpu_seconds();
        let made = make(&request("speed", &row), &mut |_, _| {});
        let seconds = cpu_seconds() - begin;
        kept &= judge(
            made.is_ok() && seconds < most,
            &format!(
                "{} p={ranks} m={microbatches}: {seconds:.2} s of CPU, at most {most}",
                kind.name()
            ),
        );
        if ranks == 64 {
            peaks.extend(peak_memory_mb());
        }
    }
    if let [small, large] = peaks[..] {
        let growth = large / small;
        kept &= judge(
            growth <= 4.4,
            &format!(
                "peak memory for four times the micro-batches: {small:.0} to {large:.0} MB, {growth:.2} times, at most 4.4"
            ),
        );
    }
    kept
}

fn judge(holds: bool, what: &str) -> bool {
    println!("{} {what}", if holds { "kept  " } else { "BROKEN" });
    holds
}

/// The most memory this process has held so far, where the system tells.
fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// CPU time of this thread, or time on the wall where the system does not tell.
fn cpu_seconds() -> f64 {
    thread_local!(static START: Instant = Instant::now());
    let on_cpu = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = on_cpu.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(
        || START.with(|start| start.elapsed().as_secs_f64()),
        |ns| ns * 1e-9,
    )
}
