//! An op's operands by the names of its definition's groups, whatever stands for an operand: a type, a tensor, a layout.

use std::ops::Range;

use super::attributes::Attrs;
use super::groups::{OPERAND_SEGMENTS, RESULT_SEGMENTS, SegmentError, segments};
use super::{Group, OpDef};
use crate::error::Error;

/// Values by group.
#[derive(Clone, Debug)]
pub struct Args<'a, V> {
    groups: &'static [Group],
    ranges: Vec<Range<usize>>,
    values: &'a [V],
}

impl<'a, V> Args<'a, V> {
    /// Sorts an op's operands into the groups of its definition.
    ///
    /// # Errors
    /// `E0303` if they do not fit.
    pub fn operands(def: &OpDef, values: &'a [V], attrs: Attrs) -> Result<Self, Error> {
        let sizes = attrs.segments(OPERAND_SEGMENTS);
        let ranges = segments(def.operands, values.len(), sizes.as_deref())
            .map_err(|e| groups_error("operands", OPERAND_SEGMENTS, &e))?;
        Ok(Self {
            groups: def.operands,
            ranges,
            values,
        })
    }

    /// Sorts an op's results into the groups of its definition.
    ///
    /// # Errors
    /// `E0304` if they do not fit.
    pub fn results(def: &OpDef, values: &'a [V], attrs: Attrs) -> Result<Self, Error> {
        let sizes = attrs.segments(RESULT_SEGMENTS);
        let ranges = segments(def.results, values.len(), sizes.as_deref())
            .map_err(|e| groups_error("results", RESULT_SEGMENTS, &e))?;
        Ok(Self {
            groups: def.results,
            ranges,
            values,
        })
    }

    /// All values of a group. Empty for a group that the definition does not have.
    pub fn many(&self, name: &str) -> &'a [V] {
        self.groups
            .iter()
            .position(|g| g.name == name)
            .map_or(&[], |g| &self.values[self.ranges[g].clone()])
    }

    /// The value of an optional group, if it is there.
    pub fn optional(&self, name: &str) -> Option<&'a V> {
        self.many(name).first()
    }

    /// Whether a group holds a value.
    pub fn has(&self, name: &str) -> bool {
        !self.many(name).is_empty()
    }

    /// The value of a group that holds exactly one.
    ///
    /// # Errors
    /// `E0303` if it is not there.
    pub fn one(&self, name: &str) -> Result<&'a V, Error> {
        self.optional(name)
            .ok_or_else(|| Error::op("E0303", format!("has no '{name}'")))
    }

    /// All values in order.
    pub fn all(&self) -> &'a [V] {
        self.values
    }
}

/// The error for operands or results that do not fall into their groups.
pub(super) fn groups_error(what: &str, attr: &str, error: &SegmentError) -> Error {
    let code = if what == "operands" { "E0303" } else { "E0304" };
    match error {
        SegmentError::Count { expected, found } => Error::op(
            code,
            format!("expected {expected} {what}, but found {found}"),
        ),
        SegmentError::Missing => Error::op(
            code,
            format!("requires attribute '{attr}', which counts the {what} of each group"),
        )
        .with_help(format!("add `{attr} = array<i32: …>`")),
        SegmentError::Sizes { .. } => Error::op(code, format!("'{attr}': {error}")),
    }
}
