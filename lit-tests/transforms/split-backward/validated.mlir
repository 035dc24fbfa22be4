// Runs the program on all ranks before and after.
// RUN: raddle-opt %s --split-backward --validate-each=7 2>&1 >/dev/null | FileCheck %s

// CHECK: validated split-backward: loss ×12 within {{.*}}, global ×12 within
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<4x6xf32>
    func.func @init() attributes {dist.kind = "init"} {
      %0 = dist.fill {value = 1.000000e+00 : f64} : tensor<4x6xf32>
      dist.store @w %0 : tensor<4x6xf32>
      return
    }
    func.func @step(%x: tensor<3x2x4xf32> {dist.layout = #dist.layout<[["dp"], [], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<4x6xf32>
      %0 = dist.matmul %x, %w : (tensor<3x2x4xf32>, tensor<4x6xf32>) -> tensor<3x2x6xf32>
      %1 = dist.all_reduce sum %0 over ["mp"] : tensor<3x2x6xf32>
      %l = dist.reduce_mean %1 {dims = array<i64: 0, 1, 2>} : (tensor<3x2x6xf32>) -> tensor<f32>
      %s = dist.fill {value = 1.0 : f64, dist.role = "backward"} : tensor<f32>
      %d = dist.reduce_mean_grad %1, %s {dims = array<i64: 0, 1, 2>, dist.role = "backward"} : (tensor<3x2x6xf32>, tensor<f32>) -> tensor<3x2x6xf32>
      %g = dist.matmul_grad %x, %w, %d {dist.role = "backward", resultSegmentSizes = array<i32: 0, 1>} : (tensor<3x2x4xf32>, tensor<4x6xf32>, tensor<3x2x6xf32>) -> tensor<4x6xf32>
      %a = dist.all_reduce avg %g over ["dp"] {dist.role = "backward"} : tensor<4x6xf32>
      %r = dist.fill {value = 0.1 : f64, dist.role = "optimizer"} : tensor<1xf32>
      %n = dist.sgd %w, %a, %r {dist.role = "optimizer"} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<1xf32>) -> tensor<4x6xf32>
      dist.store @w %n {dist.role = "optimizer"} : tensor<4x6xf32>
      return %l : tensor<f32>
    }
  }
}
