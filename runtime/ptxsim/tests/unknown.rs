//! PTX that is not modelled is refused by its name and its line, never ignored or taken for something else.

use raddle_ptxsim::{Error, Module};

fn parsed(line: &str) -> Result<Module, Error> {
    Module::parse(&format!(
        ".version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 data) {{
    .reg .pred %p<9>;
    .reg .b16 %rs<9>;
    .reg .b32 %r<99>;
    .reg .b64 %rd<9>;
{line}
    ret;
}}"
    ))
}

/// Instructions that exist and are not modelled.
const UNKNOWN: &[&str] = &[
    "activemask.b32 %r1;",
    "add.cc.u32 %r1, %r2, %r3;",
    "add.f64 %rd1, %rd2, %rd3;",
    "add.f16x2 %r1, %r2, %r3;",
    "add.sat.s32 %r1, %r2, %r3;",
    "atom.global.add.f32 %r1, [%rd1], %r2;",
    "atom.global.add.noftz.f16 %rs1, [%rd1], %rs2;",
    "atom.acq_rel.global.gpu.v2.add.f32 %r1, [%rd1], %r2;",
    "bar.red.popc.u32 %r1, 0, %p1;",
    "barrier.cluster.arrive.acquire;",
    "bfi.b32 %r1, %r2, %r3, 0, 8;",
    "brev.b32 %r1, %r2;",
    "call foo;",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.b128 [%r1], [%r2];",
    "copysign.f32 %r1, %r2, %r3;",
    "cos.approx.f32 %r1, %r2;",
    "cp.async.bulk.prefetch.L2.global [%rd1], %r1;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
    "cp.async.mbarrier.arrive.shared.b64 [%r1];",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.tile.bulk_group [%rd1, {%r1, %r2}], [%r3];",
    "cvt.rzi.s32.f32 %r1, %r2;",
    "cvt.rz.f16.f32 %rs1, %r1;",
    "div.rn.f32 %r1, %r2, %r3;",
    "dp4a.s32.s32 %r1, %r2, %r3, %r4;",
    "fence.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.proxy.alias;",
    "fence.proxy.tensormap::generic.release.gpu;",
    "fma.rz.f32 %r1, %r2, %r3, %r4;",
    "griddepcontrol.wait;",
    "ld.global.relaxed.b32 %r1, [%rd1];",
    "ld.local.b32 %r1, [%rd1];",
    "ld.const.b32 %r1, [%rd1];",
    "ld.relaxed.b32 %r1, [%rd1];",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r3];",
    "lg2.approx.f32 %r1, %r2;",
    "mad.hi.s32 %r1, %r2, %r3, %r4;",
    "match.any.sync.b32 %r1, %r2, -1;",
    "mbarrier.pending_count.b64 %r1, %rd1;",
    "mbarrier.inval.shared.b64 [%r1];",
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r7}, {%r1, %r2, %r3, %r4};",
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, {%r9, %r10}, {%r1, %r2, %r3, %r4};",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r7, %r8}, {%r1, %r2, %r3, %r4}, %r9, 0;",
    "multimem.red.global.add.f32 [%rd1], %r1;",
    "nanosleep.u32 20;",
    "popc.b32 %r1, %r2;",
    "prmt.b32 %r1, %r2, %r3, %r4;",
    "redux.sync.add.s32 %r1, %r2, -1;",
    "rsqrt.approx.f32 %r1, %r2;",
    "setp.ltu.f32 %p1, %r1, %r2;",
    "shf.l.wrap.b32 %r1, %r2, %r3, 7;",
    "shfl.sync.up.b32 %r1, %r2, 1, 0, -1;",
    "slct.b32.s32 %r1, %r2, %r3, %r4;",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r2, [%r3];",
    "st.local.b32 [%rd1], %r1;",
    "suld.b.1d.b32.trap %r1, [foo, {%r2}];",
    "tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 1;",
    "tex.1d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [foo, {%r5}];",
    "trap;",
    "vote.sync.ballot.b32 %r1, %p1, -1;",
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1, %r2, %r3, %r4}, %rd1, %rd2, 1;",
    "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, 1, 1, 1, 0, 0;",
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1}, [%r2];",
];

