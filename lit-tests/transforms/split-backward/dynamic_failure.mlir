// RUN: not raddle-opt %s --split-backward 2>&1 >/dev/null | FileCheck %s
// RUN: not raddle-opt %s --split-backward -o %t.out 2>/dev/null
// RUN: not ls %t.out

dist.mesh @mesh ["dp" = 1]

module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @g buffer {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  func.func @dynamic(%x: tensor<?x8x16xf32>, %d: tensor<?x8x16xf32>) -> tensor<?x8x16xf32> {
    %w = dist.load @w : tensor<16x16xf32>
    // CHECK: error: the gradient of this weight sums over a dimension of unknown extent, so it cannot be one product [E0631]
    // CHECK: dynamic_failure.mlir:[[#@LINE+2]]:
    // CHECK: help: split-backward flattens batch and sequence: give the data inputs static shapes
    %0:2 = dist.matmul_grad %x, %w, %d {dist.role = "backward"} : (tensor<?x8x16xf32>, tensor<16x16xf32>, tensor<?x8x16xf32>) -> (tensor<?x8x16xf32>, tensor<16x16xf32>)
    dist.accumulate @g %0#1 {dist.role = "backward"} : tensor<16x16xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<?x8x16xf32>
    return %1 : tensor<?x8x16xf32>
  }
}
