//! The few shapes of upstream op that everything is lowered to: a `linalg.generic` over labelled dimensions, slices, reshapes
//! and scalar arithmetic.
//!
//! Every tensor operation is written like an einsum: each dimension of an input has a label, equal labels run together, and
//! labels that the output lacks are reduced.

use std::sync::Arc;

use super::Externals;
use raddle_dialect::ir::{
    AffineMap, AffineStep, Attr, AttrData, Context, DenseValue, FloatKind, Loc, NewOp, Position,
    Rewriter, Type, TypeData, ValueId,
};

/// The label of a dimension; `None` for an extent of 1 that is read again and again (broadcasting).
pub(super) type Label = Option<usize>;

/// An input of a generic op: a tensor and the labels of its dimensions.
#[derive(Clone)]
pub(super) struct Input {
    pub value: ValueId,
    pub labels: Vec<Label>,
}

/// How reduced labels are combined, and what an empty reduction gives.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reduction {
    Sum,
    Max,
    Any,
}

/// Emits upstream ops at the rewriter's insertion point.
pub(super) struct Emit<'a, 'm> {
    pub rewriter: &'a mut Rewriter<'m>,
    pub cx: Arc<Context>,
    pub loc: Loc,
    /// Names of the mesh's axes.
    pub mesh: Vec<String>,
    /// Sizes of the mesh's axes.
    pub sizes: Vec<i64>,
    /// Functions called so far.
    pub externals: &'a mut Externals,
}

impl Emit<'_, '_> {
    /// Shape of a ranked tensor with static shape (which the caller has checked).
    pub fn shape(&self, value: ValueId) -> Vec<i64> {
        let ty = self.rewriter.ty(value);
        self.cx
            .as_tensor(ty)
            .map_or(vec![], |(shape, _)| shape.to_vec())
    }

    /// Element type of a tensor, or the type itself of a scalar.
    pub fn element(&self, value: ValueId) -> Type {
        let ty = self.rewriter.ty(value);
        self.cx.as_tensor(ty).map_or(ty, |(_, element)| element)
    }

    /// The type that a value of this element type is computed in: f32 for narrower floats.
    pub fn wide(&self, element: Type) -> Type {
        match self.cx.type_data(element) {
            TypeData::Float(FloatKind::F64) => element,
            TypeData::Float(_) => self.cx.f32(),
            _ => element,
        }
    }

    pub fn is_float(&self, element: Type) -> bool {
        matches!(self.cx.type_data(element), TypeData::Float(_))
    }

    /// An op with properties, and its results.
    pub fn op(
        &mut self,
        name: &str,
        operands: &[ValueId],
        results: &[Type],
        props: &[(&str, Attr)],
    ) -> ValueId {
        let cx = self.cx.clone();
        let props = cx.dict(props.iter().map(|&(k, v)| (cx.ident(k), v)).collect());
        let op = self.rewriter.create(NewOp {
            operands,
            results,
            props,
            ..NewOp::new(cx.ident(name), self.loc, &cx)
        });
        self.rewriter.result(op, 0)
    }

    /// A call of a function that is declared in the end.
    pub fn call(&mut self, name: &str, args: &[ValueId], result: Option<Type>) -> Option<ValueId> {
        let cx = self.cx.clone();
        let inputs = args.iter().map(|&a| self.rewriter.ty(a)).collect();
        let results = Vec::from_iter(result);
        let call = self.rewriter.create(NewOp {
            operands: args,
            results: &results,
            props: cx.dict(vec![(cx.ident("callee"), cx.symbol_ref(name))]),
            ..NewOp::new(cx.ident("func.call"), self.loc, &cx)
        });
        self.externals.insert(name.to_owned(), (inputs, results));
        self.rewriter.results(call).next()
    }

    /// A scalar constant; `value` is converted to the type.
    pub fn constant(&mut self, value: f64, ty: Type) -> ValueId {
        let attr = self.number(value, ty);
        self.op("arith.constant", &[], &[ty], &[("value", attr)])
    }

    fn number(&self, value: f64, ty: Type) -> Attr {
        let kind = match self.cx.type_data(ty) {
            TypeData::Float(kind) => *kind,
            _ => return self.cx.int_attr(value as i64, ty),
        };
        match kind {
            FloatKind::F64 => self.cx.f64_attr(value),
            _ => self.cx.attr(AttrData::Float {
                bits: u128::from((value as f32).to_bits()),
                ty: self.cx.f32(),
            }),
        }
    }

