//! `arith`: constants, the binary family and comparisons.

use super::operands::{
    Counts, counts_fit, is_bool_like, is_float_like, is_signless_integer_like, with_element,
};
use crate::ir::{AttrData, Context, Signedness, Type, TypeData};
use crate::ops::parts::{attr, one, optional_attr};
use crate::ops::{AttrDef, AttrKind, Custom, Effects, Group, OpDef, OpVerifier, Pretty};

/// The predicates of `arith.cmpi`, by value.
pub const CMPI_PREDICATES: &[&str] = &[
    "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
];

/// The predicates of `arith.cmpf`, by value; the letter before says whether NaN may occur (unordered) or not (ordered).
pub const CMPF_PREDICATES: &[&str] = &[
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule",
    "une", "uno", "true",
];

/// Bits of `#arith.fastmath`, in the order in which they are written. All of them together are `fast`.
pub const FASTMATH_FLAGS: &[&str] = &["reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn"];

/// Bits of `#arith.overflow`, in the order in which they are written.
pub const OVERFLOW_FLAGS: &[&str] = &["nsw", "nuw"];

const OVERFLOW: AttrDef = optional_attr(
    "overflowFlags",
    AttrKind::Any,
    "`#arith.overflow<…>`: what may be assumed not to overflow; none if absent",
);
const FASTMATH: AttrDef = optional_attr(
    "fastmath",
    AttrKind::Any,
    "`#arith.fastmath<…>`: what may be assumed of the numbers; none if absent",
);
const EXACT: AttrDef = optional_attr(
    "isExact",
    AttrKind::Any,
    "unit: no bit that is not zero is lost",
);

const OPERANDS: &[Group] = &[one("lhs", "first operand"), one("rhs", "second operand")];
const RESULT: &[Group] = &[one("result", "the result")];

const fn binary(
    name: &'static str,
    summary: &'static str,
    attrs: &'static [AttrDef],
    verify: fn(&mut OpVerifier),
) -> OpDef {
    OpDef {
        name,
        summary,
        description: "Elementwise; operands and result have one type.",
        operands: OPERANDS,
        results: RESULT,
        attrs,
        effects: Effects::Pure,
        pretty: Pretty::Custom(Custom::Binary),
        verify: Some(verify),
        ..OpDef::NONE
    }
}

const fn commutes(mut def: OpDef) -> OpDef {
    def.traits.commutative = true;
    def
}

const fn integer(name: &'static str, summary: &'static str, attrs: &'static [AttrDef]) -> OpDef {
    binary(name, summary, attrs, verify_integer)
}

const fn float(name: &'static str, summary: &'static str) -> OpDef {
    binary(name, summary, &[FASTMATH], verify_float)
}

/// `arith.constant`
pub const CONSTANT: OpDef = OpDef {
    name: "arith.constant",
    summary: "a constant",
    description: "The value has the result's type.",
    results: RESULT,
    attrs: &[attr("value", AttrKind::Any, "an attribute with a type")],
    effects: Effects::Pure,
    pretty: Pretty::Custom(Custom::Constant),
    verify: Some(verify_constant),
    ..OpDef::NONE
};

const fn compare(name: &'static str, attrs: &'static [AttrDef]) -> OpDef {
    OpDef {
        name,
        summary: "compares",
        description: "Elementwise; the result is `i1`, or a vector or tensor of it.",
        operands: OPERANDS,
        results: RESULT,
        attrs,
        effects: Effects::Pure,
        pretty: Pretty::Custom(Custom::Compare),
        verify: Some(verify_compare),
        ..OpDef::NONE
    }
}

const PREDICATE: AttrDef = attr(
    "predicate",
    AttrKind::I64,
    "position in the list of predicates",
);

