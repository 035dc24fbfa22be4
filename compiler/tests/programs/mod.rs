//! Training programs to test passes on: perceptrons whose layers are split over ranks as Megatron-LM splits them, forward,
//! backward and optimizer, in every variation that changes what `promote-linear` meets.

// Each test file uses some of this.
#![allow(dead_code)]

mod backward;
mod forward;
pub mod inspect;
mod optimizer;

use std::sync::Arc;

use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{
    Attr, AttrData, Context, FloatKind, Ident, LayoutData, Module, NewOp, OpId, Position, Rewriter,
    Type, ValueId, Verified, VerifyOptions, verify,
};

/// What a program is like.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Pairs of a column-parallel and a row-parallel linear layer.
    pub layers: usize,
    /// Size of the data axis; 1 leaves it out.
    pub dp: i64,
    /// Size of the tensor axis.
    pub mp: i64,
    /// Activations between the linear layers are cut along the sequence.
    pub sequence_parallel: bool,
    /// Products and biases are computed in this type, parameters stay f32 (amp o1).
    pub amp: Option<FloatKind>,
    pub optimizer: Optimizer,
    pub clip: Clip,
    /// Gradients are checked and unscaled, and flags combined.
    pub loss_scaling: LossScaling,
    /// The forward pass of each row-parallel layer is repeated for the backward pass.
    pub recompute: bool,
    /// A residual connection around each pair.
    pub residual: bool,
    /// All row-parallel layers add one bias.
    pub tied_bias: bool,
    /// Row-parallel layers have a bias.
    pub bias: bool,
    /// How the gradient of sequence-parallel biases is reduced over the tensor axes.
    pub bias_reduction: BiasReduction,
    /// Gradients of adds are written out: the gradient of a bias is a reduce_sum, that of the product is what came in.
    pub explicit: bool,
    /// Four tensor ranks are a grid of two axes, `mp` and `np`; a broadcast runs over both at once.
    pub grid: bool,
    /// The bias is the first operand of its add.
    pub bias_first: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Optimizer {
    Sgd,
    Momentum,
    Adamw,
    /// With the power of beta advanced by an op of its own.
    Adamax,
    DecayedAdagrad,
    /// With norms of pieces where a parameter is cut.
    Lamb,
    /// Likewise; all parameters in one group.
    LarsMomentum,
    /// All parameters in one group.
    MergedMomentum,
    /// With a count of steps that passes the end of the momentum.
    DgcMomentum,
}

impl Optimizer {
    pub const ALL: [Self; 9] = [
        Self::Sgd,
        Self::Momentum,
        Self::Adamw,
        Self::Adamax,
        Self::DecayedAdagrad,
        Self::Lamb,
        Self::LarsMomentum,
        Self::MergedMomentum,
        Self::DgcMomentum,
    ];
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clip {
    None,
    Value,
    Norm,
    /// Squares stacked and summed; those of sharded parameters are summed over the tensor axis too.
    GlobalStack,
    /// Squares summed, likewise.
    GlobalSum,
    /// Squares stacked and summed on each rank by itself, as Paddle does: ranks clip differently, so that a replicated
    /// parameter drifts apart once the norm exceeds the limit, which here it does not.
    PerRank,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BiasReduction {
    /// Summed.
    Sum,
    /// Summed, then divided by the number of ranks, as Paddle does.
    Scaled,
    /// Averaged.
    Average,
    /// Averaged together with the data axis.
    Joint,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossScaling {
    None,
    /// Flags are combined over all ranks.
    Combined,
    /// Each rank looks at its own flags only.
    Local,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            layers: 1,
            dp: 1,
            mp: 2,
            sequence_parallel: false,
            amp: None,
            optimizer: Optimizer::Adamw,
            clip: Clip::None,
            loss_scaling: LossScaling::None,
            recompute: false,
            residual: false,
            tied_bias: false,
            bias: true,
            bias_reduction: BiasReduction::Scaled,
            explicit: false,
            grid: false,
            bias_first: false,
        }
    }
}

impl Spec {
    /// The axes of tensor parallelism.
    pub fn tensor_axes(&self) -> &'static [&'static str] {
        if self.grid && self.mp == 4 {
            &["mp", "np"]
        } else {
            &["mp"]
        }
    }

    /// All axes but those of size 1.
    pub fn all_axes(&self) -> Vec<&'static str> {
        let data = (self.dp > 1).then_some("dp");
        data.into_iter()
            .chain(self.tensor_axes().iter().copied())
            .collect()
    }
}

pub const BATCH: i64 = 2;
pub const SEQUENCE: i64 = 8;
pub const HIDDEN: i64 = 8;
pub const INNER: i64 = 16;

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

