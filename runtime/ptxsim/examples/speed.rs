//! How fast the simulator is, with all checks on: `cargo run -p raddle-ptxsim --example speed [scalar|mma|wgmma]`.
//!
//! Each kernel is one block, so the rates are those of one core of the host.

use std::fmt::Write;
use std::time::Instant;

use raddle_ptxsim::{Argument, Delivery, Launch, Memory, Module, Swizzle, TensorMap};

/// A kernel, how to launch it, and what to count.
struct Case {
    name: &'static str,
    text: String,
    launch: Launch,
    memory: Memory,
    /// What the rate is of, and how much of it the launch does.
    unit: &'static str,
    work: f64,
}

fn main() -> Result<(), raddle_ptxsim::Error> {
    let wanted = std::env::args().nth(1);
    for case in [scalar(), mma(), wgmma()] {
        let Case {
            name,
            text,
            launch,
            mut memory,
            unit,
            work,
        } = case;
        if wanted.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let module = Module::parse(&text)?;
        let start = Instant::now();
        let outcome = module.kernels()[0].run(&mut memory, &launch)?;
        let seconds = start.elapsed().as_secs_f64();
        for finding in &outcome.findings {
            println!("  {finding}");
        }
        println!(
            "{name:<8}{:>8.2} million {unit} a second ({seconds:.2} s)",
            work / seconds / 1e6
        );
    }
    Ok(())
}

