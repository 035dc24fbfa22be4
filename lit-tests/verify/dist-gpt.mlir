// RUN: raddle-opt %s --split-input-file --verify-diagnostics

// Softmax, loss, tables, dropout, attention and normalisation with operands and attributes that do not fit.

func.func @softmax(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'dist.softmax' op has 'dim' 2, which is not a dimension of a value of rank 2}}
  %0 = dist.softmax %x {dim = 2 : i64} : tensor<2x4xf32>
  return
}

// -----

func.func @labels(%x: tensor<2x4xf32>, %labels: tensor<2xf32>) {
  // expected-error @+1 {{'dist.softmax_cross_entropy' op 'labels' must hold integers, but its element type is f32}}
  %0:2 = dist.softmax_cross_entropy %x, %labels : (tensor<2x4xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @positions(%x: tensor<2x4xf32>, %labels: tensor<4xi64>) {
  // expected-error @+1 {{'dist.softmax_cross_entropy' op operand 'labels' has shape [4], but [2] is expected}}
  %0:2 = dist.softmax_cross_entropy %x, %labels : (tensor<2x4xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @loss_type(%x: tensor<2x4xbf16>, %labels: tensor<2xi32>) {
  // expected-error @+1 {{'dist.softmax_cross_entropy' op result #0 has type tensor<2xbf16>, but tensor<2xf32> is expected}}
  %0:2 = dist.softmax_cross_entropy %x, %labels : (tensor<2x4xbf16>, tensor<2xi32>) -> (tensor<2xbf16>, tensor<2x4xbf16>)
  return
}

// -----

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @axis(%ids: tensor<2xi64>, %table: tensor<4x8xf32>) {
    // expected-error @+1 {{'dist.embedding' op the mesh has no axis 'tp'}}
    %0 = dist.embedding %ids, %table over ["tp"] : (tensor<2xi64>, tensor<4x8xf32>) -> tensor<2x8xf32>
    return
  }
}

// -----

func.func @table(%ids: tensor<2xi64>, %table: tensor<8xf32>) {
  // expected-error @+1 {{'dist.embedding' op 'table' must have rank 2, but its shape is [8]}}
  %0 = dist.embedding %ids, %table : (tensor<2xi64>, tensor<8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @dtable(%ids: tensor<2xi64>, %dout: tensor<2x8xf32>) {
  // expected-error @+1 {{'dist.embedding_grad' op operand 'dout' has shape [2, 8], but [2, 6] is expected}}
  %0 = dist.embedding_grad %ids, %dout : (tensor<2xi64>, tensor<2x8xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @rate(%x: tensor<2xf32>) {
  // expected-error @+1 {{'dist.dropout' op has 'rate' 1, which is not in [0, 1)}}
  %0:2 = dist.dropout %x {rate = 1.0 : f64, seed = 1 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>)
  return
}

// -----

func.func @heads(%q: tensor<1x3x4x8xf32>, %k: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{'dist.attention' op has 3 heads of queries for 2 of keys, which does not divide them}}
  %0:2 = dist.attention %q, %k, %k {scale = 1.0 : f64} : (tensor<1x3x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @causal(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x3x8xf32>) {
  // expected-error @+1 {{'dist.attention' op is causal with 4 queries, but only 3 keys}}
  %0:2 = dist.attention %q, %k, %k {causal = true, scale = 1.0 : f64} : (tensor<1x2x4x8xf32>, tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @attention_rank(%q: tensor<2x4x8xf32>) {
  // expected-error @+1 {{'dist.attention' op operand 'q' must be [batch, heads, sequence, features], but its shape is [2, 4, 8]}}
  %0:2 = dist.attention %q, %q, %q {scale = 1.0 : f64} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @norm(%x: tensor<2x4xf32>, %scale: tensor<2xf32>) {
  // expected-error @+1 {{'dist.rms_norm' op operand 'scale' has shape [2], but the normalised dimensions are [4]}}
  %0:2 = dist.rms_norm %x, %scale {begin_norm_axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  return
}

// -----

func.func @window(%x: tensor<4xf32>, %d: tensor<3xf32>) {
  // expected-error @+1 {{'dist.slice_grad' op operand 'dout' has shape [3], but [2] is expected}}
  %0 = dist.slice_grad %x, %d {axes = [[]], dims = array<i64: 0>, sizes = array<i64: 2>, starts = array<i64: 1>} : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}
