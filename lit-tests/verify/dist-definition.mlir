// RUN: raddle-opt %s --split-input-file --verify-diagnostics

// What an op's definition says: groups, attributes, types.

func.func @missing_attribute(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.scale' op requires attribute 'scale', an `f64`}}
  %0 = "dist.scale"(%x) {bias = 0.0 : f64, bias_after_scale = true} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @wrong_kind(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.gelu' op attribute 'approximate' must be `true` or `false`}}
  %0 = "dist.gelu"(%x) {approximate = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @wrong_word(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op attribute 'reduction' must be one of "sum", "avg", "max", "min", "prod", "any"}}
  %0 = "dist.all_reduce"(%x) {axes = ["dp"], reduction = "total"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @repeated_axis(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op attribute 'axes' must be an array of distinct mesh axes}}
  %0 = "dist.all_reduce"(%x) {axes = ["dp", "dp"], reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @unknown_attribute(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.relu' op has no attribute 'inplace'}}
  %0 = "dist.relu"(%x) {inplace = true, my.note = "fine"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @too_few_operands(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.add' op expected 2 operands, but found 1}}
  %0 = "dist.add"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @too_many_results(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.relu' op expected 1 results, but found 2}}
  %0:2 = "dist.relu"(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @no_segments(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.add_grad' op requires attribute 'resultSegmentSizes', which counts the results of each group}}
  %0 = "dist.add_grad"(%x, %x, %x) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @bad_segments(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.add_grad' op 'resultSegmentSizes': the sizes of its groups are [2, 0]}}
  %0:2 = "dist.add_grad"(%x, %x, %x) {resultSegmentSizes = array<i32: 2, 0>} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @no_tensor(%x: vector<4xf32>) {
  // expected-error @+2 {{'dist.relu' op operand #0 must be a ranked tensor}}
  // expected-error @+1 {{'dist.relu' op result #0 must be a ranked tensor}}
  %0 = "dist.relu"(%x) : (vector<4xf32>) -> vector<4xf32>
  return
}

// -----

func.func @strange_elements(%x: tensor<4xi7>) {
  // expected-error @+2 {{'dist.relu' op operand #0 has an element type that dist does not know}}
  // expected-error @+1 {{'dist.relu' op result #0 has an element type that dist does not know}}
  %0 = "dist.relu"(%x) : (tensor<4xi7>) -> tensor<4xi7>
  return
}

// -----

func.func @result_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.relu' op result #0 has type tensor<5xf32>, but tensor<4xf32> is expected}}
  %0 = "dist.relu"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// expected-error @+1 {{'dist.barrier' op must not have regions}}
"dist.barrier"() ({
}) {axes = ["dp"]} : () -> ()

// -----

// Extents that are not known go with any.
func.func @dynamic(%x: tensor<?x16xf32>, %w: tensor<16x8xf32>, %b: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = dist.matmul %x, %w : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %1 = dist.add %0, %b : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}
