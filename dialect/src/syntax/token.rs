//! Tokens: what the text is made of before it means anything.
//!
//! A token is its kind and its place; whatever it says is read from the text when it is needed.

use logos::Logos;

/// A token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tok {
    /// What it is.
    pub kind: Kind,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// For a text that was read before, its entry in the cache of texts.
    pub known: u32,
}

impl Tok {
    /// The bytes it covers.
    pub fn span(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Why the lexer stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bad {
    /// No token starts like this.
    #[default]
    Character,
    /// A string without its closing quote on the same line.
    OpenString,
    /// A backslash that is not followed by `"`, `\\`, `n`, `t` or two hexadecimal digits.
    Escape,
}

/// What a token is.
#[derive(Logos, Clone, Copy, PartialEq, Eq, Debug)]
#[logos(utf8 = false)]
#[logos(error = Bad)]
#[logos(skip r"[ \t\r\n\x00]+")]
#[logos(skip(r"//[^\n\r]*", allow_greedy = true))]
pub enum Kind {
    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token("[")]
    LSquare,
    #[token("]")]
    RSquare,
    #[token("<")]
    Less,
    #[token(">")]
    Greater,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token("=")]
    Equal,
    #[token("->")]
    Arrow,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("?")]
    Question,
    #[token("|")]
    Bar,
    #[token("...")]
    Ellipsis,
    #[token("{-#")]
    MetaBegin,
    #[token("#-}")]
    MetaEnd,
    /// `::`, between the parts of a symbol reference
    #[regex(r":[ \t\r\n\x00]*:")]
    ColonColon,
    #[regex(r"[a-zA-Z_][a-zA-Z0-9_$.]*", priority = 2)]
    Ident,
    /// `dist.matmul`
    #[regex(r"dist\.[a-zA-Z0-9_$.]*", priority = 9)]
    DistOp,
    /// `dist.mesh`
    #[token("dist.mesh", priority = 30)]
    MeshOp,
    /// `arith.addi` and the like
    #[regex(r"arith\.(addi|subi|muli|divsi|divui|ceildivsi|ceildivui|floordivsi|remsi|remui|andi|ori|xori|shli|shrsi|shrui|maxsi|maxui|minsi|minui|addf|subf|mulf|divf|remf|maximumf|minimumf|maxnumf|minnumf)", priority = 30)]
    BinaryOp,
    /// `arith.cmpi`, `arith.cmpf`
    #[regex(r"arith\.cmp[if]", priority = 30)]
    CompareOp,
    #[regex(r"[su]?i[0-9]+", priority = 20)]
    IntType,
    #[token("f16", priority = 20)]
    #[token("bf16", priority = 20)]
    #[token("tf32", priority = 20)]
    #[token("f32", priority = 20)]
    #[token("f64", priority = 20)]
    #[token("f80", priority = 20)]
    #[token("f128", priority = 20)]
    #[token("f8E5M2", priority = 20)]
    #[token("f8E4M3", priority = 20)]
    #[token("f8E4M3FN", priority = 20)]
    #[token("f8E5M2FNUZ", priority = 20)]
    #[token("f8E4M3FNUZ", priority = 20)]
    #[token("f8E4M3B11FNUZ", priority = 20)]
    #[token("f8E3M4", priority = 20)]
    #[token("f4E2M1FN", priority = 20)]
    #[token("f6E2M3FN", priority = 20)]
    #[token("f6E3M2FN", priority = 20)]
    #[token("f8E8M0FNU", priority = 20)]
    FloatType,
    #[token("true", priority = 30)]
    True,
    #[token("false", priority = 30)]
    False,
    #[token("unit", priority = 30)]
    Unit,
    #[token("affine_map", priority = 30)]
    AffineMap,
    #[token("affine_set", priority = 30)]
    AffineSet,
    #[token("array", priority = 30)]
    Array,
    #[token("dense", priority = 30)]
    Dense,
    #[token("dense_resource", priority = 30)]
    DenseResource,
    #[token("sparse", priority = 30)]
    Sparse,
    #[token("distinct", priority = 30)]
    Distinct,
    #[token("strided", priority = 30)]
    Strided,
    #[token("offset", priority = 30)]
    Offset,
    #[token("loc", priority = 30)]
    Loc,
    #[token("callsite", priority = 30)]
    CallSite,
    #[token("fused", priority = 30)]
    Fused,
    #[token("at", priority = 30)]
    At,
    #[token("unknown", priority = 30)]
    Unknown,
    #[token("to", priority = 30)]
    To,
    #[token("floordiv", priority = 30)]
    FloorDiv,
    #[token("ceildiv", priority = 30)]
    CeilDiv,
    #[token("mod", priority = 30)]
    Mod,
    #[token("index", priority = 30)]
    Index,
    #[token("none", priority = 30)]
    NoneType,
    #[token("complex", priority = 30)]
    Complex,
    #[token("tuple", priority = 30)]
    Tuple,
    #[token("tensor", priority = 30)]
    Tensor,
    #[token("memref", priority = 30)]
    MemRef,
    #[token("vector", priority = 30)]
    Vector,
    #[token("attributes", priority = 30)]
    Attributes,
    #[token("private", priority = 30)]
    Private,
    #[token("public", priority = 30)]
    Public,
    #[token("nested", priority = 30)]
    Nested,
    #[token("overflow", priority = 30)]
    Overflow,
    #[token("fastmath", priority = 30)]
    FastMath,
    #[token("exact", priority = 30)]
    Exact,
    #[token("weights", priority = 30)]
    Weights,
    #[token("over", priority = 30)]
    Over,
    #[token("module", priority = 30)]
    #[token("builtin.module", priority = 30)]
    Module,
    #[token("func", priority = 30)]
    #[token("func.func", priority = 30)]
    Func,
    #[token("return", priority = 30)]
    #[token("func.return", priority = 30)]
    Return,
    #[token("call", priority = 30)]
    #[token("func.call", priority = 30)]
    Call,
    #[token("cf.br", priority = 30)]
    Br,
    #[token("cf.cond_br", priority = 30)]
    CondBr,
    #[token("arith.constant", priority = 30)]
    Constant,
    #[token("unrealized_conversion_cast", priority = 30)]
    #[token("builtin.unrealized_conversion_cast", priority = 30)]
    CastOp,
    #[regex("[0-9]+")]
    #[regex("0x[0-9a-fA-F]+")]
    Integer,
    #[regex(r"[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?")]
    Float,
    #[token("\"", string)]
    String,
    /// `@name`, `@"any name"`
    #[regex(r"@[a-zA-Z_][a-zA-Z0-9_$.]*")]
    #[token("@\"", string)]
    Symbol,
    /// `%name`
    #[regex(r"%([0-9]+|[a-zA-Z_$.-][a-zA-Z0-9_$.-]*)")]
    Value,
    /// `^name`
    #[regex(r"\^([0-9]+|[a-zA-Z_$.-][a-zA-Z0-9_$.-]*)")]
    Block,
    /// `#name`: an attribute alias, or the number of a result
    #[regex(r"#([0-9]+|[a-zA-Z_$.-][a-zA-Z0-9_$.-]*)")]
    AttrAlias,
    /// `!name`: a type alias
    #[regex(r"!([0-9]+|[a-zA-Z_$.-][a-zA-Z0-9_$.-]*)")]
    TypeAlias,
    // The lexer makes the following out of the ones above.
    /// `#dialect.body<…>`, `#dialect<…>`
    DialectAttr,
    /// `!dialect.body<…>`, `!dialect<…>`
    DialectType,
    /// `4x?x`, after `tensor<` and the like
    Dims,
    /// `*x`, after `tensor<` and the like
    Unranked,
    /// A type whose text was read before.
    KnownType,
    /// The type of a function whose text was read before, as the type of a generic op.
    KnownSignature,
    /// A dictionary whose text was read before.
    KnownDict,
}

/// Reads the rest of a string after its opening quote.
fn string(lexer: &mut logos::Lexer<'_, Kind>) -> Result<(), Bad> {
    let rest = lexer.remainder();
    let mut at = 0;
    loop {
        match rest.get(at) {
            Some(b'"') => {
                lexer.bump(at + 1);
                return Ok(());
            }
            Some(b'\\') => match (rest.get(at + 1), rest.get(at + 2)) {
                (Some(b'"' | b'\\' | b'n' | b't'), _) => at += 2,
                (Some(a), Some(b)) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => at += 3,
                _ => {
                    lexer.bump(at);
                    return Err(Bad::Escape);
                }
            },
            None | Some(b'\n' | 0x0B | 0x0C) => {
                lexer.bump(at);
                return Err(Bad::OpenString);
            }
            Some(_) => at += 1,
        }
    }
}
