//! Globals: declared, initialised, loaded and stored.

use raddle_dialect::ir::{AttrData, LayoutData, Type, ValueId};

use super::{Builder, Stored};

impl Builder<'_> {
    pub fn learning_rate(&mut self) {
        self.global("lr", "buffer", &[1], None, None, 0.01);
    }

    /// Declares a global, and initialises it like Paddle: a constant, then a broadcast over each axis that copies it.
    pub fn global(
        &mut self,
        name: &str,
        kind: &str,
        shape: &[i64],
        sharded: Option<usize>,
        of: Option<&str>,
        value: f64,
    ) {
        let cx = self.cx.clone();
        let loc = cx.file_loc("program", 1, 1);
        let dims = (0..shape.len()).map(|d| match sharded {
            Some(dim) if dim == d => self
                .spec
                .tensor_axes()
                .iter()
                .map(|a| cx.ident(a))
                .collect(),
            _ => Box::default(),
        });
        let layout = cx.attr(AttrData::Layout(LayoutData {
            dims: dims.collect(),
            partial: Box::default(),
        }));
        let ty = cx.tensor(shape, self.stored_element(kind));
        let mut attrs = vec![
            ("sym_name", cx.string(name)),
            ("kind", cx.string(kind)),
            ("type", cx.type_attr(ty)),
            ("layout", layout),
        ];
        attrs.extend(of.map(|of| ("of", cx.symbol_ref(of))));
        let init = self.functions.init;
        let first = self.rewriter.body(init);
        self.rewriter
            .before(init)
            .build("dist.global", loc, &[], &[], &attrs);
        self.rewriter.at_end(first);
        let filled = self.rewriter.build(
            "dist.fill",
            loc,
            &[],
            &[ty],
            &[("value", cx.f64_attr(value))],
        );
        let mut at = self.rewriter.result(filled, 0);
        let mut all: Vec<&[&str]> = Vec::new();
        if kind == "parameter" && self.spec.dp > 1 {
            all.push(&["dp"]);
        }
        if kind == "parameter" && sharded.is_none() {
            all.push(self.spec.tensor_axes());
        }
        for axes in all {
            let attrs = [("axes", cx.string_array(axes)), ("root", cx.i64_attr(0))];
            let op = self
                .rewriter
                .build("dist.broadcast", loc, &[at], &[ty], &attrs);
            at = self.rewriter.result(op, 0);
        }
        self.rewriter.build(
            "dist.store",
            loc,
            &[at],
            &[],
            &[("global", cx.symbol_ref(name))],
        );
        self.fill_in(self.current);
    }

    /// The element type of a kind of global.
    fn stored_element(&self, kind: &str) -> Type {
        match self.spec.stored {
            Stored::Low | Stored::LowWithMaster if kind == "parameter" => self.element(),
            _ => self.cx.f32(),
        }
    }

    /// The element type of gradients, once they are ready for the optimizer.
    pub fn gradient_element(&self) -> Type {
        match self.spec.stored {
            Stored::Low => self.element(),
            _ => self.cx.f32(),
        }
    }

    pub fn load_parameter(&mut self, name: &str, shape: &[i64]) -> ValueId {
        let ty = self.cx.tensor(shape, self.stored_element("parameter"));
        let global = self.cx.symbol_ref(name);
        self.value("dist.load", &[], ty, &[("global", global)])
    }

    pub fn load(&mut self, name: &str, shape: &[i64]) -> ValueId {
        let ty = self.tensor(shape);
        let global = self.cx.symbol_ref(name);
        self.value("dist.load", &[], ty, &[("global", global)])
    }

    pub fn store(&mut self, name: &str, value: ValueId) {
        let global = self.cx.symbol_ref(name);
        self.op("dist.store", &[value], &[], &[("global", global)]);
    }

    /// Declares a global that gradients are added to, set to zero: over the data axis its ranks hold parts of a sum.
    pub fn accumulator(&mut self, parameter: &str, shape: &[i64], sharded: Option<usize>) {
        let name = format!("{parameter}_grad");
        self.global(&name, "buffer", shape, sharded, None, 0.0);
        if self.spec.dp == 1 {
            return;
        }
        let cx = self.cx.clone();
        let init = self.functions.init;
        let global = self.rewriter.prev_op(init).expect("just declared");
        let layout = self.rewriter.attr(global, "layout").expect("it has one");
        let AttrData::Layout(layout) = cx.attr_data(layout) else {
            unreachable!("a layout");
        };
        let layout = cx.attr(AttrData::Layout(LayoutData {
            dims: layout.dims.clone(),
            partial: Box::new([cx.ident("dp")]),
        }));
        self.rewriter.set_attr(global, "layout", Some(layout));
    }
}
