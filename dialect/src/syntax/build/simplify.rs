//! Affine expressions, simplified as they are put together.
//!
//! MLIR simplifies an expression whenever it puts two together, and prints what is left; the rules here are the same
//! (`simplifyAdd`, `simplifyMul`, … in `mlir/lib/IR/AffineExpr.cpp`). Expressions are nodes of an arena, equal ones the same
//! node; a rule looks at a few levels only, and where MLIR recurses these loop.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::super::token::Tok;
use crate::ir::{AffineExpr, AffineStep};

/// A node of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Node {
    Dim(u32),
    Symbol(u32),
    Const(i64),
    Binary(Op, u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Op {
    Add,
    Mul,
    FloorDiv,
    CeilDiv,
    Mod,
}

/// How far sums are taken apart on their right. MLIR has no such limit, and sums are not written like that.
const MAX_LAST: u32 = 64;

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
    pub start: Option<Tok>,
    nodes: Vec<Fact>,
    known: HashMap<Node, u32, FxBuildHasher>,
    pub names: HashMap<&'s [u8], u32, FxBuildHasher>,
    pub dims: u32,
    pub symbols: u32,
    pub results: Vec<u32>,
    pub constraints: Vec<(u32, bool)>,
}

impl Affine<'_> {
    pub fn node(&mut self, node: Node) -> u32 {
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

    pub fn constant(&mut self, value: i64) -> u32 {
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

    pub fn is_symbolic(&self, expr: u32) -> bool {
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

    pub fn add(&mut self, l: u32, r: u32) -> u32 {
        self.add_at(l, r, 0).0
    }

    /// The sum, and whether it is anything but the two put together.
    fn add_at(&mut self, l: u32, r: u32, depth: u32) -> (u32, bool) {
        // Constants that end up on the right of everything, innermost first.
        let mut last = Vec::new();
        let (mut sum, mut simpler) = self.add_before(l, r, depth, &mut last);
        while let Some(constant) = last.pop() {
            let constant = self.constant(constant);
            sum = self.add_before(sum, constant, depth, &mut last).0;
            simpler = true;
        }
        (sum, simpler)
    }

    /// The sum but for the constants that it adds to `last`.
    fn add_before(
        &mut self,
        mut l: u32,
        mut r: u32,
        depth: u32,
        last: &mut Vec<i64>,
    ) -> (u32, bool) {
        let mut simpler = false;
        loop {
            if let (Some(a), Some(b)) = (self.as_const(l), self.as_const(r)) {
                return match a.checked_add(b) {
                    Some(sum) => (self.constant(sum), true),
                    None => (self.node(Node::Binary(Op::Add, l, r)), simpler),
                };
            }
            // Constants go right; then symbols do; single dimensions and symbols go by number.
            if self.as_const(l).is_some()
                || (self.is_symbolic(l) && !self.is_symbolic(r))
                || self.is_later(l, r)
            {
                (l, r) = (r, l);
                simpler = true;
            }
            let constant = self.as_const(r);
            if constant == Some(0) {
                return (l, true);
            }
            let inner = self.by_const(l, Op::Add);
            // (d0 + 2) + 3
            if let (Some((rest, a)), Some(b)) = (inner, constant) {
                (l, r) = (rest, self.constant(a.wrapping_add(b)));
                simpler = true;
                continue;
            }
            // d0 * 2 + d0 * 3
            let (left, a) = self.by_const(l, Op::Mul).unwrap_or((l, 1));
            let (right, b) = self.by_const(r, Op::Mul).unwrap_or((r, 1));
            if left == right {
                let sum = self.constant(a.wrapping_add(b));
                return (self.mul(left, sum), true);
            }
            // (d0 + 2) + d1
            if let Some((rest, a)) = inner
                && constant.is_none()
            {
                last.push(a);
                l = rest;
                simpler = true;
                continue;
            }
            let other = self
                .remainder(l, r)
                .or_else(|| self.add_to_last(l, r, depth));
            return match other {
                Some(sum) => (sum, true),
                None => (self.node(Node::Binary(Op::Add, l, r)), simpler),
            };
        }
    }

    /// `(a + b) + (e floordiv q) * c`, if the last two are simpler together: with `b = e` and `c = -q`, `a + e mod q`.
    fn add_to_last(&mut self, l: u32, r: u32, depth: u32) -> Option<u32> {
        let Node::Binary(Op::Add, a, b) = self.get(l) else {
            return None;
        };
        let Node::Binary(Op::Mul, quotient, _) = self.get(r) else {
            return None;
        };
        let is_quotient = matches!(self.get(quotient), Node::Binary(Op::FloorDiv, ..));
        if !is_quotient || depth == MAX_LAST {
            return None;
        }
        let (sum, simpler) = self.add_at(b, r, depth + 1);
        simpler.then(|| self.add_at(a, sum, depth + 1).0)
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

    pub fn mul(&mut self, l: u32, r: u32) -> u32 {
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
    pub fn divide(&mut self, op: Op, l: u32, r: u32) -> u32 {
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

    pub fn modulo(&mut self, l: u32, r: u32) -> u32 {
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
    pub fn flatten(&self, expr: u32) -> AffineExpr {
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
