//! `split-backward`: says of every backward op whether the stage before waits for it (B) or only parameter gradients do (W).
//!
//! ```text
//! %da, %dw = dist.matmul_grad %x, %w, %d            %da = dist.matmul %d, %w {transpose_b, dist.part = "b"}
//! %dx = dist.gelu_grad %pre, %da            ──▶     %dx = dist.gelu_grad %pre, %da {dist.part = "b"}
//! dist.accumulate %dw, @w_grad                      %x1 = dist.reshape %x {dist.part = "w"}             // [batch·seq, k]
//!                                                   %d1 = dist.reshape %d {dist.part = "w"}             // [batch·seq, n]
//!                                                   %dw = dist.matmul %x1, %d1 {transpose_a, dist.part = "w"}
//!                                                   dist.accumulate %dw, @w_grad {dist.part = "w"}
//! ```
//!
//! This is what zero-bubble schedules need (Qi et al., *Zero Bubble Pipeline Parallelism*, 2023, §2): B's result can be sent as
//! soon as it is there, and W fills the gaps. Which op belongs where follows from what reads its results: first the seeds of B
//! (`sides`), then everything that they depend on. Ops whose results fall on both sides are taken apart (`apart`), and the
//! sides are found anew, so that what now only W needs goes there too. At last W is moved behind B (`order`).

mod apart;
mod contraction;
mod facts;
mod order;
mod sides;

use raddle_dialect::ir::{BlockId, Module, OpId, Rewriter};
use raddle_dialect::ops::Effects;

use self::facts::Facts;
use self::sides::{Side, Sides};
use super::dce::erase_dead_among;
use crate::pass::{Anchor, Failed, OptionDef, OptionKind, Pass, PassCx, PassDef};

/// The attribute that says on which side a backward op is.
pub const PART: &str = "dist.part";

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "split-backward",
    summary: "tell apart what the stage before waits for and what only parameter gradients need",
    description: "Labels every op in the role backward with dist.part = \"b\" or \"w\" and moves w behind b. Ops with results on \
                  both sides are taken apart; the gradient of a weight becomes one product over flattened batch dimensions. Run it \
                  after infer-stages, if at all, and before partition-stages.",
    anchor: Anchor::Any,
    options: &[OptionDef {
        name: "upstream",
        kind: OptionKind::Word(&["any", "sent"]),
        default: "any",
        doc: "which gradients of activations B is for: any of them, or only those that are sent to another stage, so that the first \
              stage has nothing but W",
    }],
    build: |options| {
        Box::new(SplitBackward {
            upstream: match options.text("upstream") {
                "sent" => Upstream::Sent,
                _ => Upstream::Any,
            },
        })
    },
};

/// Which gradients of activations count as what the stage before waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Upstream {
    Any,
    Sent,
}

struct SplitBackward {
    upstream: Upstream,
}

impl Pass for SplitBackward {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let functions: Vec<_> = module
            .walk(target)
            .filter(|&op| module.is(op, "func.func"))
            .collect();
        let mut found = false;
        for function in functions {
            let Some(block) = backward_block(module, function) else {
                continue;
            };
            found = true;
            self.function(module, function, block, cx)?;
        }
        if !found {
            let loc = module.loc(target);
            cx.remark("R0741", loc, || {
                "not split: no function holds ops in the role 'backward'".into()
            });
        }
        Ok(())
    }
}

impl SplitBackward {
    fn function(
        &self,
        module: &mut Module,
        function: OpId,
        block: BlockId,
        cx: &mut PassCx,
    ) -> Result<(), Failed> {
        let mut facts = Facts::of(module, function, block);
        let sides = Sides::of(module, block, &facts, self.upstream);
        let taken = apart::run(module, function, &sides, &mut facts, cx)?;
        let backward: Vec<_> = module
            .block_ops(block)
            .filter(|&op| is_backward(module, op))
            .collect();
        erase_dead_among(&mut Rewriter::new(module), backward);
        let sides = Sides::of(module, block, &facts, self.upstream);
        let mut rewriter = Rewriter::new(module);
        match order::run(&mut rewriter, block, &sides) {
            Ok(counts) => {
                let loc = rewriter.loc(function);
                cx.remark("R0741", loc, || {
                    format!(
                        "split: {} ops in B, {} in W; {taken} taken apart",
                        counts.b, counts.w
                    )
                });
                let whole: Vec<_> = sides.mixed().collect();
                for op in whole {
                    let loc = rewriter.loc(op);
                    let name = rewriter.name_str(op).to_owned();
                    cx.remark("R0742", loc, || {
                        format!("'{name}' stays whole, in B: it computes what W needs along with what B needs")
                    });
                }
            }
            Err(stuck) => {
                let (loc, what) = (rewriter.loc(stuck.op), stuck.reason);
                cx.remark("R0743", loc, || format!("not split: {what}"));
            }
        }
        Ok(())
    }
}

/// The single block of a function that has backward ops and is neither `init` nor `optimizer`.
fn backward_block(module: &Module, function: OpId) -> Option<BlockId> {
    if matches!(
        module.str_attr(function, "dist.kind"),
        Some("init" | "optimizer")
    ) {
        return None;
    }
    let &region = module.regions(function).first()?;
    let mut blocks = module.blocks(region);
    let (block, None) = (blocks.next()?, blocks.next()) else {
        return None;
    };
    let any = module.block_ops(block).any(|op| is_backward(module, op));
    any.then_some(block)
}

/// Whether an op takes part in the backward pass: by its role; or, of those without one, a write of what a backward op
/// computed.
fn is_backward(module: &Module, op: OpId) -> bool {
    match module.str_attr(op, "dist.role") {
        Some(role) => role == "backward",
        None => {
            writes(module, op)
                && module.operands(op).any(|value| {
                    module
                        .defining_op(value)
                        .is_some_and(|def| module.str_attr(def, "dist.role") == Some("backward"))
                })
        }
    }
}

/// Whether an op writes a global.
fn writes(module: &Module, op: OpId) -> bool {
    module
        .def_of(op)
        .is_some_and(|def| matches!(def.effects, Effects::Writes | Effects::Accumulates))
}

/// Whether an op is on this side.
fn is_on(sides: &Sides, op: OpId, side: Side) -> bool {
    sides.of_op(op) == Some(side)
}
