// RUN: raddle-opt %s --verify-collectives --diagnostic-format=plain -o %t 2>&1 | FileCheck %s

// CHECK: warning: branches of '@step' decide which calls are made, so their order is not checked [W0721]
// CHECK-NEXT: help: have collectives, sends and receives in the only block of the function
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @step(%c: i1, %x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      cf.cond_br %c, ^a, ^b
    ^a:
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      cf.br ^b
    ^b:
      return
    }
  }
}
