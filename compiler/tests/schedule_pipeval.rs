//! The checker, the simulator, memory and bounds against an independent program: the same verdict and the same numbers
//! on PyTorch's, the Zero Bubble authors' and CP-SAT's schedules, and on damaged copies of them.

mod schedule_data;

use std::collections::HashMap;

use raddle_compiler::schedule::torch_csv::read_csv;
use raddle_compiler::schedule::{CommModel, Costs, Memory, PerIndex, Setting, evaluate};
use raddle_compiler::schedule::{Report, ScheduleError};
use serde_json::Value;

use schedule_data::data;

fn number(value: &Value, default: f64) -> PerIndex {
    match value {
        Value::Null => PerIndex::Same(default),
        Value::Array(list) => {
            PerIndex::Each(list.iter().map(|v| v.as_f64().expect("number")).collect())
        }
        one => PerIndex::Same(one.as_f64().expect("number")),
    }
}

fn setting(case: &Value) -> Setting {
    let c = &case["costs"];
    let costs = Costs {
        forward: number(&c["f"], 1.0),
        input_grad: number(&c["b"], 1.0),
        weight_grad: number(&c["w"], 1.0),
        transfer: number(&c["comm"], 0.0),
        overlap: c["overlap"].as_f64().unwrap_or(1.0),
        ..Costs::default()
    };
    let activation = number(&case["mem"][0], 1.0);
    let held_for_weights = match &case["mem"][1] {
        Value::Null => activation.clone(),
        some => number(some, 1.0),
    };
    let limit = (!case["limit"].is_null()).then(|| number(&case["limit"], 0.0));
    Setting {
        costs,
        memory: Memory {
            activation,
            held_for_weights,
        },
        limit,
    }
}

fn verdict(error: &ScheduleError) -> &'static str {
    if matches!(error, ScheduleError::Deadlock { .. }) {
        "deadlock"
    } else {
        "malformed"
    }
}

fn same(a: f64, b: &Value) -> bool {
    let b = b.as_f64().expect("number");
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

fn difference(report: &Report, want: &Value) -> Option<String> {
    let scalars = [
        ("makespan", report.makespan),
        ("span", report.span),
        ("lb_makespan", report.bound_makespan),
        ("lb_span", report.bound_span),
        ("lb_makespan_unsplit", report.bound_makespan_whole),
    ];
    for (key, have) in scalars {
        if !same(have, &want[key]) {
            return Some(format!("{key}: {have} for {}", want[key]));
        }
    }
    for (key, have) in [("work", &report.work), ("peak_mem", &report.peak)] {
        let list = want[key].as_array().expect("list");
        if list.len() != have.len() || !have.iter().zip(list).all(|(a, b)| same(*a, b)) {
            return Some(format!("{key}: {have:?} for {}", want[key]));
        }
    }
    let mismatches: Vec<String> = report.mismatches.iter().map(ToString::to_string).collect();
    let wanted: Vec<&str> = want["channel_mismatch"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if mismatches != wanted {
        return Some(format!("message order: {mismatches:?} for {wanted:?}"));
    }
    if report.fits != want["fits_memory"].as_bool() {
        return Some(format!(
            "fits: {:?} for {}",
            report.fits, want["fits_memory"]
        ));
    }
    None
}

#[test]
fn same_verdicts_and_numbers_as_the_independent_checker() {
    let data: Value = data("pipeval.json.gz");
    let texts = data["schedules"].as_object().expect("schedules");
    let schedules: HashMap<&String, _> = texts
        .iter()
        .map(|(k, v)| (k, read_csv(v.as_str().expect("text"))))
        .collect();
    let mut wrong = Vec::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for case in data["cases"].as_array().expect("cases") {
        let name = case["schedule"].as_str().expect("name").to_owned();
        let model = CommModel::ALL
            .into_iter()
            .find(|m| m.name() == case["model"])
            .expect("model");
        let have = schedules[&name]
            .clone()
            .and_then(|s| evaluate(&s, &setting(case), model));
        let want = &case["result"];
        let verdict_wanted = want["error"].as_str().unwrap_or("sound");
        *counts.entry(verdict_wanted).or_default() += 1;
        let problem = match have {
            Ok(report) if verdict_wanted == "sound" => difference(&report, want),
            Ok(_) => Some(format!("sound for {want}")),
            Err(error) if verdict(&error) == verdict_wanted => None,
            Err(error) => Some(format!("{error} for {want}")),
        };
        if let Some(problem) = problem {
            wrong.push(format!(
                "{name} [{}] {}: {problem}",
                case["model"], case["costs"]
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ, first:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert!(
        counts["sound"] > 3000 && counts["malformed"] > 1000 && counts["deadlock"] > 50,
        "{counts:?}"
    );
}

#[test]
fn a_ring_of_waits_is_closed_and_short() {
    let data: Value = data("pipeval.json.gz");
    let mut rings = 0;
    for case in data["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .filter(|c| c["result"]["error"] == "deadlock")
    {
        let text = data["schedules"][case["schedule"].as_str().expect("name")]
            .as_str()
            .expect("text");
        let model = CommModel::ALL
            .into_iter()
            .find(|m| m.name() == case["model"])
            .expect("model");
        let Err(ScheduleError::Deadlock { cycle }) =
            read_csv(text).and_then(|s| evaluate(&s, &setting(case), model))
        else {
            panic!("{case}: no deadlock");
        };
        let theirs = case["result"]["text"]
            .as_str()
            .expect("text")
            .matches("->")
            .count();
        let ours = ScheduleError::Deadlock {
            cycle: cycle.clone(),
        }
        .to_string()
        .matches("->")
        .count();
        assert!(!cycle.is_empty() && ours <= theirs, "{case}: {cycle:?}");
        rings += 1;
    }
    assert!(rings > 50);
}