/// The family.
pub const OPS: &[OpDef] = &[
    CONSTANT,
    commutes(integer("arith.addi", "adds integers", &[OVERFLOW])),
    integer("arith.subi", "subtracts integers", &[OVERFLOW]),
    commutes(integer("arith.muli", "multiplies integers", &[OVERFLOW])),
    integer("arith.divsi", "divides signed integers", &[EXACT]),
    integer("arith.divui", "divides unsigned integers", &[EXACT]),
    integer("arith.ceildivsi", "divides signed integers, up", &[]),
    integer("arith.ceildivui", "divides unsigned integers, up", &[]),
    integer("arith.floordivsi", "divides signed integers, down", &[]),
    integer("arith.remsi", "remainder of signed integers", &[]),
    integer("arith.remui", "remainder of unsigned integers", &[]),
    commutes(integer("arith.andi", "bitwise and", &[])),
    commutes(integer("arith.ori", "bitwise or", &[])),
    commutes(integer("arith.xori", "bitwise exclusive or", &[])),
    integer("arith.shli", "shifts left", &[OVERFLOW]),
    integer("arith.shrsi", "shifts signed integers right", &[EXACT]),
    integer("arith.shrui", "shifts unsigned integers right", &[EXACT]),
    commutes(integer("arith.maxsi", "larger signed integer", &[])),
    commutes(integer("arith.maxui", "larger unsigned integer", &[])),
    commutes(integer("arith.minsi", "smaller signed integer", &[])),
    commutes(integer("arith.minui", "smaller unsigned integer", &[])),
    commutes(float("arith.addf", "adds floats")),
    float("arith.subf", "subtracts floats"),
    commutes(float("arith.mulf", "multiplies floats")),
    float("arith.divf", "divides floats"),
    float("arith.remf", "remainder of floats"),
    commutes(float("arith.maximumf", "larger float, or NaN")),
    commutes(float("arith.minimumf", "smaller float, or NaN")),
    commutes(float("arith.maxnumf", "larger float, NaN aside")),
    commutes(float("arith.minnumf", "smaller float, NaN aside")),
    compare("arith.cmpi", &[PREDICATE]),
    compare("arith.cmpf", &[FASTMATH, PREDICATE]),
];

/// The flags of `#arith.fastmath<…>` or `#arith.overflow<…>` as bits in the order of `names`; `None` if the text is not
/// such a list.
pub fn flag_bits(body: &str, keyword: &str, names: &[&str]) -> Option<u32> {
    let inside = body
        .strip_prefix(keyword)?
        .strip_prefix('<')?
        .strip_suffix('>')?;
    let all = (1 << names.len()) - 1;
    inside.split(',').try_fold(0, |bits, flag| {
        Some(
            bits | match flag.trim() {
                "none" => 0,
                "fast" if keyword == "fastmath" => all,
                flag => 1 << names.iter().position(|&n| n == flag)?,
            },
        )
    })
}

/// `fastmath<nnan,ninf>` or `overflow<nsw, nuw>` in MLIR's spelling; `None` for anything else.
pub fn flags_text(body: &str) -> Option<String> {
    let (keyword, names, separator) = if body.starts_with("fastmath") {
        ("fastmath", FASTMATH_FLAGS, ",")
    } else {
        ("overflow", OVERFLOW_FLAGS, ", ")
    };
    let bits = flag_bits(body, keyword, names)?;
    let set: Vec<&str> = names
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 == 1)
        .map(|(_, &name)| name)
        .collect();
    let list = match set.len() {
        0 => "none".to_owned(),
        n if n == names.len() && keyword == "fastmath" => "fast".to_owned(),
        _ => set.join(separator),
    };
    Some(format!("{keyword}<{list}>"))
}

fn verify_integer(v: &mut OpVerifier) {
    verify_binary(v, is_signless_integer_like, "signless-integer-like");
}

fn verify_float(v: &mut OpVerifier) {
    verify_binary(v, is_float_like, "floating-point-like");
}

fn verify_binary(v: &mut OpVerifier, fits: fn(&Context, Type) -> bool, what: &str) {
    if !counts_fit(v, Counts::of(2, 1)) || !verify_flags(v) || !verify_operands(v, fits, what) {
        return;
    }
    let ty = v.result_type(0);
    if v.operand_type(0) != ty || v.operand_type(1) != ty {
        v.error(
            "E0219",
            "requires the same type for all operands and results",
        );
    }
}

fn verify_operands(v: &mut OpVerifier, fits: fn(&Context, Type) -> bool, what: &str) -> bool {
    let cx = v.module.cx();
    for (index, value) in v.module.operands(v.op).enumerate() {
        let ty = v.module.ty(value);
        if !fits(cx, ty) {
            let ty = cx.display(ty);
            v.error(
                "E0219",
                format!("operand #{index} must be {what}, but got '{ty}'"),
            );
            return false;
        }
    }
    true
}

