//! Gradient rules: how the gradients of an op's operands follow from those of its results.
//!
//! A rule stands beside its op and builds the ops of the backward pass. What a gradient *is* on each rank follows from how its value
//! is spread, axis by axis. Every rank holds the derivative of the loss by what it holds itself, so along one axis
//!
//! | the value is | its gradient is |
//! |---|---|
//! | sharded along a dimension | sharded along that dimension |
//! | a partial sum | whole on every rank: each part counts like the whole |
//! | a partial mean of n ranks | whole on every rank, and 1/n of the gradient of the mean |
//! | replicated | whole on every rank, or a *partial sum*: each copy's share, if ranks use their copies differently |
//!
//! These are Megatron-LM's conjugate operators f and g (Shoeybi et al., 2019, section 3), taken together: g, an all_reduce of a partial
//! sum, passes gradients on as they are; f, where a replicated activation meets a sharded weight, all_reduces them. No op of the
//! forward program stands for f. It is wherever a gradient is partial though its value is replicated, and [`GradientCx::dout`] reduces
//! it there, once, after all uses of the value are accumulated. The same rule reduces the gradient of a weight over the data axis, and
//! that of a layer norm's scale over the axis that cuts the sequence.
//!
//! All rules are linear in the incoming gradients, so layouts of gradients follow from the ops' own layout rules. Only collectives
//! look at layouts themselves.

mod emit;

use std::ops::Range;

pub use emit::{Emit, OpBuilder, ValueLayouts};

use super::attributes::Attrs;
use super::{Group, OpAttributes, OpDef};
use crate::error::Error;
use crate::ir::{Attr, Context, OpId, ValueId};
use crate::layout::{Reduction, Spread};
use crate::mesh::Mesh;

/// An op's [`gradient`](OpDef::gradient): one optional gradient per operand, in order.
///
/// A gradient has its operand's type. None stands for zero, or for an operand that needs no gradient.
pub type Gradient = fn(&mut GradientCx) -> Result<Vec<Option<ValueId>>, Error>;

/// An op of which the operands' gradients are wanted.
#[derive(Clone, Copy)]
pub struct Differentiated<'a> {
    /// The op.
    pub op: OpId,
    /// Per result its gradient; none where nothing depends on the result. At least one is there.
    pub douts: &'a [Option<ValueId>],
    /// Per operand whether its gradient is wanted.
    pub needs: &'a [bool],
    /// Where partial gradients are reduced.
    pub reduce: Reduce,
}

/// Where a gradient that is partial though its value is replicated is reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduce {
    /// Before the op's rule reads it.
    Here,
    /// Not here: the op only passes on a parameter, whose gradient is reduced at the end.
    Later,
}

/// Builds the gradients of an op's operands: one per operand, none where it is zero or not wanted.
///
/// # Errors
/// `E0319` if the op has no gradient; what its rule finds; `E0347` if a gradient is not spread as its value demands.
pub fn differentiate(
    builder: &mut OpBuilder,
    request: Differentiated,
) -> Result<Vec<Option<ValueId>>, Error> {
    let (op, module) = (request.op, builder.rewriter.module());
    let def = module.def_of(op);
    let Some((def, rule)) = def.and_then(|def| Some((def, def.gradient?))) else {
        let why = def.and_then(|def| def.no_gradient);
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        return Err(Error::op("E0319", format!("has no gradient{why}")));
    };
    let groups = |e: super::SegmentError| Error::op("E0303", e.to_string());
    let operands = module.operand_segments(op, def).map_err(groups)?;
    let results = module.result_segments(op, def).map_err(groups)?;
    let values: Vec<_> = module.operands(op).collect();
    let mut cx = GradientCx {
        op,
        def,
        operands,
        results,
        douts: request.douts.to_vec(),
        needs: request.needs,
        reduce: request.reduce,
        builder,
    };
    let mut gradients = rule(&mut cx)?;
    gradients.resize(values.len(), None);
    for (index, (gradient, &value)) in gradients.iter_mut().zip(&values).enumerate() {
        if !request.needs[index] {
            *gradient = None;
        }
        if let Some(gradient) = *gradient {
            check(builder, value, gradient)?;
        }
    }
    Ok(gradients)
}

