// RUN: raddle-opt %s --overlap-comm | FileCheck %s
// RUN: raddle-opt %s --overlap-comm --verify-streams --overlap-comm | FileCheck %s
// RUN: raddle-opt %s --overlap-comm=mode=synchronised --verify-streams | FileCheck %s --check-prefix=SYNC
// RUN: raddle-opt %s --plan-memory --overlap-comm --verify-streams | FileCheck %s --check-prefix=FREE
// RUN: raddle-opt %s --overlap-comm --plan-memory --verify-streams | FileCheck %s --check-prefix=FREE
// RUN: raddle-opt %s --overlap-comm --plan-memory --validate-each=3 2>&1 >/dev/null | FileCheck %s --check-prefix=VALID
// VALID: validated overlap-comm: loss ×
// VALID: validated plan-memory: loss ×

// Every rank opens the channels in this order; each goes one way.
// CHECK:       module attributes {dist.channels = ["pp:0>1", "pp:1>0"]}

// The send waits for its value only, and nothing waits for the send.
// CHECK-LABEL: func.func @forward(%arg0
// CHECK:       %[[H:.*]] = dist.gelu
// CHECK-NEXT:  dist.event_record {event = "7.ready", stream = "compute"}
// CHECK-NEXT:  dist.event_wait {event = "7.ready", stream = "send:pp=1:forward"}
// CHECK-NEXT:  dist.send %[[H]] {dist.channel = "pp:0>1", dist.stream = "send:pp=1:forward"
// CHECK-NEXT:  dist.event_record {event = "7.sent", stream = "send:pp=1:forward"}
// CHECK-NEXT:  return

// The receive has a stream of its own; compute waits before the first op that reads it.
// CHECK-LABEL: func.func @backward_b(%arg0
// CHECK-NEXT:  %[[D:.*]] = dist.recv {dist.channel = "pp:1>0", dist.stream = "recv:pp=1:backward:8"
// CHECK-NEXT:  dist.event_record {event = "8.received", stream = "recv:pp=1:backward:8"}
// CHECK-NEXT:  dist.event_wait {event = "8.received", stream = "compute"}
// CHECK-NEXT:  dist.gelu_grad %arg0, %[[D]]

// What is sent is freed on the stream that sends it.
// FREE-LABEL:  func.func @forward(%arg0
// FREE:        dist.send %[[H:[0-9]+]]
// FREE-DAG:    dist.event_record {event = "7.sent"
// FREE-DAG:    dist.free %[[H]] {dist.stream = "send:pp=1:forward"}

// The forward send needs no wait: its stage's backward receives from the same rank. The backward send is awaited by the optimizer.
// SYNC-LABEL:  func.func @forward(%arg0
// SYNC:        dist.send %{{.*}} {dist.channel = "pp:0>1", dist.stream = "communication"
// SYNC-NEXT:   dist.event_record {event = "7.sent", stream = "communication"}
// SYNC-LABEL:  func.func @backward_b(%arg0
// SYNC-NEXT:   dist.recv {dist.channel = "pp:1>0", peer
// SYNC-NEXT:   dist.gelu_grad
// SYNC:        func.func @optimizer
// SYNC-NEXT:   dist.load @w0
// SYNC:        module @last
// SYNC:        dist.event_wait {event = "8.ready", stream = "communication"}
// SYNC-NEXT:   dist.send
// SYNC:        func.func @optimizer
// SYNC-NEXT:   dist.event_wait {event = "8.sent", stream = "compute"}

dist.mesh @mesh ["pp" = 2]

