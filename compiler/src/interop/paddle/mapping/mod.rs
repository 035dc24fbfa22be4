//! Paddle ops and `dist` ops, one row each, and the two directions in which a row is read.
//!
//! [`Reading`] turns a Paddle op's attributes into those of the `dist` op; [`Writing`] turns them back. What neither
//! touches is not interpreted and travels in the program's forms.

mod read;
mod table;
mod write;

use raddle_dialect::ir::{Attr, Context, FloatKind, Signedness, Type, TypeData};

use super::value::Value;

pub(super) use read::Reading;
pub(super) use write::Writing;

/// One Paddle op.
#[derive(Debug)]
pub(super) struct Mapping {
    /// Paddle's name.
    pub paddle: &'static str,
    /// The `dist` op.
    pub dist: &'static str,
    /// The slot of each operand group, in order.
    pub inputs: &'static [&'static str],
    /// The slot of each result group, in order.
    pub outputs: &'static [&'static str],
    /// Attributes that correspond one to one.
    pub rules: &'static [Rule],
    /// What is out of the ordinary.
    pub special: Special,
}

/// How one attribute corresponds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// FLOAT and `f64`: Paddle's name, then the `dist` name.
    Float(&'static str, &'static str),
    /// INT and `i64`.
    Int(&'static str, &'static str),
    /// BOOLEAN and `bool`.
    Bool(&'static str, &'static str),
    /// What Paddle's op always does, and `dist` can do otherwise where both mean the same.
    Given(&'static str, Const),
    /// The Paddle op's name says it.
    Implied(&'static str, Const),
    /// A Paddle attribute for which only this value has a meaning in `dist`.
    Require(&'static str, Const),
    /// The same, for one that an exported op must have.
    Always(&'static str, Const),
}

/// A constant in the table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Const {
    Bool(bool),
    Int(i64),
    Text(&'static str),
}

impl Const {
    fn attr(self, cx: &Context) -> Attr {
        match self {
            Self::Bool(v) => cx.bool_attr(v),
            Self::Int(v) => cx.i64_attr(v),
            Self::Text(v) => cx.string(v),
        }
    }

    fn value(self) -> Value {
        match self {
            Self::Bool(v) => Value::Bool(v),
            Self::Int(v) => Value::Int(i32::try_from(v).unwrap_or(i32::MAX)),
            Self::Text(v) => Value::Str(v.into()),
        }
    }
}

/// What a row of names cannot say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Special {
    None,
    /// `axis` aligns the shapes.
    Elementwise,
    /// Element types as attributes.
    Cast,
    /// `reduce_all`, `dim`, `keep_dim`.
    Reduce,
    /// Shape, element type, value as number and as text.
    Fill,
    /// Shape and element type.
    Random,
    /// Starts and ends, which may depend on the rank.
    Slice,
    /// One dimension, `axis`.
    Dim,
    /// `axis` and the number of parts.
    Split,
    /// A binary op that stands for a variadic one.
    AnyOf,
    /// A ring.
    Collective,
    /// Paddle's op is that of `dist` without activation and accumulation.
    Fused,
    /// One op of Paddle's for all gradients.
    CheckFinite,
    /// One op of Paddle's for all gradients.
    UpdateScaling,
    /// Operands other than `Param` and `Grad` are state of `Param`.
    Optimizer,
    /// As `Optimizer`, with regularisation.
    Momentum,
    /// As `Momentum`, for lists of parameters.
    MergedMomentum,
    /// As `Optimizer`, for lists of parameters.
    LarsMomentum,
}

impl Mapping {
    /// The row of a Paddle op.
    pub(super) fn of_paddle(kind: &str) -> Option<&'static Self> {
        table::TABLE.iter().find(|row| row.paddle == kind)
    }

    /// The first row with this `dist` op whose implied attributes the op has.
    pub(super) fn of_dist(
        cx: &Context,
        name: &str,
        attr: impl Fn(&str) -> Option<Attr>,
    ) -> Option<&'static Self> {
        table::TABLE
            .iter()
            .find(|row| row.dist == name && row.implies(cx, &attr))
    }

    /// Whether an op has the attributes that the Paddle op's name implies.
    pub(super) fn implies(&self, cx: &Context, attr: impl Fn(&str) -> Option<Attr>) -> bool {
        self.rules.iter().all(|rule| match rule {
            Rule::Implied(name, value) => attr(name) == Some(value.attr(cx)),
            _ => true,
        })
    }

    /// Whether the op carries a ring.
    pub(super) fn has_ring(&self) -> bool {
        self.special == Special::Collective
    }

    /// Whether one Paddle op becomes one `dist` op per tensor of its first slot.
    pub(super) fn spreads(&self) -> bool {
        matches!(self.special, Special::CheckFinite | Special::UpdateScaling) || self.merges()
    }

    /// Whether every slot of the Paddle op is a list with one entry per tensor.
    pub(super) fn merges(&self) -> bool {
        matches!(
            self.special,
            Special::MergedMomentum | Special::LarsMomentum
        )
    }

    /// Whether inputs other than parameter, gradient, learning rate and flags are state of the parameter.
    pub(super) fn is_optimizer(&self) -> bool {
        matches!(self.special, Special::Optimizer | Special::Momentum) || self.merges()
    }
}

/// The element type of a Paddle data type.
pub(super) fn element_type(cx: &Context, code: i32) -> Option<Type> {
    Some(match code {
        0 => cx.int_type(1),
        1 => cx.int_type(16),
        2 => cx.int_type(32),
        3 => cx.int_type(64),
        4 => cx.float_type(FloatKind::F16),
        5 => cx.f32(),
        6 => cx.float_type(FloatKind::F64),
        20 => cx.ty(TypeData::Integer {
            width: 8,
            signedness: Signedness::Unsigned,
        }),
        21 => cx.int_type(8),
        22 => cx.float_type(FloatKind::BF16),
        _ => return None,
    })
}

/// The Paddle data type of an element type.
pub(super) fn data_type(cx: &Context, element: Type) -> Option<i32> {
    [0, 1, 2, 3, 4, 5, 6, 20, 21, 22]
        .into_iter()
        .find(|&code| element_type(cx, code) == Some(element))
}

/// Paddle's `op_role` for a role without flags.
pub(super) fn role_code(role: &str) -> Option<i32> {
    match role {
        "forward" => Some(0),
        "backward" => Some(1),
        "optimizer" => Some(2),
        _ => None,
    }
}

/// The flag of `op_role` that marks the loss and its gradient.
pub(super) const LOSS_ROLE: i64 = 256;

/// The role that an `op_role` says: its flags aside, learning-rate schedules belong to the optimizer, communication to what
/// it says it serves.
pub(super) fn role_of(code: i64) -> &'static str {
    match code & 0xff {
        c if c & 0x12 != 0 => "optimizer",
        c if c & 1 != 0 => "backward",
        _ => "forward",
    }
}
