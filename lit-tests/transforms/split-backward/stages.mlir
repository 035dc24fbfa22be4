// RUN: raddle-opt %s --split-backward | FileCheck %s --check-prefixes=CHECK,ANY
// RUN: raddle-opt %s --split-backward=upstream=sent | FileCheck %s --check-prefixes=CHECK,SENT

dist.mesh @mesh ["pp" = 2]

module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w0 parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @w1 parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @g0 buffer {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @g1 buffer {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>

  // Stage 0 sends nothing upstream. By default it still tells gradients of activations from those of weights, so that B frees what
  // it can; with upstream=sent the whole chain is W.
  // CHECK-LABEL: func.func @stages
  // CHECK: dist.matmul {{.*}}dist.part = "b", dist.role = "backward", dist.stage = 1
  // ANY: dist.gelu_grad {{.*}}dist.part = "b", dist.role = "backward", dist.stage = 0
  // ANY-NOT: dist.part = "b"
  // CHECK: dist.accumulate @g1 {{.*}}dist.part = "w"
  // SENT: dist.gelu_grad {{.*}}dist.part = "w", dist.role = "backward", dist.stage = 0
  // CHECK: dist.accumulate @g0 {{.*}}dist.part = "w"
  func.func @stages(%x: tensor<8x16xf32>, %pre: tensor<8x16xf32>, %h: tensor<8x16xf32>, %d: tensor<8x16xf32>) {
    %w1 = dist.load @w1 : tensor<16x16xf32>
    %w0 = dist.load @w0 : tensor<16x16xf32>
    %0:2 = dist.matmul_grad %h, %w1, %d {dist.role = "backward", dist.stage = 1 : i64} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    dist.accumulate @g1 %0#1 {dist.role = "backward", dist.stage = 1 : i64} : tensor<16x16xf32>
    %1 = dist.gelu_grad %pre, %0#0 {dist.role = "backward", dist.stage = 0 : i64} : tensor<8x16xf32>
    %2 = dist.matmul_grad %x, %w0, %1 {dist.role = "backward", dist.stage = 0 : i64, resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    dist.accumulate @g0 %2 {dist.role = "backward", dist.stage = 0 : i64} : tensor<16x16xf32>
    return
  }

  // Sends and receives are B, and the send goes out before any W.
  // CHECK-LABEL: func.func @sends
  // CHECK: %[[D:.*]] = dist.recv {dist.part = "b"
  // CHECK: %[[DX:.*]] = dist.matmul %[[D]], %{{.*}} {dist.part = "b"
  // CHECK: dist.send %[[DX]] {dist.part = "b"
  // CHECK: dist.matmul {{.*}}dist.part = "w"
  // CHECK: dist.accumulate @g0 {{.*}}dist.part = "w"
  func.func @sends(%x: tensor<8x16xf32>) {
    %w0 = dist.load @w0 : tensor<16x16xf32>
    %d = dist.recv {peer = {pp = 1 : i64}, tag = 1 : i64, dist.role = "backward"} : tensor<8x16xf32>
    %0:2 = dist.matmul_grad %x, %w0, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    dist.accumulate @g0 %0#1 {dist.role = "backward"} : tensor<16x16xf32>
    dist.send %0#0 {peer = {pp = 0 : i64}, tag = 2 : i64, dist.role = "backward"} : tensor<8x16xf32>
    return
  }
}
