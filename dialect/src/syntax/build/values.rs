//! Values by name: definitions, uses, and uses that come before their definition.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::super::error::{Failure, fail, report};
use super::super::token::Tok;
use super::{Builder, at, mark};
use crate::diag::Diagnostic;
use crate::ir::{OpId, Type, ValueId};

/// `%name` or `%name:count` before an op.
pub(super) struct ResultName {
    tok: Tok,
    count: u32,
}

/// `%name` or `%name#number` as an operand.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    tok: Tok,
    number: u32,
}

/// The values that can be named.
#[derive(Default)]
pub(super) struct Scope<'s> {
    defined: HashMap<&'s [u8], Definition, FxBuildHasher>,
    /// Used, but not defined yet.
    pending: HashMap<&'s [u8], PendingNumbers, FxBuildHasher>,
    /// Names in the order of their definition, to forget them when their region ends.
    order: Vec<&'s [u8]>,
    /// Where the names of the results of the op to come start.
    pub pending_results: Option<u32>,
}

/// Values that share a name: results of one op, next to each other.
#[derive(Clone, Copy)]
struct Definition {
    first: ValueId,
    count: u32,
    start: u32,
}

/// By the number behind `#`.
type PendingNumbers = HashMap<u32, Pending, FxBuildHasher>;

struct Pending {
    value: ValueId,
    start: u32,
}

impl Scope<'_> {
    pub fn mark(&self) -> u32 {
        mark(&self.order)
    }

    /// Forgets the names that were defined after the mark.
    pub fn close(&mut self, mark: u32) {
        for name in self.order.drain(mark as usize..) {
            self.defined.remove(name);
        }
    }
}

impl<'s> Builder<'s> {
    /// `%name` or `%name:count` before an op.
    pub fn result(&mut self, tok: Tok, count: Option<Tok>) -> Result<(), Failure> {
        let count = match count {
            None => 1,
            Some(number) => match self.small_integer(number) {
                Some(count @ 1..) => count,
                _ => {
                    return Err(fail(
                        "E0130",
                        number.span(),
                        "expected named operation to have at least 1 result",
                    ));
                }
            },
        };
        if self.values.pending_results.is_none() {
            self.values.pending_results = Some(mark(&self.results));
        }
        self.results.push(ResultName { tok, count });
        Ok(())
    }

    /// `%name` or `%name#number` as an operand. It is looked up when its type is known.
    pub fn operand(&mut self, tok: Tok, number: Option<Tok>) -> Result<(), Failure> {
        let number = match number {
            None => 0,
            Some(number) => {
                let digits = &self.bytes(number)[1..];
                let value = std::str::from_utf8(digits)
                    .ok()
                    .and_then(|d| d.parse().ok());
                value.ok_or_else(|| {
                    fail("E0131", number.span(), "invalid SSA value result number")
                })?
            }
        };
        self.operands.push(Operand { tok, number });
        Ok(())
    }

    /// `%name#0` as the name of a block argument.
    pub fn numbered_arg(&mut self, name: Tok, number: Tok) -> Result<Tok, Failure> {
        match &self.bytes(number)[1..] {
            [b'0'] => Ok(name),
            _ => Err(fail(
                "E0131",
                number.span(),
                "a block argument is one value, number 0",
            )),
        }
    }

    /// Adds the types from the mark on as those of the op's last operands.
    pub fn typed_operands(&mut self, types: u32) {
        let end = mark(&self.types);
        self.frame().types = (types, end);
    }

    /// The value that an operand names.
    pub(super) fn resolve(&mut self, operand: Operand, ty: Type) -> Result<ValueId, Failure> {
        let name = self.bytes(operand.tok);
        if let Some(found) = self.values.defined.get(name) {
            if operand.number >= found.count {
                return Err(report(
                    Diagnostic::error(
                        "E0131",
                        operand.tok.span(),
                        "reference to invalid result number",
                    )
                    .note(
                        Some(at(found.start).into()),
                        format!(
                            "'{}' is defined here, with {} values",
                            String::from_utf8_lossy(name),
                            found.count
                        ),
                    ),
                ));
            }
            let value = found.first.offset(operand.number);
            let (start, known) = (found.start, self.module.ty(value));
            return self.checked(operand, value, known, ty, start);
        }
        let pending = self.values.pending.entry(name).or_default();
        if let Some(found) = pending.get(&operand.number) {
            let (value, start) = (found.value, found.start);
            let known = self.module.ty(value);
            return self.checked(operand, value, known, ty, start);
        }
        let value = self.module.create_pending(ty);
        let start = operand.tok.start;
        pending.insert(operand.number, Pending { value, start });
        Ok(value)
    }

