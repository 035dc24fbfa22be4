// RUN: not raddle-opt %s --verify-collectives --diagnostic-format=plain 2>&1 | FileCheck %s

// CHECK: error: '@b' takes 4 micro-batches in a step, '@a' 2 [E0405]
// CHECK-NEXT: note: '@a' is defined here
// CHECK-NEXT: help: give all classes of a mesh the same 'dist.microbatches'
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 4 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      return
    }
  }
}
