//! Names of strong uses of memory: atomic operations, loads and stores with an order, fences (PTX ISA, "Memory Consistency
//! Model").

use crate::instruction::{Atomic, Kind, Operation, Scope, Space, Strength, Type};

/// What a strong use does; `None` if it is none, or not modelled.
pub(super) fn operation(parts: &[&str]) -> Option<Operation> {
    match parts {
        ["atom", rest @ ..] => atomic(rest, true),
        ["red", rest @ ..] => atomic(rest, false),
        ["ld", rest @ .., last] => {
            let (strength, space) = access(rest, "acquire")?;
            let of = integer(last)?;
            Some(Operation::StrongLoad {
                space,
                of,
                strength,
            })
        }
        ["st", rest @ .., last] => {
            let (strength, space) = access(rest, "release")?;
            let of = integer(last)?;
            Some(Operation::StrongStore {
                space,
                of,
                strength,
            })
        }
        ["fence", "acq_rel" | "sc", scope] | ["fence", scope] => {
            Some(Operation::Fence(scope_of(scope)?))
        }
        ["membar", "cta"] => Some(Operation::Fence(Scope::Block)),
        ["membar", "gl" | "sys"] => Some(Operation::Fence(Scope::Device)),
        _ => None,
    }
}

/// `.volatile`, `.relaxed.scope`, or a release or an acquire, and the space.
fn access(parts: &[&str], ordered: &str) -> Option<(Strength, Space)> {
    let (order, rest) = parts.split_first()?;
    let plain = |scope| Strength {
        scope,
        acquires: false,
        releases: false,
    };
    if *order == "volatile" {
        return Some((plain(Scope::Device), space_of(rest)?));
    }
    let (scope, rest) = rest.split_first()?;
    let strength = plain(scope_of(scope)?);
    let space = space_of(rest)?;
    if *order == "relaxed" {
        return Some((strength, space));
    }
    (*order == ordered).then_some(())?;
    let strength = Strength {
        acquires: ordered == "acquire",
        releases: ordered == "release",
        ..strength
    };
    Some((strength, space))
}

/// `.sem.scope.space.op.type`, of which the first three may be missing. Older texts have the scope after the space.
fn atomic(parts: &[&str], returns: bool) -> Option<Operation> {
    let (last, rest) = parts.split_last()?;
    let (operation, mut rest) = rest.split_last()?;
    let operation = match *operation {
        "add" => Atomic::Add,
        "min" => Atomic::Minimum,
        "max" => Atomic::Maximum,
        "and" => Atomic::And,
        "or" => Atomic::Or,
        "xor" => Atomic::Xor,
        "exch" if returns => Atomic::Exchange,
        "cas" if returns => Atomic::CompareAndSwap,
        "inc" => Atomic::Increment,
        "dec" => Atomic::Decrement,
        _ => return None,
    };
    let of = integer(last)?;
    let is_bits = last.starts_with('b');
    let exists = of.bits >= 32
        && match operation {
            Atomic::Add | Atomic::Minimum | Atomic::Maximum => !is_bits,
            Atomic::Increment | Atomic::Decrement => *last == "u32",
            _ => is_bits,
        };
    exists.then_some(())?;
    let mut strength = Strength {
        scope: Scope::Device,
        acquires: false,
        releases: false,
    };
    if let Some((order @ ("relaxed" | "acquire" | "release" | "acq_rel"), after)) =
        rest.split_first().map(|(first, after)| (*first, after))
    {
        strength.acquires = matches!(order, "acquire" | "acq_rel");
        strength.releases = matches!(order, "release" | "acq_rel");
        rest = after;
    }
    let scope = rest.iter().position(|part| scope_of(part).is_some());
    let mut rest = rest.to_vec();
    if let Some(at) = scope {
        strength.scope = scope_of(rest.remove(at))?;
    }
    let space = space_of(&rest)?;
    Some(Operation::Atomic {
        space,
        operation,
        of,
        strength,
        returns,
    })
}

fn integer(suffix: &str) -> Option<Type> {
    let of = Type::parse(suffix)?;
    matches!(of.kind, Kind::Signed | Kind::Unsigned).then_some(of)
}

fn scope_of(name: &str) -> Option<Scope> {
    match name {
        "cta" => Some(Scope::Block),
        "cluster" => Some(Scope::Cluster),
        "gpu" | "sys" => Some(Scope::Device),
        _ => None,
    }
}

fn space_of(parts: &[&str]) -> Option<Space> {
    match parts {
        [] => Some(Space::Generic),
        ["global"] => Some(Space::Global),
        ["shared" | "shared::cta"] => Some(Space::Shared),
        ["shared::cluster"] => Some(Space::Cluster),
        _ => None,
    }
}
