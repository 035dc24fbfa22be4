// A file appears only when everything went well; then it is whole.
// RUN: rm -rf %t && mkdir %t
// RUN: raddle-opt --allow-unregistered-dialect %s -o %t/good.mlir
// RUN: FileCheck %s < %t/good.mlir
// RUN: echo 'old' > %t/kept.mlir
// RUN: not raddle-opt --allow-unregistered-dialect %s --cse=no-such-option -o %t/kept.mlir 2>/dev/null
// RUN: echo '"test.op"(%%x) : (i32) -> ()' > %t/bad.mlir
// RUN: not raddle-opt --allow-unregistered-dialect %t/bad.mlir -o %t/kept.mlir 2>/dev/null
// RUN: not raddle-opt --allow-unregistered-dialect %t/bad.mlir -o %t/new.mlir 2>/dev/null
// RUN: FileCheck %s --check-prefix=KEPT < %t/kept.mlir
// RUN: ls -A %t | FileCheck %s --check-prefix=FILES
// RUN: raddle-opt --allow-unregistered-dialect %s -o /dev/null

// CHECK: "test.op"() : () -> ()
// KEPT: old
// FILES: bad.mlir
// FILES-NEXT: good.mlir
// FILES-NEXT: kept.mlir
// FILES-NOT: {{.}}
"test.op"() : () -> ()
