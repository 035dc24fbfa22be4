// Every reason for which a part of a layer's gradients is left out.
// RUN: raddle-opt %s --fuse-linear --remarks --diagnostic-format=plain 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

dist.mesh @mesh ["x" = 1]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 4 : i64, dist.ranks = [{}]} {
  dist.global @sum buffer {layout = #dist.layout<[[], []], []>} : tensor<16x32xf32>
  dist.global @sums buffer {layout = #dist.layout<[[], [], []], []>} : tensor<2x16x32xf32>

  // CHECK-LABEL: func.func @batched_weight
  // CHECK-NEXT: dist.matmul_grad
  // REMARK: declines_backward.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: the weight does not have rank 2
  func.func @batched_weight(%x: tensor<2x8x16xf32>, %w: tensor<2x16x32xf32>, %d: tensor<2x8x32xf32>) {
    %0 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<2x8x16xf32>, tensor<2x16x32xf32>, tensor<2x8x32xf32>) -> tensor<2x16x32xf32>
    dist.accumulate @sums %0 : tensor<2x16x32xf32>
    return
  }

  // CHECK-LABEL: func.func @bias_gradient_read_too_soon
  // CHECK-NEXT: dist.add_grad
  // CHECK: dist.matmul_grad
  // REMARK: declines_backward.mlir:[[#@LINE+5]]:{{.*}}: remark: not fused: the bias gradient is read before the operands of the matmul_grad are computed
  func.func @bias_gradient_read_too_soon(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>, %d: tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<32xf32>) {
    %0:2 = dist.add_grad %d, %b, %d : (tensor<8x32xf32>, tensor<32xf32>, tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<32xf32>)
    %1 = dist.scale %0#1 {scale = 2.0 : f64} : tensor<32xf32>
    %2 = dist.gelu %x : tensor<8x16xf32>
    %3:2 = dist.matmul_grad %2, %w, %0#0 : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>)
    return %3#0, %1 : tensor<8x16xf32>, tensor<32xf32>
  }

  // The rest of the layer is fused.
  // CHECK-LABEL: func.func @dx_read_twice
  // CHECK: dist.fused_linear_grad none
  // CHECK: dist.relu_grad
  // REMARK: declines_backward.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: dX is read by other ops than one 'dist.relu_grad'
  func.func @dx_read_twice(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>, %pre: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    %0:2 = dist.matmul_grad %x, %w, %d : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>)
    %1 = dist.relu_grad %pre, %0#0 : tensor<8x16xf32>
    dist.accumulate @sum %0#1 : tensor<16x32xf32>
    return %0#0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
  }

  // CHECK-LABEL: func.func @pre_activation_late
  // CHECK-NEXT: dist.matmul_grad
  // REMARK: declines_backward.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: what the 'dist.gelu_grad' of dX reads besides is computed only after dX
  func.func @pre_activation_late(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>, %y: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0:2 = dist.matmul_grad %x, %w, %d : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>)
    %1 = dist.scale %y {scale = 2.0 : f64} : tensor<8x16xf32>
    %2 = dist.gelu_grad %1, %0#0 : tensor<8x16xf32>
    return %2 : tensor<8x16xf32>
  }

  // CHECK-LABEL: func.func @activation_elsewhere
  // CHECK-NEXT: dist.matmul_grad
  // REMARK: declines_backward.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: the 'dist.relu_grad' of dX lies in another block
  func.func @activation_elsewhere(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>, %y: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0:2 = dist.matmul_grad %x, %w, %d : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>)
    cf.br ^next
  ^next:
    %1 = dist.relu_grad %y, %0#0 : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }

  // CHECK-LABEL: func.func @dw_read_twice
  // CHECK-NEXT: dist.matmul_grad
  // CHECK-NEXT: dist.accumulate
  // REMARK: declines_backward.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: dW is read by other ops than its accumulation
  func.func @dw_read_twice(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>) -> tensor<16x32xf32> {
    %0 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    dist.accumulate @sum %0 : tensor<16x32xf32>
    return %0 : tensor<16x32xf32>
  }

  // CHECK-LABEL: func.func @rounded_first
  // CHECK-NEXT: dist.matmul_grad
  // CHECK-NEXT: dist.cast
  // CHECK-NEXT: dist.accumulate
  // REMARK: declines_backward.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: dW is rounded to another type than the sum's before it is added
  func.func @rounded_first(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>) {
    %0 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    %1 = dist.cast %0 : (tensor<16x32xf32>) -> tensor<16x32xbf16>
    dist.accumulate @sum %1 : tensor<16x32xbf16>
    return
  }

  // CHECK-LABEL: func.func @added_elsewhere
  // CHECK-NEXT: dist.matmul_grad
  // REMARK: declines_backward.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: dW is accumulated in another block
  func.func @added_elsewhere(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>) {
    %0 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    cf.br ^next
  ^next:
    dist.accumulate @sum %0 : tensor<16x32xf32>
    return
  }

  // CHECK-LABEL: func.func @sum_read_in_between
  // CHECK-NEXT: dist.matmul_grad
  // CHECK-NEXT: dist.load @sum
  // CHECK-NEXT: dist.accumulate @sum
  // REMARK: declines_backward.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: the sum that dW is added to may be read or written in between
  func.func @sum_read_in_between(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>) -> tensor<16x32xf32> {
    %0 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    %1 = dist.load @sum : tensor<16x32xf32>
    dist.accumulate @sum %0 : tensor<16x32xf32>
    return %1 : tensor<16x32xf32>
  }

  // The store is not of zeros, so the sum is read.
  // CHECK-LABEL: func.func @not_zero
  // CHECK: dist.store @sum
  // CHECK: dist.load @sum
  // CHECK: dist.fused_linear_grad
  func.func @not_zero(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>) {
    %0 = dist.fill {value = 1.0 : f64} : tensor<16x32xf32>
    dist.store @sum %0 : tensor<16x32xf32>
    %1 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    dist.accumulate @sum %1 : tensor<16x32xf32>
    return
  }
}
