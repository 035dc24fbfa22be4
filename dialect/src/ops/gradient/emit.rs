//! Building ops of a backward pass: types are inferred, groups counted, layouts noted.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::error::Error;
use crate::ir::{Attr, Context, Loc, NewOp, OpId, Rewriter, Type, ValueId};
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::ops::groups::{OPERAND_SEGMENTS, RESULT_SEGMENTS, needs_segments};
use crate::ops::{DictAttributes, LayoutCall, OpAttributes, OpDef, Request, infer, layouts};
use crate::tensor_type::{DType, TensorType};

/// Layouts of values.
pub type ValueLayouts = HashMap<ValueId, Layout, FxBuildHasher>;

/// Builds ops at the rewriter's insertion point: infers their types, counts their groups and notes how their results are spread.
pub struct OpBuilder<'a, 'm> {
    /// Edits the module.
    pub rewriter: &'a mut Rewriter<'m>,
    /// The class's mesh.
    pub mesh: &'a Mesh,
    /// Layouts of the forward values, and of everything built.
    pub layouts: &'a mut ValueLayouts,
    /// Attributes that every op gets, such as `dist.role`.
    pub marks: Vec<(&'static str, Attr)>,
    /// Where the ops come from.
    pub loc: Loc,
}

impl<'a, 'm> OpBuilder<'a, 'm> {
    /// An op to be completed and built.
    ///
    /// # Errors
    /// `E0318` if no op has this name.
    pub fn emit(&mut self, name: &str) -> Result<Emit<'_, 'a, 'm>, Error> {
        let cx = self.rewriter.cx();
        let def = cx
            .op_def(cx.ident(name))
            .ok_or_else(|| Error::op("E0318", format!("no op is called '{name}'")))?;
        Ok(Emit {
            builder: self,
            def,
            operands: Vec::new(),
            sizes: Vec::new(),
            attrs: Vec::new(),
            types: None,
            counts: None,
        })
    }

    /// The context.
    pub fn cx(&self) -> &Context {
        self.rewriter.cx()
    }

    /// A value's type.
    ///
    /// # Errors
    /// `E0306` if it is no tensor that `dist` computes with.
    pub fn ty(&self, value: ValueId) -> Result<TensorType, Error> {
        TensorType::of(self.cx(), self.rewriter.ty(value))
    }

    /// How a value is spread.
    ///
    /// # Errors
    /// `E0345` if that is not known.
    pub fn layout(&self, value: ValueId) -> Result<&Layout, Error> {
        self.layouts.get(&value).ok_or_else(|| {
            Error::op(
                "E0345",
                "is differentiated, but how its values are spread over the mesh is not known",
            )
        })
    }

    /// Axes, in mesh order, over which a gradient is yet to be summed. Axes of size 1 do not count.
    ///
    /// # Errors
    /// `E0345` if its layout is not known.
    pub fn partial_axes(&self, gradient: ValueId) -> Result<Vec<usize>, Error> {
        let layout = self.layout(gradient)?;
        let partial = layout.partial.iter().map(|p| p.0);
        Ok(partial.filter(|&a| self.mesh.sizes()[a] > 1).collect())
    }

    /// The names of axes, as an attribute.
    pub fn axes_attr(&self, axes: &[usize]) -> Attr {
        let names: Vec<_> = axes.iter().map(|&a| &self.mesh.axes()[a]).collect();
        self.cx().string_array(&names)
    }

    /// The sum over axes; the value itself if there are none.
    ///
    /// # Errors
    /// If the value cannot be reduced.
    pub fn all_reduce(
        &mut self,
        value: ValueId,
        reduction: &str,
        axes: &[usize],
    ) -> Result<ValueId, Error> {
        if axes.is_empty() {
            return Ok(value);
        }
        let (reduction, axes) = (self.cx().string(reduction), self.axes_attr(axes));
        let op = self.emit("dist.all_reduce")?.one(value);
        op.attr("reduction", reduction).attr("axes", axes).value()
    }

    /// A gradient summed over all axes on which it is partial.
    ///
    /// # Errors
    /// If its layout is not known.
    pub fn reduced(&mut self, gradient: ValueId) -> Result<ValueId, Error> {
        let axes = self.partial_axes(gradient)?;
        self.all_reduce(gradient, "sum", &axes)
    }

