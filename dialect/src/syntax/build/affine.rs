//! Affine maps and sets, simplified while they are read.
//!
//! MLIR simplifies an expression whenever it puts two together, and prints what is left; the rules here are the same
//! (`simplifyAdd`, `simplifyMul`, … in `mlir/lib/IR/AffineExpr.cpp`). Expressions are nodes of an arena, equal ones the same
//! node; a rule looks at a few levels only.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::super::error::{Failure, fail};
use super::super::token::{Kind, Tok};
use super::Builder;
use crate::ir::{AffineExpr, AffineMap, AffineStep, Attr, AttrData, IntegerSet};

/// A node of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Node {
    Dim(u32),
    Symbol(u32),
    Const(i64),
    Binary(Op, u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Op {
    Add,
    Mul,
    FloorDiv,
    CeilDiv,
    Mod,
}

/// What is known of a node.
#[derive(Clone, Copy)]
struct Fact {
    node: Node,
    /// No dimension occurs in it.
    symbolic: bool,
    /// It is a multiple of this.
    divisor: i64,
}

/// The map or set that is being read.
#[derive(Default)]
pub(super) struct Affine<'s> {
    start: Option<Tok>,
    nodes: Vec<Fact>,
    known: HashMap<Node, u32, FxBuildHasher>,
    names: HashMap<&'s [u8], u32, FxBuildHasher>,
    dims: u32,
    symbols: u32,
    results: Vec<u32>,
    constraints: Vec<(u32, bool)>,
}

