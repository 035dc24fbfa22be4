//! Pretty and generic form say the same: random modules over the registered ops, fitting their definitions or not, come back
//! unchanged from either form.

use std::sync::Arc;

use proptest::prelude::*;
use raddle_dialect::diag::{Diagnostics, Format, RenderOptions, Source, render};
use raddle_dialect::ir::{
    Attr, AttrData, Context, FloatKind, LayoutData, Loc, Module, NewOp, OpId, Position, Rewriter,
    Type, ValueId,
};
use raddle_dialect::ops::{
    AttrKind, Count, Group, OPERAND_SEGMENTS, OpDef, RESULT_SEGMENTS, definitions,
};
use raddle_dialect::syntax::{ParseOptions, PrintOptions, parse, print};

/// A stream of small decisions from one number (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

struct Maker<'m> {
    cx: Arc<Context>,
    rw: Rewriter<'m>,
    dice: Dice,
    /// What later ops may use.
    values: Vec<ValueId>,
}

impl Maker<'_> {
    fn ty(&mut self) -> Type {
        let cx = self.cx.clone();
        match self.dice.below(8) {
            0 => cx.f32(),
            1 => cx.int_type(1),
            2 => cx.tensor(&[], cx.f32()),
            3 => cx.tensor(&[4], cx.float_type(FloatKind::BF16)),
            4 => cx.function_type(&[cx.f32()], &[cx.index_type()]),
            5 => {
                let layout = self.layout();
                cx.tensor_with(&[4, 8], cx.f32(), Some(layout))
            }
            _ => cx.tensor(&[4, 8], cx.f32()),
        }
    }

    fn layout(&mut self) -> Attr {
        let cx = &self.cx;
        let dims = (0..self.dice.below(3))
            .map(|_| {
                (0..self.dice.below(3))
                    .map(|i| cx.ident(["dp", "mp", "a \"b\""][i]))
                    .collect()
            })
            .collect();
        let partial = (0..self.dice.below(2)).map(|_| cx.ident("pp")).collect();
        cx.attr(AttrData::Layout(LayoutData { dims, partial }))
    }

    fn text(&mut self) -> Attr {
        let choices = [
            "sum", "over", "x y", "", "é", "a.b", "true", "loc", "w_1", "i32",
        ];
        let text = self.dice.pick(&choices);
        if self.dice.one_in(12) {
            let bytes: Box<[u8]> = Box::new([b'a', 0xFF, 0, b'"', b'\\', b'\n']);
            return self.cx.attr(AttrData::String { bytes, ty: None });
        }
        if self.dice.one_in(12) {
            let ty = Some(self.cx.int_type(8));
            let bytes = text.as_bytes().into();
            return self.cx.attr(AttrData::String { bytes, ty });
        }
        self.cx.string(text)
    }

    fn number(&mut self) -> i64 {
        self.dice.pick(&[0, 1, -1, 7, i64::MIN, i64::MAX])
    }

    fn anything(&mut self) -> Attr {
        let cx = self.cx.clone();
        match self.dice.below(9) {
            0 => cx.unit(),
            1 => cx.bool_attr(self.dice.one_in(2)),
            2 => cx.i64_attr(self.number()),
            3 => cx.f64_attr(
                self.dice
                    .pick(&[0.0, -0.0, 0.1, 1e300, f64::NAN, f64::INFINITY]),
            ),
            4 => self.text(),
            5 => cx.type_attr(self.ty()),
            6 => cx.symbol_ref(self.dice.pick(&["w", "a b", "f.g$1"])),
            7 => {
                let items = [self.text(), cx.i64_attr(self.number())];
                cx.array(&items)
            }
            _ => cx.dict(vec![(cx.ident("k"), self.text())]),
        }
    }

    /// Mostly a value of the kind.
    fn attr(&mut self, kind: AttrKind) -> Attr {
        if self.dice.one_in(10) {
            return self.anything();
        }
        let cx = self.cx.clone();
        match kind {
            AttrKind::Bool => cx.bool_attr(self.dice.one_in(2)),
            AttrKind::I64 => cx.i64_attr(self.number()),
            AttrKind::F64 => cx.f64_attr(self.dice.pick(&[0.0, 1.0, 0.9, 1e-8])),
            AttrKind::Str => self.text(),
            AttrKind::Enum(words) => cx.string(self.dice.pick(words)),
            AttrKind::Axes => {
                let axes = ["dp", "mp", "x y"];
                cx.string_array(&axes[..self.dice.below(4)])
            }
            AttrKind::I64Array => cx.i64_array(&[1, -2, 3][..self.dice.below(4)]),
            AttrKind::I32Array => cx.i32_array(&[1, 0, 2][..self.dice.below(4)]),
            AttrKind::Type => cx.type_attr(self.ty()),
            AttrKind::Symbol => cx.symbol_ref(self.dice.pick(&["w", "a b"])),
            AttrKind::Layout => self.layout(),
            AttrKind::Array | AttrKind::Dict | AttrKind::Any => self.anything(),
        }
    }

    /// Mostly as many values as the groups ask for; the sizes of the groups.
    fn counts(&mut self, groups: &[Group]) -> Vec<i32> {
        let mut counts: Vec<i32> = groups
            .iter()
            .map(|group| match group.count {
                Count::One => 1,
                Count::Optional => self.dice.below(2) as i32,
                Count::Variadic => self.dice.below(4) as i32,
            })
            .collect();
        if self.dice.one_in(15) {
            counts.push(1);
        }
        counts
    }

    fn value(&mut self, wanted: Option<Type>) -> ValueId {
        let fitting: Vec<_> = self
            .values
            .iter()
            .copied()
            .filter(|&v| wanted.is_none_or(|ty| self.rw.ty(v) == ty))
            .collect();
        if !fitting.is_empty() && !self.dice.one_in(4) {
            return self.dice.pick(&fitting);
        }
        let ty = wanted.unwrap_or_else(|| self.ty());
        let loc = self.loc();
        let op = self.rw.build("t.source", loc, &[], &[ty], &[]);
        self.rw.result(op, 0)
    }

    fn loc(&mut self) -> Loc {
        let line = self.dice.below(3) as u32 + 1;
        self.cx.file_loc("a.py", line, 1)
    }

    /// An op of `arith`, `builtin` or a dialect nobody knows, in a region now and then.
    fn upstream_op(&mut self) {
        let cx = self.cx.clone();
        let loc = self.loc();
        let flags = |body: &str| {
            cx.attr(AttrData::Opaque {
                dialect: cx.ident("arith"),
                body: body.into(),
                quoted: false,
                ty: None,
            })
        };
        let op = match self.dice.below(6) {
            0 => {
                let ty = self
                    .dice
                    .pick(&[cx.int_type(32), cx.int_type(1), cx.index_type()]);
                let value = cx.int_attr(-i64::from(self.dice.one_in(2)), ty);
                self.props("arith.constant", &[], &[ty], &[("value", value)])
            }
            1 => {
                let value = self.anything();
                let ty = self.ty();
                self.props("arith.constant", &[], &[ty], &[("value", value)])
            }
            2 => {
                let ty = self.ty();
                let (a, b) = (self.value(Some(ty)), self.value(Some(ty)));
                let body =
                    self.dice
                        .pick(&["fastmath<none>", "fastmath<nnan,ninf>", "fastmath<fast>"]);
                let name = self.dice.pick(&["arith.addf", "arith.mulf"]);
                self.props(name, &[a, b], &[ty], &[("fastmath", flags(body))])
            }
            3 => {
                let ty = self.ty();
                let (a, b) = (self.value(Some(ty)), self.value(None));
                let body = self.dice.pick(&["overflow<nsw>", "overflow<nsw, nuw>"]);
                self.props(
                    "arith.addi",
                    &[a, b],
                    &[ty],
                    &[("overflowFlags", flags(body))],
                )
            }
            4 => {
                let (a, ty) = (self.value(None), self.ty());
                self.rw
                    .build("builtin.unrealized_conversion_cast", loc, &[a], &[ty], &[])
            }
            _ => {
                let (a, ty, value) = (self.value(None), self.ty(), self.anything());
                let op = self.rw.create(NewOp {
                    operands: &[a],
                    results: &[ty, ty],
                    attrs: cx.dict(vec![(cx.ident("a b"), value)]),
                    regions: 2,
                    ..NewOp::new(cx.ident("t.op"), loc, &cx)
                });
                let region = self.rw.regions(op)[1];
                let block = self.rw.append_block(region);
                let arg = self.rw.add_arg(block, ty, loc);
                self.rw.set_insertion_point(Position::End(block));
                self.rw.build("t.inner", loc, &[arg, a], &[ty], &[]);
                self.rw.set_insertion_point(Position::After(op));
                op
            }
        };
        self.values.extend(self.rw.results(op));
    }

    fn props(
        &mut self,
        name: &str,
        operands: &[ValueId],
        results: &[Type],
        props: &[(&str, Attr)],
    ) -> OpId {
        let cx = self.cx.clone();
        let loc = self.loc();
        self.rw.create(NewOp {
            operands,
            results,
            props: cx.dict(props.iter().map(|&(k, v)| (cx.ident(k), v)).collect()),
            ..NewOp::new(cx.ident(name), loc, &cx)
        })
    }

    fn op(&mut self, def: &OpDef) {
        let cx = self.cx.clone();
        let one_type = (!self.dice.one_in(4)).then(|| self.ty());
        let operands = self.counts(def.operands);
        let results = self.counts(def.results);
        let total = |counts: &[i32]| counts.iter().sum::<i32>() as usize;
        let values: Vec<_> = (0..total(&operands))
            .map(|_| self.value(one_type))
            .collect();
        let types: Vec<_> = (0..total(&results))
            .map(|_| one_type.unwrap_or_else(|| self.ty()))
            .collect();
        let mut attrs = Vec::new();
        for attr in def.attrs {
            let left_out = if attr.required { 12 } else { 2 };
            if self.dice.one_in(left_out) {
                continue;
            }
            let value = match attr.default {
                Some(default) if self.dice.one_in(2) => default.attr(&cx),
                _ => self.attr(attr.kind),
            };
            attrs.push((cx.ident(attr.name), value));
        }
        for (name, groups, counts) in [
            (OPERAND_SEGMENTS, def.operands, &operands),
            (RESULT_SEGMENTS, def.results, &results),
        ] {
            let vary = groups.iter().filter(|g| g.count != Count::One).count() > 1;
            if vary && !self.dice.one_in(12) {
                attrs.push((cx.ident(name), cx.i32_array(counts)));
            }
        }
        for name in ["dist.role", "paddle.x y", "dist.stage"] {
            if self.dice.one_in(4) {
                attrs.push((cx.ident(name), self.anything()));
            }
        }
        let loc = self.loc();
        let op = self.rw.create(NewOp {
            operands: &values,
            results: &types,
            attrs: cx.dict(attrs),
            ..NewOp::new(cx.ident(def.name), loc, &cx)
        });
        self.values.extend(self.rw.results(op));
    }
}

