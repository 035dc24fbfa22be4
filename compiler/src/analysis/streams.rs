//! Whether ops on several streams of a rank wait for each other where they must.
//!
//! Each stream runs its ops in order. What is known to have happened before an op is what its stream did before, and what the streams
//! had done whose events it waited for. From that follow the hazards that have cost others days: a value read before it is there; a
//! buffer freed while its send is in flight (Paddle #33996); a receive queued behind an unrelated one (#70360); both directions on one
//! channel (#68141); channels opened in different orders (#68847).

use std::collections::BTreeSet;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Module, OpId, ValueId};
use raddle_dialect::ops::lowered::{COMPUTE, STREAM};
use rustc_hash::FxHashMap;

use super::memory::lifetimes::{argument, root};
use super::memory::readers::value_name;
use super::memory::{classes, functions};

/// The note on a send or receive that names its channel.
pub const CHANNEL: &str = "dist.channel";
/// The list, on the top module, of all channels in the order in which every rank opens them.
pub const CHANNELS: &str = "dist.channels";

/// Everything that is wrong with the streams of a module.
pub fn check(module: &Module) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for class in classes(module) {
        let sent = sent_values(module, class);
        for function in functions(module, class) {
            Order::new(module, function, &sent).run(&mut found);
        }
        check_channels(module, class, &mut found);
    }
    found
}

/// The stream of an op.
pub fn stream(module: &Module, op: OpId) -> &str {
    match module.name_str(op) {
        "dist.event_record" | "dist.event_wait" => module.str_attr(op, "stream").unwrap_or(COMPUTE),
        _ => module.str_attr(op, STREAM).unwrap_or(COMPUTE),
    }
}

/// By name: the event after the send of a value, and the send's stream.
pub type Sent<'m> = FxHashMap<&'m str, (Option<&'m str>, &'m str)>;

/// The values that a job sends on a stream and leaves to later jobs, which may free them.
pub fn sent_values(module: &Module, class: OpId) -> Sent<'_> {
    let mut sent = FxHashMap::default();
    for function in functions(module, class) {
        let block = module.body(function);
        let returned = module.block_ops(block).last();
        let names: FxHashMap<ValueId, &str> = returned
            .into_iter()
            .flat_map(|op| module.operands(op))
            .enumerate()
            .filter_map(|(index, value)| {
                let name = value_name(module, function, "res_attrs", index)?;
                Some((root(module, value), name))
            })
            .collect();
        for op in module.block_ops(block) {
            let own = stream(module, op);
            if !module.is(op, "dist.send") || own == COMPUTE {
                continue;
            }
            if let Some(&name) = names.get(&root(module, module.operand(op, 0))) {
                let next = module.next_op(op).filter(|&next| {
                    module.is(next, "dist.event_record") && stream(module, next) == own
                });
                let event = next.and_then(|next| module.str_attr(next, "event"));
                sent.insert(name, (event, own));
            }
        }
    }
    sent
}

/// What has happened before: per stream, the position of the last op that is known to be done.
type Clock = Vec<usize>;

struct Order<'m> {
    module: &'m Module,
    function: OpId,
    sent: &'m Sent<'m>,
    streams: FxHashMap<&'m str, usize>,
    /// By stream, what an op put there now would find done.
    clocks: Vec<Clock>,
    events: FxHashMap<&'m str, Clock>,
    /// Where a value was computed: stream and position.
    computed: FxHashMap<ValueId, (usize, usize)>,
    /// Where it was read last on each stream, and whether that was a send.
    read: FxHashMap<ValueId, Vec<(usize, usize, OpId)>>,
    /// Events that streams waited for.
    waited: BTreeSet<(&'m str, &'m str)>,
}

impl<'m> Order<'m> {
    fn new(module: &'m Module, function: OpId, sent: &'m Sent<'m>) -> Self {
        let mut streams = FxHashMap::from_iter([(COMPUTE, 0)]);
        for op in module.block_ops(module.body(function)) {
            let next = streams.len();
            streams.entry(stream(module, op)).or_insert(next);
        }
        Self {
            module,
            function,
            sent,
            clocks: vec![vec![0; streams.len()]; streams.len()],
            streams,
            events: FxHashMap::default(),
            computed: FxHashMap::default(),
            read: FxHashMap::default(),
            waited: BTreeSet::new(),
        }
    }

    fn run(mut self, found: &mut Vec<Diagnostic>) {
        let module = self.module;
        let mut receives: FxHashMap<&str, OpId> = FxHashMap::default();
        for (before, op) in module.block_ops(module.body(self.function)).enumerate() {
            // Positions count from 1, so that 0 is before everything.
            let at = before + 1;
            let name = stream(module, op);
            let own = self.streams[name];
            match module.name_str(op) {
                "dist.event_record" => {
                    let event = module.str_attr(op, "event").unwrap_or_default();
                    self.events.insert(event, self.clocks[own].clone());
                }
                "dist.event_wait" => {
                    let event = module.str_attr(op, "event").unwrap_or_default();
                    self.waited.insert((event, name));
                    if let Some(clock) = self.events.get(event) {
                        let clocks = &mut self.clocks[own];
                        for (known, &of) in clocks.iter_mut().zip(clock) {
                            *known = (*known).max(of);
                        }
                    }
                }
                "dist.free" => self.free(op, own, found),
                _ => {
                    for value in module.operands(op) {
                        self.read(op, value, own, at, found);
                    }
                    for value in module.results(op) {
                        self.computed.insert(value, (own, at));
                    }
                    if module.is(op, "dist.recv") && own != 0 {
                        if let Some(&other) = receives.get(name)
                            && edge(module, other) != edge(module, op)
                        {
                            found.push(
                                Diagnostic::error(
                                    "E0653",
                                    module.loc(op),
                                    format!("this receive is queued on stream '{name}' behind an unrelated one"),
                                )
                                .note(Some(module.loc(other).into()), "it waits for this one")
                                .help("give receives of different messages streams of their own"),
                            );
                        }
                        receives.insert(name, op);
                    }
                }
            }
            self.clocks[own][own] = at;
        }
    }

