// RUN: not raddle-opt %s --verify-spmd --diagnostic-format=plain 2>&1 | FileCheck %s
// RUN: sed "s/epsilon = 0.0/local_norms = true, epsilon = 0.0/" %s | raddle-opt --verify-spmd -o %t.mlir

// Each rank would take the norm of its piece of the weight, and with it a step of its own length, unless that is asked for.

// CHECK: error: 'dist.lars_momentum' takes the norm of 'param', of which each rank holds a piece (dimension 0 is cut along axis 'mp') [E0340]
// CHECK: help: gather the parameter first, or take the norm of each piece with `local_norms = true`
dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
  dist.global @v state {layout = #dist.layout<[["mp"], []], []>, of = @w} : tensor<8x16xf32>
  dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
  func.func @step(%d: tensor<8x16xf32> {dist.layout = #dist.layout<[["mp"], []], []>}) attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<8x16xf32>
    %v = dist.load @v : tensor<8x16xf32>
    %lr = dist.load @lr : tensor<1xf32>
    %0:2 = dist.lars_momentum %w, %d, %v, %lr {group = 0 : i64, mu = 0.9 : f64, lars_coeff = 0.001 : f64, lars_weight_decay = 0.1 : f64, epsilon = 0.0 : f64} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
    dist.store @w %0#0 : tensor<8x16xf32>
    dist.store @v %0#1 : tensor<8x16xf32>
    return
  }
}
