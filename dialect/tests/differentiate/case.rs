//! A forward program over a mesh, its backward pass by the ops' gradient rules, and the comparison of both with difference quotients.

use std::collections::{BTreeSet, HashMap, HashSet};

use raddle_dialect::ir::{Context, Loc, LocData, Module, OpId, Rewriter, ValueId};
use raddle_dialect::layout::{Layout, Reduction, Spread};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{
    self, Differentiated, OpBuilder, OpDef, Reduce, ValueLayouts, differentiate,
};
use raddle_dialect::reference::Tensor;
use raddle_dialect::{DType, Error, TensorType};

use crate::machine::{Values, noise, put_together, run, take_apart};

pub fn definition(name: &str) -> &'static OpDef {
    ops::definition(name).unwrap_or_else(|| panic!("no op {name}"))
}

/// Builds the forward ops on the arguments and gives the results.
type Forward = Box<dyn Fn(&mut OpBuilder, &[ValueId]) -> Result<Vec<ValueId>, Error>>;

/// What an argument is as a whole, and per axis what the ranks have of it.
struct Argument {
    whole: Tensor,
    layout: Layout,
}

/// A forward program and its inputs.
pub struct Case {
    pub name: String,
    mesh: Mesh,
    arguments: Vec<Argument>,
    forward: Forward,
}

/// A module that holds both passes.
struct Built {
    module: Module,
    arguments: Vec<ValueId>,
    forward: Vec<OpId>,
    backward: Vec<OpId>,
    results: Vec<ValueId>,
    seeds: Vec<ValueId>,
    /// Per argument.
    gradients: Vec<Option<ValueId>>,
    layouts: ValueLayouts,
}