    fn checked(
        &self,
        operand: Operand,
        value: ValueId,
        known: Type,
        ty: Type,
        start: u32,
    ) -> Result<ValueId, Failure> {
        if known == ty {
            return Ok(value);
        }
        let name = self.shown(operand.tok);
        let (wanted, found) = (self.cx.display(ty), self.cx.display(known));
        Err(report(
            Diagnostic::error(
                "E0132",
                operand.tok.span(),
                format!("use of value '{name}' expects different type than prior uses: '{wanted}' vs '{found}'"),
            )
            .note(Some(at(start).into()), "prior use here"),
        ))
    }

    /// Names the results of an op that was just created.
    pub(super) fn define_results(
        &mut self,
        op: OpId,
        names: usize,
        tok: Tok,
    ) -> Result<(), Failure> {
        if names == self.results.len() {
            return Ok(());
        }
        let start = self.results[names].tok.start;
        let count = self.module.num_results(op);
        let named: u64 = self.results[names..]
            .iter()
            .map(|r| u64::from(r.count))
            .sum();
        if count == 0 {
            return Err(fail(
                "E0130",
                start as usize..tok.start as usize,
                "cannot name an operation with no results",
            ));
        }
        if named != count as u64 {
            return Err(report(
                Diagnostic::error(
                    "E0130",
                    start as usize..tok.start as usize,
                    format!("operation defines {count} results but was provided {named} to bind"),
                )
                .help("a name stands for one result; %name:2 stands for two"),
            ));
        }
        let mut first = 0;
        for index in names..self.results.len() {
            let ResultName { tok, count } = self.results[index];
            let value = self.module.result(op, first);
            self.define(tok, value, count, start)?;
            first += count as usize;
        }
        self.results.truncate(names);
        Ok(())
    }

    /// Gives values a name.
    pub(super) fn define(
        &mut self,
        tok: Tok,
        first: ValueId,
        count: u32,
        place: u32,
    ) -> Result<(), Failure> {
        let name = self.bytes(tok);
        let definition = Definition {
            first,
            count,
            start: tok.start,
        };
        if let Some(earlier) = self.values.defined.insert(name, definition) {
            return Err(report(
                Diagnostic::error(
                    "E0133",
                    place as usize..tok.end as usize,
                    format!(
                        "redefinition of SSA value '{}'",
                        String::from_utf8_lossy(name)
                    ),
                )
                .note(Some(at(earlier.start).into()), "previously defined here"),
            ));
        }
        self.values.order.push(name);
        if self.values.pending.is_empty() {
            return Ok(());
        }
        let Some(pending) = self.values.pending.remove(name) else {
            return Ok(());
        };
        for (number, used) in pending {
            let name = format!("{}#{}", String::from_utf8_lossy(name), number);
            if number >= count {
                return Err(fail(
                    "E0131",
                    at(used.start),
                    format!("reference to invalid result number: '{name}' has only {count} values"),
                ));
            }
            let value = first.offset(number);
            let (ty, expected) = (self.module.ty(value), self.module.ty(used.value));
            if ty != expected {
                let (ty, expected) = (self.cx.display(ty), self.cx.display(expected));
                return Err(report(
                    Diagnostic::error(
                        "E0132",
                        place as usize..tok.end as usize,
                        format!("definition of SSA value '{name}' has type '{ty}'"),
                    )
                    .note(
                        Some(at(used.start).into()),
                        format!("previously used here with type '{expected}'"),
                    ),
                ));
            }
            self.module.replace_uses(used.value, value);
        }
        Ok(())
    }

    /// Every value that was used has been defined.
    pub(super) fn check_forward_references(&self) -> Result<(), Failure> {
        let missing = self
            .values
            .pending
            .values()
            .flat_map(HashMap::values)
            .min_by_key(|p| p.start);
        match missing {
            None => Ok(()),
            Some(pending) => Err(report(
                Diagnostic::error(
                    "E0134",
                    at(pending.start),
                    "use of undeclared SSA value name",
                )
                .label("no op and no block defines this value"),
            )),
        }
    }
}