/// A module with one function of random ops, one for each seed, most of them of `dist`.
fn module(cx: &Arc<Context>, seeds: &[u64]) -> Module {
    let loc = cx.file_loc("a.py", 1, 1);
    let mut module = Module::new(cx, loc);
    let mut rw = Rewriter::new(&mut module);
    let arg = cx.tensor(&[4, 8], cx.f32());
    let function = cx.function_type(&[arg], &[]);
    let func = rw.create(NewOp {
        props: cx.dict(vec![
            (cx.ident("sym_name"), cx.string("step")),
            (cx.ident("function_type"), cx.type_attr(function)),
        ]),
        regions: 1,
        ..NewOp::new(cx.ident("func.func"), loc, cx)
    });
    let region = rw.regions(func)[0];
    let block = rw.append_block(region);
    let x = rw.add_arg(block, arg, loc);
    rw.set_insertion_point(Position::End(block));
    let defs: Vec<&OpDef> = definitions()
        .filter(|def| def.dialect() == "dist")
        .collect();
    let mut maker = Maker {
        cx: cx.clone(),
        rw,
        dice: Dice(1),
        values: vec![x],
    };
    for &seed in seeds {
        maker.dice = Dice(seed | 1);
        if maker.dice.one_in(4) {
            maker.upstream_op();
            continue;
        }
        let def = maker.dice.pick(&defs);
        maker.op(def);
    }
    maker.rw.build("func.return", loc, &[], &[], &[]);
    module
}

