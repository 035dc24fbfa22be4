//! New globals, and what `init` does for them and for parameters that nothing initialises yet.

use raddle_dialect::ir::{AttrData, BlockId, Module, NewOp, OpId, Position, Rewriter, ValueId};
use raddle_dialect::layout::Layout;
use raddle_dialect::ops::OpBuilder;
use raddle_dialect::{DType, Error, TensorType};
use rustc_hash::{FxHashMap, FxHashSet};

use super::program::{Parameter, Step};

/// A global to declare.
pub struct NewGlobal<'a> {
    /// The name it gets unless that is taken.
    pub name: String,
    /// `state` or `buffer`.
    pub kind: &'static str,
    pub ty: TensorType,
    pub layout: Layout,
    /// The parameter that a state belongs to.
    pub of: Option<&'a str>,
    pub start: Start,
}

/// What a global starts as.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    Fill(f64),
    /// A parameter's first value, converted.
    Parameter(usize),
}

/// A declared global.
#[derive(Clone, Debug)]
pub struct Global {
    pub name: String,
    pub ty: TensorType,
    pub layout: Layout,
}

/// Declares globals.
pub struct Globals {
    taken: FxHashSet<String>,
    /// New globals go before this op.
    before: OpId,
    /// The `func.return` of `init`.
    init_end: OpId,
    /// What `init` stores in globals, by name.
    stored: FxHashMap<String, ValueId>,
}

impl Globals {
    /// Looks at what there is, and makes an empty `init` if there is none.
    pub fn new(rewriter: &mut Rewriter, step: &Step) -> Self {
        let functions: Vec<_> = rewriter.members(step.class, "func.func").collect();
        let is_init = |op: &OpId| rewriter.str_attr(*op, "dist.kind") == Some("init");
        let init = functions.iter().copied().find(is_init);
        let mut taken: FxHashSet<String> = rewriter
            .symbols(step.class)
            .map(|(name, _)| name.to_owned())
            .collect();
        let first = functions.first().copied().unwrap_or(step.function);
        let init = init.unwrap_or_else(|| {
            let name = free(&mut taken, "init");
            function(
                rewriter,
                Position::Before(first),
                &name,
                "init",
                step.function,
            )
        });
        let before = match functions.contains(&init) {
            true => first,
            false => init,
        };
        let block = rewriter.body(init);
        let mut stored = FxHashMap::default();
        for op in rewriter.block_ops(block) {
            if let ("dist.store", Some(name)) =
                (rewriter.name_str(op), rewriter.symbol_attr(op, "global"))
            {
                stored.insert(name.to_owned(), rewriter.operand(op, 0));
            }
        }
        Self {
            taken,
            before,
            init_end: rewriter
                .last_op(block)
                .expect("a function ends in a return"),
            stored,
        }
    }

    /// A name that nothing has yet.
    pub fn free_name(&mut self, wanted: &str) -> String {
        free(&mut self.taken, wanted)
    }

    /// Initialises the parameters that `init` does not store yet.
    ///
    /// # Errors
    /// If a parameter's `dist.init` cannot be carried out.
    pub fn parameters(
        &mut self,
        builder: &mut OpBuilder,
        parameters: &[Parameter],
    ) -> Vec<(OpId, Error)> {
        let mut errors = Vec::new();
        for parameter in parameters {
            if self.stored.contains_key(&parameter.name) {
                continue;
            }
            self.enter_init(builder, parameter.global);
            match first_value(builder, parameter) {
                Ok(value) => self.store(builder, &parameter.name, value),
                Err(error) => errors.push((parameter.global, error)),
            }
        }
        errors
    }

