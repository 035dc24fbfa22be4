// RUN: raddle-opt %s --pass-pipeline='builtin.module(func.func(dce))' | FileCheck %s --check-prefixes=CHECK,OUTER
// RUN: raddle-opt %s --pass-pipeline='builtin.module(builtin.module(func.func(dce)))' | FileCheck %s --check-prefixes=CHECK,INNER

// CHECK-LABEL: func.func @outer
// OUTER-NEXT: return
// INNER-NEXT: dist.gelu
func.func @outer(%x: tensor<4xf32>) {
  %0 = dist.gelu %x : tensor<4xf32>
  return
}

// CHECK-LABEL: module @nested
module @nested {
  // CHECK-LABEL: func.func @inner
  // INNER-NEXT: return
  // OUTER-NEXT: dist.gelu
  func.func @inner(%x: tensor<4xf32>) {
    %0 = dist.gelu %x : tensor<4xf32>
    return
  }
}
