// RUN: raddle-opt %s | FileCheck %s
// RUN: raddle-opt %s --mlir-print-op-generic | raddle-opt | FileCheck %s
// RUN: raddle-opt %s --mlir-print-op-generic | mlir-opt --irdl-file=%irdl --mlir-print-op-generic | raddle-opt | FileCheck %s

// What a GPT training program needs besides linear layers: there and back, through the generic form, and through stock MLIR.

dist.mesh @mesh ["dp" = 2, "mp" = 2]

module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  // CHECK-LABEL: func.func @softmax
  func.func @softmax(%x: tensor<2x4xf32>) {
    // CHECK: dist.softmax %{{.*}} {dim = 1 : i64} : tensor<2x4xf32>
    %0 = dist.softmax %x {dim = 1 : i64} : tensor<2x4xf32>
    // CHECK: dist.softmax_grad %{{.*}}, %{{.*}} {dim = 1 : i64} : tensor<2x4xf32>
    %1 = dist.softmax_grad %0, %x {dim = 1 : i64} : tensor<2x4xf32>
    return
  }

  // CHECK-LABEL: func.func @loss
  func.func @loss(%x: tensor<3x8xbf16>, %labels: tensor<3xi64>) {
    // CHECK: dist.softmax_cross_entropy %{{.*}}, %{{.*}} : (tensor<3x8xbf16>, tensor<3xi64>) -> (tensor<3xf32>, tensor<3x8xbf16>)
    %0:2 = dist.softmax_cross_entropy %x, %labels : (tensor<3x8xbf16>, tensor<3xi64>) -> (tensor<3xf32>, tensor<3x8xbf16>)
    // CHECK: dist.softmax_cross_entropy %{{.*}}, %{{.*}} over ["mp"] {ignore_index = -1 : i64} : (tensor<3x8xbf16>, tensor<3xi64>) -> (tensor<3xf32>, tensor<3x8xbf16>)
    %1:2 = dist.softmax_cross_entropy %x, %labels over ["mp"] {ignore_index = -1 : i64} : (tensor<3x8xbf16>, tensor<3xi64>) -> (tensor<3xf32>, tensor<3x8xbf16>)
    // CHECK: dist.softmax_cross_entropy_grad %{{.*}}, %{{.*}}, %{{.*}} over ["mp"] : (tensor<3x8xbf16>, tensor<3xi64>, tensor<3xf32>) -> tensor<3x8xbf16>
    %2 = dist.softmax_cross_entropy_grad %1#1, %labels, %1#0 over ["mp"] : (tensor<3x8xbf16>, tensor<3xi64>, tensor<3xf32>) -> tensor<3x8xbf16>
    return
  }

  // CHECK-LABEL: func.func @embedding
  func.func @embedding(%ids: tensor<2x3xi64>, %table: tensor<8x4xf32>) {
    // CHECK: dist.embedding %{{.*}}, %{{.*}} : (tensor<2x3xi64>, tensor<8x4xf32>) -> tensor<2x3x4xf32>
    %0 = dist.embedding %ids, %table : (tensor<2x3xi64>, tensor<8x4xf32>) -> tensor<2x3x4xf32>
    // CHECK: dist.embedding %{{.*}}, %{{.*}} over ["mp"] : (tensor<2x3xi64>, tensor<8x4xf32>) -> tensor<2x3x4xf32>
    %1 = dist.embedding %ids, %table over ["mp"] : (tensor<2x3xi64>, tensor<8x4xf32>) -> tensor<2x3x4xf32>
    // CHECK: dist.embedding_grad %{{.*}}, %{{.*}} over ["mp"] : (tensor<2x3xi64>, tensor<2x3x4xf32>) -> tensor<8x4xf32>
    %2 = dist.embedding_grad %ids, %1 over ["mp"] : (tensor<2x3xi64>, tensor<2x3x4xf32>) -> tensor<8x4xf32>
    return
  }

  // CHECK-LABEL: func.func @dropout
  func.func @dropout(%x: tensor<2x4xf32>) {
    // CHECK: dist.dropout %{{.*}} {rate = 1.000000e-01 : f64, seed = 7 : i64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
    %0:2 = dist.dropout %x {rate = 0.1 : f64, seed = 7 : i64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
    // CHECK: dist.dropout %{{.*}} over ["dp", "mp"] {rate = 1.000000e-01 : f64, seed = 7 : i64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
    %1:2 = dist.dropout %x over ["dp", "mp"] {rate = 0.1 : f64, seed = 7 : i64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
    // CHECK: dist.dropout_grad %{{.*}}, %{{.*}} {rate = 1.000000e-01 : f64} : (tensor<2x4xf32>, tensor<2x4xi1>) -> tensor<2x4xf32>
    %2 = dist.dropout_grad %x, %1#1 {rate = 0.1 : f64} : (tensor<2x4xf32>, tensor<2x4xi1>) -> tensor<2x4xf32>
    return
  }

  // CHECK-LABEL: func.func @attention
  func.func @attention(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>) {
    // CHECK: dist.attention %{{.*}}, %{{.*}}, %{{.*}} {causal = true, scale = 2.500000e-01 : f64} : (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
    %0:2 = dist.attention %q, %k, %k {causal = true, scale = 0.25 : f64} : (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
    // CHECK: dist.attention %{{.*}}, %{{.*}}, %{{.*}} over ["mp"] {dropout = 1.000000e-01 : f64, scale = 2.500000e-01 : f64, seed = 3 : i64}
    %1:2 = dist.attention %q, %k, %k over ["mp"] {dropout = 0.1 : f64, scale = 0.25 : f64, seed = 3 : i64} : (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
    // CHECK: %{{.*}}:3 = dist.attention_grad %{{.*}} {causal = true, scale = 2.500000e-01 : f64}
    %2:3 = dist.attention_grad %q, %k, %k, %0#0, %0#1, %q {causal = true, scale = 0.25 : f64} : (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>)
    // CHECK: dist.attention_grad %{{.*}} over ["mp"] {dropout = 1.000000e-01 : f64, resultSegmentSizes = array<i32: 0, 0, 1>, scale = 2.500000e-01 : f64, seed = 3 : i64}
    %3 = dist.attention_grad %q, %k, %k, %1#0, %1#1, %q over ["mp"] {dropout = 0.1 : f64, resultSegmentSizes = array<i32: 0, 0, 1>, scale = 0.25 : f64, seed = 3 : i64} : (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x2x8x16xf32>
    return
  }

  // CHECK-LABEL: func.func @rms_norm
  func.func @rms_norm(%x: tensor<2x4xf32>, %scale: tensor<4xf32>) {
    // CHECK: dist.rms_norm %{{.*}}, %{{.*}} {begin_norm_axis = 1 : i64, epsilon = 1.000000e-05 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
    %0:2 = dist.rms_norm %x, %scale {begin_norm_axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
    // CHECK: %{{.*}}:2 = dist.rms_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {begin_norm_axis = 1 : i64, epsilon = 1.000000e-05 : f64} : (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
    %1:2 = dist.rms_norm_grad %x, %scale, %0#1, %x {begin_norm_axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
    return
  }

  // CHECK-LABEL: func.func @functions
  func.func @functions(%x: tensor<2x4xf32>, %b: tensor<4xf32>, %m: tensor<2xf32>) {
    // CHECK: dist.silu %{{.*}} : tensor<2x4xf32>
    %0 = dist.silu %x : tensor<2x4xf32>
    // CHECK: dist.silu_grad %{{.*}}, %{{.*}} : tensor<2x4xf32>
    %1 = dist.silu_grad %x, %0 : tensor<2x4xf32>
    // CHECK: dist.tanh %{{.*}} : tensor<2x4xf32>
    %2 = dist.tanh %x : tensor<2x4xf32>
    // CHECK: dist.tanh_grad %{{.*}}, %{{.*}} : tensor<2x4xf32>
    %3 = dist.tanh_grad %2, %0 : tensor<2x4xf32>
    // CHECK: dist.exp %{{.*}} : tensor<2x4xf32>
    %4 = dist.exp %x : tensor<2x4xf32>
    // CHECK: dist.log %{{.*}} : tensor<2x4xf32>
    %5 = dist.log %x : tensor<2x4xf32>
    // CHECK: dist.rsqrt %{{.*}} : tensor<2x4xf32>
    %6 = dist.rsqrt %x : tensor<2x4xf32>
    // CHECK: dist.clip_grad %{{.*}}, %{{.*}} {max = 1.000000e+00 : f64, min = 0.000000e+00 : f64} : tensor<2x4xf32>
    %7 = dist.clip_grad %x, %0 {max = 1.0 : f64, min = 0.0 : f64} : tensor<2x4xf32>
    // CHECK: %{{.*}}:2 = dist.div_grad %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
    %8:2 = dist.div_grad %x, %b, %x : (tensor<2x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
    // CHECK: dist.maximum_grad %{{.*}} {resultSegmentSizes = array<i32: 0, 1>}
    %9 = dist.maximum_grad %x, %b, %x {resultSegmentSizes = array<i32: 0, 1>} : (tensor<2x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> tensor<4xf32>
    // CHECK: dist.reduce_max_grad %{{.*}}, %{{.*}}, %{{.*}} {dims = array<i64: 1>} : (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4xf32>
    %10 = dist.reduce_max_grad %x, %m, %m {dims = array<i64: 1>} : (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4xf32>
    // CHECK: dist.slice_grad %{{.*}}, %{{.*}} {axes = {{\[}}["mp"]], dims = array<i64: 0>, sizes = array<i64: 1>, starts = array<i64: 0>} : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
    %11 = dist.slice %x {axes = [["mp"]], dims = array<i64: 0>, sizes = array<i64: 1>, starts = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %12 = dist.slice_grad %x, %11 {axes = [["mp"]], dims = array<i64: 0>, sizes = array<i64: 1>, starts = array<i64: 0>} : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
    return
  }
}
