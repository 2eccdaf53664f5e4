#include "io/tensorflow/object_graph.hpp"

#include <algorithm>

#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/saver.hpp"
#include "io/wire.hpp"

namespace tapestry::io {
namespace {

using protozero::pbf_writer;

/// One of the objects: what its attributes are, and what it is itself.
struct Object {
  enum class Kind { user, list, signatures, variable, function, captured };
  Kind kind;
  std::size_t number = 0;  ///< of the Variable or the signature
  std::vector<std::pair<std::string, std::size_t>> children{};
  std::string tensor{};  ///< that is captured from the signature's function
};

/// The objects by their numbers. The first one is the model.
std::vector<Object> objects_of(const ObjectGraph& graph) {
  std::vector<Object> objects{{Object::Kind::user}};
  const auto add = [&](Object object) {
    objects.push_back(std::move(object));
    return objects.size() - 1;
  };
  std::vector<std::size_t> variables;
  for (std::size_t i = 0; i < graph.variables.size(); ++i) variables.push_back(add({Object::Kind::variable, i}));
  const auto add_list = [&](const std::string& name, auto is_in) {
    Object list{Object::Kind::list};
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (is_in(graph.variables[i])) list.children.emplace_back(std::to_string(list.children.size()), variables[i]);
    const std::size_t number = add(std::move(list));  // moves the objects
    objects[0].children.emplace_back(name, number);
  };
  using Variable = ObjectGraph::VariableObject;
  add_list("variables", [](const Variable&) { return true; });
  add_list("trainable_variables", [](const Variable& each) { return each.trainable; });
  add_list("non_trainable_variables", [](const Variable& each) { return !each.trainable; });
  Object signatures{Object::Kind::signatures};
  for (std::size_t i = 0; i < graph.signatures.size(); ++i)
    signatures.children.emplace_back(graph.signatures[i].name, add({Object::Kind::function, i}));
  const std::size_t number = add(std::move(signatures));
  objects[0].children.emplace_back("signatures", number);
  for (std::size_t i = 0; i < graph.signatures.size(); ++i)
    for (const ObjectGraph::GradientObject& gradient : graph.signatures[i].gradients)
      for (const std::string& each : gradient.captured) add({Object::Kind::captured, i, {}, each});
  return objects;
}

void write_children(pbf_writer& node, const Object& object) {
  for (const auto& [name, number] : object.children)
    add_message(node, 1, [&, &name = name, number = number](pbf_writer& child) {
      child.add_int32(1, static_cast<std::int32_t>(number));
      child.add_string(2, name);
    });
}

void write_user_object(pbf_writer& node, const std::string& identifier) {
  add_message(node, 4, [&](pbf_writer& user) {
    user.add_string(1, identifier);
    add_message(user, 2, [](pbf_writer& version) {
      version.add_int32(1, 1);
      version.add_int32(2, 1);
    });
  });
}

void write_variable(pbf_writer& node, const ObjectGraph::VariableObject& variable) {
  add_message(node, 7, [&](pbf_writer& saved) {
    saved.add_enum(1, variable.type.value);
    add_message(saved, 2, [&](pbf_writer& shape) { write_shape(shape, variable.shape); });
    saved.add_bool(3, variable.trainable);
    saved.add_string(6, variable.name);
  });
}

void write_captured(pbf_writer& node, const std::string& function, const std::string& tensor) {
  add_message(node, 12, [&](pbf_writer& captured) {
    captured.add_string(1, tensor);
    captured.add_string(2, function);
  });
}

/// How many inputs of the function are arguments, not Variables.
std::size_t argument_count(const ObjectGraph::SignatureObject& signature) {
  return signature.function.inputs.size() - signature.variables.size();
}

void write_function(pbf_writer& node, const ObjectGraph::SignatureObject& signature) {
  add_message(node, 8, [&](pbf_writer& function) {
    function.add_string(1, signature.function.name);
    for (std::size_t i = 0; i < argument_count(signature); ++i)
      function.add_string(2, signature.function.inputs[i].name);
    function.add_int64(3, argument_count(signature) == 1 ? 1 : 0);
  });
}

// ---- StructuredValue ------------------------------------------------------------------------------------------------

void write_spec(pbf_writer& value, const ConcreteFunction::Tensor& tensor) {
  add_message(value, 33, [&](pbf_writer& spec) {
    spec.add_string(1, tensor.name);
    add_message(spec, 2, [&](pbf_writer& shape) { write_shape(shape, tensor.shape); });
    spec.add_enum(3, tensor.type.value);
  });
}

/// A dict of tensor specs, by the names of the tensors.
void write_specs(pbf_writer& value, const std::vector<ConcreteFunction::Tensor>& tensors, std::size_t count) {
  add_message(value, 53, [&](pbf_writer& dict) {
    for (std::size_t i = 0; i < count; ++i)
      add_message(dict, 1, [&](pbf_writer& entry) {
        entry.add_string(1, tensors[i].name);
        add_message(entry, 2, [&](pbf_writer& each) { write_spec(each, tensors[i]); });
      });
  });
}

/// The arguments of a call: no positional ones, and these by name.
void write_arguments(pbf_writer& value, const ObjectGraph::SignatureObject& signature) {
  add_message(value, 52, [&](pbf_writer& both) {
    add_message(both, 1, [](pbf_writer& positional) { add_message(positional, 52, [](pbf_writer&) {}); });
    add_message(both, 1,
                [&](pbf_writer& named) { write_specs(named, signature.function.inputs, argument_count(signature)); });
  });
}

/// The arguments of a gradient: positional ones, none by name.
void write_gradient_arguments(pbf_writer& value, const ObjectGraph::GradientObject& gradient) {
  add_message(value, 52, [&](pbf_writer& both) {
    add_message(both, 1, [&](pbf_writer& positional) {
      add_message(positional, 52, [&](pbf_writer& tuple) {
        for (std::size_t i = 0; i < gradient.given.size(); ++i)
          add_message(tuple, 1, [&](pbf_writer& each) { write_spec(each, gradient.function.inputs[i]); });
      });
    });
    add_message(both, 1, [](pbf_writer& named) { add_message(named, 53, [](pbf_writer&) {}); });
  });
}

/// A list of the gradients, None for an input without one.
void write_gradients(pbf_writer& value, const ObjectGraph::GradientObject& gradient) {
  add_message(value, 51, [&](pbf_writer& list) {
    std::size_t next = 0;
    for (const bool is_given : gradient.given)
      add_message(list, 1, [&](pbf_writer& each) {
        if (is_given) {
          write_spec(each, gradient.function.outputs[next++]);
        } else {
          add_message(each, 1, [](pbf_writer&) {});
        }
      });
  });
}

/// An entry of the functions. `bound`: the numbers of the objects that are its last inputs.
template <class Arguments, class Results>
void write_concrete_function(pbf_writer& writer, const std::string& name, const std::vector<std::int32_t>& bound,
                             Arguments arguments, Results results) {
  add_message(writer, 2, [&](pbf_writer& entry) {
    entry.add_string(1, name);
    add_message(entry, 2, [&](pbf_writer& function) {
      function.add_packed_int32(2, bound.begin(), bound.end());
      add_message(function, 3, arguments);
      add_message(function, 4, results);
    });
  });
}

}  // namespace

std::string encode_functions(const ObjectGraph& graph) {
  std::string bytes;
  for (const ObjectGraph::SignatureObject& signature : graph.signatures) {
    bytes += encode_in_library(signature.function);
    for (const ObjectGraph::GradientObject& each : signature.gradients) {
      bytes += encode_in_library(each.function);
      merge_library(bytes, each.graph->library);  // branches and loops of several gradients may be the same
      pbf_writer library(bytes);
      add_message(library, 3, [&](pbf_writer& registered) {
        registered.add_string(1, each.function.name);
        registered.add_string(2, each.type);
      });
    }
  }
  return bytes;
}

std::string encode_objects(const ObjectGraph& graph) {
  std::string bytes;
  pbf_writer writer(bytes);
  const std::vector<Object> objects = objects_of(graph);
  for (const Object& each : objects)
    add_message(writer, 1, [&](pbf_writer& node) {
      write_children(node, each);
      switch (each.kind) {
        case Object::Kind::user:
          return write_user_object(node, "_generic_user_object");
        case Object::Kind::list:
          return write_user_object(node, "trackable_list_wrapper");
        case Object::Kind::signatures:
          return write_user_object(node, "signature_map");
        case Object::Kind::variable:
          return write_variable(node, graph.variables[each.number]);
        case Object::Kind::function:
          return write_function(node, graph.signatures[each.number]);
        case Object::Kind::captured:
          return write_captured(node, graph.signatures[each.number].function.name, each.tensor);
      }
    });
  constexpr std::size_t first_variable = 1;  // among the objects
  const auto is_captured = [](const Object& each) { return each.kind == Object::Kind::captured; };
  auto next_captured = static_cast<std::int32_t>(std::ranges::find_if(objects, is_captured) - objects.begin());
  for (const ObjectGraph::SignatureObject& each : graph.signatures) {
    std::vector<std::int32_t> bound;
    for (const std::size_t i : each.variables) bound.push_back(static_cast<std::int32_t>(first_variable + i));
    write_concrete_function(
        writer, each.function.name, bound, [&](pbf_writer& value) { write_arguments(value, each); },
        [&](pbf_writer& value) { write_specs(value, each.function.outputs, each.function.outputs.size()); });
    for (const ObjectGraph::GradientObject& gradient : each.gradients) {
      bound.clear();
      for (std::size_t i = 0; i < gradient.captured.size(); ++i) bound.push_back(next_captured++);
      write_concrete_function(
          writer, gradient.function.name, bound, [&](pbf_writer& value) { write_gradient_arguments(value, gradient); },
          [&](pbf_writer& value) { write_gradients(value, gradient); });
    }
  }
  return bytes;
}

std::string encode_checkpoint_objects(const ObjectGraph& graph) {
  std::string bytes;
  pbf_writer writer(bytes);
  for (const Object& each : objects_of(graph)) {
    if (each.kind == Object::Kind::captured) break;  // no part of a checkpoint, behind all others
    add_message(writer, 1, [&](pbf_writer& node) {
      write_children(node, each);
      if (each.kind != Object::Kind::variable) return;
      add_message(node, 2, [&](pbf_writer& attribute) {
        const std::string& name = graph.variables[each.number].name;
        attribute.add_string(1, "VARIABLE_VALUE");
        attribute.add_string(2, name);
        attribute.add_string(3, checkpoint_key(name));
      });
    });
  }
  return bytes;
}

}  // namespace tapestry::io