fn read(cx: &Arc<Context>, text: &str) -> Result<Module, TestCaseError> {
    let source = Source::new("test.mlir", text.as_bytes());
    let mut diagnostics = Diagnostics::new();
    let options = ParseOptions {
        allow_unregistered: true,
    };
    parse(cx, &source, options, &mut diagnostics).ok_or_else(|| {
        let options = RenderOptions {
            format: Format::Pretty,
            color: false,
        };
        let errors: String = diagnostics
            .iter()
            .map(|d| render(d, &source, cx, options))
            .collect();
        TestCaseError::fail(format!("{errors}\nin\n{text}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_forms_are_lossless(seeds in prop::collection::vec(any::<u64>(), 1..30), debug_info: bool) {
        let cx = Context::new();
        let options = |generic| PrintOptions { generic, debug_info, ..PrintOptions::default() };
        let built = module(&cx, &seeds);
        let generic = print(&built, options(true));
        let pretty = print(&built, options(false));
        let from_generic = read(&cx, &generic)?;
        prop_assert_eq!(&print(&from_generic, options(true)), &generic);
        prop_assert_eq!(&print(&from_generic, options(false)), &pretty);
        let from_pretty = read(&cx, &pretty)?;
        let back = print(&from_pretty, options(true));
        prop_assert_eq!(&back, &generic, "through\n{}", pretty);
        prop_assert_eq!(&print(&from_pretty, options(false)), &pretty);
    }
}
