//! Regions and blocks.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::super::error::{Failure, fail, report};
use super::super::token::Tok;
use super::locs::{OpLoc, Target};
use super::{Builder, at, mark};
use crate::diag::Diagnostic;
use crate::ir::{BlockId, RegionId, Type};

/// How many regions may lie in each other. Nothing here needs the limit, but stock MLIR recurses and crashes not far beyond.
const MAX_DEPTH: usize = 2048;

/// A region whose text is being read.
pub(super) struct Region<'s> {
    region: RegionId,
    /// The block that takes the next op; none before the first label or op.
    block: Option<BlockId>,
    /// What was named when the region began.
    values: u32,
    blocks: Option<BlockNames<'s>>,
    /// The entry block has arguments that came with the op, so that it cannot have a label.
    has_arguments: bool,
    /// The opening brace, if this is a function's body.
    function: Option<Tok>,
}

pub(super) type BlockNames<'s> = HashMap<&'s [u8], NamedBlock, FxBuildHasher>;

#[derive(Clone, Copy)]
pub(super) struct NamedBlock {
    block: BlockId,
    defined: bool,
    start: u32,
}

/// `%name : type` behind a block's label.
pub(super) struct BlockArg {
    tok: Tok,
    ty: Type,
    loc: Option<OpLoc>,
}

impl<'s> Builder<'s> {
    /// The body of the module around everything.
    pub(super) fn open_file(&mut self) {
        let root = self.module.root();
        let region = self.module.regions(root)[0];
        let block = self.module.first_block(region);
        self.regions.push(Region {
            region,
            block,
            values: 0,
            blocks: None,
            has_arguments: false,
            function: None,
        });
    }

    pub(super) fn close_file(&mut self) -> Result<(), Failure> {
        let region = self.regions.pop().expect("the file's region is open");
        self.close_blocks(region.blocks)
    }

    /// A file that is one module is that module.
    pub(super) fn unwrap_single_module(&mut self) {
        let root = self.module.root();
        let body = self.module.body(root);
        if let Some(only) = self.module.first_op(body)
            && self.module.last_op(body) == Some(only)
            && self.module.is(only, "builtin.module")
        {
            self.module.make_root(only);
        }
    }

    pub(super) fn at_top_level(&self) -> bool {
        self.regions.len() == 1
    }

    fn open_region(&mut self, brace: Tok) -> Result<RegionId, Failure> {
        if self.regions.len() > MAX_DEPTH {
            return Err(report(
                Diagnostic::error("E0144", brace.span(), "regions are nested too deeply")
                    .help(format!("at most {MAX_DEPTH} regions may lie in each other")),
            ));
        }
        let region = self.module.create_region();
        self.regions.push(Region {
            region,
            block: None,
            values: self.values.mark(),
            blocks: None,
            has_arguments: false,
            function: None,
        });
        Ok(region)
    }

