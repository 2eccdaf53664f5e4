#include "tapestry/checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <vector>

#include "dispatch/recorder.hpp"
#include "io/arrays/safetensors.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/random.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "checkpoint-", ending = ".safetensors";

/// The state of tp::random.
struct RandomState {
  StateDict state_dict() const {
    const random::State state = random::state();
    return {{"seed", tensor(static_cast<std::int64_t>(state.seed))},
            {"offset", tensor(static_cast<std::int64_t>(state.offset))}};
  }
  void load_state_dict(const StateDict& state, Where where = {}) {
    const auto number = [&](const char* name) {
      const auto found = state.find(name);
      if (found == state.end() || found->second.dtype() != int64 || found->second.rank() != 0)
        throw InvalidArgumentError(detail::join("The state of tp::random needs a number '", name, "' (int64)"), where);
      return static_cast<std::uint64_t>(found->second.item<std::int64_t>());
    };
    random::set_state({.seed = number("seed"), .offset = number("offset")});
  }
};

/// The number in a checkpoint's name; nothing for other files.
std::optional<std::int64_t> number_of(const std::string& name) {
  std::int64_t number = 0;
  if (!name.starts_with(prefix) || !name.ends_with(ending)) return {};
  const char *first = name.data() + prefix.size(), *last = name.data() + name.size() - ending.size();
  const auto [end, error] = std::from_chars(first, last, number);
  if (error != std::errc{} || end != last || number < 0) return {};
  return number;
}

struct Found {
  std::int64_t number;
  fs::path path;
};

/// The checkpoints of a folder, the newest first.
std::vector<Found> list(const fs::path& dir) {
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator each(dir, error), end; !error && each != end; each.increment(error))
    if (const auto number = number_of(each->path().filename())) found.push_back({*number, each->path()});
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.number > b.number; });
  return found;
}

/// Removes the temporary files of writers that were killed.
void remove_leftovers(const fs::path& dir) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator each(dir, error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename();
    const std::size_t whole = name.find(io::temporary_ending);
    if (whole != std::string::npos && number_of(name.substr(0, whole))) leftovers.push_back(each->path());
  }
  for (const fs::path& each : leftovers) fs::remove(each, error);
}

std::string key_of(const std::string& part, const std::string& name) { return name.empty() ? part : part + "." + name; }

/// The tensors of a part, by their names without that of the part.
StateDict state_of(const std::string& part, const StateDict& tensors) {
  StateDict state;
  for (const auto& [key, tensor] : tensors) {
    if (key == part) state.emplace("", tensor);
    if (key.starts_with(part + ".")) state.emplace(key.substr(part.size() + 1), tensor);
  }
  return state;
}

/// Loads the state of a part. Errors name the part.
void load_part(const std::string& name, const StateRef& part, const StateDict& state, const std::string& path,
               Where where) {
  try {
    part.load_state_dict(state, where);
  } catch (Error& error) {
    Error named(error.code(), detail::join("The state of '", name, "' in ", path, ": ", error.message()));
    named.locate(error.op(), error.node(), error.where());
    error = named;  // assigns the base only: the exception keeps its class
    throw;
  }
}

void restore_parts(const std::map<std::string, StateRef>& parts, const StateDict& tensors, const std::string& path,
                   Where where) {
  struct Part {
    const std::string& name;
    const StateRef& ref;
    StateDict next, before;
  };
  std::vector<Part> list;
  for (const auto& [name, part] : parts) {
    StateDict now = part.state_dict(), state = state_of(name, tensors);
    if (state.empty() && !now.empty())
      throw InvalidArgumentError(detail::join(path, " holds no state for '", name, "'"), where);
    list.push_back({name, part, std::move(state), std::move(now)});
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    try {
      load_part(list[i].name, list[i].ref, list[i].next, path, where);
    } catch (...) {
      // The part that has thrown is restored, too: it may have loaded some of its tensors.
      for (std::size_t k = 0; k <= i; ++k) list[k].ref.load_state_dict(list[k].before, where);
      throw;
    }
  }
}

}  // namespace

