//! Whether the jobs of a pipeline fit together: every value that a job reads is left by one job of the same class, and every send has
//! its receive on the other rank, with the same tag, type and shape.

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Attr, Module, OpId, Type};
use raddle_dialect::mesh::{Mesh, RankSet};
use rustc_hash::FxHashMap;

/// The name under which a value goes from job to job.
pub const VALUE: &str = "dist.value";
/// Marks an argument that is data from outside.
pub const INPUT: &str = "dist.input";
/// Marks the loss among a job's results.
pub const LOSS: &str = "dist.loss";
/// Which of the step's results a job's result is.
pub const RESULT: &str = "dist.result";

/// Checks all rank classes of a module; gives what is wrong.
pub fn check(module: &Module) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut transfers = Transfers::default();
    for class in module.members(module.root(), "builtin.module") {
        check_values(module, class, &mut found);
        transfers.read(module, class, &mut found);
    }
    transfers.check(module, &mut found);
    found
}

/// The dictionary of an argument or result of a function.
pub fn value_attrs(module: &Module, function: OpId, list: &str, index: usize) -> Option<Attr> {
    let dicts = module.cx().as_array(module.attr(function, list)?)?;
    dicts.get(index).copied()
}

fn check_values(module: &Module, class: OpId, found: &mut Vec<Diagnostic>) {
    let cx = module.cx();
    let named = |function, list, index| {
        let dict = value_attrs(module, function, list, index)?;
        let input = cx.dict_get(dict, INPUT).is_some();
        cx.as_str(cx.dict_get(dict, VALUE)?).filter(|_| !input)
    };
    let mut left: FxHashMap<&str, (OpId, Type)> = FxHashMap::default();
    for function in module.members(class, "func.func") {
        let Some((_, results)) = module.function_type(function) else {
            continue;
        };
        for (index, &ty) in results.iter().enumerate() {
            let Some(name) = named(function, "res_attrs", index) else {
                continue;
            };
            if let Some((other, _)) = left.insert(name, (function, ty)) {
                let message = format!("the value '{name}' is left by two functions of a class");
                let diagnostic = Diagnostic::error("E0642", module.loc(function), message);
                found.push(diagnostic.note(Some(module.loc(other).into()), "the other"));
            }
        }
    }
    for function in module.members(class, "func.func") {
        if module.str_attr(function, "dist.kind") == Some("step") {
            continue;
        }
        let Some((inputs, _)) = module.function_type(function) else {
            continue;
        };
        for (index, &ty) in inputs.iter().enumerate() {
            let Some(name) = named(function, "arg_attrs", index) else {
                continue;
            };
            let message = match left.get(name) {
                None => format!("reads the value '{name}', which no function of the class leaves"),
                Some(&(_, other)) if other != ty => format!(
                    "reads the value '{name}' as {}, but it is left as {}",
                    cx.display(ty),
                    cx.display(other)
                ),
                Some(_) => continue,
            };
            let message = format!(
                "'@{}' {message}",
                module.symbol_name(function).unwrap_or_default()
            );
            found.push(Diagnostic::error("E0642", module.loc(function), message));
        }
    }
}

/// One end of a transfer.
struct End {
    op: OpId,
    class: usize,
    ty: Type,
    /// Coordinates of the other end: axis of the mesh and index.
    peer: Vec<(usize, usize)>,
}

/// All sends and receives of a module.
#[derive(Default)]
struct Transfers {
    classes: Vec<(Mesh, RankSet)>,
    sends: Vec<(i64, End)>,
    recvs: FxHashMap<i64, Vec<End>>,
}

