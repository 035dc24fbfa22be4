//! Training programs to test passes on: perceptrons whose layers are split over ranks as Megatron-LM splits them, forward,
//! backward and optimizer, in every variation that changes what `promote-linear` meets.

// Each test file uses some of this.
#![allow(dead_code)]

mod backward;
mod forward;
pub mod generated;
mod globals;
pub mod inspect;
mod optimizer;
pub mod random;
mod spec;
mod stages;

use std::sync::Arc;

pub use spec::{BiasReduction, Clip, LossScaling, Optimizer, Shape, Spec, Stored};

use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{
    Attr, AttrData, Context, Ident, LayoutData, Module, NewOp, OpId, Position, Rewriter, Type,
    ValueId, Verified, VerifyOptions, verify,
};

/// Length of a sequence, unless a program's shape says otherwise.
pub const SEQUENCE: i64 = 8;

/// A parameter, and its gradient once that is known.
pub struct Parameter {
    pub name: String,
    pub shape: Vec<i64>,
    /// Whether the tensor axis cuts it.
    pub sharded: Option<usize>,
    /// Loaded in `step`.
    pub value: ValueId,
    pub gradients: Vec<ValueId>,
}

/// What runs on each rank of a class.
#[derive(Clone, Copy)]
pub struct Functions {
    pub init: OpId,
    pub step: OpId,
    /// `step` itself, unless there are several micro-batches.
    pub optimizer: OpId,
}

/// Builds a program.
pub struct Builder<'m> {
    pub spec: Spec,
    pub cx: Arc<Context>,
    pub rewriter: Rewriter<'m>,
    pub parameters: Vec<Parameter>,
    pub functions: Functions,
    /// The function that is being filled.
    pub current: OpId,
    /// The pipeline stage of this class.
    pub stage: usize,
    /// `forward`, `backward`, `optimizer`.
    pub role: &'static str,
    /// The chunk that ops belong to, as `dist.stage`, if there are several.
    pub chunk: Option<usize>,
}

/// The program.
pub fn build(spec: &Spec) -> Verified {
    let cx = Context::new();
    let mut module = Module::new(&cx, cx.file_loc("program", 1, 1));
    Builder::program(spec, &cx, &mut module);
    checked(module)
}

/// Verifies, and shows what is wrong if it does not.
pub fn checked(module: Module) -> Verified {
    let mut diagnostics = Diagnostics::new();
    match verify(
        module,
        VerifyOptions {
            allow_unregistered: true,
        },
        &mut diagnostics,
    ) {
        Ok(verified) => verified,
        Err(_) => {
            let messages: Vec<_> = diagnostics.iter().map(|d| &d.message).collect();
            panic!("the module does not verify: {messages:#?}");
        }
    }
}

impl<'m> Builder<'m> {
    fn program(spec: &Spec, cx: &Arc<Context>, module: &'m mut Module) {
        let mut rewriter = Rewriter::new(module);
        let loc = cx.file_loc("program", 1, 1);
        let mut axes = match spec.tensor_axes() {
            &[axis] => vec![(axis, spec.mp)],
            both => both.iter().map(|&axis| (axis, 2)).collect(),
        };
        if spec.dp > 1 {
            axes.insert(0, ("dp", spec.dp));
        }
        if spec.stages > 1 {
            axes.insert(0, ("pp", spec.stages as i64));
        }
        let names: Vec<_> = axes.iter().map(|a| a.0).collect();
        let sizes: Vec<_> = axes.iter().map(|a| a.1).collect();
        let mesh = [
            ("sym_name", cx.string("mesh")),
            ("axes", cx.string_array(&names)),
            ("sizes", cx.i64_array(&sizes)),
        ];
        let mesh = rewriter.build("dist.mesh", loc, &[], &[], &mesh);
        let mut builder = Builder {
            spec: spec.clone(),
            cx: cx.clone(),
            rewriter,
            parameters: Vec::new(),
            functions: Functions {
                init: mesh,
                step: mesh,
                optimizer: mesh,
            },
            current: mesh,
            stage: 0,
            role: "forward",
            chunk: None,
        };
        let mut last = mesh;
        for stage in 0..spec.stages {
            builder.stage = stage;
            builder.parameters.clear();
            last = builder.class(last);
            builder.body();
        }
    }