    /// A tensor of equal elements of a wide type.
    pub fn splat(&mut self, value: f64, shape: &[i64], element: Type) -> ValueId {
        let ty = self.cx.tensor(shape, element);
        let bytes = match self.cx.type_data(element) {
            TypeData::Float(FloatKind::F64) => value.to_le_bytes().to_vec(),
            TypeData::Float(_) => (value as f32).to_le_bytes().to_vec(),
            TypeData::Integer { width, .. } => {
                let bytes = (value as i64).to_le_bytes();
                bytes[..(*width as usize).div_ceil(8).min(8)].to_vec()
            }
            _ => (value as i64).to_le_bytes().to_vec(),
        };
        let attr = self.cx.attr(AttrData::Dense {
            ty,
            value: DenseValue::Raw(bytes.into()),
        });
        self.op("arith.constant", &[], &[ty], &[("value", attr)])
    }

    /// An einsum: `body` combines one element of each input (widened); labels missing from the output are reduced.
    ///
    /// `extents` gives the extent of each label; `output` the labels of the result's dimensions.
    pub fn einsum(
        &mut self,
        inputs: &[Input],
        extents: &[i64],
        output: &[usize],
        reduction: Reduction,
        body: impl FnOnce(&mut Self, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let element = self.wide(self.element(inputs[0].value));
        self.einsum_to(inputs, extents, output, reduction, element, body)
    }

    /// [`Emit::einsum`] whose body gives elements of another type.
    pub fn einsum_to(
        &mut self,
        inputs: &[Input],
        extents: &[i64],
        output: &[usize],
        reduction: Reduction,
        element: Type,
        body: impl FnOnce(&mut Self, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let shape: Vec<i64> = output.iter().map(|&l| extents[l]).collect();
        let reduces = output.len() < extents.len();
        let init = if reduces {
            let neutral = match reduction {
                Reduction::Sum | Reduction::Any => 0.0,
                Reduction::Max if self.is_float(element) => f64::NEG_INFINITY,
                Reduction::Max => i64::MIN as f64,
            };
            self.splat(neutral, &shape, element)
        } else {
            let ty = self.cx.tensor(&shape, element);
            self.op("tensor.empty", &[], &[ty], &[])
        };
        let out = Input {
            value: init,
            labels: output.iter().copied().map(Some).collect(),
        };
        self.generic(inputs, out, extents.len(), |e, args, acc| {
            let value = body(e, args);
            match reduction {
                _ if !reduces => value,
                Reduction::Sum => e.add(acc, value),
                Reduction::Max => e.max(acc, value),
                Reduction::Any => e.op("arith.ori", &[acc, value], &[element], &[]),
            }
        })
    }

    /// Elementwise over `shape`, inputs aligned at their last dimension as numpy does. The result has elements of `element`.
    pub fn map(
        &mut self,
        inputs: &[ValueId],
        shape: &[i64],
        element: Type,
        body: impl FnOnce(&mut Self, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let inputs: Vec<_> = inputs.iter().map(|&v| self.aligned(v, shape)).collect();
        self.map_inputs(&inputs, shape, element, body)
    }

    /// [`Emit::map`] with inputs whose dimensions are labelled by the caller.
    pub fn map_inputs(
        &mut self,
        inputs: &[Input],
        shape: &[i64],
        element: Type,
        body: impl FnOnce(&mut Self, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let ty = self.cx.tensor(shape, element);
        let empty = self.op("tensor.empty", &[], &[ty], &[]);
        let out = Input {
            value: empty,
            labels: (0..shape.len()).map(Some).collect(),
        };
        self.generic(inputs, out, shape.len(), |e, args, _| {
            let value = body(e, args);
            e.narrow(value, element)
        })
    }

    /// The labels of a tensor's dimensions when it is broadcast to `shape` from the right.
    pub fn aligned(&self, value: ValueId, shape: &[i64]) -> Input {
        let own = self.shape(value);
        // One element reads as a scalar whatever the ranks.
        let skip = shape.len() as i64 - own.len() as i64;
        let labels = own.iter().enumerate().map(|(dim, &extent)| {
            let at = dim as i64 + skip;
            let same = at >= 0 && shape[at as usize] == extent;
            (extent != 1 || (same && skip >= 0)).then_some(at.max(0) as usize)
        });
        Input {
            value,
            labels: labels.collect(),
        }
    }

    fn generic(
        &mut self,
        inputs: &[Input],
        out: Input,
        loops: usize,
        body: impl FnOnce(&mut Self, &[ValueId], ValueId) -> ValueId,
    ) -> ValueId {
        let cx = self.cx.clone();
        let maps: Vec<_> = inputs
            .iter()
            .chain([&out])
            .map(|i| self.affine(i, loops))
            .collect();
        let iterators = (0..loops).map(|label| {
            let kind = match out.labels.contains(&Some(label)) {
                true => "iterator_type<parallel>",
                false => "iterator_type<reduction>",
            };
            cx.attr(AttrData::Opaque {
                dialect: cx.ident("linalg"),
                body: kind.into(),
                quoted: false,
                ty: None,
            })
        });
        let iterators: Vec<_> = iterators.collect();
        let operands: Vec<_> = inputs.iter().chain([&out]).map(|i| i.value).collect();
        let props = vec![
            (cx.ident("indexing_maps"), cx.array(&maps)),
            (cx.ident("iterator_types"), cx.array(&iterators)),
            (
                cx.ident("operandSegmentSizes"),
                cx.i32_array(&[inputs.len() as i32, 1]),
            ),
        ];
        let ty = self.rewriter.ty(out.value);
        let generic = self.rewriter.create(NewOp {
            operands: &operands,
            results: &[ty],
            props: cx.dict(props),
            regions: 1,
            ..NewOp::new(cx.ident("linalg.generic"), self.loc, &cx)
        });
        let region = self.rewriter.regions(generic)[0];
        let block = self.rewriter.append_block(region);
        let mut args = Vec::new();
        for &operand in &operands {
            let element = self.element(operand);
            args.push(self.rewriter.add_arg(block, element, self.loc));
        }
        self.rewriter.set_insertion_point(Position::End(block));
        let acc = args.pop().expect("the output is an operand");
        let args: Vec<_> = args.into_iter().map(|arg| self.widen(arg)).collect();
        let value = body(self, &args, acc);
        self.rewriter.create(NewOp {
            operands: &[value],
            ..NewOp::new(cx.ident("linalg.yield"), self.loc, &cx)
        });
        self.rewriter.set_insertion_point(Position::After(generic));
        self.rewriter.result(generic, 0)
    }

    fn affine(&self, input: &Input, loops: usize) -> Attr {
        let results = input.labels.iter().map(|label| {
            let step = match label {
                Some(label) => AffineStep::Dim(*label as u32),
                None => AffineStep::Const(0),
            };
            Box::from([step])
        });
        self.cx.attr(AttrData::AffineMap(AffineMap {
            dims: loops as u32,
            symbols: 0,
            results: results.collect(),
        }))
    }

    /// A tensor of the same elements in the same order, in another shape.
    pub fn reshape(&mut self, value: ValueId, shape: &[i64]) -> ValueId {
        if self.shape(value) == shape {
            return value;
        }
        let index = self.cx.index_type();
        let ty = self.cx.tensor(&[shape.len() as i64], index);
        let bytes = shape
            .iter()
            .flat_map(|extent| extent.to_le_bytes())
            .collect();
        let attr = self.cx.attr(AttrData::Dense {
            ty,
            value: DenseValue::Raw(bytes),
        });
        let extents = self.op("arith.constant", &[], &[ty], &[("value", attr)]);
        let result = self.cx.tensor(shape, self.element(value));
        self.op("tensor.reshape", &[value, extents], &[result], &[])
    }

    /// A piece of a tensor. An offset is a number or, with [`DYNAMIC`](raddle_dialect::ir::DYNAMIC), the next of `dynamic`.
    pub fn extract(
        &mut self,
        value: ValueId,
        offsets: &[i64],
        dynamic: &[ValueId],
        sizes: &[i64],
    ) -> ValueId {
        let result = self.cx.tensor(sizes, self.element(value));
        let strides = vec![1; sizes.len()];
        let operands: Vec<_> = std::iter::once(value)
            .chain(dynamic.iter().copied())
            .collect();
        let props = [
            ("static_offsets", self.cx.i64_array(offsets)),
            ("static_sizes", self.cx.i64_array(sizes)),
            ("static_strides", self.cx.i64_array(&strides)),
            (
                "operandSegmentSizes",
                self.cx.i32_array(&[1, dynamic.len() as i32, 0, 0]),
            ),
        ];
        self.op("tensor.extract_slice", &operands, &[result], &props)
    }

    /// `into` with a piece replaced.
    pub fn insert(
        &mut self,
        piece: ValueId,
        into: ValueId,
        offsets: &[i64],
        sizes: &[i64],
    ) -> ValueId {
        self.insert_at(piece, into, (offsets, &[]), sizes)
    }

    /// [`Emit::insert`] with offsets as in [`Emit::extract`].
    pub fn insert_at(
        &mut self,
        piece: ValueId,
        into: ValueId,
        (offsets, dynamic): (&[i64], &[ValueId]),
        sizes: &[i64],
    ) -> ValueId {
        let result = self.rewriter.ty(into);
        let strides = vec![1; sizes.len()];
        let operands = [&[piece, into], dynamic].concat();
        let counts = [1, 1, dynamic.len() as i32, 0, 0];
        let props = [
            ("static_offsets", self.cx.i64_array(offsets)),
            ("static_sizes", self.cx.i64_array(sizes)),
            ("static_strides", self.cx.i64_array(&strides)),
            ("operandSegmentSizes", self.cx.i32_array(&counts)),
        ];
        self.op("tensor.insert_slice", &operands, &[result], &props)
    }
}
