// Random numbers that are functions of a seed: constants in the graph, bit for bit TensorFlow's.

#include "io/tensorflow/random_generator.hpp"
#include "tapestry/random.hpp"

namespace tapestry::io {

Generator generator_of(const std::vector<std::int64_t>& seed) {
  const auto low = [](std::int64_t number) { return static_cast<Word>(static_cast<std::uint64_t>(number)); };
  const auto high = [](std::int64_t number) { return static_cast<Word>(static_cast<std::uint64_t>(number) >> 32); };
  const Block mixed =
      philox::scramble({{low(seed[0]), high(seed[0]), low(seed[1]), high(seed[1])}}, 0x3ec8f720, 0x02461e29);
  return {{mixed.words[0], mixed.words[1]}, {{0, 0, mixed.words[2], mixed.words[3]}}};
}

Generator generator_of(const ForeignNode& n, std::size_t first, bool is_seed) {
  const std::vector<std::int64_t> key = n.numbers(first);
  if (is_seed) {
    if (key.size() != 2) n.node.refuse("its seed is not two numbers");
    return generator_of(key);
  }
  const std::vector<std::int64_t> counter = n.numbers(first + 1);
  const std::int64_t algorithm = n.number(first + 2);
  if (algorithm != philox_algorithm && algorithm != automatic_algorithm) lack(n, "algorithm, which is not Philox");
  if (key.size() != 1 || counter.size() != 2) n.node.refuse("its key and counter are not three numbers");
  const auto word = [](std::int64_t number, int shift) {
    return static_cast<Word>(static_cast<std::uint64_t>(number) >> shift);
  };
  return {{word(key[0], 0), word(key[0], 32)},
          {{word(counter[0], 0), word(counter[0], 32), word(counter[1], 0), word(counter[1], 32)}}};
}

namespace {

/// Two words as a whole number; TensorFlow's uint64 is an int64 of the same bits here.
std::int64_t joined(Word low, Word high) { return static_cast<std::int64_t>(low | std::uint64_t{high} << 32); }

Tensors read_key_and_counter(const ForeignNode& n) {
  const std::vector<std::int64_t> seed = n.numbers(0);
  if (seed.size() != 2) n.node.refuse("its seed is not two numbers");
  const Generator made = generator_of(seed);
  const Word* counter = made.counter.words;
  const std::vector<Tensor> values{vector_of({joined(made.key[0], made.key[1])}, int64),
                                   vector_of({joined(counter[0], counter[1]), joined(counter[2], counter[3])}, int64)};
  if (n.node.def().op == "StatelessRandomGetKeyCounter") return constant_nodes(n, values);
  return constant_nodes(n, {values[0], values[1], detail::make_scalar(1, int32)});
}

Tensors read_algorithm(const ForeignNode& n) {
  return {constant_node(detail::make_scalar(philox_algorithm, int32), n.name(), n.where)};
}

// ---- Distributions --------------------------------------------------------------------------------------------------

/// All numbers, from one block of words after the other.
template <class T, class F>
void from_blocks(Generator generator, std::vector<T>& numbers, F f) {
  constexpr std::size_t count = 16 / sizeof(T);
  for (std::size_t at = 0; at < numbers.size(); at += count) {
    const std::array<T, count> group = f(generator.next());
    std::copy_n(group.begin(), std::min(count, numbers.size() - at), numbers.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

/// Numbers at least two deviations away are drawn again. Each group has a stretch of the stream of its own.
template <class T>
void draw_truncated(const Generator& start, std::vector<T>& numbers) {
  constexpr std::size_t count = 16 / sizeof(T), reserved = count * 256 / 4;
  for (std::size_t at = 0, group = 0; at < numbers.size(); at += count, ++group) {
    Generator generator = start;
    generator.skip(group * reserved);
    Block block = generator.next();
    std::size_t used = 0;
    const auto word = [&] {
      if (used == 4) {
        block = generator.next();
        used = 0;
      }
      return block.words[used++];
    };
    for (std::size_t made = 0; made < count;) {
      std::array<T, 2> pair;
      if constexpr (sizeof(T) == 4) {
        const Word a = word(), b = word();
        pair = normal_pair(unit_float(a), unit_float(b));
      } else {
        const Word a = word(), b = word(), c = word(), d = word();
        pair = normal_pair(unit_double(a, b), unit_double(c, d));
      }
      for (const T each : pair) {
        if (std::abs(each) >= T(2) || made == count) continue;
        if (at + made < numbers.size()) numbers[at + made] = each;
        ++made;
      }
    }
  }
}

/// The generator that the inputs after the shape tell.
Generator generator_of(const ForeignNode& n) { return generator_of(n, 1, !n.node.def().op.ends_with("V2")); }

template <class T>
Tensor drawn_reals(const ForeignNode& n, std::int64_t count) {
  const Generator generator = generator_of(n);
  const std::string_view op = n.node.def().op;
  std::vector<T> numbers(static_cast<std::size_t>(count));
  if (op.starts_with("StatelessTruncatedNormal")) {
    draw_truncated(generator, numbers);
  } else if (op.starts_with("StatelessRandomNormal")) {
    from_blocks(generator, numbers, normal_group<T>);
  } else {
    from_blocks(generator, numbers, uniform_group<T>);
  }
  return tensor(numbers);
}

/// Numbers of 16 bits are float32 numbers that are rounded, but that uniform ones have the last bits of the words.
Tensor drawn_halves(const ForeignNode& n, std::int64_t count, DType dtype) {
  if (!n.node.def().op.starts_with("StatelessRandomUniform")) return drawn_reals<float>(n, count).cast(dtype);
  const int bits = dtype == float16 ? 10 : 7;
  std::vector<float> numbers(static_cast<std::size_t>(count));
  from_blocks(generator_of(n), numbers, [&](const Block& block) {
    std::array<float, 4> group;
    for (std::size_t i = 0; i < group.size(); ++i)
      group[i] = std::ldexp(static_cast<float>(block.words[i] & ((1U << bits) - 1)), -bits);
    return group;
  });
  return tensor(numbers).cast(dtype);
}

/// Whole numbers: all bits of the words, or what is left when they are divided by a range.
template <class T>
Tensor drawn_integers(const ForeignNode& n, std::int64_t count) {
  using Unsigned = std::make_unsigned_t<T>;
  const bool ranged = n.node.def().op.starts_with("StatelessRandomUniformInt");
  const std::size_t last = n.inputs.size();
  const auto bound = [&](std::size_t i) { return static_cast<Unsigned>(n.number(i)); };
  const Unsigned low = ranged ? bound(last - 2) : 0, range = ranged ? static_cast<Unsigned>(bound(last - 1) - low) : 0;
  if (ranged && n.number(last - 2) >= n.number(last - 1)) n.node.refuse("its range is empty");
  std::vector<T> numbers(static_cast<std::size_t>(count));
  from_blocks(generator_of(n), numbers, [&](const Block& block) {
    std::array<T, 16 / sizeof(T)> group;
    for (std::size_t i = 0; i < group.size(); ++i) {
      Unsigned bits = static_cast<Unsigned>(block.words[sizeof(T) / 4 * i]);
      if constexpr (sizeof(T) == 8) bits |= static_cast<Unsigned>(block.words[2 * i + 1]) << 32;
      group[i] = static_cast<T>(ranged ? static_cast<Unsigned>(low + bits % range) : bits);
    }
    return group;
  });
  return tensor(numbers);
}

Tensors read_stateless(const ForeignNode& n) {
  const Shape shape = n.shape(0);
  if (shape.size() > most_numbers) n.node.refuse(detail::join("its shape is ", shape));
  const bool whole = n.node.def().op.starts_with("StatelessRandomUniformInt") ||
                     n.node.def().op.starts_with("StatelessRandomUniformFullInt");
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("dtype", code_of(float32)));
  Tensor numbers;
  if (whole ? dtype == int32 : dtype == float32) {
    numbers = whole ? drawn_integers<std::int32_t>(n, shape.size()) : drawn_reals<float>(n, shape.size());
  } else if (!whole && (dtype == float16 || dtype == bfloat16)) {
    numbers = drawn_halves(n, shape.size(), dtype);
  } else if (whole ? dtype == int64 : dtype == float64) {
    numbers = whole ? drawn_integers<std::int64_t>(n, shape.size()) : drawn_reals<double>(n, shape.size());
  } else {
    lack(n, "type");
  }
  return {constant_node(reshape(numbers, shape), n.name(), n.where)};
}

// ---- Of the stream --------------------------------------------------------------------------------------------------

Tensors read_random_integers(const ForeignNode& n) {
  const Shape shape = n.shape(0);
  const std::int64_t low = n.number(1), high = n.number(2);
  if (low >= high) n.node.refuse("its range is empty");
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("Tout", code_of(int32)));
  if (dtype != int32 && dtype != int64) lack(n, "type");
  return {tapestry::random::randint(low, high, shape, dtype, cpu(), n.name())};
}

Tensors read_shuffle(const ForeignNode& n) {
  if (n.in(0).shape().rank() == 0) return {identity(n.in(0), n.name())};
  return n.composed([&] { return tapestry::random::shuffle(n.in(0)); });
}

}  // namespace

ForeignOps foreign_random() {
  ForeignOps ops{
      {.name = "RandomShuffle", .inputs = 1, .lacks_sizes = lacks_rank, .outputs = {like(0)}, .read = read_shuffle},
      {.name = "RandomUniformInt",
       .inputs = 3,
       .all_values = true,
       .outputs = {told_by("Tout", int32)},
       .read = read_random_integers},
      {.name = "StatelessRandomGetAlg", .inputs = 0, .outputs = {typed(int32)}, .read = read_algorithm},
      {.name = "StatelessRandomGetKeyCounter",
       .inputs = 1,
       .values = {0},
       .outputs = {typed(int64), typed(int64)},
       .read = read_key_and_counter},
      {.name = "StatelessRandomGetKeyCounterAlg",
       .inputs = 1,
       .values = {0},
       .outputs = {typed(int64), typed(int64), typed(int32)},
       .read = read_key_and_counter},
  };
  const auto add = [&](std::string_view name, int inputs) {
    ops.push_back({.name = name,
                   .inputs = inputs,
                   .all_values = true,
                   .outputs = {told_by("dtype", float32)},
                   .read = read_stateless});
  };
  for (const char* name :
       {"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformFullInt"})
    add(name, 2);
  for (const char* name : {"StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2",
                           "StatelessRandomUniformFullIntV2"})
    add(name, 4);
  add("StatelessRandomUniformInt", 4);
  add("StatelessRandomUniformIntV2", 6);
  return ops;
}

}  // namespace tapestry::io
