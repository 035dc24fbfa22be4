// A whole training step, lowered, is taken by stock MLIR down to its llvm dialect.
// RUN: raddle-opt %S/../../run/compare.mlir --lower-to-linalg | FileCheck %s
// RUN: raddle-opt %S/../../run/compare.mlir --lower-to-linalg --mlir-print-op-generic | mlir-opt --pass-pipeline='builtin.module(one-shot-bufferize{bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map},convert-linalg-to-loops,expand-strided-metadata,lower-affine,convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,finalize-memref-to-llvm,convert-func-to-llvm,convert-arith-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,reconcile-unrealized-casts)' | FileCheck %s --check-prefix=LLVM
// RUN: raddle-opt %S/../../run/compare.mlir --promote-linear --fuse-linear --lower-to-linalg --mlir-print-op-generic | mlir-opt | FileCheck %s --check-prefix=CLASSES

// Collectives are calls with a C interface; globals are parameters and results.
// CHECK-DAG: func.func private @raddle_all_reduce_f32(tensor<?xf32>, i64, i64) -> tensor<?xf32> attributes {llvm.emit_c_interface}
// CHECK-DAG: func.func private @raddle_broadcast_f32(tensor<?xf32>, i64, i64) -> tensor<?xf32> attributes {llvm.emit_c_interface}
// CHECK: func.func @all_init() -> (tensor<4x3xf32>, tensor<3xf32>, tensor<1xf32>) attributes {dist.loads = [], dist.stores = ["w", "b", "lr"], llvm.emit_c_interface}
// CHECK: func.func @all_step(%arg0: tensor<2x4xf32>, %arg1: tensor<4x3xf32>, %arg2: tensor<3xf32>, %arg3: tensor<1xf32>) -> (tensor<f32>, tensor<4x3xf32>, tensor<3xf32>) attributes {dist.loads = ["w", "b", "lr"], dist.stores = ["w", "b"], llvm.emit_c_interface}
// CHECK-NOT: "dist.
// CHECK: "linalg.generic"
// CHECK: call @raddle_all_reduce_f32

// LLVM: llvm.func @_mlir_ciface_raddle_all_reduce_f32
// LLVM: llvm.func @_mlir_ciface_all_step

// CLASSES: func.func @all_first_step
// CLASSES: func.func @all_rest_step
