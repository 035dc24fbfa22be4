//! Affine maps and sets.

use super::super::error::{Failure, fail};
use super::super::token::{Kind, Tok};
use super::Builder;
use super::simplify::{Affine, Node, Op};
use crate::ir::{AffineMap, Attr, AttrData, IntegerSet};

impl Builder<'_> {
    pub fn affine_start(&mut self, tok: Tok) {
        self.affine = Affine::default();
        self.affine.start = Some(tok);
    }

    pub fn affine_dim(&mut self, tok: Tok) -> Result<(), Failure> {
        let node = Node::Dim(self.affine.dims);
        self.affine.dims += 1;
        self.affine_name(tok, node)
    }

    pub fn affine_symbol(&mut self, tok: Tok) -> Result<(), Failure> {
        let node = Node::Symbol(self.affine.symbols);
        self.affine.symbols += 1;
        self.affine_name(tok, node)
    }

    fn affine_name(&mut self, tok: Tok, node: Node) -> Result<(), Failure> {
        let node = self.affine.node(node);
        match self.affine.names.insert(self.bytes(tok), node) {
            None => Ok(()),
            Some(_) => {
                let name = self.shown(tok);
                Err(fail(
                    "E0164",
                    tok.span(),
                    format!("redefinition of identifier '{name}'"),
                ))
            }
        }
    }

    pub fn affine_id(&mut self, tok: Tok) -> Result<u32, Failure> {
        let found = self.affine.names.get(self.bytes(tok)).copied();
        found.ok_or_else(|| fail("E0164", tok.span(), "use of undeclared identifier"))
    }

    pub fn affine_int(&mut self, tok: Tok) -> Result<u32, Failure> {
        match self.magnitude(tok).and_then(|m| i64::try_from(m).ok()) {
            Some(value) => Ok(self.affine.constant(value)),
            None => Err(fail("E0164", tok.span(), "constant too large for index")),
        }
    }

    pub fn affine_add(&mut self, l: u32, r: u32) -> u32 {
        self.affine.add(l, r)
    }

    pub fn affine_sub(&mut self, l: u32, r: u32) -> u32 {
        let negated = self.affine_neg(r);
        self.affine.add(l, negated)
    }

    pub fn affine_neg(&mut self, e: u32) -> u32 {
        let minus_one = self.affine.constant(-1);
        self.affine.mul(e, minus_one)
    }

    pub fn affine_op(&mut self, op: Tok, l: u32, r: u32) -> Result<u32, Failure> {
        let affine = &mut self.affine;
        let (l_symbolic, r_symbolic) = (affine.is_symbolic(l), affine.is_symbolic(r));
        let what = match op.kind {
            Kind::Star if l_symbolic || r_symbolic => return Ok(affine.mul(l, r)),
            Kind::FloorDiv if r_symbolic => return Ok(affine.divide(Op::FloorDiv, l, r)),
            Kind::CeilDiv if r_symbolic => return Ok(affine.divide(Op::CeilDiv, l, r)),
            Kind::Mod if r_symbolic => return Ok(affine.modulo(l, r)),
            Kind::Star => "at least one of the multiply operands",
            Kind::FloorDiv => "right operand of floordiv",
            Kind::CeilDiv => "right operand of ceildiv",
            _ => "right operand of mod",
        };
        Err(fail(
            "E0164",
            op.span(),
            format!("non-affine expression: {what} has to be either a constant or symbolic"),
        ))
    }

    pub fn affine_mark(&mut self) -> u32 {
        0
    }

    pub fn affine_result(&mut self, e: u32) -> u32 {
        self.affine.results.push(e);
        0
    }

    pub fn affine_constraint(&mut self, l: u32, r: u32, equal: bool) -> u32 {
        let difference = self.affine_sub(l, r);
        self.affine.constraints.push((difference, equal));
        0
    }

    fn affine_keyword(&self, wanted: Kind) -> Result<(), Failure> {
        let tok = self.affine.start.expect("a map or set is being read");
        if tok.kind == wanted {
            return Ok(());
        }
        let message = if wanted == Kind::AffineMap {
            "expected IntegerSet, but got AffineMap"
        } else {
            "expected AffineMap, but got IntegerSet"
        };
        Err(fail("E0164", tok.span(), message))
    }

    pub fn affine_map(&mut self, _from: u32) -> Result<Attr, Failure> {
        self.affine_keyword(Kind::AffineMap)?;
        let affine = &self.affine;
        let results: Vec<_> = affine.results.iter().map(|&e| affine.flatten(e)).collect();
        Ok(self.cx.attr(AttrData::AffineMap(AffineMap {
            dims: self.affine.dims,
            symbols: self.affine.symbols,
            results: results.into(),
        })))
    }

    pub fn affine_set(&mut self, _from: u32) -> Result<Attr, Failure> {
        self.affine_keyword(Kind::AffineSet)?;
        if self.affine.constraints.is_empty() {
            // No constraint holds everywhere: 0 == 0.
            let zero = self.affine.constant(0);
            self.affine.constraints.push((zero, true));
        }
        let affine = &self.affine;
        let constraints = affine.constraints.iter();
        Ok(self.cx.attr(AttrData::IntegerSet(IntegerSet {
            dims: affine.dims,
            symbols: affine.symbols,
            constraints: constraints
                .map(|&(e, eq)| (affine.flatten(e), eq))
                .collect(),
        })))
    }
}
