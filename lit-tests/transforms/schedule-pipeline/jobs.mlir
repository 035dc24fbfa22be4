// RUN: raddle-opt %s --schedule-pipeline='kind=interleaved-1f1b optimizer=postvalidate' | FileCheck %s
// RUN: not raddle-opt %s --schedule-pipeline=kind=zb-v 2>&1 | FileCheck %s --check-prefix=V

// Jobs say where their stages live: two chunks on each of two ranks, in a loop, with whole backwards.

// CHECK: dist.schedule {actions = ["0F0 0F1 2F0 2F1 {{.*}}0ROLLBACK 2ROLLBACK", "1F0 {{.*}}1RECV_STATE 1STEP 3STEP {{.*}}"]
// CHECK-SAME: chunks = 2 : i64, kind = "interleaved-1f1b", microbatches = 2 : i64, placement = array<i64: 0, 1, 0, 1>, stages = 4 : i64}

// V: error: cannot schedule: zb-v has a placement of its own; only auto takes any [S0020] [E0556]

dist.mesh @mesh ["pp" = 2, "mp" = 2]
module @first attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{pp = array<i64: 0>}]} {
  func.func @forward_0() attributes {dist.kind = "forward", dist.chunk = 0 : i64, dist.stage = 0 : i64} {
    return
  }
  func.func @backward_0() attributes {dist.kind = "backward", dist.chunk = 0 : i64, dist.stage = 0 : i64} {
    return
  }
  func.func @forward_1() attributes {dist.kind = "forward", dist.chunk = 1 : i64, dist.stage = 2 : i64} {
    return
  }
  func.func @backward_1() attributes {dist.kind = "backward", dist.chunk = 1 : i64, dist.stage = 2 : i64} {
    return
  }
}
module @last attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{pp = array<i64: 1>}]} {
  func.func @forward_0() attributes {dist.kind = "forward", dist.chunk = 0 : i64, dist.stage = 1 : i64} {
    return
  }
  func.func @backward_0() attributes {dist.kind = "backward", dist.chunk = 0 : i64, dist.stage = 1 : i64} {
    return
  }
  func.func @forward_1() attributes {dist.kind = "forward", dist.chunk = 1 : i64, dist.stage = 3 : i64} {
    return
  }
  func.func @backward_1() attributes {dist.kind = "backward", dist.chunk = 1 : i64, dist.stage = 3 : i64} {
    return
  }
}
