//! Options of passes: their definitions, and their values once read.

use std::collections::BTreeMap;

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionDef {
    /// Name, as written before `=`.
    pub name: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// What counts if it is not written, in the option's own syntax.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// What an option takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    /// `true` or `false`; the bare name means `true`.
    Flag,
    /// A whole number, `0` or larger.
    Count,
    /// A finite number.
    Number,
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Texts, separated by commas.
    List,
}

impl OptionKind {
    /// What is expected, for an error message.
    pub fn expected(self) -> String {
        match self {
            OptionKind::Flag => "true or false".into(),
            OptionKind::Count => "a number".into(),
            OptionKind::Number => "a number such as 0.5 or 1e-3".into(),
            OptionKind::Text => "a text".into(),
            OptionKind::Word(words) => format!("one of {}", words.join(", ")),
            OptionKind::List => "texts separated by commas".into(),
        }
    }

    /// Reads a value.
    pub fn parse(self, text: &str) -> Option<OptionValue> {
        Some(match self {
            OptionKind::Flag => OptionValue::Flag(text.parse().ok()?),
            OptionKind::Count => OptionValue::Count(text.parse().ok()?),
            OptionKind::Number => {
                OptionValue::Number(text.parse().ok().filter(|v: &f64| v.is_finite())?)
            }
            OptionKind::Text => OptionValue::Text(text.into()),
            OptionKind::Word(words) => {
                OptionValue::Text(words.iter().find(|&&w| w == text)?.to_string())
            }
            OptionKind::List => OptionValue::List(
                text.split(',')
                    .map(|item| item.trim().to_owned())
                    .filter(|item| !item.is_empty())
                    .collect(),
            ),
        })
    }
}

/// A value of an option.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// Of a [`OptionKind::Flag`].
    Flag(bool),
    /// Of a [`OptionKind::Count`].
    Count(u64),
    /// Of a [`OptionKind::Number`].
    Number(f64),
    /// Of a [`OptionKind::Text`] or [`OptionKind::Word`].
    Text(String),
    /// Of a [`OptionKind::List`].
    List(Vec<String>),
}

/// The options of one pass of a pipeline: every option its definition lists has a value.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PassOptions {
    values: BTreeMap<&'static str, OptionValue>,
    written: Vec<(&'static str, String)>,
}

impl PassOptions {
    /// The defaults of these options.
    ///
    /// # Panics
    /// If a default does not parse: a mistake in a pass definition, which a test of the registry finds.
    pub fn defaults(options: &[OptionDef]) -> Self {
        let values = options
            .iter()
            .map(|o| {
                let value = o.kind.parse(o.default).expect("defaults parse");
                (o.name, value)
            })
            .collect();
        Self {
            values,
            written: Vec::new(),
        }
    }

    pub(super) fn set(&mut self, option: &OptionDef, text: &str, value: OptionValue) {
        self.values.insert(option.name, value);
        self.written.push((option.name, text.to_owned()));
    }

    /// What was written, in order.
    pub fn written(&self) -> &[(&'static str, String)] {
        &self.written
    }

    /// A flag's value; false for anything else.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.values.get(name), Some(OptionValue::Flag(true)))
    }

    /// A number; 0 for anything else.
    pub fn count(&self, name: &str) -> u64 {
        match self.values.get(name) {
            Some(OptionValue::Count(value)) => *value,
            _ => 0,
        }
    }

    /// A number, whole or not; 0 for anything else.
    pub fn number(&self, name: &str) -> f64 {
        match self.values.get(name) {
            Some(OptionValue::Number(value)) => *value,
            _ => 0.0,
        }
    }

    /// A text or word; empty for anything else.
    pub fn text(&self, name: &str) -> &str {
        match self.values.get(name) {
            Some(OptionValue::Text(value)) => value,
            _ => "",
        }
    }

    /// A list; empty for anything else.
    pub fn list(&self, name: &str) -> &[String] {
        match self.values.get(name) {
            Some(OptionValue::List(value)) => value,
            _ => &[],
        }
    }
}