module @first attributes {dist.mesh = @mesh, dist.microbatches = 4 : i64, dist.ranks = [{pp = array<i64: 0>}]} {
  dist.global @w0 parameter {layout = #dist.layout<[[], []], []>} : tensor<8x16xf32>
  dist.global @w0_m state {layout = #dist.layout<[[], []], []>, of = @w0} : tensor<8x16xf32>
  dist.global @w0_grad buffer {layout = #dist.layout<[[], []], []>} : tensor<8x16xf32>
  func.func @init() attributes {dist.kind = "init"} {
    %0 = dist.fill {value = 0.1 : f64} : tensor<8x16xf32>
    dist.store @w0 %0 : tensor<8x16xf32>
    %1 = dist.fill {value = 0.0 : f64} : tensor<8x16xf32>
    dist.store @w0_m %1 : tensor<8x16xf32>
    dist.store @w0_grad %1 : tensor<8x16xf32>
    return
  }
  func.func @forward(%x: tensor<4x8xf32> {dist.value = "x", dist.input, dist.layout = #dist.layout<[[], []], []>}) -> (tensor<4x16xf32> {dist.value = "pre"}) attributes {dist.kind = "forward", dist.stage = 0 : i64, dist.chunk = 0 : i64} {
    %w = dist.load @w0 : tensor<8x16xf32>
    %pre = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %h = dist.gelu %pre : tensor<4x16xf32>
    dist.send %h {peer = {pp = 1 : i64}, tag = 7 : i64} : tensor<4x16xf32>
    return %pre : tensor<4x16xf32>
  }
  func.func @backward_b(%pre: tensor<4x16xf32> {dist.value = "pre"}) -> (tensor<4x16xf32> {dist.value = "dpre"}) attributes {dist.kind = "backward_b", dist.stage = 0 : i64, dist.chunk = 0 : i64} {
    %d = dist.recv {peer = {pp = 1 : i64}, tag = 8 : i64} : tensor<4x16xf32>
    %0 = dist.gelu_grad %pre, %d : tensor<4x16xf32>
    return %0 : tensor<4x16xf32>
  }
  func.func @backward_w(%x: tensor<4x8xf32> {dist.value = "x", dist.input, dist.layout = #dist.layout<[[], []], []>}, %d: tensor<4x16xf32> {dist.value = "dpre"}) attributes {dist.kind = "backward_w", dist.stage = 0 : i64, dist.chunk = 0 : i64} {
    %0 = dist.matmul %x, %d {transpose_a = true} : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    dist.accumulate @w0_grad %0 : tensor<8x16xf32>
    return
  }
  func.func @optimizer() attributes {dist.kind = "optimizer"} {
    %w = dist.load @w0 : tensor<8x16xf32>
    %g = dist.load @w0_grad : tensor<8x16xf32>
    %s = dist.scale %g {scale = 0.25 : f64} : tensor<8x16xf32>
    %m = dist.load @w0_m : tensor<8x16xf32>
    %lr = dist.fill {value = 0.1 : f64} : tensor<1xf32>
    %u:2 = dist.momentum %w, %s, %m, %lr {mu = 0.9 : f64} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
    dist.store @w0 %u#0 : tensor<8x16xf32>
    dist.store @w0_m %u#1 : tensor<8x16xf32>
    %z = dist.fill {value = 0.0 : f64} : tensor<8x16xf32>
    dist.store @w0_grad %z : tensor<8x16xf32>
    return
  }
}

module @last attributes {dist.mesh = @mesh, dist.microbatches = 4 : i64, dist.ranks = [{pp = array<i64: 1>}]} {
  dist.global @w1 parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @w1_grad buffer {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  func.func @init() attributes {dist.kind = "init"} {
    %0 = dist.fill {value = 0.1 : f64} : tensor<16x16xf32>
    dist.store @w1 %0 : tensor<16x16xf32>
    %1 = dist.fill {value = 0.0 : f64} : tensor<16x16xf32>
    dist.store @w1_grad %1 : tensor<16x16xf32>
    return
  }
  func.func @forward() -> (tensor<4x16xf32> {dist.value = "h"}, tensor<4x16xf32> {dist.value = "y"}, tensor<f32> {dist.loss}) attributes {dist.kind = "forward", dist.stage = 1 : i64, dist.chunk = 0 : i64} {
    %h = dist.recv {peer = {pp = 0 : i64}, tag = 7 : i64} : tensor<4x16xf32>
    %w = dist.load @w1 : tensor<16x16xf32>
    %y = dist.matmul %h, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %s = dist.mul %y, %y : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %l = dist.reduce_mean %s {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
    return %h, %y, %l : tensor<4x16xf32>, tensor<4x16xf32>, tensor<f32>
  }
  func.func @backward_b(%y: tensor<4x16xf32> {dist.value = "y"}) -> (tensor<4x16xf32> {dist.value = "dy"}) attributes {dist.kind = "backward_b", dist.stage = 1 : i64, dist.chunk = 0 : i64} {
    %dy = dist.scale %y {scale = 0.03125 : f64} : tensor<4x16xf32>
    %w = dist.load @w1 : tensor<16x16xf32>
    %dh = dist.matmul %dy, %w {transpose_b = true} : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    dist.send %dh {peer = {pp = 0 : i64}, tag = 8 : i64} : tensor<4x16xf32>
    return %dy : tensor<4x16xf32>
  }
  func.func @backward_w(%h: tensor<4x16xf32> {dist.value = "h"}, %dy: tensor<4x16xf32> {dist.value = "dy"}) attributes {dist.kind = "backward_w", dist.stage = 1 : i64, dist.chunk = 0 : i64} {
    %0 = dist.matmul %h, %dy {transpose_a = true} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
    dist.accumulate @w1_grad %0 : tensor<16x16xf32>
    return
  }
  func.func @optimizer() attributes {dist.kind = "optimizer"} {
    %w = dist.load @w1 : tensor<16x16xf32>
    %g = dist.load @w1_grad : tensor<16x16xf32>
    %lr = dist.fill {value = 0.1 : f64} : tensor<1xf32>
    %u = dist.sgd %w, %g, %lr : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<1xf32>) -> tensor<16x16xf32>
    dist.store @w1 %u : tensor<16x16xf32>
    %z = dist.fill {value = 0.0 : f64} : tensor<16x16xf32>
    dist.store @w1_grad %z : tensor<16x16xf32>
    return
  }
}
