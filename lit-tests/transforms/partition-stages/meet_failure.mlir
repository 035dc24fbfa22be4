// Labels that put a collective of both classes on different stages would make their ranks wait for each other.
// RUN: not raddle-opt %s --partition-stages -o %t.out 2>&1 | FileCheck %s
// RUN: not ls %t.out

// CHECK: error: {{.*}}[E040{{[12]}}]
// CHECK: found in the program as it is after 'partition-stages'
dist.mesh @mesh ["mp" = 2]
module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "forward", dist.stage = 0 : i64} : tensor<2xf32>
    %1 = dist.all_reduce sum %0 over ["mp"] {dist.role = "forward", dist.stage = 0 : i64} : tensor<2xf32>
    %2 = dist.relu %1 {dist.role = "forward", dist.stage = 1 : i64} : tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}
module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "forward", dist.stage = 0 : i64} : tensor<2xf32>
    %1 = dist.all_reduce sum %0 over ["mp"] {dist.role = "forward", dist.stage = 1 : i64} : tensor<2xf32>
    %2 = dist.relu %1 {dist.role = "forward", dist.stage = 1 : i64} : tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}
