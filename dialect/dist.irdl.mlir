// The `dist` dialect for stock MLIR: mlir-opt --irdl-file=dist.irdl.mlir
// Generated from the definitions in dialect/src/ops; do not edit.

irdl.dialect @dist {
  irdl.type @token {
  }
  irdl.attribute @layout {
    %dims = irdl.base "#builtin.array"
    %partial = irdl.base "#builtin.array"
    irdl.parameters(dims: %dims, partial: %partial)
  }
  irdl.operation @mesh {
    %attr_sym_name = irdl.base "#builtin.string"
    %attr_axes = irdl.base "#builtin.array"
    %attr_sizes = irdl.base "#builtin.dense_array"
    irdl.attributes { "sym_name" = %attr_sym_name, "axes" = %attr_axes, "sizes" = %attr_sizes }
  }
  irdl.operation @global {
    %attr_sym_name = irdl.base "#builtin.string"
    %attr_kind_0 = irdl.is "parameter"
    %attr_kind_1 = irdl.is "state"
    %attr_kind_2 = irdl.is "buffer"
    %attr_kind = irdl.any_of(%attr_kind_0, %attr_kind_1, %attr_kind_2)
    %attr_type = irdl.base "#builtin.type"
    %attr_layout = irdl.base @dist::@layout
    irdl.attributes { "sym_name" = %attr_sym_name, "kind" = %attr_kind, "type" = %attr_type, "layout" = %attr_layout }
  }
  irdl.operation @load {
    %result_value = irdl.base "!builtin.tensor"
    %attr_global = irdl.base "#builtin.symbol_ref"
    irdl.results(value: %result_value)
    irdl.attributes { "global" = %attr_global }
  }
  irdl.operation @store {
    %operand_value = irdl.base "!builtin.tensor"
    %attr_global = irdl.base "#builtin.symbol_ref"
    irdl.operands(value: %operand_value)
    irdl.attributes { "global" = %attr_global }
  }
  irdl.operation @accumulate {
    %operand_value = irdl.base "!builtin.tensor"
    %attr_global = irdl.base "#builtin.symbol_ref"
    irdl.operands(value: %operand_value)
    irdl.attributes { "global" = %attr_global }
  }
  irdl.operation @schedule {
    %attr_kind = irdl.base "#builtin.string"
    %attr_microbatches = irdl.base "#builtin.integer"
    %attr_stages = irdl.base "#builtin.integer"
    %attr_chunks = irdl.base "#builtin.integer"
    %attr_placement = irdl.base "#builtin.dense_array"
    %attr_actions = irdl.base "#builtin.array"
    irdl.attributes { "kind" = %attr_kind, "microbatches" = %attr_microbatches, "stages" = %attr_stages, "chunks" = %attr_chunks, "placement" = %attr_placement, "actions" = %attr_actions }
  }
  irdl.operation @free {
    %operand_x = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
  }
  irdl.operation @event_record {
    %attr_event = irdl.base "#builtin.string"
    %attr_stream = irdl.base "#builtin.string"
    irdl.attributes { "event" = %attr_event, "stream" = %attr_stream }
  }
  irdl.operation @event_wait {
    %attr_event = irdl.base "#builtin.string"
    %attr_stream = irdl.base "#builtin.string"
    irdl.attributes { "event" = %attr_event, "stream" = %attr_stream }
  }
  irdl.operation @matmul {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %result_c = irdl.base "!builtin.tensor"
    %attr_transpose_a_0 = irdl.is true
    %attr_transpose_a_1 = irdl.is false
    %attr_transpose_a = irdl.any_of(%attr_transpose_a_0, %attr_transpose_a_1)
    %attr_transpose_b_0 = irdl.is true
    %attr_transpose_b_1 = irdl.is false
    %attr_transpose_b = irdl.any_of(%attr_transpose_b_0, %attr_transpose_b_1)
    irdl.operands(a: %operand_a, b: %operand_b)
    irdl.results(c: %result_c)
    irdl.attributes { "transpose_a" = %attr_transpose_a, "transpose_b" = %attr_transpose_b }
  }
  irdl.operation @matmul_grad {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_da = irdl.base "!builtin.tensor"
    %result_db = irdl.base "!builtin.tensor"
    %attr_transpose_a_0 = irdl.is true
    %attr_transpose_a_1 = irdl.is false
    %attr_transpose_a = irdl.any_of(%attr_transpose_a_0, %attr_transpose_a_1)
    %attr_transpose_b_0 = irdl.is true
    %attr_transpose_b_1 = irdl.is false
    %attr_transpose_b = irdl.any_of(%attr_transpose_b_0, %attr_transpose_b_1)
    irdl.operands(a: %operand_a, b: %operand_b, dout: %operand_dout)
    irdl.results(da: optional %result_da, db: optional %result_db)
    irdl.attributes { "transpose_a" = %attr_transpose_a, "transpose_b" = %attr_transpose_b }
  }
  irdl.operation @fused_linear {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_w = irdl.base "!builtin.tensor"
    %operand_bias = irdl.base "!builtin.tensor"
    %result_out = irdl.base "!builtin.tensor"
    %result_aux = irdl.base "!builtin.tensor"
    %attr_activation_0 = irdl.is "none"
    %attr_activation_1 = irdl.is "relu"
    %attr_activation_2 = irdl.is "gelu"
    %attr_activation_3 = irdl.is "gelu_tanh"
    %attr_activation_4 = irdl.is "silu"
    %attr_activation = irdl.any_of(%attr_activation_0, %attr_activation_1, %attr_activation_2, %attr_activation_3, %attr_activation_4)
    %attr_transpose_a_0 = irdl.is true
    %attr_transpose_a_1 = irdl.is false
    %attr_transpose_a = irdl.any_of(%attr_transpose_a_0, %attr_transpose_a_1)
    %attr_transpose_b_0 = irdl.is true
    %attr_transpose_b_1 = irdl.is false
    %attr_transpose_b = irdl.any_of(%attr_transpose_b_0, %attr_transpose_b_1)
    irdl.operands(x: %operand_x, w: %operand_w, bias: optional %operand_bias)
    irdl.results(out: %result_out, aux: optional %result_aux)
    irdl.attributes { "activation" = %attr_activation, "transpose_a" = %attr_transpose_a, "transpose_b" = %attr_transpose_b }
  }
  irdl.operation @fused_linear_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_w = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %operand_aux = irdl.base "!builtin.tensor"
    %operand_acc = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %result_dw = irdl.base "!builtin.tensor"
    %result_dbias = irdl.base "!builtin.tensor"
    %attr_activation_0 = irdl.is "none"
    %attr_activation_1 = irdl.is "relu"
    %attr_activation_2 = irdl.is "gelu"
    %attr_activation_3 = irdl.is "gelu_tanh"
    %attr_activation_4 = irdl.is "silu"
    %attr_activation = irdl.any_of(%attr_activation_0, %attr_activation_1, %attr_activation_2, %attr_activation_3, %attr_activation_4)
    %attr_transpose_a_0 = irdl.is true
    %attr_transpose_a_1 = irdl.is false
    %attr_transpose_a = irdl.any_of(%attr_transpose_a_0, %attr_transpose_a_1)
    %attr_transpose_b_0 = irdl.is true
    %attr_transpose_b_1 = irdl.is false
    %attr_transpose_b = irdl.any_of(%attr_transpose_b_0, %attr_transpose_b_1)
    %attr_overwrite_0 = irdl.is true
    %attr_overwrite_1 = irdl.is false
    %attr_overwrite = irdl.any_of(%attr_overwrite_0, %attr_overwrite_1)
    irdl.operands(x: %operand_x, w: %operand_w, dout: %operand_dout, aux: optional %operand_aux, acc: optional %operand_acc)
    irdl.results(dx: optional %result_dx, dw: optional %result_dw, dbias: optional %result_dbias)
    irdl.attributes { "activation" = %attr_activation, "transpose_a" = %attr_transpose_a, "transpose_b" = %attr_transpose_b, "overwrite" = %attr_overwrite }
  }
  irdl.operation @add {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %result_c = irdl.base "!builtin.tensor"
    irdl.operands(a: %operand_a, b: %operand_b)
    irdl.results(c: %result_c)
  }
  irdl.operation @sub {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %result_c = irdl.base "!builtin.tensor"
    irdl.operands(a: %operand_a, b: %operand_b)
    irdl.results(c: %result_c)
  }
  irdl.operation @mul {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %result_c = irdl.base "!builtin.tensor"
    irdl.operands(a: %operand_a, b: %operand_b)
    irdl.results(c: %result_c)
  }
  irdl.operation @div {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %result_c = irdl.base "!builtin.tensor"
    irdl.operands(a: %operand_a, b: %operand_b)
    irdl.results(c: %result_c)
  }
  irdl.operation @maximum {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %result_c = irdl.base "!builtin.tensor"
    irdl.operands(a: %operand_a, b: %operand_b)
    irdl.results(c: %result_c)
  }
  irdl.operation @sum {
    %operand_xs = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(xs: variadic %operand_xs)
    irdl.results(y: %result_y)
  }
  irdl.operation @any_of {
    %operand_xs = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(xs: variadic %operand_xs)
    irdl.results(y: %result_y)
  }
  irdl.operation @add_grad {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_da = irdl.base "!builtin.tensor"
    %result_db = irdl.base "!builtin.tensor"
    irdl.operands(a: %operand_a, b: %operand_b, dout: %operand_dout)
    irdl.results(da: optional %result_da, db: optional %result_db)
  }
  irdl.operation @mul_grad {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_da = irdl.base "!builtin.tensor"
    %result_db = irdl.base "!builtin.tensor"
    irdl.operands(a: %operand_a, b: %operand_b, dout: %operand_dout)
    irdl.results(da: optional %result_da, db: optional %result_db)
  }
  irdl.operation @div_grad {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_da = irdl.base "!builtin.tensor"
    %result_db = irdl.base "!builtin.tensor"
    irdl.operands(a: %operand_a, b: %operand_b, dout: %operand_dout)
    irdl.results(da: optional %result_da, db: optional %result_db)
  }
  irdl.operation @maximum_grad {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_da = irdl.base "!builtin.tensor"
    %result_db = irdl.base "!builtin.tensor"
    irdl.operands(a: %operand_a, b: %operand_b, dout: %operand_dout)
    irdl.results(da: optional %result_da, db: optional %result_db)
  }
  irdl.operation @scale {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_scale = irdl.base "#builtin.float"
    %attr_bias = irdl.base "#builtin.float"
    %attr_bias_after_scale_0 = irdl.is true
    %attr_bias_after_scale_1 = irdl.is false
    %attr_bias_after_scale = irdl.any_of(%attr_bias_after_scale_0, %attr_bias_after_scale_1)
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "scale" = %attr_scale, "bias" = %attr_bias, "bias_after_scale" = %attr_bias_after_scale }
  }
  irdl.operation @cast {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @sqrt {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @rsqrt {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @exp {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @log {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @clip {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_min = irdl.base "#builtin.float"
    %attr_max = irdl.base "#builtin.float"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "min" = %attr_min, "max" = %attr_max }
  }
  irdl.operation @clip_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %attr_min = irdl.base "#builtin.float"
    %attr_max = irdl.base "#builtin.float"
    irdl.operands(x: %operand_x, dout: %operand_dout)
    irdl.results(dx: %result_dx)
    irdl.attributes { "min" = %attr_min, "max" = %attr_max }
  }
  irdl.operation @identity {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @gelu {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_approximate_0 = irdl.is true
    %attr_approximate_1 = irdl.is false
    %attr_approximate = irdl.any_of(%attr_approximate_0, %attr_approximate_1)
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "approximate" = %attr_approximate }
  }
  irdl.operation @gelu_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %attr_approximate_0 = irdl.is true
    %attr_approximate_1 = irdl.is false
    %attr_approximate = irdl.any_of(%attr_approximate_0, %attr_approximate_1)
    irdl.operands(x: %operand_x, dout: %operand_dout)
    irdl.results(dx: %result_dx)
    irdl.attributes { "approximate" = %attr_approximate }
  }
  irdl.operation @relu {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @relu_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x, dout: %operand_dout)
    irdl.results(dx: %result_dx)
  }
  irdl.operation @silu {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @silu_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x, dout: %operand_dout)
    irdl.results(dx: %result_dx)
  }
  irdl.operation @tanh {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @tanh_grad {
    %operand_y = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    irdl.operands(y: %operand_y, dout: %operand_dout)
    irdl.results(dx: %result_dx)
  }
  irdl.operation @reshape {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @transpose {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_perm = irdl.base "#builtin.dense_array"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "perm" = %attr_perm }
  }
  irdl.operation @slice {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_dims = irdl.base "#builtin.dense_array"
    %attr_starts = irdl.base "#builtin.dense_array"
    %attr_sizes = irdl.base "#builtin.dense_array"
    %attr_axes = irdl.base "#builtin.array"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "dims" = %attr_dims, "starts" = %attr_starts, "sizes" = %attr_sizes, "axes" = %attr_axes }
  }
  irdl.operation @slice_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %attr_dims = irdl.base "#builtin.dense_array"
    %attr_starts = irdl.base "#builtin.dense_array"
    %attr_sizes = irdl.base "#builtin.dense_array"
    %attr_axes = irdl.base "#builtin.array"
    irdl.operands(x: %operand_x, dout: %operand_dout)
    irdl.results(dx: %result_dx)
    irdl.attributes { "dims" = %attr_dims, "starts" = %attr_starts, "sizes" = %attr_sizes, "axes" = %attr_axes }
  }
  irdl.operation @concat {
    %operand_xs = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_dim = irdl.base "#builtin.integer"
    irdl.operands(xs: variadic %operand_xs)
    irdl.results(y: %result_y)
    irdl.attributes { "dim" = %attr_dim }
  }
  irdl.operation @concat_pair {
    %operand_a = irdl.base "!builtin.tensor"
    %operand_b = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_dim = irdl.base "#builtin.integer"
    irdl.operands(a: %operand_a, b: %operand_b)
    irdl.results(y: %result_y)
    irdl.attributes { "dim" = %attr_dim }
  }
  irdl.operation @split {
    %operand_x = irdl.base "!builtin.tensor"
    %result_parts = irdl.base "!builtin.tensor"
    %attr_dim = irdl.base "#builtin.integer"
    irdl.operands(x: %operand_x)
    irdl.results(parts: variadic %result_parts)
    irdl.attributes { "dim" = %attr_dim }
  }
  irdl.operation @stack {
    %operand_xs = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_dim = irdl.base "#builtin.integer"
    irdl.operands(xs: variadic %operand_xs)
    irdl.results(y: %result_y)
    irdl.attributes { "dim" = %attr_dim }
  }
  irdl.operation @reduce_sum {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_dims = irdl.base "#builtin.dense_array"
    %attr_keep_dims_0 = irdl.is true
    %attr_keep_dims_1 = irdl.is false
    %attr_keep_dims = irdl.any_of(%attr_keep_dims_0, %attr_keep_dims_1)
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "dims" = %attr_dims, "keep_dims" = %attr_keep_dims }
  }
  irdl.operation @reduce_mean {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_dims = irdl.base "#builtin.dense_array"
    %attr_keep_dims_0 = irdl.is true
    %attr_keep_dims_1 = irdl.is false
    %attr_keep_dims = irdl.any_of(%attr_keep_dims_0, %attr_keep_dims_1)
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "dims" = %attr_dims, "keep_dims" = %attr_keep_dims }
  }
  irdl.operation @reduce_max {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_dims = irdl.base "#builtin.dense_array"
    %attr_keep_dims_0 = irdl.is true
    %attr_keep_dims_1 = irdl.is false
    %attr_keep_dims = irdl.any_of(%attr_keep_dims_0, %attr_keep_dims_1)
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "dims" = %attr_dims, "keep_dims" = %attr_keep_dims }
  }
  irdl.operation @reduce_any {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_dims = irdl.base "#builtin.dense_array"
    %attr_keep_dims_0 = irdl.is true
    %attr_keep_dims_1 = irdl.is false
    %attr_keep_dims = irdl.any_of(%attr_keep_dims_0, %attr_keep_dims_1)
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "dims" = %attr_dims, "keep_dims" = %attr_keep_dims }
  }
  irdl.operation @reduce_sum_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %attr_dims = irdl.base "#builtin.dense_array"
    %attr_keep_dims_0 = irdl.is true
    %attr_keep_dims_1 = irdl.is false
    %attr_keep_dims = irdl.any_of(%attr_keep_dims_0, %attr_keep_dims_1)
    irdl.operands(x: %operand_x, dout: %operand_dout)
    irdl.results(dx: %result_dx)
    irdl.attributes { "dims" = %attr_dims, "keep_dims" = %attr_keep_dims }
  }
  irdl.operation @reduce_mean_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %attr_dims = irdl.base "#builtin.dense_array"
    %attr_keep_dims_0 = irdl.is true
    %attr_keep_dims_1 = irdl.is false
    %attr_keep_dims = irdl.any_of(%attr_keep_dims_0, %attr_keep_dims_1)
    irdl.operands(x: %operand_x, dout: %operand_dout)
    irdl.results(dx: %result_dx)
    irdl.attributes { "dims" = %attr_dims, "keep_dims" = %attr_keep_dims }
  }
  irdl.operation @reduce_max_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_y = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %attr_dims = irdl.base "#builtin.dense_array"
    %attr_keep_dims_0 = irdl.is true
    %attr_keep_dims_1 = irdl.is false
    %attr_keep_dims = irdl.any_of(%attr_keep_dims_0, %attr_keep_dims_1)
    irdl.operands(x: %operand_x, y: %operand_y, dout: %operand_dout)
    irdl.results(dx: %result_dx)
    irdl.attributes { "dims" = %attr_dims, "keep_dims" = %attr_keep_dims }
  }
  irdl.operation @layer_norm {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_scale = irdl.base "!builtin.tensor"
    %operand_bias = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %result_mean = irdl.base "!builtin.tensor"
    %result_variance = irdl.base "!builtin.tensor"
    %attr_begin_norm_axis = irdl.base "#builtin.integer"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %operand_x, scale: optional %operand_scale, bias: optional %operand_bias)
    irdl.results(y: %result_y, mean: %result_mean, variance: %result_variance)
    irdl.attributes { "begin_norm_axis" = %attr_begin_norm_axis, "epsilon" = %attr_epsilon }
  }
  irdl.operation @layer_norm_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_scale = irdl.base "!builtin.tensor"
    %operand_bias = irdl.base "!builtin.tensor"
    %operand_mean = irdl.base "!builtin.tensor"
    %operand_variance = irdl.base "!builtin.tensor"
    %operand_dy = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %result_dscale = irdl.base "!builtin.tensor"
    %result_dbias = irdl.base "!builtin.tensor"
    %attr_begin_norm_axis = irdl.base "#builtin.integer"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %operand_x, scale: optional %operand_scale, bias: optional %operand_bias, mean: %operand_mean, variance: %operand_variance, dy: %operand_dy)
    irdl.results(dx: optional %result_dx, dscale: optional %result_dscale, dbias: optional %result_dbias)
    irdl.attributes { "begin_norm_axis" = %attr_begin_norm_axis, "epsilon" = %attr_epsilon }
  }
  irdl.operation @rms_norm {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_scale = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %result_inverse_rms = irdl.base "!builtin.tensor"
    %attr_begin_norm_axis = irdl.base "#builtin.integer"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %operand_x, scale: optional %operand_scale)
    irdl.results(y: %result_y, inverse_rms: %result_inverse_rms)
    irdl.attributes { "begin_norm_axis" = %attr_begin_norm_axis, "epsilon" = %attr_epsilon }
  }
  irdl.operation @rms_norm_grad {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_scale = irdl.base "!builtin.tensor"
    %operand_inverse_rms = irdl.base "!builtin.tensor"
    %operand_dy = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %result_dscale = irdl.base "!builtin.tensor"
    %attr_begin_norm_axis = irdl.base "#builtin.integer"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %operand_x, scale: optional %operand_scale, inverse_rms: %operand_inverse_rms, dy: %operand_dy)
    irdl.results(dx: optional %result_dx, dscale: optional %result_dscale)
    irdl.attributes { "begin_norm_axis" = %attr_begin_norm_axis, "epsilon" = %attr_epsilon }
  }
  irdl.operation @softmax {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_dim = irdl.base "#builtin.integer"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "dim" = %attr_dim }
  }
  irdl.operation @softmax_grad {
    %operand_y = irdl.base "!builtin.tensor"
    %operand_dy = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %attr_dim = irdl.base "#builtin.integer"
    irdl.operands(y: %operand_y, dy: %operand_dy)
    irdl.results(dx: %result_dx)
    irdl.attributes { "dim" = %attr_dim }
  }
  irdl.operation @softmax_cross_entropy {
    %operand_logits = irdl.base "!builtin.tensor"
    %operand_labels = irdl.base "!builtin.tensor"
    %result_loss = irdl.base "!builtin.tensor"
    %result_softmax = irdl.base "!builtin.tensor"
    %attr_axes = irdl.base "#builtin.array"
    %attr_ignore_index = irdl.base "#builtin.integer"
    irdl.operands(logits: %operand_logits, labels: %operand_labels)
    irdl.results(loss: %result_loss, softmax: %result_softmax)
    irdl.attributes { "axes" = %attr_axes, "ignore_index" = %attr_ignore_index }
  }
  irdl.operation @softmax_cross_entropy_grad {
    %operand_softmax = irdl.base "!builtin.tensor"
    %operand_labels = irdl.base "!builtin.tensor"
    %operand_dloss = irdl.base "!builtin.tensor"
    %result_dlogits = irdl.base "!builtin.tensor"
    %attr_axes = irdl.base "#builtin.array"
    %attr_ignore_index = irdl.base "#builtin.integer"
    irdl.operands(softmax: %operand_softmax, labels: %operand_labels, dloss: %operand_dloss)
    irdl.results(dlogits: %result_dlogits)
    irdl.attributes { "axes" = %attr_axes, "ignore_index" = %attr_ignore_index }
  }
  irdl.operation @embedding {
    %operand_ids = irdl.base "!builtin.tensor"
    %operand_table = irdl.base "!builtin.tensor"
    %result_out = irdl.base "!builtin.tensor"
    %attr_axes = irdl.base "#builtin.array"
    irdl.operands(ids: %operand_ids, table: %operand_table)
    irdl.results(out: %result_out)
    irdl.attributes { "axes" = %attr_axes }
  }
  irdl.operation @embedding_grad {
    %operand_ids = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dtable = irdl.base "!builtin.tensor"
    %attr_axes = irdl.base "#builtin.array"
    irdl.operands(ids: %operand_ids, dout: %operand_dout)
    irdl.results(dtable: %result_dtable)
    irdl.attributes { "axes" = %attr_axes }
  }
  irdl.operation @dropout {
    %operand_x = irdl.base "!builtin.tensor"
    %result_out = irdl.base "!builtin.tensor"
    %result_mask = irdl.base "!builtin.tensor"
    %attr_rate = irdl.base "#builtin.float"
    %attr_seed = irdl.base "#builtin.integer"
    %attr_axes = irdl.base "#builtin.array"
    irdl.operands(x: %operand_x)
    irdl.results(out: %result_out, mask: %result_mask)
    irdl.attributes { "rate" = %attr_rate, "seed" = %attr_seed, "axes" = %attr_axes }
  }
  irdl.operation @dropout_grad {
    %operand_dout = irdl.base "!builtin.tensor"
    %operand_mask = irdl.base "!builtin.tensor"
    %result_dx = irdl.base "!builtin.tensor"
    %attr_rate = irdl.base "#builtin.float"
    irdl.operands(dout: %operand_dout, mask: %operand_mask)
    irdl.results(dx: %result_dx)
    irdl.attributes { "rate" = %attr_rate }
  }
  irdl.operation @attention {
    %operand_q = irdl.base "!builtin.tensor"
    %operand_k = irdl.base "!builtin.tensor"
    %operand_v = irdl.base "!builtin.tensor"
    %result_out = irdl.base "!builtin.tensor"
    %result_log_sum_exp = irdl.base "!builtin.tensor"
    %attr_causal_0 = irdl.is true
    %attr_causal_1 = irdl.is false
    %attr_causal = irdl.any_of(%attr_causal_0, %attr_causal_1)
    %attr_scale = irdl.base "#builtin.float"
    %attr_dropout = irdl.base "#builtin.float"
    %attr_seed = irdl.base "#builtin.integer"
    %attr_axes = irdl.base "#builtin.array"
    irdl.operands(q: %operand_q, k: %operand_k, v: %operand_v)
    irdl.results(out: %result_out, log_sum_exp: %result_log_sum_exp)
    irdl.attributes { "causal" = %attr_causal, "scale" = %attr_scale, "dropout" = %attr_dropout, "seed" = %attr_seed, "axes" = %attr_axes }
  }
  irdl.operation @attention_grad {
    %operand_q = irdl.base "!builtin.tensor"
    %operand_k = irdl.base "!builtin.tensor"
    %operand_v = irdl.base "!builtin.tensor"
    %operand_out = irdl.base "!builtin.tensor"
    %operand_log_sum_exp = irdl.base "!builtin.tensor"
    %operand_dout = irdl.base "!builtin.tensor"
    %result_dq = irdl.base "!builtin.tensor"
    %result_dk = irdl.base "!builtin.tensor"
    %result_dv = irdl.base "!builtin.tensor"
    %attr_causal_0 = irdl.is true
    %attr_causal_1 = irdl.is false
    %attr_causal = irdl.any_of(%attr_causal_0, %attr_causal_1)
    %attr_scale = irdl.base "#builtin.float"
    %attr_dropout = irdl.base "#builtin.float"
    %attr_seed = irdl.base "#builtin.integer"
    %attr_axes = irdl.base "#builtin.array"
    irdl.operands(q: %operand_q, k: %operand_k, v: %operand_v, out: %operand_out, log_sum_exp: %operand_log_sum_exp, dout: %operand_dout)
    irdl.results(dq: optional %result_dq, dk: optional %result_dk, dv: optional %result_dv)
    irdl.attributes { "causal" = %attr_causal, "scale" = %attr_scale, "dropout" = %attr_dropout, "seed" = %attr_seed, "axes" = %attr_axes }
  }
  irdl.operation @all_reduce {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_reduction_0 = irdl.is "sum"
    %attr_reduction_1 = irdl.is "avg"
    %attr_reduction_2 = irdl.is "max"
    %attr_reduction_3 = irdl.is "min"
    %attr_reduction_4 = irdl.is "prod"
    %attr_reduction_5 = irdl.is "any"
    %attr_reduction = irdl.any_of(%attr_reduction_0, %attr_reduction_1, %attr_reduction_2, %attr_reduction_3, %attr_reduction_4, %attr_reduction_5)
    %attr_axes = irdl.base "#builtin.array"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "reduction" = %attr_reduction, "axes" = %attr_axes }
  }
  irdl.operation @reduce_scatter {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_reduction_0 = irdl.is "sum"
    %attr_reduction_1 = irdl.is "avg"
    %attr_reduction_2 = irdl.is "max"
    %attr_reduction_3 = irdl.is "min"
    %attr_reduction_4 = irdl.is "prod"
    %attr_reduction_5 = irdl.is "any"
    %attr_reduction = irdl.any_of(%attr_reduction_0, %attr_reduction_1, %attr_reduction_2, %attr_reduction_3, %attr_reduction_4, %attr_reduction_5)
    %attr_axes = irdl.base "#builtin.array"
    %attr_dim = irdl.base "#builtin.integer"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "reduction" = %attr_reduction, "axes" = %attr_axes, "dim" = %attr_dim }
  }
  irdl.operation @all_gather {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.base "#builtin.array"
    %attr_dim = irdl.base "#builtin.integer"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "axes" = %attr_axes, "dim" = %attr_dim }
  }
  irdl.operation @all_to_all {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.base "#builtin.array"
    %attr_split_dim = irdl.base "#builtin.integer"
    %attr_concat_dim = irdl.base "#builtin.integer"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "axes" = %attr_axes, "split_dim" = %attr_split_dim, "concat_dim" = %attr_concat_dim }
  }
  irdl.operation @broadcast {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.base "#builtin.array"
    %attr_root = irdl.base "#builtin.integer"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "axes" = %attr_axes, "root" = %attr_root }
  }
  irdl.operation @send {
    %operand_x = irdl.base "!builtin.tensor"
    %attr_peer = irdl.base "#builtin.dictionary"
    %attr_tag = irdl.base "#builtin.integer"
    irdl.operands(x: %operand_x)
    irdl.attributes { "peer" = %attr_peer, "tag" = %attr_tag }
  }
  irdl.operation @recv {
    %result_y = irdl.base "!builtin.tensor"
    %attr_peer = irdl.base "#builtin.dictionary"
    %attr_tag = irdl.base "#builtin.integer"
    irdl.results(y: %result_y)
    irdl.attributes { "peer" = %attr_peer, "tag" = %attr_tag }
  }
  irdl.operation @barrier {
    %attr_axes = irdl.base "#builtin.array"
    irdl.attributes { "axes" = %attr_axes }
  }
  irdl.operation @check_finite_and_unscale {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_scale = irdl.base "!builtin.tensor"
    %result_out = irdl.base "!builtin.tensor"
    %result_found_inf = irdl.base "!builtin.tensor"
    %attr_group = irdl.base "#builtin.integer"
    irdl.operands(x: %operand_x, scale: %operand_scale)
    irdl.results(out: %result_out, found_inf: %result_found_inf)
    irdl.attributes { "group" = %attr_group }
  }
  irdl.operation @update_loss_scaling {
    %operand_x = irdl.base "!builtin.tensor"
    %operand_found_inf = irdl.base "!builtin.tensor"
    %operand_scale = irdl.base "!builtin.tensor"
    %operand_good = irdl.base "!builtin.tensor"
    %operand_bad = irdl.base "!builtin.tensor"
    %result_out = irdl.base "!builtin.tensor"
    %result_new_scale = irdl.base "!builtin.tensor"
    %result_new_good = irdl.base "!builtin.tensor"
    %result_new_bad = irdl.base "!builtin.tensor"
    %attr_group = irdl.base "#builtin.integer"
    %attr_incr_every_n_steps = irdl.base "#builtin.integer"
    %attr_decr_every_n_nan_or_inf = irdl.base "#builtin.integer"
    %attr_incr_ratio = irdl.base "#builtin.float"
    %attr_decr_ratio = irdl.base "#builtin.float"
    %attr_stop_update_0 = irdl.is true
    %attr_stop_update_1 = irdl.is false
    %attr_stop_update = irdl.any_of(%attr_stop_update_0, %attr_stop_update_1)
    irdl.operands(x: %operand_x, found_inf: %operand_found_inf, scale: %operand_scale, good: %operand_good, bad: %operand_bad)
    irdl.results(out: %result_out, new_scale: %result_new_scale, new_good: %result_new_good, new_bad: %result_new_bad)
    irdl.attributes { "group" = %attr_group, "incr_every_n_steps" = %attr_incr_every_n_steps, "decr_every_n_nan_or_inf" = %attr_decr_every_n_nan_or_inf, "incr_ratio" = %attr_incr_ratio, "decr_ratio" = %attr_decr_ratio, "stop_update" = %attr_stop_update }
  }
  irdl.operation @squared_l2_norm {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
  }
  irdl.operation @clip_by_norm {
    %operand_x = irdl.base "!builtin.tensor"
    %result_y = irdl.base "!builtin.tensor"
    %attr_max_norm = irdl.base "#builtin.float"
    irdl.operands(x: %operand_x)
    irdl.results(y: %result_y)
    irdl.attributes { "max_norm" = %attr_max_norm }
  }
  irdl.operation @sgd {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %operand_master = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_master = irdl.base "!builtin.tensor"
    irdl.operands(param: %operand_param, grad: %operand_grad, lr: %operand_lr, master: optional %operand_master)
    irdl.results(new_param: %result_new_param, new_master: optional %result_new_master)
  }
  irdl.operation @momentum {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_velocity = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %operand_master = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_velocity = irdl.base "!builtin.tensor"
    %result_new_master = irdl.base "!builtin.tensor"
    %attr_mu = irdl.base "#builtin.float"
    %attr_use_nesterov_0 = irdl.is true
    %attr_use_nesterov_1 = irdl.is false
    %attr_use_nesterov = irdl.any_of(%attr_use_nesterov_0, %attr_use_nesterov_1)
    %attr_l2_decay = irdl.base "#builtin.float"
    %attr_rescale_grad = irdl.base "#builtin.float"
    irdl.operands(param: %operand_param, grad: %operand_grad, velocity: %operand_velocity, lr: %operand_lr, master: optional %operand_master)
    irdl.results(new_param: %result_new_param, new_velocity: %result_new_velocity, new_master: optional %result_new_master)
    irdl.attributes { "mu" = %attr_mu, "use_nesterov" = %attr_use_nesterov, "l2_decay" = %attr_l2_decay, "rescale_grad" = %attr_rescale_grad }
  }
  irdl.operation @merged_momentum {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_velocity = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %operand_master = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_velocity = irdl.base "!builtin.tensor"
    %result_new_master = irdl.base "!builtin.tensor"
    %attr_group = irdl.base "#builtin.integer"
    %attr_mu = irdl.base "#builtin.float"
    %attr_use_nesterov_0 = irdl.is true
    %attr_use_nesterov_1 = irdl.is false
    %attr_use_nesterov = irdl.any_of(%attr_use_nesterov_0, %attr_use_nesterov_1)
    %attr_l2_decay = irdl.base "#builtin.float"
    %attr_rescale_grad = irdl.base "#builtin.float"
    irdl.operands(param: %operand_param, grad: %operand_grad, velocity: %operand_velocity, lr: %operand_lr, master: optional %operand_master)
    irdl.results(new_param: %result_new_param, new_velocity: %result_new_velocity, new_master: optional %result_new_master)
    irdl.attributes { "group" = %attr_group, "mu" = %attr_mu, "use_nesterov" = %attr_use_nesterov, "l2_decay" = %attr_l2_decay, "rescale_grad" = %attr_rescale_grad }
  }
  irdl.operation @dgc_momentum {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_velocity = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %operand_master = irdl.base "!builtin.tensor"
    %operand_current_step = irdl.base "!builtin.tensor"
    %operand_nranks = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_velocity = irdl.base "!builtin.tensor"
    %result_new_master = irdl.base "!builtin.tensor"
    %result_new_grad = irdl.base "!builtin.tensor"
    %attr_mu = irdl.base "#builtin.float"
    %attr_use_nesterov_0 = irdl.is true
    %attr_use_nesterov_1 = irdl.is false
    %attr_use_nesterov = irdl.any_of(%attr_use_nesterov_0, %attr_use_nesterov_1)
    %attr_l2_decay = irdl.base "#builtin.float"
    %attr_rescale_grad = irdl.base "#builtin.float"
    %attr_rampup_begin_step = irdl.base "#builtin.float"
    irdl.operands(param: %operand_param, grad: %operand_grad, velocity: %operand_velocity, lr: %operand_lr, master: optional %operand_master, current_step: %operand_current_step, nranks: %operand_nranks)
    irdl.results(new_param: %result_new_param, new_velocity: %result_new_velocity, new_master: optional %result_new_master, new_grad: optional %result_new_grad)
    irdl.attributes { "mu" = %attr_mu, "use_nesterov" = %attr_use_nesterov, "l2_decay" = %attr_l2_decay, "rescale_grad" = %attr_rescale_grad, "rampup_begin_step" = %attr_rampup_begin_step }
  }
  irdl.operation @lars_momentum {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_velocity = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %operand_master = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_velocity = irdl.base "!builtin.tensor"
    %result_new_master = irdl.base "!builtin.tensor"
    %attr_group = irdl.base "#builtin.integer"
    %attr_mu = irdl.base "#builtin.float"
    %attr_lars_coeff = irdl.base "#builtin.float"
    %attr_lars_weight_decay = irdl.base "#builtin.float"
    %attr_epsilon = irdl.base "#builtin.float"
    %attr_rescale_grad = irdl.base "#builtin.float"
    %attr_local_norms_0 = irdl.is true
    %attr_local_norms_1 = irdl.is false
    %attr_local_norms = irdl.any_of(%attr_local_norms_0, %attr_local_norms_1)
    irdl.operands(param: %operand_param, grad: %operand_grad, velocity: %operand_velocity, lr: %operand_lr, master: optional %operand_master)
    irdl.results(new_param: %result_new_param, new_velocity: %result_new_velocity, new_master: optional %result_new_master)
    irdl.attributes { "group" = %attr_group, "mu" = %attr_mu, "lars_coeff" = %attr_lars_coeff, "lars_weight_decay" = %attr_lars_weight_decay, "epsilon" = %attr_epsilon, "rescale_grad" = %attr_rescale_grad, "local_norms" = %attr_local_norms }
  }
  irdl.operation @adam {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_moment1 = irdl.base "!builtin.tensor"
    %operand_moment2 = irdl.base "!builtin.tensor"
    %operand_beta1_pow = irdl.base "!builtin.tensor"
    %operand_beta2_pow = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %operand_skip_update = irdl.base "!builtin.tensor"
    %operand_master = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_moment1 = irdl.base "!builtin.tensor"
    %result_new_moment2 = irdl.base "!builtin.tensor"
    %result_new_beta1_pow = irdl.base "!builtin.tensor"
    %result_new_beta2_pow = irdl.base "!builtin.tensor"
    %result_new_master = irdl.base "!builtin.tensor"
    %attr_beta1 = irdl.base "#builtin.float"
    %attr_beta2 = irdl.base "#builtin.float"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(param: %operand_param, grad: %operand_grad, moment1: %operand_moment1, moment2: %operand_moment2, beta1_pow: %operand_beta1_pow, beta2_pow: %operand_beta2_pow, lr: %operand_lr, skip_update: optional %operand_skip_update, master: optional %operand_master)
    irdl.results(new_param: %result_new_param, new_moment1: %result_new_moment1, new_moment2: %result_new_moment2, new_beta1_pow: %result_new_beta1_pow, new_beta2_pow: %result_new_beta2_pow, new_master: optional %result_new_master)
    irdl.attributes { "beta1" = %attr_beta1, "beta2" = %attr_beta2, "epsilon" = %attr_epsilon }
  }
  irdl.operation @adamw {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_moment1 = irdl.base "!builtin.tensor"
    %operand_moment2 = irdl.base "!builtin.tensor"
    %operand_beta1_pow = irdl.base "!builtin.tensor"
    %operand_beta2_pow = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %operand_skip_update = irdl.base "!builtin.tensor"
    %operand_master = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_moment1 = irdl.base "!builtin.tensor"
    %result_new_moment2 = irdl.base "!builtin.tensor"
    %result_new_beta1_pow = irdl.base "!builtin.tensor"
    %result_new_beta2_pow = irdl.base "!builtin.tensor"
    %result_new_master = irdl.base "!builtin.tensor"
    %attr_beta1 = irdl.base "#builtin.float"
    %attr_beta2 = irdl.base "#builtin.float"
    %attr_epsilon = irdl.base "#builtin.float"
    %attr_weight_decay = irdl.base "#builtin.float"
    %attr_lr_ratio = irdl.base "#builtin.float"
    %attr_with_decay_0 = irdl.is true
    %attr_with_decay_1 = irdl.is false
    %attr_with_decay = irdl.any_of(%attr_with_decay_0, %attr_with_decay_1)
    irdl.operands(param: %operand_param, grad: %operand_grad, moment1: %operand_moment1, moment2: %operand_moment2, beta1_pow: %operand_beta1_pow, beta2_pow: %operand_beta2_pow, lr: %operand_lr, skip_update: optional %operand_skip_update, master: optional %operand_master)
    irdl.results(new_param: %result_new_param, new_moment1: %result_new_moment1, new_moment2: %result_new_moment2, new_beta1_pow: %result_new_beta1_pow, new_beta2_pow: %result_new_beta2_pow, new_master: optional %result_new_master)
    irdl.attributes { "beta1" = %attr_beta1, "beta2" = %attr_beta2, "epsilon" = %attr_epsilon, "weight_decay" = %attr_weight_decay, "lr_ratio" = %attr_lr_ratio, "with_decay" = %attr_with_decay }
  }
  irdl.operation @adamax {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_moment = irdl.base "!builtin.tensor"
    %operand_inf_norm = irdl.base "!builtin.tensor"
    %operand_beta1_pow = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %operand_master = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_moment = irdl.base "!builtin.tensor"
    %result_new_inf_norm = irdl.base "!builtin.tensor"
    %result_new_master = irdl.base "!builtin.tensor"
    %attr_beta1 = irdl.base "#builtin.float"
    %attr_beta2 = irdl.base "#builtin.float"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(param: %operand_param, grad: %operand_grad, moment: %operand_moment, inf_norm: %operand_inf_norm, beta1_pow: %operand_beta1_pow, lr: %operand_lr, master: optional %operand_master)
    irdl.results(new_param: %result_new_param, new_moment: %result_new_moment, new_inf_norm: %result_new_inf_norm, new_master: optional %result_new_master)
    irdl.attributes { "beta1" = %attr_beta1, "beta2" = %attr_beta2, "epsilon" = %attr_epsilon }
  }
  irdl.operation @lamb {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_moment1 = irdl.base "!builtin.tensor"
    %operand_moment2 = irdl.base "!builtin.tensor"
    %operand_beta1_pow = irdl.base "!builtin.tensor"
    %operand_beta2_pow = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %operand_skip_update = irdl.base "!builtin.tensor"
    %operand_master = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_moment1 = irdl.base "!builtin.tensor"
    %result_new_moment2 = irdl.base "!builtin.tensor"
    %result_new_beta1_pow = irdl.base "!builtin.tensor"
    %result_new_beta2_pow = irdl.base "!builtin.tensor"
    %result_new_master = irdl.base "!builtin.tensor"
    %attr_beta1 = irdl.base "#builtin.float"
    %attr_beta2 = irdl.base "#builtin.float"
    %attr_epsilon = irdl.base "#builtin.float"
    %attr_weight_decay = irdl.base "#builtin.float"
    %attr_always_adapt_0 = irdl.is true
    %attr_always_adapt_1 = irdl.is false
    %attr_always_adapt = irdl.any_of(%attr_always_adapt_0, %attr_always_adapt_1)
    %attr_local_norms_0 = irdl.is true
    %attr_local_norms_1 = irdl.is false
    %attr_local_norms = irdl.any_of(%attr_local_norms_0, %attr_local_norms_1)
    irdl.operands(param: %operand_param, grad: %operand_grad, moment1: %operand_moment1, moment2: %operand_moment2, beta1_pow: %operand_beta1_pow, beta2_pow: %operand_beta2_pow, lr: %operand_lr, skip_update: optional %operand_skip_update, master: optional %operand_master)
    irdl.results(new_param: %result_new_param, new_moment1: %result_new_moment1, new_moment2: %result_new_moment2, new_beta1_pow: %result_new_beta1_pow, new_beta2_pow: %result_new_beta2_pow, new_master: optional %result_new_master)
    irdl.attributes { "beta1" = %attr_beta1, "beta2" = %attr_beta2, "epsilon" = %attr_epsilon, "weight_decay" = %attr_weight_decay, "always_adapt" = %attr_always_adapt, "local_norms" = %attr_local_norms }
  }
  irdl.operation @decayed_adagrad {
    %operand_param = irdl.base "!builtin.tensor"
    %operand_grad = irdl.base "!builtin.tensor"
    %operand_moment = irdl.base "!builtin.tensor"
    %operand_lr = irdl.base "!builtin.tensor"
    %result_new_param = irdl.base "!builtin.tensor"
    %result_new_moment = irdl.base "!builtin.tensor"
    %attr_decay = irdl.base "#builtin.float"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(param: %operand_param, grad: %operand_grad, moment: %operand_moment, lr: %operand_lr)
    irdl.results(new_param: %result_new_param, new_moment: %result_new_moment)
    irdl.attributes { "decay" = %attr_decay, "epsilon" = %attr_epsilon }
  }
  irdl.operation @fill {
    %result_y = irdl.base "!builtin.tensor"
    %attr_value = irdl.base "#builtin.float"
    irdl.results(y: %result_y)
    irdl.attributes { "value" = %attr_value }
  }
  irdl.operation @uniform {
    %result_y = irdl.base "!builtin.tensor"
    %attr_min = irdl.base "#builtin.float"
    %attr_max = irdl.base "#builtin.float"
    %attr_seed = irdl.base "#builtin.integer"
    irdl.results(y: %result_y)
    irdl.attributes { "min" = %attr_min, "max" = %attr_max, "seed" = %attr_seed }
  }
  irdl.operation @gaussian {
    %result_y = irdl.base "!builtin.tensor"
    %attr_mean = irdl.base "#builtin.float"
    %attr_std = irdl.base "#builtin.float"
    %attr_seed = irdl.base "#builtin.integer"
    irdl.results(y: %result_y)
    irdl.attributes { "mean" = %attr_mean, "std" = %attr_std, "seed" = %attr_seed }
  }
}
