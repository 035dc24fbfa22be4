//! `mma.sync` of tf32 numbers against sums in double precision, and what it finds where nothing was rounded.

use raddle_ptxsim::{Argument, Delivery, Error, FindingKind, Launch, Memory, Module, Outcome};

/// Every lane reads its four numbers of A, two of B and four of C, and writes four of D. `ROUND` stands for what happens to A
/// and B in between.
const KERNEL: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {
    .reg .b32 %r<20>;
    .reg .b64 %rd<20>;
    ld.param.b64 %rd1, [a];
    ld.param.b64 %rd2, [b];
    ld.param.b64 %rd3, [c];
    ld.param.b64 %rd4, [d];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd5, %r1, 16;
    mul.wide.u32 %rd6, %r1, 8;
    add.s64 %rd7, %rd1, %rd5;
    add.s64 %rd8, %rd2, %rd6;
    add.s64 %rd9, %rd3, %rd5;
    add.s64 %rd10, %rd4, %rd5;
    ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd7];
    ld.global.v2.b32 {%r6, %r7}, [%rd8];
    ld.global.v4.b32 {%r8, %r9, %r10, %r11}, [%rd9];
    ROUND
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r12, %r13, %r14, %r15}, {%r2, %r3, %r4, %r5}, {%r6, %r7},
        {%r8, %r9, %r10, %r11};
    st.global.v4.b32 [%rd10], {%r12, %r13, %r14, %r15};
    ret;
}
";

/// Numbers that are no tf32 numbers.
fn number(index: usize) -> f32 {
    ((index as f32 + 1.0) * 0.754_877_7).fract() - 0.5
}

/// What rounding to the nearest with ties away makes of a number, and what cutting off does, in double precision.
fn tf32(x: f32, is_cut: bool) -> f64 {
    let unit = 2f64.powi(f64::from(x).abs().log2().floor() as i32 - 10);
    let scaled = f64::from(x) / unit;
    unit * if is_cut {
        scaled.trunc()
    } else {
        scaled.round()
    }
}

fn run(round: &str) -> (Outcome, Vec<f32>) {
    let module = Module::parse(&KERNEL.replace("ROUND", round)).unwrap();
    let mut memory = Memory::new();
    // Per lane: A's rows l/4 and l/4 + 8 at terms l%4 and l%4 + 4, B's terms l%4 and l%4 + 4 at column l/4.
    let lanes = |count: usize, of: &dyn Fn(usize, usize) -> f32| -> Vec<u8> {
        let of = |index: usize| of(index / count, index % count).to_le_bytes();
        (0..32 * count).flat_map(of).collect()
    };
    let a = lanes(4, &|lane, register| {
        number((lane / 4 + register % 2 * 8) * 8 + lane % 4 + register / 2 * 4)
    });
    let b = lanes(2, &|lane, register| {
        number(500 + (lane % 4 + register * 4) * 8 + lane / 4)
    });
    let c = lanes(4, &|lane, register| {
        number(900 + (lane / 4 + register / 2 * 8) * 8 + lane % 4 * 2 + register % 2)
    });
    let arguments = [a, b, c].map(|bytes| Argument::Pointer(memory.allocate(bytes)));
    let d = memory.allocate_uninitialised(512);
    let launch = Launch {
        blocks: 1,
        threads: 32,
        shared_bytes: 0,
        arguments: arguments
            .into_iter()
            .chain([Argument::Pointer(d)])
            .collect(),
        delivery: Delivery::Eager,
        ..Launch::default()
    };
    let kernel = module.kernel("kernel").unwrap();
    let outcome = kernel.run(&mut memory, &launch).unwrap();
    let words = memory.bytes(d).chunks(4);
    let found = words.map(|word| f32::from_le_bytes(word.try_into().unwrap()));
    (outcome, found.collect())
}

/// The largest difference from the product of numbers that are rounded, or cut off.
fn difference(found: &[f32], is_cut: bool) -> f64 {
    let mut largest = 0f64;
    for (index, &found) in found.iter().enumerate() {
        let (lane, register) = (index / 4, index % 4);
        let (row, column) = (lane / 4 + register / 2 * 8, lane % 4 * 2 + register % 2);
        let terms = (0..8).map(|term| {
            tf32(number(row * 8 + term), is_cut) * tf32(number(500 + term * 8 + column), is_cut)
        });
        let sum = f64::from(number(900 + row * 8 + column)) + terms.sum::<f64>();
        largest = largest.max((f64::from(found) - sum).abs());
    }
    largest
}

#[test]
fn rounded_operands_are_multiplied() {
    let round: Vec<String> = (2..8)
        .map(|register| format!("cvt.rna.tf32.f32 %r{register}, %r{register};"))
        .collect();
    let (outcome, found) = run(&round.concat());
    assert_eq!(outcome.findings, []);
    assert_eq!(outcome.counters.matrix_products, 1);
    assert!(difference(&found, false) < 1e-7);
    assert!(difference(&found, true) > 1e-4);
}

#[test]
fn operands_that_are_not_rounded_are_found_and_cut_off() {
    let (outcome, found) = run("");
    let kinds: Vec<_> = outcome.findings.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [FindingKind::Unrounded]);
    assert!(difference(&found, true) < 1e-7);
    assert!(difference(&found, false) > 1e-4);
}

#[test]
fn other_roundings_and_shapes_are_refused() {
    for (from, to) in [
        ("ROUND", "cvt.rn.tf32.f32 %r2, %r2;"),
        ("ROUND", "cvt.rna.satfinite.tf32.f32 %r2, %r2;"),
        ("m16n8k8", "m16n8k4"),
    ] {
        let text = KERNEL.replace(from, to).replace("ROUND", "");
        let error: Error = Module::parse(&text).expect_err("it is not modelled");
        let message = error.to_string();
        assert!(message.contains("line 2"), "{message}");
        assert!(message.contains(to.split(' ').next().unwrap()), "{message}");
    }
}
