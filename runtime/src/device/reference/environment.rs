//! What one rank's jobs leave for later ones: named values, by micro-batch, each kept until its last reader has come.

use std::collections::HashMap;

use raddle_bundle::Source;
use raddle_dialect::reference::Tensor;

use super::jobs::Job;

type Name<'p> = (usize, &'p str);

/// Values between jobs.
pub(super) struct Environment<'p> {
    values: HashMap<Name<'p>, Tensor>,
    /// How many readers are still to come.
    readers: HashMap<Name<'p>, usize>,
}

impl<'p> Environment<'p> {
    /// Counts who will read what.
    pub fn new(jobs: &[Job<'p>]) -> Self {
        let mut readers = HashMap::new();
        for job in jobs {
            for param in &job.function.plain.params {
                if let Source::Value(name) = &param.source {
                    *readers.entry((job.microbatch, name.as_str())).or_default() += 1;
                }
            }
        }
        Self {
            values: HashMap::new(),
            readers,
        }
    }

    /// Keeps a value if someone is yet to read it.
    pub fn put(&mut self, microbatch: usize, name: &'p str, value: Tensor) {
        if self.readers.contains_key(&(microbatch, name)) {
            self.values.insert((microbatch, name), value);
        }
    }

    /// Reads a value; `None` if nobody has written it.
    pub fn take(&mut self, microbatch: usize, name: &'p str) -> Option<Tensor> {
        let key = (microbatch, name);
        let left = self.readers.get_mut(&key)?;
        *left -= 1;
        if *left > 0 {
            return self.values.get(&key).cloned();
        }
        self.readers.remove(&key);
        self.values.remove(&key)
    }
}