/// A gradient is spread as its value demands; see the table above.
fn check(builder: &OpBuilder, value: ValueId, gradient: ValueId) -> Result<(), Error> {
    let (ty, expected) = (builder.ty(gradient)?, builder.ty(value)?);
    if ty != expected {
        return Err(Error::op(
            "E0347",
            format!("has an operand of type {expected}, but its gradient is {ty}"),
        ));
    }
    let (of_value, of_gradient) = (builder.layout(value)?, builder.layout(gradient)?);
    for (axis, &size) in builder.mesh.sizes().iter().enumerate() {
        let fits = match (of_value.on(axis), of_gradient.on(axis)) {
            _ if size == 1 => true,
            (Spread::Own, _) => true,
            (Spread::Sharded(d), Spread::Sharded(e)) => d == e,
            (Spread::Sharded(_), _) | (_, Spread::Sharded(_)) => false,
            (_, Spread::Replicated) => true,
            (_, Spread::Partial(reduction)) => reduction == Reduction::Sum,
            (_, Spread::Own) => false,
        };
        if !fits {
            return Err(Error::op(
                "E0347",
                format!(
                    "has an operand spread as {}, but its gradient as {}, along axis '{}'",
                    of_value.display(builder.mesh),
                    of_gradient.display(builder.mesh),
                    builder.mesh.axes()[axis]
                ),
            )
            .with_help(
                "a program that reads pieces as copies, or copies as pieces, has no gradient over the mesh",
            ));
        }
    }
    Ok(())
}

/// What a gradient rule works with. Operands and results go by the names of the op's groups.
pub struct GradientCx<'c, 'a, 'm> {
    op: OpId,
    def: &'static OpDef,
    operands: Vec<Range<usize>>,
    results: Vec<Range<usize>>,
    douts: Vec<Option<ValueId>>,
    needs: &'c [bool],
    reduce: Reduce,
    /// Builds ops; prefer [`GradientCx::emit`].
    pub builder: &'c mut OpBuilder<'a, 'm>,
}

