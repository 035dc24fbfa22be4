// RUN: raddle-opt %s --overlap-comm --plan-memory --verify-streams | FileCheck %s
// RUN: raddle-opt %s --plan-memory --overlap-comm=mode=synchronised --verify-streams | FileCheck %s --check-prefix=SYNC

// A skip connection that is passed on: the send waits for the receive, not for the compute stream. What the job also computes with is
// freed once both have read it.
module {
  dist.mesh @mesh ["pp" = 3]
  module @middle attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{pp = array<i64: 1>}]} {
    // CHECK-LABEL: func.func @forward
    // CHECK-NEXT:  %[[X:.*]] = dist.recv {dist.channel = "pp:0>1", dist.offset = array<i64: -1>, dist.stream = "recv:pp=0:forward:0"
    // CHECK-NEXT:  dist.event_record {event = "0.received", stream = "recv:pp=0:forward:0"}
    // CHECK-NEXT:  dist.event_wait {event = "0.received", stream = "send:pp=2:forward"}
    // CHECK-NEXT:  dist.send %[[X]] {dist.channel = "pp:1>2", dist.stream = "send:pp=2:forward"
    // CHECK-NEXT:  dist.event_record {event = "1.sent", stream = "send:pp=2:forward"}
    // CHECK-NEXT:  dist.event_wait {event = "0.received", stream = "compute"}
    // CHECK-NEXT:  %[[Y:.*]] = dist.gelu %[[X]]
    // CHECK-NEXT:  dist.event_record {event = "1.read", stream = "compute"}
    // CHECK-NEXT:  dist.event_wait {event = "1.read", stream = "send:pp=2:forward"}
    // CHECK-NEXT:  dist.free %[[X]] {dist.stream = "send:pp=2:forward"}
    // CHECK:       dist.send %[[Y]]
    // CHECK:       return %[[Y]]
    func.func @forward() -> (tensor<4xf32> {dist.value = "y"}) attributes {dist.kind = "forward", dist.stage = 1 : i64} {
      %x = dist.recv {peer = {pp = 0 : i64}, tag = 0 : i64} : tensor<4xf32>
      dist.send %x {peer = {pp = 2 : i64}, tag = 1 : i64} : tensor<4xf32>
      %y = dist.gelu %x : tensor<4xf32>
      dist.send %y {peer = {pp = 2 : i64}, tag = 2 : i64} : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    // Nothing comes back from where y went, so that the wait is needed; and y is freed after its send only.
    // CHECK-LABEL: func.func @backward(
    // CHECK:       dist.relu_grad %arg0
    // CHECK-NEXT:  dist.event_wait {event = "2.sent", stream = "compute"}
    // CHECK-NEXT:  dist.free %arg0
    // SYNC-LABEL:  func.func @backward(
    // SYNC-NEXT:   dist.event_wait {event = "1.sent", stream = "compute"}
    // SYNC-NEXT:   dist.event_wait {event = "2.sent", stream = "compute"}
    func.func @backward(%y: tensor<4xf32> {dist.value = "y"}) attributes {dist.kind = "backward", dist.stage = 1 : i64} {
      %0 = dist.relu_grad %y, %y : tensor<4xf32>
      dist.send %0 {peer = {pp = 0 : i64}, tag = 3 : i64} : tensor<4xf32>
      return
    }
  }
  module @others attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{pp = array<i64: 0, 2>}]} {
  }
}
