//! Pipeline schedules: one file per kind, one simulator, one proof, one search.
//!
//! A [`Schedule`] is one ordered list of actions per rank. [`check::check`] proves it complete and causal,
//! [`simulate::simulate`] runs it under each way compute and communication can share a machine (or finds the ring of
//! waits in which it would hang), [`memory::peak_memory`] counts activations, and [`bound::lower_bounds`] says what no
//! schedule can beat.

pub mod action;
pub mod bound;
mod channel;
pub mod check;
pub mod cost;
pub mod error;
mod graph;
pub mod kinds;
pub mod list;
pub mod memory;
pub mod report;
pub mod search;
pub mod simulate;
pub mod torch_csv;

pub use action::{Action, Compute, Direction, MicrobatchId, Op, RankId, StageId};
pub use check::check;
pub use cost::{Costs, Memory, PerIndex};
pub use error::ScheduleError;
pub use list::{Placement, Schedule};
pub use report::{Report, Setting, evaluate};
pub use simulate::{CommModel, simulate};