/// Builds a program.
pub struct Builder<'m> {
    pub spec: Spec,
    pub cx: Arc<Context>,
    pub rewriter: Rewriter<'m>,
    pub parameters: Vec<Parameter>,
    /// Globals and what initialises them.
    pub globals: OpId,
    pub init: OpId,
    pub step: OpId,
    /// `forward`, `backward`, `optimizer`.
    pub role: &'static str,
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
        let names: Vec<_> = axes.iter().map(|a| a.0).collect();
        let sizes: Vec<_> = axes.iter().map(|a| a.1).collect();
        let mesh = [
            ("sym_name", cx.string("mesh")),
            ("axes", cx.string_array(&names)),
            ("sizes", cx.i64_array(&sizes)),
        ];
        rewriter.build("dist.mesh", loc, &[], &[], &mesh);
        let class = rewriter.create(NewOp {
            regions: 1,
            props: cx.dict(vec![(cx.ident("sym_name"), cx.string("all"))]),
            attrs: cx.dict(vec![
                (cx.ident("dist.mesh"), cx.symbol_ref("mesh")),
                (cx.ident("dist.microbatches"), cx.i64_attr(1)),
                (cx.ident("dist.ranks"), cx.array(&[cx.empty_dict()])),
            ]),
            ..NewOp::new(cx.ident("builtin.module"), loc, cx)
        });
        let region = rewriter.regions(class)[0];
        let body = rewriter.append_block(region);
        let init = function(&mut rewriter, cx, Position::End(body), "init", &[], &[]);
        let rows = if spec.sequence_parallel {
            SEQUENCE / spec.mp
        } else {
            SEQUENCE
        };
        let input = cx.tensor(&[rows, BATCH, HIDDEN], cx.f32());
        let scalar = cx.tensor(&[], cx.f32());
        let step = function(
            &mut rewriter,
            cx,
            Position::End(body),
            "step",
            &[input],
            &[scalar],
        );
        // The data axis cuts the batch, the tensor axis, with sequence parallelism, the sequence.
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
        let props = cx.dict_with(rewriter.props(step), "arg_attrs", Some(cx.array(&[input])));
        rewriter.set_props(step, props);
        let mut builder = Builder {
            spec: spec.clone(),
            cx: cx.clone(),
            rewriter,
            parameters: Vec::new(),
            globals: init,
            init,
            step,
            role: "forward",
        };
        builder.body();
    }

    fn body(&mut self) {
        let step = self.rewriter.body(self.step);
        let input = self.rewriter.args(step)[0];
        self.rewriter.at_end(step);
        self.learning_rate();
        let pairs = self.forward(input);
        let loss = self.mean(pairs.last().expect("there are layers").out);
        self.role = "backward";
        self.backward(&pairs, loss);
        self.role = "optimizer";
        self.optimize();
        self.finish(self.step, &[loss]);
        self.finish(self.init, &[]);
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

    fn learning_rate(&mut self) {
        self.global("lr", "buffer", &[1], None, None, 0.01);
    }

    /// Declares a global, and initialises it like Paddle: a constant, then a broadcast over each axis that copies it.
    pub fn global(
        &mut self,
        name: &str,
        kind: &str,
        shape: &[i64],
        sharded: Option<usize>,
        of: Option<&str>,
        value: f64,
    ) {
        let cx = self.cx.clone();
        let loc = cx.file_loc("program", 1, 1);
        let dims = (0..shape.len()).map(|d| match sharded {
            Some(dim) if dim == d => self
                .spec
                .tensor_axes()
                .iter()
                .map(|a| cx.ident(a))
                .collect(),
            _ => Box::default(),
        });
        let layout = cx.attr(AttrData::Layout(LayoutData {
            dims: dims.collect(),
            partial: Box::default(),
        }));
        let ty = self.tensor(shape);
        let mut attrs = vec![
            ("sym_name", cx.string(name)),
            ("kind", cx.string(kind)),
            ("type", cx.type_attr(ty)),
            ("layout", layout),
        ];
        attrs.extend(of.map(|of| ("of", cx.symbol_ref(of))));
        let (globals, init) = (self.globals, self.rewriter.body(self.init));
        self.rewriter
            .before(globals)
            .build("dist.global", loc, &[], &[], &attrs);
        self.rewriter.at_end(init);
        let filled = self.rewriter.build(
            "dist.fill",
            loc,
            &[],
            &[ty],
            &[("value", cx.f64_attr(value))],
        );
        let mut at = self.rewriter.result(filled, 0);
        let mut all: Vec<&[&str]> = Vec::new();
        if kind == "parameter" && self.spec.dp > 1 {
            all.push(&["dp"]);
        }
        if kind == "parameter" && sharded.is_none() {
            all.push(self.spec.tensor_axes());
        }
        for axes in all {
            let attrs = [("axes", cx.string_array(axes)), ("root", cx.i64_attr(0))];
            let op = self
                .rewriter
                .build("dist.broadcast", loc, &[at], &[ty], &attrs);
            at = self.rewriter.result(op, 0);
        }
        self.rewriter.build(
            "dist.store",
            loc,
            &[at],
            &[],
            &[("global", cx.symbol_ref(name))],
        );
        let step = self.rewriter.body(self.step);
        self.rewriter.at_end(step);
    }

    pub fn load(&mut self, name: &str, shape: &[i64]) -> ValueId {
        let ty = self.tensor(shape);
        let global = self.cx.symbol_ref(name);
        self.value("dist.load", &[], ty, &[("global", global)])
    }

    pub fn store(&mut self, name: &str, value: ValueId) {
        let global = self.cx.symbol_ref(name);
        self.op("dist.store", &[value], &[], &[("global", global)]);
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
