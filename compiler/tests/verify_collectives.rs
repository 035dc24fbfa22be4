//! `verify-collectives` plays crews of ranks; here every rank of small meshes is played by itself, and the verdicts are the same.

use std::fmt::Write as _;

use proptest::prelude::*;
use raddle_compiler::analysis::meetings;
use raddle_dialect::diag::{Diagnostics, Severity, Source};
use raddle_dialect::ir::Context;
use raddle_dialect::mesh::Mesh;
use raddle_dialect::syntax::{ParseOptions, parse};

const AXES: [&str; 3] = ["a", "b", "c"];

/// One call of a class.
#[derive(Clone, PartialEq, Debug)]
enum Call {
    /// Over these axes, of a tensor of this many elements.
    Collective { axes: Vec<usize>, size: usize },
    /// To the rank with this index on an axis.
    Send {
        axis: usize,
        index: usize,
        size: usize,
    },
    Receive {
        axis: usize,
        index: usize,
        size: usize,
    },
}

/// A class: per axis its indices, and what it calls.
#[derive(Clone, Debug)]
struct Class {
    indices: Vec<Vec<usize>>,
    calls: Vec<Call>,
}

#[derive(Clone, Debug)]
struct Program {
    sizes: Vec<usize>,
    classes: Vec<Class>,
}

impl Program {
    fn text(&self) -> String {
        let axes = AXES.iter().zip(&self.sizes);
        let axes: Vec<_> = axes.map(|(a, n)| format!("\"{a}\" = {n}")).collect();
        let mut text = format!("module {{\n  dist.mesh @mesh [{}]\n", axes.join(", "));
        for (number, class) in self.classes.iter().enumerate() {
            let ranks = AXES.iter().zip(&class.indices);
            let ranks: Vec<_> = ranks
                .map(|(axis, indices)| {
                    let list: Vec<_> = indices.iter().map(usize::to_string).collect();
                    format!("{axis} = array<i64: {}>", list.join(", "))
                })
                .collect();
            let _ = write!(
                text,
                "  module @c{number} attributes {{dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{{{}}}]}} {{\n    func.func @step() attributes {{dist.kind = \"step\"}} {{\n",
                ranks.join(", ")
            );
            for (at, call) in class.calls.iter().enumerate() {
                text += &call.text(at);
            }
            text += "      return\n    }\n  }\n";
        }
        text + "}\n"
    }

    /// Plays every rank by itself; whether all reach their ends.
    fn all_ranks_come_through(&self) -> bool {
        let axes = AXES.iter().map(|&a| a.to_owned()).collect();
        let mesh = Mesh::new(axes, self.sizes.clone()).expect("a mesh");
        let class_of = |rank: usize| {
            let at = mesh.coordinate(rank);
            let holds = |c: &&Class| c.indices.iter().zip(&at).all(|(list, i)| list.contains(i));
            self.classes
                .iter()
                .find(holds)
                .expect("classes cover the mesh")
        };
        let programs: Vec<&[Call]> = (0..mesh.ranks()).map(|r| &class_of(r).calls[..]).collect();
        let mut at = vec![0; programs.len()];
        let peer = |rank: usize, axis: usize, index: usize| {
            let mut place = mesh.coordinate(rank);
            place[axis] = index;
            mesh.rank(&place)
        };
        loop {
            let mut moved = false;
            for rank in 0..programs.len() {
                let together: Vec<usize> = match programs[rank].get(at[rank]) {
                    None => continue,
                    Some(call @ Call::Collective { axes, .. }) => {
                        let group = mesh.group(rank, axes);
                        let live = |axes: &[usize]| -> Vec<usize> {
                            axes.iter()
                                .copied()
                                .filter(|&a| self.sizes[a] > 1)
                                .collect()
                        };
                        let fits = |other: &Call| match (call, other) {
                            (
                                Call::Collective { axes: a, size: m },
                                Call::Collective { axes: b, size: n },
                            ) => live(a) == live(b) && m == n,
                            _ => false,
                        };
                        let here = |&r: &usize| programs[r].get(at[r]).is_some_and(fits);
                        // Nobody waits for a group of one.
                        if group.len() > 1 && !group.iter().all(here) {
                            continue;
                        }
                        group
                    }
                    Some(&Call::Send { axis, index, size }) => {
                        let other = peer(rank, axis, index);
                        match programs[other].get(at[other]) {
                            Some(&Call::Receive {
                                axis,
                                index,
                                size: n,
                            }) if other != rank
                                && n == size
                                && peer(other, axis, index) == rank =>
                            {
                                vec![rank, other]
                            }
                            _ => continue,
                        }
                    }
                    Some(Call::Receive { .. }) => continue,
                };
                for rank in together {
                    at[rank] += 1;
                }
                moved = true;
            }
            if !moved {
                return at.iter().zip(&programs).all(|(&at, p)| at == p.len());
            }
        }
    }
}

impl Call {
    fn text(&self, at: usize) -> String {
        let (Call::Collective { size, .. } | Call::Send { size, .. } | Call::Receive { size, .. }) =
            self;
        let ty = format!("tensor<{size}xf32>");
        let fill = format!("      %x{at} = dist.fill {{value = 1.0 : f64}} : {ty}\n");
        match self {
            Call::Collective { axes, .. } => {
                let names: Vec<_> = axes.iter().map(|&a| AXES[a]).collect();
                format!("{fill}      %r{at} = dist.all_reduce sum %x{at} over {names:?} : {ty}\n")
            }
            Call::Send { axis, index, .. } => format!(
                "{fill}      dist.send %x{at} {{peer = {{{} = {index} : i64}}, tag = 0 : i64}} : {ty}\n",
                AXES[*axis]
            ),
            Call::Receive { axis, index, .. } => format!(
                "      %r{at} = dist.recv {{peer = {{{} = {index} : i64}}, tag = 0 : i64}} : {ty}\n",
                AXES[*axis]
            ),
        }
    }
}

