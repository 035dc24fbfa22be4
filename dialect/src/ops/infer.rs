//! Shape and type inference: what an op's results are, given its operands and attributes. The verifier and the builders share it.

use super::args::Args;
use super::attributes::{Attributes, Attrs};
use super::{Count, OpDef};
use crate::error::Error;
use crate::ir::DYNAMIC;
use crate::mesh::Mesh;
use crate::tensor_type::{DType, TensorType, extents_agree, shapes_agree};

/// What an op's `infer` works with.
///
/// `infer` checks operands and attributes and returns the types of the results that are there, in order.
pub struct InferCx<'a> {
    /// Operand types by group.
    pub args: Args<'a, TensorType>,
    /// Attributes.
    pub attrs: Attrs<'a>,
    /// The mesh, if there is one.
    pub mesh: Option<&'a Mesh>,
    /// Result types by group, as far as they are known: those of an op that exists.
    pub declared: Option<Args<'a, TensorType>>,
    def: &'static OpDef,
    counts: Vec<usize>,
}

impl<'a> InferCx<'a> {
    /// The context for an op with these operands.
    ///
    /// # Errors
    /// `E0303` if the operands do not fall into the groups of the definition.
    pub fn new(
        def: &'static OpDef,
        operands: &'a [TensorType],
        attrs: Attrs<'a>,
        mesh: Option<&'a Mesh>,
    ) -> Result<Self, Error> {
        Ok(Self {
            args: Args::operands(def, operands, attrs)?,
            attrs,
            mesh,
            declared: None,
            def,
            counts: Vec::new(),
        })
    }

    /// Checks an op that has these result types.
    ///
    /// # Errors
    /// What is wrong with operands, attributes or results; `E0310` if a result has another type than it should.
    pub fn check(mut self, def: &'static OpDef, results: &'a [TensorType]) -> Result<(), Error> {
        let declared = Args::results(def, results, self.attrs)?;
        self.counts = def
            .results
            .iter()
            .map(|g| declared.many(g.name).len())
            .collect();
        self.declared = Some(declared);
        let Some(infer) = def.infer else {
            return Ok(());
        };
        let expected = infer(&self)?;
        if expected.len() != results.len() {
            return Err(Error::op(
                "E0304",
                format!(
                    "expected {} results, but found {}",
                    expected.len(),
                    results.len()
                ),
            ));
        }
        for (index, (result, expected)) in results.iter().zip(&expected).enumerate() {
            if !result.agrees(expected) {
                return Err(Error::op(
                    "E0310",
                    format!("result #{index} has type {result}, but {expected} is expected"),
                ));
            }
        }
        Ok(())
    }

    /// Number of values in a result group.
    pub fn count(&self, result: &str) -> usize {
        self.def
            .result_group(result)
            .and_then(|g| self.counts.get(g).copied())
            .unwrap_or(0)
    }

    /// Whether a result group is there.
    pub fn wants(&self, result: &str) -> bool {
        self.count(result) > 0
    }

    /// The types of those gradients that are there: each that of its operand. The pairs name operand and gradient, in the order
    /// of the results.
    ///
    /// # Errors
    /// `E0303` if an operand whose gradient is there is not.
    pub fn gradients(&self, pairs: &[(&str, &str)]) -> Result<Vec<TensorType>, Error> {
        let there = pairs.iter().filter(|(_, result)| self.wants(result));
        there
            .map(|(operand, _)| self.args.one(operand).cloned())
            .collect()
    }

    /// The type that the author gave a result whose type does not follow from the operands.
    ///
    /// # Errors
    /// `E0318` if none was given.
    pub fn given(&self, result: &str) -> Result<&'a TensorType, Error> {
        self.declared
            .as_ref()
            .and_then(|d| d.optional(result))
            .ok_or_else(|| {
                let message = format!("needs to be told the type of its result '{result}'");
                Error::op("E0318", message)
            })
    }

    /// The mesh.
    ///
    /// # Errors
    /// `E0324` if there is none.
    pub fn mesh(&self) -> Result<&'a Mesh, Error> {
        self.mesh.ok_or(Error::NoMesh)
    }

    /// Number of ranks in the group that `axes` names.
    ///
    /// # Errors
    /// If there is no mesh, or the axes are not distinct axes of it, or there are none.
    pub fn group_size(&self) -> Result<i64, Error> {
        let axes = self.attrs.strings("axes")?;
        if axes.is_empty() {
            return Err(Error::op("E0316", "needs at least one mesh axis"));
        }
        let mesh = self.mesh()?;
        Ok(mesh.group_size(&mesh.axis_set(&axes)?) as i64)
    }
}

/// What to infer the results of: an op that is yet to be built.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Operand types in order.
    pub operands: &'a [TensorType],
    /// Attributes.
    pub attrs: &'a dyn Attributes,
    /// The mesh, if there is one.
    pub mesh: Option<&'a Mesh>,
    /// How many values each result group shall hold; all optional ones and one variadic one if left out.
    pub counts: Option<&'a [usize]>,
}

