//! What nests too deep for MLIR, which recurses into regions, attributes and types: found before MLIR sees it.

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Loc, Module};

/// Ops inside one another that MLIR is trusted with.
pub const MAX_DEPTH: usize = 1000;

/// Brackets inside one another that MLIR is trusted with: attributes and types nest too.
pub const MAX_BRACKETS: usize = 20_000;

/// Nothing, and a diagnostic, if the ops of a module nest too deep.
pub(super) fn of_ops(module: &Module, diagnostics: &mut Diagnostics) -> Option<()> {
    let Some((loc, depth)) = too_deep(module) else {
        return Some(());
    };
    let message = format!("ops nest {depth} deep here, more than MLIR can be given");
    diagnostics.push(Diagnostic::error("E0801", loc, message).help(format!(
        "MLIR recurses into regions; at most {MAX_DEPTH} levels are passed on"
    )));
    None
}

/// Nothing, and a diagnostic, if the brackets in a module's text nest too deep.
pub(super) fn of_brackets(
    module: &Module,
    text: &[u8],
    diagnostics: &mut Diagnostics,
) -> Option<()> {
    let brackets = nesting(text);
    if brackets <= MAX_BRACKETS {
        return Some(());
    }
    let message = format!("brackets nest {brackets} deep, more than MLIR can be given");
    diagnostics.push(
        Diagnostic::error("E0801", module.loc(module.root()), message).help(format!(
            "MLIR recurses into attributes and types; at most {MAX_BRACKETS} levels are passed on"
        )),
    );
    None
}

fn too_deep(module: &Module) -> Option<(Loc, usize)> {
    let mut depth = vec![0usize; module.op_capacity()];
    for op in module.walk_all() {
        let own = module.parent_op(op).map_or(0, |p| depth[p.index()] + 1);
        depth[op.index()] = own;
        if own > MAX_DEPTH {
            return Some((module.loc(op), own));
        }
    }
    None
}

/// How deep brackets of any kind nest in a text, strings and arrows apart.
fn nesting(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(byte) = bytes.next().filter(|&b| b != b'"') {
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            b'-' if bytes.peek() == Some(&b'>') => {
                bytes.next();
            }
            b'>' if bytes.peek() == Some(&b'=') => {}
            b'(' | b'[' | b'{' | b'<' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::nesting;

    #[test]
    fn brackets_count_outside_strings_and_arrows() {
        assert_eq!(
            nesting(br#""t.op"() {a = [[1]], b = "((((\"((("} : () -> ()"#),
            3
        );
        assert_eq!(
            nesting(b"affine_set<(d0) : (d0 >= 0, d0 - 4 == 0)> -> ->"),
            2
        );
    }
}
