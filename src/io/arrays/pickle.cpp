#include "io/arrays/pickle.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace tapestry::io {
namespace {

/// Longer than any name of Python's.
constexpr std::size_t longest_line = 1 << 12;

}  // namespace

std::uint8_t ByteReader::byte() {
  if (next_ == end_) {
    next_ = 0;
    end_ = from_.read(buffer_);
    if (end_ == 0) refuse(from_, " stops early: at byte ", taken_);
  }
  ++taken_;
  return std::to_integer<std::uint8_t>(buffer_[next_++]);
}

std::string ByteReader::text(std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(std::max<std::int64_t>(from_.most_bytes() - taken_, 0)))
    refuse(from_, " claims a text of ", size, " bytes at byte ", taken_);
  std::string all;
  while (all.size() < size) all += static_cast<char>(byte());
  return all;
}

std::string ByteReader::line() {
  std::string all;
  for (std::uint8_t next = byte(); next != '\n'; next = byte()) {
    if (all.size() == longest_line) refuse(from_, " has a line of more than ", longest_line, " bytes");
    all += static_cast<char>(next);
  }
  return all;
}

std::uint64_t ByteReader::number(int size) {
  std::uint64_t value = 0;
  for (int i = 0; i < size; ++i) value |= std::uint64_t{byte()} << 8 * i;
  return value;
}

/// The stack machine that a pickle is a program for.
class Pickle::Machine {
 public:
  Machine(ByteReader& from, std::vector<PickleValue>& values) : from_(from), values_(values) {}

  std::uint32_t run() {
    for (std::uint8_t next = from_.byte(); next != '.'; next = from_.byte()) step(next);
    const std::uint32_t result = pop();
    if (!stack_.empty() || !marks_.empty()) damaged();
    return result;
  }

 private:
  [[noreturn]] void damaged() const { refuse(from_.stream(), " is no pickle of Python's: byte ", from_.position()); }

  // ---- The stack ----------------------------------------------------------------------------------------------------

  void push(PickleValue value) {
    if (values_.size() >= most_values)
      throw ResourceExhaustedError(detail::join(from_.stream().name(), " has more than ", most_values, " values"),
                                   from_.stream().where());
    stack_.push_back(static_cast<std::uint32_t>(values_.size()));
    values_.push_back(std::move(value));
  }
  void push_integer(std::int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void push_text(std::uint64_t size) { push({.kind = Kind::text, .text = from_.text(size)}); }
  void push_bytes(std::uint64_t size) {
    from_.text(size);
    push({});
  }
  void push_with(Kind kind, std::vector<std::uint32_t> items) { push({.kind = kind, .items = std::move(items)}); }

  /// The values on the stack above the last mark stay there.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::uint32_t top() const {
    if (stack_.size() <= floor()) damaged();
    return stack_.back();
  }
  std::uint32_t pop() {
    const std::uint32_t value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<std::uint32_t> pop(std::size_t count) {
    std::vector<std::uint32_t> values(count);
    for (std::size_t i = count; i-- > 0;) values[i] = pop();
    return values;
  }
  std::vector<std::uint32_t> pop_to_mark() {
    if (marks_.empty()) damaged();
    std::vector<std::uint32_t> values(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }

  /// Puts values into what is on the top: of this kind, or an object that is like it.
  void extend(Kind kind, const std::vector<std::uint32_t>& more) {
    PickleValue& to = values_[top()];
    if (to.kind != kind && to.kind != Kind::object) damaged();
    std::vector<std::uint32_t>& list = to.kind == Kind::object ? to.contents : to.items;
    list.insert(list.end(), more.begin(), more.end());
  }
  void append(const std::vector<std::uint32_t>& values) { extend(Kind::sequence, values); }
  void set(const std::vector<std::uint32_t>& keys_and_values) {
    if (keys_and_values.size() % 2 != 0) damaged();
    extend(Kind::mapping, keys_and_values);
  }

  void remember(std::uint64_t place) { memo_[place] = top(); }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) damaged();
    stack_.push_back(found->second);
  }

  // ---- Instructions: each function runs one of its kind, or returns false -------------------------------------------------------------------------------------------------

  void push_global(std::string module, const std::string& name) {
    push({.kind = Kind::global, .text = std::move(module) + "." + name});
  }

