#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "io/tensorflow/graph_def.hpp"

/// What the splitting of graphs reads of NodeDefs.

namespace tapestry::io::rpc {

/// An input of a node: "n", "n:k" or "^n".
struct Edge {
  std::string node{};
  int output = 0;
  bool is_control = false;

  /// "n:k"
  std::string tensor() const { return detail::join(node, ":", output); }
  /// As nodes have it: "n" for output 0.
  std::string input() const { return output == 0 ? node : tensor(); }
};

inline Edge edge_of(std::string_view input) {
  if (input.starts_with('^')) return {.node = std::string(input.substr(1)), .is_control = true};
  const std::size_t colon = input.rfind(':');
  if (colon == std::string_view::npos) return {.node = std::string(input)};
  Edge edge{.node = std::string(input.substr(0, colon))};
  std::from_chars(input.data() + colon + 1, input.data() + input.size(), edge.output);
  return edge;
}

template <class T>
T attr_or(const NodeDef& node, std::string_view name, T otherwise) {
  const auto found = node.attrs.find(name);
  const T* value = found == node.attrs.end() ? nullptr : std::get_if<T>(&found->second);
  return value ? *value : otherwise;
}

/// Where a tensor is sent from, and where to: the attributes of a `_Send` and its `_Recv`.
struct Transfer {
  std::string tensor_name{}, send_device{}, recv_device{};
  std::int64_t incarnation = 0;  ///< of the sending device
  bool is_clients = false;       ///< the client of the session feeds or fetches it

  explicit Transfer(const NodeDef& node)
      : tensor_name(attr_or<std::string>(node, "tensor_name", "")),
        send_device(attr_or<std::string>(node, "send_device", "")),
        recv_device(attr_or<std::string>(node, "recv_device", "")),
        incarnation(attr_or<std::int64_t>(node, "send_device_incarnation", 0)),
        is_clients(attr_or<bool>(node, "client_terminated", false)) {}
  Transfer() = default;

  void write_to(NodeDef& node) const {
    node.attrs.insert_or_assign("tensor_name", tensor_name);
    node.attrs.insert_or_assign("send_device", send_device);
    node.attrs.insert_or_assign("recv_device", recv_device);
    node.attrs.insert_or_assign("send_device_incarnation", incarnation);
    node.attrs.insert_or_assign("client_terminated", is_clients);
  }

  /// The key under which a step sends the tensor, outside of loops.
  std::string key() const {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string number;
    for (int shift = 60; shift >= 0; shift -= 4)
      number += digits[(static_cast<std::uint64_t>(incarnation) >> static_cast<unsigned>(shift)) & 15U];
    return detail::join(send_device, ";", number, ";", recv_device, ";", tensor_name, ";0:0");
  }

  /// "/job:ps/replica:0/task:0" of the sending device.
  std::string sender() const { return send_device.substr(0, send_device.find("/device:")); }
};

}  // namespace tapestry::io::rpc
