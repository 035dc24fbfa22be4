// RUN: raddle-opt %s --split-input-file --verify-diagnostics

// Globals, and the loads and stores that name them.

dist.mesh @mesh ["dp" = 2, "mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  // expected-note @+1 {{declared here}}
  dist.global @w parameter {layout = #dist.layout<[["dp"], ["mp"]], []>} : tensor<4x4xf32>
  dist.global @m state {layout = #dist.layout<[["dp"], ["mp"]], []>, of = @w} : tensor<4x4xf32>
  // expected-error @+1 {{'dist.global' op has a layout of 1 dimensions for a tensor of rank 2}}
  dist.global @a buffer {layout = #dist.layout<[[]], []>} : tensor<4x4xf32>
  // expected-error @+1 {{'dist.global' op axis 'mp' is named twice}}
  dist.global @b buffer {layout = #dist.layout<[["mp"], ["mp"]], []>} : tensor<4x4xf32>
  // expected-error @+1 {{'dist.global' op axis 'dp' is named twice}}
  dist.global @c buffer {layout = #dist.layout<[["dp"], []], ["dp"]>} : tensor<4x4xf32>
  // expected-error @+1 {{'dist.global' op the mesh has no axis 'pp'}}
  dist.global @d buffer {layout = #dist.layout<[["pp"], []], []>} : tensor<4x4xf32>
  // expected-error @+1 {{'dist.global' op must have a static shape, but its type is tensor<?xf32>}}
  dist.global @e buffer {layout = #dist.layout<[[]], []>} : tensor<?xf32>
  // expected-error @+1 {{'dist.global' op attribute 'type' must be a ranked tensor}}
  dist.global @f buffer {layout = #dist.layout<[[]], []>} : f32
  // expected-error @+1 {{'dist.global' op is state of @m, which is not a parameter of this module}}
  dist.global @g state {layout = #dist.layout<[[]], []>, of = @m} : tensor<4xf32>
  // expected-error @+1 {{'dist.global' op has 'of', but is not state}}
  dist.global @h buffer {layout = #dist.layout<[[]], []>, of = @w} : tensor<4xf32>
  // expected-error @+1 {{'dist.global' op attribute 'layout' must be a `#dist.layout<…>`}}
  dist.global @i buffer {layout = "replicated"} : tensor<4xf32>

  func.func @step(%x: tensor<4x4xf32>) {
    %0 = dist.load @w : tensor<4x4xf32>
    dist.store @w %0 : tensor<4x4xf32>
    // expected-error @+1 {{'dist.load' op names @v, which is not a global of this module}}
    %1 = dist.load @v : tensor<4x4xf32>
    // expected-error @+1 {{'dist.load' op names @step, which is not a global of this module}}
    %2 = dist.load @step : tensor<4x4xf32>
    // expected-error @+1 {{'dist.load' op has a value of type tensor<4xf32>, but @w is tensor<4x4xf32>}}
    %3 = dist.load @w : tensor<4xf32>
    return
  }

  // expected-note @+2 {{declared here}}
  // expected-note @+1 {{declared here}}
  dist.global @sum buffer {layout = #dist.layout<[[]], []>} : tensor<4xf32>
  // expected-note @+1 {{declared here}}
  dist.global @count buffer {layout = #dist.layout<[[]], []>} : tensor<4xi64>
  func.func @adds(%x: tensor<4xf32>, %half: tensor<4xbf16>, %row: tensor<1x4xf32>, %i: tensor<4xi64>) {
    dist.accumulate @sum %x : tensor<4xf32>
    dist.accumulate @sum %half : tensor<4xbf16>
    // expected-error @+1 {{'dist.accumulate' op names @total, which is not a global of this module}}
    dist.accumulate @total %x : tensor<4xf32>
    // expected-error @+1 {{'dist.accumulate' op adds a value of type tensor<1x4xf32> to @sum, which is tensor<4xf32>}}
    dist.accumulate @sum %row : tensor<1x4xf32>
    // expected-error @+1 {{'dist.accumulate' op adds tensor<4xi64> to @sum, which is tensor<4xf32>: only floats are added up}}
    dist.accumulate @sum %i : tensor<4xi64>
    // expected-error @+1 {{'dist.accumulate' op adds tensor<4xi64> to @count, which is tensor<4xi64>: only floats are added up}}
    dist.accumulate @count %i : tensor<4xi64>
    // expected-error @+1 {{'dist.accumulate' op requires attribute 'global'}}
    "dist.accumulate"(%x) : (tensor<4xf32>) -> ()
    return
  }
}

// -----

// The globals of one class are not those of another.

dist.mesh @mesh ["mp" = 2]
module @first attributes {dist.mesh = @mesh, dist.ranks = [{mp = array<i64: 0>}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], ["mp"]>} : tensor<4xf32>
}
module @other attributes {dist.mesh = @mesh, dist.ranks = [{mp = array<i64: 1>}]} {
  func.func @step() {
    // expected-error @+1 {{'dist.load' op names @b, which is not a global of this module}}
    %0 = dist.load @b : tensor<4xf32>
    return
  }
}
