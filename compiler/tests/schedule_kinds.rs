//! Every kind for every shape: complete, free of deadlock, with the peaks and idle times of its closed form, and equal to
//! PyTorch's and Paddle's own lists where those exist.

mod schedule_data;

use raddle_compiler::schedule::kinds::{Kind, Shape, lists};
use raddle_compiler::schedule::torch_csv::read_csv;
use raddle_compiler::schedule::{CommModel, Costs, Report, Schedule, Setting, evaluate};
use serde_json::Value;

use schedule_data::data;

fn schedule(kind: Kind, ranks: u32, microbatches: u32, chunks: u32) -> Schedule {
    let shape = Shape {
        ranks,
        microbatches,
        chunks,
        round: None,
    };
    let (lists, _) =
        lists(kind, shape).unwrap_or_else(|| panic!("{} follows no rule", kind.name()));
    Schedule::new(lists)
        .unwrap_or_else(|e| panic!("{} p{ranks} m{microbatches} v{chunks}: {e}", kind.name()))
}

fn report(schedule: &Schedule, costs: Costs) -> Report {
    evaluate(
        schedule,
        &Setting {
            costs,
            ..Setting::default()
        },
        CommModel::Dep,
    )
    .expect("sound")
}

#[test]
fn same_lists_as_pytorch() {
    let data: Value = data("pipeval.json.gz");
    let mut compared = 0;
    for (name, text) in data["schedules"].as_object().expect("schedules") {
        let Some(stem) = name
            .strip_prefix("torch/")
            .and_then(|n| n.strip_suffix(".compute.csv"))
        else {
            continue;
        };
        let parts: Vec<&str> = stem.split('_').collect();
        let number = |i: usize| parts[i][1..].parse::<u32>().expect("number");
        let kind = match parts[0] {
            "GPipe" => Kind::FThenB,
            "1F1B" => Kind::OneFOneB,
            "Interleaved1F1B" => Kind::Interleaved1F1B,
            "LoopedBFS" => Kind::LoopedBfs,
            "DualPipeV" => Kind::DualPipeV,
            "ZBVZeroBubble" => Kind::ZbV,
            _ => continue,
        };
        let ours = schedule(kind, number(1), number(3), number(2));
        let theirs = read_csv(text.as_str().expect("text")).expect("sound");
        assert_eq!(ours, theirs, "{name}");
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn same_lists_as_paddle() {
    let data: Value = data("paddle_job_lists.json.gz");
    let mut compared = 0;
    for row in data.as_array().expect("rows") {
        let number = |key: &str| row[key].as_u64().expect("number") as u32;
        let (p, m, v) = (
            number("pp_degree"),
            number("num_micro_batches"),
            number("vpp_degree"),
        );
        let kind = match row["schedule"].as_str().expect("name") {
            "FThenB" => Kind::FThenB,
            "1F1B" => Kind::OneFOneB,
            "Eager1F1B" => Kind::Eager1F1B,
            "ZBH1" => Kind::ZbH1Paddle,
            "VPP" if m % p == 0 && v > 1 && row["attrs"]["split_backward"] == false => {
                Kind::Interleaved1F1B
            }
            _ => continue,
        };
        if !row["errors"].as_object().is_none_or(|e| e.is_empty()) {
            continue;
        }
        // Paddle's rounds are always p micro-batches long, and with m = p it runs all forwards first.
        if kind == Kind::Interleaved1F1B && m == p {
            continue;
        }
        let shape = Shape {
            ranks: p,
            microbatches: m,
            chunks: v,
            round: Some(p),
        };
        let (ours, _) = lists(kind, shape).expect("follows a rule");
        for (stage, theirs) in row["stages"].as_array().expect("stages").iter().enumerate() {
            let jobs: Vec<String> = ours[stage]
                .iter()
                .flat_map(|action| action.ops())
                .map(|op| {
                    let chunk = if v > 1 {
                        (op.stage.0 / p).to_string()
                    } else {
                        String::new()
                    };
                    let name = match op.kind.letter() {
                        'F' => "forward",
                        'B' => "backward",
                        'I' => "backward_b",
                        _ => "backward_w",
                    };
                    format!("{name}{chunk}:{}", op.microbatch.0)
                })
                .collect();
            let theirs = theirs
                .as_str()
                .expect("jobs")
                .trim_end_matches(" optimizer:0");
            assert_eq!(
                jobs.join(" "),
                theirs,
                "{} p{p} m{m} v{v} stage {stage}",
                kind.name()
            );
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}

/// (time − work of a rank) of the whole pipeline in units of the costs.
fn idle(report: &Report, time: f64) -> f64 {
    time - report.work_max()
}

#[test]
fn closed_forms_of_idle_time_and_memory() {
    for p in 1u32..9 {
        for m in [p, p + 1, 2 * p - 1, 2 * p, 3 * p + 1] {
            let ahead = f64::from(p - 1);
            for (f, i, w) in [
                (1.0, 1.0, 1.0),
                (2.0, 3.0, 1.0),
                (1.0, 2.0, 3.0),
                (3.0, 2.0, 2.5),
            ] {
                let run = |kind| report(&schedule(kind, p, m, 1), Costs::uniform(f, i, w, 0.0));
                let same = |what: &str, have: f64, want: f64| {
                    assert!(
                        (have - want).abs() < 1e-9,
                        "{what} p{p} m{m} f{f} i{i} w{w}: {have} for {want}"
                    );
                };
                let gpipe = run(Kind::FThenB);
                same("fthenb", idle(&gpipe, gpipe.makespan), ahead * (f + i + w));
                same("fthenb peak", gpipe.peak_max(), f64::from(m));
                let classic = run(Kind::OneFOneB);
                same(
                    "1f1b",
                    idle(&classic, classic.makespan),
                    ahead * (f + i + w),
                );
                for (r, peak) in classic.peak.iter().enumerate() {
                    same("1f1b peak", *peak, f64::from(m.min(p - r as u32)));
                }
                let h1 = run(Kind::ZbH1);
                same("zb-h1", idle(&h1, h1.span), ahead * (i + (f - w).max(0.0)));
                for peak in &h1.peak {
                    same("zb-h1 peak", *peak, f64::from(m.min(p)));
                }
                if m >= 2 * p - 1 && w <= f.min(i) {
                    let h2 = run(Kind::ZbH2);
                    same(
                        "zb-h2",
                        idle(&h2, h2.span),
                        ahead * (f + i - 2.0 * w).max(0.0),
                    );
                    same("zb-h2 peak", h2.peak_max(), f64::from(2 * p - 1));
                    let eager = run(Kind::Eager1F1B);
                    for (r, peak) in eager.peak.iter().enumerate() {
                        same("eager peak", *peak, f64::from(2 * (p - r as u32) - 1));
                    }
                }
            }
        }
    }
}

#[test]
fn zero_bubble_v_has_none() {
    for p in 1u32..9 {
        for m in [2 * p, 2 * p + 3] {
            let v = report(&schedule(Kind::ZbV, p, m, 2), Costs::default());
            assert_eq!(v.span, v.work_max(), "p{p} m{m}");
            assert_eq!(v.peak_max(), f64::from(2 * p), "p{p} m{m}");
        }
    }
}

#[test]
fn interleaving_takes_any_number_of_micro_batches() {
    // All 360 settings, among them the 120 in which Paddle's own lists lock up.
    for p in [2u32, 3, 4, 5, 6, 8] {
        for m in 1..=20 {
            for v in 2..=4 {
                report(&schedule(Kind::Interleaved1F1B, p, m, v), Costs::default());
            }
        }
    }
    let best = report(&schedule(Kind::Interleaved1F1B, 4, 5, 3), Costs::default());
    assert_eq!(best.makespan, 54.0);
    let shape = Shape {
        ranks: 4,
        microbatches: 5,
        chunks: 3,
        round: Some(4),
    };
    let short =
        Schedule::new(lists(Kind::Interleaved1F1B, shape).expect("a rule").0).expect("sound");
    assert_eq!(report(&short, Costs::default()).makespan, 66.0);
}