    /// `factor · value`; the value itself if the factor is 1.
    ///
    /// # Errors
    /// If the value has no numbers.
    pub fn scaled(&mut self, value: ValueId, factor: f64) -> Result<ValueId, Error> {
        if factor == 1.0 {
            return Ok(value);
        }
        let factor = self.cx().f64_attr(factor);
        self.emit("dist.scale")?
            .one(value)
            .attr("scale", factor)
            .value()
    }

    /// The value with another element type; itself if it has that already.
    ///
    /// # Errors
    /// If it is no tensor.
    pub fn cast(&mut self, value: ValueId, dtype: DType) -> Result<ValueId, Error> {
        let ty = self.ty(value)?;
        if ty.dtype == dtype {
            return Ok(value);
        }
        self.emit("dist.cast")?
            .one(value)
            .tensor(&ty.shape, dtype)
            .value()
    }

    /// A constant, the same on all ranks.
    ///
    /// # Errors
    /// If the shape is not static.
    pub fn fill(&mut self, shape: &[i64], dtype: DType, value: f64) -> Result<ValueId, Error> {
        let value = self.cx().f64_attr(value);
        self.emit("dist.fill")?
            .attr("value", value)
            .tensor(shape, dtype)
            .value()
    }
}

/// An op in the making. Operand groups are given in the order of the definition, each once; attributes left out take their defaults.
pub struct Emit<'b, 'a, 'm> {
    builder: &'b mut OpBuilder<'a, 'm>,
    def: &'static OpDef,
    operands: Vec<ValueId>,
    sizes: Vec<i32>,
    attrs: Vec<(&'static str, Attr)>,
    types: Option<Vec<Type>>,
    counts: Option<Vec<usize>>,
}

