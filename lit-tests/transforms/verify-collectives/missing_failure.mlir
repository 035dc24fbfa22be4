// RUN: not raddle-opt %s --split-input-file --verify-collectives --diagnostic-format=plain 2>&1 | FileCheck %s

// A collective that only some ranks of a group come to, in one function of several.

// CHECK: error: '@b' makes no call that joins this one [E0402]
// CHECK-NEXT: note: in the 'init' functions
// CHECK-NEXT: note: @a, call 2 over ["mp"]: dist.broadcast over ["mp"] {root = 0 : i64} : tensor<4xf32>
// CHECK-NEXT: note: @b, after its last of 1 calls
// CHECK-NEXT: help: a collective that some ranks of a group leave out hangs the others
// CHECK-NOT: error
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
    func.func @init() attributes {dist.kind = "init"} {
      %f = dist.fill {value = 0.0 : f64} : tensor<4xf32>
      %0 = dist.broadcast %f over ["mp"] : tensor<4xf32>
      %1 = dist.broadcast %0 over ["mp"] : tensor<4xf32>
      return
    }
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
    func.func @init() attributes {dist.kind = "init"} {
      %f = dist.fill {value = 0.0 : f64} : tensor<4xf32>
      %0 = dist.broadcast %f over ["mp"] : tensor<4xf32>
      return
    }
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      return
    }
  }
}

// -----

// CHECK: error: '@b' has no 'optimizer' that joins this call [E0402]
// CHECK-NEXT: note: in the 'optimizer' functions
// CHECK-NEXT: note: @a, call 1 over ["mp"]: dist.barrier over ["mp"]
// CHECK-NEXT: note: @b, which has no such function
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
    func.func @optimizer() attributes {dist.kind = "optimizer"} {
      dist.barrier over ["mp"]
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      return
    }
  }
}
