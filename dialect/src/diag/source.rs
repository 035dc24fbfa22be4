//! Texts that diagnostics point into.

use std::cell::OnceCell;

/// A text with a name, or one section of such a text.
pub struct Source<'t> {
    name: &'t str,
    text: &'t [u8],
    first_line: u32,
    line_starts: OnceCell<Vec<usize>>,
}

impl<'t> Source<'t> {
    /// A whole text. The name is what locations and messages show, usually a path.
    pub fn new(name: &'t str, text: &'t [u8]) -> Self {
        Self::section(name, text, 1)
    }

    /// Part of a text, whose first line is line `first_line` of the whole.
    pub fn section(name: &'t str, text: &'t [u8], first_line: u32) -> Self {
        Self {
            name,
            text,
            first_line,
            line_starts: OnceCell::new(),
        }
    }

    /// The name.
    pub fn name(&self) -> &'t str {
        self.name
    }

    /// The text. Strings in it need not be UTF-8.
    pub fn text(&self) -> &'t [u8] {
        self.text
    }

    /// The number of the first line; 1 unless this is a section.
    pub fn first_line(&self) -> u32 {
        self.first_line
    }

    /// Line and column (from 1, columns in bytes) of a byte of the text. Positions past the end are at the end.
    pub fn line_col(&self, byte: usize) -> (u32, u32) {
        let byte = byte.min(self.text.len());
        let index = self.line_index(byte);
        let col = byte - self.line_starts()[index] + 1;
        (self.line_number(index), saturate(col))
    }

    /// The byte at a line and column, if the text has them.
    pub fn byte_at(&self, line: u32, col: u32) -> Option<usize> {
        let index = line.checked_sub(self.first_line)? as usize;
        let range = self.line_range(index)?;
        let byte = range.start + col.checked_sub(1)? as usize;
        let inside_char = self.text.get(byte).is_some_and(|b| b & 0xC0 == 0x80);
        (byte <= range.end && !inside_char).then_some(byte)
    }

    /// The index (from 0, within this text) of the line that holds a byte.
    pub(super) fn line_index(&self, byte: usize) -> usize {
        self.line_starts()
            .partition_point(|&start| start <= byte)
            .saturating_sub(1)
    }

    /// The bytes of a line, without its end.
    pub(super) fn line_range(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let starts = self.line_starts();
        let start = *starts.get(index)?;
        let end = starts
            .get(index + 1)
            .map_or(self.text.len(), |next| next - 1);
        let end = if self.text[start..end].ends_with(b"\r") {
            end - 1
        } else {
            end
        };
        Some(start..end)
    }

    /// The number that a line index has in the whole text.
    pub(super) fn line_number(&self, index: usize) -> u32 {
        self.first_line.saturating_add(saturate(index))
    }

    fn line_starts(&self) -> &[usize] {
        self.line_starts.get_or_init(|| {
            std::iter::once(0)
                .chain(memchr::memchr_iter(b'\n', self.text).map(|at| at + 1))
                .collect()
        })
    }
}

fn saturate(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_bytes_are_inverse() {
        let source = Source::new("t", "ab\r\n\nçd\n".as_bytes());
        assert_eq!(source.line_col(0), (1, 1));
        assert_eq!(source.line_col(4), (2, 1));
        assert_eq!(source.line_col(7), (3, 3));
        assert_eq!(source.line_col(99), (4, 1));
        for byte in [0, 1, 4, 5, 7, 8, 9] {
            let (line, col) = source.line_col(byte);
            assert_eq!(source.byte_at(line, col), Some(byte));
        }
        assert_eq!(source.byte_at(3, 2), None, "inside a character");
        assert_eq!(source.byte_at(1, 4), None, "past the line");
        assert_eq!(source.byte_at(9, 1), None);
        assert_eq!(source.byte_at(0, 0), None);
    }

    #[test]
    fn sections_keep_the_line_numbers_of_the_whole() {
        let source = Source::section("t", b"x\ny", 10);
        assert_eq!(source.line_col(2), (11, 1));
        assert_eq!(source.byte_at(11, 1), Some(2));
        assert_eq!(source.byte_at(1, 1), None);
    }

    #[test]
    fn empty_text_has_one_place() {
        assert_eq!(Source::new("t", b"").line_col(0), (1, 1));
    }
}
