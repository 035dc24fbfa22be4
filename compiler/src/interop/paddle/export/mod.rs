//! One rank's programs back from a module.

mod vars;

pub(super) use vars::renamed_vars;
