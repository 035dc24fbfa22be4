//! Aliases: names for attributes and types, and other dialects' attributes and types.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::super::error::{Failure, fail, report};
use super::super::text::ident_from_bytes;
use super::super::token::Tok;
use super::Builder;
use crate::diag::Diagnostic;
use crate::ir::{Attr, AttrData, Ident, Type, TypeData};
use crate::ops::upstream::arith::flags_text;

/// The aliases defined so far, without their `#` or `!`.
#[derive(Default)]
pub(super) struct Aliases<'s> {
    attrs: HashMap<&'s [u8], Attr, FxBuildHasher>,
    types: HashMap<&'s [u8], Type, FxBuildHasher>,
}

impl Aliases<'_> {
    pub fn attr(&self, name: &[u8]) -> Option<Attr> {
        self.attrs.get(name).copied()
    }
}

/// `#dialect.body` or `#dialect<"body">`, cut into its parts.
struct Symbol {
    dialect: Ident,
    body: Box<str>,
    quoted: bool,
}

impl Builder<'_> {
    /// `#name = attribute`
    pub fn define_attr_alias(&mut self, tok: Tok, value: Attr) -> Result<(), Failure> {
        self.only_at_top_level(tok)?;
        let name = &self.bytes(tok)[1..];
        match self.aliases.attrs.insert(name, value) {
            None => Ok(()),
            Some(_) => Err(redefinition(tok, "attribute", name)),
        }
    }

    /// `!name = type`
    pub fn define_type_alias(&mut self, tok: Tok, ty: Type) -> Result<(), Failure> {
        self.only_at_top_level(tok)?;
        let name = &self.bytes(tok)[1..];
        match self.aliases.types.insert(name, ty) {
            None => Ok(()),
            Some(_) => Err(redefinition(tok, "type", name)),
        }
    }

    /// `#dialect.name =`
    pub fn dialect_alias(&mut self, tok: Tok) -> Result<(), Failure> {
        self.only_at_top_level(tok)?;
        let what = if self.bytes(tok)[0] == b'#' {
            "attribute"
        } else {
            "type"
        };
        Err(fail(
            "E0170",
            tok.span(),
            format!("{what} names with a '.' are reserved for dialect-defined names"),
        ))
    }

    pub(super) fn only_at_top_level(&self, tok: Tok) -> Result<(), Failure> {
        if self.at_top_level() {
            return Ok(());
        }
        Err(report(
            Diagnostic::error("E0110", tok.span(), "expected operation name in quotes")
                .help("aliases and resources are defined at the top level of the file"),
        ))
    }

    pub fn attr_alias(&mut self, tok: Tok) -> Result<Attr, Failure> {
        let found = self.aliases.attr(&self.bytes(tok)[1..]);
        found.ok_or_else(|| self.undefined(tok))
    }

    pub fn type_alias(&mut self, tok: Tok) -> Result<Type, Failure> {
        let found = self.aliases.types.get(&self.bytes(tok)[1..]).copied();
        found.ok_or_else(|| self.undefined(tok))
    }

    fn undefined(&self, tok: Tok) -> Failure {
        let name = self.shown(tok);
        report(
            Diagnostic::error(
                "E0171",
                tok.span(),
                format!("undefined symbol alias id '{}'", &name[1..]),
            )
            .help("an alias is defined before it is used; only locations of ops may come first"),
        )
    }

    /// `#dialect.body`, `#dialect<body>`, with a type behind it perhaps.
    pub fn dialect_attr(&mut self, tok: Tok, ty: Option<Type>) -> Result<Attr, Failure> {
        let Symbol {
            dialect,
            body,
            quoted,
        } = self.dialect_symbol(tok, "attribute")?;
        let (body, ty) = match self.cx.str(dialect) {
            "dist" => return self.layout(tok, &body),
            "arith" => match flags_text(&body) {
                Some(flags) => (flags.into(), None),
                None => return Err(self.unknown_symbol(tok, "attribute")),
            },
            "builtin" | "func" | "cf" => return Err(self.unknown_symbol(tok, "attribute")),
            _ => (body, ty),
        };
        let none = self.known_types.none;
        Ok(self.cx.attr(AttrData::Opaque {
            dialect,
            body,
            quoted,
            ty: ty.filter(|&ty| ty != none),
        }))
    }

    pub fn dialect_type(&mut self, tok: Tok) -> Result<Type, Failure> {
        let Symbol {
            dialect,
            body,
            quoted,
        } = self.dialect_symbol(tok, "type")?;
        if ["arith", "builtin", "cf", "func"].contains(&self.cx.str(dialect)) {
            return Err(self.unknown_symbol(tok, "type"));
        }
        if self.cx.str(dialect) == "dist" && (&*body, quoted) != ("token", false) {
            return Err(report(
                Diagnostic::error(
                    "E0172",
                    tok.span(),
                    format!("unknown type '{}' in dialect 'dist'", self.shown(tok)),
                )
                .help("the dialect has one type, !dist.token"),
            ));
        }
        Ok(self.cx.ty(TypeData::Opaque {
            dialect,
            body,
            quoted,
        }))
    }

    fn unknown_symbol(&self, tok: Tok, what: &str) -> Failure {
        let shown = self.shown(tok);
        report(
            Diagnostic::error("E0176", tok.span(), format!("unknown {what} '{shown}'"))
                .label("the dialect has no such one"),
        )
    }

    fn dialect_symbol(&mut self, tok: Tok, what: &str) -> Result<Symbol, Failure> {
        let bytes = &self.bytes(tok)[1..];
        let cut = memchr::memchr2(b'.', b'<', bytes).expect("it has a dot or a body");
        let name = std::str::from_utf8(&bytes[..cut]).expect("identifiers are ASCII");
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || name.contains('-') {
            return Err(report(
                Diagnostic::error(
                    "E0176",
                    tok.span(),
                    format!("invalid dialect namespace '{name}'"),
                )
                .help("a dialect's name starts with a letter or '_'"),
            ));
        }
        if !self.options.allow_unregistered && !self.cx.registry().accepts_dialect(name) {
            return Err(report(
                Diagnostic::error(
                    "E0173",
                    tok.span(),
                    format!(
                        "{what} '{}' belongs to the unregistered dialect '{name}'",
                        self.shown(tok)
                    ),
                )
                .help("pass --allow-unregistered-dialect to accept what other dialects define"),
            ));
        }
        let first = name.bytes().next().unwrap_or(b'-');
        let rest = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'));
        if !(first.is_ascii_alphabetic() || first == b'_') || !rest {
            return Err(fail(
                "E0173",
                tok.span(),
                format!("invalid dialect namespace '\"{name}\"'"),
            ));
        }
        let body = &bytes[cut + 1..];
        let flags = body.starts_with(b"fastmath<") || body.starts_with(b"overflow<");
        if matches!(name, "builtin" | "func" | "cf")
            || (name == "arith" && !(what == "attribute" && flags))
        {
            return Err(fail(
                "E0172",
                tok.span(),
                format!("dialect '{name}' has no such {what}"),
            ));
        }
        let dialect = self.cx.ident(name);
        let body = if bytes[cut] == b'<' {
            &bytes[cut + 1..bytes.len() - 1]
        } else {
            &bytes[cut + 1..]
        };
        Ok(Symbol {
            dialect,
            quoted: !fits_behind_dot(body),
            body: ident_from_bytes(body).into(),
        })
    }
}

