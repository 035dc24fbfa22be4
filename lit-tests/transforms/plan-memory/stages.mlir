// RUN: raddle-opt %s --plan-memory | FileCheck %s
// RUN: raddle-opt %s --plan-memory --plan-memory | FileCheck %s
// RUN: raddle-opt %s --plan-memory --validate-each=3 2>&1 >/dev/null | FileCheck %s --check-prefix=VALID
// VALID: validated plan-memory: loss ×
// RUN: raddle-opt %s --memory-report -o %t 2>&1 | FileCheck %s --check-prefix=REPORT
// RUN: raddle-opt %s --schedule-pipeline=kind=zb-h1 --memory-report -o %t 2>&1 | FileCheck %s --check-prefix=ZB

// Two stages. x is read by W, the pre-activation by B: each is freed by its last reader. What is sent or left has no place in the arena.
// CHECK-LABEL: func.func @forward(%arg0
// CHECK-SAME:  dist.arena_bytes = 0
// CHECK:       %[[PRE:.*]] = dist.matmul {{.*}}dist.offset = array<i64: -1>
// CHECK:       %[[H:.*]] = dist.gelu {{.*}}dist.offset = array<i64: -1>
// CHECK-NOT:   dist.free
// CHECK:       dist.send %[[H]]
// CHECK-NEXT:  dist.free %[[H]]
// CHECK-NEXT:  return %[[PRE]]
// CHECK-LABEL: func.func @backward_b(%arg0
// CHECK:       %[[D:.*]] = dist.recv
// CHECK:       dist.gelu_grad
// CHECK-NEXT:  dist.free %arg0
// CHECK-NEXT:  dist.free %[[D]]
// CHECK-NEXT:  return
// CHECK-LABEL: func.func @backward_w(%arg0
// CHECK:       %[[DW:.*]] = dist.matmul {{.*}}dist.offset = array<i64: 0>
// CHECK-NEXT:  dist.free %arg0
// CHECK-NEXT:  dist.free %arg1
// CHECK-NEXT:  dist.accumulate @w0_grad %[[DW]]
// CHECK-NEXT:  dist.free %[[DW]]
// The update takes the room of what it no longer needs: four tensors of 512 bytes at once.
// CHECK-LABEL: func.func @optimizer
// CHECK-SAME:  dist.arena_bytes = 1792
// CHECK:       dist.scale {{.*}}dist.offset = array<i64: 0>
// CHECK:       dist.momentum {{.*}}dist.offset = array<i64: 768, 1280>
// CHECK:       dist.fill {dist.offset = array<i64: 0>, value = 0.000000e+00 : f64} : tensor<8x16xf32>

// All forwards run first. At the first B: x (128) and the pre-activation (256) of four micro-batches, the gradient that B leaves for W,
// and the one that it received.
// REPORT:      memory in bytes per rank
// REPORT-NEXT: class  stages  weights  gradients  optimizer  buffers  activations  W stash  workspace  update  peak  at
// REPORT-NEXT: first  0           512        512        512        0         1536      256        256    1540  3584  backward_b of micro-batch 0
// REPORT-NEXT: last   1          1024       1024          0        0         1536      512       1024    1028  5120  backward_w of micro-batch 0

// Two micro-batches at a time; then the update needs more for itself.
// ZB:          class  stages  weights  gradients  optimizer  buffers  activations  W stash  workspace  update  peak  at
// ZB-NEXT:     first  0           512        512        512        0          768      256        256    1540  3076  optimizer
// ZB-NEXT:     last   1          1024       1024          0        0            0     1024       1024    1028  4096  backward_w of micro-batch 0

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
