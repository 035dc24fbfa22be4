//! Files that PyTorch loads: the rules of `torch.distributed.pipelining.schedules` (`_Action.from_str`, `_validate_schedule` and
//! `_prepare_schedule_with_comms`, read in releases 2.11 and 2.15), applied to what Raddle writes for every kind.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use raddle_compiler::schedule::optimizer::Optimizer;
use raddle_compiler::schedule::torch_csv::{Contents, read_csv, write_csv};
use raddle_compiler::schedule::transfers::{StageSteps, place_best};
use raddle_compiler::schedule::{CommModel, Costs, Kind, Request, Schedule, make};

/// Words that releases up to 2.14 know, in the order in which their pattern tries them.
const OLD: [&str; 11] = [
    "F",
    "I",
    "B",
    "W",
    "UNSHARD",
    "RESHARD",
    "REDUCE_GRAD",
    "SEND_F",
    "RECV_F",
    "SEND_B",
    "RECV_B",
];

/// Those of 2.15.
const NEW: [&str; 14] = [
    "WAIT_REDUCE_GRAD",
    "WAIT_SEND_F",
    "WAIT_SEND_B",
    "REDUCE_GRAD",
    "UNSHARD",
    "RESHARD",
    "SEND_F",
    "RECV_F",
    "SEND_B",
    "RECV_B",
    "F",
    "I",
    "B",
    "W",
];

/// Stage, word and micro-batch as PyTorch's pattern finds them: a match at the start of the text, whatever follows.
fn parse(cell: &str, words: &'static [&'static str]) -> (usize, &'static str, Option<usize>) {
    let digits = cell.find(|c: char| !c.is_ascii_digit()).expect("a word");
    let stage = cell[..digits].parse().expect("a stage");
    let rest = &cell[digits..];
    let word = words
        .iter()
        .find(|word| rest.starts_with(**word))
        .unwrap_or_else(|| panic!("{cell}: no word"));
    let number: String = rest[word.len()..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    (stage, word, number.parse().ok())
}

/// What `_validate_schedule` refuses.
fn validate(
    text: &str,
    words: &'static [&'static str],
    stages: usize,
    m: usize,
) -> Result<(), String> {
    let mut done: HashMap<(usize, &str), HashSet<Option<usize>>> = HashMap::new();
    let mut rank_of = HashMap::new();
    for (rank, row) in text.lines().enumerate() {
        let mut reducing = None;
        for cell in row.split(',') {
            let parts: Vec<&str> = match cell.strip_prefix('(') {
                Some(group) => group
                    .strip_suffix(")OVERLAP_F_B")
                    .ok_or("a group of another kind")?
                    .split(';')
                    .collect(),
                None => vec![cell],
            };
            for part in parts {
                let (stage, word, microbatch) = parse(part, words);
                let needs = match word {
                    "B" | "I" => Some("F"),
                    "W" => Some("I"),
                    _ => None,
                };
                if let Some(needs) = needs
                    && !done
                        .entry((stage, needs))
                        .or_default()
                        .contains(&microbatch)
                {
                    return Err(format!("{part} without {needs}"));
                }
                done.entry((stage, word)).or_default().insert(microbatch);
                if *rank_of.entry(stage).or_insert(rank) != rank {
                    return Err(format!("stage {stage} on two ranks"));
                }
                match word {
                    "REDUCE_GRAD"
                        if words.len() == NEW.len() && reducing.replace(stage).is_some() =>
                    {
                        return Err(format!("{part} while another reduction is pending"));
                    }
                    "WAIT_REDUCE_GRAD" if reducing.take() != Some(stage) => {
                        return Err(format!("{part} without its reduction"));
                    }
                    _ => {}
                }
            }
        }
        if reducing.is_some() {
            return Err("a reduction that nobody awaits".to_owned());
        }
    }
    for stage in 0..stages {
        let count = |word| done.get(&(stage, word)).map_or(0, HashSet::len);
        let [f, b, i, w] = ["F", "B", "I", "W"].map(count);
        if f != m || i != w || b + (i + w) / 2 != m {
            return Err(format!("stage {stage}: F {f}, B {b}, I {i}, W {w}"));
        }
    }
    Ok(())
}

fn made(kind: Kind, ranks: u32, microbatches: u32) -> Schedule {
    let request = Request {
        kind,
        ranks,
        microbatches,
        chunks: None,
        costs: Costs::default(),
        held_for_weights: 1.0,
        limit: None,
        optimizer: Optimizer::PostValidate,
        backward: None,
        placement: None,
        round: None,
        time_limit: Some(Duration::from_millis(5)),
    };
    make(&request, &mut |_, _| {}).expect("a schedule").schedule
}

#[test]
fn files_of_every_kind_keep_to_the_rules() {
    for kind in Kind::ALL {
        for (ranks, microbatches) in [(1, 1), (2, 3), (4, 5), (4, 8)] {
            let schedule = made(kind, ranks, microbatches);
            let placed = place_best(
                &schedule,
                &Costs::default(),
                CommModel::Stream1,
                StageSteps::Placed,
            )
            .expect("placed");
            let (stages, m) = (schedule.stages(), microbatches as usize);
            for (contents, words, lists) in [
                (Contents::ComputeOnly, &NEW[..], &schedule),
                (Contents::ComputeOnly, &OLD[..], &schedule),
                (Contents::ComputeAndTransfers, &NEW[..], &placed),
                (Contents::ComputeAndTransfersWithoutWaits, &OLD[..], &placed),
            ] {
                let text = write_csv(lists, contents);
                let found = validate(&text, words, stages, m);
                assert_eq!(found, Ok(()), "{} {contents:?}\n{text}", kind.name());
                // What is written is read back as it was.
                let back = read_csv(&text).expect("read");
                assert_eq!(back.compute_only(), lists.compute_only());
            }
        }
    }
}

#[test]
fn old_releases_take_a_wait_for_a_weight_gradient() {
    let schedule = made(Kind::OneFOneB, 2, 2);
    let placed = place_best(
        &schedule,
        &Costs::default(),
        CommModel::Stream1,
        StageSteps::Placed,
    )
    .expect("placed");
    let text = write_csv(&placed, Contents::ComputeAndTransfers);
    assert_eq!(
        validate(&text, &OLD, 2, 2),
        Err("0WAIT_SEND_F0 without I".to_owned())
    );
}
