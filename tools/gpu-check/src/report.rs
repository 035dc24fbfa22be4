//! What a run shows: a line for each kernel, a verdict, and all of it as JSON.

use serde::Serialize;

use crate::check::Outcome;

/// All figures of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The GPU.
    pub device: String,
    /// The CUDA version that its driver knows.
    pub driver: String,
    /// What the kernels are for.
    pub target: String,
    /// The version of cuBLASLt, if it was timed.
    pub cublaslt: Option<String>,
    /// Kernels that were compared whole.
    pub small: Vec<Outcome>,
    /// Kernels that were sampled and timed.
    pub large: Vec<Outcome>,
    /// How long the run took.
    pub seconds: f64,
}

impl Report {
    /// What the run is about.
    pub fn heading(&self) -> String {
        let peer = self.cublaslt.as_deref().unwrap_or("not compared");
        format!(
            "{}, driver for CUDA {}, kernels for {}, cuBLASLt {peer}",
            self.device, self.driver, self.target
        )
    }

    /// Whether there were kernels, and all ran and wrote what they should.
    pub fn is_right(&self) -> bool {
        let mut all = self.small.iter().chain(&self.large).peekable();
        all.peek().is_some() && all.all(|outcome| outcome.is_right)
    }

    /// How many kernels are right.
    pub fn verdict(&self) -> String {
        let all = || self.small.iter().chain(&self.large);
        let right = all().filter(|outcome| outcome.is_right).count();
        let compared: u64 = all().map(|outcome| outcome.compared).sum();
        format!(
            "\n{right} of {} kernels are right, {compared} numbers compared, in {:.0} s",
            all().count(),
            self.seconds
        )
    }
}

/// The heading of a group of kernels.
pub fn columns(is_large: bool) -> String {
    if is_large {
        format!(
            "\n{:<48} {:>9} {:>9} {:>9} {:>7} {:>6}",
            "kernel", "us", "TFLOP/s", "cuBLASLt", "ratio", "error"
        )
    } else {
        "\nsmall kernels of every kind; those that are wrong:".to_owned()
    }
}

/// A kernel's line.
pub fn row(outcome: &Outcome) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let ratio = outcome.tflops.zip(outcome.peer_tflops);
    let ratio = ratio.map_or("-".to_owned(), |(ours, theirs)| {
        format!("{:.3}", ours / theirs)
    });
    let mut line = format!(
        "{:<48} {:>9} {:>9} {:>9} {ratio:>7} {:>6.3}",
        outcome.name,
        number(outcome.us),
        number(outcome.tflops),
        number(outcome.peer_tflops),
        outcome.worst,
    );
    if !outcome.is_right {
        line.push_str(&format!("  WRONG: {}", outcome.wrong));
    }
    for note in outcome.note.iter().chain(&outcome.peer_note) {
        line.push_str(&format!("  {note}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcomes: Vec<Outcome>) -> Report {
        Report {
            device: "G".to_owned(),
            driver: "13.0".to_owned(),
            target: "sm_90a".to_owned(),
            cublaslt: None,
            small: outcomes,
            large: Vec::new(),
            seconds: 1.0,
        }
    }

    #[test]
    fn a_run_is_right_if_every_kernel_is_and_there_is_one() {
        let right = Outcome {
            is_right: true,
            ..Outcome::default()
        };
        assert!(!report(vec![]).is_right());
        assert!(report(vec![right.clone()]).is_right());
        assert!(!report(vec![right, Outcome::default()]).is_right());
    }

    #[test]
    fn a_line_holds_both_speeds_and_their_ratio() {
        let outcome = Outcome {
            name: "plain".to_owned(),
            us: Some(1400.0),
            tflops: Some(780.0),
            peer_tflops: Some(800.0),
            is_right: true,
            ..Outcome::default()
        };
        let words: Vec<String> = row(&outcome)
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        assert_eq!(
            words,
            ["plain", "1400.0", "780.0", "800.0", "0.975", "0.000"]
        );
    }
}
