// RUN: not raddle-opt %s --split-input-file --verify-collectives --diagnostic-format=plain 2>&1 | FileCheck %s

// Over each axis the calls agree; in which order the axes come, they do not.

// CHECK: error: ranks wait for each other: each has yet to come to the other's call [E0403]
// CHECK-NEXT: note: in the 'step' functions
// CHECK-NEXT: note: @{{.*}}, call 1 over ["{{.*}}"]: dist.all_reduce sum over
// CHECK-NEXT: note: @{{.*}}, call 1 over ["{{.*}}"]: dist.all_reduce sum over
// CHECK-NEXT: help: make calls over different axes in the same order on all ranks
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{dp = array<i64: 0>, mp = array<i64: 0>}, {dp = array<i64: 1>, mp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      %1 = dist.all_reduce sum %0 over ["dp"] : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{dp = array<i64: 0>, mp = array<i64: 1>}, {dp = array<i64: 1>, mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["dp"] : tensor<4x8xf32>
      %1 = dist.all_reduce sum %0 over ["mp"] : tensor<4x8xf32>
      return
    }
  }
}
