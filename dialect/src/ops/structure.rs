//! Structure: the mesh of devices, and the globals that hold what lives longer than one run of a function.

use super::parts::{attr, one, optional_attr};
use super::{
    AttrKind, Custom, Effects, OpDef, OpVerifier, Pretty, Traits, TypeShape, Uniform, classes,
};
use crate::error::Error;
use crate::ir::{AttrData, OpId};
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::tensor_type::TensorType;

/// `dist.mesh`
pub const MESH: OpDef = OpDef {
    name: "dist.mesh",
    summary: "names the axes of the device mesh",
    description: "\
A mesh is a grid of devices with named axes. `axes` and `sizes` have one entry per axis; the number of ranks is the product \
of the sizes. Ranks are numbered row-major: the last axis varies fastest. A `dist.mesh` stands in the top module; the rank \
classes beside it, nested modules with `dist.mesh = @name`, are disjoint and cover the mesh.",
    attrs: &[
        attr("sym_name", AttrKind::Str, "the mesh's name"),
        attr("axes", AttrKind::Axes, "names of the axes, slowest first"),
        attr(
            "sizes",
            AttrKind::I64Array,
            "devices along each axis, at least 1",
        ),
    ],
    traits: Traits {
        symbol: true,
        ..Traits::NONE
    },
    effects: Effects::Opaque,
    pretty: Pretty::Custom(Custom::Mesh),
    verify: Some(verify_mesh),
    ..OpDef::NONE
};

/// `dist.global`
pub const GLOBAL: OpDef = OpDef {
    name: "dist.global",
    summary: "declares a tensor that outlives the functions",
    description: "\
A parameter, a piece of optimizer state or another buffer; every rank of the class holds one tensor of `type` (the local \
shape). `layout` says how the local tensors make up the whole: an axis in `dims[d]` cuts dimension d, an axis in `partial` \
means that the whole is the sum over that axis (a bias that only the first rank of an axis owns is partial over it: the \
others count as zero), and every other axis holds equal copies. State names its parameter with `of` and follows its layout.",
    attrs: &[
        attr("sym_name", AttrKind::Str, "the global's name"),
        attr(
            "kind",
            AttrKind::Enum(&["parameter", "state", "buffer"]),
            "what it is for",
        ),
        attr(
            "type",
            AttrKind::Type,
            "a ranked tensor with static shape, per rank",
        ),
        attr("layout", AttrKind::Layout, "how it is spread over the mesh"),
        optional_attr(
            "of",
            AttrKind::Symbol,
            "the parameter that a state belongs to",
        ),
    ],
    traits: Traits {
        symbol: true,
        ..Traits::NONE
    },
    effects: Effects::Opaque,
    pretty: Pretty::Uniform(
        Uniform::new(TypeShape::Attr("type"))
            .symbol("sym_name")
            .word("kind"),
    ),
    verify: Some(verify_global),
    ..OpDef::NONE
};

/// `dist.load`
pub const LOAD: OpDef = OpDef {
    name: "dist.load",
    summary: "reads a global",
    description: "The value that the global has at this point of the function.",
    results: &[one("value", "the global's type")],
    attrs: &[attr(
        "global",
        AttrKind::Symbol,
        "a `dist.global` of the class",
    )],
    effects: Effects::Reads,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same).symbol("global")),
    verify: Some(verify_access),
    ..OpDef::NONE
};

/// `dist.store`
pub const STORE: OpDef = OpDef {
    name: "dist.store",
    summary: "writes a global",
    description: "Sets the global; later loads, and later runs, see the new value.",
    operands: &[one("value", "the global's type")],
    attrs: &[attr(
        "global",
        AttrKind::Symbol,
        "a `dist.global` of the class",
    )],
    effects: Effects::Writes,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same).symbol("global")),
    verify: Some(verify_access),
    ..OpDef::NONE
};

/// `dist.accumulate`
pub const ACCUMULATE: OpDef = OpDef {
    name: "dist.accumulate",
    summary: "adds to a global",
    description: "\
global += value, element by element, as the gradients of several micro-batches are added up. The value is cast to the \
global's element type first, and the sum is taken in that type, so that gradients in bf16 can be added up in f32. The global \
must have been written before: `init`, and the optimizer after it has used the sum, store zeros. It is spread like the value: \
the sum of partial values is partial.",
    operands: &[one("value", "the global's shape, any float type")],
    attrs: &[attr(
        "global",
        AttrKind::Symbol,
        "a `dist.global` of the class, of float type",
    )],
    effects: Effects::Accumulates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same).symbol("global")),
    verify: Some(verify_accumulate),
    ..OpDef::NONE
};

fn verify_mesh(v: &mut OpVerifier) {
    if v.module.parent_op(v.op) != Some(v.module.root()) {
        v.error("E0324", "must stand in the top module");
        return;
    }
    match Mesh::from_op(v.module, v.op) {
        Ok(mesh) => classes::verify_cover(v, &mesh),
        Err(error) => v.report(&error),
    }
}