impl Case {
    /// A program on one rank.
    pub fn new(
        name: impl Into<String>,
        forward: impl Fn(&mut OpBuilder, &[ValueId]) -> Result<Vec<ValueId>, Error> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            mesh: Mesh::new(vec!["mp".into()], vec![1]).unwrap(),
            arguments: vec![],
            forward: Box::new(forward),
        }
    }

    /// On this mesh instead.
    pub fn mesh(mut self, axes: &[(&str, usize)]) -> Self {
        let names = axes.iter().map(|a| a.0.to_owned()).collect();
        self.mesh = Mesh::new(names, axes.iter().map(|a| a.1).collect()).unwrap();
        self
    }

    /// With another argument: its whole value, and what the ranks along each axis have of it.
    pub fn with(mut self, whole: Tensor, spreads: &[Spread]) -> Self {
        let mut layout = Layout::replicated(whole.rank());
        for (axis, &spread) in spreads.iter().enumerate() {
            layout.set(axis, spread);
        }
        self.arguments.push(Argument { whole, layout });
        self
    }

    /// With another argument of this whole shape, random numbers.
    pub fn arg(self, shape: &[usize], spreads: &[Spread]) -> Self {
        let seed = self.arguments.len() + 1;
        let whole = Tensor::from_fn(shape, DType::F64, |at| noise(seed, at));
        self.with(whole, spreads)
    }

    /// As `arg`, numbers between 0.3 and 2.
    pub fn positive(self, shape: &[usize], spreads: &[Spread]) -> Self {
        let seed = self.arguments.len() + 1;
        let whole = Tensor::from_fn(shape, DType::F64, |at| 0.3 + noise(seed, at).abs());
        self.with(whole, spreads)
    }

    /// With integers below a limit, of which no gradient is taken.
    pub fn integers(self, shape: &[usize], below: usize, spreads: &[Spread]) -> Self {
        let value = |at: usize| ((at * 7 + 2) % below) as f64;
        self.with(Tensor::from_fn(shape, DType::I64, value), spreads)
    }

    /// Builds forward and backward pass; gradients only of the arguments in `wanted`.
    fn build(&self, wanted: &[bool]) -> Result<Built, Error> {
        let cx = Context::new();
        let loc = cx.loc(LocData::Unknown);
        let mut module = Module::new(&cx, loc);
        let block = module.body(module.root());
        let mut rewriter = Rewriter::new(&mut module);
        let mut layouts = ValueLayouts::default();
        let mut arguments = Vec::new();
        for argument in &self.arguments {
            let local = &take_apart(&argument.whole, &argument.layout, &self.mesh)[0];
            let value = rewriter.add_arg(block, local.ty().ty(&cx), loc);
            layouts.insert(value, argument.layout.clone());
            arguments.push(value);
        }
        rewriter.at_end(block);
        let mut builder = OpBuilder {
            rewriter: &mut rewriter,
            mesh: &self.mesh,
            layouts: &mut layouts,
            marks: vec![],
            loc,
        };
        let results = (self.forward)(&mut builder, &arguments)?;
        let forward: Vec<OpId> = builder.rewriter.module().block_ops(block).collect();
        let mut seeds = Vec::new();
        let mut gradients = HashMap::new();
        for &result in &results {
            let seed = builder
                .rewriter
                .add_arg(block, builder.rewriter.ty(result), loc);
            let layout = dual(builder.layout(result)?);
            builder.layouts.insert(seed, layout);
            seeds.push(seed);
            gradients.insert(result, seed);
        }
        let mut vary: HashSet<ValueId> = HashSet::new();
        for (&argument, wanted) in arguments.iter().zip(wanted) {
            if *wanted && builder.ty(argument)?.dtype.is_float() {
                vary.insert(argument);
            }
        }
        reverse(&mut builder, &forward, &mut vary, &mut gradients, loc)?;
        let mut found = Vec::new();
        for argument in &arguments {
            found.push(match gradients.get(argument) {
                Some(&gradient) if vary.contains(argument) => Some(builder.reduced(gradient)?),
                _ => None,
            });
        }
        let all: Vec<OpId> = builder.rewriter.module().block_ops(block).collect();
        let backward = all[forward.len()..].to_vec();
        drop(rewriter);
        Ok(Built {
            module,
            arguments,
            forward,
            backward,
            results,
            seeds,
            gradients: found,
            layouts,
        })
    }

    fn all(&self) -> Vec<bool> {
        vec![true; self.arguments.len()]
    }

    /// Names of the forward ops, and of the ops that their rules build.
    pub fn ops(&self) -> [BTreeSet<&'static str>; 2] {
        let built = self.build(&self.all());
        let built = built.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        [&built.forward, &built.backward].map(|ops| {
            let names = ops.iter().map(|&op| built.module.def_of(op).unwrap().name);
            names.collect()
        })
    }

    /// The error that building the backward pass ends with.
    pub fn error(&self) -> Error {
        match self.build(&self.all()) {
            Ok(_) => panic!("{}: a gradient was built", self.name),
            Err(error) => error,
        }
    }

    /// The values of arguments and seeds of all ranks.
    fn inputs(&self, built: &Built) -> Values {
        let mut values = Values::new();
        for (argument, &value) in self.arguments.iter().zip(&built.arguments) {
            let parts = take_apart(&argument.whole, &argument.layout, &self.mesh);
            values.insert(value, parts);
        }
        values
    }

    /// The weighted sum of all elements of the results as wholes.
    fn loss(&self, built: &Built, values: &Values) -> f64 {
        let results = built.results.iter().enumerate();
        results
            .map(|(index, result)| {
                let whole = put_together(&values[result], &built.layouts[result], &self.mesh);
                let elements = whole.data.iter().enumerate();
                elements
                    .map(|(at, v)| v * noise(90 + index, at))
                    .sum::<f64>()
            })
            .sum()
    }

    /// The gradients by the rules agree with difference quotients, all at once and each alone.
    pub fn check(&self) {
        let built = self.build(&self.all());
        let built = built.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let all = self.gradients(&built);
        assert!(
            all.iter().any(Option::is_some),
            "{}: no gradient",
            self.name
        );
        for (index, gradient) in all.iter().enumerate() {
            if let Some(gradient) = gradient {
                self.compare(&built, index, gradient);
            }
        }
        for index in 0..self.arguments.len() {
            let mut wanted = vec![false; self.arguments.len()];
            wanted[index] = true;
            let built = self.build(&wanted);
            let built = built.unwrap_or_else(|e| panic!("{}: {e}", self.name));
            let alone = self.gradients(&built);
            assert_eq!(
                alone[index], all[index],
                "{}: argument {index} alone",
                self.name
            );
        }
    }

    /// Runs both passes; the gradients of the arguments, per rank.
    fn gradients(&self, built: &Built) -> Vec<Option<Vec<Tensor>>> {
        let mut values = self.inputs(built);
        run(&built.module, &self.mesh, &built.forward, &mut values);
        for (index, (result, seed)) in built.results.iter().zip(&built.seeds).enumerate() {
            let layout = &built.layouts[result];
            let shape = put_together(&values[result], layout, &self.mesh).shape;
            let mut weights = Tensor::from_fn(shape, DType::F64, |at| noise(90 + index, at));
            for &(axis, reduction) in &layout.partial {
                if reduction == Reduction::Avg {
                    weights = weights.map(|w| w / self.mesh.sizes()[axis] as f64);
                }
            }
            let ty = TensorType::of(built.module.cx(), built.module.ty(*seed)).unwrap();
            let weights = weights.with_dtype(ty.dtype);
            let parts = take_apart(&weights, &built.layouts[seed], &self.mesh);
            values.insert(*seed, parts);
        }
        run(&built.module, &self.mesh, &built.backward, &mut values);
        let of = |gradient: &Option<ValueId>| gradient.map(|g| values[&g].clone());
        built.gradients.iter().map(of).collect()
    }

    /// Every rank's gradient is the derivative of the loss by what the rank holds; copies vary together.
    fn compare(&self, built: &Built, index: usize, gradient: &[Tensor]) {
        let (argument, value) = (&self.arguments[index], built.arguments[index]);
        let inputs = self.inputs(built);
        let differs = |axis: usize| argument.layout.on(axis) != Spread::Replicated;
        let place = |rank: usize| -> Vec<usize> {
            let coordinate = self.mesh.coordinate(rank).into_iter().enumerate();
            coordinate.filter(|c| differs(c.0)).map(|c| c.1).collect()
        };
        let h = 1e-5;
        for rank in 0..self.mesh.ranks() {
            let copies: Vec<usize> = (0..self.mesh.ranks())
                .filter(|&r| place(r) == place(rank))
                .collect();
            for at in 0..gradient[rank].len() {
                let found = gradient[rank].data[at];
                if copies[0] < rank {
                    let first = gradient[copies[0]].data[at];
                    assert!(
                        (first - found).abs() <= 1e-9,
                        "{}: copies differ",
                        self.name
                    );
                    continue;
                }
                let shifted = |by: f64| {
                    let mut values = inputs.clone();
                    let parts = values.get_mut(&value).unwrap();
                    for &copy in &copies {
                        let mut data = parts[copy].data.to_vec();
                        data[at] += by;
                        let shape = parts[copy].shape.clone();
                        parts[copy] = Tensor::new(shape, parts[copy].dtype, data);
                    }
                    run(&built.module, &self.mesh, &built.forward, &mut values);
                    self.loss(built, &values)
                };
                let expected = (shifted(h) - shifted(-h)) / (2.0 * h);
                assert!(
                    (expected - found).abs() <= 2e-7 * (1.0 + expected.abs()),
                    "{}: rank {rank}: the gradient of argument {index} at {at} is {found}, but the difference quotient is {expected}",
                    self.name
                );
            }
        }
    }
}