#[test]
fn instructions_are_refused_by_name_and_line() {
    for instruction in UNKNOWN {
        let name = instruction.split([' ', ';']).next().unwrap();
        // On the ninth line, and guarded on the tenth.
        for (text, line) in [
            (format!("    {instruction}"), 9),
            (format!("\n    @%p1 {instruction}"), 10),
        ] {
            let error = parsed(&text).unwrap_err();
            let expected = Error::Unsupported {
                line,
                what: name.to_owned(),
            };
            assert_eq!(error, expected, "{instruction}");
        }
    }
}

/// Instructions that are modelled.
const KNOWN: &[&str] = &[
    "add.s32 %r1, %r2, %r3;",
    "atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], 1;",
    "bar.sync 1, 64;",
    "barrier.cluster.arrive.release.aligned;",
    "barrier.cluster.wait.acquire;",
    "cp.async.cg.shared.global [%r1], [%rd1], 16;",
    "cp.async.bulk.commit_group;",
    "cvt.rn.bf16x2.f32 %r1, %r2, %r3;",
    "fence.acq_rel.gpu;",
    "fence.proxy.async;",
    "fma.rn.f32 %r1, %r2, %r3, %r4;",
    "ld.acquire.gpu.global.b32 %r1, [%rd1];",
    "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];",
    "mapa.shared::cluster.u32 %r1, %r2, 1;",
    "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;",
    "mul.wide.u32 %rd1, %r1, 4;",
    "red.relaxed.gpu.global.add.u32 [%rd1], 1;",
    "setmaxnreg.inc.sync.aligned.u32 240;",
    "setp.lt.u32 %p1, %r1, %r2;",
    "shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;",
    "st.release.cluster.global.b32 [%rd1], %r1;",
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r1], {%r2, %r3};",
    "wgmma.wait_group.sync.aligned 0;",
];

#[test]
fn a_qualifier_more_makes_an_instruction_unknown() {
    for instruction in KNOWN {
        assert!(
            parsed(instruction).is_ok(),
            "{instruction}: {:?}",
            parsed(instruction)
        );
        let (name, rest) = instruction.split_at(instruction.find([' ', ';']).unwrap());
        let parts: Vec<&str> = name.split('.').collect();
        // At every place, one that exists elsewhere and one that does not exist.
        for place in 1..=parts.len() {
            for qualifier in ["satfinite", "L2::cache_hint", "frobnicated"] {
                let mut parts = parts.clone();
                parts.insert(place, qualifier);
                let name = parts.join(".");
                let error = parsed(&format!("{name}{rest}"));
                assert!(
                    matches!(&error, Err(Error::Unsupported { line: 9, what }) if *what == name),
                    "{name}: {error:?}"
                );
            }
        }
    }
}

#[test]
fn directives_and_special_registers_are_refused_too() {
    let module = |text: &str| Module::parse(&format!(".version 8.0\n.target sm_80\n{text}"));
    for directive in [".func", ".global", ".const", ".alias", ".tex"] {
        let error = module(&format!("{directive} foo;")).unwrap_err();
        assert_eq!(
            error,
            Error::Unsupported {
                line: 3,
                what: directive.to_owned()
            }
        );
    }
    for directive in [".local", ".param", ".maxnctapersm"] {
        assert!(
            parsed(&format!("{directive} .b32 foo;")).is_err(),
            "{directive}"
        );
    }
    for special in [
        "%clock64",
        "%smid",
        "%lanemask_lt",
        "%globaltimer",
        "%gridid",
    ] {
        let error = parsed(&format!("mov.u32 %r1, {special};")).unwrap_err();
        assert!(
            matches!(&error, Error::Syntax { line: 9, message } if message.contains(special)),
            "{error:?}"
        );
    }
}
