//! Pipeline schedules: one file per kind, one simulator, one proof, one search.
//!
//! A [`Schedule`] is one ordered list of actions per rank. [`check::check`] proves it complete and causal,
//! [`simulate::simulate`] runs it under each way compute and communication can share a machine (or finds the ring of
//! waits in which it would hang), [`memory::peak_memory`] counts activations, and [`bound::lower_bounds`] says what no
//! schedule can beat.

mod backward;
pub mod bound;
mod channel;
pub mod check;
pub mod cost;
pub mod cost_text;
pub mod error;
mod graph;
pub mod job_list;
pub mod json;
pub mod kinds;
pub mod list;
pub mod memory;
pub mod mlir_text;
pub mod optimizer;
pub mod report;
pub mod request;
pub mod ring_svg;
pub mod search;
pub mod simulate;
pub mod svg;
pub mod table;
mod timeline;
pub mod torch_csv;
pub mod trace;
pub mod transfers;

pub use check::check;
pub use cost::{Costs, Memory, PerIndex};
pub use error::ScheduleError;
pub use kinds::Kind;
pub use list::{Placement, Schedule};
pub use raddle_dialect::action;
pub use raddle_dialect::action::{Action, Compute, Direction, MicrobatchId, Op, RankId, StageId};
pub use report::{Report, Setting, evaluate};
pub use request::{Backward, Made, Request, make, time_limit};
pub use simulate::{CommModel, simulate};
