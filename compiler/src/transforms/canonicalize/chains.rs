//! Two ops of one kind in a row that are one.

use raddle_dialect::ir::{OpId, Rewriter, ValueId};

use crate::pass::Pattern;

/// `reshape(reshape(x))` is `reshape(x)`.
pub struct Reshapes;

impl Pattern for Reshapes {
    fn roots(&self) -> &'static [&'static str] {
        &["dist.reshape"]
    }

    fn rewrite(&self, op: OpId, rewriter: &mut Rewriter) -> bool {
        let Some((_, source)) = before(rewriter, op) else {
            return false;
        };
        rewriter.set_operand(op, 0, source);
        true
    }
}

/// `transpose(transpose(x))` is one transpose.
pub struct Transposes;

impl Pattern for Transposes {
    fn roots(&self) -> &'static [&'static str] {
        &["dist.transpose"]
    }

    fn rewrite(&self, op: OpId, rewriter: &mut Rewriter) -> bool {
        let Some((inner, source)) = before(rewriter, op) else {
            return false;
        };
        let perm = |op| {
            let perm = rewriter.attr(op, "perm");
            perm.and_then(|a| rewriter.cx().as_i64_array(a))
        };
        let (Some(inner), Some(outer)) = (perm(inner), perm(op)) else {
            return false;
        };
        let through = |&i: &i64| usize::try_from(i).ok().and_then(|i| inner.get(i).copied());
        let Some(both) = outer.iter().map(through).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let both = rewriter.context().i64_array(&both);
        rewriter.set_operand(op, 0, source);
        rewriter.set_attr(op, "perm", Some(both));
        true
    }
}

/// `scale(scale(x))` is one scale, if neither adds anything and both factors are powers of two, so that nothing rounds
/// differently (but for results near the ends of the number range).
pub struct Scales;

impl Pattern for Scales {
    fn roots(&self) -> &'static [&'static str] {
        &["dist.scale"]
    }

    fn rewrite(&self, op: OpId, rewriter: &mut Rewriter) -> bool {
        let Some((inner, source)) = before(rewriter, op) else {
            return false;
        };
        let factor = |op| {
            let plain = rewriter.f64_attr(op, "bias") == Some(0.0);
            rewriter
                .f64_attr(op, "scale")
                .filter(|f| plain && is_power_of_two(*f))
        };
        let product = match (factor(inner), factor(op)) {
            (Some(a), Some(b)) => a * b,
            _ => return false,
        };
        if !is_power_of_two(product) {
            return false;
        }
        let product = rewriter.context().f64_attr(product);
        rewriter.set_operand(op, 0, source);
        rewriter.set_attr(op, "scale", Some(product));
        true
    }
}

fn is_power_of_two(factor: f64) -> bool {
    const MANTISSA: u64 = (1 << 52) - 1;
    factor.is_normal() && factor.to_bits() & MANTISSA == 0
}

/// The op of the same name that defines the operand, and its operand.
fn before(rewriter: &Rewriter, op: OpId) -> Option<(OpId, ValueId)> {
    let inner = rewriter.defining_op(rewriter.operand(op, 0))?;
    let same = rewriter.name(inner) == rewriter.name(op) && inner != op;
    same.then(|| (inner, rewriter.operand(inner, 0)))
}
