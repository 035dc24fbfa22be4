// RUN: raddle-opt %s --split-backward --remarks --diagnostic-format=plain 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

dist.mesh @mesh ["dp" = 2, "cp" = 2]

module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @g buffer {layout = #dist.layout<[[], []], ["dp", "cp"]>} : tensor<16x16xf32>

  // The batch is cut over one axis and the sequence over another, so that neither can be outermost in one long dimension.
  // CHECK-LABEL: func.func @cut_twice
  // CHECK: dist.matmul {{.*}}dist.part = "b"
  // CHECK: dist.matmul_grad {{.*}}dist.part = "w"{{.*}}resultSegmentSizes = array<i32: 0, 1>
  // REMARK: leaves_alone.mlir:[[#@LINE+3]]:{{.*}}: remark: the gradient of a weight stays a 'dist.matmul_grad': several of the dimensions to be flattened are cut
  func.func @cut_twice(%x: tensor<2x8x16xf32> {dist.layout = #dist.layout<[["dp"], ["cp"], []], []>}, %d: tensor<2x8x16xf32> {dist.layout = #dist.layout<[["dp"], ["cp"], []], []>}) -> tensor<2x8x16xf32> {
    %w = dist.load @w : tensor<16x16xf32>
    %0:2 = dist.matmul_grad %x, %w, %d {dist.role = "backward"} : (tensor<2x8x16xf32>, tensor<16x16xf32>, tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<16x16xf32>)
    dist.accumulate @g %0#1 {dist.role = "backward"} : tensor<16x16xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<2x8x16xf32>
    return %1 : tensor<2x8x16xf32>
  }

  // Results that an op cannot leave out.
  // CHECK-LABEL: func.func @whole
  // CHECK: dist.split {{.*}}dist.part = "b"
  // REMARK: leaves_alone.mlir:[[#@LINE+4]]:{{.*}}: remark: 'dist.split' stays whole, in B: it computes what W needs along with what B needs
  func.func @whole(%both: tensor<8x32xf32>, %x: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %w = dist.load @w : tensor<16x16xf32>
    // Recomputed: one half for each gradient.
    %h:2 = dist.split %both {dim = 1 : i64, dist.role = "backward"} : (tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
    %0:2 = dist.matmul_grad %h#0, %w, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    dist.accumulate @g %0#1 {dist.role = "backward"} : tensor<16x16xf32>
    %1 = dist.gelu_grad %h#1, %0#0 {dist.role = "backward"} : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }

  // B reads what would have been overwritten before, so nothing moves.
  // CHECK-LABEL: func.func @overwritten
  // CHECK-NOT: dist.part
  // CHECK: return
  // REMARK: leaves_alone.mlir:[[#@LINE+4]]:{{.*}}: remark: not split: 'dist.store' of @w would move behind a later access to that global which belongs to B
  func.func @overwritten(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %w = dist.load @w : tensor<16x16xf32>
    %0:2 = dist.matmul_grad %x, %w, %d {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    dist.store @w %0#1 {dist.role = "optimizer"} : tensor<16x16xf32>
    %w1 = dist.load @w {dist.role = "backward"} : tensor<16x16xf32>
    %1 = dist.matmul %0#0, %w1 {dist.role = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %2 = dist.gelu_grad %x, %1 {dist.role = "backward"} : tensor<8x16xf32>
    return %2 : tensor<8x16xf32>
  }

  // CHECK-LABEL: func.func @forward_only
  // CHECK-NOT: dist.part
  func.func @forward_only(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = dist.gelu %x {dist.role = "forward"} : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
