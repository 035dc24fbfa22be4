//! What an op costs: arithmetic, memory traffic, traffic between ranks, and the time that these take on a machine.
//!
//! Counts are of one rank. Products count two flops a multiplication and addition; everything else is bound by memory and counts one
//! flop an element. Times are the roofline's (Williams, Waterman and Patterson, *Roofline*, 2009): the longer of arithmetic and traffic.

use raddle_dialect::TensorType;
use raddle_dialect::ir::{Module, OpId, ValueId};
use raddle_dialect::ops::Effects;

use super::memory::value_bytes;

/// What an op does.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes read from and written to memory.
    pub bytes: f64,
    /// Bytes that leave the rank for others of its group.
    pub sent_bytes: f64,
}

impl Cost {
    /// The cost of an op; nothing for those that only name things.
    pub fn of(module: &Module, op: OpId) -> Self {
        let effects = module.def_of(op).map_or(Effects::Opaque, |d| d.effects);
        if matches!(effects, Effects::Opaque | Effects::Reads | Effects::Writes) {
            return Self::default();
        }
        let operands: Vec<_> = module.operands(op).collect();
        let results: Vec<_> = module.results(op).collect();
        let traffic = |values: &[ValueId]| values.iter().map(|&v| bytes(module, v)).sum::<f64>();
        let name = module.name_str(op);
        let moved = match name {
            // Only the rows that are looked up are read.
            "dist.embedding" => 2.0 * traffic(&results),
            "dist.embedding_grad" => traffic(&results) + traffic(&operands[1..]),
            _ => traffic(&operands) + traffic(&results),
        };
        // Without axes a rank is alone.
        let alone = module.attr(op, "axes").is_some() && module.axes_attr(op, "axes").is_empty();
        let sent = match (effects, name) {
            (Effects::Communicates, _) if alone => 0.0,
            // The largest logit, the sum and the label's logit of each row.
            (_, "dist.softmax_cross_entropy") => 3.0 * traffic(&results[..1]),
            (Effects::Communicates, _) => traffic(&operands),
            _ => 0.0,
        };
        Self {
            flops: flops(module, op, name, (&operands, &results)),
            bytes: moved,
            sent_bytes: sent,
        }
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.flops += other.flops;
        self.bytes += other.bytes;
        self.sent_bytes += other.sent_bytes;
    }
}

/// How fast a rank is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Flops a microsecond.
    pub flops_per_us: f64,
    /// Bytes of memory traffic a microsecond.
    pub bytes_per_us: f64,
    /// Bytes to the ranks of a group, as in a collective, a microsecond.
    pub group_bytes_per_us: f64,
    /// Bytes to a rank of another stage a microsecond.
    pub stage_bytes_per_us: f64,
}

impl Default for Rates {
    /// A GPU of the Hopper generation: 600 TFLOP/s in bf16 products, 3 TB/s of memory, 450 GB/s within a node, 50 GB/s to another.
    fn default() -> Self {
        Self {
            flops_per_us: 6e8,
            bytes_per_us: 3e6,
            group_bytes_per_us: 4.5e5,
            stage_bytes_per_us: 5e4,
        }
    }
}

impl Rates {
    /// Time of an op in microseconds.
    pub fn time_us(&self, cost: Cost) -> f64 {
        let computing = cost.flops / self.flops_per_us;
        let moving = cost.bytes / self.bytes_per_us;
        computing.max(moving) + cost.sent_bytes / self.group_bytes_per_us
    }

    /// Time to send so many bytes to another stage, in microseconds.
    pub fn transfer_us(&self, bytes: f64) -> f64 {
        bytes / self.stage_bytes_per_us
    }
}

/// Size of a value on one rank in bytes; nothing for one of unknown size.
pub fn bytes(module: &Module, value: ValueId) -> f64 {
    value_bytes(module, value) as f64
}

