// RUN: raddle-opt %s --append-backward='optimizer=momentum clip=global-norm accumulate=f32' | FileCheck %s

// With several micro-batches a step gathers gradients, and a function of its own scales, reduces and uses them.

// CHECK: dist.global @w_grad buffer {layout = #dist.layout<{{\[\[\]}}, {{\[\]\]}}, ["dp"]>} : tensor<4x4xf32>
// CHECK: func.func @init()
// CHECK: dist.store @w_grad
// CHECK: func.func @step
// CHECK: %[[G:.*]] = dist.matmul_grad
// CHECK-NEXT: dist.accumulate @w_grad %[[G]] {dist.role = "backward"} : tensor<4x4xbf16>
// CHECK-NEXT: return
// CHECK: func.func @optimizer() attributes {dist.kind = "optimizer"} {
// CHECK-NEXT: %[[A:.*]] = dist.load @w_grad {dist.role = "backward"} : tensor<4x4xf32>
// CHECK-NEXT: %[[Z:.*]] = dist.fill {dist.role = "backward", value = 0.000000e+00 : f64} : tensor<4x4xf32>
// CHECK-NEXT: dist.store @w_grad %[[Z]]
// CHECK-NEXT: %[[S:.*]] = dist.scale %[[A]] {dist.role = "backward", scale = 2.500000e-01 : f64}
// CHECK-NEXT: %[[R:.*]] = dist.all_reduce avg %[[S]] over ["dp"]
// CHECK-NEXT: %[[Q:.*]] = dist.squared_l2_norm %[[R]]
// CHECK: dist.momentum
// CHECK: return
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 4 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<4x4xbf16>
    func.func @step(%x: tensor<2x4xbf16> {dist.layout = #dist.layout<[["dp"], []], []>}) -> tensor<bf16> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<4x4xbf16>
      %0 = dist.matmul %x, %w : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
      %1 = dist.reduce_mean %0 {dims = array<i64: 0, 1>} : (tensor<2x4xbf16>) -> tensor<bf16>
      return %1 : tensor<bf16>
    }
  }
}
