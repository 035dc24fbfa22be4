//! What each op means. One file per family; one block defines one op, and everything else reads these blocks: the verifier,
//! the printer, the passes, the reference device, `docs/dialect.md` and `dist.irdl.mlir`.

pub mod activations;
pub mod amp;
mod args;
pub mod attention;
mod attributes;
pub(crate) mod classes;
pub mod collectives;
pub(crate) mod conform;
mod def;
mod docs;
pub mod dropout;
pub mod elementwise;
pub mod elementwise_grads;
mod gradient;
mod groups;
mod infer;
pub mod init;
mod irdl;
pub mod joining;
pub mod linear;
pub mod lookup;
pub mod lowered;
pub mod normalisation;
pub mod optimizers;
mod parts;
mod place;
pub mod reduce;
pub mod rms_norm;
mod rules;
pub mod schedule;
mod scopes;
pub mod shape;
pub mod softmax;
pub mod structure;
pub mod transfer;
pub mod unary;
pub mod upstream;

pub use def::{
    AttrDef, AttrDefault, AttrKind, Count, Custom, Effects, Group, OpDef, OpVerifier, Pretty,
    Traits, TypeShape, Uniform,
};

pub use args::Args;
pub use attributes::{Attributes, Attrs, DictAttributes, OpAttributes, Value, value};
pub use conform::matches as attr_matches;
pub use docs::docs;
pub use gradient::{
    Differentiated, Emit, Gradient, GradientCx, OpBuilder, Reduce, ValueLayouts, differentiate,
};
pub use groups::{OPERAND_SEGMENTS, RESULT_SEGMENTS, SegmentError, segments};
pub use infer::{InferCx, Request, infer};
pub use irdl::irdl;
pub use place::{coordinate_axes, meets_others};
pub use rules::{LayoutCall, LayoutCx, Operand, layouts};
pub use scopes::{Scope, Scopes};

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::ir::Ident;

/// Every registered op, family by family.
pub static ALL: &[&[OpDef]] = &[
    structure::OPS,
    schedule::OPS,
    lowered::OPS,
    linear::OPS,
    elementwise::OPS,
    elementwise_grads::OPS,
    unary::OPS,
    activations::OPS,
    shape::OPS,
    joining::OPS,
    reduce::OPS,
    normalisation::OPS,
    rms_norm::OPS,
    softmax::OPS,
    lookup::OPS,
    dropout::OPS,
    attention::OPS,
    collectives::OPS,
    transfer::OPS,
    amp::OPS,
    optimizers::OPS,
    init::OPS,
    upstream::builtin::OPS,
    upstream::func::OPS,
    upstream::cf::OPS,
    upstream::arith::OPS,
];

/// Every registered op.
pub fn definitions() -> impl Iterator<Item = &'static OpDef> {
    ALL.iter().flat_map(|family| family.iter())
}

/// The op of this name.
pub fn definition(name: &str) -> Option<&'static OpDef> {
    definitions().find(|def| def.name == name)
}

/// Finds an op's definition by name.
pub struct Registry {
    by_name: HashMap<Ident, &'static OpDef, FxBuildHasher>,
    dialects: Vec<&'static str>,
}

impl Registry {
    pub(crate) fn new(mut intern: impl FnMut(&str) -> Ident) -> Self {
        let by_name = definitions().map(|def| (intern(def.name), def)).collect();
        let mut dialects: Vec<_> = definitions().map(OpDef::dialect).collect();
        dialects.sort_unstable();
        dialects.dedup();
        Self { by_name, dialects }
    }

    /// Whether ops, types and attributes of this dialect are taken without being asked to: those of registered dialects, and
    /// those of MLIR's other dialects, which are kept as they are and left to MLIR to verify.
    pub fn accepts_dialect(&self, dialect: &str) -> bool {
        self.has_dialect(dialect) || upstream::FOREIGN_DIALECTS.contains(&dialect)
    }

    /// Whether any registered op is of this dialect.
    pub fn has_dialect(&self, dialect: &str) -> bool {
        self.dialects.contains(&dialect)
    }

    pub(crate) fn get(&self, name: Ident) -> Option<&'static OpDef> {
        self.by_name.get(&name).copied()
    }
}
