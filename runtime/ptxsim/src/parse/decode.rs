//! The name of an instruction to what it does.

use super::{cluster, strong, tcgen05, tensor_copy};
use crate::instruction::{
    Binary, Comparison, Conversion, Element, Kind, Operation, Space, Type, Unary,
};

/// What an instruction does; `None` if it is not modelled.
pub(super) fn operation(name: &str) -> Option<Operation> {
    let parts: Vec<&str> = name.split('.').collect();
    if let Some(operation) = asynchronous(&parts) {
        return Some(operation);
    }
    let elsewhere = strong::operation(&parts)
        .or_else(|| cluster::operation(&parts))
        .or_else(|| tensor_copy::operation(&parts));
    if elsewhere.is_some() {
        return elsewhere;
    }
    let last = Type::parse(parts.last()?);
    match parts.as_slice() {
        ["mov", _] => Some(Operation::Move(last?)),
        ["ld", rest @ .., _] => load(rest).map(|space| Some(Operation::Load(space, last?)))?,
        ["st", "global", _] | ["st", "global", "v2" | "v4", _] => {
            Some(Operation::Store(Space::Global, last?))
        }
        ["st", "shared" | "shared::cta", _] | ["st", "shared" | "shared::cta", "v2" | "v4", _] => {
            Some(Operation::Store(Space::Shared, last?))
        }
        ["st", "shared::cluster", _] | ["st", "shared::cluster", "v2" | "v4", _] => {
            Some(Operation::Store(Space::Cluster, last?))
        }
        ["st", _] | ["st", "v2" | "v4", _] => Some(Operation::Store(Space::Generic, last?)),
        // Addresses of shared memory are the same numbers in every space.
        ["cvta", "to", "global" | "shared" | "shared::cluster", "u64"]
        | ["cvta", "shared" | "shared::cluster" | "global", "u64"] => Some(Operation::Move(last?)),
        ["cvta", "param", "u64"] => Some(Operation::ParameterAddress),
        ["cvt", rest @ ..] => conversion(rest).map(Operation::Convert),
        ["setp", comparison, _] => {
            Some(Operation::Compare(comparison_of(comparison, last?)?, last?))
        }
        ["selp", _] => Some(Operation::Select(last?)),
        ["bfe", "u32" | "u64" | "s32" | "s64"] => Some(Operation::ExtractBits(last?)),
        ["mad", "lo", _] | ["fma", "rn", "f32"] => Some(Operation::MultiplyAdd(last?)),
        ["add", "rn", "f32", from @ ("f16" | "bf16")] => {
            Some(Operation::Mixed(Binary::Add, element(from)?))
        }
        ["sub", "rn", "f32", from @ ("f16" | "bf16")] => {
            Some(Operation::Mixed(Binary::Subtract, element(from)?))
        }
        ["fma", "rn", "f32", from @ ("f16" | "bf16")] => {
            Some(Operation::MixedMultiplyAdd(element(from)?))
        }
        ["shfl", "sync", "bfly", "b32"] => Some(Operation::Exchange),
        ["bra"] | ["bra", "uni"] => Some(Operation::Branch),
        ["ret"] | ["exit"] => Some(Operation::Return),
        ["elect", "sync"] => Some(Operation::Elect),
        ["tcgen05", rest @ ..] => tcgen05::operation(rest).map(Operation::TensorMemory),
        ["bar", "sync"] | ["barrier", "sync"] | ["barrier", "sync", "aligned"] => {
            Some(Operation::BlockBarrier)
        }
        ["bar", "arrive"] | ["barrier", "arrive"] | ["barrier", "arrive", "aligned"] => {
            Some(Operation::ArriveAtBarrier)
        }
        ["bar", "warp", "sync"] => Some(Operation::WarpBarrier),
        ["cp", "async", "ca" | "cg", "shared", "global"] => Some(Operation::CopyAsync),
        ["cp", "async", "commit_group"] => Some(Operation::CommitCopies),
        ["cp", "async", "wait_group"] => Some(Operation::WaitCopies),
        ["cp", "async", "wait_all"] => Some(Operation::WaitAllCopies),
        ["ldmatrix", "sync", "aligned", "m8n8", rest @ ..] => {
            let (count, transposed) = matrices(rest)?;
            Some(Operation::LoadMatrix { count, transposed })
        }
        ["stmatrix", "sync", "aligned", "m8n8", rest @ ..] => {
            let (count, transposed) = matrices(rest)?;
            Some(Operation::StoreMatrix { count, transposed })
        }
        [
            "mma",
            "sync",
            "aligned",
            "m16n8k16",
            "row",
            "col",
            "f32",
            a,
            b,
            "f32",
        ] if a == b => Some(Operation::MultiplyMatrix(element(a)?)),
        [
            "mma",
            "sync",
            "aligned",
            "m16n8k8",
            "row",
            "col",
            "f32",
            "tf32",
            "tf32",
            "f32",
        ] => Some(Operation::MultiplyTf32),
        _ => arithmetic(&parts, last?),
    }
}

