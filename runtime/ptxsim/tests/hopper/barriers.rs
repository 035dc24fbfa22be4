//! Barriers, by name and in shared memory, and the warpgroups' registers.

use raddle_ptxsim::{Delivery, FindingKind};

use super::{BARRIER, kinds, plain, run, words};

#[test]
fn named_barriers_order_those_who_meet_there() {
    // The first warp writes and goes on; the second waits and reads.
    let body = "setp.lt.u32 %p2, %r1, 32;
        add.s64 %rd7, %rd6, %rd5;
        @!%p2 bra $L_reads;
        st.shared.b32 [%rd7], %r1;
        bar.arrive 3, 64;
        bra.uni $L_end;
        $L_reads: bar.sync 3, 64;
        ld.shared.b32 %r2, [%rd7+-128];
        add.s64 %rd8, %rd2, %rd5;
        st.global.b32 [%rd8], %r2;
        $L_end: bar.warp.sync -1;";
    let (outcome, found) = run(body, &plain(64), Delivery::Eager);
    assert_eq!(outcome.findings, []);
    assert_eq!(words(&found)[32..64], (0..32).collect::<Vec<u32>>());
    let without = body.replace("bar.sync 3, 64;", "");
    assert!(kinds(&without, &plain(64), Delivery::Eager).contains(&FindingKind::Race));
    let alone = body.replace("bar.arrive 3, 64;", "");
    assert_eq!(
        kinds(&alone, &plain(64), Delivery::Eager),
        [FindingKind::Deadlock]
    );
}

#[test]
fn barriers_are_checked() {
    let made = format!(
        "@%p1 mbarrier.init.shared.b64 [space+{BARRIER}], 2; bar.sync 0;
        @!%p1 bra $L_end;"
    );
    let arrive = format!("mbarrier.arrive.shared.b64 _, [space+{BARRIER}];\n");
    let end = "$L_end: bar.warp.sync -1;";
    let found = |middle: &str| {
        let body = format!("{made}{middle}{end}");
        kinds(&body, &plain(32), Delivery::Eager)
    };
    assert_eq!(found(&arrive.repeat(2)), []);
    assert_eq!(
        found(&format!(
            "mbarrier.arrive.shared.b64 _, [space+{BARRIER}], 3;"
        )),
        [FindingKind::Barrier]
    );
    assert_eq!(
        found(&arrive.replace("32768", "32776")),
        [FindingKind::Barrier]
    );
    let wait = format!(
        "{arrive} $L_wait: mbarrier.try_wait.parity.shared.b64 %p2, [space+{BARRIER}], 0; @!%p2 bra $L_wait;"
    );
    let body = format!("{made}{wait}{end}");
    let (outcome, _) = run(&body, &plain(32), Delivery::Eager);
    let text = outcome.findings[0].to_string();
    assert!(
        text.contains("deadlock")
            && text.contains("misses 1 of 2 arrivals and 0 bytes")
            && text.contains("warp 0 waits for the barrier at 32768"),
        "{text}"
    );
}

#[test]
fn registers_are_taken_only_when_they_are_there() {
    // Two warpgroups with 64 registers a thread each.
    let body = "setp.lt.u32 %p2, %r1, 128;
        @!%p2 bra $L_gives;
        setmaxnreg.inc.sync.aligned.u32 104;
        bra.uni $L_end;
        $L_gives: setmaxnreg.dec.sync.aligned.u32 24;
        $L_end: bar.warp.sync -1;";
    assert_eq!(kinds(body, &plain(256), Delivery::Eager), []);
    for (from, to) in [
        ("u32 104", "u32 112"),
        ("setmaxnreg.dec.sync.aligned.u32 24;", ""),
    ] {
        let body = body.replace(from, to);
        assert_eq!(
            kinds(&body, &plain(256), Delivery::Eager),
            [FindingKind::Deadlock]
        );
    }
    let upside_down = body.replace("u32 104", "u32 56");
    assert_eq!(
        kinds(&upside_down, &plain(256), Delivery::Eager),
        [FindingKind::Divergence]
    );
}
