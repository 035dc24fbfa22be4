//! What a launcher keeps under a number. Numbers are never used twice.

use raddle_bundle::KernelImage;
use raddle_bundle::kernel::{Grid, KernelParameter, TensorMap};

use super::{BufferId, KernelId, LaunchError};

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

/// Kernels by number.
#[derive(Debug)]
pub(in crate::device) struct Kernels<K> {
    loaded: Vec<Loaded<K>>,
}

/// A kernel as the launcher has it, and what a launch must know of it.
#[derive(Debug)]
pub(in crate::device) struct Loaded<K> {
    pub code: K,
    pub entry: String,
    pub grid: Grid,
    pub tensor_maps: Vec<TensorMap>,
    pointers: Vec<KernelParameter>,
}

impl<K> Kernels<K> {
    pub fn new() -> Self {
        Self { loaded: Vec::new() }
    }

    pub fn add(&mut self, image: &KernelImage, code: K) -> KernelId {
        self.loaded.push(Loaded {
            code,
            entry: image.entry.clone(),
            grid: image.grid,
            tensor_maps: image.tensor_maps.clone(),
            pointers: image.parameters.clone(),
        });
        KernelId(self.loaded.len() - 1)
    }

    pub fn get(&self, id: KernelId) -> Result<&Loaded<K>, LaunchError> {
        self.loaded.get(id.0).ok_or(LaunchError::NotHeld("kernel"))
    }
}

impl<K> Loaded<K> {
    /// The buffers behind the kernel's pointers: as many as it has, each as large as it reaches.
    pub fn arguments<'t, T>(
        &self,
        buffers: &'t Table<T>,
        ids: &[BufferId],
        size: impl Fn(&T) -> usize,
    ) -> Result<Vec<&'t T>, LaunchError> {
        let found = ids.iter().map(|&id| buffers.get(id));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let wrong = |what: String| LaunchError::Arguments {
            entry: self.entry.clone(),
            what,
        };
        if self.pointers.len() != found.len() {
            let (buffers, pointers) = (found.len(), self.pointers.len());
            return Err(wrong(format!("{buffers} buffers for {pointers} pointers")));
        }
        for (pointer, buffer) in self.pointers.iter().zip(&found) {
            let size = size(buffer);
            if pointer.bytes > size as u64 {
                return Err(wrong(format!(
                    "a buffer of {size} bytes for `{}`, which reaches over {}",
                    pointer.name, pointer.bytes
                )));
            }
        }
        Ok(found)
    }
}
