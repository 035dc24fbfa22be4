// Sections are processed one by one; a section that is wrong does not stop the others, but the run fails.
// RUN: not raddle-opt %s --allow-unregistered-dialect --split-input-file 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=ERR < %t.err

// CHECK: "test.first"() : () -> ()
// CHECK-NOT: test.second
// CHECK: // -----
// CHECK: // -----
// CHECK: "test.third"() : () -> ()
"test.first"() : () -> ()

// -----

// Line numbers are those of the whole file.
// ERR: split-input-file.mlir:[[@LINE+1]]:{{[0-9]+}}: error:
"test.second"(%undefined) : (i32) -> ()
// ERR-NOT: error:

// -----

"test.third"() : () -> ()
