//! What a launcher keeps under a number. Numbers are never used twice.

use super::{BufferId, LaunchError};

/// Buffers by number.
#[derive(Debug)]
pub(in crate::device) struct Table<T> {
    slots: Vec<Option<T>>,
}

impl<T> Table<T> {
    pub fn new() -> Self {
        Self { slots: Vec::new() }
    }

    pub fn add(&mut self, buffer: T) -> BufferId {
        self.slots.push(Some(buffer));
        BufferId(self.slots.len() - 1)
    }

    pub fn get(&self, id: BufferId) -> Result<&T, LaunchError> {
        let slot = self.slots.get(id.0).and_then(Option::as_ref);
        slot.ok_or(LaunchError::NotHeld("buffer"))
    }

    pub fn take(&mut self, id: BufferId) -> Result<T, LaunchError> {
        let slot = self.slots.get_mut(id.0).and_then(Option::take);
        slot.ok_or(LaunchError::NotHeld("buffer"))
    }
}