    /// Declares a global and initialises it. The builder is left in `init`.
    ///
    /// # Errors
    /// If it cannot be initialised.
    pub fn declare(
        &mut self,
        builder: &mut OpBuilder,
        new: NewGlobal,
        parameters: &[Parameter],
    ) -> Result<Global, Error> {
        let name = free(&mut self.taken, &new.name);
        let cx = builder.rewriter.cx().clone();
        let layout = new.layout.to_data(&cx, builder.mesh).ok_or_else(|| {
            Error::op(
                "E0347",
                "has a gradient that no global can be laid out like",
            )
        })?;
        let ty = cx.tensor(&new.ty.shape, new.ty.dtype.ty(&cx));
        let mut attrs = vec![
            ("sym_name", cx.string(&name)),
            ("kind", cx.string(new.kind)),
            ("type", cx.type_attr(ty)),
            ("layout", cx.attr(AttrData::Layout(layout))),
        ];
        attrs.extend(new.of.map(|of| ("of", cx.symbol_ref(of))));
        builder
            .rewriter
            .before(self.before)
            .build("dist.global", builder.loc, &[], &[], &attrs);
        self.enter_init(builder, self.init_end);
        let value = match new.start {
            Start::Fill(value) => builder.fill(&new.ty.shape, new.ty.dtype, value)?,
            Start::Parameter(index) => {
                let value = self.stored[&parameters[index].name];
                // What an init that was there stores is spread like the parameter.
                let layout = parameters[index].layout.clone();
                builder.layouts.insert(value, layout);
                builder.cast(value, new.ty.dtype)?
            }
        };
        self.store(builder, &name, value);
        Ok(Global {
            name,
            ty: new.ty,
            layout: new.layout,
        })
    }

    fn enter_init(&self, builder: &mut OpBuilder, like: OpId) {
        builder.rewriter.before(self.init_end);
        builder.marks.clear();
        if like != self.init_end {
            builder.loc = builder.rewriter.loc(like);
        }
    }

    fn store(&mut self, builder: &mut OpBuilder, name: &str, value: ValueId) {
        store(builder, name, value);
        self.stored.insert(name.to_owned(), value);
    }
}

/// Reads a global at the insertion point.
pub fn load(builder: &mut OpBuilder, global: &Global) -> ValueId {
    let cx = builder.rewriter.cx().clone();
    let ty = cx.tensor(&global.ty.shape, global.ty.dtype.ty(&cx));
    let mut attrs = vec![("global", cx.symbol_ref(&global.name))];
    attrs.extend(&builder.marks);
    let op = builder
        .rewriter
        .build("dist.load", builder.loc, &[], &[ty], &attrs);
    let value = builder.rewriter.result(op, 0);
    builder.layouts.insert(value, global.layout.clone());
    value
}

/// Writes a global at the insertion point.
pub fn store(builder: &mut OpBuilder, name: &str, value: ValueId) {
    let cx = builder.rewriter.cx().clone();
    let mut attrs = vec![("global", cx.symbol_ref(name))];
    attrs.extend(&builder.marks);
    builder
        .rewriter
        .build("dist.store", builder.loc, &[value], &[], &attrs);
}

/// A new function without arguments and results, holding only its return.
pub fn function(rewriter: &mut Rewriter, at: Position, name: &str, kind: &str, like: OpId) -> OpId {
    let (cx, loc) = (rewriter.cx().clone(), rewriter.loc(like));
    rewriter.set_insertion_point(at);
    let op = rewriter.create(NewOp {
        regions: 1,
        props: cx.dict(vec![
            (cx.ident("sym_name"), cx.string(name)),
            (
                cx.ident("function_type"),
                cx.type_attr(cx.function_type(&[], &[])),
            ),
        ]),
        attrs: cx.dict(vec![(cx.ident("dist.kind"), cx.string(kind))]),
        ..NewOp::new(cx.ident("func.func"), loc, &cx)
    });
    let region = rewriter.regions(op)[0];
    let block: BlockId = rewriter.append_block(region);
    rewriter
        .at_end(block)
        .build("func.return", loc, &[], &[], &[]);
    op
}

