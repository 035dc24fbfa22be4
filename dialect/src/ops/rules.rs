//! What layout rules are made of: an op's rule looks at one mesh axis at a time and says what its results are along it.
//!
//! Most ops are products of their operands, sums of them, or arbitrary functions of their elements. For these a rule names each
//! dimension by a label, as in an Einstein sum, and the three functions [`AxisCx::product`], [`AxisCx::sum`] and
//! [`AxisCx::elementwise`] say the rest.

use super::OpDef;
use super::args::Args;
use super::attributes::{Attributes, Attrs};
use crate::error::Error;
use crate::layout::{Layout, Reduction, Spread};
use crate::mesh::Mesh;
use crate::tensor_type::TensorType;

/// An op of which the results' layouts are wanted.
#[derive(Clone, Copy)]
pub struct LayoutCall<'a> {
    /// Operand types in order, local shapes.
    pub operands: &'a [TensorType],
    /// Operand layouts in order.
    pub layouts: &'a [Layout],
    /// Attributes.
    pub attrs: &'a dyn Attributes,
    /// Result types in order, local shapes.
    pub results: &'a [TensorType],
    /// The mesh.
    pub mesh: &'a Mesh,
}

/// The layouts of an op's results, given those of its operands.
///
/// # Errors
/// If the op would read an operand as something that it is not: a partial value as a whole (`E0341`), a piece as a whole or two
/// pieces that do not belong together (`E0340`), values of which each rank has its own (`E0342`); if it adds a whole to a part,
/// which counts the whole once per rank (`E0348`); if the operands name axes in different orders (`E0343`); if a collective does
/// not fit what it is given (`E0344`); if nothing is known (`E0345`).
pub fn layouts(def: &'static OpDef, call: &LayoutCall) -> Result<Vec<Layout>, Error> {
    let attrs = Attrs(call.attrs);
    let operands: Vec<Operand> = call
        .operands
        .iter()
        .zip(call.layouts)
        .map(|(ty, layout)| Operand { ty, layout })
        .collect();
    let rule = def
        .layout
        .ok_or_else(|| Error::op("E0345", "does not say how its results are spread"))?;
    rule(&LayoutCx {
        args: Args::operands(def, &operands, attrs)?,
        attrs,
        results: Args::results(def, call.results, attrs)?,
        mesh: call.mesh,
    })
}

/// An operand, as a layout rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Its type, with the local shape.
    pub ty: &'a TensorType,
    /// Its layout.
    pub layout: &'a Layout,
}

/// What an op's `layout` works with.
pub struct LayoutCx<'a> {
    /// Operands by group.
    pub args: Args<'a, Operand<'a>>,
    /// Attributes.
    pub attrs: Attrs<'a>,
    /// Result types by group.
    pub results: Args<'a, TensorType>,
    /// The mesh.
    pub mesh: &'a Mesh,
}

impl<'a> LayoutCx<'a> {
    /// Puts the results together from a rule for one axis, which gives one spread per result.
    pub(super) fn per_axis(
        &self,
        rule: impl Fn(&AxisCx) -> Result<Vec<Spread>, Error>,
    ) -> Result<Vec<Layout>, Error> {
        let types = self.results.all();
        let mut layouts: Vec<Layout> = types.iter().map(|t| Layout::replicated(t.rank())).collect();
        for (axis, &size) in self.mesh.sizes().iter().enumerate() {
            if size == 1 {
                continue;
            }
            let spreads = rule(&AxisCx { cx: self, axis })?;
            for (layout, spread) in layouts.iter_mut().zip(spreads) {
                layout.set(axis, spread);
            }
        }
        for layout in &mut layouts {
            for axes in &mut layout.dims {
                self.order(axes)?;
            }
        }
        Ok(layouts)
    }

