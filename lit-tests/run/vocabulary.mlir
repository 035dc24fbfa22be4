// Inputs that count through a vocabulary reach all of it and nothing beyond: a change of what only the last rows do is seen, and a table
// of two rows is read without error.
// RUN: raddle compare %s %s --seed 3 | FileCheck %s --check-prefix=SAME
//
// Ids beyond the first rank's piece become its last.
// RUN: sed -e 's|%e = dist.embedding %ids,|%low = dist.clip %ids {max = 7.0 : f64, min = 0.0 : f64} : tensor<6xi64>  %e = dist.embedding %low,|' %s > %t.low.mlir
// RUN: not raddle compare %s %t.low.mlir 2>&1 | FileCheck %s --check-prefix=LOW
//
// Labels likewise, in the loss alone.
// RUN: sed -e 's|%loss, %chances = dist.softmax_cross_entropy %logits, %labels|%low = dist.clip %labels {max = 7.0 : f64, min = 0.0 : f64} : tensor<6xi64>  %loss, %chances = dist.softmax_cross_entropy %logits, %low|' %s > %t.labels.mlir
// RUN: not raddle compare %s %t.labels.mlir 2>&1 | FileCheck %s --check-prefix=LOW
//
// Both ways of having the vocabulary give the same loss.
// RUN: sed -e 's|%loss, %chances = .*|%all = dist.all_gather %logits over ["mp"] {dim = 1 : i64} : (tensor<6x8xf32>) -> tensor<6x16xf32>  %loss, %chances = dist.softmax_cross_entropy %all, %labels : (tensor<6x16xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6x16xf32>)|' %s > %t.gathered.mlir
// RUN: raddle compare %s %t.gathered.mlir | FileCheck %s --check-prefix=GATHERED

// SAME: loss{{ +}}6{{ +}}0.00e0{{ +}}0.00e0
// LOW: error: loss '0 of micro-batch 0' on rank 0 in step 0 differs by
// GATHERED: loss{{ +}}6{{ +}}{{0.00e0|[0-9.]+e-1[0-9]}}{{ }}

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @words parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x4xf32>
  dist.global @kinds parameter {layout = #dist.layout<[[], []], []>} : tensor<2x4xf32>
  func.func @step(%ids: tensor<6xi64> {dist.layout = #dist.layout<[[]], []>}, %kind: tensor<6xi64> {dist.layout = #dist.layout<[[]], []>}, %labels: tensor<6xi64> {dist.layout = #dist.layout<[[]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
    %words = dist.load @words : tensor<8x4xf32>
    %kinds = dist.load @kinds : tensor<2x4xf32>
    %e = dist.embedding %ids, %words over ["mp"] : (tensor<6xi64>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %x = dist.all_reduce sum %e over ["mp"] : tensor<6x4xf32>
    %k = dist.embedding %kind, %kinds : (tensor<6xi64>, tensor<2x4xf32>) -> tensor<6x4xf32>
    %h = dist.add %x, %k : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
    %logits = dist.matmul %h, %words {transpose_b = true} : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
    %loss, %chances = dist.softmax_cross_entropy %logits, %labels over ["mp"] : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6x8xf32>)
    %mean = dist.reduce_mean %loss {dims = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
    return %mean : tensor<f32>
  }
}
