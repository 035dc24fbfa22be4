//! `dist` ops for which Paddle has no single op, or none that means exactly the same.
//!
//! `fused_linear` becomes `fused_gemm_epilogue`, followed by the activation: Paddle's own fused activations keep a mask or
//! use the tanh form, which is not what the module says.

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{OpId, Type};

use super::super::value::Value as Attr;
use super::function::Exporter;
use super::values::Value;

impl Exporter<'_, '_> {
    /// Exports an op as several, or says that it cannot be.
    pub(super) fn expand(&mut self, op: OpId) {
        match self.module.name_str(op) {
            "dist.any_of" => self.any_of(op),
            "dist.concat_pair" => self.concat_pair(op),
            "dist.fused_linear" => self.fused_linear(op),
            "dist.fused_linear_grad" => self.fused_linear_grad(op),
            name => {
                let d = Diagnostic::error(
                    "E0830",
                    self.module.loc(op),
                    format!(
                        "'{name}' op cannot be exported: Paddle has nothing that means the same"
                    ),
                );
                self.diagnostics
                    .push(d.help("docs/paddle.md lists the ops that are exported"));
            }
        }
    }

    fn operand(&mut self, op: OpId, group: &str) -> Option<Value> {
        let value = self.module.operand_in(op, group)?;
        Some(self.values.get(self.module, value))
    }

    fn result(&mut self, op: OpId, group: &str) -> Option<Value> {
        let value = self.module.result_in(op, group)?;
        Some(self.values.get(self.module, value))
    }

