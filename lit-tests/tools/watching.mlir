// RUN: raddle-opt %s --cse --canonicalize --mlir-print-ir-before-all --mlir-print-ir-after-all 2>&1 >/dev/null | FileCheck %s --check-prefix=ALL
// RUN: raddle-opt %s --cse --canonicalize --mlir-print-ir-after=canonicalize 2>&1 >/dev/null | FileCheck %s --check-prefix=ONE
// RUN: raddle-opt %s --cse --cse --mlir-print-ir-after-change 2>&1 >/dev/null | FileCheck %s --check-prefix=CHANGE
// RUN: raddle-opt %s --cse --mlir-timing 2>&1 >/dev/null | FileCheck %s --check-prefix=TIMING
// RUN: raddle-opt %s --cse --canonicalize --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=DUMP

// ALL: // -----// IR Dump Before Cse (cse) //----- //
// ALL: arith.constant
// ALL: arith.constant
// ALL: // -----// IR Dump After Cse (cse) //----- //
// ALL: // -----// IR Dump Before Canonicalize (canonicalize) //----- //
// ALL: // -----// IR Dump After Canonicalize (canonicalize) //----- //
// ONE-NOT: Dump Before
// ONE-NOT: Dump After Cse
// ONE: // -----// IR Dump After Canonicalize (canonicalize) //----- //
// CHANGE: // -----// IR Dump After Cse (cse) //----- //
// CHANGE-NOT: // -----// IR Dump
// TIMING: Execution time report
// TIMING: Total Execution Time: {{[0-9.]+}} seconds
// TIMING: Parser
// TIMING: Verifier
// TIMING: cse
// TIMING: Output
// TIMING: Rest
// TIMING: Total
// DUMP: builtin.module(cse,canonicalize)
func.func @twice() -> (i32, i32) {
  %0 = arith.constant 7 : i32
  %1 = arith.constant 7 : i32
  return %0, %1 : i32, i32
}
