//! Words for what does not meet: both sides' calls, one below the other.

use std::fmt::Write as _;

use raddle_dialect::diag::{At, Diagnostic};
use raddle_dialect::ir::{Module, OpId};
use raddle_dialect::mesh::Mesh;

use super::calls::{Call, Calls, Tables, With};
use super::crews::Crews;
use super::play::{Clash, Stand};
use super::{Class, Job};

/// Where a clash happened.
pub struct Scene<'a, 'm> {
    pub module: &'m Module,
    pub mesh: &'a Mesh,
    pub classes: &'a [Class<'m>],
    pub crews: &'a Crews,
    pub tables: &'a Tables<'m>,
    pub job: Job<'m>,
}

/// The diagnostic for a clash.
pub fn clash(scene: &Scene, players: &[Option<&Calls>], clash: &Clash) -> Diagnostic {
    let side = |stand: &Stand| Side::new(scene, players, *stand);
    let diagnostic = match clash {
        Clash::Differ(a, b) => {
            let class = |s: &Stand| scene.crews.class[s.crew];
            let (a, b) = match class(a) <= class(b) {
                true => (side(a), side(b)),
                false => (side(b), side(a)),
            };
            let what = differences(scene, &a, &b);
            let (left, right) = (a.name(), b.name());
            Diagnostic::error(
                "E0401",
                b.at(scene),
                format!("{left} and {right} come to calls that do not fit: they differ in {what}"),
            )
                .note(Some(a.at(scene)), a.text(scene))
                .note(Some(b.at(scene)), b.text(scene))
                .help("all ranks of a group make the same calls in the same order; look for one that only one side has")
        }
        Clash::Returned(waiting, gone) => {
            let (waiting, gone) = (side(waiting), side(gone));
            let kind = scene.job.kind;
            let (at, name) = (waiting.at(scene), gone.name());
            let diagnostic = match gone.calls {
                None => {
                    let message = format!("{name} has no '{kind}' that joins this call");
                    Diagnostic::error("E0402", at, message)
                }
                Some(_) => {
                    let message = format!("{name} makes no call that joins this one");
                    Diagnostic::error("E0402", at, message)
                }
            };
            diagnostic
                .note(Some(waiting.at(scene)), waiting.text(scene))
                .note(Some(gone.at(scene)), gone.text(scene))
                .help("a collective that some ranks of a group leave out hangs the others")
        }
        Clash::Circle(stands) => {
            let sides: Vec<Side> = stands.iter().map(side).collect();
            let at = sides[0].at(scene);
            let mut diagnostic = match sides.len() {
                1 => {
                    let message = format!("{} waits for itself", sides[0].name());
                    Diagnostic::error("E0403", at, message)
                }
                _ => Diagnostic::error(
                    "E0403",
                    at,
                    "ranks wait for each other: each has yet to come to the other's call",
                ),
            };
            for side in sides.iter().take(SHOWN) {
                diagnostic = diagnostic.note(Some(side.at(scene)), side.text(scene));
            }
            if sides.len() > SHOWN {
                diagnostic = diagnostic.note(None, format!("and {} more", sides.len() - SHOWN));
            }
            diagnostic.help(match sides.len() {
                1 => "name another rank as its peer",
                _ => "make calls over different axes in the same order on all ranks",
            })
        }
    };
    diagnostic.label(format!("in the '{}' functions", scene.job.kind))
}

/// How many members of a circle are shown.
const SHOWN: usize = 8;

/// One side of a clash.
struct Side<'a, 'm> {
    class: &'a Class<'m>,
    calls: Option<&'a Calls>,
    at: usize,
}

