"""How lit runs the tests in this folder.

`cargo xtask test --only lit` passes the three parameters; lit started by hand finds the debug build of the tools by
itself.

  tools    the folder with raddle-opt, raddle-mlir, raddle-translate and raddle (default: target/debug)
  output   where %t files go (default: target/lit-tests)
  copies   where to keep a generic copy of every module that a tool prints (default: nowhere)
"""

import os
import shutil

import lit.formats
import lit.util

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
tools = os.path.normpath(lit_config.params.get("tools", os.path.join(root, "target", "debug")))
output = lit_config.params.get("output", os.path.join(root, "target", "lit-tests"))
copies = lit_config.params.get("copies")
llvm = "/usr/lib/llvm-22/bin"
venv = os.path.join(root, "target", "venv", "bin")

config.name = "raddle"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["data", "Inputs"]
config.test_source_root = os.path.join(root, "lit-tests")
config.test_exec_root = output

if not os.path.exists(os.path.join(tools, "raddle-opt")):
    lit_config.fatal(f"no raddle-opt in {tools}; run `cargo build --workspace` first")

# The built tools first, then FileCheck, not and mlir-opt, then whatever the system has.
config.environment["PATH"] = os.pathsep.join([tools, llvm, venv, "/usr/local/bin", "/usr/bin", "/bin"])

# Kernels that tests make are kept for the next run, apart from the user's own.
config.environment["XDG_CACHE_HOME"] = os.path.join(output, "cache")

# A test that hangs is a failure, not a wait.
config.maxIndividualTestTime = 120

# %tools is the folder with the built tools, %data that of inputs that several tests share, %examples that of examples.
config.substitutions.append(("%tools", tools))
config.substitutions.append(("%data", os.path.join(config.test_source_root, "data")))
config.substitutions.append(("%examples", os.path.join(root, "examples")))
config.substitutions.append(("%irdl", os.path.join(root, "dialect", "dist.irdl.mlir")))

# Every run of these also keeps what it printed, in generic form, for the comparison with stock MLIR.
if copies:
    for name in ["raddle-opt", "raddle-translate"]:
        config.substitutions.append((rf"(?<![\w/.-]){name}(?![\w/.-])", f"{name} --generic-copies={copies}"))

for name in ["mlir-opt", "ptxas", "nvdisasm", "cuobjdump"]:
    if shutil.which(name, path=config.environment["PATH"]):
        config.available_features.add(name)
if os.path.exists("/dev/nvidia0"):
    config.available_features.add("gpu")