impl Emit<'_, '_, '_> {
    /// The next operand group: one value.
    pub fn one(self, value: ValueId) -> Self {
        self.many(&[value])
    }

    /// The next operand group: a value or none.
    pub fn optional(self, value: Option<ValueId>) -> Self {
        self.many(value.as_slice())
    }

    /// The next operand group: any number of values.
    pub fn many(mut self, values: &[ValueId]) -> Self {
        self.operands.extend(values);
        self.sizes.push(values.len() as i32);
        self
    }

    /// Several groups of one value each.
    pub fn each(mut self, values: &[ValueId]) -> Self {
        for &value in values {
            self = self.one(value);
        }
        self
    }

    /// An attribute.
    pub fn attr(mut self, name: &'static str, value: Attr) -> Self {
        self.attrs.push((name, value));
        self
    }

    /// An `f64` attribute.
    pub fn float(self, name: &'static str, value: f64) -> Self {
        let value = self.builder.cx().f64_attr(value);
        self.attr(name, value)
    }

    /// An `i64` attribute.
    pub fn int(self, name: &'static str, value: i64) -> Self {
        let value = self.builder.cx().i64_attr(value);
        self.attr(name, value)
    }

    /// A boolean attribute.
    pub fn bool(self, name: &'static str, value: bool) -> Self {
        let value = self.builder.cx().bool_attr(value);
        self.attr(name, value)
    }

    /// An `array<i64: …>` attribute.
    pub fn ints(self, name: &'static str, values: &[i64]) -> Self {
        let value = self.builder.cx().i64_array(values);
        self.attr(name, value)
    }

    /// These attributes of another op, as far as it has them.
    pub fn like(mut self, op: OpId, names: &[&'static str]) -> Self {
        for &name in names {
            let value = self.builder.rewriter.attr(op, name);
            self.attrs.extend(value.map(|value| (name, value)));
        }
        self
    }

    /// Which result groups are there, in the order of the definition; without this, all.
    pub fn wants(mut self, groups: &[bool]) -> Self {
        self.counts = Some(groups.iter().map(|&g| usize::from(g)).collect());
        self
    }

    /// How many values each result group has.
    pub fn counts(mut self, counts: &[usize]) -> Self {
        self.counts = Some(counts.to_vec());
        self
    }

    /// The types of the results, where they do not follow from the operands.
    pub fn types(mut self, types: &[Type]) -> Self {
        self.types = Some(types.to_vec());
        self
    }

    /// The type of the only result, where it does not follow from the operands.
    pub fn tensor(self, shape: &[i64], dtype: DType) -> Self {
        let cx = self.builder.cx();
        let ty = cx.tensor(shape, dtype.ty(cx));
        self.types(&[ty])
    }

    /// Builds the op.
    ///
    /// # Errors
    /// What is wrong with it: types, attributes, or layouts that do not go together.
    pub fn build(mut self) -> Result<OpId, Error> {
        self.finish()
    }

    /// Builds an op with one result, and gives that.
    ///
    /// # Errors
    /// As [`Emit::build`].
    pub fn value(mut self) -> Result<ValueId, Error> {
        let op = self.finish()?;
        Ok(self.builder.rewriter.result(op, 0))
    }

    /// Builds the op; gives the first value of each result group, none for those that are not there.
    ///
    /// # Errors
    /// As [`Emit::build`].
    pub fn groups(mut self) -> Result<Vec<Option<ValueId>>, Error> {
        let op = self.finish()?;
        let module = self.builder.rewriter.module();
        let ranges = module
            .result_segments(op, self.def)
            .map_err(|e| Error::op("E0304", e.to_string()))?;
        let first = |range: std::ops::Range<usize>| {
            let index = range.into_iter().next()?;
            Some(module.result(op, index))
        };
        Ok(ranges.into_iter().map(first).collect())
    }

    fn finish(&mut self) -> Result<OpId, Error> {
        self.complete();
        let cx = self.builder.rewriter.cx().clone();
        let attrs = cx.dict(self.attrs.iter().map(|&(n, a)| (cx.ident(n), a)).collect());
        let mut operands = Vec::with_capacity(self.operands.len());
        for &operand in &self.operands {
            operands.push(self.builder.ty(operand)?);
        }
        let types = match self.types.take() {
            Some(types) => types,
            None => {
                let request = Request {
                    operands: &operands,
                    attrs: &DictAttributes {
                        cx: &cx,
                        dict: attrs,
                    },
                    mesh: Some(self.builder.mesh),
                    counts: Some(&self.result_counts()),
                };
                let types = infer(self.def, &request)?;
                let types = types.iter().map(|t| cx.tensor(&t.shape, t.dtype.ty(&cx)));
                types.collect()
            }
        };
        let op = self.builder.rewriter.create(NewOp {
            operands: &self.operands,
            results: &types,
            attrs,
            ..NewOp::new(cx.ident(self.def.name), self.builder.loc, &cx)
        });
        if self.def.layout.is_some() {
            self.spread(op, &operands)?;
        }
        Ok(op)
    }

    fn result_counts(&self) -> Vec<usize> {
        let all = || vec![1; self.def.results.len()];
        self.counts.clone().unwrap_or_else(all)
    }

    /// Adds the attributes that follow: defaults, segment sizes, marks.
    fn complete(&mut self) {
        let cx = self.builder.rewriter.cx();
        for attr in self.def.attrs {
            let written = self.attrs.iter().any(|a| a.0 == attr.name);
            if let (false, Some(default)) = (written, attr.default) {
                self.attrs.push((attr.name, default.attr(cx)));
            }
        }
        if needs_segments(self.def.operands) {
            let sizes = cx.i32_array(&self.sizes);
            self.attrs.push((OPERAND_SEGMENTS, sizes));
        }
        if needs_segments(self.def.results) {
            let sizes: Vec<_> = self.result_counts().iter().map(|&n| n as i32).collect();
            self.attrs.push((RESULT_SEGMENTS, cx.i32_array(&sizes)));
        }
        self.attrs.extend(&self.builder.marks);
    }

    /// Notes how the results are spread.
    fn spread(&mut self, op: OpId, operands: &[TensorType]) -> Result<(), Error> {
        let module = self.builder.rewriter.module();
        let mut of_operands = Vec::with_capacity(operands.len());
        for &operand in &self.operands {
            of_operands.push(self.builder.layout(operand)?.clone());
        }
        let mut results = Vec::new();
        for result in module.results(op) {
            results.push(TensorType::of(module.cx(), module.ty(result))?);
        }
        let call = LayoutCall {
            operands,
            layouts: &of_operands,
            attrs: &OpAttributes { module, op },
            results: &results,
            mesh: self.builder.mesh,
        };
        let spread = layouts(self.def, &call)?;
        let results = module.results(op);
        self.builder.layouts.extend(results.zip(spread));
        Ok(())
    }
}