    /// Orders axes that cut one dimension as the operands order them.
    fn order(&self, axes: &mut [usize]) -> Result<(), Error> {
        if axes.len() < 2 {
            return Ok(());
        }
        let lists = self.args.all().iter().flat_map(|o| &o.layout.dims);
        let common = |list: &Vec<usize>| -> Vec<usize> {
            list.iter().copied().filter(|a| axes.contains(a)).collect()
        };
        let lists: Vec<Vec<usize>> = lists.map(common).filter(|l| l.len() > 1).collect();
        let Some(longest) = lists.iter().max_by_key(|l| l.len()) else {
            return Ok(());
        };
        let place = |axis: &usize| longest.iter().position(|a| a == axis);
        for list in &lists {
            let places: Vec<_> = list.iter().filter_map(place).collect();
            if !places.is_sorted() {
                let names: Vec<_> = list.iter().map(|&a| self.mesh.axes()[a].as_str()).collect();
                return Err(Error::op(
                    "E0343",
                    format!(
                        "has operands that are cut by {} in different orders",
                        names.join(", ")
                    ),
                ));
            }
        }
        if longest.len() == axes.len() {
            axes.copy_from_slice(longest);
        }
        Ok(())
    }

    /// The group's axes cut a dimension of an operand in mesh order, as the op counts its pieces.
    pub(super) fn counts_pieces(
        &self,
        name: &str,
        dim: usize,
        group: &[usize],
    ) -> Result<(), Error> {
        let cut = self.args.one(name)?.layout.dims.get(dim);
        let sizes = self.mesh.sizes();
        let counted = cut
            .into_iter()
            .flatten()
            .filter(|&&a| sizes[a] > 1 && group.contains(&a));
        if counted.is_sorted() {
            return Ok(());
        }
        let names: Vec<_> = group
            .iter()
            .map(|&a| self.mesh.axes()[a].as_str())
            .collect();
        Err(Error::op(
            "E0343",
            format!(
                "counts the pieces of '{name}' in the order {}, in which they are not cut",
                names.join(", ")
            ),
        ))
    }

    /// The axes of the op's group, in mesh order.
    pub(super) fn group(&self) -> Result<Vec<usize>, Error> {
        self.mesh.axis_set(&self.attrs.strings("axes")?)
    }
}

/// One operand in a rule: what it is called, what it is along the axis, and a label for each dimension (none where the operand is
/// repeated along the dimension).
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub name: &'static str,
    pub spread: Spread,
    pub labels: Vec<Option<usize>>,
}

/// One mesh axis of a layout rule.
pub(super) struct AxisCx<'c, 'a> {
    pub cx: &'c LayoutCx<'a>,
    pub axis: usize,
}

impl AxisCx<'_, '_> {
    /// An operand whose dimensions are labelled. A dimension of extent 1 that is not cut broadcasts, so it loses its label.
    pub fn term(&self, name: &'static str, mut labels: Vec<Option<usize>>) -> Result<Term, Error> {
        let spread = self.spread(name)?;
        let shape = &self.cx.args.one(name)?.ty.shape;
        for (d, label) in labels.iter_mut().enumerate() {
            if shape.get(d) == Some(&1) && spread != Spread::Sharded(d) {
                *label = None;
            }
        }
        Ok(Term {
            name,
            spread,
            labels,
        })
    }

    /// An operand that broadcasts to a shape; label d is dimension d of that shape.
    pub fn broadcast(&self, name: &'static str, shape: &[i64]) -> Result<Term, Error> {
        let ty = self.cx.args.one(name)?.ty;
        self.term(name, broadcast_labels(&ty.shape, shape))
    }

    /// What an operand is along the axis.
    pub fn spread(&self, name: &str) -> Result<Spread, Error> {
        Ok(self.cx.args.one(name)?.layout.on(self.axis))
    }

    /// Σ over the labels that `out` lacks of the product of two operands. A factor may be partial if the other is whole.
    pub fn product(&self, x: &Term, y: &Term, out: &[Option<usize>]) -> Result<Spread, Error> {
        match (x.spread, y.spread) {
            (Spread::Partial(r), Spread::Replicated) | (Spread::Replicated, Spread::Partial(r))
                if r.is_linear() =>
            {
                Ok(Spread::Partial(r))
            }
            _ => self.shard_or_sum(&[x, y], out),
        }
    }

