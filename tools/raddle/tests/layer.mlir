// One linear layer on one rank.
dist.mesh @mesh ["x" = 1]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<f32> attributes {dist.kind = "step"} {
    %out = "dist.fused_linear"(%x, %w) {activation = "none", transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %loss = dist.reduce_mean %out {dims = array<i64: 0, 1>} : (tensor<8x16xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
