//! Layouts: how a value of every rank makes up a whole, per mesh axis. Plain data; each op's rule stands beside the op.

use std::fmt;

use crate::error::Error;
use crate::ir::{Context, LayoutData};
use crate::mesh::Mesh;

/// How the values of several ranks combine to one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their mean.
    Avg,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Their product.
    Prod,
    /// Whether any is set.
    Any,
}

impl Reduction {
    /// The reduction that an attribute `reduction` names.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "sum" => Self::Sum,
            "avg" => Self::Avg,
            "max" => Self::Max,
            "min" => Self::Min,
            "prod" => Self::Prod,
            "any" => Self::Any,
            _ => return None,
        })
    }

    /// Its name in an attribute.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Max => "max",
            Self::Min => "min",
            Self::Prod => "prod",
            Self::Any => "any",
        }
    }

    /// Whether it is a sum, perhaps divided.
    pub fn is_linear(self) -> bool {
        matches!(self, Self::Sum | Self::Avg)
    }
}

/// What the ranks along one mesh axis have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Spread {
    /// All the same.
    Replicated,
    /// Each its piece along a dimension.
    Sharded(usize),
    /// Each a part; the whole is the reduction of all.
    Partial(Reduction),
    /// Each something of its own, such as random numbers before a broadcast.
    Own,
}

/// How a value is spread over a mesh. Axes are positions in the mesh; one that is named nowhere has equal copies.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Layout {
    /// Per dimension, the axes that cut it, outermost first.
    pub dims: Vec<Vec<usize>>,
    /// Axes over which the value is a part of the whole, ascending.
    pub partial: Vec<(usize, Reduction)>,
    /// Axes along which each rank has a value of its own, ascending.
    pub own: Vec<usize>,
}

impl Layout {
    /// Equal copies of a value of this rank everywhere.
    pub fn replicated(rank: usize) -> Self {
        Self {
            dims: vec![vec![]; rank],
            ..Self::default()
        }
    }

    /// Reads a `#dist.layout` for a value of this rank.
    ///
    /// # Errors
    /// `E0332` if it has another number of dimensions, `E0322` if the mesh lacks an axis, `E0321` if one is named twice.
    pub fn from_data(
        cx: &Context,
        data: &LayoutData,
        mesh: &Mesh,
        rank: usize,
    ) -> Result<Self, Error> {
        let names = |axes: &[crate::ir::Ident]| -> Vec<&str> {
            axes.iter().map(|&axis| cx.str(axis)).collect()
        };
        let dims: Vec<_> = data.dims.iter().map(|axes| names(axes)).collect();
        Self::from_names(&dims, &names(&data.partial), mesh, rank)
    }

    /// The layout that these names of axes say: per dimension those that cut it, and those over which the value is a partial sum.
    ///
    /// # Errors
    /// As [`Layout::from_data`].
    pub fn from_names<S: AsRef<str>>(
        dims: &[Vec<S>],
        partial: &[S],
        mesh: &Mesh,
        rank: usize,
    ) -> Result<Self, Error> {
        if dims.len() != rank {
            let message = format!(
                "has a layout of {} dimensions for a tensor of rank {rank}",
                dims.len()
            );
            return Err(Error::op("E0332", message)
                .with_help("a layout lists the axes of each dimension, then the partial axes: `#dist.layout<[[], [\"mp\"]], []>`"));
        }
        let mut seen = vec![false; mesh.axes().len()];
        let mut read = |names: &[S]| -> Result<Vec<usize>, Error> {
            let mut axes = Vec::with_capacity(names.len());
            for name in names {
                let axis = mesh.axis_set(&[name])?[0];
                if std::mem::replace(&mut seen[axis], true) {
                    return Err(Error::RepeatedAxis(name.as_ref().into()));
                }
                axes.push(axis);
            }
            Ok(axes)
        };
        let mut layout = Self::default();
        for names in dims {
            layout.dims.push(read(names)?);
        }
        let mut partial = read(partial)?;
        partial.sort_unstable();
        layout.partial = partial.into_iter().map(|a| (a, Reduction::Sum)).collect();
        Ok(layout)
    }

    /// The layout as an attribute; `None` if it says what an attribute cannot (a partial value that is no sum, values of one's own).
    pub fn to_data(&self, cx: &Context, mesh: &Mesh) -> Option<LayoutData> {
        let ident = |&axis: &usize| cx.ident(&mesh.axes()[axis]);
        if !self.own.is_empty() || self.partial.iter().any(|p| p.1 != Reduction::Sum) {
            return None;
        }
        Some(LayoutData {
            dims: self
                .dims
                .iter()
                .map(|d| d.iter().map(ident).collect())
                .collect(),
            partial: self.partial.iter().map(|(axis, _)| ident(axis)).collect(),
        })
    }

    /// What the ranks along an axis have.
    pub fn on(&self, axis: usize) -> Spread {
        if let Some(dim) = self.dims.iter().position(|axes| axes.contains(&axis)) {
            return Spread::Sharded(dim);
        }
        if let Some(&(_, reduction)) = self.partial.iter().find(|p| p.0 == axis) {
            return Spread::Partial(reduction);
        }
        if self.own.contains(&axis) {
            return Spread::Own;
        }
        Spread::Replicated
    }

    /// Adds what the ranks along an axis have; along a dimension that other axes cut it becomes the innermost.
    pub fn set(&mut self, axis: usize, spread: Spread) {
        for axes in &mut self.dims {
            axes.retain(|&a| a != axis);
        }
        self.partial.retain(|p| p.0 != axis);
        self.own.retain(|&a| a != axis);
        match spread {
            Spread::Replicated => {}
            Spread::Sharded(dim) => self.dims[dim].push(axis),
            Spread::Partial(reduction) => {
                self.partial.push((axis, reduction));
                self.partial.sort_unstable();
            }
            Spread::Own => {
                self.own.push(axis);
                self.own.sort_unstable();
            }
        }
    }

    /// Whether every rank has the same.
    pub fn is_replicated(&self) -> bool {
        self.dims.iter().all(Vec::is_empty) && self.partial.is_empty() && self.own.is_empty()
    }

    /// The shape of the whole, given the shape of each rank's tensor; `None` if an extent does not fit.
    pub fn whole_shape(&self, local: &[i64], mesh: &Mesh) -> Option<Vec<i64>> {
        let whole = |(&extent, axes): (&i64, &Vec<usize>)| {
            if extent < 0 {
                return Some(extent);
            }
            extent.checked_mul(i64::try_from(mesh.group_size(axes)).ok()?)
        };
        local.iter().zip(&self.dims).map(whole).collect()
    }

    /// The layout in the words of its mesh.
    pub fn display<'a>(&'a self, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        Display { layout: self, mesh }
    }
}

struct Display<'a> {
    layout: &'a Layout,
    mesh: &'a Mesh,
}

impl fmt::Display for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names = |axes: &[usize]| {
            let names = axes.iter().map(|&a| format!("\"{}\"", self.mesh.axes()[a]));
            format!("[{}]", names.collect::<Vec<_>>().join(", "))
        };
        let dims: Vec<String> = self.layout.dims.iter().map(|d| names(d)).collect();
        write!(f, "<[{}]", dims.join(", "))?;
        for (axis, reduction) in &self.layout.partial {
            write!(f, ", partial {} over {}", reduction.name(), names(&[*axis]))?;
        }
        if !self.layout.own.is_empty() {
            write!(f, ", differing along {}", names(&self.layout.own))?;
        }
        f.write_str(">")
    }
}
