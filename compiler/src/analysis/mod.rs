//! Read-only facts about modules.

pub mod cost;
pub mod jobs;
pub mod layouts;
pub mod memory;
pub mod stages;
pub mod step;
pub mod streams;