impl<'a, 'm> Side<'a, 'm> {
    fn new(scene: &Scene<'a, 'm>, players: &[Option<&'a Calls>], stand: Stand) -> Self {
        let class = scene.crews.class[stand.crew];
        Self {
            class: &scene.classes[class],
            calls: players[class],
            at: stand.at,
        }
    }

    fn name(&self) -> String {
        format!("'@{}'", self.class.name)
    }

    fn call(&self) -> Option<Call> {
        self.calls?.list.get(self.at).copied()
    }

    fn at(&self, scene: &Scene) -> At {
        let function = self.calls.map(|c| c.function);
        let op = self.call().map(|c| c.op).or(function);
        scene.module.loc(op.unwrap_or(self.class.op)).into()
    }

    /// `@all_first, call 3 over ["mp"]: dist.all_reduce sum …`
    fn text(&self, scene: &Scene) -> String {
        let mut text = format!("@{}, ", self.class.name);
        match (self.calls, self.call()) {
            (Some(calls), Some(call)) => {
                let before = calls.list[..self.at].iter();
                let number = before.filter(|c| c.with == call.with).count() + 1;
                let whom = whom(scene.mesh, scene.tables, call.with);
                let call = describe(scene.module, call.op);
                // Writing to a string cannot fail.
                let _ = write!(text, "call {number} {whom}: {call}");
            }
            (Some(calls), None) => {
                let _ = write!(text, "after its last of {} calls", calls.list.len());
            }
            _ => text.push_str("which has no such function"),
        }
        text
    }
}

fn whom(mesh: &Mesh, tables: &Tables, with: With) -> String {
    match with {
        With::Group(axes) => {
            let names = tables.axes[axes].iter().map(|&a| mesh.axes()[a].as_str());
            format!("over {:?}", names.collect::<Vec<_>>())
        }
        With::To(peer) => format!("to {}", place(mesh, &tables.peers[peer])),
        With::From(peer) => format!("from {}", place(mesh, &tables.peers[peer])),
    }
}

fn place(mesh: &Mesh, peer: &[(usize, usize)]) -> String {
    let entries = peer
        .iter()
        .map(|&(a, i)| format!("{} = {i}", mesh.axes()[a]));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

/// A call in short form: name, what it does, types.
pub fn describe(module: &Module, op: OpId) -> String {
    let cx = module.cx();
    let mut text = module.name_str(op).to_owned();
    if let Some(reduction) = module.str_attr(op, "reduction") {
        let _ = write!(text, " {reduction}");
    }
    let axes = module.axes_attr(op, "axes");
    if !axes.is_empty() {
        let _ = write!(text, " over {axes:?}");
    }
    let rest = cx.dict_entries(module.attrs(op)).iter();
    let rest = rest.filter(|(name, _)| {
        let name = cx.str(*name);
        !matches!(name, "reduction" | "axes") && !name.contains('.')
    });
    let rest: Vec<_> = rest
        .map(|(name, value)| format!("{} = {}", cx.str(*name), cx.display(*value)))
        .collect();
    if !rest.is_empty() {
        let _ = write!(text, " {{{}}}", rest.join(", "));
    }
    let values = module
        .operands(op)
        .chain(module.results(op).filter(|_| module.num_operands(op) == 0));
    let types: Vec<_> = values
        .map(|v| cx.display(module.ty(v)).to_string())
        .collect();
    if !types.is_empty() {
        let _ = write!(text, " : {}", types.join(", "));
    }
    text
}

/// What two calls differ in, in words.
fn differences(scene: &Scene, a: &Side, b: &Side) -> String {
    let module = scene.module;
    let cx = module.cx();
    let (Some(a), Some(b)) = (a.call(), b.call()) else {
        return "number".into();
    };
    let mut found: Vec<String> = Vec::new();
    let transfer = |c: Call| !matches!(c.with, With::Group(_));
    if transfer(a) && module.name(a.op) == module.name(b.op) {
        found.push("direction: both are the same end".into());
    } else if !transfer(a) && module.name(a.op) != module.name(b.op) {
        found.push("kind".into());
    }
    let entries = |c: Call| cx.dict_entries(module.attrs(c.op)).iter().copied();
    let mut names: Vec<_> = entries(a).chain(entries(b)).map(|e| cx.str(e.0)).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let differs = module.attr(a.op, name) != module.attr(b.op, name);
        if differs && !name.contains('.') && !matches!(name, "axes" | "peer") {
            found.push(format!("'{name}'"));
        }
    }
    let types = |c: Call| -> Vec<_> {
        let given = module.operands(c.op);
        let taken = module.results(c.op).filter(|_| transfer(c));
        given
            .chain(taken)
            .filter_map(|v| cx.as_tensor(module.ty(v)))
            .collect()
    };
    let (a, b) = (types(a), types(b));
    if a.len() != b.len() {
        found.push("number of operands".into());
    }
    if a.iter().zip(&b).any(|(a, b)| a.0 != b.0) {
        found.push("shape".into());
    }
    if a.iter().zip(&b).any(|(a, b)| a.1 != b.1) {
        found.push("element type".into());
    }
    found.join(", ")
}
