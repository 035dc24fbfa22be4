// RUN: raddle-opt %s | FileCheck %s
// RUN: raddle-opt %s --mlir-print-op-generic | raddle-opt | FileCheck %s
// RUN: raddle-opt %s --mlir-print-op-generic | mlir-opt --irdl-file=%irdl --mlir-print-op-generic | raddle-opt | FileCheck %s

// Every `dist` op in its short form: there and back, through the generic form, and through stock MLIR.

// CHECK: dist.mesh @mesh ["dp" = 2, "mp" = 2]
dist.mesh @mesh ["dp" = 2, "mp" = 2]

module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  // CHECK: dist.global @w parameter {layout = #dist.layout<{{\[\[}}], ["mp"]], []>} : tensor<4x4xf32>
  dist.global @w parameter {layout = #dist.layout<[[], ["mp"]], []>} : tensor<4x4xf32>
  // CHECK: dist.global @w_moment state {layout = #dist.layout<{{\[\[}}], ["mp"]], []>, of = @w} : tensor<4x4xf32>
  dist.global @w_moment state {layout = #dist.layout<[[], ["mp"]], []>, of = @w} : tensor<4x4xf32>

  // CHECK-LABEL: func.func @structure
  func.func @structure() {
    // CHECK: %[[W:.*]] = dist.load @w : tensor<4x4xf32>
    %0 = dist.load @w : tensor<4x4xf32>
    // CHECK: dist.store @w %[[W]] : tensor<4x4xf32>
    dist.store @w %0 : tensor<4x4xf32>
    // CHECK: dist.accumulate @w %[[W]] : tensor<4x4xf32>
    dist.accumulate @w %0 : tensor<4x4xf32>
    return
  }

  // CHECK-LABEL: func.func @linear
  func.func @linear(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>, %b: tensor<6xf32>, %d: tensor<2x6xf32>) {
    // CHECK: dist.matmul %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
    %0 = dist.matmul %x, %w : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
    // CHECK: dist.matmul %{{.*}}, %{{.*}} {transpose_a = true} : (tensor<2x4xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    %1 = dist.matmul %x, %d {transpose_a = true} : (tensor<2x4xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    // CHECK: %{{.*}}:2 = dist.matmul_grad %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2x6xf32>) -> (tensor<2x4xf32>, tensor<4x6xf32>)
    %2:2 = dist.matmul_grad %x, %w, %d : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2x6xf32>) -> (tensor<2x4xf32>, tensor<4x6xf32>)
    // CHECK: %{{.*}} = dist.matmul_grad %{{.*}}, %{{.*}}, %{{.*}} {resultSegmentSizes = array<i32: 0, 1>} : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    %3 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    // CHECK: %{{.*}}:2 = dist.fused_linear gelu %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
    %4:2 = dist.fused_linear gelu %x, %w, %b : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
    // CHECK: %{{.*}}:3 = dist.fused_linear_grad none %{{.*}} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, overwrite = true}
    %5:3 = dist.fused_linear_grad none %x, %w, %d {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, overwrite = true} : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2x6xf32>) -> (tensor<2x4xf32>, tensor<4x6xf32>, tensor<6xf32>)
    return
  }

  // CHECK-LABEL: func.func @elementwise
  func.func @elementwise(%a: tensor<2x4xf32>, %b: tensor<4xf32>, %f: tensor<2xi1>) {
    // CHECK: dist.add %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %0 = dist.add %a, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    // CHECK: dist.sub
    %1 = dist.sub %a, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    // CHECK: dist.mul
    %2 = dist.mul %a, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    // CHECK: dist.div
    %3 = dist.div %a, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    // CHECK: dist.maximum
    %4 = dist.maximum %a, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    // CHECK: dist.add_grad %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
    %5:2 = dist.add_grad %a, %b, %0 : (tensor<2x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
    // CHECK: dist.mul_grad %{{.*}} {resultSegmentSizes = array<i32: 1, 0>}
    %6 = dist.mul_grad %a, %b, %0 {resultSegmentSizes = array<i32: 1, 0>} : (tensor<2x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    // CHECK: dist.sum %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4xf32>
    %7 = dist.sum %a, %0, %1 : tensor<2x4xf32>
    // CHECK: dist.any_of %{{.*}}, %{{.*}} : tensor<2xi1>
    %8 = dist.any_of %f, %f : tensor<2xi1>
    // CHECK: dist.scale %{{.*}} {scale = 5.000000e-01 : f64} : tensor<2x4xf32>
    %9 = dist.scale %a {scale = 0.5 : f64} : tensor<2x4xf32>
    // CHECK: dist.scale %{{.*}} {bias = 1.000000e+00 : f64, bias_after_scale = false, scale = 5.000000e-01 : f64} : tensor<2x4xf32>
    %10 = dist.scale %a {scale = 0.5 : f64, bias = 1.0 : f64, bias_after_scale = false} : tensor<2x4xf32>
    // CHECK: dist.cast %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    %11 = dist.cast %a : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    // CHECK: dist.gelu %{{.*}} {approximate = true} : tensor<2x4xf32>
    %12 = dist.gelu %a {approximate = true} : tensor<2x4xf32>
    // CHECK: dist.gelu_grad %{{.*}}, %{{.*}} : tensor<2x4xf32>
    %13 = dist.gelu_grad %a, %0 : tensor<2x4xf32>
    // CHECK: dist.relu %{{.*}} : tensor<2x4xf32>
    %14 = dist.relu %a : tensor<2x4xf32>
    // CHECK: dist.relu_grad %{{.*}}, %{{.*}} : tensor<2x4xf32>
    %15 = dist.relu_grad %a, %0 : tensor<2x4xf32>
    // CHECK: dist.sqrt %{{.*}} : tensor<2x4xf32>
    %16 = dist.sqrt %a : tensor<2x4xf32>
    // CHECK: dist.clip %{{.*}} {max = 1.000000e+00 : f64, min = -1.000000e+00 : f64} : tensor<2x4xf32>
    %17 = dist.clip %a {min = -1.0 : f64, max = 1.0 : f64} : tensor<2x4xf32>
    // CHECK: dist.identity %{{.*}} : tensor<2x4xf32>
    %18 = dist.identity %a : tensor<2x4xf32>
    return
  }

  // CHECK-LABEL: func.func @shape
  func.func @shape(%a: tensor<2x4xf32>, %b: tensor<3x4xf32>) {
    // CHECK: dist.reshape %{{.*}} : (tensor<2x4xf32>) -> tensor<8xf32>
    %0 = dist.reshape %a : (tensor<2x4xf32>) -> tensor<8xf32>
    // CHECK: dist.transpose %{{.*}} {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %1 = dist.transpose %a {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
    // CHECK: dist.slice %{{.*}} {axes = {{\[\["mp"\]\]}}, dims = array<i64: 1>, sizes = array<i64: 2>, starts = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %2 = dist.slice %a {dims = array<i64: 1>, starts = array<i64: 0>, sizes = array<i64: 2>, axes = [["mp"]]} : (tensor<2x4xf32>) -> tensor<2x2xf32>
    // CHECK: dist.concat %{{.*}}, %{{.*}} {dim = 0 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %3 = dist.concat %a, %a {dim = 0 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    // CHECK: dist.concat_pair %{{.*}}, %{{.*}} {dim = 0 : i64} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
    %4 = dist.concat_pair %a, %b {dim = 0 : i64} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
    // CHECK: %{{.*}}:2 = dist.split %{{.*}} {dim = 1 : i64} : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
    %5:2 = dist.split %a {dim = 1 : i64} : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
    // CHECK: dist.stack %{{.*}}, %{{.*}} {dim = 2 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4x2xf32>
    %6 = dist.stack %a, %a {dim = 2 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4x2xf32>
    return
  }

  // CHECK-LABEL: func.func @reduce
  func.func @reduce(%a: tensor<2x4xf32>, %f: tensor<2xi1>, %d: tensor<4xf32>) {
    // CHECK: dist.reduce_sum %{{.*}} {dims = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<4xf32>
    %0 = dist.reduce_sum %a {dims = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<4xf32>
    // CHECK: dist.reduce_mean %{{.*}} {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
    %1 = dist.reduce_mean %a {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
    // CHECK: dist.reduce_max %{{.*}} {dims = array<i64: 1>, keep_dims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
    %2 = dist.reduce_max %a {dims = array<i64: 1>, keep_dims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
    // CHECK: dist.reduce_any %{{.*}} {dims = array<i64: 0>} : (tensor<2xi1>) -> tensor<i1>
    %3 = dist.reduce_any %f {dims = array<i64: 0>} : (tensor<2xi1>) -> tensor<i1>
    // CHECK: dist.reduce_sum_grad %{{.*}}, %{{.*}} {dims = array<i64: 0>} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %4 = dist.reduce_sum_grad %a, %d {dims = array<i64: 0>} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    // CHECK: dist.reduce_mean_grad %{{.*}}, %{{.*}} {dims = array<i64: 0>} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %5 = dist.reduce_mean_grad %a, %d {dims = array<i64: 0>} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    return
  }

  // CHECK-LABEL: func.func @normalisation
  func.func @normalisation(%x: tensor<2x4xf16>, %s: tensor<4xf32>) {
    // CHECK: %{{.*}}:3 = dist.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {begin_norm_axis = 1 : i64, epsilon = 1.000000e-05 : f64} : (tensor<2x4xf16>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf16>, tensor<2xf32>, tensor<2xf32>)
    %0:3 = dist.layer_norm %x, %s, %s {begin_norm_axis = 1 : i64, epsilon = 1.0e-05 : f64} : (tensor<2x4xf16>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf16>, tensor<2xf32>, tensor<2xf32>)
    // CHECK: %{{.*}}:3 = dist.layer_norm_grad %{{.*}} {begin_norm_axis = 1 : i64, epsilon = 1.000000e-05 : f64}
    %1:3 = dist.layer_norm_grad %x, %s, %s, %0#1, %0#2, %x {begin_norm_axis = 1 : i64, epsilon = 1.0e-05 : f64} : (tensor<2x4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x4xf16>) -> (tensor<2x4xf16>, tensor<4xf32>, tensor<4xf32>)
    return
  }

  // CHECK-LABEL: func.func @collectives
  func.func @collectives(%x: tensor<4x4xf32>) {
    // CHECK: dist.all_reduce sum %{{.*}} over ["dp", "mp"] : tensor<4x4xf32>
    %0 = dist.all_reduce sum %x over ["dp", "mp"] : tensor<4x4xf32>
    // CHECK: dist.reduce_scatter avg %{{.*}} over ["mp"] {dim = 0 : i64} : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = dist.reduce_scatter avg %x over ["mp"] {dim = 0 : i64} : (tensor<4x4xf32>) -> tensor<2x4xf32>
    // CHECK: dist.all_gather %{{.*}} over ["mp"] {dim = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x8xf32>
    %2 = dist.all_gather %x over ["mp"] {dim = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x8xf32>
    // CHECK: dist.all_to_all %{{.*}} over ["dp"] {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4xf32>) -> tensor<2x8xf32>
    %3 = dist.all_to_all %x over ["dp"] {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x4xf32>) -> tensor<2x8xf32>
    // CHECK: dist.broadcast %{{.*}} over ["dp"] : tensor<4x4xf32>
    %4 = dist.broadcast %x over ["dp"] : tensor<4x4xf32>
    // CHECK: dist.broadcast %{{.*}} over ["dp"] {root = 1 : i64} : tensor<4x4xf32>
    %5 = dist.broadcast %x over ["dp"] {root = 1 : i64} : tensor<4x4xf32>
    // CHECK: dist.send %{{.*}} {peer = {mp = 1 : i64}, tag = 7 : i64} : tensor<4x4xf32>
    dist.send %x {peer = {mp = 1 : i64}, tag = 7 : i64} : tensor<4x4xf32>
    // CHECK: dist.recv {peer = {mp = 0 : i64}, tag = 7 : i64} : tensor<4x4xf32>
    %6 = dist.recv {peer = {mp = 0 : i64}, tag = 7 : i64} : tensor<4x4xf32>
    // CHECK: dist.barrier over ["dp"]
    dist.barrier over ["dp"]
    return
  }

  // CHECK-LABEL: func.func @amp
  func.func @amp(%x: tensor<4xf16>, %s: tensor<1xf32>, %n: tensor<1xi32>) {
    // CHECK: %{{.*}}:2 = dist.check_finite_and_unscale %{{.*}}, %{{.*}} {group = 0 : i64} : (tensor<4xf16>, tensor<1xf32>) -> (tensor<4xf16>, tensor<1xi1>)
    %0:2 = dist.check_finite_and_unscale %x, %s {group = 0 : i64} : (tensor<4xf16>, tensor<1xf32>) -> (tensor<4xf16>, tensor<1xi1>)
    // CHECK: %{{.*}}:4 = dist.update_loss_scaling %{{.*}} {decr_every_n_nan_or_inf = 2 : i64, decr_ratio = 5.000000e-01 : f64, group = 0 : i64, incr_every_n_steps = 100 : i64, incr_ratio = 2.000000e+00 : f64}
    %1:4 = dist.update_loss_scaling %x, %0#1, %s, %n, %n {group = 0 : i64, incr_every_n_steps = 100 : i64, decr_every_n_nan_or_inf = 2 : i64, incr_ratio = 2.0 : f64, decr_ratio = 0.5 : f64} : (tensor<4xf16>, tensor<1xi1>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>) -> (tensor<4xf16>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>)
    // CHECK: dist.squared_l2_norm %{{.*}} : (tensor<4xf16>) -> tensor<1xf16>
    %2 = dist.squared_l2_norm %x : (tensor<4xf16>) -> tensor<1xf16>
    // CHECK: dist.clip_by_norm %{{.*}} {max_norm = 1.000000e+00 : f64} : tensor<4xf16>
    %3 = dist.clip_by_norm %x {max_norm = 1.0 : f64} : tensor<4xf16>
    return
  }

  // CHECK-LABEL: func.func @optimizers
  func.func @optimizers(%p: tensor<4xf32>, %g: tensor<4xf32>, %one: tensor<1xf32>, %skip: tensor<1xi1>, %h: tensor<4xf16>) {
    // CHECK: dist.sgd %{{.*}}, %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
    %0 = dist.sgd %p, %g, %one : (tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
    // CHECK: %{{.*}}:2 = dist.momentum %{{.*}} {mu = 9.000000e-01 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %1:2 = dist.momentum %p, %g, %p, %one {mu = 0.9 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    // CHECK: %{{.*}}:5 = dist.adam %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = {{.*}} : f64, epsilon = {{.*}} : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>}
    %2:5 = dist.adam %p, %g, %p, %p, %one, %one, %one {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>)
    // CHECK: %{{.*}}:6 = dist.adamw %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = {{.*}} : f64, epsilon = {{.*}} : f64, weight_decay = 1.000000e-02 : f64} : (tensor<4xf16>,
    %3:6 = dist.adamw %h, %g, %p, %p, %one, %one, %one, %skip, %p {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64} : (tensor<4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xi1>, tensor<4xf32>) -> (tensor<4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<4xf32>)
    // CHECK: %{{.*}}:3 = dist.adamax %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = {{.*}} : f64, epsilon = {{.*}} : f64}
    %4:3 = dist.adamax %p, %g, %p, %p, %one, %one {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    // CHECK: %{{.*}}:2 = dist.merged_momentum %{{.*}} {group = 2 : i64, l2_decay = 1.000000e-01 : f64, mu = 9.000000e-01 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %5:2 = dist.merged_momentum %p, %g, %p, %one {group = 2 : i64, mu = 0.9 : f64, l2_decay = 0.1 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    // CHECK: %{{.*}}:3 = dist.lars_momentum %{{.*}} {epsilon = 0.000000e+00 : f64, group = 2 : i64, lars_coeff = 1.000000e-03 : f64, lars_weight_decay = 1.000000e-01 : f64, mu = 9.000000e-01 : f64} : (tensor<4xf16>,
    %6:3 = dist.lars_momentum %h, %h, %p, %one, %p {group = 2 : i64, mu = 0.9 : f64, lars_coeff = 0.001 : f64, lars_weight_decay = 0.1 : f64, epsilon = 0.0 : f64} : (tensor<4xf16>, tensor<4xf16>, tensor<4xf32>, tensor<1xf32>, tensor<4xf32>) -> (tensor<4xf16>, tensor<4xf32>, tensor<4xf32>)
    // CHECK: %{{.*}}:3 = dist.dgc_momentum %{{.*}} {mu = 9.000000e-01 : f64, rampup_begin_step = 5.000000e+00 : f64, resultSegmentSizes = array<i32: 1, 1, 0, 1>, use_nesterov = true}
    %7:3 = dist.dgc_momentum %p, %g, %p, %one, %one, %one {mu = 0.9 : f64, use_nesterov = true, rampup_begin_step = 5.0 : f64, resultSegmentSizes = array<i32: 1, 1, 0, 1>} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    // CHECK: %{{.*}}:5 = dist.lamb %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = {{.*}} : f64, epsilon = {{.*}} : f64, local_norms = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, weight_decay = 1.000000e-02 : f64}
    %8:5 = dist.lamb %p, %g, %p, %p, %one, %one, %one, %skip {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-6 : f64, weight_decay = 0.01 : f64, local_norms = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xi1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>)
    // CHECK: %{{.*}}:2 = dist.decayed_adagrad %{{.*}} {decay = {{.*}} : f64, epsilon = {{.*}} : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %9:2 = dist.decayed_adagrad %p, %g, %p, %one {decay = 0.95 : f64, epsilon = 1.0e-6 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    return
  }

  // CHECK-LABEL: func.func @init
  func.func @init() {
    // CHECK: dist.fill {value = 1.000000e+00 : f64} : tensor<4xf32>
    %0 = dist.fill {value = 1.0 : f64} : tensor<4xf32>
    // CHECK: dist.uniform {max = 1.000000e+00 : f64, min = -1.000000e+00 : f64, seed = 0 : i64} : tensor<4xf32>
    %1 = dist.uniform {min = -1.0 : f64, max = 1.0 : f64, seed = 0 : i64} : tensor<4xf32>
    // CHECK: dist.gaussian {mean = 0.000000e+00 : f64, seed = 3 : i64, std = 1.000000e+00 : f64} : tensor<4xf32>
    %2 = dist.gaussian {mean = 0.0 : f64, std = 1.0 : f64, seed = 3 : i64} : tensor<4xf32>
    return
  }
}
