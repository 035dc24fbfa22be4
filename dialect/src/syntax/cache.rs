//! Types, the signatures of ops and dictionaries by their text.
//!
//! Programs repeat the same few types and dictionaries at every op. What was read once is found again by its bytes, without
//! cutting it into tokens. That is right wherever it stands: the bytes end in a bracket, so no longer token could start there,
//! and an alias, once defined, keeps its meaning.

use std::cell::Cell;
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
    /// What was found last, by the first byte of the text: most likely what comes next.
    recent: Cell<[[u32; 2]; 4]>,
}

impl<'s> TextCache<'s> {
    /// The entry for the bracketed text at the start of `text` and its length, if it was read before.
    pub fn find(&self, text: &[u8]) -> Option<(u32, usize)> {
        if self.entries.is_empty() {
            return None;
        }
        let slot = match text[0] {
            b'{' => 0,
            b'(' => 1,
            b't' => 2,
            _ => 3,
        };
        let mut recent = self.recent.get();
        for entry in recent[slot] {
            let known = self.entries[entry as usize].0;
            if text.starts_with(known) {
                return Some((entry, known.len()));
            }
        }
        // Signatures mostly end the line, types and dictionaries mostly nest nothing.
        let text = &text[..text.len().min(MAX_LEN)];
        let near = match slot {
            0 => memchr::memchr(b'}', text)? + 1,
            1 => memchr::memchr(b'\n', text).unwrap_or(text.len()),
            _ => memchr::memchr(b'>', text)? + 1,
        };
        let found = self
            .look_up(&text[..near])
            .or_else(|| self.look_up(&text[..bracketed(text)?]))?;
        recent[slot] = [found, recent[slot][0]];
        self.recent.set(recent);
        Some((found, self.entries[found as usize].0.len()))
    }

    fn look_up(&self, text: &[u8]) -> Option<u32> {
        let found = self
            .index
            .find(hash(text), |&i| self.entries[i as usize].0 == text);
        found.copied()
    }

    pub fn get(&self, entry: u32) -> Known {
        self.entries[entry as usize].1
    }

    /// Keeps what a text that ends in a closing bracket means.
    pub fn insert(&mut self, text: &'s [u8], known: Known) {
        // A function's type that is all names could be something else behind a colon: the constraints of an affine set.
        let plain = text[0] == b'(' && memchr::memchr(b'<', text).is_none();
        if text.len() > MAX_LEN || plain || bracketed(text) != Some(text.len()) {
            return;
        }
        let hash = hash(text);
        if self.look_up(text).is_none() {
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

/// Where the first bracket of `text` is closed, or where a function's type ends. This looks at brackets only and not into
/// strings: a guess that is right for nearly every text, and harmless where it is wrong.
fn bracketed(text: &[u8]) -> Option<usize> {
    let mut depth = 0u32;
    let mut arrow = text[0] == b'(';
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'<' | b'{' | b'(' => depth += 1,
            b'>' | b'}' | b')' => {
                depth = depth.checked_sub(1)?;
                if depth > 0 {
                    continue;
                }
                if !arrow {
                    return Some(at);
                }
                at += text[at..].strip_prefix(b" -> ").map(|_| 4)?;
                arrow = false;
            }
            b'-' if text.get(at) == Some(&b'>') => at += 1,
            b'\n' | b'%' => return None,
            _ => {}
        }
    }
    None
}
