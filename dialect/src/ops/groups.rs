//! Which operands (or results) of an op belong to which group of its definition.

use std::ops::Range;

use super::{Count, Group, OpDef};
use crate::ir::{Module, OpId, ValueId};

/// The attribute that counts the operands of each group.
pub const OPERAND_SEGMENTS: &str = "operandSegmentSizes";
/// The attribute that counts the results of each group.
pub const RESULT_SEGMENTS: &str = "resultSegmentSizes";

/// Why values do not fall into groups.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SegmentError {
    /// Fewer or more values than the groups can hold.
    #[error("expected {expected}, but found {found}")]
    Count {
        /// `2`, `1 or 2`, `at least 3`.
        expected: String,
        /// How many there are.
        found: usize,
    },
    /// Two or more groups vary, and nothing says by how much.
    #[error("the sizes of its groups are missing")]
    Missing,
    /// The sizes do not fit the groups or the number of values.
    #[error(
        "the sizes of its groups are {sizes:?}, which does not fit {found} values in the groups {groups}"
    )]
    Sizes {
        /// What the attribute says.
        sizes: Vec<i32>,
        /// How many values there are.
        found: usize,
        /// `x, w, bias?`
        groups: String,
    },
}

/// Cuts `count` values into `groups`: one range per group. `sizes` is the segment attribute, which ops carry if two or more
/// groups vary.
///
/// # Errors
/// If the numbers do not fit.
pub fn segments(
    groups: &[Group],
    count: usize,
    sizes: Option<&[i32]>,
) -> Result<Vec<Range<usize>>, SegmentError> {
    if needs_segments(groups) {
        let sizes = sizes.ok_or(SegmentError::Missing)?;
        return by_sizes(groups, count, sizes);
    }
    let fixed = groups.iter().filter(|g| g.count == Count::One).count();
    let limit = match groups.iter().map(|g| g.count).find(|&c| c != Count::One) {
        None => Some(fixed),
        Some(Count::Optional) => Some(fixed + 1),
        Some(_) => None,
    };
    if count < fixed || limit.is_some_and(|l| count > l) {
        let expected = match limit {
            Some(l) if l == fixed => fixed.to_string(),
            Some(l) => format!("{fixed} or {l}"),
            None => format!("at least {fixed}"),
        };
        return Err(SegmentError::Count {
            expected,
            found: count,
        });
    }
    let mut start = 0;
    Ok(groups
        .iter()
        .map(|group| {
            let size = match group.count {
                Count::One => 1,
                _ => count - fixed,
            };
            start += size;
            start - size..start
        })
        .collect())
}

/// Whether ops with these groups carry a segment attribute: two or more groups vary.
pub fn needs_segments(groups: &[Group]) -> bool {
    groups.iter().filter(|g| g.count != Count::One).count() > 1
}

fn by_sizes(
    groups: &[Group],
    count: usize,
    sizes: &[i32],
) -> Result<Vec<Range<usize>>, SegmentError> {
    let fits = |(group, &size): (&Group, &i32)| match group.count {
        Count::One => size == 1,
        Count::Optional => size == 0 || size == 1,
        Count::Variadic => size >= 0,
    };
    let total: i64 = sizes.iter().map(|&s| i64::from(s)).sum();
    if sizes.len() != groups.len()
        || !groups.iter().zip(sizes).all(fits)
        || usize::try_from(total) != Ok(count)
    {
        return Err(SegmentError::Sizes {
            sizes: sizes.to_vec(),
            found: count,
            groups: signature(groups),
        });
    }
    let mut start = 0;
    Ok(sizes
        .iter()
        .map(|&size| {
            start += size as usize;
            start - size as usize..start
        })
        .collect())
}

/// `x, w, bias?, rest…`
pub(super) fn signature(groups: &[Group]) -> String {
    let names: Vec<String> = groups
        .iter()
        .map(|group| match group.count {
            Count::One => group.name.to_owned(),
            Count::Optional => format!("{}?", group.name),
            Count::Variadic => format!("{}…", group.name),
        })
        .collect();
    names.join(", ")
}

