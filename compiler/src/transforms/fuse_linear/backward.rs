//! Backward: dX with the derivative of the activation before the layer, dW and its accumulation, and dBias.

use raddle_dialect::ir::{OpId, Type, ValueId};

use super::accumulate::Sum;
use super::{Fuser, activation, same_block};

/// What becomes one op.
struct Layer {
    matmul_grad: OpId,
    bias: Option<Bias>,
    dout: ValueId,
    /// The gradient of the activation that made x.
    activation: Option<OpId>,
    /// Where dW is added.
    sum: Option<Sum>,
    /// Where the fused op goes.
    at: OpId,
}

/// The gradient of the bias.
#[derive(Clone, Copy)]
struct Bias {
    /// The `dist.add_grad` of the product's add, or the `dist.reduce_sum` of what comes in.
    op: OpId,
    /// The gradient, where it is computed.
    gradient: Option<ValueId>,
    /// Where it is added.
    sum: Option<Sum>,
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

    /// `None` where there is nothing to fuse. What does not fit is left out, with a remark.
    fn grad_layer(&mut self, matmul_grad: OpId) -> Result<Option<Layer>, String> {
        let module = self.rewriter.module();
        let mut layer = Layer {
            matmul_grad,
            bias: None,
            dout: module.operand(matmul_grad, 2),
            activation: None,
            sum: None,
            at: matmul_grad,
        };
        self.find_bias(&mut layer);
        let activation = self.find_activation(&mut layer);
        let dw = module.result_in(matmul_grad, "db");
        let sum = dw.map_or(Ok(None), |dw| self.sum_of("dW", dw));
        if layer.bias.is_none() && layer.activation.is_none() && matches!(sum, Ok(None)) {
            return activation.map(|()| None);
        }
        if self.rank(module.operand(matmul_grad, 1)) != Some(2) {
            return Err("the weight does not have rank 2".into());
        }
        if let Some(bias) = layer.bias {
            layer.at = self.place(&layer, &bias)?;
        }
        let sum = sum.and_then(|sum| match sum {
            Some(sum) => self.can_add("dW", &sum, layer.at).map(|()| Some(sum)),
            None => Ok(None),
        });
        let of_bias = layer.bias.and_then(|bias| bias.gradient);
        let of_bias = of_bias.map_or(Ok(None), |db| self.sum_of("dBias", db));
        let declined = [
            activation.err(),
            sum.as_ref().err().cloned(),
            of_bias.as_ref().err().cloned(),
        ];
        for reason in declined.into_iter().flatten() {
            self.declined(matmul_grad, || reason);
        }
        layer.sum = sum.unwrap_or_default();
        if let Some(bias) = &mut layer.bias {
            bias.sum = of_bias.unwrap_or_default();
        }
        let alone = layer.bias.is_none() && layer.activation.is_none() && layer.sum.is_none();
        Ok((!alone).then_some(layer))
    }

