//! Short constructors for the parts of an op's definition, so that a block reads like a table.

use super::{AttrDef, AttrDefault, AttrKind, Count, Group};

/// Why gradient ops have no gradient.
pub(super) const SECOND_ORDER: &str = "gradients of gradients are not built";
/// Why flags have no gradient.
pub(super) const FLAGS: &str = "flags do not vary";

/// Exactly one value.
pub(super) const fn one(name: &'static str, doc: &'static str) -> Group {
    Group {
        name,
        count: Count::One,
        doc,
    }
}

/// None or one value.
pub(super) const fn optional(name: &'static str, doc: &'static str) -> Group {
    Group {
        name,
        count: Count::Optional,
        doc,
    }
}

/// Any number of values of one type.
pub(super) const fn variadic(name: &'static str, doc: &'static str) -> Group {
    Group {
        name,
        count: Count::Variadic,
        doc,
    }
}

/// A required attribute, always written.
pub(super) const fn attr(name: &'static str, kind: AttrKind, doc: &'static str) -> AttrDef {
    AttrDef {
        name,
        kind,
        required: true,
        default: None,
        doc,
    }
}

/// A required attribute that the pretty form leaves out when it has this value.
pub(super) const fn attr_or(
    name: &'static str,
    kind: AttrKind,
    default: AttrDefault,
    doc: &'static str,
) -> AttrDef {
    AttrDef {
        name,
        kind,
        required: true,
        default: Some(default),
        doc,
    }
}

/// A required `bool` whose usual value, `false`, the pretty form leaves out.
pub(super) const fn flag(name: &'static str, doc: &'static str) -> AttrDef {
    attr_or(name, AttrKind::Bool, AttrDefault::Bool(false), doc)
}

/// An attribute that may be absent.
pub(super) const fn optional_attr(
    name: &'static str,
    kind: AttrKind,
    doc: &'static str,
) -> AttrDef {
    AttrDef {
        name,
        kind,
        required: false,
        default: None,
        doc,
    }
}
