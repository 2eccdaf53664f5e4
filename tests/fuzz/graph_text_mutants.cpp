#include <array>
#include <cctype>

#include "fuzz/mutants.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/seeds.hpp"
#include "io/tensorflow/graph_def.hpp"

namespace tapestry::test {
namespace {

/// The names, numbers, strings and signs of a text.
std::vector<std::string> tokens_of(const std::string& text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  };
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (std::isspace(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
      ++at;
    } else if (is_word(text[at])) {
      while (at < text.size() && is_word(text[at])) ++at;
    } else {
      ++at;
    }
    tokens.push_back(text.substr(begin, at - begin));
  }
  return tokens;
}

std::string some_token(const std::vector<std::string>& tokens, Dice& dice) {
  constexpr auto odd =
      std::to_array<const char*>({"{",         "}",    "<",     ">",        ":",    ";",        ",",
                                  "[",         "]",    "\"",    "'",        "'a'",  "\"\\x",    "\"\\777\"",
                                  "\"\\u12\"", "#",    "node",  "node_def", "func", "DT_FLOAT", "DT_FLOAT_REF",
                                  "nan",       "-inf", "1e400", "0x1f",     "017",  "1.5f",     "true",
                                  "t",         "-",    "@",     "[a.b]",    "\x80"});
  switch (dice.below(3)) {
    case 0:
      return dice.of(odd);
    case 1:
      return std::to_string(dice.number());
    default:
      return dice.of(tokens);
  }
}

void change(std::vector<std::string>& tokens, Dice& dice) {
  const std::size_t at = dice.below(tokens.size());
  const auto place = tokens.begin() + static_cast<std::ptrdiff_t>(at);
  switch (dice.below(6)) {
    case 0:
      tokens.erase(place);
      return;
    case 1:
      tokens.insert(place, some_token(tokens, dice));
      return;
    case 2:
      std::swap(*place, dice.of(tokens));
      return;
    case 3:
      *place = dice.damaged(*place);
      return;
    default:
      *place = some_token(tokens, dice);
  }
}

/// A separator that means nothing, mostly.
std::string between(Dice& dice) {
  constexpr auto spaces = std::to_array<const char*>({" ", "\n", "\t", " # { \" }\n", "\r\n", "  "});
  return dice.one_in(8) ? dice.of(spaces) : " ";
}

std::string make_graph_text_mutant(Dice& dice) {
  std::string seed = dice.of(graph_seeds());
  while (seed.size() > 20'000) seed = dice.of(graph_seeds());
  std::vector<std::string> tokens = tokens_of(io::to_text(seed));
  for (std::size_t i = dice.below(5); i > 0 && !tokens.empty(); --i) change(tokens, dice);
  std::string text;
  for (const std::string& each : tokens) {
    // The signs around a message, and the colon before one, are free.
    text += each == "{" && dice.one_in(6) ? ": {" : each == "}" && dice.one_in(12) ? "}," : each;
    text += between(dice);
  }
  return dice.one_in(16) ? text.substr(0, dice.below(text.size() + 1)) : text;
}

}  // namespace

Mutants graph_text_mutants() {
  return {.name = "mutate_graph_text", .make = make_graph_text_mutant, .use = [](const std::string& bytes, Dice&) {
            return read_graph_text(std::as_bytes(std::span(bytes)));
          }};
}

}  // namespace tapestry::test
