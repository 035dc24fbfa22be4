//! Pipelines: which passes run on what, in which order, with which options. Written as MLIR writes them:
//! `builtin.module(canonicalize,promote-linear{axis=mp},func.func(cse))`.

use std::fmt;
use std::ops::Range;

use raddle_dialect::diag::{Diagnostic, Diagnostics};

use super::registry::{self, closest};
use super::{Anchor, OptionKind, PassDef, PassOptions};
use crate::Error;

/// Anchors deeper than this are refused: no module nests so deep.
const MAX_DEPTH: usize = 64;

/// The passes to run, in order.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    steps: Vec<Step>,
}

/// One pass of a pipeline.
#[derive(Clone, Debug)]
pub struct Step {
    /// The pass.
    pub def: &'static PassDef,
    /// Its options.
    pub options: PassOptions,
    /// Names of the ops that lead to where it runs, below the top module: empty, or for example `["func.func"]`.
    pub path: Vec<String>,
}

impl Pipeline {
    /// A pipeline that does nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The passes, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Adds a pass on the top module, its options written as in pipeline text without the braces.
    ///
    /// # Errors
    /// If an option is wrong. Positions in the diagnostics count from the start of `options`.
    pub fn push(
        &mut self,
        def: &'static PassDef,
        options: &str,
        diagnostics: &mut Diagnostics,
    ) -> Result<(), Error> {
        let mut parser = Parser::new(options, diagnostics);
        let options = parser.options(def, None);
        if parser.failed {
            return Err(Error::Pipeline);
        }
        self.steps.push(Step {
            def,
            options,
            path: Vec::new(),
        });
        Ok(())
    }

    /// Reads pipeline text.
    ///
    /// # Errors
    /// If the text is wrong; every mistake is reported, with its position in `text`.
    pub fn parse(text: &str, diagnostics: &mut Diagnostics) -> Result<Self, Error> {
        let mut parser = Parser::new(text, diagnostics);
        let steps = parser.pipeline();
        if parser.failed {
            return Err(Error::Pipeline);
        }
        Ok(Self { steps })
    }
}

impl fmt::Display for Pipeline {
    /// Writes text that [`Pipeline::parse`] reads as the same pipeline.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("builtin.module(")?;
        let mut path: &[String] = &[];
        let mut first = true;
        for step in &self.steps {
            let common = path
                .iter()
                .zip(&step.path)
                .take_while(|(a, b)| a == b)
                .count();
            for _ in common..path.len() {
                f.write_str(")")?;
            }
            if !first {
                f.write_str(",")?;
            }
            first = false;
            for anchor in &step.path[common..] {
                write!(f, "{anchor}(")?;
            }
            f.write_str(step.def.name)?;
            write_options(&step.options, f)?;
            path = &step.path;
        }
        for _ in 0..path.len() {
            f.write_str(")")?;
        }
        f.write_str(")")
    }
}

fn write_options(options: &PassOptions, f: &mut fmt::Formatter) -> fmt::Result {
    if options.written().is_empty() {
        return Ok(());
    }
    f.write_str("{")?;
    for (index, (name, value)) in options.written().iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        if value.chars().all(plain) && !value.is_empty() {
            write!(f, "{space}{name}={value}")?;
        } else {
            write!(f, "{space}{name}=\"{value}\"")?;
        }
    }
    f.write_str("}")
}

