//! Scalar arithmetic inside a `linalg.generic`: picks the float or the integer op by the operands' type.

use raddle_dialect::ir::{AttrData, FloatKind, Type, TypeData, ValueId};

use super::emit::Emit;

/// `arith.cmpf` predicates: ordered greater than, unordered or not equal.
const OGT: i64 = 2;
const UNE: i64 = 13;

impl Emit<'_, '_> {
    fn binary(&mut self, float: &str, int: &str, a: ValueId, b: ValueId) -> ValueId {
        let ty = self.rewriter.ty(a);
        let name = if self.is_float(ty) { float } else { int };
        self.op(name, &[a, b], &[ty], &[])
    }

    pub fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary("arith.addf", "arith.addi", a, b)
    }

    pub fn sub(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary("arith.subf", "arith.subi", a, b)
    }

    pub fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary("arith.mulf", "arith.muli", a, b)
    }

    pub fn div(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary("arith.divf", "arith.divsi", a, b)
    }

    pub fn max(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary("arith.maximumf", "arith.maxsi", a, b)
    }

    pub fn min(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary("arith.minimumf", "arith.minsi", a, b)
    }

    /// A constant of another value's type.
    pub fn like(&mut self, value: f64, other: ValueId) -> ValueId {
        let ty = self.rewriter.ty(other);
        self.constant(value, ty)
    }

    /// Zero of a number type, however narrow.
    pub fn zero(&mut self, ty: Type) -> ValueId {
        let wide = self.wide(ty);
        let zero = self.constant(0.0, wide);
        self.convert(zero, ty)
    }

    pub fn add_number(&mut self, a: ValueId, number: f64) -> ValueId {
        let b = self.like(number, a);
        self.add(a, b)
    }

    pub fn mul_number(&mut self, a: ValueId, number: f64) -> ValueId {
        let b = self.like(number, a);
        self.mul(a, b)
    }

    /// A function of the `math` dialect: `sqrt`, `rsqrt`, `exp`, `log`, `erf`, `tanh`, `absf`.
    pub fn math(&mut self, function: &str, a: ValueId) -> ValueId {
        let ty = self.rewriter.ty(a);
        // The default, written out as MLIR would.
        let fastmath = self.cx.attr(AttrData::Opaque {
            dialect: self.cx.ident("arith"),
            body: "fastmath<none>".into(),
            quoted: false,
            ty: None,
        });
        let name = format!("math.{function}");
        self.op(&name, &[a], &[ty], &[("fastmath", fastmath)])
    }

    fn compare(&mut self, predicate: i64, a: ValueId, b: ValueId) -> ValueId {
        let flag = self.cx.int_type(1);
        let predicate = self.cx.i64_attr(predicate);
        let name = if self.is_float(self.rewriter.ty(a)) {
            "arith.cmpf"
        } else {
            "arith.cmpi"
        };
        self.op(name, &[a, b], &[flag], &[("predicate", predicate)])
    }

    /// `a > b`
    pub fn greater(&mut self, a: ValueId, b: ValueId) -> ValueId {
        // cmpi's signed greater than is 4.
        let predicate = if self.is_float(self.rewriter.ty(a)) {
            OGT
        } else {
            4
        };
        self.compare(predicate, a, b)
    }

    /// `a == b`, for integers
    pub fn equal_ints(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.compare(0, a, b)
    }

    /// Whether a number is infinite or NaN: then `a − a` is not zero.
    pub fn not_finite(&mut self, a: ValueId) -> ValueId {
        let difference = self.sub(a, a);
        let zero = self.like(0.0, a);
        self.compare(UNE, difference, zero)
    }

    pub fn select(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> ValueId {
        let ty = self.rewriter.ty(a);
        self.op("arith.select", &[condition, a, b], &[ty], &[])
    }

    /// The value in the type that it is computed in.
    pub fn widen(&mut self, value: ValueId) -> ValueId {
        let wide = self.wide(self.rewriter.ty(value));
        self.convert(value, wide)
    }

    /// The value in the type that it is stored in.
    pub fn narrow(&mut self, value: ValueId, ty: Type) -> ValueId {
        self.convert(value, ty)
    }

    /// A conversion between number types, as `dist.cast` has it.
    pub fn convert(&mut self, value: ValueId, to: Type) -> ValueId {
        let from = self.rewriter.ty(value);
        if from == to {
            return value;
        }
        let bits = |ty: Type| match self.cx.type_data(ty) {
            TypeData::Integer { width, .. } => *width,
            TypeData::Float(FloatKind::F64) => 64,
            TypeData::Float(FloatKind::F32 | FloatKind::TF32) => 32,
            TypeData::Float(_) => 16,
            _ => 64,
        };
        let (narrow, wide) = (bits(to) < bits(from), bits(to) > bits(from));
        let flag = bits(from) == 1;
        let name = match (self.is_float(from), self.is_float(to)) {
            (true, true) if wide => "arith.extf",
            (true, true) if narrow => "arith.truncf",
            (true, true) => {
                // Two formats of one width: through f32.
                let f32 = self.cx.f32();
                let middle = self.op("arith.extf", &[value], &[f32], &[]);
                return self.op("arith.truncf", &[middle], &[to], &[]);
            }
            (false, true) if flag => "arith.uitofp",
            (false, true) => "arith.sitofp",
            (true, false) if bits(to) == 1 => {
                let zero = self.like(0.0, value);
                return self.compare(UNE, value, zero);
            }
            (true, false) => "arith.fptosi",
            (false, false) if bits(to) == 1 => {
                let zero = self.like(0.0, value);
                return self.compare(1, value, zero);
            }
            (false, false) if narrow => "arith.trunci",
            (false, false) if flag => "arith.extui",
            (false, false) => "arith.extsi",
        };
        self.op(name, &[value], &[to], &[])
    }
}
