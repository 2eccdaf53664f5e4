// How the CUDA plugin is found and refused, without CUDA: a stand-in takes the place of the real plugin, and the toy
// device that of a GPU.

#include <cstdlib>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "backend/cuda_loader.hpp"
#include "tapestry/tapestry.hpp"
#include "toy_backend.hpp"

namespace tapestry::test {
namespace {

const std::string stand_in_path = STAND_IN;

CudaPlugin& stand_in() {
  static CudaPlugin* const plugin = [] {
    void* handle = dlopen(stand_in_path.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle, std::string(dlerror()));
    return static_cast<CudaPlugin*>(dlsym(handle, cuda_plugin_symbol));
  }();
  return *plugin;
}

int searches = 0;
CudaDevices toy_devices() {
  ++searches;
  CudaDevices found;
  found.backends.push_back(std::make_unique<ToyBackend>());
  found.status = "CUDA is available: a toy";
  return found;
}

constexpr CudaPlugin good{sizeof(CudaPlugin), cuda_layout, TAPESTRY_VERSION, &library_mark, toy_devices};

std::string status_of(const CudaPlugin& plugin) {
  stand_in() = plugin;
  const CudaDevices found = open_cuda({"", stand_in_path});
  CHECK(found.backends.empty());
  return found.status;
}

TEST_SUITE("CUDA loader") {
  // The first case: nothing may have opened the plugin yet.
  TEST_CASE("the plugin is opened when a CUDA device is first used, and never before") {
    const auto is_open = [] { return dlopen(stand_in_path.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr; };
    REQUIRE(std::getenv("TAPESTRY_CUDA_PLUGIN") == stand_in_path);
    const Tensor sum = reduce_sum(ones({2, 3}) + 1.0);
    CHECK(sum.item<float>() == 12.0F);
    CHECK(Device("/device:GPU:0") == cuda(0));
    {
      const Graph graph;
      const Graph::Scope scope(graph);
      const auto place = device("/cpu:0");
      CHECK(Session().run(constant(2.0) * 3.0).item<double>() == 6);
    }
    CHECK_FALSE(is_open());

    stand_in() = good;
    CHECK(searches == 0);
    const Tensor moved = sum.to(cuda(0));
    CHECK(is_open());
    CHECK(searches == 1);
    CHECK(moved.device() == cuda(0));
    CHECK((moved * 2.0).to(cpu()).item<float>() == 24.0F);
    CHECK(devices() == std::vector<Device>{cpu(), cuda(0)});
    CHECK(cuda_status() == "CUDA is available: a toy");
    CHECK(searches == 1);
    CHECK_THROWS_WITH_AS(sum.to(cuda(1)),
                         doctest::Contains("There is no device /device:GPU:1; available devices: /device:CPU:0, "
                                           "/device:GPU:0. CUDA is available: a toy"),
                         InvalidArgumentError);
  }

  TEST_CASE("TAPESTRY_CUDA=0 looks for nothing") {
    stand_in() = good;
    const CudaDevices found = open_cuda({"0", stand_in_path});
    CHECK(found.backends.empty());
    CHECK(found.status == "CUDA is not available: the environment variable TAPESTRY_CUDA is 0");
    CHECK(open_cuda({"1", stand_in_path}).backends.size() == 1);
  }

  TEST_CASE("a plugin that is not there, or none") {
    const std::string missing = open_cuda({"", "/no/such/plugin.so"}).status;
    CHECK(missing.starts_with(
        "CUDA is not available: TAPESTRY_CUDA_PLUGIN cannot be opened: /no/such/plugin.so: cannot open"));
    CHECK(open_cuda({"", "libm.so.6"}).status ==
          "CUDA is not available: the plugin does not define tapestry_cuda_plugin");
    // Beside this program there is none.
    const std::string nowhere = open_cuda({}).status;
    CHECK(
        nowhere.starts_with("CUDA is not available: this build of Tapestry has no CUDA backend: there is no "
                            "libtapestry_cuda.so beside "));
  }

  TEST_CASE("a plugin that does not belong to the library") {
    CudaPlugin other = good;
    other.version = "9.9.9";
    CHECK(status_of(other) ==
          "CUDA is not available: the plugin belongs to another version of Tapestry, 9.9.9, not " TAPESTRY_VERSION);
    other = good;
    other.bytes = 8;  // shorter than any version's: nothing behind it may be read
    other.version = nullptr;
    CHECK(status_of(other) == "CUDA is not available: the plugin belongs to another version of Tapestry");
    other = good;
    other.layout += 1;
    CHECK(status_of(other) ==
          "CUDA is not available: the plugin was compiled with another layout of Tapestry's structures");
    other = good;
    other.library = &other;
    CHECK(status_of(other).starts_with("CUDA is not available: the plugin works with the shared libtapestry only"));
  }

  TEST_CASE("the plugin's own reason is passed on") {
    CudaPlugin none = good;
    none.find = [] { return CudaDevices{{}, "there is no driver"}; };
    CHECK(status_of(none) == "CUDA is not available: there is no driver");
  }
}

}  // namespace
}  // namespace tapestry::test
