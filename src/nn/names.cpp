#include "nn/names.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autodiff/flag_reads.hpp"
#include "autodiff/variable_cell.hpp"
#include "core/thread_object.hpp"
#include "dispatch/recorder.hpp"

namespace tapestry::nn {

using detail::join;

namespace {

/// Whether this thread has made, copied, moved, destroyed or adopted modules since it last found their names.
thread_local bool names_are_old = false;

/// Recursive, because a module's `fields` may make modules.
std::recursive_mutex& list_mutex() {
  static auto& mutex = *new std::recursive_mutex;  // never destroyed: modules in static variables are destroyed late
  return mutex;
}

}  // namespace

/// The longest path of each module and each Variable of a module, which is the one from the outermost module.
class Paths {
 public:
  void add_parts_of(Module& module, const std::string& prefix = {}) {
    for (const Field& field : module.fields().list()) {
      const std::string path = prefix + field.name;
      if (Module* const* part = std::get_if<Module*>(&field.part)) {
        offer(modules[*part], path);
        add_parts_of(**part, path + ".");
      } else if (Variable* const* variable = std::get_if<Variable*>(&field.part); variable && (*variable)->cell()) {
        offer(variables[(*variable)->cell().get()], path);
      }
    }
  }

  std::unordered_map<const Module*, std::string> modules;
  std::unordered_map<Variable::Cell*, std::string> variables;

 private:
  static void offer(std::string& place, const std::string& path) {
    if (path.size() > place.size()) place = path;
  }
};

/// The ids of the module's own constants, in the order of its fields.
std::vector<std::int64_t> constants_of(Module& module) {
  std::vector<std::int64_t> ids;
  for (const Field& field : module.fields().list())
    if (Tensor* const* constant = std::get_if<Tensor*>(&field.part)) ids.push_back((*constant)->id());
  return ids;
}

/// A module whose constants a trace has captured.
class WatchedModule final : public ConstantOwner {
 public:
  WatchedModule(Module& module, std::shared_ptr<const bool> is_here, std::vector<std::int64_t> constants)
      : module_(module), is_here_(std::move(is_here)), constants_(std::move(constants)) {}

  bool still_has_them() const override {
    const std::lock_guard lock(list_mutex());
    return !*is_here_ || constants_of(module_) == constants_;
  }

 private:
  Module& module_;
  std::shared_ptr<const bool> is_here_;
  std::vector<std::int64_t> constants_;
};

/// The list of the modules that exist, of all threads.
struct ModuleList {
  static inline NamedParts* first = nullptr;

  template <class F>
  static void for_each(const F& visit) {
    for (NamedParts* each = first; each; each = each->next_) visit(*each);
  }

  static void update() {
    const auto me = std::this_thread::get_id();
    std::vector<Module*> mine;
    for_each([&](const NamedParts& each) {
      if (each.thread_ == me) mine.push_back(&each.module());
    });
    Paths paths;
    for (Module* module : mine) paths.add_parts_of(*module);
    for_each([&](NamedParts& each) {
      const auto found = paths.modules.find(&each.module());
      if (found != paths.modules.end()) {
        each.path_ = found->second;
      } else if (each.thread_ == me) {
        each.path_.clear();  // it has been moved out of another one
      }
    });
    for (const auto& [cell, path] : paths.variables)
      if (cell->name != path) cell->name = path;
  }

  static void adopt(const Module& module) {
    const auto me = std::this_thread::get_id();
    for_each([&](NamedParts& each) {
      if (&each.module() != &module || each.thread_ == me) return;
      each.thread_ = me;
      names_are_old = true;
    });
  }

  static bool any_in(const Module& module, std::size_t bytes) {
    const auto* begin = reinterpret_cast<const char*>(&module);
    bool found = false;
    for_each([&](const NamedParts& each) {
      const auto* place = reinterpret_cast<const char*>(&each);
      found |= std::less_equal<>()(begin, place) && std::less<>()(place, begin + bytes);
    });
    return found;
  }

  /// Those of this thread's modules that have some of the tensors.
  static FlagReads::Owners owners_of(const std::unordered_set<std::int64_t>& tensors) {
    const std::lock_guard lock(list_mutex());
    const auto me = std::this_thread::get_id();
    FlagReads::Owners owners;
    for_each([&](NamedParts& each) {
      if (each.thread_ != me) return;
      std::vector<std::int64_t> ids = constants_of(each.module());
      if (std::ranges::none_of(ids, [&](std::int64_t id) { return tensors.contains(id); })) return;
      if (!each.is_here_) each.is_here_ = std::make_shared<bool>(true);
      owners.push_back(std::make_unique<WatchedModule>(each.module(), each.is_here_, std::move(ids)));
    });
    return owners;
  }

