//! Sends and receives of pipeline programs: which rank the other end is, which message of its channel, which stage an op is of.
//!
//! Paddle's point-to-point ops name a ring and an index in it, and messages between two ranks match in order. Here each message
//! gets a tag of its own, the same on both ends and for every replica of the stage (ranks that differ on other axes only).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Context, Type};
use raddle_dialect::mesh::Mesh;
use rustc_hash::FxBuildHasher;

use super::fold::RankProgram;
use super::mapping::role_of;
use super::program::Op;
use super::tables::tensor_type;
use super::value::Value;

/// One end of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Transfer {
    /// Coordinates of the other end where they differ from this rank's: axis and index.
    pub peer: Vec<(String, i64)>,
    /// The message.
    pub tag: i64,
}

/// What a rank's program has of a pipeline.
#[derive(Clone, Default, Debug)]
pub(super) struct Pipeline {
    /// By op.
    pub transfers: HashMap<usize, Transfer, FxBuildHasher>,
    /// By op of the forward and backward pass, its stage; empty if that is not known.
    pub stages: Vec<Option<i64>>,
}

/// One end of a message while its tag is sought.
struct End {
    at: usize,
    ty: Option<Type>,
}

/// Sender and receiver.
type Channel = (usize, usize);

/// Finds all transfers of all ranks.
///
/// # Errors
/// With diagnostics, if an op names no rank, or one end has no other.
pub(super) fn find(
    cx: &Context,
    mesh: &Mesh,
    ranks: &mut [RankProgram],
    diagnostics: &mut Diagnostics,
) -> Result<(), ()> {
    let before = diagnostics.len();
    let mut sends: BTreeMap<Channel, Vec<End>> = BTreeMap::new();
    let mut receives: BTreeMap<Channel, Vec<End>> = BTreeMap::new();
    for program in ranks.iter() {
        for (at, op) in program.main.ops.iter().enumerate() {
            let (is_send, name) = match op.kind.as_str() {
                "send_v2" => (true, op.input("X").first()),
                "recv_v2" => (false, op.output("Out").first()),
                _ => continue,
            };
            let peer = match other_end(mesh, program, op) {
                Ok(peer) => peer,
                Err(message) => {
                    diagnostics.push(
                        Diagnostic::error("E0840", program.main.loc(cx, at), message).help(
                            "`ring_id` is a ring of the mesh file that this rank is in, `peer` an index in it",
                        ),
                    );
                    continue;
                }
            };
            let var = name.and_then(|name| program.main.var(name));
            let ty = var.and_then(|var| tensor_type(cx, &var.desc));
            let (ends, channel) = match is_send {
                true => (&mut sends, (program.rank, peer)),
                false => (&mut receives, (peer, program.rank)),
            };
            ends.entry(channel).or_default().push(End { at, ty });
        }
    }
    if diagnostics.len() > before || (sends.is_empty() && receives.is_empty()) {
        return match diagnostics.len() > before {
            true => Err(()),
            false => Ok(()),
        };
    }
    let places: HashMap<usize, usize> = ranks
        .iter()
        .enumerate()
        .map(|(place, program)| (program.rank, place))
        .collect();
    if let [only] = ranks
        && mesh.ranks() > 1
    {
        let at = sends.values().chain(receives.values()).next();
        let at = at.map_or(0, |ends| ends[0].at);
        diagnostics.push(
            Diagnostic::error(
                "E0841",
                only.main.loc(cx, at),
                "the program of one rank sends to others or receives from them, so it cannot stand for all",
            )
            .help("give the programs of all ranks of the mesh"),
        );
        return Err(());
    }
    check_ends(cx, ranks, &places, &sends, &receives, diagnostics);
    if diagnostics.len() > before {
        return Err(());
    }
    let mut edges = BTreeSet::new();
    for (&channel, ends) in &sends {
        edges.extend((0..ends.len()).map(|message| edge(mesh, channel, message)));
    }
    let tags: HashMap<Edge, i64> = edges.into_iter().zip(0..).collect();
    for (ends, from_sender) in [(&sends, true), (&receives, false)] {
        for (&(sender, receiver), ends) in ends {
            let (own, peer) = match from_sender {
                true => (sender, receiver),
                false => (receiver, sender),
            };
            for (message, end) in ends.iter().enumerate() {
                let transfer = Transfer {
                    peer: difference(mesh, own, peer),
                    tag: tags[&edge(mesh, (sender, receiver), message)],
                };
                let pipeline = &mut ranks[places[&own]].pipeline;
                pipeline.transfers.insert(end.at, transfer);
            }
        }
    }
    for program in ranks {
        program.pipeline.stages = stages(mesh, program).unwrap_or_default();
    }
    Ok(())
}

/// The mesh axes along which messages go.
pub(super) fn axes<'a>(ranks: impl IntoIterator<Item = &'a RankProgram>) -> BTreeSet<String> {
    let pipelines = ranks.into_iter().map(|program| &program.pipeline);
    pipelines
        .flat_map(|pipeline| pipeline.transfers.values())
        .flat_map(|transfer| transfer.peer.iter().map(|(axis, _)| axis.clone()))
        .collect()
}

fn other_end(mesh: &Mesh, program: &RankProgram, op: &Op) -> Result<usize, String> {
    let int = |name| op.attr(name).and_then(Value::as_i64);
    let (Some(ring), Some(peer)) = (int("ring_id"), int("peer")) else {
        return Err(format!("`{}` names no ring or no peer", op.kind));
    };
    let Some(members) = program.members.get(&ring) else {
        return Err(format!(
            "ring {ring} of `{}` is not in the mesh file",
            op.kind
        ));
    };
    let rank = usize::try_from(peer)
        .ok()
        .and_then(|peer| members.get(peer))
        .and_then(|&rank| usize::try_from(rank).ok())
        .filter(|&rank| rank < mesh.ranks() && rank != program.rank);
    rank.ok_or_else(|| {
        format!(
            "peer {peer} of ring {ring}, with members {members:?}, is no other rank of the mesh"
        )
    })
}