    /// The class of a stage with empty functions, after another op.
    fn class(&mut self, after: OpId) -> OpId {
        let (spec, cx) = (self.spec.clone(), self.cx.clone());
        let loc = cx.file_loc("program", 1, 1);
        let (name, ranks) = match spec.stages {
            1 => ("all".to_owned(), cx.empty_dict()),
            _ => {
                let index = cx.i64_array(&[self.stage as i64]);
                let ranks = cx.dict(vec![(cx.ident("pp"), index)]);
                (format!("stage{}", self.stage), ranks)
            }
        };
        let class = self.rewriter.after(after).create(NewOp {
            regions: 1,
            props: cx.dict(vec![(cx.ident("sym_name"), cx.string(&name))]),
            attrs: cx.dict(vec![
                (cx.ident("dist.mesh"), cx.symbol_ref("mesh")),
                (
                    cx.ident("dist.microbatches"),
                    cx.i64_attr(spec.microbatches),
                ),
                (cx.ident("dist.ranks"), cx.array(&[ranks])),
            ]),
            ..NewOp::new(cx.ident("builtin.module"), loc, &cx)
        });
        let region = self.rewriter.regions(class)[0];
        let body = self.rewriter.append_block(region);
        let mut make = |kind: &str, inputs: &[Type], results: &[Type]| {
            let at = Position::End(body);
            function(&mut self.rewriter, &cx, at, kind, inputs, results)
        };
        let init = make("init", &[], &[]);
        let shape = spec.shape;
        let rows = if spec.sequence_parallel {
            shape.sequence / spec.mp
        } else {
            shape.sequence
        };
        let input = cx.tensor(&[rows, shape.batch, shape.hidden], cx.f32());
        let inputs = if self.stage == 0 { vec![input] } else { vec![] };
        let scalar = cx.tensor(&[], cx.f32());
        let results = if self.stage + 1 == spec.stages {
            vec![scalar]
        } else {
            vec![]
        };
        let step = make("step", &inputs, &results);
        let optimizer = match spec.microbatches {
            1 => step,
            _ => make("optimizer", &[], &[]),
        };
        self.functions = Functions {
            init,
            step,
            optimizer,
        };
        if self.stage == 0 {
            self.input_layout();
        }
        class
    }

    /// The data axis cuts the batch, the tensor axis, with sequence parallelism, the sequence.
    fn input_layout(&mut self) {
        let (spec, cx) = (&self.spec, &self.cx);
        let axes = |names: &[&str], there: bool| -> Box<[Ident]> {
            names
                .iter()
                .filter(|_| there)
                .map(|name| cx.ident(name))
                .collect()
        };
        let layout = cx.attr(AttrData::Layout(LayoutData {
            dims: Box::new([
                axes(spec.tensor_axes(), spec.sequence_parallel),
                axes(&["dp"], spec.dp > 1),
                Box::default(),
            ]),
            partial: Box::default(),
        }));
        let input = cx.dict(vec![(cx.ident("dist.layout"), layout)]);
        let step = self.functions.step;
        let attrs = Some(cx.array(&[input]));
        let props = cx.dict_with(self.rewriter.props(step), "arg_attrs", attrs);
        self.rewriter.set_props(step, props);
    }

    fn body(&mut self) {
        self.fill_in(self.functions.step);
        self.learning_rate();
        self.role = "forward";
        let (pairs, loss) = self.forward_chunks();
        self.role = "backward";
        self.backward_chunks(&pairs);
        self.role = "optimizer";
        self.accumulate();
        self.fill_in(self.functions.optimizer);
        self.optimize();
        let loss: Vec<_> = loss.into_iter().collect();
        self.finish(self.functions.step, &loss);
        if self.spec.microbatches > 1 {
            self.finish(self.functions.optimizer, &[]);
        }
        self.finish(self.functions.init, &[]);
    }