    /// One flag after another; equal flags count once.
    fn any_of(&mut self, op: OpId) {
        let module = self.module;
        let mut flags: Vec<Value> = Vec::new();
        for operand in module.operands(op) {
            let flag = self.values.get(module, operand);
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
        let out = self.values.get(module, module.result(op, 0));
        let Some((&first, rest)) = flags.split_first() else {
            return;
        };
        if rest.is_empty() {
            return self.part(
                op,
                "assign",
                &[("X", vec![first])],
                &[("Out", vec![out])],
                &[],
            );
        }
        let mut so_far = first;
        for (i, &flag) in rest.iter().enumerate() {
            let to = match i + 1 == rest.len() {
                true => out,
                false => self.values.temporary(self.values.ty(out)),
            };
            self.part(
                op,
                "logical_or",
                &[("X", vec![so_far]), ("Y", vec![flag])],
                &[("Out", vec![to])],
                &[],
            );
            so_far = to;
        }
    }

    fn concat_pair(&mut self, op: OpId) {
        let module = self.module;
        let inputs: Vec<_> = module
            .operands(op)
            .map(|v| self.values.get(module, v))
            .collect();
        let out = self.values.get(module, module.result(op, 0));
        let axis = module.i64_attr(op, "dim").unwrap_or(0) as i32;
        self.part(
            op,
            "concat",
            &[("X", inputs)],
            &[("Out", vec![out])],
            &[("axis", Attr::Int(axis))],
        );
    }

    fn transposed(&self, op: OpId) -> [(&'static str, Attr); 2] {
        let flag = |name| Attr::Bool(self.module.bool_attr(op, name) == Some(true));
        [
            ("trans_x", flag("transpose_a")),
            ("trans_y", flag("transpose_b")),
        ]
    }

    fn fused_linear(&mut self, op: OpId) {
        let (Some(x), Some(w), Some(out)) = (
            self.operand(op, "x"),
            self.operand(op, "w"),
            self.result(op, "out"),
        ) else {
            return;
        };
        let bias = self.operand(op, "bias");
        let aux = self.result(op, "aux");
        let activation = self.activation(op);
        let linear = match (&activation, aux) {
            (None, _) => out,
            (Some(_), Some(aux)) => aux,
            (Some(_), None) => self.values.temporary(self.values.ty(out)),
        };
        let [trans_x, trans_y] = self.transposed(op);
        match bias {
            Some(bias) => {
                let none = ("activation", Attr::Str(b"none".to_vec()));
                self.part(
                    op,
                    "fused_gemm_epilogue",
                    &[("X", vec![x]), ("Y", vec![w]), ("Bias", vec![bias])],
                    &[("Out", vec![linear]), ("ReserveSpace", vec![])],
                    &[none, trans_x, trans_y],
                );
            }
            None => self.part(
                op,
                "matmul_v2",
                &[("X", vec![x]), ("Y", vec![w])],
                &[("Out", vec![linear])],
                &[trans_x, trans_y],
            ),
        }
        match (activation, aux) {
            (Some((kind, attrs)), _) => self.part(
                op,
                kind,
                &[("X", vec![linear])],
                &[("Out", vec![out])],
                &attrs,
            ),
            (None, Some(aux)) => {
                self.part(
                    op,
                    "assign",
                    &[("X", vec![out])],
                    &[("Out", vec![aux])],
                    &[],
                );
            }
            (None, None) => {}
        }
    }

    /// The op that applies the activation, and its attributes.
    fn activation(&self, op: OpId) -> Option<(&'static str, Vec<(&'static str, Attr)>)> {
        match self.module.str_attr(op, "activation") {
            Some("relu") => Some(("relu", vec![])),
            Some("silu") => Some(("silu", vec![])),
            Some("gelu") => Some(("gelu", vec![("approximate", Attr::Bool(false))])),
            Some("gelu_tanh") => Some(("gelu", vec![("approximate", Attr::Bool(true))])),
            _ => None,
        }
    }

    fn fused_linear_grad(&mut self, op: OpId) {
        let (Some(x), Some(w), Some(dout)) = (
            self.operand(op, "x"),
            self.operand(op, "w"),
            self.operand(op, "dout"),
        ) else {
            return;
        };
        let (aux, acc) = (self.operand(op, "aux"), self.operand(op, "acc"));
        let acc = acc.filter(|_| self.module.bool_attr(op, "overwrite") != Some(true));
        let (dx, dw) = (self.result(op, "dx"), self.result(op, "dw"));
        let dbias = self.result(op, "dbias");
        let activation = self.activation(op).zip(aux);
        // The product computes in the element type of dout; what is wanted in another is converted.
        let element = self.values.ty(dout);
        let product_dx = dx.map(|dx| match activation {
            Some(_) => self.values.temporary(self.values.ty(dx)),
            None => dx,
        });
        let product_dw = dw.map(|dw| self.of_element(dw, element, acc.is_some()));
        let product_db = dbias.map(|db| self.of_element(db, element, false));
        let [trans_x, trans_y] = self.transposed(op);
        let list = |value: Option<Value>| value.into_iter().collect::<Vec<_>>();
        match product_db {
            Some(db) => self.part(
                op,
                "fused_gemm_epilogue_grad",
                &[
                    ("X", vec![x]),
                    ("Y", vec![w]),
                    ("DOut", vec![dout]),
                    ("ReserveSpace", vec![]),
                ],
                &[
                    ("DX", list(product_dx)),
                    ("DY", list(product_dw)),
                    ("DBias", vec![db]),
                ],
                &[
                    ("activation_grad", Attr::Str(b"none".to_vec())),
                    trans_x,
                    trans_y,
                ],
            ),
            None => self.part(
                op,
                "matmul_v2_grad",
                &[("X", vec![x]), ("Y", vec![w]), ("Out@GRAD", vec![dout])],
                &[("X@GRAD", list(product_dx)), ("Y@GRAD", list(product_dw))],
                &[trans_x, trans_y],
            ),
        }
        if let (Some(((kind, attrs), aux)), Some(from), Some(to)) = (activation, product_dx, dx) {
            let mut inputs = match kind {
                "relu" => vec![("Out", vec![aux])],
                _ => vec![("X", vec![aux])],
            };
            if kind == "silu" {
                // Paddle's gradient reads the activation as well.
                let out = self.values.temporary(self.values.ty(aux));
                self.part(op, kind, &inputs, &[("Out", vec![out])], &attrs);
                inputs.push(("Out", vec![out]));
            }
            inputs.push(("Out@GRAD", vec![from]));
            self.part(
                op,
                &format!("{kind}_grad"),
                &inputs,
                &[("X@GRAD", vec![to])],
                &attrs,
            );
        }
        if let (Some(from), Some(to)) = (product_dw, dw) {
            match acc {
                Some(acc) => {
                    let term = self.of_element_of(from, to);
                    self.convert(op, from, term);
                    self.part(
                        op,
                        "elementwise_add",
                        &[("X", vec![acc]), ("Y", vec![term])],
                        &[("Out", vec![to])],
                        &[("axis", Attr::Int(-1))],
                    );
                }
                None => self.convert(op, from, to),
            }
        }
        if let (Some(from), Some(to)) = (product_db, dbias) {
            self.convert(op, from, to);
        }
    }

    /// The value itself if it has the element type of `like` and nothing is to follow, else a temporary of that type.
    fn of_element(&mut self, value: Value, like: Type, followed: bool) -> Value {
        let cx = self.module.cx();
        let (own, like) = (cx.as_tensor(self.values.ty(value)), cx.as_tensor(like));
        match (own, like) {
            (Some((shape, own)), Some((_, element))) if own != element || followed => {
                self.values.temporary(cx.tensor(shape, element))
            }
            _ => value,
        }
    }

    /// `from`, or a temporary if its type is not that of `to`.
    fn of_element_of(&mut self, from: Value, to: Value) -> Value {
        if self.values.ty(from) == self.values.ty(to) {
            from
        } else {
            self.values.temporary(self.values.ty(to))
        }
    }

    /// Converts one value to another, unless they are the same.
    fn convert(&mut self, op: OpId, from: Value, to: Value) {
        if from == to {
            return;
        }
        let code = |ty: Type| {
            let cx = self.module.cx();
            let (_, element) = cx.as_tensor(ty)?;
            super::super::mapping::data_type(cx, element)
        };
        let (from_code, to_code) = (code(self.values.ty(from)), code(self.values.ty(to)));
        let attrs = [
            ("in_dtype", Attr::Int(from_code.unwrap_or(5))),
            ("out_dtype", Attr::Int(to_code.unwrap_or(5))),
        ];
        self.part(
            op,
            "cast",
            &[("X", vec![from])],
            &[("Out", vec![to])],
            &attrs,
        );
    }
}
