//! Read-only facts about modules.

pub mod cost;
pub mod jobs;
pub mod layouts;
pub mod meetings;
pub mod memory;
pub mod spmd;
pub mod stages;
pub mod step;
pub mod streams;