    /// A function of the elements of several operands: none may be partial.
    pub fn elementwise(&self, terms: &[&Term], out: &[Option<usize>]) -> Result<Spread, Error> {
        self.shard_or_sum(terms, out)
    }

    /// One operand's own elements, summed over the labels that `out` lacks.
    pub fn sum_of(&self, x: &Term, out: &[Option<usize>]) -> Result<Spread, Error> {
        match x.spread {
            Spread::Partial(r) if r.is_linear() => Ok(x.spread),
            _ => self.shard_or_sum(&[x], out),
        }
    }

    /// The sum of operands: all partial or none, except that a partial mean may be shifted.
    pub fn sum(&self, terms: &[&Term], out: &[Option<usize>]) -> Result<Spread, Error> {
        let partial = terms
            .iter()
            .find(|t| matches!(t.spread, Spread::Partial(_)));
        let Some(partial) = partial else {
            return self.shard_or_sum(terms, out);
        };
        let Spread::Partial(reduction) = partial.spread else {
            unreachable!("just found");
        };
        if !reduction.is_linear() {
            return Err(self.partial_error(partial.name, reduction));
        }
        for term in terms {
            match term.spread {
                spread if spread == partial.spread => {}
                Spread::Replicated if reduction == Reduction::Avg => {}
                Spread::Replicated => {
                    return Err(Error::op(
                        "E0348",
                        format!(
                            "adds '{}', which is whole along axis '{}', to '{}', which is partial there: it would count once per rank",
                            term.name,
                            self.axis_name(),
                            partial.name
                        ),
                    )
                    .with_help(self.reduce_help(reduction)));
                }
                _ => return Err(self.partial_error(partial.name, reduction)),
            }
        }
        Ok(partial.spread)
    }

    /// No term is partial; those that are cut are cut along one label, which no other one has whole.
    fn shard_or_sum(&self, terms: &[&Term], out: &[Option<usize>]) -> Result<Spread, Error> {
        let mut cut: Option<(&Term, usize)> = None;
        for &term in terms {
            match term.spread {
                Spread::Replicated => {}
                Spread::Partial(reduction) => return Err(self.partial_error(term.name, reduction)),
                Spread::Own => return Err(self.own_error(term.name)),
                Spread::Sharded(dim) => {
                    let Some(label) = term.labels[dim] else {
                        return Err(Error::op(
                            "E0340",
                            format!(
                                "repeats '{}' along dimension {dim}, which axis '{}' cuts",
                                term.name,
                                self.axis_name()
                            ),
                        ));
                    };
                    match cut {
                        Some((other, l)) if l != label => {
                            return Err(Error::op(
                                "E0340",
                                format!(
                                    "reads '{}' and '{}', which axis '{}' cuts along dimensions that do not correspond",
                                    other.name,
                                    term.name,
                                    self.axis_name()
                                ),
                            ));
                        }
                        _ => cut = Some((term, label)),
                    }
                }
            }
        }
        let Some((cut, label)) = cut else {
            return Ok(Spread::Replicated);
        };
        let whole = terms
            .iter()
            .find(|t| t.spread == Spread::Replicated && t.labels.contains(&Some(label)));
        if let Some(whole) = whole {
            return Err(Error::op(
                "E0340",
                format!(
                    "reads '{}', which axis '{}' cuts, together with '{}', which is whole",
                    cut.name,
                    self.axis_name(),
                    whole.name
                ),
            )
            .with_help(
                "gather the one with `dist.all_gather` or cut the other with `dist.slice`",
            ));
        }
        Ok(match out.iter().position(|&l| l == Some(label)) {
            Some(dim) => Spread::Sharded(dim),
            None => Spread::Partial(Reduction::Sum),
        })
    }

