#include "backend/program.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "backend/cuda/compiler.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/disk_cache.hpp"
#include "backend/cuda/libraries.hpp"
#include "backend/cuda/program_text.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {
namespace {

/// Room for some thousand kernels.
constexpr std::uintmax_t most_cache_bytes = std::uintmax_t{64} << 20;

/// The reason why NVRTC is missing, or null; never deleted.
std::atomic<const std::string*> nvrtc_is_missing{nullptr};

/// Whether there is NVRTC, which the first call opens.
bool can_compile() {
  static const bool found = [] {
    try {
      nvrtc();
      return true;
    } catch (const NotFoundError& error) {
      nvrtc_is_missing = new std::string(error.message());
      return false;
    }
  }();
  return found;
}

cudaError_t load(const std::string& image, cudaKernel_t& kernel) {
  cudaLibrary_t library = nullptr;
  const cudaError_t error = cudaLibraryLoadData(&library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  return error == cudaSuccess ? cudaLibraryGetKernel(&kernel, library, "program") : error;
}

cudaKernel_t make(const ProgramKernel& kernel, int compute_capability) {
  const Target target = target_for(compute_capability);
  const std::string text = text_of(kernel), key = compilation_key(text, target);
  const DiskCache disk(cache_folder(), most_cache_bytes);
  cudaKernel_t made = nullptr;
  if (const std::optional<std::string> kept = disk.find(key)) {
    if (load(*kept, made) == cudaSuccess) return made;
    cudaGetLastError();  // the file is no kernel that the GPU can run
  }
  const std::string image = compile(text, target).image;
  check(load(image, made), "loading a program's kernel");
  disk.keep(key, image);
  return made;
}

/// The kernels of all programs that have run. All devices of one compute capability share them. They are never
/// unloaded, as plans have few different programs.
class Kernels {
 public:
  cudaKernel_t find(const ProgramKernel& kernel, const Context& gpu) {
    Entry& entry = entry_of(signature_of(kernel) + std::to_string(gpu.compute_capability()));
    // Other threads that need this kernel wait; threads that need another one do not.
    std::call_once(entry.once, [&] {
      gpu.require_execution();
      entry.kernel = make(kernel, gpu.compute_capability());
    });
    return entry.kernel;
  }

 private:
  struct Entry {
    std::once_flag once;
    cudaKernel_t kernel = nullptr;
  };
  Entry& entry_of(const std::string& signature) {
    const std::lock_guard lock(mutex_);
    return entries_[signature];
  }

  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
};

void start(Context& gpu, const Program& program, cudaKernel_t kernel, const ProgramPiece& piece) {
  std::vector<void*> arguments;
  const auto add = [&](const void* value) { arguments.push_back(const_cast<void*>(value)); };
  for (int k = 0; k < program.inputs + program.outputs; ++k) add(&piece.data[k]);
  add(&piece.n);
  for (const Program::Instruction& each : program.instructions)
    if (has_number(each)) add(&each.number);
  add(&piece.layout);  // ignored by a kernel without located arrays, which has no such parameter
  const unsigned blocks = blocks_for((piece.n + piece.form.width - 1) / piece.form.width);
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(block_threads), arguments.data(), 0,
                         gpu.stream()),
        "starting a program");
  gpu.started("a program");
}

}  // namespace

std::string program_details() {
  const std::string* reason = nvrtc_is_missing;
  return reason ? "; programs run one kernel after another: " + *reason : "";
}

void CudaBackend::program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (outputs[0].size() == 0) return;
  // A single function has a kernel already.
  if (program.instructions.size() == 1 || !can_compile() || !are_contiguous(outputs))
    return Backend::program(program, inputs, outputs);
  static Kernels& kernels = *new Kernels;
  Context& gpu = context();
  for_each_piece(inputs, outputs, [&](const ProgramPiece& piece) {
    start(gpu, program, kernels.find({program, inputs, piece.form}, gpu), piece);
  });
}

}  // namespace tapestry::gpu