/// What goes on beside the threads: barriers in shared memory, bulk copies, products of warpgroups.
fn asynchronous(parts: &[&str]) -> Option<Operation> {
    Some(match parts {
        ["prefetch", .., "tensormap"] => Operation::Hint,
        ["mbarrier", "init", "shared" | "shared::cta", "b64"] => Operation::InitialiseBarrier,
        ["mbarrier", "arrive", rest @ ..] => {
            let (operation, rest) = match rest {
                ["expect_tx", rest @ ..] => (Operation::Expect { arrives: true }, rest),
                rest => (Operation::Arrive, rest),
            };
            let rest = match rest {
                ["release", "cta" | "cluster", rest @ ..] => rest,
                rest => rest,
            };
            match rest {
                ["shared" | "shared::cta" | "shared::cluster", "b64"] => operation,
                _ => return None,
            }
        }
        [
            "mbarrier",
            "expect_tx",
            "relaxed",
            "cta",
            "shared" | "shared::cta",
            "b64",
        ] => Operation::Expect { arrives: false },
        [
            "mbarrier",
            "try_wait" | "test_wait",
            "parity",
            "shared" | "shared::cta",
            "b64",
        ]
        | [
            "mbarrier",
            "try_wait" | "test_wait",
            "parity",
            "acquire",
            "cta" | "cluster",
            "shared" | "shared::cta",
            "b64",
        ] => Operation::TryWait,
        ["fence", "mbarrier_init", "release", "cluster"] => Operation::FenceBarriers,
        ["fence", "proxy", "async"] | ["fence", "proxy", "async", "shared::cta"] => {
            Operation::FenceProxy
        }
        ["cp", "async", "bulk", "commit_group"] => Operation::CommitBulk,
        ["cp", "async", "bulk", "wait_group"] => Operation::WaitBulk { read: false },
        ["cp", "async", "bulk", "wait_group", "read"] => Operation::WaitBulk { read: true },
        ["wgmma", "fence", "sync", "aligned"] => Operation::FenceProducts,
        ["wgmma", "commit_group", "sync", "aligned"] => Operation::CommitProducts,
        ["wgmma", "wait_group", "sync", "aligned"] => Operation::WaitProducts,
        [
            "wgmma",
            "mma_async",
            "sync",
            "aligned",
            shape,
            "f32",
            left,
            right,
        ] if left == right => {
            let columns = shape.strip_prefix("m64n")?.strip_suffix("k16")?;
            let columns: u16 = columns.parse().ok()?;
            let exists = (8..=256).contains(&columns) && columns.is_multiple_of(8);
            exists.then_some(Operation::MultiplyGroup {
                element: element(left)?,
                columns,
            })?
        }
        [
            "setmaxnreg",
            direction @ ("inc" | "dec"),
            "sync",
            "aligned",
            "u32",
        ] => Operation::SetRegisters {
            increases: *direction == "inc",
        },
        _ => return None,
    })
}

fn load(rest: &[&str]) -> Option<Space> {
    match rest {
        ["param"] => Some(Space::Parameter),
        ["global"] | ["global", "nc"] | ["global", "v2" | "v4"] | ["global", "nc", "v2" | "v4"] => {
            Some(Space::Global)
        }
        ["shared" | "shared::cta"] | ["shared" | "shared::cta", "v2" | "v4"] => Some(Space::Shared),
        ["shared::cluster"] | ["shared::cluster", "v2" | "v4"] => Some(Space::Cluster),
        [] | ["v2" | "v4"] => Some(Space::Generic),
        _ => None,
    }
}