/// How the gradient of a result comes in.
fn dual(layout: &Layout) -> Layout {
    Layout {
        dims: layout.dims.clone(),
        ..Layout::default()
    }
}

/// The backward pass of the ops that depend on `vary`, which grows with what they compute.
fn reverse(
    builder: &mut OpBuilder,
    forward: &[OpId],
    vary: &mut HashSet<ValueId>,
    gradients: &mut HashMap<ValueId, ValueId>,
    loc: Loc,
) -> Result<(), Error> {
    builder.loc = loc;
    for &op in forward {
        let module = builder.rewriter.module();
        if module.operands(op).any(|v| vary.contains(&v)) {
            vary.extend(module.results(op));
        }
    }
    for &op in forward.iter().rev() {
        let module = builder.rewriter.module();
        let operands: Vec<ValueId> = module.operands(op).collect();
        let douts: Vec<_> = module
            .results(op)
            .map(|r| gradients.get(&r).copied())
            .collect();
        let needs: Vec<bool> = operands.iter().map(|v| vary.contains(v)).collect();
        if douts.iter().all(Option::is_none) || !needs.contains(&true) {
            continue;
        }
        let request = Differentiated {
            op,
            douts: &douts,
            needs: &needs,
            reduce: Reduce::Here,
        };
        let found = differentiate(builder, request)?;
        for (value, gradient) in operands.into_iter().zip(found) {
            let Some(mut gradient) = gradient else {
                continue;
            };
            if let Some(&other) = gradients.get(&value) {
                let both = [builder.reduced(other)?, builder.reduced(gradient)?];
                gradient = builder.emit("dist.add")?.each(&both).value()?;
            }
            gradients.insert(value, gradient);
        }
    }
    Ok(())
}
