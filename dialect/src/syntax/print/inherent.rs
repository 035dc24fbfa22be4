//! An op's inherent attributes, wherever they are kept.
//!
//! MLIR keeps the attributes that an op's definition names as properties and prints them `<{…}>`; all others are
//! discardable and print `{…}`. Here passes may put inherent attributes into either dictionary, so the printer sorts them out.

use std::borrow::Cow;

use crate::ir::{Attr, Ident, Module, OpId};
use crate::ops::OpDef;

/// Names and values, sorted by name.
pub(super) type Entries<'m> = Cow<'m, [(Ident, Attr)]>;

/// An op's attributes, as the generic form divides them.
pub(super) struct Divided<'m> {
    /// In `<{…}>`; `dist` ops have none here.
    pub inherent: Entries<'m>,
    /// In `{…}`.
    pub discardable: Entries<'m>,
}

/// Divides the attributes of a known op that is not a `dist` op.
pub(super) fn divided<'m>(module: &'m Module, op: OpId, def: &OpDef) -> Divided<'m> {
    let cx = module.cx();
    let props = cx.dict_entries(module.props(op));
    let attrs = cx.dict_entries(module.attrs(op));
    let named = |name: Ident| {
        let name = cx.str(name);
        def.attrs.iter().any(|a| a.name == name)
    };
    if attrs.iter().any(|a| named(a.0)) {
        let (mut inherent, discardable): (Vec<_>, Vec<_>) =
            attrs.iter().copied().partition(|a| named(a.0));
        inherent.retain(|a| !props.iter().any(|p| p.0 == a.0));
        inherent.extend(props);
        inherent.sort_by(|a, b| cx.str(a.0).cmp(cx.str(b.0)));
        return Divided {
            inherent: inherent.into(),
            discardable: discardable.into(),
        };
    }
    Divided {
        inherent: props.into(),
        discardable: attrs.into(),
    }
}

/// All attributes of an op in one list, as its custom form shows them. For ops that are not registered, the properties are
/// left out.
pub(super) fn merged_attrs(module: &Module, op: OpId) -> Vec<(Ident, Attr)> {
    let cx = module.cx();
    let attrs = cx.dict_entries(module.attrs(op));
    let props = match module.def_of(op) {
        Some(_) => cx.dict_entries(module.props(op)),
        None => &[],
    };
    if props.is_empty() {
        return attrs.to_vec();
    }
    let mut all = props.to_vec();
    all.extend(attrs.iter().filter(|a| !props.iter().any(|p| p.0 == a.0)));
    all.sort_by(|a, b| cx.str(a.0).cmp(cx.str(b.0)));
    all
}
