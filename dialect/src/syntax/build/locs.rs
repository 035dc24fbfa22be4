//! Locations.

use super::super::error::{Failure, fail, report};
use super::super::text::ident_from_bytes;
use super::super::token::Tok;
use super::{Builder, mark};
use crate::diag::Diagnostic;
use crate::ir::{Attr, AttrData, BlockId, Context, Ident, Loc, LocData, OpId};

/// The location of an op or block argument.
#[derive(Clone, Copy)]
pub(in super::super) enum OpLoc {
    Known(Loc),
    /// An alias that is not defined yet.
    Alias(Tok),
}

/// What waits for the definition of a location alias.
pub(super) enum Target {
    Op(OpId),
    Arg(BlockId, usize),
}

/// Lines and columns of the text.
pub(super) struct Positions {
    file: Ident,
    first_line: u32,
    /// Where lines start.
    lines: Vec<u32>,
    /// The line of the last place that was asked for: the next is mostly on it or shortly after.
    last: usize,
}

impl Positions {
    pub fn new(file: Ident, text: &[u8], first_line: u32) -> Self {
        let starts = memchr::memchr_iter(b'\n', text).map(|at| at as u32 + 1);
        Self {
            file,
            first_line,
            lines: std::iter::once(0).chain(starts).collect(),
            last: 0,
        }
    }

    /// The place of a byte, as a location.
    pub fn loc(&mut self, cx: &Context, start: u32) -> Loc {
        let starts_at = |line: usize| self.lines.get(line).is_some_and(|&l| l <= start);
        if !starts_at(self.last) {
            self.last = self.lines.partition_point(|&l| l <= start) - 1;
        }
        for _ in 0..8 {
            if !starts_at(self.last + 1) {
                break;
            }
            self.last += 1;
        }
        if starts_at(self.last + 1) {
            self.last = self.lines.partition_point(|&l| l <= start) - 1;
        }
        let line = (self.last as u32).saturating_add(self.first_line);
        let col = start - self.lines[self.last] + 1;
        cx.loc(LocData::file(self.file, line, col))
    }
}

impl Builder<'_> {
    pub fn unknown_loc(&self) -> Loc {
        self.cx.unknown_loc()
    }

    fn string_ident(&self, tok: Tok) -> Ident {
        self.cx.ident(&ident_from_bytes(&self.string_bytes(tok)))
    }

    /// `"name"` or `"name"(child)`
    pub fn name_loc(&mut self, name: Tok, child: Option<Loc>) -> Loc {
        let name = self.string_ident(name);
        let child = child.unwrap_or(self.cx.unknown_loc());
        self.cx.loc(LocData::Name { name, child })
    }

    /// `"file":line:col`, or a range that ends at another column and perhaps line.
    pub fn file_loc(
        &mut self,
        file: Tok,
        line: Tok,
        col: Option<Tok>,
        end: (Option<Tok>, Option<Tok>),
    ) -> Result<Loc, Failure> {
        let file = self.string_ident(file);
        let number = |tok: Tok, what: &str| {
            self.small_integer(tok).ok_or_else(|| {
                fail(
                    "E0160",
                    tok.span(),
                    format!("expected integer {what} number in FileLineColLoc"),
                )
            })
        };
        let line = number(line, "line")?;
        let col = col.map_or(Ok(0), |tok| number(tok, "column"))?;
        let end = match end {
            (end_line, Some(end_col)) => {
                let end_line = end_line.map_or(Ok(line), |tok| number(tok, "line"))?;
                Some((end_line, number(end_col, "column")?)).filter(|&end| end != (line, col))
            }
            _ => None,
        };
        Ok(self.cx.loc(LocData::File {
            file,
            line,
            col,
            end,
        }))
    }

    pub fn call_site_loc(&mut self, callee: Loc, caller: Loc) -> Loc {
        self.cx.loc(LocData::CallSite { callee, caller })
    }

    pub fn locs_mark(&mut self) -> u32 {
        mark(&self.locs)
    }

    pub fn push_loc(&mut self, loc: Loc) -> u32 {
        self.locs.push(loc);
        mark(&self.locs) - 1
    }

    /// `fused<metadata>[…]`: without unknown and repeated parts, and without fusion of one.
    pub fn fused_loc(&mut self, from: u32, metadata: Option<Attr>) -> Loc {
        let parts = self.locs.split_off(from as usize);
        self.cx.fused_loc(&parts, metadata)
    }

    /// A location as an attribute.
    pub fn loc_attr(&mut self, loc: Loc) -> Attr {
        self.cx.attr(AttrData::Loc(loc))
    }

    /// An alias as the location of an op or block argument; it may be defined later.
    pub fn loc_alias(&mut self, tok: Tok) -> Result<OpLoc, Failure> {
        match self.aliases.attr(&self.bytes(tok)[1..]) {
            Some(attr) => Ok(OpLoc::Known(self.loc_in(attr, tok)?)),
            None => Ok(OpLoc::Alias(tok)),
        }
    }

    /// An alias within a location: it is defined before.
    pub fn inner_loc_alias(&mut self, tok: Tok) -> Result<Loc, Failure> {
        let attr = self.attr_alias(tok)?;
        self.loc_in(attr, tok)
    }

    /// `loc(#alias)` as an attribute.
    pub fn known_loc_alias(&mut self, tok: Tok) -> Result<Attr, Failure> {
        let loc = self.inner_loc_alias(tok)?;
        Ok(self.loc_attr(loc))
    }

    fn loc_in(&self, attr: Attr, tok: Tok) -> Result<Loc, Failure> {
        match self.cx.attr_data(attr) {
            AttrData::Loc(loc) => Ok(*loc),
            _ => {
                let found = self.cx.display(attr);
                Err(fail(
                    "E0161",
                    tok.span(),
                    format!("expected location, but found '{found}'"),
                ))
            }
        }
    }

    /// The location written behind a `return` that was already created.
    pub fn relocate(&mut self, loc: OpLoc) {
        let op = self.last_op.expect("an op was created");
        match loc {
            OpLoc::Known(loc) => self.module.set_loc(op, loc),
            OpLoc::Alias(tok) => self.deferred_locs.push((Target::Op(op), tok)),
        }
    }

    /// Location aliases that were used before their definition.
    pub(super) fn resolve_deferred_locs(&mut self) -> Result<(), Failure> {
        for (target, tok) in std::mem::take(&mut self.deferred_locs) {
            let Some(attr) = self.aliases.attr(&self.bytes(tok)[1..]) else {
                return Err(report(
                    Diagnostic::error(
                        "E0162",
                        tok.span(),
                        "operation location alias was never defined",
                    )
                    .help(format!(
                        "define it anywhere at the top level: {} = loc(...)",
                        self.shown(tok)
                    )),
                ));
            };
            let loc = self.loc_in(attr, tok)?;
            match target {
                Target::Op(op) => self.module.set_loc(op, loc),
                Target::Arg(block, index) => self.module.set_arg_loc(block, index, loc),
            }
        }
        Ok(())
    }
}