fn head(target: &str, parameters: &str) -> String {
    format!(
        ".version 8.0
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 space[];
.visible .entry kernel({parameters}) {{
    .reg .pred %p<20>;
    .reg .b32 %r<400>;
    .reg .b32 %f<400>;
    .reg .b64 %rd<40>;
    mov.u32 %r1, %tid.x;
    mov.b32 %r2, space;
"
    )
}

/// `%f100, %f101, …`
fn registers(first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count)
        .map(|index| format!("%f{index}"))
        .collect();
    names.join(", ")
}

/// Sums of products of 8 × 8 numbers of each thread, from shared memory.
fn scalar() -> Case {
    const ROUNDS: u32 = 2000;
    let mut text = head("sm_80", "");
    text.push_str(
        "    shl.b32 %r3, %r1, 4;\n    add.s32 %r3, %r2, %r3;\n    mov.b32 %f0, 0f3f800000;\n",
    );
    for line in 0..4 {
        let _ = writeln!(
            text,
            "    st.shared.v4.b32 [%r3+{}], {{%f0, %f0, %f0, %f0}};",
            line * 2048
        );
    }
    for sum in 0..64 {
        let _ = writeln!(text, "    mov.b32 %f{}, 0f00000000;", 100 + sum);
    }
    text.push_str("    bar.sync 0;\n    mov.b32 %r4, 0;\n$L_next:\n");
    for (first, at) in [(0, 0), (4, 2048), (8, 4096), (12, 6144)] {
        let _ = writeln!(
            text,
            "    ld.shared.v4.b32 {{{}}}, [%r3+{at}];",
            registers(first, 4)
        );
    }
    for row in 0..8 {
        for column in 0..8 {
            let sum = 100 + row * 8 + column;
            let _ = writeln!(
                text,
                "    fma.rn.f32 %f{sum}, %f{row}, %f{}, %f{sum};",
                8 + column
            );
        }
    }
    let _ = writeln!(
        text,
        "    add.s32 %r4, %r4, 1;\n    setp.lt.u32 %p1, %r4, {ROUNDS};\n    @%p1 bra $L_next;\n    ret;\n}}"
    );
    Case {
        name: "scalar",
        text,
        launch: Launch {
            threads: 128,
            shared_bytes: 8192,
            delivery: Delivery::Late,
            ..Launch::default()
        },
        memory: Memory::new(),
        unit: "lane-instructions",
        work: f64::from(ROUNDS) * 71.0 * 128.0,
    }
}

/// A tile of 128 × 256 by eight warps: `cp.async`, `ldmatrix`, `mma.sync`, two stages of 32 terms.
fn mma() -> Case {
    const DEPTH: usize = 8192;
    const STAGE: usize = (128 + 256) * 64;
    let line = DEPTH * 2;
    let mut text = head("sm_80", ".param .u64 a, .param .u64 b");
    // A thread copies 16 bytes of every 64th line: two of the left operand and four of the right.
    let _ = writeln!(
        text,
        "    ld.param.b64 %rd1, [a];
    ld.param.b64 %rd2, [b];
    shr.u32 %r3, %r1, 2;
    and.b32 %r4, %r1, 3;
    shl.b32 %r4, %r4, 4;
    mad.lo.s32 %r5, %r3, {line}, %r4;
    cvt.u64.u32 %rd3, %r5;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    mad.lo.s32 %r6, %r3, 64, %r4;
    add.s32 %r6, %r2, %r6;
    shr.u32 %r7, %r1, 5;
    and.b32 %r8, %r1, 31;
    and.b32 %r9, %r7, 1;
    shr.u32 %r10, %r7, 1;
    and.b32 %r11, %r8, 15;
    shr.u32 %r12, %r8, 4;
    shl.b32 %r12, %r12, 4;
    mad.lo.s32 %r13, %r11, 64, %r12;
    add.s32 %r13, %r2, %r13;
    mad.lo.s32 %r14, %r9, 4096, %r13;
    mad.lo.s32 %r15, %r10, 4096, %r13;
    add.s32 %r15, %r15, 8192;
    mov.b32 %r20, 0;"
    );
    for sum in 0..128 {
        let _ = writeln!(text, "    mov.b32 %f{}, 0f00000000;", 100 + sum);
    }
    let copies = |text: &mut String| {
        for index in 0..2 {
            let _ = writeln!(
                text,
                "    cp.async.cg.shared.global [%r6+{}], [%rd1+{}], 16;",
                index * 4096,
                index * 64 * line
            );
        }
        for index in 0..4 {
            let _ = writeln!(
                text,
                "    cp.async.cg.shared.global [%r6+{}], [%rd2+{}], 16;",
                8192 + index * 4096,
                index * 64 * line
            );
        }
        text.push_str("    cp.async.commit_group;\n");
    };
    copies(&mut text);
    let _ = writeln!(
        text,
        "$L_next:
    cp.async.wait_group 0;
    bar.sync 0;
    add.s64 %rd1, %rd1, 64;
    add.s64 %rd2, %rd2, 64;
    and.b32 %r21, %r20, 1;
    mov.b32 %r22, {STAGE};
    setp.ne.u32 %p1, %r21, 0;
    selp.b32 %r23, {}, %r22, %p1;
    add.s32 %r6, %r6, %r23;
    add.s32 %r20, %r20, 1;
    setp.ge.u32 %p2, %r20, {};
    @%p2 bra $L_multiply;",
        -(STAGE as i64) as u32,
        DEPTH / 32
    );
    copies(&mut text);
    text.push_str("$L_multiply:\n");
    for half in 0..2 {
        for (base, registers_from) in [(14, 0), (15, 32)] {
            for block in 0..4 {
                let first = registers_from + block * 4;
                let _ = writeln!(
                    text,
                    "    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}}}, [%r{base}+{}];",
                    registers(first, 4),
                    block * 1024 + half * 32
                );
            }
        }
        for row in 0..4 {
            for column in 0..8 {
                let sum = registers(100 + (row * 8 + column) * 4, 4);
                let right = 32 + column / 2 * 4 + column % 2;
                let _ = writeln!(
                    text,
                    "    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{sum}}}, {{{}}}, {{%f{right}, %f{}}}, {{{sum}}};",
                    registers(row * 4, 4),
                    right + 2
                );
            }
        }
    }
    let _ = writeln!(
        text,
        "    add.s32 %r14, %r14, %r23;
    add.s32 %r15, %r15, %r23;
    setp.lt.u32 %p1, %r20, {};
    @%p1 bra $L_next;
    ret;
}}",
        DEPTH / 32
    );
    let mut memory = Memory::new();
    let a = memory.allocate(vec![0x3f; 128 * line]);
    let b = memory.allocate(vec![0x3e; 256 * line]);
    Case {
        name: "mma",
        text,
        launch: Launch {
            threads: 256,
            shared_bytes: 2 * STAGE as u32,
            arguments: [a, b].map(Argument::Pointer).to_vec(),
            delivery: Delivery::Late,
            ..Launch::default()
        },
        memory,
        unit: "products",
        work: (128 * 256 * DEPTH) as f64,
    }
}

