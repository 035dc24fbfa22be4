// RUN: raddle-opt %s --promote-linear --remarks --split-input-file --verify-diagnostics

// Reasons not to promote a bias that have no page of their own in this folder.

// There is no bias, only the product twice.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: what is added to the reduced product is not a parameter, so it is not a bias}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %s = dist.add %r, %r : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// One element is added everywhere.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<1xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: @b is not added along the last dimension of the product}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<1xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<1xf32>) -> tensor<4x16xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// The first rank owns the bias already.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], ["mp"]>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: @b is not replicated over ["mp"]}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// The add lies in another block.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: its ops lie in different blocks}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    cf.br ^next
  ^next:
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// The gradient of the add names something else than the bias.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<4x16xf32>, %v: tensor<16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: the gradient of its add names another operand}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %ag:2 = dist.add_grad %r, %v, %d : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
    return %s : tensor<4x16xf32>
  }
}

// -----

// A gradient with the bias that belongs to another add.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<4x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: a gradient of it belongs to no promoted layer}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %ag:2 = dist.add_grad %d, %b, %d : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
    return %s : tensor<4x16xf32>
  }
}

// -----

// What is made of the bias is stored elsewhere.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @copy buffer {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: what is computed from it is stored in @copy}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %c = dist.scale %b {scale = 2.0 : f64} : tensor<16xf32>
    dist.store @copy %c : tensor<16xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// The gradient of the bias is a result.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<4x16xf32>) -> tensor<16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: what is computed from it is returned}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %ag:2 = dist.add_grad %r, %b, %d : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
    return %ag#1 : tensor<16xf32>
  }
}

// -----

// Another function than those that gradients pass through reads the bias.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @copy buffer {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: 'dist.gelu' reads it, or what is computed from it, as operand #0}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %y = dist.gelu %b : tensor<16xf32>
    dist.store @copy %y : tensor<16xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// Another parameter is updated with the gradient of the bias.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @c parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<4x16xf32>, %lr: tensor<1xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: the 'dist.sgd' of another parameter depends on it}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %ag:2 = dist.add_grad %r, %b, %d : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
    %c = dist.load @c : tensor<16xf32>
    %n = dist.sgd %c, %ag#1, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
    dist.store @c %n : tensor<16xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// A norm that each rank would have computed in its own way.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @own buffer {layout = #dist.layout<[["mp"]], []>} : tensor<16xf32>
  dist.global @norm buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<4x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: 'dist.squared_l2_norm' of its gradient may differ between the ranks over ["mp"]}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %ag:2 = dist.add_grad %r, %b, %d : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
    %own = dist.load @own : tensor<16xf32>
    %m = dist.mul %ag#1, %own : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %n = dist.squared_l2_norm %m : (tensor<16xf32>) -> tensor<1xf32>
    %t = dist.sqrt %n : tensor<1xf32>
    dist.store @norm %t : tensor<1xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// Gradients of several parameters in one sum.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @sum buffer {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<4x16xf32>, %v: tensor<16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: its gradient is added to @sum, which holds something else as well}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %ag:2 = dist.add_grad %r, %b, %d : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
    dist.accumulate @sum %ag#1 : tensor<16xf32>
    dist.accumulate @sum %v : tensor<16xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// A sum that is not zeroed, but written.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @sum buffer {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<4x16xf32>, %v: tensor<16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: its gradient is added to @sum, which holds something else as well}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %ag:2 = dist.add_grad %r, %b, %d : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
    dist.accumulate @sum %ag#1 : tensor<16xf32>
    dist.store @sum %v : tensor<16xf32>
    return %s : tensor<4x16xf32>
  }
}

// -----

// A sum of a gradient before its reduction and after it.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @sum buffer {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<2x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: gradients before and after their reduction are added up}}
    %r = dist.reduce_scatter sum %p over ["mp"] {dim = 0 : i64} : (tensor<4x16xf32>) -> tensor<2x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<2x16xf32>, tensor<16xf32>) -> tensor<2x16xf32>
    %ag:2 = dist.add_grad %r, %b, %d : (tensor<2x16xf32>, tensor<16xf32>, tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<16xf32>)
    %all = dist.all_gather %ag#0 over ["mp"] {dim = 0 : i64} : (tensor<2x16xf32>) -> tensor<4x16xf32>
    %whole = dist.all_reduce sum %ag#1 over ["mp"] : tensor<16xf32>
    dist.accumulate @sum %whole : tensor<16xf32>
    dist.accumulate @sum %ag#1 : tensor<16xf32>
    return %all : tensor<4x16xf32>
  }
}

// -----

// Ranks would come to wait for each other.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<2x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: other collectives stand between its gradient and the all_gather that has to move before it}}
    %r = dist.reduce_scatter sum %p over ["mp"] {dim = 0 : i64} : (tensor<4x16xf32>) -> tensor<2x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<2x16xf32>, tensor<16xf32>) -> tensor<2x16xf32>
    %ag:2 = dist.add_grad %r, %b, %d : (tensor<2x16xf32>, tensor<16xf32>, tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<16xf32>)
    %o = dist.all_reduce max %d over ["mp"] : tensor<2x16xf32>
    %all = dist.all_gather %ag#0 over ["mp"] {dim = 0 : i64} : (tensor<2x16xf32>) -> tensor<4x16xf32>
    return %all : tensor<4x16xf32>
  }
}

// -----

// The other rank of the group does not add the bias.

dist.mesh @mesh ["mp" = 2]
module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: its rank class does not hold whole groups over ["mp"], and the classes of the other ranks do not add it in the same place}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    return %s : tensor<4x16xf32>
  }
}
module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: it has no bias: nothing is added to the reduced product}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    return %r : tensor<4x16xf32>
  }
}

// -----

// The loss scale is adapted by the op of the bias alone.

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @scale buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<4x16xf32>, %lr: tensor<1xf32>, %n: tensor<1xi32>) -> tensor<4x16xf32> attributes {dist.kind = "step"} {
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // expected-remark @+1 {{not promoted: bias @b: no other gradient of its loss scaling group would be left}}
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %ag:2 = dist.add_grad %r, %b, %d : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
    %scale = dist.load @scale : tensor<1xf32>
    %u:2 = dist.check_finite_and_unscale %ag#1, %scale {group = 0 : i64} : (tensor<16xf32>, tensor<1xf32>) -> (tensor<16xf32>, tensor<1xi1>)
    %l:4 = dist.update_loss_scaling %u#0, %u#1, %scale, %n, %n {group = 0 : i64, incr_every_n_steps = 100 : i64, decr_every_n_nan_or_inf = 2 : i64, incr_ratio = 2.0 : f64, decr_ratio = 0.5 : f64} : (tensor<16xf32>, tensor<1xi1>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>) -> (tensor<16xf32>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>)
    %new = dist.sgd %b, %l#0, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
    dist.store @b %new : tensor<16xf32>
    dist.store @scale %l#1 : tensor<1xf32>
    return %s : tensor<4x16xf32>
  }
}
