//! The IR: types, attributes, locations, and the arena of ops that a program is.

mod affine;
mod attr;
mod context;
mod dense;
mod dominance;
mod edit;
mod float;
mod loc;
mod module;
mod resource;
mod rewriter;
mod symbols;
mod types;
mod verify;
mod visible;
mod walk;

pub use affine::{AffineExpr, AffineMap, AffineStep, IntegerSet};
pub use attr::{Attr, AttrData, DenseValue, Int, LayoutData};
pub use context::{Context, Ident};
pub use dominance::{Dominance, DominanceCache};
pub use edit::{NewOp, Position};
pub use float::FloatValue;
pub use loc::{Loc, LocData};
pub use module::{BlockId, Def, Module, OpId, RegionId, Use, ValueId};
pub use resource::{ResourceGroup, ResourceValue, Resources};
pub use rewriter::{Change, CloneMap, Rewriter};
pub use symbols::SymbolTable;
pub use types::{DYNAMIC, FloatKind, Signedness, Type, TypeData};
pub use verify::{Verified, VerifyOptions, verify};
pub use walk::Walk;