    /// An operand of which only the shape is read, beside a gradient of the op's result: if it is cut, the gradient is cut alike.
    pub fn shape_of(&self, operand: &Term, dout: &Term) -> Result<(), Error> {
        let Spread::Sharded(dim) = operand.spread else {
            return Ok(());
        };
        let alike = match (operand.labels[dim], dout.spread) {
            (Some(label), Spread::Sharded(d)) => dout.labels[d] == Some(label),
            _ => false,
        };
        match alike {
            true => Ok(()),
            false => Err(self.sharded_error(operand.name, dim)),
        }
    }

    /// An operand must be the same on all ranks along the axis.
    pub fn whole(&self, name: &str) -> Result<(), Error> {
        match self.spread(name)? {
            Spread::Replicated => Ok(()),
            Spread::Partial(reduction) => Err(self.partial_error(name, reduction)),
            Spread::Own => Err(self.own_error(name)),
            Spread::Sharded(dim) => Err(self.sharded_error(name, dim)),
        }
    }

    pub fn axis_name(&self) -> &str {
        &self.cx.mesh.axes()[self.axis]
    }

    pub fn partial_error(&self, name: &str, reduction: Reduction) -> Error {
        Error::op(
            "E0341",
            format!(
                "reads '{name}', which is partial ({}) along axis '{}', as if it were whole",
                reduction.name(),
                self.axis_name()
            ),
        )
        .with_help(self.reduce_help(reduction))
    }

    fn reduce_help(&self, reduction: Reduction) -> String {
        format!(
            "reduce it first: `dist.all_reduce {} … over [\"{}\"]`",
            reduction.name(),
            self.axis_name()
        )
    }

    pub fn own_error(&self, name: &str) -> Error {
        Error::op(
            "E0342",
            format!(
                "reads '{name}', of which every rank along axis '{}' has its own",
                self.axis_name()
            ),
        )
        .with_help(format!(
            "`dist.broadcast … over [\"{}\"]` makes it one value",
            self.axis_name()
        ))
    }

    pub fn sharded_error(&self, name: &str, dim: usize) -> Error {
        Error::op(
            "E0340",
            format!(
                "needs all of '{name}', but axis '{}' cuts its dimension {dim}",
                self.axis_name()
            ),
        )
        .with_help(format!(
            "`dist.all_gather … over [\"{}\"]` makes it whole",
            self.axis_name()
        ))
    }
}

/// Labels for a shape that broadcasts to another: label d is dimension d of that; repeated dimensions have none.
pub(super) fn broadcast_labels(shape: &[i64], to: &[i64]) -> Vec<Option<usize>> {
    let missing = to.len().saturating_sub(shape.len());
    let label = |(d, &extent): (usize, &i64)| {
        let at = d + missing;
        (extent != 1 || to.get(at) == Some(&1)).then_some(at)
    };
    shape.iter().enumerate().map(label).collect()
}

/// Labels 0, 1, 2, … for a value of this rank.
pub(super) fn labels(rank: usize) -> Vec<Option<usize>> {
    (0..rank).map(Some).collect()
}

/// The rule of an op without operands or whose results every rank computes alike.
pub(super) fn replicated(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    cx.per_axis(|_| Ok(vec![Spread::Replicated; cx.results.all().len()]))
}

/// The rule of a function of one operand `x`, element by element, that these reductions pass through.
pub(super) fn pointwise(
    cx: &LayoutCx,
    passes: impl Fn(Reduction) -> bool,
) -> Result<Vec<Layout>, Error> {
    cx.per_axis(|ax| match ax.spread("x")? {
        Spread::Partial(reduction) if !passes(reduction) => Err(ax.partial_error("x", reduction)),
        spread => Ok(vec![spread]),
    })
}

/// Whether a reduction commutes with every function that never decreases.
pub(super) fn is_monotone(reduction: Reduction) -> bool {
    matches!(reduction, Reduction::Max | Reduction::Min)
}
