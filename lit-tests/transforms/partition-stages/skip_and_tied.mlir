// The first stage's output is read by the last one too: the stage between hands it on, up as it came and its gradient down. One weight is
// read by the first and the last stage: each keeps a copy and adds up its own gradients; the first one sums them and sends the sum back.
// RUN: raddle-opt %s --append-backward='optimizer=sgd clip=global-norm' --partition-stages | FileCheck %s
// RUN: raddle-opt %s --append-backward='optimizer=sgd clip=global-norm' --split-backward --partition-stages --validate-each=3 2>&1 >/dev/null | FileCheck %s --check-prefix=SAME
//
// SAME: validated partition-stages: loss ×6 within {{.*}}, gradient ×6 within {{.*}}, global ×15 within

// CHECK-LABEL: module @all_pp0
// CHECK: dist.global @w parameter
// CHECK: func.func @init()
// CHECK: %[[W:.*]] = dist.gaussian
// CHECK: dist.send %[[W]] {peer = {pp = 2 : i64}, tag = [[INIT:[0-9]+]] : i64}
// CHECK: func.func @optimizer()
// CHECK: %[[OWN:.*]] = dist.load @w_grad
// CHECK: %[[MINE:.*]] = dist.scale %[[OWN]]
// CHECK: %[[OTHER:.*]] = dist.recv {{.*}}peer = {pp = 2 : i64}, tag = [[TAG:[0-9]+]] : i64
// CHECK: %[[SUM:.*]] = dist.sum %[[MINE]], %[[OTHER]]
// CHECK: dist.send %[[SUM]] {{.*}}peer = {pp = 2 : i64}
// CHECK: %[[SQUARE:.*]] = dist.squared_l2_norm %[[SUM]]
// CHECK: dist.all_reduce sum %[[SQUARE]] over ["pp"]

// CHECK-LABEL: module @all_pp1
// CHECK-NOT: dist.global @w parameter
// CHECK: func.func @forward
// CHECK: %[[SKIP:.*]] = dist.recv {{.*}}peer = {pp = 0 : i64}
// CHECK-NEXT: dist.send %[[SKIP]] {{.*}}peer = {pp = 2 : i64}
// CHECK: func.func @backward
// CHECK: dist.recv {{.*}}peer = {pp = 2 : i64}
// CHECK: dist.send {{.*}}peer = {pp = 0 : i64}
// CHECK: func.func @optimizer()

// CHECK-LABEL: module @all_pp2
// CHECK: dist.global @w parameter
// CHECK: func.func @init()
// CHECK: %[[W:.*]] = dist.recv {{.*}}peer = {pp = 0 : i64}, tag = [[INIT]] : i64}
// CHECK: dist.store @w %[[W]]
// CHECK: func.func @backward
// CHECK: dist.accumulate @w_grad
// CHECK: func.func @optimizer()
// CHECK: dist.send {{.*}}peer = {pp = 0 : i64}, tag = [[TAG]] : i64
// CHECK: dist.recv {{.*}}peer = {pp = 0 : i64}
// The copy does not count again.
// CHECK-NOT: dist.squared_l2_norm
// CHECK: %[[ZERO:.*]] = dist.fill {dist.role = "optimizer", value = 0.000000e+00 : f64} : tensor<1xf32>
// CHECK: dist.all_reduce sum %[[ZERO]] over ["pp"]

dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @v parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  func.func @step(%x: tensor<2x16xf32> {dist.layout = #dist.layout<[[], []], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<16x16xf32>
    %v = dist.load @v : tensor<16x16xf32>
    %0 = dist.matmul %x, %w {dist.stage = 0 : i64} : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
    %1 = dist.matmul %0, %v {dist.stage = 1 : i64} : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
    %2 = dist.matmul %1, %w {dist.stage = 2 : i64} : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
    %3 = dist.add %2, %0 : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
    %4 = dist.reduce_mean %3 {dims = array<i64: 0, 1>} : (tensor<2x16xf32>) -> tensor<f32>
    return %4 : tensor<f32>
  }
}
