//! Clusters: each other's shared memory, their barrier, copies to several blocks at once.

use raddle_ptxsim::{
    Argument, Delivery, Error, FindingKind, Launch, Memory, Module, Outcome, Swizzle, TensorMap,
};

const HEAD: &str = "
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 128 .b8 space[];
.visible .entry kernel(.param .u64 from, .param .u64 to, .param .align 64 .b8 boxes[128]) {
    .reg .pred %p<20>;
    .reg .b32 %r<60>;
    .reg .b64 %rd<40>;
    ld.param.b64 %rd1, [from];
    ld.param.b64 %rd2, [to];
    mov.b64 %rd3, boxes;
    cvta.param.u64 %rd3, %rd3;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %cluster_ctarank;
    mad.lo.s32 %r4, %r2, 32, %r1;
    mul.wide.u32 %rd4, %r4, 4;
    add.s64 %rd4, %rd2, %rd4;
    mov.b32 %r5, space;
    shl.b32 %r6, %r1, 2;
    add.s32 %r7, %r5, %r6;
    xor.b32 %r8, %r3, 1;
    mapa.shared::cluster.u32 %r9, %r7, %r8;
    mapa.shared::cluster.u32 %r10, %r5, %r8;
    setp.ne.u32 %p1, %r1, 0;
";

const SYNC: &str = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";

fn launch(
    body: &str,
    delivery: Delivery,
    change: impl Fn(&mut Launch),
) -> Result<(Outcome, Vec<u32>), Error> {
    let text = format!("{HEAD}{body}\n    ret;\n}}\n");
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut memory = Memory::new();
    let from = memory.allocate((1u32..=32).flat_map(u32::to_le_bytes).collect());
    let to = memory.allocate(vec![0; 4 * 32 * 4]);
    let map = TensorMap {
        pointer: from,
        offset_bytes: 0,
        element_bytes: 4,
        extents: vec![32],
        strides_bytes: Vec::new(),
        box_extents: vec![32],
        swizzle: Swizzle::None,
    };
    let mut launch = Launch {
        blocks: 4,
        threads: 32,
        shared_bytes: 1024,
        arguments: vec![
            Argument::Pointer(from),
            Argument::Pointer(to),
            Argument::TensorMap(map),
        ],
        delivery,
        cluster: 2,
        ..Launch::default()
    };
    change(&mut launch);
    let outcome = module.kernels()[0].run(&mut memory, &launch)?;
    let words = memory.bytes(to).chunks(4);
    let words = words.map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    Ok((outcome, words.collect()))
}

/// Runs with both deliveries and several orders; all must show the same.
fn run(body: &str) -> (Vec<FindingKind>, Vec<u32>) {
    let both = [
        (Delivery::Eager, 0),
        (Delivery::Late, 0),
        (Delivery::Late, 5),
    ];
    let results = both.map(|(delivery, seed)| {
        let (outcome, words) = launch(body, delivery, |launch| launch.seed = seed).unwrap();
        let kinds: Vec<_> = outcome
            .findings
            .iter()
            .map(|finding| finding.kind)
            .collect();
        (kinds, words)
    });
    let [first, second, third] = results;
    assert_eq!(
        first.0.is_empty(),
        second.0.is_empty(),
        "{first:?} {second:?}"
    );
    if first.0.is_empty() {
        assert_eq!(first, second);
        assert_eq!(first, third);
    }
    second
}

fn kinds(body: &str) -> Vec<FindingKind> {
    run(body).0
}

#[test]
fn registers_say_where_a_block_is() {
    let body = "mov.u32 %r20, %cluster_ctaid.x; mov.u32 %r21, %cluster_nctaid.x; mov.u32 %r22, %clusterid.x;
        mov.u32 %r23, %nclusterid.x; mov.u32 %r24, %cluster_nctarank;
        mad.lo.s32 %r25, %r20, 10, %r21; mad.lo.s32 %r25, %r25, 10, %r22; mad.lo.s32 %r25, %r25, 10, %r23;
        mad.lo.s32 %r25, %r25, 10, %r24; st.global.b32 [%rd4], %r25;";
    let (kinds, words) = run(body);
    assert_eq!(kinds, []);
    let firsts: Vec<u32> = words.chunks(32).map(|block| block[0]).collect();
    // rank, blocks of a cluster, cluster, clusters, blocks of a cluster
    assert_eq!(firsts, [2022, 12022, 2122, 12122]);
}

/// Every block writes to the other's shared memory, and reads its own.
fn swap() -> String {
    format!(
        "{SYNC} add.s32 %r20, %r4, 100; st.shared::cluster.b32 [%r9], %r20; {SYNC}
        ld.shared.b32 %r21, [%r7]; st.global.b32 [%rd4], %r21;"
    )
}

#[test]
fn blocks_write_to_each_others_shared_memory() {
    let (found, words) = run(&swap());
    assert_eq!(found, []);
    let expected: Vec<u32> = (0..128u32).map(|index| (index ^ 32) + 100).collect();
    assert_eq!(words, expected);
    // Generic addresses, and those of one's own memory in the cluster's space.
    let generic = swap()
        .replace(
            "st.shared::cluster.b32 [%r9]",
            "cvt.u64.u32 %rd9, %r9; st.b32 [%rd9]",
        )
        .replace(
            "ld.shared.b32 %r21, [%r7]",
            "ld.shared::cluster.b32 %r21, [%r7]",
        );
    assert_eq!(run(&generic), (vec![], expected));
    let once = swap().replacen(SYNC, "", 1);
    let without = once.replacen(SYNC, "", 1);
    assert!(!kinds(&without).is_empty());
    // An arrival that hands nothing over.
    let relaxed = once.replace("arrive.release", "arrive.relaxed");
    assert!(kinds(&relaxed).contains(&FindingKind::Race));
    // Far too far.
    let far = swap().replace(
        "st.shared::cluster.b32 [%r9]",
        "st.shared::cluster.b32 [%r9+1024]",
    );
    assert!(kinds(&far).contains(&FindingKind::OutOfBounds));
    let nobody = format!("mov.b32 %r20, 2; mapa.shared::cluster.u32 %r21, %r5, %r20; {SYNC}");
    assert!(kinds(&nobody).contains(&FindingKind::OutOfBounds));
}

#[test]
fn ranks_of_addresses() {
    let body = "getctarank.shared::cluster.u32 %r20, %r9; getctarank.shared::cluster.u32 %r21, %r7;
        mad.lo.s32 %r20, %r20, 10, %r21; st.global.b32 [%rd4], %r20;";
    let (found, words) = run(body);
    assert_eq!(found, []);
    assert_eq!((words[0], words[32], words[64]), (10, 1, 10));
}

#[test]
fn a_block_must_not_end_while_others_use_its_shared_memory() {
    let read = format!(
        "st.shared.b32 [%r7], %r4; {SYNC} ld.shared::cluster.b32 %r20, [%r9]; st.global.b32 [%rd4], %r20;"
    );
    assert_eq!(kinds(&read), [FindingKind::Ended]);
    assert_eq!(kinds(&format!("{read}{SYNC}")), []);
    let (outcome, _) = launch(&read, Delivery::Late, |_| ()).unwrap();
    let text = outcome.findings[0].to_string();
    assert!(
        text.contains("has used its shared memory") || text.contains("which has ended"),
        "{text}"
    );
}

#[test]
fn barriers_of_a_cluster_are_checked() {
    // One block never comes.
    let alone = "setp.eq.u32 %p2, %r3, 0; @%p2 bra $L_arrive; $L_wait: bar.sync 1, 64;
        $L_arrive: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
    let (outcome, _) = launch(alone, Delivery::Late, |_| ()).unwrap();
    assert_eq!(outcome.findings[0].kind, FindingKind::Deadlock);
    let message = &outcome.findings[0].message;
    assert!(
        message.contains("warp 0 of block 0 waits for the cluster's barrier")
            && message.contains("warp 0 of block 1 waits for named barrier 1"),
        "{message}"
    );
    assert_eq!(
        kinds("barrier.cluster.wait.aligned;"),
        [FindingKind::Barrier]
    );
    let twice = "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;";
    assert_eq!(kinds(twice), [FindingKind::Barrier]);
    // Those who have returned are not waited for.
    let gone = "setp.eq.u32 %p2, %r3, 0; @%p2 bra $L_end; barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned; $L_end:";
    assert_eq!(kinds(gone), []);
}

/// Each block's first thread arrives at the other's barrier after writing there; the other waits.
fn remote_arrival() -> String {
    format!(
        "@!%p1 mbarrier.init.shared.b64 [%r5+512], 32; fence.mbarrier_init.release.cluster; {SYNC}
        st.shared::cluster.b32 [%r9], %r4;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10+512];
        $L_wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r5+512], 0;
        @!%p3 bra $L_wait;
        ld.shared.b32 %r20, [%r7]; st.global.b32 [%rd4], %r20;"
    )
}

