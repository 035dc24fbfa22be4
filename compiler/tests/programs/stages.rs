//! Chunks of layers, and what goes between those on different stages.
//!
//! Chunk c is on stage c mod the number of stages. All ranks work on one micro-batch at a time, chunk after chunk, so sends meet their
//! receives in any program order.

use raddle_dialect::ir::{Type, ValueId};

use super::Builder;
use super::forward::Pair;

impl Builder<'_> {
    /// This stage's chunks, and the loss if the last one is among them.
    pub fn forward_chunks(&mut self) -> (Vec<(usize, Vec<Pair>)>, Option<ValueId>) {
        let mut chunks: Vec<(usize, Vec<Pair>)> = Vec::new();
        let mut before: Option<ValueId> = None;
        for chunk in self.own_chunks() {
            self.chunk = (self.all_chunks() > 1).then_some(chunk);
            let input = match (chunk, before) {
                (0, _) => {
                    let body = self.rewriter.body(self.functions.step);
                    self.rewriter.args(body)[0]
                }
                (_, Some(value)) => value,
                (_, None) => self.receive(chunk - 1, 2 * (chunk - 1)),
            };
            let pairs = self.forward(chunk, input);
            let out = pairs.last().expect("there are layers").out;
            before = self.pass_on(out, chunk + 1, 2 * chunk);
            chunks.push((chunk, pairs));
        }
        let last = chunks.last().filter(|c| c.0 + 1 == self.all_chunks());
        let out = last.map(|(_, pairs)| pairs.last().expect("there are layers").out);
        let loss = out.map(|out| self.mean(out));
        (chunks, loss)
    }

    pub fn backward_chunks(&mut self, chunks: &[(usize, Vec<Pair>)]) {
        let mut before: Option<ValueId> = None;
        for (chunk, pairs) in chunks.iter().rev() {
            let chunk = *chunk;
            self.chunk = (self.all_chunks() > 1).then_some(chunk);
            let dout = match before {
                _ if chunk + 1 == self.all_chunks() => self.seed(pairs),
                Some(value) => value,
                None => self.receive(chunk + 1, 2 * chunk + 1),
            };
            let dx = self.backward(pairs, dout);
            before = match chunk.checked_sub(1) {
                Some(to) => self.pass_on(dx, to, 2 * to + 1),
                None => None,
            };
        }
        self.chunk = None;
    }

    fn all_chunks(&self) -> usize {
        self.spec.stages * self.spec.chunks
    }

    fn own_chunks(&self) -> Vec<usize> {
        let stages = self.spec.stages;
        (self.stage..self.all_chunks()).step_by(stages).collect()
    }

    /// Keeps a value for the next chunk if that is on this stage; else sends it, if there is one.
    fn pass_on(&mut self, value: ValueId, to: usize, tag: usize) -> Option<ValueId> {
        if to >= self.all_chunks() || to % self.spec.stages == self.stage {
            return Some(value);
        }
        let attrs = [
            ("peer", self.peer(to)),
            ("tag", self.cx.i64_attr(tag as i64)),
        ];
        self.op("dist.send", &[value], &[], &attrs);
        None
    }

    fn receive(&mut self, from: usize, tag: usize) -> ValueId {
        let attrs = [
            ("peer", self.peer(from)),
            ("tag", self.cx.i64_attr(tag as i64)),
        ];
        let ty = self.activation();
        self.value("dist.recv", &[], ty, &attrs)
    }

    fn peer(&self, chunk: usize) -> raddle_dialect::ir::Attr {
        let index = (chunk % self.spec.stages) as i64;
        let cx = &self.cx;
        cx.dict(vec![(cx.ident("pp"), cx.i64_attr(index))])
    }

    /// What goes between chunks.
    fn activation(&self) -> Type {
        let shape = self.spec.shape;
        let rows = match self.spec.sequence_parallel {
            true => shape.sequence / self.spec.mp,
            false => shape.sequence,
        };
        self.tensor(&[rows, shape.batch, shape.hidden])
    }
}
