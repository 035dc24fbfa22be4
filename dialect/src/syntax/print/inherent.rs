//! An op's inherent attributes, wherever they are kept.
//!
//! MLIR keeps the attributes that an op's definition names as properties and prints them `<{…}>`; all others are
//! discardable and print `{…}`. Here passes may put inherent attributes into either dictionary, so the printer sorts them out.

use std::borrow::Cow;

use super::form::Known;
use crate::ir::{Attr, Ident, Module, OpId};

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
pub(super) fn divided<'m>(module: &'m Module, op: OpId, known: &Known) -> Divided<'m> {
    let cx = module.cx();
    let mut inherent = Entries::from(cx.dict_entries(module.props(op)));
    let mut discardable = Entries::from(cx.dict_entries(module.attrs(op)));
    let named = |a: &(Ident, Attr)| known.inherent.contains(&a.0);
    let sort = |list: &mut Vec<(Ident, Attr)>| list.sort_by(|a, b| cx.str(a.0).cmp(cx.str(b.0)));
    if discardable.iter().any(named) {
        let (moved, rest): (Vec<_>, Vec<_>) = discardable.iter().copied().partition(named);
        let fresh = |a: &(Ident, Attr)| !inherent.iter().any(|i| i.0 == a.0);
        let moved: Vec<_> = moved.into_iter().filter(fresh).collect();
        inherent.to_mut().extend(moved);
        sort(inherent.to_mut());
        discardable = rest.into();
    }
    for &implied in &known.implied {
        if !inherent.iter().any(|i| i.0 == implied.0) {
            inherent.to_mut().push(implied);
            sort(inherent.to_mut());
        }
    }
    Divided {
        inherent,
        discardable,
    }
}

/// All attributes of an op in one list, as its custom form shows them. For ops that are not registered, the properties are
/// left out.
pub(super) fn merged_attrs(module: &Module, op: OpId) -> Entries<'_> {
    let cx = module.cx();
    let attrs = cx.dict_entries(module.attrs(op));
    let props = match module.props(op) {
        props if props == cx.empty_dict() || module.def_of(op).is_none() => &[],
        props => cx.dict_entries(props),
    };
    if props.is_empty() {
        return attrs.into();
    }
    if attrs.is_empty() {
        return props.into();
    }
    let mut all = props.to_vec();
    all.extend(attrs.iter().filter(|a| !props.iter().any(|p| p.0 == a.0)));
    all.sort_by(|a, b| cx.str(a.0).cmp(cx.str(b.0)));
    all.into()
}