#[test]
fn threads_arrive_at_barriers_of_other_blocks() {
    let body = remote_arrival();
    let (found, words) = run(&body);
    assert_eq!(found, []);
    assert_eq!((words[0], words[33]), (32, 1));
    let unwaited = body.replace("@!%p3 bra $L_wait;", "");
    assert!(!kinds(&unwaited).is_empty());
    let unmade = body.replacen(SYNC, "", 1);
    assert!(!kinds(&unmade).is_empty());
    let short = body.replace("[%r5+512], 32;", "[%r5+512], 33;");
    assert_eq!(kinds(&short), [FindingKind::Deadlock]);
}

/// Block 0 of each cluster copies a box to both; both wait for it.
fn multicast() -> String {
    format!(
        "@!%p1 mbarrier.init.shared.b64 [%r5+512], 1; fence.mbarrier_init.release.cluster; {SYNC}
        @!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r5+512], 128;
        setp.ne.u32 %p2, %r4, 0; and.b32 %r20, %r2, 1; setp.ne.u32 %p2, %r20, 0; mov.b32 %r21, 0;
        mov.b16 %rs1, 3;
        @%p1 bra $L_wait; @%p2 bra $L_wait;
        cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
            [%r5], [%rd3, {{%r21}}], [%r5+512], %rs1;
        $L_wait: mbarrier.try_wait.parity.shared.b64 %p3, [%r5+512], 0;
        @!%p3 bra $L_wait;
        ld.shared.b32 %r20, [%r7]; st.global.b32 [%rd4], %r20;"
    )
    .replace("@!%p1 mbarrier.init", ".reg .b16 %rs<3>; @!%p1 mbarrier.init")
}

