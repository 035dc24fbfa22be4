//! `cf`: branches between the blocks of a region.

use super::operands::{Counts, counts_fit};
use crate::diag::Diagnostic;
use crate::ir::ValueId;
use crate::ops::parts::{attr, one, optional_attr, variadic};
use crate::ops::{AttrKind, Custom, Effects, Group, OpDef, OpVerifier, Pretty, Traits};

const TERMINATOR: Traits = Traits {
    terminator: true,
    ..Traits::NONE
};

const COND_BRANCH_OPERANDS: &[Group] = &[
    one("condition", "`i1`"),
    variadic("trueDestOperands", "the first block's arguments"),
    variadic("falseDestOperands", "the second block's arguments"),
];

/// `cf.br`
pub const BR: OpDef = OpDef {
    name: "cf.br",
    summary: "goes to another block",
    description: "The operands become the block's arguments.",
    operands: &[variadic("destOperands", "the block's arguments")],
    traits: TERMINATOR,
    effects: Effects::Opaque,
    pretty: Pretty::Custom(Custom::Branch),
    verify: Some(verify_br),
    ..OpDef::NONE
};

/// `cf.cond_br`
pub const COND_BR: OpDef = OpDef {
    name: "cf.cond_br",
    summary: "goes to one of two blocks",
    description: "To the first if the condition holds, else to the second.",
    operands: COND_BRANCH_OPERANDS,
    attrs: &[
        optional_attr(
            "branch_weights",
            AttrKind::I32Array,
            "how often each is taken",
        ),
        attr(
            "operandSegmentSizes",
            AttrKind::I32Array,
            "how many operands belong to the condition and to each block",
        ),
    ],
    traits: TERMINATOR,
    effects: Effects::Opaque,
    pretty: Pretty::Custom(Custom::CondBranch),
    verify: Some(verify_cond_br),
    ..OpDef::NONE
};

/// The family.
pub const OPS: &[OpDef] = &[BR, COND_BR];

fn verify_br(v: &mut OpVerifier) {
    let counts = Counts {
        operands: None,
        successors: 1,
        ..Counts::of(0, 0)
    };
    if counts_fit(v, counts) {
        let values: Vec<_> = v.module.operands(v.op).collect();
        verify_successor(v, 0, &values);
    }
}

fn verify_cond_br(v: &mut OpVerifier) {
    let counts = Counts {
        operands: None,
        successors: 2,
        ..Counts::of(0, 0)
    };
    if !counts_fit(v, counts) {
        return;
    }
    let (module, op) = (v.module, v.op);
    let sizes = module
        .attr(op, "operandSegmentSizes")
        .and_then(|a| module.cx().as_i32_array(a))
        .unwrap_or_default();
    let total: i64 = sizes.iter().map(|&s| i64::from(s)).sum();
    let count = module.num_operands(op);
    if usize::try_from(total) != Ok(count) {
        v.error(
            "E0218",
            format!(
                "operand count ({count}) does not match with the total size ({total}) specified in attribute \
                 'operandSegmentSizes'"
            ),
        );
        return;
    }
    let Ok([condition, first, _]) = module.operand_segments(op, &COND_BR).map_or(Err(()), |s| {
        <[std::ops::Range<usize>; 3]>::try_from(s).map_err(drop)
    }) else {
        v.error(
            "E0218",
            format!("'operandSegmentSizes' {sizes:?} does not fit one condition and two blocks"),
        );
        return;
    };
    let ty = v.operand_type(condition.start);
    if ty != module.cx().int_type(1) {
        let ty = module.cx().display(ty);
        v.error(
            "E0218",
            format!("operand #0 must be 1-bit signless integer, but got '{ty}'"),
        );
        return;
    }
    let weights = module
        .attr(op, "branch_weights")
        .and_then(|a| module.cx().as_i32_array(a));
    if let Some(weights) = weights
        && weights.len() != 2
    {
        let given = weights.len();
        v.error(
            "E0218",
            format!("expects number of branch weights to match number of successors: {given} vs 2"),
        );
        return;
    }
    let values: Vec<_> = module.operands(op).collect();
    if verify_successor(v, 0, &values[first.clone()]) {
        verify_successor(v, 1, &values[first.end..]);
    }
}

/// The operands passed to a successor match its arguments.
fn verify_successor(v: &mut OpVerifier, index: usize, values: &[ValueId]) -> bool {
    let (module, op) = (v.module, v.op);
    let args = module.args(module.successors(op)[index]);
    let message = if args.len() != values.len() {
        format!(
            "branch has {} operands for successor #{index}, but target block has {}",
            values.len(),
            args.len()
        )
    } else {
        let mut pairs = values.iter().zip(args);
        match pairs.position(|(&v, &a)| module.ty(v) != module.ty(a)) {
            Some(arg) => format!("type mismatch for bb argument #{arg} of successor #{index}"),
            None => return true,
        }
    };
    v.diagnostics
        .push(Diagnostic::error("E0218", module.loc(op), message));
    false
}
