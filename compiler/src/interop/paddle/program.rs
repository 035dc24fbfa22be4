//! One rank's program as read: messages checked and taken apart, but nothing interpreted yet.

use std::collections::{HashMap, HashSet};

use prost::Message;
use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Context, Loc};
use rustc_hash::FxBuildHasher;

use super::proto::{BlockDesc, OpDesc, OpVar, OpVersionMap, ProgramDesc, VarDesc, Version};
use super::value::Value;

/// A program of one block, and perhaps one that it runs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Program {
    /// Name of the file, for locations.
    pub file: String,
    /// Variables in the order of the file.
    pub vars: Vec<Var>,
    /// Ops in order.
    pub ops: Vec<Op>,
    /// What else the message holds.
    pub header: Header,
    /// Its second block, if there is one; see [`gradient_merge`](super::gradient_merge).
    pub sub_block: Option<SubBlock>,
    /// The position of the first op, as locations count.
    first: usize,
    index: HashMap<String, usize, FxBuildHasher>,
    read: HashSet<String, FxBuildHasher>,
}

/// A block that an op of the first one runs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SubBlock {
    /// Variables of its own.
    pub vars: Vec<Var>,
    /// Ops in order.
    pub ops: Vec<Op>,
}

/// What a program carries besides variables and ops.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Header {
    pub version: Option<Version>,
    pub op_versions: Option<OpVersionMap>,
    pub forward_block: Option<i32>,
}

/// A variable.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Var {
    pub name: String,
    pub desc: VarDesc,
}

/// An op.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Op {
    pub kind: String,
    pub inputs: Vec<Slot>,
    pub outputs: Vec<Slot>,
    pub attrs: Vec<(String, Value)>,
    pub is_target: Option<bool>,
}

/// A slot and the variables in it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Slot {
    pub name: String,
    pub args: Vec<String>,
}

impl Program {
    /// Reads a program.
    ///
    /// # Errors
    /// `None`, with diagnostics, if the bytes are not a `ProgramDesc` of one block.
    pub(super) fn decode(
        cx: &Context,
        file: &str,
        bytes: &[u8],
        diagnostics: &mut Diagnostics,
    ) -> Option<Self> {
        let at = cx.file_loc(file, 1, 1);
        let desc = match ProgramDesc::decode(bytes) {
            Ok(desc) => desc,
            Err(error) => {
                diagnostics.push(
                    Diagnostic::error("E0801", at, format!("not a Paddle program: {error}"))
                        .help("give the bytes that `program.desc.serialize_to_string()` writes"),
                );
                return None;
            }
        };
        let before = diagnostics.len();
        let conditional = desc.blocks.len() == 2 && runs_second(&desc);
        if desc.blocks.len() != 1 && !conditional {
            let mut d = Diagnostic::error(
                "E0802",
                at,
                format!(
                    "the program has {} blocks; Raddle imports programs of one block",
                    desc.blocks.len()
                ),
            );
            if let Some((op, kind)) = control_flow(cx, file, &desc) {
                d = d.note(Some(op.into()), format!("`{kind}` here runs another block"));
            }
            diagnostics.push(d.help(
                "control flow such as `while` and `conditional_block` is not imported; export the program without it",
            ));
        }
        let mut blocks = desc.blocks.into_iter();
        let block = blocks.next()?;
        let mut program = Self {
            file: file.to_owned(),
            vars: Vec::with_capacity(block.vars.len()),
            ops: Vec::with_capacity(block.ops.len()),
            header: Header {
                version: desc.version,
                op_versions: desc.op_version_map,
                forward_block: block.forward_block_idx,
            },
            sub_block: None,
            first: 0,
            index: HashMap::default(),
            read: HashSet::default(),
        };
        program.take_block(cx, block, diagnostics);
        if let (Some(block), true) = (blocks.next(), conditional) {
            let at = cx.file_loc(file, 1, 1);
            let vars = block.vars.into_iter().filter_map(|desc| {
                let name = text(&desc.name, "variable name", at, diagnostics)?;
                Some(Var { name, desc })
            });
            let vars = vars.collect();
            let first = program.ops.len();
            let ops = block.ops.into_iter().enumerate();
            let ops = ops.filter_map(|(index, desc)| {
                let at = program.loc(cx, first + index);
                take_op(desc, at, diagnostics)
            });
            let ops = ops.collect();
            program.sub_block = Some(SubBlock { vars, ops });
        }
        (diagnostics.len() == before).then_some(program)
    }