fn free(taken: &mut FxHashSet<String>, wanted: &str) -> String {
    let mut name = wanted.to_owned();
    let mut next = 1;
    while taken.contains(&name) {
        name = format!("{wanted}_{next}");
        next += 1;
    }
    taken.insert(name.clone());
    name
}

/// How a parameter starts: as its `dist.init` says, else by its rank and use.
enum Drawn {
    Fill(f64),
    Gaussian { mean: f64, std: f64, seed: i64 },
    Uniform { min: f64, max: f64, seed: i64 },
}

/// A parameter's first value: drawn, then made the same where it is replicated.
fn first_value(builder: &mut OpBuilder, parameter: &Parameter) -> Result<ValueId, Error> {
    let (shape, dtype) = (&parameter.ty.shape, parameter.ty.dtype);
    let drawn = drawn(builder.rewriter.module(), parameter)?;
    let mut value = match drawn {
        Drawn::Fill(value) => builder.fill(shape, dtype, value)?,
        Drawn::Gaussian { mean, std, seed } => {
            let op = builder.emit("dist.gaussian")?.float("mean", mean);
            let op = op.float("std", std).int("seed", seed);
            op.tensor(shape, dtype).value()?
        }
        Drawn::Uniform { min, max, seed } => {
            let op = builder.emit("dist.uniform")?.float("min", min);
            let op = op.float("max", max).int("seed", seed);
            op.tensor(shape, dtype).value()?
        }
    };
    for axis in 0..builder.mesh.axes().len() {
        let replicated = parameter.layout.on(axis) == raddle_dialect::layout::Spread::Replicated;
        if replicated && builder.mesh.sizes()[axis] > 1 {
            let axes = builder.axes_attr(&[axis]);
            value = builder
                .emit("dist.broadcast")?
                .one(value)
                .attr("axes", axes)
                .int("root", 0)
                .value()?;
        }
    }
    Ok(value)
}

/// Without `dist.init`, weights are normally distributed (GPT-2's 0.02), scales of normalisations are 1, and other vectors 0.
fn drawn(module: &Module, parameter: &Parameter) -> Result<Drawn, Error> {
    let cx = module.cx();
    let Some(init) = module.attr(parameter.global, "dist.init") else {
        if parameter.ty.rank() >= 2 {
            return Ok(Drawn::Gaussian {
                mean: 0.0,
                std: 0.02,
                seed: 0,
            });
        }
        let scales = parameter.loads.iter().any(|&load| {
            module.uses(load).any(|u| {
                let name = module.name_str(u.op);
                matches!(name, "dist.layer_norm" | "dist.rms_norm")
                    && module.operand_in(u.op, "scale") == Some(load)
            })
        });
        return Ok(Drawn::Fill(if scales { 1.0 } else { 0.0 }));
    };
    let float = |name: &str| cx.dict_get(init, name).and_then(|a| cx.as_f64(a));
    let seed = cx
        .dict_get(init, "seed")
        .and_then(|a| cx.as_i64(a))
        .unwrap_or(0);
    let kind = cx.dict_get(init, "kind").and_then(|a| cx.as_str(a));
    let drawn = match kind {
        Some("fill") => float("value").map(Drawn::Fill),
        Some("gaussian") => float("std").map(|std| Drawn::Gaussian {
            mean: float("mean").unwrap_or(0.0),
            std,
            seed,
        }),
        Some("uniform") => float("min")
            .zip(float("max"))
            .map(|(min, max)| Drawn::Uniform { min, max, seed }),
        _ => None,
    };
    drawn.ok_or_else(|| {
        Error::op("E0624", "has a 'dist.init' that says nothing").with_help(
            "write `{kind = \"fill\", value = 0.0}`, `{kind = \"gaussian\", std = 0.02}` or `{kind = \"uniform\", min = -0.1, max = 0.1}`",
        )
    })
}

/// A single f32 number or counter on every rank.
pub fn one(dtype: DType) -> TensorType {
    TensorType::new([1], dtype)
}
