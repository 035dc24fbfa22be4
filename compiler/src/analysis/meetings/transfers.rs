//! Sends and receives of scheduled jobs: which job a rank runs when is the schedule's business, so only their numbers and types
//! count. Between two crews, the sends with a tag are as many as the receives, and the n-th carries what the n-th takes.

use std::collections::BTreeMap;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::Module;

use super::Class;
use super::calls::{Call, With};
use super::crews::{Crew, Crews};
use super::show::describe;

/// From, to, tag.
type Channel = (Crew, Crew, i64);

/// What goes into a channel, and what comes out.
#[derive(Default)]
struct Ends {
    sends: Vec<Call>,
    receives: Vec<Call>,
}

/// Adds `E0404` for every channel whose ends do not fit.
pub fn check(module: &Module, classes: &[Class], crews: &Crews, found: &mut Vec<Diagnostic>) {
    let mut channels: BTreeMap<Channel, Ends> = BTreeMap::new();
    for crew in 0..crews.len() {
        let jobs = classes[crews.class[crew]].jobs.iter();
        let calls = jobs
            .filter(|(job, _)| job.is_scheduled())
            .flat_map(|(_, calls)| &calls.list);
        for call in calls {
            let tag = || module.i64_attr(call.op, "tag").unwrap_or(0);
            match call.with {
                With::Group(_) => {}
                With::To(peer) => match crews.peer(peer, crew) {
                    Some(to) => {
                        let ends = channels.entry((crew, to, tag())).or_default();
                        ends.sends.push(*call);
                    }
                    None => found.push(nobody(module, call)),
                },
                With::From(peer) => match crews.peer(peer, crew) {
                    Some(from) => {
                        let ends = channels.entry((from, crew, tag())).or_default();
                        ends.receives.push(*call);
                    }
                    None => found.push(nobody(module, call)),
                },
            }
        }
    }
    // Crews of one class repeat what the first of them shows.
    let mut shown = Vec::new();
    for (&(from, to, tag), ends) in &channels {
        let Some((call, diagnostic)) = fault(module, ends, tag) else {
            continue;
        };
        if shown.contains(&call.op) {
            continue;
        }
        shown.push(call.op);
        let [from, to] = [from, to].map(|c| classes[crews.class[c]].name);
        let (sent, received) = (ends.sends.len(), ends.receives.len());
        found.push(diagnostic.note(
            None,
            format!("'@{from}' sends {sent} and '@{to}' receives {received} with tag {tag}"),
        ));
    }
}

/// What is wrong with a channel, and the call to point at.
fn fault(module: &Module, ends: &Ends, tag: i64) -> Option<(Call, Diagnostic)> {
    let mut pairs = ends.sends.iter().zip(&ends.receives);
    if let Some((send, receive)) = pairs.find(|(a, b)| a.signature != b.signature) {
        let diagnostic = Diagnostic::error(
            "E0404",
            module.loc(send.op),
            format!("tag {tag} carries something else than its receive takes"),
        );
        let at = module.loc(receive.op).into();
        return Some((
            *send,
            diagnostic.note(Some(at), describe(module, receive.op)),
        ));
    }
    let common = ends.sends.len().min(ends.receives.len());
    if let Some(send) = ends.sends.get(common) {
        let message = format!("nobody receives tag {tag}");
        return Some((
            *send,
            Diagnostic::error("E0404", module.loc(send.op), message),
        ));
    }
    let receive = ends.receives.get(common)?;
    let message = format!("nobody sends tag {tag}");
    Some((
        *receive,
        Diagnostic::error("E0404", module.loc(receive.op), message),
    ))
}

fn nobody(module: &Module, call: &Call) -> Diagnostic {
    Diagnostic::error(
        "E0404",
        module.loc(call.op),
        "no class holds the rank at the other end",
    )
}
