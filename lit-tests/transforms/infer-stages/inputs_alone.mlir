// What only prepares inputs moves to its reader, but not when it is all that its stage has: each of the four stages keeps an op.
// RUN: raddle-opt %s --append-backward --infer-stages=stages=4 --partition-stages=placement=v --validate-each=3 2>/dev/null | FileCheck %s
// CHECK-COUNT-4: dist.kind = "forward"

dist.mesh @mesh ["dp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 3 : i64, dist.ranks = [{}]} {
dist.global @w0 parameter {layout = #dist.layout<[[], []], []>} : tensor<4x4xf32>
func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[["dp"], []], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
%w0 = dist.load @w0 : tensor<4x4xf32>
%v0 = dist.matmul %x, %w0 {} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
%v1 = dist.matmul %v0, %w0 {} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
%v2 = dist.add %x, %x {} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
%v3 = dist.matmul %v2, %w0 {} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
%v4 = dist.matmul %v3, %w0 {} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
%v5 = dist.add %v2, %v2 {} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
%v6 = dist.gelu %v5 {} : tensor<2x4xf32>
%v7w = dist.mul %w0, %w0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
%v7 = dist.matmul %v6, %v7w {} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
%v8 = dist.matmul %v7, %w0 {} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
%v9 = dist.add %v5, %v7 {} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
%v10w = dist.mul %w0, %w0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
%v10 = dist.matmul %v7, %v10w {} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
%v11, %v11m = dist.dropout %v8 {rate = 0.25 : f64, seed = 9 : i64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
%v12, %v12m = dist.dropout %v10 {rate = 0.25 : f64, seed = 9 : i64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
%v13 = dist.matmul %v11, %w0 {} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
%s = dist.add %v13, %v12 {} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
%loss = dist.reduce_mean %s {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
return %loss : tensor<f32>
}
}
