//! Cuts a file into sections that are processed one by one.

/// The line between two sections, unless the user names another.
pub const DEFAULT_MARKER: &str = "// -----";

/// Part of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section<'t> {
    /// Its bytes, without the marker lines around it.
    pub text: &'t [u8],
    /// The number, in the whole text, of its first line.
    pub first_line: u32,
}

/// The sections of a text: what lies between lines that hold only `marker`, spaces after it aside. There is at least one.
pub fn sections<'t>(text: &'t [u8], marker: &str) -> Vec<Section<'t>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut first_line = 1;
    let mut at = 0;
    for (index, line) in text.split_inclusive(|&b| b == b'\n').enumerate() {
        let next = at + line.len();
        if line.trim_ascii_end() == marker.as_bytes() {
            found.push(Section {
                text: &text[start..at],
                first_line,
            });
            start = next;
            first_line = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(2);
        }
        at = next;
    }
    found.push(Section {
        text: &text[start..],
        first_line,
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(&str, u32)> {
        sections(text.as_bytes(), DEFAULT_MARKER)
            .into_iter()
            .map(|s| (std::str::from_utf8(s.text).unwrap(), s.first_line))
            .collect()
    }

    #[test]
    fn marker_lines_separate() {
        assert_eq!(
            cut("a\n// -----\nb\nc\n// -----  \n"),
            [("a\n", 1), ("b\nc\n", 3), ("", 6)]
        );
        assert_eq!(cut(""), [("", 1)]);
        assert_eq!(cut("// -----"), [("", 1), ("", 2)]);
    }

    #[test]
    fn only_whole_lines_count() {
        assert_eq!(cut("x // -----\n// ------\n").len(), 1);
    }
}
