//! Read-only facts about modules.

pub mod layouts;
