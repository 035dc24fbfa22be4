//! Attributes as plain values, so that one definition of an op serves the IR and the runtime, which never sees the IR.

use crate::error::Error;
use crate::ir::{Attr, AttrData, Context, Ident, Module, OpId};
use crate::layout::Layout;
use crate::mesh::Mesh;

/// A plain attribute value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `true` or `false`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string, or a symbol's name.
    Str(String),
    /// `array<i64: …>` or `array<i32: …>`
    Ints(Vec<i64>),
    /// An array.
    List(Vec<Value>),
    /// A dictionary. A layout is one of `dims`, a list of axes per dimension, and `partial`, a list of axes.
    Dict(Vec<(String, Value)>),
}

/// Something that has an op's attributes.
pub trait Attributes {
    /// One attribute; `None` if it is missing or cannot be expressed as a plain value.
    fn get(&self, name: &str) -> Option<Value>;
}

/// The attributes of an op of a module.
#[derive(Clone, Copy)]
pub struct OpAttributes<'a> {
    /// The module.
    pub module: &'a Module,
    /// The op.
    pub op: OpId,
}

impl Attributes for OpAttributes<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        value(self.module.cx(), self.module.attr(self.op, name)?)
    }
}

/// Attributes in a dictionary, for an op that is yet to be built.
#[derive(Clone, Copy)]
pub struct DictAttributes<'a> {
    /// The context.
    pub cx: &'a Context,
    /// A dictionary.
    pub dict: Attr,
}

impl Attributes for DictAttributes<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        value(self.cx, self.cx.dict_get(self.dict, name)?)
    }
}

impl Attributes for Vec<(&str, Value)> {
    fn get(&self, name: &str) -> Option<Value> {
        self.iter().find(|e| e.0 == name).map(|e| e.1.clone())
    }
}

/// How deeply arrays and dictionaries may be nested in a plain value; the ops' own attributes need two levels.
const MAX_DEPTH: usize = 8;

/// An attribute as a plain value; `None` if it is none, or nested more than eight levels deep.
pub fn value(cx: &Context, attr: Attr) -> Option<Value> {
    value_at(cx, attr, 0)
}

fn value_at(cx: &Context, attr: Attr, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    match cx.attr_data(attr) {
        AttrData::Integer { .. } => match cx.as_bool(attr) {
            Some(value) => Some(Value::Bool(value)),
            None => cx.as_i64(attr).map(Value::Int),
        },
        AttrData::Float { .. } => cx.as_f64(attr).map(Value::Float),
        AttrData::String { .. } => cx.as_str(attr).map(|s| Value::Str(s.into())),
        AttrData::SymbolRef { .. } => cx.as_symbol(attr).map(|s| Value::Str(s.into())),
        AttrData::DenseArray { .. } => match cx.as_i64_array(attr) {
            Some(values) => Some(Value::Ints(values)),
            None => {
                let values = cx.as_i32_array(attr)?;
                Some(Value::Ints(values.into_iter().map(i64::from).collect()))
            }
        },
        AttrData::Array(items) => items
            .iter()
            .map(|&item| value_at(cx, item, depth + 1))
            .collect::<Option<_>>()
            .map(Value::List),
        AttrData::Dict(entries) => entries
            .iter()
            .map(|&(name, item)| Some((cx.str(name).to_owned(), value_at(cx, item, depth + 1)?)))
            .collect::<Option<_>>()
            .map(Value::Dict),
        AttrData::Layout(layout) => {
            let names = |axes: &[Ident]| {
                let names = axes.iter().map(|&a| Value::Str(cx.str(a).to_owned()));
                Value::List(names.collect())
            };
            let dims = layout.dims.iter().map(|axes| names(axes)).collect();
            Some(Value::Dict(vec![
                ("dims".to_owned(), Value::List(dims)),
                ("partial".to_owned(), names(&layout.partial)),
            ]))
        }
        _ => None,
    }
}

/// Typed access to an op's attributes; a missing or ill-typed one is an error.
#[derive(Clone, Copy)]
pub struct Attrs<'a>(pub &'a dyn Attributes);