  static std::string path_of(const Module& module) {
    std::string path;
    for_each([&](const NamedParts& each) {
      if (&each.module() == &module) path = each.path_;
    });
    return path;
  }
};

/// The cells of the Variables of modules.
struct ModuleCells {
  static void add(const std::shared_ptr<Variable::Cell>& cell) {
    if (cells().size() >= most) {
      std::erase_if(cells(), [](const auto& each) { return each.second.expired(); });
      most = 2 * cells().size() + 100;
    }
    cells().insert_or_assign(cell.get(), cell);
  }

  /// A Variable in the module has a pointer to its cell.
  static bool any_in(const Module& module, std::size_t bytes) {
    const auto* begin = reinterpret_cast<const char*>(&module);
    for (std::size_t at = 0; at + sizeof(const void*) <= bytes; at += alignof(const void*)) {
      const Variable::Cell* cell = nullptr;
      std::memcpy(&cell, begin + at, sizeof cell);
      if (const auto found = cells().find(cell); found != cells().end() && !found->second.expired()) return true;
    }
    return false;
  }

 private:
  using Cells = std::unordered_map<const Variable::Cell*, std::weak_ptr<Variable::Cell>>;
  static Cells& cells() {
    static auto& list = *new Cells;
    return list;
  }
  static inline std::size_t most = 100;  ///< how many there are before those that are gone are looked for
};

NamedParts::NamedParts(Module* module)
    : offset_(reinterpret_cast<char*>(module) - reinterpret_cast<char*>(this)), thread_(std::this_thread::get_id()) {
  enter();
}

NamedParts::NamedParts(const NamedParts& other) : offset_(other.offset_), thread_(std::this_thread::get_id()) {
  enter();
}

NamedParts::NamedParts(NamedParts&& other) noexcept
    : offset_(other.offset_), thread_(std::this_thread::get_id()), path_(std::move(other.path_)) {
  other.leave();
  enter();
}

NamedParts& NamedParts::operator=(const NamedParts& other) {
  if (this != &other) enter();
  return *this;
}

NamedParts& NamedParts::operator=(NamedParts&& other) noexcept {
  if (this == &other) return *this;
  other.leave();
  enter();
  return *this;
}

NamedParts::~NamedParts() { leave(); }

Module& NamedParts::module() const {
  return *reinterpret_cast<Module*>(reinterpret_cast<char*>(const_cast<NamedParts*>(this)) + offset_);
}

void NamedParts::enter() noexcept {
  names_are_old = true;
  const std::lock_guard lock(list_mutex());
  FlagReads::owners_of = ModuleList::owners_of;
  if (std::exchange(is_listed_, true)) return;
  before_ = nullptr;
  next_ = std::exchange(ModuleList::first, this);
  if (next_) next_->before_ = this;
}

void NamedParts::leave() noexcept {
  names_are_old = true;
  const std::lock_guard lock(list_mutex());
  if (!std::exchange(is_listed_, false)) return;
  if (is_here_) *std::exchange(is_here_, nullptr) = false;
  (before_ ? before_->next_ : ModuleList::first) = next_;
  if (next_) next_->before_ = before_;
}

void update_names() {
  if (!std::exchange(names_are_old, false)) return;
  const std::lock_guard lock(list_mutex());
  ModuleList::update();
}

void adopt(const Module& module) {
  const std::lock_guard lock(list_mutex());
  ModuleList::adopt(module);
}

void note_cell(const std::shared_ptr<Variable::Cell>& cell) {
  const std::lock_guard lock(list_mutex());
  ModuleCells::add(cell);
}

bool holds_parts(const Module& module, std::size_t bytes) {
  const std::lock_guard lock(list_mutex());
  return ModuleList::any_in(module, bytes) || ModuleCells::any_in(module, bytes);
}

std::string path_of(const Module& module) {
  update_names();
  const std::lock_guard lock(list_mutex());
  return ModuleList::path_of(module);
}

void name_module(Error& error, const Module& module, std::initializer_list<Tensor> inputs) {
  // An error that has passed here already names the innermost module.
  auto& last_message = tapestry::detail::thread_object<std::string>();
  if (error.message() == last_message) return;
  std::string name = path_of(module), shapes;
  if (!name.empty()) name += ": ";
  name += type_name(module);
  if (const std::string sizes = module.size_text(); !sizes.empty()) name += join("(", sizes, ")");
  for (const Tensor& input : inputs)
    if (input) shapes += join(shapes.empty() ? "" : ", ", input.shape());
  if (!shapes.empty()) name += join(" got ", shapes);
  Error named(error.code(), join(name, ": ", error.message()));
  named.locate(error.op(), error.where());
  named.locate({}, CallSiteScope::current());  // unless it has a line
  last_message = named.message();
  error = named;  // assigns the base only: the exception keeps its class
}

}  // namespace tapestry::nn