    /// Ops are put into this function from now on.
    pub fn fill_in(&mut self, function: OpId) {
        self.current = function;
        let body = self.rewriter.body(function);
        self.rewriter.at_end(body);
    }

    fn finish(&mut self, function: OpId, values: &[ValueId]) {
        let body = self.rewriter.body(function);
        let loc = self.rewriter.loc(function);
        self.rewriter
            .at_end(body)
            .build("func.return", loc, values, &[], &[]);
    }

    pub fn tensor(&self, shape: &[i64]) -> Type {
        self.cx.tensor(shape, self.cx.f32())
    }

    pub fn shape(&self, value: ValueId) -> Vec<i64> {
        let tensor = self.cx.as_tensor(self.rewriter.ty(value));
        tensor.expect("a tensor").0.to_vec()
    }

    /// An op of the step at the insertion point.
    pub fn op(
        &mut self,
        name: &str,
        operands: &[ValueId],
        results: &[Type],
        attrs: &[(&str, Attr)],
    ) -> OpId {
        let mut attrs = attrs.to_vec();
        attrs.push(("dist.role", self.cx.string(self.role)));
        if let Some(chunk) = self.chunk {
            attrs.push(("dist.stage", self.cx.i64_attr(chunk as i64)));
        }
        let loc = self.cx.file_loc("program", 1, 1);
        self.rewriter.build(name, loc, operands, results, &attrs)
    }

    /// An op with one result.
    pub fn value(
        &mut self,
        name: &str,
        operands: &[ValueId],
        result: Type,
        attrs: &[(&str, Attr)],
    ) -> ValueId {
        let op = self.op(name, operands, &[result], attrs);
        self.rewriter.result(op, 0)
    }

    pub fn scale(&mut self, value: ValueId, factor: f64) -> ValueId {
        let attrs = [
            ("scale", self.cx.f64_attr(factor)),
            ("bias", self.cx.f64_attr(0.0)),
            ("bias_after_scale", self.cx.bool_attr(true)),
        ];
        let ty = self.rewriter.ty(value);
        self.value("dist.scale", &[value], ty, &attrs)
    }

    pub fn all_reduce(&mut self, value: ValueId, reduction: &str, axes: &[&str]) -> ValueId {
        let attrs = [
            ("reduction", self.cx.string(reduction)),
            ("axes", self.cx.string_array(axes)),
        ];
        let ty = self.rewriter.ty(value);
        self.value("dist.all_reduce", &[value], ty, &attrs)
    }

    pub fn fill(&mut self, shape: &[i64], value: f64) -> ValueId {
        let value = self.cx.f64_attr(value);
        let ty = self.tensor(shape);
        self.value("dist.fill", &[], ty, &[("value", value)])
    }

    pub fn cast(&mut self, value: ValueId, element: Type) -> ValueId {
        let (shape, from) = self
            .cx
            .as_tensor(self.rewriter.ty(value))
            .expect("a tensor");
        if from == element {
            return value;
        }
        let ty = self.cx.tensor(shape, element);
        self.value("dist.cast", &[value], ty, &[])
    }

    /// The element type of products.
    pub fn element(&self) -> Type {
        self.spec
            .amp
            .map_or(self.cx.f32(), |kind| self.cx.float_type(kind))
    }
}

fn function(
    rewriter: &mut Rewriter,
    cx: &Context,
    at: Position,
    kind: &str,
    inputs: &[Type],
    results: &[Type],
) -> OpId {
    let loc = cx.file_loc("program", 1, 1);
    rewriter.set_insertion_point(at);
    let ty = cx.type_attr(cx.function_type(inputs, results));
    let op = rewriter.create(NewOp {
        regions: 1,
        props: cx.dict(vec![
            (cx.ident("sym_name"), cx.string(kind)),
            (cx.ident("function_type"), ty),
        ]),
        attrs: cx.dict(vec![(cx.ident("dist.kind"), cx.string(kind))]),
        ..NewOp::new(cx.ident("func.func"), loc, cx)
    });
    let region = rewriter.regions(op)[0];
    let body = rewriter.append_block(region);
    for &input in inputs {
        rewriter.add_arg(body, input, loc);
    }
    op
}