impl Transfers {
    fn read(&mut self, module: &Module, class: OpId, found: &mut Vec<Diagnostic>) {
        let Ok(mesh) = Mesh::of(module, class) else {
            return;
        };
        let Ok(ranks) = RankSet::from_module(module, class, &mesh) else {
            return;
        };
        let index = self.classes.len();
        for function in module.members(class, "func.func") {
            for op in module.walk(function) {
                let ty = match module.name_str(op) {
                    "dist.send" => module.ty(module.operand(op, 0)),
                    "dist.recv" => module.ty(module.result(op, 0)),
                    _ => continue,
                };
                let Some(peer) = peer(module, op, &mesh) else {
                    continue;
                };
                let tag = module.i64_attr(op, "tag").unwrap_or_default();
                let end = End {
                    op,
                    class: index,
                    ty,
                    peer,
                };
                let own = |b: &Vec<Vec<usize>>| end.peer.iter().all(|&(axis, i)| b[axis] == [i]);
                if ranks.boxes().iter().any(own) {
                    let message = format!("'{}' names its own rank", module.name_str(op));
                    let help = "values stay on a rank by 'dist.value', from function to function";
                    let diagnostic = Diagnostic::error("E0643", module.loc(op), message);
                    found.push(diagnostic.help(help));
                } else if module.is(op, "dist.send") {
                    self.sends.push((tag, end));
                } else {
                    self.recvs.entry(tag).or_default().push(end);
                }
            }
        }
        self.classes.push((mesh, ranks));
    }

    fn check(&mut self, module: &Module, found: &mut Vec<Diagnostic>) {
        let sends = std::mem::take(&mut self.sends);
        for (tag, send) in &sends {
            let ends = self.recvs.get_mut(tag);
            let classes = &self.classes;
            let at = ends.as_ref().and_then(|ends| {
                let mut ends = ends.iter();
                ends.position(|recv| meet(classes, send, recv))
            });
            let Some(recv) = at.and_then(|at| Some(ends?.swap_remove(at))) else {
                found.push(lonely(module, send.op, *tag, "receive"));
                continue;
            };
            if send.ty != recv.ty {
                let cx = module.cx();
                let message = format!(
                    "sends {} with tag {tag}, but {} is received",
                    cx.display(send.ty),
                    cx.display(recv.ty)
                );
                let diagnostic = Diagnostic::error("E0643", module.loc(send.op), message);
                found.push(diagnostic.note(Some(module.loc(recv.op).into()), "received here"));
            }
        }
        let mut left: Vec<_> = self.recvs.iter().collect();
        left.sort_by_key(|(tag, _)| **tag);
        for (tag, ends) in left {
            for recv in ends {
                found.push(lonely(module, recv.op, *tag, "send"));
            }
        }
    }
}

fn lonely(module: &Module, op: OpId, tag: i64, other: &str) -> Diagnostic {
    let message = format!(
        "'{}' with tag {tag} has no {other} on the rank that it names",
        module.name_str(op)
    );
    Diagnostic::error("E0643", module.loc(op), message)
}

fn peer(module: &Module, op: OpId, mesh: &Mesh) -> Option<Vec<(usize, usize)>> {
    let cx = module.cx();
    let entries = cx.dict_entries(module.attr(op, "peer")?).iter();
    let entry = |&(axis, index): &(_, Attr)| {
        let index = usize::try_from(cx.as_i64(index)?).ok()?;
        Some((mesh.axis(cx.str(axis))?, index))
    };
    entries.map(entry).collect()
}

/// Whether the ranks of a send's class, moved to their peers, are those of the receive's class, and the other way round.
fn meet(classes: &[(Mesh, RankSet)], send: &End, recv: &End) -> bool {
    let there = moved(&classes[send.class].1, &send.peer);
    let back = moved(&classes[recv.class].1, &recv.peer);
    there == *classes[recv.class].1.boxes() && back == *classes[send.class].1.boxes()
}

fn moved(ranks: &RankSet, peer: &[(usize, usize)]) -> Vec<Vec<Vec<usize>>> {
    let mut boxes = ranks.boxes().to_vec();
    for b in &mut boxes {
        for &(axis, index) in peer {
            b[axis] = vec![index];
        }
    }
    boxes
}
