// RUN: raddle-opt %s --verify-spmd --remarks -o %t 2>&1 | count 0

// Data and tensor parallel, with the mean over the data axis and a bias after the sum.
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[["dp"], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x16xf32>
      %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
      %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
      %b = dist.load @b : tensor<16xf32>
      %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
      %loss = dist.reduce_mean %s {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
      %one = dist.fill {value = 1.0 : f64} : tensor<f32>
      %ds = dist.reduce_mean_grad %s, %one {dims = array<i64: 0, 1>} : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
      %dr, %db = dist.add_grad %r, %b, %ds : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
      %dx, %dw = dist.matmul_grad %x, %w, %dr : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>) -> (tensor<4x8xf32>, tensor<8x16xf32>)
      %gb = dist.all_reduce avg %db over ["dp"] : tensor<16xf32>
      %sw = dist.all_reduce sum %dw over ["dp"] : tensor<8x16xf32>
      %gw = dist.scale %sw {scale = 0.5 : f64} : tensor<8x16xf32>
      %lr = dist.load @lr : tensor<1xf32>
      %b1 = dist.sgd %b, %gb, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      dist.store @b %b1 : tensor<16xf32>
      %w1 = dist.sgd %w, %gw, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
      dist.store @w %w1 : tensor<8x16xf32>
      return %loss : tensor<f32>
    }
  }
}
