//! Modules built by hand, as text.

use raddle_dialect::ir::{Context, Module, NewOp, Position, Rewriter};
use raddle_dialect::syntax::{PrintOptions, print};

fn sample() -> Module {
    let cx = Context::new();
    let loc = cx.file_loc("a.py", 1, 2);
    let mut module = Module::new(&cx, loc);
    let mut rw = Rewriter::new(&mut module);
    let tensor = cx.tensor(&[4, 8], cx.f32());
    rw.build(
        "dist.mesh",
        loc,
        &[],
        &[],
        &[
            ("sym_name", cx.string("mesh")),
            ("axes", cx.string_array(&["dp", "mp"])),
            ("sizes", cx.i64_array(&[2, 2])),
        ],
    );
    let function = cx.function_type(&[tensor], &[tensor]);
    let func = rw.create(NewOp {
        attrs: cx.dict(vec![
            (cx.ident("sym_name"), cx.string("step")),
            (cx.ident("function_type"), cx.type_attr(function)),
            (cx.ident("dist.kind"), cx.string("step")),
        ]),
        regions: 1,
        ..NewOp::new(cx.ident("func.func"), loc, &cx)
    });
    let region = rw.regions(func)[0];
    let block = rw.append_block(region);
    let x = rw.add_arg(block, tensor, loc);
    rw.set_insertion_point(Position::End(block));
    let load = rw.build(
        "dist.load",
        loc,
        &[],
        &[tensor],
        &[("global", cx.symbol_ref("w"))],
    );
    let w = rw.result(load, 0);
    let sum = rw.build("dist.add", loc, &[x, w], &[tensor], &[]);
    let sum = rw.result(sum, 0);
    let reduced = rw.build(
        "dist.all_reduce",
        loc,
        &[sum],
        &[tensor],
        &[
            ("reduction", cx.string("sum")),
            ("axes", cx.string_array(&["mp"])),
            ("dist.stage", cx.i64_attr(0)),
        ],
    );
    let reduced = rw.result(reduced, 0);
    rw.build(
        "arith.constant",
        loc,
        &[],
        &[cx.int_type(32)],
        &[("value", cx.int_attr(7, cx.int_type(32)))],
    );
    rw.build("func.return", loc, &[reduced], &[], &[]);
    module
}

#[test]
fn short_forms() {
    let text = print(&sample(), PrintOptions::default());
    assert_eq!(
        text,
        r#"module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  func.func @step(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {dist.kind = "step"} {
    %0 = dist.load @w : tensor<4x8xf32>
    %1 = dist.add %arg0, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = dist.all_reduce sum %1 over ["mp"] {dist.stage = 0 : i64} : tensor<4x8xf32>
    %c7_i32 = arith.constant 7 : i32
    return %2 : tensor<4x8xf32>
  }
}
"#
    );
}

#[test]
fn generic_form_with_locations() {
    let options = PrintOptions {
        generic: true,
        debug_info: true,
        ..PrintOptions::default()
    };
    let text = print(&sample(), options);
    assert_eq!(
        text,
        r##"#loc = loc("a.py":1:2)
"builtin.module"() ({
  "dist.mesh"() {axes = ["dp", "mp"], sizes = array<i64: 2, 2>, sym_name = "mesh"} : () -> () loc(#loc)
  "func.func"() <{function_type = (tensor<4x8xf32>) -> tensor<4x8xf32>, sym_name = "step"}> ({
  ^bb0(%arg0: tensor<4x8xf32> loc("a.py":1:2)):
    %0 = "dist.load"() {global = @w} : () -> tensor<4x8xf32> loc(#loc)
    %1 = "dist.add"(%arg0, %0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc)
    %2 = "dist.all_reduce"(%1) {axes = ["mp"], dist.stage = 0 : i64, reduction = "sum"} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc)
    %3 = "arith.constant"() <{value = 7 : i32}> : () -> i32 loc(#loc)
    "func.return"(%2) : (tensor<4x8xf32>) -> () loc(#loc)
  }) {dist.kind = "step"} : () -> () loc(#loc)
}) : () -> () loc(#loc)
"##
    );
}