void StateRef::refuse_null(Where where) {
  throw InvalidArgumentError("A null pointer is given for a part of a checkpoint; leave out what there is not", where);
}

StateRef::StateRef(Variable* variable, Where given)
    : get_([variable = required(variable, given)] {
        const ExecuteNow now;
        const PauseRecording pause;
        return StateDict{{"", variable->value()}};
      }),
      set_([variable](const StateDict& state, Where where) {
        const ExecuteNow now;
        const PauseRecording pause;
        const Tensor& value = single(state, variable->dtype(), where);
        if (value.shape() != variable->shape())
          throw InvalidArgumentError(detail::join("It is ", value.dtype(), value.shape(), ", the variable '",
                                                  variable->name(), "' is ", variable->dtype(), variable->shape()),
                                     where);
        variable->assign({value, where});
      }) {}

const Tensor& StateRef::single(const StateDict& state, DType dtype, Where where) {
  const auto found = state.find("");
  if (state.size() != 1 || found == state.end() || found->second.dtype() != dtype)
    throw InvalidArgumentError(detail::join("A single tensor of ", dtype, " is wanted as the state"), where);
  return found->second;
}

std::map<std::string, StateRef> Checkpoint::parts(Where where) const {
  static RandomState random_state;
  std::map<std::string, StateRef> parts{{"model", model}, {"optimizer", optimizer}, {"step", step}, {"loader", loader}};
  parts.emplace("random", random ? StateRef(&random_state) : StateRef());
  for (const auto& [name, part] : more)
    if (name.empty() || name.find('.') != std::string::npos || !parts.emplace(name, part).second)
      throw InvalidArgumentError(detail::join("A part of a checkpoint cannot be called '", name, "'"), where);
  std::erase_if(parts, [](const auto& part) { return !part.second; });
  return parts;
}

std::string Checkpoint::save(const std::string& dir, Where where) const {
  StateDict tensors;
  detail::locating({}, where, [&] {
    for (const auto& [part, state] : parts(where))
      for (const auto& [name, tensor] : state.state_dict()) tensors.emplace(key_of(part, name), tensor);
  });

  std::error_code error;
  fs::create_directories(dir, error);
  if (error) throw FailedPreconditionError(detail::join("Cannot make the folder ", dir, ": ", error.message()), where);
  remove_leftovers(dir);
  std::vector<Found> old = list(dir);
  const std::int64_t number = old.empty() ? 1 : old.front().number + 1;
  const fs::path path = fs::path(dir) / detail::join(prefix, number, ending);
  io::write_safetensors(path, tensors, {{"format", "tapestry-checkpoint"}}, where, io::Durable::yes);
  for (std::size_t i = static_cast<std::size_t>(std::max(keep, 1)) - 1; keep > 0 && i < old.size(); ++i)
    fs::remove(old[i].path, error);
  return path;
}

std::optional<std::string> Checkpoint::latest(const std::string& dir) {
  for (const Found& each : list(dir)) {
    try {
      const io::SafetensorsFile whole(each.path, {});
      return each.path.string();
    } catch (const Error&) {
      // The file is damaged, or was removed since the folder was read: the next older one may be whole.
    }
  }
  return {};
}

std::string Checkpoint::restore(const std::string& dir, Where where) const {
  std::error_code error;
  const std::optional<std::string> path = fs::is_regular_file(dir, error) ? dir : latest(dir);
  if (!path) throw NotFoundError(detail::join("There is no checkpoint in ", dir), where);
  const StateDict tensors = io::SafetensorsFile(*path, where).read();
  detail::locating({}, where, [&] { restore_parts(parts(where), tensors, *path, where); });
  return *path;
}

}  // namespace tapestry
