//! Forward: `activation(x · w + b)`.

use raddle_dialect::ir::{OpId, ValueId};

use super::{Fuser, activation, same_block};

/// What becomes one op.
struct Layer {
    matmul: OpId,
    /// The add and its bias.
    add: Option<(OpId, ValueId)>,
    activation: Option<OpId>,
}

impl Fuser<'_, '_, '_> {
    /// Fuses the layer that a product belongs to, if it has more than the product.
    pub(super) fn forward(&mut self, matmul: OpId) {
        match self.layer(matmul) {
            Ok(Some(layer)) => self.fuse_layer(&layer),
            Ok(None) => {}
            Err(reason) => self.declined(matmul, || reason),
        }
    }

    /// `None` where there is nothing to fuse.
    fn layer(&self, matmul: OpId) -> Result<Option<Layer>, String> {
        let module = self.rewriter.module();
        let product = module.result(matmul, 0);
        let mut readers = module
            .uses(product)
            .filter(|u| !(module.is(u.op, "dist.add_grad") && u.index < 2));
        let Some(reader) = readers.next() else {
            return Ok(None);
        };
        let others = readers.next().is_some();
        let name = module.name_str(reader.op);
        if matches!(name, "dist.all_reduce" | "dist.reduce_scatter") && !others {
            if self.adds_bias(reader.op) {
                return Err(format!(
                    "its product goes through '{name}'; a bias can be fused once promote-linear has moved it before that"
                ));
            }
            return Ok(None);
        }
        let acts = activation(module, reader.op).is_some() && !name.ends_with("_grad");
        if !acts && name != "dist.add" {
            return Ok(None);
        }
        if others {
            return Err(format!(
                "its product is read by other ops than one '{name}'"
            ));
        }
        if self.rank(module.operand(matmul, 1)) != Some(2) {
            return Err("its weight does not have rank 2".into());
        }
        if same_block(module, &[matmul, reader.op]).is_none() {
            return Err(format!("its '{name}' lies in another block"));
        }
        if acts {
            return Ok(Some(Layer {
                matmul,
                add: None,
                activation: Some(reader.op),
            }));
        }
        let bias = module.operand(reader.op, 1 - reader.index);
        if self.rank(bias) != Some(1) {
            return Err(
                "what is added to its product does not have rank 1, so it is not a bias".into(),
            );
        }
        let sum = module.result(reader.op, 0);
        let last = |value| {
            let tensor = module.cx().as_tensor(module.ty(value));
            tensor.and_then(|(shape, _)| shape.last().copied())
        };
        if module.ty(sum) != module.ty(product) || last(bias) != last(product) {
            return Err("the bias is not as long as the last dimension of the product".into());
        }
        // Of several activations the first in the text; the others read the pre-activation.
        let activation = module
            .uses(sum)
            .map(|u| u.op)
            .filter(|&op| {
                activation(module, op).is_some() && !module.name_str(op).ends_with("_grad")
            })
            .filter(|&op| same_block(module, &[matmul, op]).is_some())
            .min_by_key(|&op| self.order.places[op.index()]);
        Ok(Some(Layer {
            matmul,
            add: Some((reader.op, bias)),
            activation,
        }))
    }

    /// Whether something of rank 1 is added to an op's result.
    fn adds_bias(&self, op: OpId) -> bool {
        let module = self.rewriter.module();
        module.uses(module.result(op, 0)).any(|u| {
            module.is(u.op, "dist.add") && self.rank(module.operand(u.op, 1 - u.index)) == Some(1)
        })
    }

    fn fuse_layer(&mut self, layer: &Layer) {
        let Layer { matmul, add, .. } = *layer;
        let cx = self.rewriter.cx().clone();
        // The op that computes what the activation reads; the fused op takes its place.
        let last = add.map_or(matmul, |(add, _)| add);
        let pre = self.rewriter.result(last, 0);
        let ty = self.rewriter.ty(pre);
        let kind = layer
            .activation
            .and_then(|op| activation(self.rewriter.module(), op))
            .unwrap_or("none");
        let mut operands: Vec<_> = self.rewriter.operands(matmul).collect();
        operands.extend(add.map(|(_, bias)| bias));
        let read_otherwise = self
            .rewriter
            .uses(pre)
            .any(|u| Some(u.op) != layer.activation);
        let product = self.rewriter.result(matmul, 0);
        let shape_read = add.is_some() && self.rewriter.uses(product).any(|u| u.op != last);
        let aux = layer.activation.is_some() && (read_otherwise || shape_read);
        let results = [ty, ty];
        let attrs = self.attrs(matmul, &[("activation", cx.string(kind))]);
        let loc = self.rewriter.loc(matmul);
        let op = self.rewriter.before(last).build(
            "dist.fused_linear",
            loc,
            &operands,
            &results[..1 + usize::from(aux)],
            &attrs,
        );
        self.order.put(op, last);
        let out = self.rewriter.result(op, 0);
        match layer.activation {
            Some(activation) => {
                self.rewriter.replace(activation, &[out]);
                if aux {
                    let aux = self.rewriter.result(op, 1);
                    self.rewriter.replace_uses(pre, aux);
                }
            }
            None => self.rewriter.replace_uses(pre, out),
        }
        if let Some((add, _)) = add {
            // What is left reads the product for its shape only.
            let shape = if aux {
                self.rewriter.result(op, 1)
            } else {
                out
            };
            self.rewriter.erase(add);
            self.rewriter.replace_uses(product, shape);
        }
        self.rewriter.erase(matmul);
        self.fused(op, || {
            let bias = if add.is_some() { ", bias" } else { "" };
            let act = if kind == "none" {
                String::new()
            } else {
                format!(", {kind}")
            };
            let keeps = if aux {
                ", keeping the pre-activation"
            } else {
                ""
            };
            format!("matmul{bias}{act}{keeps}")
        });
    }
}
