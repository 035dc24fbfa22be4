//! `builtin`: the module, and the cast that joins two type systems while a program is converted between them.

use super::func::{self, Callees};
use super::operands::{Counts, counts_fit};
use crate::ops::parts::{optional_attr, variadic};
use crate::ops::{AttrKind, Custom, Effects, OpDef, OpVerifier, Pretty, Traits};

/// `builtin.module`
pub const MODULE: OpDef = OpDef {
    name: "builtin.module",
    summary: "holds a program, or a part of one",
    description: "\
One region with one block, without arguments and terminator. It is a symbol table; a module that is named is itself a symbol.",
    attrs: &[
        optional_attr("sym_name", AttrKind::Str, "the module's name"),
        optional_attr(
            "sym_visibility",
            AttrKind::Str,
            "`public`, `private` or `nested`",
        ),
    ],
    traits: Traits {
        symbol: true,
        symbol_table: true,
        isolated: true,
        graph_region: true,
        ..Traits::NONE
    },
    effects: Effects::Opaque,
    pretty: Pretty::Custom(Custom::Module),
    verify: Some(verify_module),
    ..OpDef::NONE
};

/// `builtin.unrealized_conversion_cast`
pub const UNREALIZED_CONVERSION_CAST: OpDef = OpDef {
    name: "builtin.unrealized_conversion_cast",
    summary: "turns values of some types into values of others, for a later pass to resolve",
    description: "Any number of operands, at least one result.",
    operands: &[variadic("inputs", "any type")],
    results: &[variadic("outputs", "any type")],
    effects: Effects::Pure,
    pretty: Pretty::Custom(Custom::Cast),
    verify: Some(verify_cast),
    ..OpDef::NONE
};

/// The family.
pub const OPS: &[OpDef] = &[MODULE, UNREALIZED_CONVERSION_CAST];

fn verify_module(v: &mut OpVerifier) {
    let counts = Counts {
        regions: 1,
        ..Counts::of(0, 0)
    };
    if !counts_fit(v, counts) {
        return;
    }
    let (module, op) = (v.module, v.op);
    let mut blocks = module.blocks(module.regions(op)[0]);
    match (blocks.next(), blocks.next()) {
        (Some(block), None) if module.args(block).is_empty() => {}
        (Some(_), None) => {
            v.error("E0211", "region should have no arguments");
            return;
        }
        (None, _) => {
            v.error(
                "E0211",
                "region #0 ('bodyRegion') failed to verify constraint: region with 1 blocks",
            );
            return;
        }
        (Some(_), Some(_)) => {
            v.error("E0211", "expects region #0 to have 0 or 1 blocks");
            return;
        }
    }
    func::verify_symbol(v);
    let cx = module.cx();
    for &(name, _) in cx.dict_entries(module.attrs(op)) {
        let name = cx.str(name);
        if !name.contains('.') && !MODULE.attrs.iter().any(|a| a.name == name) {
            let d = v
                .diagnostic(
                    "E0212",
                    format!(
                        "can only contain attributes with dialect-prefixed names, found: '{name}'"
                    ),
                )
                .help(format!(
                    "write a dialect before the name, such as 'my.{name}'"
                ));
            v.diagnostics.push(d);
            return;
        }
    }
    Callees::new(module, op).verify_calls(v);
}

fn verify_cast(v: &mut OpVerifier) {
    let counts = Counts {
        operands: None,
        results: None,
        ..Counts::of(0, 0)
    };
    if counts_fit(v, counts) && v.module.num_results(v.op) == 0 {
        v.error("E0210", "expected at least one result for cast operation");
    }
}