    fn take_block(&mut self, cx: &Context, block: BlockDesc, diagnostics: &mut Diagnostics) {
        for desc in block.vars {
            let at = cx.file_loc(&self.file, 1, 1);
            let Some(name) = text(&desc.name, "variable name", at, diagnostics) else {
                continue;
            };
            if self.index.insert(name.clone(), self.vars.len()).is_some() {
                diagnostics.push(
                    Diagnostic::error("E0803", at, format!("variable `{name}` is declared twice"))
                        .help("every variable of a block has a name of its own"),
                );
            }
            self.vars.push(Var { name, desc });
        }
        for (index, desc) in block.ops.into_iter().enumerate() {
            let at = self.loc(cx, index);
            if let Some(op) = take_op(desc, at, diagnostics) {
                self.read
                    .extend(op.inputs.iter().flat_map(|s| s.args.iter().cloned()));
                self.ops.push(op);
            }
        }
    }

    /// The program of a block inside this one, which sees this one's variables; its first op is the file's op number `first`.
    pub(super) fn inner(&self, block: SubBlock, first: usize) -> Self {
        let inputs = block.ops.iter().flat_map(|op| &op.inputs);
        let mut inner = Self {
            read: inputs.flat_map(|slot| slot.args.iter().cloned()).collect(),
            first,
            sub_block: None,
            ..self.clone()
        };
        inner.ops = block.ops;
        for var in block.vars {
            inner.index.insert(var.name.clone(), inner.vars.len());
            inner.vars.push(var);
        }
        inner
    }

    /// Where an op is: its position, counted from 1, stands for the line. Those of a second block follow those of the first.
    pub(super) fn loc(&self, cx: &Context, op: usize) -> Loc {
        let line = u32::try_from(self.first + op + 1).unwrap_or(u32::MAX);
        cx.file_loc(&self.file, line, 1)
    }

    /// A variable by name.
    pub(super) fn var(&self, name: &str) -> Option<&Var> {
        self.index.get(name).map(|&at| &self.vars[at])
    }

    /// Whether any op reads a variable.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.read.contains(name)
    }

    /// The message for an exporter's program.
    pub(super) fn encode(header: &Header, vars: Vec<VarDesc>, ops: &[Op]) -> Vec<u8> {
        let block = BlockDesc {
            idx: 0,
            parent_idx: -1,
            vars,
            ops: ops.iter().map(Op::to_proto).collect(),
            forward_block_idx: header.forward_block,
        };
        ProgramDesc {
            blocks: vec![block],
            version: header.version,
            op_version_map: header.op_versions.clone(),
        }
        .encode_to_vec()
    }
}

impl Op {
    /// An attribute.
    pub(super) fn attr(&self, name: &str) -> Option<&Value> {
        self.attrs.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The variables in an input slot; none if there is no such slot.
    pub(super) fn input(&self, slot: &str) -> &[String] {
        args(&self.inputs, slot)
    }

    /// The variables in an output slot; none if there is no such slot.
    pub(super) fn output(&self, slot: &str) -> &[String] {
        args(&self.outputs, slot)
    }

    fn to_proto(&self) -> OpDesc {
        let slots = |slots: &[Slot]| {
            slots
                .iter()
                .map(|slot| OpVar {
                    parameter: slot.name.as_bytes().to_vec(),
                    arguments: slot.args.iter().map(|a| a.as_bytes().to_vec()).collect(),
                })
                .collect()
        };
        OpDesc {
            inputs: slots(&self.inputs),
            outputs: slots(&self.outputs),
            r#type: self.kind.as_bytes().to_vec(),
            attrs: self.attrs.iter().map(|(n, v)| v.to_proto(n)).collect(),
            is_target: self.is_target,
        }
    }
}

fn args<'a>(slots: &'a [Slot], name: &str) -> &'a [String] {
    slots
        .iter()
        .find(|s| s.name == name)
        .map_or(&[], |s| &s.args)
}

