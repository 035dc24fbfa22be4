//! A function of one single-precision number as a block of straight PTX.
//!
//! Epilogues apply one function to hundreds of numbers. As LLVM's instructions each of its steps goes through every pass and
//! through instruction selection each time, although there is nothing left to decide; as one block of inline assembly
//! the whole function is a single instruction to LLVM. NVIDIA's assembler sees the same PTX either way.

use std::fmt::Write as _;

use inkwell::values::FloatValue;

use crate::codegen::llvm::Emitter;

/// A number in a formula.
#[derive(Clone, Copy)]
pub(super) enum Term {
    /// What the function is applied to.
    Input,
    /// A step's result.
    Step(u32),
    /// The single-precision number nearest to this one.
    Constant(f64),
}

/// The steps so far. Arithmetic rounds to the nearest even.
#[derive(Default)]
pub(super) struct Formula {
    text: String,
    steps: u32,
    predicates: u32,
}

impl Formula {
    /// `x · y`.
    pub(super) fn mul(&mut self, x: Term, y: Term) -> Term {
        self.step("mul.rn.f32", &[x, y])
    }

    /// `x + y`.
    pub(super) fn add(&mut self, x: Term, y: Term) -> Term {
        self.step("add.rn.f32", &[x, y])
    }

    /// `x − y`.
    pub(super) fn sub(&mut self, x: Term, y: Term) -> Term {
        self.step("sub.rn.f32", &[x, y])
    }

    /// `x · y + z`, rounded once.
    pub(super) fn fma(&mut self, x: Term, y: Term, z: Term) -> Term {
        self.step("fma.rn.f32", &[x, y, z])
    }

    /// `−x`.
    pub(super) fn negate(&mut self, x: Term) -> Term {
        self.step("neg.f32", &[x])
    }

    /// `|x|`.
    pub(super) fn magnitude(&mut self, x: Term) -> Term {
        self.step("abs.f32", &[x])
    }

    /// The lesser of two; of a NaN and a number, the number.
    pub(super) fn min(&mut self, x: Term, y: Term) -> Term {
        self.step("min.f32", &[x, y])
    }

    /// The greater of two; of a NaN and a number, the number.
    pub(super) fn max(&mut self, x: Term, y: Term) -> Term {
        self.step("max.f32", &[x, y])
    }

    /// The hardware's hyperbolic tangent (relative error 2⁻¹¹, PTX ISA "tanh").
    pub(super) fn approximate_tanh(&mut self, x: Term) -> Term {
        self.step("tanh.approx.f32", &[x])
    }

    /// `2ˣ` (PTX ISA "ex2").
    pub(super) fn power_of_two(&mut self, x: Term) -> Term {
        self.step("ex2.approx.ftz.f32", &[x])
    }

    /// `1 / x`, to one unit in the last place (PTX ISA "rcp").
    pub(super) fn reciprocal(&mut self, x: Term) -> Term {
        self.step("rcp.approx.ftz.f32", &[x])
    }

    /// `then` where x is less than y, and `otherwise` where it is not, or one is a NaN.
    pub(super) fn if_less(&mut self, (x, y): (Term, Term), then: Term, otherwise: Term) -> Term {
        let predicate = format!("%q{}", self.predicates);
        self.predicates += 1;
        let (x, y) = (x.operand(), y.operand());
        let _ = write!(self.text, " setp.lt.f32 {predicate}, {x}, {y};");
        let term = self.next();
        let (then, otherwise) = (then.operand(), otherwise.operand());
        let target = term.operand();
        let _ = write!(
            self.text,
            " selp.f32 {target}, {then}, {otherwise}, {predicate};"
        );
        term
    }

    /// The function's value where it is applied to x.
    pub(super) fn apply<'c>(
        self,
        e: &Emitter<'c>,
        result: Term,
        x: FloatValue<'c>,
    ) -> FloatValue<'c> {
        let mut block = String::from("{");
        for (kind, name, count) in [("f32", "s", self.steps), ("pred", "q", self.predicates)] {
            if count > 0 {
                let _ = write!(block, " .reg .{kind} %{name}<{count}>;");
            }
        }
        let _ = write!(block, "{} mov.f32 $0, {}; }}", self.text, result.operand());
        e.float_assembly(&block, x)
    }

    fn next(&mut self) -> Term {
        self.steps += 1;
        Term::Step(self.steps - 1)
    }

    fn step(&mut self, instruction: &str, operands: &[Term]) -> Term {
        let term = self.next();
        let _ = write!(self.text, " {instruction} {}", term.operand());
        for operand in operands {
            let _ = write!(self.text, ", {}", operand.operand());
        }
        self.text.push(';');
        term
    }
}

impl Term {
    /// How an instruction names it.
    fn operand(self) -> String {
        match self {
            Term::Input => "$1".to_owned(),
            Term::Step(number) => format!("%s{number}"),
            Term::Constant(value) => format!("0f{:08X}", (value as f32).to_bits()),
        }
    }
}