/// A tile of 64 × 256 by one warpgroup: boxes by TMA, `wgmma`, two stages of 64 terms.
fn wgmma() -> Case {
    const DEPTH: usize = 32768;
    const STAGE: usize = (64 + 256) * 128;
    const BARRIERS: usize = 2 * STAGE;
    let mut text = head(
        "sm_90a",
        ".param .align 64 .b8 left[128], .param .align 64 .b8 right[128]",
    );
    let _ = writeln!(
        text,
        "    mov.b64 %rd1, left;
    cvta.param.u64 %rd1, %rd1;
    mov.b64 %rd2, right;
    cvta.param.u64 %rd2, %rd2;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $L_made;
    mbarrier.init.shared.b64 [%r2+{BARRIERS}], 1;
    mbarrier.init.shared.b64 [%r2+{}], 1;
    fence.mbarrier_init.release.cluster;
$L_made:
    bar.sync 0;
    mov.b32 %r3, 0;
    mov.b32 %r4, 0;
    mov.b32 %r5, 0;",
        BARRIERS + 8
    );
    let load = |text: &mut String, label: &str| {
        // Stage %r6, first term %r4.
        let _ = writeln!(
            text,
            "    @%p1 bra {label};
    mad.lo.s32 %r7, %r6, {STAGE}, %r2;
    mad.lo.s32 %r8, %r6, 8, %r2;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r8+{BARRIERS}], {STAGE};
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r7], [%rd1, {{%r4, %r5}}], [%r8+{BARRIERS}];
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r7+8192], [%rd2, {{%r4, %r5}}], [%r8+{BARRIERS}];
{label}:
    add.s32 %r4, %r4, 64;"
        );
    };
    text.push_str("    mov.b32 %r6, 0;\n");
    load(&mut text, "$L_first");
    let descriptor = |start: usize| (start as u64) >> 4 | 1 << 16 | 64 << 32 | 1 << 62;
    let _ = writeln!(
        text,
        "    setp.ne.u32 %p3, 0, 0;
$L_next:
    and.b32 %r9, %r3, 1;
    shr.u32 %r10, %r3, 1;
    and.b32 %r10, %r10, 1;
    xor.b32 %r6, %r9, 1;
    setp.ge.u32 %p4, %r4, {DEPTH};
    @%p4 bra $L_wait;"
    );
    load(&mut text, "$L_loaded");
    let _ = writeln!(
        text,
        "$L_wait:
    mad.lo.s32 %r11, %r9, 8, %r2;
$L_again:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r11+{BARRIERS}], %r10;
    @!%p2 bra $L_again;
    cvt.u64.u32 %rd5, %r9;
    mul.lo.u64 %rd5, %rd5, {};
    wgmma.fence.sync.aligned;",
        STAGE / 16
    );
    for part in 0..4 {
        let _ = writeln!(
            text,
            "    add.s64 %rd6, %rd5, {};
    add.s64 %rd7, %rd5, {};
    wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{}}}, %rd6, %rd7, %p3, 1, 1, 0, 0;
    setp.eq.u32 %p3, 0, 0;",
            descriptor(part * 32),
            descriptor(8192 + part * 32),
            registers(100, 128)
        );
    }
    let _ = writeln!(
        text,
        "    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    bar.sync 0;
    add.s32 %r3, %r3, 1;
    setp.lt.u32 %p5, %r3, {};
    @%p5 bra $L_next;
    ret;
}}",
        DEPTH / 64
    );
    let mut memory = Memory::new();
    let mut map = |lines: usize| {
        Argument::TensorMap(TensorMap {
            pointer: memory.allocate(vec![0x3f; lines * DEPTH * 2]),
            offset_bytes: 0,
            element_bytes: 2,
            extents: vec![DEPTH as u64, lines as u64],
            strides_bytes: vec![DEPTH as u64 * 2],
            box_extents: vec![64, lines as u32],
            swizzle: Swizzle::Bytes128,
        })
    };
    let arguments = vec![map(64), map(256)];
    Case {
        name: "wgmma",
        text,
        launch: Launch {
            threads: 128,
            shared_bytes: BARRIERS as u32 + 64,
            arguments,
            delivery: Delivery::Late,
            ..Launch::default()
        },
        memory,
        unit: "products",
        work: (64 * 256 * DEPTH) as f64,
    }
}