fn redefinition(tok: Tok, what: &str, name: &[u8]) -> Failure {
    let name = String::from_utf8_lossy(name);
    fail(
        "E0174",
        tok.span(),
        format!("redefinition of {what} alias id '{name}'"),
    )
}

/// Whether what follows a dialect's name can be written behind a dot. Either way of writing it means the same.
fn fits_behind_dot(body: &[u8]) -> bool {
    if !body.first().is_some_and(u8::is_ascii_alphabetic) {
        return false;
    }
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_');
    let mut rest = body.iter().skip_while(|b| is_name(b)).copied().peekable();
    if rest.peek().is_none() {
        return true;
    }
    if rest.peek() != Some(&b'<') {
        return false;
    }
    let mut open = Vec::new();
    while let Some(byte) = rest.next() {
        let opener = match byte {
            0 => return false,
            b'<' | b'[' | b'(' | b'{' => {
                open.push(byte);
                continue;
            }
            b'-' if rest.peek() == Some(&b'>') => {
                rest.next();
                continue;
            }
            b'>' => b'<',
            b']' => b'[',
            b')' => b'(',
            b'}' => b'{',
            _ => continue,
        };
        if open.pop() != Some(opener) {
            return false;
        }
        if open.is_empty() {
            return rest.next().is_none();
        }
    }
    false
}
