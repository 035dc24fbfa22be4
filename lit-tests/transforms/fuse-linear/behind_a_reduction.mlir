// RUN: raddle-opt %s --fuse-linear --remarks --diagnostic-format=plain 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// CHECK-NOT: dist.fused_linear
dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  // REMARK: behind_a_reduction.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: its product goes through 'dist.all_reduce'; a bias can be fused once promote-linear has moved it before that
  func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
    %0 = dist.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %1 = dist.all_reduce sum %0 over ["mp"] : tensor<8x32xf32>
    %2 = dist.add %1, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
    return %2 : tensor<8x32xf32>
  }

  // The other ranks of a promoted layer have no bias, so there is nothing to say.
  // REMARK-NOT: not fused
  func.func @rest(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %r: tensor<8x32xf32>) -> tensor<8x32xf32> {
    %0 = dist.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %1 = dist.all_reduce sum %0 over ["mp"] : tensor<8x32xf32>
    %2 = dist.add %1, %r : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    return %2 : tensor<8x32xf32>
  }
}