/// Types of the results of an op that is yet to be built, in order.
///
/// # Errors
/// What is wrong with operands or attributes; `E0318` if the result types do not follow from them (reshape, cast, fill, …).
pub fn infer(def: &'static OpDef, request: &Request) -> Result<Vec<TensorType>, Error> {
    let mut cx = InferCx::new(def, request.operands, Attrs(request.attrs), request.mesh)?;
    cx.counts = match request.counts {
        Some(counts) => counts.to_vec(),
        None => vec![1; def.results.len()],
    };
    let fits = |(group, &count): (&super::Group, &usize)| match group.count {
        Count::One => count == 1,
        Count::Optional => count < 2,
        Count::Variadic => true,
    };
    if cx.counts.len() != def.results.len() || !def.results.iter().zip(&cx.counts).all(fits) {
        return Err(Error::op("E0304", "cannot have that many results"));
    }
    match def.infer {
        Some(infer) => infer(&cx),
        None => Err(Error::op(
            "E0318",
            "needs to be told the types of its results",
        )),
    }
}

/// The extent that two extents broadcast to.
pub(super) fn broadcast_extent(a: i64, b: i64) -> Option<i64> {
    match (a, b) {
        (a, b) if a == b => Some(a),
        (1, b) => Some(b),
        (a, 1) => Some(a),
        (DYNAMIC, b) => Some(b),
        (a, DYNAMIC) => Some(a),
        _ => None,
    }
}

/// The shape that two shapes broadcast to, numpy's way.
pub(super) fn broadcast(a: &[i64], b: &[i64]) -> Result<Vec<i64>, Error> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[i64], d: usize| match (d + shape.len()).checked_sub(rank) {
        Some(d) => shape[d],
        None => 1,
    };
    (0..rank)
        .map(|d| broadcast_extent(extent(a, d), extent(b, d)))
        .collect::<Option<_>>()
        .ok_or_else(|| {
            Error::op(
                "E0311",
                format!("shapes {} and {} do not broadcast", shape(a), shape(b)),
            )
            .with_help("shapes are aligned at the last dimension; extents must agree or be 1")
        })
}

/// `[4, ?, 16]`
pub(super) fn shape(shape: &[i64]) -> String {
    let extent = |&d: &i64| match d {
        DYNAMIC => "?".to_owned(),
        d => d.to_string(),
    };
    format!(
        "[{}]",
        shape.iter().map(extent).collect::<Vec<_>>().join(", ")
    )
}

/// Two operands have the same element type.
pub(super) fn same_dtype(cx: &InferCx, a: &str, b: &str) -> Result<(), Error> {
    let (x, y) = (cx.args.one(a)?, cx.args.one(b)?);
    if x.dtype == y.dtype {
        return Ok(());
    }
    Err(Error::op(
        "E0312",
        format!(
            "operands '{a}' and '{b}' have element types {} and {}",
            x.dtype, y.dtype
        ),
    )
    .with_help("insert a `dist.cast`"))
}

/// Two operands have the same shape.
pub(super) fn same_shape(cx: &InferCx, a: &str, b: &str) -> Result<(), Error> {
    let (x, y) = (cx.args.one(a)?, cx.args.one(b)?);
    expect_shape(b, y, &x.shape)
}

/// Two operands have the same type.
pub(super) fn same_type(cx: &InferCx, a: &str, b: &str) -> Result<(), Error> {
    same_dtype(cx, a, b)?;
    same_shape(cx, a, b)
}

/// An operand has this shape.
pub(super) fn expect_shape(name: &str, ty: &TensorType, expected: &[i64]) -> Result<(), Error> {
    if shapes_agree(&ty.shape, expected) {
        return Ok(());
    }
    Err(Error::op(
        "E0317",
        format!(
            "operand '{name}' has shape {}, but {} is expected",
            shape(&ty.shape),
            shape(expected)
        ),
    ))
}

/// A value holds floats.
pub(super) fn expect_float(name: &str, ty: &TensorType) -> Result<(), Error> {
    expect_dtype(name, ty, ty.dtype.is_float(), "floats")
}

/// A value holds numbers, not flags.
pub(super) fn expect_number(name: &str, ty: &TensorType) -> Result<(), Error> {
    expect_dtype(name, ty, ty.dtype != DType::Bool, "numbers")
}

/// A value holds flags.
pub(super) fn expect_flags(name: &str, ty: &TensorType) -> Result<(), Error> {
    expect_dtype(name, ty, ty.dtype == DType::Bool, "i1")
}

/// A value holds integers.
pub(super) fn expect_ints(name: &str, ty: &TensorType) -> Result<(), Error> {
    expect_dtype(name, ty, ty.dtype.is_int(), "integers")
}

fn expect_dtype(name: &str, ty: &TensorType, holds: bool, what: &str) -> Result<(), Error> {
    if holds {
        return Ok(());
    }
    Err(Error::op(
        "E0312",
        format!(
            "'{name}' must hold {what}, but its element type is {}",
            ty.dtype
        ),
    ))
}

/// A value holds exactly one element.
pub(super) fn expect_one_element(name: &str, ty: &TensorType) -> Result<(), Error> {
    if ty.shape.iter().all(|&d| extents_agree(d, 1)) {
        return Ok(());
    }
    Err(Error::op(
        "E0317",
        format!("'{name}' must hold one element, but its type is {ty}"),
    ))
}

/// A type has no dynamic extent.
pub(super) fn expect_static(name: &str, ty: &TensorType) -> Result<(), Error> {
    if ty.elements().is_some() {
        return Ok(());
    }
    Err(Error::op(
        "E0317",
        format!("'{name}' must have a static shape that fits memory, but its type is {ty}"),
    ))
}
