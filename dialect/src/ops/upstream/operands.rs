//! The checks that all upstream ops share: how many operands, results, regions and successors, and kinds of types.

use crate::ir::{Context, Signedness, Type, TypeData};
use crate::ops::OpVerifier;

/// How many of each an op has; `None` for any number.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub operands: Option<usize>,
    pub results: Option<usize>,
    pub regions: usize,
    pub successors: usize,
}

impl Counts {
    /// Operands and results in these numbers, neither regions nor successors.
    pub const fn of(operands: usize, results: usize) -> Self {
        Self {
            operands: Some(operands),
            results: Some(results),
            regions: 0,
            successors: 0,
        }
    }
}

/// Reports the first count that is off, in MLIR's words; whether all are right.
pub(super) fn counts_fit(v: &mut OpVerifier, counts: Counts) -> bool {
    let (module, op) = (v.module, v.op);
    let regions = module.regions(op).len();
    let successors = module.successors(op).len();
    if regions != counts.regions {
        let wanted = match counts.regions {
            0 => "zero regions",
            1 => "one region",
            _ => "several regions",
        };
        v.error("E0210", format!("requires {wanted}"));
        return false;
    }
    let results = module.num_results(op);
    if counts.results.is_some_and(|wanted| wanted != results) {
        let wanted = match counts.results {
            Some(0) => "requires zero results".to_owned(),
            Some(1) => "requires one result".to_owned(),
            wanted => format!("expected {} results", wanted.unwrap_or_default()),
        };
        v.error("E0210", wanted);
        return false;
    }
    if successors != counts.successors {
        let plural = if counts.successors == 1 { "" } else { "s" };
        let message = match counts.successors {
            0 => "requires zero successors".to_owned(),
            n => format!("requires {n} successor{plural} but found {successors}"),
        };
        v.error("E0210", message);
        return false;
    }
    let operands = module.num_operands(op);
    if counts.operands.is_some_and(|wanted| wanted != operands) {
        let message = match counts.operands {
            Some(0) => "requires zero operands".to_owned(),
            Some(1) => "requires a single operand".to_owned(),
            wanted => format!(
                "expected {} operands, but found {operands}",
                wanted.unwrap_or_default()
            ),
        };
        v.error("E0210", message);
        return false;
    }
    true
}

/// Element type of a vector or tensor, the type itself otherwise.
pub(super) fn element(cx: &Context, ty: Type) -> Type {
    match cx.type_data(ty) {
        TypeData::Vector { element, .. } | TypeData::Tensor { element, .. } => *element,
        TypeData::UnrankedTensor(element) => *element,
        _ => ty,
    }
}

/// A signless integer or `index`, or a vector or tensor of them.
pub(super) fn is_signless_integer_like(cx: &Context, ty: Type) -> bool {
    match cx.type_data(element(cx, ty)) {
        TypeData::Integer { signedness, .. } => *signedness == Signedness::Signless,
        TypeData::Index => true,
        _ => false,
    }
}

/// A float, or a vector or tensor of them.
pub(super) fn is_float_like(cx: &Context, ty: Type) -> bool {
    matches!(cx.type_data(element(cx, ty)), TypeData::Float(_))
}

/// `i1`, or a vector or tensor of them.
pub(super) fn is_bool_like(cx: &Context, ty: Type) -> bool {
    element(cx, ty) == cx.int_type(1)
}

/// The type with its elements replaced: `tensor<4xi32>` with `i1` is `tensor<4xi1>`.
pub(super) fn with_element(cx: &Context, ty: Type, new: Type) -> Type {
    match cx.type_data(ty) {
        TypeData::Vector {
            shape, scalable, ..
        } => cx.ty(TypeData::Vector {
            shape: shape.clone(),
            scalable: scalable.clone(),
            element: new,
        }),
        TypeData::Tensor {
            shape, encoding, ..
        } => cx.ty(TypeData::Tensor {
            shape: shape.clone(),
            element: new,
            encoding: *encoding,
        }),
        TypeData::UnrankedTensor(_) => cx.ty(TypeData::UnrankedTensor(new)),
        _ => new,
    }
}
