// RUN: raddle-opt %s --split-backward | FileCheck %s

dist.mesh @mesh ["dp" = 1]

module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<16x32xf32>
  dist.global @wt parameter {layout = #dist.layout<[[], []], []>} : tensor<32x16xf32>
  dist.global @wb parameter {layout = #dist.layout<[[], [], [], []], []>} : tensor<4x1x16x32xf32>
  dist.global @left parameter {layout = #dist.layout<[[], []], []>} : tensor<8x16xf32>
  dist.global @g buffer {layout = #dist.layout<[[], []], []>} : tensor<16x32xf32>
  dist.global @gt buffer {layout = #dist.layout<[[], []], []>} : tensor<32x16xf32>
  dist.global @gb buffer {layout = #dist.layout<[[], [], [], []], []>} : tensor<4x1x16x32xf32>
  dist.global @gl buffer {layout = #dist.layout<[[], []], []>} : tensor<8x16xf32>

  // The gradient of x first, then that of w: one product over all tokens, whose copies only W needs.
  // CHECK-LABEL: func.func @plain
  // CHECK-NEXT: %[[W:.*]] = dist.load @w
  // CHECK-NEXT: %[[DX:.*]] = dist.matmul %arg1, %[[W]] {dist.part = "b", dist.role = "backward", transpose_b = true} : (tensor<2x8x32xf32>, tensor<16x32xf32>) -> tensor<2x8x16xf32>
  // CHECK-NEXT: dist.gelu_grad %arg0, %[[DX]] {dist.part = "b"
  // CHECK-NEXT: %[[X:.*]] = dist.reshape %arg0 {dist.part = "w", dist.role = "backward"} : (tensor<2x8x16xf32>) -> tensor<16x16xf32>
  // CHECK-NEXT: %[[D:.*]] = dist.reshape %arg1 {dist.part = "w", dist.role = "backward"} : (tensor<2x8x32xf32>) -> tensor<16x32xf32>
  // CHECK-NEXT: %[[DW:.*]] = dist.matmul %[[X]], %[[D]] {dist.part = "w", dist.role = "backward", transpose_a = true} : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  // CHECK-NEXT: dist.accumulate @g %[[DW]] {dist.part = "w"
  func.func @plain(%x: tensor<2x8x16xf32>, %d: tensor<2x8x32xf32>) -> tensor<2x8x16xf32> {
    %w = dist.load @w : tensor<16x32xf32>
    %0:2 = dist.matmul_grad %x, %w, %d {dist.role = "backward"} : (tensor<2x8x16xf32>, tensor<16x32xf32>, tensor<2x8x32xf32>) -> (tensor<2x8x16xf32>, tensor<16x32xf32>)
    dist.accumulate @g %0#1 {dist.role = "backward"} : tensor<16x32xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<2x8x16xf32>
    return %1 : tensor<2x8x16xf32>
  }

  // A tied embedding: the weight is given transposed.
  // CHECK-LABEL: func.func @transpose_b
  // CHECK: dist.matmul %arg1, %{{.*}} {dist.part = "b", dist.role = "backward"} : (tensor<2x8x32xf32>, tensor<32x16xf32>) -> tensor<2x8x16xf32>
  // CHECK: %[[D:.*]] = dist.reshape %arg1
  // CHECK: %[[X:.*]] = dist.reshape %arg0
  // CHECK: dist.matmul %[[D]], %[[X]] {dist.part = "w", dist.role = "backward", transpose_a = true} : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  func.func @transpose_b(%x: tensor<2x8x16xf32>, %d: tensor<2x8x32xf32>) -> tensor<2x8x16xf32> {
    %w = dist.load @wt : tensor<32x16xf32>
    %0:2 = dist.matmul_grad %x, %w, %d {transpose_b = true, dist.role = "backward"} : (tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<2x8x32xf32>) -> (tensor<2x8x16xf32>, tensor<32x16xf32>)
    dist.accumulate @gt %0#1 {dist.role = "backward"} : tensor<32x16xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<2x8x16xf32>
    return %1 : tensor<2x8x16xf32>
  }

  // x is given transposed, so its copy is turned round before the dimensions are joined.
  // CHECK-LABEL: func.func @transpose_a
  // CHECK: dist.matmul %{{.*}}, %arg1 {dist.part = "b", dist.role = "backward", transpose_b = true} : (tensor<16x32xf32>, tensor<2x8x32xf32>) -> tensor<2x16x8xf32>
  // CHECK: %[[T:.*]] = dist.transpose %arg0 {dist.part = "w", dist.role = "backward", perm = array<i64: 0, 2, 1>} : (tensor<2x16x8xf32>) -> tensor<2x8x16xf32>
  // CHECK: %[[X:.*]] = dist.reshape %[[T]] {dist.part = "w"
  // CHECK: dist.matmul %[[X]], %{{.*}} {dist.part = "w", dist.role = "backward", transpose_a = true} : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  func.func @transpose_a(%x: tensor<2x16x8xf32>, %d: tensor<2x8x32xf32>) -> tensor<2x16x8xf32> {
    %w = dist.load @w : tensor<16x32xf32>
    %0:2 = dist.matmul_grad %x, %w, %d {transpose_a = true, dist.role = "backward"} : (tensor<2x16x8xf32>, tensor<16x32xf32>, tensor<2x8x32xf32>) -> (tensor<2x16x8xf32>, tensor<16x32xf32>)
    dist.accumulate @g %0#1 {dist.role = "backward"} : tensor<16x32xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<2x16x8xf32>
    return %1 : tensor<2x16x8xf32>
  }

  // CHECK-LABEL: func.func @transpose_both
  // CHECK: dist.matmul %{{.*}}, %arg1 {dist.part = "b", dist.role = "backward", transpose_a = true, transpose_b = true} : (tensor<32x16xf32>, tensor<8x32xf32>) -> tensor<16x8xf32>
  // CHECK: dist.matmul %arg1, %arg0 {dist.part = "w", dist.role = "backward", transpose_a = true, transpose_b = true} : (tensor<8x32xf32>, tensor<16x8xf32>) -> tensor<32x16xf32>
  func.func @transpose_both(%x: tensor<16x8xf32>, %d: tensor<8x32xf32>) -> tensor<16x8xf32> {
    %w = dist.load @wt : tensor<32x16xf32>
    %0:2 = dist.matmul_grad %x, %w, %d {transpose_a = true, transpose_b = true, dist.role = "backward"} : (tensor<16x8xf32>, tensor<32x16xf32>, tensor<8x32xf32>) -> (tensor<16x8xf32>, tensor<32x16xf32>)
    dist.accumulate @gt %0#1 {dist.role = "backward"} : tensor<32x16xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }

  // Attention's products have no weight: both gradients are activations', and the op stays as it is.
  // CHECK-LABEL: func.func @batched
  // CHECK: dist.matmul_grad %arg0, %arg1, %arg2 {dist.part = "b"
  func.func @batched(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x16x8xf32>, %d: tensor<2x4x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) {
    %0:2 = dist.matmul_grad %q, %k, %d {dist.role = "backward"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>, tensor<2x4x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>)
    return %0#0, %0#1 : tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>
  }

  // A weight with batch dimensions of its own (experts): those stay, the others are joined with the rows.
  // CHECK-LABEL: func.func @broadcast_batch
  // CHECK: dist.matmul %arg1, %{{.*}} {dist.part = "b", dist.role = "backward", transpose_b = true} : (tensor<4x3x8x32xf32>, tensor<4x1x16x32xf32>) -> tensor<4x3x8x16xf32>
  // CHECK: %[[X:.*]] = dist.reshape %arg0 {{.*}} -> tensor<4x24x16xf32>
  // CHECK: %[[D:.*]] = dist.reshape %arg1 {{.*}} -> tensor<4x24x32xf32>
  // CHECK: %[[DW:.*]] = dist.matmul %[[X]], %[[D]] {dist.part = "w", dist.role = "backward", transpose_a = true} : (tensor<4x24x16xf32>, tensor<4x24x32xf32>) -> tensor<4x16x32xf32>
  // CHECK: dist.reshape %[[DW]] {dist.part = "w", dist.role = "backward"} : (tensor<4x16x32xf32>) -> tensor<4x1x16x32xf32>
  func.func @broadcast_batch(%x: tensor<4x3x8x16xf32>, %d: tensor<4x3x8x32xf32>) -> tensor<4x3x8x16xf32> {
    %w = dist.load @wb : tensor<4x1x16x32xf32>
    %0:2 = dist.matmul_grad %x, %w, %d {dist.role = "backward"} : (tensor<4x3x8x16xf32>, tensor<4x1x16x32xf32>, tensor<4x3x8x32xf32>) -> (tensor<4x3x8x16xf32>, tensor<4x1x16x32xf32>)
    dist.accumulate @gb %0#1 {dist.role = "backward"} : tensor<4x1x16x32xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<4x3x8x16xf32>
    return %1 : tensor<4x3x8x16xf32>
  }

  // The weight on the left, of rank 2, times a batch of matrices: columns are joined with the batch.
  // CHECK-LABEL: func.func @weight_on_the_left
  // CHECK: dist.matmul %{{.*}}, %arg1 {dist.part = "b", dist.role = "backward", transpose_a = true} : (tensor<8x16xf32>, tensor<2x3x8x32xf32>) -> tensor<2x3x16x32xf32>
  // CHECK-DAG: %[[D:.*]] = dist.transpose %arg1 {dist.part = "w", dist.role = "backward", perm = array<i64: 0, 1, 3, 2>}
  // CHECK-DAG: %[[X:.*]] = dist.transpose %arg0 {dist.part = "w", dist.role = "backward", perm = array<i64: 0, 1, 3, 2>}
  // CHECK-DAG: %[[DF:.*]] = dist.reshape %[[D]] {{.*}} -> tensor<192x8xf32>
  // CHECK-DAG: %[[XF:.*]] = dist.reshape %[[X]] {{.*}} -> tensor<192x16xf32>
  // CHECK: dist.matmul %[[DF]], %[[XF]] {dist.part = "w", dist.role = "backward", transpose_a = true} : (tensor<192x8xf32>, tensor<192x16xf32>) -> tensor<8x16xf32>
  func.func @weight_on_the_left(%x: tensor<2x3x16x32xf32>, %d: tensor<2x3x8x32xf32>) -> tensor<2x3x16x32xf32> {
    %w = dist.load @left : tensor<8x16xf32>
    %0:2 = dist.matmul_grad %w, %x, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<2x3x16x32xf32>, tensor<2x3x8x32xf32>) -> (tensor<8x16xf32>, tensor<2x3x16x32xf32>)
    dist.accumulate @gl %0#0 {dist.role = "backward"} : tensor<8x16xf32>
    %1 = dist.gelu_grad %x, %0#1 {dist.role = "backward"} : tensor<2x3x16x32xf32>
    return %1 : tensor<2x3x16x32xf32>
  }

  // Nothing asks for the gradient of x: all of it is W, and still one product.
  // CHECK-LABEL: func.func @x_without_gradient
  // CHECK-NOT: dist.part = "b"
  // CHECK: dist.matmul %{{.*}}, %{{.*}} {dist.part = "w", dist.role = "backward", transpose_a = true} : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  // CHECK-NOT: dist.part = "b"
  // CHECK: return
  func.func @x_without_gradient(%x: tensor<2x8x16xf32>, %d: tensor<2x8x32xf32>) {
    %w = dist.load @w : tensor<16x32xf32>
    %0 = dist.matmul_grad %x, %w, %d {dist.role = "backward", resultSegmentSizes = array<i32: 0, 1>} : (tensor<2x8x16xf32>, tensor<16x32xf32>, tensor<2x8x32xf32>) -> tensor<16x32xf32>
    dist.accumulate @g %0 {dist.role = "backward"} : tensor<16x32xf32>
    return
  }
}
