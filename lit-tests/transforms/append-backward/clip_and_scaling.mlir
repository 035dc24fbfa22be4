// RUN: raddle-opt %s --append-backward='optimizer=adamw clip=global-norm clip-limit=2.0 loss-scaling=dynamic loss-scale=8.0' | FileCheck %s
// RUN: raddle-opt %s --append-backward='optimizer=adamw clip=global-norm clip-stack' | FileCheck %s --check-prefix=STACK
// RUN: raddle-opt %s --append-backward='optimizer=sgd clip=norm clip-limit=3.0' | FileCheck %s --check-prefix=NORM
// RUN: raddle-opt %s --append-backward='optimizer=sgd clip=value clip-limit=3.0 loss-scaling=static' | FileCheck %s --check-prefix=VALUE

// One weight is cut by mp, so its norm and its overflows are those of all ranks; the bias is whole.

// CHECK: %[[SCALE:.*]] = dist.load @loss_scale {dist.role = "backward"}
// CHECK-NEXT: %[[SEED:.*]] = dist.reshape %[[SCALE]] {{.*}} -> tensor<f32>
// CHECK-NEXT: dist.reduce_mean_grad %{{.*}}, %[[SEED]]
// CHECK: %[[U1:.*]]:2 = dist.check_finite_and_unscale
// CHECK: %[[U2:.*]]:2 = dist.check_finite_and_unscale
// CHECK: %[[ANY:.*]] = dist.any_of %[[U1]]#1, %[[U2]]#1
// CHECK-NEXT: %[[NUMBER:.*]] = dist.cast %[[ANY]]
// CHECK-NEXT: %[[MAX:.*]] = dist.all_reduce max %[[NUMBER]] over ["mp"]
// CHECK-NEXT: %[[FOUND:.*]] = dist.cast %[[MAX]]
// CHECK-NEXT: %[[V1:.*]]:4 = dist.update_loss_scaling %[[U1]]#0, %[[FOUND]]
// CHECK-NEXT: %[[V2:.*]]:4 = dist.update_loss_scaling %[[U2]]#0, %[[FOUND]]
// CHECK-NEXT: dist.store @loss_scale %[[V1]]#1
// CHECK-NEXT: dist.store @good_steps %[[V1]]#2
// CHECK-NEXT: dist.store @bad_steps %[[V1]]#3
// CHECK-NEXT: %[[Q1:.*]] = dist.squared_l2_norm %[[V1]]#0
// CHECK-NEXT: %[[Q2:.*]] = dist.squared_l2_norm %[[V2]]#0
// CHECK-NEXT: %[[QM:.*]] = dist.all_reduce sum %[[Q1]] over ["mp"]
// CHECK-NEXT: %[[Q:.*]] = dist.sum %[[QM]], %[[Q2]]
// CHECK-NEXT: %[[ROOT:.*]] = dist.sqrt %[[Q]]
// CHECK-NEXT: %[[LIMIT:.*]] = dist.fill {dist.role = "optimizer", value = 2.000000e+00 : f64} : tensor<1xf32>
// CHECK-NEXT: %[[LARGER:.*]] = dist.maximum %[[LIMIT]], %[[ROOT]]
// CHECK-NEXT: %[[FACTOR:.*]] = dist.div %[[LIMIT]], %[[LARGER]]
// CHECK-NEXT: dist.mul %[[V1]]#0, %[[FACTOR]]
// CHECK-NEXT: dist.mul %[[V2]]#0, %[[FACTOR]]
// CHECK: dist.adamw {{.*}}, %[[FOUND]] {{.*}}operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>
// Vectors do not decay.
// CHECK: dist.adamw {{.*}}with_decay = false

// STACK: dist.squared_l2_norm
// STACK: dist.squared_l2_norm
// STACK: %[[QM:.*]] = dist.all_reduce sum %{{.*}} over ["mp"]
// STACK-NEXT: %[[S:.*]] = dist.stack %[[QM]], %{{.*}} {dim = 0 : i64
// STACK-NEXT: dist.reduce_sum %[[S]]

// NORM: %[[Q:.*]] = dist.squared_l2_norm
// NORM-NEXT: dist.all_reduce sum %[[Q]] over ["mp"]
// NORM: dist.clip_by_norm %{{.*}} {dist.role = "optimizer", max_norm = 3.000000e+00 : f64} : tensor<4xf32>

// VALUE: dist.update_loss_scaling {{.*}}stop_update = true
// VALUE-NOT: dist.store @loss_scale %{{.*}} {dist.role
// VALUE: dist.clip %{{.*}} {dist.role = "optimizer", max = 3.000000e+00 : f64, min = -3.000000e+00 : f64}
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x4xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    func.func @step(%x: tensor<2x8xf32> {dist.layout = #dist.layout<[[], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x4xf32>
      %0 = dist.matmul %x, %w : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
      %1 = dist.all_reduce sum %0 over ["mp"] : tensor<2x4xf32>
      %b = dist.load @b : tensor<4xf32>
      %2 = dist.add %1, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
      %3 = dist.reduce_mean %2 {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
      return %3 : tensor<f32>
    }
  }
}
