//! The Raddle compiler: passes on `dist` modules, the schedule room, code generation and the doors to other systems.

pub mod schedule;
