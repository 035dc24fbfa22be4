//! `func`: functions, calls and returns.

use super::operands::{Counts, counts_fit};
use crate::diag::Diagnostic;
use crate::ir::{AttrData, Module, OpId, SymbolTable, Type, TypeData};
use crate::ops::parts::{attr, optional_attr, variadic};
use crate::ops::{AttrKind, Custom, Effects, OpDef, OpVerifier, Pretty, Traits};

/// `func.func`
pub const FUNC: OpDef = OpDef {
    name: "func.func",
    summary: "a function",
    description: "\
Its region's entry block takes the parameters; a function without a body is a declaration and not public.",
    attrs: &[
        attr("sym_name", AttrKind::Str, "the function's name"),
        attr("function_type", AttrKind::Type, "a function type"),
        optional_attr(
            "sym_visibility",
            AttrKind::Str,
            "`public`, `private` or `nested`",
        ),
        optional_attr(
            "arg_attrs",
            AttrKind::Array,
            "a dictionary for each parameter",
        ),
        optional_attr("res_attrs", AttrKind::Array, "a dictionary for each result"),
        optional_attr("no_inline", AttrKind::Any, "unit: never inlined"),
    ],
    traits: Traits {
        symbol: true,
        isolated: true,
        ..Traits::NONE
    },
    effects: Effects::Opaque,
    pretty: Pretty::Custom(Custom::Func),
    verify: Some(verify_func),
    ..OpDef::NONE
};

/// `func.return`
pub const RETURN: OpDef = OpDef {
    name: "func.return",
    summary: "ends a function",
    description: "The operands are the function's results.",
    operands: &[variadic("operands", "the results")],
    traits: Traits {
        terminator: true,
        ..Traits::NONE
    },
    effects: Effects::Opaque,
    pretty: Pretty::Custom(Custom::Return),
    verify: Some(verify_return),
    ..OpDef::NONE
};

/// `func.call`
pub const CALL: OpDef = OpDef {
    name: "func.call",
    summary: "calls a function",
    description: "The function is looked up in the closest symbol table around the call.",
    operands: &[variadic("operands", "the arguments")],
    results: &[variadic("results", "the results")],
    attrs: &[
        attr("callee", AttrKind::Symbol, "the function"),
        optional_attr(
            "arg_attrs",
            AttrKind::Array,
            "a dictionary for each argument",
        ),
        optional_attr("res_attrs", AttrKind::Array, "a dictionary for each result"),
        optional_attr("no_inline", AttrKind::Any, "unit: never inlined"),
    ],
    effects: Effects::Opaque,
    pretty: Pretty::Custom(Custom::Call),
    verify: Some(verify_call),
    ..OpDef::NONE
};

/// The family.
pub const OPS: &[OpDef] = &[FUNC, RETURN, CALL];

impl Module {
    /// The parameter and result types of a `func.func`; `None` if it lacks a proper `function_type`.
    pub fn function_type(&self, func: OpId) -> Option<(&[Type], &[Type])> {
        let ty = self.cx().as_type(self.attr(func, "function_type")?)?;
        match self.cx().type_data(ty) {
            TypeData::Function { inputs, results } => Some((inputs, results)),
            _ => None,
        }
    }
}

/// Name and visibility of an op that is a symbol; whether they are right.
pub(super) fn verify_symbol(v: &mut OpVerifier) -> bool {
    let (module, op) = (v.module, v.op);
    for name in ["sym_name", "sym_visibility"] {
        let Some(value) = module.attr(op, name) else {
            continue;
        };
        if !matches!(
            module.cx().attr_data(value),
            AttrData::String { ty: None, .. }
        ) {
            v.error(
                "E0213",
                format!("attribute '{name}' failed to satisfy constraint: string attribute"),
            );
            return false;
        }
    }
    let visibility = module.str_attr(op, "sym_visibility").unwrap_or("public");
    if !["public", "private", "nested"].contains(&visibility) {
        v.error(
            "E0213",
            format!(
                r#"visibility expected to be one of ["public", "private", "nested"], but got "{visibility}""#
            ),
        );
        return false;
    }
    let parent = module.parent_op(op).and_then(|p| module.def_of(p));
    if module.attr(op, "sym_name").is_some() && parent.is_some_and(|p| !p.traits.symbol_table) {
        v.error("E0213", "symbol's parent must have the SymbolTable trait");
        return false;
    }
    true
}