    /// The add_grad whose gradient of the product the matmul_grad reads, if the bias has rank 1; or else the sum over all
    /// dimensions but the last of the gradient that comes in.
    fn find_bias(&self, layer: &mut Layer) {
        let module = self.rewriter.module();
        let found = module.defining_op(layer.dout);
        let Some(add_grad) = found.filter(|&op| module.is(op, "dist.add_grad")) else {
            layer.bias = self.summed(layer);
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
        layer.bias = Some(Bias {
            op: add_grad,
            gradient: module.result_in(add_grad, ["db", "da"][product]),
            sum: None,
        });
        layer.dout = incoming;
    }

    fn summed(&self, layer: &Layer) -> Option<Bias> {
        let module = self.rewriter.module();
        let rank = self.rank(layer.dout)? as i64;
        let sums = |op: &OpId| {
            let dims = module.attr(*op, "dims");
            let dims = dims.and_then(|a| module.cx().as_i64_array(a));
            module.is(*op, "dist.reduce_sum")
                && module.bool_attr(*op, "keep_dims") == Some(false)
                && dims.is_some_and(|dims| dims.iter().copied().eq(0..rank - 1))
                && same_block(module, &[*op, layer.matmul_grad]).is_some()
        };
        let readers = module.uses(layer.dout).map(|u| u.op).filter(sums);
        let op = readers.min_by_key(|op| self.order.places[op.index()])?;
        Some(Bias {
            op,
            gradient: Some(module.result(op, 0)),
            sum: None,
        })
    }

    /// The gradient of the activation, if it is the only reader of dX.
    ///
    /// # Errors
    /// If there is one, but it cannot be taken in.
    fn find_activation(&self, layer: &mut Layer) -> Result<(), String> {
        let module = self.rewriter.module();
        let Some(dx) = module.result_in(layer.matmul_grad, "da") else {
            return Ok(());
        };
        let gradient = |u: &raddle_dialect::ir::Use| {
            let name = module.name_str(u.op);
            activation(module, u.op).is_some() && name.ends_with("_grad") && u.index == 1
        };
        let Some(user) = module.uses(dx).find(gradient) else {
            return Ok(());
        };
        let name = module.name_str(user.op);
        if module.single_use(dx).is_none() {
            return Err(format!("dX is read by other ops than one '{name}'"));
        }
        if same_block(module, &[layer.matmul_grad, user.op]).is_none() {
            return Err(format!("the '{name}' of dX lies in another block"));
        }
        if !self.is_available(module.operand(user.op, 0), layer.matmul_grad) {
            return Err(format!(
                "what the '{name}' of dX reads besides is computed only after dX"
            ));
        }
        layer.activation = Some(user.op);
        Ok(())
    }

    /// Where the fused op can stand: where the bias gradient was computed if all it reads is there, else at the matmul_grad if
    /// nothing reads the bias gradient before.
    fn place(&self, layer: &Layer, bias: &Bias) -> Result<OpId, String> {
        let module = self.rewriter.module();
        let mut operands = vec![
            module.operand(layer.matmul_grad, 0),
            module.operand(layer.matmul_grad, 1),
        ];
        operands.extend(layer.activation.map(|op| module.operand(op, 0)));
        let first = match self.order.precedes(bias.op, layer.matmul_grad) {
            true => bias.op,
            false => layer.matmul_grad,
        };
        if operands.iter().all(|&v| self.is_available(v, first)) {
            return Ok(first);
        }
        let mut readers = bias.gradient.into_iter().flat_map(|b| module.uses(b));
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
        let acc = layer.sum.map(|sum| self.load_sum(&sum, layer.at));
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
        let (dw, db) = (
            module.result_in(old, "db"),
            layer.bias.and_then(|b| b.gradient),
        );
        let of_bias = layer.bias.and_then(|b| b.sum);
        // What is added to a global comes in the global's element type.
        let ty =
            |value: ValueId, sum: Option<Sum>| -> Type { sum.map_or(module.ty(value), |s| s.ty) };
        let outputs = [
            dx.map(|v| (v, ty(v, None))),
            dw.map(|v| (v, ty(v, layer.sum))),
            db.map(|v| (v, ty(v, of_bias))),
        ];
        let mut operands = vec![module.operand(old, 0), module.operand(old, 1), layer.dout];
        operands.extend(aux);
        operands.extend(acc.flatten());
        let present: Vec<_> = outputs.iter().flatten().copied().collect();
        let results: Vec<_> = present.iter().map(|p| p.1).collect();
        let results_there = outputs.map(|o| i32::from(o.is_some()));
        let operands_there = [
            1,
            1,
            1,
            aux.is_some().into(),
            acc.flatten().is_some().into(),
        ];
        let attrs = self.attrs(
            old,
            &[
                ("activation", cx.string(kind)),
                ("overwrite", cx.bool_attr(acc == Some(None))),
                ("operandSegmentSizes", cx.i32_array(&operands_there)),
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
        for (index, &(value, _)) in present.iter().enumerate() {
            let new = self.rewriter.result(op, index);
            match (layer.sum, of_bias) {
                (Some(sum), _) if Some(value) == dw => self.store_sum(&sum, new, layer.at),
                (_, Some(sum)) if Some(value) == db => self.add_directly(&sum, new),
                _ => self.rewriter.replace_uses(value, new),
            }
        }
        if let Some(activation) = layer.activation {
            self.rewriter.erase(activation);
        }
        let product = self.rewriter.operand(old, 2);
        self.rewriter.erase(old);
        if let Some(bias) = layer.bias {
            if product != layer.dout {
                self.rewriter.replace_uses(product, layer.dout);
            }
            self.rewriter.erase(bias.op);
        }
        self.fused(op, || {
            let act = if kind == "none" {
                String::new()
            } else {
                format!(", {kind}_grad")
            };
            let bias = match layer.bias {
                Some(_) => "bias gradient, ",
                None => "",
            };
            let adds = match acc {
                None => "",
                Some(None) => ", overwriting the sum",
                Some(Some(_)) => ", accumulation",
            };
            format!("{bias}matmul_grad{act}{adds}")
        });
    }
}
