//! From a Paddle op's attributes to a `dist` op's.

use raddle_dialect::ir::{Attr, Context, Type};
use raddle_dialect::mesh::Mesh;

use super::super::mesh_file::{group_size, position};
use super::super::program::Op;
use super::super::value::Value;
use super::{Const, Mapping, Rule, Special, data_type};

/// Why an op cannot be imported.
#[derive(Debug)]
pub(in super::super) struct Problem {
    pub message: String,
    pub help: String,
}

/// A Paddle op with what is known about its surroundings.
pub(in super::super) struct Reading<'a> {
    pub cx: &'a Context,
    pub mapping: &'static Mapping,
    pub op: &'a Op,
    pub mesh: &'a Mesh,
    pub rank: usize,
    /// The mesh axes of the op's ring, if it has one.
    pub axes: Option<&'a [String]>,
    /// For a slice, the mesh axes that shift it, per entry of its `axes` attribute.
    pub shifts: &'a [Vec<String>],
    /// Type of the first variable of each mapped input slot.
    pub inputs: &'a [Option<Type>],
    /// Type of the first variable of each mapped output slot.
    pub outputs: &'a [Option<Type>],
}

type Attrs = Vec<(&'static str, Attr)>;
type Read<T> = Result<T, Problem>;

fn problem<T>(message: impl Into<String>, help: impl Into<String>) -> Read<T> {
    Err(Problem {
        message: message.into(),
        help: help.into(),
    })
}

impl Reading<'_> {
    /// The `dist` op's attributes.
    ///
    /// # Errors
    /// If an attribute is missing, of the wrong type, or has a value that `dist` cannot express.
    pub(in super::super) fn attrs(&self) -> Read<Attrs> {
        let mut attrs = Attrs::new();
        for rule in self.mapping.rules {
            self.rule(rule, &mut attrs)?;
        }
        self.special(&mut attrs)?;
        Ok(attrs)
    }

    /// The attributes of one `dist` op of several, which Paddle's op has as lists.
    ///
    /// # Errors
    /// As [`Self::attrs`], and if a list has another length than the list of parameters.
    pub(in super::super) fn of_tensor(&self, index: usize) -> Read<Attrs> {
        let count = self.op.input("Param").len();
        let check = |name: &str, length: usize| match length == count {
            true => Ok(()),
            false => problem(
                format!(
                    "`{name}` of `{}` has {length} entries for {count} parameters",
                    self.op.kind
                ),
                "it has one per parameter",
            ),
        };
        let floats = |name: &str| self.get(name, "a list of numbers", Value::as_f64s);
        match self.mapping.special {
            Special::MergedMomentum => {
                let name = "regularization_method";
                let methods = match self.op.attr(name) {
                    None => vec![],
                    Some(_) => self.get(name, "a list of texts", |v| {
                        let list = v.as_strs()?.into_iter().map(str::to_owned);
                        Some(list.collect::<Vec<_>>())
                    })?,
                };
                let mut decay = 0.0;
                if !methods.is_empty() {
                    check(name, methods.len())?;
                    let coefficients = floats("regularization_coeff")?;
                    check("regularization_coeff", coefficients.len())?;
                    decay = match methods[index].as_str() {
                        "" => 0.0,
                        "l2_decay" => coefficients[index],
                        _ => {
                            return problem(
                                "`merged_momentum` with an unknown regularisation",
                                "each of `regularization_method` is empty or `l2_decay`",
                            );
                        }
                    };
                }
                Ok(vec![("l2_decay", self.cx.f64_attr(decay))])
            }
            Special::LarsMomentum => {
                let decays = floats("lars_weight_decay")?;
                check("lars_weight_decay", decays.len())?;
                let decay = self.cx.f64_attr(decays[index]);
                Ok(vec![("lars_weight_decay", decay)])
            }
            _ => Ok(vec![]),
        }
    }

    fn rule(&self, rule: &Rule, attrs: &mut Attrs) -> Read<()> {
        let cx = self.cx;
        match *rule {
            Rule::Float(from, to) => attrs.push((to, cx.f64_attr(self.float(from)?))),
            Rule::Int(from, to) => attrs.push((to, cx.i64_attr(self.int(from)?))),
            Rule::Bool(from, to) => attrs.push((to, cx.bool_attr(self.bool(from)?))),
            Rule::Implied(to, value) | Rule::Given(to, value) => attrs.push((to, value.attr(cx))),
            Rule::Require(name, value) | Rule::Always(name, value) => {
                let holds = match (value, self.op.attr(name)) {
                    (_, None) => true,
                    (Const::Bool(v), Some(a)) => a.as_bool() == Some(v),
                    (Const::Int(v), Some(a)) => a.as_i64() == Some(v),
                    (Const::Text(v), Some(a)) => a.as_str() == Some(v),
                };
                if !holds {
                    return problem(
                        format!("`{name}` of `{}` has an unsupported value", self.op.kind),
                        format!("only {value:?} is imported"),
                    );
                }
            }
        }
        Ok(())
    }

    fn special(&self, attrs: &mut Attrs) -> Read<()> {
        let cx = self.cx;
        match self.mapping.special {
            Special::None
            | Special::Optimizer
            | Special::Fused
            | Special::AnyOf
            | Special::CheckFinite
            | Special::UpdateScaling
            | Special::MergedMomentum
            | Special::LarsMomentum => {}
            Special::Elementwise => self.alignment()?,
            Special::Cast => {
                self.check_element("in_dtype", self.input_type(0)?)?;
                self.check_element("out_dtype", self.output_type(0)?)?;
            }
            Special::Reduce => {
                attrs.push(("dims", cx.i64_array(&self.reduced()?)));
                attrs.push(("keep_dims", cx.bool_attr(self.bool("keep_dim")?)));
            }
            Special::Fill => {
                self.check_shape()?;
                attrs.push(("value", cx.f64_attr(self.fill_value()?)));
            }
            Special::Random => self.check_shape()?,
            Special::Slice => self.slice(attrs)?,
            Special::Dim => {
                let extra = usize::from(self.mapping.dist == "dist.stack");
                let dim = self.dim("axis", self.rank_of_input()? + extra)?;
                attrs.push(("dim", cx.i64_attr(dim)));
            }
            Special::Split => {
                let dim = self.dim("axis", self.rank_of_input()?)?;
                let parts = self.op.output("Out").len() as i64;
                let sections = self.ints("sections")?;
                let equal = sections.windows(2).all(|w| w[0] == w[1]);
                let count = match sections.len() {
                    0 => self.int("num")?,
                    n => n as i64,
                };
                if !equal || count != parts {
                    return problem(
                        "`split` into unequal parts",
                        "only splits into equal parts are imported",
                    );
                }
                attrs.push(("dim", cx.i64_attr(dim)));
            }
            Special::Collective => self.collective(attrs)?,
            Special::Momentum => {
                let decay = match self.op.attr("regularization_method").map(Value::as_str) {
                    None | Some(Some("")) => 0.0,
                    Some(Some("l2_decay")) => self.float("regularization_coeff")?,
                    _ => {
                        return problem(
                            "`momentum` with an unknown regularisation",
                            "`regularization_method` is empty or `l2_decay`",
                        );
                    }
                };
                attrs.push(("l2_decay", cx.f64_attr(decay)));
            }
        }
        Ok(())
    }

    fn collective(&self, attrs: &mut Attrs) -> Read<()> {
        let Some(axes) = self.axes else {
            return problem(
                format!("`{}` has no ring", self.op.kind),
                "a collective has a `ring_id`",
            );
        };
        attrs.push(("axes", self.cx.string_array(axes)));
        if self.op.attr("nranks").is_some() {
            let (said, size) = (self.int("nranks")?, group_size(self.mesh, axes) as i64);
            if said != size {
                return problem(
                    format!(
                        "`{}` says it has {said} ranks, but its ring has {size}",
                        self.op.kind
                    ),
                    "check the rings in the mesh file",
                );
            }
        }
        Ok(())
    }

    /// numpy's rule is to align at the last dimension; `axis` may say so in several ways.
    fn alignment(&self) -> Read<()> {
        let (x, y) = (self.input_type(0)?, self.input_type(1)?);
        let rank = |ty| self.cx.as_tensor(ty).map_or(0, |(shape, _)| shape.len()) as i64;
        let axis = self.int("axis")?;
        if axis == -1 || axis == rank(x) - rank(y) || rank(y) == 0 {
            return Ok(());
        }
        problem(
            format!("`{}` aligns its operands at dimension {axis}", self.op.kind),
            "only alignment at the last dimension is imported; reshape the smaller operand before",
        )
    }

    fn reduced(&self) -> Read<Vec<i64>> {
        let rank = self.rank_of_input()?;
        let dims = self.ints("dim")?;
        let all = self.op.attr("reduce_all").and_then(Value::as_bool) == Some(true);
        for name in ["in_dtype", "out_dtype"] {
            if let Some(code) = self.op.attr(name).and_then(Value::as_i64)
                && code != -1
            {
                return problem(
                    format!("`{}` converts its element type", self.op.kind),
                    "only reductions that keep the element type are imported",
                );
            }
        }
        if all || dims.is_empty() {
            return Ok((0..rank as i64).collect());
        }
        let mut dims = dims
            .into_iter()
            .map(|dim| self.in_range("dim", dim, rank))
            .collect::<Read<Vec<_>>>()?;
        dims.sort_unstable();
        dims.dedup();
        Ok(dims)
    }

    /// Paddle reads `str_value` if it is not empty, in the precision of the tensor.
    fn fill_value(&self) -> Read<f64> {
        let text = self.op.attr("str_value").and_then(Value::as_str);
        let value = match text {
            None | Some("") => self.float("value")?,
            Some(text) => match text.parse::<f64>() {
                Ok(value) => value,
                Err(_) => {
                    return problem(
                        format!("`str_value` of `fill_constant` is `{text}`"),
                        "it is a number, or empty",
                    );
                }
            },
        };
        let (_, element) = self.tensor(self.output_type(0)?)?;
        Ok(if element == self.cx.f32() {
            f64::from(value as f32)
        } else {
            value
        })
    }

    fn slice(&self, attrs: &mut Attrs) -> Read<()> {
        let (shape, _) = self.tensor(self.input_type(0)?)?;
        let (dims, starts, ends) = (self.ints("axes")?, self.ints("starts")?, self.ints("ends")?);
        if !self.ints("decrease_axis")?.is_empty() {
            return problem(
                "`slice` drops dimensions",
                "only slices with an empty `decrease_axis` are imported",
            );
        }
        if dims.len() != starts.len() || dims.len() != ends.len() {
            return problem(
                "`slice` has `axes`, `starts` and `ends` of unlike lengths",
                "give one start and one end per axis",
            );
        }
        let mut firsts = Vec::new();
        let mut sizes = Vec::new();
        let mut normal = Vec::new();
        for (i, &dim) in dims.iter().enumerate() {
            let dim = self.in_range("axes", dim, shape.len())?;
            let extent = shape[dim as usize];
            if extent < 0 {
                return problem(
                    "`slice` cuts a dimension of unknown extent",
                    "only slices of static dimensions are imported",
                );
            }
            let clamp = |at: i64| {
                if at < 0 {
                    at.saturating_add(extent)
                } else {
                    at
                }
                .clamp(0, extent)
            };
            let (start, end) = (clamp(starts[i]), clamp(ends[i]));
            let size = (end - start).max(0);
            let shift = self.shifts.get(i).map_or(0, |axes| {
                size.saturating_mul(position(self.mesh, self.rank, axes) as i64)
            });
            firsts.push(start.saturating_sub(shift));
            sizes.push(size);
            normal.push(dim);
        }
        let axes: Vec<_> = (0..dims.len())
            .map(|i| {
                self.cx
                    .string_array(self.shifts.get(i).map_or(&[][..], |a| a))
            })
            .collect();
        attrs.push(("dims", self.cx.i64_array(&normal)));
        attrs.push(("starts", self.cx.i64_array(&firsts)));
        attrs.push(("sizes", self.cx.i64_array(&sizes)));
        attrs.push(("axes", self.cx.array(&axes)));
        Ok(())
    }

    /// The shape and element type that an op states are those of the variable it writes.
    fn check_shape(&self) -> Read<()> {
        let (shape, element) = self.tensor(self.output_type(0)?)?;
        if self.ints("shape")? != shape {
            return problem(
                format!(
                    "`{}` makes a tensor of shape {:?} for a variable of shape {shape:?}",
                    self.op.kind,
                    self.ints("shape")?
                ),
                "the two must agree",
            );
        }
        let element = self.cx.tensor(&[], element);
        self.check_element("dtype", element)
    }

    fn check_element(&self, name: &str, ty: Type) -> Read<()> {
        let (_, element) = self.tensor(ty)?;
        let code = self.int(name)?;
        if data_type(self.cx, element).map(i64::from) == Some(code) {
            return Ok(());
        }
        problem(
            format!(
                "`{name}` of `{}` is {code}, which is not its variable's data type",
                self.op.kind
            ),
            "the two must agree",
        )
    }

    fn dim(&self, name: &str, rank: usize) -> Read<i64> {
        let dim = self.int(name)?;
        self.in_range(name, dim, rank)
    }

    fn in_range(&self, name: &str, dim: i64, rank: usize) -> Read<i64> {
        let rank = rank as i64;
        if (-rank..rank).contains(&dim) {
            Ok(if dim < 0 { dim + rank } else { dim })
        } else {
            problem(
                format!(
                    "`{name}` of `{}` is {dim}, but there are {rank} dimensions",
                    self.op.kind
                ),
                "dimensions count from 0, or from -1 backwards",
            )
        }
    }

    fn rank_of_input(&self) -> Read<usize> {
        Ok(self.tensor(self.input_type(0)?)?.0.len())
    }

    fn tensor(&self, ty: Type) -> Read<(&[i64], Type)> {
        match self.cx.as_tensor(ty) {
            Some(tensor) => Ok(tensor),
            None => problem(
                format!("a variable of `{}` is not a tensor", self.op.kind),
                "only dense tensors are imported",
            ),
        }
    }

    fn input_type(&self, group: usize) -> Read<Type> {
        match self.inputs.get(group) {
            Some(Some(ty)) => Ok(*ty),
            _ => self.missing(self.mapping.inputs.get(group)),
        }
    }

    fn output_type(&self, group: usize) -> Read<Type> {
        match self.outputs.get(group) {
            Some(Some(ty)) => Ok(*ty),
            _ => self.missing(self.mapping.outputs.get(group)),
        }
    }

    fn missing<T>(&self, slot: Option<&&str>) -> Read<T> {
        problem(
            format!(
                "slot `{}` of `{}` is empty",
                slot.copied().unwrap_or_default(),
                self.op.kind
            ),
            "the op cannot do without it",
        )
    }

    fn get<T>(&self, name: &str, what: &str, get: impl Fn(&Value) -> Option<T>) -> Read<T> {
        match self.op.attr(name).map(get) {
            Some(Some(value)) => Ok(value),
            Some(None) => problem(
                format!("attribute `{name}` of `{}` is not {what}", self.op.kind),
                "see the op's definition in Paddle",
            ),
            None => problem(
                format!("`{}` has no attribute `{name}`", self.op.kind),
                format!("it needs one that is {what}"),
            ),
        }
    }

    fn int(&self, name: &str) -> Read<i64> {
        self.get(name, "an integer", Value::as_i64)
    }

    fn float(&self, name: &str) -> Read<f64> {
        self.get(name, "a number", Value::as_f64)
    }

    fn bool(&self, name: &str) -> Read<bool> {
        self.get(name, "a boolean", Value::as_bool)
    }

    fn ints(&self, name: &str) -> Read<Vec<i64>> {
        self.get(name, "a list of integers", Value::as_i64s)
    }
}
