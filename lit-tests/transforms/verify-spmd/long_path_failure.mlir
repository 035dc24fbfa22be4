// RUN: not raddle-opt %s --verify-spmd --diagnostic-format=plain 2>&1 | FileCheck %s

// Of a long way the beginning and the end are shown.

// CHECK: error: 'dist.gelu' reads 'x', which is partial (sum) along axis 'mp', as if it were whole [E0341]
// CHECK-NEXT: note: 'dist.matmul' makes it a part of a sum along 'mp'
// CHECK-NEXT: note: 'dist.scale' leaves it a part of a sum along 'mp'
// CHECK-NEXT: note: 'dist.scale' leaves it a part of a sum along 'mp'
// CHECK-NEXT: note: … through 3 more ops …
// CHECK-NEXT: note: 'dist.scale' leaves it a part of a sum along 'mp'
// CHECK-NEXT: note: 'dist.scale' leaves it a part of a sum along 'mp'
// CHECK-NEXT: note: 'dist.reshape' leaves it a part of a sum along 'mp'
// CHECK-NEXT: help:
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[["dp"], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x16xf32>
      %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
      %s1 = dist.scale %p {scale = 2.0 : f64} : tensor<4x16xf32>
      %s2 = dist.scale %s1 {scale = 2.0 : f64} : tensor<4x16xf32>
      %s3 = dist.scale %s2 {scale = 2.0 : f64} : tensor<4x16xf32>
      %s4 = dist.scale %s3 {scale = 2.0 : f64} : tensor<4x16xf32>
      %s5 = dist.scale %s4 {scale = 2.0 : f64} : tensor<4x16xf32>
      %s6 = dist.scale %s5 {scale = 2.0 : f64} : tensor<4x16xf32>
      %s7 = dist.scale %s6 {scale = 2.0 : f64} : tensor<4x16xf32>
      %t = dist.reshape %s7 : (tensor<4x16xf32>) -> tensor<4x4x4xf32>
      %g = dist.gelu %t : tensor<4x4x4xf32>
      %loss = dist.reduce_mean %g {dims = array<i64: 0, 1, 2>} : (tensor<4x4x4xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
  }
}
