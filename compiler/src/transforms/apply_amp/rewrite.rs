//! One walk through the step: operands get casts, results the types that follow from them.

use raddle_dialect::ir::{OpId, Rewriter, Type, ValueId};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{OpAttributes, Request, infer};
use raddle_dialect::{DType, Error, TensorType};
use rustc_hash::{FxHashMap, FxHashSet};

use super::lists::{Choice, Level, NORMALISATIONS, VIEWS, choose};

/// A class being narrowed.
pub struct Narrowing<'p, 'm> {
    rewriter: &'p mut Rewriter<'m>,
    class: OpId,
    level: Level,
    narrow: DType,
    mesh: Option<Mesh>,
    /// Parameters and constants, and what only passes them on: they follow activations.
    views: FxHashSet<ValueId>,
    /// Names of the class's parameters.
    parameters: FxHashSet<String>,
    /// Types before anything changed, of values that changed.
    before: FxHashMap<ValueId, Type>,
    /// Casts that are there already.
    casts: FxHashMap<(ValueId, DType), ValueId>,
}

impl<'p, 'm> Narrowing<'p, 'm> {
    pub fn new(rewriter: &'p mut Rewriter<'m>, class: OpId, level: Level, narrow: DType) -> Self {
        let mesh = Mesh::of(rewriter, class).ok();
        let is_parameter = |op| rewriter.str_attr(op, "kind") == Some("parameter");
        let parameters = rewriter
            .symbols(class)
            .filter(|&(_, op)| is_parameter(op))
            .map(|(name, _)| name.to_owned())
            .collect();
        Self {
            parameters,
            rewriter,
            class,
            level,
            narrow,
            mesh,
            views: FxHashSet::default(),
            before: FxHashMap::default(),
            casts: FxHashMap::default(),
        }
    }

    /// Narrows a step.
    ///
    /// # Errors
    /// If an op's types cannot be inferred again, with the op.
    pub fn run(&mut self, step: OpId, functions: &[OpId]) -> Result<(), (OpId, Error)> {
        let narrowed = match self.level {
            Level::O1 => FxHashSet::default(),
            _ => self.parameters(step),
        };
        for &function in functions.iter().filter(|&&f| f != step) {
            self.outside(function, &narrowed)
                .map_err(|e| (function, e))?;
        }
        let ops: Vec<_> = self.rewriter.walk(step).skip(1).collect();
        for op in ops {
            self.op(op, &narrowed).map_err(|error| (op, error))?;
        }
        Ok(())
    }

    fn dtype(&self, value: ValueId) -> Option<DType> {
        TensorType::of(self.rewriter.cx(), self.rewriter.ty(value))
            .ok()
            .map(|ty| ty.dtype)
    }

    /// The type with other elements.
    fn retyped(&self, ty: Type, dtype: DType) -> Type {
        let cx = self.rewriter.cx();
        match cx.as_tensor(ty) {
            Some((shape, _)) => cx.tensor(shape, dtype.ty(cx)),
            None => ty,
        }
    }

    /// Narrows the f32 parameters that the step reads, and gives their names.
    fn parameters(&mut self, step: OpId) -> FxHashSet<String> {
        let mut read: FxHashMap<String, bool> = FxHashMap::default();
        for op in self.rewriter.walk(step) {
            if let ("dist.load", Some(name)) = (
                self.rewriter.name_str(op),
                self.rewriter.symbol_attr(op, "global"),
            ) {
                let value = self.rewriter.result(op, 0);
                let normalises = |op| NORMALISATIONS.contains(&self.rewriter.name_str(op));
                let wide = self.level == Level::O2
                    && !self.rewriter.is_unused(value)
                    && self.rewriter.uses(value).all(|u| normalises(u.op));
                let all = read.entry(name.to_owned()).or_insert(true);
                *all &= wide;
            }
        }
        let globals: Vec<_> = self
            .rewriter
            .symbols(self.class)
            .filter(|&(name, op)| {
                self.rewriter.is(op, "dist.global")
                    && self.rewriter.str_attr(op, "kind") == Some("parameter")
                    && read.get(name) == Some(&false)
            })
            .map(|(name, op)| (name.to_owned(), op))
            .collect();
        let mut narrowed = FxHashSet::default();
        for (name, op) in globals {
            let cx = self.rewriter.cx().clone();
            let ty = self.rewriter.attr(op, "type").and_then(|a| cx.as_type(a));
            let Some(ty) = ty else { continue };
            if TensorType::of(&cx, ty).map(|t| t.dtype) != Ok(DType::F32) {
                continue;
            }
            let ty = cx.type_attr(self.retyped(ty, self.narrow));
            self.rewriter.set_attr(op, "type", Some(ty));
            if self.level == Level::O2 {
                let unit = cx.unit();
                self.rewriter.set_attr(op, "dist.master_weight", Some(unit));
            }
            narrowed.insert(name);
        }
        narrowed
    }

