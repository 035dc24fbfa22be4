//! The lines of a source that a diagnostic touches, as codespan wants them.
//!
//! Sources are bytes, perhaps not UTF-8, and machine-written ones have lines of megabytes. So only the touched lines are
//! taken, each cut to a window around what is marked, with bytes that are not UTF-8 replaced.

use std::collections::BTreeMap;
use std::ops::Range;

use codespan_reporting::files::{Error, Files};

use super::Source;

/// The widest part of a line that is drawn, in bytes.
const WINDOW_BYTES: usize = 160;

/// Some lines of a source.
pub(super) struct Excerpt<'a, 't> {
    source: &'a Source<'t>,
    text: String,
    /// By line index in the source.
    lines: BTreeMap<usize, Line>,
}

/// A line, or the part of it that is drawn.
struct Line {
    /// Where it lies in the excerpt.
    drawn: Range<usize>,
    /// Which bytes of the source these are.
    window: Range<usize>,
}

impl<'a, 't> Excerpt<'a, 't> {
    /// The lines in which the marked spans begin, and the line after each, which is drawn where it lies between two.
    pub fn new<'s>(source: &'a Source<'t>, marked: impl Iterator<Item = &'s Range<usize>>) -> Self {
        let mut excerpt = Self {
            source,
            text: String::new(),
            lines: BTreeMap::new(),
        };
        let mut wanted = BTreeMap::new();
        for span in marked {
            let index = source.line_index(span.start);
            // The mark that comes first decides which part of a long line is drawn.
            wanted.entry(index).or_insert(Some(span.start));
            wanted.entry(index + 1).or_insert(None);
        }
        for (index, focus) in wanted {
            excerpt.add(index, focus);
        }
        excerpt
    }

    /// Where a marked span lies in the excerpt; only its first line counts.
    pub fn range(&self, span: &Range<usize>) -> Range<usize> {
        let index = self.source.line_index(span.start);
        match self.lines.get(&index) {
            Some(line) => self.position(line, span.start)..self.position(line, span.end),
            None => 0..0,
        }
    }

    fn add(&mut self, index: usize, focus: Option<usize>) {
        let Some(line) = self.source.line_range(index) else {
            return;
        };
        let near = focus.unwrap_or(line.start);
        let window = if line.len() <= WINDOW_BYTES {
            line
        } else {
            let start = near
                .min(line.end)
                .saturating_sub(WINDOW_BYTES / 2)
                .max(line.start);
            start..(start + WINDOW_BYTES).min(line.end)
        };
        let start = self.text.len();
        let bytes = &self.source.text()[window.clone()];
        self.text.push_str(&String::from_utf8_lossy(bytes));
        let drawn = start..self.text.len();
        self.text.push('\n');
        self.lines.insert(index, Line { drawn, window });
    }

    /// The place of a byte of the source in a line of the excerpt.
    fn position(&self, line: &Line, byte: usize) -> usize {
        let byte = byte.clamp(line.window.start, line.window.end);
        let before = &self.source.text()[line.window.start..byte];
        let length = String::from_utf8_lossy(before).len();
        let mut at = (line.drawn.start + length).min(line.drawn.end);
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// The line that holds a byte of the excerpt.
    fn line_at(&self, byte: usize) -> Option<(usize, &Line)> {
        self.lines
            .iter()
            .find(|(_, line)| byte <= line.drawn.end)
            .map(|(index, line)| (*index, line))
    }
}

impl<'f> Files<'f> for Excerpt<'_, '_> {
    type FileId = ();
    type Name = &'f str;
    type Source = &'f str;

    fn name(&'f self, (): ()) -> Result<&'f str, Error> {
        Ok(self.source.name())
    }

    fn source(&'f self, (): ()) -> Result<&'f str, Error> {
        Ok(&self.text)
    }

    fn line_index(&'f self, (): (), byte: usize) -> Result<usize, Error> {
        let found = self.line_at(byte);
        found.map(|(index, _)| index).ok_or(Error::IndexTooLarge {
            given: byte,
            max: self.text.len(),
        })
    }

    fn line_number(&'f self, (): (), index: usize) -> Result<usize, Error> {
        Ok(self.source.line_number(index) as usize)
    }

    fn column_number(&'f self, (): (), index: usize, byte: usize) -> Result<usize, Error> {
        let Some((line, whole)) = self.lines.get(&index).zip(self.source.line_range(index)) else {
            return Err(Error::LineTooLarge {
                given: index,
                max: 0,
            });
        };
        // Exact where the line is UTF-8; replaced bytes are counted as what replaces them.
        let drawn = byte.saturating_sub(line.drawn.start);
        Ok(line.window.start - whole.start + drawn + 1)
    }

    fn line_range(&'f self, (): (), index: usize) -> Result<Range<usize>, Error> {
        let line = self.lines.get(&index);
        line.map(|line| line.drawn.clone())
            .ok_or(Error::LineTooLarge {
                given: index,
                max: 0,
            })
    }
}
