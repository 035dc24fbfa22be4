// RUN: not raddle-opt %s --allow-unregistered-dialect 2>&1 | FileCheck %s --check-prefix=PRETTY
// RUN: not raddle-opt %s --allow-unregistered-dialect --diagnostic-format=plain 2>&1 | FileCheck %s --check-prefix=PLAIN

// Both begin with the line that programs look for; the pretty form goes on with the marked text.
// PRETTY: diagnostic-format.mlir:12:{{[0-9]+}}: error: {{.*}}undeclared{{.*}} [E{{[0-9]+}}]
// PRETTY: diagnostic-format.mlir:12:
// PRETTY: 12 │ "test.op"(%undefined) : (i32) -> ()
// PRETTY: ^^^^^^^^^^
// PLAIN: diagnostic-format.mlir:12:{{[0-9]+}}: error: {{.*}}undeclared{{.*}} [E{{[0-9]+}}]
// PLAIN-NOT: │

"test.op"(%undefined) : (i32) -> ()