/// Whether a character may stand in an option's value without quotes.
fn plain(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '{' | '}' | '"' | '\'' | '=')
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    diagnostics: &'a mut Diagnostics,
    failed: bool,
    /// The text ended inside braces or quotes, which has been reported.
    cut: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, diagnostics: &'a mut Diagnostics) -> Self {
        Self {
            text,
            at: 0,
            diagnostics,
            failed: false,
            cut: false,
        }
    }

    fn error(&mut self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        self.failed = true;
        let mut diagnostic = Diagnostic::error("E0601", span, message);
        diagnostic.help = help;
        self.diagnostics.push(diagnostic);
    }

    fn unclosed(&mut self, at: usize, what: &str) {
        self.cut = true;
        self.error(at..at + 1, format!("this {what} is not closed"), None);
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_space(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> Range<usize> {
        let start = self.at;
        let rest = &self.text[start..];
        self.at += rest.find(|c| !accept(c)).unwrap_or(rest.len());
        start..self.at
    }

    /// The next character and its span; an empty span at the end of the text.
    fn here(&self) -> Range<usize> {
        self.at..self.at + self.peek().map_or(0, char::len_utf8)
    }

    fn eat(&mut self, expected: char) -> bool {
        self.skip_space();
        let found = self.peek() == Some(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    fn pipeline(&mut self) -> Vec<Step> {
        self.skip_space();
        let name = self.name();
        if &self.text[name.clone()] != "builtin.module" || !self.eat('(') {
            let wrapped = format!("builtin.module({})", self.text.trim());
            self.error(
                name,
                "a pipeline starts with the op it runs on",
                Some(format!("write '{wrapped}'")),
            );
            return Vec::new();
        }
        let mut steps = Vec::new();
        let mut path: Vec<String> = Vec::new();
        let mut open = vec![self.at - 1];
        // Between two elements stands a comma; an opening parenthesis, or the comma, lets an element follow.
        let mut after_element = false;
        while let Some(&parenthesis) = open.last() {
            if self.eat(')') {
                open.pop();
                path.pop();
                after_element = true;
            } else if self.peek().is_none() {
                if !self.cut {
                    self.unclosed(parenthesis, "parenthesis");
                }
                return steps;
            } else if after_element {
                if !self.eat(',') {
                    self.error(self.here(), "expected ',' or ')'", None);
                    return steps;
                }
                after_element = false;
            } else if path.len() > MAX_DEPTH {
                let message = format!("more than {MAX_DEPTH} nested anchors");
                self.error(self.here(), message, None);
                return steps;
            } else {
                let name = self.name();
                if name.is_empty() {
                    self.error(self.here(), "expected the name of a pass", None);
                    return steps;
                }
                if self.eat('(') {
                    open.push(self.at - 1);
                    path.push(self.text[name].to_owned());
                } else {
                    steps.extend(self.pass(name, &path));
                    after_element = true;
                }
            }
        }
        self.skip_space();
        if self.at < self.text.len() {
            let rest = self.at..self.text.len();
            self.error(rest, "expected the end of the pipeline", None);
        }
        steps
    }

    fn name(&mut self) -> Range<usize> {
        self.skip_space();
        self.take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
    }

    fn pass(&mut self, name: Range<usize>, path: &[String]) -> Option<Step> {
        let text = &self.text[name.clone()];
        let def = registry::find(text);
        if def.is_none() {
            let names = registry::ALL.iter().map(|d| d.name);
            let near = closest(text, names.clone()).map(|n| format!("did you mean '{n}'? "));
            let known = names.collect::<Vec<_>>().join(", ");
            let help = format!("{}known passes: {known}", near.unwrap_or_default());
            self.error(name.clone(), format!("unknown pass '{text}'"), Some(help));
        }
        let opening = self.at;
        if self.eat('{') {
            match def {
                Some(def) => {
                    let options = self.options(def, Some(opening));
                    return self.step(def, name, options, path);
                }
                None => self.skip_options(opening),
            }
        }
        let def = def?;
        let options = PassOptions::defaults(def.options);
        self.step(def, name, options, path)
    }

    fn step(
        &mut self,
        def: &'static PassDef,
        name: Range<usize>,
        options: PassOptions,
        path: &[String],
    ) -> Option<Step> {
        if let (Anchor::Top, Some(anchor)) = (def.anchor, path.last()) {
            let message = format!(
                "pass '{}' runs on the top 'builtin.module', not on '{anchor}'",
                def.name
            );
            self.error(name, message, None);
            return None;
        }
        Some(Step {
            def,
            options,
            path: path.to_vec(),
        })
    }

    fn skip_options(&mut self, opening: usize) {
        self.take_while(|c| c != '}');
        if !self.eat('}') {
            self.unclosed(opening, "brace");
        }
    }

    /// `name=value name="value" flag}`; with `opening`, up to the closing brace, else up to the end of the text.
    fn options(&mut self, def: &PassDef, opening: Option<usize>) -> PassOptions {
        let mut options = PassOptions::defaults(def.options);
        loop {
            self.skip_space();
            match (self.peek(), opening) {
                (Some('}'), Some(_)) => {
                    self.at += 1;
                    return options;
                }
                (None, None) => return options,
                (None, Some(opening)) => {
                    self.unclosed(opening, "brace");
                    return options;
                }
                _ => {}
            }
            let name = self.name();
            if name.is_empty() {
                self.error(self.here(), "expected the name of an option", None);
                match opening {
                    Some(opening) => self.skip_options(opening),
                    None => self.at = self.text.len(),
                }
                return options;
            }
            let value = if self.eat('=') { self.value() } else { None };
            self.option(def, name, value, &mut options);
        }
    }

    /// What stands after `=`; quotes are taken off.
    fn value(&mut self) -> Option<Range<usize>> {
        self.skip_space();
        match self.peek() {
            Some(quote @ ('"' | '\'')) => {
                let opening = self.at;
                self.at += 1;
                let inner = self.take_while(|c| c != quote);
                if !self.eat(quote) {
                    self.unclosed(opening, "quote");
                }
                Some(inner)
            }
            _ => Some(self.take_while(plain)),
        }
    }

    fn option(
        &mut self,
        def: &PassDef,
        name: Range<usize>,
        value: Option<Range<usize>>,
        options: &mut PassOptions,
    ) {
        let text = &self.text[name.clone()];
        let Some(option) = def.options.iter().find(|o| o.name == text) else {
            let names = def.options.iter().map(|o| o.name);
            let near = closest(text, names.clone()).map(|n| format!("did you mean '{n}'? "));
            let known = if def.options.is_empty() {
                "it takes none".to_owned()
            } else {
                format!("known options: {}", names.collect::<Vec<_>>().join(", "))
            };
            let help = format!("{}{known}", near.unwrap_or_default());
            let message = format!("pass '{}' has no option '{text}'", def.name);
            return self.error(name, message, Some(help));
        };
        if options.written().iter().any(|(n, _)| *n == option.name) {
            return self.error(name, format!("option '{text}' is given twice"), None);
        }
        let written = match &value {
            Some(value) => &self.text[value.clone()],
            None if option.kind == OptionKind::Flag => "true",
            None => {
                let message = format!("option '{text}' needs a value");
                let help = format!("write '{text}={}'", option.default);
                return self.error(name, message, Some(help));
            }
        };
        match option.kind.parse(written) {
            Some(parsed) => options.set(option, written, parsed),
            None => {
                let expected = option.kind.expected();
                let message = format!("option '{text}' takes {expected}, not '{written}'");
                self.error(value.unwrap_or(name), message, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Pipeline, Vec<Diagnostic>> {
        let mut diagnostics = Diagnostics::new();
        Pipeline::parse(text, &mut diagnostics).map_err(|_| diagnostics.take())
    }

    /// The marked text and the message of the only mistake.
    fn mistake(text: &str) -> (String, String, Option<String>) {
        let found = parse(text).expect_err("the text is wrong");
        assert_eq!(found.len(), 1, "{found:?}");
        let raddle_dialect::diag::At::Span { start, end } = found[0].at else {
            panic!("a span");
        };
        let marked = text[start..end].to_owned();
        (marked, found[0].message.clone(), found[0].help.clone())
    }

    #[test]
    fn reads_back_what_it_writes() {
        for text in [
            "builtin.module()",
            "builtin.module(canonicalize,cse)",
            "builtin.module(dce,builtin.module(func.func(cse,dce),cse),func.func(dce))",
        ] {
            let once = parse(text).expect("valid").to_string();
            assert_eq!(once, text);
        }
        let spaced = parse(" builtin.module ( cse , func.func ( dce ) ) ").expect("valid");
        assert_eq!(spaced.to_string(), "builtin.module(cse,func.func(dce))");
        assert_eq!(spaced.steps()[1].path, ["func.func"]);
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let (marked, message, help) = mistake("builtin.module(cse,canonicalise)");
        assert_eq!(marked, "canonicalise");
        assert_eq!(message, "unknown pass 'canonicalise'");
        assert!(help.is_some_and(|h| h.starts_with("did you mean 'canonicalize'? known passes: ")));

        let (_, _, help) = mistake("cse,dce");
        assert_eq!(help.as_deref(), Some("write 'builtin.module(cse,dce)'"));
        assert_eq!(
            mistake("builtin.module(cse").1,
            "this parenthesis is not closed"
        );
        assert_eq!(mistake("builtin.module(cse dce)").0, "d");
        assert_eq!(mistake("builtin.module(cse)dce").0, "dce");
        assert_eq!(
            mistake("builtin.module(,)").1,
            "expected the name of a pass"
        );
        assert_eq!(
            mistake("builtin.module(func.func(cse)dce)").1,
            "expected ',' or ')'"
        );
        assert_eq!(mistake("builtin.module(cse{").1, "this brace is not closed");
        assert_eq!(
            mistake("builtin.module(cse{fast})").1,
            "pass 'cse' has no option 'fast'"
        );
        assert_eq!(
            mistake(&"func.func(".repeat(3)).1,
            "a pipeline starts with the op it runs on"
        );
        let deep = format!("builtin.module({}", "a(".repeat(100_000));
        assert_eq!(mistake(&deep).1, "more than 64 nested anchors");
    }
}