fn verify_func(v: &mut OpVerifier) {
    let counts = Counts {
        regions: 1,
        ..Counts::of(0, 0)
    };
    if !counts_fit(v, counts) {
        return;
    }
    let (module, op) = (v.module, v.op);
    for name in ["function_type", "sym_name"] {
        if module.attr(op, name).is_none() {
            v.error("E0214", format!("requires attribute '{name}'"));
            return;
        }
    }
    let Some((inputs, results)) = module.function_type(op) else {
        v.error(
            "E0214",
            "attribute 'function_type' failed to satisfy constraint: type attribute of function type",
        );
        return;
    };
    let unit = module.cx().unit();
    if module.attr(op, "no_inline").is_some_and(|a| a != unit) {
        v.error(
            "E0214",
            "attribute 'no_inline' failed to satisfy constraint: unit attribute",
        );
        return;
    }
    if !verify_symbol(v)
        || !verify_value_attrs(v, "arg_attrs", "argument", inputs.len())
        || !verify_value_attrs(v, "res_attrs", "result", results.len())
    {
        return;
    }
    let Some(entry) = module.first_block(module.regions(op)[0]) else {
        if module.str_attr(op, "sym_visibility").unwrap_or("public") == "public" {
            let d = v
                .diagnostic("E0215", "symbol declaration cannot have public visibility")
                .help("declare it 'private', or give it a body");
            v.diagnostics.push(d);
        }
        return;
    };
    let args = module.args(entry);
    if args.len() != inputs.len() {
        v.error(
            "E0215",
            format!(
                "entry block must have {} arguments to match function signature",
                inputs.len()
            ),
        );
        return;
    }
    for (index, (&arg, &input)) in args.iter().zip(inputs).enumerate() {
        if module.ty(arg) != input {
            let cx = module.cx();
            let (found, wanted) = (cx.display(module.ty(arg)), cx.display(input));
            v.error(
                "E0215",
                format!(
                    "type of entry block argument #{index}('{found}') must match the type of the corresponding argument in \
                     function signature('{wanted}')"
                ),
            );
            return;
        }
    }
}

/// `arg_attrs` or `res_attrs`: one dictionary of prefixed names for each of `count` values.
fn verify_value_attrs(v: &mut OpVerifier, name: &str, what: &str, count: usize) -> bool {
    let module = v.module;
    let cx = module.cx();
    let Some(value) = module.attr(v.op, name) else {
        return true;
    };
    let items = cx.as_array(value);
    let dictionaries = |items: &[_]| {
        items
            .iter()
            .all(|&a| matches!(cx.attr_data(a), AttrData::Dict(_)))
    };
    let Some(items) = items.filter(|items| dictionaries(items)) else {
        v.error(
            "E0214",
            format!(
                "attribute '{name}' failed to satisfy constraint: Array of dictionary attributes"
            ),
        );
        return false;
    };
    if items.len() != count {
        v.error(
            "E0214",
            format!(
                "expects {what} attribute array to have the same number of elements as the number of function {what}s, got \
                 {}, but expected {count}",
                items.len()
            ),
        );
        return false;
    }
    let mut names = items.iter().flat_map(|&d| cx.dict_entries(d));
    if names.any(|&(name, _)| !cx.str(name).contains('.')) {
        v.error("E0214", format!("{what}s may only have dialect attributes"));
        return false;
    }
    true
}

fn verify_return(v: &mut OpVerifier) {
    let counts = Counts {
        operands: None,
        ..Counts::of(0, 0)
    };
    if !counts_fit(v, counts) {
        return;
    }
    let (module, op) = (v.module, v.op);
    let Some(func) = module.parent_op(op).filter(|&p| module.is(p, "func.func")) else {
        v.error("E0216", "expects parent op 'func.func'");
        return;
    };
    let Some((_, results)) = module.function_type(func) else {
        return; // reported at the function
    };
    let name = module.symbol_name(func).unwrap_or_default();
    let count = module.num_operands(op);
    if count != results.len() {
        v.error(
            "E0216",
            format!(
                "has {count} operands, but enclosing function (@{name}) returns {}",
                results.len()
            ),
        );
        return;
    }
    for (index, (value, &wanted)) in module.operands(op).zip(results).enumerate() {
        if module.ty(value) != wanted {
            let cx = module.cx();
            let (found, wanted) = (cx.display(module.ty(value)), cx.display(wanted));
            v.diagnostics.push(Diagnostic::error(
                "E0216",
                module.loc(op),
                format!(
                    "type of return operand {index} ('{found}') doesn't match function result type ('{wanted}') in function \
                     @{name}"
                ),
            ));
            return;
        }
    }
}

