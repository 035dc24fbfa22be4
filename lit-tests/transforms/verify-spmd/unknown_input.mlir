// RUN: raddle-opt %s --verify-spmd --remarks --diagnostic-format=plain -o %t 2>&1 | FileCheck %s
// RUN: raddle-opt %s --verify-spmd -o %t 2>&1 | count 0

// Of an input without a layout nothing is known, so nothing is said of what follows.

// CHECK: [[#@LINE+7]]:5: remark: argument #0 has no 'dist.layout', so what is computed from it is not checked [R0722]
// CHECK-NEXT: help: say how the input is spread
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    func.func @step(%x: tensor<4x8xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x16xf32>
      %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
      return %p : tensor<4x16xf32>
    }
  }
}
