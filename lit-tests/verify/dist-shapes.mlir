// RUN: raddle-opt %s --split-input-file --verify-diagnostics

// Shapes and element types that do not go together.

func.func @broadcast(%a: tensor<4x3xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'dist.add' op shapes [4, 3] and [4] do not broadcast}}
  %0 = dist.add %a, %b : (tensor<4x3xf32>, tensor<4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @element_types(%a: tensor<4xf32>, %b: tensor<4xf16>) {
  // expected-error @+1 {{'dist.add' op operands 'a' and 'b' have element types f32 and f16}}
  %0 = dist.add %a, %b : (tensor<4xf32>, tensor<4xf16>) -> tensor<4xf32>
  return
}

// -----

func.func @floats(%a: tensor<4xi32>) {
  // expected-error @+1 {{'dist.sqrt' op 'x' must hold floats, but its element type is i32}}
  %0 = dist.sqrt %a : tensor<4xi32>
  return
}

// -----

func.func @contracted(%a: tensor<4x3xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+1 {{'dist.matmul' op contracts extent [3] of 'a' with extent [4] of 'b'}}
  %0 = dist.matmul %a, %b : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = dist.matmul %a, %b {transpose_b = true} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @rank(%a: tensor<3xf32>, %b: tensor<3x3xf32>) {
  // expected-error @+1 {{'dist.matmul' op operand 'a' must have rank 2 or more, but its shape is [3]}}
  %0 = dist.matmul %a, %b : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @gradient(%a: tensor<4x3xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'dist.add_grad' op operand 'dout' has shape [3], but [4, 3] is expected}}
  %0:2 = dist.add_grad %a, %b, %b : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @aux(%x: tensor<4x3xf32>, %w: tensor<3x2xf32>, %d: tensor<4x2xf32>) {
  // expected-error @+1 {{'dist.fused_linear_grad' op needs 'aux' for the derivative of gelu}}
  %0 = "dist.fused_linear_grad"(%x, %w, %d) {activation = "gelu", transpose_a = false, transpose_b = false, overwrite = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x3xf32>, tensor<3x2xf32>, tensor<4x2xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @elements(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'dist.reshape' op has 12 elements, but its result [5, 2] holds 10}}
  %0 = dist.reshape %x : (tensor<4x3xf32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @permutation(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'dist.transpose' op has dimension 1 twice in 'perm'}}
  %0 = dist.transpose %x {perm = array<i64: 1, 1>} : (tensor<4x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @dimension(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'dist.reduce_sum' op has 'dims' -1, which is not a dimension of a value of rank 2}}
  %0 = dist.reduce_sum %x {dims = array<i64: -1>} : (tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @window(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'dist.slice' op takes 1 windows of 3 elements from 2 on, but dimension 0 has [4]}}
  %0 = dist.slice %x {dims = array<i64: 0>, starts = array<i64: 2>, sizes = array<i64: 3>, axes = [[]]} : (tensor<4x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @parts(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'dist.split' op cannot cut extent 4 into 3 equal parts}}
  %0:3 = dist.split %x {dim = 0 : i64} : (tensor<4x3xf32>) -> (tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>)
  return
}

// -----

func.func @joined(%x: tensor<4x3xf32>, %y: tensor<5x2xf32>) {
  // expected-error @+1 {{'dist.concat_pair' op joins shapes [4, 3] and [5, 2], which differ not only along dimension 0}}
  %0 = dist.concat_pair %x, %y {dim = 0 : i64} : (tensor<4x3xf32>, tensor<5x2xf32>) -> tensor<9x3xf32>
  return
}

// -----

func.func @features(%x: tensor<4x3xf32>, %s: tensor<4xf32>) {
  // expected-error @+1 {{'dist.layer_norm' op operand 'scale' has shape [4], but the normalised dimensions are [3]}}
  %0:3 = "dist.layer_norm"(%x, %s) {begin_norm_axis = 1 : i64, epsilon = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<4x3xf32>, tensor<4xf32>) -> (tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @limits(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.clip' op has limits 1 and -1 in the wrong order}}
  %0 = dist.clip %x {min = 1.0 : f64, max = -1.0 : f64} : tensor<4xf32>
  return
}

// -----

func.func @learning_rate(%p: tensor<4xf32>, %g: tensor<4xf32>, %lr: tensor<2xf32>) {
  // expected-error @+1 {{'dist.sgd' op 'lr' must hold one element, but its type is tensor<2xf32>}}
  %0 = dist.sgd %p, %g, %lr : (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @master(%p: tensor<4xf16>, %g: tensor<4xf16>, %lr: tensor<1xf32>, %m: tensor<4xf32>) {
  // expected-error @+1 {{'dist.sgd' op needs the operand 'master' and the result 'new_master' together, or neither}}
  %0 = dist.sgd %p, %g, %lr, %m : (tensor<4xf16>, tensor<4xf16>, tensor<1xf32>, tensor<4xf32>) -> tensor<4xf16>
  return
}

// -----

func.func @size() {
  // expected-error @+1 {{'dist.fill' op 'y' must have a static shape that fits memory, but its type is tensor<?xf32>}}
  %0 = dist.fill {value = 0.0 : f64} : tensor<?xf32>
  return
}
