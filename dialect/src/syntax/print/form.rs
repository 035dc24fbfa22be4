//! Which form an op is printed in.

use super::{PrintOptions, uniform, upstream};
use crate::ir::{Module, OpId};
use crate::ops::{Custom, OpDef, Pretty, Uniform};

/// The form of one op.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Generic,
    Uniform(&'static Uniform),
    Custom(Custom),
}

/// The form that an op is printed in: its short one, if it has one and loses nothing by it.
pub(super) fn form_of(module: &Module, op: OpId, options: &PrintOptions) -> Form {
    if options.generic {
        return Form::Generic;
    }
    let Some(def) = module.def_of(op) else {
        return Form::Generic;
    };
    match &def.pretty {
        Pretty::Generic => Form::Generic,
        Pretty::Uniform(form) if uniform::fits(module, op, def, form) => Form::Uniform(form),
        Pretty::Custom(Custom::Mesh) if uniform::fits_mesh(module, op) => {
            Form::Custom(Custom::Mesh)
        }
        Pretty::Custom(form) if *form != Custom::Mesh && upstream::fits(module, op, def, *form) => {
            Form::Custom(*form)
        }
        _ => Form::Generic,
    }
}

/// Whether an op has neither properties nor regions nor successors, as every op in the uniform form.
pub(super) fn is_plain(module: &Module, op: OpId) -> bool {
    module.props(op) == module.cx().empty_dict()
        && module.regions(op).is_empty()
        && module.successors(op).is_empty()
}

/// An attribute's definition.
pub(super) fn attr_def<'d>(def: &'d OpDef, name: &str) -> Option<&'d crate::ops::AttrDef> {
    def.attrs.iter().find(|a| a.name == name)
}
