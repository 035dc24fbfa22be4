//! What Raddle does not interpret, and how it travels: the attributes `paddle.*`.
//!
//! | where | attribute | what |
//! |---|---|---|
//! | function | `paddle.program` | version and op versions, the forms, the variables' descriptions |
//! | op | `paddle.form` | index of the op's form |
//! | op | `paddle.names` | the names of its results |
//! | op | `paddle.attrs` | attributes that differ from op to op: scopes, call stacks |
//! | op | `paddle.ring` | which of the rings over the op's axes it used |
//! | op | `paddle.implicit` | a reshape between shapes of one element, `[]` and `[1]`, which Paddle does not tell apart |
//! | op | `paddle.parts` | of a split that became a slice, the names of the parts that nothing reads |
//! | argument | `paddle.name` | the data input's name |
//! | global | `paddle.gradient_of` | the parameter whose gradients it adds up over micro-batches |
//! | class | `paddle.ranks` | per rank its rings, and its names where they differ from those in the functions |
//!
//! A form is what many ops of a program have in common: type, slots, and attributes in their order. An attribute whose value
//! follows from the `dist` op is in it by name only; the value is computed when the op is exported.

use std::collections::HashMap;

use raddle_dialect::ir::{Attr, Context};
use rustc_hash::FxBuildHasher;

use super::program::{Op, Slot};
use super::value::Value;

/// The op's form.
pub(super) const FORM: &str = "paddle.form";
/// Names of the op's results, one a result; empty where the value has no name of its own.
pub(super) const NAMES: &str = "paddle.names";
/// Attributes of the op that are not in its form.
pub(super) const ATTRS: &str = "paddle.attrs";
/// The position of the op's ring among those over its axes, or a dictionary from ranks to ring ids.
pub(super) const RING: &str = "paddle.ring";
/// The name of a data input.
pub(super) const NAME: &str = "paddle.name";
/// Marks a reshape that Paddle does without being told: it is not exported.
pub(super) const IMPLICIT: &str = "paddle.implicit";
/// On a slice that was a split: the names of the parts that nothing reads.
pub(super) const PARTS: &str = "paddle.parts";
/// The axes that may shift a slice; only while importing.
pub(super) const OPEN: &str = "paddle.open";
/// On a global: the parameter whose gradients it adds up.
pub(super) const TIED: &str = "paddle.gradient_of";
/// Tables of a function.
pub(super) const PROGRAM: &str = "paddle.program";
/// Tables of a class.
pub(super) const RANKS: &str = "paddle.ranks";

/// Type, slots and attributes of an op.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Form {
    pub kind: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    /// In the order of the file; without a value if it follows from the `dist` op.
    pub attrs: Vec<(String, Option<Value>)>,
    pub is_target: Option<bool>,
}

/// The forms of a function.
#[derive(Default, Debug)]
pub(super) struct Forms {
    attrs: Vec<Attr>,
    index: HashMap<Attr, usize, FxBuildHasher>,
}

/// The value that a form holds for an attribute that differs from op to op.
fn usual(name: &str) -> Option<Value> {
    match name {
        "op_callstack" | "op_role_var" => Some(Value::Strings(Vec::new())),
        "op_namescope" => Some(Value::Str(b"/".to_vec())),
        _ => None,
    }
}

impl Form {
    /// The form of an op of which `computed` follows from its `dist` op, and the attributes that are the op's own.
    pub(super) fn of(op: &Op, computed: &[(&'static str, Value)]) -> (Self, Vec<(String, Value)>) {
        let mut own = Vec::new();
        let attrs = op.attrs.iter().map(|(name, value)| {
            let follows = computed.iter().any(|(n, v)| n == name && v == value);
            if follows {
                return (name.clone(), None);
            }
            let value = match usual(name) {
                Some(usual) if usual != *value => {
                    own.push((name.clone(), value.clone()));
                    usual
                }
                _ => value.clone(),
            };
            (name.clone(), Some(value))
        });
        let attrs = attrs.collect();
        let slots = |slots: &[Slot]| slots.iter().map(|s| s.name.clone()).collect();
        let form = Self {
            kind: op.kind.clone(),
            inputs: slots(&op.inputs),
            outputs: slots(&op.outputs),
            attrs,
            is_target: op.is_target,
        };
        (form, own)
    }

    fn to_attr(&self, cx: &Context) -> Attr {
        let attrs: Vec<_> = self
            .attrs
            .iter()
            .map(|(name, value)| match value {
                Some(value) => cx.array(&[cx.string(name), value.to_attr(cx)]),
                None => cx.string(name),
            })
            .collect();
        let mut entries = vec![
            (cx.ident("type"), cx.string(&self.kind)),
            (cx.ident("inputs"), cx.string_array(&self.inputs)),
            (cx.ident("outputs"), cx.string_array(&self.outputs)),
            (cx.ident("attrs"), cx.array(&attrs)),
        ];
        if let Some(target) = self.is_target {
            entries.push((cx.ident("target"), cx.bool_attr(target)));
        }
        cx.dict(entries)
    }

    /// Reads a form back; `None` if it is not one.
    pub(super) fn from_attr(cx: &Context, attr: Attr) -> Option<Self> {
        let names = |name| {
            let list = cx.as_string_array(cx.dict_get(attr, name)?)?;
            Some(list.into_iter().map(str::to_owned).collect())
        };
        let attrs = cx
            .as_array(cx.dict_get(attr, "attrs")?)?
            .iter()
            .map(|&item| match cx.as_array(item) {
                Some(&[name, value]) => {
                    let name = cx.as_str(name)?.to_owned();
                    Some((name, Some(Value::from_attr(cx, value)?)))
                }
                _ => Some((cx.as_str(item)?.to_owned(), None)),
            })
            .collect::<Option<_>>()?;
        Some(Self {
            kind: cx.as_str(cx.dict_get(attr, "type")?)?.to_owned(),
            inputs: names("inputs")?,
            outputs: names("outputs")?,
            attrs,
            is_target: cx.dict_get(attr, "target").and_then(|a| cx.as_bool(a)),
        })
    }
}

impl Forms {
    /// The index of a form, which is added if it is new.
    pub(super) fn add(&mut self, cx: &Context, form: &Form) -> i64 {
        let attr = form.to_attr(cx);
        let next = self.attrs.len();
        let at = *self.index.entry(attr).or_insert(next);
        if at == next {
            self.attrs.push(attr);
        }
        at as i64
    }

    /// All forms as one attribute.
    pub(super) fn to_attr(&self, cx: &Context) -> Attr {
        cx.array(&self.attrs)
    }
}
