// Stock MLIR passes run on what dist they do not know, and on what they do.
// RUN: raddle-opt %s --mlir-pass-pipeline='builtin.module(canonicalize,cse)' | FileCheck %s
// CHECK-LABEL: func.func @f
// CHECK-NEXT: %c8_i32 = arith.constant 8 : i32
// CHECK-NEXT: %0 = dist.gelu %arg0 : tensor<4xf32>
// CHECK-NEXT: return %0, %c8_i32 : tensor<4xf32>, i32

// A training step makes the way there and back unchanged, as text and as bytecode.
// RUN: raddle-opt %S/../../run/compare.mlir > %t.plain
// RUN: raddle-opt %S/../../run/compare.mlir --mlir-pass-pipeline='builtin.module()' | diff %t.plain -
// RUN: raddle-opt %S/../../run/compare.mlir --emit-bytecode -o %t.bc
// RUN: raddle-opt %t.bc | diff %t.plain -
// RUN: mlir-opt --irdl-file=%irdl %t.bc | FileCheck %s --check-prefix=STOCK
// STOCK: "dist.matmul_grad"

// MLIR's complaints are shown as ours, and nothing is printed.
// RUN: not raddle-opt %s --mlir-pass-pipeline='builtin.module(no-such-pass)' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: {{.*}}no-such-pass
// UNKNOWN-NOT: func.func

// A module that nests too deep for MLIR is refused before MLIR sees it.
// RUN: python3 -c "print('\"t.r\"() ({' * 1200 + '}) : () -> ()' * 1200)" > %t.deep.mlir
// RUN: not raddle-opt %t.deep.mlir --allow-unregistered-dialect --mlir-pass-pipeline='builtin.module()' 2>&1 | FileCheck %s --check-prefix=DEEP
// DEEP: error: ops nest 1001 deep here, more than MLIR can be given [E0801]
// RUN: python3 -c "print('\"t.op\"() {a = ' + '[' * 30000 + ']' * 30000 + '} : () -> ()')" > %t.brackets.mlir
// RUN: not raddle-opt %t.brackets.mlir --allow-unregistered-dialect --emit-bytecode -o %t.none.bc 2>&1 | FileCheck %s --check-prefix=BRACKETS
// RUN: not test -e %t.none.bc
// BRACKETS: error: brackets nest {{[0-9]+}} deep, more than MLIR can be given [E0801]
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, i32) {
  %0 = dist.gelu %x : tensor<4xf32>
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %1 = arith.addi %c3, %c5 : i32
  return %0, %1 : tensor<4xf32>, i32
}