impl Affine<'_> {
    fn node(&mut self, node: Node) -> u32 {
        if let Some(&known) = self.known.get(&node) {
            return known;
        }
        let (symbolic, divisor) = match node {
            Node::Dim(_) => (false, 1),
            Node::Symbol(_) => (true, 1),
            Node::Const(value) => (true, value.checked_abs().unwrap_or(1)),
            Node::Binary(op, l, r) => {
                let (l, r) = (self.nodes[l as usize], self.nodes[r as usize]);
                let divisor = match (op, r.node) {
                    (Op::Add | Op::Mod, _) => gcd(l.divisor, r.divisor),
                    (Op::Mul, _) => l.divisor.checked_mul(r.divisor).unwrap_or(1),
                    (Op::FloorDiv | Op::CeilDiv, Node::Const(by))
                        if by != 0 && l.divisor.checked_rem(by) == Some(0) =>
                    {
                        (l.divisor / by).checked_abs().unwrap_or(1)
                    }
                    _ => 1,
                };
                (l.symbolic && r.symbolic, divisor)
            }
        };
        let index = self.nodes.len() as u32;
        self.nodes.push(Fact {
            node,
            symbolic,
            divisor,
        });
        self.known.insert(node, index);
        index
    }

    fn constant(&mut self, value: i64) -> u32 {
        self.node(Node::Const(value))
    }

    fn get(&self, expr: u32) -> Node {
        self.nodes[expr as usize].node
    }

    fn as_const(&self, expr: u32) -> Option<i64> {
        match self.get(expr) {
            Node::Const(value) => Some(value),
            _ => None,
        }
    }

    fn is_symbolic(&self, expr: u32) -> bool {
        self.nodes[expr as usize].symbolic
    }

    /// Whether both are dimensions, or both symbols, and the first has the higher number.
    fn is_later(&self, l: u32, r: u32) -> bool {
        match (self.get(l), self.get(r)) {
            (Node::Dim(l), Node::Dim(r)) | (Node::Symbol(l), Node::Symbol(r)) => l > r,
            _ => false,
        }
    }

    fn divisor(&self, expr: u32) -> i64 {
        self.nodes[expr as usize].divisor
    }

    /// The parts of `l op constant`.
    fn by_const(&self, expr: u32, op: Op) -> Option<(u32, i64)> {
        match self.get(expr) {
            Node::Binary(found, l, r) if found == op => Some((l, self.as_const(r)?)),
            _ => None,
        }
    }

    fn add(&mut self, l: u32, r: u32) -> u32 {
        // Constants that end up on the right of everything, innermost first.
        let mut last = Vec::new();
        let mut sum = self.add_before(l, r, &mut last);
        while let Some(constant) = last.pop() {
            let constant = self.constant(constant);
            sum = self.add_before(sum, constant, &mut last);
        }
        sum
    }

    /// The sum but for the constants that it adds to `last`.
    fn add_before(&mut self, mut l: u32, mut r: u32, last: &mut Vec<i64>) -> u32 {
        loop {
            if let (Some(a), Some(b)) = (self.as_const(l), self.as_const(r)) {
                return match a.checked_add(b) {
                    Some(sum) => self.constant(sum),
                    None => self.node(Node::Binary(Op::Add, l, r)),
                };
            }
            // Constants go right; then symbols do; single dimensions and symbols go by number.
            if self.as_const(l).is_some()
                || (self.is_symbolic(l) && !self.is_symbolic(r))
                || self.is_later(l, r)
            {
                (l, r) = (r, l);
            }
            let constant = self.as_const(r);
            if constant == Some(0) {
                return l;
            }
            let inner = self.by_const(l, Op::Add);
            // (d0 + 2) + 3
            if let (Some((rest, a)), Some(b)) = (inner, constant) {
                (l, r) = (rest, self.constant(a.wrapping_add(b)));
                continue;
            }
            // d0 * 2 + d0 * 3
            let (left, a) = self.by_const(l, Op::Mul).unwrap_or((l, 1));
            let (right, b) = self.by_const(r, Op::Mul).unwrap_or((r, 1));
            if left == right {
                let sum = self.constant(a.wrapping_add(b));
                return self.mul(left, sum);
            }
            // (d0 + 2) + d1
            if let Some((rest, a)) = inner
                && constant.is_none()
            {
                last.push(a);
                l = rest;
                continue;
            }
            return match self.remainder(l, r) {
                Some(remainder) => remainder,
                None => self.node(Node::Binary(Op::Add, l, r)),
            };
        }
    }

    /// `e - (e floordiv q) * q` is `e mod q`.
    fn remainder(&mut self, l: u32, r: u32) -> Option<u32> {
        let Node::Binary(Op::Mul, quotient, factor) = self.get(r) else {
            return None;
        };
        if self.as_const(factor) == Some(-1)
            && let Node::Binary(Op::Mul, quotient, factor) = self.get(quotient)
        {
            return match self.get(quotient) {
                Node::Binary(Op::FloorDiv, e, q) if e == l && q == factor => {
                    Some(self.modulo(l, q))
                }
                _ => None,
            };
        }
        match self.get(quotient) {
            Node::Binary(Op::FloorDiv, e, q) if e == l => {
                let minus_one = self.constant(-1);
                (self.mul(factor, minus_one) == q).then(|| self.modulo(l, q))
            }
            _ => None,
        }
    }

    fn mul(&mut self, l: u32, r: u32) -> u32 {
        let mut last = Vec::new();
        let mut product = self.mul_before(l, r, &mut last);
        while let Some(constant) = last.pop() {
            let constant = self.constant(constant);
            product = self.mul_before(product, constant, &mut last);
        }
        product
    }

    /// The product but for the constants that it adds to `last`.
    fn mul_before(&mut self, mut l: u32, mut r: u32, last: &mut Vec<i64>) -> u32 {
        loop {
            if let (Some(a), Some(b)) = (self.as_const(l), self.as_const(r)) {
                return match a.checked_mul(b) {
                    Some(product) => self.constant(product),
                    None => self.node(Node::Binary(Op::Mul, l, r)),
                };
            }
            if !self.is_symbolic(r) || self.as_const(l).is_some() || self.is_later(l, r) {
                (l, r) = (r, l);
            }
            let constant = self.as_const(r);
            match constant {
                Some(1) => return l,
                Some(0) => return r,
                _ => {}
            }
            match (self.by_const(l, Op::Mul), constant) {
                // (d0 * 2) * 3
                (Some((rest, a)), Some(b)) => {
                    (l, r) = (rest, self.constant(a.wrapping_mul(b)));
                    continue;
                }
                // (d0 * 2) * s0
                (Some((rest, a)), None) => {
                    last.push(a);
                    l = rest;
                    continue;
                }
                (None, _) => {}
            }
            return self.node(Node::Binary(Op::Mul, l, r));
        }
    }

    /// `l floordiv r` or `l ceildiv r`.
    fn divide(&mut self, op: Op, l: u32, r: u32) -> u32 {
        enum Task {
            Divide(u32),
            Add,
        }
        let mut tasks = vec![Task::Divide(l)];
        let mut quotients = Vec::new();
        while let Some(task) = tasks.pop() {
            match task {
                Task::Divide(l) => match self.divisible_sum(op, l, r) {
                    // (e1 + e2) floordiv c, where one of them is a multiple of c
                    Some((a, b)) => {
                        tasks.extend([Task::Add, Task::Divide(b), Task::Divide(a)]);
                    }
                    None => quotients.push(self.divide_term(op, l, r)),
                },
                Task::Add => {
                    let right = quotients.pop().expect("the right part is divided");
                    let left = quotients.pop().expect("the left part is divided");
                    quotients.push(self.add(left, right));
                }
            }
        }
        quotients.pop().expect("the whole is divided")
    }

    fn divisible_sum(&self, op: Op, l: u32, r: u32) -> Option<(u32, u32)> {
        let by = self.as_const(r).filter(|by| !matches!(by, 0 | 1))?;
        match self.get(l) {
            Node::Binary(Op::Add, a, b) if op == Op::FloorDiv => {
                let divides = |e| self.divisor(e).checked_rem(by) == Some(0);
                (divides(a) || divides(b)).then_some((a, b))
            }
            _ => None,
        }
    }

    fn divide_term(&mut self, op: Op, l: u32, r: u32) -> u32 {
        let plain = Node::Binary(op, l, r);
        let Some(by) = self.as_const(r).filter(|&by| by != 0) else {
            return self.node(plain);
        };
        if let Some(value) = self.as_const(l) {
            let Some(quotient) = value.checked_div(by) else {
                return self.node(plain);
            };
            // The quotient is cut towards zero.
            let exact = value % by == 0;
            let negative = (value < 0) != (by < 0);
            let step = match op {
                _ if exact => 0,
                Op::CeilDiv => i64::from(!negative),
                _ => -i64::from(negative),
            };
            return self.constant(quotient + step);
        }
        if by == 1 {
            return l;
        }
        // (d0 * 128) floordiv 64
        if let Some((rest, a)) = self.by_const(l, Op::Mul)
            && a.checked_rem(by) == Some(0)
        {
            let quotient = self.constant(a / by);
            return self.mul(rest, quotient);
        }
        self.node(plain)
    }

    fn modulo(&mut self, l: u32, r: u32) -> u32 {
        let Some(by) = self.as_const(r).filter(|&by| by >= 1) else {
            return self.node(Node::Binary(Op::Mod, l, r));
        };
        let mut l = l;
        loop {
            if let Some(value) = self.as_const(l) {
                return self.constant(value.rem_euclid(by));
            }
            if self.divisor(l) % by == 0 {
                return self.constant(0);
            }
            l = match self.get(l) {
                // (e1 + e2) mod c, where one of them is a multiple of c
                Node::Binary(Op::Add, a, b) if self.divisor(a) % by == 0 => b,
                Node::Binary(Op::Add, a, b) if self.divisor(b) % by == 0 => a,
                // (e mod a) mod c, where c divides a
                Node::Binary(Op::Mod, e, a)
                    if self.as_const(a).is_some_and(|a| a >= 1 && a % by == 0) =>
                {
                    e
                }
                _ => return self.node(Node::Binary(Op::Mod, l, r)),
            };
        }
    }

    /// The expression in postfix order. It is about as long as the text.
    fn flatten(&self, expr: u32) -> AffineExpr {
        let mut steps = Vec::new();
        let mut todo = vec![expr];
        // From the last step to the first.
        while let Some(expr) = todo.pop() {
            steps.push(match self.get(expr) {
                Node::Dim(at) => AffineStep::Dim(at),
                Node::Symbol(at) => AffineStep::Symbol(at),
                Node::Const(value) => AffineStep::Const(value),
                Node::Binary(op, l, r) => {
                    todo.push(l);
                    todo.push(r);
                    match op {
                        Op::Add => AffineStep::Add,
                        Op::Mul => AffineStep::Mul,
                        Op::FloorDiv => AffineStep::FloorDiv,
                        Op::CeilDiv => AffineStep::CeilDiv,
                        Op::Mod => AffineStep::Mod,
                    }
                }
            });
        }
        steps.reverse();
        steps.into()
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

impl Builder<'_> {
    pub fn affine_start(&mut self, tok: Tok) {
        self.affine = Affine {
            start: Some(tok),
            ..Affine::default()
        };
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
                    "E0200",
                    tok.span(),
                    format!("redefinition of identifier '{name}'"),
                ))
            }
        }
    }

    pub fn affine_id(&mut self, tok: Tok) -> Result<u32, Failure> {
        let found = self.affine.names.get(self.bytes(tok)).copied();
        found.ok_or_else(|| fail("E0200", tok.span(), "use of undeclared identifier"))
    }

    pub fn affine_int(&mut self, tok: Tok) -> Result<u32, Failure> {
        match self.magnitude(tok).and_then(|m| i64::try_from(m).ok()) {
            Some(value) => Ok(self.affine.constant(value)),
            None => Err(fail("E0200", tok.span(), "constant too large for index")),
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
            "E0200",
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
        Err(fail("E0200", tok.span(), message))
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