/// Both ends of every message are there and carry one type.
fn check_ends(
    cx: &Context,
    ranks: &[RankProgram],
    places: &HashMap<usize, usize>,
    sends: &BTreeMap<Channel, Vec<End>>,
    receives: &BTreeMap<Channel, Vec<End>>,
    diagnostics: &mut Diagnostics,
) {
    let channels: BTreeSet<_> = sends.keys().chain(receives.keys()).collect();
    for channel in channels {
        let none = Vec::new();
        let (from, to) = (
            sends.get(channel).unwrap_or(&none),
            receives.get(channel).unwrap_or(&none),
        );
        let (sender, receiver) = channel;
        let loc =
            |rank: &usize, end: &End| places.get(rank).map(|&p| ranks[p].main.loc(cx, end.at));
        if from.len() != to.len() {
            let (rank, end) = match from.len() > to.len() {
                true => (sender, from.last()),
                false => (receiver, to.last()),
            };
            let Some(at) = end.and_then(|end| loc(rank, end)) else {
                continue;
            };
            diagnostics.push(
                Diagnostic::error(
                    "E0842",
                    at,
                    format!(
                        "rank {sender} sends {} messages to rank {receiver}, which receives {}",
                        from.len(),
                        to.len()
                    ),
                )
                .help("every send has one receive, in the same order"),
            );
            continue;
        }
        for (send, receive) in from.iter().zip(to) {
            if send.ty == receive.ty && send.ty.is_some() {
                continue;
            }
            let text = |ty: Option<Type>| match ty {
                Some(ty) => cx.display(ty).to_string(),
                None => "something that is not a dense tensor".to_owned(),
            };
            let (Some(at), Some(other)) = (loc(sender, send), loc(receiver, receive)) else {
                continue;
            };
            diagnostics.push(
                Diagnostic::error(
                    "E0843",
                    at,
                    format!(
                        "rank {sender} sends {}, but rank {receiver} receives {}",
                        text(send.ty),
                        text(receive.ty)
                    ),
                )
                .note(Some(other.into()), "received here"),
            );
        }
    }
}

/// A message, named alike on all replicas: coordinates of sender and receiver where they differ, and its number.
type Edge = (Vec<(String, i64)>, Vec<(String, i64)>, usize);

fn edge(mesh: &Mesh, (sender, receiver): Channel, message: usize) -> Edge {
    (
        difference(mesh, receiver, sender),
        difference(mesh, sender, receiver),
        message,
    )
}

/// The coordinates of `other` where they are not those of `own`.
fn difference(mesh: &Mesh, own: usize, other: usize) -> Vec<(String, i64)> {
    let (own, other) = (mesh.coordinate(own), mesh.coordinate(other));
    let axes = mesh.axes().iter().zip(own.iter().zip(&other));
    axes.filter(|(_, (a, b))| a != b)
        .map(|(axis, (_, &b))| (axis.clone(), b as i64))
        .collect()
}

/// The stage of each op. A chunk begins where its input comes in: by a receive, or as data or loss. A backward op that reads what
/// another one computed is of that one's stage, since chunks meet only through messages. None if messages do not go round from
/// each stage to the next.
fn stages(mesh: &Mesh, program: &RankProgram) -> Option<Vec<Option<i64>>> {
    let axes: Vec<String> = axes([program]).into_iter().collect();
    let [axis] = &axes[..] else {
        return None;
    };
    let axis_index = mesh.axis(axis)?;
    let (count, own) = (
        mesh.sizes()[axis_index] as i64,
        mesh.coordinate(program.rank)[axis_index] as i64,
    );
    let (first, last) = (own == 0, own == count - 1);
    let role = |op: &Op| role_of(op.attr("op_role").and_then(Value::as_i64).unwrap_or(0));
    let ops = &program.main.ops;
    let sends = ops
        .iter()
        .filter(|op| op.kind == "send_v2" && role(op) == "forward");
    // The last stage sends nothing on.
    let chunks = sends.count() as i64 + i64::from(last);
    let (mut forward, mut backward) = (i64::from(first) - 1, chunks - i64::from(last));
    let mut computed: HashMap<&str, i64, FxBuildHasher> = HashMap::default();
    let mut stages = Vec::with_capacity(ops.len());
    for (at, op) in ops.iter().enumerate() {
        let (chunk, step) = match role(op) {
            "forward" => (&mut forward, 1),
            "backward" => (&mut backward, -1),
            _ => {
                stages.push(None);
                continue;
            }
        };
        let is_receive = op.kind == "recv_v2";
        *chunk += if is_receive { step } else { 0 };
        let inputs = op.inputs.iter().flat_map(|slot| &slot.args);
        let known = inputs.filter_map(|name| computed.get(name.as_str())).next();
        let here = known.copied().unwrap_or(*chunk);
        if !(0..chunks).contains(&here) {
            return None;
        }
        if let Some(transfer) = program.pipeline.transfers.get(&at) {
            let direction = if is_receive { -step } else { step };
            let wanted = (own + direction).rem_euclid(count);
            if transfer.peer != [(axis.clone(), wanted)] {
                return None;
            }
        }
        if step < 0 {
            let outputs = op.outputs.iter().flat_map(|slot| &slot.args);
            computed.extend(outputs.map(|name| (name.as_str(), here)));
        }
        stages.push(Some(here * count + own));
    }
    Some(stages)
}
