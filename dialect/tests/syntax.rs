//! The parser against texts that nobody would write.

use proptest::prelude::*;
use raddle_dialect::diag::{At, Diagnostics, Source};
use raddle_dialect::ir::{Context, Module, VerifyOptions, verify};
use raddle_dialect::syntax::{ParseOptions, PrintOptions, parse, print};

const PARSE: ParseOptions = ParseOptions {
    allow_unregistered: true,
};
const VERIFY: VerifyOptions = VerifyOptions {
    allow_unregistered: true,
};

/// The module, or the code, the marked text and the message of the one error.
fn read(text: &[u8]) -> Result<Module, (String, String, String)> {
    let cx = Context::new();
    let mut found = Diagnostics::new();
    let module = parse(&cx, &Source::new("t.mlir", text), PARSE, &mut found);
    match module {
        Some(module) => {
            assert!(found.is_empty());
            Ok(module)
        }
        None => {
            let found = found.take();
            let [error] = &found[..] else {
                panic!("{} diagnostics", found.len());
            };
            let At::Span { start, end } = error.at else {
                panic!("syntax errors have spans");
            };
            let marked = &text[start.min(text.len())..end.min(text.len())];
            Err((
                error.code.to_owned(),
                String::from_utf8_lossy(marked).into_owned(),
                error.message.clone(),
            ))
        }
    }
}

/// The text that a text is printed as; printing that again changes nothing, in either form.
fn round_trip(text: &str) -> String {
    let once = print(&read(text.as_bytes()).unwrap(), PrintOptions::default());
    let twice = print(&read(once.as_bytes()).unwrap(), PrintOptions::default());
    assert_eq!(once, twice);
    let generic = PrintOptions {
        generic: true,
        ..PrintOptions::default()
    };
    let generic = print(&read(once.as_bytes()).unwrap(), generic);
    let back = print(&read(generic.as_bytes()).unwrap(), PrintOptions::default());
    assert_eq!(once, back);
    once
}

const WORDS: &[&str] = &[
    "\"t.op\"",
    "\"t.r\"",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ",",
    ":",
    "=",
    "->",
    "-",
    "+",
    "*",
    "?",
    "::",
    "%0",
    "%a",
    "#0",
    "#a",
    "!a",
    "^b",
    "@f",
    "@\"g h\"",
    "i32",
    "f32",
    "index",
    "tensor",
    "vector",
    "memref",
    "complex",
    "tuple",
    "4x",
    "?x",
    "*x",
    "1",
    "0x1F",
    "1.5",
    "\"s\"",
    "true",
    "dense",
    "sparse",
    "array",
    "affine_map",
    "affine_set",
    "(d0)",
    "d0",
    "loc",
    "fused",
    "callsite",
    "at",
    "unknown",
    "module",
    "func.func",
    "return",
    "attributes",
    "arith.addi",
    "arith.constant",
    "cf.br",
    "dist.all_reduce",
    "dist.mesh",
    "over",
    "sum",
    "#dist.layout<[[\"dp\"]], []>",
    "#foo.bar<1>",
    "!foo.bar",
    "{-#",
    "#-}",
    "builtin",
    "distinct",
    "strided",
    "offset",
    "unit",
    "x",
    "\n",
    "() -> ()",
    "() : () -> ()",
    "{a = 1}",
    "({",
    "})",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(read(&text));
    }

    #[test]
    fn tokens_never_panic(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..60)) {
        if let Ok(module) = read(words.join(" ").as_bytes()) {
            let mut found = Diagnostics::new();
            drop(verify(module, VERIFY, &mut found));
        }
    }

    #[test]
    fn cut_off_programs_never_panic(cut in 0usize..1400, insert in proptest::sample::select(WORDS)) {
        let cut = cut.min(PROGRAM.len());
        let text = format!("{} {insert} {}", &PROGRAM[..cut], &PROGRAM[cut..]);
        drop(read(&PROGRAM.as_bytes()[..cut]));
        drop(read(text.as_bytes()));
    }
}