fn verify_flags(v: &mut OpVerifier) -> bool {
    let (module, op) = (v.module, v.op);
    let cx = module.cx();
    let flags = |name: &str, keyword: &str, names: &[&str]| {
        module.attr(op, name).is_none_or(|a| match cx.attr_data(a) {
            AttrData::Opaque { dialect, body, .. } => {
                cx.str(*dialect) == "arith" && flag_bits(body, keyword, names).is_some()
            }
            _ => false,
        })
    };
    let wrong = if !flags("fastmath", "fastmath", FASTMATH_FLAGS) {
        ("fastmath", "Floating point fast math flags")
    } else if !flags("overflowFlags", "overflow", OVERFLOW_FLAGS) {
        ("overflowFlags", "Integer overflow arith flags")
    } else if module.attr(op, "isExact").is_some_and(|a| a != cx.unit()) {
        ("isExact", "unit attribute")
    } else {
        return true;
    };
    let (name, what) = wrong;
    v.error(
        "E0219",
        format!("attribute '{name}' failed to satisfy constraint: {what}"),
    );
    false
}

fn verify_compare(v: &mut OpVerifier) {
    if !counts_fit(v, Counts::of(2, 1)) || !verify_flags(v) {
        return;
    }
    let (module, op) = (v.module, v.op);
    let cx = module.cx();
    let integers = module.is(op, "arith.cmpi");
    let (names, what) = if integers {
        (
            CMPI_PREDICATES,
            "allowed 64-bit signless integer cases: 0 to 9",
        )
    } else {
        (
            CMPF_PREDICATES,
            "allowed 64-bit signless integer cases: 0 to 15",
        )
    };
    let Some(predicate) = module.attr(op, "predicate") else {
        v.error("E0219", "requires attribute 'predicate'");
        return;
    };
    let known = matches!(cx.attr_data(predicate), AttrData::Integer { value, ty }
        if *ty == cx.int_type(64) && value.to_i64().is_some_and(|p| (0..names.len() as i64).contains(&p)));
    if !known {
        v.error(
            "E0219",
            format!("attribute 'predicate' failed to satisfy constraint: {what}"),
        );
        return;
    }
    let fit = if integers {
        verify_operands(v, is_signless_integer_like, "signless-integer-like")
    } else {
        verify_operands(v, is_float_like, "floating-point-like")
    };
    if !fit {
        return;
    }
    let (ty, result) = (v.operand_type(0), v.result_type(0));
    if !is_bool_like(cx, result) {
        let result = cx.display(result);
        v.error(
            "E0219",
            format!("result #0 must be bool-like, but got '{result}'"),
        );
    } else if v.operand_type(1) != ty {
        v.error("E0219", "requires all operands to have the same type");
    } else if with_element(cx, ty, cx.int_type(1)) != result {
        v.error(
            "E0219",
            "failed to verify that result type has i1 element type and same shape as operands",
        );
    }
}

/// The type that an attribute carries, for attributes that carry one.
pub fn attr_type(cx: &Context, data: &AttrData) -> Option<Type> {
    match data {
        AttrData::Integer { ty, .. }
        | AttrData::Float { ty, .. }
        | AttrData::Dense { ty, .. }
        | AttrData::DenseResource { ty, .. }
        | AttrData::Sparse { ty, .. } => Some(*ty),
        AttrData::String { ty, .. } | AttrData::Opaque { ty, .. } => {
            Some(ty.unwrap_or_else(|| cx.ty(TypeData::None)))
        }
        AttrData::DenseArray { .. } => None,
        _ => None,
    }
}

fn verify_constant(v: &mut OpVerifier) {
    if !counts_fit(v, Counts::of(0, 1)) {
        return;
    }
    let (module, op) = (v.module, v.op);
    let cx = module.cx();
    let Some(value) = module.attr(op, "value") else {
        v.error("E0219", "requires attribute 'value'");
        return;
    };
    let data = cx.attr_data(value);
    let result = v.result_type(0);
    let Some(ty) = attr_type(cx, data) else {
        v.error(
            "E0219",
            "attribute 'value' failed to satisfy constraint: TypedAttr instance",
        );
        return;
    };
    if ty != result {
        v.error(
            "E0219",
            "failed to verify that all of {value, result} have same type",
        );
        return;
    }
    match cx.type_data(ty) {
        TypeData::Integer { signedness, .. } if *signedness != Signedness::Signless => {
            v.error("E0219", "integer return type must be signless");
        }
        TypeData::Vector { scalable, .. } if scalable.contains(&true) && !cx.is_splat(value) => {
            v.error(
                "E0219",
                "initializing scalable vectors with elements attribute is not supported unless it's a vector splat",
            );
        }
        _ => {
            if matches!(data, AttrData::String { .. } | AttrData::Opaque { .. }) {
                v.error(
                    "E0219",
                    "value must be an integer, float, or elements attribute",
                );
            }
        }
    }
}
