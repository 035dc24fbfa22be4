// RUN: raddle-opt %s --append-backward='optimizer=sgd lr=0.5' | FileCheck %s
// RUN: raddle-opt %s --append-backward='optimizer=sgd lr=0.5' | raddle-opt --validate-each=3 --canonicalize 2>&1 >/dev/null | FileCheck %s --check-prefix=RUNS
// RUN: raddle-opt %s --append-backward='optimizer=sgd mean=scaled' | FileCheck %s --check-prefix=SCALED

// SCALED: %[[SUM:.*]] = dist.all_reduce sum %{{.*}} over ["dp"] {dist.role = "backward"} : tensor<4x8xf32>
// SCALED-NEXT: %[[MEAN:.*]] = dist.scale %[[SUM]] {dist.role = "backward", scale = 5.000000e-01 : f64}
// SCALED: dist.sgd %{{.*}}, %[[MEAN]]

// A linear layer, then a pair of layers by columns and by rows with a residual connection around it.

// RUNS: validated canonicalize: loss ×12 within {{.*}}, gradient ×48 within

// What is new is initialised. Weights are drawn, biases start at 0, and copies are made the same.
// CHECK: dist.global @lr buffer {layout = #dist.layout<{{\[\[\]\]}}, []>} : tensor<1xf32>
// CHECK: func.func @init() attributes {dist.kind = "init"} {
// CHECK-NEXT: %[[G:.*]] = dist.gaussian {{.*}}std = 2.000000e-02 : f64} : tensor<4x8xf32>
// CHECK-NEXT: %[[GB:.*]] = dist.broadcast %[[G]] over ["dp"]
// CHECK-NEXT: dist.store @w1 %[[GB]]
// CHECK: %[[Z:.*]] = dist.fill {value = 0.000000e+00 : f64} : tensor<4xf32>
// CHECK-NEXT: %[[ZD:.*]] = dist.broadcast %[[Z]] over ["dp"]
// CHECK-NEXT: %[[ZM:.*]] = dist.broadcast %[[ZD]] over ["mp"]
// CHECK-NEXT: dist.store @b2 %[[ZM]]
// CHECK: dist.fill {value = 5.000000e-01 : f64} : tensor<1xf32>
// CHECK-NEXT: dist.store @lr

// CHECK: func.func @step(%[[X:.*]]: tensor<2x4xf32>
// CHECK: %[[W0:.*]] = dist.load @w0
// CHECK: %[[H:.*]] = dist.matmul %[[X]], %[[W0]] {dist.role = "forward"}
// CHECK: %[[W1:.*]] = dist.load @w1
// CHECK: %[[P:.*]] = dist.matmul %[[H]], %[[W1]]
// CHECK: %[[A:.*]] = dist.gelu %[[P]]
// CHECK: %[[W2:.*]] = dist.load @w2
// CHECK: %[[R:.*]] = dist.all_reduce sum
// CHECK: %[[B2:.*]] = dist.load @b2
// CHECK: %[[SUM:.*]] = dist.add %[[R]], %[[B2]]
// CHECK: %[[OUT:.*]] = dist.add %[[SUM]], %[[H]]
// CHECK: %[[LOSS:.*]] = dist.reduce_mean %[[OUT]]

// The loss is the mean over dp: each rank starts from its own.
// CHECK-NEXT: %[[SEED:.*]] = dist.fill {dist.role = "backward", value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT: %[[D:.*]] = dist.reduce_mean_grad %[[OUT]], %[[SEED]]
// An add without broadcast passes its gradient on; the bias needs an op.
// CHECK-NEXT: %[[DB:.*]]:2 = dist.add_grad %[[R]], %[[B2]], %[[D]]
// The gradient of the reduced product is that of each part of it.
// CHECK-NEXT: %[[DR:.*]]:2 = dist.matmul_grad %[[A]], %[[W2]], %[[DB]]#0
// CHECK-NEXT: %[[DA:.*]] = dist.gelu_grad %[[P]], %[[DR]]#0
// CHECK-NEXT: %[[DC:.*]]:2 = dist.matmul_grad %[[H]], %[[W1]], %[[DA]]
// The input of the layer by columns is the same on all ranks of mp, its gradient a part on each.
// CHECK-NEXT: %[[DH:.*]] = dist.all_reduce sum %[[DC]]#0 over ["mp"]
// CHECK-NEXT: %[[DHS:.*]] = dist.sum %[[D]], %[[DH]]
// x is data, so only the weight's gradient is computed.
// CHECK-NEXT: %[[DW0:.*]] = dist.matmul_grad %[[X]], %[[W0]], %[[DHS]] {dist.role = "backward", resultSegmentSizes = array<i32: 0, 1>}
// CHECK-NEXT: %[[G1:.*]] = dist.all_reduce avg %[[DC]]#1 over ["dp"]
// CHECK-NEXT: %[[G2:.*]] = dist.all_reduce avg %[[DR]]#1 over ["dp"]
// CHECK-NEXT: %[[G3:.*]] = dist.all_reduce avg %[[DB]]#1 over ["dp"]
// CHECK-NEXT: %[[G0:.*]] = dist.all_reduce avg %[[DW0]] over ["dp"]
// CHECK-NEXT: %[[LR:.*]] = dist.load @lr {dist.role = "optimizer"}
// CHECK-NEXT: %[[N1:.*]] = dist.sgd %[[W1]], %[[G1]], %[[LR]]
// CHECK-NEXT: dist.store @w1 %[[N1]]
// CHECK-NEXT: %[[N2:.*]] = dist.sgd %[[W2]], %[[G2]], %[[LR]]
// CHECK-NEXT: dist.store @w2 %[[N2]]
// CHECK-NEXT: %[[N3:.*]] = dist.sgd %[[B2]], %[[G3]], %[[LR]]
// CHECK-NEXT: dist.store @b2 %[[N3]]
// CHECK-NEXT: %[[N0:.*]] = dist.sgd %[[W0]], %[[G0]], %[[LR]]
// CHECK-NEXT: dist.store @w0 %[[N0]]
// CHECK-NEXT: return %[[LOSS]]
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w1 parameter {layout = #dist.layout<[[], ["mp"]], []>} : tensor<4x8xf32>
    dist.global @w2 parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x4xf32>
    dist.global @b2 parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    dist.global @w0 parameter {layout = #dist.layout<[[], []], []>} : tensor<4x4xf32>
    func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[["dp"], []], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w0 = dist.load @w0 : tensor<4x4xf32>
      %h = dist.matmul %x, %w0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %w1 = dist.load @w1 : tensor<4x8xf32>
      %0 = dist.matmul %h, %w1 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
      %1 = dist.gelu %0 : tensor<2x8xf32>
      %w2 = dist.load @w2 : tensor<8x4xf32>
      %2 = dist.matmul %1, %w2 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
      %3 = dist.all_reduce sum %2 over ["mp"] : tensor<2x4xf32>
      %b2 = dist.load @b2 : tensor<4xf32>
      %4 = dist.add %3, %b2 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
      %5 = dist.add %4, %h : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      %6 = dist.reduce_mean %5 {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
      return %6 : tensor<f32>
    }
  }
}
