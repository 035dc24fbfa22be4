//! The frame: mesh, class, globals, the function `step`.

use std::sync::Arc;

use raddle_dialect::ir::{
    Attr, AttrData, Context, LayoutData, Module, NewOp, OpId, Position, Rewriter, Type, ValueId,
};
use raddle_dialect::layout::Layout;
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{OpBuilder, ValueLayouts};
use raddle_dialect::{DType, Error, TensorType};

use super::spec::{DATA, Model, Spec, TENSOR};
use super::{gpt, mlp};

/// How dimensions are cut: one entry per dimension.
pub type Cut = [Option<&'static str>];

/// What a parameter starts as.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    Fill(f64),
    Gaussian(f64),
}

/// A program in the making.
pub struct Program<'s, 'a, 'm> {
    pub spec: &'s Spec,
    pub builder: OpBuilder<'a, 'm>,
    /// The function `step`; globals go before it.
    step: OpId,
    /// The step's `func.return`, while it is built.
    end: OpId,
    /// Seeds given out.
    seeds: i64,
}

pub fn build(cx: &Arc<Context>, spec: &Spec) -> Result<Module, Error> {
    let loc = cx.file_loc("generated", 1, 1);
    let mut module = Module::new(cx, loc);
    let mut rewriter = Rewriter::new(&mut module);
    let names: Vec<_> = spec.mesh.iter().map(|a| a.0.clone()).collect();
    let sizes: Vec<_> = spec.mesh.iter().map(|a| a.1).collect();
    let mesh = Mesh::new(names.clone(), sizes.iter().map(|&s| s as usize).collect())?;
    let attrs = [
        ("sym_name", cx.string("mesh")),
        ("axes", cx.string_array(&names)),
        ("sizes", cx.i64_array(&sizes)),
    ];
    rewriter.build("dist.mesh", loc, &[], &[], &attrs);
    let class = rewriter.create(NewOp {
        regions: 1,
        props: cx.dict(vec![(cx.ident("sym_name"), cx.string("all"))]),
        attrs: cx.dict(vec![
            (cx.ident("dist.mesh"), cx.symbol_ref("mesh")),
            (
                cx.ident("dist.microbatches"),
                cx.i64_attr(spec.microbatches),
            ),
            (cx.ident("dist.ranks"), cx.array(&[cx.empty_dict()])),
        ]),
        ..NewOp::new(cx.ident("builtin.module"), loc, cx)
    });
    let region = rewriter.regions(class)[0];
    let body = rewriter.append_block(region);
    rewriter.set_insertion_point(Position::End(body));
    let step = rewriter.create(NewOp {
        regions: 1,
        props: cx.dict(vec![(cx.ident("sym_name"), cx.string("step"))]),
        attrs: cx.dict(vec![(cx.ident("dist.kind"), cx.string("step"))]),
        ..NewOp::new(cx.ident("func.func"), loc, cx)
    });
    let region = rewriter.regions(step)[0];
    let block = rewriter.append_block(region);
    let end = rewriter
        .at_end(block)
        .build("func.return", loc, &[], &[], &[]);
    let mut layouts = ValueLayouts::default();
    rewriter.before(end);
    let mut program = Program {
        spec,
        builder: OpBuilder {
            rewriter: &mut rewriter,
            mesh: &mesh,
            layouts: &mut layouts,
            marks: Vec::new(),
            loc,
        },
        step,
        end,
        seeds: 0,
    };
    let loss = match spec.model {
        Model::Mlp => mlp::build(&mut program),
        Model::Gpt => gpt::build(&mut program),
    }?;
    program.finish(loss);
    Ok(module)
}

