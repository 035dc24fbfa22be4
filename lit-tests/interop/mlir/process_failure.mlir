// What goes wrong with MLIR is a diagnostic, and nothing is written.

// MLIR divides by this tile size.
// RUN: not raddle-opt --allow-unregistered-dialect %s --mlir-pass-pipeline='builtin.module(func.func(affine-loop-tile{tile-sizes=0}))' -o %t.out 2>&1 | FileCheck %s --check-prefix=CRASH
// CRASH: error: MLIR crashes in this pass pipeline (signal: 8 {{.*}}) [E0804]
// CRASH: help: run its passes one by one

// It writes the body of the loop down a hundred million times.
// RUN: not raddle-opt --allow-unregistered-dialect %s --mlir-timeout=1 --mlir-pass-pipeline='builtin.module(func.func(affine-loop-unroll{unroll-factor=100000000}))' -o %t.out 2>&1 | FileCheck %s --check-prefix=ENDLESS
// ENDLESS: error: MLIR does not come to an end with this pass pipeline in 1 s [E0804]
// ENDLESS: help: `--mlir-timeout=SECONDS` gives it more time

// The section after one that MLIR crashes on gets a process of its own.
// RUN: not raddle-opt --allow-unregistered-dialect %s --split-input-file --mlir-pass-pipeline='builtin.module(func.func(affine-loop-tile{tile-sizes=0}))' 2>&1 | FileCheck %s --check-prefix=SECTIONS
// SECTIONS: error: MLIR crashes
// SECTIONS: func.func @without_loops

// MLIR's complaint about an op is shown at the op.
// RUN: not raddle-opt --allow-unregistered-dialect %s --mlir-pass-pipeline='builtin.module(func.func(affine-super-vectorize{virtual-vector-size=0}))' -o %t.out 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: process_failure.mlir:[[# @LINE + 18]]:1: error: Vectorization factor must be greater than zero
// PLACE: func.func @f

// raddle-opt without the program beside it says so, and does without it what it can.
// RUN: rm -rf %t.alone && mkdir %t.alone && cp %tools/raddle-opt %t.alone/opt
// RUN: %t.alone/opt --allow-unregistered-dialect %s | FileCheck %s --check-prefix=ALONE
// ALONE: func.func @f
// RUN: not %t.alone/opt --allow-unregistered-dialect %s --mlir-pass-pipeline='builtin.module()' -o %t.out 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not %t.alone/opt --allow-unregistered-dialect %s --emit-bytecode -o %t.out 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not %t.alone/opt %S/Inputs/crash.mlirbc -o %t.out 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: MLIR needs the program '{{.*}}.alone/raddle-mlir', which cannot be started: No such file {{.*}} [E0802]
// MISSING: help: it belongs beside this one

// RUN: not test -e %t.out

// By itself the program says who starts it.
// RUN: not raddle-mlir < %s 2>&1 | FileCheck %s --check-prefix=BY-HAND
// BY-HAND: raddle-mlir: error: raddle-opt starts this program
func.func @f(%m: memref<16xf32>) {
  "affine.for"() <{lowerBoundMap = affine_map<() -> (0)>, operandSegmentSizes = array<i32: 0, 0, 0>, step = 1 : index, upperBoundMap = affine_map<() -> (1000000000)>}> ({
  ^bb0(%i: index):
    %0 = "affine.load"(%m, %i) <{map = affine_map<(d0) -> (d0 mod 16)>}> : (memref<16xf32>, index) -> f32
    "affine.store"(%0, %m, %i) <{map = affine_map<(d0) -> (d0 mod 16)>}> : (f32, memref<16xf32>, index) -> ()
    "affine.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @without_loops() {
  return
}
