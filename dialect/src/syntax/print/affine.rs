//! Affine maps and sets. Expressions are stored in postfix order; they are made into trees, and printed from a work stack.

use crate::ir::{AffineMap, AffineStep, IntegerSet};

use super::text::{push_int, push_uint};

/// Appends `(d0, d1)[s0] -> (…)`.
pub(super) fn push_map(out: &mut String, map: &AffineMap) {
    push_space(out, map.dims, map.symbols);
    out.push_str(" -> (");
    for (index, result) in map.results.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        push_expr(out, result);
    }
    out.push(')');
}

/// Appends `(d0)[s0] : (d0 >= 0, …)`.
pub(super) fn push_set(out: &mut String, set: &IntegerSet) {
    push_space(out, set.dims, set.symbols);
    out.push_str(" : (");
    for (index, (expr, equality)) in set.constraints.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        push_expr(out, expr);
        out.push_str(if *equality { " == 0" } else { " >= 0" });
    }
    out.push(')');
}

fn push_space(out: &mut String, dims: u32, symbols: u32) {
    let list = |out: &mut String, letter, count| {
        for index in 0..count {
            if index > 0 {
                out.push_str(", ");
            }
            out.push(letter);
            push_uint(out, u64::from(index));
        }
    };
    out.push('(');
    list(out, 'd', dims);
    out.push(')');
    if symbols > 0 {
        out.push('[');
        list(out, 's', symbols);
        out.push(']');
    }
}

#[derive(Clone, Copy)]
struct Node {
    step: AffineStep,
    lhs: usize,
    rhs: usize,
}

/// How tightly what stands around an expression binds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Weak,
    Strong,
}

enum Item {
    Node(usize, Around),
    Text(&'static str),
    Number(i64),
}

fn push_expr(out: &mut String, steps: &[AffineStep]) {
    let mut nodes: Vec<Node> = Vec::with_capacity(steps.len());
    let mut operands = Vec::new();
    for &step in steps {
        let leaf = matches!(
            step,
            AffineStep::Dim(_) | AffineStep::Symbol(_) | AffineStep::Const(_)
        );
        let (lhs, rhs) = if leaf {
            (0, 0)
        } else {
            let rhs = operands.pop().unwrap_or_default();
            (operands.pop().unwrap_or_default(), rhs)
        };
        operands.push(nodes.len());
        nodes.push(Node { step, lhs, rhs });
    }
    let Some(root) = operands.pop() else {
        return;
    };
    let mut stack = vec![Item::Node(root, Around::Weak)];
    while let Some(item) = stack.pop() {
        match item {
            Item::Text(text) => out.push_str(text),
            Item::Number(value) => push_int(out, i128::from(value)),
            Item::Node(at, around) => {
                let from = stack.len();
                expand(&nodes, at, around, out, &mut stack);
                stack[from..].reverse();
            }
        }
    }
}

/// Prints a leaf, or pushes the parts of an operation in order.
fn expand(nodes: &[Node], at: usize, around: Around, out: &mut String, parts: &mut Vec<Item>) {
    use Around::{Strong, Weak};
    let Node { step, lhs, rhs } = nodes[at];
    let operator = match step {
        AffineStep::Dim(index) => {
            out.push('d');
            return push_uint(out, u64::from(index));
        }
        AffineStep::Symbol(index) => {
            out.push('s');
            return push_uint(out, u64::from(index));
        }
        AffineStep::Const(value) => return push_int(out, i128::from(value)),
        AffineStep::Add => " + ",
        AffineStep::Mul => " * ",
        AffineStep::FloorDiv => " floordiv ",
        AffineStep::CeilDiv => " ceildiv ",
        AffineStep::Mod => " mod ",
    };
    let constant = |node: usize| match nodes[node].step {
        AffineStep::Const(value) => Some(value),
        _ => None,
    };
    if around == Strong {
        parts.push(Item::Text("("));
    }
    if step != AffineStep::Add {
        if step == AffineStep::Mul && constant(rhs) == Some(-1) {
            parts.extend([Item::Text("-"), Item::Node(lhs, Strong)]);
        } else {
            parts.extend([
                Item::Node(lhs, Strong),
                Item::Text(operator),
                Item::Node(rhs, Strong),
            ]);
        }
    } else {
        let factor = match nodes[rhs].step {
            AffineStep::Mul => constant(nodes[rhs].rhs).filter(|&f| f < 0),
            _ => None,
        };
        parts.push(Item::Node(lhs, Weak));
        match (factor, constant(rhs)) {
            (Some(-1), _) => {
                let subtracted = nodes[rhs].lhs;
                let around = match nodes[subtracted].step {
                    AffineStep::Add => Strong,
                    _ => Weak,
                };
                parts.extend([Item::Text(" - "), Item::Node(subtracted, around)]);
            }
            (Some(factor), _) => parts.extend([
                Item::Text(" - "),
                Item::Node(nodes[rhs].lhs, Strong),
                Item::Text(" * "),
                Item::Number(factor.wrapping_neg()),
            ]),
            (None, Some(value)) if value < 0 => {
                parts.extend([Item::Text(" - "), Item::Number(value.wrapping_neg())]);
            }
            _ => parts.extend([Item::Text(" + "), Item::Node(rhs, Weak)]),
        }
    }
    if around == Strong {
        parts.push(Item::Text(")"));
    }
}
