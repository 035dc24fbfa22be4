// RUN: raddle-opt %s --split-backward | FileCheck %s

dist.mesh @mesh ["dp" = 2, "mp" = 2]

module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @v parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @s parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @gw buffer {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @gb buffer {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @gs buffer {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @flat buffer {layout = #dist.layout<[[]], []>} : tensor<512xf32>

  // What comes in passes on; only the bias's gradient is computed, in W. The forward product is not read any more.
  // CHECK-LABEL: func.func @bias
  // CHECK-NEXT: dist.load @b
  // CHECK-NEXT: %[[DX:.*]] = dist.gelu_grad %arg0, %arg1 {dist.part = "b"
  // CHECK-NEXT: %[[DB:.*]] = dist.reduce_sum %arg1 {dims = array<i64: 0>, dist.part = "w", dist.role = "backward"} : (tensor<8x16xf32>) -> tensor<16xf32>
  // CHECK-NEXT: dist.accumulate @gb %[[DB]] {dist.part = "w"
  // CHECK-NEXT: return %[[DX]]
  func.func @bias(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %b = dist.load @b : tensor<16xf32>
    %0:2 = dist.add_grad %x, %b, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
    dist.accumulate @gb %0#1 {dist.role = "backward"} : tensor<16xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }

  // CHECK-LABEL: func.func @normalisation
  // CHECK: dist.layer_norm_grad {{.*}}dist.part = "b"{{.*}}resultSegmentSizes = array<i32: 1, 0, 0>{{.*}} -> tensor<8x16xf32>
  // CHECK: dist.layer_norm_grad {{.*}}dist.part = "w"{{.*}}resultSegmentSizes = array<i32: 0, 1, 1>{{.*}} -> (tensor<16xf32>, tensor<16xf32>)
  // CHECK: dist.accumulate @gs {{.*}}dist.part = "w"
  // CHECK: dist.accumulate @gb {{.*}}dist.part = "w"
  func.func @normalisation(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %s = dist.load @s : tensor<16xf32>
    %b = dist.load @b : tensor<16xf32>
    %0:3 = dist.layer_norm_grad %x, %s, %b, %m, %m, %d {begin_norm_axis = 1 : i64, epsilon = 1.0e-5 : f64, dist.role = "backward"} : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
    dist.accumulate @gs %0#1 {dist.role = "backward"} : tensor<16xf32>
    dist.accumulate @gb %0#2 {dist.role = "backward"} : tensor<16xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }

  // dX keeps the derivative of the activation before; dW keeps what it is added to; the bias's gradient is an epilogue of dW.
  // CHECK-LABEL: func.func @fused
  // CHECK: dist.fused_linear_grad gelu %arg0, %{{.*}}, %arg1, %arg2 {{.*}}dist.part = "b"{{.*}}operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>{{.*}}resultSegmentSizes = array<i32: 1, 0, 0>
  // CHECK: dist.fused_linear_grad none %arg0, %{{.*}}, %arg1, %arg3 {{.*}}dist.part = "w"{{.*}}operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>{{.*}}resultSegmentSizes = array<i32: 0, 1, 1>
  func.func @fused(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>, %aux: tensor<8x16xf32>, %acc: tensor<16x16xf32>) -> tensor<8x16xf32> {
    %w = dist.load @w : tensor<16x16xf32>
    %0:3 = dist.fused_linear_grad gelu %x, %w, %d, %aux, %acc {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<16x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>, tensor<16xf32>)
    dist.store @gw %0#1 {dist.role = "backward"} : tensor<16x16xf32>
    dist.accumulate @gb %0#2 {dist.role = "backward"} : tensor<16xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }

  // A scale that every token shares is a weight; so is what mixes only weights.
  // CHECK-LABEL: func.func @products_of_weights
  // CHECK: dist.mul_grad %arg0, %{{.*}}, %arg1 {dist.part = "b"{{.*}}resultSegmentSizes = array<i32: 1, 0>
  // CHECK: dist.gelu_grad {{.*}}dist.part = "b"
  // CHECK: %[[DS:.*]] = dist.mul_grad %arg0, %{{.*}}, %arg1 {dist.part = "w"{{.*}}resultSegmentSizes = array<i32: 0, 1>
  // CHECK: dist.mul_grad %{{.*}}, %{{.*}}, %[[DS]] {dist.part = "w"
  func.func @products_of_weights(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %s = dist.load @s : tensor<16xf32>
    %b = dist.load @b : tensor<16xf32>
    %sb = dist.mul %s, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %0:2 = dist.mul_grad %x, %sb, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
    %1:2 = dist.mul_grad %s, %b, %0#1 {dist.role = "backward"} : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
    dist.accumulate @gs %1#0 {dist.role = "backward"} : tensor<16xf32>
    dist.accumulate @gb %1#1 {dist.role = "backward"} : tensor<16xf32>
    %2 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<8x16xf32>
    return %2 : tensor<8x16xf32>
  }

  // amp o1: the cast of a parameter is still a weight, and the cast of its gradient goes where the gradient goes.
  // CHECK-LABEL: func.func @cast_weight
  // CHECK: dist.matmul %arg1, %{{.*}} {dist.part = "b"{{.*}}bf16
  // CHECK: dist.gelu_grad
  // CHECK: %[[DW:.*]] = dist.matmul %arg0, %arg1 {dist.part = "w"
  // CHECK: %[[C:.*]] = dist.cast %[[DW]] {dist.part = "w"
  // CHECK: dist.accumulate @gw %[[C]] {dist.part = "w"
  func.func @cast_weight(%x: tensor<8x16xbf16>, %d: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
    %w = dist.load @w : tensor<16x16xf32>
    %h = dist.cast %w {dist.role = "forward"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
    %0:2 = dist.matmul_grad %x, %h, %d {dist.role = "backward"} : (tensor<8x16xbf16>, tensor<16x16xbf16>, tensor<8x16xbf16>) -> (tensor<8x16xbf16>, tensor<16x16xbf16>)
    %1 = dist.cast %0#1 {dist.role = "backward"} : (tensor<16x16xbf16>) -> tensor<16x16xf32>
    dist.accumulate @gw %1 {dist.role = "backward"} : tensor<16x16xf32>
    %2 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<8x16xbf16>
    return %2 : tensor<8x16xbf16>
  }

  // A weight used twice: two products, one sum, one accumulation.
  // CHECK-LABEL: func.func @used_twice
  // CHECK-COUNT-2: dist.matmul {{.*}}dist.part = "b"
  // CHECK: %[[A:.*]] = dist.matmul {{.*}}dist.part = "w"
  // CHECK: %[[B:.*]] = dist.matmul {{.*}}dist.part = "w"
  // CHECK: %[[S:.*]] = dist.add %[[A]], %[[B]] {dist.part = "w"
  // CHECK-NEXT: dist.accumulate @gw %[[S]]
  // CHECK-NOT: dist.accumulate
  // CHECK: return
  func.func @used_twice(%x: tensor<8x16xf32>, %h: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %w = dist.load @w : tensor<16x16xf32>
    %0:2 = dist.matmul_grad %h, %w, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    %1:2 = dist.matmul_grad %x, %w, %0#0 {transpose_b = true, dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    %2 = dist.add %0#1, %1#1 {dist.role = "backward"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    dist.accumulate @gw %2 {dist.role = "backward"} : tensor<16x16xf32>
    return %1#0 : tensor<8x16xf32>
  }

  // All gradients in one buffer: it reads what W computes, so it is W.
  // CHECK-LABEL: func.func @fused_buffer
  // CHECK: dist.gelu_grad {{.*}}dist.part = "b"
  // CHECK-NOT: dist.part = "b"
  // CHECK: dist.concat {{.*}}dist.part = "w"
  // CHECK: dist.accumulate @flat {{.*}}dist.part = "w"
  func.func @fused_buffer(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %w = dist.load @w : tensor<16x16xf32>
    %v = dist.load @v : tensor<16x16xf32>
    %0:2 = dist.matmul_grad %x, %v, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    %1:2 = dist.matmul_grad %x, %w, %0#0 {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    %2 = dist.reshape %0#1 {dist.role = "backward"} : (tensor<16x16xf32>) -> tensor<256xf32>
    %3 = dist.reshape %1#1 {dist.role = "backward"} : (tensor<16x16xf32>) -> tensor<256xf32>
    %4 = dist.concat %2, %3 {dim = 0 : i64, dist.role = "backward"} : (tensor<256xf32>, tensor<256xf32>) -> tensor<512xf32>
    dist.accumulate @flat %4 {dist.role = "backward"} : tensor<512xf32>
    %5 = dist.gelu_grad %x, %1#0 {dist.role = "backward"} : tensor<8x16xf32>
    return %5 : tensor<8x16xf32>
  }

  // A reduction of an activation's gradient holds up the other ranks: B. One of a parameter's gradient comes last in W.
  // CHECK-LABEL: func.func @collectives
  // CHECK: dist.all_reduce sum %{{.*}} over ["mp"] {dist.part = "b"
  // CHECK: dist.gelu_grad {{.*}}dist.part = "b"
  // CHECK: dist.matmul {{.*}}dist.part = "w"
  // CHECK: dist.matmul {{.*}}dist.part = "w"
  // CHECK: dist.accumulate @gw {{.*}}dist.part = "w"
  // CHECK-NEXT: %[[R:.*]] = dist.all_reduce sum %{{.*}} over ["dp"] {dist.part = "w"
  // CHECK-NEXT: %[[S:.*]] = dist.scale %[[R]] {dist.part = "w"
  // CHECK-NEXT: dist.store @gw2 %[[S]] {dist.part = "w"
  dist.global @gw2 buffer {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  func.func @collectives(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %w = dist.load @w : tensor<16x16xf32>
    %v = dist.load @v : tensor<16x16xf32>
    %0:2 = dist.matmul_grad %x, %v, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    %1 = dist.all_reduce sum %0#1 over ["dp"] {dist.role = "backward"} : tensor<16x16xf32>
    %2 = dist.scale %1 {scale = 0.5 : f64, dist.role = "backward"} : tensor<16x16xf32>
    dist.store @gw2 %2 {dist.role = "backward"} : tensor<16x16xf32>
    %3 = dist.all_reduce sum %0#0 over ["mp"] {dist.role = "backward"} : tensor<8x16xf32>
    %4:2 = dist.matmul_grad %x, %w, %3 {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    dist.accumulate @gw %4#1 {dist.role = "backward"} : tensor<16x16xf32>
    %5 = dist.gelu_grad %x, %4#0 {dist.role = "backward"} : tensor<8x16xf32>
    return %5 : tensor<8x16xf32>
  }

  // Copies that only W reads go to W: here the recomputed input of the layer.
  // CHECK-LABEL: func.func @recomputed
  // CHECK: dist.load
  // CHECK-NEXT: dist.matmul %arg1, %{{.*}} {dist.part = "b"
  // CHECK-NEXT: dist.gelu_grad {{.*}}dist.part = "b"
  // CHECK-NEXT: %[[X:.*]] = dist.gelu %arg0 {dist.part = "w"
  // CHECK-NEXT: dist.matmul %[[X]], %arg1 {dist.part = "w"
  func.func @recomputed(%pre: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %w = dist.load @w : tensor<16x16xf32>
    %x = dist.gelu %pre {dist.role = "backward"} : tensor<8x16xf32>
    %0:2 = dist.matmul_grad %x, %w, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    dist.accumulate @gw %0#1 {dist.role = "backward"} : tensor<16x16xf32>
    %1 = dist.gelu_grad %pre, %0#0 {dist.role = "backward"} : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}
