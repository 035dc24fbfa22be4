//! Short forms of `func.call`, `cf` and `arith` ops.

use super::super::error::{Failure, fail, report};
use super::super::token::Tok;
use super::{Builder, mark};
use crate::diag::Diagnostic;
use crate::ir::{Attr, AttrData, Type, TypeData};

/// Predicates in the order of their numbers.
const INTEGER_PREDICATES: [&str; 10] = [
    "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
];
const FLOAT_PREDICATES: [&str; 16] = [
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule",
    "une", "uno", "true",
];

impl Builder<'_> {
    /// An attribute that is a symbol.
    pub fn symbol_attr(&mut self, attr: &str, tok: Tok) -> Result<(), Failure> {
        let name = self.name(tok);
        let value = self.cx.attr(AttrData::SymbolRef {
            path: Box::new([name]),
        });
        self.inherent(attr, value);
        Ok(())
    }

    /// The operands of a successor are read, and their types.
    pub fn successor_operands(&mut self) -> Result<(), Failure> {
        let frame = self.frames.last().expect("an op is being read");
        let operands = mark(&self.operands) - frame.operands;
        let types = mark(&self.types) - frame.types.0;
        if operands != types {
            let tok = frame.tok;
            return Err(fail(
                "E0122",
                tok.span(),
                format!("expected {operands} operand types but had {types}"),
            ));
        }
        let end = mark(&self.types);
        self.frame().types.1 = end;
        self.successor_ends.push(operands as i32);
        Ok(())
    }

    /// The condition of `cf.cond_br` is an `i1`.
    pub fn condition(&mut self) {
        let i1 = self.cx.int_type(1);
        self.types.push(i1);
        self.successor_ends.clear();
    }

    pub fn conditional_branch(&mut self) {
        let (first, second) = match self.successor_ends[..] {
            [first, second] => (first, second),
            _ => unreachable!("a conditional branch has two successors"),
        };
        let sizes = self.cx.i32_array(&[1, first - 1, second - first]);
        self.inherent("operandSegmentSizes", sizes);
    }

    /// `weights([90, 10])`
    pub fn branch_weights(&mut self, first: u32) -> Result<(), Failure> {
        let weights = self.i32_array(first)?;
        self.inherent("branch_weights", weights);
        Ok(())
    }

    /// `arith.constant value`: the result has the value's type.
    pub fn constant(&mut self, value: Attr) -> Result<(), Failure> {
        let ty = match *self.cx.attr_data(value) {
            AttrData::Integer { ty, .. }
            | AttrData::Float { ty, .. }
            | AttrData::Dense { ty, .. }
            | AttrData::DenseResource { ty, .. }
            | AttrData::Sparse { ty, .. } => Some(ty),
            AttrData::String { ty, .. } | AttrData::Opaque { ty, .. } => ty,
            _ => None,
        };
        let Some(ty) = ty else {
            let tok = self.frame().tok;
            return Err(report(
                Diagnostic::error(
                    "E0152",
                    tok.span(),
                    "invalid kind of attribute specified: the value has no type",
                )
                .help("constants are integers, floats and elements: arith.constant 1 : i32"),
            ));
        };
        self.inherent("value", value);
        let inputs = mark(&self.types);
        self.types.push(ty);
        self.frame().types = (inputs, inputs);
        Ok(())
    }

    /// An op whose operands and result have one type.
    pub fn same_type_op(&mut self, ty: Type) {
        self.typed(ty, ty);
    }

    fn typed(&mut self, operand: Type, result: Type) {
        let first = mark(&self.types);
        let count = mark(&self.operands) - self.frame().operands;
        for _ in 0..count {
            self.types.push(operand);
        }
        let second = mark(&self.types);
        self.types.push(result);
        self.frame().types = (first, second);
    }

    /// A comparison gives an `i1` in the shape of its operands.
    pub fn compare_op(&mut self, ty: Type) {
        let i1 = self.cx.int_type(1);
        let cx = self.cx.clone();
        let result = match cx.type_data(ty) {
            TypeData::Tensor {
                shape, encoding, ..
            } => cx.tensor_with(shape, i1, *encoding),
            TypeData::Vector {
                shape, scalable, ..
            } => cx.ty(TypeData::Vector {
                shape: shape.clone(),
                scalable: scalable.clone(),
                element: i1,
            }),
            TypeData::UnrankedTensor(_) => cx.ty(TypeData::UnrankedTensor(i1)),
            _ => i1,
        };
        self.typed(ty, result);
    }

    pub fn predicate(&mut self, tok: Tok) -> Result<(), Failure> {
        let name = self.shown(tok);
        let name = name.trim_matches('"');
        let op = self.cx.clone();
        let is_float = op.str(self.frame().name).ends_with('f');
        let known: &[&str] = if is_float {
            &FLOAT_PREDICATES
        } else {
            &INTEGER_PREDICATES
        };
        let Some(number) = known.iter().position(|&p| p == name) else {
            return Err(report(
                Diagnostic::error("E0153", tok.span(), format!("unknown predicate '{name}'"))
                    .help(format!("one of {}", known.join(", "))),
            ));
        };
        let value = self.cx.i64_attr(number as i64);
        self.inherent("predicate", value);
        Ok(())
    }

    /// `overflow<nsw>`, `fastmath<fast>`: the flags of an op, as an attribute of `arith`.
    pub fn flags(&mut self, attr: &str, open: Tok, close: Tok) -> Result<(), Failure> {
        let takes = self
            .frame()
            .def
            .is_some_and(|d| d.attrs.iter().any(|a| a.name == attr));
        if !takes {
            let name = self.shown(open);
            return Err(fail(
                "E0153",
                open.span(),
                format!("the op has no '{name}' flags"),
            ));
        }
        let kind = self.shown(open);
        let known: &[&str] = if kind == "overflow" {
            &["none", "nsw", "nuw"]
        } else {
            &[
                "none", "reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "fast",
            ]
        };
        let text = &self.text[open.end as usize..close.start as usize];
        let text = String::from_utf8_lossy(text).into_owned();
        let given: Vec<_> = text
            .trim_start_matches(|c: char| c != '<')
            .trim_start_matches('<')
            .split(',')
            .map(|flag| flag.trim_matches(|c: char| c.is_whitespace() || c == '\0'))
            .collect();
        if let Some(unknown) = given.iter().find(|f| !known.contains(f)) {
            return Err(report(
                Diagnostic::error(
                    "E0153",
                    open.start as usize..close.end as usize,
                    format!("unknown flag '{unknown}'"),
                )
                .help(format!("flags are {}", known.join(", "))),
            ));
        }
        let all = kind == "fastmath"
            && (given.contains(&"fast") || known[1..8].iter().all(|f| given.contains(f)));
        let mut flags: Vec<&str> = known
            .iter()
            .filter(|&&f| f != "none" && f != "fast" && given.contains(&f))
            .copied()
            .collect();
        if all {
            flags = vec!["fast"];
        }
        if flags.is_empty() {
            return Ok(());
        }
        let separator = if kind == "overflow" { ", " } else { "," };
        let body = format!("{kind}<{}>", flags.join(separator));
        let dialect = self.cx.ident("arith");
        let value = self.cx.attr(AttrData::Opaque {
            dialect,
            body: body.into(),
            quoted: false,
            ty: None,
        });
        self.inherent(attr, value);
        Ok(())
    }

    pub fn exact(&mut self, tok: Tok) -> Result<(), Failure> {
        let takes = self
            .frame()
            .def
            .is_some_and(|d| d.attrs.iter().any(|a| a.name == "isExact"));
        if !takes {
            return Err(fail("E0153", tok.span(), "the op has no 'exact' flag"));
        }
        let value = self.cx.unit();
        self.inherent("isExact", value);
        Ok(())
    }

    /// `builtin.unrealized_conversion_cast %0 : i32 to i64`
    pub fn cast(&mut self, inputs: Option<u32>, results: u32) {
        self.frame().types = (inputs.unwrap_or(results), results);
    }
}