#[test]
fn copies_come_to_all_blocks_of_a_mask() {
    let body = multicast();
    let (found, words) = run(&body);
    assert_eq!(found, []);
    let expected: Vec<u32> = (0..128u32).map(|index| index % 32 + 1).collect();
    assert_eq!(words, expected);
    // The other block waits for what never comes.
    let one = body.replace("mov.b16 %rs1, 3;", "mov.b16 %rs1, 1;");
    assert_eq!(kinds(&one), [FindingKind::Deadlock]);
    let far = body.replace("mov.b16 %rs1, 3;", "mov.b16 %rs1, 7;");
    assert!(kinds(&far).contains(&FindingKind::OutOfBounds));
    // The copy may come before the other's barrier is made.
    let early = body.replacen(SYNC, "", 1);
    assert!(!kinds(&early).is_empty());
    // Nobody waits, and the blocks end.
    let unwaited = body.replace("@!%p3 bra $L_wait;", "");
    let (outcome, _) = launch(&unwaited, Delivery::Late, |_| ()).unwrap();
    assert!(
        outcome
            .findings
            .iter()
            .any(|one| one.kind == FindingKind::InFlight)
    );
}

#[test]
fn atomics_reach_other_blocks() {
    let body = format!(
        "@!%p1 st.shared.b32 [%r5], %r1; {SYNC} atom.relaxed.cluster.shared::cluster.add.u32 %r20, [%r10], 2; {SYNC}
        ld.shared.b32 %r21, [%r5]; st.global.b32 [%rd4], %r21;"
    );
    let (found, words) = run(&body);
    assert_eq!(found, []);
    assert_eq!((words[0], words[32]), (64, 64));
    let narrow = body.replace("relaxed.cluster", "relaxed.cta");
    // Only one block's threads add to each word, so nothing is lost, and nothing is wrong.
    assert_eq!(kinds(&narrow), []);
    let both = format!(
        "{SYNC} mapa.shared::cluster.u32 %r11, %r5, 0; @!%p1 st.shared.b32 [%r5], 0; {SYNC}
        atom.relaxed.cta.shared::cluster.add.u32 %r20, [%r11], 2; {SYNC}"
    );
    assert!(kinds(&both).contains(&FindingKind::Race));
    assert_eq!(kinds(&both.replace("relaxed.cta", "relaxed.cluster")), []);
}

#[test]
fn launches_have_whole_clusters() {
    for (blocks, cluster) in [(3, 2), (4, 0), (34, 17)] {
        let refused = launch("", Delivery::Eager, |launch| {
            (launch.blocks, launch.cluster) = (blocks, cluster);
        });
        assert!(
            matches!(refused, Err(Error::Launch(_))),
            "{blocks} {cluster}"
        );
    }
}
