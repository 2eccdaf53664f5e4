#include "dispatch/recorder.hpp"
#include "tapestry/data/stream.hpp"
#include "tapestry/ops/creation.hpp"

namespace tapestry::data {

struct StreamPosition::State {
  std::int64_t epoch = 0, element = 0;
  bool restored = false;          ///< the next loop continues the epoch
  bool left = false;              ///< the last loop has ended early
  const Pass* running = nullptr;  ///< the loop that was started last, while it lasts
};

StreamPosition::StreamPosition() : state_(std::make_shared<State>()) {}

StreamPosition::StreamPosition(const StreamPosition& other) : state_(std::make_shared<State>(*other.state_)) {
  state_->running = nullptr;
}

StreamPosition& StreamPosition::operator=(const StreamPosition& other) {
  state_ = StreamPosition(other).state_;
  return *this;
}

std::int64_t StreamPosition::epoch() const { return state_->epoch + (state_->left ? 1 : 0); }

StateDict StreamPosition::state_dict() const {
  return {{"epoch", tensor(state_->epoch)}, {"element", tensor(state_->element)}};
}

void StreamPosition::load_state_dict(const StateDict& state, Where where) {
  const auto number = [&](const char* name) {
    const auto found = state.find(name);
    if (found == state.end() || !found->second || found->second.dtype() != int64 || found->second.rank() != 0)
      throw InvalidArgumentError(detail::join("The state of a Stream needs a number '", name, "' (int64)"), where);
    return found->second.item<std::int64_t>();
  };
  const std::int64_t epoch = number("epoch"), element = number("element");
  constexpr std::int64_t most = std::int64_t{1} << 62;  // so that what is counted from there on is a number, too
  if (state.size() != 2 || epoch < 0 || element < 0 || epoch > most || element > most)
    throw InvalidArgumentError(detail::join("No Stream stands at element ", element, " of epoch ", epoch), where);
  *state_ = {.epoch = epoch, .element = element, .restored = true};
}

void StreamPosition::call_eagerly(const std::function<void()>& function) {
  const ExecuteNow now;
  function();
}

void StreamPosition::refuse_position(std::int64_t element, std::int64_t size) {
  throw InvalidArgumentError(detail::join("The position to go on from is behind element ", element, ", but there are ",
                                          size, "; has the stream been saved with other data or other stages?"));
}

void StreamPosition::refuse_end() { throw OutOfRangeError("There is no element behind the last one of a Stream"); }

StreamPosition::Pass::Pass(const StreamPosition& position) : state_(position.state_) {
  const bool goes_on = std::exchange(state_->restored, false);
  state_->left = false;
  if (state_->element > 0 && !goes_on) {
    ++state_->epoch;
    state_->element = 0;
  }
  state_->running = this;
}

StreamPosition::Pass::~Pass() {
  if (state_->running != this) return;
  state_->running = nullptr;
  state_->left = state_->element > 0;
}

std::int64_t StreamPosition::Pass::epoch() const { return state_->epoch; }
std::int64_t StreamPosition::Pass::element() const { return state_->element; }

void StreamPosition::Pass::advance() {
  if (state_->running == this) ++state_->element;
}

void StreamPosition::Pass::end() {
  if (state_->running != this) return;
  state_->running = nullptr;
  ++state_->epoch;
  state_->element = 0;
}

}  // namespace tapestry::data
