// RUN: raddle-opt %s --split-input-file --verify-diagnostics

// Meshes, rank classes, and what depends on them.

// expected-error @+1 {{'dist.mesh' op a mesh has one size per axis, but there are 2 axes and 1 sizes}}
"dist.mesh"() {sym_name = "mesh", axes = ["dp", "mp"], sizes = array<i64: 2>} : () -> ()

// -----

// expected-error @+1 {{'dist.mesh' op axis 'mp' must have a size of at least 1}}
dist.mesh @mesh ["dp" = 2, "mp" = 0]

// -----

// expected-error @+1 {{'dist.mesh' op a mesh has at most 1048576 ranks}}
dist.mesh @mesh ["dp" = 4294967296, "mp" = 4294967296]

// -----

module {
  module @inner {
    // expected-error @+1 {{'dist.mesh' op must stand in the top module}}
    dist.mesh @mesh ["dp" = 2]
  }
}

// -----

// expected-error @+1 {{'builtin.module' op names the mesh @mash, which is not defined}}
module @all attributes {dist.mesh = @mash, dist.ranks = [{}]} {
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{'builtin.module' op 'dist.ranks' must be an array of dictionaries from axis to array<i64>}}
module @all attributes {dist.mesh = @mesh} {
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{'builtin.module' op the mesh has no axis 'mp'}}
module @all attributes {dist.mesh = @mesh, dist.ranks = [{mp = array<i64: 0>}]} {
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{'builtin.module' op index 2 lies outside axis 'dp' of size 2}}
module @all attributes {dist.mesh = @mesh, dist.ranks = [{dp = array<i64: 0, 2>}]} {
}

// -----

// expected-error @+1 {{'dist.mesh' op has the rank {dp = 1, mp = 0} in two classes}}
dist.mesh @mesh ["dp" = 2, "mp" = 2]
// expected-note @+1 {{the first}}
module @a attributes {dist.mesh = @mesh, dist.ranks = [{mp = array<i64: 0>}]} {
}
// expected-note @+1 {{the second}}
module @b attributes {dist.mesh = @mesh, dist.ranks = [{dp = array<i64: 1>}, {dp = array<i64: 0>, mp = array<i64: 1>}]} {
}

// -----

// expected-error @+1 {{'dist.mesh' op has the rank {dp = 1, mp = 1} in no class}}
dist.mesh @mesh ["dp" = 2, "mp" = 2]
module @a attributes {dist.mesh = @mesh, dist.ranks = [{mp = array<i64: 0>}]} {
}
module @b attributes {dist.mesh = @mesh, dist.ranks = [{dp = array<i64: 0>, mp = array<i64: 1>}]} {
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{'builtin.module' op lists the rank {dp = 0} twice in 'dist.ranks'}}
module @a attributes {dist.mesh = @mesh, dist.ranks = [{}, {dp = array<i64: 0>}]} {
}

// -----

func.func @no_mesh(%x: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op there is no mesh here}}
  %0 = dist.all_reduce sum %x over ["dp"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "mp" = 3]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @f(%x: tensor<4xf32>, %flag: tensor<1xi1>) {
    // expected-error @+1 {{'dist.all_reduce' op the mesh has no axis 'tp'}}
    %0 = dist.all_reduce sum %x over ["tp"] : tensor<4xf32>
    // expected-error @+1 {{'dist.all_reduce' op needs at least one mesh axis}}
    %1 = dist.all_reduce sum %x over [] : tensor<4xf32>
    // expected-error @+1 {{'dist.all_reduce' op 'x' must hold numbers, but its element type is i1}}
    %2 = dist.all_reduce sum %flag over ["dp"] : tensor<1xi1>
    // expected-error @+1 {{'dist.reduce_scatter' op cannot cut extent 4 of dimension 0 among 3 ranks}}
    %3 = dist.reduce_scatter sum %x over ["mp"] {dim = 0 : i64} : (tensor<4xf32>) -> tensor<1xf32>
    // expected-error @+1 {{'dist.all_gather' op result #0 has type tensor<4xf32>, but tensor<24xf32> is expected}}
    %4 = dist.all_gather %x over ["mp", "dp"] {dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{'dist.broadcast' op has root 2 in a group of 2}}
    %5 = dist.broadcast %x over ["dp"] {root = 2 : i64} : tensor<4xf32>
    // expected-error @+1 {{'dist.send' op index 3 lies outside axis 'mp' of size 3}}
    dist.send %x {peer = {mp = 3 : i64}, tag = 0 : i64} : tensor<4xf32>
    // expected-error @+1 {{'dist.slice' op axis 'mp' is named twice}}
    %6 = dist.slice %x {dims = array<i64: 0>, starts = array<i64: 0>, sizes = array<i64: 1>, axes = [["mp", "mp"]]} : (tensor<4xf32>) -> tensor<1xf32>
    // expected-error @+1 {{'dist.slice' op takes 3 windows of 2 elements from 0 on, but dimension 0 has [4]}}
    %7 = dist.slice %x {dims = array<i64: 0>, starts = array<i64: 0>, sizes = array<i64: 2>, axes = [["mp"]]} : (tensor<4xf32>) -> tensor<2xf32>
    return
  }
}
