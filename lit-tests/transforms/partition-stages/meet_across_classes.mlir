// The first rank broadcasts what it has on the last stage; the other one broadcasts zeros, which it could on any stage. Both read the
// result on the first stage, where @w is. The collective is on the last stage in both classes, and its result is sent to the first.
// RUN: raddle-opt %s --partition-stages --verify-collectives | FileCheck %s

// CHECK-LABEL: module @first_pp0
// CHECK: func.func @optimizer
// CHECK-NOT: dist.broadcast
// CHECK: %[[T:.*]] = dist.recv {{.*}}dist.role = "optimizer"{{.*}}peer = {pp = 1 : i64}
// CHECK: dist.store @w %[[T]]

// CHECK-LABEL: module @first_pp1
// CHECK: %[[T:.*]] = dist.broadcast %{{.*}} over ["mp"]
// CHECK: dist.send %[[T]] {{.*}}peer = {pp = 0 : i64}

// CHECK-LABEL: module @rest_pp0
// CHECK: func.func @optimizer
// CHECK-NOT: dist.broadcast
// CHECK: %[[T:.*]] = dist.recv {{.*}}dist.role = "optimizer"{{.*}}peer = {pp = 1 : i64}
// CHECK: dist.store @w %[[T]]

// CHECK-LABEL: module @rest_pp1
// CHECK: %[[Z:.*]] = dist.fill {{.*}}value = 0.000000e+00
// CHECK: %[[T:.*]] = dist.broadcast %[[Z]] over ["mp"]
// CHECK: dist.send %[[T]] {{.*}}peer = {pp = 0 : i64}

dist.mesh @mesh ["mp" = 2]
module @first attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
  dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @v parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  func.func @step(%x: tensor<2x16xf32>) attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<16x16xf32>
    %v = dist.load @v : tensor<16x16xf32>
    %0 = dist.matmul %x, %w {dist.role = "forward", dist.stage = 0 : i64} : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
    %1 = dist.matmul %0, %v {dist.role = "forward", dist.stage = 1 : i64} : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
    %n = dist.gelu %v {dist.role = "optimizer"} : tensor<16x16xf32>
    %t = dist.broadcast %n over ["mp"] {dist.role = "optimizer"} : tensor<16x16xf32>
    dist.store @w %t {dist.role = "optimizer"} : tensor<16x16xf32>
    return
  }
}
module @rest attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
  dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @v parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  func.func @step(%x: tensor<2x16xf32>) attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<16x16xf32>
    %v = dist.load @v : tensor<16x16xf32>
    %0 = dist.matmul %x, %w {dist.role = "forward", dist.stage = 0 : i64} : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
    %1 = dist.matmul %0, %v {dist.role = "forward", dist.stage = 1 : i64} : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
    %n = dist.fill {dist.role = "optimizer", value = 0.0 : f64} : tensor<16x16xf32>
    %t = dist.broadcast %n over ["mp"] {dist.role = "optimizer"} : tensor<16x16xf32>
    dist.store @w %t {dist.role = "optimizer"} : tensor<16x16xf32>
    return
  }
}
