//! The passes, one file or folder each. [`registry`](crate::pass::registry) lists them.

pub mod append_backward;
pub mod apply_amp;
pub mod canonicalize;
pub mod cse;
pub mod dce;
pub mod fuse_linear;
pub mod infer_stages;
pub mod lower_to_linalg;
pub mod overlap_comm;
pub mod partition_stages;
pub mod plan_memory;
pub mod promote_linear;
pub mod schedule_pipeline;
pub mod split_backward;
pub mod verify_collectives;
pub mod verify_spmd;
pub mod verify_streams;