const PROGRAM: &str = r##"#map = affine_map<(d0, d1)[s0] -> (d0 floordiv 4 + s0 * 3, d1 mod 4, -d0)>
#place = loc("f.py":3:4)
!pair = tuple<i32, vector<4x[2]xf32>>
module @top attributes {a.b = {c = [1 : ui8, "x"], "d e" = (i32) -> none}} {
  dist.mesh @mesh ["dp" = 2, "mp" = 4]
  func.func private @ext(i32, tensor<*xf32>) -> (i32 {a.b}, index)
  func.func @f(%a: i32 {a.b}, %t: tensor<*xf32> loc("q")) -> i32 {
    %0 = arith.addi %a, %a overflow<nsw> : i32
    %1 = arith.cmpi slt, %0, %a : i32
    cf.cond_br %1, ^bb1(%0 : i32), ^bb2
  ^bb1(%x: i32):
    %2:2 = call @ext(%x, %t) : (i32, tensor<*xf32>) -> (i32, index)
    cf.br ^bb2
  ^bb2:
    return %0 : i32
  }
}
"t.op"() <{p = dense<[[1, 2], [3, 4]]> : tensor<2x2xi16>}> ({
^bb0(%b: complex<f32>):
  %3 = "t.x"(%b)[^bb1] {m = #map, q = array<i8: 1, -2>} : (complex<f32>) -> memref<0x4x?xi8, strided<[?, 1, 2], offset: 3>, 2>
^bb1:
  "t.y"() {s = sparse<[[0, 1]], [1.5]> : tensor<2x2xf32>, r = dense_resource<blob> : tensor<4xi8>} : () -> () loc(#later)
}) : () -> () loc(fused<"m">[#place, callsite("f" at "g":1:2)])
#later = loc("late")
{-# dialect_resources: { builtin: { blob: "0x0400000001020304" } } #-}
"##;

#[test]
fn a_program_with_everything_round_trips() {
    let text = round_trip(PROGRAM);
    for part in [
        "overflow<nsw>",
        "memref<0x4x?xi8, strided<[?, 1, 2], offset: 3>, 2>",
        "dist.mesh @mesh [\"dp\" = 2, \"mp\" = 4]",
        "blob: \"0x0400000001020304\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn depth_is_no_danger() {
    let nest = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    let n = 50_000;
    for attr in [
        nest("[", "]", n),
        nest("{a = ", "}", n).replace("a = }", "a}"),
        format!("tuple<{}>", nest("tuple<", ">", n)),
        format!("#foo.bar<{}>", nest("[", "]", n)),
        format!("{}1 : i32{}", "[".repeat(n), "]".repeat(n)),
        format!("affine_map<(d0) -> ({}d0{})>", "(".repeat(n), ")".repeat(n)),
        format!("affine_map<(d0) -> ({}d0)>", "-".repeat(n)),
        format!("dense<{}> : tensor<0xi32>", nest("[", "]", 300)),
        format!("loc({}\"x\"{})", "fused<1>[".repeat(n), "]".repeat(n)),
        format!("{}i32", "() -> (".repeat(n)) + &")".repeat(n),
    ] {
        // Whether it means anything or not, it is read or refused.
        drop(read(
            format!("\"t.op\"() {{a = {attr}}} : () -> ()").as_bytes(),
        ));
    }
    let regions = |n: usize| "\"t.r\"() ({ ".repeat(n) + &"}) : () -> () ".repeat(n);
    let module = read(regions(2_000).as_bytes()).unwrap();
    assert!(verify(module, VERIFY, &mut Diagnostics::new()).is_ok());
    let refused = read(regions(3_000).as_bytes()).map(drop).unwrap_err();
    assert_eq!(refused.0, "E0144");
}

#[test]
fn types_found_by_their_text_are_the_same() {
    let text = "func.func private @f(tensor<4xf32>) -> tensor<4xf32>\n\
                \"t.a\"() {f = (tensor<4xf32>) -> tensor<4xf32>} : () -> ()\n\
                %0 = \"t.b\"() : () -> tensor<4xf32>\n\
                %1 = \"t.b\"(%0) {f = (tensor<4xf32>) -> tensor<4xf32>} : (tensor<4xf32>) -> tensor<4xf32>\n\
                %2 = \"t.b\"(%1) {f = (tensor<4xf32>) -> tensor<4xf32>} : (tensor<4xf32>) -> tensor<4xf32>\n\
                \"t.c\"() {f = tensor<4xf32>} : () -> ()\n\
                \"t.c\"() {f = tensor<4xf32>} : () -> ()\n\
                func.func private @g(tensor<4xf32>) -> tensor<4xf32>\n\
                \"t.d\"() ({ }) {a = {}, b = affine_set<(d0) : (d0 >= 0)>} : () -> ()\n";
    round_trip(text);
}

#[test]
fn errors_mark_what_is_wrong() {
    for (text, code, marked, message) in [
        (
            "\"t.op\"() {a = 300 : i8} : () -> ()",
            "E0181",
            "300",
            "integer constant out of range for attribute",
        ),
        (
            "\"t.op\"() {a = 1, a = 2} : () -> ()",
            "E0183",
            "a",
            "duplicate key 'a' in dictionary attribute",
        ),
        (
            "\"t.op\"() {a = #x} : () -> ()",
            "E0171",
            "#x",
            "undefined symbol alias id 'x'",
        ),
        (
            "\"t.op\"(%x) : (i32) -> ()",
            "E0134",
            "%",
            "use of undeclared SSA value name",
        ),
        (
            "%x:2 = \"t.op\"() : () -> i32",
            "E0130",
            "%x:2 = ",
            "operation defines 1 results but was provided 2 to bind",
        ),
        (
            "\"t.op\"() : () -> () garbage",
            "E0110",
            "garbage",
            "custom op 'garbage' is unknown (tried 'builtin.garbage' as well)",
        ),
        (
            "\"t.op\"() : () -> tensor<4xnone>",
            "E0198",
            "n",
            "invalid tensor element type",
        ),
        (
            "\"t.op\"() {a = \"\\q\"} : () -> ()",
            "E0102",
            "\\q",
            "unknown escape in string literal",
        ),
        (
            "\"t.op\"() {a = } : () -> ()",
            "E0111",
            "}",
            "expected attribute value",
        ),
        (
            "\"t.op\"()",
            "E0111",
            "",
            "expected ':' followed by operation type",
        ),
        (
            "%x \"t.op\"() : () -> ()",
            "E0111",
            "\"t.op\"",
            "expected '=' after SSA name",
        ),
        (
            "\"t.op\"() {a = 1,} : () -> ()",
            "E0111",
            "}",
            "expected attribute name",
        ),
        (
            "\"t.op\"() : () -> vector<?xi32>",
            "E0111",
            "?",
            "expected type",
        ),
        (
            "dist.all_reduce sum %x over [\"dp\"] : i32",
            "E0134",
            "%",
            "use of undeclared SSA value name",
        ),
        (
            "dist.nothing : i32",
            "E0110",
            "dist.nothing",
            "custom op 'dist.nothing' is unknown",
        ),
    ] {
        let found = read(text.as_bytes()).map(drop).unwrap_err();
        assert_eq!(
            found,
            (code.to_owned(), marked.to_owned(), message.to_owned()),
            "{text}"
        );
    }
}
