// A rank sends to another before all four come to a collective: nobody waits, and nothing is said.
// RUN: raddle-opt %s --verify-collectives --diagnostic-format=plain -o %t 2>&1 | FileCheck %s --allow-empty

// CHECK-NOT: error
// CHECK-NOT: warning
module {
  dist.mesh @mesh ["pp" = 4]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.recv {peer = {pp = 1 : i64}, tag = 0 : i64} : tensor<4x8xf32>
      %1 = dist.all_reduce sum %x over ["pp"] : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      dist.send %x {peer = {pp = 0 : i64}, tag = 0 : i64} : tensor<4x8xf32>
      %1 = dist.all_reduce sum %x over ["pp"] : tensor<4x8xf32>
      return
    }
  }
  module @c attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 2>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %1 = dist.all_reduce sum %x over ["pp"] : tensor<4x8xf32>
      return
    }
  }
  module @d attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 3>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %1 = dist.all_reduce sum %x over ["pp"] : tensor<4x8xf32>
      return
    }
  }
}
