//! What a run showed, as text and as JSON.

use std::collections::BTreeMap;

use raddle_bundle::KernelImage;
use raddle_compiler::codegen::nvptx::Target;
use raddle_runtime::device::kernels::{KernelTally, Player};
use raddle_runtime::device::reference::Returned;
use serde_json::json;

use super::Options;

/// The losses of a step.
pub(super) struct Losses {
    /// How many: one for each rank and micro-batch that returns one.
    count: usize,
    mean: f64,
    lowest: f64,
    highest: f64,
}

impl Losses {
    pub fn of(returned: &[Vec<Returned>]) -> Self {
        let losses: Vec<f64> = super::losses(returned).collect();
        // Where one is no number, neither is the lowest or the highest.
        let nan = losses.iter().copied().find(|loss| loss.is_nan());
        let of = |fold: fn(f64, f64) -> f64| {
            let all = losses.iter().copied().reduce(fold);
            nan.or(all).unwrap_or(f64::NAN)
        };
        Self {
            count: losses.len(),
            mean: losses.iter().sum::<f64>() / losses.len() as f64,
            lowest: of(f64::min),
            highest: of(f64::max),
        }
    }
}

/// Everything that is shown.
pub(super) struct Outcome<'a> {
    pub options: &'a Options,
    /// What the kernels are for, if there are kernels.
    pub target: Option<Target>,
    pub losses: Vec<Losses>,
    /// Linear layers that kernels compute.
    pub layers: usize,
    /// Linear layers that no kernel computes.
    pub refused: usize,
    pub images: &'a [KernelImage],
    pub player: Option<&'a Player<'a>>,
}

impl Outcome<'_> {
    /// Whether no kernel showed a fault.
    pub fn is_right(&self) -> bool {
        self.player.is_none_or(|player| {
            let mut tallies = player.tallies().iter();
            player.comparison().is_right() && tallies.all(|tally| tally.findings.is_empty())
        })
    }

    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<6} {:>14} {:>14} {:>14} {:>8}\n",
            "step", "loss", "lowest", "highest", "losses"
        );
        for (step, losses) in self.losses.iter().enumerate() {
            let Losses {
                count,
                mean,
                lowest,
                highest,
            } = losses;
            text += &match count {
                0 => format!("{step:<6} {:>14} {:>14} {:>14} {:>8}\n", "-", "-", "-", 0),
                _ => format!("{step:<6} {mean:>14.6} {lowest:>14.6} {highest:>14.6} {count:>8}\n"),
            };
        }
        let (Some(player), Some(target)) = (self.player, self.target) else {
            return text;
        };
        let kernels = self.kernels(player);
        let width = kernels.keys().map(|name| name.len()).max().unwrap_or(0);
        let width = width.max("kernel".len());
        text.push('\n');
        if !kernels.is_empty() {
            text += &format!(
                "{:<width$} {:>10} {:>12}\n",
                "kernel", "launches", "us each"
            );
        }
        for (name, tally) in &kernels {
            let each = match tally.kernel_us {
                0.0 => "-".to_owned(),
                us => format!("{:.1}", us / tally.launches as f64),
            };
            text += &format!("{name:<width$} {:>10} {each:>12}\n", tally.launches);
        }
        let mut fact = |name: &str, what: String| {
            text += &format!("{:<13}{what}\n", format!("{name}:"));
        };
        fact("target", target.architecture().name().to_owned());
        let (layers, refused) = (self.layers, self.refused);
        let by = format!("{layers} by kernels, {refused} by the reference device");
        fact("layers", by);
        if self.options.check {
            let comparison = player.comparison();
            fact(
                "numbers",
                format!(
                    "{} compared, {} wrong, largest error {:.3} of what is allowed",
                    comparison.compared, comparison.wrong, comparison.worst
                ),
            );
            if let Some(first) = &comparison.first_wrong {
                fact("first wrong", first.clone());
            }
        }
        let findings: usize = kernels.values().map(|tally| tally.findings.len()).sum();
        fact("findings", findings.to_string());
        for (name, tally) in &kernels {
            for finding in &tally.findings {
                text += &format!("  {name}: {finding}\n");
            }
        }
        text
    }

    pub fn json(&self) -> String {
        let steps = self.losses.iter().enumerate().map(|(step, losses)| {
            json!({
                "step": step,
                "loss": losses.mean,
                "lowest": losses.lowest,
                "highest": losses.highest,
                "losses": losses.count,
            })
        });
        let mut whole = json!({
            "device": device_name(self.options),
            "seed": self.options.seed,
            "steps": steps.collect::<Vec<_>>(),
        });
        if let (Some(player), Some(target)) = (self.player, self.target) {
            let kernels = self.kernels(player).into_iter();
            let kernels = kernels.map(|(name, tally)| {
                let us = (tally.kernel_us > 0.0).then_some(tally.kernel_us);
                json!({
                    "kernel": name,
                    "launches": tally.launches,
                    "microseconds": us,
                    "findings": tally.findings,
                })
            });
            whole["target"] = json!(target.architecture().name());
            whole["layers"] = json!({ "kernels": self.layers, "reference": self.refused });
            whole["kernels"] = kernels.collect();
            if self.options.check {
                let comparison = player.comparison();
                whole["check"] = json!({
                    "compared": comparison.compared,
                    "wrong": comparison.wrong,
                    "worst": comparison.worst,
                    "first_wrong": comparison.first_wrong,
                });
            }
        }
        format!("{whole:#}\n")
    }

    /// What the kernels did, by name: kernels that differ in their layouts alone share one.
    fn kernels(&self, player: &Player<'_>) -> BTreeMap<&str, KernelTally> {
        let mut kernels: BTreeMap<&str, KernelTally> = BTreeMap::new();
        for (image, tally) in self.images.iter().zip(player.tallies()) {
            let known = kernels.entry(&image.entry).or_default();
            known.launches += tally.launches;
            known.kernel_us += tally.kernel_us;
            known.findings.extend(tally.findings.iter().cloned());
        }
        kernels
    }
}

fn device_name(options: &Options) -> String {
    use clap::ValueEnum;
    let name = options.device.to_possible_value();
    name.map_or_else(String::new, |value| value.get_name().to_owned())
}
