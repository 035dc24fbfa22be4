//! Backward: dX with the derivative of the activation before the layer, dW and dBias.

use raddle_dialect::ir::{OpId, ValueId};

use super::{Fuser, activation, same_block};

/// What becomes one op.
struct Layer {
    matmul_grad: OpId,
    /// The gradient of the product's add.
    add_grad: Option<OpId>,
    /// The gradient of the bias, where the add's gradient computes it.
    bias: Option<ValueId>,
    dout: ValueId,
    /// The gradient of the activation that made x.
    activation: Option<OpId>,
    /// Where the fused op goes.
    at: OpId,
}

impl Fuser<'_, '_, '_> {
    /// Fuses the gradients of the layer that a product's gradient belongs to.
    pub(super) fn backward(&mut self, matmul_grad: OpId) {
        match self.grad_layer(matmul_grad) {
            Ok(Some(layer)) => self.fuse_grad(&layer),
            Ok(None) => {}
            Err(reason) => self.declined(matmul_grad, || reason),
        }
    }

    /// `None` where there is nothing to fuse.
    fn grad_layer(&self, matmul_grad: OpId) -> Result<Option<Layer>, String> {
        let module = self.rewriter.module();
        let mut layer = Layer {
            matmul_grad,
            add_grad: None,
            bias: None,
            dout: module.operand(matmul_grad, 2),
            activation: None,
            at: matmul_grad,
        };
        self.find_bias(&mut layer);
        self.find_activation(&mut layer);
        if layer.add_grad.is_none() && layer.activation.is_none() {
            return Ok(None);
        }
        if self.rank(module.operand(matmul_grad, 1)) != Some(2) {
            return Err("the weight does not have rank 2".into());
        }
        if let Some(add_grad) = layer.add_grad {
            layer.at = self.place(&layer, add_grad)?;
        }
        Ok(Some(layer))
    }

    /// The add_grad whose gradient of the product the matmul_grad reads, if the bias has rank 1.
    fn find_bias(&self, layer: &mut Layer) {
        let module = self.rewriter.module();
        let found = module.defining_op(layer.dout);
        let Some(add_grad) = found.filter(|&op| module.is(op, "dist.add_grad")) else {
            return;
        };
        let product = usize::from(module.result_in(add_grad, "db") == Some(layer.dout));
        let (bias, incoming) = (
            module.operand(add_grad, 1 - product),
            module.operand(add_grad, 2),
        );
        let last = |value| {
            let tensor = module.cx().as_tensor(module.ty(value));
            tensor.and_then(|(shape, _)| shape.last().copied())
        };
        if self.rank(bias) != Some(1)
            || last(bias) != last(incoming)
            || module.ty(incoming) != module.ty(layer.dout)
            || same_block(module, &[add_grad, layer.matmul_grad]).is_none()
        {
            return;
        }
        layer.add_grad = Some(add_grad);
        layer.bias = module.result_in(add_grad, ["db", "da"][product]);
        layer.dout = incoming;
    }

    /// The gradient of the activation, if it is the only reader of dX.
    fn find_activation(&self, layer: &mut Layer) {
        let module = self.rewriter.module();
        let dx = module.result_in(layer.matmul_grad, "da");
        let Some(user) = dx.and_then(|dx| module.single_use(dx)) else {
            return;
        };
        let name = module.name_str(user.op);
        let gradient = activation(module, user.op).is_some() && name.ends_with("_grad");
        let together = same_block(module, &[layer.matmul_grad, user.op]).is_some();
        let aux = module.operand(user.op, 0);
        if gradient && together && user.index == 1 && self.is_available(aux, layer.matmul_grad) {
            layer.activation = Some(user.op);
        }
    }

    /// Where the fused op can stand: at the add_grad if all it reads is there, else at the matmul_grad if nothing reads the bias
    /// gradient before.
    fn place(&self, layer: &Layer, add_grad: OpId) -> Result<OpId, String> {
        let module = self.rewriter.module();
        let mut operands = vec![
            module.operand(layer.matmul_grad, 0),
            module.operand(layer.matmul_grad, 1),
        ];
        operands.extend(layer.activation.map(|op| module.operand(op, 0)));
        if operands.iter().all(|&v| self.is_available(v, add_grad)) {
            return Ok(add_grad);
        }
        let mut readers = layer.bias.into_iter().flat_map(|b| module.uses(b));
        let after = |op| {
            same_block(module, &[op, layer.matmul_grad]).is_some()
                && self.order.precedes(layer.matmul_grad, op)
        };
        if readers.all(|u| after(u.op)) {
            return Ok(layer.matmul_grad);
        }
        Err("the bias gradient is read before the operands of the matmul_grad are computed".into())
    }

    fn fuse_grad(&mut self, layer: &Layer) {
        let cx = self.rewriter.cx().clone();
        let old = layer.matmul_grad;
        let module = self.rewriter.module();
        let kind = layer
            .activation
            .and_then(|op| activation(module, op))
            .unwrap_or("none");
        let aux = layer.activation.map(|op| module.operand(op, 0));
        let dx = match layer.activation {
            Some(op) => Some(module.result(op, 0)),
            None => module.result_in(old, "da"),
        };
        let outputs = [dx, module.result_in(old, "db"), layer.bias];
        let mut operands = vec![module.operand(old, 0), module.operand(old, 1), layer.dout];
        operands.extend(aux);
        let present: Vec<_> = outputs.iter().flatten().copied().collect();
        let results: Vec<_> = present.iter().map(|&v| module.ty(v)).collect();
        let results_there = outputs.map(|o| i32::from(o.is_some()));
        let attrs = self.attrs(
            old,
            &[
                ("activation", cx.string(kind)),
                ("overwrite", cx.bool_attr(false)),
                (
                    "operandSegmentSizes",
                    cx.i32_array(&[1, 1, 1, i32::from(aux.is_some()), 0]),
                ),
                ("resultSegmentSizes", cx.i32_array(&results_there)),
            ],
        );
        let loc = self.rewriter.loc(old);
        let name = "dist.fused_linear_grad";
        let op = self
            .rewriter
            .before(layer.at)
            .build(name, loc, &operands, &results, &attrs);
        self.order.put(op, layer.at);
        for (index, &value) in present.iter().enumerate() {
            let new = self.rewriter.result(op, index);
            self.rewriter.replace_uses(value, new);
        }
        if let Some(activation) = layer.activation {
            self.rewriter.erase(activation);
        }
        let product = self.rewriter.operand(old, 2);
        self.rewriter.erase(old);
        if let Some(add_grad) = layer.add_grad {
            self.rewriter.replace_uses(product, layer.dout);
            self.rewriter.erase(add_grad);
        }
        self.fused(op, || {
            let act = if kind == "none" {
                String::new()
            } else {
                format!(", {kind}_grad")
            };
            let bias = if layer.add_grad.is_some() {
                "add_grad, "
            } else {
                ""
            };
            format!("{bias}matmul_grad{act}")
        });
    }
}