    fn region(&mut self) -> &mut Region<'s> {
        self.regions.last_mut().expect("a region is open")
    }

    pub fn begin_region(&mut self, brace: Tok) -> Result<(), Failure> {
        self.open_region(brace).map(drop)
    }

    /// A function's body: its entry block takes the function's arguments.
    pub fn begin_function_body(&mut self, brace: Tok) -> Result<(), Failure> {
        let region = self.open_region(brace)?;
        self.region().function = Some(brace);
        let args = std::mem::take(&mut self.function.args);
        if args.is_empty() {
            return Ok(());
        }
        let block = self.module.append_block(region);
        self.region().block = Some(block);
        self.region().has_arguments = true;
        for arg in args {
            let Some(tok) = arg.name else {
                return Err(report(
                    Diagnostic::error("E0150", at(arg.start), "expected SSA identifier")
                        .help("a function with a body names its arguments: %name: type"),
                ));
            };
            let (ty, loc) = (arg.ty, arg.loc);
            self.add_block_arg(block, BlockArg { tok, ty, loc })?;
        }
        Ok(())
    }

    pub fn end_region(&mut self) -> Result<(), Failure> {
        let region = self.regions.pop().expect("a region is open");
        self.values.close(region.values);
        self.close_blocks(region.blocks)?;
        if let Some(brace) = region.function
            && region.block.is_none()
        {
            return Err(report(
                Diagnostic::error("E0143", brace.span(), "expected non-empty function body")
                    .help("a function without a body is declared without braces"),
            ));
        }
        self.finished_regions.push(region.region);
        Ok(())
    }

    fn close_blocks(&mut self, blocks: Option<BlockNames<'s>>) -> Result<(), Failure> {
        let Some(mut blocks) = blocks else {
            return Ok(());
        };
        let missing = blocks
            .values()
            .filter(|b| !b.defined)
            .min_by_key(|b| b.start);
        if let Some(missing) = missing {
            return Err(report(
                Diagnostic::error(
                    "E0140",
                    at(missing.start),
                    "reference to an undefined block",
                )
                .help("a block is defined by its label in the same region: ^name:"),
            ));
        }
        blocks.clear();
        self.free_block_names.push(blocks);
        Ok(())
    }

    /// The block that takes the next op.
    pub(super) fn current_block(&mut self) -> BlockId {
        let Region { region, block, .. } = *self.region();
        block.unwrap_or_else(|| {
            let block = self.module.append_block(region);
            self.region().block = Some(block);
            block
        })
    }

    fn block_names(&mut self) -> &mut BlockNames<'s> {
        let free = &mut self.free_block_names;
        let region = self.regions.last_mut().expect("a region is open");
        region
            .blocks
            .get_or_insert_with(|| free.pop().unwrap_or_default())
    }

    /// `^name` behind an op.
    pub fn successor(&mut self, tok: Tok) -> Result<(), Failure> {
        let name = self.bytes(tok);
        let block = match self.block_names().get(name) {
            Some(found) => found.block,
            None => {
                let region = self.region().region;
                let block = self.module.create_block(region);
                let named = NamedBlock {
                    block,
                    defined: false,
                    start: tok.start,
                };
                self.block_names().insert(name, named);
                block
            }
        };
        self.successors.push(block);
        Ok(())
    }

    pub fn block_args_mark(&mut self) -> u32 {
        mark(&self.block_args)
    }

    pub fn block_arg(&mut self, tok: Tok, ty: Type, loc: Option<OpLoc>) -> u32 {
        self.block_args.push(BlockArg { tok, ty, loc });
        mark(&self.block_args) - 1
    }

    /// `^name(…):`
    pub fn start_block(&mut self, tok: Tok, args: u32) -> Result<(), Failure> {
        if self.at_top_level() {
            return Err(report(
                Diagnostic::error("E0110", tok.span(), "expected operation name in quotes")
                    .label("a block is part of a region"),
            ));
        }
        if self.region().has_arguments && self.first_block_is_empty() {
            return Err(fail(
                "E0141",
                tok.span(),
                "invalid block name in region with named arguments",
            ));
        }
        let name = self.bytes(tok);
        let region = self.region().region;
        let block = match self.block_names().get(name).copied() {
            Some(NamedBlock {
                defined: true,
                start,
                ..
            }) => {
                let name = String::from_utf8_lossy(name);
                return Err(report(
                    Diagnostic::error(
                        "E0142",
                        tok.span(),
                        format!("redefinition of block '{name}'"),
                    )
                    .note(Some(at(start).into()), "first defined here"),
                ));
            }
            Some(NamedBlock { block, .. }) => {
                self.module.link_block(block);
                block
            }
            None => self.module.append_block(region),
        };
        let named = NamedBlock {
            block,
            defined: true,
            start: tok.start,
        };
        self.block_names().insert(name, named);
        self.region().block = Some(block);
        let mut added = self.block_args.split_off(args as usize);
        for arg in added.drain(..) {
            self.add_block_arg(block, arg)?;
        }
        Ok(())
    }

    /// A module's body has a block even if nothing is in it.
    pub fn module_body(&mut self) {
        let region = *self.finished_regions.last().expect("the body was read");
        if self.module.first_block(region).is_none() {
            self.module.append_block(region);
        }
    }

    /// Whether the region has nothing but an entry block that nothing was put into.
    fn first_block_is_empty(&self) -> bool {
        let region = self.regions.last().expect("a region is open");
        region.blocks.as_ref().is_none_or(HashMap::is_empty)
            && region.block.is_some_and(|b| {
                self.module.first_block(region.region) == Some(b)
                    && self.module.first_op(b).is_none()
            })
    }

    fn add_block_arg(&mut self, block: BlockId, arg: BlockArg) -> Result<(), Failure> {
        let loc = match arg.loc {
            None => self.positions.loc(&self.cx, arg.tok.start),
            Some(OpLoc::Known(loc)) => loc,
            Some(OpLoc::Alias(tok)) => {
                let index = self.module.args(block).len();
                self.deferred_locs.push((Target::Arg(block, index), tok));
                self.cx.unknown_loc()
            }
        };
        let value = self.module.add_arg(block, arg.ty, loc);
        self.define(arg.tok, value, 1, arg.tok.start)
    }
}
