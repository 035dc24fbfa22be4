// RUN: raddle-opt %s --split-backward | FileCheck %s

dist.mesh @mesh ["mp" = 2]

module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @s parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @table parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<32x16xf32>
  dist.global @k parameter {layout = #dist.layout<[[], [], [], []], []>} : tensor<2x2x8x4xf32>
  dist.global @gs buffer {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @gt buffer {layout = #dist.layout<[["mp"], []], []>} : tensor<32x16xf32>
  dist.global @gk buffer {layout = #dist.layout<[[], [], [], []], []>} : tensor<2x2x8x4xf32>

  // CHECK-LABEL: func.func @rms_norm
  // CHECK: dist.rms_norm_grad {{.*}}dist.part = "b"{{.*}}resultSegmentSizes = array<i32: 1, 0>{{.*}} -> tensor<8x16xf32>
  // CHECK: dist.gelu_grad {{.*}}dist.part = "b"
  // CHECK: dist.rms_norm_grad {{.*}}dist.part = "w"{{.*}}resultSegmentSizes = array<i32: 0, 1>{{.*}} -> tensor<16xf32>
  // CHECK: dist.accumulate @gs {{.*}}dist.part = "w"
  func.func @rms_norm(%x: tensor<8x16xf32>, %r: tensor<8xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %s = dist.load @s : tensor<16xf32>
    %0:2 = dist.rms_norm_grad %x, %s, %r, %d {begin_norm_axis = 1 : i64, epsilon = 1.0e-5 : f64, dist.role = "backward"} : (tensor<8x16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
    dist.accumulate @gs %0#1 {dist.role = "backward"} : tensor<16xf32>
    %1 = dist.gelu_grad %x, %0#0 {dist.role = "backward"} : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }

  // Nothing but the table's gradient reads the sum, and that is W.
  // CHECK-LABEL: func.func @rows
  // CHECK: dist.gelu_grad {{.*}}dist.part = "b"
  // CHECK: dist.sum {{.*}}dist.part = "w"
  // CHECK: dist.embedding_grad {{.*}}dist.part = "w"
  // CHECK: dist.accumulate @gt {{.*}}dist.part = "w"
  func.func @rows(%ids: tensor<8xi64>, %x: tensor<8x16xf32>, %d: tensor<8x16xf32>) {
    %0 = dist.gelu_grad %x, %d {dist.role = "backward"} : tensor<8x16xf32>
    %1 = dist.sum %0, %d {dist.role = "backward"} : tensor<8x16xf32>
    %2 = dist.embedding_grad %ids, %1 over ["mp"] {dist.role = "backward"} : (tensor<8xi64>, tensor<8x16xf32>) -> tensor<32x16xf32>
    dist.accumulate @gt %2 {dist.role = "backward"} : tensor<32x16xf32>
    return
  }

  // All three gradients are activations'.
  // CHECK-LABEL: func.func @attention
  // CHECK: dist.attention_grad {{.*}}dist.part = "b"{{.*}} -> (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>)
  func.func @attention(%q: tensor<2x2x8x4xf32>, %k: tensor<2x2x8x4xf32>, %v: tensor<2x2x8x4xf32>, %o: tensor<2x2x8x4xf32>, %l: tensor<2x2x8xf32>, %d: tensor<2x2x8x4xf32>) -> (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>) {
    %0:3 = dist.attention_grad %q, %k, %v, %o, %l, %d {causal = true, scale = 0.5 : f64, dist.role = "backward"} : (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8xf32>, tensor<2x2x8x4xf32>) -> (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>)
    return %0#0, %0#1, %0#2 : tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>
  }

  // Keys that are learned: their gradient is taken apart from those of queries and values.
  // CHECK-LABEL: func.func @learned_keys
  // CHECK: dist.attention_grad {{.*}}dist.part = "b"{{.*}}resultSegmentSizes = array<i32: 1, 0, 1>
  // CHECK: dist.attention_grad {{.*}}dist.part = "w"{{.*}}resultSegmentSizes = array<i32: 0, 1, 0>
  // CHECK: dist.accumulate @gk {{.*}}dist.part = "w"
  func.func @learned_keys(%q: tensor<2x2x8x4xf32>, %v: tensor<2x2x8x4xf32>, %o: tensor<2x2x8x4xf32>, %l: tensor<2x2x8xf32>, %d: tensor<2x2x8x4xf32>) -> (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>) {
    %k = dist.load @k : tensor<2x2x8x4xf32>
    %0:3 = dist.attention_grad %q, %k, %v, %o, %l, %d {causal = true, scale = 0.5 : f64, dist.role = "backward"} : (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8xf32>, tensor<2x2x8x4xf32>) -> (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>)
    dist.accumulate @gk %0#1 {dist.role = "backward"} : tensor<2x2x8x4xf32>
    return %0#0, %0#2 : tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>
  }
}
