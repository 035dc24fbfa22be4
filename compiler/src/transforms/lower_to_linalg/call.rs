//! One op being lowered: its operands already lowered, its attributes, and the types that its results must have.

use raddle_dialect::ir::{OpId, Type, ValueId};

use super::emit::Emit;

/// See the module's documentation.
pub(super) struct Call {
    pub op: OpId,
    pub args: Vec<ValueId>,
}

/// Why an op cannot be lowered.
pub(super) type Outcome = Result<Vec<ValueId>, String>;

impl Call {
    /// The only operand of a group, if it is there.
    pub fn optional(&self, e: &Emit, group: &str) -> Option<ValueId> {
        match self.all(e, group)[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// The only operand of a group.
    pub fn arg(&self, e: &Emit, group: &str) -> Result<ValueId, String> {
        self.optional(e, group)
            .ok_or_else(|| format!("it has no operand '{group}'"))
    }

    /// The operands of a group.
    pub fn all(&self, e: &Emit, group: &str) -> Vec<ValueId> {
        let find = || {
            let def = e.rewriter.def_of(self.op)?;
            let ranges = e.rewriter.operand_segments(self.op, def).ok()?;
            Some(ranges[def.operand_group(group)?].clone())
        };
        find().map_or_else(Vec::new, |range| self.args[range].to_vec())
    }

    /// Type of the only result of a group, if it is there.
    pub fn result(&self, e: &Emit, group: &str) -> Option<Type> {
        e.rewriter
            .result_in(self.op, group)
            .map(|v| e.rewriter.ty(v))
    }

    /// Type of the first result.
    pub fn result_type(&self, e: &Emit) -> Type {
        e.rewriter.ty(e.rewriter.result(self.op, 0))
    }

    /// Shape and element type of the first result.
    pub fn result_shape(&self, e: &Emit) -> (Vec<i64>, Type) {
        shape_of(e, self.result_type(e))
    }

    pub fn flag(&self, e: &Emit, name: &str) -> Result<bool, String> {
        e.rewriter
            .bool_attr(self.op, name)
            .ok_or_else(|| missing(name))
    }

    pub fn int(&self, e: &Emit, name: &str) -> Result<i64, String> {
        e.rewriter
            .i64_attr(self.op, name)
            .ok_or_else(|| missing(name))
    }

    pub fn float(&self, e: &Emit, name: &str) -> Result<f64, String> {
        e.rewriter
            .f64_attr(self.op, name)
            .ok_or_else(|| missing(name))
    }

    pub fn word(&self, e: &Emit, name: &str) -> Result<String, String> {
        let word = e.rewriter.str_attr(self.op, name);
        word.map(str::to_owned).ok_or_else(|| missing(name))
    }

    pub fn ints(&self, e: &Emit, name: &str) -> Result<Vec<i64>, String> {
        let attr = e.rewriter.attr(self.op, name);
        attr.and_then(|a| e.cx.as_i64_array(a))
            .ok_or_else(|| missing(name))
    }

    pub fn axes(&self, e: &Emit, name: &str) -> Vec<String> {
        e.rewriter
            .axes_attr(self.op, name)
            .iter()
            .map(|a| a.to_string())
            .collect()
    }
}

fn missing(name: &str) -> String {
    format!("its attribute '{name}' is missing")
}

/// Shape and element type of a ranked tensor.
pub(super) fn shape_of(e: &Emit, ty: Type) -> (Vec<i64>, Type) {
    e.cx.as_tensor(ty)
        .map_or((vec![], ty), |(shape, element)| (shape.to_vec(), element))
}