impl<'a, 'm> GradientCx<'_, 'a, 'm> {
    /// An op of the backward pass.
    ///
    /// # Errors
    /// `E0318` if no op has this name.
    pub fn emit(&mut self, name: &str) -> Result<Emit<'_, 'a, 'm>, Error> {
        self.builder.emit(name)
    }

    /// The forward op, to copy attributes from.
    pub fn op(&self) -> OpId {
        self.op
    }

    /// The context.
    pub fn cx(&self) -> &Context {
        self.builder.cx()
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        self.builder.mesh
    }

    /// The forward op's attributes.
    pub fn attrs<T>(&self, read: impl FnOnce(Attrs) -> T) -> T {
        let module = self.builder.rewriter.module();
        let attrs = OpAttributes {
            module,
            op: self.op,
        };
        read(Attrs(&attrs))
    }

    /// One attribute of the forward op as it is.
    ///
    /// # Errors
    /// `E0301` if it is missing.
    pub fn attr(&self, name: &str) -> Result<Attr, Error> {
        self.builder
            .rewriter
            .attr(self.op, name)
            .ok_or_else(|| Error::op("E0301", format!("requires attribute '{name}'")))
    }

    /// The forward op's operands of a group.
    pub fn operands(&self, name: &str) -> Vec<ValueId> {
        let module = self.builder.rewriter.module();
        let range = range(self.def.operands, &self.operands, name);
        range.map(|i| module.operand(self.op, i)).collect()
    }

    /// The forward op's operand of a group that has one.
    ///
    /// # Errors
    /// `E0303` if it is not there.
    pub fn operand(&self, name: &str) -> Result<ValueId, Error> {
        self.optional(name)
            .ok_or_else(|| Error::op("E0303", format!("has no '{name}'")))
    }

    /// The forward op's operand of an optional group.
    pub fn optional(&self, name: &str) -> Option<ValueId> {
        self.operands(name).first().copied()
    }

    /// The forward op's result of a group that has one.
    ///
    /// # Errors
    /// `E0304` if it is not there.
    pub fn result(&self, name: &str) -> Result<ValueId, Error> {
        let range = range(self.def.results, &self.results, name);
        let index = range.into_iter().next();
        index
            .map(|i| self.builder.rewriter.result(self.op, i))
            .ok_or_else(|| Error::op("E0304", format!("has no '{name}'")))
    }

    /// Whether the gradient of an operand is wanted (of any operand, in a variadic group).
    pub fn needs(&self, name: &str) -> bool {
        range(self.def.operands, &self.operands, name).any(|i| self.needs[i])
    }

    /// Gradients of a group of results as they came, perhaps partial; none where nothing depends on the result.
    pub fn raw_douts(&self, name: &str) -> Vec<Option<ValueId>> {
        self.douts[range(self.def.results, &self.results, name)].to_vec()
    }

    /// The gradient of a result, if anything depends on it. If it is partial along an axis, it is all_reduced first (once, however
    /// often this is asked for), unless the op passes on a parameter.
    ///
    /// # Errors
    /// If its layout is not known.
    pub fn dout_optional(&mut self, name: &str) -> Result<Option<ValueId>, Error> {
        let range = range(self.def.results, &self.results, name);
        let Some(index) = range.into_iter().next() else {
            return Ok(None);
        };
        if let (Some(dout), Reduce::Here) = (self.douts[index], self.reduce) {
            self.douts[index] = Some(self.builder.reduced(dout)?);
        }
        Ok(self.douts[index])
    }

    /// The gradient of the op's only result that has one; see [`GradientCx::dout_optional`].
    ///
    /// # Errors
    /// If nothing depends on the result, or the gradient's layout is not known.
    pub fn dout(&mut self, name: &str) -> Result<ValueId, Error> {
        self.dout_optional(name)?.ok_or_else(|| {
            Error::op(
                "E0319",
                format!("has no gradient if only results other than '{name}' are used"),
            )
        })
    }

    /// Nothing that the loss depends on reads these results, through which no gradient is taken.
    ///
    /// # Errors
    /// `E0319` if something does.
    pub fn unused(&self, names: &[&str]) -> Result<(), Error> {
        for name in names {
            if self.raw_douts(name).iter().any(Option::is_some) {
                return Err(Error::op(
                    "E0319",
                    format!(
                        "has no gradient through its result '{name}', which the loss depends on"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// One gradient per operand, from those of groups that have at most one operand.
    pub fn gradients(&self, by_group: &[(&str, Option<ValueId>)]) -> Vec<Option<ValueId>> {
        let mut gradients = vec![None; self.needs.len()];
        for &(name, gradient) in by_group {
            for index in range(self.def.operands, &self.operands, name) {
                gradients[index] = gradient;
            }
        }
        gradients
    }

    /// The axes of the forward op's group that have more than one rank, in mesh order.
    ///
    /// # Errors
    /// If `axes` is missing or names unknown axes.
    pub fn group(&self) -> Result<Vec<usize>, Error> {
        let axes = self.attrs(|attrs| attrs.strings("axes"))?;
        let axes = self.mesh().axis_set(&axes)?.into_iter();
        Ok(axes.filter(|&a| self.mesh().sizes()[a] > 1).collect())
    }

    /// What the ranks along an axis have of a value.
    ///
    /// # Errors
    /// `E0345` if that is not known.
    pub fn spread(&self, value: ValueId, axis: usize) -> Result<Spread, Error> {
        Ok(self.builder.layout(value)?.on(axis))
    }
}

/// The values of the group `name`; none if there is no such group.
fn range(groups: &[Group], ranges: &[Range<usize>], name: &str) -> Range<usize> {
    let group = groups.iter().position(|g| g.name == name);
    debug_assert!(group.is_some(), "no group is called '{name}'");
    group.map_or(0..0, |g| ranges[g].clone())
}

/// The rule of an op `y = f(x)` whose gradient op takes x and the gradient of y, with the forward op's attributes.
pub(super) fn of_input(
    cx: &mut GradientCx,
    gradient: &str,
    attrs: &[&'static str],
) -> Result<Vec<Option<ValueId>>, Error> {
    let (x, op, dout) = (cx.operand("x")?, cx.op(), cx.dout("y")?);
    let dx = cx
        .emit(gradient)?
        .one(x)
        .one(dout)
        .like(op, attrs)
        .value()?;
    Ok(vec![Some(dx)])
}