fn flops(
    module: &Module,
    op: OpId,
    name: &str,
    (operands, results): (&[ValueId], &[ValueId]),
) -> f64 {
    let elements = |v: ValueId| {
        let ty = TensorType::of(module.cx(), module.ty(v)).ok();
        ty.and_then(|ty| ty.elements()).unwrap_or(0) as f64
    };
    let extent = |v: ValueId, from_end: usize| {
        let tensor = module.cx().as_tensor(module.ty(v));
        let shape = tensor.map_or(&[][..], |t| t.0);
        let at = shape.len().checked_sub(from_end);
        at.and_then(|at| shape.get(at))
            .map_or(1.0, |&e| e.max(0) as f64)
    };
    // The contracted extent of a product: a's last dimension, or the one before if a is transposed.
    let contracted = || {
        let transposed = module.bool_attr(op, "transpose_a") == Some(true);
        extent(operands[0], if transposed { 2 } else { 1 })
    };
    match name {
        "dist.matmul" | "dist.fused_linear" if operands.len() > 1 && !results.is_empty() => {
            2.0 * elements(results[0]) * contracted()
        }
        "dist.matmul_grad" | "dist.fused_linear_grad" if operands.len() > 2 => {
            let one = 2.0 * elements(operands[2]) * contracted();
            let of_products = results.iter().filter(|&&r| {
                let rank = module.cx().as_tensor(module.ty(r)).map_or(0, |t| t.0.len());
                rank > 1
            });
            one * of_products.count() as f64
        }
        "dist.attention" | "dist.attention_grad" if operands.len() > 2 => {
            // Two products forward, five backward; half of them lie above the diagonal of a causal mask.
            let products = if name == "dist.attention" { 2.0 } else { 5.0 };
            let causal = module.bool_attr(op, "causal") == Some(true);
            let half = if causal { 0.5 } else { 1.0 };
            products * half * 2.0 * elements(operands[0]) * extent(operands[1], 2)
        }
        _ => operands
            .iter()
            .chain(results)
            .map(|&v| elements(v))
            .fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_dialect::diag::{Diagnostics, Source};
    use raddle_dialect::ir::Context;
    use raddle_dialect::syntax::{ParseOptions, parse};

    #[test]
    fn products_tables_and_collectives() {
        let text = "\
dist.mesh @mesh [\"mp\" = 2]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @f(%x: tensor<2x3x8xbf16>, %w: tensor<8x16xbf16>, %d: tensor<2x3x16xbf16>, %i: tensor<2x3xi64>, %t: tensor<100x8xf32>) {
    %0 = dist.matmul %x, %w : (tensor<2x3x8xbf16>, tensor<8x16xbf16>) -> tensor<2x3x16xbf16>
    %1, %2 = dist.matmul_grad %x, %w, %d : (tensor<2x3x8xbf16>, tensor<8x16xbf16>, tensor<2x3x16xbf16>) -> (tensor<2x3x8xbf16>, tensor<8x16xbf16>)
    %3 = dist.embedding %i, %t : (tensor<2x3xi64>, tensor<100x8xf32>) -> tensor<2x3x8xf32>
    %4 = dist.all_reduce sum %0 over [\"mp\"] : tensor<2x3x16xbf16>
    return
  }
}
";
        let cx = Context::new();
        let mut diagnostics = Diagnostics::new();
        let source = Source::new("cost.mlir", text.as_bytes());
        let module = parse(&cx, &source, ParseOptions::default(), &mut diagnostics);
        let module = module.expect("the text parses");
        let cost = |name: &str| {
            let op = module.walk(module.root()).find(|&op| module.is(op, name));
            Cost::of(&module, op.expect("the op"))
        };
        let product = 2.0 * (2 * 3 * 16 * 8) as f64;
        assert_eq!(cost("dist.matmul").flops, product);
        assert_eq!(cost("dist.matmul").bytes, 2.0 * (48 + 128 + 96) as f64);
        assert_eq!(cost("dist.matmul_grad").flops, 2.0 * product);
        assert_eq!(cost("dist.embedding").bytes, 2.0 * 4.0 * 48.0);
        assert_eq!(cost("dist.all_reduce").sent_bytes, 2.0 * 96.0);
        let rates = Rates::default();
        let alone = Cost {
            sent_bytes: 0.0,
            ..cost("dist.all_reduce")
        };
        let more = rates.time_us(cost("dist.all_reduce")) - rates.time_us(alone);
        assert!((more - 192.0 / rates.group_bytes_per_us).abs() < 1e-12);
    }
}
