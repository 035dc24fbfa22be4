// RUN: not raddle-opt %s --split-input-file --verify-spmd --diagnostic-format=plain 2>&1 | FileCheck %s

// The sum runs over the data axis, the parts lie along the tensor axis.

// CHECK: error: 'dist.all_reduce' reduces unlike pieces of dimension 0 along axis 'dp' [E0344]
// CHECK-NEXT: note: an argument is cut along 'dp', in dimension 0
// CHECK-NEXT: note: 'dist.matmul' leaves it cut along 'dp', in dimension 0
// CHECK-NEXT: note: its operand is partial along axis 'mp', over which it is not reduced
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[["dp"], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x16xf32>
      %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
      %r = dist.all_reduce sum %p over ["dp"] : tensor<4x16xf32>
      %loss = dist.reduce_mean %r {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
  }
}

// -----

// Likewise, with a gradient that is whole along the tensor axis.

// CHECK: error: 'dist.all_reduce' sums over axis 'mp', along which its operand is whole, and not over 'dp', along which it is partial [E0412]
// CHECK: help: reduce over ["dp"]
// CHECK: error: 'dist.sgd' reads 'grad', which is partial (sum) along axis 'dp', as if it were whole [E0341]
// CHECK-NEXT: note: 'dist.reduce_sum' makes it a part of a sum along 'dp'
// CHECK-NEXT: note: 'dist.all_reduce' leaves it a part of a sum along 'dp'
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
      %db = dist.reduce_sum %ds {dims = array<i64: 0>} : (tensor<4x16xf32>) -> tensor<16xf32>
      %g = dist.all_reduce sum %db over ["mp"] : tensor<16xf32>
      %lr = dist.load @lr : tensor<1xf32>
      %b1 = dist.sgd %b, %g, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      dist.store @b %b1 : tensor<16xf32>
      return %loss : tensor<f32>
    }
  }
}

// -----

// Gathered along a dimension that another axis cuts, and a gather of equal copies.

// CHECK: error: 'dist.all_gather' joins dimension 0 over axis 'mp', which cuts dimension 1 [E0412]
// CHECK-NEXT: note: an argument is cut along 'mp', in dimension 1
// CHECK-NEXT: help: gather over ["dp"], which cuts dimension 0
// CHECK: error: 'dist.all_gather' joins equal copies: its operand is whole along axis 'mp' [E0412]
// CHECK-NEXT: note: 'dist.all_reduce' makes it whole along 'mp'
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[["dp"], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %all = dist.all_gather %x over ["mp"] {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
      %w = dist.load @w : tensor<8x16xf32>
      %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
      %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
      %twice = dist.all_gather %r over ["mp"] {dim = 0 : i64} : (tensor<4x16xf32>) -> tensor<8x16xf32>
      %loss = dist.reduce_mean %r {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
  }
}

// -----

// A parameter that the tensor axis cuts is set to the first rank's piece everywhere.

// CHECK: error: 'dist.broadcast' gives every rank the root's share of a value that is cut along 'mp', in dimension 0 [E0412]
// CHECK-NEXT: note: '@w' is cut along 'mp', in dimension 0, as its layout says
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @init() attributes {dist.kind = "init"} {
      %w = dist.load @w : tensor<8x16xf32>
      %all = dist.broadcast %w over ["dp", "mp"] : tensor<8x16xf32>
      dist.store @w %all : tensor<8x16xf32>
      return
    }
  }
}