fn verify_global(v: &mut OpVerifier) {
    let (module, cx) = (v.module, v.module.cx());
    let parent = module.parent_op(v.op);
    if !parent.is_some_and(|p| module.is(p, "builtin.module")) {
        v.error("E0332", "must stand directly in a module");
    }
    let ty = module
        .attr(v.op, "type")
        .and_then(|a| cx.as_type(a))
        .ok_or_else(|| Error::op("E0301", "requires attribute 'type'"))
        .and_then(|ty| TensorType::of(cx, ty));
    let ty = match ty {
        Ok(ty) if ty.elements().is_some() => ty,
        Ok(ty) => {
            v.error(
                "E0332",
                format!("must have a static shape, but its type is {ty}"),
            );
            return;
        }
        Err(error) => {
            v.error("E0306", format!("attribute 'type' {error}"));
            return;
        }
    };
    match classes::mesh_around(v) {
        Err(error) => v.report(&error),
        Ok(mesh) => {
            let layout = module.attr(v.op, "layout").map(|a| cx.attr_data(a));
            if let Some(AttrData::Layout(layout)) = layout
                && let Err(error) = Layout::from_data(cx, layout, &mesh, ty.rank())
            {
                v.report(&error);
            }
        }
    }
    verify_parameter(v);
}

/// `of` names a parameter of the same module.
fn verify_parameter(v: &mut OpVerifier) {
    let (module, scope) = (v.module, v.scopes.around(v.module, v.op));
    let Some(name) = module.symbol_attr(v.op, "of") else {
        return;
    };
    if module.str_attr(v.op, "kind") != Some("state") {
        v.error("E0334", "has 'of', but is not state");
    }
    let ident = module.cx().ident(name);
    let target = scope.module.and_then(|m| v.scopes.symbol(module, m, ident));
    let is_parameter = target.is_some_and(|t| {
        module.is(t, "dist.global") && module.str_attr(t, "kind") == Some("parameter")
    });
    if !is_parameter {
        let d = v
            .diagnostic(
                "E0334",
                format!("is state of @{name}, which is not a parameter of this module"),
            )
            .help("`of` names a `dist.global` of kind `parameter` beside it");
        v.diagnostics.push(d);
    }
}

/// A load's or store's global exists and has the value's type.
fn verify_access(v: &mut OpVerifier) {
    let Some(access) = access(v) else {
        return;
    };
    let Access {
        name,
        value,
        declared,
        ..
    } = &access;
    if value != declared {
        access.report(
            v,
            "E0331",
            format!("has a value of type {value}, but @{name} is {declared}"),
        );
    }
}

/// An accumulation's global exists, has the value's shape, and both are floats.
fn verify_accumulate(v: &mut OpVerifier) {
    let Some(access) = access(v) else {
        return;
    };
    let Access {
        name,
        value,
        declared,
        ..
    } = &access;
    if value.shape != declared.shape {
        access.report(
            v,
            "E0331",
            format!("adds a value of type {value} to @{name}, which is {declared}"),
        );
    } else if !value.dtype.is_float() || !declared.dtype.is_float() {
        access.report(
            v,
            "E0331",
            format!("adds {value} to @{name}, which is {declared}: only floats are added up"),
        );
    }
}

/// What an op reads or writes.
struct Access {
    name: String,
    global: OpId,
    value: TensorType,
    declared: TensorType,
}

impl Access {
    fn report(&self, v: &mut OpVerifier, code: &'static str, message: String) {
        let d = v
            .diagnostic(code, message)
            .note(Some(v.module.loc(self.global).into()), "declared here");
        v.diagnostics.push(d);
    }
}

/// The global that an op names, which is reported if it does not exist.
fn access(v: &mut OpVerifier) -> Option<Access> {
    let (module, cx) = (v.module, v.module.cx());
    let name = module.symbol_attr(v.op, "global")?;
    let scope = v.scopes.around(module, v.op).module;
    let global = scope
        .and_then(|m| v.scopes.symbol(module, m, cx.ident(name)))
        .filter(|&g| module.is(g, "dist.global"));
    let Some(global) = global else {
        let d = v
            .diagnostic(
                "E0330",
                format!("names @{name}, which is not a global of this module"),
            )
            .help(format!(
                "declare it: `dist.global @{name} parameter {{layout = …}} : …`"
            ));
        v.diagnostics.push(d);
        return None;
    };
    let value = match module.num_results(v.op) {
        0 => v.operand_type(0),
        _ => v.result_type(0),
    };
    let declared = module.attr(global, "type").and_then(|a| cx.as_type(a))?;
    Some(Access {
        name: name.to_owned(),
        global,
        value: TensorType::of(cx, value).ok()?,
        declared: TensorType::of(cx, declared).ok()?,
    })
}

/// The family.
pub static OPS: &[OpDef] = &[MESH, GLOBAL, LOAD, STORE, ACCUMULATE];
