// RUN: raddle-opt %s --verify-spmd --diagnostic-format=plain -o %t 2>&1 | FileCheck %s

// Each rank sees infinities in its own piece of the gradient only, and would skip the update alone. The flag is one fault, whoever reads it.

// CHECK: warning: 'dist.update_loss_scaling' goes by a flag that each rank has for itself: it reads 'found_inf', which is partial (any) along axis 'mp', as if it were whole [W0724]
// CHECK: note: 'dist.check_finite_and_unscale' makes it partial (any) along 'mp'
// CHECK: help: combine the flags over the axis first, so that all ranks skip the same updates
// CHECK-NOT: {{(error|warning)}}:
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @scale buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step(%dw: tensor<8x16xf32> {dist.layout = #dist.layout<[["mp"], []], []>}, %db: tensor<16xf32> {dist.layout = #dist.layout<[[]], []>}) -> tensor<16xf32> attributes {dist.kind = "step"} {
      %s = dist.load @scale : tensor<1xf32>
      %zero = dist.fill {value = 0.0 : f64} : tensor<1xi32>
      %gw, %fw = dist.check_finite_and_unscale %dw, %s {group = 0 : i64} : (tensor<8x16xf32>, tensor<1xf32>) -> (tensor<8x16xf32>, tensor<1xi1>)
      %gb, %fb = dist.check_finite_and_unscale %db, %s {group = 0 : i64} : (tensor<16xf32>, tensor<1xf32>) -> (tensor<16xf32>, tensor<1xi1>)
      %f = dist.any_of %fw, %fb : tensor<1xi1>
      %uw, %s1, %good1, %bad1 = dist.update_loss_scaling %gw, %f, %s, %zero, %zero {group = 0 : i64, incr_every_n_steps = 1000 : i64, decr_every_n_nan_or_inf = 2 : i64, incr_ratio = 2.0 : f64, decr_ratio = 0.5 : f64, stop_update = false} : (tensor<8x16xf32>, tensor<1xi1>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>) -> (tensor<8x16xf32>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>)
      %ub, %s2, %good2, %bad2 = dist.update_loss_scaling %gb, %f, %s, %zero, %zero {group = 0 : i64, incr_every_n_steps = 1000 : i64, decr_every_n_nan_or_inf = 2 : i64, incr_ratio = 2.0 : f64, decr_ratio = 0.5 : f64, stop_update = false} : (tensor<16xf32>, tensor<1xi1>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>) -> (tensor<16xf32>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>)
      return %ub : tensor<16xf32>
    }
  }
}