/// How many matrices, and whether they are transposed.
fn matrices(rest: &[&str]) -> Option<(u8, bool)> {
    let (count, rest) = rest.split_first()?;
    let count = match *count {
        "x1" => 1,
        "x2" => 2,
        "x4" => 4,
        _ => return None,
    };
    match rest {
        ["shared" | "shared::cta", "b16"] => Some((count, false)),
        ["trans", "shared" | "shared::cta", "b16"] => Some((count, true)),
        _ => None,
    }
}

fn conversion(rest: &[&str]) -> Option<Conversion> {
    match rest {
        ["rn", "bf16x2", "f32"] => Some(Conversion::NarrowPair(Element::Bf16)),
        ["rn", "f16x2", "f32"] => Some(Conversion::NarrowPair(Element::F16)),
        ["rna", "tf32", "f32"] => Some(Conversion::RoundToTf32),
        ["rn", to, "f32"] => Some(Conversion::Narrow(element(to)?)),
        ["f32", from @ ("f16" | "bf16")] => Some(Conversion::Widen(element(from)?)),
        [to, from] => {
            let (to, from) = (Type::parse(to)?, Type::parse(from)?);
            let integers = to.kind != Kind::Float && from.kind != Kind::Float;
            integers.then_some(Conversion::Integer { to, from })
        }
        _ => None,
    }
}

fn element(name: &str) -> Option<Element> {
    match name {
        "f16" => Some(Element::F16),
        "bf16" => Some(Element::Bf16),
        _ => None,
    }
}

fn comparison_of(name: &str, of: Type) -> Option<Comparison> {
    if of.kind == Kind::Float && of.bits == 64 {
        return None;
    }
    // The unsigned names; floats have others that also hold for NaN, which are not modelled.
    let is_unsigned = of.kind == Kind::Unsigned;
    Some(match name {
        "eq" => Comparison::Equal,
        "ne" => Comparison::NotEqual,
        "lt" => Comparison::Less,
        "le" => Comparison::LessEqual,
        "gt" => Comparison::Greater,
        "ge" => Comparison::GreaterEqual,
        "lo" if is_unsigned => Comparison::Less,
        "ls" if is_unsigned => Comparison::LessEqual,
        "hi" if is_unsigned => Comparison::Greater,
        "hs" if is_unsigned => Comparison::GreaterEqual,
        _ => return None,
    })
}

fn arithmetic(parts: &[&str], of: Type) -> Option<Operation> {
    let is_float = of.kind == Kind::Float;
    if is_float && of.bits != 32 {
        return None;
    }
    let unary = match parts {
        ["neg", _] => Some(Unary::Negate),
        ["not", _] if !is_float => Some(Unary::Not),
        ["abs", "f32"] => Some(Unary::Absolute),
        ["ex2", "approx", "ftz", "f32"] => Some(Unary::PowerOfTwo),
        ["rcp", "approx", "ftz", "f32"] => Some(Unary::Reciprocal),
        ["tanh", "approx", "f32"] => Some(Unary::HyperbolicTangent),
        _ => None,
    };
    if let Some(unary) = unary {
        return Some(Operation::Unary(unary, of));
    }
    let binary = match parts {
        ["add", "rn", "f32"] | ["add", _] => Binary::Add,
        ["sub", "rn", "f32"] | ["sub", _] => Binary::Subtract,
        ["mul", "rn", "f32"] => Binary::Multiply,
        ["mul", "lo", _] if !is_float => Binary::Multiply,
        ["mul", "hi", _] if !is_float => Binary::MultiplyHigh,
        ["mul", "wide", _] if !is_float && of.bits < 64 => Binary::MultiplyWide,
        ["div", _] if !is_float => Binary::Divide,
        ["rem", _] if !is_float => Binary::Remainder,
        ["min", _] => Binary::Minimum,
        ["max", _] => Binary::Maximum,
        ["and", _] if !is_float => Binary::And,
        ["or", _] if !is_float => Binary::Or,
        ["xor", _] if !is_float => Binary::Xor,
        ["shl", _] if !is_float => Binary::ShiftLeft,
        ["shr", _] if !is_float => Binary::ShiftRight,
        _ => return None,
    };
    Some(Operation::Binary(binary, of))
}
