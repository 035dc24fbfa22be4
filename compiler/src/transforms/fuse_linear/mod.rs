//! `fuse-linear`: makes one op, and so one kernel, of a matrix product, its bias and its activation, forward and backward.
//!
//! ```text
//! %0 = dist.matmul %x, %w
//! %1 = dist.add %0, %b                      ──▶   %2, %1 = dist.fused_linear gelu %x, %w, %b
//! %2 = dist.gelu %1
//!
//! %3, %4 = dist.add_grad %0, %b, %dout
//! %5, %6 = dist.matmul_grad %x, %w, %3      ──▶   %7, %6, %4 = dist.fused_linear_grad gelu %x, %w, %dout, %pre
//! %7 = dist.gelu_grad %pre, %5
//! ```
//!
//! A gradient of the weight that is only added to a global, as micro-batches do, is added by the fused op; see `accumulate`.
//!
//! The pre-activation stays available as the fused op's second result, `aux`, where anything but the activation reads it. The
//! backward op multiplies by the derivative of the activation *before* the layer, because that is what stands next to its dX.
//! This is Paddle's `fused_gemm_epilogue` pass, found along definitions and uses.

mod accumulate;
mod backward;
mod forward;

use raddle_dialect::ir::{Attr, BlockId, Module, OpId, Rewriter, ValueId};

use self::accumulate::Accesses;
use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "fuse-linear",
    summary: "make one op of a matrix product, its bias and its activation",
    description: "matmul + add of a rank-1 bias (+ gelu, relu or silu) becomes fused_linear; matmul_grad with the gradient of the bias \
                  (add_grad or reduce_sum), the gradient of the activation of the layer before, and the accumulation of dW \
                  becomes fused_linear_grad. The weight has rank 2, the product is read by nothing \
                  but the add. Run promote-linear first: a bias added after a reduction cannot be fused.",
    anchor: Anchor::Any,
    options: &[],
    build: |_| Box::new(FuseLinear),
};

struct FuseLinear;

impl Pass for FuseLinear {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let ops: Vec<_> = module.walk(target).skip(1).collect();
        let order = Order::new(module, &ops);
        let accesses = Accesses::new(module, &ops, &order);
        let mut fuser = Fuser {
            rewriter: Rewriter::new(module),
            order,
            accesses,
            cx,
        };
        for &op in &ops {
            if !fuser.rewriter.is_erased(op) && fuser.rewriter.is(op, "dist.matmul") {
                fuser.forward(op);
            }
        }
        for &op in &ops {
            if !fuser.rewriter.is_erased(op) && fuser.rewriter.is(op, "dist.matmul_grad") {
                fuser.backward(op);
            }
        }
        Ok(())
    }
}

struct Fuser<'a, 'm, 'c> {
    rewriter: Rewriter<'m>,
    order: Order,
    accesses: Accesses,
    cx: &'a mut PassCx<'c>,
}

impl Fuser<'_, '_, '_> {
    fn fused(&mut self, op: OpId, what: impl FnOnce() -> String) {
        let loc = self.rewriter.loc(op);
        self.cx
            .remark("R0711", loc, || format!("fused: {}", what()));
    }

    fn declined(&mut self, op: OpId, reason: impl FnOnce() -> String) {
        let loc = self.rewriter.loc(op);
        self.cx
            .remark("R0712", loc, || format!("not fused: {}", reason()));
    }

    /// Attributes of a fused op: its own, and role and stage of the product that it contains.
    fn attrs<'n>(&self, from: OpId, own: &[(&'n str, Attr)]) -> Vec<(&'n str, Attr)> {
        let mut attrs = self.labels(from, own);
        for name in ["transpose_a", "transpose_b"] {
            attrs.extend(self.rewriter.attr(from, name).map(|value| (name, value)));
        }
        attrs
    }

    /// Attributes of a new op: its own, and role, stage and part of an op that it stands for.
    fn labels<'n>(&self, from: OpId, own: &[(&'n str, Attr)]) -> Vec<(&'n str, Attr)> {
        let mut attrs = own.to_vec();
        for name in ["dist.role", "dist.stage", "dist.part"] {
            attrs.extend(self.rewriter.attr(from, name).map(|value| (name, value)));
        }
        attrs
    }

    fn rank(&self, value: ValueId) -> Option<usize> {
        let tensor = self.rewriter.cx().as_tensor(self.rewriter.ty(value));
        tensor.map(|(shape, _)| shape.len())
    }

    /// Whether a value can be read right before `op`.
    fn is_available(&self, value: ValueId, op: OpId) -> bool {
        match self.rewriter.defining_op(value) {
            None => true,
            Some(def) => {
                let block = self.rewriter.parent_block(def);
                // Around the block is always before it; within, the text decides.
                block != self.rewriter.parent_block(op) || self.order.precedes(def, op)
            }
        }
    }
}

/// `gelu`, `gelu_tanh`, `relu`, `silu`: what an activation op, or its gradient, is called in a fused op.
fn activation(module: &Module, op: OpId) -> Option<&'static str> {
    match module.name_str(op) {
        "dist.gelu" | "dist.gelu_grad" => match module.bool_attr(op, "approximate") {
            Some(true) => Some("gelu_tanh"),
            _ => Some("gelu"),
        },
        "dist.relu" | "dist.relu_grad" => Some("relu"),
        "dist.silu" | "dist.silu_grad" => Some("silu"),
        _ => None,
    }
}

/// The order of ops before anything changed; fused ops stand where their last part stood.
struct Order {
    places: Vec<u32>,
}

impl Order {
    fn new(module: &Module, ops: &[OpId]) -> Self {
        let mut places = vec![0; module.op_capacity()];
        for (place, op) in ops.iter().enumerate() {
            places[op.index()] = place as u32;
        }
        Self { places }
    }

    fn precedes(&self, a: OpId, b: OpId) -> bool {
        self.places[a.index()] < self.places[b.index()]
    }

    /// `new` stands where `old` stood.
    fn put(&mut self, new: OpId, old: OpId) {
        if self.places.len() <= new.index() {
            self.places.resize(new.index() + 1, 0);
        }
        self.places[new.index()] = self.places[old.index()];
    }
}

/// Blocks must agree: a fused op stands in one place.
fn same_block(module: &Module, ops: &[OpId]) -> Option<BlockId> {
    let block = module.parent_block(*ops.first()?)?;
    ops.iter()
        .all(|&op| module.parent_block(op) == Some(block))
        .then_some(block)
}
