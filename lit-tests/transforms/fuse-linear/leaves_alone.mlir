// RUN: raddle-opt %s --fuse-linear --remarks --diagnostic-format=plain 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// CHECK-NOT: dist.fused_linear

// REMARK: leaves_alone.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: its product is read by other ops than one 'dist.{{.*}}'
func.func @product_read_twice(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = dist.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = dist.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %2 = dist.gelu %0 : tensor<8x32xf32>
  return %1, %2 : tensor<8x32xf32>, tensor<8x32xf32>
}

// REMARK: leaves_alone.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: what is added to its product does not have rank 1, so it is not a bias
func.func @residual(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %r: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = dist.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = dist.add %0, %r : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}

// REMARK: leaves_alone.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: its weight does not have rank 2
func.func @batched_weight(%x: tensor<2x8x16xf32>, %w: tensor<2x16x32xf32>, %b: tensor<32xf32>) -> tensor<2x8x32xf32> {
  %0 = dist.matmul %x, %w : (tensor<2x8x16xf32>, tensor<2x16x32xf32>) -> tensor<2x8x32xf32>
  %1 = dist.add %0, %b : (tensor<2x8x32xf32>, tensor<32xf32>) -> tensor<2x8x32xf32>
  return %1 : tensor<2x8x32xf32>
}

// A single element is added everywhere.
// REMARK: leaves_alone.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: the bias is not as long as the last dimension of the product
func.func @one_element(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<1xf32>) -> tensor<8x32xf32> {
  %0 = dist.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = dist.add %0, %b : (tensor<8x32xf32>, tensor<1xf32>) -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}

// REMARK: leaves_alone.mlir:[[#@LINE+2]]:{{.*}}: remark: not fused: its 'dist.add' lies in another block
func.func @another_block(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
  %0 = dist.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  cf.br ^next
^next:
  %1 = dist.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}