  /// An integer in as many bytes as it needs.
  void push_long(std::uint64_t size) {
    if (size > 8) return push_bytes(size);
    std::uint64_t bits = from_.number(static_cast<int>(size));
    const auto unused = static_cast<int>(64 - 8 * size);
    if (size > 0) bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused);
    push_integer(static_cast<std::int64_t>(bits));
  }

  void step(std::uint8_t instruction) {
    if (!numbers(instruction) && !texts(instruction) && !containers(instruction) && !objects(instruction))
      throw UnimplementedError(detail::join(from_.stream().name(), ": the pickle has the instruction ",
                                            int{instruction}, ", which is not read"),
                               from_.stream().where());
  }

  bool numbers(std::uint8_t instruction) {
    switch (instruction) {
      case 'J':
        push_integer(static_cast<std::int32_t>(from_.number(4)));
        return true;
      case 'K':
        push_integer(from_.byte());
        return true;
      case 'M':
        push_integer(static_cast<std::int64_t>(from_.number(2)));
        return true;
      case 0x8a:
        push_long(from_.byte());
        return true;
      case 0x8b:
        push_long(from_.number(4));
        return true;
      case 0x88:
      case 0x89:
        push_integer(instruction == 0x88 ? 1 : 0);
        return true;
      case 'G':
        push_bytes(8);
        return true;
      case 'N':
        push({});
        return true;
      default:
        return false;
    }
  }

  bool texts(std::uint8_t instruction) {
    switch (instruction) {
      case 'U':  // Python 2's strings
      case 0x8c:
        push_text(from_.byte());
        return true;
      case 'T':
      case 'X':
        push_text(from_.number(4));
        return true;
      case 0x8d:
        push_text(from_.number(8));
        return true;
      case 'C':
        push_bytes(from_.byte());
        return true;
      case 'B':
        push_bytes(from_.number(4));
        return true;
      case 0x8e:
      case 0x96:
        push_bytes(from_.number(8));
        return true;
      default:
        return false;
    }
  }

  bool containers(std::uint8_t instruction) {
    switch (instruction) {
      case '(':
        marks_.push_back(stack_.size());
        if (marks_.size() > most_values) damaged();
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        stack_.push_back(top());
        return true;
      case ')':
      case ']':
      case 0x8f:
        push_with(Kind::sequence, {});
        return true;
      case '}':
        push_with(Kind::mapping, {});
        return true;
      case 't':
      case 'l':
      case 0x91:
        push_with(Kind::sequence, pop_to_mark());
        return true;
      case 'd': {
        std::vector<std::uint32_t> items = pop_to_mark();
        if (items.size() % 2 != 0) damaged();
        push_with(Kind::mapping, std::move(items));
        return true;
      }
      case 0x85:
      case 0x86:
      case 0x87:
        push_with(Kind::sequence, pop(static_cast<std::size_t>(instruction - 0x84)));
        return true;
      case 'a':
        append({pop()});
        return true;
      case 'e':
      case 0x90:
        append(pop_to_mark());
        return true;
      case 's':
        set(pop(2));
        return true;
      case 'u':
        set(pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool objects(std::uint8_t instruction) {
    switch (instruction) {
      case 0x80:
        if (from_.byte() > 5) damaged();
        return true;
      case 0x95:  // the size of a frame
        from_.number(8);
        return true;
      case 'c': {
        std::string module = from_.line();
        push_global(std::move(module), from_.line());
        return true;
      }
      case 0x93: {
        const std::vector<std::uint32_t> names = pop(2);
        if (values_[names[0]].kind != Kind::text || values_[names[1]].kind != Kind::text) damaged();
        push_global(values_[names[0]].text, values_[names[1]].text);
        return true;
      }
      case 'R':
      case 0x81:
        push_with(Kind::object, pop(2));
        return true;
      case 0x92: {  // with keyword arguments
        std::vector<std::uint32_t> parts = pop(3);
        push_with(Kind::sequence, {parts[1], parts[2]});
        parts = {parts[0], pop()};
        push_with(Kind::object, std::move(parts));
        return true;
      }
      case 'b': {
        const std::uint32_t state = pop();
        if (values_[top()].kind == Kind::object) values_[top()].items.push_back(state);
        return true;
      }
      case 'Q':
        push_with(Kind::persistent, {pop()});
        return true;
      case 'q':
        remember(from_.byte());
        return true;
      case 'r':
        remember(from_.number(4));
        return true;
      case 0x94:
        remember(memo_.size());
        return true;
      case 'h':
        recall(from_.byte());
        return true;
      case 'j':
        recall(from_.number(4));
        return true;
      default:
        return false;
    }
  }

  ByteReader& from_;
  std::vector<PickleValue>& values_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;  ///< heights of the stack
  std::unordered_map<std::uint64_t, std::uint32_t> memo_;
};

Pickle::Pickle(ByteReader& from) : result_(Machine(from, values_).run()) {}

}  // namespace tapestry::io
