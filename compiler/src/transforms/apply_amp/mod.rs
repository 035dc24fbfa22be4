//! `apply-amp`: lets a forward program compute in bf16 or f16.
//!
//! ```text
//! %w = dist.load @w : tensor<8x16xf32>                  %w = dist.load @w : tensor<8x16xf32>
//!                                                       %0 = dist.cast %x : … -> tensor<4x8xbf16>
//!                                            o1  ──▶    %1 = dist.cast %w : … -> tensor<8x16xbf16>
//! %0 = dist.matmul %x, %w : … -> tensor<4x16xf32>       %2 = dist.matmul %0, %1 : … -> tensor<4x16xbf16>
//!                                                       %3 = dist.cast %2 : … -> tensor<4x16xf32>
//! %1 = dist.reduce_mean %0                              %4 = dist.reduce_mean %3
//! ```
//!
//! Runs before `append-backward`, which differentiates the casts too. At levels o2 and o3 the parameters themselves are narrow; o2 asks
//! (`dist.master_weight`) for an f32 copy of each, which the optimizer updates. For f16, whose range gradients leave, the step asks for
//! loss scaling (`dist.loss_scaling`). The levels are those of NVIDIA's apex and of Paddle's amp (Micikevicius et al., 2018).

mod lists;
mod rewrite;

use raddle_dialect::DType;
use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Module, OpId, Rewriter};

use self::lists::Level;
use self::rewrite::Narrowing;
use crate::pass::{Anchor, Failed, OptionDef, OptionKind, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "apply-amp",
    summary: "let a forward program compute in bf16 or f16",
    description: "o1: products compute in the narrow type, what follows them too unless it needs precision, and casts stand between. o2: \
                  parameters are narrow, with f32 copies for the optimizer, and all ops but losses, normalisations and other reductions. \
                  o3: everything but the reduction to the loss is narrow. Inputs, results and stored values keep their types. Run it \
                  before append-backward; a step with a backward pass stays as it is.",
    anchor: Anchor::Top,
    options: &[
        OptionDef {
            name: "level",
            kind: OptionKind::Word(&["o1", "o2", "o3"]),
            default: "o1",
            doc: "how much is narrow",
        },
        OptionDef {
            name: "dtype",
            kind: OptionKind::Word(&["bf16", "f16"]),
            default: "bf16",
            doc: "the narrow type",
        },
        OptionDef {
            name: "loss-scaling",
            kind: OptionKind::Word(&["auto", "none", "static", "dynamic"]),
            default: "auto",
            doc: "what append-backward is asked for; auto: dynamic for f16, none for bf16",
        },
    ],
    build: |options| {
        let dtype = DType::parse(options.text("dtype")).unwrap_or(DType::BF16);
        Box::new(ApplyAmp {
            level: match options.text("level") {
                "o2" => Level::O2,
                "o3" => Level::O3,
                _ => Level::O1,
            },
            dtype,
            scaling: match (options.text("loss-scaling"), dtype) {
                ("auto", DType::F16) => Some("dynamic"),
                ("static", _) => Some("static"),
                ("dynamic", _) => Some("dynamic"),
                _ => None,
            },
        })
    },
};

struct ApplyAmp {
    level: Level,
    dtype: DType,
    scaling: Option<&'static str>,
}

impl Pass for ApplyAmp {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let classes: Vec<_> = module.members(target, "builtin.module").collect();
        let mut narrowed = false;
        for class in classes {
            narrowed |= self.class(module, class, cx)?;
        }
        if !narrowed {
            let loc = module.loc(target);
            cx.remark("R0735", loc, || {
                "no rank class has a forward step to narrow".into()
            });
        }
        Ok(())
    }
}

impl ApplyAmp {
    fn class(&self, module: &mut Module, class: OpId, cx: &mut PassCx) -> Result<bool, Failed> {
        let functions: Vec<_> = module.members(class, "func.func").collect();
        let kind = |op: OpId| module.str_attr(op, "dist.kind");
        let Some(&step) = functions.iter().find(|&&op| kind(op) == Some("step")) else {
            return Ok(false);
        };
        let trained = |op: &OpId| {
            matches!(
                module.str_attr(*op, "dist.role"),
                Some("backward" | "optimizer")
            )
        };
        if let Some(op) = module.walk(step).find(trained) {
            cx.remark("R0736", module.loc(op), || {
                "the step has a backward pass already; run apply-amp before append-backward".into()
            });
            return Ok(false);
        }
        let mut rewriter = Rewriter::new(module);
        let mut narrowing = Narrowing::new(&mut rewriter, class, self.level, self.dtype);
        let outcome = narrowing.run(step, &functions);
        if let Err((op, error)) = outcome {
            let message = format!("'{}' op {error}", rewriter.name_str(op));
            let mut diagnostic = Diagnostic::error(error.code(), rewriter.loc(op), message);
            diagnostic.help = error.help();
            cx.report(diagnostic);
            return Err(Failed);
        }
        if let Some(scaling) = self.scaling {
            let scaling = rewriter.cx().string(scaling);
            rewriter.set_attr(step, "dist.loss_scaling", Some(scaling));
        }
        Ok(true)
    }
}