    /// Other functions, such as `init`, compute as before and convert where they touch a narrowed parameter.
    fn outside(&mut self, function: OpId, narrowed: &FxHashSet<String>) -> Result<(), Error> {
        let ops: Vec<_> = self.rewriter.walk(function).skip(1).collect();
        for op in ops {
            let global = self.rewriter.symbol_attr(op, "global");
            if !global.is_some_and(|g| narrowed.contains(g)) {
                continue;
            }
            match self.rewriter.name_str(op) {
                "dist.store" => self.cast_operand(op, 0, self.narrow),
                "dist.load" => {
                    let value = self.rewriter.result(op, 0);
                    let wide = self.rewriter.ty(value);
                    let narrow = self.retyped(wide, self.narrow);
                    self.rewriter.set_type(value, narrow);
                    let users: Vec<_> = self.rewriter.uses(value).collect();
                    for user in users {
                        self.cast_operand(user.op, user.index, DType::F32);
                    }
                }
                name => {
                    return Err(Error::op(
                        "E0630",
                        format!("has a '{name}' of a parameter that is to become narrow"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Makes an operand this type.
    fn cast_operand(&mut self, op: OpId, index: usize, dtype: DType) {
        let value = self.rewriter.operand(op, index);
        if self.dtype(value).is_none_or(|d| d == dtype) {
            return;
        }
        let cast = match self.casts.get(&(value, dtype)) {
            Some(&cast) => cast,
            None => {
                let ty = self.retyped(self.rewriter.ty(value), dtype);
                let loc = self.rewriter.loc(op);
                let marks: Vec<_> = ["dist.role", "dist.stage"]
                    .into_iter()
                    .filter_map(|name| Some((name, self.rewriter.attr(op, name)?)))
                    .collect();
                let cast =
                    self.rewriter
                        .before(op)
                        .build("dist.cast", loc, &[value], &[ty], &marks);
                let cast = self.rewriter.result(cast, 0);
                self.casts.insert((value, dtype), cast);
                // The way back needs no second rounding, and no second cast.
                if self.views.contains(&value) {
                    self.views.insert(cast);
                }
                cast
            }
        };
        self.rewriter.set_operand(op, index, cast);
    }

    fn op(&mut self, op: OpId, narrowed: &FxHashSet<String>) -> Result<(), Error> {
        let name = self.rewriter.name_str(op).to_owned();
        if name == "dist.load" {
            self.load(op, narrowed);
            return Ok(());
        }
        if name == "dist.fill" {
            self.views.extend(self.rewriter.results(op));
            return Ok(());
        }
        let operands: Vec<_> = self.rewriter.operands(op).collect();
        let known =
            |d: &Option<DType>| matches!(d, Some(d) if *d == DType::F32 || *d == self.narrow);
        let floats: Vec<usize> = (0..operands.len())
            .filter(|&i| known(&self.dtype(operands[i])))
            .collect();
        let other_float = operands.iter().any(|&v| {
            self.dtype(v)
                .is_some_and(|d| d.is_float() && d != DType::F32 && d != self.narrow)
        });
        let registered = self.rewriter.def_of(op).is_some_and(|d| d.infer.is_some());
        let choice = match registered && !other_float {
            true => choose(self.level, &name),
            false => Choice::Keep,
        };
        let to = match choice {
            Choice::Narrow => self.narrow,
            Choice::Wide => DType::F32,
            Choice::Follow => match self.follows(&operands, &floats) {
                true => self.narrow,
                false => DType::F32,
            },
            Choice::Keep => {
                self.restore(op, &name, narrowed);
                return Ok(());
            }
        };
        for &index in &floats {
            self.cast_operand(op, index, to);
        }
        if VIEWS.contains(&name.as_str()) && operands.iter().any(|v| self.views.contains(v)) {
            self.views.extend(self.rewriter.results(op));
        }
        match floats.is_empty() {
            true => Ok(()),
            false => self.retype_results(op, to),
        }
    }

    fn load(&mut self, op: OpId, narrowed: &FxHashSet<String>) {
        let value = self.rewriter.result(op, 0);
        let global = self.rewriter.symbol_attr(op, "global").unwrap_or_default();
        let is_parameter = self.parameters.contains(global);
        if narrowed.contains(global) {
            let wide = self.rewriter.ty(value);
            self.before.insert(value, wide);
            let narrow = self.retyped(wide, self.narrow);
            self.rewriter.set_type(value, narrow);
        }
        if is_parameter {
            self.views.insert(value);
        }
    }

    /// Whether an op that follows its operands is narrow: some activation is, and no activation is wide. Parameters follow.
    fn follows(&self, operands: &[ValueId], floats: &[usize]) -> bool {
        let activations = floats
            .iter()
            .map(|&i| operands[i])
            .filter(|v| !self.views.contains(v));
        let mut any = false;
        for value in activations {
            match self.dtype(value) == Some(self.narrow) {
                true => any = true,
                false => return false,
            }
        }
        any
    }

    /// Gives operands the types they had.
    fn restore(&mut self, op: OpId, name: &str, narrowed: &FxHashSet<String>) {
        if name == "dist.cast" {
            return;
        }
        let global = self.rewriter.symbol_attr(op, "global");
        let narrow_store = name == "dist.store" && global.is_some_and(|g| narrowed.contains(g));
        for index in 0..self.rewriter.num_operands(op) {
            let value = self.rewriter.operand(op, index);
            let known = self.before.get(&value).copied();
            let before = known.map(|ty| TensorType::of(self.rewriter.cx(), ty));
            match before {
                _ if narrow_store => self.cast_operand(op, index, self.narrow),
                Some(Ok(before)) => self.cast_operand(op, index, before.dtype),
                _ => {}
            }
        }
    }

    /// Result types follow from the operands; where they do not, floats become `to`.
    fn retype_results(&mut self, op: OpId, to: DType) -> Result<(), Error> {
        let cx = self.rewriter.cx().clone();
        let Some(def) = self.rewriter.def_of(op) else {
            return Ok(());
        };
        let mut operands = Vec::new();
        for value in self.rewriter.operands(op) {
            operands.push(TensorType::of(&cx, self.rewriter.ty(value))?);
        }
        let segments = self
            .rewriter
            .result_segments(op, def)
            .map_err(|e| Error::op("E0304", e.to_string()))?;
        let counts: Vec<_> = segments.iter().map(ExactSizeIterator::len).collect();
        let request = Request {
            operands: &operands,
            attrs: &OpAttributes {
                module: self.rewriter.module(),
                op,
            },
            mesh: self.mesh.as_ref(),
            counts: Some(&counts),
        };
        let inferred = match infer(def, &request) {
            Ok(types) => Some(types),
            Err(error) if error.code() == "E0318" => None,
            Err(error) => return Err(error),
        };
        let results: Vec<_> = self.rewriter.results(op).collect();
        for (index, value) in results.into_iter().enumerate() {
            let old = self.rewriter.ty(value);
            let dtype = match &inferred {
                Some(types) => Some(types[index].dtype),
                None => self
                    .dtype(value)
                    .map(|d| if d == DType::F32 { to } else { d }),
            };
            let new = dtype.map_or(old, |dtype| self.retyped(old, dtype));
            if new != old {
                self.before.insert(value, old);
                self.rewriter.set_type(value, new);
            }
        }
        Ok(())
    }
}
