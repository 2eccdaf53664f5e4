#include <array>

#include "io/arrays/elements.hpp"
#include "io/arrays/npy.hpp"
#include "io/arrays/zip.hpp"
#include "tapestry/data/arrays.hpp"

namespace tapestry::data {

StateDict read_npz(const std::string& path, Where where) {
  constexpr std::string_view ending = ".npy";
  const io::ZipReader archive(path, where);
  StateDict tensors;
  for (const io::ZipReader::Member& member : archive.members()) {
    if (!member.name.ends_with(ending))
      throw UnimplementedError(detail::join(path, ", member ", member.name, " is not an NPY file"), where);
    const std::string name = member.name.substr(0, member.name.size() - ending.size());
    tensors.emplace(name, io::read_npy(*archive.open(member)));
  }
  return tensors;
}

void write_npz(const std::string& path, const StateDict& tensors, const NpzOptions& options, Where where) {
  io::ZipWriter archive;
  // The tensors and headers own the bytes that `archive.write` writes at the end.
  std::vector<Tensor> hosts;
  std::vector<std::string> headers;
  hosts.reserve(tensors.size());
  headers.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    if (name.size() > 60'000) throw InvalidArgumentError("A name has more than 60000 bytes", where);
    const Tensor& host = hosts.emplace_back(io::saved_form(tensor, name, where));
    const std::string& header = headers.emplace_back(io::npy_header(host, name, where));
    const std::array chunks{std::as_bytes(std::span(header)), io::bytes_of(host)};
    archive.add(name + ".npy", chunks, options.compress);
  }
  archive.write(path, where);
}

}  // namespace tapestry::data
