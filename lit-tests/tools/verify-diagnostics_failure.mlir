// What is reported but not expected, and what is expected but not reported, fails the run.
// RUN: not raddle-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics 2>&1 | FileCheck %s
// RUN: not raddle-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics=only-expected 2>&1 | FileCheck %s --check-prefix=ONLY

// CHECK: verify-diagnostics_failure.mlir:[[@LINE+2]]:{{[0-9]+}}: error: unexpected error: {{.*}}undeclared
// ONLY-NOT: unexpected error
"test.op"(%undefined) : (i32) -> ()

// -----

// CHECK: verify-diagnostics_failure.mlir:[[@LINE+2]]:4: error: expected error "gone" was not produced
// ONLY: verify-diagnostics_failure.mlir:[[@LINE+1]]:4: error: expected error "gone" was not produced
// expected-error@+1 {{gone}}
"test.op"() : () -> ()