impl Attrs<'_> {
    /// A boolean.
    ///
    /// # Errors
    /// `E0301` if it is missing or something else.
    pub fn bool(self, name: &str) -> Result<bool, Error> {
        match self.0.get(name) {
            Some(Value::Bool(value)) => Ok(value),
            _ => Err(lacks(name, "a boolean")),
        }
    }

    /// An integer.
    ///
    /// # Errors
    /// `E0301` if it is missing or something else.
    pub fn int(self, name: &str) -> Result<i64, Error> {
        match self.0.get(name) {
            Some(Value::Int(value)) => Ok(value),
            _ => Err(lacks(name, "an integer")),
        }
    }

    /// A float.
    ///
    /// # Errors
    /// `E0301` if it is missing or something else.
    pub fn float(self, name: &str) -> Result<f64, Error> {
        match self.0.get(name) {
            Some(Value::Float(value)) => Ok(value),
            _ => Err(lacks(name, "an f64")),
        }
    }

    /// A string.
    ///
    /// # Errors
    /// `E0301` if it is missing or something else.
    pub fn string(self, name: &str) -> Result<String, Error> {
        match self.0.get(name) {
            Some(Value::Str(value)) => Ok(value),
            _ => Err(lacks(name, "a string")),
        }
    }

    /// A list of integers.
    ///
    /// # Errors
    /// `E0301` if it is missing or something else.
    pub fn ints(self, name: &str) -> Result<Vec<i64>, Error> {
        match self.0.get(name) {
            Some(Value::Ints(values)) => Ok(values),
            _ => Err(lacks(name, "an array of integers")),
        }
    }

    /// A list of strings.
    ///
    /// # Errors
    /// `E0301` if it is missing or something else.
    pub fn strings(self, name: &str) -> Result<Vec<String>, Error> {
        self.0
            .get(name)
            .and_then(strings)
            .ok_or_else(|| lacks(name, "an array of strings"))
    }

    /// A list of lists of strings.
    ///
    /// # Errors
    /// `E0301` if it is missing or something else.
    pub fn string_lists(self, name: &str) -> Result<Vec<Vec<String>>, Error> {
        match self.0.get(name) {
            Some(Value::List(items)) => items.into_iter().map(strings).collect(),
            _ => None,
        }
        .ok_or_else(|| lacks(name, "an array of arrays of strings"))
    }

    /// The layout of a value of this rank; none if the attribute is missing.
    ///
    /// # Errors
    /// `E0301` if it is something else, `E0332` if it is of another rank, `E0322` if the mesh lacks an axis.
    pub fn layout(self, name: &str, mesh: &Mesh, rank: usize) -> Result<Option<Layout>, Error> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        let Value::Dict(entries) = value else {
            return Err(lacks(name, "a layout"));
        };
        let part = |part: &str| {
            let entry = entries.iter().find(|e| e.0 == part);
            entry.map(|e| e.1.clone())
        };
        let (Some(Value::List(dims)), Some(partial)) = (part("dims"), part("partial")) else {
            return Err(lacks(name, "a layout"));
        };
        let lists: Option<Vec<Vec<String>>> = dims.into_iter().map(strings).collect();
        let (Some(dims), Some(partial)) = (lists, strings(partial)) else {
            return Err(lacks(name, "a layout"));
        };
        Layout::from_names(&dims, &partial, mesh, rank).map(Some)
    }

    /// A dictionary of integers.
    ///
    /// # Errors
    /// `E0301` if it is missing or something else.
    pub fn int_dict(self, name: &str) -> Result<Vec<(String, i64)>, Error> {
        let int = |(name, value)| match value {
            Value::Int(value) => Some((name, value)),
            _ => None,
        };
        match self.0.get(name) {
            Some(Value::Dict(entries)) => entries.into_iter().map(int).collect(),
            _ => None,
        }
        .ok_or_else(|| lacks(name, "a dictionary of integers"))
    }

    /// Segment sizes, if there are any.
    pub fn segments(self, name: &str) -> Option<Vec<i32>> {
        match self.0.get(name)? {
            Value::Ints(values) => values.iter().map(|&v| i32::try_from(v).ok()).collect(),
            _ => None,
        }
    }
}

fn strings(value: Value) -> Option<Vec<String>> {
    let Value::List(items) = value else {
        return None;
    };
    let string = |item| match item {
        Value::Str(value) => Some(value),
        _ => None,
    };
    items.into_iter().map(string).collect()
}

fn lacks(name: &str, kind: &str) -> Error {
    Error::op("E0301", format!("requires attribute '{name}', {kind}"))
}
