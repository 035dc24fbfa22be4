//! PTX text to words and marks.

use crate::error::Error;

/// A word (names, directives, instructions, numbers) or a single mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Mark(char),
}

/// All tokens of a text, with a place among them.
pub(super) struct Lexer {
    tokens: Vec<(Token, u32)>,
    next: usize,
}

impl Lexer {
    pub(super) fn new(text: &str) -> Result<Lexer, Error> {
        let mut tokens = Vec::new();
        for (line, number) in text.lines().zip(1u32..) {
            let code = line.split("//").next().unwrap_or_default();
            let mut word = String::new();
            let mut characters = code.chars().peekable();
            while let Some(character) = characters.next() {
                if character.is_ascii_alphanumeric() || "_.$%".contains(character) {
                    word.push(character);
                    continue;
                }
                // `shared::cta` is one word, a label and what follows are not.
                if character == ':' && !word.is_empty() && characters.peek() == Some(&':') {
                    characters.next();
                    word.push_str("::");
                    continue;
                }
                if !word.is_empty() {
                    tokens.push((Token::Word(std::mem::take(&mut word)), number));
                }
                if character.is_whitespace() {
                    continue;
                }
                if !"{}[]()<>,;:@!+-=|\"".contains(character) {
                    let message = format!("unexpected character {character:?}");
                    return Err(Error::Syntax {
                        line: number,
                        message,
                    });
                }
                tokens.push((Token::Mark(character), number));
            }
            if !word.is_empty() {
                tokens.push((Token::Word(word), number));
            }
        }
        Ok(Lexer { tokens, next: 0 })
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    /// The line of the token that comes next, or of the last one.
    pub(super) fn line(&self) -> u32 {
        let index = self.next.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(index).map_or(1, |&(_, line)| line)
    }

    pub(super) fn advance(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.next += 1;
        token
    }

    /// Takes a mark if it comes next.
    pub(super) fn take(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(&Token::Mark(mark));
        if found {
            self.next += 1;
        }
        found
    }

    pub(super) fn expect(&mut self, mark: char) -> Result<(), Error> {
        if self.take(mark) {
            return Ok(());
        }
        Err(self.error(&format!("expected `{mark}`")))
    }

    /// Takes a word if one comes next.
    pub(super) fn next_word(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.next += 1;
                Some(word)
            }
            _ => None,
        }
    }

    pub(super) fn word(&mut self) -> Result<String, Error> {
        self.next_word()
            .ok_or_else(|| self.error("expected a name"))
    }

    /// A plain number.
    pub(super) fn number(&mut self) -> Result<u64, Error> {
        let word = self.word()?;
        number(&word).ok_or_else(|| self.error(&format!("`{word}` is no number")))
    }

    /// Skips the rest of the line of the token before.
    pub(super) fn skip_line(&mut self) {
        let line = self.tokens[self.next - 1].1;
        while self
            .tokens
            .get(self.next)
            .is_some_and(|&(_, other)| other == line)
        {
            self.next += 1;
        }
    }

    pub(super) fn error(&self, message: &str) -> Error {
        Error::Syntax {
            line: self.line(),
            message: message.to_owned(),
        }
    }

    pub(super) fn unsupported(&self, what: &str) -> Error {
        Error::Unsupported {
            line: self.line(),
            what: what.to_owned(),
        }
    }
}

/// Decimal, `0x` hexadecimal, `0f` bits of a single-precision number.
pub(super) fn number(word: &str) -> Option<u64> {
    if let Some(digits) = word.strip_prefix("0x").or(word.strip_prefix("0f")) {
        return u64::from_str_radix(digits, 16).ok();
    }
    word.strip_suffix('U').unwrap_or(word).parse().ok()
}
