//! The printer: modules as MLIR's text, in the short forms or in generic form.
//!
//! The text is what `mlir-opt` prints for the same program, byte for byte, as far as it knows the ops; `dist` ops have their
//! own short form. Both forms read back as the same program. Time is linear in the text; nothing recurses.

mod affine;
mod alias;
mod dense;
mod float;
mod form;
mod inherent;
mod names;
mod op;
mod resource;
mod text;
mod types;
mod uniform;
mod upstream;
mod value;
mod visit;

use std::fmt;
use std::io;

use alias::Aliases;
use form::Forms;
use names::Names;
use op::Printer;
use value::ValueWriter;

use crate::ir::{Attr, Context, Loc, Module, OpId, Type, ValueId};

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PrintOptions {
    /// Every op in generic form (`--mlir-print-op-generic`).
    pub generic: bool,
    /// With locations (`--mlir-print-debuginfo`).
    pub debug_info: bool,
    /// Dense attributes of more elements than this become `dense_resource<__elided__>`; such text does not read back as
    /// the same program.
    pub elide_larger: Option<usize>,
}

/// The text of a module, which need not be verified.
pub fn print(module: &Module, options: PrintOptions) -> String {
    let mut text = String::new();
    let written = write_pieces(module, options, &mut |piece| {
        text.push_str(piece);
        Ok(())
    });
    // The only errors are those of the closure.
    debug_assert!(written.is_ok());
    text
}

/// Writes the text of a module, which need not be verified, without ever holding all of it.
///
/// # Errors
/// Those of `out`.
pub fn write(module: &Module, options: PrintOptions, out: &mut impl io::Write) -> io::Result<()> {
    write_pieces(module, options, &mut |piece| {
        out.write_all(piece.as_bytes())
    })
}

/// The value inside `op` that the printed module calls `name`: `%12`, `%arg0`, `%7#1`.
pub fn value_named(module: &Module, op: OpId, name: &str) -> Option<ValueId> {
    let names = Names::new(module, false);
    let mut text = String::new();
    let mut is_called = |value: &ValueId| {
        text.clear();
        names.push_value(&mut text, module, *value);
        text == name
    };
    for inner in module.walk(op) {
        let blocks = module.regions(inner).iter().flat_map(|&r| module.blocks(r));
        let args = blocks.flat_map(|b| module.args(b).iter().copied());
        if let Some(value) = args.chain(module.results(inner)).find(&mut is_called) {
            return Some(value);
        }
    }
    None
}

/// Takes a piece of text.
type Sink<'s> = &'s mut dyn FnMut(&str) -> io::Result<()>;

fn write_pieces(module: &Module, options: PrintOptions, sink: Sink) -> io::Result<()> {
    let forms = Forms::new(module.cx(), options);
    let mut values = ValueWriter::new(module.cx());
    values.elide_larger = options.elide_larger;
    values.aliases = if options.debug_info || module.cx().may_need_alias() {
        visit::aliases(module, &forms, &options)
    } else {
        Aliases::default()
    };
    push_aliases(&mut values, false);
    let names = Names::new(module, options.generic);
    let mut printer = Printer::new(module, values, names, &forms, options);
    printer.run(sink)?;
    let mut values = printer.values;
    push_aliases(&mut values, true);
    resource::push_trailer(&mut values, module);
    sink(&values.out)
}

fn push_aliases(values: &mut ValueWriter, deferred: bool) {
    for index in 0..values.aliases.list.len() {
        let alias = &values.aliases.list[index];
        if alias.deferred != deferred {
            continue;
        }
        let key = alias.key;
        alias.push(&mut values.out);
        values.out.push_str(" = ");
        values.definition(key);
        values.out.push('\n');
    }
}

/// A type, attribute or location as text, for messages.
pub struct Displayed<'c, T> {
    cx: &'c Context,
    what: T,
}

/// What [`Context::display`] takes.
pub trait Printable: Copy {
    /// The text, without aliases.
    fn text(self, cx: &Context) -> String;
}

impl Printable for Type {
    fn text(self, cx: &Context) -> String {
        let mut values = ValueWriter::new(cx);
        values.ty(self);
        values.out
    }
}

impl Printable for Attr {
    fn text(self, cx: &Context) -> String {
        let mut values = ValueWriter::new(cx);
        values.attr(self);
        values.out
    }
}

impl Printable for Loc {
    fn text(self, cx: &Context) -> String {
        let mut values = ValueWriter::new(cx);
        values.loc(self, false);
        values.out
    }
}

impl<T: Printable> fmt::Display for Displayed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what.text(self.cx))
    }
}

impl Context {
    /// A type, attribute or location, to be formatted with `{}`.
    pub fn display<T: Printable>(&self, what: T) -> Displayed<'_, T> {
        Displayed { cx: self, what }
    }
}