    fn knows(&self, own: usize, other: usize, at: usize) -> bool {
        own == other || self.clocks[own][other] >= at
    }

    fn name(&self, index: usize) -> &str {
        let mut names = self.streams.iter();
        names
            .find(|(_, i)| **i == index)
            .map_or("", |(name, _)| name)
    }

    fn read(
        &mut self,
        op: OpId,
        value: ValueId,
        own: usize,
        at: usize,
        found: &mut Vec<Diagnostic>,
    ) {
        if let Some(&(other, when)) = self.computed.get(&value)
            && !self.knows(own, other, when)
        {
            let module = self.module;
            let what = match module.def_of(op).is_some_and(|def| def.traits.terminator) {
                true => "is returned".to_owned(),
                false => format!("is read on stream '{}'", self.name(own)),
            };
            found.push(
                Diagnostic::error(
                    "E0651",
                    module.loc(op),
                    format!(
                        "a value that stream '{}' computes {what} before it is known to be there",
                        self.name(other)
                    ),
                )
                .help("record an event after it, and wait for that event here"),
            );
        }
        let root = root(self.module, value);
        self.read.entry(root).or_default().push((own, at, op));
    }

    fn free(&mut self, op: OpId, own: usize, found: &mut Vec<Diagnostic>) {
        let module = self.module;
        let value = root(module, module.operand(op, 0));
        let readers = self.read.get(&value).map_or(&[][..], |r| r);
        let early = readers
            .iter()
            .find(|&&(other, at, _)| !self.knows(own, other, at));
        if let Some(&(other, _, reader)) = early {
            found.push(
                Diagnostic::error(
                    "E0652",
                    module.loc(op),
                    format!(
                        "storage ends while stream '{}' may still read it",
                        self.name(other)
                    ),
                )
                .note(Some(module.loc(reader).into()), "read here")
                .help("free it on that stream, or wait for an event that the stream records afterwards"),
            );
        }
        // An argument that an earlier job sent.
        let index = argument(module, value);
        let name = index.and_then(|i| value_name(module, self.function, "arg_attrs", i));
        if let Some(&(event, stream)) = name.and_then(|name| self.sent.get(name)) {
            let own = self.name(own).to_owned();
            let waited = event.is_some_and(|event| self.waited.contains(&(event, own.as_str())));
            if own != stream && !waited {
                found.push(
                    Diagnostic::error(
                        "E0652",
                        module.loc(op),
                        format!(
                            "storage ends while the send of an earlier job on stream '{stream}' may still read it"
                        ),
                    )
                    .help("wait for the event that the stream records after the send"),
                );
            }
        }
    }
}

/// What tells messages of a rank apart.
fn edge(module: &Module, op: OpId) -> [Option<raddle_dialect::ir::Attr>; 2] {
    [module.attr(op, "peer"), module.attr(op, "tag")]
}

/// Channels go one way, and all ranks open them in one order.
fn check_channels(module: &Module, class: OpId, found: &mut Vec<Diagnostic>) {
    let all = module.attr(module.root(), CHANNELS);
    let all = all.and_then(|a| module.cx().as_string_array(a));
    let mut ways: FxHashMap<&str, OpId> = FxHashMap::default();
    let ops = functions(module, class)
        .into_iter()
        .flat_map(|function| module.block_ops(module.body(function)).collect::<Vec<_>>());
    for op in ops {
        if !matches!(module.name_str(op), "dist.send" | "dist.recv") {
            continue;
        }
        let Some(channel) = module.str_attr(op, CHANNEL) else {
            continue;
        };
        let other = *ways.entry(channel).or_insert(op);
        if module.name(other) != module.name(op) {
            found.push(
                Diagnostic::error(
                    "E0654",
                    module.loc(op),
                    format!("channel '{channel}' carries messages both ways"),
                )
                .note(Some(module.loc(other).into()), "the other way")
                .help("two sends that wait for each other's receive hang: use a channel for each direction"),
            );
            ways.insert(channel, op);
        }
        let listed = all
            .as_ref()
            .is_some_and(|all| all.binary_search(&channel).is_ok() && all.is_sorted());
        if !listed {
            found.push(
                Diagnostic::error(
                    "E0655",
                    module.loc(op),
                    format!("channel '{channel}' is not in the module's list of channels, or that is not sorted"),
                )
                .help("`dist.channels` on the top module names every channel in the order in which all ranks open them"),
            );
        }
    }
}
