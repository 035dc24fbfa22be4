//! The body of an entry point.

use std::collections::HashMap;

use super::KernelParameter;
use super::decode;
use super::lexer::{Lexer, Token, number};
use super::operands;
use crate::error::Error;
use crate::instruction::{Instruction, Operand, Special, Type};

/// What a body holds.
pub(super) struct Body {
    pub instructions: Vec<Instruction>,
    pub registers: usize,
}

/// Reads a body from its opening to its closing brace.
pub(super) fn read(
    lexer: &mut Lexer,
    parameters: &[KernelParameter],
    shared: &mut HashMap<String, u32>,
    static_shared_bytes: &mut u32,
) -> Result<Body, Error> {
    lexer.expect('{')?;
    let mut reader = Reader {
        parameters,
        scopes: vec![Scope::default()],
        registers: 0,
        labels: HashMap::new(),
        jumps: Vec::new(),
        instructions: Vec::new(),
    };
    while !reader.scopes.is_empty() {
        if lexer.take('{') {
            reader.scopes.push(Scope::default());
        } else if lexer.take('}') {
            reader.scopes.pop();
        } else {
            reader.statement(lexer, shared, static_shared_bytes)?;
        }
    }
    reader.resolve_jumps()?;
    Ok(Body {
        instructions: reader.instructions,
        registers: reader.registers as usize,
    })
}

/// `.shared .align 16 .b8 name[1024];`, after `.shared`. An array without a size is the launch's, and starts where the declared
/// ones end; only one order of declarations would make that wrong, so it must come last.
pub(super) fn shared_variable(
    lexer: &mut Lexer,
    shared: &mut HashMap<String, u32>,
    static_shared_bytes: &mut u32,
) -> Result<(), Error> {
    let mut alignment = 1;
    let mut element = 1;
    let name = loop {
        let word = lexer.word()?;
        if word == ".align" {
            alignment = lexer.number()?;
        } else if let Some(suffix) = word.strip_prefix('.') {
            let Some(found) = Type::parse(suffix) else {
                return Err(lexer.unsupported(&word));
            };
            element = found.bytes() as u64;
        } else {
            break word;
        }
    };
    let mut bytes = element;
    if lexer.take('[') {
        bytes = 0;
        if !lexer.take(']') {
            bytes = element.saturating_mul(lexer.number()?);
            lexer.expect(']')?;
        }
    }
    lexer.expect(';')?;
    let too_large = || lexer.error("shared memory of this size does not exist");
    let start = u64::from(*static_shared_bytes).next_multiple_of(alignment.max(1));
    let end = u32::try_from(start.saturating_add(bytes)).map_err(|_| too_large())?;
    shared.insert(name, start as u32);
    *static_shared_bytes = end;
    Ok(())
}

/// Names of registers that are declared between two braces.
#[derive(Default)]
struct Scope {
    registers: HashMap<String, u32>,
    /// `%r<10>` declares `%r0` to `%r9`.
    families: HashMap<String, u64>,
}

struct Reader<'p> {
    parameters: &'p [KernelParameter],
    scopes: Vec<Scope>,
    registers: u32,
    labels: HashMap<String, usize>,
    /// Branches, with the names of their targets and their lines.
    jumps: Vec<(usize, String, u32)>,
    instructions: Vec<Instruction>,
}

