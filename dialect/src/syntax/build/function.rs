//! `func.func` and its arguments.

use super::super::error::{Failure, fail, report};
use super::super::token::Tok;
use super::Builder;
use super::locs::OpLoc;
use crate::diag::Diagnostic;
use crate::ir::{Attr, Type};

/// The head of the function that is being read.
#[derive(Default)]
pub(super) struct Function {
    pub args: Vec<FunctionArg>,
    results: Vec<(Type, Option<Attr>)>,
}

/// `%name: type {attributes} loc(…)`, or only the type in a declaration.
pub(super) struct FunctionArg {
    pub name: Option<Tok>,
    pub ty: Type,
    attrs: Option<Attr>,
    pub loc: Option<OpLoc>,
    pub start: u32,
}

impl Builder<'_> {
    pub fn begin_function(&mut self, tok: Tok) -> Result<(), Failure> {
        self.function = Function::default();
        self.begin_pretty(tok, "func.func")
    }

    /// `@name` of an op that defines a symbol.
    pub fn symbol_name(&mut self, tok: Tok) -> Result<(), Failure> {
        let name = self.name(tok);
        let cx = self.cx.clone();
        let value = super::super::text::bytes_of_ident(cx.str(name)).into_owned();
        let value = self.cx.attr(crate::ir::AttrData::String {
            bytes: value.into(),
            ty: None,
        });
        self.inherent("sym_name", value);
        Ok(())
    }

    pub fn visibility(&mut self, tok: Tok) {
        let value = self.cx.string(&self.shown(tok));
        self.inherent("sym_visibility", value);
    }

    pub fn function_arg(
        &mut self,
        tok: Tok,
        ty: Type,
        attrs: Option<Attr>,
        loc: Option<OpLoc>,
    ) -> Result<(), Failure> {
        if let Some(first) = self.function.args.first()
            && first.name.is_none()
        {
            return Err(fail(
                "E0150",
                tok.span(),
                "expected type instead of SSA identifier",
            ));
        }
        self.function.args.push(FunctionArg {
            name: Some(tok),
            ty,
            attrs,
            loc,
            start: tok.start,
        });
        Ok(())
    }

    /// An argument without a name.
    pub fn function_input(
        &mut self,
        start: u32,
        ty: Type,
        attrs: Option<Attr>,
    ) -> Result<(), Failure> {
        if let Some(first) = self.function.args.first()
            && first.name.is_some()
        {
            return Err(fail("E0150", super::at(start), "expected SSA identifier"));
        }
        self.function.args.push(FunctionArg {
            name: None,
            ty,
            attrs,
            loc: None,
            start,
        });
        Ok(())
    }

    pub fn function_result(&mut self, ty: Type, attrs: Option<Attr>) {
        self.function.results.push((ty, attrs));
    }

    /// The head is read: its type and the attributes of arguments and results.
    pub fn function_head(&mut self) -> Result<(), Failure> {
        let inputs: Vec<_> = self.function.args.iter().map(|a| a.ty).collect();
        let results: Vec<_> = self.function.results.iter().map(|r| r.0).collect();
        let ty = self.cx.function_type(&inputs, &results);
        let arg_attrs: Vec<_> = self.function.args.iter().map(|a| a.attrs).collect();
        let result_attrs: Vec<_> = self.function.results.iter().map(|r| r.1).collect();
        let attrs = self.frame().attrs;
        for name in ["sym_name", "function_type", "sym_visibility"] {
            if self.cx.dict_get(attrs, name).is_some() {
                let tok = self.frame().tok;
                return Err(report(
                    Diagnostic::error(
                        "E0151",
                        tok.span(),
                        format!("'{name}' is an inferred attribute and should not be specified in the explicit attribute dictionary"),
                    )
                    .help("the function's head says it"),
                ));
            }
        }
        let ty = self.cx.type_attr(ty);
        self.inherent("function_type", ty);
        self.attrs_of_each("arg_attrs", &arg_attrs);
        self.attrs_of_each("res_attrs", &result_attrs);
        Ok(())
    }

    fn attrs_of_each(&mut self, name: &str, each: &[Option<Attr>]) {
        let none = self.cx.empty_dict();
        if each.iter().all(|a| a.is_none_or(|a| a == none)) {
            return;
        }
        let each: Vec<_> = each.iter().map(|a| a.unwrap_or(none)).collect();
        let value = self.cx.array(&each);
        self.inherent(name, value);
    }
}