fn take_op(desc: OpDesc, at: Loc, diagnostics: &mut Diagnostics) -> Option<Op> {
    let kind = text(&desc.r#type, "op type", at, diagnostics)?;
    let mut slots = |slots: Vec<OpVar>| -> Option<Vec<Slot>> {
        slots
            .into_iter()
            .map(|slot| {
                let args = slot.arguments.iter();
                Some(Slot {
                    name: text(&slot.parameter, "slot name", at, diagnostics)?,
                    args: args
                        .map(|a| text(a, "variable name", at, diagnostics))
                        .collect::<Option<_>>()?,
                })
            })
            .collect()
    };
    let inputs = slots(desc.inputs)?;
    let outputs = slots(desc.outputs)?;
    let mut attrs = Vec::with_capacity(desc.attrs.len());
    for attr in &desc.attrs {
        let name = text(&attr.name, "attribute name", at, diagnostics)?;
        match Value::from_proto(attr) {
            // Whether the program has this block was looked at before.
            Some(value @ Value::Block(1)) if kind == "conditional_block" => {
                attrs.push((name, value));
            }
            Some(Value::Block(_) | Value::Blocks(_)) => {
                diagnostics.push(
                    Diagnostic::error(
                        "E0802",
                        at,
                        format!("`{kind}` runs another block (attribute `{name}`)"),
                    )
                    .help("control flow is not imported; export the program without it"),
                );
                return None;
            }
            Some(value) => attrs.push((name, value)),
            None => {
                diagnostics.push(
                    Diagnostic::error(
                        "E0804",
                        at,
                        format!(
                            "attribute `{name}` of `{kind}` has type {}, which is unknown",
                            attr.r#type
                        ),
                    )
                    .help("attribute types 0 to 17 of Paddle's framework.proto are known"),
                );
                return None;
            }
        }
    }
    Some(Op {
        kind,
        inputs,
        outputs,
        attrs,
        is_target: desc.is_target,
    })
}

fn text(bytes: &[u8], what: &str, at: Loc, diagnostics: &mut Diagnostics) -> Option<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(_) => {
            diagnostics.push(
                Diagnostic::error("E0805", at, format!("a {what} is not UTF-8"))
                    .label(String::from_utf8_lossy(bytes).into_owned())
                    .help("only attribute values may hold arbitrary bytes"),
            );
            None
        }
    }
}

/// Whether a `conditional_block` of the first block runs the second one, and no other op runs any.
fn runs_second(desc: &ProgramDesc) -> bool {
    let ops = desc.blocks.iter().flat_map(|block| &block.ops);
    let mut running = ops.filter(|op| op.attrs.iter().any(|a| matches!(a.r#type, 8 | 10)));
    let (Some(only), None) = (running.next(), running.next()) else {
        return false;
    };
    let last = desc.blocks[0].ops.last();
    only.r#type == b"conditional_block" && last.is_some_and(|last| std::ptr::eq(last, only))
}

/// The first op that runs another block.
fn control_flow(cx: &Context, file: &str, desc: &ProgramDesc) -> Option<(Loc, String)> {
    let ops = &desc.blocks.first()?.ops;
    let at = ops
        .iter()
        .position(|op| op.attrs.iter().any(|a| matches!(a.r#type, 8 | 10)))?;
    let line = u32::try_from(at + 1).ok()?;
    let kind = String::from_utf8_lossy(&ops[at].r#type).into_owned();
    Some((cx.file_loc(file, line, 1), kind))
}