/// Cuts the mesh into boxes: each cut halves one box along one axis.
fn boxes(sizes: &[usize], cuts: &[(usize, usize, usize)]) -> Vec<Vec<Vec<usize>>> {
    let mut boxes = vec![
        sizes
            .iter()
            .map(|&n| (0..n).collect::<Vec<_>>())
            .collect::<Vec<_>>(),
    ];
    for &(which, axis, pattern) in cuts {
        let at = which % boxes.len();
        let axis = axis % sizes.len();
        let (left, right): (Vec<usize>, Vec<usize>) = boxes[at][axis]
            .iter()
            .partition(|&&i| pattern >> i & 1 == 0);
        if left.is_empty() || right.is_empty() {
            continue;
        }
        let mut other = boxes[at].clone();
        other[axis] = right;
        boxes[at][axis] = left;
        boxes.push(other);
    }
    boxes
}

/// A call that all classes make, before some change their mind.
fn common_call() -> impl Strategy<Value = Call> {
    (1usize..8, 1usize..3).prop_map(|(subset, size)| Call::Collective {
        axes: (0..3).filter(|a| subset >> a & 1 == 1).collect(),
        size,
    })
}

fn program() -> impl Strategy<Value = Program> {
    let sizes = prop::collection::vec(1usize..4, 3);
    let cuts = prop::collection::vec((0usize..8, 0usize..3, 0usize..8), 0..5);
    let calls = prop::collection::vec(common_call(), 0..6);
    let transfers = prop::collection::vec(
        (0usize..8, 0usize..3, 0usize..3, 0usize..8, 0usize..3),
        0..3,
    );
    let changes = prop::collection::vec((0usize..8, 0usize..8, 0usize..4, common_call()), 0..3);
    (sizes, cuts, calls, transfers, changes).prop_map(|(sizes, cuts, calls, transfers, changes)| {
        let mut classes: Vec<Class> = boxes(&sizes, &cuts)
            .into_iter()
            .map(|indices| Class {
                indices,
                calls: calls.clone(),
            })
            .collect();
        for (which, axis, index, place, size) in transfers {
            // One class that holds one index of an axis sends to another such class, or tries to.
            let from = which % classes.len();
            let to = (which / 2 + 1) % classes.len();
            let index = index % sizes[axis];
            let back = classes[from].indices[axis][0];
            let size = size + 1;
            let place = place
                .min(classes[from].calls.len())
                .min(classes[to].calls.len());
            classes[from]
                .calls
                .insert(place, Call::Send { axis, index, size });
            classes[to].calls.insert(
                place,
                Call::Receive {
                    axis,
                    index: back,
                    size,
                },
            );
        }
        for (which, at, how, call) in changes {
            let class = which % classes.len();
            let calls = &mut classes[class].calls;
            let at = at % (calls.len() + 1);
            match how {
                0 => calls.insert(at, call),
                1 if at < calls.len() => {
                    calls.remove(at);
                }
                2 if at + 1 < calls.len() => calls.swap(at, at + 1),
                _ => {}
            }
        }
        Program { sizes, classes }
    })
}

/// The module as text, checked; whether it has no errors.
fn passes(text: &str) -> bool {
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    let options = ParseOptions {
        allow_unregistered: false,
    };
    let module = parse(
        &cx,
        &Source::new("program", text.as_bytes()),
        options,
        &mut diagnostics,
    );
    let module = module.unwrap_or_else(|| panic!("{:?}\n{text}", diagnostics.take()));
    let found = meetings::check(&module, module.root());
    !found.iter().any(|d| d.severity == Severity::Error)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn crews_come_through_exactly_if_all_ranks_do(program in program()) {
        prop_assert_eq!(passes(&program.text()), program.all_ranks_come_through(), "{}", program.text());
    }
}

/// Both verdicts are common among the random programs, and so are sends that meet.
#[test]
fn random_programs_are_of_both_kinds() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut through = [0; 2];
    let mut sending = 0;
    for _ in 0..400 {
        let program = program()
            .new_tree(&mut runner)
            .expect("a program")
            .current();
        let passes = program.all_ranks_come_through();
        through[usize::from(passes)] += 1;
        let sends = |c: &Class| c.calls.iter().any(|c| matches!(c, Call::Send { .. }));
        sending +=
            usize::from(passes && program.classes.len() > 1 && program.classes.iter().any(sends));
    }
    assert!(through[0] > 80 && through[1] > 80, "{through:?}");
    assert!(sending > 0, "{sending}");
}

/// A mesh of 16,384 ranks in two classes costs what two ranks cost.
#[test]
fn ranks_of_a_class_are_not_counted() {
    let mut text = String::from("module {\n  dist.mesh @mesh [\"a\" = 16, \"b\" = 1024]\n");
    for (name, indices) in [
        ("first", "0".to_owned()),
        (
            "rest",
            (1..1024)
                .map(|i| i.to_string())
                .collect::<Vec<_>>()
                .join(", "),
        ),
    ] {
        let _ = writeln!(
            text,
            "  module @{name} attributes {{dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{{b = array<i64: {indices}>}}]}} {{\n    func.func @step(%x: tensor<4xf32>) attributes {{dist.kind = \"step\"}} {{"
        );
        for call in 0..2000 {
            let _ = writeln!(
                text,
                "      %{call} = dist.all_reduce sum %x over [\"{}\"] : tensor<4xf32>",
                ["a", "b"][call % 2]
            );
        }
        text += "      return\n    }\n  }\n";
    }
    text += "}\n";
    let start = std::time::Instant::now();
    assert!(passes(&text));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