impl OpDef {
    /// Position of an operand group.
    pub fn operand_group(&self, name: &str) -> Option<usize> {
        self.operands.iter().position(|g| g.name == name)
    }

    /// Position of a result group.
    pub fn result_group(&self, name: &str) -> Option<usize> {
        self.results.iter().position(|g| g.name == name)
    }
}

impl Module {
    /// The operands of a known op, one range per group of its definition.
    ///
    /// # Errors
    /// If there are too few or too many, or the segment attribute does not fit. Never in a verified module.
    pub fn operand_segments(
        &self,
        op: OpId,
        def: &OpDef,
    ) -> Result<Vec<Range<usize>>, SegmentError> {
        let sizes = self.segment_attr(op, def.operands, OPERAND_SEGMENTS);
        segments(def.operands, self.num_operands(op), sizes.as_deref())
    }

    /// The results of a known op, one range per group of its definition.
    ///
    /// # Errors
    /// As [`Module::operand_segments`].
    pub fn result_segments(
        &self,
        op: OpId,
        def: &OpDef,
    ) -> Result<Vec<Range<usize>>, SegmentError> {
        let sizes = self.segment_attr(op, def.results, RESULT_SEGMENTS);
        segments(def.results, self.num_results(op), sizes.as_deref())
    }

    fn segment_attr(&self, op: OpId, groups: &[Group], name: &str) -> Option<Vec<i32>> {
        if !needs_segments(groups) {
            return None;
        }
        self.cx().as_i32_array(self.attr(op, name)?)
    }

    /// The operands of the group `name`; empty if the op is unknown, has no such group or does not fit its definition.
    pub fn operands_in(&self, op: OpId, name: &str) -> Vec<ValueId> {
        let find = || {
            let def = self.def_of(op)?;
            let range = self.operand_segments(op, def).ok()?;
            Some(range[def.operand_group(name)?].clone())
        };
        find().map_or_else(Vec::new, |range| {
            range.map(|i| self.operand(op, i)).collect()
        })
    }

    /// The operand of the group `name`, if it holds exactly one.
    pub fn operand_in(&self, op: OpId, name: &str) -> Option<ValueId> {
        match self.operands_in(op, name)[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// The result of the group `name`, if it holds exactly one.
    pub fn result_in(&self, op: OpId, name: &str) -> Option<ValueId> {
        let def = self.def_of(op)?;
        let range = self.result_segments(op, def).ok()?[def.result_group(name)?].clone();
        (range.len() == 1).then(|| self.result(op, range.start))
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::{one, optional, variadic};
    use super::*;

    #[test]
    fn one_group_that_varies_takes_the_rest() {
        let groups = [one("a", ""), variadic("b", ""), one("c", "")];
        assert_eq!(segments(&groups, 4, None), Ok(vec![0..1, 1..3, 3..4]));
        assert_eq!(segments(&groups, 2, None), Ok(vec![0..1, 1..1, 1..2]));
        assert!(matches!(
            segments(&groups, 1, None),
            Err(SegmentError::Count { .. })
        ));
        let groups = [one("a", ""), optional("b", "")];
        assert_eq!(
            segments(&groups, 3, None),
            Err(SegmentError::Count {
                expected: "1 or 2".into(),
                found: 3
            })
        );
    }

    #[test]
    fn several_groups_that_vary_need_sizes() {
        let groups = [optional("a", ""), variadic("b", "")];
        assert_eq!(segments(&groups, 2, None), Err(SegmentError::Missing));
        assert_eq!(segments(&groups, 2, Some(&[0, 2])), Ok(vec![0..0, 0..2]));
        for bad in [&[2, 0][..], &[0, 1], &[1], &[-1, 3], &[1, i32::MAX]] {
            assert!(matches!(
                segments(&groups, 2, Some(bad)),
                Err(SegmentError::Sizes { .. })
            ));
        }
    }
}
