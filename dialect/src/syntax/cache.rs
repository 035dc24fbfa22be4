//! Types and dictionaries by their text.
//!
//! Programs repeat the same few types and dictionaries at every op. What was read once is found again by its bytes, without
//! cutting it into tokens. That is right wherever it stands: the bytes end in a bracket, so no longer token could start there,
//! and an alias, once defined, keeps its meaning.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::ir::{Attr, Type};

/// Longer texts are not kept.
const MAX_LEN: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    Type(Type),
    Dict(Attr),
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct TextCache<'s> {
    entries: Vec<(&'s [u8], Known)>,
    index: HashTable<u32>,
}

impl<'s> TextCache<'s> {
    /// The entry for the bracketed text at the start of `text` and its length, if it was read before.
    pub fn find(&self, text: &[u8]) -> Option<(u32, usize)> {
        if self.entries.is_empty() {
            return None;
        }
        let len = bracketed(text)?;
        let text = &text[..len];
        let found = self
            .index
            .find(hash(text), |&i| self.entries[i as usize].0 == text)?;
        Some((*found, len))
    }

    pub fn get(&self, entry: u32) -> Known {
        self.entries[entry as usize].1
    }

    /// Keeps what a text that ends in a closing bracket means.
    pub fn insert(&mut self, text: &'s [u8], known: Known) {
        if text.len() > MAX_LEN || bracketed(text) != Some(text.len()) {
            return;
        }
        let hash = hash(text);
        if self
            .index
            .find(hash, |&i| self.entries[i as usize].0 == text)
            .is_none()
        {
            let entry = self.entries.len() as u32;
            self.entries.push((text, known));
            let entries = &self.entries;
            self.index
                .insert_unique(hash, entry, |&i| self::hash(entries[i as usize].0));
        }
    }
}

fn hash(text: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text);
    hasher.finish()
}

/// Where the first bracket of `text` is closed, looking at `<>` and `{}` only and not into strings: a guess that is right for
/// nearly every text, and harmless where it is wrong.
fn bracketed(text: &[u8]) -> Option<usize> {
    let mut depth = 0u32;
    for (at, &byte) in text.iter().enumerate().take(MAX_LEN) {
        match byte {
            b'<' | b'{' => depth += 1,
            b'>' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'\n' => return None,
            _ => {}
        }
    }
    None
}