impl Reader<'_> {
    fn statement(
        &mut self,
        lexer: &mut Lexer,
        shared: &mut HashMap<String, u32>,
        static_shared_bytes: &mut u32,
    ) -> Result<(), Error> {
        let line = lexer.line();
        let guard = self.guard(lexer)?;
        let word = lexer.word()?;
        if guard.is_none() && lexer.take(':') {
            self.labels.insert(word, self.instructions.len());
            return Ok(());
        }
        match word.as_str() {
            ".reg" => return self.declare(lexer),
            ".shared" => return shared_variable(lexer, shared, static_shared_bytes),
            ".pragma" => {
                while lexer
                    .advance()
                    .is_some_and(|token| token != Token::Mark(';'))
                {}
                return Ok(());
            }
            _ if word.starts_with('.') => return Err(lexer.unsupported(&word)),
            _ => {}
        }
        let operation = decode::operation(&word).ok_or_else(|| Error::Unsupported {
            line,
            what: word.clone(),
        })?;
        let mut operands = Vec::new();
        while !lexer.take(';') {
            if operation == crate::instruction::Operation::Branch {
                let target = lexer.word()?;
                self.jumps.push((self.instructions.len(), target, line));
                operands.push(Operand::Label(0));
            } else {
                operands.push(self.operand(lexer, shared)?);
            }
            if !lexer.take(',') && lexer.peek() != Some(&Token::Mark(';')) {
                return Err(lexer.error("expected `,` or `;` after an operand"));
            }
        }
        operands::check(operation, &operands).map_err(|message| Error::Syntax {
            line,
            message: format!("`{word}`: {message}"),
        })?;
        self.instructions.push(Instruction {
            line,
            guard,
            operation,
            operands,
        });
        Ok(())
    }

    /// `@%p1` or `@!%p1`
    fn guard(&mut self, lexer: &mut Lexer) -> Result<Option<(u32, bool)>, Error> {
        if !lexer.take('@') {
            return Ok(None);
        }
        let negated = lexer.take('!');
        let name = lexer.word()?;
        match self.register(&name) {
            Some(register) => Ok(Some((register, negated))),
            None => Err(lexer.error(&format!("`{name}` is not declared"))),
        }
    }

    /// `.b32 %r<10>;` or `.b16 tmp, other;`, after `.reg`
    fn declare(&mut self, lexer: &mut Lexer) -> Result<(), Error> {
        let of = lexer.word()?;
        if of.strip_prefix('.').and_then(Type::parse).is_none() {
            return Err(lexer.unsupported(&of));
        }
        loop {
            let name = lexer.word()?;
            let count = if lexer.take('<') {
                let count = lexer.number()?;
                lexer.expect('>')?;
                Some(count)
            } else {
                None
            };
            let (next, scope) = (&mut self.registers, self.scopes.last_mut());
            let Some(scope) = scope else {
                return Err(lexer.error("a register outside a body"));
            };
            match count {
                Some(count) => {
                    scope.families.insert(name, count);
                }
                None => {
                    scope.registers.insert(name, *next);
                    *next += 1;
                }
            }
            if lexer.take(';') {
                return Ok(());
            }
            lexer.expect(',')?;
        }
    }

    /// The number of a declared register.
    fn register(&mut self, name: &str) -> Option<u32> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (family, index) = name.split_at(name.len() - digits);
        for scope in self.scopes.iter_mut().rev() {
            if let Some(&register) = scope.registers.get(name) {
                return Some(register);
            }
            let count = scope.families.get(family).copied().unwrap_or(0);
            if index.parse::<u64>().is_ok_and(|index| index < count) {
                let register = self.registers;
                self.registers += 1;
                scope.registers.insert(name.to_owned(), register);
                return Some(register);
            }
        }
        None
    }

    fn operand(
        &mut self,
        lexer: &mut Lexer,
        shared: &HashMap<String, u32>,
    ) -> Result<Operand, Error> {
        if lexer.take('{') {
            let mut list = vec![self.operand(lexer, shared)?];
            while lexer.take(',') {
                list.push(self.operand(lexer, shared)?);
            }
            lexer.expect('}')?;
            return Ok(Operand::Vector(list));
        }
        if lexer.take('[') {
            let base = self.operand(lexer, shared)?;
            if lexer.take(',') {
                let Operand::Vector(place) = self.operand(lexer, shared)? else {
                    return Err(lexer.error("expected a place in a tensor"));
                };
                lexer.expect(']')?;
                return Ok(Operand::Tensor(Box::new(base), place));
            }
            // The offset may have become a part of the base.
            let (base, offset) = match base {
                Operand::Sum(base, offset) => (*base, offset),
                base => (base, offset(lexer)?),
            };
            let base = Box::new(base);
            lexer.expect(']')?;
            return Ok(Operand::Address(base, offset));
        }
        if lexer.take('-') {
            return Ok(Operand::Immediate(lexer.number()?.wrapping_neg()));
        }
        let word = lexer.word()?;
        if let Some(register) = self.register(&word) {
            if lexer.take('|') {
                // Two results, one of them a predicate.
                let other = self.operand(lexer, shared)?;
                return Ok(Operand::Vector(vec![Operand::Register(register), other]));
            }
            let register = Operand::Register(register);
            return Ok(match offset(lexer)? {
                0 => register,
                offset => Operand::Sum(Box::new(register), offset),
            });
        }
        if let Some(special) = special(&word) {
            return Ok(Operand::Special(special));
        }
        if let Some(value) = number(&word) {
            return Ok(Operand::Immediate(value));
        }
        if let Some(&address) = shared.get(&word) {
            return Ok(Operand::Immediate(address.into()));
        }
        if let Some(parameter) = self
            .parameters
            .iter()
            .find(|parameter| parameter.name == word)
        {
            return Ok(Operand::Parameter(parameter.offset));
        }
        match word.as_str() {
            "_" if lexer.take('|') => {
                let other = self.operand(lexer, shared)?;
                Ok(Operand::Vector(vec![Operand::Nothing, other]))
            }
            "_" => Ok(Operand::Nothing),
            "true" => Ok(Operand::Immediate(1)),
            "false" => Ok(Operand::Immediate(0)),
            _ => Err(lexer.error(&format!("`{word}` is not declared"))),
        }
    }

    fn resolve_jumps(&mut self) -> Result<(), Error> {
        for (instruction, target, line) in std::mem::take(&mut self.jumps) {
            let Some(&place) = self.labels.get(&target) else {
                let message = format!("there is no label `{target}`");
                return Err(Error::Syntax { line, message });
            };
            self.instructions[instruction].operands[0] = Operand::Label(place);
        }
        Ok(())
    }
}

/// `+ 16`, `+ -16`, `- 16` or nothing.
fn offset(lexer: &mut Lexer) -> Result<i64, Error> {
    if lexer.take('+') {
        let negative = lexer.take('-');
        let offset = lexer.number()? as i64;
        Ok(if negative {
            offset.wrapping_neg()
        } else {
            offset
        })
    } else if lexer.take('-') {
        Ok((lexer.number()? as i64).wrapping_neg())
    } else {
        Ok(0)
    }
}

fn special(word: &str) -> Option<Special> {
    Some(match word {
        "%tid.x" => Special::Thread,
        "%ntid.x" => Special::Threads,
        "%ctaid.x" => Special::Block,
        "%nctaid.x" => Special::Blocks,
        "%clusterid.x" => Special::Cluster,
        "%nclusterid.x" => Special::Clusters,
        "%cluster_ctaid.x" | "%cluster_ctarank" => Special::Rank,
        "%cluster_nctaid.x" | "%cluster_nctarank" => Special::Ranks,
        "%clusterid.y" | "%clusterid.z" | "%cluster_ctaid.y" | "%cluster_ctaid.z" => Special::Zero,
        "%nclusterid.y" | "%nclusterid.z" | "%cluster_nctaid.y" | "%cluster_nctaid.z" => {
            Special::One
        }
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%tid.y" | "%tid.z" | "%ctaid.y" | "%ctaid.z" => Special::Zero,
        "%ntid.y" | "%ntid.z" | "%nctaid.y" | "%nctaid.z" => Special::One,
        _ => return None,
    })
}