fn verify_call(v: &mut OpVerifier) {
    let counts = Counts {
        operands: None,
        results: None,
        ..Counts::of(0, 0)
    };
    if !counts_fit(v, counts) {
        return;
    }
    match v.module.attr(v.op, "callee") {
        None => v.error("E0214", "requires attribute 'callee'"),
        Some(callee) if v.module.cx().as_symbol(callee).is_none() => v.error(
            "E0214",
            "attribute 'callee' failed to satisfy constraint: flat symbol reference attribute",
        ),
        Some(_) => {}
    }
}

/// Whether an op of an unknown dialect may be a symbol table: MLIR takes it for one if it has one region.
fn may_hold_symbols(module: &Module, op: OpId) -> bool {
    let dialect = || module.name_str(op).split('.').next().unwrap_or_default();
    module.regions(op).len() == 1
        && module.def_of(op).is_none()
        && !super::MLIR_DIALECTS.contains(&dialect())
}

/// The functions that calls inside a symbol table may name. Calls are checked here, once per table, so that the table is
/// read once.
pub(super) struct Callees<'m> {
    module: &'m Module,
    table: OpId,
}

impl<'m> Callees<'m> {
    pub fn new(module: &'m Module, table: OpId) -> Self {
        Self { module, table }
    }

    /// Checks the calls inside the table, but not those inside tables within it.
    pub fn verify_calls(&self, v: &mut OpVerifier) {
        let module = self.module;
        let mut symbols = None;
        let mut walk = module.walk(self.table);
        walk.next();
        while let Some(op) = walk.next() {
            if module.def_of(op).is_some_and(|d| d.traits.symbol_table) {
                walk.skip_children(op);
            } else if may_hold_symbols(module, op) {
                walk.skip_children(op);
                self.refuse_calls(v, op);
            } else if module.is(op, "func.call") {
                let symbols = symbols.get_or_insert_with(|| SymbolTable::new(module, self.table));
                self.call(v, op, symbols);
            }
        }
    }

    /// Inside an op that may be a symbol table of its own, no callee can be found.
    fn refuse_calls(&self, v: &mut OpVerifier, op: OpId) {
        let module = self.module;
        let mut walk = module.walk(op);
        while let Some(op) = walk.next() {
            if module.def_of(op).is_some_and(|d| d.traits.symbol_table) {
                walk.skip_children(op);
            } else if module.is(op, "func.call") {
                let mut v = OpVerifier {
                    module,
                    op,
                    diagnostics: v.diagnostics,
                    scopes: v.scopes,
                };
                let name = module.symbol_attr(op, "callee").unwrap_or_default();
                v.error(
                    "E0217",
                    format!("'{name}' does not reference a valid function"),
                );
            }
        }
    }

    fn call(&self, v: &mut OpVerifier, op: OpId, symbols: &SymbolTable) {
        let module = self.module;
        let Some(name) = module.symbol_attr(op, "callee") else {
            return; // reported at the call
        };
        let mut v = OpVerifier {
            module,
            op,
            diagnostics: v.diagnostics,
            scopes: v.scopes,
        };
        let callee = symbols.get(name).filter(|&f| module.is(f, "func.func"));
        let Some(callee) = callee else {
            v.error(
                "E0217",
                format!("'{name}' does not reference a valid function"),
            );
            return;
        };
        let Some((inputs, results)) = module.function_type(callee) else {
            return; // reported at the function
        };
        if inputs.len() != module.num_operands(op) {
            v.error("E0217", "incorrect number of operands for callee");
            return;
        }
        let cx = module.cx();
        for (index, (value, &wanted)) in module.operands(op).zip(inputs).enumerate() {
            if module.ty(value) != wanted {
                let (found, wanted) = (cx.display(module.ty(value)), cx.display(wanted));
                v.error(
                    "E0217",
                    format!(
                        "operand type mismatch: expected operand type '{wanted}', but provided '{found}' for operand number \
                         {index}"
                    ),
                );
                return;
            }
        }
        if results.len() != module.num_results(op) {
            v.error("E0217", "incorrect number of results for callee");
            return;
        }
        for (index, (value, &wanted)) in module.results(op).zip(results).enumerate() {
            if module.ty(value) != wanted {
                let (found, wanted) = (cx.display(module.ty(value)), cx.display(wanted));
                let d = v
                    .diagnostic("E0217", format!("result type mismatch at index {index}"))
                    .note(None, format!("op result types: {found}"))
                    .note(None, format!("function result types: {wanted}"));
                v.diagnostics.push(d);
                return;
            }
        }
    }
}
