// RUN: not raddle-opt %s --split-input-file --verify-spmd --diagnostic-format=plain 2>&1 | FileCheck %s

// A mask of its own on each rank, over activations that all ranks have alike.
// CHECK: error: 'dist.matmul' reads 'a', of which every rank along axis 'mp' has its own [E0342]
// CHECK: note: 'dist.dropout' makes it each rank's own along 'mp'
dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[], ["mp"]], []>} : tensor<4x3xf32>
  func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[[], []], []>}) -> tensor<2x3xf32> attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<4x3xf32>
    %h:2 = dist.dropout %x over ["mp"] {rate = 0.1 : f64, seed = 1 : i64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
    %y = dist.matmul %h#0, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    return %y : tensor<2x3xf32>
  }
}

// -----

// Logits of pieces of the vocabulary, taken for those of all of it.
// CHECK: error: 'dist.softmax_cross_entropy' needs all of 'logits', but axis 'mp' cuts its dimension 1 [E0340]
// CHECK: help: `over ["mp"]` computes the loss from pieces of the vocabulary
dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @head parameter {layout = #dist.layout<[[], ["mp"]], []>} : tensor<4x8xf32>
  func.func @step(%x: tensor<3x4xf32> {dist.layout = #dist.layout<[[], []], []>}, %labels: tensor<3xi64> {dist.layout = #dist.layout<[[]], []>}) -> tensor<3xf32> attributes {dist.kind = "step"} {
    %head = dist.load @head : tensor<4x8xf32>
    %logits = dist.matmul %x, %head : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
    %loss, %chances = dist.softmax_cross_entropy %logits, %labels : (tensor<3x8xf32>, tensor<3xi64>) -> (tensor<3xf32>, tensor<3x8xf32>)
    return %loss : tensor<3xf32>
  }
}

// -----

// Each rank looks up in its own rows; nobody adds the ranks' rows up.
// CHECK: error: 'dist.layer_norm' reads 'x', which is partial (sum) along axis 'mp', as if it were whole [E0341]
// CHECK: note: 'dist.embedding' makes it a part of a sum along 'mp'
dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @table parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x4xf32>
  func.func @step(%ids: tensor<3xi64> {dist.layout = #dist.layout<[[]], []>}) -> tensor<3x4xf32> attributes {dist.kind = "step"} {
    %table = dist.load @table : tensor<8x4xf32>
    %x = dist.embedding %ids, %table over ["mp"] : (tensor<3xi64>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %y, %mean, %variance = dist.layer_norm %x {begin_norm_axis = 1 : i64, epsilon = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>)
    return %y : tensor<3x4xf32>
  }
}
