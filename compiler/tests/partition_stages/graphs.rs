//! Random graphs: any op may read any value before it, near or far, weights are used once or often, alone or multiplied, and stages begin
//! anywhere.

use std::fmt::Write as _;

use proptest::prelude::*;
use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::{Context, Verified, VerifyOptions, verify};
use raddle_dialect::syntax::{ParseOptions, parse};
use raddle_runtime::validate::Options;

use super::{bundle, hold, passed};

const T: &str = "tensor<2x4xf32>";
const W: &str = "tensor<4x4xf32>";

/// An op, and what it reads: numbers that are taken modulo what there is.
#[derive(Clone, Debug)]
struct Node {
    kind: u8,
    operands: [usize; 2],
    weight: usize,
}

#[derive(Clone, Debug)]
struct Graph {
    nodes: Vec<Node>,
    weights: usize,
    /// Where stages begin, among the nodes; one less than there are stages.
    begins: Vec<usize>,
    /// Another value than the last that the loss reads.
    early: usize,
    microbatches: usize,
}

impl Graph {
    fn stage(&self, node: usize) -> usize {
        self.begins.iter().filter(|&&b| b <= node).count()
    }

    fn text(&self, labels: bool) -> String {
        let mut globals = String::new();
        let mut body = String::new();
        for w in 0..self.weights {
            let layout = "{layout = #dist.layout<[[], []], []>}";
            writeln!(globals, "dist.global @w{w} parameter {layout} : {W}").unwrap();
            writeln!(body, "%w{w} = dist.load @w{w} : {W}").unwrap();
        }
        let mut values = vec!["x".to_owned()];
        for (at, node) in self.nodes.iter().enumerate() {
            let [a, b] = node
                .operands
                .map(|o| &values[values.len() - 1 - o % values.len()]);
            let w = node.weight % self.weights;
            let label = match labels {
                true => format!("dist.stage = {} : i64", self.stage(at)),
                false => String::new(),
            };
            let only = format!("{{{label}}}");
            let more = |attrs: &str| match labels {
                true => format!("{{{attrs}, {label}}}"),
                false => format!("{{{attrs}}}"),
            };
            let name = format!("v{at}");
            let line = match node.kind {
                0 => format!("%{name} = dist.matmul %{a}, %w{w} {only} : ({T}, {W}) -> {T}"),
                1 => format!("%{name} = dist.add %{a}, %{b} {only} : ({T}, {T}) -> {T}"),
                2 => format!("%{name} = dist.mul %{a}, %{b} {only} : ({T}, {T}) -> {T}"),
                3 => format!("%{name} = dist.gelu %{a} {only} : {T}"),
                4 => {
                    let more = more("rate = 0.25 : f64, seed = 9 : i64");
                    format!(
                        "%{name}, %{name}m = dist.dropout %{a} {more} : ({T}) -> ({T}, tensor<2x4xi1>)"
                    )
                }
                // A weight made of two, which any stage may read.
                5 => {
                    let other = (w + node.operands[1]) % self.weights;
                    format!(
                        "%{name}w = dist.mul %w{w}, %w{other} : ({W}, {W}) -> {W}\n\
                         %{name} = dist.matmul %{a}, %{name}w {only} : ({T}, {W}) -> {T}"
                    )
                }
                _ => {
                    let b16 = "tensor<2x4xbf16>";
                    format!(
                        "%{name}c = dist.cast %{a} {only} : ({T}) -> {b16}\n\
                         %{name} = dist.cast %{name}c {only} : ({b16}) -> {T}"
                    )
                }
            };
            writeln!(body, "{line}").unwrap();
            values.push(name);
        }
        let last = &values[values.len() - 1];
        let early = &values[self.early % values.len()];
        let stage = self.begins.len();
        let label = match labels {
            true => format!("{{dist.stage = {stage} : i64}}"),
            false => "{}".into(),
        };
        let dims = match labels {
            true => format!("{{dims = array<i64: 0, 1>, dist.stage = {stage} : i64}}"),
            false => "{dims = array<i64: 0, 1>}".into(),
        };
        let m = self.microbatches;
        format!(
            "dist.mesh @mesh [\"dp\" = 2]\n\
             module @all attributes {{dist.mesh = @mesh, dist.microbatches = {m} : i64, dist.ranks = [{{}}]}} {{\n{globals}\
             func.func @step(%x: {T} {{dist.layout = #dist.layout<[[\"dp\"], []], []>}}) -> tensor<f32> attributes {{dist.kind = \"step\"}} {{\n{body}\
             %s = dist.add %{last}, %{early} {label} : ({T}, {T}) -> {T}\n\
             %loss = dist.reduce_mean %s {dims} : ({T}) -> tensor<f32>\n\
             return %loss : tensor<f32>\n}}\n}}\n"
        )
    }

    fn module(&self, labels: bool) -> Verified {
        let text = self.text(labels);
        let cx = Context::new();
        let source = Source::new("graph.mlir", text.as_bytes());
        let mut diagnostics = Diagnostics::new();
        parse(&cx, &source, ParseOptions::default(), &mut diagnostics)
            .and_then(|m| verify(m, VerifyOptions::default(), &mut diagnostics).ok())
            .unwrap_or_else(|| {
                let messages: Vec<_> = diagnostics.iter().map(|d| &d.message).collect();
                panic!("{messages:#?}\n{text}")
            })
    }
}

fn graphs() -> impl Strategy<Value = Graph> {
    let node = (0..7u8, any::<[u8; 2]>(), 0..8usize).prop_map(|(kind, operands, weight)| Node {
        kind,
        // Mostly near, sometimes far.
        operands: operands.map(|o| if o < 160 { o as usize % 3 } else { o as usize }),
        weight,
    });
    let nodes = proptest::collection::vec(node, 6..16);
    (
        nodes,
        1..4usize,
        1..5usize,
        any::<[u8; 4]>(),
        any::<u8>(),
        1..4usize,
    )
        .prop_map(
            |(mut nodes, weights, stages, begins, early, microbatches)| {
                // Something has to be trained, at either end.
                nodes[0].kind = 0;
                if let Some(last) = nodes.last_mut() {
                    (last.kind, last.weight) = (0, 0);
                }
                nodes[0].weight = 0;
                let count = nodes.len();
                let mut begins: Vec<usize> = begins[..stages - 1]
                    .iter()
                    .map(|&b| 1 + b as usize % (count - 1))
                    .collect();
                begins.sort_unstable();
                begins.dedup();
                Graph {
                    nodes,
                    weights,
                    begins,
                    early: early as usize,
                    microbatches,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_and_cuts(graph in graphs(), choice in any::<[bool; 4]>(), seed in any::<u64>()) {
        let [labels, split, stack, v] = choice;
        let stages = graph.begins.len() + 1;
        let chunks = if stages % 2 == 0 && stack { 2 } else { 1 };
        let clip = if stack { "clip=global-norm clip-stack=true" } else { "clip=global-norm" };
        let trained = passed(graph.module(labels), &format!("append-backward{{{clip}}}"));
        let infer = match labels {
            true => String::new(),
            false => format!("infer-stages{{stages={stages}}},"),
        };
        let split = if split { "split-backward," } else { "" };
        let placement = if v { "v" } else { "loop" };
        let pipeline = format!("{infer}{split}partition-stages{{chunks={chunks} placement={placement}}}");
        let after = passed(trained.clone(), &pipeline);
        let options = Options::new(seed);
        let report = hold(&bundle(&trained), &bundle(&after), options);
        prop_assert!(report.passed(), "{pipeline}: {:#?}\n{}", report.failures, graph.text(labels));
    }
}