impl Program<'_, '_, '_> {
    /// The tensor axis, if it has more than one rank.
    pub fn tensor(&self) -> Option<&'static str> {
        self.spec.is_tensor_parallel().then_some(TENSOR)
    }

    /// The data axis, if it has more than one rank.
    pub fn data(&self) -> Option<&'static str> {
        (self.spec.size(DATA) > 1).then_some(DATA)
    }

    /// The tensor axis, if it cuts the sequence between layers.
    pub fn sequence(&self) -> Option<&'static str> {
        self.spec.cuts_sequence().then_some(TENSOR)
    }

    /// A seed that nothing else has.
    pub fn seed(&mut self) -> i64 {
        self.seeds += 1;
        self.seeds
    }

    /// The names of one axis, as an attribute.
    pub fn axes(&self, axis: &str) -> Attr {
        self.builder.cx().string_array(&[axis])
    }

    fn layout_data(&self, cut: &Cut) -> LayoutData {
        let cx = self.builder.cx();
        let dims = cut
            .iter()
            .map(|axis| axis.iter().map(|a| cx.ident(a)).collect());
        LayoutData {
            dims: dims.collect(),
            partial: Box::default(),
        }
    }

    /// The type of each rank's piece of a tensor of this shape.
    fn local(&self, shape: &[i64], cut: &Cut, dtype: DType) -> (TensorType, Type) {
        let extents = shape.iter().zip(cut);
        let extents: Vec<_> = extents
            .map(|(&extent, axis)| extent / axis.map_or(1, |a| self.spec.size(a)))
            .collect();
        let cx = self.builder.cx();
        let ty = cx.tensor(&extents, dtype.ty(cx));
        (TensorType::new(extents, dtype), ty)
    }

    /// A parameter of this whole shape: declares it and reads it.
    pub fn parameter(
        &mut self,
        name: &str,
        shape: &[i64],
        cut: &Cut,
        start: Start,
    ) -> Result<ValueId, Error> {
        let (_, ty) = self.local(shape, cut, DType::F32);
        let cx = self.builder.rewriter.cx().clone();
        let data = self.layout_data(cut);
        let layout = Layout::from_data(&cx, &data, self.builder.mesh, shape.len())?;
        let start = match start {
            Start::Fill(value) => [
                (cx.ident("kind"), cx.string("fill")),
                (cx.ident("value"), cx.f64_attr(value)),
            ],
            Start::Gaussian(std) => [
                (cx.ident("kind"), cx.string("gaussian")),
                (cx.ident("std"), cx.f64_attr(std)),
            ],
        };
        let attrs = [
            ("sym_name", cx.string(name)),
            ("kind", cx.string("parameter")),
            ("type", cx.type_attr(ty)),
            ("layout", cx.attr(AttrData::Layout(data))),
            ("dist.init", cx.dict(start.to_vec())),
        ];
        let loc = self.builder.loc;
        let rewriter = &mut *self.builder.rewriter;
        rewriter
            .before(self.step)
            .build("dist.global", loc, &[], &[], &attrs);
        let global = [("global", cx.symbol_ref(name))];
        let op = rewriter
            .before(self.end)
            .build("dist.load", loc, &[], &[ty], &global);
        let value = rewriter.result(op, 0);
        self.builder.layouts.insert(value, layout);
        Ok(value)
    }

    /// A data input of this whole shape.
    pub fn input(&mut self, shape: &[i64], cut: &Cut, dtype: DType) -> Result<ValueId, Error> {
        let (_, ty) = self.local(shape, cut, dtype);
        let cx = self.builder.rewriter.cx().clone();
        let data = self.layout_data(cut);
        let layout = Layout::from_data(&cx, &data, self.builder.mesh, shape.len())?;
        let step = self.step;
        let rewriter = &mut *self.builder.rewriter;
        let block = rewriter.body(step);
        let value = rewriter.add_arg(block, ty, self.builder.loc);
        let dict = cx.dict(vec![(
            cx.ident("dist.layout"),
            cx.attr(AttrData::Layout(data)),
        )]);
        let known = rewriter
            .attr(step, "arg_attrs")
            .and_then(|a| cx.as_array(a));
        let mut dicts = known.unwrap_or_default().to_vec();
        dicts.push(dict);
        let props = cx.dict_with(rewriter.props(step), "arg_attrs", Some(cx.array(&dicts)));
        rewriter.set_props(step, props);
        self.builder.layouts.insert(value, layout);
        Ok(value)
    }

    /// Returns the loss.
    fn finish(&mut self, loss: ValueId) {
        let cx = self.builder.rewriter.cx().clone();
        let rewriter = &mut *self.builder.rewriter;
        rewriter.set_operands(self.end, &[loss]);
        let block = rewriter.body(self.step);
        let inputs: Vec<_> = rewriter
            .args(block)
            .iter()
            .map(|&a| rewriter.ty(a))
            .collect();
        let ty = cx.function_type(&inputs, &[rewriter.ty(loss)]);
        let props = cx.dict_with(
            rewriter.props(self.step),
            "function_type",
            Some(cx.type_attr(ty)),
        );
        rewriter.set_props(self.step, props);
    }
}
