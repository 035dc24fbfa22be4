//! What is decided of a kernel before its code is written: tiles, parameters, tensor maps, and what launches it.
//!
//! ```text
//! KernelDescription + Target ──▶ Planned ──▶ (LLVM, or PTX that is already known) ──▶ Ptx
//! ```
//!
//! None of it needs LLVM, so PTX that was kept becomes a [`Ptx`] again wherever it is.

use std::fmt;

use super::ptx::{Parameters, Plan, Ptx};
use super::target::Target;
use super::tensor_map::TensorMap;
use crate::codegen::column_sum::ColumnSumSchedule;
use crate::codegen::contraction::Contraction;
use crate::codegen::cost::Cost;
use crate::codegen::depth_shares::Wish;
use crate::codegen::description::KernelDescription;
use crate::codegen::error::CodegenError;
use crate::codegen::tensor_memory_tiling;
use crate::codegen::tile_table::TileTable;
use crate::codegen::tiling;
use crate::codegen::warpgroup_tiling::{self, NoWarpgroups};

/// What chose a kernel's tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Whoever asked for the kernel.
    Wish,
    /// A row of the table that was measured on a device.
    Table,
    /// The cost model, where the table has no such row.
    Model,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Choice::Wish => "wish",
            Choice::Table => "table",
            Choice::Model => "model",
        })
    }
}

/// What the cost model expects of a product that is cut like this.
pub(super) fn cost(contraction: &Contraction, plan: &Plan, target: Target) -> Option<Cost> {
    let limits = target.architecture().limits();
    match plan {
        Plan::Product(schedule) => tiling::cost_of(contraction, schedule, &limits),
        Plan::Warpgroups(schedule) => warpgroup_tiling::cost_among(
            contraction,
            schedule,
            (&limits, &warpgroup_tiling::WARPGROUPS),
        ),
        Plan::TensorMemory(schedule) => {
            tensor_memory_tiling::cost_of(contraction, schedule, &limits)
        }
        Plan::ColumnSum(_) => None,
    }
}

/// A kernel, planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What it computes.
    pub kernel: KernelDescription,
    /// What it runs on.
    pub target: Target,
    /// The same as a matrix product, if it is one.
    pub contraction: Option<Contraction>,
    /// How the work is cut.
    pub plan: Plan,
    /// Why neither warpgroups nor tensor memory do it, on an architecture that has one of them.
    pub without_warpgroups: Option<NoWarpgroups>,
    /// Its pointers.
    pub parameters: Parameters,
    /// Its tensor maps.
    pub tensor_maps: Vec<TensorMap>,
    /// What chose the tile.
    pub choice: Choice,
}

impl Planned {
    /// Plans one kernel, with a tile of a given size and a depth in so many shares if that is wished for.
    ///
    /// # Errors
    /// What the description or the tile schedule refuse; also if there is no tile of that size, or the depth has fewer
    /// stages than shares.
    pub fn of(
        kernel: &KernelDescription,
        target: Target,
        wish: Wish,
    ) -> Result<Planned, CodegenError> {
        if wish == Wish::default()
            && let Some(product) = Contraction::of(kernel)?
            && let Some(row) = TileTable::choice(&product, target.architecture())?
            && let Ok(planned) = Planned::cut(kernel, target, row.wish())
        {
            return Ok(Planned {
                choice: Choice::Table,
                ..planned
            });
        }
        Planned::cut(kernel, target, wish)
    }

    /// Plans one kernel as the cost model chooses, whatever the table says.
    ///
    /// # Errors
    /// As [`Planned::of`].
    pub fn by_model(kernel: &KernelDescription, target: Target) -> Result<Planned, CodegenError> {
        Planned::cut(kernel, target, Wish::default())
    }

    fn cut(
        kernel: &KernelDescription,
        target: Target,
        wish: Wish,
    ) -> Result<Planned, CodegenError> {
        let contraction = Contraction::of(kernel)?;
        let limits = target.architecture().limits();
        let mut without_warpgroups = None;
        let (plan, parameters) = match &contraction {
            Some(product) => {
                let architecture = target.architecture();
                let persistent = if architecture.has_warpgroups() {
                    warpgroup_tiling::choose(product, &limits, wish).map(Plan::Warpgroups)
                } else if architecture.has_tensor_memory() {
                    tensor_memory_tiling::choose(product, &limits, wish).map(Plan::TensorMemory)
                } else {
                    Ok(Plan::Product(tiling::choose(product, &limits, wish)?))
                };
                let plan = match persistent {
                    Ok(plan) => plan,
                    Err(reason) => {
                        without_warpgroups = Some(reason);
                        Plan::Product(tiling::choose(product, &limits, wish)?)
                    }
                };
                (plan, Parameters::of_product(product))
            }
            None => {
                if wish != Wish::default() {
                    return Err(CodegenError::InvalidDescription(format!(
                        "{} multiplies no matrices, so it has no tile to choose and no depth to split",
                        kernel.op.name()
                    )));
                }
                let schedule = ColumnSumSchedule::of(kernel)?;
                let parameters = Parameters::of_column_sum(&schedule);
                (Plan::ColumnSum(schedule), parameters)
            }
        };
        let parameters = parameters.with_scratch(plan.scratch());
        let tensor_maps = match (&plan, &contraction) {
            (Plan::Warpgroups(schedule), Some(product)) => TensorMap::all(product, schedule),
            (Plan::TensorMemory(schedule), Some(product)) => {
                TensorMap::all(product, &schedule.tile)
            }
            _ => Vec::new(),
        };
        Ok(Planned {
            kernel: *kernel,
            target,
            contraction,
            plan,
            without_warpgroups,
            parameters,
            tensor_maps,
            choice: if wish == Wish::default() {
                Choice::Model
            } else {
                Choice::Wish
            },
        })
    }

    /// What the cost model expects of a product; `None` for what is none.
    pub fn cost(&self) -> Option<Cost> {
        cost(self.contraction.as_ref()?, &self.plan, self.target)
    }

    /// The kernel, once its text is there.
    pub fn with_text(self, text: String) -> Ptx {
        Ptx {
            text,
            entry: self.kernel.entry(),
            parameters: self.parameters,
            tensor_maps: self.tensor_maps,
            launch: self.plan.launch(),
            scratch: self.plan.scratch(),
            kernel: self.kernel,
            plan: self.plan,
            without_warpgroups: self.without_warpgroups,
            choice: self.choice,
            target: self.target,
        }
    }
}
